//! A table whose rows do not fit into the buffers on their way: who does not read, stalls the query.

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::FlightpathConfig;
use futures::{StreamExt, TryStreamExt};
use tempfile::TempDir;

use crate::pair::{cut, rows_of, write_files};

pub(crate) const ROWS: usize = 60_000;

/// All rows, from one stage.
pub(crate) const ALL: &str = "SELECT v, s FROM big";

/// All rows, after workers have exchanged them among themselves.
pub(crate) const JOINED: &str = "SELECT a.v, b.s FROM big a JOIN big b ON a.v = b.v";

pub(crate) fn config() -> SessionConfig {
    SessionConfig::new()
        .with_option_extension(FlightpathConfig::default())
        .with_target_partitions(2)
        .with_batch_size(512)
        .set_str("flightpath.compression", "none")
        .set_str("flightpath.stream_buffer_bytes", "65536")
        .set_str(
            "datafusion.optimizer.hash_join_single_partition_threshold",
            "0",
        )
        .set_str(
            "datafusion.optimizer.hash_join_single_partition_threshold_rows",
            "0",
        )
}

pub(crate) struct Big(TempDir);

impl Big {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rows = format!(
            "SELECT value AS v, repeat('x', 400) || value AS s FROM generate_series(1, {ROWS})"
        );
        let rows = rows_of(&rows).await;
        write_files(dir.path(), &rows.schema(), &cut(&rows, 4));
        Self(dir)
    }

    pub(crate) async fn register(&self, ctx: &SessionContext) {
        let path = self.0.path().to_str().unwrap();
        ctx.register_parquet("big", path, Default::default())
            .await
            .unwrap();
    }
}

/// A query that has put out its first batch, with the rest to come.
pub(crate) async fn begun(ctx: &SessionContext, sql: &str) -> SendableRecordBatchStream {
    let mut rows = ctx.sql(sql).await.unwrap().execute_stream().await.unwrap();
    rows.next().await.unwrap().unwrap();
    rows
}

/// Reads to the end, or to the error; how many rows came.
pub(crate) async fn rest(rows: SendableRecordBatchStream) -> Result<usize> {
    let rows: Vec<RecordBatch> = rows.try_collect().await?;
    Ok(rows.iter().map(RecordBatch::num_rows).sum())
}
