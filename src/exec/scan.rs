//! A planned scan → one `DataSourceExec`.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, FieldRef, Schema as ArrowSchema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::common::config::TableParquetOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchemaBuilder;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::arrow::{to_query_schema, value_to_scalar};
use crate::error::{Error, Result};
use crate::expr::Predicate;
use crate::plan::{PlanCounters, ScanPlan};
use crate::spec::{
    FieldId, FileScanTask, NameMapping, NestedField, Schema, SnapshotId, StructType, Transform, Type,
};
use crate::table::Table;

use super::adapter::FileConstants;
use super::anti_join::{LargeKeys, scope};
use super::deletes::DeleteLoader;
use super::field_ids::FieldResolution;
use super::file_order::{divided, file_groups, ordering};
use super::metadata_columns::{
    FILE, METADATA_COLUMNS, PARTITION, POS, ROW_ID, SPEC_ID, lineage_fields, metadata_field, partition_value,
    unified_partition_type,
};
use super::reader::ReaderFactory;
use super::source::{IcebergSource, ScanContext, ScanFile};
use super::statistics::{file_statistics, scan_statistics};
use super::struct_keys::{StructKeys, in_files, read_from};

/// The data sequence number of the row's file; only anti-joins read it.
pub(crate) const SEQUENCE_NUMBER: &str = "\u{1}sequence_number";
/// The spec and the partition tuple of the row's file as text; only anti-joins read it.
pub(crate) const SCOPE: &str = "\u{1}scope";

/// The property with a table's name mapping (spec, "Name Mapping Serialization").
const NAME_MAPPING_PROPERTY: &str = "schema.name-mapping.default";

/// What positions are called where the table has a column `_pos` of its own; no column of a user's
/// has that name by accident.
const OWN_POS: &str = "\u{1}pos";

/// Up to this many column statistics (files times columns) are made while planning; beyond, each
/// file's are made as it is opened.
const EAGER_STATISTICS: usize = 100_000;

/// Everything that a scan reads and how.
#[derive(Clone)]
pub(crate) struct ScanRequest<'a> {
    pub(crate) table: &'a Table,
    pub(crate) snapshot_id: Option<SnapshotId>,
    /// The schema to read with: the snapshot's or the table's.
    pub(crate) schema: Arc<Schema>,
    /// The columns wanted, by name, in order: the schema's and metadata columns.
    pub(crate) projection: Vec<String>,
    /// Columns that filters read although they may not be wanted.
    pub(crate) filter_columns: Vec<String>,
    /// What was used for pruning.
    pub(crate) filter: Predicate,
    /// How long planning took.
    pub(crate) planning: Duration,
    /// How many rows are enough; only where no filter is left to apply above.
    pub(crate) limit: Option<usize>,
}

/// Builds the plan node that reads the files of `plan`.
///
/// # Errors
/// `DataInvalid` where metadata contradicts itself; `Unsupported` for deletes that can't be applied.
pub(crate) fn build_scan(
    request: &ScanRequest<'_>,
    plan: ScanPlan,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    match LargeKeys::find(request, &plan, session)? {
        Some(keys) => keys.scan(request, plan, session),
        None => scan_files(request, plan, Vec::new(), session),
    }
}

