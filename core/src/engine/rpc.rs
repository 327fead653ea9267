//! Spans of requests between coordinator and workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use tonic::{Code, Status};
use tracing::Span;
use tracing::field::Empty;

use crate::model::hooks::{Headers, Hooks};
use crate::model::outcome::record_failure;
use crate::model::trace::TraceDetail;

/// A streaming call: hands control of a query to a worker.
pub(crate) const DO_EXCHANGE: &str = "arrow.flight.protocol.FlightService/DoExchange";

/// A call that reads one partition of a task.
pub(crate) const DO_GET: &str = "arrow.flight.protocol.FlightService/DoGet";

/// A call of any Flight client.
pub(crate) const DO_ACTION: &str = "arrow.flight.protocol.FlightService/DoAction";

/// The span of one request, from when it is made until its answer has been read or left.
#[derive(Debug)]
pub(crate) struct Rpc {
    span: Span,
    side: Side,
    ended: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

macro_rules! rpc_span {
    ($kind:literal, $method:expr, $($parent:tt)*) => {
        tracing::info_span!(
            $($parent)*
            "rpc",
            otel.name = $method,
            otel.kind = $kind,
            rpc.system.name = "grpc",
            rpc.method = $method,
            rpc.status_code = Empty,
            "error.type" = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        )
    };
}

impl Rpc {
    /// For who makes the request, within the current span.
    pub(crate) fn client(method: &'static str, detail: TraceDetail) -> Self {
        let span = match detail {
            TraceDetail::Rpc => rpc_span!("client", method,),
            _ => Span::none(),
        };
        Self::new(span, Side::Client)
    }

    /// For who answers it. Requests come with headers only where they are traced.
    pub(crate) fn server(
        method: &'static str,
        hooks: &Arc<dyn Hooks>,
        headers: impl FnOnce() -> Headers,
    ) -> Self {
        let headers = headers();
        let span = match headers.is_empty() {
            true => Span::none(),
            false => hooks.request_span(rpc_span!("server", method, parent: None,), &headers),
        };
        Self::new(span, Side::Server)
    }

    fn new(span: Span, side: Side) -> Self {
        Self {
            span,
            side,
            ended: AtomicBool::new(false),
        }
    }

    /// What the request is to carry.
    pub(crate) fn headers(&self, hooks: &Arc<dyn Hooks>) -> Headers {
        match self.span.is_disabled() {
            true => vec![],
            false => self.span.in_scope(|| hooks.request_headers()),
        }
    }

    /// It has been answered, or failed.
    pub(crate) fn ended(&self, code: Code, message: &str) {
        if self.span.is_disabled() || self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let name = name(code);
        self.span.record("rpc.status_code", &name);
        if self.is_error(code) {
            record_failure(&self.span, &name, message);
        }
        // A span ends when it is left for the last time.
        self.span.in_scope(|| {});
    }

    /// Who answers is not to blame for what the other side asked for.
    fn is_error(&self, code: Code) -> bool {
        match code {
            Code::Ok | Code::Cancelled => false,
            Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => true,
            _ => self.side == Side::Client,
        }
    }

    /// Ends it with the stream that answers it.
    pub(crate) fn answered_by<T: Send + 'static>(
        self,
        stream: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ) -> BoxStream<'static, Result<T, Status>> {
        if self.span.is_disabled() {
            return stream.boxed();
        }
        let watched = futures::stream::unfold((stream.boxed(), self), |(mut stream, rpc)| async {
            let item = stream.next().await;
            match &item {
                Some(Ok(_)) => {}
                Some(Err(status)) => rpc.ended(status.code(), status.message()),
                None => rpc.ended(Code::Ok, ""),
            }
            Some((item?, (stream, rpc)))
        });
        watched.boxed()
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        self.ended(Code::Cancelled, "");
    }
}

/// As gRPC writes it, such as `DEADLINE_EXCEEDED`.
fn name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_as_grpc_writes_them() {
        let codes = [Code::Ok, Code::Cancelled, Code::DeadlineExceeded];
        assert_eq!(codes.map(name), ["OK", "CANCELLED", "DEADLINE_EXCEEDED"]);
    }

    #[test]
    fn a_bad_request_is_an_error_of_who_made_it() {
        let client = Rpc::new(Span::none(), Side::Client);
        let server = Rpc::new(Span::none(), Side::Server);
        let blamed = |code| [client.is_error(code), server.is_error(code)];
        assert_eq!(blamed(Code::InvalidArgument), [true, false]);
        assert_eq!(blamed(Code::Internal), [true, true]);
        assert_eq!(blamed(Code::Cancelled), [false, false]);
    }
}
