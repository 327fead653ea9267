//! A client that speaks the protocol of control streams by itself, and says what it likes.

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Criteria, FlightData, Ticket};
use futures::TryStreamExt;
use prost::Message;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

pub(crate) const PROTOCOL: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Down {
    #[prost(message, optional, tag = "1")]
    pub(crate) hello: Option<Hello>,
    #[prost(message, optional, tag = "2")]
    pub(crate) task: Option<Task>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Hello {
    #[prost(uint32, tag = "1")]
    pub(crate) protocol: u32,
    #[prost(string, tag = "2")]
    pub(crate) release: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) query_id: Vec<u8>,
    #[prost(string, tag = "4")]
    pub(crate) url: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Key {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) query_id: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(crate) stage: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) task: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Task {
    #[prost(message, optional, tag = "1")]
    pub(crate) key: Option<Key>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) plan: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Up {
    #[prost(message, optional, tag = "1")]
    pub(crate) welcome: Option<Welcome>,
    #[prost(message, optional, tag = "2")]
    pub(crate) accepted: Option<Key>,
    #[prost(message, optional, tag = "3")]
    pub(crate) refused: Option<Refused>,
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
    #[prost(string, tag = "2")]
    pub(crate) reason: String,
}

#[derive(Clone, PartialEq, Message)]
struct Partition {
    #[prost(message, optional, tag = "1")]
    key: Option<Key>,
    #[prost(uint64, tag = "2")]
    partition: u64,
}

impl Hello {
    /// A right one, for a query of its own.
    pub(crate) fn new(url: &str) -> Self {
        Self {
            protocol: PROTOCOL,
            release: "test".to_string(),
            query_id: uuid::Uuid::now_v7().as_bytes().to_vec(),
            url: url.to_string(),
        }
    }

    /// The key of a task of this query.
    pub(crate) fn key(&self, stage: u64, task: u64) -> Key {
        Key {
            query_id: self.query_id.clone(),
            stage,
            task,
        }
    }

    pub(crate) fn into_down(self) -> Down {
        Down {
            hello: Some(self),
            task: None,
        }
    }
}

impl Key {
    pub(crate) fn with_plan(self, plan: Vec<u8>) -> Down {
        let task = Task {
            key: Some(self),
            plan,
        };
        Down {
            hello: None,
            task: Some(task),
        }
    }

    pub(crate) fn ticket(self, partition: u64) -> Ticket {
        let partition = Partition {
            key: Some(self),
            partition,
        };
        let mut bytes = b"flightpath1:".to_vec();
        bytes.extend(partition.encode_to_vec());
        Ticket::new(bytes)
    }
}

pub(crate) async fn connect(url: &str) -> FlightServiceClient<Channel> {
    let endpoint = Channel::from_shared(url.to_string()).unwrap();
    FlightServiceClient::new(endpoint.connect().await.unwrap())
}

/// What each task of a worker says of itself.
pub(crate) async fn tasks(url: &str) -> Vec<Value> {
    let mut client = connect(url).await;
    let flights = client.list_flights(Criteria::default()).await.unwrap();
    let flights: Vec<_> = flights.into_inner().try_collect().await.unwrap();
    let states = flights.iter().map(|flight| &flight.app_metadata);
    states
        .map(|state| serde_json::from_slice(state).unwrap())
        .collect()
}

/// A control stream. Dropping it leaves the worker.
pub(crate) struct Control {
    pub(crate) down: mpsc::Sender<FlightData>,
    up: Streaming<FlightData>,
}

impl Control {
    /// Sends a first message of any content.
    pub(crate) async fn open(url: &str, first: Vec<u8>) -> Result<Self, Status> {
        let (down, outgoing) = mpsc::channel(4);
        let first = FlightData::new().with_app_metadata(first);
        down.send(first).await.unwrap();
        let mut client = connect(url).await.max_encoding_message_size(usize::MAX);
        let up = client.do_exchange(ReceiverStream::new(outgoing)).await?;
        Ok(Self {
            down,
            up: up.into_inner(),
        })
    }

    /// Greets as a coordinator does, and is welcome.
    pub(crate) async fn greet(url: &str, hello: Hello) -> Result<Self, Status> {
        let mut control = Self::open(url, hello.into_down().encode_to_vec()).await?;
        let welcome = control.next().await?.welcome.unwrap();
        assert_eq!(welcome.protocol, PROTOCOL);
        Ok(control)
    }

    pub(crate) async fn send(&self, message: &[u8]) {
        let message = FlightData::new().with_app_metadata(message.to_vec());
        self.down.send(message).await.unwrap();
    }

    /// Sends a task; why it is refused, if it is.
    pub(crate) async fn task(&mut self, task: Down) -> Option<String> {
        self.send(&task.encode_to_vec()).await;
        let answer = self.answer().await.unwrap();
        answer.refused.map(|refused| refused.reason)
    }

    /// The next message that is an answer to a task.
    pub(crate) async fn answer(&mut self) -> Result<Up, Status> {
        loop {
            let up = self.next().await?;
            if up.accepted.is_some() || up.refused.is_some() {
                return Ok(up);
            }
        }
    }

    async fn next(&mut self) -> Result<Up, Status> {
        let data = self.up.message().await?;
        let data = data.ok_or_else(|| Status::ok("the stream has ended"))?;
        Ok(Up::decode(data.app_metadata.as_ref()).unwrap())
    }
}
