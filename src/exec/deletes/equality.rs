//! Equality deletes: one set of keys for all delete files with the same key columns and scope,
//! each key with the newest sequence number that deletes it; one probe a row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::HashMap;

use crate::arrow::to_arrow_type;
use crate::error::{Error, Result};
use crate::spec::{FieldId, NestedField, Schema, SchemaId, SequenceNumber, TableMetadata, Type};

/// The columns of a key.
#[derive(Debug)]
pub(crate) struct KeySchema {
    /// The columns that hold the key's fields.
    schema: Arc<Schema>,
    /// The names from the column down to each field of the key.
    paths: Vec<Vec<String>>,
    types: Vec<DataType>,
}

impl KeySchema {
    /// The columns for these fields: of the current schema, or of the newest that had them. Keys
    /// of dropped columns still delete (spec, "Equality Delete Files").
    pub(crate) fn new(metadata: &TableMetadata, ids: &[FieldId]) -> Result<Self> {
        let mut columns: Vec<NestedField> = Vec::new();
        let mut paths = Vec::new();
        let mut types = Vec::new();
        for id in ids {
            let path = schemas(metadata).find_map(|s| s.path_of(*id)).ok_or_else(|| {
                Error::invalid(format!("equality_ids holds {id}, a field that no schema of the table has"))
            })?;
            let (Some(column), Some(leaf)) = (path.first(), path.last()) else {
                return Err(Error::invalid(format!("field {id} has no path")));
            };
            let structs = path.iter().rev().skip(1).all(|f| matches!(f.field_type, Type::Struct(_)));
            if !structs || leaf.field_type.as_primitive().is_none() {
                return Err(Error::invalid(format!(
                    "equality_ids holds {id} (`{}`), which is no single value of a row",
                    leaf.name
                )));
            }
            types.push(to_arrow_type(&leaf.field_type)?);
            // A dropped column's name may have been given to another since.
            let name = key_column_name(column.id);
            let mut names: Vec<String> = path.iter().map(|f| f.name.clone()).collect();
            names[0].clone_from(&name);
            paths.push(names);
            if !columns.iter().any(|c| c.id == column.id) {
                columns.push(NestedField { name, required: false, ..(*column).clone() });
            }
        }
        let schema = Arc::new(Schema::new(SchemaId(0), columns, Vec::new())?);
        Ok(Self { schema, paths, types })
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub(crate) fn columns(&self) -> &[NestedField] {
        self.schema.fields()
    }

    /// The key's fields of a batch that has the key columns.
    fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut keys = Vec::with_capacity(self.paths.len());
        for (path, data_type) in self.paths.iter().zip(&self.types) {
            keys.push(at_path(batch, path, data_type)?);
        }
        Ok(keys)
    }
}

fn schemas(metadata: &TableMetadata) -> impl Iterator<Item = &Arc<Schema>> {
    std::iter::once(metadata.current_schema()).chain(metadata.schemas.values().rev())
}

/// What a key column is called in a scan; no user's column can have that name by accident.
pub(crate) fn key_column_name(id: FieldId) -> String {
    format!("\u{1}key_{id}")
}

/// The array at the end of a path of structs; null where a struct on the way is null.
fn at_path(batch: &RecordBatch, path: &[String], data_type: &DataType) -> Result<ArrayRef> {
    let lacks = || Error::invalid(format!("the scan lacks the key column {}", path.join(".")));
    let mut names = path.iter();
    let mut array =
        Arc::clone(batch.column_by_name(names.next().ok_or_else(lacks)?).ok_or_else(lacks)?);
    for name in names {
        let parent = array.as_struct_opt().ok_or_else(lacks)?;
        let child = parent.column_by_name(name).ok_or_else(lacks)?;
        array = match parent.nulls() {
            None => Arc::clone(child),
            Some(nulls) => {
                let hidden = BooleanArray::new(!nulls.inner(), None);
                arrow::compute::nullif(child, &hidden)
                    .map_err(|e| Error::invalid("a key can't be read").with_source(e))?
            }
        };
    }
    if array.data_type() == data_type {
        return Ok(array);
    }
    arrow::compute::cast(&array, data_type).map_err(|e| Error::invalid("a key can't be read").with_source(e))
}

/// Deleted keys.
#[derive(Debug)]
pub(crate) struct KeySet {
    schema: Arc<KeySchema>,
    keys: Keys,
}

/// The sequence number is the newest of the files that hold the key.
#[derive(Debug)]
enum Keys {
    /// One integer.
    Integer { values: HashMap<i64, i64>, null: Option<i64> },
    /// Anything else, as Arrow's row format: nulls are equal, floats are equal by their bits.
    Rows { converter: RowConverter, values: HashMap<Box<[u8]>, i64>, bytes: usize },
}

