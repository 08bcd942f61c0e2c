//! Which partition each row belongs to.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray, UInt32Array, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::compute::take_record_batch;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use crate::arrow::{array_value, to_arrow_field, transform_array};
use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    FieldId, NestedField, PartitionSpec, PartitionValues, PrimitiveType, Schema, StructType, Transform, Type,
    Value,
};

/// Splits batches by the partition tuples of their rows.
#[derive(Debug)]
pub(super) struct PartitionSplitter {
    fields: Vec<SplitField>,
    rows: RowConverter,
}

#[derive(Debug)]
struct SplitField {
    name: String,
    column: SourceColumn,
    result: PrimitiveType,
}

/// A column of the table, at any depth, with what is made of its values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SourceColumn {
    pub(super) transform: Transform,
    /// The fields from the column down to the source.
    pub(super) path: Vec<String>,
    pub(super) source: PrimitiveType,
}

impl PartitionSplitter {
    /// For rows of that schema; `None` if all of them lie in one partition.
    ///
    /// # Errors
    /// `Unsupported` for a transform that is not known or has several arguments; `DataInvalid` for a
    /// source column that is not there.
    pub(super) fn new(
        spec: &PartitionSpec,
        partition_type: &StructType,
        schema: &Schema,
    ) -> Result<Option<Self>> {
        if spec.is_unpartitioned() {
            return Ok(None);
        }
        let mut fields = Vec::with_capacity(spec.fields.len());
        let mut sort_fields = Vec::with_capacity(spec.fields.len());
        for (field, result) in spec.fields.iter().zip(&partition_type.fields) {
            // Its source may be gone, and is not needed.
            if field.transform == Transform::Void {
                let column = SourceColumn {
                    transform: Transform::Void,
                    path: Vec::new(),
                    source: PrimitiveType::Unknown,
                };
                fields.push(SplitField { name: field.name.clone(), column, result: PrimitiveType::Unknown });
                continue;
            }
            let split = split_field(field, result, schema);
            let split = split.context(|| format!("partition field `{}`", field.name))?;
            sort_fields.push(SortField::new(split.column.result_type()?));
            fields.push(split);
        }
        let rows = RowConverter::new(sort_fields).map_err(not_split)?;
        Ok(Some(Self { fields, rows }))
    }

    /// The rows of each partition that is in the batch. What lies together stays together: it is
    /// not copied.
    ///
    /// # Errors
    /// `DataInvalid` for a batch of another schema.
    pub(super) fn split(&self, batch: &RecordBatch) -> Result<Vec<(PartitionValues, RecordBatch)>> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let mut columns = Vec::with_capacity(self.fields.len());
        for field in self.fields.iter().filter(|f| f.column.transform != Transform::Void) {
            let column = &field.column;
            let transformed = source_column(batch, &column.path)
                .and_then(|source| transform_array(&column.transform, &source, &column.source));
            columns.push(transformed.context(|| format!("partition field `{}`", field.name))?);
        }
        let keys = self.rows.convert_columns(&columns).map_err(not_split)?;
        // Runs of rows with one key, and the runs of each key.
        let mut groups: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut by_key: HashMap<&[u8], usize> = HashMap::new();
        let mut start = 0;
        let bytes: Vec<_> = keys.iter().collect();
        while let Some(key) = bytes.get(start) {
            let run = bytes.iter().skip(start).take_while(|other| *other == key).count();
            let group = *by_key.entry(key.data()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            if let Some(runs) = groups.get_mut(group) {
                runs.push((start, run));
            }
            start += run;
        }
        let mut result = Vec::with_capacity(groups.len());
        for runs in groups {
            let [(first, length), rest @ ..] = runs.as_slice() else { continue };
            let rows = if rest.is_empty() {
                batch.slice(*first, *length)
            } else {
                let indices = runs.iter().flat_map(|(start, length)| *start..start + length);
                // A batch has fewer than 2^32 rows: its arrays could not be taken from otherwise.
                let indices = UInt32Array::from_iter_values(indices.map(|i| i as u32));
                take_record_batch(batch, &indices).map_err(not_split)?
            };
            result.push((self.tuple(&columns, *first)?, rows));
        }
        Ok(result)
    }

