//! What the example programs share: how they are traced and stopped, tables of stages, and numbers
//! for people to read.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use datafusion::common::Result;
use flightpath_core::StageSummary;
use flightpath_testkit::cli;
use flightpath_tracing_bridge::{Role, Telemetry, init};
use indicatif::HumanCount;
use tracing_subscriber::filter::LevelFilter;

/// Sends spans to where the `OTEL_*` variables say, and shows warnings on stderr.
///
/// # Errors
/// If a variable has a value that is unknown.
pub fn init_tracing(role: Role) -> Result<Telemetry> {
    let telemetry = init(role)?;
    if !telemetry.is_exporting() {
        cli::init_logging(LevelFilter::WARN);
    }
    Ok(telemetry)
}

/// Sends the last spans, and says on stderr what became of them all.
pub async fn end_tracing(telemetry: Telemetry) {
    if !telemetry.is_exporting() {
        return;
    }
    // Of queries that were left in the middle.
    if !telemetry.idle(Duration::from_secs(5)).await {
        eprintln!("spans are open still, and are not sent");
    }
    let summary = telemetry.shutdown().await;
    let (sent, failed, dropped) = (summary.sent, summary.failed, summary.dropped);
    eprintln!("spans: {sent} sent, {failed} failed, {dropped} dropped");
}

/// Waits for SIGTERM or Ctrl-C, and ends with the name of what came. From this call on none is lost.
///
/// # Errors
/// If signals cannot be listened to.
#[cfg(unix)]
pub fn stop_signal() -> Result<impl Future<Output = &'static str>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// Waits for SIGTERM or Ctrl-C, and ends with the name of what came. From this call on none is lost.
///
/// # Errors
/// If signals cannot be listened to.
#[cfg(windows)]
pub fn stop_signal() -> Result<impl Future<Output = &'static str>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
        "Ctrl-C"
    })
}

/// One row for each stage of a query: its tasks, what they sent, and how long they took.
pub fn stage_table(stages: &[StageSummary]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "stage",
        "sends by",
        "tasks",
        "rows",
        "bytes",
        "median task",
        "slowest task",
    ]);
    for stage in stages {
        let slowest = match stage.slowest_task {
            Some(task) => format!("{} ({}.{task})", human_time(stage.slowest), stage.stage),
            None => "-".to_string(),
        };
        table.add_row([
            stage.stage.to_string(),
            stage.boundary.clone(),
            stage.tasks.to_string(),
            human_count(stage.output_rows),
            human_bytes(stage.output_bytes),
            human_time(stage.median),
            slowest,
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// `1536` as `1.5 KiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be shown as 1024.0 is 1.0 of the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1234567` as `1,234,567`.
pub fn human_count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// Three digits and a unit: `12.3 ms`.
pub fn human_time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 0.9995 => (s, "s"),
        s if s >= 0.000_999_5 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let decimals = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well_at_the_edges_of_their_units() {
        assert_eq!(
            [0, 1023, 1024, 1536].map(human_bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB"]
        );
        assert_eq!(human_bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(human_bytes(u64::MAX), "16.0 EiB");
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(human_count),
            ["0", "999", "1,000", "1,234,567"]
        );
        let times = [0, 1_500, 12_345_678, 999_999_999, 90_000_000_000];
        let times = times.map(|nanos| human_time(Duration::from_nanos(nanos)));
        assert_eq!(times, ["0.00 µs", "1.50 µs", "12.3 ms", "1.00 s", "90.0 s"]);
    }
}
