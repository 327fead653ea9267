//! The root of a distributed plan.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, SchedulingType, reset_plan_states,
};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;

use super::begun::Begun;
use super::proto::DownKind;
use super::query::Query;
use super::query_span::QuerySpan;
use crate::model::child::only_child;
use crate::model::hooks::ClientLeft;
use crate::model::pairing::StageSlots;
use crate::model::reports::{QueryOutcome, QueryReports};
use crate::planner::Parts;
use crate::wire::error::kind_of;

/// Runs a distributed plan: sends the stages below it to workers and puts out their result, in
/// one partition. The nodes between it and the topmost boundaries run here, on the coordinator.
///
/// Every `execute` is a query of its own, with its own id. The metrics of workers have arrived
/// when the stream has ended.
pub struct DistributedExec {
    input: Arc<dyn ExecutionPlan>,
    local: Arc<dyn ExecutionPlan>,
    parts: Parts,
    properties: Arc<PlanProperties>,
    runs: Arc<Runs>,
}

/// The executions of one plan.
#[derive(Default)]
struct Runs {
    /// Whether the plan's own nodes have been run; later runs take fresh copies of them.
    used: AtomicBool,
    last: Mutex<Option<Arc<QueryReports>>>,
    /// For plans whose state cannot be copied: one run at a time.
    turn: Option<Arc<Semaphore>>,
}

impl DistributedExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        local: Arc<dyn ExecutionPlan>,
        parts: Parts,
    ) -> Self {
        let properties = PlanProperties::clone(input.properties())
            .with_scheduling_type(SchedulingType::Cooperative);
        let runs = Runs {
            // The values of subqueries live in the expressions that use them.
            turn: has_subqueries(&input).then(|| Arc::new(Semaphore::new(1))),
            ..Runs::default()
        };
        Self {
            input,
            local,
            parts,
            properties: Arc::new(properties),
            runs: Arc::new(runs),
        }
    }

    /// The plan as it was before it was distributed.
    pub fn local_plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.local
    }

    /// Reports of the latest execution, while it runs and after.
    pub fn last_query(&self) -> Option<Arc<QueryReports>> {
        self.runs.last.lock().clone()
    }
}

fn has_subqueries(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ScalarSubqueryExec>() || plan.children().into_iter().any(has_subqueries)
}

impl fmt::Debug for DistributedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedExec")
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for DistributedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "DistributedExec"),
        }
    }
}

impl ExecutionPlan for DistributedExec {
    fn name(&self) -> &str {
        "DistributedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = only_child(self.name(), &children)?;
        Ok(Arc::new(Self::new(
            input,
            Arc::clone(&self.local),
            self.parts.clone(),
        )))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("DistributedExec has 1 partition, and {partition} is asked for");
        }
        let again = self.runs.used.swap(true, Ordering::AcqRel);
        let given = context.session_config().get_extension::<QuerySpan>();
        let shown = given.map_or_else(QuerySpan::current_or_open, |given| QuerySpan::clone(&given));
        let span = shown.span().clone();
        let query = Query::new(&self.parts, &context, span.clone())
            .inspect_err(|error| shown.failed(error))?;
        let reports = Arc::clone(query.reports());
        if !span.is_disabled() {
            span.record("flightpath.query.id", tracing::field::display(query.id()));
        }
        *self.runs.last.lock() = Some(Arc::clone(&reports));
        let run = Run {
            query: Some(Arc::new(query)),
            refused: None,
            reports,
            parts: self.parts.clone(),
            input: Arc::clone(&self.input),
            again,
            local: Arc::clone(&self.local),
            context,
            turn: self.runs.turn.clone(),
            permit: None,
            rows: None,
            begun: None,
            shown,
        };
        let stream = futures::stream::unfold(run, |mut run| async move {
            let span = run.shown.span().clone();
            let item = run.next().instrument(span).await?;
            let item = item.inspect_err(|error| run.shown.failed(error));
            Some((item, run))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream,
        )))
    }
}

/// The state of one execution between two batches.
struct Run {
    /// Until the query has ended, in whatever way.
    query: Option<Arc<Query>>,
    /// Why the local plan runs in place of the query, while it does.
    refused: Option<String>,
    reports: Arc<QueryReports>,
    parts: Parts,
    input: Arc<dyn ExecutionPlan>,
    /// Whether the nodes of `input` have been run before.
    again: bool,
    local: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    turn: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
    rows: Option<SendableRecordBatchStream>,
    /// From its first poll to its end, be it local.
    begun: Option<Begun>,
    shown: QuerySpan,
}

