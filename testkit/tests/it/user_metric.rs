use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::metrics::{
    CustomMetricValue, ExecutionPlanMetricsSet, MetricBuilder, MetricValue, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use datafusion::prelude::SessionContext;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use flightpath_core::{
    EncodedMetric, MetricCodec, OpaqueMetricValue, SessionStateBuilderExt, WorkerBuilder,
};
use flightpath_testkit::Cluster;
use futures::StreamExt;

use crate::fixture::{Planned, SALES, Setup, config, within};

/// A largest value: merges by the maximum, which nothing but its type knows.
#[derive(Debug, Default)]
struct Largest(AtomicUsize);

impl fmt::Display for Largest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "largest {}", self.as_usize())
    }
}

impl CustomMetricValue for Largest {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        let other: &Self = other.as_any().downcast_ref().unwrap();
        self.0.fetch_max(other.as_usize(), Ordering::Relaxed);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_usize(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().is::<Self>() && self.as_usize() == other.as_usize()
    }
}

#[derive(Debug)]
struct LargestCodec;

impl MetricCodec for LargestCodec {
    fn encode(&self, value: &dyn CustomMetricValue) -> Option<EncodedMetric> {
        let largest: &Largest = value.as_any().downcast_ref()?;
        Some(EncodedMetric {
            type_name: "it.Largest".to_string(),
            bytes: largest.as_usize().to_string().into_bytes(),
        })
    }

    fn decode(&self, type_name: &str, bytes: &[u8]) -> Option<Arc<dyn CustomMetricValue>> {
        let value = std::str::from_utf8(bytes).ok()?.parse().ok()?;
        (type_name == "it.Largest").then(|| Arc::new(Largest(AtomicUsize::new(value))) as _)
    }
}

/// Passes rows on, and keeps the largest value of their first column as a metric.
#[derive(Debug)]
struct WatchExec {
    input: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl WatchExec {
    fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self {
            input,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for WatchExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchExec")
    }
}

impl ExecutionPlan for WatchExec {
    fn name(&self) -> &str {
        "WatchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Self::over(children.remove(0)))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Self::over(children.remove(0)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let largest = Arc::new(Largest::default());
        MetricBuilder::new(&self.metrics)
            .with_partition(partition)
            .build(MetricValue::Custom {
                name: "largest".into(),
                value: Arc::clone(&largest) as _,
            });
        let rows = self
            .input
            .execute(partition, context)?
            .inspect(move |batch| {
                let values = batch
                    .as_ref()
                    .unwrap()
                    .column(0)
                    .as_primitive::<Int64Type>();
                let most = values.iter().flatten().max().unwrap_or_default();
                largest.0.fetch_max(most as usize, Ordering::Relaxed);
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

#[derive(Debug)]
struct WatchCodec;

impl PhysicalExtensionCodec for WatchCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (bytes, inputs) {
            (b"watch", [input]) => Ok(WatchExec::over(Arc::clone(input))),
            _ => internal_err!("not a WatchExec"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if !node.is::<WatchExec>() {
            return internal_err!("not a WatchExec: {}", node.name());
        }
        bytes.extend(b"watch");
        Ok(())
    }
}

/// Watches what scans put out.
#[derive(Debug)]
struct WatchScans;

impl PhysicalOptimizerRule for WatchScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let watched = plan.transform_up(|node| {
            Ok(match node.is::<DataSourceExec>() {
                true => Transformed::yes(WatchExec::over(node)),
                false => Transformed::no(node),
            })
        });
        watched.data()
    }

    fn name(&self) -> &str {
        "WatchScans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

async fn setup(with_metric_codec: bool) -> Setup {
    let configured = |worker: WorkerBuilder| {
        let worker = worker.with_codec(Arc::new(WatchCodec));
        match with_metric_codec {
            true => worker.with_metric_codec(Arc::new(LargestCodec)),
            false => worker,
        }
    };
    let cluster = Cluster::start_with(2, configured).await.unwrap();
    let mut coordinator = cluster
        .coordinator()
        .unwrap()
        .with_codec(Arc::new(WatchCodec));
    if with_metric_codec {
        coordinator = coordinator.with_metric_codec(Arc::new(LargestCodec));
    }
    let state = SessionStateBuilder::new()
        .with_config(config())
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(WatchScans))
        .with_flightpath(coordinator)
        .build();
    Setup::with(cluster, SessionContext::new_with_state(state)).await
}

const SQL: &str = "SELECT id, amount FROM sales";

/// The metric as the node of the coordinator's plan has it.
fn largest(planned: &Planned) -> Arc<dyn CustomMetricValue> {
    let mut found = None;
    let walked = planned.plan.apply(|node| {
        if node.is::<WatchExec>() {
            let metrics = node.metrics().unwrap().aggregate_by_name();
            found = metrics.iter().find_map(|metric| match metric.value() {
                MetricValue::Custom { name, value } if name == "largest" => Some(value.clone()),
                _ => None,
            });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.unwrap();
    found.unwrap_or_else(|| panic!("no metric on\n{}", planned.shown()))
}

#[tokio::test]
async fn with_a_codec_it_merges_as_its_type_does() {
    within(60, async {
        let setup = setup(true).await;
        let planned = setup.check(SQL).await;
        let value = largest(&planned);
        let merged: &Largest = value.as_any().downcast_ref().unwrap();
        assert_eq!(merged.as_usize() as i64, SALES - 1);
    })
    .await;
}

#[tokio::test]
async fn without_a_codec_each_reading_is_kept_as_text() {
    within(60, async {
        let setup = setup(false).await;
        let planned = setup.check(SQL).await;
        let value = largest(&planned);
        assert!(value.as_any().is::<OpaqueMetricValue>(), "{value:?}");
        let text = value.to_string();
        let readings: Vec<&str> = text.split(", ").collect();
        // Two tasks of two partitions.
        assert_eq!(readings.len(), 4, "{text}");
        let expected = format!("largest {}", SALES - 1);
        assert_eq!(
            readings
                .iter()
                .filter(|reading| **reading == expected)
                .count(),
            1,
            "{text}"
        );
        assert!(
            readings
                .iter()
                .all(|reading| reading.starts_with("largest ")),
            "{text}"
        );
        for report in planned.reports().reports() {
            let node = report
                .nodes
                .iter()
                .find(|node| node.name == "WatchExec")
                .unwrap();
            assert!(node.metrics.iter().count() > 0, "task {}", report.key);
        }
    })
    .await;
}
