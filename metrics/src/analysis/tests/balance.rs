//! Which tasks count as uneven, and why.

use super::{MS, Task, USUAL, profile};
use crate::analysis::FindingKind::{self, Skew, Straggler};
use crate::profile::{QueryProfile, QueryStatus, TaskState};

fn kinds(profile: &QueryProfile) -> Vec<FindingKind> {
    let findings = profile.findings();
    findings.into_iter().map(|finding| finding.kind).collect()
}

fn with_fourth(last: Task) -> QueryProfile {
    profile(&[USUAL; 4], &[USUAL, USUAL, USUAL, last])
}

#[test]
fn more_rows_are_skew_and_as_many_rows_are_a_slow_worker() {
    let mut more = with_fourth(Task {
        rows: 5000,
        took: 900,
        computed: 800,
        ..USUAL
    });
    more.tasks[3].output_rows += 4000;
    assert_eq!(kinds(&more), [Skew]);
    insta::assert_snapshot!(
        more.verdict(),
        @"Stage 2: task 2.3 took 4.0 times as long as the median of the others (800 ms against 200 ms); it read 63 % of the rows: the keys by which stage 1 is spread are skewed."
    );
    let slow = with_fourth(Task {
        took: 900,
        computed: 800,
        ..USUAL
    });
    assert_eq!(kinds(&slow), [Straggler]);
    insta::assert_snapshot!(
        slow.verdict(),
        @"http://worker-3 is slow: its task 2.3 took 4.0 times as long as those of other workers, with as many rows (800 ms against 200 ms)."
    );
}

#[test]
fn twice_the_rows_do_not_explain_ten_times_the_time() {
    let both = with_fourth(Task {
        rows: 2000,
        took: 1000,
        computed: 1000,
        waited: 0,
    });
    let mut both = both;
    both.tasks[4].duration_ns = 120 * MS;
    for task in &mut both.tasks[4..7] {
        task.duration_ns = 110 * MS;
        task.nodes[0][1].value = crate::profile::metric::Value::Time { ns: 100 * MS };
    }
    assert_eq!(kinds(&both), [Straggler]);
}

#[test]
fn a_scan_that_its_readers_hold_up_is_not_slow() {
    let held = Task { took: 900, ..USUAL };
    let profile = profile(&[USUAL, USUAL, USUAL, held], &[USUAL; 4]);
    assert_eq!(kinds(&profile), []);
}

#[test]
fn rows_that_cost_no_time_are_no_skew() {
    assert_eq!(
        kinds(&with_fourth(Task {
            rows: 90_000,
            ..USUAL
        })),
        []
    );
    // Four times as long, but a hundredth of the query.
    let mut short = with_fourth(Task {
        rows: 5000,
        took: 900,
        computed: 800,
        ..USUAL
    });
    short.duration_ns = 20_000 * MS;
    assert_eq!(kinds(&short), []);
}

#[test]
fn two_tasks_are_enough_to_compare() {
    let more = Task {
        rows: 9000,
        took: 900,
        computed: 900,
        waited: 0,
    };
    assert_eq!(kinds(&profile(&[USUAL; 2], &[USUAL, more])), [Skew]);
    let slow = Task {
        took: 900,
        computed: 900,
        ..USUAL
    };
    assert_eq!(kinds(&profile(&[USUAL; 2], &[slow, USUAL])), [Straggler]);
}

#[test]
fn a_worker_that_is_slow_in_two_stages_is_told_of_once() {
    let slow = Task {
        took: 900,
        computed: 900,
        ..USUAL
    };
    let profile = profile(&[USUAL, slow, USUAL], &[USUAL, slow, USUAL]);
    assert_eq!(kinds(&profile), [Straggler]);
    let text = &profile.findings()[0].text;
    assert!(text.contains("http://worker-1 is slow"), "{text}");
    assert!(text.contains("It was slow in stage"), "{text}");
}

#[test]
fn a_task_that_was_cut_short_is_not_compared() {
    let mut profile = with_fourth(Task {
        took: 900,
        computed: 800,
        ..USUAL
    });
    profile.status = QueryStatus::Cancelled;
    profile.tasks[7].status = TaskState::Cancelled;
    assert_eq!(kinds(&profile), []);
}

#[test]
fn what_costs_more_comes_first_and_what_lost_the_result_before_all() {
    let slow = Task {
        took: 500,
        computed: 500,
        ..USUAL
    };
    let more = Task {
        rows: 9000,
        took: 900,
        computed: 900,
        waited: 0,
    };
    let fast = Task {
        took: 100,
        computed: 90,
        ..USUAL
    };
    let mut profile = profile(&[fast, slow, fast], &[USUAL, USUAL, more]);
    assert_eq!(kinds(&profile), [Skew, Straggler]);

    profile.tasks[0].status = TaskState::Missing;
    profile.tasks[0].nodes.clear();
    profile.tasks[0].error = Some("no report within 5s".to_owned());
    assert_eq!(kinds(&profile)[0], FindingKind::Missing);

    profile.status = QueryStatus::Failed;
    profile.error_kind = Some("Execution".to_owned());
    profile.error = Some("out of luck".to_owned());
    assert_eq!(
        kinds(&profile)[..2],
        [FindingKind::Failure, FindingKind::Missing]
    );
    // If it failed for the worker, that comes first.
    profile.error = Some("worker http://worker-0 was lost".to_owned());
    assert_eq!(
        kinds(&profile)[..2],
        [FindingKind::Missing, FindingKind::Failure]
    );
}

#[test]
fn a_failure_was_said_to_be_where_it_was_passed_on_if_that_reported_first() {
    let mut profile = profile(&[USUAL; 2], &[USUAL; 2]);
    profile.status = QueryStatus::Failed;
    profile.error = Some("divided by zero".to_owned());
    let reports = [(2, 1, 10), (1, 1, 30), (1, 0, 20)];
    for (stage, task, reported) in reports {
        let mut tasks = profile.tasks.iter_mut();
        let failed = tasks.find(|at| (at.stage, at.task) == (stage, task));
        let failed = failed.unwrap();
        failed.status = TaskState::Failed;
        failed.reported_ns = Some(reported);
    }
    let finding = profile.findings().remove(0);
    assert_eq!((finding.stage, finding.task), (Some(1), Some(0)));
}

#[test]
fn a_report_of_other_operators_is_in_no_number_and_is_told_of() {
    let mut profile = profile(&[USUAL; 2], &[USUAL; 2]);
    let task = &mut profile.tasks[3];
    let nodes = std::mem::take(&mut task.nodes).into_iter();
    task.unmatched = nodes
        .map(|metrics| crate::profile::UnmatchedNode {
            name: "OtherExec".to_owned(),
            metrics,
        })
        .collect();
    profile.invariants().unwrap();
    assert_eq!(kinds(&profile), [FindingKind::Missing]);
    assert!(profile.verdict().contains("2.1"), "{}", profile.verdict());
    let kept = profile.to_json().unwrap();
    assert_eq!(QueryProfile::from_json(&kept).unwrap(), profile);
}