impl KeySet {
    pub(crate) fn new(schema: Arc<KeySchema>) -> Result<Self> {
        let keys = match schema.types.as_slice() {
            [DataType::Int32 | DataType::Int64 | DataType::Date32 | DataType::Timestamp(..)] => {
                Keys::Integer { values: HashMap::new(), null: None }
            }
            types => {
                let fields = types.iter().cloned().map(SortField::new).collect();
                let converter = RowConverter::new(fields)
                    .map_err(|e| Error::unsupported("keys of this type").with_source(e))?;
                Keys::Rows { converter, values: HashMap::new(), bytes: 0 }
            }
        };
        Ok(Self { schema, keys })
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        match &self.keys {
            Keys::Integer { values, .. } => values.capacity() * 17,
            Keys::Rows { values, bytes, .. } => values.capacity() * 25 + bytes,
        }
    }

    /// Adds the keys of a batch of a delete file.
    pub(crate) fn insert(&mut self, batch: &RecordBatch, number: SequenceNumber) -> Result<()> {
        let columns = self.schema.keys(batch)?;
        let number = number.0;
        match &mut self.keys {
            Keys::Integer { values, null } => {
                let column = integers(&columns)?;
                let column = column.as_primitive::<Int64Type>();
                for row in 0..column.len() {
                    if column.is_null(row) {
                        *null = (*null).max(Some(number));
                    } else {
                        let newest = values.entry(column.value(row)).or_insert(number);
                        *newest = (*newest).max(number);
                    }
                }
            }
            Keys::Rows { converter, values, bytes } => {
                let rows = converter.convert_columns(&columns).map_err(unreadable)?;
                for row in &rows {
                    match values.get_mut(row.as_ref()) {
                        Some(newest) => *newest = (*newest).max(number),
                        None => {
                            let key: Box<[u8]> = row.as_ref().into();
                            *bytes += key.len();
                            values.insert(key, number);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Clears the rows of `kept` whose key was deleted after `number`; says whether any was.
    fn remove(&self, batch: &RecordBatch, number: i64, kept: &mut [bool]) -> Result<bool> {
        let columns = self.schema.keys(batch)?;
        let mut any = false;
        let mut remove = |row: usize, newest: Option<i64>| {
            if newest.is_some_and(|newest| newest > number) {
                kept[row] = false;
                any = true;
            }
        };
        match &self.keys {
            Keys::Integer { values, null } => {
                let column = integers(&columns)?;
                let column = column.as_primitive::<Int64Type>();
                if column.null_count() == 0 {
                    for (row, value) in column.values().iter().enumerate() {
                        remove(row, values.get(value).copied());
                    }
                } else {
                    for row in 0..column.len() {
                        let newest = match column.is_null(row) {
                            true => *null,
                            false => values.get(&column.value(row)).copied(),
                        };
                        remove(row, newest);
                    }
                }
            }
            Keys::Rows { converter, values, .. } => {
                let rows = converter.convert_columns(&columns).map_err(unreadable)?;
                for (row, key) in rows.iter().enumerate() {
                    remove(row, values.get(key.as_ref()).copied());
                }
            }
        }
        Ok(any)
    }
}

fn unreadable(e: arrow::error::ArrowError) -> Error {
    Error::invalid("a key can't be read").with_source(e)
}

/// The only key column, as 64-bit integers.
fn integers(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let [column] = columns else {
        return Err(Error::invalid("a key of one column has several"));
    };
    let as_long = |array: &ArrayRef| {
        arrow::compute::cast(array, &DataType::Int64).map_err(unreadable)
    };
    match column.data_type() {
        DataType::Int64 => Ok(Arc::clone(column)),
        DataType::Date32 => as_long(&(Arc::new(column.as_primitive::<arrow::datatypes::Date32Type>()
            .reinterpret_cast::<Int32Type>()) as ArrayRef)),
        _ => as_long(column),
    }
}

/// The equality deletes that apply to one data file.
#[derive(Debug)]
pub(crate) struct EqualityFilter {
    sets: Vec<Arc<KeySet>>,
    /// The data file's data sequence number: only newer deletes count.
    number: i64,
}

impl EqualityFilter {
    pub(crate) fn new(sets: Vec<Arc<KeySet>>, number: SequenceNumber) -> Self {
        Self { sets, number: number.0 }
    }

    /// The names of the key columns that [`EqualityFilter::apply`] needs.
    pub(crate) fn key_columns(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.sets.iter().flat_map(|s| s.schema.columns()).map(|f| f.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The rows of a batch that are left, and how many were deleted.
    ///
    /// # Errors
    /// `DataInvalid` where a key column is missing or has another type.
    pub(crate) fn apply(&self, batch: RecordBatch) -> Result<(RecordBatch, usize)> {
        let mut kept = vec![true; batch.num_rows()];
        let mut any = false;
        for set in &self.sets {
            any |= set.remove(&batch, self.number, &mut kept)?;
        }
        if !any {
            return Ok((batch, 0));
        }
        let mut mask = BooleanBufferBuilder::new(kept.len());
        mask.append_slice(&kept);
        let mask = BooleanArray::new(mask.finish(), None);
        let left = filter_record_batch(&batch, &mask)
            .map_err(|e| Error::invalid("deleted rows can't be taken out").with_source(e))?;
        let deleted = batch.num_rows() - left.num_rows();
        Ok((left, deleted))
    }
}
