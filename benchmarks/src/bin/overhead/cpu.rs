//! The bridge with a span for every operator, against the bridge off: CPU time.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cpu_time::ProcessTime;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use flightpath_testkit::collector::Collector;
use flightpath_tracing_bridge::{OtlpSettings, Protocol, Role, Telemetry};

use crate::spread::{median, median_interval};
use crate::workload::{Bridge, Workload};
use crate::{output, this_program};

/// What tracing may cost: the ratio of CPU times.
const TARGET: f64 = 1.03;

/// Queries in each run, so that a run takes seconds.
const QUERIES: usize = 3;

pub(crate) fn compare(tables: &Path, scale: f64, pairs: usize) -> Result<()> {
    let receiver = Receiver::start()?;
    let mut ratios = vec![];
    let (mut off, mut on) = (vec![], vec![]);
    for pair in 0..pairs {
        // Whatever grows warmer or colder hits both sides alike.
        let (first, second) = match pair % 2 {
            0 => (None, Some(&*receiver.endpoint)),
            _ => (Some(&*receiver.endpoint), None),
        };
        let times = [first, second].map(|endpoint| timed(tables, endpoint));
        let [first, second] = times;
        let (without, with) = match pair % 2 {
            0 => (first?, second?),
            _ => (second?, first?),
        };
        off.push(without);
        on.push(with);
        ratios.push(with / without);
    }
    println!(
        "\noperator spans over OTLP, against the bridge off: CPU time of {QUERIES} queries at scale {scale}"
    );
    println!(
        "off median {:.3} s, on median {:.3} s",
        median(&off),
        median(&on)
    );
    let ratio = median(&ratios);
    println!("ratio of {pairs} pairs: {}", median_interval(&ratios));
    let verdict = if ratio <= TARGET { "within" } else { "above" };
    println!("{verdict} the target: {TARGET}");
    Ok(())
}

/// CPU seconds of one run, in a process of its own; with an endpoint, spans are sent there.
fn timed(tables: &Path, endpoint: Option<&str>) -> Result<f64> {
    let mut command = Command::new(this_program()?);
    command
        .args(["time", Bridge::Present.as_arg()])
        .arg(tables)
        .args(endpoint);
    let (printed, _) = output(&mut command)?;
    let seconds = printed.trim().parse();
    seconds.map_err(|error| exec_datafusion_err!("{printed:?} is no time: {error}"))
}

/// Runs the queries and prints the CPU seconds of all threads, from the first query until all spans have left.
pub(crate) fn time(bridge: Bridge, tables: &Path, endpoint: Option<&str>) -> Result<()> {
    let telemetry = endpoint
        .map(|endpoint| OtlpSettings::new(Role::Coordinator, endpoint, Protocol::Grpc).init());
    let telemetry = telemetry.transpose()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let workload = runtime.block_on(Workload::start(bridge, tables))?;
    let warm = telemetry.as_ref().map(Telemetry::flush).unwrap_or_default();
    let start = ProcessTime::try_now()?;
    for _ in 0..QUERIES {
        runtime.block_on(workload.run())?;
    }
    let summary = telemetry.as_ref().map(Telemetry::flush).unwrap_or_default();
    let taken = start.try_elapsed()?;
    if endpoint.is_some() && (summary.sent <= warm.sent || summary.failed + summary.dropped > 0) {
        return exec_err!("not all spans have arrived: {summary:?}");
    }
    println!("{}", taken.as_secs_f64());
    runtime.block_on(workload.stop())
}

/// Prints where it listens, and receives until whoever started it closes its input or ends.
pub(crate) fn receive() -> Result<()> {
    let collector = Collector::start()?;
    println!("{}", collector.endpoint());
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut vec![])?;
    Ok(())
}

/// A receiver in a process of its own, so that its CPU time is not counted.
struct Receiver {
    process: Child,
    endpoint: String,
}

impl Receiver {
    fn start() -> Result<Self> {
        let mut process = Command::new(this_program()?)
            .arg("receive")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut endpoint = String::new();
        if let Some(printed) = process.stdout.take() {
            BufReader::new(printed).read_line(&mut endpoint)?;
        }
        let endpoint = endpoint.trim().to_string();
        Ok(Self { process, endpoint })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It has nothing more to say.
        let _ended = self.process.wait();
    }
}
