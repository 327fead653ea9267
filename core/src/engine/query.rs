//! One execution of a distributed plan, on the coordinator.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::future::{join_all, try_join_all};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{Instrument, Span};

use super::control::{Answer, Control};
use super::exchange::{Routes, StreamReader};
use super::proto::{self, DownKind, Route, Setting, headers_to_proto};
use super::running::{Running, stage_span};
use super::settings;
use crate::config::FlightpathConfig;
use crate::model::boundary::{
    BoundaryKind, Exchange, ExchangeHandle, ExchangeRequest, NetworkBoundaryExec,
    NetworkBoundaryExt,
};
use crate::model::metric_codec::MetricCodecs;
use crate::model::outcome::{is_cancellation, number};
use crate::model::pairing::StageSlots;
use crate::model::report::TaskReport;
use crate::model::reports::{PlannedTask, QueryReports, TaskProgress};
use crate::model::stage::{QueryId, Stage, TaskKey};
use crate::model::trace::{SpanBudget, TraceDetail, TraceOptions};
use crate::planner::Parts;
use crate::wire::codec::Codec;
use crate::wire::error::kind_of;
use crate::wire::metrics::encode_key;
use crate::wire::plan::{Subqueries, awaits_subqueries, encode, narrow};

/// A query while it runs. Dropping it ends its control streams, and with them its tasks.
pub(crate) struct Query {
    parts: Parts,
    workers: Vec<String>,
    shared: Arc<Shared>,
    codec: Codec,
    /// Held while stages are dispatched, so that each is once.
    controls: tokio::sync::Mutex<HashMap<String, Control>>,
    span: Span,
    budget: SpanBudget,
}

/// What the query and the readers of its control streams share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) reader: StreamReader,
    pub(crate) settings: Vec<Setting>,
    pub(crate) metric_codecs: MetricCodecs,
    reports: Arc<QueryReports>,
    stages: Mutex<HashMap<usize, Running>>,
    /// The first thing that went wrong.
    failure: watch::Sender<Option<Arc<DataFusionError>>>,
    /// Why a worker would not take a task.
    refusal: Mutex<Option<String>>,
}

impl Query {
    pub(crate) fn new(parts: &Parts, context: &TaskContext, span: Span) -> Result<Self> {
        let workers = parts.workers()?.into_iter().map(|url| {
            let url: String = url.into();
            url.trim_end_matches('/').to_string()
        });
        let options = context.session_config().options();
        let config = FlightpathConfig::of(options);
        let budget = SpanBudget::new(config.trace_span_budget);
        let query_id = QueryId::new();
        let shared = Shared {
            reader: StreamReader {
                query_id,
                routes: Arc::new(Routes::default()),
                connections: parts.connections.clone(),
                config,
                hooks: Arc::clone(&parts.hooks),
                local: None,
            },
            settings: settings::collect(options),
            metric_codecs: parts.metric_codecs.clone(),
            reports: Arc::new(QueryReports::new(query_id)),
            stages: Mutex::default(),
            failure: watch::Sender::new(None),
            refusal: Mutex::new(None),
        };
        Ok(Self {
            workers: workers.collect(),
            codec: Codec::new(parts.codec.clone()),
            parts: parts.clone(),
            shared: Arc::new(shared),
            controls: tokio::sync::Mutex::default(),
            span,
            budget,
        })
    }

    pub(crate) fn id(&self) -> QueryId {
        self.shared.reader.query_id
    }

    pub(crate) fn reports(&self) -> &Arc<QueryReports> {
        &self.shared.reports
    }

