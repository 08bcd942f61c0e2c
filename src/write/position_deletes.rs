//! Position delete files (spec, "Position Delete Files"): the row-level deletes of version 2.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use roaring::RoaringTreemap;

use super::cleanup::Unclaimed;
use super::data_files::{WriteOptions, check_delete_format};
use super::location::FileNames;
use super::parquet_file::{ParquetFormat, WrittenFile};
use super::rolling::RollingWriter;
use crate::arrow::to_arrow_schema;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    ContentFile, ContentType, DeleteGranularity, NestedField, PartitionValues, PrimitiveType, Schema,
    SchemaId, SortOrder, SpecId, TableProperties,
};
use crate::table::Table;

/// The columns of position delete files (spec, "Reserved Field IDs").
const FILE_PATH: (i32, &str) = (i32::MAX - 101, "file_path");
const POSITION: (i32, &str) = (i32::MAX - 102, "pos");
/// How many positions are encoded at a time.
const BATCH_ROWS: usize = 8192;

/// Collects deleted positions, and writes them to position delete files of a version 2 table: one a
/// partition, or one a data file if the table's `write.delete.granularity` is `file`.
///
/// Positions are kept in memory, as compressed bitmaps, until [`PositionDeleteWriter::close`].
pub struct PositionDeleteWriter {
    table: Table,
    format: Arc<ParquetFormat>,
    names: FileNames,
    per_file: bool,
    deleted: HashMap<(SpecId, PartitionValues), BTreeMap<String, RoaringTreemap>>,
}

impl PositionDeleteWriter {
    /// Nothing is deleted yet.
    ///
    /// # Errors
    /// `Unsupported` for a table of another version than 2: the first has no deletes, later ones
    /// have deletion vectors; `DataInvalid` for properties that can't be read.
    pub fn new(table: &Table, options: &WriteOptions) -> Result<Self> {
        Self::make(table, options).context(|| format!("table `{}`", table.name()))
    }

    fn make(table: &Table, options: &WriteOptions) -> Result<Self> {
        check_delete_format(table)?;
        match table.metadata().format_version {
            2 => {}
            1 => {
                return Err(Error::unsupported(
                    "version 1 tables have no row-level deletes; upgrade it to 2",
                ));
            }
            later => {
                let message =
                    format!("version {later} tables take deletion vectors, no position delete files");
                return Err(Error::unsupported(message));
            }
        }
        let properties = TableProperties::new(&table.metadata().properties);
        let per_file = properties.delete_granularity()? == DeleteGranularity::File;
        let schema = schema()?;
        // Whole paths: a file whose bounds are equal is known to be about one data file.
        let full = BTreeMap::from([("write.metadata.metrics.default".to_owned(), "full".to_owned())]);
        let metrics = TableProperties::new(&full).metrics_config(&schema, &SortOrder::default())?;
        Ok(Self {
            format: Arc::new(ParquetFormat::new(&schema, &options.deletes(table)?, metrics)?),
            names: options.names(table, "-deletes.parquet")?,
            table: table.clone(),
            per_file,
            deleted: HashMap::new(),
        })
    }

    /// Deletes the rows at these positions of a data file.
    ///
    /// # Errors
    /// `DataInvalid` for a position above 2^63 - 1.
    pub fn delete(
        &mut self,
        data_file: &ContentFile,
        positions: impl IntoIterator<Item = u64>,
    ) -> Result<()> {
        let key = (data_file.spec_id, data_file.partition.clone());
        let files = self.deleted.entry(key).or_default();
        let bitmap = files.entry(data_file.file_path.clone()).or_default();
        for position in positions {
            if i64::try_from(position).is_err() {
                return Err(Error::invalid(format!("row position {position} has more than 63 bits"))
                    .context(format!("data file {}", data_file.file_path)));
            }
            bitmap.insert(position);
        }
        Ok(())
    }

    /// Writes the files; none if nothing was deleted.
    ///
    /// # Errors
    /// `Io` if one can't be written: everything that was written is removed then.
    pub async fn close(mut self) -> Result<Vec<ContentFile>> {
        let mut done = Unclaimed::new(&self.table);
        let mut partitions: Vec<_> = std::mem::take(&mut self.deleted).into_iter().collect();
        // In the order of the names of data files, so that it is the same each time.
        partitions.sort_by(|(_, a), (_, b)| a.keys().next().cmp(&b.keys().next()));
        for ((spec_id, partition), files) in partitions {
            if let Err(e) = self.write_partition(spec_id, partition, files, &mut done.files).await {
                done.remove().await;
                return Err(e.context(format!("table `{}`", self.table.name())));
            }
        }
        Ok(done.take())
    }

    async fn write_partition(
        &self,
        spec_id: SpecId,
        partition: PartitionValues,
        files: BTreeMap<String, RoaringTreemap>,
        done: &mut Vec<ContentFile>,
    ) -> Result<()> {
        let spec = self
            .table
            .metadata()
            .partition_specs
            .get(&spec_id)
            .ok_or_else(|| Error::invalid(format!("there is no partition spec {spec_id} for deletes")))?;
        let mut writer = RollingWriter::new(&self.table, &self.format, spec, partition.clone());
        let described = |file: WrittenFile, paths: &[String]| {
            let mut file = file.describe(ContentType::PositionDeletes, spec_id, partition.clone());
            if let [only] = paths {
                file.referenced_data_file = Some(only.clone());
            }
            file
        };
        let written = async {
            // The data files that the open file is about.
            let mut paths: Vec<String> = Vec::new();
            for (data_file, positions) in files {
                let positions: Vec<i64> = positions.iter().filter_map(|p| i64::try_from(p).ok()).collect();
                for chunk in positions.chunks(BATCH_ROWS) {
                    if paths.last() != Some(&data_file) {
                        paths.push(data_file.clone());
                    }
                    let mut finished = Vec::new();
                    let batch = batch(&data_file, chunk)?;
                    let result = writer.write(&batch, &self.names, &mut finished).await;
                    let is_finished = !finished.is_empty();
                    done.extend(finished.into_iter().map(|file| described(file, &paths)));
                    if is_finished {
                        paths.clear();
                    }
                    result?;
                }
                if self.per_file {
                    done.extend(writer.close().await?.map(|file| described(file, &paths)));
                    paths.clear();
                }
            }
            done.extend(writer.close().await?.map(|file| described(file, &paths)));
            Ok(())
        };
        let written = written.await;
        if written.is_err() {
            writer.abort().await;
        }
        written
    }
}

fn schema() -> Result<Schema> {
    let fields = vec![
        NestedField::required(FILE_PATH.0, FILE_PATH.1, PrimitiveType::String),
        NestedField::required(POSITION.0, POSITION.1, PrimitiveType::Long),
    ];
    Schema::new(SchemaId(0), fields, Vec::new())
}

fn batch(path: &str, positions: &[i64]) -> Result<RecordBatch> {
    let paths = StringViewArray::from_iter_values(std::iter::repeat_n(path, positions.len()));
    let columns: Vec<ArrayRef> = vec![Arc::new(paths), Arc::new(Int64Array::from(positions.to_vec()))];
    RecordBatch::try_new(Arc::new(to_arrow_schema(&schema()?)?), columns)
        .map_err(|e| Error::invalid("deleted positions don't make a batch").with_source(e))
}
