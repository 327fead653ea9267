//! Record batches as Arrow Flight messages, and back.
//!
//! ```text
//! schema, then for each batch of at most about 2 MiB: dictionaries that changed, record batch
//! ```
//!
//! arrow-flight's own encoder and decoder would change what they carry: dictionaries are hydrated,
//! `LargeList` becomes `List`, and batches without rows or columns vanish. So this goes to arrow-ipc.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow_flight::FlightData;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_ipc::{CompressionType, MessageHeader, MetadataVersion, root_as_message};
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err, resources_err};

use super::compact::{compact_batch, weigh_batch};
use crate::config::Compression;

/// Rows that go into one message weigh about this much (2 MiB): enough that the cost of a message
/// does not show, little enough that many streams fit into memory and a consumer starts early.
const TARGET_MESSAGE_BYTES: usize = 2 * 1024 * 1024;

/// Messages are limited by the length field of gRPC, whatever the configuration says.
const MAX_GRPC_MESSAGE_BYTES: usize = u32::MAX as usize;

/// Cutting a batch may repeat values that its rows share; beyond this factor it stays whole.
const MAX_REPETITION: usize = 2;

/// Padding between buffers. A gRPC message starts at any address, so more would gain nothing.
const ALIGNMENT: usize = 8;

impl Compression {
    /// The codec of arrow-ipc.
    pub(crate) fn codec(self) -> Option<CompressionType> {
        match self {
            Self::None => None,
            Self::Lz4 => Some(CompressionType::LZ4_FRAME),
            Self::Zstd => Some(CompressionType::ZSTD),
        }
    }
}

/// Turns the batches of one stream into messages.
pub(crate) struct BatchEncoder {
    schema: SchemaRef,
    schema_message: FlightData,
    options: IpcWriteOptions,
    dictionaries: DictionaryTracker,
    context: IpcWriteContext,
    max_message_bytes: usize,
}

impl BatchEncoder {
    /// An encoder for batches of `schema`, none of whose messages exceeds `max_message_bytes`.
    pub(crate) fn new(
        schema: SchemaRef,
        compression: Option<CompressionType>,
        max_message_bytes: usize,
    ) -> Result<Self> {
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?
            .try_with_compression(compression)?;
        // Dictionaries may be replaced: the decoder keeps only the latest.
        let mut dictionaries = DictionaryTracker::new(false);
        let schema_message = IpcDataGenerator::default()
            .schema_to_bytes_with_dictionary_tracker(&schema, &mut dictionaries, &options)
            .into();
        Ok(Self {
            schema,
            schema_message,
            options,
            dictionaries,
            context: IpcWriteContext::default(),
            max_message_bytes: max_message_bytes.min(MAX_GRPC_MESSAGE_BYTES),
        })
    }

    /// The message that opens the stream.
    pub(crate) fn schema_message(&self) -> FlightData {
        self.schema_message.clone()
    }