    /// Why a worker refused a task, if one did.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.shared.refusal.lock().clone()
    }

    /// # Errors
    /// If all the workers that there were at planning have gone; that counts as a refusal.
    pub(crate) fn check_workers(&self) -> Result<()> {
        if !self.workers.is_empty() {
            return Ok(());
        }
        let refusal = "there are no workers any more";
        *self.shared.refusal.lock() = Some(refusal.to_string());
        exec_err!("{refusal}")
    }

    /// Waits for something to go wrong anywhere.
    pub(crate) async fn failed(&self) -> DataFusionError {
        let mut failure = self.shared.failure.subscribe();
        let first = failure.wait_for(Option::is_some).await;
        match first.ok().and_then(|first| first.clone()) {
            Some(error) => DataFusionError::Shared(error),
            None => exec_datafusion_err!("the query has ended"),
        }
    }

    /// Runs `plan` as the coordinator's part of this query.
    pub(crate) fn execute(
        self: &Arc<Self>,
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let exchange = ExchangeHandle(Arc::new(Coordinating {
            reader: self.shared.reader.clone(),
            query: Arc::downgrade(self),
        }));
        let config = context
            .session_config()
            .clone()
            .with_extension(Arc::new(exchange));
        plan.execute(0, Arc::new(settings::derived(context, config, None)))
    }

    /// Sends every stage to its workers and waits until they accept. Stages that need the value
    /// of a subquery are only checked; they follow when they have it.
    pub(crate) async fn prepare(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let mut topmost = vec![];
        find_topmost(plan, &mut topmost);
        for boundary in topmost {
            match boundary.stage() {
                Some(stage) if awaits_subqueries(&stage.plan) => {
                    self.send(boundary, Subqueries::Placeholders).await?;
                }
                _ => self.send(boundary, Subqueries::Values).await?,
            }
        }
        Ok(())
    }

    /// Sends the stages below `boundary` that have not been sent.
    async fn send(&self, boundary: &NetworkBoundaryExec, subqueries: Subqueries) -> Result<()> {
        let mut controls = self.controls.lock().await;
        let mut stages = BTreeMap::new();
        below(boundary, &mut stages);
        let fresh: Vec<(Stage, BoundaryKind)> = {
            let sent = self.shared.stages.lock();
            let stages = stages.into_values();
            stages
                .filter(|(stage, _)| !sent.contains_key(&stage.id))
                .collect()
        };
        if fresh.is_empty() {
            return Ok(());
        }
        let routes = &self.shared.reader.routes;
        let mut urls = HashSet::new();
        for (stage, _) in &fresh {
            let workers = self.assign(stage);
            urls.extend(workers.clone());
            routes.add(stage.id, workers);
        }
        urls.retain(|url| !controls.contains_key(url));
        let opening = urls.into_iter().map(|url| async {
            let control = Control::open(&url, Arc::clone(&self.shared)).await?;
            Ok::<_, DataFusionError>((url, control))
        });
        controls.extend(try_join_all(opening).await?);
        let mut answers = vec![];
        for (stage, kind) in &fresh {
            if subqueries == Subqueries::Values {
                self.begin(stage, *kind);
            }
            let inputs = self.inputs(stage);
            for task in 0..stage.tasks {
                let (key, worker, message) = self.task(stage, task, &inputs, subqueries)?;
                let control = controls
                    .get(&worker)
                    .ok_or_else(|| exec_datafusion_err!("worker {worker} is gone"))?;
                answers.push((key, worker, control.dispatch(key, message).await?));
                self.shared.reports.dispatched(key);
            }
        }
        for (key, worker, answer) in answers {
            let answer = tokio::select! {
                answer = answer => answer.map_err(|_| exec_datafusion_err!("worker {worker} is gone")),
                error = self.failed() => Err(error),
            };
            if let Answer::Refused(reason) = answer? {
                let refusal = format!("worker {worker} refused task {key}: {reason}");
                *self.shared.refusal.lock() = Some(refusal.clone());
                return Err(DataFusionError::Execution(refusal));
            }
        }
        Ok(())
    }

    /// Which worker runs each task: stages of one task are spread over the workers.
    fn assign(&self, stage: &Stage) -> Vec<String> {
        let first = if stage.tasks == 1 { stage.id } else { 0 };
        (0..stage.tasks)
            .filter_map(|task| {
                let worker = (first + task).checked_rem(self.workers.len())?;
                self.workers.get(worker).cloned()
            })
            .collect()
    }

    fn begin(&self, stage: &Stage, kind: BoundaryKind) {
        let span = match self.shared.reader.config.trace_detail {
            TraceDetail::Query => Span::none(),
            _ => stage_span(&self.span, self.id(), stage, kind),
        };
        let running = Running::new(stage.tasks, span);
        self.shared.stages.lock().insert(stage.id, running);
        self.parts.hooks.stage_begins(self.id(), stage, kind);
        let workers = self.shared.reader.routes.of(stage.id);
        let planned = workers.into_iter().enumerate().map(|(task, worker)| {
            let key = self.key(stage, task);
            PlannedTask { key, worker }
        });
        let reports = &self.shared.reports;
        reports.plan_tasks(planned);
        reports.pair_stage(StageSlots::new(stage.id, &stage.plan));
    }

    /// What the trace of one part shows: all that was asked for, while the budget lasts.
    pub(crate) fn trace_options(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        consumer: usize,
    ) -> TraceOptions {
        let mut options = self.shared.reader.config.trace_options();
        if options.detail <= TraceDetail::Task || self.span.is_disabled() {
            return options;
        }
        let whole = !self.budget.is_truncated();
        if !self.budget.take(spans(plan, consumer, options.detail)) {
            options.detail = TraceDetail::Task;
            if whole {
                self.span.record("flightpath.trace.truncated", true);
            }
        }
        options
    }

    fn key(&self, stage: &Stage, task: usize) -> TaskKey {
        TaskKey {
            query_id: self.id(),
            stage: stage.id,
            task,
            attempt: 0,
        }
    }

    /// Where the tasks of the stages that `stage` reads run.
    fn inputs(&self, stage: &Stage) -> Vec<Route> {
        let mut inputs = vec![];
        find_topmost(&stage.plan, &mut inputs);
        let routes = inputs.into_iter().map(|boundary| Route {
            stage: boundary.stage_id() as u64,
            workers: self.shared.reader.routes.of(boundary.stage_id()),
        });
        routes.collect()
    }

    fn task(
        &self,
        stage: &Stage,
        task: usize,
        inputs: &[Route],
        subqueries: Subqueries,
    ) -> Result<(TaskKey, String, proto::Task)> {
        let key = self.key(stage, task);
        let plan = narrow(&stage.plan, task, &self.parts.splitters)?;
        let limit = self.shared.reader.config.max_plan_bytes;
        let bytes = encode(&plan, &self.codec, subqueries, limit)?;
        let check = subqueries == Subqueries::Placeholders;
        let detail = match check {
            true => self.shared.reader.config.trace_detail,
            false => self.trace_options(&stage.plan, task).detail,
        };
        let span = self.shared.stages.lock();
        let span = span.get(&stage.id).and_then(|running| running.span.clone());
        let headers = span
            .filter(|span| !span.is_disabled())
            .unwrap_or_else(|| self.span.clone())
            .in_scope(|| self.parts.hooks.task_headers(&key));
        let message = proto::Task {
            key: Some(encode_key(&key)),
            plan: bytes.into(),
            routes: inputs.to_vec(),
            headers: headers_to_proto(headers),
            check,
            trace_detail: detail.to_string(),
        };
        let worker = self.shared.reader.routes.worker(stage.id, task)?;
        Ok((key, worker, message))
    }

    /// Records on the query's span what it came to.
    fn describe(&self) {
        if self.span.is_disabled() {
            return;
        }
        let stages = self.shared.stages.lock();
        let tasks: usize = stages.values().map(|stage| stage.tasks).sum();
        self.span
            .record("flightpath.stage.count", number(stages.len()));
        self.span.record("flightpath.task.count", number(tasks));
        let workers: HashSet<String> = (stages.keys())
            .flat_map(|stage| self.shared.reader.routes.of(*stage))
            .collect();
        self.span
            .record("flightpath.worker.count", number(workers.len()));
        // Once, here, after a worker refused a task.
        let retries = number(usize::from(self.refusal().is_some()));
        self.span.record("flightpath.retry.count", retries);
    }

    /// Ends the query on all workers and waits, for a bounded time, for what they have to report.
    pub(crate) async fn end(&self, how: DownKind) {
        let timeout = self.shared.reader.config.metrics_timeout.0;
        let mut controls = self.controls.lock().await;
        let ended = join_all(controls.values().map(|control| async {
            // A worker that is gone has nothing to report.
            let _ = control.send(how.clone()).await;
            control.done().await;
        }));
        if tokio::time::timeout(timeout, ended).await.is_err() {
            let reason = format!("no report within {timeout:?}");
            for missing in self.shared.reports.missing() {
                self.shared.reports.missing_because(missing.key, &reason);
            }
        }
        controls.clear();
        self.describe();
        for (_, mut stage) in self.shared.stages.lock().drain() {
            stage.end();
        }
    }

    /// What to tell workers of a query that has all it wants.
    pub(crate) fn finish() -> DownKind {
        DownKind::Finish(proto::Empty {})
    }
}

