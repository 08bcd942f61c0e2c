//! Avro values → Arrow arrays, column by column.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int32Array, Int64Array, ListArray, MapArray, NullArray, NullBufferBuilder,
    StringArray, StructArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Fields};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::spec::avro::{AvroSchema, Cursor, Decoded, Malformed, NodeId, Slot};

/// A column, or a part of one, in the making.
pub(super) struct Column {
    pub(super) slot: Slot,
    pub(super) validity: NullBufferBuilder,
    pub(super) values: Values,
}

/// The values so far; null where the column is null, or what it lies in.
pub(super) enum Values {
    Null(usize),
    Boolean(BooleanBufferBuilder),
    /// `int`, and what it means.
    Int(Vec<i32>, DataType),
    /// `long`, and what it means.
    Long(Vec<i64>, DataType),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Bytes),
    Text(Bytes),
    Fixed {
        size: usize,
        data: Vec<u8>,
    },
    /// A UUID as text.
    UuidText(Vec<u8>),
    Decimal {
        values: Vec<i128>,
        /// The size of a `fixed`; `bytes` have none.
        size: Option<usize>,
        precision: u8,
        scale: i8,
    },
    Struct {
        parts: Parts,
        fields: Fields,
    },
    List {
        offsets: Vec<i32>,
        item: Box<Column>,
        item_is_empty: bool,
        field: FieldRef,
    },
    /// Avro's own map, whose keys are strings, or an array of records of two fields: both are
    /// encoded alike.
    Map {
        offsets: Vec<i32>,
        key: Box<Column>,
        value: Box<Column>,
        /// The field of the pairs.
        field: FieldRef,
        pair: Fields,
    },
}

/// Values of any number of bytes.
pub(super) struct Bytes {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

/// The fields of a record, those read and those read past.
pub(super) struct Parts {
    pub(super) steps: Vec<Step>,
    pub(super) columns: Vec<Column>,
}

/// What becomes of the next field of a record.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Skip(NodeId),
    /// Into the column with that index.
    Read(usize),
}

/// What decoding needs besides the bytes.
pub(super) struct Context<'a> {
    pub(super) schema: &'a AvroSchema,
    /// How many more items that take no bytes a block may have: bytes can't bound them.
    pub(super) empty_items: usize,
}

const TOO_LARGE: Malformed = Malformed("avro values of one batch exceed 2^31 - 1 bytes or items");

fn offset(length: usize) -> Decoded<i32> {
    i32::try_from(length).map_err(|_| TOO_LARGE)
}

impl Bytes {
    pub(super) fn new() -> Self {
        Self { offsets: vec![0], data: Vec::new() }
    }

    fn push(&mut self, value: &[u8]) -> Decoded<()> {
        let end = offset(self.data.len().saturating_add(value.len()))?;
        self.data.extend_from_slice(value);
        self.offsets.push(end);
        Ok(())
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        let Bytes { offsets, data } = std::mem::replace(self, Self::new());
        (offset_buffer(offsets), Buffer::from_vec(data))
    }
}

