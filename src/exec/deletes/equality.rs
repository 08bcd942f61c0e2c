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
use crate::spec::{FieldId, NestedField, Schema, SchemaId, SequenceNumber, TableMetadata, Type};

use super::super::struct_keys::{StructKeys, add_path, name_in};
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
    /// Columns with the fields of structs that the scan's schema lacks.
    struct_keys: Vec<StructKeys>,
}

impl KeySchema {
    /// The columns for these fields: of the schema that is read, or of the newest that had them.
    /// Keys of dropped fields still delete (spec, "Equality Delete Files").
    ///
    /// # Errors
    /// `DataInvalid` for a field that no schema has or that is no single value of a row.
    pub(crate) fn new(metadata: &TableMetadata, read: &Schema, ids: &[FieldId]) -> Result<Self> {
        let mut fields = Vec::with_capacity(ids.len());
        // Columns out of which a key field was dropped.
        let mut incomplete: Vec<FieldId> = Vec::new();
        for id in ids {
            let older = std::iter::once(metadata.current_schema()).chain(metadata.schemas.values().rev());
            let mut schemas = std::iter::once(read).chain(older.map(Arc::as_ref));
            let path = schemas.find_map(|s| s.path_of(*id)).ok_or_else(|| {
                Error::invalid(format!("equality_ids holds {id}, a field that no schema of the table has"))
            })?;
            let (Some(column), Some(leaf)) = (path.first().copied(), path.last().copied()) else {
                return Err(Error::invalid(format!("field {id} has no path")));
            };
            let in_structs = path.iter().rev().skip(1).all(|f| matches!(f.field_type, Type::Struct(_)));
            if !in_structs || leaf.field_type.as_primitive().is_none() {
                return Err(Error::invalid(format!(
                    "equality_ids holds {id} (`{}`), which is no single value of a row",
                    leaf.name
                )));
            }
            if path.len() > 1 && read.field_by_id(*id).is_none() {
                incomplete.push(column.id);
            }
            fields.push((path, column, leaf));
        }
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let scan_name = |column: &NestedField| match incomplete.contains(&column.id) {
            true => format!("\u{1}keys_{}_{}", column.id, list.join("_")),
            // A dropped column's name may have been given to another since.
            false => name_in(read, column),
        };
        let mut columns: Vec<NestedField> = Vec::new();
        let mut dropped: Vec<NestedField> = Vec::new();
        let mut paths = Vec::with_capacity(ids.len());
        let mut types = Vec::with_capacity(ids.len());
        for (path, column, leaf) in fields {
            if path.len() == 1 && read.field_by_id(column.id).is_none() {
                dropped.push(NestedField { name: scan_name(column), required: false, ..column.clone() });
            }
            types.push(to_arrow_field(leaf)?.data_type().clone());
            let below = path.iter().skip(1).map(|f| name_in(read, f));
            paths.push(std::iter::once(scan_name(column)).chain(below).collect());
            add_path(&mut columns, &path, read);
        }
        let mut struct_keys = Vec::new();
        for column in &mut columns {
            let name = scan_name(column);
            if incomplete.contains(&column.id) {
                struct_keys.push(StructKeys { name: name.clone(), column: column.clone() });
            }
            column.name = name;
        }
        let schema = Arc::new(Schema::new(SchemaId(0), columns, Vec::new())?);
        Ok(Self { schema, paths, types, dropped, struct_keys })
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

    /// Columns that the scan has to read for fields that were dropped out of structs.
    pub(crate) fn struct_keys(&self) -> &[StructKeys] {
        &self.struct_keys
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
