//! One test for each way in which a batch could arrive changed, bloated or not at all.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;
use arrow_flight::FlightData;
use arrow_ipc::CompressionType;
use datafusion::common::{DataFusionError, Result};
use proptest::prelude::*;

use super::batch::{BatchDecoder, BatchEncoder, parse_compression};

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

#[test]
fn types_are_not_rewritten() {
    check(&every_type());
}

#[test]
fn slices_of_every_type_keep_their_rows() {
    let batch = every_type();
    for start in 0..=batch.num_rows() {
        for len in 0..=batch.num_rows() - start {
            check(&batch.slice(start, len));
        }
    }
}

#[test]
fn every_type_survives_compression() {
    let batch = every_type();
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let mut encoder = BatchEncoder::new(batch.schema(), Some(codec), NO_LIMIT).unwrap();
        check_received(
            &batch,
            send(&mut encoder, std::slice::from_ref(&batch)).unwrap(),
        );
    }
}

#[test]
fn batches_without_columns_keep_their_rows() {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(12_345));
    let batch = RecordBatch::try_new_with_options(schema, vec![], &options).unwrap();
    check(&batch);
}

#[test]
fn batches_without_rows_are_not_skipped() {
    let batch = every_type();
    let messages = send(&mut encoder(&batch), &[batch.slice(0, 0), batch.clone()]).unwrap();
    let rows: Vec<_> = receive(messages)
        .unwrap()
        .iter()
        .map(RecordBatch::num_rows)
        .collect();
    assert_eq!(rows, [0, 4]);
}

#[test]
fn metadata_and_nullability_of_the_schema_are_kept() {
    let metadata = |s: &str| [("from".to_string(), s.to_string())].into();
    let ids = Field::new("id", DataType::Int32, false).with_metadata(metadata("field"));
    let words = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
    let words = Field::new("word", words, false).with_metadata(metadata("dictionary"));
    let schema = Schema::new_with_metadata(vec![ids, words], metadata("schema"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1, 2])),
        Arc::new(DictionaryArray::<UInt8Type>::from_iter(["a", "b"])),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    check(&batch);
    let mut decoder = BatchDecoder::new();
    assert!(decoder.schema().is_none());
    assert_eq!(
        decoder.decode(encoder(&batch).schema_message()).unwrap(),
        None
    );
    assert_eq!(decoder.schema(), Some(&batch.schema()));
}

#[test]
fn a_new_dictionary_replaces_the_old_one() {
    let words = |words: [&str; 2]| Arc::new(StringArray::from_iter_values(words)) as ArrayRef;
    let structs = |words| {
        let inner = dictionary([Some(0), Some(1)], words);
        let child = (field(inner.data_type()), inner);
        dictionary([Some(1), Some(0)], Arc::new(StructArray::from(vec![child])))
    };
    let batches = [["a", "b"], ["c", "d"], ["a", "b"]].map(|w| one_column(structs(words(w))));
    let messages = send(&mut encoder(&batches[0]), &batches).unwrap();
    assert_eq!(receive(messages).unwrap(), batches);
}

#[test]
fn a_dictionary_that_batches_share_is_sent_once() {
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(long(0..100)));
    let batch = one_column(dictionary((0..1000).map(|n| Some(n % 100)), values));
    let mut encoder = encoder(&batch);
    let messages = send(&mut encoder, &[batch.slice(0, 500), batch.slice(500, 500)]).unwrap();
    assert_eq!(messages.len(), 4, "schema, dictionary, two batches");
}

#[test]
fn slices_do_not_carry_the_buffers_of_the_whole() {
    const ROWS: usize = 20_000;
    let views = long_views(ROWS);
    let strings: ArrayRef = Arc::new(StringArray::from_iter_values(long(0..ROWS)));
    let words = dictionary((0..ROWS as i32).map(Some), strings.clone());
    let lengths = || OffsetBuffer::<i32>::from_lengths(vec![1; ROWS]);
    let ends = Int32Array::from_iter_values(1..=ROWS as i32);
    let list = |values: &ArrayRef| -> ArrayRef {
        Arc::new(ListArray::new(
            field(values.data_type()),
            lengths(),
            values.clone(),
            None,
        ))
    };
    let list_view: ArrayRef = Arc::new(ListViewArray::new(
        field(views.data_type()),
        (0..ROWS as i32).rev().collect(),
        vec![1; ROWS].into(),
        views.clone(),
        None,
    ));
    let union: ArrayRef = Arc::new(
        UnionArray::try_new(
            [(0, field(strings.data_type()))].into_iter().collect(),
            vec![0; ROWS].into(),
            Some((0..ROWS as i32).collect()),
            vec![strings.clone()],
        )
        .unwrap(),
    );
    let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&ends, &views).unwrap());
    let structs: ArrayRef = Arc::new(StructArray::from(vec![(
        field(words.data_type()),
        words.clone(),
    )]));
    let dictionary_of_views = dictionary((0..ROWS as i32).map(Some), views.clone());
    let lists = [list(&views), list(&words), list(&list_view)];
    let flat = [
        strings,
        views,
        words,
        list_view,
        union,
        runs,
        structs,
        dictionary_of_views,
    ];
    for column in flat.into_iter().chain(lists) {
        let slice = one_column(column.slice(ROWS / 2, 10));
        let weight = weight(&check(&slice));
        assert!(
            weight < 4000,
            "{} of 10 rows takes {weight} bytes",
            column.data_type()
        );
    }
}