impl Shared {
    /// Keeps the first failure.
    pub(crate) fn fail(&self, error: DataFusionError) {
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            failure.get_or_insert_with(|| Arc::new(error));
            first
        });
    }

    /// A worker was lost: the query fails, and the worker's tasks are missing by name.
    pub(crate) fn lost(&self, worker: &str, error: DataFusionError) {
        let mut missing = self.reports.missing();
        missing.retain(|missing| missing.worker == worker);
        let tasks: Vec<String> = missing
            .iter()
            .map(|missing| format!("stage {}, task {}", missing.key.stage, missing.key))
            .collect();
        self.reports
            .worker_missing_because(worker, "the worker was lost");
        let running = match tasks.is_empty() {
            true => String::new(),
            false => format!(" while it had {}", tasks.join("; ")),
        };
        let error = error.context(format!("worker {worker} was lost{running}"));
        for missing in missing {
            self.task_failed(missing.key, &error);
        }
        self.fail(error);
    }

    /// A task failed: so did its stage. One that read from what was stopped did not.
    pub(crate) fn task_failed(&self, key: TaskKey, error: &DataFusionError) {
        if is_cancellation(error) {
            return;
        }
        if let Some(stage) = self.stages.lock().get_mut(&key.stage) {
            stage.failed(kind_of(error), &error.strip_backtrace());
        }
    }

    pub(crate) fn progress(&self, key: TaskKey, progress: TaskProgress) {
        self.reports.progress(key, progress);
    }

    pub(crate) fn report(&self, report: TaskReport) {
        if let Some(stage) = self.stages.lock().get_mut(&report.key.stage) {
            stage.reported(&report);
        }
        self.reader.hooks.task_reports(&report);
        self.reports.record(report);
    }
}

