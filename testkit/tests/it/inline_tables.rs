//! In-memory tables that travel inside plans.

use flightpath_core::local_reason;
use flightpath_testkit::Cluster;

use crate::harness::{config, register, rows, run_as_local, within};

#[tokio::test(flavor = "multi_thread")]
async fn batches_cut_from_one_weigh_what_their_rows_weigh() {
    within(60, async {
        let cluster = Cluster::start(2).await.unwrap();
        let limit = [("flightpath.max_inline_bytes", "1500000")];
        let ctx = cluster.context_with(config(&limit)).unwrap();
        // About 900,000 bytes of rows, in batches that all share the buffers of their partition.
        register(&ctx, "cut", rows(2, 10_000, 24));
        run_as_local(&ctx, "SELECT g, max(s) FROM cut GROUP BY g").await;

        register(&ctx, "large", rows(2, 20_000, 24));
        let frame = ctx
            .sql("SELECT g, max(s) FROM large GROUP BY g")
            .await
            .unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let reason = local_reason(&plan).unwrap();
        assert!(
            reason.contains("flightpath.max_inline_bytes = 1500000"),
            "{reason}"
        );
    })
    .await;
}
