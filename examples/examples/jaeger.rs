//! One trace for a query on several workers: in Jaeger, or drawn in the terminal.
//!
//! ```text
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 cargo run --example jaeger
//! ```

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use flightpath_core::SessionStateBuilderExt;
use flightpath_testkit::{Cluster, cli, tpch};
use flightpath_tracing_bridge::{
    OtlpSettings, Role, TracedSql, TracingHooks, init, init_tree, trace_id,
};
use tracing::Instrument;

const SQL: &str = "
    SELECT n_name AS nation, count(*) AS late_lines
    FROM lineitem
    JOIN orders ON l_orderkey = o_orderkey
    JOIN customer ON o_custkey = c_custkey
    JOIN nation ON c_nationkey = n_nationkey
    WHERE l_receiptdate > l_commitdate
    GROUP BY n_name
    ORDER BY late_lines DESC, nation
    LIMIT 5";

#[tokio::main]
async fn main() {
    cli::exit_on_error(run().await);
}

async fn run() -> Result<()> {
    let endpoint = OtlpSettings::from_env(Role::Coordinator)?;
    let Some(endpoint) = endpoint.endpoint() else {
        let (telemetry, tree) = init_tree()?;
        query().await?;
        telemetry.shutdown().await;
        println!("\n{tree}");
        println!("To see it in Jaeger, set OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317");
        return Ok(());
    };
    let telemetry = init(Role::Coordinator)?;
    let trace = query().await?;
    let summary = telemetry.shutdown().await;
    let (sent, failed, dropped) = (summary.sent, summary.failed, summary.dropped);
    println!("\nspans: {sent} sent to {endpoint}, {failed} failed, {dropped} dropped");
    println!("trace: {}", jaeger_link(endpoint, &trace).unwrap_or(trace));
    Ok(())
}

/// Runs the query, and returns the id of its trace.
async fn query() -> Result<String> {
    let hooks = Arc::new(TracingHooks::from_env()?);
    let worker_hooks = Arc::clone(&hooks);
    let cluster = Cluster::start_with(3, |worker| worker.with_hooks(worker_hooks.clone())).await?;
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_flightpath(cluster.coordinator()?.with_hooks(hooks))
        .build();
    let ctx = SessionContext::new_with_state(state);
    let data = Path::new("data/tpch-0.1");
    let made = tokio::task::spawn_blocking(move || tpch::ensure(data, 0.1, true));
    made.await
        .map_err(|error| exec_datafusion_err!("{error}"))??;
    tpch::register(&ctx, data).await?;

    let caller = tracing::info_span!("example");
    let trace = trace_id(&caller);
    let shown = async { ctx.traced_sql(SQL).await?.show().await };
    shown.instrument(caller).await?;
    cluster.stop().await?;
    let off = "nothing is traced: the sampler says no";
    Ok(trace.unwrap_or_else(|| off.to_string()))
}

/// Where Jaeger shows the trace, if it is Jaeger that answers beside the endpoint.
fn jaeger_link(endpoint: &str, trace: &str) -> Option<String> {
    const WAIT: Duration = Duration::from_secs(1);
    let (_, host) = endpoint.split_once("://")?;
    let host = host.split([':', '/']).next()?;
    let address = (host, 16686).to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, WAIT).ok()?;
    stream.set_read_timeout(Some(WAIT)).ok()?;
    let request = format!("GET /api/services HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    let link = format!("http://{host}:16686/trace/{trace}");
    answer.ends_with(b"200").then_some(link)
}
