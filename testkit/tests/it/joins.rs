//! Every type of join, in every way to run it, answers as it does locally.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use flightpath_testkit::Cluster;

use crate::fixture::within;
use crate::pair::{Pair, config};

const EQUAL: &str = "l.k = r.k";
const EQUAL_AND_MORE: &str = "l.k = r.k AND l.v < r.v";
const UNEQUAL: &str = "l.v < r.v";

/// Ways to run an equi-join.
const WAYS: [[&str; 3]; 3] = [
    // Collect left.
    [
        "SET datafusion.optimizer.hash_join_single_partition_threshold = 1000000",
        "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 1000000",
        "SET datafusion.optimizer.prefer_hash_join = true",
    ],
    // Partitioned.
    [
        "SET datafusion.optimizer.hash_join_single_partition_threshold = 0",
        "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0",
        "SET datafusion.optimizer.prefer_hash_join = true",
    ],
    // Sort-merge.
    [
        "SET datafusion.optimizer.hash_join_single_partition_threshold = 0",
        "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0",
        "SET datafusion.optimizer.prefer_hash_join = false",
    ],
];

/// Each checks four statements.
const CASES: u32 = 64;

fn joins(condition: &str) -> Vec<String> {
    let both = ["INNER", "LEFT", "RIGHT", "FULL"].map(|kind| {
        format!("SELECT l.k, l.v, r.k AS rk, r.v AS rv FROM l {kind} JOIN r ON {condition}")
    });
    let one = [
        ("l", "LEFT SEMI"),
        ("l", "LEFT ANTI"),
        ("r", "RIGHT SEMI"),
        ("r", "RIGHT ANTI"),
    ]
    .map(|(side, kind)| format!("SELECT {side}.k, {side}.v FROM l {kind} JOIN r ON {condition}"));
    let marked = [
        format!(
            "SELECT l.k, l.v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {condition}) OR l.v > 5"
        ),
        format!(
            "SELECT r.k, r.v FROM r WHERE NOT EXISTS (SELECT 1 FROM l WHERE {condition}) OR r.v < 2"
        ),
    ];
    both.into_iter().chain(one).chain(marked).collect()
}

/// Joins of other forms, and what is often put on top of joins.
fn others() -> Vec<String> {
    [
        "SELECT l.k, l.v, r.v AS rv FROM l CROSS JOIN r",
        "SELECT l.k, l.v FROM l WHERE l.k NOT IN (SELECT r.k FROM r)",
        "SELECT l.k, l.v FROM l WHERE l.k IN (SELECT r.k FROM r) OR l.v = 1",
        "SELECT l.k, l.v FROM l WHERE l.k NOT IN (SELECT r.k FROM r WHERE r.k IS NOT NULL)",
        "SELECT l.k, (SELECT sum(r.v) FROM r WHERE r.k = l.k) AS total FROM l",
        "SELECT l.k, l.v FROM l WHERE l.v > (SELECT avg(r.v) FROM r)",
        "SELECT k, count(*), count(v), sum(v), min(v), count(DISTINCT v) FROM l GROUP BY k",
        "SELECT count(*), sum(l.v), count(r.v) FROM l FULL JOIN r ON l.k = r.k",
        "SELECT l.k, sum(r.v) FROM l LEFT JOIN r ON l.k = r.k GROUP BY l.k HAVING count(*) > 1",
        "SELECT DISTINCT l.k FROM l JOIN r ON l.k = r.k",
        "SELECT k, v, count(*) FROM l GROUP BY GROUPING SETS ((k), (v), (k, v), ())",
        "SELECT k, v, count(*) FROM l GROUP BY ROLLUP (k, v)",
        "SELECT k, v, sum(v) OVER (PARTITION BY k) AS total FROM l",
        "SELECT k, v, rank() OVER (ORDER BY k, v) AS place FROM l",
        "SELECT k, sum(v) FROM (SELECT * FROM l UNION ALL SELECT * FROM r) GROUP BY k",
        "SELECT k FROM l UNION SELECT v FROM r",
        "SELECT k FROM l INTERSECT SELECT k FROM r",
        "SELECT k FROM l EXCEPT SELECT k FROM r",
        "SELECT a.k, b.v, r.v FROM l a JOIN l b ON a.k = b.k LEFT JOIN r ON r.v = b.v",
        "SELECT count(*) FROM l WHERE v > 1",
        "SELECT count(*) FROM l WHERE EXISTS (SELECT 1 FROM r)",
        "SELECT l.k FROM l JOIN r ON l.k IS NOT DISTINCT FROM r.k",
    ]
    .map(String::from)
    .into()
}

