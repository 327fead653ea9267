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
    insta::assert_snapshot!(displayable(plan.as_ref()).indent(false), @r"
    CoalescePartitionsExec
      NetworkCoalesceExec: stage=2, tasks=2
        CoalescePartitionsExec
          NetworkShuffleExec: stage=1, tasks=3, keys=[a@0], partitions=2
            RepartitionExec: partitioning=Hash([a@0], 4), input_partitions=1
              DataSourceExec: partitions=1, partition_sizes=[1]
    ");
}

#[test]
fn indent_with_metrics() {
    let plan = reported();
    let display = DisplayableExecutionPlan::with_metrics(plan.as_ref());
    insta::assert_snapshot!(display.indent(false), @r"
    CoalescePartitionsExec, metrics=[]
      NetworkCoalesceExec: stage=2, tasks=2, metrics=[]
        CoalescePartitionsExec, metrics=[]
          NetworkShuffleExec: stage=1, tasks=3, keys=[a@0], partitions=2, metrics=[]
            RepartitionExec: partitioning=Hash([a@0], 4), input_partitions=1, metrics=[output_rows=3]
              DataSourceExec: partitions=1, partition_sizes=[1], metrics=[output_rows=3]
    ");
}

#[test]
fn tree() {
    let plan = reported();
    insta::assert_snapshot!(displayable(plan.as_ref()).tree_render(), @r"
    ┌───────────────────────────┐
    │   CoalescePartitionsExec  │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │    NetworkCoalesceExec    │
    │    --------------------   │
    │          stage: 2         │
    │          tasks: 2         │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │   CoalescePartitionsExec  │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │     NetworkShuffleExec    │
    │    --------------------   │
    │          stage: 1         │
    │          tasks: 3         │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │      RepartitionExec      │
    │    --------------------   │
    │ partition_count(in->out): │
    │           1 -> 4          │
    │                           │
    │    partitioning_scheme:   │
    │       Hash([a@0], 4)      │
    └─────────────┬─────────────┘
    ┌─────────────┴─────────────┐
    │       DataSourceExec      │
    │    --------------------   │
    │         bytes: 108        │
    │       format: memory      │
    │          rows: 1          │
    └───────────────────────────┘
    ");
}

#[test]
fn graphviz() {
    let plan = reported();
    let shown = displayable(plan.as_ref()).graphviz().to_string();
    insta::assert_snapshot!(shown.trim(), @r#"
    // Begin DataFusion GraphViz Plan,
    // display it online here: https://dreampuf.github.io/GraphvizOnline

    digraph {
        1[shape=box label="CoalescePartitionsExec", tooltip=""]
        2[shape=box label="NetworkCoalesceExec: stage=2, tasks=2", tooltip=""]
        1 -> 2 [arrowhead=none, arrowtail=normal, dir=back]
        3[shape=box label="CoalescePartitionsExec", tooltip=""]
        2 -> 3 [arrowhead=none, arrowtail=normal, dir=back]
        4[shape=box label="NetworkShuffleExec: stage=1, tasks=3, keys=[a@0], partitions=2", tooltip=""]
        3 -> 4 [arrowhead=none, arrowtail=normal, dir=back]
        5[shape=box label="RepartitionExec: partitioning=Hash([a@0], 4), input_partitions=1", tooltip=""]
        4 -> 5 [arrowhead=none, arrowtail=normal, dir=back]
        6[shape=box label="DataSourceExec: partitions=1, partition_sizes=[1]", tooltip=""]
        5 -> 6 [arrowhead=none, arrowtail=normal, dir=back]
    }
    // End DataFusion GraphViz Plan
    "#);
}
