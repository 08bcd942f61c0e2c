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
    NestedField, PartitionSpec, PartitionValues, PrimitiveType, Schema, StructType, Transform, Type, Value,
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
    transform: Transform,
    /// The fields from the column down to the source.
    path: Vec<String>,
    source: PrimitiveType,
    result: PrimitiveType,
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
                let void = SplitField {
                    name: field.name.clone(),
                    transform: Transform::Void,
                    path: Vec::new(),
                    source: PrimitiveType::Unknown,
                    result: PrimitiveType::Unknown,
                };
                fields.push(void);
                continue;
            }
            let split = split_field(field, result, schema);
            let split = split.context(|| format!("partition field `{}`", field.name))?;
            sort_fields.push(SortField::new(result_type(&split)?));
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
        for field in self.fields.iter().filter(|f| f.transform != Transform::Void) {
            let transformed = source_column(batch, &field.path)
                .and_then(|source| transform_array(&field.transform, &source, &field.source));
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
            let column = if field.transform == Transform::Void { None } else { columns.next() };
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
    let id = field.source_id().ok_or_else(|| {
        Error::unsupported("transforms of several columns can't be applied; partition by one column each")
    })?;
    let path = schema.path_of(id).ok_or_else(|| Error::invalid(format!("there is no source column {id}")))?;
    let source = path.last().and_then(|f| f.field_type.as_primitive()).cloned();
    let (Some(source), Type::Primitive(result)) = (source, &result.field_type) else {
        return Err(Error::invalid(format!("source column {id} is not of a primitive type")));
    };
    if let Transform::Unknown(name) = &field.transform {
        return Err(Error::unsupported(format!(
            "transform `{name}` is not known, so rows can't be partitioned"
        )));
    }
    let path = path.iter().map(|f| f.name.clone()).collect();
    Ok(SplitField {
        name: field.name.clone(),
        transform: field.transform.clone(),
        path,
        source,
        result: result.clone(),
    })
}

/// The Arrow type of the transform's results.
fn result_type(field: &SplitField) -> Result<DataType> {
    let name = field.path.last().map(String::as_str).unwrap_or_default();
    let mut source =
        to_arrow_field(&NestedField::optional(1, name, field.source.clone()))?.data_type().clone();
    // Within other types, strings and bytes are not views.
    if field.path.len() > 1 {
        source = match source {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            other => other,
        };
    }
    let result = transform_array(&field.transform, &new_empty_array(&source), &field.source)?;
    Ok(result.data_type().clone())
}

/// The column at that path, null where a struct on the way is.
fn source_column(batch: &RecordBatch, path: &[String]) -> Result<ArrayRef> {
    let missing = || Error::invalid(format!("the rows have no column `{}`", path.join(".")));
    let (first, rest) = path.split_first().ok_or_else(missing)?;
    let mut column = batch.column_by_name(first).ok_or_else(missing)?.clone();
    for name in rest {
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
