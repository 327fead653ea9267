//! What a query's duration is made of.

use super::{MS, Task, USUAL, profile};

#[test]
fn the_path_follows_the_waits_to_the_task_that_took_longest() {
    let slow = Task {
        took: 800,
        computed: 700,
        waited: 100,
        ..USUAL
    };
    let scan = Task {
        took: 90,
        computed: 80,
        waited: 0,
        ..USUAL
    };
    let path = profile(&[scan; 3], &[USUAL, slow, USUAL]).critical_path();
    let steps: Vec<_> = path
        .steps
        .iter()
        .map(|step| (step.stage, step.task, step.own_ns / MS))
        .collect();
    // 1000 ms, of which the coordinator waited 900, of which task 2.1 took 700, and a scan 90.
    assert_eq!(steps, [(0, None, 100), (2, Some(1), 700), (1, Some(2), 90)]);
    assert_eq!(path.rest_ns, 110 * MS);
    assert_eq!(path.steps[1].worker.as_deref(), Some("http://worker-1"));
    assert!((path.steps[1].share - 0.7).abs() < 1e-9);
}

#[test]
fn a_task_accounts_for_no_more_than_what_was_waited_for_it() {
    // It ran while the coordinator did other things.
    let long = Task {
        took: 990,
        computed: 990,
        waited: 0,
        ..USUAL
    };
    let path = profile(&[USUAL; 2], &[USUAL, long]).critical_path();
    let own: u64 = path.steps.iter().map(|step| step.own_ns).sum();
    assert_eq!(own + path.rest_ns, 1000 * MS);
    assert_eq!(path.steps[1].own_ns, 900 * MS);
}

#[test]
fn a_profile_whose_stages_read_each_other_ends_the_path() {
    let mut profile = profile(&[USUAL; 2], &[USUAL; 2]);
    profile.stages[1].nodes[1].reads = Some(2);
    assert!(profile.invariants().is_err());
    assert_eq!(profile.critical_path().steps.len(), 3);
}
