//! A plan, seen as its stages.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::physical_plan::{ExecutionPlan, displayable};

use super::boundary::{BoundaryKind, NetworkBoundaryExt};
use super::report::TaskReport;
use super::stage::Stage;
use super::wrapper::innermost;

/// A boundary as everything that looks at plans sees it, whichever crate defines its node.
#[derive(Clone, Debug)]
pub struct BoundaryView {
    /// What `EXPLAIN` shows, such as `NetworkShuffleExec`.
    pub name: String,
    /// What it does with rows.
    pub kind: BoundaryKind,
    /// Id of the stage that it reads, from 1.
    pub stage: usize,
    /// In how many tasks that stage runs.
    pub tasks: usize,
    /// The plan of that stage.
    pub input: Arc<dyn ExecutionPlan>,
}

/// Tells which nodes are boundaries.
///
/// With it, node types of other crates take part in everything that looks at stages. A detector
/// is shown each node with its wrappers on; `is` and `downcast_ref` look through them.
pub trait BoundaryDetector: Send + Sync {
    /// The boundary that `node` is or wraps, if it is one and its input is at hand.
    fn detect(&self, node: &dyn ExecutionPlan) -> Option<BoundaryView>;
}

/// Detects [`NetworkBoundaryExec`](super::boundary::NetworkBoundaryExec).
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkBoundaries;

impl BoundaryDetector for NetworkBoundaries {
    fn detect(&self, node: &dyn ExecutionPlan) -> Option<BoundaryView> {
        let boundary = node.as_network_boundary()?;
        let stage = boundary.stage()?;
        Some(BoundaryView {
            name: boundary.boundary().name().to_owned(),
            kind: boundary.boundary().kind(),
            stage: stage.id,
            tasks: stage.tasks,
            input: stage.plan,
        })
    }
}

/// One node of a stage.
#[derive(Clone, Debug)]
pub struct StageNode {
    /// The node, with its wrappers on.
    pub plan: Arc<dyn ExecutionPlan>,
    /// How far below the top of the stage it is.
    pub depth: usize,
    /// What it reads, if it is a boundary. The stage ends here.
    pub boundary: Option<BoundaryView>,
}

impl StageNode {
    /// Name of the node behind all wrappers.
    pub fn name(&self) -> &str {
        innermost(self.plan.as_ref()).name()
    }
}

/// One stage of a plan, down to and including the boundaries that it reads through.
#[derive(Clone, Debug)]
pub struct StageView {
    /// Unique in the plan; 0 for the part that the coordinator runs itself.
    pub id: usize,
    /// The top of the stage.
    pub plan: Arc<dyn ExecutionPlan>,
    /// In how many tasks it runs on workers: 0 for the coordinator's part.
    pub tasks: usize,
    /// The boundary that reads it; `None` for the coordinator's part. Of several, the first.
    pub boundary: Option<BoundaryView>,
    /// Its nodes in pre-order. In this order, tasks report metrics.
    pub nodes: Vec<StageNode>,
}

impl StageView {
    fn coordinator(plan: &Arc<dyn ExecutionPlan>, detector: &dyn BoundaryDetector) -> Self {
        Self {
            id: 0,
            plan: Arc::clone(plan),
            tasks: 0,
            boundary: None,
            nodes: stage_nodes(plan, detector),
        }
    }

    fn remote(boundary: BoundaryView, detector: &dyn BoundaryDetector) -> Self {
        Self {
            id: boundary.stage,
            plan: Arc::clone(&boundary.input),
            tasks: boundary.tasks,
            nodes: stage_nodes(&boundary.input, detector),
            boundary: Some(boundary),
        }
    }

    /// Whether this is the part that the coordinator runs itself.
    pub fn is_coordinator(&self) -> bool {
        self.boundary.is_none()
    }

    /// Whether a task that reported these nodes ran this plan. Only then is the metrics of its
    /// n-th node that of the n-th node here.
    pub fn matches(&self, report: &TaskReport) -> bool {
        let names = self.nodes.iter().map(StageNode::name);
        report.key.stage == self.id && names.eq(report.nodes.iter().map(|node| &*node.name))
    }

    /// The boundaries that this stage reads through.
    pub fn inputs(&self) -> impl DoubleEndedIterator<Item = &BoundaryView> {
        self.nodes.iter().filter_map(|node| node.boundary.as_ref())
    }
}

/// A plan, cut at its boundaries: every stage once, however many boundaries read it.
#[derive(Clone, Debug)]
pub struct StagedPlan(Vec<StageView>);

