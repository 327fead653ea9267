//! The coordinator's end of one control stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use arrow_flight::FlightData;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use tracing::{Instrument, Span};

use super::proto::{self, DownKind, Hello, UpKind, headers_to_proto};
use super::query::Shared;
use super::rpc::{DO_EXCHANGE, Rpc};
use crate::model::reports::TaskProgress;
use crate::model::stage::TaskKey;
use crate::wire::error::{decode_error, from_status};
use crate::wire::metrics::{decode_key, decode_report};

/// Messages on their way to a worker. Tasks wait for the worker to take them.
const DOWN_BUFFER: usize = 16;

/// What a worker answered to a task.
#[derive(Debug)]
pub(crate) enum Answer {
    Accepted,
    Refused(String),
}

/// A worker that takes part in a query.
#[derive(Debug)]
pub(crate) struct Control {
    url: String,
    down: mpsc::Sender<FlightData>,
    waiting: Arc<Waiting>,
    /// True once the worker has sent everything, or is lost.
    done: watch::Receiver<bool>,
    _reader: JoinSet<()>,
}

type Waiting = Mutex<HashMap<TaskKey, oneshot::Sender<Answer>>>;

impl Control {
    /// Opens the stream, and exchanges versions.
    ///
    /// # Errors
    /// Names the worker, and what was found there.
    pub(crate) async fn open(url: &str, shared: Arc<Shared>) -> Result<Self> {
        let timeout = shared.reader.config.connect_timeout.0;
        match tokio::time::timeout(timeout, Self::greet(url, shared)).await {
            Ok(opened) => opened,
            Err(_) => Err(exec_datafusion_err!(
                "no greeting from worker {url} within {timeout:?}"
            )),
        }
    }

    async fn greet(url: &str, shared: Arc<Shared>) -> Result<Self> {
        let config = &shared.reader.config;
        let mut client = shared.reader.connections.client(url, config).await?;
        let (down, outgoing) = mpsc::channel(DOWN_BUFFER);
        let rpc = Rpc::client(DO_EXCHANGE, config.trace_detail);
        let hello = DownKind::Hello(Hello {
            protocol: proto::PROTOCOL_VERSION,
            release: proto::RELEASE.to_string(),
            query_id: shared.reader.query_id.as_bytes().to_vec(),
            url: url.to_string(),
            settings: shared.settings.clone(),
            headers: headers_to_proto(rpc.headers(&shared.reader.hooks)),
        });
        // The channel is empty and its other end is here.
        let _sent = down.send(hello.into()).await;
        let greeted = client.do_exchange(ReceiverStream::new(outgoing)).await;
        if let Err(status) = &greeted {
            rpc.ended(status.code(), status.message());
            // A connection kept from earlier may be what is broken.
            shared.reader.connections.forget(url);
        }
        let mut up = greeted
            .map_err(|status| from_status(status, url).context(format!("greeting worker {url}")))?
            .into_inner();
        match next(&mut up, url).await? {
            Some(UpKind::Welcome(welcome)) if welcome.protocol == proto::PROTOCOL_VERSION => {}
            Some(UpKind::Welcome(welcome)) => {
                return Err(exec_datafusion_err!(
                    "worker {url} speaks protocol {} (release {}), and this coordinator protocol \
                     {} (release {}): both must be of the same release",
                    welcome.protocol,
                    welcome.release,
                    proto::PROTOCOL_VERSION,
                    proto::RELEASE
                ));
            }
            _ => {
                return Err(exec_datafusion_err!(
                    "{url} did not answer as a Flightpath worker does"
                ));
            }
        }
        let waiting = Arc::<Waiting>::default();
        let (finished, done) = watch::channel(false);
        // Not in the current span as a whole: it ends some time after the query does, and with it would that span.
        let mut reader = JoinSet::new();
        reader.spawn({
            let (url, waiting) = (url.to_string(), Arc::clone(&waiting));
            let span = Span::current();
            async move {
                let read = read(up, &url, &shared, &waiting).instrument(span).await;
                match read {
                    Ok(()) => rpc.ended(Code::Ok, ""),
                    Err(error) => {
                        rpc.ended(Code::Unavailable, &error.strip_backtrace());
                        shared.reader.connections.forget(&url);
                        shared.lost(&url, error);
                    }
                }
                waiting.lock().clear();
                finished.send_replace(true);
            }
        });
        Ok(Self {
            url: url.to_string(),
            down,
            waiting,
            done,
            _reader: reader,
        })
    }

