//! A trace that has arrived, and the way about it.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::metric::Resource;
use super::unexpected::Unexpected;

/// A span, and who sent it.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) span: Span,
    pub(super) resource: Arc<Resource>,
}

/// The spans of one trace.
#[derive(Clone, Debug, Default)]
pub struct Trace(Vec<Arrived>);

impl FromIterator<Arrived> for Trace {
    fn from_iter<T: IntoIterator<Item = Arrived>>(spans: T) -> Self {
        Self(spans.into_iter().collect())
    }
}

impl Trace {
    /// All spans, in order of arrival.
    pub fn spans(&self) -> impl Iterator<Item = SpanRef<'_>> {
        self.0.iter().map(|arrived| SpanRef {
            trace: self,
            arrived,
        })
    }

    /// Whether it has a root, and the parent of every other span: as spans are sent when they
    /// end, all that ended before the root are then there too, if they come from one process.
    pub fn is_complete(&self) -> bool {
        self.spans().any(|span| span.parent_span_id.is_empty()) && self.orphans().is_empty()
    }

    /// The span without a parent, which must be the only one and have this name.
    ///
    /// # Errors
    /// If it is not so.
    pub fn root(&self, name: &str) -> Result<SpanRef<'_>, Unexpected> {
        let is_root = |span: &SpanRef<'_>| span.parent_span_id.is_empty();
        let roots: Vec<SpanRef<'_>> = self.spans().filter(is_root).collect();
        match roots[..] {
            [root] if root.name == name => Ok(root),
            [root] => Err(self.unexpected(format!("the root is {}, not {name}", root.name))),
            _ => Err(self.unexpected(format!("expected one root, there are {}", roots.len()))),
        }
    }

    /// All spans of this name; there may be none.
    pub fn named(&self, name: &str) -> Vec<SpanRef<'_>> {
        self.spans().filter(|span| span.name == name).collect()
    }

    /// The only span of this name.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn only(&self, name: &str) -> Result<SpanRef<'_>, Unexpected> {
        match self.named(name)[..] {
            [span] => Ok(span),
            ref found => {
                let message = format!("expected one {name}, there are {}", found.len());
                Err(self.unexpected(message))
            }
        }
    }

    /// Spans that begin before their parent, or end after it. Viewers warn of them. Between machines
    /// clocks may differ; within a process there should be none.
    pub fn outside_parents(&self) -> Vec<SpanRef<'_>> {
        let outside = self.spans().filter(|span| {
            span.parent().is_some_and(|parent| {
                span.start_time_unix_nano < parent.start_time_unix_nano
                    || span.end_time_unix_nano > parent.end_time_unix_nano
            })
        });
        outside.collect()
    }

    /// Spans whose parent has not arrived.
    pub fn orphans(&self) -> Vec<SpanRef<'_>> {
        let known = self.ids();
        let is_orphan = |span: &SpanRef<'_>| {
            !span.parent_span_id.is_empty() && !known.contains(&*span.parent_span_id)
        };
        self.spans().filter(is_orphan).collect()
    }

    /// The tree of spans: name, how many links, and the message of an error.
    pub fn draw(&self) -> String {
        let known = self.ids();
        let mut text = String::new();
        for span in self.spans() {
            if !known.contains(&*span.parent_span_id) {
                span.draw_below(0, &mut text);
            }
        }
        text
    }

    fn ids(&self) -> HashSet<&[u8]> {
        self.0
            .iter()
            .map(|arrived| &*arrived.span.span_id)
            .collect()
    }

    fn unexpected(&self, message: String) -> Unexpected {
        Unexpected::new(message, self.draw())
    }
}

/// A span of a trace. It is an OTLP span, with the way to others and to its attributes.
#[derive(Clone, Copy)]
pub struct SpanRef<'a> {
    trace: &'a Trace,
    arrived: &'a Arrived,
}

impl Deref for SpanRef<'_> {
    type Target = Span;

    fn deref(&self) -> &Span {
        &self.arrived.span
    }
}

impl fmt::Debug for SpanRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.arrived.fmt(f)
    }
}

