//! Opens Parquet files: from whatever store they lie in, with footers cached, and with the file's
//! columns named by field id.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileMetrics;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::error::Result as DfResult;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet};
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::{AsyncFileReader, MetadataFetch};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use crate::error::{Error, ErrorKind, Result};
use crate::spec::ContentFile;
use crate::table::Table;

use super::field_ids::FieldResolution;
use super::source::ScanFile;

/// How much of a file's end is read at once when its footer is wanted.
const FOOTER_SIZE_HINT: usize = 512 * 1024;

/// Makes readers for files of one table that are read with one schema.
#[derive(Clone)]
pub(crate) struct ReaderFactory {
    table: Table,
    resolution: FieldResolution,
    /// Tells cached footers of one schema from those of another.
    fingerprint: u64,
}

impl ReaderFactory {
    pub(crate) fn new(table: Table, resolution: FieldResolution) -> Self {
        let fingerprint = resolution.fingerprint();
        Self { table, resolution, fingerprint }
    }

    /// A reader of that file, which counts what it reads in `bytes_scanned`.
    pub(crate) fn open(&self, file: &Arc<ContentFile>, bytes_scanned: Count) -> Result<Reader> {
        let (_, store, path) = self.table.store(&file.file_path)?;
        let size = u64::try_from(file.file_size_in_bytes)
            .map_err(|_| Error::invalid(format!("file_size_in_bytes is {}", file.file_size_in_bytes)))
            .map_err(|e| e.context(format!("file {}", file.file_path)))?;
        Ok(Reader {
            factory: self.clone(),
            store,
            path,
            size,
            file: Arc::clone(file),
            bytes_scanned,
            _metrics: None,
        })
    }
}

impl fmt::Debug for ReaderFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderFactory").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

impl ParquetFileReaderFactory for ReaderFactory {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        _: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DfResult<Box<dyn AsyncFileReader + Send>> {
        let scan_file = ScanFile::of(&file)?;
        let metrics = ParquetFileMetrics::new(partition_index, file.object_meta.location.as_ref(), metrics);
        let mut reader = self.open(&scan_file.task.data_file, metrics.bytes_scanned.clone())?;
        reader._metrics = Some(metrics);
        Ok(Box::new(reader))
    }
}

/// Reads one file.
pub(crate) struct Reader {
    factory: ReaderFactory,
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    file: Arc<ContentFile>,
    bytes_scanned: Count,
    /// Kept alive as long as the file is open.
    _metrics: Option<ParquetFileMetrics>,
}

impl Reader {
    fn failed(&self, source: object_store::Error) -> ParquetError {
        let kind = match source {
            object_store::Error::NotFound { .. } => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        let error = Error::new(kind, "the file can't be read").with_source(source);
        ParquetError::External(Box::new(self.placed(error)))
    }

    fn placed(&self, error: Error) -> Error {
        error
            .context(format!("file {}", self.file.file_path))
            .context(format!("table {}", self.factory.table.name()))
    }

    async fn load(&mut self) -> Result<ParquetMetaData, ParquetError> {
        let size = self.size;
        let loaded = ParquetMetaDataReader::new()
            // It mostly lies in the bytes that are read for the footer, and it is kept with it.
            .with_page_index_policy(PageIndexPolicy::Optional)
            .with_prefetch_hint(Some(FOOTER_SIZE_HINT))
            .load_and_finish(Fetch(self), size)
            .await;
        let metadata = match loaded {
            Ok(metadata) => metadata,
            // Already says which file.
            Err(ParquetError::External(own)) if own.is::<Error>() => return Err(ParquetError::External(own)),
            Err(e) => {
                let error = Error::invalid("the Parquet footer can't be read").with_source(e);
                return Err(ParquetError::External(Box::new(self.placed(error))));
            }
        };
        let rows = metadata.file_metadata().num_rows();
        let resolved = match rows == self.file.record_count {
            true => {
                let metrics = &self.file.metrics;
                self.factory.resolution.apply(metadata, |id| metrics.nan_value_count(id) == Some(0))
            }
            // Row counts are answered from manifests, and positions depend on them.
            false => Err(Error::invalid(format!(
                "the file holds {rows} rows, but its manifest says {}",
                self.file.record_count
            ))),
        };
        resolved.map_err(|e| ParquetError::External(Box::new(self.placed(e))))
    }
}

/// Lets the footer reader borrow the file reader.
struct Fetch<'a>(&'a mut Reader);

impl MetadataFetch for Fetch<'_> {
    fn fetch(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.0.get_bytes(range)
    }
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        let length = range.end.saturating_sub(range.start);
        self.bytes_scanned.add(usize::try_from(length).unwrap_or(usize::MAX));
        async move { self.store.get_range(&self.path, range).await.map_err(|e| self.failed(e)) }.boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let length: u64 = ranges.iter().map(|r| r.end.saturating_sub(r.start)).sum();
        self.bytes_scanned.add(usize::try_from(length).unwrap_or(usize::MAX));
        async move { self.store.get_ranges(&self.path, &ranges).await.map_err(|e| self.failed(e)) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            let table = &self.factory.table;
            let cache = Arc::clone(table.cache());
            let fingerprint = self.factory.fingerprint;
            let key = table
                .resolve(&self.file.file_path)
                .and_then(|location| table.storage().cache_key(&location))
                .map_err(|e| ParquetError::External(Box::new(e)))?;
            if let Some(found) = cache.footer(&key, fingerprint).await {
                return Ok(found);
            }
            let metadata = Arc::new(self.load().await?);
            cache.keep_footer(key, fingerprint, Arc::clone(&metadata)).await;
            Ok(metadata)
        }
        .boxed()
    }
}
