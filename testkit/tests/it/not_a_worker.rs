//! A URL behind which there is no worker, or one of another version: the error names it and says
//! what was found, in time.

use std::net::{Ipv4Addr, SocketAddr};

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use datafusion::common::runtime::SpawnedTask;
use datafusion::prelude::SessionContext;
use flightpath_testkit::Cluster;
use futures::StreamExt;
use futures::stream::BoxStream;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::fixture::within;
use crate::pair::{config, cut, rows_of, session_on, write_files};
use crate::wire::{Up, Welcome};

async fn listen() -> (TcpListener, String) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(address).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// Runs a query on a worker and on what `url` leads to.
async fn error_with(url: &str) -> String {
    let cluster = Cluster::start(1).await.unwrap();
    let mut urls = cluster.urls();
    urls.push(url.to_string());
    let config = config().set_str("datafusion.execution.batch_size", "16");
    let ctx = session_on(&urls, config);
    ctx.sql("SET flightpath.connect_timeout = '300ms'")
        .await
        .unwrap();
    let error = within(5, run(&ctx)).await.unwrap_err();
    let text = error.strip_backtrace();
    assert!(text.contains(url), "{text}");
    // The worker that is one is not left with the query.
    let worker = urls.remove(0);
    crate::fixture::eventually("no task is left", async || {
        crate::wire::tasks(&worker).await.is_empty()
    })
    .await;
    text
}

async fn run(ctx: &SessionContext) -> datafusion::common::Result<()> {
    let rows = rows_of("SELECT value AS v FROM generate_series(1, 100)").await;
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path(), &rows.schema(), &cut(&rows, 4));
    ctx.register_parquet("t", dir.path().to_str().unwrap(), Default::default())
        .await?;
    ctx.sql("SELECT v % 3, count(*) FROM t GROUP BY v % 3")
        .await?
        .collect()
        .await?;
    Ok(())
}

#[tokio::test]
async fn nothing_listens() {
    let (listener, url) = listen().await;
    drop(listener);
    let error = error_with(&url).await;
    assert!(error.contains("no connection to worker"), "{error}");
    assert!(error.contains("refused"), "the reason was hidden: {error}");
}

#[tokio::test]
async fn a_server_that_says_nothing() {
    let (listener, url) = listen().await;
    let _server = SpawnedTask::spawn(async move {
        let mut open = vec![];
        while let Ok(connection) = listener.accept().await {
            open.push(connection);
        }
    });
    let error = error_with(&url).await;
    assert!(error.contains("within 300ms"), "{error}");
}

#[tokio::test]
async fn a_web_server() {
    let (listener, url) = listen().await;
    let _server = SpawnedTask::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.read(&mut [0; 1024]).await;
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            let _ = connection.write_all(answer).await;
        }
    });
    let error = error_with(&url).await;
    assert!(
        error.contains("greeting worker") || error.contains("no greeting"),
        "{error}"
    );
}

#[tokio::test]
async fn a_grpc_server_without_flight() {
    let (listener, url) = listen().await;
    let server = Server::builder().add_routes(Routes::default());
    let _server = SpawnedTask::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let error = error_with(&url).await;
    assert!(error.contains("Unimplemented"), "{error}");
}

#[tokio::test]
async fn a_worker_of_another_version() {
    let (listener, url) = listen().await;
    let welcome = Welcome {
        protocol: 7,
        release: "9.8.7".to_string(),
    };
    let welcome = Up {
        welcome: Some(welcome),
        ..Up::default()
    };
    let server = Server::builder().add_service(FlightServiceServer::new(Answers(welcome)));
    let _server = SpawnedTask::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let error = error_with(&url).await;
    assert!(
        error.contains("speaks protocol 7 (release 9.8.7)"),
        "{error}"
    );
}

#[tokio::test]
async fn a_flight_server_of_another_kind() {
    let (listener, url) = listen().await;
    let server = Server::builder().add_service(FlightServiceServer::new(Answers(Up::default())));
    let _server = SpawnedTask::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let error = error_with(&url).await;
    assert!(error.contains("expected a control message"), "{error}");
}

/// A Flight server that answers every exchange with this.
struct Answers(Up);

type Answer<T> = Result<Response<T>, Status>;
type Items<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl FlightService for Answers {
    type HandshakeStream = Items<HandshakeResponse>;
    type ListFlightsStream = Items<FlightInfo>;
    type DoGetStream = Items<FlightData>;
    type DoPutStream = Items<PutResult>;
    type DoActionStream = Items<arrow_flight::Result>;
    type ListActionsStream = Items<ActionType>;
    type DoExchangeStream = Items<FlightData>;

    async fn do_exchange(
        &self,
        _request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        let answer = FlightData::new().with_app_metadata(self.0.encode_to_vec());
        let answers = futures::stream::once(async { Ok(answer) });
        Ok(Response::new(
            answers.chain(futures::stream::pending()).boxed(),
        ))
    }

    async fn do_get(&self, _request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        Err(Status::unimplemented(""))
    }

    async fn do_put(&self, _request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        Err(Status::unimplemented(""))
    }

    async fn do_action(&self, _request: Request<Action>) -> Answer<Self::DoActionStream> {
        Err(Status::unimplemented(""))
    }

    async fn list_actions(&self, _request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        Err(Status::unimplemented(""))
    }

    async fn list_flights(&self, _request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        Err(Status::unimplemented(""))
    }

    async fn get_flight_info(&self, _request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        Err(Status::unimplemented(""))
    }

    async fn poll_flight_info(&self, _request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        Err(Status::unimplemented(""))
    }

    async fn get_schema(&self, _request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        Err(Status::unimplemented(""))
    }

    async fn handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        Err(Status::unimplemented(""))
    }
}
