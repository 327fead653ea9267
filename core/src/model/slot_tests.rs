#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use datafusion::physical_plan::Metric;
use datafusion::physical_plan::metrics::{Count, MetricValue};

use super::*;

fn rows(rows: usize) -> MetricsSet {
    let count = Count::new();
    count.add(rows);
    let metric = Metric::new(MetricValue::OutputRows(count), Some(0));
    std::iter::once(Arc::new(metric)).collect()
}

fn key(query_id: QueryId, stage: usize, task: usize) -> TaskKey {
    TaskKey {
        query_id,
        stage,
        task,
        attempt: 0,
    }
}

fn values(slot: &MetricsSlot) -> Option<Vec<usize>> {
    let metrics = slot.metrics()?;
    Some(
        metrics
            .iter()
            .map(|metric| metric.value().as_usize())
            .collect(),
    )
}

#[test]
fn is_empty_until_a_task_reports() {
    let slot = MetricsSlot::new();
    assert_eq!(values(&slot), None);

    let query = QueryId::new();
    slot.begin(query);
    assert_eq!(values(&slot), None);

    // A node may have nothing to report: that is a report all the same.
    slot.record(key(query, 1, 0), MetricsSet::new());
    assert_eq!(values(&slot), Some(vec![]));
}

#[test]
fn unites_tasks_in_their_order() {
    let slot = MetricsSlot::new();
    let query = QueryId::new();
    for task in [10, 2, 0] {
        slot.clone().record(key(query, 1, task), rows(task));
    }
    assert_eq!(values(&slot), Some(vec![0, 2, 10]));
}

#[test]
fn second_report_of_a_task_replaces_the_first() {
    let slot = MetricsSlot::new();
    let query = QueryId::new();
    slot.record(key(query, 1, 0), rows(1));
    slot.record(key(query, 1, 0), rows(2));
    assert_eq!(values(&slot), Some(vec![2]));
}

#[test]
fn rows_of_a_repeated_task_are_not_counted_twice() {
    let slot = MetricsSlot::new();
    let first = key(QueryId::new(), 1, 0);
    slot.record(
        TaskKey {
            attempt: 1,
            ..first
        },
        rows(7),
    );
    slot.record(first, rows(3));
    assert_eq!(values(&slot), Some(vec![7]));
}

#[test]
fn keeps_the_execution_that_began_last() {
    let slot = MetricsSlot::new();
    let (earlier, later) = (QueryId::new(), QueryId::new());

    slot.record(key(earlier, 1, 0), rows(1));
    slot.begin(later);
    assert_eq!(values(&slot), None, "the earlier execution is forgotten");

    slot.record(key(later, 1, 1), rows(2));
    slot.begin(later);
    slot.begin(earlier);
    slot.record(key(earlier, 1, 0), rows(1));
    assert_eq!(values(&slot), Some(vec![2]), "late reports are ignored");
}
