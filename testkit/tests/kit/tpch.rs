use std::fs;
use std::path::{Path, PathBuf};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use flightpath_testkit::{tables, tpch};

const SCALE: f64 = 0.001;

/// A folder of one test, empty at first.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    dir
}

async fn count(ctx: &SessionContext, from: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {from}");
    let batches = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test]
async fn tables_hold_what_the_scale_says() {
    let dir = folder("tpch-counts");
    tpch::ensure(&dir, SCALE, false).unwrap();
    let ctx = SessionContext::new();
    tpch::register(&ctx, &dir).await.unwrap();
    let expected = [
        ("region", 5),
        ("nation", 25),
        ("supplier", 10),
        ("part", 200),
        ("partsupp", 800),
        ("customer", 150),
        ("orders", 1500),
    ];
    for (table, rows) in expected {
        assert_eq!(count(&ctx, table).await, rows, "{table}");
    }
    let joined = "lineitem JOIN orders ON l_orderkey = o_orderkey";
    assert_eq!(count(&ctx, joined).await, count(&ctx, "lineitem").await);
    assert_eq!(
        count(&ctx, "(SELECT DISTINCT l_orderkey FROM lineitem)").await,
        1500
    );

    // Found by their files, the tables are the same.
    let ctx = SessionContext::new();
    let mut names = tables::register(&ctx, &dir).await.unwrap();
    let mut expected: Vec<_> = tpch::table_names().collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    assert_eq!(count(&ctx, "orders").await, 1500);
}

#[test]
fn a_complete_folder_is_kept_and_a_broken_one_made_anew() {
    let dir = folder("tpch-again");
    let file = dir.join("lineitem/part-3.parquet");
    let modified = || fs::metadata(&file).unwrap().modified().unwrap();
    tpch::ensure(&dir, SCALE, false).unwrap();
    let first = modified();
    tpch::ensure(&dir, SCALE, false).unwrap();
    assert_eq!(modified(), first);

    let length = fs::metadata(&file).unwrap().len();
    let cut = fs::OpenOptions::new().write(true).open(&file).unwrap();
    cut.set_len(length / 2).unwrap();
    tpch::ensure(&dir, SCALE, false).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), length);

    tpch::ensure(&dir, SCALE * 2.0, false).unwrap();
    assert!(fs::metadata(&file).unwrap().len() > length);
}

#[test]
fn nothing_foreign_is_deleted() {
    let dir = folder("tpch-foreign");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("thesis.txt"), "mine").unwrap();
    let error = tpch::ensure(&dir, SCALE, false).unwrap_err().to_string();
    assert!(error.contains("thesis.txt"), "{error}");
    assert!(dir.join("thesis.txt").exists());
}

#[test]
fn a_scale_is_above_zero() {
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        tpch::ensure(&folder("tpch-scale"), scale, false).unwrap_err();
    }
}

#[tokio::test]
async fn a_table_may_be_a_file_or_a_folder_and_keeps_its_name() {
    let dir = folder("tables-named");
    let data = folder("tables-data");
    tpch::ensure(&data, SCALE, false).unwrap();
    fs::create_dir_all(dir.join("Folder.parquet")).unwrap();
    fs::copy(
        data.join("nation.parquet"),
        dir.join("Folder.parquet/0.parquet"),
    )
    .unwrap();
    fs::copy(data.join("nation.parquet"), dir.join("odd.name.parquet")).unwrap();
    fs::write(dir.join("readme.txt"), "no table").unwrap();
    let ctx = SessionContext::new();
    let names = tables::register(&ctx, &dir).await.unwrap();
    assert_eq!(names, ["Folder", "odd.name"]);
    assert_eq!(count(&ctx, "\"Folder\"").await, 25);
    assert_eq!(count(&ctx, "\"odd.name\"").await, 25);

    let error = tables::register(&ctx, &folder("tables-none"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("tables-none"), "{error}");
}
