//! Plans INSERT: who writes which rows in which order, and who commits.

use std::fmt::{self, Debug, Display, Formatter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, FieldRef, Schema as ArrowSchema};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::commit_exec::{IcebergCommitExec, Work};
use super::data_files::{DataFileWriter, WriteOptions};
use super::partition::SourceColumn;
use super::transformed::transformed;
use super::write_exec::IcebergWriteExec;
use crate::catalog::Catalog;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    DistributionMode, NullOrder, Snapshot, SortDirection, SortOrderId, TableProperties, Transform,
};
use crate::table::Table;

/// What becomes of the rows that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertMode {
    /// They stay.
    Append,
    /// All of them go.
    Overwrite,
}

impl Display for InsertMode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append => "append",
            Self::Overwrite => "overwrite",
        })
    }
}

/// Is told of a table after it was changed.
pub(crate) type Observer = Arc<dyn Fn(&Table) + Send + Sync>;

/// The table that rows are written to.
#[derive(Clone)]
pub(crate) struct InsertTarget {
    /// As it was when the statement was planned.
    pub(crate) table: Table,
    pub(crate) catalog: Arc<dyn Catalog>,
    /// Who wants to know of the table after the commit.
    pub(crate) observer: Observer,
    /// The branch that is committed to.
    pub(crate) branch: String,
    /// The snapshot that the statement reads.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
}

impl Debug for InsertTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InsertTarget").field(&self.table.name()).finish()
    }
}

impl InsertTarget {
    pub(super) fn committed(&self, table: &Table) {
        (self.observer)(table);
    }
}

/// How rows come to their writers.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// Rows with the same keys go to the same writer.
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The order in which a writer gets them.
    pub(super) order: Option<LexOrdering>,
    /// The table's order, if they have it within each file.
    pub(super) sort_order_id: Option<SortOrderId>,
}

/// A plan that writes the rows of `input` to the table, and commits. Nothing happens before it is
/// executed.
///
/// # Errors
/// `DataInvalid` for rows that are not of the table's schema; `Unsupported` for tables that can't be
/// written to. Each names the table.
pub(crate) fn plan_insert(
    target: InsertTarget,
    input: Arc<dyn ExecutionPlan>,
    mode: InsertMode,
) -> Result<Arc<dyn ExecutionPlan>> {
    let table = target.table.clone();
    let place = || format!("table `{}`", table.name());
    // It refuses tables that can't be written to.
    let writer = DataFileWriter::new(&table, WriteOptions::default())?;
    let input = conformed(input, &writer).context(place)?;
    let rows = Rows::of(&table, &input.schema()).context(place)?;
    let write = IcebergWriteExec::new(input, table.clone(), rows, false);
    Ok(Arc::new(IcebergCommitExec::new(Arc::new(write), target, Work::Insert(mode))))
}

/// The rows in the types and order of the table's columns, which are found by name.
fn conformed(input: Arc<dyn ExecutionPlan>, writer: &DataFileWriter) -> Result<Arc<dyn ExecutionPlan>> {
    let (given, target) = (input.schema(), writer.arrow_schema());
    let mut columns = Vec::with_capacity(given.fields().len());
    let mut fields: Vec<FieldRef> = Vec::with_capacity(given.fields().len());
    for (i, found) in given.fields().iter().enumerate() {
        let mut expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(found.name(), i));
        let mut field = Arc::clone(found);
        if let Ok(wanted) = target.field_with_name(found.name()).map(|field| field.data_type().clone())
            && wanted != *found.data_type()
            && can_cast(found.data_type(), &wanted)
        {
            // What does not fit is an error.
            expr = Arc::new(CastExpr::new(expr, wanted.clone(), None));
            field = Arc::new(found.as_ref().clone().with_data_type(wanted));
        }
        columns.push(ProjectionExpr { expr, alias: found.name().clone() });
        fields.push(field);
    }
    let schema = Arc::new(ArrowSchema::new(fields));
    writer.conform(&RecordBatch::new_empty(Arc::clone(&schema)))?;
    // In the order of the table; `conform` has seen that all are there.
    let place = |column: &ProjectionExpr| target.index_of(&column.alias).ok();
    columns.sort_by_key(place);
    if schema == given && columns.iter().map(place).eq((0..columns.len()).map(Some)) {
        return Ok(input);
    }
    let projected = ProjectionExec::try_new(columns, input);
    Ok(Arc::new(projected.map_err(|e| Error::invalid("the rows can't be made the table's").with_source(e))?))
}

/// Whether values are cast on their way: numbers, as the optimizer may have made them wider than the
/// statement said, and what Arrow holds in several ways.
fn can_cast(given: &DataType, wanted: &DataType) -> bool {
    let is_text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_bytes =
        |t: &DataType| matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let given = match given {
        DataType::Dictionary(_, values) => values,
        given => given,
    };
    given == wanted
        || given.is_numeric() && wanted.is_numeric()
        || is_text(given) && is_text(wanted)
        || is_bytes(given) && is_bytes(wanted)
}

impl Rows {
    /// By the table's partition spec, sort order and `write.distribution-mode`.
    pub(super) fn of(table: &Table, columns: &ArrowSchema) -> Result<Self> {
        let metadata = table.metadata();
        let (schema, spec) = (metadata.current_schema(), metadata.default_spec());
        let properties = TableProperties::new(&metadata.properties);
        let mode = properties.distribution_mode()?;
        let mut partitions: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for field in spec.fields.iter().filter(|field| field.transform != Transform::Void) {
            let column = SourceColumn::new(&field.source_ids, &field.transform, schema);
            let key = column.and_then(|column| transformed(column, columns));
            partitions.push(key.context(|| format!("partition field `{}`", field.name))?);
        }
        let order = metadata.default_sort_order();
        let mut keys = Vec::with_capacity(order.fields.len());
        for field in &order.fields {
            let column = SourceColumn::new(&field.source_ids, &field.transform, schema);
            let key = column.and_then(|column| transformed(column, columns));
            let options = SortOptions {
                descending: field.direction == SortDirection::Descending,
                nulls_first: field.null_order == NullOrder::First,
            };
            keys.push(PhysicalSortExpr::new(key.context(|| "sort order".to_owned())?, options));
        }
        let mut rows = Self::default();
        if !keys.is_empty() {
            rows.sort_order_id = Some(order.order_id);
        }
        // A file has rows of one partition, so that these come first. Otherwise many partitions would
        // have to be open at once, or have many files.
        if !keys.is_empty() || !properties.fanout()? {
            let by_partition = partitions.iter().map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
            rows.order = LexOrdering::new(by_partition.chain(keys));
        }
        if mode != Some(DistributionMode::None) {
            rows.keys = partitions;
        }
        Ok(rows)
    }
}
