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
use tonic::{Request, Response, Status, Streaming};

use super::control::UP_BUFFER;
use super::{Worker, actions, control, stream};
use crate::engine::proto;
use crate::model::boundary::BoundaryKind;
use crate::wire::error::to_status;
use crate::wire::metrics::decode_key;

type Answer<T> = Result<Response<T>, Status>;
type Items<T> = BoxStream<'static, Result<T, Status>>;

fn items<T: Send + 'static>(values: Vec<T>) -> Response<Items<T>> {
    Response::new(futures::stream::iter(values).map(Ok).boxed())
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
        let hello = control::greeting(&mut down).await?;
        let (up, messages) = mpsc::channel(UP_BUFFER);
        let query = self
            .registry
            .begin(&hello, up.clone())
            .map_err(|error| to_status(&error, None))?;
        // It ends with the control stream, and takes the query's tasks with it.
        tokio::spawn(control::serve(self.registry.clone(), query, down, up));
        Ok(Response::new(ReceiverStream::new(messages).boxed()))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let ticket =
            proto::Ticket::from_flight(request.get_ref()).map_err(Status::invalid_argument)?;
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
        let messages = streamed.map_err(|error| to_status(&error, None))?;
        Ok(Response::new(messages.boxed()))
    }

    async fn list_actions(&self, _request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        Ok(items(actions::action_types()))
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        let action = request.get_ref();
        let answer = actions::act(&self.registry, &action.r#type, &action.body)?;
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
