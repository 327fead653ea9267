//! A worker in a process of its own; start as many as there are machines.
//!
//! With OTEL_EXPORTER_OTLP_ENDPOINT set, its part of each query's trace is sent there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use datafusion::common::Result;
use flightpath_core::{Worker, WorkerServer};
use flightpath_examples::{end_tracing, init_tracing, stop_signal};
use flightpath_metrics::export::MetricsExport;
use flightpath_testkit::cli;
use flightpath_tracing_bridge::{Role, TracingHooks};

/// Runs tasks of distributed queries until it is told to stop (SIGTERM or Ctrl-C).
///
/// With OTEL_EXPORTER_OTLP_ENDPOINT set, its part of each query's trace is sent there, and its metrics, if
/// OTEL_METRICS_EXPORTER does not say none.
#[derive(Parser)]
struct Args {
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,

    /// Serve metrics to Prometheus there, at `/metrics`; port 0 takes any that is free. Whether they
    /// go to an OTLP endpoint too, the `OTEL_*` variables say.
    #[arg(long, value_name = "IP:PORT")]
    metrics_listen: Option<SocketAddr>,

    /// Listen beyond this machine. Whoever reaches the port can then run any plan, and so read any
    /// file that this process can: do so only in a network that you trust.
    #[arg(long)]
    insecure: bool,

    /// Seconds that running queries have to end once it is told to stop; then they are cancelled.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace_seconds: u64,
}

#[tokio::main]
async fn main() {
    cli::exit_on_error(run(Args::parse()).await);
}

async fn run(args: Args) -> Result<()> {
    let telemetry = init_tracing(Role::Worker)?;
    // Asked for before anything is said to listen: from then on a signal is never lost.
    let stop = stop_signal()?;
    let metrics = MetricsExport::from_env(Role::Worker)?;
    let worker = Worker::builder()
        .with_hooks(Arc::new(TracingHooks::from_env()?))
        .with_hooks(metrics.hooks())
        .build();
    let server = WorkerServer::bind(args.listen, worker, args.insecure).await?;
    println!("listening on {}", server.url());
    let mut scraped = None;
    if let Some(address) = args.metrics_listen {
        let endpoint = metrics.serve(address, args.insecure).await?;
        println!("metrics at {}", endpoint.url());
        scraped = Some(endpoint);
    }

    let signal = stop.await;
    println!(
        "{signal}: no new queries, up to {} s for those that run",
        args.grace_seconds
    );
    let grace = Duration::from_secs(args.grace_seconds);
    let summary = server.shutdown(grace).await?;
    println!(
        "stopped: of the queries that ran {} finished, {} were cancelled",
        summary.finished, summary.cancelled
    );
    if let Some(endpoint) = scraped {
        endpoint.shutdown().await?;
    }
    metrics.shutdown().await;
    end_tracing(telemetry).await;
    Ok(())
}
