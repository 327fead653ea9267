//! The optimizer rule that makes a plan a distributed one.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::coordinator::Parts;
use super::distribute::Distributor;
use super::local::LocalExec;
use crate::config::FlightpathConfig;
use crate::engine::distributed::DistributedExec;
use crate::model::pairing::wrap_stages;
use crate::model::staged::stages;
use crate::model::wrapper::find_layer;
use crate::wire::codec::Codec;
use crate::wire::plan::{check_sendable, narrow};

/// Cuts a plan into stages that run on workers, and puts a [`DistributedExec`] on top.
///
/// The last physical optimizer rule of a session, so that `EXPLAIN` shows what will run. It never
/// fails a query: what cannot be distributed stays as it is, with the reason in its display.
#[derive(Debug)]
pub struct DistributedRule {
    parts: Parts,
}

impl DistributedRule {
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    fn distribute(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = FlightpathConfig::of(options);
        let workers = self.parts.workers()?.len();
        if workers == 0 {
            return plan_err!("there are no workers");
        }
        let mut distributor = Distributor {
            options,
            splitters: &self.parts.splitters,
            boundaries: &self.parts.boundaries,
            tasks: match config.tasks_per_stage {
                0 => workers,
                tasks => tasks,
            },
            stages: 0,
        };
        let root = distributor.root(plan)?;
        self.check(&root, &config)?;
        let root = wrap_stages(&root)?;
        let distributed = DistributedExec::new(root, Arc::clone(plan), self.parts.clone());
        SanityCheckPlan::new().optimize(Arc::new(distributed), options)
    }

    /// Checks that every stage arrives on a worker as it is.
    fn check(&self, root: &Arc<dyn ExecutionPlan>, config: &FlightpathConfig) -> Result<()> {
        let codec = Codec::remembering(self.parts.codec.clone());
        let context = TaskContext::default().with_runtime(Arc::clone(&self.parts.runtime));
        for stage in stages(root)? {
            let task = narrow(&stage.plan, 0, &self.parts.splitters)?;
            check_sendable(&task, &codec, &context, config.max_plan_bytes)?;
        }
        Ok(())
    }
}

impl PhysicalOptimizerRule for DistributedRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let enabled = FlightpathConfig::of(options).enabled;
        if !enabled || !scans(&plan) || is_planned(&plan) {
            return Ok(plan);
        }
        // What writes stays here, above the distributed part.
        if plan.is::<DataSinkExec>() {
            let inputs = plan.children().into_iter().cloned();
            let inputs = inputs
                .map(|input| self.optimize(input, options))
                .collect::<Result<_>>()?;
            return replace_children_if_necessary(plan, inputs);
        }
        Ok(self.distribute(&plan, options).unwrap_or_else(|error| {
            let reason = reason(&error);
            tracing::debug!(reason, "query stays local");
            Arc::new(LocalExec::new(plan, reason))
        }))
    }

    fn name(&self) -> &str {
        "DistributedRule"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The first line of an error, without what says which kind it is.
fn reason(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("Error during planning: ")
        .trim_start_matches("Internal error: ")
        .to_string()
}

fn is_planned(plan: &Arc<dyn ExecutionPlan>) -> bool {
    find_layer::<DistributedExec>(plan.as_ref()).is_some()
        || find_layer::<LocalExec>(plan.as_ref()).is_some()
        || plan.children().into_iter().any(is_planned)
}

/// Whether a plan reads anything.
fn scans(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    if children.is_empty() {
        return !(plan.is::<EmptyExec>()
            || plan.is::<PlaceholderRowExec>()
            || plan.is::<LazyMemoryExec>());
    }
    children.into_iter().any(scans)
}
