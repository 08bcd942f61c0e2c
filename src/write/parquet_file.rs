//! One Parquet file: rows in, a file and what a manifest says of it out.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;

use super::bounds::Extremes;
use super::columns::conform;
use super::counts::{Counter, FieldCounts};
use super::parquet_schema::FileSchema;
use super::settings::ParquetSettings;
use crate::error::{Error, Result, ResultExt};
use crate::exec::is_lineage;
use crate::spec::{
    ContentFile, ContentType, FieldId, FileFormat, MetricMaps, Metrics, MetricsConfig, MetricsMode,
    PartitionValues, PrimitiveType, Schema, SpecId, Value,
};
use crate::storage::{Location, Storage, Upload};

/// Rows are given to the encoder in pieces, between which it is asked for its size: at least so many.
const FEWEST_ROWS: usize = 100;
/// And at most so many.
const MOST_ROWS: usize = 10_000;

/// What all files of one writer have in common.
#[derive(Debug)]
pub(super) struct ParquetFormat {
    schema: FileSchema,
    metrics: MetricsConfig,
    properties: WriterProperties,
    row_group_size: usize,
    /// When a file is large enough, in bytes.
    pub(super) target_file_size: u64,
}

impl ParquetFormat {
    /// # Errors
    /// `Unsupported` for a column that can't be written.
    pub(super) fn new(schema: &Schema, settings: &ParquetSettings, metrics: MetricsConfig) -> Result<Self> {
        let file = FileSchema::new(schema)?;
        let properties = settings.writer_properties(schema, &file, &metrics)?;
        Ok(Self {
            schema: file,
            metrics,
            properties,
            row_group_size: usize::try_from(settings.parquet.row_group_size).unwrap_or(usize::MAX),
            target_file_size: settings.target_file_size,
        })
    }

    /// Nothing is said of a row's lineage: what is stored is not what is read.
    fn mode(&self, id: FieldId) -> MetricsMode {
        if is_lineage(id) { MetricsMode::None } else { self.metrics.mode(id) }
    }

    /// The rows in the types that [`ParquetFile::write`] wants.
    ///
    /// # Errors
    /// `DataInvalid` for rows that are not of the schema.
    pub(super) fn arrow_schema(&self) -> &arrow::datatypes::SchemaRef {
        &self.schema.arrow
    }

    pub(super) fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        conform(batch, &self.schema)
    }

    /// The rows in pieces that are small beside a row group.
    pub(super) fn pieces(&self, batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + use<> {
        let rows = batch.num_rows();
        let row_size = batch.get_array_memory_size().checked_div(rows).unwrap_or_default().max(1);
        let step = (self.row_group_size / 8 / row_size).clamp(FEWEST_ROWS, MOST_ROWS);
        let batch = batch.clone();
        (0..rows).step_by(step).map(move |start| batch.slice(start, step.min(rows - start)))
    }
}

/// A Parquet file that is being written. It is there once [`ParquetFile::finish`] returned.
pub(super) struct ParquetFile {
    format: Arc<ParquetFormat>,
    /// As metadata records it.
    path: String,
    encoder: ArrowWriter<Vec<u8>>,
    upload: Upload,
    counter: Counter,
    rows: i64,
}

/// A file that was written.
#[derive(Debug)]
pub(super) struct WrittenFile {
    path: String,
    rows: i64,
    size: i64,
    split_offsets: Vec<i64>,
    metrics: Metrics,
}

impl ParquetFile {
    /// Begins a file at `location`, which metadata records as `path`.
    ///
    /// # Errors
    /// `Unsupported` for a store that does not exist.
    pub(super) fn create(
        format: &Arc<ParquetFormat>,
        path: String,
        storage: &Storage,
        location: &Location,
    ) -> Result<Self> {
        let options = ArrowWriterOptions::new()
            .with_properties(format.properties.clone())
            .with_parquet_schema(format.schema.parquet.clone())
            // Readers would take Arrow's types from it instead of the table's.
            .with_skip_arrow_metadata(true);
        let arrow = Arc::clone(&format.schema.arrow);
        let encoder = ArrowWriter::try_new_with_options(Vec::new(), arrow, options);
        let encoder = encoder.map_err(|e| failed(&path, e))?;
        Ok(Self {
            encoder,
            upload: storage.upload(location)?,
            counter: Counter::new(&format.schema.fields),
            format: Arc::clone(format),
            path,
            rows: 0,
        })
    }

