//! Sending spans to an OTLP endpoint.

mod counts;
mod exporters;
mod limits;
mod settings;
mod tree;

use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::{Result, exec_datafusion_err};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SdkTracerProvider, SpanExporter as SpanExport, TracerProviderBuilder,
};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt as log};

pub use counts::ExportSummary;
use counts::{CountedExporter, CountedProcessor, Counts};
use exporters::Exporters;
use flightpath_otlp::ExporterRuntime;
pub use flightpath_otlp::{Endpoint, Protocol, Role};
use limits::Limits;
pub use settings::OtlpSettings;
pub use tree::SpanTree;

/// How long the last spans may take to leave.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Whose spans are about sending spans, and would beget more of them.
const EXPORTER_TARGETS: [&str; 8] = [
    "h2",
    "hyper",
    "hyper_util",
    "opentelemetry",
    "rustls",
    "tonic",
    "tower",
    "ureq",
];

/// Sends the spans of this process to where the `OTEL_*` variables say, from now on until the
/// guard that it returns is dropped.
///
/// It sets the global subscriber: spans go to OTLP, and warnings (or what `RUST_LOG` lists) to
/// standard error. Where no endpoint is set (and no `console` exporter), or `OTEL_SDK_DISABLED` is true, or
/// `OTEL_TRACES_EXPORTER` is `none`, it does nothing at all. See [`OtlpSettings::from_env`] for the
/// variables.
///
/// # Errors
/// If a variable has a value that is unknown, or the exporter cannot be built. And if the program
/// has set a subscriber already, be it by an earlier `init`: that one stays, and works on. Such a
/// program adds [`Telemetry::layer`] to its own subscriber.
pub fn init(role: Role) -> Result<Telemetry> {
    OtlpSettings::from_env(role)?.init()
}

/// Keeps the spans of this process in memory, and sets the global subscriber as [`init`] does.
///
/// # Errors
/// If the program has set a subscriber already.
pub fn init_tree() -> Result<(Telemetry, SpanTree)> {
    let tree = SpanTree::default();
    Ok((set_subscriber(Telemetry::collect(&tree))?, tree))
}

fn set_subscriber(telemetry: Telemetry) -> Result<Telemetry> {
    if !telemetry.is_exporting() {
        return Ok(telemetry);
    }
    let listed = std::env::var("RUST_LOG").ok();
    let listed = listed.and_then(|listed| listed.parse::<Targets>().ok());
    let listed = listed.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let logs = log::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(listed);
    tracing_subscriber::registry()
        .with(telemetry.layer())
        .with(logs)
        .try_init()
        .map_err(|_| {
            exec_datafusion_err!(
                "the program has set a tracing subscriber already, which stays as it is; add \
                 Telemetry::layer to it in place of calling init"
            )
        })?;
    Ok(telemetry)
}

/// Sends spans as long as it lives. Dropping it sends what is left, for which it may block for
/// seconds; in async code, prefer [`shutdown`](Self::shutdown).
pub struct Telemetry(Option<Exporting>);

struct Exporting {
    provider: SdkTracerProvider,
    counts: Arc<Counts>,
    /// The exporter's own, so that it works on while the program's runtime is busy, or gone.
    _runtime: Option<ExporterRuntime>,
}

impl Telemetry {
    /// Starts to send spans, once [`layer`](Self::layer) is part of a subscriber.
    ///
    /// # Errors
    /// If the endpoint is no URL, or needs what this build does not have.
    pub fn start(settings: &OtlpSettings) -> Result<Self> {
        if settings.endpoint().is_none() && !settings.console() {
            return Ok(Self(None));
        }
        let runtime = ExporterRuntime::new("flightpath-otlp")?;
        let exporters = {
            let _inside = runtime.enter();
            Exporters::new(settings)?
        };
        let resource = flightpath_otlp::resource(settings.default_service_name());
        let counts = Counts::new(settings.otlp().cloned());
        let mut provider = settings.limits().provider();
        if let Some(sampler) = settings.sampler() {
            provider = provider.with_sampler(sampler.clone());
        }
        let provider = provider.with_resource(resource);
        let mut exporting = Exporting::new(exporters, counts, provider, settings.limits());
        exporting._runtime = Some(runtime);
        Ok(Self(Some(exporting)))
    }

