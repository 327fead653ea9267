//! A boundary on its way to a consumer task.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::physical_expr::equivalence::{AcrossPartitions, ConstExpr};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};
use datafusion_proto::protobuf;
use prost::Message;

use crate::model::boundary::{
    BoundaryKind, ExchangeShape, NetworkBoundary, NetworkBoundaryExec, StreamKey,
};

/// A boundary as one consumer task needs it: what it claims, and the streams it reads.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BoundaryNode {
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

pub(super) type Encode<'a> =
    dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<protobuf::PhysicalExprNode> + 'a;
pub(super) type Decode<'a> =
    dyn Fn(&protobuf::PhysicalExprNode, &Schema) -> Result<Arc<dyn PhysicalExpr>> + 'a;

impl BoundaryNode {
    pub(super) fn from_node(node: &NetworkBoundaryExec, encode: &Encode<'_>) -> Result<Self> {
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

    pub(super) fn into_node(self, decode: &Decode<'_>) -> Result<NetworkBoundaryExec> {
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
        let planned = PlannedBoundary {
            kind: BoundaryKind::named(&self.kind),
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
