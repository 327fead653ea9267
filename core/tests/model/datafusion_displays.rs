//! DataFusion's own displays cross stages and show reported metrics, and know nothing of either.

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::displayable;
use flightpath_core::model::stage::QueryId;
use flightpath_core::{StageSlots, stages, wrap_stages};

use crate::plans::{Plan, STAGE_1, all_wrapped, key, report, two_stages};

/// Wrapped twice, and once more for metrics; one task of stage 1 has reported.
fn reported() -> Plan {
    let plan = wrap_stages(&all_wrapped(&two_stages(), 2)).unwrap();
    let stage = stages(&plan).unwrap().remove(0);
    let slots = StageSlots::new(stage.id, &stage.plan);
    assert!(slots.assign(&report(key(QueryId::new(), 1, 0), &STAGE_1, 3)));
    plan
}

#[test]
fn indent() {
    let plan = reported();
    insta::assert_snapshot!(displayable(plan.as_ref()).indent(false), @"");
}

#[test]
fn indent_with_metrics() {
    let plan = reported();
    let display = DisplayableExecutionPlan::with_metrics(plan.as_ref());
    insta::assert_snapshot!(display.indent(false), @"");
}

#[test]
fn tree() {
    let plan = reported();
    insta::assert_snapshot!(displayable(plan.as_ref()).tree_render(), @"");
}

#[test]
fn graphviz() {
    let plan = reported();
    insta::assert_snapshot!(displayable(plan.as_ref()).graphviz(), @"");
}
