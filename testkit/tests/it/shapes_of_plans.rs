//! Tables and statements of unusual shape answer as they do locally.

use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use crate::fixture::within;
use crate::pair::{Pair, config, distributed, shown};
use flightpath_testkit::Cluster;
use std::sync::Arc;

const ROWS: &str = "SELECT NULLIF(value % 7, 5) AS k, value AS v FROM generate_series(1, 100)";

/// These may stay local: scans that compute their columns lose them in encoding, and a limit of one
/// partition is one of the query.
const PERHAPS_LOCAL: [&str; 4] = [
    "SELECT count(*) FROM (SELECT v FROM many LIMIT 60)",
    "SELECT v FROM many LIMIT 0",
    "SELECT v FROM many UNION SELECT k FROM few UNION SELECT 1000",
    "SELECT k, count(*) FROM (SELECT k FROM many UNION ALL SELECT v FROM hollow) GROUP BY k",
];

/// Tables by how many files they have; `hollow` has files without a row group.
async fn tables(pair: &Pair) {
    for (name, files) in [("none", 0), ("single", 1), ("few", 2), ("many", 7)] {
        pair.table(name, files, ROWS).await;
    }
    pair.table("hollow", 3, &format!("{ROWS} LIMIT 0")).await;
    pair.table("sparse", 5, &format!("{ROWS} LIMIT 2")).await;
}

