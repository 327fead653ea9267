//! What all tests share.

use std::time::Duration;

/// The outcome of `work`; a test that hangs fails instead.
pub(crate) async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(seconds);
    let Ok(outcome) = tokio::time::timeout(limit, work).await else {
        panic!("not done within {limit:?}");
    };
    outcome
}

/// Waits until `state` holds, which is named by `what`.
pub(crate) async fn eventually(what: &str, mut state: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !state().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(20);
    if tokio::time::timeout(limit, reached).await.is_err() {
        panic!("never seen within {limit:?}: {what}");
    }
}
