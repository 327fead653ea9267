//! The hooks by themselves.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use flightpath_core::{Headers, Hooks, QueryId, TaskKey, TraceOptions};
use futures::StreamExt;
use opentelemetry::baggage::BaggageExt;
use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Context, KeyValue};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::collector::{caller, collector, int};
use super::traces::hooks;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn task() -> TaskKey {
    TaskKey {
        query_id: QueryId::new(),
        stage: 1,
        task: 0,
        attempt: 0,
    }
}

fn headers(parent: &str, baggage: &str) -> Headers {
    vec![
        ("traceparent".to_string(), parent.into()),
        ("baggage".to_string(), baggage.into()),
    ]
}

fn empty(partitions: usize) -> Arc<dyn ExecutionPlan> {
    Arc::new(EmptyExec::new(Arc::new(Schema::empty())).with_partitions(partitions))
}

#[test]
fn without_a_valid_sampled_parent_a_worker_traces_nothing() {
    let _collector = collector();
    let hooks = hooks();
    let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    for (parent, sampled) in [
        (PARENT, true),
        (unsampled, false),
        ("00-xx-yy-01", false),
        ("", false),
    ] {
        let headers = headers(parent, "");
        let span = tracing::info_span!(parent: None, "task");
        let span = hooks.task_span(span, &task(), &headers);
        let (key, plan) = (task(), empty(1));
        let _inside = span.enter();
        let wrapped = hooks.wrap_plan(
            Arc::clone(&plan),
            Some((&key, &headers)),
            TraceOptions::default(),
        );
        assert_eq!(!Arc::ptr_eq(&wrapped.unwrap(), &plan), sampled, "{parent}");
        assert_eq!(!hooks.stream_headers(&key).is_empty(), sampled, "{parent}");
    }
}

#[test]
fn baggage_reaches_the_task() {
    let _collector = collector();
    let hooks = hooks();
    let given = Context::new().with_baggage([KeyValue::new("tenant", "ulm")]);
    let _given = given.attach();
    let stage = tracing::info_span!("stage");
    let headers = stage.in_scope(|| hooks.task_headers(&task()));
    let span = tracing::info_span!(parent: None, "task");
    let span = hooks.task_span(span, &task(), &headers);
    let context = span.context();
    assert_eq!(context.baggage().get("tenant").unwrap().as_str(), "ulm");
    let (stage, task) = (stage.context(), context);
    let ids = [&stage, &task].map(|context| context.span().span_context().trace_id());
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn too_much_baggage_leaves_the_trace_alone() {
    let _collector = collector();
    let hooks = hooks();
    let long = format!("tenant=ulm,{}", "x=y,".repeat(25_000));
    let span = tracing::info_span!(parent: None, "task");
    let span = hooks.task_span(span, &task(), &headers(PARENT, &long));
    let context = span.context();
    assert!(context.baggage().is_empty());
    let trace = context.span().span_context().trace_id().to_string();
    assert_eq!(trace, PARENT[3..35]);
}

#[tokio::test]
async fn partitions_that_run_one_after_the_other_share_one_span() {
    let collector = collector();
    let (root, id) = caller();
    let plan = root.in_scope(|| {
        hooks()
            .wrap_plan(empty(3), None, TraceOptions::default())
            .unwrap()
    });
    let context = Arc::new(TaskContext::default());
    for partition in 0..3 {
        // From under the caller's span, from elsewhere, and from nowhere.
        let elsewhere = tracing::info_span!(parent: None, "elsewhere");
        let stream = match partition {
            0 => root.in_scope(|| plan.execute(partition, Arc::clone(&context))),
            1 => elsewhere.in_scope(|| plan.execute(partition, Arc::clone(&context))),
            _ => plan.execute(partition, Arc::clone(&context)),
        };
        assert!(stream.unwrap().next().await.is_none());
    }
    drop((plan, root));
    let trace = collector
        .trace(id, |trace| !trace.named("caller").is_empty())
        .await;
    let [span] = trace.named("EmptyExec")[..] else {
        panic!("not one:\n{}", trace.draw());
    };
    assert_eq!(int(span, "datafusion.partitions"), Some(3));
    assert_eq!(span.parent().unwrap().name, "caller");
}

#[tokio::test]
async fn a_span_ends_with_its_plan_when_partitions_are_never_asked_for() {
    let collector = collector();
    let (root, id) = caller();
    let plan = root.in_scope(|| {
        hooks()
            .wrap_plan(empty(3), None, TraceOptions::default())
            .unwrap()
    });
    let stream = root.in_scope(|| plan.execute(1, Arc::default()).unwrap());
    drop((stream, plan, root));
    let trace = collector
        .trace(id, |trace| !trace.named("EmptyExec").is_empty())
        .await;
    assert_eq!(trace.named("EmptyExec").len(), 1);
}

/// Reads only the first partition of its input.
#[derive(Debug)]
struct FirstExec(Arc<dyn ExecutionPlan>, Arc<PlanProperties>);

impl FirstExec {
    fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let one = Partitioning::UnknownPartitioning(1);
        let properties = input.properties().as_ref().clone().with_partitioning(one);
        Arc::new(Self(input, Arc::new(properties)))
    }
}

impl DisplayAs for FirstExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstExec")
    }
}

impl ExecutionPlan for FirstExec {
    fn name(&self) -> &str {
        "FirstExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.1
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Self::over(children.remove(0)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

/// As where a failure or a limit ends the coordinator's part before it has asked for all: its span, and with it that
/// of the query, stayed open as long as anybody held the plan.
#[tokio::test]
async fn a_span_ended_with_nothing_but_its_plan_when_partitions_were_never_asked_for() {
    let collector = collector();
    let (root, id) = caller();
    let plan = root.in_scope(|| {
        let plan = FirstExec::over(empty(3));
        let hooks = hooks();
        hooks
            .wrap_plan(plan, None, TraceOptions::default())
            .unwrap()
    });
    let stream = root.in_scope(|| plan.execute(0, Arc::default()).unwrap());
    drop((stream, root));
    let trace = collector
        .trace(id, |trace| !trace.named("caller").is_empty())
        .await;
    let first = trace.only("FirstExec").unwrap();
    let input = trace.only("EmptyExec").unwrap();
    assert_eq!(input.parent().unwrap().name, "FirstExec");
    assert!(
        input.end_time_unix_nano <= first.end_time_unix_nano,
        "{}",
        trace.draw()
    );
    drop(plan);
}
