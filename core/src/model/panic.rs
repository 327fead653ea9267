//! Panics of what others have written, as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use futures::FutureExt;

/// Runs `work`, and makes a panic in it an error.
pub(crate) fn caught<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(what, &*panic)))
}

/// [`caught`], for what takes time. Readers of a task that is gone wait for ever, or take it for finished.
pub(crate) async fn caught_in<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|panic| Err(panicked(what, &*panic)))
}

fn panicked(what: &str, panic: &(dyn Any + Send)) -> DataFusionError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    internal_datafusion_err!("{what} panicked: {text}")
}
