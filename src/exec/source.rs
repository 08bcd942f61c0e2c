//! The scan's file source: DataFusion's Parquet source, with each file opened as the table's
//! metadata says. Everything that the optimizer asks of a source goes to the Parquet source.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr, conjunction,
};
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::Morselizer;
use object_store::ObjectStore;

use crate::error::{Error, Result};
use crate::spec::{FileScanTask, Schema};
use crate::table::Table;

use super::adapter::FileConstants;
use super::deletes::DeleteLoader;
use super::field_ids::FieldResolution;
use super::filters::{can_fail, casts_keep_order, is_fixed};
use super::metadata_columns::lineage_fields;
use super::open::{IcebergMorselizer, OpenFiles};

/// What a scan knows of one of its files; travels with DataFusion's description of it.
#[derive(Debug, Clone)]
pub(crate) struct ScanFile {
    pub(crate) task: Arc<FileScanTask>,
    pub(crate) constants: Arc<FileConstants>,
}

impl ScanFile {
    /// What travels with a file.
    ///
    /// # Errors
    /// `DataInvalid` where it was lost on the way: reading on would bring deleted rows back.
    pub(crate) fn of(file: &PartitionedFile) -> Result<&Self> {
        file.extension::<Self>()
            .ok_or_else(|| Error::invalid("a file of the scan has lost what the table's metadata says of it"))
    }
}

/// What all files of a scan share.
#[derive(Debug)]
pub(crate) struct ScanContext {
    pub(crate) table: Table,
    /// The schema that is read, with the row lineage columns and those that only deletes need.
    pub(crate) schema: Arc<Schema>,
    /// How files' columns are found.
    pub(crate) resolution: FieldResolution,
    /// See [`super::struct_keys::read_from`].
    pub(crate) read_from: Arc<HashMap<String, String>>,
    /// The columns that the query reads, as indices into the schema.
    pub(crate) columns: Vec<usize>,
    pub(crate) deletes: DeleteLoader,
    /// Whether rows of any file are deleted.
    pub(crate) has_deletes: bool,
    /// The Parquet source as it was made, with all columns.
    pub(crate) parquet: ParquetSource,
    /// Table, snapshot, schema, filter and pruning, as `EXPLAIN` shows them.
    pub(crate) description: String,
}

/// Reads the data files of an Iceberg table; see the module.
#[derive(Clone)]
pub(crate) struct IcebergSource {
    inner: Arc<dyn FileSource>,
    /// What the scan has promised to apply after decoding: deleted rows are taken out there, and
    /// with the same mask it costs nothing more.
    row_filter: Option<Arc<dyn PhysicalExpr>>,
    batch_size: Option<usize>,
    context: Arc<ScanContext>,
}

impl IcebergSource {
    pub(crate) fn new(inner: ParquetSource, context: Arc<ScanContext>) -> Self {
        Self { inner: Arc::new(inner), row_filter: None, batch_size: None, context }
    }

    fn wrap(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self { inner, ..self.clone() })
    }

    /// Whether the row filter of every file evaluates this filter. DataFusion's Parquet source
    /// drops conjuncts that it can't evaluate for a file after having promised them: of nested
    /// columns, which a file may have in another shape, and of row lineage columns, which are
    /// made of the row's position.
    ///
    /// Where rows are deleted after decoding, a row filter sees them too, so it must not be one that
    /// fails on some values.
    ///
    /// It also prunes by filters, as if every cast kept the order of values.
    fn is_row_filter(&self, filter: &Arc<dyn PhysicalExpr>, pushdown: bool) -> bool {
        if !casts_keep_order(filter, self.inner.table_schema().table_schema()) {
            return false;
        }
        if pushdown && self.context.has_deletes && can_fail(filter) {
            return false;
        }
        let schema = self.inner.table_schema().table_schema();
        let lineage = lineage_fields();
        collect_columns(filter).iter().all(|column| {
            !lineage.iter().any(|f| f.name == column.name())
                && schema
                    .field_with_name(column.name())
                    .is_ok_and(|f| !f.data_type().is_nested() && !matches!(f.data_type(), DataType::Null))
        })
    }
}