impl Parts {
    /// Reads one record.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, context: &mut Context<'_>) -> Decoded<()> {
        for step in &self.steps {
            match step {
                Step::Skip(node) => context.schema.skip(*node, cursor)?,
                Step::Read(index) => {
                    if let Some(column) = self.columns.get_mut(*index) {
                        column.read(cursor, context)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The arrays of the records read since the last call.
    pub(super) fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        self.columns.iter_mut().map(Column::finish).collect()
    }
}

impl Column {
    pub(super) fn new(slot: Slot, values: Values) -> Self {
        Self { slot, validity: NullBufferBuilder::new(0), values }
    }

    pub(super) fn data_type(&self) -> DataType {
        match &self.values {
            Values::Null(_) => DataType::Null,
            Values::Boolean(_) => DataType::Boolean,
            Values::Int(_, t) | Values::Long(_, t) => t.clone(),
            Values::Float(_) => DataType::Float32,
            Values::Double(_) => DataType::Float64,
            Values::Bytes(_) => DataType::Binary,
            Values::Text(_) => DataType::Utf8,
            // The plan has checked that it fits.
            Values::Fixed { size, .. } => DataType::FixedSizeBinary(i32::try_from(*size).unwrap_or(i32::MAX)),
            Values::UuidText(_) => DataType::FixedSizeBinary(16),
            Values::Decimal { precision, scale, .. } => DataType::Decimal128(*precision, *scale),
            Values::Struct { fields, .. } => DataType::Struct(fields.clone()),
            Values::List { field, .. } => DataType::List(Arc::clone(field)),
            Values::Map { field, .. } => DataType::Map(Arc::clone(field), false),
        }
    }

    /// Whether a value may be null.
    pub(super) fn is_nullable(&self) -> bool {
        !self.slot.is_plain()
    }

    /// Reads one value.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, context: &mut Context<'_>) -> Decoded<()> {
        if !self.slot.is_present(cursor)? {
            return self.push_null();
        }
        self.validity.append_non_null();
        match &mut self.values {
            Values::Null(count) => *count += 1,
            Values::Boolean(values) => values.append(cursor.boolean()?),
            Values::Int(values, _) => values.push(cursor.int()?),
            Values::Long(values, _) => values.push(cursor.long()?),
            Values::Float(values) => values.push(cursor.float()?),
            Values::Double(values) => values.push(cursor.double()?),
            Values::Bytes(values) | Values::Text(values) => values.push(cursor.bytes()?)?,
            Values::Fixed { size, data } => data.extend_from_slice(cursor.take(*size)?),
            Values::UuidText(data) => {
                let uuid = Uuid::try_parse(cursor.string()?).map_err(|_| Malformed("not a UUID"))?;
                data.extend_from_slice(uuid.as_bytes());
            }
            Values::Decimal { values, size, .. } => {
                let bytes = match size {
                    Some(size) => cursor.take(*size)?,
                    None => cursor.bytes()?,
                };
                values.push(unscaled(bytes)?);
            }
            Values::Struct { parts, .. } => parts.read(cursor, context)?,
            Values::List { offsets, item, item_is_empty, .. } => {
                let mut length = last(offsets);
                loop {
                    let (count, _) = cursor.block()?;
                    if count == 0 {
                        break;
                    }
                    length = offset(length.saturating_add(count))? as usize;
                    if *item_is_empty {
                        context.empty_items = context
                            .empty_items
                            .checked_sub(count)
                            .ok_or(Malformed("avro block has more items than bytes"))?;
                    }
                    for _ in 0..count {
                        item.read(cursor, context)?;
                    }
                }
                offsets.push(offset(length)?);
            }
            Values::Map { offsets, key, value, .. } => {
                let mut length = last(offsets);
                loop {
                    let (count, _) = cursor.block()?;
                    if count == 0 {
                        break;
                    }
                    length = offset(length.saturating_add(count))? as usize;
                    for _ in 0..count {
                        key.read(cursor, context)?;
                        // No bitmap is made before the first null.
                        if key.validity.as_slice().is_some() {
                            return Err(Malformed("avro map has a null key"));
                        }
                        value.read(cursor, context)?;
                    }
                }
                offsets.push(offset(length)?);
            }
        }
        Ok(())
    }

    fn push_null(&mut self) -> Decoded<()> {
        self.validity.append_null();
        match &mut self.values {
            Values::Null(count) => *count += 1,
            Values::Boolean(values) => values.append(false),
            Values::Int(values, _) => values.push(0),
            Values::Long(values, _) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Bytes(values) | Values::Text(values) => values.push(&[])?,
            Values::Fixed { size, data } => {
                let length = offset(data.len().saturating_add(*size))? as usize;
                data.resize(length, 0);
            }
            Values::UuidText(data) => data.extend_from_slice(&[0; 16]),
            Values::Decimal { values, .. } => values.push(0),
            Values::Struct { parts, .. } => parts.columns.iter_mut().try_for_each(Column::push_null)?,
            Values::List { offsets, .. } | Values::Map { offsets, .. } => {
                offsets.push(offset(last(offsets))?);
            }
        }
        Ok(())
    }

    /// The array of the values read since the last call.
    fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.validity.len();
        let nulls = self.validity.finish();
        self.array(rows, nulls).map_err(|e| Error::invalid("the values make no array").with_source(e))
    }

    fn array(&mut self, rows: usize, nulls: Option<NullBuffer>) -> arrow::error::Result<ArrayRef> {
        use std::mem::take;
        Ok(match &mut self.values {
            Values::Null(count) => Arc::new(NullArray::new(take(count))),
            Values::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int(values, t) => {
                let array = Int32Array::try_new(ScalarBuffer::from(take(values)), nulls)?;
                retyped(Arc::new(array), t)?
            }
            Values::Long(values, t) => {
                let array = Int64Array::try_new(ScalarBuffer::from(take(values)), nulls)?;
                retyped(Arc::new(array), t)?
            }
            Values::Float(values) => {
                Arc::new(Float32Array::try_new(ScalarBuffer::from(take(values)), nulls)?)
            }
            Values::Double(values) => {
                Arc::new(Float64Array::try_new(ScalarBuffer::from(take(values)), nulls)?)
            }
            Values::Bytes(values) => {
                let (offsets, data) = values.take();
                Arc::new(BinaryArray::try_new(offsets, data, nulls)?)
            }
            Values::Text(values) => {
                let (offsets, data) = values.take();
                Arc::new(StringArray::try_new(offsets, data, nulls)?)
            }
            Values::Fixed { size, data } => fixed(*size, take(data), nulls, rows)?,
            Values::UuidText(data) => fixed(16, take(data), nulls, rows)?,
            Values::Decimal { values, precision, scale, .. } => {
                let array = Decimal128Array::try_new(ScalarBuffer::from(take(values)), nulls)?;
                Arc::new(array.with_precision_and_scale(*precision, *scale)?)
            }
            Values::Struct { parts, fields } => {
                let columns =
                    parts.finish().map_err(|e| arrow::error::ArrowError::ExternalError(e.into()))?;
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?)
            }
            Values::List { offsets, item, field, .. } => {
                let values = inner(item)?;
                let offsets = offset_buffer(std::mem::replace(offsets, vec![0]));
                Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls)?)
            }
            Values::Map { offsets, key, value, field, pair, .. } => {
                let pairs = StructArray::try_new(pair.clone(), vec![inner(key)?, inner(value)?], None)?;
                let offsets = offset_buffer(std::mem::replace(offsets, vec![0]));
                Arc::new(MapArray::try_new(Arc::clone(field), offsets, pairs, nulls, false)?)
            }
        })
    }
}

