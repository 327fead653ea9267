//! Reading the streams of producer tasks, over the network or within a worker.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::{Count, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, TryStreamExt};
use parking_lot::RwLock;
use prost::Message;

use super::connect::Connections;
use super::proto::{StreamHead, Ticket, headers_from_proto, headers_to_proto};
use super::rpc::{DO_GET, Rpc};
use crate::config::FlightpathConfig;
use crate::model::boundary::{BoundaryKind, ExchangeRequest, StreamKey};
use crate::model::hooks::{Direction, Hooks, Transfer};
use crate::model::stage::{QueryId, TaskKey};
use crate::wire::batch::BatchDecoder;
use crate::wire::error::{Origin, from_status, named};
use crate::wire::metrics::encode_key;

/// Which worker runs each task of each stage.
#[derive(Debug, Default)]
pub(crate) struct Routes(RwLock<HashMap<usize, Vec<String>>>);

impl Routes {
    pub(crate) fn add(&self, stage: usize, workers: Vec<String>) {
        self.0.write().insert(stage, workers);
    }

    pub(crate) fn worker(&self, stage: usize, task: usize) -> Result<String> {
        self.0
            .read()
            .get(&stage)
            .and_then(|workers| workers.get(task).cloned())
            .ok_or_else(|| {
                internal_datafusion_err!("task {stage}.{task} was dispatched to no worker")
            })
    }

    pub(crate) fn of(&self, stage: usize) -> Vec<String> {
        self.0.read().get(&stage).cloned().unwrap_or_default()
    }
}

/// Hands out streams of tasks that run in this process.
pub(crate) trait LocalStreams: Debug + Send + Sync {
    /// The stream, if the worker at `worker` is this one; adds what its batches weigh to `bytes`.
    fn local(
        &self,
        worker: &str,
        producer: &TaskKey,
        partition: usize,
        request: &ExchangeRequest<'_>,
        bytes: &Count,
    ) -> Option<Result<SendableRecordBatchStream>>;
}

/// Opens the streams of one query, for the coordinator and for tasks alike.
#[derive(Clone, Debug)]
pub(crate) struct StreamReader {
    pub(crate) query_id: QueryId,
    pub(crate) routes: Arc<Routes>,
    pub(crate) connections: Connections,
    pub(crate) config: FlightpathConfig,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) local: Option<Arc<dyn LocalStreams>>,
}

impl StreamReader {
    pub(crate) fn open(
        &self,
        request: &ExchangeRequest<'_>,
    ) -> Result<Vec<SendableRecordBatchStream>> {
        let bytes =
            MetricBuilder::new(request.metrics).counter("exchange_bytes", request.partition);
        request
            .reads
            .iter()
            .map(|read| self.stream(request, *read, bytes.clone()))
            .collect()
    }

    fn stream(
        &self,
        request: &ExchangeRequest<'_>,
        read: StreamKey,
        bytes: Count,
    ) -> Result<SendableRecordBatchStream> {
        let producer = TaskKey {
            query_id: self.query_id,
            stage: request.stage,
            task: read.task,
            attempt: 0,
        };
        let worker = self.routes.worker(producer.stage, producer.task)?;
        let local = self
            .local
            .as_ref()
            .and_then(|local| local.local(&worker, &producer, read.partition, request, &bytes));
        if let Some(stream) = local {
            return stream;
        }
        let (partition, kind) = (read.partition, request.kind);
        let opened = remote(self.clone(), worker, producer, partition, kind, bytes);
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&request.schema),
            futures::stream::once(opened).try_flatten(),
        )))
    }
}

async fn remote(
    reader: StreamReader,
    worker: String,
    producer: TaskKey,
    partition: usize,
    kind: BoundaryKind,
    bytes: Count,
) -> Result<impl Stream<Item = Result<RecordBatch>>> {
    let origin = Origin::of(&worker, &producer);
    let unread = |error: DataFusionError| named(error, &origin);
    let rpc = Rpc::client(DO_GET, reader.config.trace_detail);
    let ticket = Ticket {
        key: Some(encode_key(&producer)),
        partition: partition as u64,
        kind: kind.as_str().to_string(),
        headers: headers_to_proto(rpc.headers(&reader.hooks)),
    };
    let mut client = reader
        .connections
        .client(&worker, &reader.config)
        .await
        .map_err(unread)?;
    let messages = client
        .do_get(ticket.to_flight())
        .await
        .inspect_err(|status| rpc.ended(status.code(), status.message()))
        .map_err(|status| unread(from_status(status, &worker)))?
        .into_inner();
    let hooks = reader.hooks;
    let messages = rpc.answered_by(messages);
    let start = (messages, BatchDecoder::new());
    Ok(futures::stream::try_unfold(
        start,
        move |(mut messages, mut decoder)| {
            let (origin, bytes, hooks) = (origin.clone(), bytes.clone(), Arc::clone(&hooks));
            async move {
                loop {
                    let next = messages
                        .try_next()
                        .await
                        .map_err(|status| named(from_status(status, &origin.worker), &origin))?;
                    let Some(data) = next else { return Ok(None) };
                    if decoder.schema().is_some() {
                        let received = data.data_body.len() + data.data_header.len();
                        bytes.add(received);
                        hooks.transferred(&Transfer {
                            producer,
                            direction: Direction::Receive,
                            kind,
                            local: false,
                            bytes: received,
                        });
                    } else {
                        let head = StreamHead::decode(data.app_metadata.as_ref());
                        hooks.stream_opened(
                            &producer,
                            &headers_from_proto(head.unwrap_or_default().headers),
                        );
                    }
                    if let Some(batch) = decoder.decode(data)? {
                        return Ok(Some((batch, (messages, decoder))));
                    }
                }
            }
        },
    ))
}