impl Run {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let item = self.item().await;
        if let Some(Ok(batch)) = &item {
            self.reports.put_out(batch.num_rows() as u64);
        }
        item
    }

    async fn item(&mut self) -> Option<Result<RecordBatch>> {
        let Some(query) = self.query.clone() else {
            // Either it runs locally now, or it has ended.
            return self.locally().await;
        };
        let item = match self.distributed(&query).await {
            Ok(item) => item.map(Ok),
            Err(error) => Some(Err(error)),
        };
        match item {
            Some(Ok(batch)) => Some(Ok(batch)),
            Some(Err(error)) => {
                self.rows = None;
                let refusal = (query.refusal()).filter(|_| self.reports.output_rows() == 0);
                let at = self.reports.elapsed();
                self.leave(&query, DownKind::Cancel(error.to_string()))
                    .await;
                let Some(refusal) = refusal else {
                    self.end(at, Err(&error));
                    return Some(Err(error));
                };
                tracing::warn!("{refusal}; the query runs locally");
                self.refused = Some(refusal);
                self.parts.hooks.query_retries(query.id(), &error);
                self.reports.set_plan(Arc::clone(&self.local));
                match self.local_rows(&query) {
                    Ok(rows) => self.rows = Some(rows),
                    Err(error) => {
                        self.end(self.reports.elapsed(), Err(&error));
                        return Some(Err(error));
                    }
                }
                self.locally().await
            }
            None => {
                self.rows = None;
                let at = self.reports.elapsed();
                self.leave(&query, Query::finish()).await;
                self.end(at, Ok(()));
                None
            }
        }
    }

    fn local_rows(&self, query: &Query) -> Result<SendableRecordBatchStream> {
        let trace = query.trace_options(&self.local, 0);
        let local = Arc::clone(&self.local);
        let local = self.parts.hooks.wrap_plan(local, None, trace)?;
        execute_stream(local, Arc::clone(&self.context))
    }

    /// The next batch of the local plan, if that runs.
    async fn locally(&mut self) -> Option<Result<RecordBatch>> {
        let item = self.rows.as_mut()?.next().await;
        match &item {
            Some(Ok(_)) => {}
            Some(Err(error)) => self.end(self.reports.elapsed(), Err(error)),
            None => self.end(self.reports.elapsed(), Ok(())),
        }
        item
    }

    async fn distributed(&mut self, query: &Arc<Query>) -> Result<Option<RecordBatch>> {
        if self.rows.is_none() {
            self.start(query).await?;
        }
        let Some(rows) = self.rows.as_mut() else {
            return Ok(None);
        };
        tokio::select! {
            biased;
            row = rows.next() => row.transpose(),
            error = query.failed() => Err(error),
        }
    }

    async fn start(&mut self, query: &Arc<Query>) -> Result<()> {
        if let Some(turn) = &self.turn {
            self.permit = Arc::clone(turn).acquire_owned().await.ok();
        }
        if self.again {
            self.input = reset_plan_states(Arc::clone(&self.input))?;
        }
        self.begun = Some(Begun::new(&self.parts.hooks, query.id()));
        query.check_workers()?;
        let trace = query.trace_options(&self.input, 0);
        let input = Arc::clone(&self.input);
        let input = self.parts.hooks.wrap_plan(input, None, trace)?;
        query.prepare(&input).await?;
        StageSlots::new(0, &self.input).run_here(query.id(), &input);
        self.reports.set_plan(Arc::clone(&input));
        self.rows = Some(query.execute(&input, &self.context)?);
        Ok(())
    }

    /// Lets go of the workers, with their reports.
    async fn leave(&mut self, query: &Query, how: DownKind) {
        query.end(how).await;
        self.query = None;
        self.permit = None;
    }

    /// Says how the query ended, `at` this time since it began.
    fn end(&mut self, at: Duration, result: std::result::Result<(), &DataFusionError>) {
        let outcome = match (result, self.refused.take()) {
            (Err(error), _) => QueryOutcome::Failed {
                kind: kind_of(error).to_string(),
                message: error.strip_backtrace(),
            },
            (Ok(()), Some(reason)) => QueryOutcome::Local { reason },
            (Ok(()), None) => QueryOutcome::Finished,
        };
        self.reports.end(at, outcome);
        if let Some(begun) = self.begun.take() {
            begun.end(result);
        }
    }
}

impl Drop for Run {
    /// The client has left: stops the tasks, and collects what they report.
    fn drop(&mut self) {
        let (reports, at) = (Arc::clone(&self.reports), self.reports.elapsed());
        let Some(query) = self.query.take() else {
            // Does nothing if the local plan has come to its end.
            return reports.end(at, QueryOutcome::Cancelled);
        };
        // Without a runtime the control streams just close, which stops the tasks as well.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return reports.end(at, QueryOutcome::Cancelled);
        };
        let (begun, permit, rows) = (self.begun.take(), self.permit.take(), self.rows.take());
        let ending = async move {
            drop(rows);
            query.end(DownKind::Cancel(ClientLeft.to_string())).await;
            reports.end(at, QueryOutcome::Cancelled);
            drop(begun);
            drop(permit);
        };
        runtime.spawn(ending.instrument(self.shown.span().clone()));
    }
}
