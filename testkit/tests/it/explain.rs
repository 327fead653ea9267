use flightpath_core::{Coordinator, StaticWorkers, local_reason};
use insta::assert_snapshot;

use crate::fixture::{Planned, Setup, answer, config, session, within};

const SQL: &str = "SELECT city, count(*) AS n, sum(amount) AS total FROM sales \
                   JOIN shops ON sales.shop = shops.shop GROUP BY city ORDER BY total DESC";

/// Groups of one row: their number does not hang on how rows are split.
const UNIQUE: &str = "SELECT id, city, count(*) AS n FROM sales \
                      JOIN shops ON sales.shop = shops.shop GROUP BY id, city ORDER BY id";

async fn explained(setup: &Setup, sql: &str) -> String {
    setup
        .tables
        .redacted(&answer(&setup.ctx, sql).await.unwrap())
}

#[tokio::test]
async fn explain_shows_the_plan_of_every_stage() {
    within(60, async {
        let setup = Setup::new().await;
        let shown = explained(&setup, &format!("EXPLAIN FORMAT INDENT {SQL}")).await;
        assert_snapshot!(shown, @r#"
        DistributedExec
          SortPreservingMergeExec: [total@2 DESC]
            NetworkCoalesceExec: stage=3, tasks=2
              ProjectionExec: expr=[city@0 as city, count(Int64(1))@1 as n, sum(sales.amount)@2 as total]
                SortExec: expr=[sum(sales.amount)@2 DESC], preserve_partitioning=[true]
                  AggregateExec: mode=FinalPartitioned, gby=[city@0 as city], aggr=[count(Int64(1)), sum(sales.amount)]
                    NetworkShuffleExec: stage=2, tasks=2, keys=[city@0], partitions=2
                      RepartitionExec: partitioning=Hash([city@0], 4), input_partitions=2
                        AggregateExec: mode=Partial, gby=[city@1 as city], aggr=[count(Int64(1)), sum(sales.amount)]
                          HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(shop@0, shop@0)], projection=[amount@3, city@1]
                            CoalescePartitionsExec
                              NetworkBroadcastExec: stage=1, tasks=2
                                BroadcastExec: copies=2
                                  PartitionIsolatorExec: tasks=2, partitions per task=1
                                    DataSourceExec: file_groups=.., projection=[shop, city], file_type=parquet
                            PartitionIsolatorExec: tasks=2, partitions per task=2
                              DataSourceExec: file_groups=.., projection=[shop, amount], file_type=parquet, predicate=DynamicFilter [ empty ], dynamic_rg_pruning=eligible
        "#);
    })
    .await;
}

#[tokio::test]
async fn explain_draws_the_plan_of_every_stage() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "SELECT sum(amount) AS total FROM sales";
        let shown = explained(&setup, &format!("EXPLAIN FORMAT TREE {sql}")).await;
        assert_snapshot!(shown, @r#"
        ┌───────────────────────────┐
        │      DistributedExec      │
        └─────────────┬─────────────┘
        ┌─────────────┴─────────────┐
        │       ProjectionExec      │
        │    --------------------   │
        │           total:          │
        │     sum(sales.amount)     │
        └─────────────┬─────────────┘
        ┌─────────────┴─────────────┐
        │       AggregateExec       │
        │    --------------------   │
        │           aggr:           │
        │     sum(sales.amount)     │
        │                           │
        │        mode: Final        │
        └─────────────┬─────────────┘
        ┌─────────────┴─────────────┐
        │   CoalescePartitionsExec  │
        └─────────────┬─────────────┘
        ┌─────────────┴─────────────┐
        │    NetworkCoalesceExec    │
        │    --------------------   │
        │          stage: 1         │
        │          tasks: 2         │
        └─────────────┬─────────────┘
        ┌─────────────┴─────────────┐
        │       AggregateExec       │
        │    --------------------   │
        │           aggr:           │
        │     sum(sales.amount)     │
        │                           │
        │       mode: Partial       │
        └─────────────┬─────────────┘
        ┌─────────────┴─────────────┐
        │   PartitionIsolatorExec   │
        │    --------------------   │
        │    partitions per task:   │
        │             2             │
        └─────────────┬─────────────┘
        ┌─────────────┴─────────────┐
        │       DataSourceExec      │
        │    --------------------   │
        │          files: 4         │
        │      format: parquet      │
        └───────────────────────────┘
        "#);
    })
    .await;
}

