//! Takes changes of rows apart: old versions are remembered for the commit, new ones go on to be
//! written.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringViewArray};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options, filter_record_batch};
use arrow::datatypes::{DataType, Int64Type, Schema as ArrowSchema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;
use tokio::sync::mpsc::Sender;

use super::changes::Changes;
use super::execution::Execution;
use super::insert::InsertTarget;
use super::records;
use super::rest::Rest;
use super::row_change::{OLD_FILE, OLD_POSITION, REMOVED, RowChangePlan};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{RowLevelMode, RowLevelOperation};

/// Changes in, rows to be written out.
#[derive(Debug, Clone)]
pub(super) struct IcebergChangeExec {
    input: Arc<dyn ExecutionPlan>,
    target: InsertTarget,
    plan: RowChangePlan,
    /// Plans the scan of the files that are copied.
    session: SessionState,
    properties: Arc<PlanProperties>,
}

impl IcebergChangeExec {
    /// `rows`: the columns that are written.
    ///
    /// # Errors
    /// `DataInvalid` if the input does not have them.
    pub(super) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        target: InsertTarget,
        plan: RowChangePlan,
        rows: SchemaRef,
        session: SessionState,
    ) -> Result<Self> {
        let given = input.schema();
        if plan.change.operation != RowLevelOperation::Delete {
            for field in rows.fields() {
                let found = given.field_with_name(field.name());
                let found = found.map_err(|e| {
                    let message = "its columns were changed while the statement was planned; run it again";
                    Error::new(ErrorKind::ValidationFailed, message).with_source(e)
                })?;
                if !can_cast_types(found.data_type(), field.data_type()) {
                    let message = format!("values of {} are no {}", found.data_type(), field.data_type());
                    return Err(Error::invalid(message).context(format!("column `{}`", field.name())));
                }
            }
        }
        let writes =
            plan.mode == RowLevelMode::CopyOnWrite || plan.change.operation != RowLevelOperation::Delete;
        // The writer sees to what is required.
        let optional = |field: &Arc<arrow::datatypes::Field>| field.as_ref().clone().with_nullable(true);
        let schema = match writes {
            true => Arc::new(ArrowSchema::new(rows.fields().iter().map(optional).collect::<Vec<_>>())),
            false => records::schema(),
        };
        let properties = properties(&input, schema, copiers(&plan, &session));
        Ok(Self { input, target, plan, session, properties })
    }
}

/// `copiers`: how many partitions copy rows, if any do.
fn properties(
    input: &Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    copiers: Option<usize>,
) -> Arc<PlanProperties> {
    let inputs = input.properties().output_partitioning().partition_count();
    let partitions = inputs.max(copiers.unwrap_or(inputs));
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Both,
        Boundedness::Bounded,
    ))
}

fn copiers(plan: &RowChangePlan, session: &SessionState) -> Option<usize> {
    (plan.mode == RowLevelMode::CopyOnWrite).then(|| session.config().target_partitions())
}

impl DisplayAs for IcebergChangeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let mode = match self.plan.mode {
            RowLevelMode::CopyOnWrite => "copy-on-write",
            RowLevelMode::MergeOnRead => "merge-on-read",
        };
        write!(f, "IcebergChangeExec: table={}, mode={mode}", self.target.table.name())?;
        write!(f, ", conflict_filter={}", self.plan.change.filter)
    }
}

