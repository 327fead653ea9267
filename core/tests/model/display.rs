use datafusion::physical_plan::union::UnionExec;
use flightpath_core::model::report::{TaskReport, TaskStatus};
use flightpath_core::model::stage::QueryId;
use flightpath_core::{PlannedTask, QueryReports, display_stages};

use crate::plans::{Plan, STAGE_1, STAGE_2, coalesce, key, report, source, two_stages};

#[test]
fn each_stage_is_a_box() {
    insta::assert_snapshot!(display_stages(&two_stages()), @"");
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
    insta::assert_snapshot!(display, @"");
}

#[test]
fn no_line_is_longer_than_asked_for() {
    let plan = two_stages();
    let narrow = display_stages(&plan).with_max_width(30);
    insta::assert_snapshot!(narrow, @"");
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
    insta::assert_snapshot!(display_stages(&plan), @"");
}