#[tokio::test]
async fn a_plan_that_stays_local_says_why() {
    within(60, async {
        let setup = Setup::new().await;
        explained(&setup, "CREATE TABLE few AS VALUES (3), (1), (2)").await;
        let sql = "SELECT column1 FROM few ORDER BY column1";
        let shown = explained(&setup, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
        assert_snapshot!(shown, @r#"
        SortExec: expr=[column1@0 ASC NULLS LAST], preserve_partitioning=[false], flightpath=local (one task can do all of it)
          DataSourceExec: partitions=1, partition_sizes=[1]
        "#);
        let shown = explained(&setup, &format!("EXPLAIN FORMAT TREE {sql}")).await;
        assert_snapshot!(shown, @r#"
        ┌───────────────────────────┐
        │          SortExec         │
        │    --------------------   │
        │                           │
        │  column1@0 ASC NULLS LAST │
        │                           │
        │        flightpath:        │
        │ local (one task can do all│
        │           of it)          │
        └─────────────┬─────────────┘
        ┌─────────────┴─────────────┐
        │       DataSourceExec      │
        │    --------------------   │
        │         bytes: 128        │
        │       format: memory      │
        │          rows: 1          │
        └───────────────────────────┘
        "#);

        let alone = Coordinator::new(StaticWorkers::default());
        let ctx = session(config(), alone);
        setup.tables.register(&ctx).await;
        let reason = |planned: Planned| local_reason(&planned.plan);
        let unserved = reason(Planned::new(&ctx, "SELECT id FROM sales").await);
        assert_eq!(unserved.as_deref(), Some("there are no workers"));
        let sent = reason(setup.plan("SELECT id FROM sales").await);
        assert_eq!(sent, None);
    })
    .await;
}

#[tokio::test]
async fn a_plan_without_a_scan_is_left_alone() {
    within(60, async {
        let setup = Setup::new().await;
        let shown = explained(&setup, "EXPLAIN FORMAT INDENT SELECT 1 + 1 AS two").await;
        assert_snapshot!(shown, @r#"
        ProjectionExec: expr=[2 as two]
          PlaceholderRowExec
        "#);
    })
    .await;
}

#[tokio::test]
async fn switched_off_it_leaves_plans_alone() {
    within(60, async {
        let setup = Setup::new().await;
        let explain = format!("EXPLAIN FORMAT INDENT {SQL}");
        let distributed = explained(&setup, &explain).await;
        explained(&setup, "SET flightpath.enabled = false").await;
        let local = setup
            .tables
            .redacted(&answer(&setup.local, &explain).await.unwrap());
        assert_eq!(explained(&setup, &explain).await, local);
        explained(&setup, "SET flightpath.enabled = true").await;
        assert_eq!(explained(&setup, &explain).await, distributed);
    })
    .await;
}

#[tokio::test]
async fn settings_are_set_shown_and_checked() {
    within(60, async {
        let setup = Setup::new().await;
        let show = "SELECT name || ' = ' || value FROM information_schema.df_settings \
                    WHERE name LIKE 'flightpath.%' ORDER BY name";
        assert_snapshot!(explained(&setup, show).await, @r#"
        flightpath.compression = lz4
        flightpath.connect_timeout = 5s
        flightpath.enabled = true
        flightpath.max_inline_bytes = 33554432
        flightpath.max_message_bytes = 1073741824
        flightpath.max_plan_bytes = 67108864
        flightpath.metrics_timeout = 5s
        flightpath.stream_buffer_bytes = 1048576
        flightpath.tasks_per_stage = 0
        flightpath.trace_detail = operator
        flightpath.trace_preview_rows = 0
        flightpath.trace_span_budget = 10000
        flightpath.trace_sql = false
        flightpath.worker_timeout = 10s
        "#);

        explained(&setup, "SET flightpath.tasks_per_stage = 3").await;
        let shown = explained(&setup, "SHOW flightpath.tasks_per_stage").await;
        assert_eq!(shown, "3");
        let stages = setup.plan("SELECT sum(amount) FROM sales").await.shown();
        assert!(stages.contains("stage=1, tasks=3"), "{stages}");

        for (setting, value) in [
            ("tasks_per_stage", "many"),
            ("enabled", "perhaps"),
            ("tasks", "3"),
            ("trace_detail", "all"),
        ] {
            let set = format!("SET flightpath.{setting} = '{value}'");
            let error = answer(&setup.ctx, &set)
                .await
                .unwrap_err()
                .strip_backtrace();
            assert!(error.contains(setting) || error.contains(value), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn explain_analyze_shows_what_every_stage_did() {
    within(60, async {
        let setup = Setup::new().await;
        let shown = explained(&setup, &format!("EXPLAIN ANALYZE {UNIQUE}")).await;
        assert_snapshot!(output_rows(&shown), @r#"
        DistributedExec: -
          SortPreservingMergeExec: 1.00 K
            NetworkCoalesceExec: 1.00 K
              ProjectionExec: 1.00 K
                SortExec: 1.00 K
                  AggregateExec: 1.00 K
                    NetworkShuffleExec: 1.00 K
                      RepartitionExec: 1.00 K
                        AggregateExec: 1.00 K
                          HashJoinExec: 1.00 K
                            CoalescePartitionsExec: 40
                              NetworkBroadcastExec: 40
                                BroadcastExec: 40
                                  PartitionIsolatorExec: -
                                    DataSourceExec: 20
                            PartitionIsolatorExec: -
                              DataSourceExec: 1.00 K
        "#);
    })
    .await;
}

#[tokio::test]
async fn explain_analyze_verbose_says_which_task_did_what() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "EXPLAIN ANALYZE VERBOSE SELECT sum(amount) FROM sales";
        let shown = explained(&setup, sql).await;
        let verbose = shown.split("\n\n").nth(1).unwrap();
        for (node, rows) in [("AggregateExec: mode=Partial", 2), ("DataSourceExec", 500)] {
            let line = verbose
                .lines()
                .find(|line| line.trim_start().starts_with(node));
            for task in 0..2 {
                let counts = line
                    .unwrap()
                    .split("output_rows{")
                    .skip(1)
                    .filter_map(|metric| {
                        let (labels, value) = metric.split_once("}=")?;
                        labels
                            .ends_with(&format!("stage=1, task={task}"))
                            .then_some(value)
                    });
                let counts =
                    counts.map(|value| value.split([',', ']']).next().unwrap().parse::<u64>());
                let total: u64 = counts.map(Result::unwrap).sum();
                assert_eq!(total, rows, "{node} in task {task}: {line:?}");
            }
        }
    })
    .await;
}

/// Each node's name, and the rows it put out.
fn output_rows(shown: &str) -> String {
    let lines = shown.lines().map(|line| {
        let node = line.split([':', ',']).next().unwrap_or_default();
        let rows = line
            .split_once("output_rows=")
            .map(|(_, after)| after.split([',', ']']).next().unwrap_or_default());
        format!("{node}: {}", rows.unwrap_or("-"))
    });
    lines.collect::<Vec<_>>().join("\n")
}