#[tokio::test]
async fn tables_with_few_files_or_rows() {
    within(120, async {
        // More tasks than most tables have files.
        let pair = Pair::start(4).await;
        tables(&pair).await;
        for table in ["none", "hollow", "sparse", "single", "few", "many"] {
            for sql in [
                "SELECT * FROM TABLE",
                "SELECT count(*), sum(v) FROM TABLE",
                "SELECT k, sum(v) FROM TABLE GROUP BY k",
                "SELECT DISTINCT k FROM TABLE WHERE v > 3",
                "SELECT k, v FROM TABLE ORDER BY v LIMIT 3",
                "SELECT k, sum(v) OVER (PARTITION BY k) AS total FROM TABLE",
                "SELECT m.v, t.k FROM many m LEFT JOIN TABLE t ON m.v = t.v",
                "SELECT m.v, t.k FROM TABLE t FULL JOIN many m ON m.v = t.v",
                "SELECT v FROM many WHERE v NOT IN (SELECT v FROM TABLE)",
                "SELECT k FROM TABLE UNION ALL SELECT v FROM many",
            ] {
                let sql = sql.replace("TABLE", table);
                let spread = pair.compare(&sql).await;
                assert!(
                    spread || table != "many" || sql.contains("UNION"),
                    "{sql} did not run on workers"
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn statements_of_many_shapes() {
    let statements = [
        // No columns cross the boundary.
        "SELECT count(*) FROM (SELECT 1 FROM many WHERE v > 3 LIMIT 17)",
        "SELECT 'x' AS x FROM many",
        "SELECT count(*) FROM few CROSS JOIN many WHERE few.v > 9",
        // Sides of different sizes.
        "SELECT k, count(*) FROM (SELECT k FROM many UNION ALL SELECT k FROM single UNION ALL SELECT k FROM hollow) GROUP BY k",
        "SELECT k, v FROM many WHERE v < 50 INTERSECT SELECT k, v FROM few WHERE v > 20",
        // Parts beside a recursion.
        "WITH RECURSIVE n AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM n WHERE k < 6) \
         SELECT n.k, m.total FROM n JOIN (SELECT k, sum(v) AS total FROM many GROUP BY k) m ON n.k = m.k",
        // Windows.
        "SELECT v, row_number() OVER (ORDER BY v DESC) AS place FROM many",
        "SELECT k, v, lag(v) OVER (PARTITION BY k ORDER BY v) AS before FROM many",
        "SELECT k, v, sum(v) OVER (ORDER BY v ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM many",
        // Groups.
        "SELECT k, v % 3 AS m, sum(v), grouping(k) FROM many GROUP BY CUBE (k, v % 3)",
        "SELECT count(DISTINCT k), count(DISTINCT v % 5), avg(v), stddev(v) FROM many",
        "SELECT k, array_agg(v ORDER BY v) AS vs FROM many GROUP BY k",
        "SELECT DISTINCT ON (k) k, v FROM many ORDER BY k, v DESC",
        "SELECT k, first_value(v ORDER BY v) AS first, sum(v) FILTER (WHERE v % 2 = 0) AS even FROM many GROUP BY k",
        // Subqueries.
        "SELECT v FROM many WHERE v > (SELECT avg(v) FROM few)",
        "SELECT v, (SELECT max(v) FROM few) AS most FROM many WHERE v > (SELECT min(v) + 90 FROM single)",
        "SELECT v FROM many m WHERE v = (SELECT max(f.v) FROM few f WHERE f.k = m.k)",
        "SELECT v FROM many WHERE v > (SELECT v FROM hollow)",
        "SELECT k FROM many GROUP BY k HAVING sum(v) > (SELECT sum(v) / 10 FROM few)",
        // Limits.
        "SELECT v FROM many ORDER BY v OFFSET 95",
        "SELECT v FROM many ORDER BY v DESC LIMIT 5 OFFSET 3",
    ];
    within(120, async {
        let cluster = Arc::new(Cluster::start(3).await.unwrap());
        for partitions in [1, 3] {
            let pair = Pair::on(
                Arc::clone(&cluster),
                config().with_target_partitions(partitions),
            );
            tables(&pair).await;
            for sql in PERHAPS_LOCAL {
                pair.compare(sql).await;
            }
            for sql in statements {
                pair.same(sql).await;
            }
            let sql = "SELECT v FROM many WHERE v > (SELECT v FROM few)";
            let error = pair.same_error(sql).await;
            assert!(error.to_string().contains("more than one row"), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn declared_orders_are_kept() {
    within(60, async {
        for (sorted, merging) in [("true", "true"), ("false", "false")] {
            let settings = SessionConfig::new()
                .with_target_partitions(3)
                .with_batch_size(16)
                .set_str("datafusion.optimizer.prefer_existing_sort", sorted)
                .set_str("datafusion.optimizer.prefer_hash_join", merging);
            let cluster = Arc::new(Cluster::start(3).await.unwrap());
            let pair = Pair::on(cluster, settings);
            pair.table("rows", 5, ROWS).await;
            let folder = pair.dir().join("rows");
            let folder = folder.display();
            pair.run(&format!(
                "CREATE EXTERNAL TABLE sorted STORED AS PARQUET WITH ORDER (v) LOCATION '{folder}'"
            ))
            .await;
            for sql in [
                "SELECT v, k FROM sorted ORDER BY v",
                "SELECT v, k FROM sorted WHERE k > 2 ORDER BY v LIMIT 20",
                "SELECT v, count(*) FROM sorted GROUP BY v ORDER BY v",
                "SELECT a.v, b.k FROM sorted a JOIN sorted b ON a.v = b.v ORDER BY a.v",
                "SELECT v, sum(k) OVER (ORDER BY v) AS total FROM sorted ORDER BY v",
                "SELECT v FROM (SELECT v FROM sorted UNION ALL SELECT v + 1000 FROM sorted) ORDER BY v",
            ] {
                // Scans that must keep the order of their files are not sent.
                pair.same_in_order(sql).await;
                let undeclared = sql.replace("sorted", "rows");
                assert!(pair.same_in_order(&undeclared).await, "{undeclared} stays local");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn hive_partitions() {
    within(60, async {
        for keep in ["0", "1"] {
            let settings = config().set_str("datafusion.optimizer.preserve_file_partitions", keep);
            let pair = Pair::on(Arc::new(Cluster::start(3).await.unwrap()), settings);
            pair.table("many", 4, ROWS).await;
            let folder = pair.dir().join("hive");
            let rows = "SELECT COALESCE(k, 9) AS k, v FROM many";
            let copy = format!(
                "COPY ({rows}) TO '{}' STORED AS PARQUET PARTITIONED BY (k)",
                folder.display()
            );
            pair.local
                .sql(&copy)
                .await
                .unwrap()
                .collect()
                .await
                .unwrap();
            pair.run(&format!(
                "CREATE EXTERNAL TABLE hive (v BIGINT, k BIGINT) STORED AS PARQUET \
                 PARTITIONED BY (k) LOCATION '{}/'",
                folder.display()
            ))
            .await;
            for sql in [
                "SELECT k, v FROM hive",
                "SELECT k, count(*), sum(v) FROM hive GROUP BY k",
                "SELECT DISTINCT k FROM hive WHERE k > 2",
                "SELECT a.k, count(*) FROM hive a JOIN hive b ON a.k = b.k GROUP BY a.k",
                "SELECT h.k, m.v FROM hive h RIGHT JOIN many m ON h.k = m.k AND h.v < m.v",
                "SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS place FROM hive",
            ] {
                pair.same(sql).await;
            }
        }
    })
    .await;
}

/// What writes stays on the coordinator, above the part that runs on workers.
#[tokio::test]
async fn writing_statements() {
    within(60, async {
        let pair = Pair::start(3).await;
        pair.table("many", 5, ROWS).await;
        let out = pair.dir().join("out");
        let read = "SELECT k, sum(v) AS total FROM many GROUP BY k";
        let copy = format!("COPY ({read}) TO '{}/' STORED AS PARQUET", out.display());
        let insert = format!("INSERT INTO copied {read}");
        for (written, sql) in [copy, insert].into_iter().enumerate() {
            let frame = pair.spread.sql(&sql).await.unwrap();
            let plan = frame.clone().create_physical_plan().await.unwrap();
            assert_eq!(plan.name(), "DataSinkExec", "{}", shown(&plan));
            assert!(distributed(&plan).is_some(), "{}", shown(&plan));
            frame.collect().await.unwrap();
            if written == 0 {
                pair.run(&format!(
                    "CREATE EXTERNAL TABLE copied STORED AS PARQUET LOCATION '{}/'",
                    out.display()
                ))
                .await;
            }
            let doubled = vec![read; written + 1].join(" UNION ALL ");
            let expected = pair
                .local
                .sql(&doubled)
                .await
                .unwrap()
                .collect()
                .await
                .unwrap();
            let fresh = SessionContext::new();
            let found = fresh
                .read_parquet(out.to_str().unwrap(), ParquetReadOptions::default())
                .await
                .unwrap()
                .collect()
                .await
                .unwrap();
            flightpath_testkit::compare::same_rows(&expected, &found).unwrap();
        }
    })
    .await;
}
