//! Equality deletes: one set of keys for all delete files with the same key columns and scope,
//! each key with the newest sequence number that deletes it; one probe a row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use arrow::row::{Row, RowConverter, SortField};
use datafusion::common::HashMap;

use crate::arrow::to_arrow_field;
use crate::error::{Error, Result};
use crate::spec::{FieldId, NestedField, Schema, SchemaId, SequenceNumber, StructType, TableMetadata, Type};

use super::probe::IntegerKeys;

/// The columns of a key, in delete files and in the scan.
#[derive(Debug)]
pub(crate) struct KeySchema {
    /// What is read of a delete file: the key's fields and the structs around them.
    schema: Arc<Schema>,
    /// The names from the column down to each field of the key.
    paths: Vec<Vec<String>>,
    types: Vec<DataType>,
    /// Columns that the scan's schema lacks.
    dropped: Vec<NestedField>,
}

impl KeySchema {
    /// The columns for these fields: of the schema that is read, or of the newest that had them.
    /// Keys of dropped columns still delete (spec, "Equality Delete Files").
    ///
    /// # Errors
    /// `DataInvalid` for a field that no schema has or that is no single value of a row;
    /// `Unsupported` for a field that was dropped out of a struct that is still there.
    pub(crate) fn new(metadata: &TableMetadata, read: &Schema, ids: &[FieldId]) -> Result<Self> {
        let mut columns: Vec<NestedField> = Vec::new();
        let mut dropped: Vec<NestedField> = Vec::new();
        let mut paths = Vec::new();
        let mut types = Vec::new();
        for id in ids {
            let older = std::iter::once(metadata.current_schema()).chain(metadata.schemas.values().rev());
            let mut schemas = std::iter::once(read).chain(older.map(Arc::as_ref));
            let path = schemas.find_map(|s| s.path_of(*id)).ok_or_else(|| {
                Error::invalid(format!("equality_ids holds {id}, a field that no schema of the table has"))
            })?;
            let (Some(column), Some(leaf)) = (path.first(), path.last()) else {
                return Err(Error::invalid(format!("field {id} has no path")));
            };
            let in_structs = path.iter().rev().skip(1).all(|f| matches!(f.field_type, Type::Struct(_)));
            if !in_structs || leaf.field_type.as_primitive().is_none() {
                return Err(Error::invalid(format!(
                    "equality_ids holds {id} (`{}`), which is no single value of a row",
                    leaf.name
                )));
            }
            let is_read = read.field_by_id(*id).is_some();
            if !is_read && read.field_by_id(column.id).is_some() {
                return Err(Error::unsupported(format!(
                    "an equality delete of field `{}`, which was dropped from the struct `{}`; rewrite the \
                     table's data files with the engine that wrote it",
                    leaf.name, column.name
                )));
            }
            // A dropped column's name may have been given to another since.
            let name = if is_read { column.name.clone() } else { dropped_column_name(column.id) };
            if !is_read && !dropped.iter().any(|c| c.id == column.id) {
                dropped.push(NestedField { name: name.clone(), required: false, ..(*column).clone() });
            }
            types.push(to_arrow_field(leaf)?.data_type().clone());
            let below = path.iter().skip(1).map(|f| f.name.clone());
            paths.push(std::iter::once(name.clone()).chain(below).collect());
            if !columns.iter().any(|c| c.id == column.id) {
                columns.push(NestedField { name, ..only_keys(column, ids) });
            }
        }
        let schema = Arc::new(Schema::new(SchemaId(0), columns, Vec::new())?);
        Ok(Self { schema, paths, types, dropped })
    }