/// Builds the node that reads the files of `plan` with the deletes of its tasks applied; `extra` are
/// columns for deletes that are applied above it.
pub(super) fn scan_files(
    request: &ScanRequest<'_>,
    plan: ScanPlan,
    extra: Vec<NestedField>,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let tasks = within_limit(plan.tasks, request.limit);
    let delete_bytes = Count::new();
    let memory = &session.runtime_env().memory_pool;
    let deletes = DeleteLoader::new(request.table, &request.schema, &tasks, memory, delete_bytes)?;
    let has_deletes = tasks.iter().any(|task| !task.deletes.is_empty());
    let mut dropped = deletes.dropped_columns();
    for column in extra {
        if !dropped.iter().any(|c| c.id == column.id) {
            dropped.push(column);
        }
    }
    let struct_keys = deletes.struct_keys();
    let layout = Layout::new(request, dropped, &struct_keys)?;

    let columns = layout.statistics_columns(request);
    let statistics = {
        let mut known = scan_statistics(&tasks, &layout.schema, &layout.file_schema, &columns);
        let extra = layout.table_schema.table_schema().fields().len() - layout.file_schema.fields().len();
        known
            .column_statistics
            .extend((0..extra).map(|_| datafusion::common::ColumnStatistics::new_unknown()));
        known
    };

    let target_partitions = session.config().target_partitions().max(1);
    let eager = tasks.len().saturating_mul(layout.file_schema.fields().len()) <= EAGER_STATISTICS;
    let ordering = ordering(&layout.schema, request.table, &tasks);
    let mut files = Vec::with_capacity(tasks.len());
    for task in tasks {
        files.push(layout.file(request.table, task, eager.then_some(columns.as_slice()))?);
    }

    let resolution = FieldResolution {
        schema: in_files(&layout.schema, &struct_keys)?,
        name_mapping: name_mapping(request.table)?,
    };
    let mut options = TableParquetOptions {
        global: session.config_options().execution.parquet.clone(),
        ..Default::default()
    };
    // INT96 as nanoseconds would overflow outside 1677 to 2262.
    options.global.coerce_int96 = Some("us".to_owned());
    let factory = ReaderFactory::new(request.table.clone(), resolution.clone());
    let parquet = ParquetSource::new(layout.table_schema.clone())
        .with_table_parquet_options(options)
        .with_parquet_file_reader_factory(Arc::new(factory));
    let context = Arc::new(ScanContext {
        table: request.table.clone(),
        schema: Arc::clone(&layout.schema),
        resolution,
        read_from: Arc::new(read_from(&struct_keys)),
        columns,
        deletes,
        has_deletes,
        parquet: parquet.clone(),
        description: describe(request, &plan.residuals, &plan.counters, &files),
    });
    let source = IcebergSource::new(parquet, context);
    count(
        datafusion::datasource::physical_plan::FileSource::metrics(&source),
        &plan.counters,
        request.planning,
    );

    let groups = file_groups(files, target_partitions);
    let in_order = ordering.is_some() && groups.len() > 1;
    let mut config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
        .with_file_groups(groups)
        .with_statistics(statistics)
        .with_limit(request.limit)
        .with_projection_indices(Some(layout.projection.clone()))
        .map_err(|e| Error::invalid("the projection can't be used").with_source(e))?;
    if let Some(ordering) = ordering {
        config = config.with_output_ordering(vec![ordering]);
    }
    let mut config = config.build();
    if in_order {
        config = divided(config, target_partitions, session)?;
    }
    Ok(DataSourceExec::from_data_source(config))
}

/// Where each column of the scan comes from.
struct Layout {
    /// The columns that files may hold: the schema's, and row lineage columns if wanted.
    schema: Arc<Schema>,
    file_schema: SchemaRef,
    table_schema: datafusion::datasource::table_schema::TableSchema,
    /// Indices into the table schema.
    projection: Vec<usize>,
    /// Per-file constants, in the order of the table schema's partition columns.
    constants: Vec<&'static str>,
    unified: StructType,
}