    fn tuple(&self, columns: &[ArrayRef], row: usize) -> Result<PartitionValues> {
        let mut columns = columns.iter();
        let mut tuple = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let column = if field.column.transform == Transform::Void { None } else { columns.next() };
            let value = match column {
                Some(column) => array_value(column, row, &field.result)
                    .context(|| format!("partition field `{}`", field.name))?,
                None => None,
            };
            tuple.push(value.map(canonical));
        }
        Ok(tuple)
    }
}

/// All NaNs are one value.
fn canonical(value: Value) -> Value {
    match value {
        Value::Float(v) if v.is_nan() => Value::Float(f32::NAN),
        Value::Double(v) if v.is_nan() => Value::Double(f64::NAN),
        value => value,
    }
}

fn split_field(
    field: &crate::spec::PartitionField,
    result: &NestedField,
    schema: &Schema,
) -> Result<SplitField> {
    let column = SourceColumn::new(&field.source_ids, &field.transform, schema)?;
    let Type::Primitive(result) = &result.field_type else {
        return Err(Error::invalid("its values are not of a primitive type"));
    };
    Ok(SplitField { name: field.name.clone(), column, result: result.clone() })
}

impl SourceColumn {
    /// # Errors
    /// `Unsupported` for a transform that is not known or has several arguments; `DataInvalid` for a
    /// source column that is not there, or not of a primitive type.
    pub(super) fn new(source_ids: &[FieldId], transform: &Transform, schema: &Schema) -> Result<Self> {
        let [id] = source_ids else {
            let message = "transforms of several columns can't be applied; use one column each";
            return Err(Error::unsupported(message));
        };
        let path = schema.path_of(*id);
        let path = path.ok_or_else(|| Error::invalid(format!("there is no source column {id}")))?;
        let source = path.last().and_then(|f| f.field_type.as_primitive()).cloned();
        let source =
            source.ok_or_else(|| Error::invalid(format!("source column {id} is not of a primitive type")))?;
        if let Transform::Unknown(name) = transform {
            return Err(Error::unsupported(format!(
                "transform `{name}` is not known, so it can't be applied to rows"
            )));
        }
        let path = path.iter().map(|f| f.name.clone()).collect();
        Ok(Self { transform: transform.clone(), path, source })
    }

    /// The Arrow type of the transform's results.
    pub(super) fn result_type(&self) -> Result<DataType> {
        let name = self.path.last().map(String::as_str).unwrap_or_default();
        let mut source =
            to_arrow_field(&NestedField::optional(1, name, self.source.clone()))?.data_type().clone();
        // Within other types, strings and bytes are not views.
        if self.path.len() > 1 {
            source = match source {
                DataType::Utf8View => DataType::Utf8,
                DataType::BinaryView => DataType::Binary,
                other => other,
            };
        }
        let result = transform_array(&self.transform, &new_empty_array(&source), &self.source)?;
        Ok(result.data_type().clone())
    }
}

/// The column at that path, null where a struct on the way is.
fn source_column(batch: &RecordBatch, path: &[String]) -> Result<ArrayRef> {
    let missing = || Error::invalid(format!("the rows have no column `{}`", path.join(".")));
    let (first, rest) = path.split_first().ok_or_else(missing)?;
    below(batch.column_by_name(first).ok_or_else(missing)?.clone(), rest)
}

/// The field at that path in a column, null where a struct on the way is.
pub(super) fn below(mut column: ArrayRef, path: &[String]) -> Result<ArrayRef> {
    let missing = || Error::invalid(format!("the rows have no field `{}`", path.join(".")));
    for name in path {
        let parent = column.as_struct_opt().ok_or_else(missing)?;
        column = under(parent, parent.column_by_name(name).ok_or_else(missing)?)?;
    }
    Ok(column)
}

fn under(parent: &StructArray, child: &ArrayRef) -> Result<ArrayRef> {
    let nulls = NullBuffer::union(parent.nulls(), child.nulls());
    if nulls.as_ref() == child.nulls() {
        return Ok(Arc::clone(child));
    }
    let data = child.to_data().into_builder().nulls(nulls).build();
    data.map(arrow::array::make_array).map_err(not_split)
}

fn not_split(e: arrow::error::ArrowError) -> Error {
    Error::invalid("the rows can't be split by their partitions").with_source(e)
}
