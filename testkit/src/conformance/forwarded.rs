//! Methods that tell of the node: the wrapper's answer is the node's.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, InvariantLevel};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPhase;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs};

use super::probe::{self, METRIC, ProbeExec};
use super::{Check, Subject, Verdict};

#[expect(deprecated)]
pub(super) const CHECKS: [Check; 22] = [
    ("name", |it| it.same(|plan| plan.name().to_string())),
    ("downcast_delegate", downcasts),
    ("schema", |it| it.same(|plan| plan.schema())),
    ("properties", |it| it.same(|plan| plan.properties().clone())),
    ("check_invariants", invariants),
    ("dynamic_expressions_produced", |it| {
        it.same(|plan| plan.dynamic_expressions_produced())
    }),
    ("required_input_distribution", |it| {
        it.same(|plan| plan.required_input_distribution())
    }),
    ("input_distribution_requirements", |it| {
        it.same(|plan| plan.input_distribution_requirements())
    }),
    ("required_input_ordering", |it| {
        it.same(|plan| plan.required_input_ordering())
    }),
    ("maintains_input_order", |it| {
        it.same(|plan| plan.maintains_input_order())
    }),
    ("benefits_from_input_partitioning", |it| {
        it.same(|plan| plan.benefits_from_input_partitioning())
    }),
    ("children", children),
    ("apply_expressions", expressions),
    ("metrics", metrics),
    ("partition_statistics", |it| {
        it.same(|plan| [None, Some(2)].map(|partition| plan.partition_statistics(partition).ok()))
    }),
    ("statistics_from_inputs", statistics),
    ("child_stats_requests", |it| {
        it.same(|plan| [None, Some(2)].map(|partition| plan.child_stats_requests(partition)))
    }),
    ("supports_limit_pushdown", |it| {
        it.same(|plan| plan.supports_limit_pushdown())
    }),
    ("fetch", |it| it.same(|plan| plan.fetch())),
    ("cardinality_effect", cardinality),
    ("gather_filters_for_pushdown", filters),
    ("display", display),
];

impl Subject {
    /// Compares as text: not all answers can be compared otherwise.
    fn same<T: Debug>(&self, ask: impl Fn(&dyn ExecutionPlan) -> T) -> Verdict {
        let [node, wrapped] = [&self.node, &self.wrapped].map(|plan| {
            let answer = ask(plan.as_ref());
            format!("{answer:?}")
        });
        match node == wrapped {
            true => Ok(()),
            false => Err(format!(
                "is not forwarded: it answers {wrapped}, the node {node}"
            )),
        }
    }
}

fn downcasts(it: &Subject) -> Verdict {
    match it.wrapped.is::<ProbeExec>() && it.wrapped.downcast_ref::<ProbeExec>().is_some() {
        true => Ok(()),
        false => Err("does not lead to the node, so boundaries are not seen".to_string()),
    }
}

fn invariants(it: &Subject) -> Verdict {
    it.same(|plan| {
        let levels = [InvariantLevel::Always, InvariantLevel::Executable];
        levels.map(|level| {
            plan.check_invariants(level)
                .map_err(|error| error.to_string())
        })
    })
}

fn children(it: &Subject) -> Verdict {
    let (node, wrapped) = (it.node.children(), it.wrapped.children());
    let same = |(node, wrapped): (&&Arc<_>, &&Arc<_>)| Arc::ptr_eq(node, wrapped);
    match node.len() == wrapped.len() && node.iter().zip(&wrapped).all(same) {
        true => Ok(()),
        false => Err("are not the node's, so a plan looks deeper than it is".to_string()),
    }
}

fn expressions(it: &Subject) -> Verdict {
    let visited = |plan: &dyn ExecutionPlan, answer| {
        let mut seen = vec![];
        let ended = plan.apply_expressions(&mut |expr| {
            seen.push(expr.to_string());
            Ok(answer)
        });
        (seen, ended.ok())
    };
    it.same(|plan| {
        let answers = [TreeNodeRecursion::Continue, TreeNodeRecursion::Stop];
        answers.map(|answer| visited(plan, answer))
    })
}

/// A wrapper may measure something too.
fn metrics(it: &Subject) -> Verdict {
    let found = |metrics: MetricsSet| metrics.sum_by_name(METRIC).map(|sum| sum.as_usize());
    let [node, wrapped] = [&it.node, &it.wrapped].map(|plan| plan.metrics().and_then(found));
    match node == wrapped {
        true => Ok(()),
        false => Err("are not those of the node".to_string()),
    }
}

fn statistics(it: &Subject) -> Verdict {
    let inputs = [Arc::new(Statistics::new_unknown(&probe::schema("")))];
    it.same(|plan| {
        [None, Some(2)].map(|partition| {
            let args = StatisticsArgs::new().with_partition(partition);
            plan.statistics_from_inputs(&inputs, &args).ok()
        })
    })
}

fn cardinality(it: &Subject) -> Verdict {
    it.same(|plan| match plan.cardinality_effect() {
        CardinalityEffect::Unknown => "unknown",
        CardinalityEffect::Equal => "equal",
        CardinalityEffect::LowerEqual => "lower or equal",
        CardinalityEffect::GreaterEqual => "greater or equal",
    })
}

fn filters(it: &Subject) -> Verdict {
    let config = probe::config();
    it.same(|plan| {
        let parents = vec![probe::column("parent")];
        plan.gather_filters_for_pushdown(FilterPushdownPhase::Post, parents, &config)
            .map(|filters| (filters.parent_filters(), filters.self_filters()))
            .ok()
    })
}

fn display(it: &Subject) -> Verdict {
    it.same(|plan| {
        let shown = [false, true].map(|verbose| displayable(plan).indent(verbose).to_string());
        (shown, displayable(plan).tree_render().to_string())
    })
}
