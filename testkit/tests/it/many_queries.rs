//! Many queries, at once and one after the other, and what they leave behind: nothing.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use flightpath_core::WorkerBuilder;
use flightpath_testkit::Cluster;
use flightpath_testkit::compare::same_rows;
use futures::future::join_all;

use crate::harness::{Flight, config, eventually, local, register, rows, run, within};

const POOL_BYTES: usize = 256 << 20;

fn pool(bytes: usize) -> Arc<dyn MemoryPool> {
    Arc::new(GreedyMemoryPool::new(bytes))
}

/// Workers that share a pool, so that one number says what all of them hold.
fn pooled(pool: &Arc<dyn MemoryPool>) -> impl Fn(WorkerBuilder) -> WorkerBuilder {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(pool))
        .build_arc()
        .unwrap();
    move |builder| {
        let session = SessionStateBuilder::new()
            .with_default_features()
            .with_runtime_env(Arc::clone(&runtime));
        builder.with_session_state(session.build())
    }
}

fn session(cluster: &Cluster) -> SessionContext {
    let settings = [
        // A busy machine is not what is tested.
        ("flightpath.connect_timeout", "100s"),
        ("flightpath.worker_timeout", "100s"),
        ("datafusion.execution.target_partitions", "2"),
        (
            "datafusion.execution.sort_spill_reservation_bytes",
            "100000",
        ),
    ];
    let ctx = cluster.context_with(config(&settings)).unwrap();
    register(&ctx, "a", rows(4, 500, 16));
    register(&ctx, "b", rows(4, 300, 16));
    ctx
}

fn sql(number: usize) -> String {
    match number % 4 {
        0 => format!("SELECT g, count(*), sum(k) FROM a WHERE k > {number} GROUP BY g"),
        1 => format!(
            "SELECT a.k, b.s FROM a JOIN b ON a.k = b.k WHERE a.g <> {}",
            number % 10
        ),
        2 => format!("SELECT k, s FROM a WHERE k % 100 <> {number} ORDER BY s DESC"),
        _ => format!(
            "SELECT g, k, row_number() OVER (PARTITION BY g ORDER BY k) FROM b WHERE k > {number}"
        ),
    }
}

async fn nothing_is_left(cluster: &Cluster, pool: &Arc<dyn MemoryPool>) {
    for url in cluster.urls() {
        Flight::connect(&url).await.idle().await;
    }
    eventually("no memory is reserved", async || pool.reserved() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_queries_at_once() {
    within(180, async {
        let pool = pool(POOL_BYTES);
        let cluster = Cluster::start_with(4, pooled(&pool)).await.unwrap();
        let ctx = session(&cluster);
        let queries = (0..100).map(|number| {
            let ctx = ctx.clone();
            tokio::spawn(async move {
                let ran = run(&ctx, &sql(number)).await.unwrap();
                let counts = ran.reports().counts();
                assert_eq!((counts.failed, counts.cancelled, counts.missing), (0, 0, 0));
                (number, ran.rows)
            })
        });
        for answer in join_all(queries).await {
            let (number, rows) = answer.unwrap();
            let frame = local(&ctx).sql(&sql(number)).await.unwrap();
            same_rows(&frame.collect().await.unwrap(), &rows)
                .unwrap_or_else(|found| panic!("{}\n{found}", sql(number)));
        }
        nothing_is_left(&cluster, &pool).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_queries_after_each_other() {
    within(180, async {
        let pool = pool(POOL_BYTES);
        let cluster = Cluster::start_with(1, pooled(&pool)).await.unwrap();
        let ctx = session(&cluster);
        let runtime = tokio::runtime::Handle::current();
        let mut after_warming_up = 0;
        for number in 0..300 {
            run(&ctx, &sql(number)).await.unwrap();
            if number == 50 {
                nothing_is_left(&cluster, &pool).await;
                after_warming_up = runtime.metrics().num_alive_tasks();
            }
        }
        nothing_is_left(&cluster, &pool).await;
        // The clients that looked for tasks are gone, or as many as before.
        eventually("no task of the runtime is left over", async || {
            runtime.metrics().num_alive_tasks() <= after_warming_up
        })
        .await;
    })
    .await;
}

/// A query that fails leaves dozens of streams at once, over connections that others use.
#[tokio::test(flavor = "multi_thread")]
async fn queries_that_fail_do_not_take_the_connections_of_others() {
    within(180, async {
        // Enough for some of the queries.
        let pool = pool(2 << 20);
        let cluster = Cluster::start_with(4, pooled(&pool)).await.unwrap();
        let ctx = session(&cluster);
        let queries = (0..100).map(|number| {
            let ctx = ctx.clone();
            tokio::spawn(async move { run(&ctx, &sql(number)).await.map(|_| ()) })
        });
        let mut failed = 0;
        for answer in join_all(queries).await {
            let Err(error) = answer.unwrap() else {
                continue;
            };
            failed += 1;
            let text = error.strip_backtrace();
            assert!(text.contains("Failed to allocate"), "{text}");
        }
        assert!(failed > 0, "the pool was large enough for all");
        nothing_is_left(&cluster, &pool).await;
    })
    .await;
}
