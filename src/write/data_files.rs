//! The way in: rows of a table to data files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use uuid::Uuid;

use super::fanout::{FanoutWriter, Limits};
use super::location::FileNames;
use super::parquet_file::ParquetFormat;
use super::partition::PartitionSplitter;
use super::settings::ParquetSettings;
use crate::error::{Error, Result, ResultExt};
use crate::exec::lineage_fields;
use crate::spec::{
    ContentFile, ContentType, FileFormat, PartitionSpec, PartitionValues, Schema, SortOrderId, SpecId,
    TableProperties,
};
use crate::table::Table;

/// The column of row ids in data files (spec, "Row Lineage").
pub const ROW_ID_COLUMN: &str = crate::exec::ROW_ID;
/// The column of the sequence numbers at which rows were last changed.
pub const LAST_UPDATED_COLUMN: &str = crate::exec::LAST_UPDATED_SEQUENCE_NUMBER;

/// How data and delete files are written; the rest is said by the table's properties.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// The partition spec of the files; the table's default unless given.
    pub spec_id: Option<SpecId>,
    /// The number of the stream of rows, of several that are written at once: a part of the names of
    /// files.
    pub partition: usize,
    /// The number of the attempt: a part of the names of files.
    pub task: u64,
    /// What all files of one operation have in their names; new unless given.
    pub operation: Option<Uuid>,
    /// The order that the rows have in each partition, which is not checked: unsorted unless given.
    pub sort_order_id: Option<SortOrderId>,
    /// Whether rows come with their ids and the sequence numbers of their last changes, in the
    /// columns [`ROW_ID_COLUMN`] and [`LAST_UPDATED_COLUMN`] (both optional longs): for rows that
    /// are moved to another file of a v3 table.
    pub row_lineage: bool,
    /// How many files are open at a time; further ones are ended before their time. 1 will do for
    /// rows that are sorted by partition.
    pub max_open_files: usize,
    /// How many bytes of unfinished row groups are kept in memory if several files are open.
    pub max_memory: usize,
    /// How large files get, in bytes; by the table's properties unless given.
    pub target_file_size: Option<u64>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            spec_id: None,
            partition: 0,
            task: 0,
            operation: None,
            sort_order_id: None,
            row_lineage: false,
            max_open_files: 128,
            max_memory: 512 * 1024 * 1024,
            target_file_size: None,
        }
    }
}

impl WriteOptions {
    pub(super) fn names(&self, table: &Table, suffix: &'static str) -> Result<FileNames> {
        let operation = self.operation.unwrap_or_else(Uuid::new_v4);
        FileNames::new(table.metadata(), self.partition, self.task, operation, suffix)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { open_files: self.max_open_files, memory: self.max_memory }
    }

    pub(super) fn spec(&self, table: &Table) -> Result<Arc<PartitionSpec>> {
        let metadata = table.metadata();
        let id = self.spec_id.unwrap_or(metadata.default_spec_id);
        let spec = metadata.partition_specs.get(&id).cloned();
        spec.ok_or_else(|| {
            Error::invalid(format!("there is no partition spec {id}"))
                .context(format!("table `{}`", table.name()))
        })
    }

    fn data(&self, table: &Table) -> Result<ParquetSettings> {
        let properties = TableProperties::new(&table.metadata().properties);
        Ok(ParquetSettings {
            parquet: properties.parquet()?,
            target_file_size: self.target_file_size.map_or_else(|| properties.target_file_size(), Ok)?,
        })
    }

    pub(super) fn deletes(&self, table: &Table) -> Result<ParquetSettings> {
        let properties = TableProperties::new(&table.metadata().properties);
        Ok(ParquetSettings {
            parquet: properties.delete_parquet()?,
            target_file_size: self
                .target_file_size
                .map_or_else(|| properties.delete_target_file_size(), Ok)?,
        })
    }
}

/// Writes rows to new data files of a table.
///
/// The rows of every batch go to the files of their partitions by the table's spec; files are of
/// the size that the table asks for, and have full metrics. Nobody sees the files before they are
/// committed.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow::array::RecordBatch;
/// # use icefloe::{Result, spec::ContentFile, table::Table};
/// use icefloe::write::{DataFileWriter, WriteOptions};
///
/// # async fn example(table: &Table, batches: Vec<RecordBatch>) -> Result<Vec<ContentFile>> {
/// let mut writer = DataFileWriter::new(table, WriteOptions::default())?;
/// for batch in &batches {
///     if let Err(e) = writer.write(batch).await {
///         writer.abort().await;
///         return Err(e);
///     }
/// }
/// let files = writer.close().await?;
/// # Ok(files)
/// # }
/// ```
///
/// One that is dropped removes the files that it wrote in the background, if there is a runtime;
/// [`DataFileWriter::abort`] waits for that.
pub struct DataFileWriter {
    files: FanoutWriter,
    sort_order_id: SortOrderId,
    place: String,
}

impl DataFileWriter {
    /// Writes rows of the table's current schema.
    ///
    /// # Errors
    /// `Unsupported` for a table with columns, transforms or a file format that can't be written;
    /// `DataInvalid` for properties that can't be read. Each names the table.
    pub fn new(table: &Table, options: WriteOptions) -> Result<Self> {
        let place = format!("table `{}`", table.name());
        let files = Self::files(table, &options).context(|| place.clone())?;
        Ok(Self { files, sort_order_id: options.sort_order_id.unwrap_or_default(), place })
    }

