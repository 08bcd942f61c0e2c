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
use crate::error::{Error, ErrorKind, Result};
use crate::expr::Predicate;
use crate::spec::ContentFile;
use crate::table::Table;
use crate::transaction::{Append, Overwrite};

/// Commits the files that its input wrote: one row out, the number of rows that were added.
#[derive(Debug, Clone)]
pub(super) struct IcebergCommitExec {
    input: Arc<dyn ExecutionPlan>,
    target: InsertTarget,
    mode: InsertMode,
    properties: Arc<PlanProperties>,
}

impl IcebergCommitExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, target: InsertTarget, mode: InsertMode) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self { input, target, mode, properties }
    }
}

/// What DataFusion wants of all statements that change rows.
fn count_schema() -> SchemaRef {
    Arc::new(ArrowSchema::new(vec![Field::new("count", DataType::UInt64, false)]))
}

impl DisplayAs for IcebergCommitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "IcebergCommitExec: table={}, operation={}", self.target.table.name(), self.mode)
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
        let execution = Execution::new(&self.target.table);
        let input = self.input.execute(0, execution.within(&context))?;
        let (target, mode) = (self.target.clone(), self.mode);
        let committed = async move {
            let count = write_and_commit(input, &execution, &target, mode).await?;
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
    mode: InsertMode,
) -> DfResult<u64> {
    let files = match gather(input, target).await {
        Ok(files) => files,
        Err(e) => {
            execution.fail().await;
            return Err(e);
        }
    };
    execution.hand_over();
    let rows = files.iter().filter_map(|file| u64::try_from(file.record_count).ok()).sum();
    match commit(target, mode, files.clone()).await {
        Ok(Some(table)) => target.committed(&table),
        Ok(None) => {}
        Err(e) => {
            if e.kind() != ErrorKind::CommitStateUnknown {
                remove_files(&target.table, &files).await;
            }
            return Err(e.into());
        }
    }
    Ok(rows)
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

/// The table after the commit; `None` if there was nothing to commit.
async fn commit(target: &InsertTarget, mode: InsertMode, files: Vec<ContentFile>) -> Result<Option<Table>> {
    let transaction = target.table.transaction();
    let transaction = match mode {
        InsertMode::Append if files.is_empty() => return Ok(None),
        InsertMode::Append => transaction.apply(Append::merging().files(files)),
        InsertMode::Overwrite => {
            // The query may have read the table: what others did meanwhile would be lost unseen.
            let overwrite = Overwrite::new().rows_of(Predicate::True).add_files(files);
            let overwrite = overwrite.validate_no_conflicting_data().validate_no_conflicting_deletes();
            match target.table.metadata().current_snapshot_id {
                Some(read) => transaction.apply(overwrite.validate_from_snapshot(read)),
                None => transaction.apply(overwrite),
            }
        }
    };
    let catalog = target.catalog.as_ref();
    transaction.commit(catalog).await.map(Some).map_err(|e| match e.kind() {
        ErrorKind::CommitStateUnknown => Error::new(
            ErrorKind::CommitStateUnknown,
            "it is not known whether the rows were added: look at the table before you try again",
        )
        .with_source(e),
        _ => e,
    })
}
