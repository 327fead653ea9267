//! SQL from the command line, on workers that run elsewhere.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::arrow::{csv, json};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::options::ArrowReadOptions;
use datafusion::prelude::{
    CsvReadOptions, DataFrame, JsonReadOptions, SessionConfig, SessionContext,
};
use flightpath_core::{Coordinator, QuerySpan, SessionStateBuilderExt, StaticWorkers};
use flightpath_examples::{end_tracing, init_tracing};
use flightpath_metrics::{Progress, QueryProfile, progress};
use flightpath_testkit::cli;
use flightpath_testkit::statements::{self, Planned};
use flightpath_testkit::tables::register_parquet;
use flightpath_tracing_bridge::{Role, TracedSql, TracingHooks, trace_id};
use futures::future::ready;
use futures::{Stream, StreamExt, TryStreamExt};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use tokio::time::timeout;

/// How long the workers of an interrupted query may take to stop.
const STOPPING: Duration = Duration::from_secs(10);

/// Runs SQL on workers and prints the answers.
///
/// Try `EXPLAIN SELECT ...` to see how a query is cut into stages, and `EXPLAIN ANALYZE` to see
/// what each task did. Workers must see the tables' files under the same paths. With
/// OTEL_EXPORTER_OTLP_ENDPOINT set, a trace of each query is sent there, and its id is on stderr.
#[derive(Parser)]
struct Args {
    /// Where workers listen, such as http://127.0.0.1:50051.
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    workers: Vec<String>,

    /// A table, named as in SQL: a .parquet, .csv, .json or .arrow file, or a folder of Parquet files.
    #[arg(long = "table", value_name = "NAME=PATH")]
    tables: Vec<TableArg>,

    /// A file of SQL.
    #[arg(long, conflicts_with = "sql")]
    file: Option<PathBuf>,

    /// How to print answers.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Keeps the profile of the last statement with an answer in this file, and prints what it comes to.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// One or more statements, with semicolons between; without it and --file, from stdin.
    sql: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Csv,
    Json,
}

#[derive(Clone)]
struct TableArg {
    name: String,
    path: String,
}

impl FromStr for TableArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok(Self {
                name: name.into(),
                path: path.into(),
            }),
            _ => Err("a table is given as NAME=PATH".into()),
        }
    }
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    cli::exit_on_error(
        async {
            let telemetry = init_tracing(Role::Coordinator)?;
            let ran = run(args).await;
            end_tracing(telemetry).await;
            ran
        }
        .await,
    );
}

async fn run(args: Args) -> Result<()> {
    let coordinator = Coordinator::new(StaticWorkers::new(args.workers)?)
        .with_hooks(Arc::new(TracingHooks::from_env()?));
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_information_schema(true))
        .with_default_features()
        .with_flightpath(coordinator)
        .build();
    let ctx = SessionContext::new_with_state(state);
    for table in &args.tables {
        register(&ctx, table).await?;
    }
    let sql = match (args.sql, &args.file) {
        (Some(sql), _) => sql,
        (None, Some(file)) => std::fs::read_to_string(file)
            .map_err(|error| exec_datafusion_err!("cannot read {}: {error}", file.display()))?,
        (None, None) => from_stdin()?,
    };
    for statement in statements::split(&sql)? {
        let text = statement.to_string();
        let frame = ctx.traced_statement(statement).await?;
        let trace = trace_of(&frame);
        if let Some(id) = &trace {
            eprintln!("trace: {id}");
        }
        let planned = statements::plan_frame(frame).await?;
        let rows = followed(&planned).await;
        // Of a query that failed, the profile is wanted most.
        if let Some(file) = &args.profile
            && !planned.plan.schema().fields().is_empty()
        {
            let mut profile = QueryProfile::of(&planned.plan)?.with_sql(text);
            if let Some(id) = trace {
                profile = profile.with_trace_id(id);
            }
            keep(&profile, file)?;
        }
        print(planned.plan.schema(), rows?, args.format)?;
    }
    Ok(())
}