    /// Sends a task; the answer comes later.
    pub(crate) async fn dispatch(
        &self,
        key: TaskKey,
        task: proto::Task,
    ) -> Result<oneshot::Receiver<Answer>> {
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().insert(key, answer);
        self.send(DownKind::Task(task)).await?;
        Ok(answered)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the worker is lost.
    pub(crate) async fn send(&self, message: DownKind) -> Result<()> {
        let mut done = self.done.clone();
        tokio::select! {
            sent = self.down.send(message.into()) => sent.map_err(|_| self.gone()),
            _ = done.wait_for(|done| *done) => Err(self.gone()),
        }
    }

    fn gone(&self) -> DataFusionError {
        exec_datafusion_err!("worker {} is gone", self.url)
    }

    /// Waits until the worker has sent everything, or is lost.
    pub(crate) async fn done(&self) {
        // An error means that the reader is gone, and with it the worker.
        let _ = self.done.clone().wait_for(|done| *done).await;
    }
}

async fn next(up: &mut Streaming<FlightData>, url: &str) -> Result<Option<UpKind>> {
    let message = up
        .message()
        .await
        .map_err(|status| from_status(status, url))?;
    let read = |data| {
        let kind = UpKind::from_flight(&data);
        kind.map_err(|error| error.context(format!("worker {url} sent something else")))
    };
    message.map(read).transpose()
}

/// Reads until the worker is done; an error if it is lost before.
async fn read(
    mut up: Streaming<FlightData>,
    url: &str,
    shared: &Shared,
    waiting: &Waiting,
) -> Result<()> {
    let timeout = shared.reader.config.worker_timeout.0;
    loop {
        let message = tokio::time::timeout(timeout, next(&mut up, url))
            .await
            .map_err(|_| exec_datafusion_err!("no sign of life for {timeout:?}"))??
            .ok_or_else(|| exec_datafusion_err!("it closed the connection"))?;
        match message {
            UpKind::Accepted(key) => {
                if let Some(answer) = waiting.lock().remove(&decode_key(key)?) {
                    let _late = answer.send(Answer::Accepted);
                }
            }
            UpKind::Refused(refused) => {
                let answer = refused
                    .key
                    .and_then(|key| decode_key(key).ok())
                    .and_then(|key| waiting.lock().remove(&key));
                if let Some(answer) = answer {
                    let _late = answer.send(Answer::Refused(refused.reason));
                }
            }
            UpKind::Progress(progress) => {
                if let Some(key) = progress.key {
                    let done = TaskProgress {
                        output_rows: progress.rows,
                        output_bytes: progress.bytes,
                        started: Some(UNIX_EPOCH + Duration::from_micros(progress.started_micros)),
                    };
                    shared.progress(decode_key(key)?, done);
                }
            }
            UpKind::Failed(failed) => {
                let error = decode_error(&failed.error);
                if let Some(key) = failed.key {
                    shared.task_failed(decode_key(key)?, &error);
                }
                shared.fail(error);
            }
            UpKind::Report(report) => {
                let mut report = decode_report(report, &shared.metric_codecs)?;
                report.worker = url.to_string();
                shared.report(report);
            }
            UpKind::Heartbeat(_) | UpKind::Welcome(_) => {}
            UpKind::Done(_) => return Ok(()),
        }
    }
}