    fn files(table: &Table, options: &WriteOptions) -> Result<FanoutWriter> {
        let metadata = table.metadata();
        check_data_format(table)?;
        let schema = Self::schema(table, options.row_lineage)?;
        let spec = options.spec(table)?;
        let properties = TableProperties::new(&metadata.properties);
        let metrics = properties.metrics_config(&schema, metadata.default_sort_order())?;
        let format = Arc::new(ParquetFormat::new(&schema, &options.data(table)?, metrics)?);
        let splitter = PartitionSplitter::new(&spec, table.partition_type(spec.spec_id)?, &schema)?;
        let names = options.names(table, ".parquet")?;
        let limits = options.limits();
        Ok(FanoutWriter::new(table, format, spec, ContentType::Data, splitter, names, limits))
    }

    fn schema(table: &Table, row_lineage: bool) -> Result<Arc<Schema>> {
        let current = table.metadata().current_schema();
        if !row_lineage {
            return Ok(Arc::clone(current));
        }
        if table.metadata().format_version < 3 {
            return Err(Error::unsupported("tables before format version 3 have no row ids"));
        }
        let fields = current.fields().iter().cloned().chain(lineage_fields()).collect();
        Schema::new(current.schema_id, fields, Vec::new()).map(Arc::new)
    }

    /// Adds rows. Columns are found by name, and have the types of
    /// [`to_arrow_schema`](crate::arrow::to_arrow_schema) or others that hold the same values, such
    /// as `Utf8` for `Utf8View`. Columns of type `unknown` may be left out.
    ///
    /// # Errors
    /// `DataInvalid` for rows that are not of the table's schema, `Io` if they can't be written. The
    /// writer can't go on then, and is to be aborted.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.files.write(batch).await.map_err(|e| e.context(self.place.clone()))
    }

    /// Adds rows that are known to belong to one partition, whatever their values say: for files that
    /// are rewritten within theirs.
    ///
    /// # Errors
    /// As [`DataFileWriter::write`].
    pub async fn write_to_partition(
        &mut self,
        partition: PartitionValues,
        batch: &RecordBatch,
    ) -> Result<()> {
        self.files.write_to(partition, batch).await.map_err(|e| e.context(self.place.clone()))
    }

    /// The columns of the rows, in the types of the files.
    pub(super) fn arrow_schema(&self) -> &SchemaRef {
        self.files.format().arrow_schema()
    }

    /// Rows as they are written; an error if they can't be.
    pub(super) fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.files.format().conform(batch)
    }

    /// How many bytes of unfinished row groups are in memory.
    pub(super) fn memory(&self) -> usize {
        self.files.memory()
    }

    /// Ends the largest row group before its time; whether there was one.
    pub(super) async fn flush_largest(&mut self) -> Result<bool> {
        self.files.flush_largest().await.map_err(|e| e.context(self.place.clone()))
    }

    /// Ends the files; none for no rows.
    ///
    /// # Errors
    /// `Io` if one can't be written: everything that was written is removed then.
    pub async fn close(mut self) -> Result<Vec<ContentFile>> {
        match self.finish().await {
            Ok(files) => Ok(files),
            Err(e) => {
                self.abort().await;
                Err(e)
            }
        }
    }

    /// As [`DataFileWriter::close`], but it keeps hold of the files until all have ended, and is to be
    /// aborted after an error.
    pub(super) async fn finish(&mut self) -> Result<Vec<ContentFile>> {
        let mut files = self.files.finish().await.map_err(|e| e.context(self.place.clone()))?;
        for file in &mut files {
            file.sort_order_id = Some(self.sort_order_id);
        }
        Ok(files)
    }

    /// Removes everything that was written.
    pub async fn abort(self) {
        self.files.abort().await;
    }
}

/// Whether new data files of the table can be written at all.
fn check_data_format(table: &Table) -> Result<()> {
    let format = TableProperties::new(&table.metadata().properties).data_format()?;
    check_format(format, "write.format.default")?;
    check_not_encrypted(table)
}

/// Whether new delete files of the table can be written at all; deletion vectors have one format.
pub(super) fn check_delete_format(table: &Table) -> Result<()> {
    let format = TableProperties::new(&table.metadata().properties).delete_format()?;
    check_format(format, "write.delete.format.default")?;
    check_not_encrypted(table)
}

fn check_format(format: FileFormat, property: &str) -> Result<()> {
    if format == FileFormat::Parquet {
        return Ok(());
    }
    let message = format!(
        "files of format {format} can't be written; set the table's property `{property}` to `parquet`"
    );
    Err(Error::unsupported(message))
}

/// Whether files of the table may be written as they are.
pub(super) fn check_not_encrypted(table: &Table) -> Result<()> {
    if table.metadata().properties.contains_key("encryption.key-id") {
        return Err(Error::unsupported(
            "encrypted files can't be written; write to a table without the property `encryption.key-id`",
        ));
    }
    Ok(())
}
