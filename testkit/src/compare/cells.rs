//! Takes rows apart into what must be equal and what may differ a little.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, LargeListArray, StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::row::{RowConverter, Rows, SortField};

/// How far two floats may be apart and still count as equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Of the larger magnitude.
    ///
    /// A sum of n doubles is off by at most n times 1.1e-16 of the sum of magnitudes; 1e-9 allows
    /// for millions of rows, and a row lost or doubled among them still shows.
    pub relative: f64,
    /// For values near zero, where what is left of large terms that cancel has no digits right.
    pub absolute: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            relative: 1e-9,
            absolute: 1e-9,
        }
    }
}

impl Tolerance {
    /// Largest distance from `value` that still counts as equal, seen from `value`.
    pub(super) fn around(self, value: f64) -> f64 {
        self.absolute.max(self.relative * value.abs())
    }

    /// A narrower float has its last digits earlier. What cancels near zero stays as it is: sums
    /// are doubles, whatever they add up.
    fn at_least(self, relative: f64) -> Self {
        Self {
            relative: self.relative.max(relative),
            ..self
        }
    }

    pub(super) fn allows(self, a: f64, b: f64) -> bool {
        a == b || (a - b).abs() <= self.around(a).max(self.around(b))
    }
}

/// A float of a row, finite, with what is tolerated around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Float {
    pub(super) value: f64,
    pub(super) tolerance: Tolerance,
}

/// One column, in a form from which rows are read.
pub(super) enum Column {
    Exact(Rows),
    Float(Float64Array, Tolerance),
    Struct(StructArray, Vec<Column>),
    List(LargeListArray, Box<Column>),
}

impl Column {
    pub(super) fn new(array: &ArrayRef, tolerance: Tolerance) -> Result<Self, ArrowError> {
        let float = |relative| -> Result<Self, ArrowError> {
            let values = cast(array, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>().clone();
            Ok(Self::Float(values, tolerance.at_least(relative)))
        };
        match array.data_type() {
            DataType::Float64 => float(0.0),
            // A few steps of the last digit: f32 has 24 bits, f16 has 11.
            DataType::Float32 => float(1e-6),
            DataType::Float16 => float(2e-3),
            kind if !has_floats(kind) => Self::exact(array),
            DataType::Dictionary(_, values) => Self::new(&cast(array, values)?, tolerance),
            DataType::Struct(_) => {
                let array = array.as_struct().clone();
                let fields = array.columns().iter();
                let fields = fields.map(|field| Self::new(field, tolerance));
                let fields = fields.collect::<Result<_, _>>()?;
                Ok(Self::Struct(array, fields))
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                let lists = cast(array, &DataType::LargeList(item.clone()))?;
                let lists = lists.as_list::<i64>().clone();
                let items = Self::new(lists.values(), tolerance)?;
                Ok(Self::List(lists, Box::new(items)))
            }
            _ => Self::exact(array),
        }
    }

    fn exact(array: &ArrayRef) -> Result<Self, ArrowError> {
        let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
        Ok(Self::Exact(
            converter.convert_columns(std::slice::from_ref(array))?,
        ))
    }

    /// Appends the cell in `row`: bytes that must be equal to `key`, finite floats to `floats`.
    ///
    /// NULL, NaN and the infinities are exact: no rounding turns a number into one of them.
    pub(super) fn read(&self, row: usize, key: &mut Vec<u8>, floats: &mut Vec<Float>) {
        match self {
            Self::Exact(rows) => {
                let bytes = rows.row(row);
                let bytes = bytes.as_ref();
                // Lengths keep ("a", "bc") and ("ab", "c") apart.
                key.extend((bytes.len() as u64).to_le_bytes());
                key.extend(bytes);
            }
            Self::Float(values, _) if values.is_null(row) => key.push(b'0'),
            Self::Float(values, tolerance) => match values.value(row) {
                value if value.is_nan() => key.push(b'n'),
                f64::INFINITY => key.push(b'+'),
                f64::NEG_INFINITY => key.push(b'-'),
                value => {
                    key.push(b'f');
                    // One zero: adding 0.0 turns -0.0 into it.
                    let (value, tolerance) = (value + 0.0, *tolerance);
                    floats.push(Float { value, tolerance });
                }
            },
            Self::Struct(array, _) if array.is_null(row) => key.push(b'0'),
            Self::Struct(_, fields) => {
                key.push(b's');
                for field in fields {
                    field.read(row, key, floats);
                }
            }
            Self::List(lists, _) if lists.is_null(row) => key.push(b'0'),
            Self::List(lists, items) => {
                let offsets = lists.value_offsets();
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                key.push(b'l');
                key.extend((end - start).to_le_bytes());
                for item in start..end {
                    items.read(item, key, floats);
                }
            }
        }
    }
}

fn has_floats(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => has_floats(values),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_floats(item.data_type())
        }
        kind => kind.is_floating(),
    }
}
