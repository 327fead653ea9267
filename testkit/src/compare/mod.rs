//! Compares two answers the way a distributed engine must be judged: as multisets of rows.
//!
//! Without `ORDER BY` the order of rows is nobody's promise, and a floating-point sum depends on
//! the order in which it was added up. So rows are matched in any order, everything but floats
//! exactly, floats within a [`Tolerance`].
//!
//! ```
//! use std::sync::Arc;
//! use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
//! use flightpath_testkit::compare::same_rows;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let batch = |values: Vec<f64>| {
//!     RecordBatch::try_from_iter([("x", Arc::new(Float64Array::from(values)) as ArrayRef)])
//! };
//! let left = batch(vec![0.1 + 0.2, 1.0])?;
//! let right = batch(vec![1.0, 0.3])?;
//! same_rows(&[left], &[right])?;
//! # Ok(())
//! # }
//! ```

mod cells;
mod matching;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{SortColumn, concat_batches};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::physical_expr::LexOrdering;

pub use cells::Tolerance;

/// Rows shown of each side in a message: enough to recognise a pattern, few enough to read.
const ROWS_SHOWN: usize = 5;

/// How two answers differ, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference(String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Difference {}

impl From<ArrowError> for Difference {
    fn from(error: ArrowError) -> Self {
        Self(format!("the answers could not be compared: {error}"))
    }
}

/// Whether both schemas have the same columns: names and types, in order.
///
/// Nullability and metadata are left out: no row shows them.
pub fn same_schema(expected: &Schema, actual: &Schema) -> Result<(), Difference> {
    let columns = |schema: &Schema| -> Vec<String> {
        let fields = schema.fields().iter();
        fields
            .map(|field| format!("{} {}", field.name(), field.data_type()))
            .collect()
    };
    let (expected, actual) = (columns(expected), columns(actual));
    if expected == actual {
        return Ok(());
    }
    Err(Difference(format!(
        "columns differ: expected [{}], got [{}]",
        expected.join(", "),
        actual.join(", ")
    )))
}

/// Whether both answers hold the same rows, in any order, floats within the usual [`Tolerance`].
pub fn same_rows(expected: &[RecordBatch], actual: &[RecordBatch]) -> Result<(), Difference> {
    same_rows_within(expected, actual, Tolerance::default())
}

/// [`same_rows`] with a tolerance of your own.
pub fn same_rows_within(
    expected: &[RecordBatch],
    actual: &[RecordBatch],
    tolerance: Tolerance,
) -> Result<(), Difference> {
    // Every batch is held against one schema, so that batches of one side agree as well.
    let Some(schema) = expected
        .iter()
        .chain(actual)
        .map(RecordBatch::schema)
        .next()
    else {
        return Ok(());
    };
    for batch in expected.iter().chain(actual) {
        same_schema(&schema, &batch.schema())?;
    }
    let [expected, actual] = [expected, actual].map(|side| join(&schema, side));
    let (expected, actual) = (expected?, actual?);
    let unmatched = matching::unmatched(&expected, &actual, tolerance)?;
    if unmatched.expected.is_empty() && unmatched.actual.is_empty() {
        return Ok(());
    }
    let mut text = format!(
        "expected {} rows, got {}",
        expected.num_rows(),
        actual.num_rows()
    );
    describe(&mut text, "missing", &expected, &unmatched.expected)?;
    describe(&mut text, "unexpected", &actual, &unmatched.actual)?;
    Err(Difference(text))
}

/// Whether rows come in the order that `ordering` promises; rows that tie may come in any.
pub fn in_order(rows: &[RecordBatch], ordering: &LexOrdering) -> Result<(), Difference> {
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let rows = join(&first.schema(), rows)?;
    let broken = |error| Difference(format!("the order could not be checked: {error}"));
    let columns = ordering
        .iter()
        .map(|key| key.evaluate_to_sort_column(&rows))
        .collect::<Result<Vec<SortColumn>>>()
        .map_err(broken)?;
    let fields = columns.iter().map(|column| {
        let options = column.options.unwrap_or_default();
        SortField::new_with_options(column.values.data_type().clone(), options)
    });
    let keys: Vec<_> = columns.iter().map(|c| c.values.clone()).collect();
    let keys = RowConverter::new(fields.collect())?.convert_columns(&keys)?;
    let Some(at) = (1..keys.num_rows()).find(|row| keys.row(row - 1) > keys.row(*row)) else {
        return Ok(());
    };
    let shown = pretty_format_batches(&[rows.slice(at - 1, 2)])?;
    Err(Difference(format!(
        "not in the order [{ordering}]: rows {} and {at}\n{shown}",
        at - 1
    )))
}

/// One batch of all rows. Any column may hold NULLs: whether one does is for the rows to show.
fn join(schema: &Schema, batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    let fields = schema.fields().iter();
    let nullable = fields.map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
    concat_batches(&schema, batches)
}

fn describe(
    text: &mut String,
    what: &str,
    side: &RecordBatch,
    rows: &[usize],
) -> Result<(), ArrowError> {
    use fmt::Write;

    if rows.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = rows
        .iter()
        .take(ROWS_SHOWN)
        .map(|row| side.slice(*row, 1))
        .collect();
    let table = pretty_format_batches(&shown)?;
    let first = if rows.len() > shown.len() {
        format!(", the first {ROWS_SHOWN}")
    } else {
        String::new()
    };
    // Writing to a String does not fail.
    let _ = write!(text, "\n{} {what}{first}:\n{table}", rows.len());
    Ok(())
}
