//! The queries that a worker takes part in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use datafusion::common::{DataFusionError, Result, exec_err, plan_datafusion_err, resources_err};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_plan::metrics::Count;
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use tokio::sync::watch;
use tracing::{Instrument, Span};

use super::control::Up;
use super::going::Going;
use super::stoppable::stoppable;
use super::stream::local_stream;
use super::task::{Task, TaskEnds};
use crate::config::FlightpathConfig;
use crate::engine::connect::Connections;
use crate::engine::exchange::{LocalStreams, StreamReader};
use crate::engine::proto::{self, Failed, Hello, UpKind, headers_from_proto};
use crate::engine::settings;
use crate::model::boundary::{Exchange, ExchangeHandle, ExchangeRequest, NetworkBoundaryExec};
use crate::model::hooks::{Headers, Hooks};
use crate::model::metric_codec::MetricCodecs;
use crate::model::outcome::{QUERY_GONE, number};
use crate::model::panic::caught;
use crate::model::stage::{QueryId, TaskKey};
use crate::model::trace::{TraceDetail, TraceOptions};
use crate::wire::codec::Codec;
use crate::wire::error::{Origin, encode_error};
use crate::wire::metrics::{decode_key, encode_key, encode_report};
use crate::wire::plan::decode;

/// Everything a worker holds. What belongs to a query goes when its control stream ends.
#[derive(Debug)]
pub(crate) struct Registry {
    session: SessionState,
    codec: Codec,
    metric_codecs: MetricCodecs,
    pub(crate) hooks: Arc<dyn Hooks>,
    connections: Connections,
    /// Of the largest encoded plan that is accepted.
    pub(crate) max_plan_bytes: usize,
    queries: DashMap<QueryId, Arc<WorkerQuery>>,
    /// Changes when a query begins or ends.
    changed: watch::Sender<()>,
    draining: AtomicBool,
}

impl Registry {
    pub(crate) fn new(
        session: SessionState,
        codec: Option<Arc<dyn PhysicalExtensionCodec>>,
        metric_codecs: MetricCodecs,
        hooks: Arc<dyn Hooks>,
        connections: Connections,
        max_plan_bytes: usize,
    ) -> Self {
        Self {
            session,
            codec: Codec::new(codec),
            metric_codecs,
            hooks,
            connections,
            max_plan_bytes,
            queries: DashMap::new(),
            changed: watch::Sender::new(()),
            draining: AtomicBool::new(false),
        }
    }

    /// Begins to take part in a query.
    pub(crate) fn begin(self: &Arc<Self>, hello: &Hello, up: Up) -> Result<Arc<WorkerQuery>> {
        if self.draining.load(Ordering::Acquire) {
            return exec_err!("this worker is shutting down and takes no new query");
        }
        let id = QueryId::from_slice(&hello.query_id).ok_or_else(|| {
            plan_datafusion_err!(
                "expected a query id of 16 bytes, found {}",
                hello.query_id.len()
            )
        })?;
        let query = Arc::new(WorkerQuery::new(self, id, hello, up)?);
        match self.queries.entry(id) {
            Entry::Occupied(_) => exec_err!("query {id} has a control stream to this worker"),
            Entry::Vacant(vacant) => {
                vacant.insert(Arc::clone(&query));
                self.changed.send_replace(());
                Ok(query)
            }
        }
    }

    pub(crate) fn forget(&self, id: QueryId) {
        self.queries.remove(&id);
        self.changed.send_replace(());
    }

    pub(crate) fn query(&self, id: QueryId) -> Option<Arc<WorkerQuery>> {
        self.queries.get(&id).map(|query| Arc::clone(&query))
    }

    pub(crate) fn queries(&self) -> Vec<Arc<WorkerQuery>> {
        self.queries
            .iter()
            .map(|query| Arc::clone(&query))
            .collect()
    }

    /// The task behind `key`.
    ///
    /// # Errors
    /// Says whether the query or the task is what is unknown.
    pub(crate) fn task(&self, key: &TaskKey) -> Result<(Arc<WorkerQuery>, Arc<Task>)> {
        let Some(query) = self.query(key.query_id) else {
            return exec_err!(
                "{QUERY_GONE}{}: it has ended, or was never here",
                key.query_id
            );
        };
        let Some(task) = query.tasks.get(key).map(|task| Arc::clone(&task)) else {
            return exec_err!(
                "query {} has no task {key} (attempt {}) on this worker",
                key.query_id,
                key.attempt
            );
        };
        Ok((query, task))
    }