#[tokio::test]
async fn each_type_of_join_in_each_way() {
    within(300, async {
        let pair = Pair::start(3).await;
        let left = "SELECT NULLIF(value % 11, 7) AS k, NULLIF(value % 9, 4) AS v FROM generate_series(1, 60)";
        let right = "SELECT NULLIF(value % 13, 5) AS k, NULLIF(value % 8, 3) AS v FROM generate_series(1, 40)";
        pair.table("l", 5, left).await;
        pair.table("r", 4, right).await;
        for settings in WAYS {
            for setting in settings {
                pair.run(setting).await;
            }
            for sql in joins(EQUAL).into_iter().chain(joins(EQUAL_AND_MORE)) {
                pair.same(&sql).await;
            }
        }
        for sql in joins(UNEQUAL).into_iter().chain(others()) {
            pair.same(&sql).await;
        }
    })
    .await;
}

/// A table: of each row its key, its value, and in which file it is.
#[derive(Clone, Debug)]
struct Table {
    rows: Vec<(Option<i64>, Option<i64>, usize)>,
    files: usize,
}

impl Table {
    fn any() -> impl Strategy<Value = Self> {
        let cell = |most: i64| proptest::option::weighted(0.85, 0..most);
        (1..6_usize).prop_flat_map(move |files| {
            let row = (cell(6), cell(9), 0..files);
            let rows = proptest::collection::vec(row, 0..40);
            rows.prop_map(move |rows| Self { rows, files })
        })
    }

    fn file(&self, number: usize) -> RecordBatch {
        let rows = || self.rows.iter().filter(move |row| row.2 == number);
        let column = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let columns = vec![
            column(rows().map(|row| row.0).collect()),
            column(rows().map(|row| row.1).collect()),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    async fn register(&self, pair: &Pair, name: &str, in_memory: bool) {
        let files: Vec<_> = (0..self.files).map(|number| self.file(number)).collect();
        match in_memory {
            true => pair.memory(name, schema(), &files),
            false => pair.parquet(name, schema(), &files).await,
        }
    }
}

fn schema() -> Arc<Schema> {
    let field = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![field("k"), field("v")]))
}

/// The rows of a stage are those of its tasks taken together, however a table is cut.
#[test]
fn random_tables_in_random_files() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = Arc::new(runtime.block_on(Cluster::start(3)).unwrap());
    let statements: Vec<String> = [EQUAL, EQUAL_AND_MORE, UNEQUAL]
        .into_iter()
        .flat_map(joins)
        .chain(others())
        .collect();
    let case = (
        (Table::any(), Table::any()),
        (any::<bool>(), any::<bool>()),
        0..WAYS.len(),
        1..5_usize,
        proptest::sample::subsequence(statements, 4),
    );
    let distributed = AtomicUsize::new(0);
    let settings = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let checked =
        TestRunner::new(settings).run(&case, |(tables, in_memory, way, partitions, statements)| {
            runtime.block_on(within(60, async {
                let config = config().with_target_partitions(partitions);
                let pair = Pair::on(Arc::clone(&cluster), config);
                tables.0.register(&pair, "l", in_memory.0).await;
                tables.1.register(&pair, "r", in_memory.1).await;
                for setting in WAYS[way] {
                    pair.run(setting).await;
                }
                for sql in &statements {
                    distributed.fetch_add(pair.compare(sql).await.into(), Relaxed);
                }
            }));
            Ok(())
        });
    checked.unwrap();
    // Tables of one file have nothing to deal out.
    assert!(distributed.into_inner() > CASES as usize * 2);
}
