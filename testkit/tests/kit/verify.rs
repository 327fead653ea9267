//! The program `verify`, from its arguments to its exit code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use datafusion::prelude::{ParquetReadOptions, SessionContext};
use flightpath_testkit::tpch;

struct Case {
    dir: PathBuf,
}

impl Case {
    fn new(name: &str, queries: &[(&str, &str)]) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("queries")).unwrap();
        for (name, sql) in queries {
            fs::write(dir.join(format!("queries/{name}.sql")), sql).unwrap();
        }
        tpch::ensure(&dir.join("data"), 0.001, false).unwrap();
        Self { dir }
    }

    fn verify(&self, args: &[&str]) -> (Output, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_verify"))
            .arg("--queries")
            .arg(self.dir.join("queries"))
            .arg("--data")
            .arg(self.dir.join("data"))
            .args(["--workers", "1,3"])
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        (output, text)
    }
}

const TOP: &str = "SELECT o_orderpriority, count(*) AS n, avg(CAST(l_tax AS DOUBLE)) AS tax
    FROM lineitem JOIN orders ON l_orderkey = o_orderkey GROUP BY 1 ORDER BY n DESC, 1 LIMIT 3;";
const VIEW: &str =
    "CREATE VIEW v AS SELECT l_suppkey, sum(l_quantity) AS q FROM lineitem GROUP BY 1;
    SELECT l_suppkey FROM v WHERE q = (SELECT max(q) FROM v);
    DROP VIEW v";

#[tokio::test]
async fn equal_answers_are_counted_and_written() {
    let queries = [
        ("q2", TOP),
        ("q10", VIEW),
        ("q11", "SELECT nosuch FROM orders"),
    ];
    let case = Case::new("verify-equal", &queries);
    let answers = case.dir.join("answers");
    let (output, text) = case.verify(&["--answers", answers.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<_> = text.lines().collect();
    let names: Vec<_> = lines[..3].iter().map(|line| &line[..3]).collect();
    assert_eq!(names, ["q2 ", "q10", "q11"]);
    assert!(lines[2].contains("nosuch"), "{text}");
    assert_eq!(
        lines[3..],
        ["2 of 3 ran distributed", "3 of 3 queries equal"]
    );

    let ctx = SessionContext::new();
    let top = answers.join("q2.parquet");
    let rows = ctx.read_parquet(top.to_str().unwrap(), ParquetReadOptions::default());
    assert_eq!(rows.await.unwrap().count().await.unwrap(), 3);
    assert!(answers.join("q10.parquet").exists());
    assert!(!answers.join("q11.parquet").exists());
}

#[test]
fn different_answers_fail_and_are_shown() {
    let queries = [("good", TOP), ("bad", "SELECT random() AS r FROM orders")];
    let (output, text) = Case::new("verify-different", &queries).verify(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("bad   DIFFERENT"), "{text}");
    assert!(text.contains("1500 missing, the first 5"), "{text}");
    assert!(text.ends_with("1 of 2 queries equal\n"), "{text}");
}

#[test]
fn a_query_that_stays_local_fails_only_on_demand() {
    let case = Case::new("verify-local", &[("one", "SELECT 1 AS one")]);
    let (output, text) = case.verify(&[]);
    assert!(output.status.success());
    assert!(text.contains("local ("), "{text}");
    let (output, _) = case.verify(&["--expect-distributed"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn queries_that_take_too_long_are_never_equal() {
    let sql = "SELECT count(*) FROM lineitem a, lineitem b, lineitem c, lineitem d
        WHERE a.l_comment || b.l_comment || c.l_comment > d.l_comment";
    let (output, text) = Case::new("verify-late", &[("late", sql)]).verify(&["--timeout", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("no answer within 1s"), "{text}");
    assert!(text.ends_with("0 of 1 queries equal\n"), "{text}");
}
