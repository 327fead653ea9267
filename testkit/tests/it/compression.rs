//! Compression of batches on the network.

use datafusion::prelude::SessionContext;
use flightpath_testkit::Cluster;

use crate::harness::{Ran, config, message, register, rows, run_as_local, within};

const SQL: &str = "SELECT s, count(*), sum(k) FROM t GROUP BY s";

async fn with(codec: &str) -> (Cluster, SessionContext) {
    let cluster = Cluster::start(2).await.unwrap();
    let ctx = cluster
        .context_with(config(&[("flightpath.compression", codec)]))
        .unwrap();
    register(&ctx, "t", rows(4, 5_000, 64));
    (cluster, ctx)
}

/// Bytes that the coordinator read.
fn read(ran: &Ran) -> u64 {
    let reports = ran.reports().reports();
    let last = reports.iter().map(|report| report.key.stage).max();
    let last = reports
        .iter()
        .filter(|report| Some(report.key.stage) == last);
    last.map(|report| report.output_bytes).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_codec_gives_the_same_rows_in_fewer_bytes() {
    within(120, async {
        let mut bytes = vec![];
        for codec in ["none", "lz4", "zstd"] {
            let (_cluster, ctx) = with(codec).await;
            bytes.push(read(&run_as_local(&ctx, SQL).await));
        }
        let [none, lz4, zstd] = bytes[..] else {
            panic!("three codecs ran")
        };
        assert!(none > 20_000 * 64, "{none}");
        assert!(
            lz4 < none / 2 && zstd < none / 2,
            "none {none}, lz4 {lz4}, zstd {zstd}"
        );
        assert_ne!(lz4, zstd, "one codec was used for both");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_codec_says_what_was_expected() {
    within(60, async {
        let (_cluster, ctx) = with("lz4").await;
        let set = ctx.sql("SET flightpath.compression = 'snappy'").await;
        let text = message(set.map(|_| ()));
        assert!(
            text.contains("flightpath.compression is none, lz4 or zstd, not \"snappy\""),
            "{text}"
        );
        run_as_local(&ctx, SQL).await;
    })
    .await;
}
