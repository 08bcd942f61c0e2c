//! Batches in the exact types of a file.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::parquet_schema::FileSchema;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{NestedField, Type};

/// The batch with the columns of the file, found by name. Columns in another Arrow type of the same
/// meaning (`Utf8` for `Utf8View`, dictionaries, other names of fields in lists) are taken; those of
/// the exact type are not copied.
///
/// # Errors
/// `DataInvalid` for a missing column, one that the file does not have, one of another type, and
/// nulls in a required field; it names the column.
pub(super) fn conform(batch: &RecordBatch, schema: &FileSchema) -> Result<RecordBatch> {
    let given = batch.schema_ref();
    if given.fields() == schema.arrow.fields() {
        return Ok(batch.clone());
    }
    for field in given.fields() {
        let is_known = schema.fields.iter().any(|f| f.name == *field.name());
        if !is_known && field.data_type() != &DataType::Null {
            return Err(Error::invalid(format!("there is no column `{}` to write to", field.name())));
        }
    }
    let mut columns = Vec::with_capacity(schema.fields.len());
    for (i, (field, target)) in schema.fields.iter().zip(schema.arrow.fields()).enumerate() {
        let in_place = given.fields().get(i).is_some_and(|f| *f.name() == field.name).then_some(i);
        let index = in_place.or_else(|| given.fields().iter().position(|f| *f.name() == field.name));
        let array = index.and_then(|i| batch.columns().get(i)).ok_or_else(|| {
            Error::invalid(format!("the rows to be written have no column `{}`", field.name))
        })?;
        let place = || format!("column `{}`", field.name);
        let array = to_type(array, field, target.data_type()).context(place)?;
        if field.required && array.logical_null_count() > 0 {
            return Err(Error::invalid("a required column has nulls").context(place()));
        }
        columns.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(&schema.arrow), columns, &options).map_err(unusable)
}

/// The array in the type of the file.
fn to_type(array: &ArrayRef, field: &NestedField, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    if let DataType::Dictionary(_, values) = array.data_type() {
        return to_type(&cast_to(array, values)?, field, target);
    }
    let mismatch = || {
        let given = array.data_type();
        Error::invalid(format!("values of Arrow's {given} are not of type {}", field.field_type))
    };
    let member = |child: &NestedField, array: &ArrayRef, target: &DataType| {
        to_type(array, child, target).context(|| format!("field `{}`", child.name))
    };
    match (&field.field_type, target) {
        (Type::Primitive(_), _) if is_same_kind(array.data_type(), target) => cast_to(array, target),
        (Type::Struct(s), DataType::Struct(fields)) => {
            let given = array.as_struct_opt().ok_or_else(mismatch)?;
            let mut columns = Vec::with_capacity(fields.len());
            for (child, target) in s.fields.iter().zip(fields) {
                let array = given.column_by_name(&child.name).ok_or_else(|| {
                    Error::invalid(format!("the rows to be written have no field `{}`", child.name))
                })?;
                columns.push(member(child, array, target.data_type())?);
            }
            let nulls = given.nulls().cloned();
            made(StructArray::try_new_with_length(fields.clone(), columns, nulls, given.len()))
        }
        (Type::Variant, DataType::Struct(parts)) => {
            let given = array.as_struct_opt().ok_or_else(mismatch)?;
            if given.num_columns() != parts.len() {
                return Err(Error::unsupported("shredded variants can't be written; make them whole first"));
            }
            let mut columns = Vec::with_capacity(parts.len());
            for part in parts {
                let array = given.column_by_name(part.name()).ok_or_else(mismatch)?;
                if !is_same_kind(array.data_type(), part.data_type()) {
                    return Err(mismatch());
                }
                columns.push(cast_to(array, part.data_type())?);
            }
            let nulls = given.nulls().cloned();
            made(StructArray::try_new_with_length(parts.clone(), columns, nulls, given.len()))
        }
        (Type::List(l), DataType::List(element)) => {
            let list = match array.data_type() {
                DataType::List(_) => Arc::clone(array),
                DataType::LargeList(given)
                | DataType::FixedSizeList(given, _)
                | DataType::ListView(given)
                | DataType::LargeListView(given) => cast_to(array, &DataType::List(Arc::clone(given)))?,
                _ => return Err(mismatch()),
            };
            let list = list.as_list_opt::<i32>().ok_or_else(mismatch)?;
            let values = member(&l.element, list.values(), element.data_type())?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            made(ListArray::try_new(Arc::clone(element), offsets, values, nulls))
        }
        (Type::Map(m), DataType::Map(entries, sorted)) => {
            let map = array.as_map_opt().ok_or_else(mismatch)?;
            let DataType::Struct(pair) = entries.data_type() else { return Err(mismatch()) };
            let [key, value] = pair.as_ref() else { return Err(mismatch()) };
            let keys = member(&m.key, map.keys(), key.data_type())?;
            let values = member(&m.value, map.values(), value.data_type())?;
            let pairs = StructArray::try_new(pair.clone(), vec![keys, values], None).map_err(unusable)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            made(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted))
        }
        _ => Err(mismatch()),
    }
}

/// Whether the types differ only in how Arrow holds the values.
fn is_same_kind(given: &DataType, target: &DataType) -> bool {
    use DataType as D;
    let is_text = |t: &D| matches!(t, D::Utf8 | D::LargeUtf8 | D::Utf8View);
    let is_bytes = |t: &D| matches!(t, D::Binary | D::LargeBinary | D::BinaryView);
    match (given, target) {
        (D::Timestamp(unit, Some(_)), D::Timestamp(target, Some(_))) => unit == target,
        _ => given == target || is_text(given) && is_text(target) || is_bytes(given) && is_bytes(target),
    }
}

fn cast_to(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    // What does not fit is an error, not null.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, target, &options).map_err(unusable)
}

fn made(array: Result<impl Array + 'static, ArrowError>) -> Result<ArrayRef> {
    array.map(|array| Arc::new(array) as ArrayRef).map_err(unusable)
}

fn unusable(error: ArrowError) -> Error {
    Error::invalid("the rows can't be written").with_source(error)
}
