use datafusion::physical_plan::union::UnionExec;
use flightpath_core::model::report::{TaskReport, TaskStatus};
use flightpath_core::model::stage::QueryId;
use flightpath_core::{PlannedTask, QueryReports, display_stages};

use crate::plans::{Plan, STAGE_1, STAGE_2, coalesce, key, report, source, two_stages};

#[test]
fn each_stage_is_a_box() {
    insta::assert_snapshot!(display_stages(&two_stages()), @r"
    ┌─ Coordinator ───────────────────────────┐
    │ CoalescePartitionsExec                  │
    │   NetworkCoalesceExec: stage=2, tasks=2 │
    └─────────────────────────────────────────┘
    ┌─ Stage 2 · 2 tasks · coalesce ───────────────────────────────────┐
    │ CoalescePartitionsExec                                           │
    │   NetworkShuffleExec: stage=1, tasks=3, keys=[a@0], partitions=2 │
    └──────────────────────────────────────────────────────────────────┘
    ┌─ Stage 1 · 3 tasks · shuffle ────────────────────────────────────┐
    │ RepartitionExec: partitioning=Hash([a@0], 4), input_partitions=1 │
    │   DataSourceExec: partitions=1, partition_sizes=[1]              │
    └──────────────────────────────────────────────────────────────────┘
    ");
}

#[test]
fn tasks_and_metrics_are_shown_when_asked_for() {
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    reports.plan_tasks((0..3).map(|task| PlannedTask {
        key: key(query_id, 1, task),
        worker: format!("http://worker-{task}"),
    }));
    reports.missing_because(key(query_id, 1, 2), "connection lost");
    reports.record(report(key(query_id, 1, 0), &STAGE_1, 10));
    reports.record(TaskReport {
        status: TaskStatus::Failed,
        error: Some("out of memory\nwhile sorting".to_owned()),
        ..report(key(query_id, 1, 1), &STAGE_1, 5)
    });
    reports.record(report(key(query_id, 2, 0), &STAGE_2, 15));
    let plan = two_stages();
    let display = display_stages(&plan).with_reports(&reports).with_metrics();
    insta::assert_snapshot!(display, @r"
    ┌─ Coordinator ───────────────────────────┐
    │ CoalescePartitionsExec                  │
    │   NetworkCoalesceExec: stage=2, tasks=2 │
    └─────────────────────────────────────────┘
    ┌─ Stage 2 · 2 tasks · coalesce ─────────────────────────────────────────────────────────────┐
    │ CoalescePartitionsExec, metrics=[output_rows=15]                                           │
    │   NetworkShuffleExec: stage=1, tasks=3, keys=[a@0], partitions=2, metrics=[output_rows=15] │
    ├────────────────────────────────────────────────────────────────────────────────────────────┤
    │ 2.0 · finished · 15 rows · 15.0ms · http://worker-0                                        │
    │ 2.1 · not planned yet                                                                      │
    └────────────────────────────────────────────────────────────────────────────────────────────┘
    ┌─ Stage 1 · 3 tasks · shuffle ──────────────────────────────────────────────────────────────┐
    │ RepartitionExec: partitioning=Hash([a@0], 4), input_partitions=1, metrics=[output_rows=15] │
    │   DataSourceExec: partitions=1, partition_sizes=[1], metrics=[output_rows=15]              │
    ├────────────────────────────────────────────────────────────────────────────────────────────┤
    │ 1.0 · finished · 10 rows · 10.0ms · http://worker-0                                        │
    │ 1.1 · failed · 5 rows · 5.0ms · http://worker-1 · out of memory                            │
    │ 1.2 · missing · http://worker-2 · connection lost                                          │
    └────────────────────────────────────────────────────────────────────────────────────────────┘
    ");
}

#[test]
fn no_line_is_longer_than_asked_for() {
    let plan = two_stages();
    let narrow = display_stages(&plan).with_max_width(30);
    insta::assert_snapshot!(narrow, @r"
    ┌─ Coordinator ──────────────┐
    │ CoalescePartitionsExec     │
    │   NetworkCoalesceExec: st… │
    └────────────────────────────┘
    ┌─ Stage 2 · 2 tasks · coa… ─┐
    │ CoalescePartitionsExec     │
    │   NetworkShuffleExec: sta… │
    └────────────────────────────┘
    ┌─ Stage 1 · 3 tasks · shu… ─┐
    │ RepartitionExec: partitio… │
    │   DataSourceExec: partiti… │
    └────────────────────────────┘
    ");
    for width in [0, 1, 10, 20, 100] {
        let shown = display_stages(&plan).with_max_width(width).to_string();
        let longest = shown
            .lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap();
        assert!(longest <= width.max(8), "{longest} > {width}");
    }
}

#[test]
fn a_plan_with_conflicting_stages_says_so() {
    let sides = vec![coalesce(source(), 1, 2), coalesce(source(), 1, 3)];
    let plan: Plan = UnionExec::try_new(sides).unwrap();
    insta::assert_snapshot!(display_stages(&plan), @"this plan has no stages to show: Error during planning: stage 1 has 2 tasks in one place and 3 in another");
}
