//! Arrays as a file has them → arrays as the table's schema says.
//!
//! Struct fields are matched by name: by then the names of the file are the table's names for
//! the same field ids (see `field_ids`). Missing fields get their initial default, primitive
//! types are promoted, containers keep their layout. Shredded variants become whole.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::nullif::nullif;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;

use crate::arrow::{read_variants, value_to_scalar};
use crate::error::{Error, Result, ResultExt};
use crate::spec::{NestedField, PrimitiveType, Type, Value};

/// Whether values that a file holds as `physical` are values of `target`: the type itself, in any
/// of the forms that writers give it, or one that the specification lets be promoted to it.
pub(crate) fn is_readable(physical: &DataType, target: &PrimitiveType) -> bool {
    use DataType as D;
    use PrimitiveType as P;
    let is_bytes = |t: &DataType| {
        matches!(t, D::Utf8 | D::LargeUtf8 | D::Utf8View | D::Binary | D::LargeBinary | D::BinaryView)
    };
    match (target, physical) {
        // A column of nulls, as Avro writes it.
        (_, D::Null) => true,
        (target, D::Dictionary(_, values)) => is_readable(values, target),
        (P::Boolean, D::Boolean) => true,
        (P::Int, D::Int8 | D::Int16 | D::Int32 | D::UInt8 | D::UInt16) => true,
        (P::Long, D::Int8 | D::Int16 | D::Int32 | D::Int64 | D::UInt8 | D::UInt16 | D::UInt32) => true,
        (P::Float, D::Float16 | D::Float32) => true,
        (P::Double, D::Float16 | D::Float32 | D::Float64) => true,
        (
            P::Decimal { scale, .. },
            D::Decimal32(_, s) | D::Decimal64(_, s) | D::Decimal128(_, s) | D::Decimal256(_, s),
        ) => i64::from(*s) == i64::from(*scale),
        (P::Date, D::Date32) => true,
        (P::Time, D::Time32(_) | D::Time64(_)) => true,
        (P::Timestamp | P::TimestampNs, D::Date32) => true,
        (P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs, D::Timestamp(..)) => true,
        (P::String | P::Binary | P::Geometry { .. } | P::Geography { .. }, t) => is_bytes(t),
        (P::Uuid, D::FixedSizeBinary(16)) => true,
        (P::Fixed(length), D::FixedSizeBinary(n)) => u64::try_from(*n).ok() == Some(*length),
        _ => false,
    }
}

/// Reads an array of a file as the table's field.
///
/// # Errors
/// `DataInvalid` where the file's type can't be read as the table's, a value does not fit it, or
/// a required field is missing and has no default.
pub(crate) fn read_as(array: &ArrayRef, field: &NestedField, target: &Field) -> Result<ArrayRef> {
    convert(array, &field.field_type, target.data_type()).context(|| format!("field `{}`", field.name))
}

fn convert(array: &ArrayRef, field_type: &Type, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    let mismatch = || {
        Error::invalid(format!("the file holds {}, which can't be read as {field_type}", array.data_type()))
    };
    match (field_type, target) {
        (Type::Struct(s), DataType::Struct(fields)) => {
            let source = array.as_struct_opt().ok_or_else(mismatch)?;
            let mut columns = Vec::with_capacity(fields.len());
            for (child, target) in s.fields.iter().zip(fields) {
                columns.push(match source.column_by_name(&child.name) {
                    Some(column) => read_as(column, child, target)?,
                    // Readers of a child alone don't ask whether its struct is null.
                    None => hidden_by(source.nulls(), missing(child, target, array.len())?)?,
                });
            }
            let built = StructArray::try_new_with_length(
                fields.clone(),
                columns,
                source.nulls().cloned(),
                array.len(),
            );
            built.map(|a| Arc::new(a) as ArrayRef).map_err(not_built)
        }
        (Type::List(l), DataType::List(element)) => {
            let source = array.as_list_opt::<i32>().ok_or_else(mismatch)?;
            let values = read_as(source.values(), &l.element, element)?;
            let built = ListArray::try_new(
                Arc::clone(element),
                source.offsets().clone(),
                values,
                source.nulls().cloned(),
            );
            built.map(|a| Arc::new(a) as ArrayRef).map_err(not_built)
        }
        (Type::Map(m), DataType::Map(entries, ordered)) => {
            let source = array.as_map_opt().ok_or_else(mismatch)?;
            let DataType::Struct(parts) = entries.data_type() else {
                return Err(mismatch());
            };
            let [key, value] = parts.as_ref() else {
                return Err(mismatch());
            };
            let keys = read_as(source.keys(), &m.key, key)?;
            let values = read_as(source.values(), &m.value, value)?;
            let pairs = StructArray::try_new(parts.clone(), vec![keys, values], None).map_err(not_built)?;
            let built = MapArray::try_new(
                Arc::clone(entries),
                source.offsets().clone(),
                pairs,
                source.nulls().cloned(),
                *ordered,
            );
            built.map(|a| Arc::new(a) as ArrayRef).map_err(not_built)
        }
        (Type::Variant, DataType::Struct(_)) => read_variants(array),
        // A column whose type is unknown holds nothing but nulls.
        (Type::Primitive(PrimitiveType::Unknown), target) => Ok(new_null_array(target, array.len())),
        (Type::Primitive(p), target) if is_readable(array.data_type(), p) => {
            let options = CastOptions { safe: false, ..Default::default() };
            cast_with_options(array, target, &options).map_err(|e| mismatch().with_source(e))
        }
        _ => Err(mismatch()),
    }
}

/// The array with nulls wherever its struct is null.
fn hidden_by(parent: Option<&NullBuffer>, array: ArrayRef) -> Result<ArrayRef> {
    match parent {
        Some(nulls) if nulls.null_count() > 0 && array.data_type() != &DataType::Null => {
            let hidden = BooleanArray::new(!nulls.inner(), None);
            nullif(&array, &hidden).map_err(not_built)
        }
        _ => Ok(array),
    }
}

fn not_built(e: arrow::error::ArrowError) -> Error {
    Error::invalid("the file's values break the table's schema").with_source(e)
}

pub(crate) fn missing(field: &NestedField, target: &Field, rows: usize) -> Result<ArrayRef> {
    let value = missing_value(field, target)?;
    if value.is_null() {
        return Ok(new_null_array(target.data_type(), rows));
    }
    value.to_array_of_size(rows).map_err(|e| Error::invalid("the default can't be used").with_source(e))
}

/// The value of a field that a file does not have: its initial default, else null.
///
/// # Errors
/// `DataInvalid` for a required field without a default.
pub(crate) fn missing_value(field: &NestedField, target: &Field) -> Result<ScalarValue> {
    let value = default_value(field);
    if value.is_none() && field.required {
        return Err(Error::invalid("the file lacks this required field, which has no initial default")
            .context(format!("field `{}`", field.name)));
    }
    value_to_scalar(value.as_ref(), &field.field_type, target.data_type())
        .context(|| format!("initial default of field `{}`", field.name))
}

/// A struct's default only says that it is there; its fields' own defaults fill it (spec,
/// "Default values").
fn default_value(field: &NestedField) -> Option<Value> {
    match (&field.initial_default, &field.field_type) {
        (Some(_), Type::Struct(s)) => Some(Value::Struct(s.fields.iter().map(default_value).collect())),
        (default, _) => default.clone(),
    }
}