impl Layout {
    /// `dropped` and `struct_keys`: columns that only equality deletes still read.
    fn new(request: &ScanRequest<'_>, dropped: Vec<NestedField>, struct_keys: &[StructKeys]) -> Result<Self> {
        let own = |name: &str| request.schema.root.field_by_name(name).is_some();
        let wanted = |name: &str| {
            !own(name) && request.projection.iter().chain(&request.filter_columns).any(|n| n == name)
        };
        let unified = unified_partition_type(request.table)?;

        let mut fields: Vec<NestedField> = request.schema.fields().to_vec();
        fields.extend(lineage_fields().into_iter().filter(|f| wanted(&f.name)));
        fields.extend(dropped);
        let mut next_id = i32::MIN;
        fields.extend(struct_keys.iter().map(|keys| keys.scan_column(&mut next_id)));
        let schema = Arc::new(Schema::new(request.schema.schema_id, fields, Vec::new())?);
        let file_schema = Arc::new(to_query_schema(&schema)?);

        let constants: Vec<&'static str> = [FILE, SPEC_ID, PARTITION, SEQUENCE_NUMBER, SCOPE]
            .into_iter()
            .filter(|name| wanted(name))
            .collect();
        let mut constant_fields: Vec<FieldRef> = Vec::new();
        for name in &constants {
            match *name {
                SEQUENCE_NUMBER => constant_fields.push(Arc::new(Field::new(*name, DataType::Int64, false))),
                SCOPE => constant_fields.push(Arc::new(Field::new(*name, DataType::Utf8, false))),
                name => constant_fields.extend(metadata_field(name, &unified)?),
            }
        }
        let mut virtual_fields: Vec<FieldRef> = Vec::new();
        if let (true, Some(field)) = (wanted(POS) || wanted(ROW_ID), metadata_field(POS, &unified)?) {
            // Row ids need positions even where a column of the user's has their name.
            let name = if own(POS) { OWN_POS } else { POS };
            virtual_fields.push(Arc::new(field.as_ref().clone().with_name(name)));
        }
        let table_schema = TableSchemaBuilder::new(Arc::clone(&file_schema))
            .with_table_partition_cols(constant_fields)
            .with_virtual_columns(virtual_fields)
            .build();
        let projection = request.projection.iter().map(|name| {
            let index = table_schema.table_schema().index_of(name);
            index.map_err(|e| Error::not_found(format!("column `{name}`")).with_source(e))
        });
        let projection = projection.collect::<Result<Vec<_>>>()?;
        Ok(Self { schema, file_schema, table_schema, projection, constants, unified })
    }

