//! The worker's end of one control stream.

use std::sync::Arc;

use arrow_flight::FlightData;
use datafusion::common::Result;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tonic::{Code, Status, Streaming};

use super::query::{Registry, WorkerQuery};
use crate::engine::proto::{self, DownKind, Empty, Hello, Refused, UpKind, Welcome};
use crate::wire::metrics::encode_key;

/// Where messages to the coordinator go; a status ends the stream.
pub(crate) type Up = mpsc::Sender<std::result::Result<FlightData, Status>>;

/// Messages on their way up. Reports wait for the coordinator to take them.
pub(crate) const UP_BUFFER: usize = 16;

/// Signs of life within the time after which the coordinator gives a worker up.
const SIGNS_PER_TIMEOUT: u32 = 4;

/// Reads the greeting.
///
/// # Errors
/// Says what was expected.
pub(crate) async fn greeting(
    down: &mut Streaming<FlightData>,
) -> std::result::Result<Hello, Status> {
    let first = down
        .message()
        .await?
        .ok_or_else(|| Status::invalid_argument("expected a greeting, found the end"))?;
    let hello = match DownKind::from_flight(&first).map_err(Status::invalid_argument)? {
        DownKind::Hello(hello) => hello,
        _ => {
            return Err(Status::invalid_argument(
                "expected a greeting as the first control message",
            ));
        }
    };
    if hello.protocol != proto::PROTOCOL_VERSION {
        return Err(Status::failed_precondition(format!(
            "the coordinator speaks protocol {} (release {}), and this worker protocol {} (release \
             {}): both must be of the same release",
            hello.protocol,
            hello.release,
            proto::PROTOCOL_VERSION,
            proto::RELEASE
        )));
    }
    Ok(hello)
}

/// Serves a query until it ends, then leaves nothing of it behind.
pub(crate) async fn serve(
    registry: Arc<Registry>,
    query: Arc<WorkerQuery>,
    mut down: Streaming<FlightData>,
    up: Up,
) -> std::result::Result<(), Status> {
    query
        .tell(UpKind::Welcome(Welcome {
            protocol: proto::PROTOCOL_VERSION,
            release: proto::RELEASE.to_string(),
        }))
        .await;
    let mut signs = tokio::time::interval(query.config.worker_timeout.0 / SIGNS_PER_TIMEOUT);
    signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reason = loop {
        let message = tokio::select! {
            message = down.message() => message,
            () = up.closed() => break Err(closed()),
            _ = signs.tick() => {
                sign_of_life(&query, &up);
                continue;
            }
        };
        let message = match message {
            Ok(Some(data)) => DownKind::from_flight(&data),
            Ok(None) => break Err(closed()),
            Err(status) => break Err(status),
        };
        match message {
            Ok(DownKind::Task(task)) => answer(&registry, &query, task).await,
            Ok(DownKind::Finish(_)) => break Ok("the query has all it wants".to_string()),
            Ok(DownKind::Cancel(reason)) => break Ok(reason),
            Ok(DownKind::Hello(_)) => {
                break Err(Status::invalid_argument(
                    "expected one greeting on a control stream, found a second",
                ));
            }
            Err(expected) => break Err(Status::invalid_argument(expected)),
        }
    };
    match &reason {
        Ok(text) => query.stop(text, |_| true),
        Err(status) => query.stop(status.message(), |_| true),
    };
    // With the coordinator gone nobody takes the reports, and the stream is closed: they fail fast.
    query.reporting.none().await;
    let ended = match reason {
        Ok(_) => {
            query.tell(UpKind::Done(Empty {})).await;
            Ok(())
        }
        // Nobody hears it if the coordinator is gone; one that sent nonsense is told.
        Err(status) => {
            drop(up.send(Err(status.clone())).await);
            Err(status)
        }
    };
    registry.forget(query.id);
    ended
}

fn closed() -> Status {
    Status::new(Code::Cancelled, "the coordinator closed the control stream")
}

/// Says how far the tasks are. A coordinator that does not take that is told again later.
fn sign_of_life(query: &WorkerQuery, up: &Up) {
    let progress = query.progress().into_iter().map(UpKind::Progress);
    for message in progress.chain([UpKind::Heartbeat(Empty {})]) {
        if up.try_send(Ok(message.into())).is_err() {
            return;
        }
    }
}

async fn answer(registry: &Arc<Registry>, query: &Arc<WorkerQuery>, task: proto::Task) {
    let key = task.key.clone();
    let accepted: Result<_> = query.accept(registry, task);
    let answer = match accepted {
        Ok(key) => UpKind::Accepted(encode_key(&key)),
        Err(error) => UpKind::Refused(Refused {
            key,
            reason: error.strip_backtrace(),
        }),
    };
    query.tell(answer).await;
}
