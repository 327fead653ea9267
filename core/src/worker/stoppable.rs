//! Tasks that can be stopped at any time, and are known to have stopped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use futures::Stream;

use super::going::{Going, One};
use crate::model::forward::TransparentWrapper;
use crate::transparent_execution_plan;

/// A node that gives its thread back after every so many batches, and whose streams are counted.
///
/// DataFusion sees to the first where rows are read, which is enough while no node puts out much
/// more than it reads. A join does: for one batch read it can put out thousands, all consumed
/// without a pause, and for as long the task cannot be stopped, nor its worker give a sign of life.
///
/// Nodes read their inputs in tasks of the runtime too, which are aborted when the node's own
/// streams are dropped, and end some time later. The streams that they hold end with them.
#[derive(Debug)]
struct StoppableExec {
    node: Arc<dyn ExecutionPlan>,
    streams: Going,
}

impl TransparentWrapper for StoppableExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.node
    }

    fn rewrap(&self, node: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let streams = self.streams.clone();
        Arc::new(Self { node, streams })
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let one = self.streams.one();
        let stream = self.node.execute(partition, context)?;
        let stream = match self.node.properties().scheduling_type {
            SchedulingType::Cooperative => stream,
            SchedulingType::NonCooperative => make_cooperative(stream),
        };
        Ok(Box::pin(Counted { stream, _one: one }))
    }
}

transparent_execution_plan!(StoppableExec);

/// A stream that counts until it has been dropped.
struct Counted {
    stream: SendableRecordBatchStream,
    // After the stream.
    _one: One,
}

impl Stream for Counted {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.as_mut().poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl RecordBatchStream for Counted {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

/// `plan`, in which every node yields, and all streams are counted in `streams`.
pub(super) fn stoppable(
    plan: Arc<dyn ExecutionPlan>,
    streams: &Going,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let streams = streams.clone();
        Ok(Transformed::yes(
            Arc::new(StoppableExec { node, streams }) as _
        ))
    })
    .data()
}