    /// The columns that the query reads: only their statistics are worth making.
    fn statistics_columns(&self, request: &ScanRequest<'_>) -> Vec<usize> {
        let mut columns: Vec<usize> = request
            .projection
            .iter()
            .chain(&request.filter_columns)
            .filter_map(|name| request.schema.fields().iter().position(|f| &f.name == name))
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    fn file(
        &self,
        table: &Table,
        task: FileScanTask,
        statistics: Option<&[usize]>,
    ) -> Result<PartitionedFile> {
        let metadata = table.metadata();
        let file = &task.data_file;
        let size = u64::try_from(file.file_size_in_bytes).map_err(|_| {
            Error::invalid(format!("file_size_in_bytes is {}", file.file_size_in_bytes))
                .context(format!("file {}", file.file_path))
        })?;
        let mut partitioned = PartitionedFile::new_from_meta(ObjectMeta {
            // Only shown: the reader resolves the exact path itself.
            location: Path::from(file.file_path.as_str()),
            last_modified: chrono::DateTime::UNIX_EPOCH,
            size,
            e_tag: None,
            version: None,
        });
        for name in &self.constants {
            partitioned.partition_values.push(match *name {
                FILE => ScalarValue::Utf8View(Some(file.file_path.clone())),
                SPEC_ID => ScalarValue::Int32(Some(file.spec_id.0)),
                SEQUENCE_NUMBER => ScalarValue::Int64(Some(task.sequence_number.0)),
                SCOPE => ScalarValue::Utf8(Some(scope(file))),
                _ => partition_value(file, metadata, &self.unified)?,
            });
        }
        if let Some(columns) = statistics {
            let mut known = file_statistics(&task, &self.schema, &self.file_schema, columns);
            // One entry a column of the whole table schema; nothing is said of the constants.
            let all = self.table_schema.table_schema().fields().len();
            known.column_statistics.resize(all, datafusion::common::ColumnStatistics::new_unknown());
            partitioned.statistics = Some(Arc::new(known));
        }
        let constants = Arc::new(FileConstants {
            file_path: file.file_path.clone(),
            partition_values: self.identity_values(table, &task)?,
            first_row_id: file.first_row_id,
            sequence_number: Some(task.sequence_number.0),
        });
        Ok(partitioned.with_extension(ScanFile { task: Arc::new(task), constants }))
    }

    /// Values of identity partition fields: what a column has if the file lacks it (spec, "Column
    /// Projection").
    fn identity_values(&self, table: &Table, task: &FileScanTask) -> Result<Vec<(FieldId, ScalarValue)>> {
        let file = &task.data_file;
        let Some(spec) = table.metadata().partition_specs.get(&file.spec_id) else {
            return Ok(Vec::new());
        };
        let mut values = Vec::new();
        for (field, value) in spec.fields.iter().zip(&file.partition) {
            let (Transform::Identity, Some(source)) = (&field.transform, field.source_id()) else {
                continue;
            };
            let Some(index) = self.schema.fields().iter().position(|f| f.id == source) else {
                continue;
            };
            let column = &self.schema.fields()[index];
            let promoted = match (value, &column.field_type) {
                (Some(v), Type::Primitive(p)) => match v.promote_to(p) {
                    Some(v) => Some(v),
                    None => continue,
                },
                (None, _) => None,
                _ => continue,
            };
            let data_type = self.file_schema.field(index).data_type();
            values.push((source, value_to_scalar(promoted.as_ref(), &column.field_type, data_type)?));
        }
        Ok(values)
    }
}

/// Enough files for the limit; only asked for where every row of a file counts.
fn within_limit(mut tasks: Vec<FileScanTask>, limit: Option<usize>) -> Vec<FileScanTask> {
    let Some(limit) = limit else { return tasks };
    let mut rows = 0u64;
    let enough = tasks.iter().position(|t| {
        if t.deletes.is_empty() {
            rows = rows.saturating_add(u64::try_from(t.data_file.record_count).unwrap_or(0));
        }
        rows >= limit as u64
    });
    if let Some(last) = enough {
        tasks.truncate(last + 1);
    }
    tasks
}

fn describe(
    request: &ScanRequest<'_>,
    residuals: &[Predicate],
    counters: &PlanCounters,
    files: &[PartitionedFile],
) -> String {
    let snapshot = request.snapshot_id.map_or_else(|| "none".to_owned(), |id| id.to_string());
    let residuals: Vec<String> = residuals.iter().map(ToString::to_string).collect();
    let limited = match files.len() < counters.files_kept {
        true => format!(", files_for_limit={}", files.len()),
        false => String::new(),
    };
    format!(
        "table={}, snapshot={snapshot}, schema_id={}, filter=[{}], residual=[{}], {counters}{limited}",
        request.table.name(),
        request.schema.schema_id,
        request.filter,
        residuals.join(" | "),
    )
}

fn count(metrics: &ExecutionPlanMetricsSet, counters: &PlanCounters, planning: Duration) {
    MetricBuilder::new(metrics).subset_time("planning_time", 0).add_duration(planning);
    for (name, value) in counters.named() {
        MetricBuilder::new(metrics).global_counter(name).add(value);
    }
}

fn name_mapping(table: &Table) -> Result<Option<Arc<NameMapping>>> {
    let Some(json) = table.metadata().properties.get(NAME_MAPPING_PROPERTY) else {
        return Ok(None);
    };
    let parsed = NameMapping::parse(json).map_err(|e| {
        e.context(format!("property `{NAME_MAPPING_PROPERTY}`")).context(format!("table {}", table.name()))
    })?;
    Ok(Some(Arc::new(parsed)))
}

/// The schema of a table as DataFusion sees it, with or without metadata columns.
pub(crate) fn provider_schema(table: &Table, schema: &Schema, metadata_columns: bool) -> Result<SchemaRef> {
    let mut fields: Vec<FieldRef> = to_query_schema(schema)?.fields().iter().cloned().collect();
    if metadata_columns {
        let unified = unified_partition_type(table)?;
        for name in METADATA_COLUMNS {
            if schema.root.field_by_name(name).is_none() {
                fields.extend(metadata_field(name, &unified)?);
            }
        }
    }
    Ok(Arc::new(ArrowSchema::new(fields)))
}
