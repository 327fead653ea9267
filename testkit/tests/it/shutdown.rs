//! A worker that shuts down takes nothing new, and gives what runs the time that it was given.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use flightpath_core::{ShutdownSummary, Worker, WorkerServer};
use futures::{FutureExt, poll};

use crate::big::{ALL, Big, ROWS, begun, config, rest};
use crate::fixture::within;
use crate::pair::session_on;
use crate::wire::{Control, Hello};

async fn serve() -> WorkerServer {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    WorkerServer::bind(address, Worker::new(), false)
        .await
        .unwrap()
}

fn url(server: &WorkerServer) -> String {
    server.url().as_str().trim_end_matches('/').to_string()
}

#[tokio::test]
async fn running_queries_finish_and_new_ones_are_refused() {
    within(60, async {
        let big = Big::new().await;
        let (stays, leaves) = (serve().await, serve().await);
        let urls = [url(&stays), url(&leaves)];
        let ctx = session_on(&urls, config());
        big.register(&ctx).await;
        let rows = begun(&ctx, ALL).await;
        let mut stopping = leaves.shutdown(Duration::from_secs(50)).boxed();
        assert!(poll!(&mut stopping).is_pending());

        let greeted = Control::greet(&urls[1], Hello::new(&urls[1])).await;
        let status = greeted.err().unwrap();
        assert!(status.message().contains("shutting down"), "{status:?}");
        let error = ctx
            .sql(ALL)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("shutting down") && error.contains(&urls[1]),
            "{error}"
        );

        let (summary, rest) = tokio::join!(stopping, rest(rows));
        assert!(rest.unwrap() < ROWS);
        let expected = ShutdownSummary {
            finished: 1,
            cancelled: 0,
        };
        assert_eq!(summary.unwrap(), expected);
        let address = urls[1].trim_start_matches("http://");
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn queries_that_take_too_long_are_cancelled() {
    within(60, async {
        let big = Big::new().await;
        let server = serve().await;
        let ctx = session_on(&[url(&server)], config());
        big.register(&ctx).await;
        let rows = begun(&ctx, ALL).await;
        let summary = server.shutdown(Duration::from_millis(50)).await.unwrap();
        assert_eq!(
            summary,
            ShutdownSummary {
                finished: 0,
                cancelled: 1
            }
        );
        let error = rest(rows).await.unwrap_err().to_string();
        assert!(error.contains("the worker is shutting down"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn without_queries() {
    let summary = within(20, serve().await.shutdown(Duration::from_secs(15))).await;
    assert_eq!(
        summary.unwrap(),
        ShutdownSummary {
            finished: 0,
            cancelled: 0
        }
    );
}
