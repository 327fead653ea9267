//! Runs SQL texts of several statements, with the plan of each at hand.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use flightpath_core::{DistributedExec, find_layer};

/// Cuts a text at its semicolons.
pub fn split(sql: &str) -> Result<Vec<Statement>> {
    Ok(DFParser::parse_sql(sql)?.into())
}

/// A statement that is ready to run.
#[derive(Debug)]
pub struct Planned {
    /// What will run; it holds the metrics afterwards.
    pub plan: Arc<dyn ExecutionPlan>,
    sort_keys: usize,
    task: Arc<TaskContext>,
}

/// Plans a statement.
///
/// One that changes the session, such as `CREATE VIEW` or `SET`, takes effect here; what is planned
/// then is an answer without columns.
pub async fn plan(ctx: &SessionContext, statement: Statement) -> Result<Planned> {
    let logical = ctx.state().statement_to_plan(statement).await?;
    plan_frame(ctx.execute_logical_plan(logical).await?).await
}

/// Plans what a data frame asks for.
pub async fn plan_frame(frame: DataFrame) -> Result<Planned> {
    let sort_keys = sort_keys(frame.logical_plan());
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    Ok(Planned {
        plan,
        sort_keys,
        task,
    })
}

impl Planned {
    /// The order of rows that the statement asks for, as far as the plan knows of it.
    ///
    /// A plan may have an order that nobody asked for, or one that goes further: no other plan
    /// needs to keep that.
    pub fn order(&self) -> Option<LexOrdering> {
        let keys = self.plan.output_ordering()?.iter().take(self.sort_keys);
        LexOrdering::new(keys.cloned())
    }

    /// Runs the plan to its end.
    pub async fn collect(&self) -> Result<Vec<RecordBatch>> {
        collect(self.plan.clone(), self.task.clone()).await
    }

    /// Begins to run the plan.
    pub fn stream(&self) -> Result<SendableRecordBatchStream> {
        execute_stream(self.plan.clone(), self.task.clone())
    }
}

/// The part of a plan that runs on workers. Sinks, `EXPLAIN ANALYZE` and scalar subqueries stay
/// above it.
pub fn distributed_part(plan: &Arc<dyn ExecutionPlan>) -> Option<&DistributedExec> {
    find_layer::<DistributedExec>(plan.as_ref())
        .or_else(|| plan.children().into_iter().find_map(distributed_part))
}

fn sort_keys(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Sort(sort) => sort.expr.len(),
        LogicalPlan::Limit(limit) => sort_keys(&limit.input),
        LogicalPlan::Projection(projection) => sort_keys(&projection.input),
        _ => 0,
    }
}
