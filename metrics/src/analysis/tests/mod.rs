//! Analysis of profiles made here, whose numbers are known.
#![allow(clippy::unwrap_used)]

mod balance;
mod path;
mod verdict;

use crate::profile::metric::{Metric, MetricKind, Value};
use crate::profile::{
    BoundaryProfile, FORMAT, NodeProfile, QueryProfile, QueryStatus, StageProfile, TaskProfile,
    TaskState, VERSION,
};

const MS: u64 = 1_000_000;

/// What one task of the made profile did, in rows and milliseconds.
#[derive(Clone, Copy)]
struct Task {
    rows: u64,
    took: u64,
    computed: u64,
    waited: u64,
}

const USUAL: Task = Task {
    rows: 1000,
    took: 300,
    computed: 200,
    waited: 100,
};

fn metric(name: &str, value: Value) -> Metric {
    Metric {
        name: name.to_owned(),
        value,
        partition: Some(0),
        labels: Vec::new(),
        of: MetricKind::Other,
    }
}

fn node(depth: usize, name: &str, text: &str, reads: Option<usize>) -> NodeProfile {
    NodeProfile {
        depth,
        parent: depth.checked_sub(1),
        name: name.to_owned(),
        text: format!("{name}{text}"),
        reads,
    }
}

fn reads(rows: u64, waited: u64) -> Vec<Metric> {
    vec![
        metric("output_rows", Value::Count { value: rows }),
        metric("exchange_bytes", Value::Count { value: 8 * rows }),
        metric("exchange_wait", Value::Time { ns: waited * MS }),
    ]
}

fn task(stage: usize, index: usize, did: Task, leaf: Vec<Metric>) -> TaskProfile {
    let top = vec![
        metric("output_rows", Value::Count { value: did.rows }),
        metric(
            "elapsed_compute",
            Value::Time {
                ns: did.computed * MS,
            },
        ),
    ];
    TaskProfile {
        stage,
        task: index,
        attempt: 0,
        worker: format!("http://worker-{index}"),
        status: TaskState::Finished,
        error: None,
        dispatched_ns: Some(10 * MS),
        reported_ns: Some((10 + did.took) * MS),
        started_unix_ns: Some(1),
        duration_ns: did.took * MS,
        output_rows: did.rows,
        output_bytes: 8 * did.rows,
        nodes: vec![top, leaf],
        unmatched: Vec::new(),
    }
}

/// A query of a second: stage 1 scans and shuffles, stage 2 aggregates, with these tasks.
fn profile(scans: &[Task], aggregates: &[Task]) -> QueryProfile {
    let scanned = |task: &Task| {
        vec![
            metric("output_rows", Value::Count { value: task.rows }),
            metric("elapsed_compute", Value::Time { ns: MS }),
        ]
    };
    let of = |stage: usize, tasks: &[Task], leaf: &dyn Fn(&Task) -> Vec<Metric>| {
        let tasks = tasks.iter().enumerate();
        tasks
            .map(|(index, did)| task(stage, index, *did, leaf(did)))
            .collect::<Vec<_>>()
    };
    let mut tasks = of(1, scans, &scanned);
    tasks.extend(of(2, aggregates, &|did| reads(did.rows, did.waited)));
    let mut workers: Vec<String> = tasks.iter().map(|task| task.worker.clone()).collect();
    workers.sort_unstable();
    workers.dedup();
    let boundary = |kind: &str, name: &str| {
        Some(BoundaryProfile {
            kind: kind.to_owned(),
            name: name.to_owned(),
        })
    };
    let files = ": file_groups={2 groups: [[data/lineitem/0.parquet, data/lineitem/1.parquet]]}";
    QueryProfile {
        format: FORMAT.to_owned(),
        version: VERSION,
        query_id: None,
        trace_id: None,
        sql: None,
        status: QueryStatus::Finished,
        local_reason: None,
        error_kind: None,
        error: None,
        started_unix_ns: Some(1),
        duration_ns: 1000 * MS,
        output_rows: aggregates.iter().map(|task| task.rows).sum(),
        workers,
        stages: vec![
            StageProfile {
                id: 0,
                boundary: None,
                tasks: 0,
                nodes: vec![
                    node(0, "DistributedExec", "", None),
                    node(1, "NetworkCoalesceExec", ": stage=2", Some(2)),
                ],
            },
            StageProfile {
                id: 1,
                boundary: boundary("shuffle", "NetworkShuffleExec"),
                tasks: scans.len(),
                nodes: vec![
                    node(0, "RepartitionExec", ": partitioning=Hash([k@0], 8)", None),
                    node(1, "DataSourceExec", files, None),
                ],
            },
            StageProfile {
                id: 2,
                boundary: boundary("coalesce", "NetworkCoalesceExec"),
                tasks: aggregates.len(),
                nodes: vec![
                    node(0, "AggregateExec", ": mode=FinalPartitioned", None),
                    node(1, "NetworkShuffleExec", ": stage=1", Some(1)),
                ],
            },
        ],
        coordinator: vec![
            vec![],
            reads(aggregates.iter().map(|task| task.rows).sum(), 900),
        ],
        tasks,
    }
}

#[test]
fn the_made_profile_is_consistent() {
    let profile = profile(&[USUAL; 4], &[USUAL; 4]);
    profile.invariants().unwrap();
    assert_eq!(profile.findings(), []);
}

#[test]
fn the_largest_numbers_of_all_overflow_nothing() {
    let mut profile = profile(&[USUAL; 2], &[USUAL; 2]);
    let largest = |metrics: &mut Vec<Metric>| {
        for metric in metrics.iter_mut() {
            match &mut metric.value {
                Value::Count { value } | Value::Gauge { value } => *value = u64::MAX,
                Value::Time { ns } => *ns = u64::MAX,
                _ => {}
            }
        }
        let spilled = Value::Count { value: u64::MAX };
        metrics.extend(["spilled_bytes", "spill_count"].map(|name| metric(name, spilled.clone())));
    };
    profile.duration_ns = u64::MAX;
    for task in &mut profile.tasks {
        (task.duration_ns, task.output_rows, task.output_bytes) = (u64::MAX, u64::MAX, u64::MAX);
        task.reported_ns = Some(u64::MAX);
        task.nodes.iter_mut().for_each(largest);
    }
    profile.coordinator.iter_mut().for_each(largest);
    let text = profile.text().to_string();
    assert!(text.contains("spill"), "{text}");
    let _either = profile.invariants();
    profile.stages[1].nodes[0].depth = usize::MAX;
    assert!(profile.invariants().is_err());
}
