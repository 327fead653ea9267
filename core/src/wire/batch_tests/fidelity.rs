//! One test for each way in which a batch could arrive changed or not at all.

use arrow_ipc::CompressionType;
use proptest::prelude::*;

use super::*;
use crate::config::Compression;

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
        let codec = codec.parse::<Compression>().unwrap().codec();
        let mut encoder = BatchEncoder::new(batch.schema(), codec, limit).unwrap();
        let messages = send(&mut encoder, std::slice::from_ref(&batch)).unwrap();
        prop_assert!(heaviest(&messages[1..]) <= limit);
        check_received(&batch, messages);
    }
}
