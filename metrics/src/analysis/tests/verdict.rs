//! Words for a query, and its text.

use super::{MS, Task, USUAL, profile};
use crate::profile::QueryStatus;
use crate::profile::metric::Value;

#[test]
fn a_healthy_query_says_where_its_time_went() {
    let mut profile = profile(
        &[USUAL; 4],
        &[Task {
            computed: 10,
            ..USUAL
        }; 4],
    );
    assert_eq!(
        profile.verdict(),
        "Nothing stands out: 95 % of the compute time is RepartitionExec in stage 1, spread evenly."
    );
    profile.tasks[0].nodes[1][1].value = Value::Time { ns: 4000 * MS };
    assert_eq!(
        profile.verdict(),
        "Nothing stands out: 83 % of the compute time is the scan of lineitem."
    );
    profile.status = QueryStatus::Local;
    profile.local_reason = Some("a reason".to_owned());
    let verdict = profile.verdict();
    assert!(
        verdict.starts_with("It ran on the coordinator alone (a reason): 83 %"),
        "{verdict}"
    );
}

#[test]
fn tables_are_named_after_their_files_or_folders() {
    let mut node = super::node(0, "DataSourceExec", "", None);
    for (files, table) in [
        (
            "[[tmp/tpch/orders.parquet:0..100, tmp/tpch/orders.parquet:100..200]]",
            Some("orders"),
        ),
        ("[[tmp/lineitem/0.parquet]]", Some("lineitem")),
        (
            "[[tmp/lineitem/part-00017.snappy.parquet], [x]]",
            Some("lineitem"),
        ),
        ("[[part.csv]]", None),
        ("[[]]", None),
    ] {
        node.text = format!("DataSourceExec: file_groups={{1 group: {files}}}, file_type=parquet");
        assert_eq!(node.table(), table, "{files}");
    }
    node.text = "DataSourceExec: partitions=8, partition_sizes=[1]".to_owned();
    assert_eq!(node.table(), None);
}

#[test]
fn the_text_has_the_verdict_the_tree_the_stages_and_the_findings() {
    let more = Task {
        rows: 9000,
        took: 900,
        computed: 800,
        ..USUAL
    };
    let text = profile(&[USUAL; 4], &[USUAL, USUAL, USUAL, more])
        .text()
        .to_string();
    insta::assert_snapshot!(text, @r"
    Stage 2: task 2.3 took 4.0 times as long as the median of the others (800 ms against 200 ms); it
    read 75 % of the rows: the keys by which stage 1 is spread are skewed.
    finished · 1.00 s · 12.0 k rows · 2 stages · 8 tasks · 4 workers · 125 KiB exchanged

    operator                                                                       rows   compute  share
    DistributedExec
      NetworkCoalesceExec: stage=2                                               12.0 k
        AggregateExec: mode=FinalPartitioned                                     12.0 k    1.40 s   64 %
          NetworkShuffleExec: stage=1                                            12.0 k
            RepartitionExec: partitioning=Hash([k@0], 8)                         4.00 k    800 ms   36 %
              DataSourceExec: lineitem, file_groups={2 groups: [[data/lineite…   4.00 k   4.00 ms  < 1 %

    ─────────────────────────────────────────────────────────────────────────────────────
    stage  sends by  tasks    rows     bytes     min  median     max  skew    wait  spill
    ═════════════════════════════════════════════════════════════════════════════════════
    1      shuffle       4  4.00 k  31.2 KiB  300 ms  300 ms  300 ms   1.0     0 s      -
    2      coalesce      4  12.0 k  93.8 KiB  300 ms  300 ms  900 ms   3.0  100 ms      -
    ─────────────────────────────────────────────────────────────────────────────────────

    Where the time went: coordinator 10 % <- task 2.3 80 % <- task 1.3 10 % <- other waiting 0 %

    ! skew: Stage 2: task 2.3 took 4.0 times as long as the median of the others (800 ms against 200
      ms); it read 75 % of the rows: the keys by which stage 1 is spread are skewed.
    ");
}

#[test]
fn colour_adds_nothing_but_colour() {
    let profile = profile(
        &[USUAL; 2],
        &[
            USUAL,
            Task {
                took: 900,
                computed: 900,
                ..USUAL
            },
        ],
    );
    let plain = profile.text().to_string();
    let coloured = profile.text().with_color(true).to_string();
    assert!(!plain.contains('\x1b') && coloured.contains('\x1b'));
    let mut stripped = String::new();
    let mut parts = coloured.split('\x1b');
    stripped.push_str(parts.next().unwrap());
    for part in parts {
        stripped.push_str(part.split_once('m').unwrap().1);
    }
    assert_eq!(stripped, plain);
}
