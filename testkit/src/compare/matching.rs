//! Pairs the rows of two answers.

use std::collections::HashMap;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::error::ArrowError;

use super::cells::{Column, Float, Tolerance};

/// Rows that found no partner, by index, ascending.
pub(super) struct Unmatched {
    pub(super) expected: Vec<usize>,
    pub(super) actual: Vec<usize>,
}

struct Row {
    index: usize,
    floats: Vec<Float>,
}

impl Row {
    fn first(&self) -> f64 {
        self.floats.first().map_or(0.0, |float| float.value)
    }

    /// Everything else is equal already, so both rows have the same number of floats.
    fn matches(&self, other: &Self) -> bool {
        let mut pairs = self.floats.iter().zip(&other.floats);
        pairs.all(|(a, b)| a.tolerance.allows(a.value, b.value))
    }
}

/// Rows whose exact parts are equal, of both sides.
#[derive(Default)]
struct Group {
    expected: Vec<Row>,
    actual: Vec<Row>,
}

/// Groups rows by all that must be equal, then pairs each group by its floats.
pub(super) fn unmatched(
    expected: &RecordBatch,
    actual: &RecordBatch,
    tolerance: Tolerance,
) -> Result<Unmatched, ArrowError> {
    let mut groups = HashMap::<Vec<u8>, Group>::new();
    read(expected, tolerance, |key, row| {
        groups.entry(key).or_default().expected.push(row);
    })?;
    read(actual, tolerance, |key, row| {
        groups.entry(key).or_default().actual.push(row);
    })?;

    let mut all = Unmatched {
        expected: vec![],
        actual: vec![],
    };
    for group in groups.into_values() {
        let left = pair(group);
        all.expected.extend(left.expected);
        all.actual.extend(left.actual);
    }
    all.expected.sort_unstable();
    all.actual.sort_unstable();
    Ok(all)
}

fn read(
    batch: &RecordBatch,
    tolerance: Tolerance,
    mut each: impl FnMut(Vec<u8>, Row),
) -> Result<(), ArrowError> {
    let columns = batch.columns().iter();
    let columns = columns.map(|column| Column::new(column, tolerance));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    for index in 0..batch.num_rows() {
        let (mut key, mut floats) = (vec![], vec![]);
        for column in &columns {
            column.read(index, &mut key, &mut floats);
        }
        each(key, Row { index, floats });
    }
    Ok(())
}

/// Sorting whole rows and comparing them one by one would be wrong: a last digit in the first
/// float decides the order and tears apart rows whose other floats differ. So sort by the first
/// float only, and look for a partner among all rows that it tolerates.
fn pair(group: Group) -> Unmatched {
    let (expected, mut actual) = drop_identical(group);
    actual.sort_by(|a, b| a.first().total_cmp(&b.first()));

    let mut taken = vec![false; actual.len()];
    let mut missing = vec![];
    for row in expected {
        // Seen from the other value the tolerance may be a little larger: look twice as far, and
        // let `matches` decide.
        let reach = row
            .floats
            .first()
            .map_or(0.0, |f| 2.0 * f.tolerance.around(f.value));
        let (low, high) = (row.first() - reach, row.first() + reach);
        let start = actual.partition_point(|other| other.first() < low);
        let partner = (start..actual.len())
            .take_while(|other| actual[*other].first() <= high)
            .find(|other| !taken[*other] && row.matches(&actual[*other]));
        match partner {
            Some(partner) => taken[partner] = true,
            None => missing.push(row.index),
        }
    }
    let left = actual.iter().zip(taken).filter(|(_, taken)| !taken);
    Unmatched {
        expected: missing,
        actual: left.map(|(row, _)| row.index).collect(),
    }
}

/// Most rows are equal to the last bit. Taking those out first keeps a large group of equal rows
/// from being searched once per row. Returns the others, expected ones by their first float.
fn drop_identical(group: Group) -> (Vec<Row>, Vec<Row>) {
    let bits = |row: &Row| -> Vec<u64> { row.floats.iter().map(|f| f.value.to_bits()).collect() };
    let mut waiting = HashMap::<Vec<u64>, Vec<Row>>::new();
    for row in group.actual {
        waiting.entry(bits(&row)).or_default().push(row);
    }
    let mut expected = vec![];
    for row in group.expected {
        if waiting.get_mut(&bits(&row)).and_then(Vec::pop).is_none() {
            expected.push(row);
        }
    }
    expected.sort_by(|a, b| a.first().total_cmp(&b.first()));
    (expected, waiting.into_values().flatten().collect())
}
