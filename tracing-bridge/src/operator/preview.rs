//! Rows of a node's output, as text for its span.

use std::fmt::{self, Display, Write};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches;

/// Characters of a cell that are shown: some values are of megabytes, and lines are as wide as the widest.
const CELL: usize = 100;

/// A table of the rows, with long values cut.
pub(super) fn preview(rows: &RecordBatch) -> Result<String, ArrowError> {
    let options = FormatOptions::default().with_display_error(true);
    let schema = rows.schema();
    let names = schema.fields().iter().map(|field| field.name());
    let fields: Vec<_> = names
        .map(|name| Field::new(name, DataType::Utf8, false))
        .collect();
    let columns = rows.columns().iter().map(|column| {
        let cells = ArrayFormatter::try_new(column, &options)?;
        let cells = (0..rows.num_rows()).map(|row| Some(cut(&cells.value(row))));
        Ok(Arc::new(cells.collect::<StringArray>()) as ArrayRef)
    });
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    let schema = Arc::new(Schema::new(fields));
    let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let shown = RecordBatch::try_new_with_options(schema, columns, &size)?;
    Ok(pretty_format_batches(&[shown])?.to_string())
}

fn cut(value: &impl Display) -> String {
    let mut cell = Cell {
        text: String::new(),
        room: CELL,
    };
    if write!(cell, "{value}").is_err() {
        cell.text.push('…');
    }
    cell.text
}

/// Takes as much text as it has room for, and then no more.
struct Cell {
    text: String,
    room: usize,
}

impl Write for Cell {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::arrow::array::Int64Array;

    use super::*;

    #[test]
    fn a_value_of_megabytes_held_up_its_query() {
        let huge = StringArray::from(vec!["é".repeat(3_000_000), "short".to_string()]);
        let number = Int64Array::from(vec![Some(7), None]);
        let columns: [(&str, ArrayRef); 2] = [("huge", Arc::new(huge)), ("n", Arc::new(number))];
        let shown = preview(
            &RecordBatch::try_from_iter_with_nullable(
                columns.map(|(name, column)| (name, column, true)),
            )
            .unwrap(),
        );
        let shown = shown.unwrap();
        assert!(
            shown.contains(&format!("| {}… | 7 |", "é".repeat(CELL))),
            "{shown}"
        );
        assert!(shown.contains("| short "), "{shown}");
        assert!(shown.len() < 2_000, "{}", shown.len());
    }
}