fn inner(column: &mut Column) -> arrow::error::Result<ArrayRef> {
    column.finish().map_err(|e| arrow::error::ArrowError::ExternalError(e.into()))
}

fn last(offsets: &[i32]) -> usize {
    offsets.last().and_then(|o| usize::try_from(*o).ok()).unwrap_or(0)
}

/// Offsets only ever grow, from 0.
fn offset_buffer(offsets: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

/// The same numbers as another type of the same width.
fn retyped(array: ArrayRef, t: &DataType) -> arrow::error::Result<ArrayRef> {
    if array.data_type() == t { Ok(array) } else { cast(&array, t) }
}

fn fixed(
    size: usize,
    data: Vec<u8>,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> arrow::error::Result<ArrayRef> {
    let size = i32::try_from(size).map_err(|e| arrow::error::ArrowError::ExternalError(e.into()))?;
    let data = Buffer::from_vec(data);
    let array = if size == 0 {
        FixedSizeBinaryArray::try_new_with_len(size, data, nulls, rows)?
    } else {
        FixedSizeBinaryArray::try_new(size, data, nulls)?
    };
    Ok(Arc::new(array))
}

/// A big-endian two's complement number, however long it was written.
fn unscaled(bytes: &[u8]) -> Decoded<i128> {
    let too_large = Malformed("avro decimal has more than 38 digits");
    let negative = bytes.first().ok_or(Malformed("avro decimal is empty"))? & 0x80 != 0;
    let fill = if negative { 0xff } else { 0 };
    let (head, tail) = bytes.split_at(bytes.len().saturating_sub(16));
    if head.iter().any(|b| *b != fill) {
        return Err(too_large);
    }
    let value = tail.iter().fold(if negative { -1i128 } else { 0 }, |v, b| (v << 8) | i128::from(*b));
    // The sign may have been in the part cut off.
    if (value < 0) == negative { Ok(value) } else { Err(too_large) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_any_length() {
        assert_eq!(unscaled(&[0x7f]), Ok(127));
        assert_eq!(unscaled(&[0xff, 0x7f]), Ok(-129));
        assert_eq!(unscaled(&[0xff; 20]), Ok(-1));
        let mut long = [0u8; 20];
        long[19] = 5;
        assert_eq!(unscaled(&long), Ok(5));
        long[0] = 1;
        assert!(unscaled(&long).is_err());
        let mut wide = [0u8; 17];
        wide[1] = 0x80;
        assert!(unscaled(&wide).is_err(), "2^127");
        assert!(unscaled(&[]).is_err());
    }
}