    /// Adds rows, as [`ParquetFormat::conform`] made them.
    ///
    /// # Errors
    /// `Io`, after which the file is to be aborted.
    pub(super) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.counter.add(&self.format.schema.fields, batch.columns()).context(|| self.path.clone())?;
        self.encoder.write(batch).map_err(|e| failed(&self.path, e))?;
        self.rows += batch.num_rows() as i64;
        if self.encoder.in_progress_size() >= self.format.row_group_size {
            self.flush().await?;
        }
        Ok(())
    }

    /// Ends the row group.
    ///
    /// # Errors
    /// As [`ParquetFile::write`].
    pub(super) async fn flush(&mut self) -> Result<()> {
        self.encoder.flush().map_err(|e| failed(&self.path, e))?;
        self.drain().await
    }

    async fn drain(&mut self) -> Result<()> {
        let bytes = std::mem::take(self.encoder.inner_mut());
        self.upload.write(Bytes::from(bytes)).await
    }

    /// How large the file would be if it ended here, roughly.
    pub(super) fn size(&self) -> u64 {
        self.upload.written() + self.encoder.in_progress_size() as u64
    }

    /// Bytes that it keeps in memory for its row group.
    pub(super) fn memory(&self) -> usize {
        self.encoder.memory_size()
    }

    /// Ends the file.
    ///
    /// # Errors
    /// `Io`, after which the file is to be aborted.
    pub(super) async fn finish(&mut self) -> Result<WrittenFile> {
        let footer = self.encoder.finish().map_err(|e| failed(&self.path, e))?;
        self.drain().await?;
        let size = self.upload.finish().await?;
        let counter = std::mem::replace(&mut self.counter, Counter::new(&[]));
        Ok(WrittenFile {
            path: self.path.clone(),
            rows: self.rows,
            size: i64::try_from(size).map_err(|_| Error::invalid("a file of 2^63 bytes"))?,
            split_offsets: split_offsets(&footer),
            metrics: metrics(&self.format, &footer, counter.finish()).into(),
        })
    }

    /// Gives up, and removes what is there of the file.
    pub(super) async fn abort(self) {
        self.upload.abort().await;
    }
}

impl WrittenFile {
    /// What a manifest says of it.
    pub(super) fn describe(
        self,
        content: ContentType,
        spec_id: SpecId,
        partition: PartitionValues,
    ) -> ContentFile {
        ContentFile {
            content,
            file_path: self.path,
            file_format: FileFormat::Parquet,
            spec_id,
            partition,
            record_count: self.rows,
            file_size_in_bytes: self.size,
            metrics: self.metrics,
            key_metadata: None,
            split_offsets: Some(self.split_offsets),
            equality_ids: None,
            sort_order_id: None,
            first_row_id: None,
            referenced_data_file: None,
            content_offset: None,
            content_size_in_bytes: None,
        }
    }
}

fn failed(path: &str, e: ParquetError) -> Error {
    Error::invalid("Parquet can't hold the rows").with_source(e).context(format!("file `{path}`"))
}

/// Where the row groups begin.
fn split_offsets(footer: &ParquetMetaData) -> Vec<i64> {
    let start = |group: &parquet::file::metadata::RowGroupMetaData| {
        let columns = group.columns().iter();
        columns.filter_map(|column| i64::try_from(column.byte_range().0).ok()).min()
    };
    let mut offsets: Vec<i64> = footer.row_groups().iter().filter_map(start).collect();
    offsets.sort_unstable();
    offsets
}

fn metrics(format: &ParquetFormat, footer: &ParquetMetaData, counts: Vec<FieldCounts>) -> MetricMaps {
    let mut maps = MetricMaps::default();
    let mut extremes: HashMap<FieldId, Extremes> = HashMap::new();
    let leaves = &format.schema.leaves;
    for group in footer.row_groups() {
        for (leaf, column) in leaves.iter().zip(group.columns()) {
            let (Some(id), Some(primitive)) = (leaf.id, &leaf.primitive) else { continue };
            let mode = format.mode(id);
            if mode == MetricsMode::None {
                continue;
            }
            *maps.column_sizes.entry(id).or_default() += column.compressed_size();
            // What lies in lists and maps has no bounds: readers would take them for those of rows.
            if bounds_of(mode).is_some() && !leaf.repeated && !is_float(primitive) {
                extremes.entry(id).or_default().add(column.statistics(), primitive, column.num_values());
            }
        }
    }
    for count in counts {
        let (id, mode) = (count.id, format.mode(count.id));
        if mode == MetricsMode::None {
            continue;
        }
        maps.value_counts.insert(id, count.values);
        maps.null_value_counts.insert(id, count.nulls);
        let Some(floats) = count.floats else { continue };
        maps.nan_value_counts.insert(id, floats.nans);
        let leaf = leaves.iter().find(|leaf| leaf.id == Some(id));
        if let (Some((lower, upper)), Some(leaf)) = (floats.bounds, leaf)
            && bounds_of(mode).is_some()
            && !leaf.repeated
        {
            let value = |v: f64| match leaf.primitive {
                // Exact: it was one.
                Some(PrimitiveType::Float) => Value::Float(v as f32),
                _ => Value::Double(v),
            };
            extremes.entry(id).or_default().widen(value(lower), value(upper));
        }
    }
    for (id, extremes) in extremes {
        let (lower, upper) = extremes.bounds(bounds_of(format.mode(id)).flatten());
        maps.lower_bounds.extend(lower.map(|bound| (id, bound)));
        maps.upper_bounds.extend(upper.map(|bound| (id, bound)));
    }
    maps
}

/// To how many characters or bytes bounds are cut, if there are bounds.
pub(super) fn bounds_of(mode: MetricsMode) -> Option<Option<usize>> {
    match mode {
        MetricsMode::None | MetricsMode::Counts => None,
        MetricsMode::Truncate(length) => Some(Some(length)),
        MetricsMode::Full => Some(None),
    }
}

fn is_float(primitive: &PrimitiveType) -> bool {
    matches!(primitive, PrimitiveType::Float | PrimitiveType::Double)
}
