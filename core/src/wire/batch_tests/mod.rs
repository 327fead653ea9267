//! What arrives of a batch: unchanged, no heavier than needed, or an error.
#![allow(clippy::unwrap_used)]

mod damage;
mod fidelity;
mod weight;

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;
use arrow_flight::FlightData;
use datafusion::common::Result;

use super::batch::{BatchDecoder, BatchEncoder};

const NO_LIMIT: usize = usize::MAX;

fn encoder(batch: &RecordBatch) -> BatchEncoder {
    BatchEncoder::new(batch.schema(), None, NO_LIMIT).unwrap()
}

fn send(encoder: &mut BatchEncoder, batches: &[RecordBatch]) -> Result<Vec<FlightData>> {
    let mut messages = vec![encoder.schema_message()];
    for batch in batches {
        messages.extend(encoder.encode(batch)?);
    }
    Ok(messages)
}

fn receive(messages: Vec<FlightData>) -> Result<Vec<RecordBatch>> {
    let mut decoder = BatchDecoder::new();
    let batches = messages.into_iter().map(|message| decoder.decode(message));
    batches.filter_map(Result::transpose).collect()
}

fn weight(messages: &[FlightData]) -> usize {
    messages
        .iter()
        .map(|m| m.data_header.len() + m.data_body.len())
        .sum()
}

fn heaviest(messages: &[FlightData]) -> usize {
    messages
        .iter()
        .map(|m| m.data_header.len() + m.data_body.len())
        .max()
        .unwrap()
}

/// Sends `batch` and checks what arrives; returns the messages.
#[track_caller]
fn check(batch: &RecordBatch) -> Vec<FlightData> {
    let messages = send(&mut encoder(batch), std::slice::from_ref(batch)).unwrap();
    check_received(batch, messages.clone());
    messages
}

#[track_caller]
fn check_received(batch: &RecordBatch, messages: Vec<FlightData>) {
    let mut next = 0;
    let received = receive(messages).unwrap();
    assert!(!received.is_empty(), "no batch arrived");
    for piece in received {
        assert_eq!(piece, batch.slice(next, piece.num_rows()));
        next += piece.num_rows();
    }
    assert_eq!(next, batch.num_rows());
}

fn one_column(array: impl Array + 'static) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("c", Arc::new(array) as ArrayRef, true)]).unwrap()
}

fn dictionary(keys: impl IntoIterator<Item = Option<i32>>, values: ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::new(Int32Array::from_iter(keys), values))
}

/// Strings that do not fit into a view.
fn long(numbers: impl IntoIterator<Item = usize>) -> impl Iterator<Item = String> {
    numbers
        .into_iter()
        .map(|n| format!("a string too long to be inlined, no. {n}"))
}

fn long_views(count: usize) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(long(0..count)))
}

/// Four rows of `values`, which are eight: [0, 1], null, [], [4..8].
fn offsets() -> (OffsetBuffer<i32>, Option<NullBuffer>) {
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    (OffsetBuffer::from_lengths([2, 2, 0, 4]), Some(nulls))
}

fn field(data_type: &DataType) -> FieldRef {
    let metadata = [("unit".to_string(), "m".to_string())].into();
    Arc::new(Field::new("element", data_type.clone(), true).with_metadata(metadata))
}

fn lists_of(values: ArrayRef) -> Vec<ArrayRef> {
    let field = field(values.data_type());
    let (offsets, nulls) = offsets();
    let large = OffsetBuffer::<i64>::from_lengths([2, 2, 0, 4]);
    let views = (vec![4, 0, 8, 0], vec![4, 0, 0, 3]);
    let wide = |v: &Vec<i32>| {
        v.iter()
            .map(|n| i64::from(*n))
            .collect::<ScalarBuffer<i64>>()
    };
    let (f, v, n) = (|| field.clone(), || values.clone(), || nulls.clone());
    vec![
        Arc::new(ListArray::new(f(), offsets, v(), n())),
        Arc::new(LargeListArray::new(f(), large, v(), n())),
        Arc::new(LargeListViewArray::new(
            f(),
            wide(&views.0),
            wide(&views.1),
            v(),
            n(),
        )),
        Arc::new(ListViewArray::new(
            f(),
            views.0.into(),
            views.1.into(),
            v(),
            n(),
        )),
        Arc::new(FixedSizeListArray::new(f(), 2, v(), n())),
    ]
}