impl<'a> SpanRef<'a> {
    /// The span above, if it has arrived.
    pub fn parent(&self) -> Option<SpanRef<'a>> {
        let mut spans = self.trace.spans();
        spans.find(|span| span.span_id == self.parent_span_id)
    }

    /// The nearest span with this name above.
    ///
    /// # Errors
    /// If there is none.
    pub fn above(&self, name: &str) -> Result<SpanRef<'a>, Unexpected> {
        std::iter::successors(self.parent(), Self::parent)
            .find(|span| span.name == name)
            .ok_or_else(|| self.lacks(&format!("no {name} above it")))
    }

    /// All spans right below; there may be none.
    pub fn below(&self) -> Vec<SpanRef<'a>> {
        let is_child = |span: &SpanRef<'a>| span.parent_span_id == self.span_id;
        self.trace.spans().filter(is_child).collect()
    }

    /// The only span of this name right below.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn child(&self, name: &str) -> Result<SpanRef<'a>, Unexpected> {
        match self.children(name)?[..] {
            [child] => Ok(child),
            ref several => Err(self.lacks(&format!("{} children {name}, not one", several.len()))),
        }
    }

    /// The spans of this name right below: one or more.
    ///
    /// # Errors
    /// If there is none.
    pub fn children(&self, name: &str) -> Result<Vec<SpanRef<'a>>, Unexpected> {
        let mut children = self.below();
        children.retain(|child| child.name == name);
        match children.is_empty() {
            true => Err(self.lacks(&format!("no child {name}"))),
            false => Ok(children),
        }
    }

    /// The spans that it links to: one or more, all of them of this name.
    ///
    /// # Errors
    /// If there is no link, or one leads elsewhere, or to a span that has not arrived.
    pub fn links_to(&self, name: &str) -> Result<Vec<SpanRef<'a>>, Unexpected> {
        let target = |id: &[u8]| self.trace.spans().find(|span| span.span_id == id);
        let mut targets = vec![];
        for link in &self.arrived.span.links {
            match target(&link.span_id) {
                Some(span) if span.name == name => targets.push(span),
                Some(span) => {
                    let message = format!("a link to {}, not to {name}", span.name);
                    return Err(self.lacks(&message));
                }
                None => return Err(self.lacks("a link to a span that is not there")),
            }
        }
        match targets.is_empty() {
            true => Err(self.lacks("no link")),
            false => Ok(targets),
        }
    }

    /// An attribute, if it is set.
    pub fn attribute(&self, key: &str) -> Option<&'a Value> {
        let mut attributes = self.arrived.span.attributes.iter();
        let found = attributes.find(|attribute| attribute.key == key)?;
        found.value.as_ref()?.value.as_ref()
    }

    /// An attribute that is a number.
    ///
    /// # Errors
    /// If it is not set, or is no number.
    pub fn number(&self, key: &str) -> Result<f64, Unexpected> {
        match self.attribute(key) {
            Some(Value::IntValue(value)) => Ok(*value as f64),
            Some(Value::DoubleValue(value)) => Ok(*value),
            other => Err(self.lacks(&format!("{key}={other:?}, which is no number"))),
        }
    }

    /// An attribute that is text.
    ///
    /// # Errors
    /// If it is not set, or is no text.
    pub fn text(&self, key: &str) -> Result<&'a str, Unexpected> {
        match self.attribute(key) {
            Some(Value::StringValue(value)) => Ok(value),
            other => Err(self.lacks(&format!("{key}={other:?}, which is no text"))),
        }
    }

    /// An attribute of the process that sent it, as text.
    pub fn resource(&self, key: &str) -> Option<&'a str> {
        self.arrived.resource.get(key).map(String::as_str)
    }

    /// The service that sent it.
    ///
    /// # Errors
    /// If its resource has no `service.name`.
    pub fn service(&self) -> Result<&'a str, Unexpected> {
        let name = self.resource("service.name");
        name.ok_or_else(|| self.lacks("no service.name"))
    }

    /// The message of the error that it ended with, if it did.
    pub fn error(&self) -> Option<&'a str> {
        let status = self.arrived.span.status.as_ref()?;
        (status.code() == StatusCode::Error).then_some(&*status.message)
    }

    fn lacks(&self, what: &str) -> Unexpected {
        let message = format!("{} has {what}", self.name);
        self.trace.unexpected(message)
    }

    fn draw_below(&self, depth: usize, text: &mut String) {
        *text += &format!("{:1$}{2}", "", depth * 2, self.name);
        if !self.links.is_empty() {
            *text += &format!(", {} links", self.links.len());
        }
        if let Some(error) = self.error() {
            *text += &format!(", error: {error}");
        }
        *text += "\n";
        for child in self.below() {
            child.draw_below(depth + 1, text);
        }
    }
}