    /// Starts to keep spans in memory, once [`layer`](Self::layer) is part of a subscriber.
    pub fn collect(tree: &SpanTree) -> Self {
        let limits = Limits::default();
        let provider = limits
            .provider()
            .with_resource(flightpath_otlp::resource(None));
        let counts = Counts::new(None);
        Self(Some(Exporting::new(tree.clone(), counts, provider, limits)))
    }

    /// Whether spans are sent anywhere.
    pub fn is_exporting(&self) -> bool {
        self.0.is_some()
    }

    /// The part of a subscriber that makes spans of `tracing` those that are sent: of level INFO
    /// and above, without the exporter's own. `None` if none are sent.
    pub fn layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let exporting = self.0.as_ref()?;
        let targets = EXPORTER_TARGETS.map(|target| (target, LevelFilter::OFF));
        let targets = Targets::new()
            .with_targets(targets)
            .with_default(Level::INFO);
        let tracer = exporting
            .provider
            .tracer_with_scope(flightpath_otlp::scope());
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        Some(layer.with_filter(targets))
    }

    /// Sends the spans that have ended. Blocks until they have left, or failed to.
    pub fn flush(&self) -> ExportSummary {
        let Some(exporting) = &self.0 else {
            return ExportSummary::default();
        };
        // What went wrong is counted.
        let _counted = exporting.provider.force_flush();
        exporting.counts.summary(0)
    }

    /// Waits until no span is open, for this time at most, and says whether that is so. A query
    /// that was left in the middle has spans open until its workers have reported.
    pub async fn idle(&self, within: Duration) -> bool {
        let Some(exporting) = &self.0 else {
            return true;
        };
        let idle = tokio::time::timeout(within, exporting.counts.none_open());
        idle.await.is_ok()
    }

    /// Sends what is left, and says how many spans were sent, failed and dropped in all.
    pub async fn shutdown(mut self) -> ExportSummary {
        let Some(exporting) = self.0.take() else {
            return ExportSummary::default();
        };
        let ending = tokio::task::spawn_blocking(move || exporting.end());
        ending.await.unwrap_or_default()
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.as_ref().map(|exporting| &exporting.counts);
        f.debug_tuple("Telemetry").field(&counts).finish()
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(exporting) = self.0.take() {
            exporting.end();
        }
    }
}

impl Exporting {
    fn new(
        exporter: impl SpanExport + 'static,
        counts: Counts,
        provider: TracerProviderBuilder,
        limits: Limits,
    ) -> Self {
        let counts = Arc::new(counts);
        let exporter = CountedExporter::new(exporter, Arc::clone(&counts), limits.value);
        let batches = BatchSpanProcessor::builder(exporter).with_batch_config(limits.queue());
        let processor = CountedProcessor::new(batches.build(), Arc::clone(&counts));
        Self {
            provider: provider.with_span_processor(processor).build(),
            counts,
            _runtime: None,
        }
    }

    fn end(self) -> ExportSummary {
        // What went wrong is counted.
        let _counted = self.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        let summary = self.counts.summary_at_end();
        if summary.failed + summary.dropped + summary.dropped_links > 0 {
            tracing::warn!(
                sent = summary.sent,
                failed = summary.failed,
                dropped = summary.dropped,
                dropped_links = summary.dropped_links,
                "spans or their links were lost"
            );
        }
        summary
    }
}

/// The id of the trace that a span is of, as 32 hexadecimal digits; `None` if it is of none, or
/// not sampled.
pub fn trace_id(span: &tracing::Span) -> Option<String> {
    let context = tracing_opentelemetry::OpenTelemetrySpanExt::context(span);
    let span = context.span().span_context().clone();
    span.is_sampled().then(|| span.trace_id().to_string())
}
