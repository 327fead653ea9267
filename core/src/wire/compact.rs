//! Cuts arrays down to the values that their rows use, before they are sent.
//!
//! A slice of an array still holds the buffers of the whole. The IPC writer cuts fixed-width values,
//! strings and plain lists itself, but sends views, dictionaries, list views and dense unions with
//! everything that they hold.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BufferSpec, DictionaryArray, FixedSizeListArray,
    GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait, PrimitiveArray, RecordBatch,
    RecordBatchOptions, RunArray, StructArray, UInt64Array, UnionArray, downcast_dictionary_array,
    layout, new_empty_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{
    ArrowDictionaryKeyType, BinaryViewType, ByteViewType, DataType, FieldRef, Int16Type, Int32Type,
    Int64Type, RunEndIndexType, StringViewType, UnionMode,
};
use arrow::error::{ArrowError, Result};
use arrow_select::dictionary::garbage_collect_dictionary;

/// Values are copied together when what is held is at least this many times what is used: below
/// that, the copy costs more than the bytes it saves.
const WORTH_COPYING: usize = 2;

/// What a buffer adds to a message besides its bytes: its entry in the header and that of its array
/// (16 bytes each), the length that precedes compressed bytes, and padding to the next 8 bytes.
const BUFFER_OVERHEAD: usize = 48;

/// `batch` without the values that none of its rows use.
pub(crate) fn compact_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compact).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// What `batch` weighs on the wire before compression.
pub(crate) fn weigh_batch(batch: &RecordBatch) -> Weight {
    let mut weight = Weight::default();
    for column in batch.columns() {
        let data = column.to_data();
        weight.rows += weigh(&data);
        weight.dictionary = weight.dictionary.max(heaviest_dictionary(&data));
    }
    weight
}

/// The weight of a batch, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weight {
    /// The batch itself: dictionaries travel in messages of their own.
    pub(crate) rows: usize,
    /// The heaviest of its dictionaries.
    pub(crate) dictionary: usize,
}

fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    if !may_hold_unused(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    match array.data_type() {
        DataType::Utf8View => Ok(compact_views::<StringViewType>(array)),
        DataType::BinaryView => Ok(compact_views::<BinaryViewType>(array)),
        DataType::Dictionary(_, _) => {
            let array = array.as_ref();
            downcast_dictionary_array!(
                array => compact_dictionary(array),
                other => Err(ArrowError::NotYetImplemented(format!("sending {other}")))
            )
        }
        DataType::List(_) => compact_list::<i32>(array),
        DataType::LargeList(_) => compact_list::<i64>(array),
        DataType::ListView(_) => compact_list_view::<i32>(array),
        DataType::LargeListView(_) => compact_list_view::<i64>(array),
        DataType::FixedSizeList(field, size) => {
            let list = array.as_fixed_size_list();
            let values = compact(list.values())?;
            let (field, nulls) = (Arc::clone(field), list.nulls().cloned());
            let list =
                FixedSizeListArray::try_new_with_length(field, *size, values, nulls, list.len())?;
            Ok(Arc::new(list))
        }
        DataType::Map(field, ordered) => {
            let map = array.as_map();
            let (offsets, used) = rebase(map.offsets());
            let entries: ArrayRef = Arc::new(map.entries().slice(used.start, used.len()));
            let entries = compact(&entries)?.as_struct().clone();
            let (field, nulls) = (Arc::clone(field), map.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(
                field, offsets, entries, nulls, *ordered,
            )?))
        }
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(compact).collect::<Result<_>>()?;
            let (nulls, len) = (array.nulls().cloned(), array.len());
            let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, len)?;
            Ok(Arc::new(array))
        }
        DataType::Union(_, _) => compact_union(array.as_union()),
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => compact_runs::<Int16Type>(array),
            DataType::Int32 => compact_runs::<Int32Type>(array),
            _ => compact_runs::<Int64Type>(array),
        },
        _ => Ok(Arc::clone(array)),
    }
}

/// Whether arrays of this type, or below it, can hold values that the writer would send unused.
fn may_hold_unused(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View
        | DataType::BinaryView
        | DataType::Dictionary(_, _)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Union(_, _)
        // The writer cuts runs itself, but not those of an empty slice.
        | DataType::RunEndEncoded(_, _) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => may_hold_unused(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|f| may_hold_unused(f.data_type())),
        _ => false,
    }
}

