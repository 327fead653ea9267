//! One test for each way in which messages could be heavier than their rows.

use datafusion::common::DataFusionError;

use super::*;
use crate::config::Compression;

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
        let codec = name.parse::<Compression>().unwrap().codec();
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
    assert_eq!("none".parse::<Compression>().unwrap().codec(), None);
    let error = "gzip".parse::<Compression>().unwrap_err();
    assert!(matches!(error, DataFusionError::Configuration(_)));
    assert!(
        error
            .to_string()
            .contains("is none, lz4 or zstd, not \"gzip\"")
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