fn union_of(first: ArrayRef, second: ArrayRef, offsets: Option<Vec<i32>>) -> ArrayRef {
    let fields = [
        (3, field(first.data_type())),
        (7, field(second.data_type())),
    ];
    let (type_ids, offsets) = (vec![3, 7, 7, 3].into(), offsets.map(ScalarBuffer::from));
    let children = vec![first, second];
    Arc::new(
        UnionArray::try_new(fields.into_iter().collect(), type_ids, offsets, children).unwrap(),
    )
}

fn map_of(keys: ArrayRef, values: ArrayRef) -> ArrayRef {
    let key = Arc::new(Field::new("k", keys.data_type().clone(), false));
    let entries = StructArray::new(
        vec![key, field(values.data_type())].into(),
        vec![keys, values],
        None,
    );
    let field = Arc::new(Field::new("pairs", entries.data_type().clone(), false));
    let (offsets, nulls) = offsets();
    Arc::new(MapArray::new(field, offsets, entries, nulls, true))
}

fn runs_of(values: ArrayRef) -> ArrayRef {
    Arc::new(RunArray::<Int16Type>::try_new(&Int16Array::from(vec![1, 3, 4]), &values).unwrap())
}

/// Four rows of every kind of type, and of some inside each other.
fn every_type() -> RecordBatch {
    let words: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("zz")]));
    let dict = |keys: [i32; 8]| dictionary(keys.map(|k| (k >= 0).then_some(k)), words.clone());
    let dict8 = dict([0, 1, 2, 0, -1, 2, 1, 0]);
    let dict4 = dict8.slice(3, 4);
    let view4 = long_views(9).slice(4, 4);
    let decimal = Decimal256Array::from_iter([Some(i256::MAX), None, Some(i256::ONE), None]);
    let structs = |child: &ArrayRef| -> ArrayRef {
        let nulls = Some(NullBuffer::from(vec![true, true, false, true]));
        Arc::new(StructArray::new(
            vec![field(child.data_type())].into(),
            vec![child.clone()],
            nulls,
        ))
    };
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(NullArray::new(4)),
        Arc::new(BooleanArray::from(vec![
            Some(true),
            None,
            Some(false),
            Some(true),
        ])),
        Arc::new(Int8Array::from(vec![1, 2, 3, 4])),
        Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 0.0, f64::INFINITY])),
        Arc::new(
            Decimal32Array::from(vec![1, 2, 3, 4])
                .with_precision_and_scale(9, 2)
                .unwrap(),
        ),
        Arc::new(decimal.with_precision_and_scale(76, 10).unwrap()),
        Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3, 4]).with_timezone("Europe/Paris")),
        Arc::new(IntervalMonthDayNanoArray::from(
            vec![IntervalMonthDayNano::new(1, 2, 3); 4],
        )),
        Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab", b"cd", b"ef", b"gh"].iter()).unwrap()),
        Arc::new(LargeStringArray::from(vec![
            Some("a"),
            None,
            Some(""),
            Some("bcd"),
        ])),
        Arc::new(BinaryArray::from(vec![&b"a"[..], b"", b"bc", b"d"])),
        Arc::new(BinaryViewArray::from_iter_values(long(0..4))),
        Arc::new(StructArray::new_empty_fields(4, None)),
        view4.clone(),
        dict4.clone(),
        structs(&dict4),
        structs(&view4),
        // A dictionary whose values hold a dictionary.
        dictionary([Some(3), Some(0), None, Some(3)], structs(&dict4)),
        dictionary(
            [Some(1), None, Some(1), Some(0)],
            lists_of(dict8.clone()).remove(0),
        ),
        map_of(Arc::new(Int32Array::from_iter(0..8)), dict8.clone()),
        map_of(long_views(8), Arc::new(Int32Array::from_iter(0..8))),
        union_of(dict4.clone(), view4.clone(), None),
        union_of(dict8.clone(), long_views(5), Some(vec![7, 0, 4, 1])),
        runs_of(view4.slice(0, 3)),
        runs_of(dict4.slice(1, 3)),
        structs(&runs_of(words.clone())),
    ];
    columns.extend(lists_of(Arc::new(Int64Array::from_iter(0..8))));
    columns.extend(lists_of(long_views(8)));
    columns.extend(lists_of(dict8));
    let fields: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| Field::new(format!("c{i}"), column.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}
