//! Visitors that fail or panic leave everything as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::DataFusionError;
use datafusion::physical_plan::collect;
use flightpath_core::{DistributedExec, find_layer};
use flightpath_metrics::{PlanVisitor, TaskVisit, Visited, visit_stages};

use crate::fixture::{checked, cluster, plan, register, session, within};

struct Fails {
    with_panic: bool,
}

impl PlanVisitor for Fails {
    type Error = DataFusionError;

    fn pre_visit_task(&mut self, task: &TaskVisit<'_>) -> Visited<DataFusionError> {
        assert!(!self.with_panic, "task {} is too much", task.task);
        Err(DataFusionError::External("too much".into()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_passes_through_and_a_panic_locks_nothing() {
    within(60, async {
        let cluster = cluster(&[Duration::ZERO; 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 400, |value| value);
        let plan = plan(&ctx, "SELECT k FROM t").await;
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let before = checked(&plan);
        let root = find_layer::<DistributedExec>(plan.as_ref()).unwrap();
        let reports = root.last_query().unwrap();

        let mut fails = Fails { with_panic: false };
        let error = visit_stages(&plan, Some(&reports), &mut fails).unwrap_err();
        assert!(matches!(error, DataFusionError::External(_)), "{error}");

        let mut panics = Fails { with_panic: true };
        let visit = AssertUnwindSafe(|| visit_stages(&plan, Some(&reports), &mut panics));
        let panic = catch_unwind(visit).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("task 0 is too much"), "{message}");

        assert_eq!(checked(&plan), before);
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        assert_ne!(checked(&plan).query_id, before.query_id);
        cluster.stop().await.unwrap();
    })
    .await;
}
