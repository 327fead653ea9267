//! Cuts a plan into stages.
//!
//! What must hold for each stage: running its plan once per task, each over the task's input, and
//! taking all their rows together gives what running it once over all the data gives. Bottom up,
//! each node's requirements on its inputs, which DataFusion states for the partitions of one
//! process, are made true for the partitions of all tasks.

use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    replace_children_if_necessary,
};

use super::leaf::LeafSplitters;
use super::rewrite::{
    emits_build_rows, interleavable, isolated, keyed_here, merged, ordered_as_required, unmerged,
};
use super::{BoundaryPlanner, Exchanged};
use crate::model::boundaries::{NetworkBroadcast, NetworkCoalesce, NetworkShuffle};
use crate::model::boundary::{NetworkBoundary, NetworkBoundaryExec, NetworkBoundaryExt};

/// In how many tasks a part of a plan can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// In any number: its leaves can be dealt out, though there is but one share. Where one task
    /// does, it is one.
    Few,
    /// In as many tasks as a stage has.
    Many,
    /// In one task.
    One,
    /// On the coordinator: it holds state that does not travel.
    Pinned,
}

struct Part {
    plan: Arc<dyn ExecutionPlan>,
    place: Place,
}

/// A node's input, and what the node asks of it.
struct Input {
    part: Part,
    keys: Option<Vec<Arc<dyn PhysicalExpr>>>,
    single: bool,
}

pub(crate) struct Distributor<'a> {
    pub(crate) options: &'a ConfigOptions,
    pub(crate) splitters: &'a LeafSplitters,
    pub(crate) boundaries: &'a [Arc<dyn BoundaryPlanner>],
    /// Tasks of a full stage.
    pub(crate) tasks: usize,
    /// Stages cut so far.
    pub(crate) stages: usize,
}

