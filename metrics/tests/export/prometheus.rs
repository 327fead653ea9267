//! The endpoint that Prometheus scrapes.

use std::net::{Ipv4Addr, SocketAddr};

use flightpath_metrics::export::MetricsServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{GROUPS, Measured, unsent, within};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn address(server: &MetricsServer) -> String {
    let url = server.url();
    let rest = url.strip_prefix("http://").unwrap();
    rest.strip_suffix("/metrics").unwrap().to_owned()
}

/// Head and body of an answer.
async fn get(address: &str, path: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn it_serves_what_was_measured() {
    within(60, async {
        let metrics = unsent();
        let server = metrics.serve(ANY, false).await.unwrap();
        let measured = Measured::start(&metrics).await;
        measured.run(GROUPS).await.0.unwrap();
        let address = address(&server);
        let (head, body) = get(&address, "/metrics").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        for line in [
            "# TYPE flightpath_task_duration_seconds histogram",
            "flightpath_task_duration_seconds_count{flightpath_task_status=\"finished\"} 4",
            "flightpath_task_duration_seconds_bucket{flightpath_task_status=\"finished\",le=\"1000\"} 4",
            "# TYPE flightpath_operator_rows_total counter",
            "flightpath_operator_rows_total{datafusion_operator=\"RepartitionExec\"} 40",
            "# TYPE flightpath_task_active gauge",
            "flightpath_task_active 0",
            "flightpath_memory_reserved_bytes 0",
        ] {
            assert!(body.lines().any(|found| found == line), "{line} in\n{body}");
        }
        assert!(body.contains("target_info{"), "{body}");
        assert!(body.contains("service_name=\"flightpath-worker\""), "{body}");
        let (head, _) = get(&address, "/").await;
        assert!(head.contains("location: /metrics"), "{head}");
        assert!(get(&address, "/other").await.0.starts_with("HTTP/1.1 404"));

        // A connection that is kept open does not keep it from ending.
        let _open = TcpStream::connect(&address).await.unwrap();
        server.shutdown().await.unwrap();
        assert!(TcpStream::connect(&address).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn it_stays_on_this_machine_unless_told_otherwise() {
    within(60, async {
        let metrics = unsent();
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let error = metrics.serve(everywhere, false).await.unwrap_err();
        assert!(error.to_string().contains("loopback"), "{error}");
        let server = metrics.serve(everywhere, true).await.unwrap();
        server.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    within(60, async {
        let metrics = unsent();
        let server = metrics.serve(ANY, false).await.unwrap();
        let address = address(&server);
        let error = metrics
            .serve(address.parse().unwrap(), false)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(&address), "{error}");
    })
    .await;
}
