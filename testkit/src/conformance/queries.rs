//! Running: a stream of one node, and a query on two workers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Int32Array, Int64Array, RecordBatch};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{Headers, Hooks, SessionStateBuilderExt, TaskKey, TraceOptions, stages};
use futures::TryStreamExt;

use super::{Verdict, Wrap, probe};
use crate::Cluster;
use crate::compare::same_rows;

/// A shuffle, a merge, a limit and a filter: what optimizer rules change plans for.
const QUERY: &str = "SELECT key, count(*) AS rows, sum(value) AS total FROM numbers \
                     WHERE value % 7 <> 0 GROUP BY key ORDER BY key LIMIT 5";

const WORKERS: usize = 2;

/// How long queries may take that take far less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which partition of a probe is run.
const PARTITION: usize = 2;

/// The wrapper gives the rows of the partition that it is asked for.
pub(super) async fn stream(wrap: &Wrap) -> Verdict {
    let stream = wrap(probe::probe()).execute(PARTITION, Arc::new(TaskContext::default()));
    let rows: Result<Vec<RecordBatch>> = match stream {
        Ok(stream) => stream.try_collect().await,
        Err(error) => Err(error),
    };
    let rows = rows.map_err(|error| format!("fails: {error}"))?;
    let wanted = Int32Array::from(vec![PARTITION as i32]);
    match &rows[..] {
        [batch] if batch.columns().len() == 1 && batch.column(0).as_ref() == &wanted => Ok(()),
        _ => Err(format!("gives {rows:?} in place of the node's rows")),
    }
}

/// The same stages and rows with and without, whichever rule comes first.
pub(super) async fn results(wrap: &Wrap) -> Verdict {
    let run = tokio::time::timeout(PATIENCE, compared(wrap)).await;
    match run {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("differ: {error}")),
        Err(_) => Err(format!("are not there after {PATIENCE:?}")),
    }
}

async fn compared(wrap: &Wrap) -> Result<()> {
    let rule = Arc::new(WrapAll(Arc::clone(wrap)));
    let hooks = Arc::clone(&rule);
    let cluster = Cluster::start_with(WORKERS, move |builder| {
        builder.with_hooks(Arc::clone(&hooks) as Arc<dyn Hooks>)
    })
    .await?;
    let compared = compared_on(&cluster, &rule).await;
    cluster.stop().await?;
    compared
}

async fn compared_on(cluster: &Cluster, rule: &Arc<WrapAll>) -> Result<()> {
    let local = SessionContext::new();
    register(&local)?;
    let expected = local.sql(QUERY).await?.collect().await?;
    let unwrapped = session(cluster, [None, None])?;
    let plan = unwrapped.sql(QUERY).await?.create_physical_plan().await?;
    let known = stages(&plan)?.len();
    for rules in [[Some(rule), None], [None, Some(rule)]] {
        let ctx = session(cluster, rules)?;
        let plan = ctx.sql(QUERY).await?.create_physical_plan().await?;
        let found = stages(&plan)?.len();
        if found != known {
            return exec_err!("the plan has {found} stages, without wrappers {known}");
        }
        let rows = collect(plan, ctx.task_ctx()).await?;
        if let Err(difference) = same_rows(&expected, &rows) {
            return exec_err!("{difference}");
        }
    }
    Ok(())
}

/// A session with rules before and after the one that distributes.
fn session(
    cluster: &Cluster,
    [before, after]: [Option<&Arc<WrapAll>>; 2],
) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(3);
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    if let Some(rule) = before {
        builder = builder.with_physical_optimizer_rule(Arc::clone(rule) as _);
    }
    builder = builder.with_flightpath(cluster.coordinator()?);
    if let Some(rule) = after {
        builder = builder.with_physical_optimizer_rule(Arc::clone(rule) as _);
    }
    let ctx = SessionContext::new_with_state(builder.build());
    register(&ctx)?;
    Ok(ctx)
}

/// 400 rows in 4 partitions, with 10 keys.
fn register(ctx: &SessionContext) -> Result<()> {
    let partition = |first: i64| {
        let values = first..first + 100;
        let keys = values.clone().map(|value| value % 10);
        RecordBatch::try_from_iter([
            ("key", Arc::new(Int64Array::from_iter_values(keys)) as _),
            ("value", Arc::new(Int64Array::from_iter_values(values)) as _),
        ])
    };
    let mut partitions = vec![];
    for first in [0, 100, 200, 300] {
        partitions.push(vec![partition(first)?]);
    }
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions)?;
    ctx.register_table("numbers", Arc::new(table))?;
    Ok(())
}

/// Wraps every node: on the coordinator as a rule, on workers where a plan is about to run.
struct WrapAll(Wrap);

impl WrapAll {
    fn wrap_all(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| Ok(Transformed::yes((self.0)(node))))
            .data()
    }
}

impl fmt::Debug for WrapAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrapAll")
    }
}

impl PhysicalOptimizerRule for WrapAll {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.wrap_all(plan)
    }

    fn name(&self) -> &str {
        "conformance"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl Hooks for WrapAll {
    fn wrap_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _task: Option<(&TaskKey, &Headers)>,
        _trace: TraceOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.wrap_all(plan)
    }
}