#[test]
fn few_used_rows_far_apart_do_not_carry_what_lies_between() {
    let views = long_views(10_000);
    let list_view = ListViewArray::new(
        field(views.data_type()),
        vec![9_999, 0, 5_000].into(),
        vec![1, 1, 1].into(),
        views,
        None,
    );
    assert!(weight(&check(&one_column(list_view))) < 2000);
}

#[test]
fn compression_shrinks_messages() {
    let batch = one_column(Int64Array::from_iter_values((0..10_000).map(|n| n % 10)));
    let plain = weight(&check(&batch));
    for name in ["lz4", "zstd"] {
        let codec = parse_compression(name).unwrap();
        let mut encoder = BatchEncoder::new(batch.schema(), codec, NO_LIMIT).unwrap();
        let messages = send(&mut encoder, std::slice::from_ref(&batch)).unwrap();
        assert!(
            weight(&messages) * 5 < plain,
            "{name}: {} of {plain}",
            weight(&messages)
        );
        check_received(&batch, messages);
    }
}

#[test]
fn unknown_compression_names_what_is_known() {
    assert_eq!(parse_compression("none").unwrap(), None);
    let error = parse_compression("gzip").unwrap_err();
    assert!(matches!(error, DataFusionError::Configuration(_)));
    assert!(
        error
            .to_string()
            .contains("'gzip', expected none, lz4 or zstd")
    );
}

#[test]
fn large_batches_are_cut_by_rows() {
    let skewed = (0..64).map(|n| "x".repeat(if n < 8 { 1 << 20 } else { 1 << 10 }));
    let skewed = one_column(StringViewArray::from_iter_values(skewed));
    let even = one_column(Int64Array::from_iter_values(0..1_500_000));
    for batch in [even, skewed] {
        let messages = check(&batch);
        let (heaviest, count) = (heaviest(&messages), messages.len());
        assert!(heaviest <= 3 << 20, "{heaviest} bytes");
        assert!((5..=12).contains(&count), "{count} messages");
    }
}

#[test]
fn cutting_does_not_multiply_shared_values() {
    let mut builder = StringViewBuilder::new();
    let block = builder.append_block(vec![b'x'; 8 << 20].into());
    for row in 0..10_000 {
        builder
            .try_append_view(block, (row % 2) * (4 << 20), 4 << 20)
            .unwrap();
    }
    let messages = check(&one_column(builder.finish()));
    assert!(weight(&messages) < 9 << 20, "{} bytes", weight(&messages));
}

#[test]
fn a_row_above_the_limit_is_refused_by_name() {
    let batch = one_column(StringArray::from_iter_values([
        "small".into(),
        "x".repeat(10_000),
    ]));
    let mut limited = BatchEncoder::new(batch.schema(), None, 5_000).unwrap();
    let error = limited.encode(&batch).unwrap_err();
    assert!(
        matches!(error, DataFusionError::ResourcesExhausted(_)),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("a row takes 10"), "{text}");
    assert!(
        text.contains("flightpath.max_message_bytes = 5000"),
        "{text}"
    );
    assert_eq!(limited.encode(&batch.slice(0, 1)).unwrap().len(), 1);
}

#[test]
fn a_dictionary_above_the_limit_is_cut_with_its_rows() {
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(long(0..1000)));
    let batch = one_column(dictionary((0..1000).map(Some), values));
    let mut limited = BatchEncoder::new(batch.schema(), None, 10_000).unwrap();
    let messages = send(&mut limited, std::slice::from_ref(&batch)).unwrap();
    assert!(heaviest(&messages) <= 10_000);
    check_received(&batch, messages);
}

#[test]
fn a_batch_of_another_type_is_not_read_as_something_else() {
    let batch = one_column(Int64Array::from(vec![1]));
    let other = one_column(Float64Array::from(vec![1.0]));
    let error = encoder(&batch).encode(&other).unwrap_err().to_string();
    assert!(
        error.contains("expected Int64 in column 'c', found Float64"),
        "{error}"
    );
}

#[test]
fn messages_of_metadata_only_are_no_error() {
    let message = FlightData {
        app_metadata: b"done".as_ref().into(),
        ..Default::default()
    };
    assert_eq!(BatchDecoder::new().decode(message).unwrap(), None);
}

