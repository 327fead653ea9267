//! The bridge without a subscriber, against no bridge: instructions.

use std::path::Path;
use std::process::Command;

use datafusion::common::{Result, exec_datafusion_err};
use tokio::runtime::Runtime;

use crate::spread::{median, median_interval, range};
use crate::workload::{Bridge, Workload};
use crate::{output, this_program};

/// What the bridge may cost beyond the differences between runs without it.
const TARGET: f64 = 0.001;

/// The function below whose instructions are counted, on the thread that runs it.
const COUNTED: &str = "counted_region";

/// What callgrind writes before the number of instructions.
const COLLECTED: &str = "Collected :";

pub(crate) fn compare(tables: &Path, scale: f64, runs: usize) -> Result<()> {
    let (mut absent, mut present) = (vec![], vec![]);
    for _ in 0..runs {
        absent.push(counted(Bridge::Absent, tables)?);
        present.push(counted(Bridge::Present, tables)?);
    }
    println!("\nbridge off, against none: instructions of a query at scale {scale}, {runs} pairs");
    for (bridge, counts) in [("without", &absent), ("with", &present)] {
        let (least, most) = range(counts);
        println!(
            "{bridge:8} median {:.0}, from {least:.0} to {most:.0}",
            median(counts)
        );
    }
    let base = median(&absent);
    let (least, most) = range(&absent);
    let spread = (most - least) / base;
    let cost = median(&present) / base - 1.0;
    let ratios: Vec<f64> = present
        .iter()
        .zip(&absent)
        .map(|(with, without)| with / without)
        .collect();
    println!("ratio of {runs} pairs: {}", median_interval(&ratios));
    println!(
        "the bridge costs {:+.4} %; runs without it differ by {:.4} %",
        100.0 * cost,
        100.0 * spread
    );
    let verdict = if cost <= spread + TARGET {
        "within"
    } else {
        "above"
    };
    println!(
        "{verdict} the target: that difference and {} %",
        100.0 * TARGET
    );
    Ok(())
}

/// Instructions of one query, in a process of its own.
fn counted(bridge: Bridge, tables: &Path) -> Result<f64> {
    let (_, log) = output(
        Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(format!("--toggle-collect=*{COUNTED}*"))
            .arg(this_program()?)
            .args(["count", bridge.as_arg()])
            .arg(tables),
    )?;
    let counted = log
        .lines()
        .find_map(|line| line.split_once(COLLECTED)?.1.trim().parse().ok());
    match counted {
        Some(counted) if counted > 0.0 => Ok(counted),
        _ => Err(exec_datafusion_err!("callgrind has counted nothing: {log}")),
    }
}

/// Runs the query once on one thread, as the process that is counted.
pub(crate) fn count(bridge: Bridge, tables: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let workload = runtime.block_on(Workload::start(bridge, tables))?;
    counted_region(&runtime, &workload)?;
    runtime.block_on(workload.stop())
}

/// All tasks of the runtime run inside this call: coordinator, workers and network.
#[inline(never)]
fn counted_region(runtime: &Runtime, workload: &Workload) -> Result<()> {
    runtime.block_on(workload.run())
}
