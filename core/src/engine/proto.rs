//! The messages between coordinator and workers, and their version.
//!
//! ```text
//! coordinator                                worker
//!     | -- Hello ------------------------------> |   one DoExchange stream per query and worker
//!     | <------------------------------ Welcome -|
//!     | -- Task (one message each) ------------> |
//!     | <------------------- Accepted | Refused -|
//!     | <-- Heartbeat, Progress, Failed, Report -|
//!     | -- Finish | Cancel --------------------> |
//!     | <----------- Report of the rest, Done ---|
//! ```

use arrow_flight::FlightData;
use datafusion::common::{Result, plan_datafusion_err};
use prost::Message;

use crate::model::hooks::Headers;
use crate::wire::metrics_proto as metrics;

/// Raised whenever one side would misread what the other side writes.
pub(crate) const PROTOCOL_VERSION: u32 = 1;

/// The release, for people.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Begins every ticket, so that others are told apart.
const TICKET_MAGIC: &[u8] = b"flightpath1:";

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Down {
    #[prost(oneof = "DownKind", tags = "1, 2, 3, 4")]
    pub(crate) kind: Option<DownKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum DownKind {
    #[prost(message, tag = "1")]
    Hello(Hello),
    #[prost(message, tag = "2")]
    Task(Task),
    /// The query has all it wants.
    #[prost(message, tag = "3")]
    Finish(Empty),
    /// Stop, for this reason.
    #[prost(string, tag = "4")]
    Cancel(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Hello {
    #[prost(uint32, tag = "1")]
    pub(crate) protocol: u32,
    #[prost(string, tag = "2")]
    pub(crate) release: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) query_id: Vec<u8>,
    /// The URL by which coordinator and other workers reach this worker.
    #[prost(string, tag = "4")]
    pub(crate) url: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) settings: Vec<Setting>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) headers: Vec<Header>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Setting {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Task {
    #[prost(message, optional, tag = "1")]
    pub(crate) key: Option<metrics::Key>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) plan: bytes::Bytes,
    /// Where the tasks of its input stages run.
    #[prost(message, repeated, tag = "3")]
    pub(crate) routes: Vec<Route>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) headers: Vec<Header>,
    /// Only decode it and say whether that works.
    #[prost(bool, tag = "5")]
    pub(crate) check: bool,
    /// Down to which level its trace has spans, as a word; without one, as the query's.
    #[prost(string, tag = "6")]
    pub(crate) trace_detail: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Route {
    #[prost(uint64, tag = "1")]
    pub(crate) stage: u64,
    /// URL of the worker of each task.
    #[prost(string, repeated, tag = "2")]
    pub(crate) workers: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Header {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Up {
    #[prost(oneof = "UpKind", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub(crate) kind: Option<UpKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum UpKind {
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    #[prost(message, tag = "2")]
    Accepted(metrics::Key),
    #[prost(message, tag = "3")]
    Refused(Refused),
    #[prost(message, tag = "4")]
    Progress(Progress),
    #[prost(message, tag = "5")]
    Failed(Failed),
    #[prost(message, tag = "6")]
    Report(metrics::Report),
    #[prost(message, tag = "7")]
    Heartbeat(Empty),
    /// Every report has been sent.
    #[prost(message, tag = "8")]
    Done(Empty),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Welcome {
    #[prost(uint32, tag = "1")]
    pub(crate) protocol: u32,
    #[prost(string, tag = "2")]
    pub(crate) release: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Refused {
    #[prost(message, optional, tag = "1")]
    pub(crate) key: Option<metrics::Key>,
    #[prost(string, tag = "2")]
    pub(crate) reason: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Progress {
    #[prost(message, optional, tag = "1")]
    pub(crate) key: Option<metrics::Key>,
    #[prost(uint64, tag = "2")]
    pub(crate) rows: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) bytes: u64,
    /// Since 1970, by the worker's clock.
    #[prost(uint64, tag = "4")]
    pub(crate) started_micros: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failed {
    #[prost(message, optional, tag = "1")]
    pub(crate) key: Option<metrics::Key>,
    /// As the error codec writes it.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) error: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ticket {
    #[prost(message, optional, tag = "1")]
    pub(crate) key: Option<metrics::Key>,
    #[prost(uint64, tag = "2")]
    pub(crate) partition: u64,
    /// What the boundary that reads does, as a word.
    #[prost(string, tag = "3")]
    pub(crate) kind: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) headers: Vec<Header>,
}

impl Ticket {
    pub(crate) fn to_flight(&self) -> arrow_flight::Ticket {
        let mut bytes = TICKET_MAGIC.to_vec();
        bytes.extend(self.encode_to_vec());
        arrow_flight::Ticket::new(bytes)
    }

    /// # Errors
    /// Says what a ticket looks like.
    pub(crate) fn from_flight(ticket: &arrow_flight::Ticket) -> std::result::Result<Self, String> {
        ticket
            .ticket
            .strip_prefix(TICKET_MAGIC)
            .and_then(|bytes| Self::decode(bytes).ok())
            .ok_or_else(|| {
                "expected a ticket that a Flightpath coordinator or worker made for one partition \
                 of a task; a worker has no tables to read by name"
                    .to_string()
            })
    }
}

/// What the first message of a data stream carries beside the schema.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StreamHead {
    #[prost(message, repeated, tag = "1")]
    pub(crate) headers: Vec<Header>,
}

pub(crate) fn headers_to_proto(headers: Headers) -> Vec<Header> {
    headers
        .into_iter()
        .map(|(name, value)| Header { name, value })
        .collect()
}

pub(crate) fn headers_from_proto(headers: Vec<Header>) -> Headers {
    headers
        .into_iter()
        .map(|header| (header.name, header.value))
        .collect()
}

impl From<DownKind> for FlightData {
    fn from(kind: DownKind) -> Self {
        FlightData::new().with_app_metadata(Down { kind: Some(kind) }.encode_to_vec())
    }
}

impl From<UpKind> for FlightData {
    fn from(kind: UpKind) -> Self {
        FlightData::new().with_app_metadata(Up { kind: Some(kind) }.encode_to_vec())
    }
}

impl UpKind {
    /// # Errors
    /// If the message is none that a worker sends.
    pub(crate) fn from_flight(data: &FlightData) -> Result<Self> {
        Up::decode(data.app_metadata.as_ref())
            .ok()
            .and_then(|up| up.kind)
            .ok_or_else(|| plan_datafusion_err!("expected a control message of a worker"))
    }
}

impl DownKind {
    /// # Errors
    /// Says what was expected.
    pub(crate) fn from_flight(data: &FlightData) -> std::result::Result<Self, String> {
        Down::decode(data.app_metadata.as_ref())
            .ok()
            .and_then(|down| down.kind)
            .ok_or_else(|| {
                "expected a control message of a Flightpath coordinator in app_metadata".to_string()
            })
    }
}
