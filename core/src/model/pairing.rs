//! Which node of the coordinator's plan a reported node is.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::boundary::NetworkBoundaryExt;
use super::metrics_wrapper::{MetricsWrapperExec, without_slot};
use super::report::TaskReport;
use super::slot::MetricsSlot;
use super::stage::QueryId;
use super::staged::{NetworkBoundaries, StageNode, StagedPlan, stage_nodes};
use super::wrapper::find_layer;
use crate::wire::metrics::label;

/// The slots of a stage's nodes, in the order in which its tasks report.
///
/// Made when the stage is encoded: rules that change the plan later do not shift the pairing.
#[derive(Clone, Debug)]
pub struct StageSlots {
    stage: usize,
    nodes: Vec<(String, Option<MetricsSlot>)>,
}

impl StageSlots {
    /// Pairs the nodes of `plan`, the plan of `stage` on the coordinator, down to its boundaries.
    pub fn new(stage: usize, plan: &Arc<dyn ExecutionPlan>) -> Self {
        let slot = |node: &StageNode| {
            find_layer::<MetricsWrapperExec>(node.plan.as_ref())
                .map(|wrapper| wrapper.slot().clone())
        };
        let nodes = stage_nodes(plan, &NetworkBoundaries);
        Self {
            stage,
            nodes: nodes
                .iter()
                .map(|node| (node.name().to_owned(), slot(node)))
                .collect(),
        }
    }

    /// Which stage.
    pub fn stage(&self) -> usize {
        self.stage
    }

    /// Makes the slots forget what earlier executions reported.
    pub fn begin(&self, query_id: QueryId) {
        for (_, slot) in &self.nodes {
            if let Some(slot) = slot {
                slot.begin(query_id);
            }
        }
    }

    /// Shows on each node what its copy in `plan` measures, which an execution runs in this process. If that has
    /// other nodes than these, it shows nothing anywhere.
    pub(crate) fn run_here(&self, query_id: QueryId, plan: &Arc<dyn ExecutionPlan>) {
        let nodes = stage_nodes(plan, &NetworkBoundaries);
        let names = self.nodes.iter().map(|(name, _)| name.as_str());
        if !names.eq(nodes.iter().map(StageNode::name)) {
            return;
        }
        for ((_, slot), node) in self.nodes.iter().zip(nodes) {
            if let Some(slot) = slot {
                // Its own wrapper would ask the slot again.
                slot.run(query_id, Arc::clone(without_slot(&node.plan)));
            }
        }
    }

    /// Puts the metrics of each reported node, labelled with stage and task, on the node that it
    /// is. If the report is of other nodes than these, or of another stage, it puts none anywhere
    /// and returns false.
    pub fn assign(&self, report: &TaskReport) -> bool {
        let names = self.nodes.iter().map(|(name, _)| name);
        let reported = report.nodes.iter().map(|node| &node.name);
        if report.key.stage != self.stage || !names.eq(reported) {
            return false;
        }
        for ((_, slot), node) in self.nodes.iter().zip(&report.nodes) {
            if let Some(slot) = slot {
                slot.record(report.key, label(node.metrics.clone(), report.key));
            }
        }
        true
    }
}

/// Puts a [`MetricsWrapperExec`] on every node that has none yet.
///
/// Other wrappers stay where they are, below it. The coordinator's own part has them too, since what runs of it may be
/// a copy, for a second execution or with other wrappers. A stage that several boundaries read is wrapped once, and is
/// one plan afterwards even if it was several copies before.
///
/// # Errors
/// If two boundaries name one stage and do not mean the same, or a node refuses its new children.
pub fn wrap_stages(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    StagedPlan::try_new(plan)?;
    wrap(plan, &mut BTreeMap::new())
}

fn wrap(
    node: &Arc<dyn ExecutionPlan>,
    done: &mut BTreeMap<usize, Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let read = node
        .as_network_boundary()
        .map(|boundary| boundary.stage_id());
    let mut wrap_child = |child| {
        let Some(stage) = read else {
            return wrap(child, done);
        };
        if let Some(wrapped) = done.get(&stage) {
            return Ok(Arc::clone(wrapped));
        }
        let wrapped = wrap(child, done)?;
        done.insert(stage, Arc::clone(&wrapped));
        Ok(wrapped)
    };
    let children = node.children().into_iter().map(&mut wrap_child);
    let children = children.collect::<Result<Vec<_>>>()?;
    let node = match children.is_empty() {
        // `replace_children_if_necessary` makes a new node of a leaf.
        true => Arc::clone(node),
        false => replace_children_if_necessary(Arc::clone(node), children)?,
    };
    if find_layer::<MetricsWrapperExec>(node.as_ref()).is_some() {
        return Ok(node);
    }
    Ok(Arc::new(MetricsWrapperExec::new(node, MetricsSlot::new())))
}
