//! Workers in processes of their own, which can be killed and frozen as machines can.

use std::io::{BufRead, BufReader, Error, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use flightpath_core::{Worker, WorkerServer};

/// Set in the process that is to be the worker.
const ROLE: &str = "FLIGHTPATH_TEST_WORKER";

/// What the process prints before its address.
const MARK: &str = "worker ";

/// A worker that runs this same test program once more, and is killed when dropped.
///
/// The test program has an ignored test for it, whose body is this:
///
/// ```
/// use flightpath_core::Worker;
/// use flightpath_testkit::process;
///
/// process::serve(Worker::new).unwrap();
/// ```
///
/// Other tests name it, with the modules that it is in:
/// `WorkerProcess::start("module::serve_a_worker")`.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    url: String,
}

impl WorkerProcess {
    /// Starts it, by the name of the ignored test, and waits until it listens.
    ///
    /// # Errors
    /// If the process cannot be started, or ends before it listens.
    pub fn start(test: &str) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args([test, "--exact", "--ignored", "--nocapture"])
            .env(ROLE, "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // From here on the child ends with this, whatever happens.
        let mut process = Self {
            child,
            url: String::new(),
        };
        let printed = process.child.stdout.take().map(BufReader::new);
        let lines = printed.into_iter().flat_map(BufRead::lines);
        let url = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix(MARK).map(str::to_string))
            .ok_or_else(|| Error::other(format!("{test} ended before it listened")))?;
        process.url = url.trim_end_matches('/').to_string();
        Ok(process)
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()
    }

    /// Stops it without ending it, so that its connections stay open. On Unix only.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn freeze(&self) -> Result<()> {
        let pid = self.child.id().to_string();
        match Command::new("kill").args(["-STOP", &pid]).status()? {
            status if status.success() => Ok(()),
            status => Err(Error::other(format!(
                "kill -STOP {pid} ended with {status}"
            ))),
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a [`WorkerProcess`] runs: serves the worker, and ends with the process that started it. In
/// any other process it does nothing.
///
/// # Errors
/// If the worker cannot listen.
pub fn serve(worker: impl FnOnce() -> Worker) -> Result<()> {
    if std::env::var_os(ROLE).is_none() {
        return Ok(());
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = runtime
        .block_on(WorkerServer::bind(address, worker(), false))
        .map_err(Error::other)?;
    println!("\n{MARK}{}", server.url());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
