//! The span of planning, and those of its phases and rules.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tracing::{RuleInstrumentationOptions, instrument_session_state};
use flightpath_core::{QuerySpan, TraceDetail, TraceOptions};
use tracing::field::Empty;
use tracing::{Instrument, Level, Span};

use crate::outcome::{failed, is_sampled};

/// The part of planning that makes a physical plan out of a logical one.
const PHYSICAL: &str = "create_physical_plan";

/// The spans of a query that is being planned.
#[derive(Clone, Debug)]
pub(crate) struct Planning {
    pub(crate) query: QuerySpan,
    pub(crate) plan: Span,
}

impl Planning {
    pub(crate) fn failed(&self, error: &DataFusionError) {
        failed(&self.plan, error);
        self.query.failed(error);
        self.ended();
    }

    /// Planning has come this far. A span ends when it is left for the last time, and phases that are
    /// children of this one do not enter it.
    fn ended(&self) {
        self.plan.in_scope(|| {});
    }

    /// A session that plans within these spans, and hands plans that are ready to `finish`.
    pub(crate) fn session(
        &self,
        state: SessionState,
        trace: TraceOptions,
        finish: impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>
        + Send
        + Sync
        + 'static,
    ) -> SessionState {
        let bare = Arc::clone(state.query_planner());
        let mut state = state;
        if !self.query.span().is_disabled() {
            state = self.watch_rules(state);
        }
        if is_sampled(self.query.span()) && trace.detail >= TraceDetail::Stage {
            state = self.trace_rules(state, trace);
        }
        let inner = match trace.sql {
            // With spans that hold both plans as text.
            true => Arc::clone(state.query_planner()),
            false => bare,
        };
        let planner = PlannerInSpan {
            inner,
            spans: self.clone(),
            texts: trace.sql,
            finish: Box::new(finish),
        };
        SessionStateBuilder::new_from_existing(state)
            .with_query_planner(Arc::new(planner))
            .build()
    }

    /// Rules whose failure is that of the query. Those of physical plans fail within the planner.
    fn watch_rules(&self, state: SessionState) -> SessionState {
        let analyzers = state.analyzer().rules.iter().map(|rule| {
            let rule = Watched(Arc::clone(rule), self.clone());
            Arc::new(rule) as Arc<dyn AnalyzerRule + Send + Sync>
        });
        let optimizers = state.optimizers().iter().map(|rule| {
            let rule = Watched(Arc::clone(rule), self.clone());
            Arc::new(rule) as Arc<dyn OptimizerRule + Send + Sync>
        });
        let (analyzers, optimizers) = (analyzers.collect(), optimizers.collect());
        let mut builder = SessionStateBuilder::from(state).with_optimizer_rules(optimizers);
        // Keeps what else an analyzer has.
        builder.analyzer().get_or_insert_default().rules = analyzers;
        builder.build()
    }

    fn trace_rules(&self, state: SessionState, trace: TraceOptions) -> SessionState {
        let options = match trace.detail >= TraceDetail::Operator {
            true => RuleInstrumentationOptions::full(),
            false => RuleInstrumentationOptions::phase_only(),
        };
        let options = match trace.sql {
            true => options.with_plan_diff(),
            false => options,
        };
        let rule_span = |name: &str| {
            tracing::info_span!("rule", otel.name = name, datafusion.plan_diff = Empty)
        };
        // A data frame is optimized outside of the span of its planning.
        let planning = self.plan.clone();
        let phase_span = move |name: &str| {
            let current = Span::current();
            let inside = current
                .metadata()
                .is_some_and(|metadata| metadata.name() == PHYSICAL);
            tracing::info_span!(
                parent: if inside { &current } else { &planning },
                "phase",
                otel.name = name,
                datafusion.effective_rules = Empty,
                datafusion.plan_diff = Empty,
                datafusion.optimizer.pass = Empty,
                datafusion.optimizer.max_passes = Empty,
            )
        };
        let (rule_span, phase_span) = (Arc::new(rule_span), Arc::new(phase_span));
        instrument_session_state(state, options, rule_span, phase_span, Level::INFO)
    }
}

/// A rule, and the spans that fail with it.
struct Watched<R: ?Sized>(Arc<R>, Planning);

impl<R: fmt::Debug + ?Sized> fmt::Debug for Watched<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl AnalyzerRule for Watched<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = self.0.analyze(plan, config);
        analyzed.inspect_err(|error| self.1.failed(error))
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

#[warn(clippy::missing_trait_methods)]
impl OptimizerRule for Watched<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    #[allow(deprecated, reason = "DataFusion still asks for it")]
    fn supports_rewrite(&self) -> bool {
        self.0.supports_rewrite()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let rewritten = self.0.rewrite(plan, config);
        rewritten.inspect_err(|error| {
            // Else DataFusion goes on without the rule.
            if !config.options().optimizer.skip_failed_rules {
                self.1.failed(error);
            }
        })
    }
}

type Finish = dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> + Send + Sync;

struct PlannerInSpan {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    spans: Planning,
    /// Whether `inner` opens a span of its own, which holds the plans as text.
    texts: bool,
    finish: Box<Finish>,
}

impl fmt::Debug for PlannerInSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlannerInSpan").field(&self.inner).finish()
    }
}

#[async_trait]
impl QueryPlanner for PlannerInSpan {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session_state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let span = match self.texts {
            true => self.spans.plan.clone(),
            false => tracing::info_span!(parent: &self.spans.plan, PHYSICAL),
        };
        let planning = self.inner.create_physical_plan(logical_plan, session_state);
        let planned = planning.instrument(span).await;
        let planned = planned
            .and_then(|plan| (self.finish)(plan))
            .inspect_err(|error| self.spans.failed(error));
        self.spans.ended();
        planned
    }
}