impl fmt::Debug for IcebergSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IcebergSource").field("context", &self.context).finish_non_exhaustive()
    }
}

impl FileSource for IcebergSource {
    fn create_file_opener(
        &self,
        _: Arc<dyn ObjectStore>,
        _: &FileScanConfig,
        _: usize,
    ) -> DfResult<Arc<dyn FileOpener>> {
        Err(Error::unsupported("icefloe's scan opens files through DataFusion's morsel API only").into())
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> DfResult<Box<dyn Morselizer>> {
        Ok(Box::new(IcebergMorselizer::new(OpenFiles {
            inner: Arc::clone(&self.inner),
            row_filter: self.row_filter.clone(),
            context: Arc::clone(&self.context),
            object_store,
            object_store_url: config.object_store_url.clone(),
            limit: config.limit,
            preserve_order: config.preserve_order,
            // Nobody asked for the first rows of a file, but that is what people expect of a LIMIT.
            in_order: config.preserve_order || !config.output_ordering.is_empty() || config.limit.is_some(),
            batch_size: self.batch_size.unwrap_or(8192),
            partition,
        })))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        let inner = self.inner.with_batch_size(batch_size);
        Arc::new(Self { inner, batch_size: Some(batch_size), ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        // That there is one is what makes statistics inexact.
        self.inner.filter().or_else(|| self.row_filter.clone())
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        "iceberg"
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "{}", self.context.description)?,
            _ => write!(f, ", {}", self.context.description)?,
        }
        self.inner.fmt_extra(t, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> DfResult<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        // What can't be promised is withheld altogether: one filter that it can't build makes the
        // Parquet source forget all of them.
        let pushdown = config.execution.parquet.pushdown_filters;
        let promised: Vec<bool> = filters.iter().map(|f| self.is_row_filter(f, pushdown)).collect();
        let passed = filters.iter().zip(&promised).filter(|(_, p)| **p).map(|(f, _)| Arc::clone(f)).collect();
        let mut result = self.inner.try_pushdown_filters(passed, config)?;
        let Some(inner) = result.updated_node.take() else {
            result.filters = vec![PushedDown::No; filters.len()];
            return Ok(result);
        };
        let mut source = Self { inner, ..self.clone() };
        let mut answers = std::mem::take(&mut result.filters).into_iter();
        for (filter, promised) in filters.into_iter().zip(promised) {
            let answer = if promised { answers.next().unwrap_or(PushedDown::No) } else { PushedDown::No };
            let ours =
                promised && !pushdown && self.context.has_deletes && is_fixed(&filter) && !can_fail(&filter);
            if ours {
                source.row_filter = Some(conjunction(source.row_filter.into_iter().chain([filter])));
            }
            result.filters.push(if ours { PushedDown::Yes } else { answer });
        }
        result.updated_node = Some(Arc::new(source));
        Ok(result)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> DfResult<Option<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_projection(projection)?.map(|inner| self.wrap(inner)))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        eq_properties: &EquivalenceProperties,
    ) -> DfResult<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(match self.inner.try_pushdown_sort(order, eq_properties)? {
            SortOrderPushdownResult::Exact { inner } => {
                SortOrderPushdownResult::Exact { inner: self.wrap(inner) }
            }
            SortOrderPushdownResult::Inexact { inner } => {
                SortOrderPushdownResult::Inexact { inner: self.wrap(inner) }
            }
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> DfResult<Option<FileScanConfig>> {
        let mut config = self.inner.repartitioned(
            target_partitions,
            repartition_file_min_size,
            output_ordering,
            config,
        )?;
        // A limit above makes DataFusion forget that partitions are in order, and they take files from
        // each other. A scan that says how it is partitioned is left alone.
        if let Some(config) = config.as_mut().filter(|config| !config.output_ordering.is_empty()) {
            config.output_partitioning = Some(Partitioning::UnknownPartitioning(config.file_groups.len()));
        }
        Ok(config)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}
