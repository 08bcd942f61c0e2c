//! What a snapshot is built on: a table, and the manifests of the snapshot before.

use std::sync::Arc;

use super::settings::ManifestSettings;
use crate::error::{Error, Result};
use crate::spec::{
    ContentFile, ManifestContent, ManifestEntry, ManifestFile, ManifestStatus, Snapshot, SnapshotId,
    SnapshotSummary,
};
use crate::table::Table;

/// What a snapshot is built on.
pub(super) struct Base<'a> {
    pub(super) table: &'a Table,
    /// The head of the branch; of `main` for a branch that does not exist yet.
    pub(super) parent: Option<Arc<Snapshot>>,
    /// The parent's manifests, with all counts if the format version requires them.
    pub(super) manifests: Vec<ManifestFile>,
    pub(super) snapshot_id: SnapshotId,
    pub(super) settings: ManifestSettings,
}

impl Base<'_> {
    /// A summary of nothing.
    pub(super) fn summary(&self) -> SnapshotSummary {
        SnapshotSummary::new(self.settings.partition_summaries)
    }

    /// Counts a file that is added or removed.
    pub(super) fn count(&self, file: &ContentFile, summary: &mut SnapshotSummary, is_added: bool) {
        // That the spec is there was checked, or the manifest could not have been read.
        let Some(spec) = self.table.metadata().partition_specs.get(&file.spec_id) else { return };
        match is_added {
            true => summary.add_file(spec, file),
            false => summary.remove_file(spec, file),
        }
    }

    pub(super) fn of_content(&self, content: ManifestContent) -> Vec<ManifestFile> {
        self.manifests.iter().filter(|m| m.content == content).cloned().collect()
    }
}

/// Counts what version 1 allowed to leave out.
pub(super) async fn complete(manifest: &mut ManifestFile, table: &Table) -> Result<()> {
    let is_complete = manifest.added_snapshot_id.is_some()
        && manifest.added_files_count.is_some()
        && manifest.existing_files_count.is_some()
        && manifest.deleted_files_count.is_some()
        && manifest.added_rows_count.is_some()
        && manifest.existing_rows_count.is_some()
        && manifest.deleted_rows_count.is_some();
    if is_complete {
        return Ok(());
    }
    let read = table.manifest(manifest).await?;
    let count = |status| {
        let of_status = || read.entries.iter().filter(move |entry| entry.status == status);
        let rows = of_status().try_fold(0_i64, |sum, entry| sum.checked_add(entry.data_file.record_count));
        match (i32::try_from(of_status().count()), rows) {
            (Ok(files), Some(rows)) => Ok((files, rows)),
            _ => Err(Error::invalid("too many files or rows")
                .context(format!("manifest {}", manifest.manifest_path))),
        }
    };
    let (added, existing, deleted) =
        (count(ManifestStatus::Added)?, count(ManifestStatus::Existing)?, count(ManifestStatus::Deleted)?);
    let newest = |entry: &ManifestEntry| entry.snapshot_id;
    let added_snapshot_id =
        manifest.added_snapshot_id.or_else(|| read.entries.iter().filter_map(newest).max());
    (manifest.added_files_count, manifest.added_rows_count) = (Some(added.0), Some(added.1));
    (manifest.existing_files_count, manifest.existing_rows_count) = (Some(existing.0), Some(existing.1));
    (manifest.deleted_files_count, manifest.deleted_rows_count) = (Some(deleted.0), Some(deleted.1));
    manifest.added_snapshot_id = added_snapshot_id;
    Ok(())
}

/// Gives the data manifests without one their first row ids (spec, "Row ID Assignment"); the next id
/// after them.
pub(super) fn assign_row_ids(manifests: &mut [ManifestFile], first: i64) -> Result<i64> {
    let mut next = first;
    for manifest in manifests {
        if manifest.content == ManifestContent::Deletes || manifest.first_row_id.is_some() {
            continue;
        }
        manifest.first_row_id = Some(next);
        // Existing files may have no ids either, if they are older than version 3.
        let rows = [manifest.existing_rows_count, manifest.added_rows_count];
        next = rows
            .into_iter()
            .try_fold(next, |next, rows| next.checked_add(rows.filter(|rows| *rows >= 0)?))
            .ok_or_else(|| {
                Error::invalid(format!("its rows can't be numbered from {next}"))
                    .context(format!("manifest {}", manifest.manifest_path))
            })?;
    }
    Ok(next)
}