/// Boundaries that nodes of this plan read, not those of stages below.
fn find_topmost<'a>(plan: &'a Arc<dyn ExecutionPlan>, found: &mut Vec<&'a NetworkBoundaryExec>) {
    if let Some(boundary) = plan.as_network_boundary() {
        found.push(boundary);
        return;
    }
    for child in plan.children() {
        find_topmost(child, found);
    }
}

/// How many spans a task with this plan has, beside its own.
fn spans(plan: &Arc<dyn ExecutionPlan>, consumer: usize, detail: TraceDetail) -> usize {
    let below = match plan.as_network_boundary() {
        Some(boundary) if detail == TraceDetail::Rpc => {
            let partitions = 0..plan.output_partitioning().partition_count();
            let reads = partitions.map(|partition| boundary.reads(consumer, partition).len());
            // Of the client and of the server.
            2 * reads.sum::<usize>()
        }
        Some(_) => 0,
        None => {
            let children = plan.children().into_iter();
            children.map(|child| spans(child, consumer, detail)).sum()
        }
    };
    1 + below
}

/// The stage that `boundary` reads, and all below it.
fn below(boundary: &NetworkBoundaryExec, stages: &mut BTreeMap<usize, (Stage, BoundaryKind)>) {
    let Some(stage) = boundary.stage() else {
        return;
    };
    let mut inputs = vec![];
    find_topmost(&stage.plan, &mut inputs);
    for input in inputs {
        below(input, stages);
    }
    stages.insert(stage.id, (stage, boundary.boundary().kind()));
}

/// Reads streams for the coordinator's part of a query.
struct Coordinating {
    reader: StreamReader,
    /// Weak, because it is in the context that the plan runs with, and wrappers of a plan may keep
    /// that as long as the plan, which the query's reports have.
    query: Weak<Query>,
}

#[async_trait]
impl Exchange for Coordinating {
    fn open(&self, request: &ExchangeRequest<'_>) -> Result<Vec<SendableRecordBatchStream>> {
        self.reader.open(request)
    }

    async fn prepare(&self, boundary: &NetworkBoundaryExec) -> Result<()> {
        let Some(query) = self.query.upgrade() else {
            return exec_err!("the query of stage {} has ended", boundary.stage_id());
        };
        // A reader that leaves in the middle must not leave a stage half sent.
        let boundary = boundary.clone();
        let sending = async move { query.send(&boundary, Subqueries::Values).await };
        tokio::spawn(sending.in_current_span())
            .await
            .map_err(|stopped| exec_datafusion_err!("sending a stage was stopped: {stopped}"))?
    }
}
