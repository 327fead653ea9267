//! The nodes that are Flightpath's own, as protobuf, beside those of the user's codecs.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, internal_datafusion_err, internal_err, plan_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::equivalence::{AcrossPartitions, ConstExpr};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};
use datafusion_proto::physical_plan::{
    DefaultPhysicalExtensionCodec, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf;
use parking_lot::Mutex;
use prost::Message;

use crate::model::boundaries::BroadcastExec;
use crate::model::boundary::{
    BoundaryKind, ExchangeShape, NetworkBoundary, NetworkBoundaryExec, NetworkBoundaryExt,
    StreamKey,
};
use crate::model::isolator::PartitionIsolatorExec;

/// Writes Flightpath's nodes itself and hands all others to the user's codec.
pub(crate) struct Codec {
    user: Arc<dyn PhysicalExtensionCodec>,
    /// Functions met while encoding, for a decode without a session's registry.
    seen: Option<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    higher_order: HashMap<String, Arc<HigherOrderUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    window: HashMap<String, Arc<WindowUDF>>,
}

impl Codec {
    pub(crate) fn new(user: Option<Arc<dyn PhysicalExtensionCodec>>) -> Self {
        Self {
            user: user.unwrap_or_else(|| Arc::new(DefaultPhysicalExtensionCodec {})),
            seen: None,
        }
    }

    /// One that decodes what it encoded, functions included, without knowing any session.
    pub(crate) fn remembering(user: Option<Arc<dyn PhysicalExtensionCodec>>) -> Self {
        Self {
            seen: Some(Mutex::default()),
            ..Self::new(user)
        }
    }

    fn note(&self, note: impl FnOnce(&mut Seen)) {
        if let Some(seen) = &self.seen {
            note(&mut seen.lock());
        }
    }

    fn recall<T>(&self, find: impl FnOnce(&Seen) -> Option<T>) -> Option<T> {
        self.seen.as_ref().and_then(|seen| find(&seen.lock()))
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").field("user", &self.user).finish()
    }
}

/// Writes the three methods of a kind of function: remember on encoding, recall on decoding.
macro_rules! function_codec {
    ($decode:ident, $encode:ident, $function:ty, $seen:ident, $kind:literal) => {
        fn $decode(&self, name: &str, buf: &[u8]) -> Result<Arc<$function>> {
            if buf.is_empty()
                && let Some(known) = self.recall(|seen| seen.$seen.get(name).cloned())
            {
                return Ok(known);
            }
            self.user.$decode(name, buf).map_err(|error| {
                error.context(format!(
                    "this worker does not know the {} function {name}: register it in the session \
                     given to Worker::builder().with_session_state, or give coordinator and \
                     workers a codec for it",
                    $kind
                ))
            })
        }

        fn $encode(&self, node: &$function, buf: &mut Vec<u8>) -> Result<()> {
            self.note(|seen| {
                seen.$seen
                    .insert(node.name().to_string(), Arc::new(node.clone()));
            });
            self.user.$encode(node, buf)
        }
    };
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = Node::decode(buf)
            .map_err(|error| plan_datafusion_err!("a plan node of Flightpath expected: {error}"))?;
        let one_input = || match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("a node with 1 child expected, found {}", inputs.len()),
        };
        match node.kind {
            Some(NodeKind::User(payload)) => self.user.try_decode(&payload, inputs, ctx, converter),
            Some(NodeKind::Isolator(isolator)) => Ok(Arc::new(PartitionIsolatorExec::narrowed(
                one_input()?,
                isolator.tasks as usize,
            ))),
            Some(NodeKind::Broadcast(broadcast)) => Ok(Arc::new(BroadcastExec::new(
                one_input()?,
                broadcast.copies.max(1) as usize,
            ))),
            Some(NodeKind::Boundary(boundary)) => {
                let context = PhysicalPlanDecodeContext::new(ctx, self);
                let decode = |expr: &protobuf::PhysicalExprNode, schema: &Schema| {
                    converter.proto_to_physical_expr(expr, schema, &context)
                };
                Ok(Arc::new(boundary.into_node(&decode)?))
            }
            None => internal_err!("a plan node of Flightpath without a kind"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let kind = if let Some(boundary) = node.as_network_boundary() {
            let encode =
                |expr: &Arc<dyn PhysicalExpr>| converter.physical_expr_to_proto(expr, self);
            NodeKind::Boundary(Box::new(BoundaryNode::from_node(boundary, &encode)?))
        } else if let Some(isolator) = node.downcast_ref::<PartitionIsolatorExec>() {
            NodeKind::Isolator(IsolatorNode {
                tasks: isolator.tasks() as u64,
            })
        } else if let Some(broadcast) = node.downcast_ref::<BroadcastExec>() {
            NodeKind::Broadcast(BroadcastNode {
                copies: broadcast.copies() as u64,
            })
        } else {
            let mut payload = vec![];
            self.user
                .try_encode(Arc::clone(&node), &mut payload, converter)?;
            NodeKind::User(payload)
        };
        Node { kind: Some(kind) }
            .encode(buf)
            .map_err(|error| internal_datafusion_err!("{} cannot be encoded: {error}", node.name()))
    }

    function_codec!(try_decode_udf, try_encode_udf, ScalarUDF, scalar, "scalar");
    function_codec!(
        try_decode_higher_order_function,
        try_encode_higher_order_function,
        HigherOrderUDF,
        higher_order,
        "higher-order"
    );
    function_codec!(
        try_decode_udaf,
        try_encode_udaf,
        AggregateUDF,
        aggregate,
        "aggregate"
    );
    function_codec!(
        try_decode_udwf,
        try_encode_udwf,
        WindowUDF,
        window,
        "window"
    );

    fn try_decode_expr(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        ctx: &datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx<
            '_,
        >,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.user.try_decode_expr(buf, inputs, ctx)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        ctx: &datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx<
            '_,
        >,
    ) -> Result<()> {
        self.user.try_encode_expr(node, buf, ctx)
    }
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(oneof = "NodeKind", tags = "1, 2, 3, 4")]
    kind: Option<NodeKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum NodeKind {
    #[prost(bytes, tag = "1")]
    User(Vec<u8>),
    #[prost(message, tag = "2")]
    Boundary(Box<BoundaryNode>),
    #[prost(message, tag = "3")]
    Isolator(IsolatorNode),
    #[prost(message, tag = "4")]
    Broadcast(BroadcastNode),
}

#[derive(Clone, PartialEq, Message)]
struct IsolatorNode {
    #[prost(uint64, tag = "1")]
    tasks: u64,
}

#[derive(Clone, PartialEq, Message)]
struct BroadcastNode {
    #[prost(uint64, tag = "1")]
    copies: u64,
}

/// A boundary as one consumer task needs it: what it claims, and the streams it reads.
#[derive(Clone, PartialEq, Message)]
struct BoundaryNode {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    details: String,
    #[prost(uint64, tag = "4")]
    stage: u64,
    #[prost(uint64, tag = "5")]
    tasks: u64,
    #[prost(uint64, tag = "6")]
    consumer_tasks: u64,
    #[prost(message, optional, tag = "7")]
    schema: Option<protobuf::Schema>,
    /// Keys of a hash partitioning; none for an unknown one.
    #[prost(message, repeated, tag = "8")]
    hash: Vec<protobuf::PhysicalExprNode>,
    #[prost(message, repeated, tag = "9")]
    reads: Vec<Reads>,
    #[prost(message, repeated, tag = "10")]
    orderings: Vec<Ordering>,
    #[prost(message, optional, tag = "11")]
    merge_order: Option<Ordering>,
    #[prost(message, repeated, tag = "12")]
    classes: Vec<EquivalenceClass>,
    #[prost(bool, tag = "13")]
    emits_at_end: bool,
}

/// The streams of one partition.
#[derive(Clone, PartialEq, Message)]
struct Reads {
    #[prost(uint64, repeated, tag = "1")]
    tasks: Vec<u64>,
    #[prost(uint64, repeated, tag = "2")]
    partitions: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Ordering {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<SortKey>,
}

#[derive(Clone, PartialEq, Message)]
struct SortKey {
    #[prost(message, optional, tag = "1")]
    expr: Option<protobuf::PhysicalExprNode>,
    #[prost(bool, tag = "2")]
    descending: bool,
    #[prost(bool, tag = "3")]
    nulls_first: bool,
}

#[derive(Clone, PartialEq, Message)]
struct EquivalenceClass {
    #[prost(message, repeated, tag = "1")]
    members: Vec<protobuf::PhysicalExprNode>,
    /// Whether all rows of a partition have the same value of it.
    #[prost(bool, tag = "2")]
    constant: bool,
}

type Encode<'a> = dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<protobuf::PhysicalExprNode> + 'a;
type Decode<'a> =
    dyn Fn(&protobuf::PhysicalExprNode, &Schema) -> Result<Arc<dyn PhysicalExpr>> + 'a;

impl BoundaryNode {
    fn from_node(node: &NetworkBoundaryExec, encode: &Encode<'_>) -> Result<Self> {
        let properties = node.properties();
        let hash = match properties.output_partitioning() {
            Partitioning::Hash(keys, _) => keys.iter().map(encode).collect::<Result<_>>()?,
            _ => vec![],
        };
        let equivalences = properties.equivalence_properties();
        let constants = equivalences.constants();
        let reads = (0..properties.output_partitioning().partition_count())
            .map(|partition| {
                let reads = node.reads(0, partition);
                Reads {
                    tasks: reads.iter().map(|read| read.task as u64).collect(),
                    partitions: reads.iter().map(|read| read.partition as u64).collect(),
                }
            })
            .collect();
        Ok(Self {
            name: node.boundary().name().to_string(),
            kind: node.boundary().kind().as_str().to_string(),
            details: Details(node.boundary().as_ref()).to_string(),
            stage: node.stage_id() as u64,
            tasks: node.tasks() as u64,
            consumer_tasks: node.consumer_tasks() as u64,
            schema: Some(node.schema().as_ref().try_into()?),
            hash,
            reads,
            orderings: equivalences
                .oeq_class()
                .iter()
                .map(|ordering| Ordering::encode_from(ordering, encode))
                .collect::<Result<_>>()?,
            merge_order: node
                .boundary()
                .merge_order()
                .map(|ordering| Ordering::encode_from(ordering, encode))
                .transpose()?,
            classes: equivalences
                .eq_group()
                .iter()
                .map(|class| {
                    Ok(EquivalenceClass {
                        members: class.iter().map(encode).collect::<Result<_>>()?,
                        constant: class.iter().next().is_some_and(|member| {
                            constants.iter().any(|constant| constant.expr.eq(member))
                        }),
                    })
                })
                .collect::<Result<_>>()?,
            emits_at_end: properties.emission_type == EmissionType::Final,
        })
    }

    fn into_node(self, decode: &Decode<'_>) -> Result<NetworkBoundaryExec> {
        let schema = self
            .schema
            .as_ref()
            .ok_or_else(|| internal_datafusion_err!("boundary {} without a schema", self.name))?;
        let schema: Arc<Schema> = Arc::new(schema.try_into()?);
        let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
        for class in &self.classes {
            let members = class
                .members
                .iter()
                .map(|member| decode(member, &schema))
                .collect::<Result<Vec<_>>>()?;
            for pair in members.windows(2) {
                equivalences.add_equal_conditions(Arc::clone(&pair[0]), Arc::clone(&pair[1]))?;
            }
            if let (true, Some(first)) = (class.constant, members.first()) {
                equivalences.add_constants([ConstExpr::new(
                    Arc::clone(first),
                    AcrossPartitions::Heterogeneous,
                )])?;
            }
        }
        for ordering in &self.orderings {
            equivalences.add_ordering(ordering.decode_with(&schema, decode)?);
        }
        let partitioning = if self.hash.is_empty() {
            Partitioning::UnknownPartitioning(self.reads.len())
        } else {
            let keys = self.hash.iter().map(|key| decode(key, &schema));
            Partitioning::Hash(keys.collect::<Result<_>>()?, self.reads.len())
        };
        let emission = match self.emits_at_end {
            true => EmissionType::Final,
            false => EmissionType::Incremental,
        };
        let merge_order = self
            .merge_order
            .as_ref()
            .map(|order| order.decode_with(&schema, decode))
            .transpose()?;
        let reads = self.reads.iter().map(|reads| {
            let pairs = reads.tasks.iter().zip(&reads.partitions);
            pairs
                .map(|(&task, &partition)| StreamKey {
                    task: task as usize,
                    partition: partition as usize,
                })
                .collect()
        });
        let kinds = [
            BoundaryKind::Shuffle,
            BoundaryKind::Coalesce,
            BoundaryKind::Broadcast,
        ];
        let planned = PlannedBoundary {
            kind: kinds
                .into_iter()
                .find(|kind| kind.as_str() == self.kind)
                .unwrap_or(BoundaryKind::Custom),
            name: self.name,
            details: self.details,
            merge_order,
        };
        Ok(NetworkBoundaryExec::detached(
            Arc::new(planned),
            self.stage as usize,
            self.tasks as usize,
            self.consumer_tasks as usize,
            reads.collect(),
            PlanProperties::new(equivalences, partitioning, emission, Boundedness::Bounded),
        ))
    }
}

impl Ordering {
    fn encode_from(ordering: &LexOrdering, encode: &Encode<'_>) -> Result<Self> {
        let keys = ordering.iter().map(|key| {
            Ok(SortKey {
                expr: Some(encode(&key.expr)?),
                descending: key.options.descending,
                nulls_first: key.options.nulls_first,
            })
        });
        Ok(Self {
            keys: keys.collect::<Result<_>>()?,
        })
    }

    fn decode_with(&self, schema: &Schema, decode: &Decode<'_>) -> Result<LexOrdering> {
        let keys = self.keys.iter().map(|key| {
            let expr = key
                .expr
                .as_ref()
                .ok_or_else(|| internal_datafusion_err!("a sort key without an expression"))?;
            let options = datafusion::arrow::compute::SortOptions {
                descending: key.descending,
                nulls_first: key.nulls_first,
            };
            Ok(PhysicalSortExpr::new(decode(expr, schema)?, options))
        });
        LexOrdering::new(keys.collect::<Result<Vec<_>>>()?)
            .ok_or_else(|| internal_datafusion_err!("an ordering without sort keys"))
    }
}

struct Details<'a>(&'a dyn NetworkBoundary);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_details(f)
    }
}

/// A boundary as it arrives in a task: its decisions are made, and it only shows them.
#[derive(Debug)]
struct PlannedBoundary {
    name: String,
    kind: BoundaryKind,
    details: String,
    merge_order: Option<LexOrdering>,
}

impl NetworkBoundary for PlannedBoundary {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> BoundaryKind {
        self.kind
    }

    fn stage_head(
        &self,
        _input: Arc<dyn ExecutionPlan>,
        _consumer_tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("{} is planned on the coordinator only", self.name)
    }

    fn properties(
        &self,
        _head: &Arc<dyn ExecutionPlan>,
        _shape: &ExchangeShape,
    ) -> Result<PlanProperties> {
        internal_err!("{} is planned on the coordinator only", self.name)
    }

    fn reads(&self, _: usize, _: usize, _: &ExchangeShape) -> Vec<StreamKey> {
        vec![]
    }

    fn merge_order(&self) -> Option<&LexOrdering> {
        self.merge_order.as_ref()
    }

    fn fmt_details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.details)
    }
}
