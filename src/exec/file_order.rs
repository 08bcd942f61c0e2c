//! In which order files are read, and by which partitions.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::catalog::Session;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};

use crate::error::{Error, Result};
use crate::spec::{
    FileScanTask, NullOrder, PrimitiveType, Schema, SortDirection, SortOrderId, Transform, Type,
};
use crate::table::Table;

/// The order of every file's rows, if they all were written with the same sort order and
/// Arrow compares its columns as Iceberg does.
pub(super) fn ordering(schema: &Schema, table: &Table, tasks: &[FileScanTask]) -> Option<LexOrdering> {
    let id = tasks.first()?.data_file.sort_order_id.filter(|id| *id != SortOrderId(0))?;
    if tasks.iter().any(|t| t.data_file.sort_order_id != Some(id)) {
        return None;
    }
    let order = table.metadata().sort_orders.get(&id)?;
    let mut keys = Vec::new();
    for key in &order.fields {
        let [source] = key.source_ids.as_slice() else { break };
        let Some(index) = schema.fields().iter().position(|f| f.id == *source) else { break };
        let comparable = match &schema.fields()[index].field_type {
            Type::Primitive(p) => !matches!(
                p,
                PrimitiveType::Float
                    | PrimitiveType::Double
                    | PrimitiveType::Uuid
                    | PrimitiveType::Unknown
                    | PrimitiveType::Geometry { .. }
                    | PrimitiveType::Geography { .. }
            ),
            _ => false,
        };
        if key.transform != Transform::Identity || !comparable {
            break;
        }
        // DataFusion orders files by their bounds, which say nothing of nulls.
        let column = &schema.fields()[index];
        let no_nulls = |t: &FileScanTask| t.data_file.metrics.null_value_count(column.id) == Some(0);
        if !column.required && !tasks.iter().all(no_nulls) {
            break;
        }
        let options = SortOptions {
            descending: key.direction == SortDirection::Descending,
            nulls_first: key.null_order == NullOrder::First,
        };
        let column = Column::new(&schema.fields()[index].name, index);
        keys.push(PhysicalSortExpr::new(Arc::new(column), options));
    }
    LexOrdering::new(keys)
}

/// Runs of files, in order, of about the same number of bytes.
pub(super) fn file_groups(files: Vec<PartitionedFile>, target_partitions: usize) -> Vec<FileGroup> {
    let total: u64 = files.iter().map(|f| f.object_meta.size).sum();
    let share = total.div_ceil(target_partitions as u64).max(1);
    let mut groups: Vec<Vec<PartitionedFile>> = vec![Vec::new()];
    let mut filled = 0u64;
    for file in files {
        if filled >= share && groups.len() < target_partitions {
            groups.push(Vec::new());
            filled = 0;
        }
        filled += file.object_meta.size;
        if let Some(group) = groups.last_mut() {
            group.push(file);
        }
    }
    groups.into_iter().map(FileGroup::new).collect()
}

/// Files in order, divided among as many partitions as are wanted. DataFusion does not do that to a scan
/// that says how it is partitioned, as this one must (see `IcebergSource::repartitioned`).
pub(super) fn divided(
    mut config: FileScanConfig,
    partitions: usize,
    session: &dyn Session,
) -> Result<FileScanConfig> {
    let options = &session.config_options().optimizer;
    if options.repartition_file_scans {
        let (source, ordering) = (Arc::clone(&config.file_source), config.output_ordering.first().cloned());
        let divided = source
            .repartitioned(partitions, options.repartition_file_min_size, ordering, &config)
            .map_err(|e| Error::invalid("the files can't be divided among partitions").with_source(e))?;
        config = divided.unwrap_or(config);
    }
    config.output_partitioning = Some(Partitioning::UnknownPartitioning(config.file_groups.len()));
    Ok(config)
}
