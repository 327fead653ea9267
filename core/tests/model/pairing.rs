use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use flightpath_core::model::boundary::NetworkBoundaryExt;
use flightpath_core::model::stage::QueryId;
use flightpath_core::{
    MetricsWrapperExec, QueryReports, StageSlots, find_layer, innermost, layers, stages,
    wrap_stages,
};

use crate::plans::{
    NoopExec, Plan, STAGE_1, STAGE_2, all_wrapped, coalesce, key, merge, report, source, two_stages,
};

/// Name of each node in pre-order, and how many metrics wrappers it has.
fn wrappers(plan: &Plan) -> Vec<(String, usize)> {
    let mut nodes = Vec::new();
    plan.apply(|node| {
        let is_slot =
            |layer: &&dyn ExecutionPlan| (*layer as &dyn std::any::Any).is::<MetricsWrapperExec>();
        let count = layers(node.as_ref()).filter(is_slot).count();
        nodes.push((innermost(node.as_ref()).name().to_owned(), count));
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    nodes
}

fn slots(plan: &Plan, stage: usize) -> StageSlots {
    let stages = stages(plan).unwrap();
    let stage = stages.iter().find(|found| found.id == stage).unwrap();
    StageSlots::new(stage.id, &stage.plan)
}

/// Rows that the nodes of a stage show.
fn shown(plan: &Plan, stage: usize) -> Vec<Option<usize>> {
    let stages = stages(plan).unwrap();
    let mut node = &stages.iter().find(|found| found.id == stage).unwrap().plan;
    let mut rows = Vec::new();
    loop {
        rows.push(node.metrics().and_then(|metrics| metrics.output_rows()));
        match node.children()[..] {
            [child] if node.as_network_boundary().is_none() => node = child,
            _ => return rows,
        }
    }
}

#[test]
fn every_node_is_wrapped_once() {
    for depth in 0..=3 {
        let plan = all_wrapped(&two_stages(), depth);
        let once = wrap_stages(&plan).unwrap();
        let counts: Vec<_> = wrappers(&once)
            .into_iter()
            .map(|(_, count)| count)
            .collect();
        assert_eq!(counts, [1; 6]);
        let again = wrap_stages(&once).unwrap();
        assert!(Arc::ptr_eq(&once, &again), "wrapping again changes nothing");
        // Also from the outside, a metrics wrapper is found.
        let outside = wrap_stages(&all_wrapped(&once, 1)).unwrap();
        assert_eq!(wrappers(&outside), wrappers(&once));
    }
}

#[test]
fn other_wrappers_stay() {
    let plan = wrap_stages(&all_wrapped(&two_stages(), 1)).unwrap();
    plan.apply(|node| {
        assert!(
            find_layer::<NoopExec>(node.as_ref()).is_some(),
            "{}",
            node.name()
        );
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
}

#[test]
fn a_stage_that_two_boundaries_read_shows_one_set_of_metrics() {
    let leaf = source();
    // As after a rule that rebuilt each copy.
    let copies = (0..2)
        .map(|_| coalesce(merge(leaf.clone()), 1, 2))
        .collect();
    let plan = wrap_stages(&UnionExec::try_new(copies).unwrap()).unwrap();
    let query_id = QueryId::new();
    let names = ["CoalescePartitionsExec", "DataSourceExec"];
    assert!(slots(&plan, 1).assign(&report(key(query_id, 1, 0), &names, 5)));
    for side in plan.children() {
        let head = side.children()[0];
        assert_eq!(head.metrics().unwrap().output_rows(), Some(5));
    }
}

#[test]
fn reports_show_on_the_nodes_that_they_are_of() {
    let plan = wrap_stages(&all_wrapped(&two_stages(), 2)).unwrap();
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    reports.pair_stage(slots(&plan, 1));
    reports.pair_stage(slots(&plan, 2));
    assert!(reports.record(report(key(query_id, 1, 0), &STAGE_1, 10)));
    assert!(reports.record(report(key(query_id, 1, 2), &STAGE_1, 5)));
    assert!(reports.record(report(key(query_id, 2, 1), &STAGE_2, 4)));
    assert_eq!(shown(&plan, 1), [Some(15), Some(15)]);
    assert_eq!(shown(&plan, 2), [Some(4), Some(4)]);

    let metrics = stages(&plan).unwrap()[0].plan.metrics().unwrap();
    let labels = metrics.iter().map(|metric| {
        let labels = metric.labels().iter();
        labels
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    });
    assert_eq!(
        labels.collect::<Vec<_>>(),
        ["stage=1 task=0", "stage=1 task=2"]
    );
    assert!(reports.unmatched().is_empty());
}

#[test]
fn reports_of_other_nodes_are_kept_and_shown_nowhere() {
    let plan = wrap_stages(&two_stages()).unwrap();
    let query_id = QueryId::new();
    let reports = QueryReports::new(query_id);
    reports.pair_stage(slots(&plan, 1));
    let before = shown(&plan, 1);
    for (task, names) in [
        &["DataSourceExec", "RepartitionExec"][..],
        &["RepartitionExec"],
        &["RepartitionExec", "DataSourceExec", "DataSourceExec"],
    ]
    .into_iter()
    .enumerate()
    {
        assert!(reports.record(report(key(query_id, 1, task), names, 10)));
    }
    assert_eq!(shown(&plan, 1), before);
    assert_eq!(reports.unmatched().len(), 3);
    assert_eq!(reports.reports().len(), 3);
    assert!(!slots(&plan, 2).assign(&report(key(query_id, 1, 0), &STAGE_2, 1)));
}

#[test]
fn a_plan_that_runs_again_forgets_what_it_showed() {
    let plan = wrap_stages(&two_stages()).unwrap();
    let (first, second) = (QueryId::new(), QueryId::new());
    let earlier = QueryReports::new(first);
    earlier.pair_stage(slots(&plan, 1));
    earlier.record(report(key(first, 1, 0), &STAGE_1, 10));
    QueryReports::new(second).pair_stage(slots(&plan, 1));
    earlier.record(report(key(first, 1, 1), &STAGE_1, 10));
    assert_ne!(shown(&plan, 1)[0], Some(10));
    assert_ne!(shown(&plan, 1)[0], Some(20));
    assert_eq!(earlier.reports().len(), 2);
}
