//! How long a reader waited for what it reads.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::physical_plan::metrics::Time;
use futures::Stream;

/// A stream that adds the time between asking for an item and having it to a metric.
pub(crate) struct Waiting<S> {
    inner: S,
    since: Option<Instant>,
    wait: Time,
}

impl<S> Waiting<S> {
    pub(crate) fn new(inner: S, wait: Time) -> Self {
        Self {
            inner,
            since: None,
            wait,
        }
    }
}

impl<S: Stream + Unpin> Stream for Waiting<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let polled = Pin::new(&mut self.inner).poll_next(context);
        match polled {
            Poll::Pending => {
                self.since.get_or_insert_with(Instant::now);
            }
            Poll::Ready(_) => {
                if let Some(since) = self.since.take() {
                    self.wait.add_elapsed(since);
                }
            }
        }
        polled
    }
}
