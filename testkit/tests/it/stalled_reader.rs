//! A consumer that stops reading holds up its own query and nothing else.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::physical_plan::{ExecutionPlanProperties, execute_stream};
use datafusion::prelude::SessionContext;
use flightpath_testkit::Cluster;
use futures::{StreamExt, TryStreamExt};

use crate::harness::{
    Flight, config, count, eventually, plan, register, rows, run_as_local, within,
};

/// Its 1,000,000 rows are far more than all buffers hold.
const CROSSED: &str = "SELECT a.k, a.s, b.s FROM a CROSS JOIN b";

fn session(cluster: &Cluster) -> SessionContext {
    let ctx = cluster
        .context_with(config(&[
            ("flightpath.stream_buffer_bytes", "65536"),
            ("datafusion.execution.target_partitions", "4"),
        ]))
        .unwrap();
    register(&ctx, "a", rows(8, 125, 64));
    register(&ctx, "b", rows(8, 125, 64));
    ctx
}

async fn sent(workers: &mut [Flight]) -> u64 {
    let mut sent = 0;
    for worker in workers {
        let tasks = worker.tasks().await;
        // The build side is broadcast; what stalls is the last stage.
        let last = tasks.iter().filter_map(|task| task["stage"].as_u64()).max();
        let of_last = tasks.iter().filter(|task| task["stage"].as_u64() == last);
        sent += of_last
            .filter_map(|task| task["output_rows"].as_u64())
            .sum::<u64>();
    }
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_holds_up_only_its_own_query() {
    within(120, async {
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = session(&cluster);
        let mut workers = vec![];
        for url in cluster.urls() {
            workers.push(Flight::connect(&url).await);
        }
        let plan = plan(&ctx, CROSSED).await.unwrap();
        let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
        let mut read = stream.next().await.unwrap().unwrap().num_rows();

        let mut seen = vec![];
        eventually("no more rows are sent", async || {
            seen.push(sent(&mut workers).await);
            seen.len() > 20
                && seen
                    .iter()
                    .rev()
                    .take(20)
                    .all(|sent| Some(sent) == seen.last())
        })
        .await;
        let held = *seen.last().unwrap();
        assert!(
            held < 500_000,
            "{held} rows left the workers while nobody read"
        );

        run_as_local(&ctx, "SELECT g, count(*), max(s) FROM a GROUP BY g").await;
        assert_eq!(
            sent(&mut workers).await,
            held,
            "it went on without a reader"
        );

        while let Some(batch) = stream.try_next().await.unwrap() {
            read += batch.num_rows();
        }
        assert_eq!(read, 1_000_000);
    })
    .await;
}

/// The merge takes all of one partition before it takes a second batch of the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_merge_takes_one_partition_after_the_other() {
    within(120, async {
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = session(&cluster);
        register(&ctx, "ranges", rows(16, 4_000, 64));
        let plan = plan(&ctx, "SELECT k, s FROM ranges ORDER BY k")
            .await
            .unwrap();
        let order = plan.output_ordering().unwrap().clone();
        assert_eq!(order[0].options, SortOptions::new(false, false));
        let sorted = run_as_local(&ctx, "SELECT k, s FROM ranges ORDER BY k").await;
        flightpath_testkit::compare::in_order(&sorted.rows, &order).unwrap();
        assert_eq!(count(&sorted.rows), 64_000);
    })
    .await;
}