impl ExecutionPlan for IcebergChangeExec {
    fn name(&self) -> &'static str {
        "IcebergChangeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        let properties = properties(&input, self.schema(), copiers(&self.plan, &self.session));
        Ok(Arc::new(Self { input, properties, ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let execution = Execution::of(&context).ok_or_else(|| {
            let message = "the changes of rows have to be found and committed by one process";
            DataFusionError::from(
                Error::unsupported(message).context(format!("table {}", self.target.table.name())),
            )
        })?;
        let changes = Arc::clone(&execution.changes);
        let partitions = self.properties.output_partitioning().partition_count();
        let inputs = self.input.properties().output_partitioning().partition_count();
        let input = match partition < inputs {
            true => Some(self.input.execute(partition, Arc::clone(&context))?),
            false => None,
        };
        let (plan, schema) = (self.plan.clone(), self.schema());
        let rest = (plan.mode == RowLevelMode::CopyOnWrite)
            .then(|| Rest::new(&self.target, &plan, &self.session, &changes));
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema(), 2);
        let rows = builder.tx();
        builder.spawn(async move {
            if let Some(input) = input {
                take_apart(input, &changes, &plan, &schema, &rows).await?;
                changes.tell_complete();
            }
            let Some(rest) = rest else { return Ok(()) };
            changes.all_complete(inputs).await;
            let Some(scan) = changes.rest(|| rest.scan()).await? else { return Ok(()) };
            let theirs = scan.properties().output_partitioning().partition_count();
            for theirs in (partition..theirs).step_by(partitions) {
                let mut input = scan.execute(theirs, Arc::clone(&context))?;
                while let Some(batch) = input.next().await {
                    let batch = rest.of(&batch?)?;
                    if !pass(&rows, of_schema(&batch, &schema)?).await {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

/// Whether somebody waits for more rows.
async fn pass(rows: &Sender<DfResult<RecordBatch>>, batch: RecordBatch) -> bool {
    batch.num_rows() == 0 || rows.send(Ok(batch)).await.is_ok()
}

/// Remembers the old versions of rows, and passes the new ones on.
async fn take_apart(
    mut input: SendableRecordBatchStream,
    changes: &Changes,
    plan: &RowChangePlan,
    schema: &SchemaRef,
    rows: &Sender<DfResult<RecordBatch>>,
) -> DfResult<()> {
    while let Some(batch) = input.next().await {
        let batch = batch?;
        let changed = remember(&batch, changes, plan)?;
        changes.count(changed);
        if plan.change.operation == RowLevelOperation::Delete {
            continue;
        }
        let written = match batch.column_by_name(REMOVED).and_then(|column| column.as_boolean_opt()) {
            Some(removed) => {
                let written = removed.iter().map(|removed| Some(removed != Some(true))).collect();
                filter_record_batch(&batch, &written)?
            }
            None => batch,
        };
        if !pass(rows, of_schema(&written, schema)?).await {
            return Ok(());
        }
    }
    Ok(())
}

/// Remembers the old versions of rows; how many rows are changed or added.
fn remember(batch: &RecordBatch, changes: &Changes, plan: &RowChangePlan) -> Result<usize> {
    let column = |name: &str| {
        batch.column_by_name(name).ok_or_else(|| Error::invalid("changes without a place in the table"))
    };
    let files = texts(column(OLD_FILE)?)?;
    let positions = column(OLD_POSITION)?.as_primitive_opt::<Int64Type>();
    let positions = positions.ok_or_else(|| Error::invalid("positions of rows are no longs"))?;
    if (0..batch.num_rows()).any(|row| files.is_null(row) != positions.is_null(row)) {
        return Err(Error::invalid("a row has a file without a position, or the other way round"));
    }
    let file = |row: usize| files.is_valid(row).then(|| files.value(row));
    let mut changed = 0;
    let mut start = 0;
    while start < batch.num_rows() {
        let this = file(start);
        let end = (start..batch.num_rows()).find(|row| file(*row) != this).unwrap_or(batch.num_rows());
        let Some(path) = this else {
            if plan.change.operation != RowLevelOperation::Merge {
                return Err(Error::invalid("a row that is not one of the table's"));
            }
            // Rows that are added.
            changed += end - start;
            start = end;
            continue;
        };
        let positions = positions.values().get(start..end).unwrap_or_default();
        let new = changes.remove(path, positions)?;
        let first = new.iter().filter(|new| **new).count();
        if first < new.len() && !plan.change.repeats {
            let row = new.iter().zip(positions).find(|(new, _)| !**new).map_or(0, |(_, position)| *position);
            return Err(Error::new(
                ErrorKind::DataInvalid,
                format!(
                    "{} changes a row of the table several times, as several rows of the source match it; \
                     make them one (row {row} of {path})",
                    plan.change.operation.name().to_uppercase(),
                ),
            ));
        }
        changed += first;
        start = end;
    }
    Ok(changed)
}

fn texts(column: &ArrayRef) -> Result<StringViewArray> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let texts = cast_with_options(column, &DataType::Utf8View, &options)
        .map_err(|e| Error::invalid("paths of files are no text").with_source(e))?;
    texts.as_string_view_opt().cloned().ok_or_else(|| Error::invalid("paths of files are no text"))
}

/// The columns of a schema, found by name. Values that do not fit are an error.
fn of_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let column = |field: &Arc<arrow::datatypes::Field>| {
        let place = || format!("column `{}`", field.name());
        let column = batch.column_by_name(field.name());
        let column = column.ok_or_else(|| Error::invalid("it is missing").context(place()))?;
        cast_with_options(column, field.data_type(), &options)
            .map_err(|e| Error::invalid("a value does not fit").with_source(e).context(place()))
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|e| Error::invalid("rows can't be made the table's").with_source(e))
}

/// Rows of a batch.
pub(super) fn only(batch: &RecordBatch, rows: &BooleanArray) -> Result<RecordBatch> {
    filter_record_batch(batch, rows).map_err(|e| Error::invalid("rows can't be picked").with_source(e))
}
