//! SQL whose span covers planning and execution.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{
    SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext,
};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use flightpath_core::{
    QuerySpan, TransparentWrapper, kind_of, query_span, transparent_execution_plan,
};
use futures::StreamExt;
use tracing::{Instrument, Span};

/// SQL with a `query` span around planning and execution.
#[async_trait]
pub trait TracedSql {
    /// Like [`SessionContext::sql`], in a span of its own, which is a child of the current one. The
    /// text is not on it.
    async fn traced_sql(&self, text: &str) -> Result<DataFrame>;

    /// [`traced_sql`](Self::traced_sql), with the text on the span as `db.query.text`.
    async fn traced_sql_with_text(&self, text: &str) -> Result<DataFrame>;
}

#[async_trait]
impl TracedSql for SessionContext {
    async fn traced_sql(&self, text: &str) -> Result<DataFrame> {
        let span = query_span();
        let planned = plan(self, text, &span).await;
        planned.inspect_err(|error| failed(&span, error))
    }

    async fn traced_sql_with_text(&self, text: &str) -> Result<DataFrame> {
        let span = query_span();
        span.record("db.query.text", text);
        let planned = plan(self, text, &span).await;
        planned.inspect_err(|error| failed(&span, error))
    }
}

async fn plan(ctx: &SessionContext, text: &str, span: &Span) -> Result<DataFrame> {
    let state = ctx.state();
    let planning = tracing::info_span!(parent: span, "plan");
    let logical = state.create_logical_plan(text).instrument(planning.clone());
    let logical = logical.await?;
    if let LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) = logical {
        drop(planning);
        let changed = ctx.execute_logical_plan(logical);
        return changed.instrument(span.clone()).await;
    }
    Ok(DataFrame::new(in_span(state, span, planning), logical))
}

/// A session whose plans are made within `planning` and run within `span`.
fn in_span(state: SessionState, span: &Span, planning: Span) -> SessionState {
    let planner = PlannerInSpan {
        inner: Arc::clone(state.query_planner()),
        planning,
        query: span.clone(),
    };
    let mut state = SessionStateBuilder::new_from_existing(state)
        .with_query_planner(Arc::new(planner))
        .build();
    let extension = Arc::new(QuerySpan(span.clone()));
    state.config_mut().set_extension(extension);
    state
}

fn failed(span: &Span, error: &DataFusionError) {
    if !span.is_disabled() {
        span.record("error.type", kind_of(error));
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", error.strip_backtrace());
    }
}

#[derive(Debug)]
struct PlannerInSpan {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    planning: Span,
    query: Span,
}

#[async_trait]
impl QueryPlanner for PlannerInSpan {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session_state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planning = self
            .inner
            .create_physical_plan(logical_plan, session_state)
            .instrument(self.planning.clone());
        match planning.await {
            Ok(inner) => Ok(Arc::new(InQueryExec {
                inner,
                span: self.query.clone(),
            })),
            Err(error) => {
                failed(&self.query, &error);
                Err(error)
            }
        }
    }
}

/// A transparent wrapper around the root of a plan, which runs it in the query's span.
struct InQueryExec {
    inner: Arc<dyn ExecutionPlan>,
    span: Span,
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
            span: self.span.clone(),
        })
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let stream = self
            .span
            .in_scope(|| self.inner.execute(partition, context))
            .inspect_err(|error| failed(&self.span, error))?;
        let span = self.span.clone();
        let stream = futures::stream::unfold(stream, move |mut stream| {
            let inside = span.clone();
            async move {
                let item = stream.next().await?;
                if let Err(error) = &item {
                    failed(&Span::current(), error);
                }
                Some((item, stream))
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
