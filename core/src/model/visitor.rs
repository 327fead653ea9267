//! Walking a distributed plan: every stage, every task, every node of every task.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;

use super::report::TaskReport;
use super::reports::QueryReports;
use super::staged::{BoundaryDetector, StageNode, StageView, StagedPlan};

/// One task, as a visitor meets it.
#[derive(Clone, Debug)]
pub struct TaskVisit<'a> {
    /// The stage whose plan it runs.
    pub stage: &'a StageView,
    /// Its place among the stage's tasks, from 0.
    pub task: usize,
    /// What it reported, if it has.
    pub report: Option<Arc<TaskReport>>,
}

/// One node in one task, as a visitor meets it.
#[derive(Clone, Debug)]
pub struct NodeVisit<'a> {
    /// The stage that the node belongs to.
    pub stage: &'a StageView,
    /// The task; `None` in the coordinator's part, which runs in no task.
    pub task: Option<usize>,
    /// The node, with its wrappers on.
    pub plan: &'a Arc<dyn ExecutionPlan>,
    /// The node as part of its stage.
    pub node: &'a StageNode,
    /// What this node measured in this task, as reported; in the coordinator's part, what it
    /// measured here. `None` if there is no report, or the report is of other nodes.
    pub metrics: Option<MetricsSet>,
}

/// What a pre-visit or post-visit says about how to go on.
///
/// [`Continue`](TreeNodeRecursion::Continue) goes on. [`Jump`](TreeNodeRecursion::Jump), from a
/// pre-visit, skips what is inside (the tasks and nodes of a stage, the nodes of a task, the inputs
/// of a node) and goes on with the post-visit; from a post-visit it is the same as `Continue`.
/// [`Stop`](TreeNodeRecursion::Stop) ends the walk at once, without further post-visits. An error
/// ends it likewise.
pub type Visited<E> = Result<TreeNodeRecursion, E>;

/// The visitor pattern for distributed plans, after DataFusion's
/// [`ExecutionPlanVisitor`](datafusion::physical_plan::ExecutionPlanVisitor).
///
/// Every method has a default, which goes on. For the plan
///
/// ```text
/// SortPreservingMergeExec
///   NetworkCoalesceExec: stage=1, tasks=2
///     SortExec
/// ```
///
/// the sequence of calls is:
///
/// ```text
/// pre_visit_stage(0)
///   pre_visit_node(SortPreservingMergeExec)
///     pre_visit_node(NetworkCoalesceExec)
///     post_visit_node(NetworkCoalesceExec)
///   post_visit_node(SortPreservingMergeExec)
/// post_visit_stage(0)
/// pre_visit_stage(1)
///   pre_visit_task(1.0)
///     pre_visit_node(SortExec)
///     post_visit_node(SortExec)
///   post_visit_task(1.0)
///   pre_visit_task(1.1)
///     ...
///   post_visit_task(1.1)
/// post_visit_stage(1)
/// ```
pub trait PlanVisitor {
    /// What visits fail with.
    type Error;

