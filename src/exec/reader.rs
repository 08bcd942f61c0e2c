//! Opens the Parquet files of a scan: from whatever store they lie in, with footers cached, and
//! with the file's columns named by field id.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::ParquetFileMetrics;
use datafusion::error::Result as DfResult;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use crate::error::{Error, Result};
use crate::table::Table;

use super::field_ids::FieldResolution;
use super::source::ScanFile;

/// How much of a file's end is read at once when its footer is wanted.
const FOOTER_SIZE_HINT: usize = 512 * 1024;

/// Makes readers for the files of one scan.
#[derive(Clone)]
pub(crate) struct ReaderFactory {
    pub(crate) table: Table,
    pub(crate) resolution: FieldResolution,
    /// Tells cached footers of one schema from those of another.
    pub(crate) fingerprint: u64,
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
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DfResult<Box<dyn AsyncFileReader + Send>> {
        let scan_file = file
            .extension::<ScanFile>()
            .ok_or_else(|| Error::invalid("a file of the scan has lost what the table's metadata says of it"))?
            .clone();
        let location = self.table.resolve(&scan_file.task.data_file.file_path)?;
        let (store_key, store, path) = self.table.storage().store(&location)?;
        let metrics = ParquetFileMetrics::new(partition_index, file.object_meta.location.as_ref(), metrics);
        Ok(Box::new(Reader {
            factory: self.clone(),
            cache_key: format!("{store_key}/{path}"),
            store,
            path,
            size: file.object_meta.size,
            scan_file,
            metadata_size_hint: metadata_size_hint.unwrap_or(FOOTER_SIZE_HINT),
            metrics,
        }))
    }
}

struct Reader {
    factory: ReaderFactory,
    cache_key: String,
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    scan_file: ScanFile,
    metadata_size_hint: usize,
    metrics: ParquetFileMetrics,
}

impl Reader {
    fn in_file(&self, message: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ParquetError {
        ParquetError::External(Box::new(self.placed(Error::new(crate::ErrorKind::Io, message).with_source(source))))
    }

    fn placed(&self, error: Error) -> Error {
        error
            .context(format!("file {}", self.scan_file.task.data_file.file_path))
            .context(format!("table {}", self.factory.table.name()))
    }

    async fn load(&mut self, page_index: PageIndexPolicy) -> Result<ParquetMetaData> {
        let size = self.size;
        let hint = self.metadata_size_hint;
        let loaded = ParquetMetaDataReader::new()
            .with_page_index_policy(page_index)
            .with_prefetch_hint(Some(hint))
            .load_and_finish(Fetch(self), size)
            .await;
        let metadata = loaded.map_err(|e| match e {
            ParquetError::External(source) => match source.downcast::<Error>() {
                Ok(own) => *own,
                Err(source) => Error::invalid("the Parquet footer can't be read").with_source(source),
            },
            e => Error::invalid("the Parquet footer can't be read").with_source(e),
        })?;
        let recorded = self.scan_file.task.data_file.record_count;
        if metadata.file_metadata().num_rows() != recorded {
            return Err(Error::invalid(format!(
                "the file holds {} rows, but its manifest says {recorded}",
                metadata.file_metadata().num_rows()
            )));
        }
        self.factory.resolution.apply(metadata)
    }
}

/// Lets the footer reader borrow the file reader.
struct Fetch<'a>(&'a mut Reader);

impl parquet::arrow::async_reader::MetadataFetch for Fetch<'_> {
    fn fetch(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.0.get_bytes(range)
    }
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        let length = range.end.saturating_sub(range.start);
        self.metrics.bytes_scanned.add(usize::try_from(length).unwrap_or(usize::MAX));
        async move {
            self.store.get_range(&self.path, range).await.map_err(|e| self.in_file("the file can't be read", e))
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let length: u64 = ranges.iter().map(|r| r.end.saturating_sub(r.start)).sum();
        self.metrics.bytes_scanned.add(usize::try_from(length).unwrap_or(usize::MAX));
        async move {
            self.store.get_ranges(&self.path, &ranges).await.map_err(|e| self.in_file("the file can't be read", e))
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let page_index = options.map_or(PageIndexPolicy::Skip, |o| o.column_index_policy());
        async move {
            let cache = self.factory.table.cache().clone();
            let fingerprint = self.factory.fingerprint;
            if let Some(found) = cache.parquet_footer(&self.cache_key, fingerprint) {
                return Ok(found);
            }
            let loaded = self.load(page_index).await;
            let metadata =
                loaded.map_err(|e| ParquetError::External(Box::new(self.placed(e)))).map(Arc::new)?;
            cache.put_parquet_footer(&self.cache_key, fingerprint, Arc::clone(&metadata));
            Ok(metadata)
        }
        .boxed()
    }
}
