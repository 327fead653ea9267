//! One span for each node of each task, with its metrics as numbers, its errors and its links.
//!
//! datafusion-tracing's `InstrumentedExec` opens one span per execution *while a stream of it is
//! alive*, so partitions that run one after the other would get one each. Two shells around it help:
//!
//! ```text
//! OperatorExec            keeps the span until the last partition or the end of the task
//!   InstrumentedExec      opens the span, and enters it whenever the node works
//!     EntryExec           is run inside that span: here it is found, and errors are seen
//!       the node
//! ```

mod links;
mod preview;
mod shells;
mod span;

pub(crate) use links::Links;

use std::any::{Any, TypeId};
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_tracing::{InstrumentationOptions, new_instrument_rule};
use flightpath_core::{MetricsWrapperExec, NetworkBoundaryExt, TraceOptions, find_layer, layers};
use tracing::field::Empty;

use shells::{EntryExec, OperatorExec};
use span::OperatorSpan;

/// Gives every node of a plan its span.
#[derive(Debug)]
pub(crate) struct Instrumentation {
    /// Of `InstrumentedExec`, which has no public name.
    instrumented: TypeId,
    links: Arc<Links>,
}

impl Instrumentation {
    pub(crate) fn try_new(links: Arc<Links>) -> Result<Self> {
        let sample = EmptyExec::new(Arc::new(datafusion::arrow::datatypes::Schema::empty()));
        let rule = rule(TraceOptions::default());
        let sample = rule.optimize(Arc::new(sample), &ConfigOptions::default())?;
        Ok(Self {
            instrumented: (sample.as_ref() as &dyn Any).type_id(),
            links,
        })
    }

    /// The plan with a span for each node down to its boundaries. Nodes that an instrument rule of
    /// the session has wrapped already keep the spans that it gives them.
    pub(crate) fn wrap(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        trace: TraceOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut spans = vec![];
        let entered = self.enter(plan, &mut spans)?;
        if let Some(topmost) = find_layer::<EntryExec>(entered.as_ref()).and_then(EntryExec::span) {
            topmost.ends(&spans);
        }
        // Last, because the rule would wrap once more.
        rule(trace)
            .optimize(entered, &ConfigOptions::default())?
            .transform_up(|node| {
                let entry = find_layer::<EntryExec>(node.as_ref());
                Ok(match entry.and_then(EntryExec::span) {
                    Some(span) => Transformed::yes(Arc::new(OperatorExec::new(node, span))),
                    None => Transformed::no(node),
                })
            })
            .data()
    }

    fn enter(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        spans: &mut Vec<Arc<OperatorSpan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let boundary = plan.as_network_boundary().is_some();
        let plan = if boundary {
            plan
        } else {
            let children = plan.children().into_iter().cloned();
            let children = children
                .map(|child| self.enter(child, spans))
                .collect::<Result<_>>()?;
            replace_children_if_necessary(plan, children)?
        };
        let is_instrumented =
            |layer: &dyn ExecutionPlan| (layer as &dyn Any).type_id() == self.instrumented;
        if layers(plan.as_ref()).any(is_instrumented) {
            // The rule looks at the outermost layer only.
            let outermost = (plan.as_ref() as &dyn Any).downcast_ref::<MetricsWrapperExec>();
            return Ok(outermost.map_or(&plan, MetricsWrapperExec::inner).clone());
        }
        let span = Arc::new(OperatorSpan::new(&plan, Arc::clone(&self.links)));
        let entry = EntryExec::new(plan, Arc::downgrade(&span));
        // Alive until the outer shells hold them.
        spans.push(span);
        Ok(Arc::new(entry))
    }
}

/// What every operator's span has; `InstrumentedExec` fills the fields in.
macro_rules! operator_span {
    ($($more:tt)*) => {
        tracing::info_span!(
            "operator",
            otel.name = Empty,
            datafusion.partitioning = Empty,
            datafusion.emission_type = Empty,
            datafusion.boundedness = Empty,
            $($more)*
        )
    };
}

fn rule(trace: TraceOptions) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let open = match (trace.sql, trace.preview_rows) {
        (false, 0) => || operator_span!(),
        (true, 0) => || operator_span!(datafusion.node = Empty),
        (false, _) => || operator_span!(datafusion.preview = Empty),
        (true, _) => || operator_span!(datafusion.node = Empty, datafusion.preview = Empty),
    };
    let options = InstrumentationOptions::builder()
        .preview_limit(trace.preview_rows)
        .preview_fn(Arc::new(preview::preview))
        .build();
    new_instrument_rule(Arc::new(open), options)
}
