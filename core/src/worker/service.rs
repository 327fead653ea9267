//! The Flight service.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::{Code, Request, Response, Status, Streaming};

use super::control::UP_BUFFER;
use super::{Worker, actions, control, stream};
use crate::engine::proto::{self, headers_from_proto};
use crate::engine::rpc::{DO_ACTION, DO_EXCHANGE, DO_GET, Rpc};
use crate::model::boundary::BoundaryKind;
use crate::model::hooks::Headers;
use crate::model::trace::TraceDetail;
use crate::wire::error::to_status;
use crate::wire::metrics::decode_key;

type Answer<T> = Result<Response<T>, Status>;
type Items<T> = BoxStream<'static, Result<T, Status>>;

fn items<T: Send + 'static>(values: Vec<T>) -> Response<Items<T>> {
    Response::new(futures::stream::iter(values).map(Ok).boxed())
}

impl Worker {
    fn rpc(&self, method: &'static str, headers: impl FnOnce() -> Headers) -> Rpc {
        Rpc::server(method, &self.registry.hooks, headers)
    }

    /// What clients other than Flightpath's send, if this worker's own settings ask for it.
    fn metadata_headers(&self, metadata: &MetadataMap) -> Headers {
        if self.registry.trace_detail() < TraceDetail::Rpc {
            return vec![];
        }
        let texts = metadata.iter().filter_map(|pair| match pair {
            KeyAndValueRef::Ascii(key, value) => Some((key.to_string(), value.as_bytes().to_vec())),
            KeyAndValueRef::Binary(..) => None,
        });
        texts.collect()
    }
}

fn unserved(what: &str) -> Status {
    Status::unimplemented(format!(
        "a worker does not serve {what}; it serves DoExchange and DoGet to Flightpath, and \
         ListActions, DoAction, ListFlights and GetFlightInfo to everybody"
    ))
}

#[tonic::async_trait]
impl FlightService for Worker {
    type HandshakeStream = Items<HandshakeResponse>;
    type ListFlightsStream = Items<FlightInfo>;
    type DoGetStream = Items<FlightData>;
    type DoPutStream = Items<PutResult>;
    type DoActionStream = Items<arrow_flight::Result>;
    type ListActionsStream = Items<ActionType>;
    type DoExchangeStream = Items<FlightData>;

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        let mut down = request.into_inner();
        let mut hello = control::greeting(&mut down).await?;
        let headers = std::mem::take(&mut hello.headers);
        let rpc = self.rpc(DO_EXCHANGE, || headers_from_proto(headers));
        let (up, messages) = mpsc::channel(UP_BUFFER);
        let query = self
            .registry
            .begin(&hello, up.clone())
            .map_err(|error| to_status(&error, None))
            .inspect_err(|status| rpc.ended(status.code(), status.message()))?;
        let serving = control::serve(self.registry.clone(), query, down, up);
        // It ends with the control stream, and takes the query's tasks with it.
        tokio::spawn(async move {
            match serving.await {
                Ok(()) => rpc.ended(Code::Ok, ""),
                Err(status) => rpc.ended(status.code(), status.message()),
            }
        });
        Ok(Response::new(ReceiverStream::new(messages).boxed()))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let mut ticket =
            proto::Ticket::from_flight(request.get_ref()).map_err(Status::invalid_argument)?;
        let headers = std::mem::take(&mut ticket.headers);
        let rpc = self.rpc(DO_GET, || headers_from_proto(headers));
        let partition = ticket.partition as usize;
        let key = ticket
            .key
            .map(decode_key)
            .transpose()
            .map_err(|error| to_status(&error, None))?
            .ok_or_else(|| Status::invalid_argument("expected a ticket that names a task"))?;
        let streamed = self.registry.task(&key).and_then(|(query, task)| {
            let schema = task.schema();
            let reader = task.take(partition)?;
            let kind = BoundaryKind::named(&ticket.kind);
            stream::remote_stream(&self.registry, query, reader, schema, kind)
        });
        let messages = streamed
            .map_err(|error| to_status(&error, None))
            .inspect_err(|status| rpc.ended(status.code(), status.message()))?;
        Ok(Response::new(rpc.answered_by(messages)))
    }

    async fn list_actions(&self, _request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        Ok(items(actions::action_types()))
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        let rpc = self.rpc(DO_ACTION, || self.metadata_headers(request.metadata()));
        let action = request.get_ref();
        let answer = actions::act(&self.registry, &action.r#type, &action.body)
            .inspect_err(|status| rpc.ended(status.code(), status.message()))?;
        rpc.ended(Code::Ok, "");
        Ok(items(vec![arrow_flight::Result {
            body: answer.to_string().into(),
        }]))
    }

    async fn list_flights(&self, _request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        Ok(items(actions::flights(&self.registry)))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        actions::flight_of(&self.registry, request.get_ref()).map(Response::new)
    }

    async fn handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        Err(unserved("Handshake"))
    }

    async fn get_schema(&self, _request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        Err(unserved("GetSchema"))
    }

    async fn poll_flight_info(&self, _request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        Err(unserved("PollFlightInfo"))
    }

    async fn do_put(&self, _request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        Err(unserved("DoPut"))
    }
}
