//! The tables of TPC-H as Parquet files, made once and kept.
//!
//! The larger ones are several files each, so that every worker has some to read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use datafusion::arrow::record_batch::RecordBatchReader;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::prelude::SessionContext;
use indicatif::{ProgressBar, ProgressStyle};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tpchgen::generators as rows;
use tpchgen_arrow as arrow;

use crate::tables;

/// Says what a folder holds; written last. Its name starts with a dot, so it is not a table.
const MARKER: &str = ".tpch";

/// Goes up when the files change for the same scale, so that older folders are made anew.
const VERSION: u32 = 1;

/// Rows of all tables at scale 1, for the progress bar (orders have 1 to 7 lines, 4 on average).
const ROWS_AT_SCALE_1: f64 = 8_660_000.0;

/// Eight parts: as many as a small cluster has workers, and still files of some size.
const LARGE: usize = 8;
const MEDIUM: usize = 4;
const SMALL: usize = 1;

/// A table, in how many files it is cut, and how part `i` of `n` (from 1) of it is made.
struct Table {
    name: &'static str,
    files: usize,
    make: fn(f64, i32, i32) -> Box<dyn RecordBatchReader>,
}

macro_rules! table {
    ($name:literal, $files:expr, $arrow:ident, $rows:ident) => {
        Table {
            name: $name,
            files: $files,
            make: |scale, i, n| Box::new(arrow::$arrow::new(rows::$rows::new(scale, i, n))),
        }
    };
}

/// Largest first: threads that take one file after the other then end at about the same time.
const TABLES: [Table; 8] = [
    table!("lineitem", LARGE, LineItemArrow, LineItemGenerator),
    table!("orders", LARGE, OrderArrow, OrderGenerator),
    table!("partsupp", MEDIUM, PartSuppArrow, PartSuppGenerator),
    table!("customer", MEDIUM, CustomerArrow, CustomerGenerator),
    table!("part", MEDIUM, PartArrow, PartGenerator),
    table!("supplier", SMALL, SupplierArrow, SupplierGenerator),
    table!("nation", SMALL, NationArrow, NationGenerator),
    table!("region", SMALL, RegionArrow, RegionGenerator),
];

impl Table {
    /// Where the table lies, be it a file or a folder.
    fn path(&self, dir: &Path) -> PathBuf {
        if self.files == 1 {
            dir.join(format!("{}.parquet", self.name))
        } else {
            dir.join(self.name)
        }
    }

    fn file(&self, dir: &Path, part: usize) -> PathBuf {
        let path = self.path(dir);
        if self.files == 1 {
            path
        } else {
            path.join(format!("part-{part}.parquet"))
        }
    }
}

/// Names of the eight tables.
pub fn table_names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}

/// Registers the eight tables of a folder that [`ensure`] made.
pub async fn register(ctx: &SessionContext, dir: &Path) -> Result<()> {
    for table in &TABLES {
        tables::register_parquet(ctx, table.name, &table.path(dir)).await?;
    }
    Ok(())
}

/// Makes the tables at this scale in `dir`, unless they lie there already.
///
/// Scale 1 is about 1 GB as text; fractions work. The folder appears whole or not at all, and is
/// kept for the next run; one of another scale, or with files missing or cut short, is made anew.
/// A folder that holds anything else is refused. With `progress`, a bar is drawn on a terminal.
/// Blocks until done, so call it through `spawn_blocking` where that matters.
pub fn ensure(dir: &Path, scale: f64, progress: bool) -> Result<()> {
    if !scale.is_finite() || scale <= 0.0 {
        return Err(exec_datafusion_err!(
            "a TPC-H scale is a number above 0, got {scale}"
        ));
    }
    if is_complete(dir, scale) {
        return Ok(());
    }
    let failed = |error: DataFusionError| {
        error.context(format!("could not make TPC-H tables in {}", dir.display()))
    };
    replace(dir, scale, progress).map_err(failed)
}

fn replace(dir: &Path, scale: f64, progress: bool) -> Result<()> {
    let dir = std::path::absolute(dir)?;
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(exec_datafusion_err!("it is not a folder that can be made"));
    };
    let name = name.to_string_lossy();
    fs::create_dir_all(parent)?;
    // Tests run in several processes, and all of them want the tables: one makes them, the others
    // wait here. The system frees the lock of a process that dies.
    let lock = File::create(parent.join(format!(".{name}.lock")))?;
    lock.lock()?;
    if is_complete(&dir, scale) {
        return Ok(());
    }
    refuse_foreign(&dir)?;
    let partial = parent.join(format!(".{name}.partial"));
    remove(&partial)?;
    generate(&partial, scale, progress)?;
    remove(&dir)?;
    fs::rename(&partial, &dir)?;
    Ok(())
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// `dir` is about to be deleted, so it must hold nothing but what was made here.
fn refuse_foreign(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let ours = TABLES.iter().any(|table| table.path(dir) == path);
        if !ours && path != dir.join(MARKER) {
            return Err(exec_datafusion_err!(
                "it holds {}, which is not a TPC-H table; choose an empty or a new folder",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Everything in the marker: what was asked for, then each file with its length.
fn contents(dir: &Path, scale: f64) -> std::io::Result<String> {
    let mut text = format!("TPC-H version {VERSION} scale {scale}\n");
    for table in &TABLES {
        for part in 0..table.files {
            let length = fs::metadata(table.file(dir, part))?.len();
            text += &format!("{} {part} {length}\n", table.name);
        }
    }
    Ok(text)
}

fn is_complete(dir: &Path, scale: f64) -> bool {
    let marker = fs::read_to_string(dir.join(MARKER));
    matches!((marker, contents(dir, scale)), (Ok(marker), Ok(contents)) if marker == contents)
}

fn generate(dir: &Path, scale: f64, progress: bool) -> Result<()> {
    for table in &TABLES {
        let folder = if table.files == 1 {
            dir.into()
        } else {
            table.path(dir)
        };
        fs::create_dir_all(folder)?;
    }
    let files = TABLES
        .iter()
        .flat_map(|table| (0..table.files).map(move |part| (table, part)));
    let files = Mutex::new(files);
    let next = || files.lock().ok()?.next();
    let bar = bar(scale, progress);
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let work = || -> Result<()> {
            while let Some((table, part)) = next() {
                write(table, part, dir, scale, &bar)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            let broken = |_| Err(exec_datafusion_err!("the generator panicked"));
            thread.join().unwrap_or_else(broken)
        })
    })?;
    fs::write(dir.join(MARKER), contents(dir, scale)?)?;
    bar.finish_and_clear();
    Ok(())
}

fn write(table: &Table, part: usize, dir: &Path, scale: f64, bar: &ProgressBar) -> Result<()> {
    let batches = (table.make)(scale, part as i32 + 1, table.files as i32);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let file = File::create(table.file(dir, part))?;
    let mut writer = ArrowWriter::try_new(file, batches.schema(), Some(properties.build()))?;
    for batch in batches {
        let batch = batch?;
        writer.write(&batch)?;
        bar.inc(batch.num_rows() as u64);
    }
    writer.close()?;
    Ok(())
}

/// indicatif draws on stderr, and only if that is a terminal.
fn bar(scale: f64, shown: bool) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos} rows, {eta} left");
    ProgressBar::new((ROWS_AT_SCALE_1 * scale) as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(format!("TPC-H at scale {scale}"))
}