    /// The messages that carry `batch`; at least one, even if it has no rows.
    pub(crate) fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<FlightData>> {
        self.check_types(batch)?;
        let mut pieces = vec![];
        self.cut(compact_batch(batch)?, &mut pieces)?;
        let mut messages = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let (dictionaries, rows) = IpcDataGenerator::default().encode(
                &piece,
                &mut self.dictionaries,
                &self.options,
                &mut self.context,
            )?;
            messages.extend(dictionaries.into_iter().map(FlightData::from));
            messages.push(rows.into());
        }
        Ok(messages)
    }

    /// The decoder trusts the schema: a batch of another type would be read as something else.
    fn check_types(&self, batch: &RecordBatch) -> Result<()> {
        let fields = self.schema.fields();
        if fields.len() != batch.num_columns() {
            let found = batch.num_columns();
            return internal_err!(
                "expected a batch of {} columns, found {found}",
                fields.len()
            );
        }
        for (field, column) in fields.iter().zip(batch.columns()) {
            if !same_layout(field.data_type(), column.data_type()) {
                return internal_err!(
                    "expected {} in column '{}', found {}",
                    field.data_type(),
                    field.name(),
                    column.data_type()
                );
            }
        }
        Ok(())
    }

    /// Cuts a compacted batch by rows until each piece has about the targeted weight.
    fn cut(&self, batch: RecordBatch, pieces: &mut Vec<RecordBatch>) -> Result<()> {
        let (weight, rows) = (weigh_batch(&batch), batch.num_rows());
        let heaviest = weight.rows.max(weight.dictionary);
        let fits = heaviest <= self.max_message_bytes;
        let target = TARGET_MESSAGE_BYTES.min(self.max_message_bytes).max(1);
        let wanted =
            (weight.rows.saturating_add(target / 2) / target).max(if fits { 1 } else { 2 });
        if rows <= 1 || wanted == 1 {
            if !fits {
                return resources_err!(
                    "a row takes {heaviest} bytes, more than flightpath.max_message_bytes = {} allows",
                    self.max_message_bytes
                );
            }
            pieces.push(batch);
            return Ok(());
        }
        let step = rows.div_ceil(wanted);
        let parts = (0..rows)
            .step_by(step)
            .map(|start| Ok(compact_batch(&batch.slice(start, step.min(rows - start)))?))
            .collect::<Result<Vec<_>>>()?;
        let total: usize = parts.iter().map(|part| weigh_batch(part).rows).sum();
        if fits && total > weight.rows.saturating_mul(MAX_REPETITION) {
            pieces.push(batch);
            return Ok(());
        }
        parts
            .into_iter()
            .try_for_each(|part| self.cut(part, pieces))
    }
}

/// Whether two types differ at most in names, metadata and nullability of nested fields, on which
/// operators are not strict.
fn same_layout(left: &DataType, right: &DataType) -> bool {
    use DataType::*;
    match (left, right) {
        (List(a), List(b))
        | (LargeList(a), LargeList(b))
        | (ListView(a), ListView(b))
        | (LargeListView(a), LargeListView(b))
        | (Map(a, _), Map(b, _)) => same_layout(a.data_type(), b.data_type()),
        (FixedSizeList(a, n), FixedSizeList(b, m)) => {
            n == m && same_layout(a.data_type(), b.data_type())
        }
        (Struct(a), Struct(b)) => {
            let mut fields = a.iter().zip(b);
            a.len() == b.len() && fields.all(|(a, b)| same_layout(a.data_type(), b.data_type()))
        }
        (Dictionary(k, a), Dictionary(l, b)) => k == l && same_layout(a, b),
        (RunEndEncoded(k, a), RunEndEncoded(l, b)) => {
            k.data_type() == l.data_type() && same_layout(a.data_type(), b.data_type())
        }
        (Union(a, m), Union(b, n)) => {
            let mut fields = a.iter().zip(b.iter());
            m == n
                && a.len() == b.len()
                && fields
                    .all(|((i, a), (j, b))| i == j && same_layout(a.data_type(), b.data_type()))
        }
        _ => left == right,
    }
}

/// Turns the messages of one stream back into batches.
#[derive(Debug, Default)]
pub(crate) struct BatchDecoder {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl BatchDecoder {
    /// A decoder that waits for the schema.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The schema of the stream, once its message has come.
    pub(crate) fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Takes the next message. Those that carry a schema, a dictionary or only metadata give no
    /// batch.
    pub(crate) fn decode(&mut self, data: FlightData) -> Result<Option<RecordBatch>> {
        if data.data_header.is_empty() && data.data_body.is_empty() {
            return Ok(None);
        }
        // The readers of arrow-ipc index and unwrap what the message claims. State is changed by
        // single inserts at the end, so it stays whole.
        catch_unwind(AssertUnwindSafe(|| self.decode_message(data))).unwrap_or_else(|_| {
            exec_err!(
                "expected an Arrow IPC message that matches its schema, found a malformed one"
            )
        })
    }

