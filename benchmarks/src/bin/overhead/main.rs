//! What the tracing bridge costs, off and on.
//!
//! - *off*: instructions of a query on a session with the bridge and no subscriber, against one
//!   without the bridge, counted by `valgrind --tool=callgrind` on one thread;
//! - *on*: CPU time of a process that runs a query with a span for every operator and sends them to
//!   an OTLP receiver, against the bridge off, in pairs that alternate.
//!
//! Every figure comes from a process of its own, which is this program again: a subscriber that is
//! set once stays for good.

mod cpu;
mod instructions;
mod spread;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Parser, Subcommand};
use datafusion::common::{Result, exec_datafusion_err};
use flightpath_testkit::tpch;

use workload::Bridge;

#[derive(Parser)]
struct Options {
    /// Which of the two is measured; both if left out.
    #[command(subcommand)]
    part: Option<Part>,
    /// Where TPC-H tables are made and kept, a folder for each scale.
    #[arg(long, global = true)]
    data: Option<PathBuf>,
    /// Scale of the tables that instructions are counted at.
    #[arg(long, global = true, default_value_t = 0.1)]
    counted_scale: f64,
    /// Runs that instructions are counted of, with the bridge and without.
    #[arg(long, global = true, default_value_t = 5)]
    runs: usize,
    /// Scale of the tables that CPU time is measured at.
    #[arg(long, global = true, default_value_t = 1.0)]
    scale: f64,
    /// Pairs of runs that CPU time is measured of.
    #[arg(long, global = true, default_value_t = 15)]
    pairs: usize,
}

#[derive(Subcommand)]
enum Part {
    /// The bridge off, against no bridge, in instructions.
    Off,
    /// The bridge on, against the bridge off, in CPU time.
    On,
    /// Runs the query once, for the count of its instructions.
    #[command(hide = true)]
    Count { bridge: Bridge, tables: PathBuf },
    /// Runs the query, and prints the CPU time that it took.
    #[command(hide = true)]
    Time {
        bridge: Bridge,
        tables: PathBuf,
        endpoint: Option<String>,
    },
    /// Receives spans until its standard input ends.
    #[command(hide = true)]
    Receive,
}

fn main() -> Result<()> {
    let options = Options::parse();
    match &options.part {
        Some(Part::Count { bridge, tables }) => return instructions::count(*bridge, tables),
        Some(Part::Time {
            bridge,
            tables,
            endpoint,
        }) => return cpu::time(*bridge, tables, endpoint.as_deref()),
        Some(Part::Receive) => return cpu::receive(),
        Some(Part::Off | Part::On) | None => {}
    }
    println!("profile {}", profile()?);
    if !matches!(options.part, Some(Part::On)) {
        let tables = options.tables(options.counted_scale)?;
        instructions::compare(&tables, options.counted_scale, options.runs)?;
    }
    if !matches!(options.part, Some(Part::Off)) {
        let tables = options.tables(options.scale)?;
        cpu::compare(&tables, options.scale, options.pairs)?;
    }
    Ok(())
}

impl Options {
    fn tables(&self, scale: f64) -> Result<PathBuf> {
        let data = self.data.clone();
        let data = data.unwrap_or_else(|| std::env::temp_dir().join("flightpath-overhead"));
        let tables = data.join(format!("tpch-{scale}"));
        tpch::ensure(&tables, scale, true)?;
        Ok(tables)
    }
}

/// This program again, to run the query once.
fn this_program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?)
}

/// Cargo puts programs into a folder that is named after the profile.
fn profile() -> Result<String> {
    let program = this_program()?;
    let folder = program.parent().and_then(Path::file_name);
    Ok(folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned()))
}

/// Runs a command to its end, and gives what it printed and what it complained of.
fn output(command: &mut Command) -> Result<(String, String)> {
    let failed = |why: &dyn std::fmt::Display| exec_datafusion_err!("{command:?}: {why}");
    let mut prepared = Command::new(command.get_program());
    prepared.args(command.get_args());
    let output = prepared.output().map_err(|error| failed(&error))?;
    let [printed, complained] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    match output.status.success() {
        true => Ok((printed, complained)),
        false => Err(failed(&complained)),
    }
}