impl StagedPlan {
    /// The stages of a plan.
    ///
    /// # Errors
    /// If two boundaries name one stage and do not mean the same.
    pub fn try_new(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::with_detector(plan, &NetworkBoundaries)
    }

    /// The stages of a plan with boundaries of other crates. Flightpath's own are known anyway.
    ///
    /// # Errors
    /// If two boundaries name one stage and do not mean the same.
    pub fn with_detector(
        plan: &Arc<dyn ExecutionPlan>,
        detector: &dyn BoundaryDetector,
    ) -> Result<Self> {
        let coordinator = StageView::coordinator(plan, detector);
        let mut remote = BTreeMap::<usize, StageView>::new();
        let mut pending: Vec<_> = coordinator.inputs().rev().cloned().collect();
        while let Some(boundary) = pending.pop() {
            if boundary.stage == 0 {
                return plan_err!(
                    "{} reads stage 0, which is what runs on the coordinator",
                    boundary.name
                );
            }
            match remote.entry(boundary.stage) {
                Entry::Occupied(known) => check_same(known.get(), &boundary)?,
                Entry::Vacant(entry) => {
                    let stage = entry.insert(StageView::remote(boundary, detector));
                    pending.extend(stage.inputs().rev().cloned());
                }
            }
        }
        let stages = std::iter::once(coordinator).chain(remote.into_values().rev());
        Ok(Self(stages.collect()))
    }

    /// All stages, from the top down: the coordinator's part, then the others from the highest
    /// id. Inputs have lower ids than what reads them, so none comes before a reader of its own.
    pub fn stages(&self) -> &[StageView] {
        &self.0
    }

    /// The stages that run on workers, from the lowest id.
    pub fn remote(&self) -> impl Iterator<Item = &StageView> {
        self.0.iter().rev().filter(|stage| !stage.is_coordinator())
    }
}

/// The stages that run on workers, sorted by id.
///
/// # Errors
/// If two boundaries name one stage and do not mean the same.
pub fn stages(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Stage>> {
    let staged = StagedPlan::try_new(plan)?;
    let stages = staged.remote().map(|stage| Stage {
        id: stage.id,
        plan: Arc::clone(&stage.plan),
        tasks: stage.tasks,
    });
    Ok(stages.collect())
}

/// The nodes of one stage in pre-order, boundaries as leaves.
pub(crate) fn stage_nodes(
    plan: &Arc<dyn ExecutionPlan>,
    detector: &dyn BoundaryDetector,
) -> Vec<StageNode> {
    let mut nodes = Vec::new();
    let mut pending = vec![(plan, 0)];
    while let Some((node, depth)) = pending.pop() {
        let boundary = detector
            .detect(node.as_ref())
            .or_else(|| NetworkBoundaries.detect(node.as_ref()));
        if boundary.is_none() {
            let children = node.children().into_iter().rev();
            pending.extend(children.map(|child| (child, depth + 1)));
        }
        nodes.push(StageNode {
            plan: Arc::clone(node),
            depth,
            boundary,
        });
    }
    nodes
}

fn check_same(known: &StageView, boundary: &BoundaryView) -> Result<()> {
    let id = known.id;
    if known.tasks != boundary.tasks {
        return plan_err!(
            "stage {id} has {} tasks in one place and {} in another",
            known.tasks,
            boundary.tasks
        );
    }
    if !is_same(&known.plan, &boundary.input) {
        return plan_err!(
            "two different plans are named stage {id}: {} and {}",
            one_line(&known.plan),
            one_line(&boundary.input)
        );
    }
    Ok(())
}

/// Whether two plans do the same work: they are one plan, or were one until a rule that knows
/// nothing of stages rebuilt each copy from the same leaves.
fn is_same(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>) -> bool {
    let address = |plan: &Arc<dyn ExecutionPlan>| std::ptr::from_ref(innermost(plan.as_ref()));
    if std::ptr::addr_eq(address(left), address(right)) {
        return true;
    }
    let (ours, theirs) = (left.children(), right.children());
    !ours.is_empty()
        && ours.len() == theirs.len()
        && one_line(left) == one_line(right)
        && ours.into_iter().zip(theirs).all(|(l, r)| is_same(l, r))
}

/// A node as `EXPLAIN` shows it, without its inputs.
pub(crate) fn one_line(plan: &Arc<dyn ExecutionPlan>) -> String {
    let shown = displayable(plan.as_ref()).one_line().to_string();
    shown.lines().collect::<Vec<_>>().join(" ")
}
