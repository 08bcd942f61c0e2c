//! Opens the files of a scan: loads the deletes of each, has Parquet skip the rows that are gone,
//! and reads other formats itself.
//!
//! The morsel API of DataFusion that this decorates is marked experimental; nothing else uses it.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::ObjectStore;

use crate::error::{Error, ResultExt};
use crate::spec::FileFormat;

use super::adapter::AdapterFactory;
use super::deletes::{EqualityFilter, row_selection};
use super::rows::open_rows;
use super::source::{ScanContext, ScanFile};
use super::statistics::file_statistics;

/// How one partition of a scan opens its files.
pub(crate) struct OpenFiles {
    /// The Parquet source with everything that the optimizer pushed into it.
    pub(crate) inner: Arc<dyn FileSource>,
    pub(crate) context: Arc<ScanContext>,
    pub(crate) object_store: Arc<dyn ObjectStore>,
    pub(crate) object_store_url: ObjectStoreUrl,
    pub(crate) limit: Option<usize>,
    pub(crate) preserve_order: bool,
    pub(crate) batch_size: usize,
    pub(crate) partition: usize,
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("partition", &self.partition).finish_non_exhaustive()
    }
}

/// DataFusion's entry: one planner a file.
#[derive(Debug)]
pub(crate) struct IcebergMorselizer(Arc<OpenFiles>);

impl IcebergMorselizer {
    pub(crate) fn new(open: OpenFiles) -> Self {
        Self(Arc::new(open))
    }
}

impl Morselizer for IcebergMorselizer {
    fn plan_file(&self, mut file: PartitionedFile) -> DfResult<Box<dyn MorselPlanner>> {
        let scan_file = ScanFile::of(&file)?.clone();
        let context = &self.0.context;
        if file.statistics.is_none() && self.0.inner.filter().is_some() {
            // Dynamic filters prune files by these; of large tables they are made only now.
            let arrow = self.0.inner.table_schema().file_schema();
            let schema = &context.resolution.schema;
            file.statistics =
                Some(Arc::new(file_statistics(&scan_file.task, schema, arrow, &context.columns)));
        }
        let is_parquet = scan_file.task.data_file.file_format == FileFormat::Parquet;
        if is_parquet && scan_file.task.deletes.is_empty() {
            return self.0.parquet(file, &scan_file, None);
        }
        Ok(Box::new(Loading { open: Arc::clone(&self.0), file, scan_file }))
    }
}

impl OpenFiles {
    /// The planner of DataFusion's Parquet source for a file.
    fn parquet(
        &self,
        file: PartitionedFile,
        scan_file: &ScanFile,
        equality: Option<EqualityFilter>,
    ) -> DfResult<Box<dyn MorselPlanner>> {
        let adapter = AdapterFactory {
            schema: Arc::clone(&self.context.resolution.schema),
            constants: Arc::clone(&scan_file.constants),
            position_column: self.position_column(),
        };
        let source = match &equality {
            None => Arc::clone(&self.inner),
            Some(filter) => self.with_keys(filter)?,
        };
        // Rows that equality deletes remove don't count for a limit.
        let limit = if equality.is_some() { None } else { self.limit };
        let config = FileScanConfigBuilder::new(self.object_store_url.clone(), Arc::clone(&source))
            .with_limit(limit)
            .with_preserve_order(self.preserve_order)
            .with_expr_adapter(Some(Arc::new(adapter)))
            .build();
        let planner = source
            .create_morselizer(Arc::clone(&self.object_store), &config, self.partition)?
            .plan_file(file)?;
        let file = ReadFile {
            filter: equality,
            path: scan_file.task.data_file.file_path.clone(),
            table: self.context.table.name().to_owned(),
        };
        Ok(Box::new(ReadPlanner { planner, file: Arc::new(file) }))
    }

    /// The Parquet source with the key columns after the columns that the query wants.
    fn with_keys(&self, filter: &EqualityFilter) -> DfResult<Arc<dyn FileSource>> {
        let mut exprs: Vec<ProjectionExpr> = self.projection();
        let schema = self.inner.table_schema().table_schema();
        for name in filter.key_columns() {
            let index = schema.index_of(&name)?;
            exprs.push(ProjectionExpr { expr: Arc::new(Column::new(&name, index)), alias: key_alias(&name) });
        }
        let mut source = self.context.parquet.clone();
        let pushed = self
            .inner
            .downcast_ref::<datafusion::datasource::physical_plan::ParquetSource>()
            .ok_or_else(|| Error::invalid("the scan's Parquet source was replaced"))?;
        source = source.with_table_parquet_options(pushed.table_parquet_options().clone());
        if let Some(predicate) = self.inner.filter() {
            source = source.with_predicate(predicate);
        }
        let source = source.with_batch_size(self.batch_size);
        let projected = source.try_pushdown_projection(&ProjectionExprs::new(exprs))?;
        projected.ok_or_else(|| Error::invalid("the Parquet source takes no projection").into())
    }

    /// What the scan calls positions, if it has them: its only virtual column.
    pub(crate) fn position_column(&self) -> Option<Arc<str>> {
        self.inner.table_schema().virtual_columns().first().map(|f| f.name().as_str().into())
    }

