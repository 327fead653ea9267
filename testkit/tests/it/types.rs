//! Columns of every kind arrive as they were sent.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use datafusion::arrow::datatypes::*;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use flightpath_testkit::Cluster;

use crate::harness::{Ran, config, local, register, run, run_as_local, value, within};

const ROWS: usize = 40;

fn nested() -> ArrayRef {
    let words = ["red", "green", "blue"].map(Some);
    let inner: DictionaryArray<Int32Type> = (0..2 * ROWS)
        .map(|row| words[row % 3].filter(|_| row % 7 > 0))
        .collect();
    let item = Field::new("item", inner.data_type().clone(), true)
        .with_metadata(HashMap::from([("level".into(), "3".into())]));
    let lists = ListArray::new(
        Arc::new(item),
        OffsetBuffer::from_lengths((0..ROWS).map(|row| if row % 2 == 0 { 4 } else { 0 })),
        Arc::new(inner),
        Some((0..ROWS).map(|row| row % 5 > 0).collect()),
    );
    let number = Int16Array::from_iter_values(0..ROWS as i16);
    let fields = vec![
        Field::new("colours", lists.data_type().clone(), true),
        Field::new("number", DataType::Int16, false),
    ];
    Arc::new(StructArray::new(
        fields.into(),
        vec![Arc::new(lists), Arc::new(number)],
        None,
    ))
}

fn large_list() -> ArrayRef {
    let lists = (0..ROWS).map(|row| (row % 4 > 0).then(|| vec![Some(row as i32); row % 4]));
    Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(
        lists,
    ))
}

fn map() -> ArrayRef {
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in 0..ROWS {
        for entry in 0..row % 3 {
            map.keys().append_value(format!("key {entry}"));
            map.values()
                .append_option((entry > 0).then_some(row as i64));
        }
        map.append(row % 6 > 0).unwrap();
    }
    Arc::new(map.finish())
}

fn union(mode: UnionMode) -> ArrayRef {
    let fields = UnionFields::try_new(
        [0, 5],
        [
            Field::new("int", DataType::Int32, true),
            Field::new("text", DataType::Utf8, true),
        ],
    )
    .unwrap();
    let ids = (0..ROWS)
        .map(|row| if row % 2 == 0 { 0 } else { 5 })
        .collect::<ScalarBuffer<i8>>();
    let offsets = match mode {
        UnionMode::Dense => Some((0..ROWS as i32).map(|row| row / 2).collect()),
        UnionMode::Sparse => None,
    };
    let ints = Int32Array::from_iter_values(0..ROWS as i32);
    let texts = StringArray::from_iter_values((0..ROWS).map(|row| format!("text {row}")));
    Arc::new(
        UnionArray::try_new(fields, ids, offsets, vec![Arc::new(ints), Arc::new(texts)]).unwrap(),
    )
}

