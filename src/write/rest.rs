//! Copy-on-write: the rows of changed files that stay.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::execution::context::SessionState;
use datafusion::physical_plan::ExecutionPlan;

use super::change_exec::only;
use super::changes::Changes;
use super::insert::InsertTarget;
use super::row_change::RowChangePlan;
use crate::error::{Error, Result};
use crate::exec::{FILE, POS, ScanRequest, build_scan, lineage_fields};
use crate::expr::Predicate;
use crate::plan::{ScanPlan, ScanRequest as PlanRequest, plan_files};
use crate::spec::{DeletionVector, FileScanTask};

/// The other rows of the files that rows are removed from.
pub(super) struct Rest {
    target: InsertTarget,
    plan: RowChangePlan,
    session: SessionState,
    changes: Arc<Changes>,
}

impl Rest {
    pub(super) fn new(
        target: &InsertTarget,
        plan: &RowChangePlan,
        session: &SessionState,
        changes: &Arc<Changes>,
    ) -> Self {
        Self {
            target: target.clone(),
            plan: plan.clone(),
            session: session.clone(),
            changes: Arc::clone(changes),
        }
    }

    /// A scan of the files that have other rows; `None` if none has. All changes have to be known.
    ///
    /// # Errors
    /// Those of planning a scan.
    pub(super) async fn scan(&self) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let filter = &self.plan.change.filter;
        let files = self.changes.files(|removed| changed_files(&self.target, filter, removed)).await?;
        let removed = self.changes.removed();
        let has_rest = |task: &&FileScanTask| {
            let file = &task.data_file;
            let gone = removed.get(&file.file_path).map_or(0, DeletionVector::len);
            u64::try_from(file.record_count).is_ok_and(|rows| rows > gone)
        };
        let tasks: Vec<FileScanTask> = files.iter().filter(has_rest).cloned().collect();
        if tasks.is_empty() {
            return Ok(None);
        }
        let table = &self.target.table;
        let metadata = table.metadata();
        let schema = Arc::clone(metadata.current_schema());
        let mut projection: Vec<String> = schema.fields().iter().map(|field| field.name.clone()).collect();
        if self.plan.row_lineage {
            projection.extend(lineage_fields().map(|field| field.name));
        }
        projection.extend([FILE.to_owned(), POS.to_owned()]);
        let request = ScanRequest {
            table,
            snapshot_id: self.target.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id),
            schema,
            projection,
            filter_columns: Vec::new(),
            filter: Predicate::True,
            planning: Duration::ZERO,
            limit: None,
        };
        let plan = ScanPlan { tasks, ..ScanPlan::default() };
        build_scan(&request, plan, &self.session).map(Some)
    }

    /// The rows of a batch of the scan that stay.
    ///
    /// # Errors
    /// `DataInvalid` for a batch of another scan.
    pub(super) fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let wrong = || Error::invalid("rows without a place in the table");
        let files = batch.column_by_name(FILE).and_then(|column| column.as_string_view_opt());
        let positions = batch.column_by_name(POS).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let (files, positions) = (files.ok_or_else(wrong)?, positions.ok_or_else(wrong)?);
        let mut stay = Vec::with_capacity(batch.num_rows());
        let mut start = 0;
        while start < batch.num_rows() {
            let file = files.value(start);
            let end = (start..batch.num_rows()).find(|row| files.value(*row) != file);
            let end = end.unwrap_or(batch.num_rows());
            match self.changes.stay(file, &positions.slice(start, end - start)) {
                Some(rows) => stay.extend(rows.iter()),
                None => stay.extend(std::iter::repeat_n(Some(true), end - start)),
            }
            start = end;
        }
        only(batch, &stay.into_iter().collect())
    }
}

/// What the snapshot that was read says of files with changed rows.
///
/// # Errors
/// Those of planning a scan.
pub(super) async fn changed_files(
    target: &InsertTarget,
    filter: &Predicate,
    removed: BTreeMap<String, DeletionVector>,
) -> Result<Vec<FileScanTask>> {
    let (false, Some(snapshot)) = (removed.is_empty(), &target.snapshot) else {
        return Ok(Vec::new());
    };
    let request =
        PlanRequest { schema: Arc::clone(target.table.metadata().current_schema()), filter: filter.clone() };
    let mut tasks = plan_files(&target.table, snapshot, &request).await?.tasks;
    tasks.retain(|task| removed.contains_key(&task.data_file.file_path));
    Ok(tasks)
}
