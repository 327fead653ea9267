//! Tables of many files and of many columns.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch};
use datafusion::prelude::ParquetReadOptions;
use flightpath_testkit::Cluster;

use crate::harness::{config, rows, run_as_local, value, within, write_parquet};

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_1000_files() {
    within(180, async {
        let dir = tempfile::tempdir().unwrap();
        for (number, batches) in rows(1000, 3, 8).iter().enumerate() {
            write_parquet(&dir.path().join(format!("{number}.parquet")), batches);
        }
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = cluster.context().unwrap();
        let path = dir.path().to_str().unwrap();
        ctx.register_parquet("files", path, ParquetReadOptions::default())
            .await
            .unwrap();
        let sum = run_as_local(&ctx, "SELECT sum(k) FROM files").await;
        assert_eq!(value(&sum.rows), (0..3000).sum::<i64>().to_string());
        let shuffled = run_as_local(&ctx, "SELECT g, count(*), min(s) FROM files GROUP BY g").await;
        let scanning = shuffled.reports();
        for task in 0..2 {
            let report = scanning.report(1, task).unwrap();
            assert!(report.output_rows > 0, "task {task} read no file");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_2000_columns() {
    within(180, async {
        let dir = tempfile::tempdir().unwrap();
        for file in 0..2 {
            let columns = (0..2000).map(|column| {
                let values = Int32Array::from_iter(
                    (0..5).map(|row| (row != 3).then_some(file * 5 + row + column)),
                );
                (format!("c{column}"), Arc::new(values) as ArrayRef)
            });
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            write_parquet(&dir.path().join(format!("{file}.parquet")), &[batch]);
        }
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = cluster
            .context_with(config(&[("datafusion.execution.target_partitions", "2")]))
            .unwrap();
        let path = dir.path().to_str().unwrap();
        ctx.register_parquet("wide", path, ParquetReadOptions::default())
            .await
            .unwrap();
        let all = run_as_local(&ctx, "SELECT * FROM wide").await;
        assert_eq!(all.rows[0].num_columns(), 2000);
        let joined = "SELECT l.*, r.c1999 FROM wide l JOIN wide r ON l.c7 = r.c9";
        assert_eq!(run_as_local(&ctx, joined).await.rows[0].num_columns(), 2001);
    })
    .await;
}
