//! Whole files of any format as Arrow batches of a wanted schema: how delete files are read, and
//! data files that aren't Parquet.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::physical_plan::metrics::Count;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;

use crate::arrow::to_arrow_schema;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{ContentFile, FileFormat, Schema};
use crate::table::Table;

use super::field_ids::FieldResolution;
use super::formats::{FileRows, OpenedFile, Piece, StoredFile, Wanted, open_avro, open_orc};
use super::nested;
use super::reader::ReaderFactory;

/// How many rows of a delete file are decoded at once.
const BATCH_SIZE: usize = 8192;

/// Opens a file of any format that holds rows.
///
/// # Errors
/// `DataInvalid` for a broken file, `Unsupported` for Puffin, `NotFound`, `Io`.
pub(crate) async fn open_file(
    table: &Table,
    file: &Arc<ContentFile>,
    resolution: &FieldResolution,
    columns: &HashSet<String>,
    batch_size: usize,
    bytes_scanned: Count,
) -> Result<OpenedFile> {
    let opened = match file.file_format {
        FileFormat::Parquet => {
            open_parquet(table, file, resolution, columns, batch_size, bytes_scanned).await
        }
        FileFormat::Puffin => Err(Error::unsupported("a Puffin file holds no rows")),
        FileFormat::Avro | FileFormat::Orc => {
            let (_, store, path) = table.store(&file.file_path)?;
            let size = u64::try_from(file.file_size_in_bytes)
                .map_err(|_| Error::invalid(format!("file_size_in_bytes is {}", file.file_size_in_bytes)))?;
            bytes_scanned.add(usize::try_from(size).unwrap_or(usize::MAX));
            let stored = StoredFile { store, path, size };
            let schema = &resolution.schema;
            let mapping = resolution.name_mapping.as_deref();
            let wanted = Wanted { schema, mapping, columns, batch_size };
            match file.file_format {
                FileFormat::Avro => open_avro(stored, &wanted).await,
                _ => open_orc(stored, &wanted).await,
            }
        }
    };
    opened.context(|| format!("file {}", file.file_path))
}

async fn open_parquet(
    table: &Table,
    file: &Arc<ContentFile>,
    resolution: &FieldResolution,
    columns: &HashSet<String>,
    batch_size: usize,
    bytes_scanned: Count,
) -> Result<OpenedFile> {
    let failed = |e: ParquetError| match e {
        ParquetError::External(source) => match source.downcast::<Error>() {
            Ok(own) => *own,
            Err(source) => Error::invalid("the Parquet file can't be read").with_source(source),
        },
        e => Error::invalid("the Parquet file can't be read").with_source(e),
    };
    let reader = ReaderFactory::new(table.clone(), resolution.clone()).open(file, bytes_scanned)?;
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await.map_err(failed)?;
    let roots: Vec<usize> = builder
        .parquet_schema()
        .root_schema()
        .get_fields()
        .iter()
        .enumerate()
        .filter(|(_, f)| columns.contains(f.name()))
        .map(|(i, _)| i)
        .collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let stream = builder.with_projection(mask).with_batch_size(batch_size).build().map_err(failed)?;
    let schema = Arc::clone(stream.schema());
    Ok(OpenedFile { schema, rows: Box::new(Batches(stream.map_err(failed).boxed())) })
}

struct Batches(BoxStream<'static, Result<RecordBatch>>);

#[async_trait]
impl FileRows for Batches {
    async fn next(&mut self) -> Result<Option<Piece>> {
        Ok(self.0.try_next().await?.map(Piece::Rows))
    }
}

/// Reads all rows of a file as `resolution`'s schema: columns by field id, promoted, with
/// defaults where the file lacks them.
///
/// # Errors
/// As [`open_file`], and where a column can't be read as the schema says.
pub(crate) async fn read_file(
    table: &Table,
    file: &Arc<ContentFile>,
    resolution: &FieldResolution,
    bytes_scanned: Count,
    mut each: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut batches = read_rows(table, file, resolution, bytes_scanned).await?;
    while let Some(batch) = batches.next().await {
        batch.and_then(&mut each).context(|| format!("file {}", file.file_path))?;
    }
    Ok(())
}

/// Like [`read_file`], as a stream, whose errors don't name the file.
///
/// # Errors
/// As [`open_file`].
pub(crate) async fn read_rows(
    table: &Table,
    file: &Arc<ContentFile>,
    resolution: &FieldResolution,
    bytes_scanned: Count,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let schema = Arc::clone(&resolution.schema);
    let target = Arc::new(to_arrow_schema(&schema)?);
    let columns = schema.fields().iter().map(|f| f.name.clone()).collect();
    let opened = open_file(table, file, resolution, &columns, BATCH_SIZE, bytes_scanned).await?;
    let (promised, state) = (file.record_count, (opened.rows, 0u64));
    let read = move |(mut pieces, mut rows): (Box<dyn FileRows>, u64)| {
        let (schema, target) = (Arc::clone(&schema), Arc::clone(&target));
        async move {
            loop {
                match pieces.next().await? {
                    Some(Piece::Skipped(skipped)) => rows += skipped,
                    Some(Piece::Rows(batch)) => {
                        let batch = read_batch(&batch, &schema, &target)?;
                        rows += batch.num_rows() as u64;
                        return Ok(Some((batch, (pieces, rows))));
                    }
                    None if i64::try_from(rows).ok() == Some(promised) => return Ok(None),
                    None => {
                        let message = format!("the file holds {rows} rows, but its manifest says {promised}");
                        return Err(Error::invalid(message));
                    }
                }
            }
        }
    };
    Ok(stream::try_unfold(state, read).boxed())
}

fn read_batch(batch: &RecordBatch, schema: &Schema, target: &SchemaRef) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (field, target) in schema.fields().iter().zip(target.fields()) {
        columns.push(match batch.column_by_name(&field.name) {
            Some(column) => nested::read_as(column, field, target)?,
            None => nested::missing(field, target, batch.num_rows())?,
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(target), columns, &options)
        .map_err(|e| Error::invalid("the file's rows break the schema").with_source(e))
}