#[test]
fn messages_out_of_order_say_what_was_expected() {
    let messages = check(&one_column(Int64Array::from(vec![1])));
    let error = receive(messages[1..].to_vec()).unwrap_err().to_string();
    assert!(
        error.contains("expected a schema before any batch"),
        "{error}"
    );
    let error = receive(vec![messages[0].clone(), messages[0].clone()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected one schema"), "{error}");
}

#[test]
fn a_false_length_of_compressed_bytes_does_not_exhaust_memory() {
    let batch = one_column(Int64Array::from(vec![7; 1000]));
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let mut encoder = BatchEncoder::new(batch.schema(), Some(codec), NO_LIMIT).unwrap();
        let mut messages = send(&mut encoder, std::slice::from_ref(&batch)).unwrap();
        let mut body = messages[1].data_body.to_vec();
        body[..8].copy_from_slice(&(1_i64 << 50).to_le_bytes());
        messages[1].data_body = body.into();
        let error = receive(messages).unwrap_err().to_string();
        assert!(error.contains("expected compressed buffers"), "{error}");
    }
}

/// Rows of nullable numbers and strings, as columns of the types that are compacted.
fn random_batch(rows: &[(Option<u8>, Option<String>)]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(UInt8Array::from_iter(rows.iter().map(|row| row.0)));
    let strings = || rows.iter().map(|row| row.1.as_deref());
    let views: ArrayRef = Arc::new(StringViewArray::from_iter(strings()));
    let words: ArrayRef = Arc::new(strings().collect::<DictionaryArray<Int32Type>>());
    let lengths = || rows.iter().map(|row| usize::from(row.0.unwrap_or(0) % 3));
    let total: usize = lengths().sum();
    let pick = |values: &ArrayRef| -> ArrayRef {
        let rows = (0..total).map(|n| (n * 7 % rows.len().max(1)) as u32);
        arrow::compute::take(values, &UInt32Array::from_iter_values(rows), None).unwrap()
    };
    let list = |values: &ArrayRef| -> ArrayRef {
        let offsets = OffsetBuffer::<i64>::from_lengths(lengths());
        let nulls = numbers.nulls().cloned();
        Arc::new(LargeListArray::new(
            field(values.data_type()),
            offsets,
            pick(values),
            nulls,
        ))
    };
    let ends = Int32Array::from_iter_values(1..=rows.len() as i32);
    let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&ends, &words).unwrap());
    let fields = [&views, &words].map(|child| (field(child.data_type()), child.clone()));
    let structs: ArrayRef = Arc::new(StructArray::from(fields.to_vec()));
    let columns = [
        list(&views),
        list(&words),
        list(&structs),
        numbers,
        views,
        words,
        runs,
        structs,
    ];
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let columns = names
        .into_iter()
        .zip(columns)
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn rows() -> impl Strategy<Value = Vec<(Option<u8>, Option<String>)>> {
    let string = proptest::option::of(proptest::string::string_regex("[a-c]{0,30}").unwrap());
    proptest::collection::vec((any::<Option<u8>>(), string), 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_slices_come_back(
        rows in rows(),
        cut in any::<(prop::sample::Index, prop::sample::Index)>(),
        codec in prop::sample::select(vec!["none", "lz4", "zstd"]),
        limit in prop::sample::select(vec![8_000, 20_000, NO_LIMIT]),
    ) {
        let batch = random_batch(&rows);
        let start = cut.0.index(rows.len() + 1);
        let batch = batch.slice(start, cut.1.index(rows.len() - start + 1));
        let codec = parse_compression(codec).unwrap();
        let mut encoder = BatchEncoder::new(batch.schema(), codec, limit).unwrap();
        let messages = send(&mut encoder, std::slice::from_ref(&batch)).unwrap();
        prop_assert!(heaviest(&messages[1..]) <= limit);
        check_received(&batch, messages);
    }

    #[test]
    fn garbage_is_an_error_not_a_panic(header: Vec<u8>, body: Vec<u8>) {
        let schema = encoder(&every_type()).schema_message();
        let mut decoder = BatchDecoder::new();
        decoder.decode(schema).unwrap();
        let data = FlightData { data_header: header.into(), data_body: body.into(), ..Default::default() };
        let _ = decoder.decode(data);
    }

    #[test]
    fn damaged_messages_do_not_panic(
        which: prop::sample::Index,
        flips in proptest::collection::vec(any::<(bool, prop::sample::Index, u8)>(), 1..4),
        codec in prop::sample::select(vec!["none", "lz4", "zstd"]),
    ) {
        let batch = every_type();
        let codec = parse_compression(codec).unwrap();
        let mut encoder = BatchEncoder::new(batch.schema(), codec, NO_LIMIT).unwrap();
        let mut messages = send(&mut encoder, &[batch]).unwrap();
        let message = which.index(messages.len());
        let message = &mut messages[message];
        let mut parts = [message.data_header.to_vec(), message.data_body.to_vec()];
        for (part, place, byte) in flips {
            let part = &mut parts[usize::from(part)];
            if !part.is_empty() {
                let place = place.index(part.len());
                part[place] ^= byte;
            }
        }
        let [header, body] = parts.map(Into::into);
        (message.data_header, message.data_body) = (header, body);
        let _ = receive(messages);
    }
}
