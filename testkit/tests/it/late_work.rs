//! What an operator spawned in the runtime goes on for a while after the operator was dropped.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::DataType;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use flightpath_core::{Hooks, TaskReport, TaskStatus};
use flightpath_testkit::Cluster;
use futures::StreamExt;
use tokio::sync::watch;

use crate::fixture::{Setup, within};

/// Of one call: long beside the time in which a query is cancelled.
const CALL: Duration = Duration::from_millis(300);

/// Calls of the function that are going on.
type Calls = Arc<watch::Sender<usize>>;

fn slow(calls: Calls) -> ScalarUDF {
    let work = move |args: &[ColumnarValue]| {
        calls.send_modify(|calls| *calls += 1);
        std::thread::sleep(CALL);
        calls.send_modify(|calls| *calls -= 1);
        Ok(args[0].clone())
    };
    let (argument, result) = (vec![DataType::Int64], DataType::Int64);
    create_udf(
        "slow",
        argument,
        result,
        Volatility::Volatile,
        Arc::new(work),
    )
}

/// Remembers how many calls went on when the task that makes them reported.
#[derive(Debug)]
struct AtReport {
    calls: Calls,
    reported: watch::Sender<Option<(TaskStatus, usize)>>,
}

impl Hooks for AtReport {
    fn task_ends(&self, report: &TaskReport, plan: &Arc<dyn ExecutionPlan>) {
        let text = displayable(plan.as_ref()).indent(false).to_string();
        if text.contains("slow(") {
            let calls = *self.calls.borrow();
            self.reported.send_replace(Some((report.status, calls)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancelled_task_reported_while_what_its_operators_spawned_went_on() {
    within(60, async {
        let calls = Calls::default();
        let hooks = Arc::new(AtReport {
            calls: Arc::clone(&calls),
            reported: watch::Sender::default(),
        });
        let mut session = SessionStateBuilder::new().with_default_features().build();
        let function = Arc::new(slow(Arc::clone(&calls)));
        session.register_udf(Arc::clone(&function)).unwrap();
        let on_worker = Arc::clone(&hooks);
        let cluster = Cluster::start_with(1, move |worker| {
            let worker = worker.with_session_state(session.clone());
            worker.with_hooks(Arc::clone(&on_worker) as _)
        });
        let setup = Setup::on(cluster.await.unwrap()).await;
        setup.ctx.register_udf(function.as_ref().clone());
        let sql = "SELECT s, count(*) FROM (SELECT slow(amount) AS s FROM sales) GROUP BY s";
        let mut rows = setup.plan(sql).await.stream();

        // In its poll the query begins.
        let mut begun = calls.subscribe();
        tokio::select! {
            _rows = rows.next() => panic!("the query did not wait for the function"),
            called = begun.wait_for(|calls| *calls > 0) => drop(called.unwrap()),
        }
        drop(rows);
        let mut reported = hooks.reported.subscribe();
        let at_report = *reported.wait_for(Option::is_some).await.unwrap();
        assert_eq!(at_report, Some((TaskStatus::Cancelled, 0)));
    })
    .await;
}
