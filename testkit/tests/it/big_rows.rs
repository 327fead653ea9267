//! Rows of any size travel, up to what the settings allow.

use flightpath_testkit::Cluster;

use crate::harness::{Ran, config, message, register, rows, run, value, within};

/// Both producers have the same text of this many bytes, so one of the two must cross the network
/// to the task that has its group.
async fn shuffled(bytes: usize, settings: &[(&str, &str)]) -> datafusion::common::Result<Ran> {
    let cluster = Cluster::start(2).await?;
    // Without optimization, 100 MB take their time to compress.
    let patient = [("flightpath.worker_timeout", "100s")];
    let ctx = cluster.context_with(config(&[&patient[..], settings].concat()))?;
    register(&ctx, "t", rows(2, 50, 8));
    let sql = format!(
        "SELECT concat(length(text), ' bytes in ', rows, ' rows') FROM ( \
           SELECT text, count(*) AS rows FROM ( \
             SELECT CASE WHEN k % 50 = 7 THEN repeat('x', {bytes} + g - 7) ELSE s END AS text FROM t \
           ) GROUP BY text) WHERE length(text) > 100"
    );
    let ran = run(&ctx, &sql).await?;
    assert!(ran.text().contains("NetworkShuffleExec"), "{}", ran.text());
    Ok(ran)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_100_mb_is_shuffled() {
    within(120, async {
        let ran = shuffled(100_000_000, &[]).await.unwrap();
        assert_eq!(value(&ran.rows), "100000000 bytes in 2 rows");
        let sent = ran.reports().reports();
        // Without compression it would be 100 MB; what is counted within a worker is not compressed.
        assert!(sent.iter().any(|report| report.output_bytes > 100_000));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_100_mb_is_shuffled_uncompressed() {
    within(120, async {
        let ran = shuffled(100_000_000, &[("flightpath.compression", "none")])
            .await
            .unwrap();
        assert_eq!(value(&ran.rows), "100000000 bytes in 2 rows");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_above_the_limit_names_the_setting() {
    within(60, async {
        let ran = shuffled(100_000, &[("flightpath.max_message_bytes", "200000")])
            .await
            .unwrap();
        assert_eq!(value(&ran.rows), "100000 bytes in 2 rows");
        let refused = shuffled(300_000, &[("flightpath.max_message_bytes", "200000")]).await;
        let text = message(refused.map(|ran| ran.rows));
        assert!(
            text.contains("flightpath.max_message_bytes = 200000"),
            "{text}"
        );
        assert!(text.contains("a row takes 300"), "{text}");
    })
    .await;
}
