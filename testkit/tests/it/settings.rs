use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigExtension;
use datafusion::common::{Result, ScalarValue, extensions_options};
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use flightpath_core::{FlightpathConfig, WorkerBuilder};
use flightpath_testkit::Cluster;

use crate::fixture::{Setup, config, pretty, session, within};

extensions_options! {
    /// Of a third party; its option begins like its prefix.
    struct Probe {
        /// Anything.
        pub probe_level: usize, default = 0
    }
}

impl ConfigExtension for Probe {
    const PREFIX: &'static str = "probe";
}

/// Answers with settings of the session that it runs in.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Settings(Signature);

impl ScalarUDFImpl for Settings {
    fn name(&self) -> &str {
        "settings"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = &args.config_options;
        let zone = options.execution.time_zone.as_deref().unwrap_or("none");
        let level = options
            .extensions
            .get::<Probe>()
            .map(|probe| probe.probe_level);
        let flightpath = options.extensions.get::<FlightpathConfig>();
        let compression = flightpath.map(|config| config.compression.to_string());
        let text = format!("{zone}, {level:?}, {compression:?}");
        Ok(ColumnarValue::Scalar(ScalarValue::from(text)))
    }
}

fn function() -> ScalarUDF {
    Settings(Signature::any(1, Volatility::Volatile)).into()
}

async fn setup() -> Setup {
    let mut state = SessionStateBuilder::new()
        .with_config(config().with_option_extension(Probe::default()))
        .with_default_features()
        .build();
    state.register_udf(Arc::new(function())).unwrap();
    let configured = |worker: WorkerBuilder| worker.with_session_state(state.clone());
    let cluster = Cluster::start_with(2, configured).await.unwrap();
    let config = config().with_option_extension(Probe::default());
    let ctx = session(config, cluster.coordinator().unwrap());
    ctx.register_udf(function());
    Setup::with(cluster, ctx).await
}

async fn set(setup: &Setup, setting: &str) {
    let sql = format!("SET {setting}");
    setup.ctx.sql(&sql).await.unwrap().collect().await.unwrap();
}

/// What functions find in the sessions of workers.
async fn on_workers(setup: &Setup) -> String {
    let sql = "SELECT settings(max(id)) AS found FROM sales GROUP BY shop";
    let planned = setup
        .plan(&format!("SELECT DISTINCT found FROM ({sql})"))
        .await;
    let shown = planned.shown();
    let remote = shown.split_once("NetworkCoalesceExec").unwrap().1;
    assert!(remote.contains("settings("), "{shown}");
    pretty(&planned.collect().await.unwrap())
}

#[tokio::test]
async fn settings_of_the_session_hold_on_workers() {
    within(60, async {
        let setup = setup().await;
        let found = on_workers(&setup).await;
        assert!(found.contains(r#" none, Some(0), Some("lz4") "#), "{found}");
        set(&setup, "datafusion.execution.time_zone = '+07:00'").await;
        set(&setup, "flightpath.compression = 'zstd'").await;
        let found = on_workers(&setup).await;
        assert!(
            found.contains(r#" +07:00, Some(0), Some("zstd") "#),
            "{found}"
        );
    })
    .await;
}

#[tokio::test]
async fn an_option_that_begins_like_its_prefix_arrives() {
    within(60, async {
        let setup = setup().await;
        set(&setup, "probe.probe_level = 7").await;
        let found = on_workers(&setup).await;
        assert!(found.contains("Some(7)"), "{found}");
    })
    .await;
}

#[tokio::test]
async fn the_batch_size_of_the_session_holds_on_workers() {
    within(60, async {
        let setup = setup().await;
        set(&setup, "datafusion.execution.batch_size = 10").await;
        let planned = setup.check("SELECT id FROM sales").await;
        for report in planned.reports().reports() {
            let scan = report
                .nodes
                .iter()
                .find(|node| node.name == "DataSourceExec")
                .unwrap();
            let batches = scan
                .metrics
                .sum(|metric| metric.value().name() == "output_batches");
            let batches = batches.unwrap().as_usize();
            let rows = scan.metrics.output_rows().unwrap();
            assert!(
                rows > 0 && batches * 10 >= rows,
                "{rows} rows in {batches} batches"
            );
        }
    })
    .await;
}

#[test]
fn a_setting_that_was_wrong_was_not_named() {
    let set = |key: &str, value: &str| {
        let mut config = config().with_option_extension(FlightpathConfig::default());
        let error = config
            .options_mut()
            .set(&format!("flightpath.{key}"), value);
        error.unwrap_err().strip_backtrace()
    };
    for (key, value, expected) in [
        ("max_inline_bytes", "1 MiB", "in bytes"),
        ("tasks_per_stage", "-1", "Tasks of a stage"),
        ("enabled", "maybe", "Whether queries are distributed"),
        ("connect_timeout", "5", "such as 500ms"),
    ] {
        let message = set(key, value);
        for part in [key, value, expected] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }
    let message = set("nope", "1");
    assert!(
        message.contains("flightpath.nope is no setting"),
        "{message}"
    );
    assert!(message.contains("flightpath.trace_detail"), "{message}");
}
