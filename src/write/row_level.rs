//! What a statement that changes rows commits: files in the place of others, or delete files.

use std::collections::BTreeMap;

use datafusion::physical_plan::metrics::Count;

use super::commit_exec::Prepared;
use super::data_files::WriteOptions;
use super::deletion_vectors::DeletionVectorWriter;
use super::execution::Execution;
use super::insert::InsertTarget;
use super::position_deletes::PositionDeleteWriter;
use super::rest::changed_files;
use super::row_change::RowChangePlan;
use crate::error::{Error, Result, ResultExt};
use crate::exec::DeleteLoader;
use crate::spec::{ContentFile, ContentType, DeletionVector, FileScanTask, RowLevelMode};
use crate::table::Table;
use crate::transaction::{Overwrite, RowDelta, Transaction};

/// The change for the rows that were found, with the data files of their new versions.
///
/// # Errors
/// Those of reading and writing delete files.
pub(super) async fn commit(
    target: &InsertTarget,
    plan: &RowChangePlan,
    execution: &Execution,
    added: Vec<ContentFile>,
) -> Result<Prepared> {
    let (table, changes) = (&target.table, &execution.changes);
    let rows = changes.rows();
    let place = || format!("table {}", table.name());
    let find = |removed| changed_files(target, &plan.change.filter, removed);
    let changed = changes.files(find).await.context(place)?;
    if changed.is_empty() && added.is_empty() {
        return Ok(Prepared { transaction: None, files: Vec::new(), rows });
    }
    match plan.mode {
        RowLevelMode::CopyOnWrite => {
            let transaction = Some(copy_on_write(target, plan, changed, &added));
            Ok(Prepared { transaction, files: added, rows })
        }
        RowLevelMode::MergeOnRead => {
            let mut deleted = Deleted::default();
            let removed = changes.removed();
            deleted.write(table, changed, removed, execution).await.context(place)?;
            let mut files = added.clone();
            files.extend(deleted.written.iter().cloned());
            let transaction = Some(merge_on_read(target, plan, deleted, changed, added));
            Ok(Prepared { transaction, files, rows })
        }
    }
}

fn copy_on_write(
    target: &InsertTarget,
    plan: &RowChangePlan,
    changed: &[FileScanTask],
    added: &[ContentFile],
) -> Transaction {
    let mut overwrite = Overwrite::new()
        .branch(&target.branch)
        .remove_files(changed.iter().map(|task| task.data_file.as_ref().clone()))
        .remove_deletes(changed.iter().flat_map(own_deletes))
        .add_files(added.iter().cloned())
        .validate_isolation(plan.isolation)
        .conflict_detection_filter(plan.change.filter.clone());
    if let Some(read) = &target.snapshot {
        overwrite = overwrite.validate_from_snapshot(read.snapshot_id);
    }
    target.table.transaction().apply(overwrite)
}

fn merge_on_read(
    target: &InsertTarget,
    plan: &RowChangePlan,
    deleted: Deleted,
    changed: &[FileScanTask],
    added: Vec<ContentFile>,
) -> Transaction {
    let referred = changed.iter().map(|task| &task.data_file.file_path);
    let referred = referred.filter(|path| !deleted.whole.iter().any(|file| file.file_path == **path));
    let mut delta = RowDelta::new()
        .branch(&target.branch)
        .add_rows(added)
        .validate_data_files_exist(referred.cloned())
        .add_deletes(deleted.written)
        .remove_deletes(&deleted.replaced)
        .remove_rows(deleted.whole)
        .validate_isolation(plan.isolation, plan.change.operation)
        .conflict_detection_filter(plan.change.filter.clone());
    if let Some(read) = &target.snapshot {
        delta = delta.validate_from_snapshot(read.snapshot_id);
    }
    target.table.transaction().apply(delta)
}

/// The delete files that are about this data file only, and go with it or with its next vector.
fn own_deletes(task: &FileScanTask) -> impl Iterator<Item = &ContentFile> {
    let deletes = task.deletes.iter().map(|delete| delete.file.as_ref());
    deletes.filter(|file| {
        file.content == ContentType::PositionDeletes
            && file.referenced_data_file.as_deref() == Some(task.data_file.file_path.as_str())
    })
}

/// What merge-on-read does to the files that are there.
#[derive(Default)]
struct Deleted {
    written: Vec<ContentFile>,
    /// Delete files whose deletes are in new ones.
    replaced: Vec<ContentFile>,
    /// Data files without a row left.
    whole: Vec<ContentFile>,
}

impl Deleted {
    async fn write(
        &mut self,
        table: &Table,
        changed: &[FileScanTask],
        mut removed: BTreeMap<String, DeletionVector>,
        execution: &Execution,
    ) -> Result<()> {
        let options = WriteOptions { operation: Some(execution.operation), ..WriteOptions::default() };
        let has_vectors = table.metadata().format_version >= 3;
        let mut parts = Vec::with_capacity(changed.len());
        let schema = table.metadata().current_schema();
        let earlier = DeleteLoader::new(table, schema, changed, &execution.memory, Count::new())?;
        for task in changed {
            let file = &task.data_file;
            let mut vector = removed
                .remove(&file.file_path)
                .ok_or_else(|| Error::invalid("rows were changed in a file that was not read"))?;
            // A vector has to hold what was deleted before.
            if has_vectors && let Some(earlier) = earlier.positions(task).await? {
                vector.union(&earlier);
            }
            // Vectors of others may have positions that the file does not have.
            if u64::try_from(file.record_count).is_ok_and(|rows| vector.count_range(0..rows) >= rows) {
                self.whole.push(file.as_ref().clone());
                self.replaced.extend(own_deletes(task).cloned());
                continue;
            }
            if has_vectors {
                self.replaced.extend(own_deletes(task).cloned());
            }
            parts.push((file, vector));
        }
        self.written = if parts.is_empty() {
            Vec::new()
        } else if has_vectors {
            let mut writer = DeletionVectorWriter::new(table, &options)?;
            parts.iter().for_each(|(file, vector)| writer.delete_all(file, vector));
            writer.close().await?
        } else {
            let mut writer = PositionDeleteWriter::new(table, &options)?;
            for (file, vector) in &parts {
                writer.delete(file, vector.iter())?;
            }
            writer.close().await?
        };
        Ok(())
    }
}