fn compact_views<T: ByteViewType>(array: &ArrayRef) -> ArrayRef {
    let views = array.as_byte_view::<T>();
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    if held > 0 && views.total_buffer_bytes_used() * WORTH_COPYING <= held {
        Arc::new(views.gc())
    } else {
        Arc::clone(array)
    }
}

fn compact_dictionary<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> Result<ArrayRef> {
    let values = array.values();
    // A dictionary that several batches share is sent once, as long as it stays the same one. So
    // it is cut only where it outweighs the rows that use it.
    let outweighs = weigh(&values.to_data()) > weigh(&array.keys().to_data());
    let array = if outweighs && array.occupancy().count_set_bits() * WORTH_COPYING <= values.len() {
        garbage_collect_dictionary(array)?
    } else {
        array.clone()
    };
    Ok(Arc::new(array.with_values(compact(array.values())?)))
}

fn compact_list<O: OffsetSizeTrait>(array: &ArrayRef) -> Result<ArrayRef> {
    let list = array.as_list::<O>();
    let (offsets, used) = rebase(list.offsets());
    let values = compact(&list.values().slice(used.start, used.len()))?;
    let (field, nulls) = (element_field(list.data_type())?, list.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(
        field, offsets, values, nulls,
    )?))
}

fn compact_list_view<O: OffsetSizeTrait>(array: &ArrayRef) -> Result<ArrayRef> {
    let list = array.as_list_view::<O>();
    let ranges: Vec<_> = (0..list.len())
        .map(|row| match list.is_null(row) {
            true => 0..0,
            false => {
                let start = list.value_offset(row).as_usize();
                start..start + list.value_size(row).as_usize()
            }
        })
        .collect();
    let (values, starts) = narrow(list.values(), &ranges)?;
    let list = GenericListViewArray::<O>::try_new(
        element_field(list.data_type())?,
        starts.into_iter().map(O::usize_as).collect(),
        ranges
            .iter()
            .map(|range| O::usize_as(range.len()))
            .collect(),
        compact(&values)?,
        list.nulls().cloned(),
    )?;
    Ok(Arc::new(list))
}

fn compact_union(array: &UnionArray) -> Result<ArrayRef> {
    let DataType::Union(fields, mode) = array.data_type() else {
        return Err(ArrowError::SchemaError(format!(
            "{} is no union",
            array.data_type()
        )));
    };
    let type_ids = array.type_ids().clone();
    let mut offsets = match mode {
        UnionMode::Dense => array.offsets().map(|offsets| offsets.to_vec()),
        UnionMode::Sparse => None,
    };
    let mut children = Vec::with_capacity(fields.len());
    for (type_id, _) in fields.iter() {
        let mut child = Arc::clone(array.child(type_id));
        if let Some(offsets) = &mut offsets {
            let rows = || (0..type_ids.len()).filter(|row| type_ids[*row] == type_id);
            let ranges: Vec<_> = rows()
                .map(|row| offsets[row] as usize)
                .map(|start| start..start + 1)
                .collect();
            let starts;
            (child, starts) = narrow(&child, &ranges)?;
            for (row, start) in rows().zip(starts) {
                offsets[row] = start as i32;
            }
        }
        children.push(compact(&child)?);
    }
    let offsets = offsets.map(ScalarBuffer::from);
    Ok(Arc::new(UnionArray::try_new(
        fields.clone(),
        type_ids,
        offsets,
        children,
    )?))
}

fn compact_runs<R: RunEndIndexType>(array: &ArrayRef) -> Result<ArrayRef> {
    let runs = array
        .as_any()
        .downcast_ref::<RunArray<R>>()
        .ok_or_else(|| {
            ArrowError::SchemaError(format!("{} does not hold its type", array.data_type()))
        })?;
    if runs.is_empty() {
        return Ok(new_empty_array(runs.data_type()));
    }
    let ends = runs.run_ends();
    let used = ends.get_start_physical_index()..ends.get_end_physical_index() + 1;
    let values = compact(&runs.values().slice(used.start, used.len()))?;
    let ends = PrimitiveArray::<R>::from_iter_values(ends.sliced_values());
    let data = ArrayData::builder(runs.data_type().clone())
        .len(runs.len())
        .add_child_data(ends.into_data())
        .add_child_data(values.to_data())
        .build()?;
    Ok(Arc::new(RunArray::<R>::from(data)))
}

