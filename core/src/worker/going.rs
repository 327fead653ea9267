//! How many of something are going on.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts what has begun and not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Going(Arc<watch::Sender<usize>>);

impl Going {
    /// One more, until what is returned is dropped.
    pub(super) fn one(&self) -> One {
        self.0.send_modify(|count| *count += 1);
        One(self.clone())
    }

    /// Waits until none is going on.
    pub(super) async fn none(&self) {
        // The sender is in `self`.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// One of what is counted.
#[derive(Debug)]
pub(super) struct One(Going);

impl Drop for One {
    fn drop(&mut self) {
        self.0
            .0
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}
