//! Where connections of exporters live.

use std::io;

use tokio::runtime::{Builder, EnterGuard, Runtime};

/// A runtime that connections of an exporter live in: it exports from a thread of its own, where there is none, and
/// that of the program may be busy, or gone.
///
/// Unlike one of tokio, it may be dropped in async code; what it still does then is left undone.
#[derive(Debug)]
pub struct ExporterRuntime(Option<Runtime>);

impl ExporterRuntime {
    /// With one thread of this name.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(thread_name: &str) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(thread_name)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Until the guard is dropped, connections that are made on this thread live in this runtime.
    pub fn enter(&self) -> Option<EnterGuard<'_>> {
        self.0.as_ref().map(Runtime::enter)
    }
}

impl Drop for ExporterRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