    /// Before what is inside a stage.
    fn pre_visit_stage(&mut self, _stage: &StageView) -> Visited<Self::Error> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// After what is inside a stage.
    fn post_visit_stage(&mut self, _stage: &StageView) -> Visited<Self::Error> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// Before the nodes of a task.
    fn pre_visit_task(&mut self, _task: &TaskVisit<'_>) -> Visited<Self::Error> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// After the nodes of a task.
    fn post_visit_task(&mut self, _task: &TaskVisit<'_>) -> Visited<Self::Error> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// Before the inputs of a node.
    fn pre_visit_node(&mut self, _node: &NodeVisit<'_>) -> Visited<Self::Error> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// After the inputs of a node.
    fn post_visit_node(&mut self, _node: &NodeVisit<'_>) -> Visited<Self::Error> {
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Shows a visitor each stage of a plan once, in it each task once, and in that each node once.
///
/// Stages come from the top down, one after the other and not inside each other: the coordinator's
/// part as stage 0, then the others from the highest id, so none comes before a stage that reads
/// it. Tasks come by number. Nodes come depth first, down to the boundaries of their stage; those
/// of the coordinator's part come without a task. All planned tasks come, whether or not they have
/// reported.
///
/// # Errors
/// That of a visit, or if two boundaries name one stage and do not mean the same.
pub fn visit_stages<V>(
    plan: &Arc<dyn ExecutionPlan>,
    reports: Option<&QueryReports>,
    visitor: &mut V,
) -> Result<(), V::Error>
where
    V: PlanVisitor<Error: From<DataFusionError>>,
{
    StagedPlan::try_new(plan)?.visit(reports, visitor)
}

/// [`visit_stages`] for plans with boundaries of other crates.
///
/// # Errors
/// That of a visit, or if two boundaries name one stage and do not mean the same.
pub fn visit_stages_with<V>(
    plan: &Arc<dyn ExecutionPlan>,
    detector: &dyn BoundaryDetector,
    reports: Option<&QueryReports>,
    visitor: &mut V,
) -> Result<(), V::Error>
where
    V: PlanVisitor<Error: From<DataFusionError>>,
{
    StagedPlan::with_detector(plan, detector)?.visit(reports, visitor)
}

impl StagedPlan {
    /// See [`visit_stages`].
    ///
    /// # Errors
    /// That of a visit.
    pub fn visit<V: PlanVisitor>(
        &self,
        reports: Option<&QueryReports>,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        for stage in self.stages() {
            if visit_stage(stage, reports, visitor)? == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(())
    }
}

fn visit_stage<V: PlanVisitor>(
    stage: &StageView,
    reports: Option<&QueryReports>,
    visitor: &mut V,
) -> Visited<V::Error> {
    let inside = |visitor: &mut V| {
        if stage.is_coordinator() {
            return visit_nodes(stage, None, None, visitor);
        }
        for task in 0..stage.tasks {
            let task = TaskVisit {
                stage,
                task,
                report: reports.and_then(|reports| reports.report(stage.id, task)),
            };
            if visit_task(&task, visitor)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    };
    let pre = visitor.pre_visit_stage(stage)?;
    around(visitor, pre, inside, |visitor| {
        visitor.post_visit_stage(stage)
    })
}

fn visit_task<V: PlanVisitor>(task: &TaskVisit<'_>, visitor: &mut V) -> Visited<V::Error> {
    let report = task.report.as_deref();
    let report = report.filter(|report| task.stage.matches(report));
    let pre = visitor.pre_visit_task(task)?;
    around(
        visitor,
        pre,
        |visitor| visit_nodes(task.stage, Some(task.task), report, visitor),
        |visitor| visitor.post_visit_task(task),
    )
}

fn visit_nodes<V: PlanVisitor>(
    stage: &StageView,
    task: Option<usize>,
    report: Option<&TaskReport>,
    visitor: &mut V,
) -> Visited<V::Error> {
    let visits = stage
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| NodeVisit {
            stage,
            task,
            plan: &node.plan,
            node,
            metrics: match task {
                Some(_) => report.map(|report| report.nodes[index].metrics.clone()),
                None => node.plan.metrics(),
            },
        });
    // Nodes whose inputs are being visited.
    let mut open: Vec<NodeVisit<'_>> = Vec::new();
    let mut skip_below = None;
    for visit in visits {
        let depth = visit.node.depth;
        if skip_below.is_some_and(|skip| depth > skip) {
            continue;
        }
        if close(&mut open, depth, visitor)? == TreeNodeRecursion::Stop {
            return Ok(TreeNodeRecursion::Stop);
        }
        skip_below = match visitor.pre_visit_node(&visit)? {
            TreeNodeRecursion::Continue => None,
            TreeNodeRecursion::Jump => Some(depth),
            TreeNodeRecursion::Stop => return Ok(TreeNodeRecursion::Stop),
        };
        open.push(visit);
    }
    close(&mut open, 0, visitor)
}

/// Post-visits open nodes, innermost first, until one is above `depth`.
fn close<V: PlanVisitor>(
    open: &mut Vec<NodeVisit<'_>>,
    depth: usize,
    visitor: &mut V,
) -> Visited<V::Error> {
    while let Some(visit) = open.pop_if(|visit| visit.node.depth >= depth) {
        if visitor.post_visit_node(&visit)? == TreeNodeRecursion::Stop {
            return Ok(TreeNodeRecursion::Stop);
        }
    }
    Ok(TreeNodeRecursion::Continue)
}

/// What comes after a pre-visit that answered `pre`: what is inside, then the post-visit.
fn around<V: PlanVisitor>(
    visitor: &mut V,
    pre: TreeNodeRecursion,
    inside: impl FnOnce(&mut V) -> Visited<V::Error>,
    post: impl FnOnce(&mut V) -> Visited<V::Error>,
) -> Visited<V::Error> {
    let visited = match pre {
        TreeNodeRecursion::Continue => inside(visitor)?,
        TreeNodeRecursion::Jump => TreeNodeRecursion::Continue,
        TreeNodeRecursion::Stop => TreeNodeRecursion::Stop,
    };
    match visited {
        TreeNodeRecursion::Stop => Ok(TreeNodeRecursion::Stop),
        _ => post(visitor),
    }
}
