//! One trace for a query on several workers: in Jaeger, or drawn in the terminal.
//!
//! ```text
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 cargo run --example jaeger
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use flightpath_core::{Coordinator, QuerySpan, SessionStateBuilderExt, StaticWorkers, Timeout};
use flightpath_examples::{end_tracing, stop_signal};
use flightpath_metrics::export::{MetricsExport, MetricsServer};
use flightpath_testkit::{Cluster, cli, tpch};
use flightpath_tracing_bridge::{
    OtlpSettings, Role, SpanTree, Telemetry, TracedSql, TracingHooks, init, init_tree, trace_id,
};

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

/// Runs a query on several workers, and shows its trace: in Jaeger if OTEL_EXPORTER_OTLP_ENDPOINT
/// names it, or else drawn here.
#[derive(Parser)]
struct Args {
    /// Where workers listen, with commas between; without it, three are started in this process.
    /// Workers must see the data under the same path.
    #[arg(
        long,
        env = "FLIGHTPATH_WORKERS",
        value_name = "URL",
        value_delimiter = ','
    )]
    workers: Vec<String>,

    /// The folder that holds tables, or is to hold them.
    #[arg(
        long,
        env = "FLIGHTPATH_DATA",
        value_name = "DIR",
        default_value = "data"
    )]
    data: PathBuf,

    /// Run it again and again, with this much time between, such as 60s.
    #[arg(long, value_name = "TIME")]
    every: Option<Timeout>,

    /// Serve metrics to Prometheus there, to whoever reaches it; port 0 takes any that is free.
    #[arg(long, value_name = "IP:PORT")]
    metrics_listen: Option<SocketAddr>,
}

#[tokio::main]
async fn main() {
    cli::exit_on_error(run(Args::parse()).await);
}

async fn run(args: Args) -> Result<()> {
    let settings = OtlpSettings::from_env(Role::Coordinator)?;
    let drawn = !settings.is_off() && !settings.console() && settings.endpoint().is_none();
    let stop = stop_signal()?;
    let (telemetry, tree) = match drawn {
        true => init_tree().map(|(telemetry, tree)| (telemetry, Some(tree)))?,
        false => (init(Role::Coordinator)?, None),
    };
    let setup = Setup::new(&args).await?;
    let asking = async {
        loop {
            let asked = setup.query().await;
            match &asked {
                Ok(Some(trace)) => show(&telemetry, &settings, tree.as_ref(), trace).await,
                Ok(None) if settings.is_off() => {
                    println!("no trace: OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER says so");
                }
                Ok(None) => println!("no trace: the sampler says no, see OTEL_TRACES_SAMPLER"),
                Err(_) => {}
            }
            let asked = asked.map(|_| ());
            let Some(time) = args.every else {
                return asked;
            };
            // Workers may come back until it is asked again.
            if let Err(error) = asked {
                eprintln!("error: {}", cli::explain(&error));
            }
            tokio::time::sleep(time.0).await;
        }
    };
    let asked = tokio::select! {
        asked = asking => asked,
        _ = stop => Ok(()),
    };
    setup.stop().await?;
    if drawn {
        telemetry.shutdown().await;
        if !args.workers.is_empty() {
            println!("What workers do is in their own processes, and not drawn here.");
        }
        println!("To see it in Jaeger, set OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317");
    } else {
        end_tracing(telemetry).await;
    }
    asked
}

/// The trace itself, or else the link to it, or its id and whether it got there.
async fn show(
    telemetry: &Telemetry,
    settings: &OtlpSettings,
    tree: Option<&SpanTree>,
    trace: &str,
) {
    telemetry.idle(Duration::from_secs(5)).await;
    let summary = tokio::task::block_in_place(|| telemetry.flush());
    match (tree, settings.endpoint()) {
        (Some(tree), _) => {
            println!("\n{tree}");
            tree.clear();
        }
        (None, Some(endpoint)) if summary.sent == 0 => {
            println!("trace: {trace}, which did not get to {endpoint}");
        }
        (None, Some(endpoint)) => {
            let link = jaeger_link(endpoint, trace);
            println!("trace: {}", link.as_deref().unwrap_or(trace));
        }
        (None, None) => println!("trace: {trace}"),
    }
}

/// A session with tables, and the workers that are its own.
struct Setup {
    ctx: SessionContext,
    cluster: Option<Cluster>,
    metrics: MetricsExport,
    scraped: Option<MetricsServer>,
}

impl Setup {
    async fn new(args: &Args) -> Result<Self> {
        let hooks = Arc::new(TracingHooks::from_env()?);
        let metrics = MetricsExport::from_env(Role::Coordinator)?;
        let mut scraped = None;
        if let Some(address) = args.metrics_listen {
            let endpoint = metrics.serve(address, true).await?;
            println!("metrics at {}", endpoint.url());
            scraped = Some(endpoint);
        }
        let (coordinator, cluster) = if args.workers.is_empty() {
            let hooks = Arc::clone(&hooks);
            let cluster = Cluster::start_with(3, |worker| worker.with_hooks(hooks.clone())).await?;
            (cluster.coordinator()?, Some(cluster))
        } else {
            (Coordinator::new(StaticWorkers::new(&args.workers)?), None)
        };
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_flightpath(coordinator.with_hooks(hooks).with_hooks(metrics.hooks()))
            .build();
        let ctx = SessionContext::new_with_state(state);
        let data = args.data.join("tpch-0.1");
        let tables: &Path = &data;
        let made = {
            let data = data.clone();
            tokio::task::spawn_blocking(move || tpch::ensure(&data, 0.1, true))
        };
        made.await
            .map_err(|error| exec_datafusion_err!("{error}"))??;
        tpch::register(&ctx, tables).await?;
        Ok(Self {
            ctx,
            cluster,
            metrics,
            scraped,
        })
    }

    /// Runs the query, and returns the id of its trace, if it is sampled.
    async fn query(&self) -> Result<Option<String>> {
        let frame = self.ctx.traced_sql(SQL).await?;
        let query = frame
            .task_ctx()
            .session_config()
            .get_extension::<QuerySpan>();
        let trace = query.and_then(|query| trace_id(query.span()));
        frame.show().await?;
        Ok(trace)
    }

    async fn stop(self) -> Result<()> {
        if let Some(cluster) = self.cluster {
            cluster.stop().await?;
        }
        if let Some(endpoint) = self.scraped {
            endpoint.shutdown().await?;
        }
        self.metrics.shutdown().await;
        Ok(())
    }
}

/// Where Jaeger shows the trace: at JAEGER_URL, or if it is Jaeger that answers beside the endpoint.
fn jaeger_link(endpoint: &str, trace: &str) -> Option<String> {
    const WAIT: Duration = Duration::from_secs(1);
    if let Ok(jaeger) = std::env::var("JAEGER_URL") {
        return Some(format!("{}/trace/{trace}", jaeger.trim_end_matches('/')));
    }
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
