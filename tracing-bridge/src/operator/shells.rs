//! The two shells around `InstrumentedExec`.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use flightpath_core::{TransparentWrapper, transparent_execution_plan};
use futures::Stream;
use tracing::Span;

use super::span::OperatorSpan;

/// A partition that no plan has. Its stream is empty, and keeps the span open while it is held.
const KEEPER: usize = usize::MAX;

/// Outside `InstrumentedExec`: runs it always under the span in which it was run first, and keeps
/// its span until the node's last partition, or that of the plan.
pub(super) struct OperatorExec {
    inner: Arc<dyn ExecutionPlan>,
    span: Arc<OperatorSpan>,
}

impl OperatorExec {
    pub(super) fn new(inner: Arc<dyn ExecutionPlan>, span: Arc<OperatorSpan>) -> Self {
        Self { inner, span }
    }
}

impl fmt::Debug for OperatorExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OperatorExec").field(&self.inner).finish()
    }
}

impl TransparentWrapper for OperatorExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(inner, Arc::clone(&self.span)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let parent = self
            .span
            .keep(|| self.inner.execute(KEEPER, Arc::clone(&context)))?;
        let stream = parent.in_scope(|| self.inner.execute(partition, context));
        let ending = Ending(Arc::clone(&self.span));
        Ok(Box::pin(Watched {
            stream: stream?,
            ending,
        }))
    }
}

transparent_execution_plan!(OperatorExec);

/// Inside `InstrumentedExec`, where the current span is the operator's.
pub(super) struct EntryExec {
    inner: Arc<dyn ExecutionPlan>,
    /// Weak, because the kept stream holds this node.
    span: Weak<OperatorSpan>,
}

impl EntryExec {
    pub(super) fn new(inner: Arc<dyn ExecutionPlan>, span: Weak<OperatorSpan>) -> Self {
        Self { inner, span }
    }

    pub(super) fn span(&self) -> Option<Arc<OperatorSpan>> {
        self.span.upgrade()
    }
}

impl fmt::Debug for EntryExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EntryExec").field(&self.inner).finish()
    }
}

impl TransparentWrapper for EntryExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(inner, Weak::clone(&self.span)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(span) = self.span.upgrade() else {
            return self.inner.execute(partition, context);
        };
        if partition == KEEPER {
            span.entered(Span::current(), &self.inner);
            return Ok(Box::pin(EmptyRecordBatchStream::new(self.inner.schema())));
        }
        let stream = self
            .inner
            .execute(partition, context)
            .inspect_err(|error| span.failed(error))?;
        Ok(Box::pin(Watched {
            stream,
            ending: Failing(span),
        }))
    }
}

transparent_execution_plan!(EntryExec);

/// What watches a stream.
trait Watch: Send + Unpin {
    fn item(&self, _item: &Result<RecordBatch>) {}
}

/// Shows errors on the span.
struct Failing(Arc<OperatorSpan>);

impl Watch for Failing {
    fn item(&self, item: &Result<RecordBatch>) {
        if let Err(error) = item {
            self.0.failed(error);
        }
    }
}

/// Counts a partition as done when its stream is.
struct Ending(Arc<OperatorSpan>);

impl Watch for Ending {}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.partition_done();
    }
}

struct Watched<W> {
    // In this order: when the watch ends, the stream is gone.
    stream: SendableRecordBatchStream,
    ending: W,
}

impl<W: Watch> Stream for Watched<W> {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.stream.as_mut().poll_next(cx);
        if let Poll::Ready(Some(item)) = &polled {
            self.ending.item(item);
        }
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<W: Watch> RecordBatchStream for Watched<W> {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
