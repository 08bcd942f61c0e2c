//! Plans the statements that change rows which are there: DELETE, UPDATE and MERGE.
//!
//! Their input names the old versions of rows by file and position, and has the new ones. What
//! becomes of that is said by `write.{delete,update,merge}.mode`:
//!
//! * merge-on-read: the old versions are marked in delete files, the new ones are written to data
//!   files;
//! * copy-on-write: the files of old versions are read again, and their other rows are written to new
//!   files with the new versions.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::execution::context::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;

use super::change_exec::IcebergChangeExec;
use super::commit_exec::{IcebergCommitExec, Work};
use super::data_files::{DataFileWriter, WriteOptions};
use super::insert::{InsertTarget, Rows};
use super::records;
use super::write_exec::IcebergWriteExec;
use crate::error::{Error, Result, ResultExt};
use crate::expr::{Predicate, ResidualEvaluator, StrictMetricsEvaluator};
use crate::plan::{ScanRequest, plan_files};
use crate::spec::{IsolationLevel, RowLevelMode, RowLevelOperation, TableProperties};
use crate::table::Table;

/// The column with the file of a row's old version: null for a row that is added.
pub(crate) const OLD_FILE: &str = "\u{1}old_file";
/// The position of a row's old version in its file.
pub(crate) const OLD_POSITION: &str = "\u{1}old_position";
/// Whether the row is removed, so that there is no new version. There may be no such column: then all
/// rows are removed if there are no other columns, and none otherwise.
pub(crate) const REMOVED: &str = "\u{1}removed";

/// A statement that changes rows.
#[derive(Debug, Clone)]
pub(crate) struct RowChange {
    pub(crate) operation: RowLevelOperation,
    /// What all rows match that the statement changes, or that decide what it does.
    pub(crate) filter: Predicate,
    /// What exactly the rows match that a DELETE removes, if that can be told by files' metadata.
    pub(crate) exact: Option<Predicate>,
    /// Whether it may name a row several times: only if it removes all of them.
    pub(crate) repeats: bool,
}

/// How a statement is executed.
#[derive(Debug, Clone)]
pub(super) struct RowChangePlan {
    pub(super) change: RowChange,
    pub(super) mode: RowLevelMode,
    pub(super) isolation: IsolationLevel,
    /// Whether rows keep their ids.
    pub(super) row_lineage: bool,
}

impl RowChangePlan {
    fn new(table: &Table, change: RowChange) -> Result<Self> {
        let metadata = table.metadata();
        let properties = TableProperties::new(&metadata.properties);
        let mode = properties.row_level_mode(change.operation)?;
        if mode == RowLevelMode::MergeOnRead && metadata.format_version < 2 {
            return Err(Error::unsupported(
                "tables of format version 1 have no deletes for merge-on-read; set the mode to copy-on-write, \
                 or upgrade the table",
            )
            .context(format!("table property `write.{}.mode`", change.operation.name())));
        }
        let isolation = properties.isolation_level(change.operation)?;
        Ok(Self { change, mode, isolation, row_lineage: metadata.format_version >= 3 })
    }
}

/// A plan that makes the changes that `input` names, and commits. Nothing happens before it is
/// executed.
///
/// # Errors
/// `Unsupported` for tables that can't be written to, or that have no row-level deletes but want
/// them. Each names the table.
pub(crate) async fn plan_row_change(
    target: InsertTarget,
    input: Arc<dyn ExecutionPlan>,
    change: RowChange,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let table = target.table.clone();
    let place = || format!("table `{}`", table.name());
    if let Some(rows) = change.exact.clone()
        && let Some(count) = rows_of_whole_files(&target, &rows).await.context(place)?
    {
        let nothing = Arc::new(EmptyExec::new(records::schema()));
        return Ok(Arc::new(IcebergCommitExec::new(nothing, target, Work::Files { rows, count })));
    }
    let plan = RowChangePlan::new(&table, change).context(place)?;
    let options = WriteOptions { row_lineage: plan.row_lineage, ..WriteOptions::default() };
    // It refuses tables that can't be written to.
    let writer = DataFileWriter::new(&table, options)?;
    let session = session.as_any().downcast_ref::<SessionState>().cloned();
    let session = session.ok_or_else(|| {
        Error::unsupported("changing rows in a session that is not DataFusion's own").context(place())
    })?;
    let rows_schema = Arc::clone(writer.arrow_schema());
    let changes = IcebergChangeExec::try_new(input, target.clone(), plan.clone(), rows_schema, session);
    let changes: Arc<dyn ExecutionPlan> = Arc::new(changes.context(place)?);
    let written: Arc<dyn ExecutionPlan> = match plan.mode {
        RowLevelMode::MergeOnRead if plan.change.operation == RowLevelOperation::Delete => changes,
        _ => {
            let rows = Rows::of(&table, &changes.schema()).context(place)?;
            Arc::new(IcebergWriteExec::new(changes, table.clone(), rows, plan.row_lineage))
        }
    };
    Ok(Arc::new(IcebergCommitExec::new(written, target, Work::Rows(plan))))
}

/// How many rows match, if the metadata say of all files with such rows that they have no others; `None`
/// if they don't, or if deletes hide how many rows there are.
async fn rows_of_whole_files(target: &InsertTarget, rows: &Predicate) -> Result<Option<u64>> {
    let metadata = target.table.metadata();
    let schema = metadata.current_schema();
    let Some(snapshot) = &target.snapshot else { return Ok(Some(0)) };
    let request = ScanRequest { schema: Arc::clone(schema), filter: rows.clone() };
    let mut count = 0u64;
    for task in plan_files(&target.table, snapshot, &request).await?.tasks {
        let file = &task.data_file;
        let Some(spec) = metadata.partition_specs.get(&file.spec_id) else { return Ok(None) };
        let residual = ResidualEvaluator::new(rows, spec, schema).residual(&file.partition);
        let all =
            residual == Predicate::True || StrictMetricsEvaluator::new(&residual, schema).all_match(file);
        let Some(records) = u64::try_from(file.record_count).ok().filter(|_| all && task.deletes.is_empty())
        else {
            return Ok(None);
        };
        count = count.saturating_add(records);
    }
    Ok(Some(count))
}
