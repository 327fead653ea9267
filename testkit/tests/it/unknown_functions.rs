//! Functions that a worker does not know keep a query at home, and a warning says what to do.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::DataType::{self, Int64};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    Accumulator, ColumnarValue, PartitionEvaluator, Volatility, create_udaf, create_udf,
    create_udwf,
};
use datafusion::prelude::SessionContext;
use flightpath_testkit::Cluster;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::fixture::within;
use crate::pair::{Pair, answer, config, distributed};

const STATEMENTS: [(&str, &str); 3] = [
    (
        "scalar function doubled",
        "SELECT k, sum(doubled(v)) FROM t GROUP BY k",
    ),
    (
        "aggregate function how_many",
        "SELECT k, how_many(v) FROM t GROUP BY k",
    ),
    (
        "window function size",
        "SELECT k, v, size(v) OVER (PARTITION BY k) AS n FROM t",
    ),
];

fn register(ctx: &SessionContext) {
    let doubled = |arguments: &[ColumnarValue]| {
        let values = ColumnarValue::values_to_arrays(arguments)?;
        let values = datafusion::common::cast::as_int64_array(&values[0])?;
        let doubled: Int64Array = values.unary(|value| value * 2);
        Ok(ColumnarValue::Array(Arc::new(doubled)))
    };
    let immutable = Volatility::Immutable;
    ctx.register_udf(create_udf(
        "doubled",
        vec![Int64],
        Int64,
        immutable,
        Arc::new(doubled),
    ));
    ctx.register_udaf(create_udaf(
        "how_many",
        vec![Int64],
        Arc::new(Int64),
        immutable,
        Arc::new(|_| Ok(Box::new(HowMany(0)))),
        Arc::new(vec![Int64]),
    ));
    let size = Arc::new(|| Ok(Box::new(Size) as _));
    ctx.register_udwf(create_udwf(
        "size",
        Int64,
        Arc::new(Int64) as Arc<DataType>,
        immutable,
        size,
    ));
}

#[derive(Debug)]
struct HowMany(i64);

impl Accumulator for HowMany {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0 += (values[0].len() - values[0].null_count()) as i64;
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.0.into())
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.0.into()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = datafusion::common::cast::as_int64_array(&states[0])?;
        self.0 += states.iter().flatten().sum::<i64>();
        Ok(())
    }
}

/// Of a partition, for each of its rows.
#[derive(Debug)]
struct Size;

impl PartitionEvaluator for Size {
    fn evaluate_all(&mut self, _values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(vec![rows as i64; rows])))
    }
}

async fn start(cluster: Cluster) -> Pair {
    let pair = Pair::on(Arc::new(cluster), config());
    pair.table(
        "t",
        4,
        "SELECT value % 5 AS k, value AS v FROM generate_series(1, 100)",
    )
    .await;
    register(&pair.local);
    register(&pair.spread);
    pair
}

/// On one thread with the test, so that its subscriber sees what the engine says.
#[tokio::test(flavor = "current_thread")]
async fn unknown_to_workers() {
    within(60, async {
        let pair = start(Cluster::start(2).await.unwrap()).await;
        for (function, sql) in STATEMENTS {
            let warnings = Warnings::default();
            let subscriber = tracing_subscriber::registry().with(warnings.clone());
            let _here = tracing::subscriber::set_default(subscriber);
            pair.same(sql).await;
            let answered = answer(&pair.spread, sql).await.unwrap();
            let counts = distributed(&answered.plan)
                .unwrap()
                .last_query()
                .unwrap()
                .counts();
            assert_eq!(
                counts.finished + counts.failed + counts.cancelled,
                0,
                "{counts:?}"
            );

            let warnings = warnings.0.lock().unwrap();
            assert_eq!(warnings.len(), 2, "{warnings:?}");
            let urls = pair.urls();
            for part in [function, "with_session_state", "the query runs locally"] {
                assert!(warnings[0].contains(part), "no {part:?} in {}", warnings[0]);
            }
            assert!(
                urls.iter().any(|url| warnings[0].contains(url)),
                "{}",
                warnings[0]
            );
        }
    })
    .await;
}

#[tokio::test]
async fn known_to_workers() {
    within(60, async {
        let cluster = Cluster::start_with(2, |builder| {
            let session = SessionContext::new();
            register(&session);
            builder.with_session_state(session.state())
        });
        let pair = start(cluster.await.unwrap()).await;
        for (_, sql) in STATEMENTS {
            pair.same(sql).await;
            let answered = answer(&pair.spread, sql).await.unwrap();
            let counts = distributed(&answered.plan)
                .unwrap()
                .last_query()
                .unwrap()
                .counts();
            assert!(counts.finished > 0, "{counts:?}");
        }
    })
    .await;
}

#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if *event.metadata().level() == Level::WARN {
            event.record(&mut Message(&mut self.0.lock().unwrap()));
        }
    }
}

struct Message<'a>(&'a mut Vec<String>);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.push(format!("{value:?}"));
        }
    }
}