    /// What is read of a delete file.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The names of the key's columns, if all of them are columns of the table themselves.
    pub(crate) fn flat_columns(&self) -> Option<Vec<&str>> {
        self.paths
            .iter()
            .map(|path| match path.as_slice() {
                [name] => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Whether a join finds the same rows: fields of structs are no columns to join by, and joins take
    /// 0.0 and -0.0 for the same.
    pub(crate) fn can_be_joined(&self) -> bool {
        self.flat_columns().is_some() && !self.types.iter().any(DataType::is_floating)
    }

    /// Bytes that a key takes in a set, roughly, where its texts take no more than in their file.
    pub(crate) fn bytes_a_key(&self) -> u64 {
        match self.types.as_slice() {
            [one] if IntegerKeys::takes(one) => 36,
            types => 48 + 9 * types.len() as u64,
        }
    }

    /// Columns that the scan has to read although its schema lacks them.
    pub(crate) fn dropped_columns(&self) -> &[NestedField] {
        &self.dropped
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

/// The field with nothing below it but key fields, all of them optional: delete files hold no more.
fn only_keys(field: &NestedField, ids: &[FieldId]) -> NestedField {
    fn holds(field: &NestedField, ids: &[FieldId]) -> bool {
        ids.contains(&field.id) || field.field_type.children().into_iter().any(|f| holds(f, ids))
    }
    let field_type = match &field.field_type {
        Type::Struct(s) => {
            let kept = s.fields.iter().filter(|f| holds(f, ids)).map(|f| only_keys(f, ids));
            Type::Struct(StructType::new(kept.collect()))
        }
        other => other.clone(),
    };
    NestedField { required: false, field_type, ..field.clone() }
}

/// What a dropped key column is called in a scan; no user's column has that name by accident.
fn dropped_column_name(id: FieldId) -> String {
    format!("\u{1}dropped_{id}")
}

/// The array at the end of a path of structs; null where a struct on the way is null.
fn at_path(batch: &RecordBatch, path: &[String], data_type: &DataType) -> Result<ArrayRef> {
    let lacks = || Error::invalid(format!("the scan lacks the key column {}", path.join(".")));
    let mut names = path.iter();
    let mut array = Arc::clone(batch.column_by_name(names.next().ok_or_else(lacks)?).ok_or_else(lacks)?);
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

#[derive(Debug)]
enum Keys {
    /// One integer.
    Integer(IntegerKeys),
    /// Anything else, as Arrow's row format: nulls are equal, floats are equal by their bits. The
    /// sequence number is the newest of the files that hold the key.
    Rows { converter: RowConverter, values: HashMap<Box<[u8]>, i64>, bytes: usize },
}

impl KeySet {
    pub(crate) fn new(schema: Arc<KeySchema>) -> Result<Self> {
        let keys = match schema.types.as_slice() {
            [one] if IntegerKeys::takes(one) => Keys::Integer(IntegerKeys::default()),
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
            Keys::Integer(keys) => keys.memory(),
            Keys::Rows { values, bytes, .. } => values.capacity() * 25 + bytes,
        }
    }

    /// Adds the keys of a batch of a delete file.
    pub(crate) fn insert(&mut self, batch: &RecordBatch, number: SequenceNumber) -> Result<()> {
        let columns = self.schema.keys(batch)?;
        let number = number.0;
        match &mut self.keys {
            Keys::Integer(keys) => keys.insert(only(&columns)?, number)?,
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

    /// To be called when all keys are there, and before any look-up.
    pub(crate) fn finish(&mut self) {
        if let Keys::Integer(keys) = &mut self.keys {
            keys.finish();
        }
    }

    /// Which rows of a batch have a key that was not deleted after `number`; `None`: all.
    fn live(&self, batch: &RecordBatch, number: i64) -> Result<Option<BooleanBuffer>> {
        let columns = self.schema.keys(batch)?;
        match &self.keys {
            Keys::Integer(keys) => keys.live(only(&columns)?, number),
            Keys::Rows { converter, values, .. } => {
                let rows = converter.convert_columns(&columns).map_err(unreadable)?;
                let is_live = |row: Row<'_>| values.get(row.as_ref()).is_none_or(|newest| *newest <= number);
                let live: BooleanBuffer = rows.iter().map(is_live).collect();
                Ok((live.count_set_bits() < live.len()).then_some(live))
            }
        }
    }
}

fn unreadable(e: arrow::error::ArrowError) -> Error {
    Error::invalid("a key can't be read").with_source(e)
}

fn only(columns: &[ArrayRef]) -> Result<&ArrayRef> {
    match columns {
        [column] => Ok(column),
        _ => Err(Error::invalid("a key of one column has several")),
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

    /// The names of the key columns that [`EqualityFilter::live`] needs.
    pub(crate) fn key_columns(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.sets.iter().flat_map(|s| s.schema.schema().fields()).map(|f| f.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Which rows of a batch that has the key columns are left; `None`: all.
    ///
    /// # Errors
    /// `DataInvalid` where a key column is missing or has another type.
    pub(crate) fn live(&self, batch: &RecordBatch) -> Result<Option<BooleanBuffer>> {
        let mut live = None;
        for set in &self.sets {
            live = both(live, set.live(batch, self.number)?);
        }
        Ok(live)
    }
}

/// What both leave; `None` is all rows.
pub(crate) fn both(one: Option<BooleanBuffer>, other: Option<BooleanBuffer>) -> Option<BooleanBuffer> {
    match (one, other) {
        (Some(one), Some(other)) => Some(&one & &other),
        (one, other) => one.or(other),
    }
}
