//! What became of every span.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use flightpath_otlp::Endpoint;
use opentelemetry::trace::Span as _;
use opentelemetry::{Context, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::Notify;

/// What became of the spans of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportSummary {
    /// Taken by the endpoint.
    pub sent: u64,
    /// Not taken: the endpoint was not there, too slow, or refused them.
    pub failed: u64,
    /// Never sent, because too many were waiting. Known when all has been sent.
    pub dropped: u64,
    /// Links that spans had no room for: a boundary that reads more tasks than a span takes links.
    pub dropped_links: u64,
}

#[derive(Debug)]
pub(super) struct Counts {
    /// Where one is known.
    endpoint: Option<Endpoint>,
    started: AtomicU64,
    ended: AtomicU64,
    changed: Notify,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped_links: AtomicU64,
    warned: AtomicBool,
}

impl Counts {
    pub(super) fn new(endpoint: Option<Endpoint>) -> Self {
        Self {
            endpoint,
            started: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            changed: Notify::new(),
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            dropped_links: AtomicU64::new(0),
            warned: AtomicBool::new(false),
        }
    }

    pub(super) fn summary(&self, dropped: u64) -> ExportSummary {
        ExportSummary {
            sent: self.sent.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            dropped,
            dropped_links: self.dropped_links.load(Ordering::Relaxed),
        }
    }

    /// Waits until every span that has started has ended.
    pub(super) async fn none_open(&self) {
        loop {
            let changed = self.changed.notified();
            let started = self.started.load(Ordering::Acquire);
            if self.ended.load(Ordering::Acquire) >= started {
                return;
            }
            changed.await;
        }
    }

    /// Spans that have ended, and were given to the endpoint neither with nor without success, were
    /// dropped.
    pub(super) fn summary_at_end(&self) -> ExportSummary {
        let known = self.summary(0);
        let ended = self.ended.load(Ordering::Relaxed);
        self.summary(ended.saturating_sub(known.sent + known.failed))
    }
}

/// Counts spans that are sent, and tells of the first that is not.
#[derive(Debug)]
pub(super) struct CountedExporter<E> {
    exporter: E,
    counts: Arc<Counts>,
    value_limit: Option<usize>,
}

impl<E> CountedExporter<E> {
    /// With a limit, it cuts attributes to that many characters, which the SDK does not do.
    pub(super) fn new(exporter: E, counts: Arc<Counts>, value_limit: Option<usize>) -> Self {
        Self {
            exporter,
            counts,
            value_limit,
        }
    }
}

fn cut(span: &mut SpanData, characters: usize) {
    for attribute in &mut span.attributes {
        let Value::String(text) = &attribute.value else {
            continue;
        };
        let text = text.as_str();
        if let Some((end, _)) = text.char_indices().nth(characters) {
            attribute.value = text[..end].to_string().into();
        }
    }
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        if let Some(characters) = self.value_limit {
            batch.iter_mut().for_each(|span| cut(span, characters));
        }
        let spans = batch.len() as u64;
        let result = self.exporter.export(batch).await;
        match &result {
            Ok(()) => self.counts.sent.fetch_add(spans, Ordering::Relaxed),
            Err(error) => {
                // Once: an endpoint that is down stays down for many batches.
                if let Some(endpoint) = &self.counts.endpoint
                    && !self.counts.warned.swap(true, Ordering::Relaxed)
                {
                    tracing::warn!("{}", endpoint.cannot_send("spans", error));
                }
                self.counts.failed.fetch_add(spans, Ordering::Relaxed)
            }
        };
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Counts spans that end.
#[derive(Debug)]
pub(super) struct CountedProcessor<P> {
    processor: P,
    counts: Arc<Counts>,
}

impl<P> CountedProcessor<P> {
    pub(super) fn new(processor: P, counts: Arc<Counts>) -> Self {
        Self { processor, counts }
    }
}

impl<P: SpanProcessor> SpanProcessor for CountedProcessor<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        if span.span_context().is_sampled() {
            self.counts.started.fetch_add(1, Ordering::Relaxed);
        }
        self.processor.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let sampled = span.span_context.is_sampled();
        let dropped_links = u64::from(span.links.dropped_count);
        self.processor.on_end(span);
        if sampled {
            let counts = &self.counts;
            counts
                .dropped_links
                .fetch_add(dropped_links, Ordering::Relaxed);
            counts.ended.fetch_add(1, Ordering::Release);
            counts.changed.notify_waiters();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.processor.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.processor.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.processor.set_resource(resource);
    }
}