/// One column of each kind, each but the key behind three rows that are sliced away.
fn columns() -> RecordBatch {
    let long = |row: usize| {
        (!row.is_multiple_of(3)).then(|| format!("a text too long to be inlined {row}"))
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        (
            "dictionary",
            Arc::new(
                (0..ROWS)
                    .map(|row| ["a", "b"].get(row % 3).copied())
                    .collect::<DictionaryArray<UInt8Type>>(),
            ),
        ),
        ("large_list", large_list()),
        (
            "utf8_view",
            Arc::new((0..ROWS).map(long).collect::<StringViewArray>()),
        ),
        (
            "binary_view",
            Arc::new(
                (0..ROWS)
                    .map(|row| long(row).map(String::into_bytes))
                    .collect::<BinaryViewArray>(),
            ),
        ),
        ("nested", nested()),
        ("map", map()),
        ("dense_union", union(UnionMode::Dense)),
        ("sparse_union", union(UnionMode::Sparse)),
        (
            "decimal128",
            Arc::new(
                Decimal128Array::from_iter(
                    (0..ROWS).map(|row| (row % 4 > 0).then_some(i128::MAX / 10_000 - row as i128)),
                )
                .with_precision_and_scale(38, 9)
                .unwrap(),
            ),
        ),
        (
            "decimal256",
            Arc::new(
                Decimal256Array::from_iter_values(
                    (0..ROWS).map(|row| i256::from_i128(row as i128)),
                )
                .with_precision_and_scale(76, -3)
                .unwrap(),
            ),
        ),
        (
            "zoned",
            Arc::new(
                TimestampNanosecondArray::from_iter_values(0..ROWS as i64)
                    .with_timezone("Asia/Kathmandu"),
            ),
        ),
        (
            "utc",
            Arc::new(
                TimestampSecondArray::from_iter_values(0..ROWS as i64).with_timezone("+00:00"),
            ),
        ),
        (
            "months",
            Arc::new(IntervalYearMonthArray::from_iter_values(0..ROWS as i32)),
        ),
        (
            "days",
            Arc::new(IntervalDayTimeArray::from_iter_values(
                (0..ROWS as i32).map(|row| IntervalDayTime::new(row, -row)),
            )),
        ),
        (
            "nanos",
            Arc::new(IntervalMonthDayNanoArray::from_iter_values(
                (0..ROWS as i32).map(|row| IntervalMonthDayNano::new(row, -row, 7)),
            )),
        ),
        (
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_iter((0..ROWS).map(|row| [row as u8; 3])).unwrap(),
            ),
        ),
        (
            "half",
            Arc::new(
                (0..ROWS)
                    .map(|row| (row != 4).then_some(row % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("nothing", new_null_array(&DataType::Null, ROWS)),
    ];
    let fields = columns.iter().map(|(name, column)| {
        Field::new(
            *name,
            column.data_type().clone(),
            column.is_nullable() || *name != "k",
        )
        .with_metadata(HashMap::from([("of".into(), name.to_string())]))
    });
    let metadata = HashMap::from([("table".into(), "kinds".into())]);
    let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata);
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

async fn session(cluster: &Cluster, partitioned: bool) -> SessionContext {
    let threshold = if partitioned { "0" } else { "1000000" };
    let ctx = cluster
        .context_with(config(&[
            ("datafusion.execution.target_partitions", "2"),
            (
                "datafusion.optimizer.hash_join_single_partition_threshold",
                threshold,
            ),
            (
                "datafusion.optimizer.hash_join_single_partition_threshold_rows",
                threshold,
            ),
        ]))
        .unwrap();
    let all = columns();
    register(
        &ctx,
        "kinds",
        vec![
            vec![all.slice(3, 10), all.slice(0, 0), all.slice(13, 4)],
            vec![all.slice(0, 0)],
            vec![all.slice(17, ROWS - 17)],
        ],
    );
    let keys = Int64Array::from_iter_values(0..ROWS as i64);
    let twice = RecordBatch::try_from_iter([("k2", Arc::new(keys) as ArrayRef)]).unwrap();
    register(
        &ctx,
        "keys",
        vec![vec![twice.slice(0, 20)], vec![twice.slice(20, ROWS - 20)]],
    );
    ctx
}

/// All rows as one batch, ordered by the column `k`.
fn ordered(batches: &[RecordBatch]) -> RecordBatch {
    let schema = batches[0].schema();
    assert!(
        batches.iter().all(|batch| batch.schema() == schema),
        "batches of one answer differ"
    );
    let all = concat_batches(&schema, batches).unwrap();
    let order = sort_to_indices(all.column_by_name("k").unwrap(), None, None).unwrap();
    take_record_batch(&all, &order).unwrap()
}

async fn equals_local(ctx: &SessionContext, sql: &str, boundary: &str) {
    let ran: Ran = run(ctx, sql).await.unwrap();
    assert!(
        ran.text().contains(boundary),
        "no {boundary}:\n{}",
        ran.text()
    );
    let expected = local(ctx).sql(sql).await.unwrap().collect().await.unwrap();
    let (expected, found) = (ordered(&expected), ordered(&ran.rows));
    assert_eq!(expected.num_rows(), ROWS - 3);
    assert_eq!(expected.schema(), found.schema());
    for (column, field) in expected.schema().fields().iter().enumerate() {
        let [want, have] = [&expected, &found].map(|batch| batch.project(&[0, column]).unwrap());
        assert!(
            want == have,
            "{} differs:\n{}\n{}",
            field.name(),
            pretty_format_batches(&[want]).unwrap(),
            pretty_format_batches(&[have]).unwrap()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_column_is_shuffled() {
    within(60, async {
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = session(&cluster, true).await;
        let sql = "SELECT kinds.* FROM kinds JOIN keys ON k = k2";
        equals_local(&ctx, sql, "NetworkShuffleExec").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_column_is_broadcast() {
    within(60, async {
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = session(&cluster, false).await;
        let sql = "SELECT kinds.* FROM kinds JOIN keys ON k < k2 AND k2 < k + 2 \
                   UNION ALL SELECT * FROM kinds WHERE k = 39";
        equals_local(&ctx, sql, "NetworkBroadcastExec").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_column_is_coalesced() {
    within(60, async {
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = session(&cluster, false).await;
        equals_local(
            &ctx,
            "SELECT * FROM kinds WHERE k + 1 > 0",
            "NetworkCoalesceExec",
        )
        .await;
        // Merged by key on the coordinator, each column is put together anew.
        equals_local(
            &ctx,
            "SELECT * FROM kinds ORDER BY k DESC",
            "NetworkCoalesceExec",
        )
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_columns_are_counted() {
    within(60, async {
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = session(&cluster, false).await;
        let limited = "SELECT count(*) FROM (SELECT 1 FROM kinds WHERE k % 2 = 0 LIMIT 11)";
        assert_eq!(value(&run_as_local(&ctx, limited).await.rows), "11");
        let crossed = "SELECT count(*) FROM kinds CROSS JOIN keys WHERE k % 2 = 0 AND k2 % 2 = 0";
        assert_eq!(value(&run_as_local(&ctx, crossed).await.rows), "360");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_empty_batches_has_its_schema() {
    within(60, async {
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = session(&cluster, true).await;
        for sql in [
            "SELECT kinds.* FROM kinds JOIN keys ON k = k2 WHERE k + k2 < 0",
            "SELECT * FROM kinds WHERE k + 1 < 0",
        ] {
            let ran = run(&ctx, sql).await.unwrap();
            assert!(ran.rows.iter().all(|batch| batch.num_rows() == 0));
            let frame = local(&ctx).sql(sql).await.unwrap();
            let expected = frame.create_physical_plan().await.unwrap();
            assert_eq!(ran.plan.schema(), expected.schema());
            for batch in &ran.rows {
                assert_eq!(batch.schema(), expected.schema());
            }
        }
    })
    .await;
}