/// Offsets that start at zero, and the range of values that they used to address.
fn rebase<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, Range<usize>) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let rebased = offsets.iter().map(|offset| *offset - first).collect();
    (
        OffsetBuffer::new(rebased),
        first.as_usize()..last.as_usize(),
    )
}

/// Cuts `values` down to what `ranges` address, and tells where each range starts from now on.
fn narrow(values: &ArrayRef, ranges: &[Range<usize>]) -> Result<(ArrayRef, Vec<usize>)> {
    let filled = || ranges.iter().filter(|range| !range.is_empty());
    let start = filled().map(|range| range.start).min().unwrap_or(0);
    let end = filled().map(|range| range.end).max().unwrap_or(0);
    let used: usize = ranges.iter().map(Range::len).sum();
    if used == 0 || used * WORTH_COPYING > end - start {
        let starts = ranges.iter().map(|range| match range.is_empty() {
            true => 0,
            false => range.start - start,
        });
        return Ok((values.slice(start, end - start), starts.collect()));
    }
    let rows = ranges.iter().cloned().flatten().map(|row| row as u64);
    let values = take(values, &UInt64Array::from_iter_values(rows), None)?;
    let starts = ranges.iter().scan(0, |next, range| {
        let start = *next;
        *next += range.len();
        Some(start)
    });
    Ok((values, starts.collect()))
}

fn element_field(data_type: &DataType) -> Result<FieldRef> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => Ok(Arc::clone(field)),
        other => Err(ArrowError::SchemaError(format!("{other} is no list"))),
    }
}

/// The bytes that the writer makes of a compact array; it cuts the children of lists itself.
fn weigh(data: &ArrayData) -> usize {
    let (len, children) = (data.len(), data.child_data());
    let specs = layout(data.data_type()).buffers;
    let fixed: usize = specs
        .iter()
        .map(|spec| match spec {
            // One more than rows: lists and strings have an offset at both ends.
            BufferSpec::FixedWidth { byte_width, .. } => (len + 1) * byte_width,
            BufferSpec::BitMap => len / 8 + 1,
            BufferSpec::VariableWidth | BufferSpec::AlwaysNull => 0,
        })
        .sum();
    let validity = data.nulls().map_or(0, |_| len / 8 + 1);
    let variable = match data.data_type() {
        DataType::Utf8 | DataType::Binary => addressed::<i32>(data).len(),
        DataType::LargeUtf8 | DataType::LargeBinary => addressed::<i64>(data).len(),
        DataType::Utf8View | DataType::BinaryView => {
            let buffers = data.buffers().iter().skip(1);
            buffers.map(|buffer| buffer.len() + BUFFER_OVERHEAD).sum()
        }
        DataType::List(_) | DataType::Map(_, _) => {
            weigh_range(&children[0], addressed::<i32>(data))
        }
        DataType::LargeList(_) => weigh_range(&children[0], addressed::<i64>(data)),
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            let start = data.offset() * size;
            weigh_range(&children[0], start..start + len * size)
        }
        DataType::Dictionary(_, _) => 0,
        _ => children.iter().map(weigh).sum(),
    };
    fixed + validity + variable + (specs.len() + 1) * BUFFER_OVERHEAD
}

fn weigh_range(values: &ArrayData, range: Range<usize>) -> usize {
    weigh(&values.slice(range.start, range.len()))
}

/// The range of values that the offsets of `data` address.
fn addressed<O: OffsetSizeTrait>(data: &ArrayData) -> Range<usize> {
    if data.is_empty() {
        return 0..0;
    }
    let offsets = data.buffers()[0].typed_data::<O>();
    offsets[data.offset()].as_usize()..offsets[data.offset() + data.len()].as_usize()
}

fn heaviest_dictionary(data: &ArrayData) -> usize {
    let own = match data.data_type() {
        DataType::Dictionary(_, _) => weigh(&data.child_data()[0]),
        _ => 0,
    };
    let below = data.child_data().iter().map(heaviest_dictionary).max();
    own.max(below.unwrap_or(0))
}