    /// Of requests that belong to no query.
    pub(crate) fn trace_detail(&self) -> TraceDetail {
        FlightpathConfig::of(self.session.config().options()).trace_detail
    }

    /// Takes no new query from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Waits until no query is left.
    pub(crate) async fn idle(&self) {
        let mut changed = self.changed.subscribe();
        while !self.queries.is_empty() {
            // The sender is in `self`.
            let _ = changed.changed().await;
        }
    }
}

/// One query, on this worker.
#[derive(Debug)]
pub(crate) struct WorkerQuery {
    pub(crate) id: QueryId,
    /// By what name the others reach this worker.
    pub(crate) url: String,
    pub(crate) config: FlightpathConfig,
    /// Settings and functions of the worker's session, with the query's settings over them.
    context: Arc<TaskContext>,
    reader: StreamReader,
    pub(crate) tasks: DashMap<TaskKey, Arc<Task>>,
    up: Up,
    /// Messages of tasks that failed or ended, and are not sent yet.
    pub(super) reporting: Going,
    /// Those of failures, which go before reports: with the last report a stage has ended.
    failing: Going,
}

impl WorkerQuery {
    fn new(registry: &Arc<Registry>, id: QueryId, hello: &Hello, up: Up) -> Result<Self> {
        let context = TaskContext::from(&registry.session);
        let mut config = context.session_config().clone();
        settings::apply(&hello.settings, config.options_mut())?;
        let flightpath = FlightpathConfig::of(config.options());
        let reader = StreamReader {
            query_id: id,
            routes: Arc::default(),
            connections: registry.connections.clone(),
            config: flightpath.clone(),
            hooks: Arc::clone(&registry.hooks),
            local: Some(Arc::new(Here {
                url: hello.url.clone(),
                registry: Arc::downgrade(registry),
            })),
        };
        Ok(Self {
            id,
            url: hello.url.clone(),
            config: flightpath,
            context: Arc::new(context.with_session_config(config)),
            reader,
            tasks: DashMap::new(),
            up,
            reporting: Going::default(),
            failing: Going::default(),
        })
    }

    /// Decodes a task and keeps it until somebody reads from it; `check` only decodes.
    pub(crate) fn accept(
        self: &Arc<Self>,
        registry: &Registry,
        message: proto::Task,
    ) -> Result<TaskKey> {
        let key = message
            .key
            .map(decode_key)
            .transpose()?
            .ok_or_else(|| plan_datafusion_err!("expected a task with a key"))?;
        if key.query_id != self.id {
            return exec_err!(
                "task {key} is of query {}, not of {}",
                key.query_id,
                self.id
            );
        }
        let (size, limit) = (message.plan.len(), registry.max_plan_bytes);
        if size > limit {
            return resources_err!(
                "the plan of task {key} takes {size} bytes, and this worker allows {limit}"
            );
        }
        let plan = decode(&message.plan, &registry.codec, &self.context)?;
        if message.check {
            return Ok(key);
        }
        for route in message.routes {
            self.reader.routes.add(route.stage as usize, route.workers);
        }
        let headers: Headers = headers_from_proto(message.headers);
        let trace = TraceOptions {
            detail: match message.trace_detail.as_str() {
                "" => self.config.trace_detail,
                detail => detail.parse()?,
            },
            ..self.config.trace_options()
        };
        let span = match trace.detail {
            TraceDetail::Query | TraceDetail::Stage => Span::none(),
            _ => self.task_span(&key),
        };
        let span = registry.hooks.task_span(span, &key, &headers);
        let streams = Going::default();
        let plan = {
            let _inside = span.enter();
            caught("wrapping a plan", || {
                let task = Some((&key, &headers));
                let plan = registry.hooks.wrap_plan(plan, task, trace)?;
                stoppable(plan, &streams)
            })?
        };
        let ends = Ends {
            query: Arc::downgrade(self),
            codecs: registry.metric_codecs.clone(),
            hooks: Arc::clone(&registry.hooks),
        };
        let mut reader = self.reader.clone();
        reader.config.trace_detail = trace.detail;
        // One context of its own for each task: what runs under it is that task's.
        let config = self.context.session_config().clone();
        let config = config.with_extension(Arc::new(ExchangeHandle(Arc::new(reader))));
        let context = settings::derived(&self.context, config, Some(key.to_string()));
        let task = Task::new(key, plan, streams, Arc::new(context), span, Arc::new(ends));
        match self.tasks.entry(key) {
            Entry::Occupied(_) => exec_err!("task {key} is here already"),
            Entry::Vacant(vacant) => {
                vacant.insert(Arc::new(task));
                Ok(key)
            }
        }
    }

