use std::time::Duration;

use flightpath_core::model::boundary::BoundaryKind;
use flightpath_core::model::report::{TaskReport, TaskStatus};
use flightpath_core::model::stage::{QueryId, TaskKey};
use flightpath_core::{
    PlannedTask, QueryOutcome, QueryReports, StageSummary, TaskCounts, TaskProgress,
    stage_summaries,
};

use crate::plans::{STAGE_1, key, report, two_stages};

fn planned(key: TaskKey) -> PlannedTask {
    PlannedTask {
        key,
        worker: format!("http://worker-{}", key.task),
    }
}

#[test]
fn the_first_report_of_a_task_stays() {
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    let key = key(query_id, 1, 0);
    assert!(reports.record(report(key, &STAGE_1, 1)));
    assert!(!reports.record(report(key, &STAGE_1, 2)));
    assert!(!reports.record(report(crate::plans::key(QueryId::new(), 1, 1), &STAGE_1, 3)));
    assert_eq!(reports.reports().len(), 1);
    assert_eq!(reports.report(1, 0).unwrap().output_rows, 1);
    // Another attempt is another report, and is what the task did.
    assert!(reports.record(report(TaskKey { attempt: 1, ..key }, &STAGE_1, 4)));
    assert_eq!(reports.report(1, 0).unwrap().output_rows, 4);
    assert_eq!(reports.reports().len(), 2);
}

#[test]
fn what_is_missing_is_named_with_its_reason() {
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    let key = |task| key(query_id, 1, task);
    reports.plan_tasks((0..2).map(|task| planned(key(task))));
    reports.plan_tasks((2..4).map(|task| planned(key(task))));
    reports.record(report(key(1), &STAGE_1, 1));
    reports.missing_because(key(0), "refused");
    reports.worker_missing_because("http://worker-0", "connection lost");
    reports.worker_missing_because("http://worker-1", "connection lost");
    reports.worker_missing_because("http://worker-2", "connection lost");
    let missing = reports.missing();
    let named = missing
        .iter()
        .map(|m| (m.key.task, m.worker.as_str(), m.reason.as_str()));
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            (0, "http://worker-0", "refused"),
            (2, "http://worker-2", "connection lost"),
            (3, "http://worker-3", "no report came yet"),
        ]
    );
}

#[test]
fn tasks_are_counted_by_how_they_ended() {
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    reports.plan_tasks((0..5).map(|task| planned(key(query_id, 1, task))));
    let ends = [TaskStatus::Finished, TaskStatus::Failed, TaskStatus::Unused];
    for (task, status) in ends.into_iter().enumerate() {
        let report = report(key(query_id, 1, task), &STAGE_1, 1);
        reports.record(TaskReport { status, ..report });
    }
    let expected = TaskCounts {
        finished: 1,
        failed: 1,
        cancelled: 0,
        unused: 1,
        missing: 2,
    };
    assert_eq!(reports.counts(), expected);
}

#[test]
fn progress_ends_in_what_was_reported() {
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    let key = key(query_id, 1, 0);
    let early = TaskProgress {
        output_rows: 3,
        ..TaskProgress::default()
    };
    reports.progress(key, early);
    assert_eq!(reports.progress_of(key), None, "not planned");
    reports.plan_tasks([planned(key)]);
    reports.progress(key, early);
    assert_eq!(reports.progress_of(key), Some(early));
    reports.record(report(key, &STAGE_1, 9));
    reports.progress(key, early);
    assert_eq!(reports.progress_of(key).unwrap().output_rows, 9);
}

#[test]
fn stages_are_summed_up_from_reports() {
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    reports.record(report(key(query_id, 1, 0), &STAGE_1, 10));
    reports.record(report(key(query_id, 1, 1), &STAGE_1, 40));
    let unused = report(key(query_id, 1, 2), &STAGE_1, 0);
    reports.record(TaskReport {
        status: TaskStatus::Unused,
        started: None,
        ..unused
    });
    let summaries = stage_summaries(&two_stages(), &reports).unwrap();
    let shuffle = StageSummary {
        stage: 1,
        boundary: "NetworkShuffleExec".to_owned(),
        kind: BoundaryKind::Shuffle,
        tasks: 3,
        reported: 3,
        output_rows: 50,
        output_bytes: 400,
        median: Duration::from_millis(25),
        slowest: Duration::from_millis(40),
        slowest_task: Some(1),
        slowest_worker: Some("http://worker-1".to_owned()),
    };
    assert_eq!(summaries[0], shuffle);
    assert_eq!((summaries[1].stage, summaries[1].reported), (2, 0));
    assert_eq!(summaries[1].slowest_task, None);
}

#[test]
fn what_was_said_first_of_an_end_stays() {
    let reports = QueryReports::new(QueryId::new());
    assert_eq!(reports.outcome(), None);
    let changes = reports.changes();
    assert!(!changes.has_changed().unwrap());
    let at = Duration::from_millis(3);
    reports.end(at, QueryOutcome::Finished);
    assert!(changes.has_changed().unwrap());
    reports.end(Duration::from_secs(9), QueryOutcome::Cancelled);
    assert_eq!(reports.outcome(), Some(QueryOutcome::Finished));
    assert_eq!(reports.elapsed(), at);
}

#[test]
fn a_task_is_known_from_its_plan_to_its_report() {
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    let key = |task| key(query_id, 1, task);
    reports.plan_tasks((0..2).map(|task| planned(key(task))));
    reports.dispatched(key(0));
    reports.dispatched(key(7));
    reports.missing_because(key(0), "a reason that a report overrules");
    reports.missing_because(key(1), "refused");
    reports.record(report(key(0), &STAGE_1, 5));
    // Nobody planned this one.
    reports.record(report(key(2), &STAGE_1, 6));
    let tasks = reports.tasks();
    assert_eq!(
        tasks.iter().map(|task| task.key.task).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert!(tasks[0].dispatched.unwrap() <= tasks[0].reported.unwrap());
    assert_eq!(
        (
            &tasks[0].missing,
            tasks[0].report.as_ref().unwrap().output_rows
        ),
        (&None, 5)
    );
    assert_eq!(tasks[1].missing.as_deref(), Some("refused"));
    assert!(tasks[1].dispatched.is_none() && tasks[1].report.is_none());
    assert_eq!(tasks[2].worker, tasks[2].report.as_ref().unwrap().worker);
}
