//! Methods that give a changed node: it is the node's, and comes back wrapped.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, SortOrderPushdownResult,
};

use super::probe::{self, REST, config, made};
use super::{Check, Subject, Verdict, kinds};

type Plan = Arc<dyn ExecutionPlan>;

pub(super) const CHECKS: [Check; 12] = [
    ("replace_children", |it| {
        it.replaced(ChildrenPropertiesMode::Keep, |plan, children, options| {
            plan.replace_children(children, options)
        })
    }),
    ("replace_children", |it| {
        it.replaced(
            ChildrenPropertiesMode::Recompute,
            |plan, children, options| plan.replace_children(children, options),
        )
    }),
    ("with_new_children", |it| {
        #[expect(deprecated)]
        it.replaced(ChildrenPropertiesMode::Recompute, |plan, children, _| {
            plan.with_new_children(children)
        })
    }),
    ("with_new_children_and_same_properties", |it| {
        #[expect(deprecated)]
        it.replaced(ChildrenPropertiesMode::Keep, |plan, children, _| {
            plan.with_new_children_and_same_properties(children)
        })
    }),
    ("reset_state", |it| {
        it.made("reset", |plan| plan.reset_state().ok())
    }),
    ("repartitioned", |it| {
        it.made("repartitioned 5 17", |plan| {
            plan.repartitioned(5, &config()).ok()?
        })
    }),
    ("with_fetch", |it| {
        it.made("fetch Some(7)", |plan| plan.with_fetch(Some(7)))
    }),
    ("try_swapping_with_projection", swapped),
    ("handle_child_pushdown_result", pushed_down),
    ("with_new_state", |it| {
        it.made("state given", |plan| plan.with_new_state(Arc::new("given")))
    }),
    ("try_pushdown_sort", sorted),
    ("with_preserve_order", |it| {
        it.made("preserve true", |plan| plan.with_preserve_order(true))
    }),
];

/// A wrapper that takes whatever comes back for its node is right about the plan, and wrong about which nodes are
/// wrapped once.
pub(super) const TOLERATED: [Check; 2] = [
    ("try_swapping_with_projection", swapped_in_part),
    ("handle_child_pushdown_result", removed),
];

impl Subject {
    fn made(&self, by: &str, ask: impl Fn(Plan) -> Option<Plan>) -> Verdict {
        let made = ask(Arc::clone(&self.wrapped));
        let made = made.ok_or("is not forwarded: the node's answer is lost")?;
        self.is_rewrapped(by, &made)
    }

    fn is_rewrapped(&self, by: &str, plan: &Plan) -> Verdict {
        let found = made(plan.as_ref());
        if found != by {
            return Err(format!(
                "is not forwarded: the node was asked for {found:?}, not {by:?}"
            ));
        }
        let (before, after) = (kinds(self.wrapped.as_ref()), kinds(plan.as_ref()));
        match after.len() {
            _ if before == after => Ok(()),
            layers if layers > before.len() => Err("comes back wrapped more than once".to_string()),
            _ => Err("does not come back wrapped".to_string()),
        }
    }

    fn replaced(
        &self,
        mode: ChildrenPropertiesMode,
        replace: impl Fn(Plan, Vec<Plan>, ReplaceChildrenOptions) -> Result<Plan>,
    ) -> Verdict {
        let children = vec![probe::probe(), probe::probe()];
        let options = ReplaceChildrenOptions::new(mode);
        let replaced = replace(Arc::clone(&self.wrapped), children.clone(), options);
        let replaced = replaced.map_err(|error| format!("fails: {error}"))?;
        let taken = replaced.children();
        if taken.len() != 2 || !taken.iter().zip(&children).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return Err("does not give the children to the node".to_string());
        }
        self.is_rewrapped(&format!("children {mode:?}"), &replaced)
    }

    fn swapped(&self, name: &str) -> std::result::Result<Plan, String> {
        let exprs = vec![(probe::column("partition"), name.to_string())];
        let projection = ProjectionExec::try_new(exprs, Arc::clone(&self.wrapped));
        projection
            .and_then(|projection| self.wrapped.try_swapping_with_projection(&projection))
            .map_err(|error| format!("fails: {error}"))?
            .ok_or_else(|| "is not forwarded: the node's answer is lost".to_string())
    }

    fn pushed(
        &self,
        parent_filters: Vec<ChildFilterPushdownResult>,
    ) -> std::result::Result<FilterPushdownPropagation<Plan>, String> {
        let result = ChildPushdownResult {
            parent_filters,
            self_filters: vec![],
        };
        self.wrapped
            .handle_child_pushdown_result(FilterPushdownPhase::Post, result, &config())
            .map_err(|error| format!("fails: {error}"))
    }
}

fn swapped(it: &Subject) -> Verdict {
    it.is_rewrapped("projection [\"all\"]", &it.swapped("all")?)
}

/// What is left of the projection stays on top: it is not the node.
fn swapped_in_part(it: &Subject) -> Verdict {
    let swapped = it.swapped(REST)?;
    match swapped.children()[..] {
        [node] if kinds(swapped.as_ref()).len() == 1 => {
            it.is_rewrapped(&format!("projection [{REST:?}]"), node)
        }
        _ => Err("wraps what is left of the projection, and leaves the node bare".to_string()),
    }
}

fn pushed_down(it: &Subject) -> Verdict {
    let filter = ChildFilterPushdownResult {
        filter: probe::column("parent"),
        child_results: vec![PushedDown::No],
    };
    let propagation = it.pushed(vec![filter])?;
    if !matches!(propagation.filters[..], [PushedDown::Yes]) {
        return Err("is not forwarded: the node takes the filter".to_string());
    }
    let updated = propagation.updated_node.ok_or("loses the updated node")?;
    it.is_rewrapped("pushdown Post 17", &updated)
}

/// A node that removes itself gives back its child, which is not the node.
fn removed(it: &Subject) -> Verdict {
    let updated = it
        .pushed(vec![])?
        .updated_node
        .ok_or("loses the updated node")?;
    match Arc::ptr_eq(&updated, it.node.children()[0]) {
        true => Ok(()),
        false => Err("wraps the child of a node that removed itself".to_string()),
    }
}

fn sorted(it: &Subject) -> Verdict {
    let keys = |names: &[&str]| -> Vec<_> {
        let keys = names.iter().flat_map(|name| probe::order(name));
        keys.collect()
    };
    let ask = |names| {
        let result = it.wrapped.try_pushdown_sort(&keys(names));
        result.map_err(|error| format!("fails: {error}"))
    };
    match (ask(&["a"])?, ask(&["a", "b"])?) {
        (
            SortOrderPushdownResult::Exact { inner: exact },
            SortOrderPushdownResult::Inexact { inner: inexact },
        ) => {
            it.is_rewrapped("sort [\"a@0\"]", &exact)?;
            it.is_rewrapped("sort [\"a@0\", \"b@0\"]", &inexact)
        }
        (exact, inexact) => Err(format!(
            "is not forwarded: it answers {exact:?} and {inexact:?}"
        )),
    }
}
