//! The nodes that are Flightpath's own, as protobuf, beside those of the user's codecs.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, internal_datafusion_err, internal_err, plan_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    DefaultPhysicalExtensionCodec, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf;
use parking_lot::Mutex;
use prost::Message;

use super::boundary_node::BoundaryNode;
use crate::model::boundaries::BroadcastExec;
use crate::model::boundary::NetworkBoundaryExt;
use crate::model::child::only_child;
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
        match node.kind {
            Some(NodeKind::User(payload)) => self.user.try_decode(&payload, inputs, ctx, converter),
            Some(NodeKind::Isolator(isolator)) => Ok(Arc::new(PartitionIsolatorExec::narrowed(
                only_child("PartitionIsolatorExec", inputs)?,
                isolator.tasks as usize,
            ))),
            Some(NodeKind::Broadcast(broadcast)) => Ok(Arc::new(BroadcastExec::new(
                only_child("BroadcastExec", inputs)?,
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