impl Distributor<'_> {
    /// The plan of the coordinator, of one partition, with the stages below it.
    ///
    /// # Errors
    /// With the reason, if the plan is to stay local.
    pub(crate) fn root(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let part = self.plan(plan)?;
        let root = match part.place {
            Place::Many => self.gather(part, true)?.plan,
            _ => merged(part.plan)?,
        };
        if self.stages == 0 {
            return plan_err!("one task can do all of it");
        }
        Ok(root)
    }

    fn plan(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        if node.boundedness().is_unbounded() {
            return plan_err!("{} never ends", node.name());
        }
        if let Some(boundary) = node.as_network_boundary() {
            // Somebody has cut here before: the stages below are theirs.
            self.stages = self.stages.max(boundary.stage_id());
            let place = match boundary.consumer_tasks() {
                1 => Place::One,
                _ => Place::Many,
            };
            return Ok(Part {
                plan: Arc::clone(node),
                place,
            });
        }
        if node.is::<RecursiveQueryExec>() || node.is::<WorkTableExec>() {
            return Ok(Part {
                plan: Arc::clone(node),
                place: Place::Pinned,
            });
        }
        if node.children().is_empty() {
            return self.leaf(node);
        }
        if let Some(repartition) = node.downcast_ref::<RepartitionExec>()
            && let Partitioning::Hash(keys, partitions) = repartition.partitioning()
        {
            let input = self.plan(repartition.input())?;
            if input.place == Place::Pinned {
                return Ok(Part {
                    plan: replace_children_if_necessary(Arc::clone(node), vec![input.plan])?,
                    place: Place::Pinned,
                });
            }
            let order = match repartition.preserve_order() {
                true => node.output_ordering().cloned(),
                false => None,
            };
            return self.shuffle(input, keys.clone(), *partitions, order);
        }
        if node.is::<CoalescePartitionsExec>() || node.is::<SortPreservingMergeExec>() {
            let input = self.plan(node.children()[0])?;
            let input = match input.place {
                Place::Many => self.gather(input, false)?,
                _ => input,
            };
            let place = input.place.max(Place::One);
            return Ok(Part {
                plan: replace_children_if_necessary(Arc::clone(node), vec![input.plan])?,
                place,
            });
        }
        if limits_all(node) {
            return self.node(node);
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>()
            && *join.partition_mode() == PartitionMode::CollectLeft
        {
            let copies = !emits_build_rows(join.join_type()) && !join.null_aware;
            let partitioned = !join.null_aware && !join.on().is_empty();
            return self.collecting_join(node, copies, partitioned.then_some(join));
        }
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            return self.collecting_join(node, !emits_build_rows(join.join_type()), None);
        }
        if node.is::<CrossJoinExec>() {
            return self.collecting_join(node, true, None);
        }
        self.node(node)
    }

    fn leaf(&mut self, leaf: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        let one = Part {
            plan: Arc::clone(leaf),
            place: Place::One,
        };
        let Some(splitter) = self.splitters.find(leaf.as_ref()) else {
            return Ok(one);
        };
        if limits_all(leaf) {
            return Ok(one);
        }
        let partitions = leaf.output_partitioning().partition_count();
        let target = self.tasks * partitions.max(self.options.execution.target_partitions);
        let plan = splitter.expand(leaf, target, self.options)?;
        let place = match plan.output_partitioning().partition_count() {
            0 | 1 => Place::Few,
            _ => Place::Many,
        };
        Ok(Part { plan, place })
    }

    /// A join that holds all of its left side in every task. If `copies`, each task may have a
    /// copy of it; else, if `partitioned`, both sides can be split by their keys.
    fn collecting_join(
        &mut self,
        node: &Arc<dyn ExecutionPlan>,
        copies: bool,
        partitioned: Option<&HashJoinExec>,
    ) -> Result<Part> {
        let children = node.children();
        let left = self.plan(unmerged(children[0]))?;
        let right = self.plan(children[1])?;
        let pinned = left.place == Place::Pinned || right.place == Place::Pinned;
        if right.place == Place::Many && !pinned {
            if copies {
                let left = merged(self.broadcast(left)?.plan)?;
                return Ok(Part {
                    plan: replace_children_if_necessary(Arc::clone(node), vec![left, right.plan])?,
                    place: Place::Many,
                });
            }
            if let Some(join) = partitioned {
                let partitions = self.options.execution.target_partitions;
                let (left_keys, right_keys) = join.on().iter().cloned().unzip();
                let left = self.shuffle(left, left_keys, partitions, None)?;
                let right = self.shuffle(right, right_keys, partitions, None)?;
                let plan = join
                    .builder()
                    .with_partition_mode(PartitionMode::Partitioned)
                    .with_new_children(vec![left.plan, right.plan])?
                    .recompute_properties()
                    .build_exec()?;
                return Ok(Part {
                    plan,
                    place: Place::Many,
                });
            }
        }
        let left = self.in_one_task(left, true)?;
        let right = self.in_one_task(right, false)?;
        Ok(Part {
            place: Place::One.max(left.place).max(right.place),
            plan: replace_children_if_necessary(
                Arc::clone(node),
                vec![merged(left.plan)?, right.plan],
            )?,
        })
    }

    /// Any node whose requirements say all there is to know.
    fn node(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        let requirements = node.input_distribution_requirements();
        let mut inputs = vec![];
        for (child, required) in node
            .children()
            .into_iter()
            .zip(requirements.into_per_child())
        {
            #[expect(deprecated, reason = "nodes of others may still ask for it")]
            let keys = match &required {
                Distribution::KeyPartitioned(keys) | Distribution::HashPartitioned(keys) => {
                    Some(keys.clone())
                }
                _ => None,
            };
            inputs.push(Input {
                part: self.plan(child)?,
                single: matches!(required, Distribution::SinglePartition),
                keys,
            });
        }
        let pinned = node.is::<ScalarSubqueryExec>()
            || inputs.iter().any(|input| input.part.place == Place::Pinned);
        let limited = limits_all(node);
        let spread = !pinned
            && !limited
            && inputs.iter().any(|input| input.part.place == Place::Many)
            && inputs.iter().all(|input| {
                let dealt_out = matches!(input.part.place, Place::Many | Place::Few);
                !input.single && (input.keys.is_some() || dealt_out)
            });
        let keyed = inputs.iter().filter(|input| input.keys.is_some()).count();
        let mut place = if pinned { Place::Pinned } else { Place::Few };
        let mut children = vec![];
        if spread {
            // Rows that share some of the keys share a partition with those that share all; for
            // two inputs both must be split in the same way.
            let subset = keyed < 2;
            let partitions = self.co_partitions(&inputs, subset);
            for input in inputs {
                let part = match (input.keys, partitions) {
                    (Some(keys), None) => {
                        let partitions = self.options.execution.target_partitions;
                        self.shuffle(input.part, keys, partitions, None)?
                    }
                    (Some(keys), Some(partitions)) if !by_key(&input.part, &keys, subset) => {
                        self.shuffle(input.part, keys, partitions, None)?
                    }
                    _ => input.part,
                };
                place = match place {
                    Place::Few => part.place,
                    _ => place.max(part.place),
                };
                children.push(part.plan);
            }
            if place != Place::Many {
                return plan_err!(
                    "the inputs of {} run in different numbers of tasks",
                    node.name()
                );
            }
        } else {
            for input in inputs {
                let settled = input.single || input.keys.is_some() || limited;
                let part = self.in_one_task(input.part, settled)?;
                let part_place = match (part.place, settled) {
                    (Place::Few, true) => Place::One,
                    (place, _) => place,
                };
                place = place.max(part_place);
                children.push(match &input.keys {
                    Some(keys) => keyed_here(part.plan, keys, node)?,
                    None if input.single => merged(part.plan)?,
                    None => part.plan,
                });
            }
        }
        let children = ordered_as_required(node, children)?;
        let plan = match node.is::<InterleaveExec>() && !interleavable(&children) {
            // What it interleaved is no longer split alike; a union asks for nothing.
            true => UnionExec::try_new(children)?,
            false => replace_children_if_necessary(Arc::clone(node), children)?,
        };
        Ok(Part { plan, place })
    }

    /// Into how many partitions the keyed inputs of a node are split in each task, if at least
    /// one is split by its keys over all tasks and no two differ.
    fn co_partitions(&self, inputs: &[Input], subset: bool) -> Option<usize> {
        let mut counts = inputs.iter().filter_map(|input| {
            let keys = input.keys.as_ref()?;
            by_key(&input.part, keys, subset)
                .then(|| input.part.plan.output_partitioning().partition_count())
        });
        let first = counts.next()?;
        counts.all(|count| count == first).then_some(first)
    }

    /// In one task, with all partitions still side by side unless `merge`.
    fn in_one_task(&mut self, part: Part, merge: bool) -> Result<Part> {
        match part.place {
            Place::Many => self.gather(part, merge),
            _ => Ok(part),
        }
    }

    fn gather(&mut self, part: Part, merge: bool) -> Result<Part> {
        let coalesce = Arc::new(NetworkCoalesce);
        let part = self.cut(part, Exchanged::Gathered, coalesce, 1)?;
        Ok(Part {
            plan: if merge { merged(part.plan)? } else { part.plan },
            place: Place::One,
        })
    }

    fn broadcast(&mut self, part: Part) -> Result<Part> {
        let tasks = self.tasks;
        self.cut(
            part,
            Exchanged::Replicated,
            Arc::new(NetworkBroadcast),
            tasks,
        )
    }

    fn shuffle(
        &mut self,
        part: Part,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        partitions: usize,
        order: Option<LexOrdering>,
    ) -> Result<Part> {
        let shuffle = NetworkShuffle::new(keys.clone(), partitions, order);
        let exchanged = Exchanged::Keyed {
            keys: &keys,
            partitions,
        };
        let tasks = self.tasks;
        self.cut(part, exchanged, Arc::new(shuffle), tasks)
    }

    /// Makes a stage of `part`.
    fn cut(
        &mut self,
        part: Part,
        exchanged: Exchanged<'_>,
        usual: Arc<dyn NetworkBoundary>,
        consumer_tasks: usize,
    ) -> Result<Part> {
        let boundary = self
            .boundaries
            .iter()
            .find_map(|planner| planner.boundary(&exchanged, &part.plan, consumer_tasks))
            .unwrap_or(usual);
        let tasks = match part.place {
            Place::Many => self.tasks_of(&part.plan),
            _ => 1,
        };
        let input = isolated(&part.plan, tasks)?;
        self.stages += 1;
        let node =
            NetworkBoundaryExec::try_new(boundary, input, self.stages, tasks, consumer_tasks)?;
        Ok(Part {
            plan: Arc::new(node),
            place: match consumer_tasks {
                1 if matches!(exchanged, Exchanged::Gathered) => Place::One,
                _ => Place::Many,
            },
        })
    }

    /// A stage that reads other stages has all tasks; one that only scans, no more than its
    /// scans have partitions.
    fn tasks_of(&self, plan: &Arc<dyn ExecutionPlan>) -> usize {
        fn partitions(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
            if plan.as_network_boundary().is_some() {
                return None;
            }
            if plan.children().is_empty() {
                return Some(plan.output_partitioning().partition_count());
            }
            plan.children()
                .into_iter()
                .map(partitions)
                .try_fold(1, |most, count| Some(most.max(count?)))
        }
        partitions(plan).map_or(self.tasks, |most| most.clamp(1, self.tasks))
    }
}

/// Whether a limit in this node is one over all rows: where there is one partition, DataFusion
/// leaves it to the node alone. In many tasks each would put out as many.
fn limits_all(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.fetch().is_some() && node.output_partitioning().partition_count() == 1
}

/// Whether equal keys are in one partition of one task. DataFusion counts a single partition as
/// split by any key; a single partition in each of many tasks is not.
fn by_key(part: &Part, keys: &[Arc<dyn PhysicalExpr>], subset: bool) -> bool {
    let Partitioning::Hash(by, count) = part.plan.output_partitioning() else {
        return false;
    };
    part.place == Place::Many
        && Partitioning::Hash(by.clone(), (*count).max(2))
            .satisfaction(
                &Distribution::KeyPartitioned(keys.to_vec()),
                part.plan.equivalence_properties(),
                subset,
            )
            .is_satisfied()
}
