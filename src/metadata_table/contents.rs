//! What a metadata table holds, and the partitions that a scan of it runs as.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use super::columns::Columns;
use crate::error::Result;

/// How many rows a batch has at most.
const BATCH_ROWS: usize = 8192;

/// What a scan wants.
pub(super) struct Wanted<'a> {
    /// The columns, in this order.
    pub(super) projection: &'a [usize],
    /// How many partitions keep all cores busy.
    pub(super) partitions: usize,
}

/// The rows of one metadata table.
#[async_trait]
pub(super) trait Contents: fmt::Debug + Send + Sync {
    fn schema(&self) -> &SchemaRef;

    /// The partitions of a scan. It may read manifest lists, but no manifests: these are read as
    /// the partitions run.
    async fn scan(&self, wanted: &Wanted<'_>) -> Result<Vec<Part>>;
}

/// Batches as they are made.
pub(super) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// One partition of a scan. It can run more than once.
pub(super) struct Part {
    schema: SchemaRef,
    run: Box<dyn Fn() -> Batches + Send + Sync>,
}

impl Part {
    pub(super) fn new(schema: &SchemaRef, run: impl Fn() -> Batches + Send + Sync + 'static) -> Self {
        Self { schema: Arc::clone(schema), run: Box::new(run) }
    }

    /// One without rows.
    pub(super) fn empty(schema: &SchemaRef) -> Self {
        Self::new(schema, || stream::empty().boxed())
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = (self.run)().map_err(DataFusionError::from);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// Rows that are made into batches as these are asked for.
pub(super) fn batches<R: Send + Sync + 'static>(columns: Arc<Columns<R>>, rows: Arc<Vec<R>>) -> Batches {
    let chunks = (0..rows.len()).step_by(BATCH_ROWS);
    let chunk = move |start: usize| {
        let range: Range<usize> = start..rows.len().min(start.saturating_add(BATCH_ROWS));
        columns.batch(rows.get(range).unwrap_or_default())
    };
    stream::iter(chunks.map(chunk)).boxed()
}

/// A table whose rows the metadata file holds.
#[derive(Debug)]
pub(super) struct Known<R> {
    columns: Columns<R>,
    rows: Arc<Vec<R>>,
}

impl<R: 'static> Known<R> {
    pub(super) fn new(columns: Columns<R>, rows: Vec<R>) -> Self {
        Self { columns, rows: Arc::new(rows) }
    }
}

#[async_trait]
impl<R: fmt::Debug + Send + Sync + 'static> Contents for Known<R> {
    fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    async fn scan(&self, wanted: &Wanted<'_>) -> Result<Vec<Part>> {
        let columns = Arc::new(self.columns.project(wanted.projection)?);
        let rows = Arc::clone(&self.rows);
        let schema = Arc::clone(columns.schema());
        Ok(vec![Part::new(&schema, move || batches(Arc::clone(&columns), Arc::clone(&rows)))])
    }
}
