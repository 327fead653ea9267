//! A plan that stays here, and says why.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use crate::model::forward::TransparentWrapper;
use crate::model::wrapper::find_layer;
use crate::transparent_execution_plan;

/// A transparent wrapper around the root of a plan that runs locally; its display appends
/// `flightpath=local (reason)`.
#[derive(Clone, Debug)]
pub struct LocalExec {
    inner: Arc<dyn ExecutionPlan>,
    reason: String,
}

impl LocalExec {
    /// Marks `inner` as local because of `reason`.
    pub fn new(inner: Arc<dyn ExecutionPlan>, reason: impl Into<String>) -> Self {
        Self {
            inner,
            reason: reason.into(),
        }
    }

    /// Why the plan is not distributed.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl TransparentWrapper for LocalExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(inner, self.reason.clone()))
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)?;
        match format {
            DisplayFormatType::TreeRender => write!(f, "\nflightpath=local ({})", self.reason),
            _ => write!(f, ", flightpath=local ({})", self.reason),
        }
    }
}

transparent_execution_plan!(LocalExec);

/// Why `plan` is not distributed, if the planner left it local for a reason worth telling.
pub fn local_reason(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let own = find_layer::<LocalExec>(plan.as_ref()).map(|local| local.reason.clone());
    own.or_else(|| plan.children().into_iter().find_map(local_reason))
}
