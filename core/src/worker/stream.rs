//! Streams of batches out of tasks.

use std::sync::Arc;

use arrow_flight::FlightData;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::query::{Registry, WorkerQuery};
use super::task::PartitionReader;
use crate::engine::proto::{StreamHead, headers_to_proto};
use crate::model::boundary::{BoundaryKind, ExchangeRequest};
use crate::model::hooks::{Direction, Transfer};
use crate::model::panic::caught_in;
use crate::model::stage::TaskKey;
use crate::wire::batch::BatchEncoder;
use crate::wire::compact::weigh_batch;
use crate::wire::error::{named, to_status};

/// Encoded messages that wait for the connection.
const ENCODED_BUFFER: usize = 2;

/// A partition for a reader in this process: batches as they are, weighed once for both ends.
pub(crate) fn local_stream(
    registry: &Arc<Registry>,
    producer: &TaskKey,
    partition: usize,
    request: &ExchangeRequest<'_>,
    bytes: &Count,
) -> Result<SendableRecordBatchStream> {
    let (query, task) = registry.task(producer)?;
    let origin = query.origin(producer);
    let reader = task.take(partition)?;
    let headers = task
        .span
        .in_scope(|| registry.hooks.stream_headers(producer));
    registry.hooks.stream_opened(producer, &headers);
    let (read, hooks) = (bytes.clone(), Arc::clone(&registry.hooks));
    let transfer = Transfer {
        producer: *producer,
        direction: Direction::Transmit,
        kind: request.kind,
        local: true,
        bytes: 0,
    };
    let state = (reader, read, hooks);
    let stream = futures::stream::unfold(state, move |(mut reader, read, hooks)| async move {
        let item = reader.next().await?;
        if let Ok(batch) = &item {
            let bytes = weigh_batch(batch).rows;
            reader.task().sent(batch.num_rows(), bytes);
            read.add(bytes);
            for direction in [Direction::Transmit, Direction::Receive] {
                hooks.transferred(&Transfer {
                    direction,
                    bytes,
                    ..transfer
                });
            }
        }
        Some((item, (reader, read, hooks)))
    });
    let stream = stream.map(move |item| item.map_err(|error| named(error, &origin)));
    Ok(Box::pin(RecordBatchStreamAdapter::new(
        Arc::clone(&request.schema),
        stream,
    )))
}

/// A partition for a reader elsewhere: encoded apart from the connection, which many streams
/// share.
pub(crate) fn remote_stream(
    registry: &Arc<Registry>,
    query: Arc<WorkerQuery>,
    reader: PartitionReader,
    schema: SchemaRef,
    kind: BoundaryKind,
) -> Result<impl Stream<Item = std::result::Result<FlightData, Status>> + use<>> {
    let compression = query.config.compression.codec();
    let mut encoder = BatchEncoder::new(schema, compression, query.config.max_message_bytes)?;
    let key = reader.task().key;
    let headers = reader
        .task()
        .span
        .in_scope(|| registry.hooks.stream_headers(&key));
    let head = StreamHead {
        headers: headers_to_proto(headers),
    };
    let first = encoder
        .schema_message()
        .with_app_metadata(head.encode_to_vec());
    let (sender, encoded) = mpsc::channel(ENCODED_BUFFER);
    let hooks = Arc::clone(&registry.hooks);
    let sent = move |bytes| {
        hooks.transferred(&Transfer {
            producer: key,
            direction: Direction::Transmit,
            kind,
            local: false,
            bytes,
        });
    };
    let job = SpawnedTask::spawn(async move {
        let sending = send(reader, &mut encoder, first, &sender, sent);
        let error = match caught_in("sending a partition", sending).await {
            Ok(()) => return,
            Err(error) => error,
        };
        let status = to_status(&error, Some(&query.origin(&key)));
        let _left = sender.send(Err(status)).await;
    });
    // The job lives as long as its reader.
    Ok(ReceiverStream::new(encoded).map(move |item| {
        let _alive = &job;
        item
    }))
}

async fn send(
    mut reader: PartitionReader,
    encoder: &mut BatchEncoder,
    first: FlightData,
    sender: &mpsc::Sender<std::result::Result<FlightData, Status>>,
    sent: impl Fn(usize),
) -> std::result::Result<(), DataFusionError> {
    if sender.send(Ok(first)).await.is_err() {
        return Ok(());
    }
    loop {
        let batch = tokio::select! {
            batch = reader.next() => batch,
            () = sender.closed() => return Ok(()),
        };
        let Some(batch) = batch else { return Ok(()) };
        let batch = batch?;
        let messages = encoder.encode(&batch)?;
        let bytes = messages
            .iter()
            .map(|message| message.data_header.len() + message.data_body.len())
            .sum();
        reader.task().sent(batch.num_rows(), bytes);
        sent(bytes);
        for message in messages {
            if sender.send(Ok(message)).await.is_err() {
                return Ok(());
            }
        }
    }
}
