//! Checks of what a snapshot adds against the files that are in the table.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::changes::{Changes, one_spelling};
use super::manifest_filter::{CONCURRENT_MANIFESTS, Dangling, Filtered};
use super::removal::FileKey;
use super::snapshot_base::Base;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::ManifestEvaluator;
use crate::spec::{ManifestContent, ManifestFile, SequenceNumber, UNASSIGNED_SEQUENCE_NUMBER};

/// The delete files that no data file is left for.
pub(super) fn dangling(base: &Base<'_>, changes: &Changes, data: &[Filtered]) -> Dangling {
    let known = |n: &SequenceNumber| *n != UNASSIGNED_SEQUENCE_NUMBER;
    let before = data
        .iter()
        .map(|filtered| filtered.manifest.min_sequence_number)
        .filter(known)
        .chain(changes.data_sequence_number.filter(|_| !changes.data.is_empty()))
        .fold(base.table.metadata().last_sequence_number, SequenceNumber::min);
    let removed = data.iter().flat_map(|filtered| &filtered.removed);
    let removed_data = removed.map(|file| file.file_path.clone()).collect();
    Dangling { before, removed_data: Arc::new(removed_data) }
}

/// A data file has one deletion vector at most: one that the caller did not know of would be lost.
pub(super) async fn check_vectors(
    base: &Base<'_>,
    changes: &Changes,
    before: &[ManifestFile],
    after: &[Filtered],
) -> Result<()> {
    let added: HashSet<String> = changes
        .vectors()
        .filter_map(|file| file.referenced_data_file.as_deref())
        .map(|path| one_spelling(base.table, path))
        .collect();
    if added.is_empty() {
        return Ok(());
    }
    let added = &added;
    let checks = before.iter().zip(after).filter(|(manifest, _)| !manifest.has_no_live_files());
    let checks: Vec<_> = checks
        .map(|(manifest, filtered)| async move {
            let removed: HashSet<FileKey> = filtered.removed.iter().map(|file| FileKey::of(file)).collect();
            let read = base.table.manifest(manifest).await?;
            for file in read.entries.iter().filter(|entry| entry.is_live()).map(|entry| &entry.data_file) {
                let Some(data) = file.referenced_data_file.as_ref().filter(|_| file.is_deletion_vector())
                else {
                    continue;
                };
                if added.contains(&one_spelling(base.table, data)) && !removed.contains(&FileKey::of(file)) {
                    let message =
                        format!("data file {data} has another deletion vector by now, in {}", file.file_path);
                    return Err(Error::new(ErrorKind::ValidationFailed, message));
                }
            }
            Ok(())
        })
        .collect();
    stream::iter(checks).buffered(CONCURRENT_MANIFESTS).try_collect().await
}

pub(super) async fn check_not_live(base: &Base<'_>, changes: &Changes) -> Result<()> {
    let paths: HashSet<&str> = changes.data.iter().map(|file| file.file_path.as_str()).collect();
    let partitions: HashSet<_> = changes.data.iter().map(|file| (file.spec_id, &file.partition)).collect();
    let mut evaluators = Vec::with_capacity(partitions.len());
    for (spec, tuple) in partitions {
        evaluators.push((spec, ManifestEvaluator::of_partition(base.table.partition_type(spec)?, tuple)));
    }
    for manifest in &base.manifests {
        let of_spec = evaluators.iter().filter(|(spec, _)| *spec == manifest.partition_spec_id);
        let may_list = of_spec.into_iter().any(|(_, evaluator)| evaluator.may_match(manifest));
        if manifest.content == ManifestContent::Deletes || manifest.has_no_live_files() || !may_list {
            continue;
        }
        let read = base.table.manifest(manifest).await?;
        let mut live = read.entries.iter().filter(|entry| entry.is_live());
        if let Some(entry) = live.find(|entry| paths.contains(entry.data_file.file_path.as_str())) {
            let message = format!("file {} is in the table already", entry.data_file.file_path);
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
    }
    Ok(())
}
