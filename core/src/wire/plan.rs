//! A stage's plan on its way to one task: narrowed to the task, encoded, decoded, checked.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, internal_err, plan_datafusion_err, resources_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};
use datafusion_proto::physical_plan::{
    DeduplicatingProtoConverter, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalPlanNodeExt, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalPlanNode};
use prost::Message;

use crate::model::boundary::NetworkBoundaryExt;
use crate::model::isolator::PartitionIsolatorExec;
use crate::model::panic::caught;
use crate::planner::leaf::LeafSplitters;

/// The plan of a stage as task `task` runs it: boundaries are leaves that know their streams,
/// leaves are cut down to the task's share.
pub(crate) fn narrow(
    plan: &Arc<dyn ExecutionPlan>,
    task: usize,
    splitters: &LeafSplitters,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(boundary) = plan.as_network_boundary() {
        return Ok(Arc::new(boundary.detach(task)));
    }
    if let Some(isolator) = plan.downcast_ref::<PartitionIsolatorExec>() {
        let leaf = splitters.narrow(isolator.input(), task, isolator.tasks())?;
        return Ok(Arc::new(PartitionIsolatorExec::narrowed(
            leaf,
            isolator.tasks(),
        )));
    }
    if plan.children().is_empty() {
        return Ok(Arc::clone(plan));
    }
    let children = plan
        .children()
        .into_iter()
        .map(|child| narrow(child, task, splitters))
        .collect::<Result<_>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// What to write for a scalar subquery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subqueries {
    /// Its value; an error if it has none yet.
    Values,
    /// A NULL if it has none yet: only to see whether the plan can be sent.
    Placeholders,
}

/// Encodes a narrowed plan. Wrappers are not data and are left out.
pub(crate) fn encode(
    plan: &Arc<dyn ExecutionPlan>,
    codec: &dyn PhysicalExtensionCodec,
    subqueries: Subqueries,
    max_bytes: usize,
) -> Result<Vec<u8>> {
    let converter = StageEncoder {
        produced: dynamic_filters_of(plan),
        subqueries,
    };
    let bytes = converter
        .execution_plan_to_proto(plan, codec)?
        .encode_to_vec();
    if bytes.len() > max_bytes {
        return resources_err!(
            "the plan of a task takes {} bytes, and flightpath.max_plan_bytes allows {max_bytes}",
            bytes.len()
        );
    }
    Ok(bytes)
}

/// Decodes what [`encode`] wrote.
pub(crate) fn decode(
    bytes: &[u8],
    codec: &dyn PhysicalExtensionCodec,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    // Decoding can panic inside dependencies, on input that an encoder would not write.
    caught("decoding a plan", || {
        let node = PhysicalPlanNode::decode(bytes)
            .map_err(|error| plan_datafusion_err!("an encoded plan expected: {error}"))?;
        let context = PhysicalPlanDecodeContext::new(context, codec);
        DeduplicatingProtoConverter {}.proto_to_execution_plan(&node, &context)
    })
}

/// Checks that a narrowed plan arrives as it was sent: same nodes, schemas, partitions, orders.
///
/// # Errors
/// Says what does not arrive; in the words in which `EXPLAIN` gives it as the reason.
pub(crate) fn check_sendable(
    plan: &Arc<dyn ExecutionPlan>,
    codec: &dyn PhysicalExtensionCodec,
    context: &TaskContext,
    max_bytes: usize,
) -> Result<()> {
    let bytes = caught("encoding a plan", || {
        encode(plan, codec, Subqueries::Placeholders, max_bytes)
    })?;
    compare(plan, &decode(&bytes, codec, context)?)
}

