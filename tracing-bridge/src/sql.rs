//! SQL whose span covers planning and execution.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use flightpath_core::{
    DistributedExec, FlightpathConfig, QuerySpan, TraceDetail, TraceOptions, TransparentWrapper,
    transparent_execution_plan,
};
use futures::StreamExt;
use tracing::Instrument;

use crate::operator::Instrumentation;
use crate::outcome::is_sampled;
use crate::planning::Planning;

/// SQL with a `query` span around planning and execution.
#[async_trait]
pub trait TracedSql {
    /// Like [`SessionContext::sql`], in a span of its own, which is a child of the current one.
    ///
    /// A query that runs here, on no worker, has spans of its operators too. What they show is set
    /// with `flightpath.trace_detail` and the settings beside it; the text is on the span, as
    /// `db.query.text`, only with `flightpath.trace_sql`.
    ///
    /// # Errors
    /// Those of [`SessionContext::sql`]; they are on the span as well.
    async fn traced_sql(&self, text: &str) -> Result<DataFrame>;

    /// [`traced_sql`](Self::traced_sql) for SQL that has been parsed.
    ///
    /// # Errors
    /// Those of planning; they are on the span as well.
    async fn traced_statement(&self, statement: Statement) -> Result<DataFrame>;
}

#[async_trait]
impl TracedSql for SessionContext {
    async fn traced_sql(&self, text: &str) -> Result<DataFrame> {
        let asked = Asked::new(self, || text.to_string());
        let dialect = asked.state.config_options().sql_parser.dialect;
        let statement = asked.state.sql_to_statement(text, &dialect);
        asked.plan(self, statement).await
    }

    async fn traced_statement(&self, statement: Statement) -> Result<DataFrame> {
        let asked = Asked::new(self, || statement.to_string());
        asked.plan(self, Ok(statement)).await
    }
}

/// A query that has been asked, and not planned.
struct Asked {
    state: SessionState,
    config: FlightpathConfig,
    spans: Planning,
}

impl Asked {
    fn new(ctx: &SessionContext, text: impl FnOnce() -> String) -> Self {
        let query = QuerySpan::open();
        let state = ctx.state();
        let config = FlightpathConfig::of(state.config_options());
        if config.trace_sql && is_sampled(query.span()) {
            query.span().record("db.query.text", text());
        }
        let plan = tracing::info_span!(parent: query.span(), "plan");
        Self {
            state,
            config,
            spans: Planning { query, plan },
        }
    }

    async fn plan(self, ctx: &SessionContext, statement: Result<Statement>) -> Result<DataFrame> {
        let Self {
            mut state,
            config,
            spans,
        } = self;
        let planning = async { state.statement_to_plan(statement?).await };
        let planned = planning.instrument(spans.plan.clone()).await;
        let logical = planned.inspect_err(|error| spans.failed(error))?;
        let query = spans.query.clone();
        if let LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) = logical {
            let changed = ctx.execute_logical_plan(logical);
            let changed = changed.instrument(query.span().clone()).await;
            return changed.inspect_err(|error| query.failed(error));
        }
        if query.span().is_disabled() {
            return Ok(DataFrame::new(state, logical));
        }
        state.config_mut().set_extension(Arc::new(query.clone()));
        let trace = config.trace_options();
        let budget = config.trace_span_budget;
        let finish = move |plan| in_query(plan, trace, budget, &query);
        Ok(DataFrame::new(spans.session(state, trace, finish), logical))
    }
}

/// The plan within the query's span; with spans of operators where no worker has a part in it.
fn in_query(
    plan: Arc<dyn ExecutionPlan>,
    trace: TraceOptions,
    budget: usize,
    query: &QuerySpan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wanted = trace.detail >= TraceDetail::Operator && is_sampled(query.span());
    let nodes = nodes(&plan).filter(|_| wanted);
    let inner = match nodes {
        Some(nodes) if nodes > budget => {
            query.span().record("flightpath.trace.truncated", true);
            plan
        }
        Some(_) => Instrumentation::try_new(Arc::default())?.wrap(plan, trace)?,
        None => plan,
    };
    Ok(Arc::new(InQueryExec {
        inner,
        query: query.clone(),
    }))
}

/// How many nodes a plan has that runs here; `None` if workers have a part in it.
fn nodes(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if plan.is::<DistributedExec>() {
        return None;
    }
    let children = plan.children().into_iter();
    children
        .map(nodes)
        .try_fold(1, |sum, below| Some(sum + below?))
}

/// A transparent wrapper around the root of a plan, which runs it in the query's span.
struct InQueryExec {
    inner: Arc<dyn ExecutionPlan>,
    query: QuerySpan,
}

impl fmt::Debug for InQueryExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InQueryExec").field(&self.inner).finish()
    }
}

impl TransparentWrapper for InQueryExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self {
            inner,
            query: self.query.clone(),
        })
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let query = self.query.clone();
        let stream = (query.span())
            .in_scope(|| self.inner.execute(partition, context))
            .inspect_err(|error| query.failed(error))?;
        let stream = futures::stream::unfold((stream, query), |(mut stream, query)| {
            let inside = query.span().clone();
            async move {
                let item = stream.next().await?;
                let item = item.inspect_err(|error| query.failed(error));
                Some((item, (stream, query)))
            }
            .instrument(inside)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.inner.schema(),
            stream,
        )))
    }
}

transparent_execution_plan!(InQueryExec);
