//! The calls that give a program of yours traces: one on each worker, one on the session, and one
//! at the start and the end of each process.
//!
//! ```text
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 cargo run --example tracing
//! ```

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{CsvReadOptions, SessionContext};
use flightpath_core::{Coordinator, SessionStateBuilderExt, StaticWorkers, Worker, WorkerServer};
use flightpath_tracing_bridge::{Role, TracedSql, TracingHooks, init};

#[tokio::main]
async fn main() -> Result<()> {
    // Spans go to where OTEL_EXPORTER_OTLP_ENDPOINT says; without it they go nowhere, at no cost.
    let telemetry = init(Role::Coordinator)?;
    let hooks = Arc::new(TracingHooks::from_env()?);

    // A worker; in a process of its own it begins with `init(Role::Worker)`.
    let worker = Worker::builder().with_hooks(hooks.clone()).build();
    let listen = ([127, 0, 0, 1], 0).into();
    let server = WorkerServer::bind(listen, worker, false).await?;

    // The session whose queries it takes part in.
    let workers = StaticWorkers::new([server.url().as_str()])?;
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_flightpath(Coordinator::new(workers).with_hooks(hooks))
        .build();
    let ctx = SessionContext::new_with_state(state);

    let file = std::env::temp_dir().join(format!("visits-{}.csv", std::process::id()));
    std::fs::write(&file, "city,people\nUlm,1\nUlm,2\nBonn,3\n")?;
    let path = file
        .to_str()
        .ok_or_else(|| exec_datafusion_err!("no UTF-8: {file:?}"))?;
    ctx.register_csv("visits", path, CsvReadOptions::new())
        .await?;

    let sql = "SELECT city, sum(people) AS people FROM visits GROUP BY city ORDER BY city";
    ctx.traced_sql(sql).await?.show().await?;

    std::fs::remove_file(&file)?;
    server.shutdown(Duration::from_secs(5)).await?;
    let summary = telemetry.shutdown().await;
    println!(
        "{} spans sent, {} failed, {} dropped",
        summary.sent, summary.failed, summary.dropped
    );
    Ok(())
}
