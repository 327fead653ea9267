//! Runs SQL texts of several statements, and keeps the plan that gave each answer.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};

/// What a statement answered.
pub struct Answer {
    /// Columns, there even without rows.
    pub schema: SchemaRef,
    /// Rows.
    pub batches: Vec<RecordBatch>,
    /// The plan that ran, with its metrics.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Whether the statement asks for an order of rows, and does not only happen to have one.
    pub ordered: bool,
}

/// Cuts a text at its semicolons.
pub fn split(sql: &str) -> Result<Vec<Statement>> {
    Ok(DFParser::parse_sql(sql)?.into())
}

/// Runs one statement to its end.
pub async fn run(ctx: &SessionContext, statement: Statement) -> Result<Answer> {
    let logical = ctx.state().statement_to_plan(statement).await?;
    let ordered = asks_for_order(&logical);
    let frame = ctx.execute_logical_plan(logical).await?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    Ok(Answer {
        schema: plan.schema(),
        batches: collect(plan.clone(), task).await?,
        plan,
        ordered,
    })
}

/// Runs every statement of a text, in order, up to the first that fails.
pub async fn run_all(ctx: &SessionContext, sql: &str) -> Result<Vec<Answer>> {
    let mut answers = vec![];
    for statement in split(sql)? {
        answers.push(run(ctx, statement).await?);
    }
    Ok(answers)
}

fn asks_for_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Limit(limit) => asks_for_order(&limit.input),
        LogicalPlan::Projection(projection) => asks_for_order(&projection.input),
        _ => false,
    }
}