/// Runs a statement, with a bar of its tasks if somebody is there to see it. Ctrl-C stops it.
async fn followed(planned: &Planned) -> Result<Vec<RecordBatch>> {
    let rows = planned.stream()?;
    let drawn = async {
        if let Some(progress) = progress(&planned.plan) {
            draw(progress).await;
        }
    };
    let all = async {
        // The bar ends with the query; one that fails early may leave it behind.
        let (rows, ()) = tokio::join!(rows.try_collect(), drawn);
        rows
    };
    tokio::select! {
        rows = all => return rows,
        _ = tokio::signal::ctrl_c() => {}
    }
    // Its tasks are being stopped, and have something to report.
    if let Some(ending) = progress(&planned.plan) {
        let _late = timeout(STOPPING, ending.for_each(|_| ready(()))).await;
    }
    exec_err!("interrupted")
}

/// indicatif draws on stderr, and only if that is a terminal.
async fn draw(mut progress: impl Stream<Item = Progress> + Unpin) {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} tasks, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    while let Some(now) = progress.next().await {
        let (tasks, done) = now.tasks();
        bar.set_length(tasks as u64);
        bar.set_position(done as u64);
        if let Some(stage) = now.stages.iter().find(|stage| stage.done < stage.tasks) {
            let (rows, bytes) = (
                HumanCount(stage.output_rows),
                HumanBytes(stage.output_bytes),
            );
            bar.set_message(format!("stage {}: {rows} rows, {bytes}", stage.stage));
        }
    }
    bar.finish_and_clear();
}

fn keep(profile: &QueryProfile, file: &Path) -> Result<()> {
    let json = profile
        .to_json()
        .map_err(|error| DataFusionError::External(error.into()))?;
    std::fs::write(file, json)
        .map_err(|error| exec_datafusion_err!("cannot write {}: {error}", file.display()))?;
    eprintln!("{}", profile.text().for_output(&std::io::stderr()));
    Ok(())
}

/// The id of the trace that a query is about to have.
fn trace_of(frame: &DataFrame) -> Option<String> {
    let task = frame.task_ctx();
    let query = task.session_config().get_extension::<QuerySpan>()?;
    trace_id(query.span())
}

fn from_stdin() -> Result<String> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprintln!("reading SQL from the terminal, up to the end of input (Ctrl-D)");
    }
    let mut sql = String::new();
    stdin.read_to_string(&mut sql)?;
    Ok(sql)
}

async fn register(ctx: &SessionContext, table: &TableArg) -> Result<()> {
    let TableArg { name, path } = table;
    let file = Path::new(path);
    if !file.exists() {
        return Err(exec_datafusion_err!("table {name}: {path} does not exist"));
    }
    let extension = file.extension().and_then(|extension| extension.to_str());
    let registered = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("parquet") => register_parquet(ctx, name, file).await,
        _ if file.is_dir() => register_parquet(ctx, name, file).await,
        Some("csv") => ctx.register_csv(name, path, CsvReadOptions::new()).await,
        Some("json" | "ndjson" | "jsonl") => {
            let options = JsonReadOptions::default().file_extension(extension.unwrap_or_default());
            ctx.register_json(name, path, options).await
        }
        Some("arrow") => {
            ctx.register_arrow(name, path, ArrowReadOptions::default())
                .await
        }
        _ => Err(exec_datafusion_err!(
            "{path} is neither .parquet, .csv, .json nor .arrow"
        )),
    };
    registered.map_err(|error| error.context(format!("table {name}")))
}

/// Statements without columns, such as CREATE VIEW, print nothing.
fn print(schema: SchemaRef, mut batches: Vec<RecordBatch>, format: Format) -> Result<()> {
    if schema.fields().is_empty() {
        return Ok(());
    }
    // Headers are there even if no row is.
    batches.insert(0, RecordBatch::new_empty(schema));
    let mut out = std::io::stdout().lock();
    match format {
        Format::Table => writeln!(out, "{}", pretty_format_batches(&batches)?)?,
        Format::Csv => {
            let mut writer = csv::Writer::new(&mut out);
            batches.iter().try_for_each(|batch| writer.write(batch))?;
        }
        Format::Json => {
            let builder = json::WriterBuilder::new().with_explicit_nulls(true);
            let mut writer = builder.build::<_, json::writer::JsonArray>(&mut out);
            batches.iter().try_for_each(|batch| writer.write(batch))?;
            writer.finish()?;
            writeln!(out)?;
        }
    }
    Ok(())
}
