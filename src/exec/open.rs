//! Opens the files of a scan: loads the deletes of each, has Parquet skip the rows that are gone,
//! and reads other formats itself.
//!
//! The morsel API of DataFusion that this decorates is marked experimental; nothing else uses it.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::functions::core::file_row_index;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::ObjectStore;

use crate::error::{Error, Result, ResultExt};
use crate::spec::FileFormat;

use super::adapter::AdapterFactory;
use super::deletes::{LiveRows, POSITION, Remainder, Removal};
use super::rows::open_rows;
use super::source::{ScanContext, ScanFile};
use super::statistics::file_statistics;

/// How one partition of a scan opens its files.
pub(crate) struct OpenFiles {
    /// The Parquet source with everything that the optimizer pushed into it.
    pub(crate) inner: Arc<dyn FileSource>,
    /// A filter that the scan has promised to apply after decoding.
    pub(crate) row_filter: Option<Arc<dyn PhysicalExpr>>,
    pub(crate) context: Arc<ScanContext>,
    pub(crate) object_store: Arc<dyn ObjectStore>,
    pub(crate) object_store_url: ObjectStoreUrl,
    pub(crate) limit: Option<usize>,
    pub(crate) preserve_order: bool,
    /// Whether rows have to keep their order within a file.
    pub(crate) in_order: bool,
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
            let schema = &context.schema;
            file.statistics =
                Some(Arc::new(file_statistics(&scan_file.task, schema, arrow, &context.columns)));
        }
        let is_parquet = scan_file.task.data_file.file_format == FileFormat::Parquet;
        if is_parquet && scan_file.task.deletes.is_empty() {
            return self.0.parquet(file, &scan_file, Removal::default());
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
        removal: Removal,
    ) -> DfResult<Box<dyn MorselPlanner>> {
        let adapter = AdapterFactory {
            schema: Arc::clone(&self.context.schema),
            read_from: Arc::clone(&self.context.read_from),
            constants: Arc::clone(&scan_file.constants),
            position_column: self.position_column(),
        };
        let removes = !removal.is_empty() || self.row_filter.is_some();
        let (source, remainder) = match removes {
            false => (Arc::clone(&self.inner), None),
            true => {
                let (source, remainder) = self.before_removal(removal)?;
                (source, Some(remainder))
            }
        };
        // Rows that are taken out after decoding don't count for a limit.
        let limit = if removes { None } else { self.limit };
        let config = FileScanConfigBuilder::new(self.object_store_url.clone(), Arc::clone(&source))
            .with_limit(limit)
            .with_preserve_order(self.preserve_order)
            .with_expr_adapter(Some(Arc::new(adapter)))
            .build();
        let planner = source
            .create_morselizer(Arc::clone(&self.object_store), &config, self.partition)?
            .plan_file(file)?;
        let file = ReadFile {
            remainder,
            path: scan_file.task.data_file.file_path.clone(),
            table: self.context.table.name().to_owned(),
        };
        Ok(Box::new(ReadPlanner { planner, file: Arc::new(file) }))
    }

    /// The Parquet source with the columns that the query reads and those that the removal needs,
    /// and what then becomes of its batches.
    fn before_removal(&self, removal: Removal) -> DfResult<(Arc<dyn FileSource>, Arc<Remainder>)> {
        let schema = self.inner.table_schema().table_schema();
        let wanted = ProjectionExprs::new(self.projection());
        let exprs = wanted.iter().map(|p| &p.expr).chain(&self.row_filter);
        let mut names: Vec<String> = exprs.flat_map(collect_columns).map(|c| c.name().to_owned()).collect();
        names.extend(removal.key_columns());
        names.sort_unstable();
        names.dedup();
        let mut exprs = Vec::with_capacity(names.len() + 1);
        for name in names {
            let column = Column::new(&name, schema.index_of(&name)?);
            exprs.push(ProjectionExpr { expr: Arc::new(column), alias: name });
        }
        if removal.needs_positions() {
            let options = Arc::new(ConfigOptions::default());
            let position = ScalarFunctionExpr::try_new(file_row_index(), Vec::new(), schema, options)?;
            exprs.push(ProjectionExpr { expr: Arc::new(position), alias: POSITION.to_owned() });
        }
        let decoded = ProjectionExprs::new(exprs);

        let pushed = self.pushed()?;
        let mut source = self.context.parquet.clone();
        source = source.with_table_parquet_options(pushed.table_parquet_options().clone());
        if let Some(predicate) = self.inner.filter() {
            source = source.with_predicate(predicate);
        }
        let source = source.with_batch_size(self.batch_size).try_pushdown_projection(&decoded)?;
        let source = source.ok_or_else(|| Error::invalid("the Parquet source takes no projection"))?;
        let decoded = decoded.project_schema(schema)?;
        let output = wanted.project_schema(schema)?;
        let filter = self.row_filter.clone();
        let remainder = Remainder::new(
            removal,
            filter,
            &wanted,
            &decoded,
            Arc::new(output),
            self.batch_size,
            self.in_order,
        )?;
        Ok((source, Arc::new(remainder)))
    }

    fn pushed(&self) -> Result<&ParquetSource> {
        let pushed = self.inner.downcast_ref::<ParquetSource>();
        pushed.ok_or_else(|| Error::invalid("the scan's Parquet source was replaced"))
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
            let deletes = &open.context.deletes;
            if task.data_file.file_format != FileFormat::Parquet {
                let equality = deletes.equality(&task).await.context(in_file)?;
                let positions = deletes.positions(&task).await.context(in_file)?;
                let stream = open_rows(&open, &file, &scan_file, positions, equality).await?;
                return Ok(Box::new(Ready(Some(Rows(stream)))) as Box<dyn MorselPlanner>);
            }
            let size = i64::try_from(file.object_meta.size).unwrap_or(i64::MAX);
            let in_parts = file.range.as_ref().is_some_and(|range| range.start > 0 || range.end < size);
            let removal = deletes.removal(&task, in_parts).await.context(in_file)?;
            if let Some(selection) = removal.live.as_ref().and_then(LiveRows::long_runs) {
                file = file.with_extension(ParquetRowSelection::new(selection));
            }
            open.parquet(file, &scan_file, removal)
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
    /// Takes deleted rows out.
    remainder: Option<Arc<Remainder>>,
    path: String,
    table: String,
}

impl ReadFile {
    /// Errors of decoding know neither file nor table.
    fn placed(&self, error: DataFusionError) -> DataFusionError {
        if Error::find_in(&error).is_some() || matches!(error, DataFusionError::ResourcesExhausted(_)) {
            return error;
        }
        // What the query makes of the rows is not the file's fault.
        let of_query = |e: &ArrowError| {
            matches!(
                e,
                ArrowError::DivideByZero | ArrowError::ArithmeticOverflow(_) | ArrowError::CastError(_)
            )
        };
        if matches!(error.find_root(), DataFusionError::ArrowError(e, _) if of_query(e)) {
            return error;
        }
        Error::invalid("the file can't be read")
            .with_source(error)
            .context(format!("file {}", self.path))
            .context(format!("table {}", self.table))
            .into()
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
        let decoded = morsel.into_stream();
        let rows = match &file.remainder {
            None => decoded,
            Some(remainder) => Arc::clone(remainder).of(decoded),
        };
        rows.map(move |batch| batch.map_err(|e| file.placed(e))).boxed()
    }
}
