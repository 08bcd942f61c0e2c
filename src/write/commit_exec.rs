//! Commits the data files that a plan wrote.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;

use super::execution::Execution;
use super::fanout::remove_files;
use super::insert::{InsertMode, InsertTarget};
use super::records;
use super::row_change::RowChangePlan;
use super::row_level;
use crate::error::{Error, ErrorKind};
use crate::expr::Predicate;
use crate::spec::ContentFile;
use crate::transaction::{Append, Overwrite, Transaction};

/// What a statement does to the table.
#[derive(Debug, Clone)]
pub(super) enum Work {
    /// It adds rows.
    Insert(InsertMode),
    /// It changes rows that are there.
    Rows(RowChangePlan),
    /// It removes the files of all rows that match, which have no others; how many rows that are.
    Files { rows: Predicate, count: u64 },
}

/// Commits the files that its input wrote: one row out, the number of rows that were added or changed.
#[derive(Debug, Clone)]
pub(super) struct IcebergCommitExec {
    input: Arc<dyn ExecutionPlan>,
    target: InsertTarget,
    work: Work,
    properties: Arc<PlanProperties>,
}

impl IcebergCommitExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, target: InsertTarget, work: Work) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self { input, target, work, properties }
    }
}

/// What DataFusion wants of all statements that change rows.
fn count_schema() -> SchemaRef {
    Arc::new(ArrowSchema::new(vec![Field::new("count", DataType::UInt64, false)]))
}

impl DisplayAs for IcebergCommitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "IcebergCommitExec: table={}, operation=", self.target.table.name())?;
        match &self.work {
            Work::Insert(mode) => write!(f, "{mode}"),
            Work::Rows(plan) => f.write_str(plan.change.operation.name()),
            Work::Files { rows, .. } => write!(f, "delete, files_of={rows}"),
        }
    }
}

impl ExecutionPlan for IcebergCommitExec {
    fn name(&self) -> &'static str {
        "IcebergCommitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
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
        Ok(Arc::new(Self { input: children.swap_remove(0), ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        if partition != 0 || self.input.properties().output_partitioning().partition_count() != 1 {
            return Err(DataFusionError::Internal("commits need all files in one partition".to_owned()));
        }
        let execution = Execution::new(&self.target.table, &context);
        let input = self.input.execute(0, execution.within(&context))?;
        let (target, work) = (self.target.clone(), self.work.clone());
        let committed = async move {
            let count = write_and_commit(input, &execution, &target, &work).await?;
            let column: ArrayRef = Arc::new(UInt64Array::from(vec![count]));
            Ok(RecordBatch::try_new(count_schema(), vec![column])?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(count_schema(), futures::stream::once(committed))))
    }
}

async fn write_and_commit(
    input: SendableRecordBatchStream,
    execution: &Execution,
    target: &InsertTarget,
    work: &Work,
) -> DfResult<u64> {
    let written = async {
        let files = gather(input, target).await?;
        Ok::<_, DataFusionError>(match work {
            Work::Insert(mode) => insert(target, *mode, files),
            Work::Rows(plan) => row_level::commit(target, plan, execution, files).await?,
            Work::Files { count: 0, .. } => Prepared { transaction: None, files, rows: 0 },
            Work::Files { rows, count } => {
                // Rows that others added since it was planned are deleted too, as if they had come before.
                let delete = Overwrite::new().rows_of(rows.clone()).branch(&target.branch);
                let transaction = Some(target.table.transaction().apply(delete));
                Prepared { transaction, files, rows: *count }
            }
        })
    };
    let Prepared { transaction, files, rows } = match written.await {
        Ok(prepared) => prepared,
        Err(e) => {
            execution.fail().await;
            return Err(e);
        }
    };
    execution.hand_over();
    let Some(transaction) = transaction else { return Ok(rows) };
    match transaction.commit(target.catalog.as_ref()).await {
        Ok(table) => target.committed(&table),
        Err(e) if e.kind() == ErrorKind::CommitStateUnknown => {
            let message =
                "it is not known whether the rows were changed: look at the table before you try again";
            return Err(Error::new(ErrorKind::CommitStateUnknown, message).with_source(e).into());
        }
        Err(e) => {
            remove_files(&target.table, &files).await;
            let is_late = e.kind() == ErrorKind::ValidationFailed && matches!(work, Work::Files { .. });
            return Err(match is_late {
                true => Error::new(
                    ErrorKind::ValidationFailed,
                    "others changed the rows that it deletes since it was planned; run it again",
                )
                .with_source(e),
                false => e,
            }
            .into());
        }
    }
    Ok(rows)
}

/// A change that only has to be committed.
pub(super) struct Prepared {
    /// `None` if there is nothing to commit.
    pub(super) transaction: Option<Transaction>,
    /// The files that were written for it.
    pub(super) files: Vec<ContentFile>,
    /// How many rows it adds or changes.
    pub(super) rows: u64,
}

/// All files that are written. After an error, whoever is still writing has stopped, or will.
async fn gather(mut input: SendableRecordBatchStream, target: &InsertTarget) -> DfResult<Vec<ContentFile>> {
    let spec_id = target.table.metadata().default_spec_id;
    let mut files = Vec::new();
    while let Some(batch) = input.next().await {
        files.extend(records::decode(&target.table, spec_id, &batch?)?);
    }
    Ok(files)
}

fn insert(target: &InsertTarget, mode: InsertMode, files: Vec<ContentFile>) -> Prepared {
    let rows = files.iter().filter_map(|file| u64::try_from(file.record_count).ok()).sum();
    let transaction = target.table.transaction();
    let transaction = match mode {
        // A staged table is created without rows too.
        InsertMode::Append if files.is_empty() && target.table.is_staged() => Some(transaction),
        InsertMode::Append if files.is_empty() => None,
        InsertMode::Append => {
            Some(transaction.apply(Append::merging().files(files.clone()).branch(&target.branch)))
        }
        InsertMode::Overwrite => {
            // The query may have read the table: what others did meanwhile would be lost unseen.
            let overwrite =
                Overwrite::new().rows_of(Predicate::True).add_files(files.clone()).branch(&target.branch);
            let overwrite = overwrite.validate_no_conflicting_data().validate_no_conflicting_deletes();
            Some(match &target.snapshot {
                Some(read) => transaction.apply(overwrite.validate_from_snapshot(read.snapshot_id)),
                None => transaction.apply(overwrite),
            })
        }
    };
    Prepared { transaction, files, rows }
}