    fn decode_message(&mut self, data: FlightData) -> Result<Option<RecordBatch>> {
        let message = root_as_message(&data.data_header).map_err(|error| {
            let expected = "expected an Arrow IPC message in the header of a FlightData";
            DataFusionError::Execution(format!("{expected}: {error}"))
        })?;
        let body = aligned(data.data_body);
        if message.bodyLength() != body.len() as i64 {
            let claimed = message.bodyLength();
            return exec_err!("expected a body of {claimed} bytes, found {}", body.len());
        }
        if let Some(schema) = message.header_as_schema() {
            if self.schema.is_some() {
                return exec_err!("expected one schema in a stream of batches, found another");
            }
            self.schema = Some(Arc::new(fb_to_schema(schema)));
            return Ok(None);
        }
        let Some(schema) = &self.schema else {
            let found = message.header_type();
            return exec_err!("expected a schema before any batch, found {found:?}");
        };
        let version = message.version();
        match message.header_type() {
            MessageHeader::DictionaryBatch => {
                let Some(batch) = message.header_as_dictionary_batch() else {
                    return exec_err!("expected a dictionary in its message, found none");
                };
                let Some(values) = batch.data() else {
                    return exec_err!("expected values in a dictionary, found none");
                };
                check_buffers(&values, &body)?;
                read_dictionary(&body, batch, schema, &mut self.dictionaries, &version)?;
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let Some(batch) = message.header_as_record_batch() else {
                    return exec_err!("expected a record batch in its message, found none");
                };
                check_buffers(&batch, &body)?;
                let schema = Arc::clone(schema);
                let dictionaries = &self.dictionaries;
                read_record_batch(&body, batch, schema, dictionaries, None, &version)
                    .map(Some)
                    .map_err(Into::into)
            }
            other => exec_err!("expected a dictionary or a record batch, found {other:?}"),
        }
    }
}

/// The body where its buffers can be read in place. A gRPC message starts at any address, and the
/// reader copies what lies askew, except for the offsets of unions, which it refuses.
fn aligned(body: Bytes) -> Buffer {
    match body.as_ptr().align_offset(ALIGNMENT) {
        0 => Buffer::from(body),
        _ => Buffer::from_slice_ref(&body),
    }
}

/// Checks what the reader takes on trust. It reserves memory for the length that compressed bytes
/// claim, and a failed reservation ends the process: no panic, nothing to catch.
fn check_buffers(batch: &arrow_ipc::RecordBatch, body: &Buffer) -> Result<()> {
    if batch.length() < 0 {
        return exec_err!("expected a count of rows, found {}", batch.length());
    }
    let compression = batch.compression().map(|compression| compression.codec());
    let mut total: u64 = 0;
    for buffer in batch.buffers().iter().flatten() {
        let start = usize::try_from(buffer.offset()).ok();
        let len = usize::try_from(buffer.length()).ok();
        let bytes = start
            .zip(len)
            .and_then(|(start, len)| body.get(start..start.checked_add(len)?));
        let Some(bytes) = bytes else {
            return exec_err!(
                "expected buffers within a body of {} bytes, found {buffer:?}",
                body.len()
            );
        };
        let (Some(codec), Some((claim, packed))) = (compression, bytes.split_first_chunk()) else {
            continue;
        };
        // Negative: not compressed.
        let claim = u64::try_from(i64::from_le_bytes(*claim)).unwrap_or(0);
        total = total.saturating_add(claim);
        if claim > most_unpacked(codec, packed.len()) || total > MAX_GRPC_MESSAGE_BYTES as u64 {
            let packed = packed.len();
            return exec_err!(
                "expected compressed buffers, found {packed} bytes that claim {claim}"
            );
        }
    }
    Ok(())
}

/// The most that `packed` bytes can stand for: LZ4 spends a byte on at most 255, zstd at least 4
/// bytes on a block of at most 128 KiB.
fn most_unpacked(codec: CompressionType, packed: usize) -> u64 {
    let factor = match codec {
        CompressionType::LZ4_FRAME => 255,
        _ => 128 * 1024 / 4,
    };
    packed as u64 * factor
}
