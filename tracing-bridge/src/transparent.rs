//! Foreign wrappers, made transparent.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use flightpath_core::{
    Headers, Hooks, TaskKey, TraceOptions, TransparentWrapper, layers, transparent_execution_plan,
};

/// Puts a wrapper around a node.
pub type Wrap = Arc<dyn Fn(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> + Send + Sync>;

/// A wrapper that knows nothing of being transparent, paired with the node that it hides.
///
/// Everything about the plan is asked of the node: children, properties, display, downcasts, so
/// that boundaries are found and rules see the plan as it is. Running it is asked of the wrapper.
/// A node that is made from this one comes back in a new wrapper of the same kind.
///
/// The wrapper must run the node that it was given, and keep its schema and partitions.
///
/// This also mends what datafusion-tracing's `InstrumentedExec` does under rules that run after it:
/// it takes whatever plan comes back for its node. Where a projection is pushed through the node, it
/// may end up on what is left of the projection and leave the node bare; where a filter removes
/// itself, it wraps the filter's input a second time. [`TracingHooks`](crate::TracingHooks) wraps
/// plans when they are about to run, so no rule comes after it.
pub struct TransparentExec {
    node: Arc<dyn ExecutionPlan>,
    wrapper: Arc<dyn ExecutionPlan>,
    wrap: Wrap,
}

impl TransparentExec {
    /// Wraps a node.
    pub fn new(node: Arc<dyn ExecutionPlan>, wrap: Wrap) -> Self {
        Self {
            wrapper: wrap(Arc::clone(&node)),
            node,
            wrap,
        }
    }

    /// The node that is wrapped.
    pub fn node(&self) -> &Arc<dyn ExecutionPlan> {
        &self.node
    }

    /// The foreign wrapper around it.
    pub fn wrapper(&self) -> &Arc<dyn ExecutionPlan> {
        &self.wrapper
    }
}

impl fmt::Debug for TransparentExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The wrapper shows the node as well, or not: that is its business.
        f.debug_struct("TransparentExec")
            .field("wrapper", &self.wrapper.name())
            .field("node", &self.node)
            .finish()
    }
}

impl TransparentWrapper for TransparentExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.node
    }

    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(inner, Arc::clone(&self.wrap)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.wrapper.execute(partition, context)
    }
}

transparent_execution_plan!(TransparentExec);

/// Wraps every node of a plan, across stages, without hiding any of them.
///
/// For a rule that may run more than once, see [`WrapEveryNode`].
///
/// # Errors
/// If a node does not take back its children.
pub fn wrap_every_node(
    plan: Arc<dyn ExecutionPlan>,
    wrap: impl Fn(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> + Send + Sync + 'static,
) -> Result<Arc<dyn ExecutionPlan>> {
    wrap_bare_nodes(plan, &(Arc::new(wrap) as Wrap))
}

fn wrap_bare_nodes(plan: Arc<dyn ExecutionPlan>, wrap: &Wrap) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if is_wrapped(node.as_ref(), wrap) {
            return Ok(Transformed::no(node));
        }
        let wrapped = TransparentExec::new(node, Arc::clone(wrap));
        Ok(Transformed::yes(Arc::new(wrapped)))
    })
    .data()
}

fn is_wrapped(node: &dyn ExecutionPlan, wrap: &Wrap) -> bool {
    layers(node)
        .filter_map(|layer| (layer as &dyn std::any::Any).downcast_ref::<TransparentExec>())
        .any(|layer| Arc::ptr_eq(&layer.wrap, wrap))
}

/// Wraps every node that it has not wrapped yet: as an optimizer rule of a session those of its plans, and among the
/// [`Hooks`] of a worker those of its tasks, since wrappers are not sent to workers.
///
/// As a rule it may run before or after plans are distributed: wrappers on boundaries stay, and nodes that other rules
/// add are wrapped when it runs again.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::physical_plan::ExecutionPlan;
/// use flightpath_core::{Coordinator, SessionStateBuilderExt, StaticWorkers, Worker};
/// use flightpath_tracing_bridge::WrapEveryNode;
/// # use datafusion::physical_plan::coop::CooperativeExec as MyWrapperExec;
///
/// # fn main() -> datafusion::common::Result<()> {
/// let wrap = |node: Arc<dyn ExecutionPlan>| Arc::new(MyWrapperExec::new(node)) as Arc<_>;
/// let every = Arc::new(WrapEveryNode::new("mine", wrap));
///
/// let worker = Worker::builder().with_hooks(every.clone()).build();
///
/// let workers = StaticWorkers::new(["http://127.0.0.1:50051"])?;
/// let state = SessionStateBuilder::new()
///     .with_default_features()
///     .with_flightpath(Coordinator::new(workers))
///     .with_physical_optimizer_rule(every)
///     .build();
/// # Ok(())
/// # }
/// ```
pub struct WrapEveryNode {
    name: String,
    wrap: Wrap,
}

impl WrapEveryNode {
    /// A rule with this name, as `EXPLAIN VERBOSE` shows it.
    pub fn new(
        name: impl Into<String>,
        wrap: impl Fn(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            wrap: Arc::new(wrap),
        }
    }
}

impl fmt::Debug for WrapEveryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WrapEveryNode").field(&self.name).finish()
    }
}

impl Hooks for WrapEveryNode {
    fn wrap_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _task: Option<(&TaskKey, &Headers)>,
        _trace: TraceOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        wrap_bare_nodes(plan, &self.wrap)
    }
}

impl PhysicalOptimizerRule for WrapEveryNode {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        wrap_bare_nodes(plan, &self.wrap)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