    fn task_span(&self, key: &TaskKey) -> Span {
        let span = tracing::info_span!(
            parent: None,
            "task",
            flightpath.query.id = tracing::field::Empty,
            flightpath.stage.id = number(key.stage),
            flightpath.task.index = number(key.task),
            flightpath.task.attempt = number(key.attempt),
            flightpath.worker.url = self.url,
            flightpath.task.status = tracing::field::Empty,
            flightpath.task.output_rows = tracing::field::Empty,
            flightpath.task.output_bytes = tracing::field::Empty,
            "error.type" = tracing::field::Empty,
            otel.status_code = tracing::field::Empty,
            otel.status_description = tracing::field::Empty,
        );
        if !span.is_disabled() {
            span.record("flightpath.query.id", tracing::field::display(self.id));
        }
        span
    }

    /// Sends a message to the coordinator. If it is gone, nobody misses it.
    pub(crate) async fn tell(&self, message: UpKind) {
        let _gone = self.up.send(Ok(message.into())).await;
    }

    /// Stops tasks: all, or those that `which` picks. Returns how many were still going.
    pub(crate) fn stop(&self, reason: &str, which: impl Fn(&TaskKey) -> bool) -> usize {
        let tasks: Vec<Arc<Task>> = self
            .tasks
            .iter()
            .filter(|task| which(&task.key))
            .map(|task| Arc::clone(&task))
            .collect();
        tasks.iter().filter(|task| task.stop(reason)).count()
    }

    /// What the tasks have done, for the coordinator.
    pub(crate) fn progress(&self) -> Vec<proto::Progress> {
        let running = self.tasks.iter();
        let running = running.map(|task| (task.key, task.progress()));
        running
            .filter(|(_, progress)| progress.status == "running")
            .map(|(key, progress)| proto::Progress {
                key: Some(encode_key(&key)),
                rows: progress.rows,
                bytes: progress.bytes,
                started_micros: progress.started_micros,
            })
            .collect()
    }

    pub(crate) fn origin(&self, key: &TaskKey) -> Origin {
        Origin::of(&self.url, key)
    }
}

/// Tells the coordinator what becomes of tasks.
struct Ends {
    query: std::sync::Weak<WorkerQuery>,
    codecs: MetricCodecs,
    hooks: Arc<dyn Hooks>,
}

impl TaskEnds for Ends {
    fn began(&self, key: &TaskKey) {
        self.hooks.task_begins(key);
    }

    fn failed(&self, key: &TaskKey, error: &DataFusionError) {
        let Some(query) = self.query.upgrade() else {
            return;
        };
        let failed = UpKind::Failed(Failed {
            key: Some(encode_key(key)),
            error: encode_error(error, Some(&query.origin(key))),
        });
        let going = [query.reporting.one(), query.failing.one()];
        spawn(async move {
            query.tell(failed).await;
            drop(going);
        });
    }

    fn ended(&self, task: &Arc<Task>) {
        let Some(query) = self.query.upgrade() else {
            return;
        };
        let (task, codecs) = (Arc::clone(task), self.codecs.clone());
        let hooks = Arc::clone(&self.hooks);
        let reporting = query.reporting.one();
        let span = task.span.clone();
        spawn(async move {
            // The span ends here: with the report, that of the stage may end.
            let report = task.report(hooks.as_ref()).instrument(span).await;
            query.failing.none().await;
            query
                .tell(UpKind::Report(encode_report(&report, &codecs)))
                .await;
            drop(reporting);
        });
    }
}

/// Runs on: it ends by itself, within the time that a reader of the control stream takes.
fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    // Streams are dropped by the runtime that drives them. Without one the worker is gone.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

/// Streams of tasks on this same worker.
#[derive(Debug)]
struct Here {
    url: String,
    registry: std::sync::Weak<Registry>,
}

impl LocalStreams for Here {
    fn local(
        &self,
        worker: &str,
        producer: &TaskKey,
        partition: usize,
        request: &ExchangeRequest<'_>,
        bytes: &Count,
    ) -> Option<Result<SendableRecordBatchStream>> {
        if worker != self.url {
            return None;
        }
        let registry = self.registry.upgrade()?;
        Some(local_stream(&registry, producer, partition, request, bytes))
    }
}

#[async_trait::async_trait]
impl Exchange for StreamReader {
    fn open(&self, request: &ExchangeRequest<'_>) -> Result<Vec<SendableRecordBatchStream>> {
        StreamReader::open(self, request)
    }

    async fn prepare(&self, _boundary: &NetworkBoundaryExec) -> Result<()> {
        Ok(())
    }
}