    /// What the query wants of each row, over the table schema.
    pub(crate) fn projection(&self) -> Vec<ProjectionExpr> {
        self.inner.projection().map(|p| p.iter().cloned().collect()).unwrap_or_default()
    }
}

/// What a key column is called next to the columns that the query wants.
pub(crate) fn key_alias(name: &str) -> String {
    format!("\u{1}key_{name}")
}

/// A file whose deletes have to be loaded first, or that isn't Parquet.
#[derive(Debug)]
struct Loading {
    open: Arc<OpenFiles>,
    file: PartitionedFile,
    scan_file: ScanFile,
}

impl MorselPlanner for Loading {
    fn plan(self: Box<Self>) -> DfResult<Option<MorselPlan>> {
        let Loading { open, mut file, scan_file } = *self;
        Ok(Some(MorselPlan::new().with_pending_planner(async move {
            let task = Arc::clone(&scan_file.task);
            let in_file = || format!("deletes of file {}", task.data_file.file_path);
            let positions = open.context.deletes.positions(&task).await.context(in_file)?;
            let equality = open.context.deletes.equality(&task).await.context(in_file)?;
            if task.data_file.file_format != FileFormat::Parquet {
                let stream = open_rows(&open, &file, &scan_file, positions, equality).await?;
                return Ok(Box::new(Ready(Some(Rows(stream)))) as Box<dyn MorselPlanner>);
            }
            if let Some(positions) = positions.filter(|p| !p.is_empty()) {
                let rows = u64::try_from(task.data_file.record_count)
                    .map_err(|_| Error::invalid(format!("record_count is {}", task.data_file.record_count)))
                    .context(in_file)?;
                let selection = row_selection(&positions, rows).context(in_file)?;
                file = file.with_extension(ParquetRowSelection::new(selection));
            }
            open.parquet(file, &scan_file, equality)
        })))
    }
}

/// Hands out one stream.
#[derive(Debug)]
struct Ready(Option<Rows>);

impl MorselPlanner for Ready {
    fn plan(mut self: Box<Self>) -> DfResult<Option<MorselPlan>> {
        Ok(self.0.take().map(|rows| MorselPlan::new().with_morsels(vec![Box::new(rows)])))
    }
}

/// The rows of a file.
struct Rows(BoxStream<'static, DfResult<RecordBatch>>);

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

impl Morsel for Rows {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, DfResult<RecordBatch>> {
        self.0
    }
}

/// What is done to whatever is read of a Parquet file.
#[derive(Debug)]
struct ReadFile {
    /// Takes out rows whose keys were deleted.
    filter: Option<EqualityFilter>,
    path: String,
    table: String,
}

impl ReadFile {
    /// Errors of decoding know neither file nor table.
    fn placed(&self, error: DataFusionError) -> DataFusionError {
        if Error::find_in(&error).is_some() || matches!(error, DataFusionError::ResourcesExhausted(_)) {
            return error;
        }
        Error::invalid("the file can't be read")
            .with_source(error)
            .context(format!("file {}", self.path))
            .context(format!("table {}", self.table))
            .into()
    }

    fn read(&self, batch: DfResult<RecordBatch>) -> DfResult<RecordBatch> {
        let batch = batch.map_err(|e| self.placed(e))?;
        match &self.filter {
            None => Ok(batch),
            Some(filter) => filter.apply(&batch).map_err(|e| self.placed(e.into())),
        }
    }
}

/// Hands out what another planner does, with [`ReadFile`] applied.
#[derive(Debug)]
struct ReadPlanner {
    planner: Box<dyn MorselPlanner>,
    file: Arc<ReadFile>,
}

impl MorselPlanner for ReadPlanner {
    fn plan(self: Box<Self>) -> DfResult<Option<MorselPlan>> {
        let ReadPlanner { planner, file } = *self;
        let Some(mut plan) = planner.plan().map_err(|e| file.placed(e))? else { return Ok(None) };
        let morsels = plan.take_morsels().into_iter();
        let planners = plan.take_ready_planners().into_iter();
        let mut wrapped = MorselPlan::new()
            .with_morsels(
                morsels.map(|morsel| Box::new(ReadMorsel { morsel, file: Arc::clone(&file) }) as _).collect(),
            )
            .with_planners(
                planners
                    .map(|planner| Box::new(ReadPlanner { planner, file: Arc::clone(&file) }) as _)
                    .collect(),
            );
        if let Some(pending) = plan.take_pending_planner() {
            wrapped.set_pending_planner(async move {
                let planner = pending.await.map_err(|e| file.placed(e))?;
                Ok(Box::new(ReadPlanner { planner, file }) as Box<dyn MorselPlanner>)
            });
        }
        Ok(Some(wrapped))
    }
}

#[derive(Debug)]
struct ReadMorsel {
    morsel: Box<dyn Morsel>,
    file: Arc<ReadFile>,
}

impl Morsel for ReadMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, DfResult<RecordBatch>> {
        let ReadMorsel { morsel, file } = *self;
        morsel.into_stream().map(move |batch| file.read(batch)).boxed()
    }
}