fn compare(sent: &Arc<dyn ExecutionPlan>, arrived: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let differs = |what: &str, sent: String, arrived: String| {
        Err(plan_datafusion_err!(
            "{what} is lost in encoding: {sent} is sent, {arrived} arrives"
        ))
    };
    let name = sent.name();
    if name != arrived.name() {
        return differs("a node", name.to_string(), arrived.name().to_string());
    }
    if sent.schema() != arrived.schema() {
        return differs(
            &format!("the schema of {name}"),
            sent.schema().to_string(),
            arrived.schema().to_string(),
        );
    }
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
    if partitions(sent) != partitions(arrived) {
        return differs(
            &format!("the partitioning of {name}"),
            partitions(sent).to_string(),
            partitions(arrived).to_string(),
        );
    }
    let order = |plan: &Arc<dyn ExecutionPlan>| {
        plan.output_ordering()
            .map_or_else(|| "none".to_string(), ToString::to_string)
    };
    if order(sent) != order(arrived) {
        return differs(&format!("the order of {name}"), order(sent), order(arrived));
    }
    let (ours, theirs) = (sent.children(), arrived.children());
    if ours.len() != theirs.len() {
        return differs(
            &format!("a child of {name}"),
            ours.len().to_string(),
            theirs.len().to_string(),
        );
    }
    ours.into_iter()
        .zip(theirs)
        .try_for_each(|(sent, arrived)| compare(sent, arrived))
}

/// Ids of the dynamic filters that nodes of this plan fill.
fn dynamic_filters_of(plan: &Arc<dyn ExecutionPlan>) -> HashSet<u64> {
    let mut ids: HashSet<u64> = plan
        .dynamic_expressions_produced()
        .iter()
        .filter_map(|expr| expr.expression_id())
        .collect();
    for child in plan.children() {
        ids.extend(dynamic_filters_of(child));
    }
    ids
}

/// Encodes expressions that hang on state of this process as what they are right now.
struct StageEncoder {
    produced: HashSet<u64>,
    subqueries: Subqueries,
}

impl StageEncoder {
    fn replacement(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
            // Its producer is in another task: whatever it holds is nobody's to update.
            let shared = expr
                .expression_id()
                .is_some_and(|id| self.produced.contains(&id));
            return Ok((!shared).then(|| lit(true)));
        }
        if let Some(subquery) = expr.downcast_ref::<ScalarSubqueryExpr>() {
            let value = match (value_of(subquery), self.subqueries) {
                (Ok(value), _) => value,
                (Err(_), Subqueries::Placeholders) => {
                    let field = subquery.return_field(&Schema::empty())?;
                    ScalarValue::try_from(field.data_type())?
                }
                (Err(error), Subqueries::Values) => return Err(error),
            };
            return Ok(Some(lit(value)));
        }
        Ok(None)
    }
}

impl PhysicalProtoConverterExtension for StageEncoder {
    fn proto_to_execution_plan(
        &self,
        _proto: &PhysicalPlanNode,
        _context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("a stage encoder does not decode")
    }

    fn execution_plan_to_proto(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        PhysicalPlanNode::try_from_physical_plan_with_converter(Arc::clone(plan), codec, self)
    }

    fn proto_to_physical_expr(
        &self,
        _proto: &PhysicalExprNode,
        _schema: &Schema,
        _context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        internal_err!("a stage encoder does not decode")
    }

    fn physical_expr_to_proto(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        let replacement = self.replacement(expr)?;
        datafusion_proto::physical_plan::to_proto::serialize_physical_expr_with_converter(
            replacement.as_ref().unwrap_or(expr),
            codec,
            self,
        )
    }
}

/// The value of a scalar subquery; an error before it has one.
fn value_of(subquery: &ScalarSubqueryExpr) -> Result<ScalarValue> {
    // It looks at no row: its value is beside the plan.
    match subquery.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty())))? {
        ColumnarValue::Scalar(value) => Ok(value),
        other => internal_err!("a scalar subquery has the value {other:?}"),
    }
}

/// Whether a plan, with the stages below it, holds scalar subqueries that have no value yet.
pub(crate) fn awaits_subqueries(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut pending = false;
    let walked = plan.apply_expressions(&mut |root| {
        root.apply(|expr| {
            let subquery = expr.downcast_ref::<ScalarSubqueryExpr>();
            pending |= subquery.is_some_and(|subquery| value_of(subquery).is_err());
            Ok(TreeNodeRecursion::Continue)
        })
    });
    walked.is_err() || pending || plan.children().into_iter().any(awaits_subqueries)
}
