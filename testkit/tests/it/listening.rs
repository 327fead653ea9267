//! Where a worker listens.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use datafusion::common::DataFusionError;
use flightpath_core::{Worker, WorkerServer};

use crate::fixture::within;
use crate::wire::tasks;

#[tokio::test]
async fn an_address_that_others_reach_must_be_asked_for() {
    within(20, async {
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        for address in [everywhere, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))] {
            let refused = WorkerServer::bind(address, Worker::new(), false).await;
            let error = refused.unwrap_err();
            assert!(
                matches!(error, DataFusionError::Configuration(_)),
                "{error:?}"
            );
            let text = error.to_string();
            assert!(
                text.contains("neither encrypted nor authenticated"),
                "{text}"
            );
            assert!(text.contains("--insecure"), "{text}");
        }
        let server = WorkerServer::bind(everywhere, Worker::new(), true)
            .await
            .unwrap();
        let port = server.url().port().unwrap();
        assert!(tasks(&format!("http://127.0.0.1:{port}")).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_port_in_use() {
    within(20, async {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let first = WorkerServer::bind(free, Worker::new(), false)
            .await
            .unwrap();
        let taken = SocketAddr::from((Ipv4Addr::LOCALHOST, first.url().port().unwrap()));
        let error = WorkerServer::bind(taken, Worker::new(), false)
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&format!("cannot listen on {taken}")),
            "{text}"
        );
        assert!(
            matches!(error.find_root(), DataFusionError::IoError(_)),
            "{error:?}"
        );
    })
    .await;
}
