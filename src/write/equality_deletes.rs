//! Equality delete files (spec, "Equality Delete Files").

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::data_files::{WriteOptions, check_delete_format};
use super::fanout::FanoutWriter;
use super::parquet_file::ParquetFormat;
use super::partition::PartitionSplitter;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    ContentFile, ContentType, FieldId, NestedField, PartitionValues, Schema, StructType, TableProperties,
    Transform, Type,
};
use crate::table::Table;

/// Writes keys of deleted rows to equality delete files: they delete the rows that older snapshots
/// added, in their partition, or everywhere if the spec has no partitions.
pub struct EqualityDeleteWriter {
    files: FanoutWriter,
    ids: Vec<FieldId>,
    /// Whether partitions can be told from keys.
    knows_partitions: bool,
    place: String,
}

impl EqualityDeleteWriter {
    /// Keys are the values of these fields.
    ///
    /// # Errors
    /// `Unsupported` for a table of version 1; `DataInvalid` for no fields, ones that don't exist, and
    /// such as are not of primitive types or lie in lists or maps.
    pub fn new(table: &Table, equality_ids: &[FieldId], options: &WriteOptions) -> Result<Self> {
        Self::make(table, equality_ids, options).context(|| format!("table `{}`", table.name()))
    }

    fn make(table: &Table, equality_ids: &[FieldId], options: &WriteOptions) -> Result<Self> {
        check_delete_format(table)?;
        let metadata = table.metadata();
        if metadata.format_version < 2 {
            return Err(Error::unsupported("version 1 tables have no row-level deletes; upgrade it to 2"));
        }
        let schema = key_schema(metadata.current_schema(), equality_ids)?;
        let spec = options.spec(table)?;
        let knows_partitions = spec.fields.iter().all(|field| {
            let is_key = |id: &FieldId| equality_ids.contains(id);
            field.transform == Transform::Void || field.source_ids.iter().all(is_key)
        });
        let splitter = match knows_partitions {
            true => PartitionSplitter::new(&spec, table.partition_type(spec.spec_id)?, &schema)?,
            false => None,
        };
        let properties = TableProperties::new(&metadata.properties);
        let metrics = properties.metrics_config(&schema, metadata.default_sort_order())?;
        let format = Arc::new(ParquetFormat::new(&schema, &options.deletes(table)?, metrics)?);
        let names = options.names(table, "-deletes.parquet")?;
        let content = ContentType::EqualityDeletes;
        Ok(Self {
            files: FanoutWriter::new(table, format, spec, content, splitter, names, options.limits()),
            ids: equality_ids.to_vec(),
            knows_partitions,
            place: format!("table `{}`", table.name()),
        })
    }

    /// Adds keys: columns by name, as in the table, with nothing but the fields of the keys in
    /// structs.
    ///
    /// # Errors
    /// `DataInvalid` for keys of other types, and where they don't tell their partition: see
    /// [`EqualityDeleteWriter::write_to_partition`]; `Io` if they can't be written. The writer can't
    /// go on then, and is to be aborted.
    pub async fn write(&mut self, keys: &RecordBatch) -> Result<()> {
        if !self.knows_partitions {
            let message = "the keys don't hold all columns that the table is partitioned by, so their \
                           partition has to be given";
            return Err(Error::invalid(message).context(self.place.clone()));
        }
        self.files.write(keys).await.map_err(|e| e.context(self.place.clone()))
    }

    /// Adds keys of rows of that partition.
    ///
    /// # Errors
    /// As [`EqualityDeleteWriter::write`].
    pub async fn write_to_partition(&mut self, partition: PartitionValues, keys: &RecordBatch) -> Result<()> {
        self.files.write_to(partition, keys).await.map_err(|e| e.context(self.place.clone()))
    }

    /// Ends the files; none for no keys.
    ///
    /// # Errors
    /// `Io` if one can't be written: everything that was written is removed then.
    pub async fn close(self) -> Result<Vec<ContentFile>> {
        let mut files = self.files.close().await.map_err(|e| e.context(self.place))?;
        for file in &mut files {
            file.equality_ids = Some(self.ids.clone());
        }
        Ok(files)
    }

    /// Removes everything that was written.
    pub async fn abort(self) {
        self.files.abort().await;
    }
}

/// The schema with nothing but these fields.
fn key_schema(schema: &Schema, ids: &[FieldId]) -> Result<Schema> {
    if ids.is_empty() {
        return Err(Error::invalid("a key needs a field"));
    }
    for id in ids {
        let path =
            schema.path_of(*id).ok_or_else(|| Error::invalid(format!("there is no field {id} for a key")))?;
        let place = || format!("field `{}`", schema.full_name(*id).unwrap_or_default());
        if path.iter().any(|f| matches!(f.field_type, Type::List(_) | Type::Map(_) | Type::Variant)) {
            return Err(
                Error::invalid("a key can't be a list, map or variant, or lie in one").context(place())
            );
        }
        if path.last().is_none_or(|f| f.field_type.as_primitive().is_none()) {
            return Err(Error::invalid("a key can't be a struct; name the fields in it").context(place()));
        }
    }
    let fields = schema.fields().iter().filter_map(|field| only_keys(field, ids)).collect();
    Schema::new(schema.schema_id, fields, Vec::new())
}

fn only_keys(field: &NestedField, ids: &[FieldId]) -> Option<NestedField> {
    match &field.field_type {
        Type::Struct(s) => {
            let fields: Vec<_> = s.fields.iter().filter_map(|f| only_keys(f, ids)).collect();
            (!fields.is_empty())
                .then(|| NestedField { field_type: StructType::new(fields).into(), ..field.clone() })
        }
        _ => ids.contains(&field.id).then(|| field.clone()),
    }
}
