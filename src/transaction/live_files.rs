//! Checks of what a snapshot adds against the files that are in the table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::changes::{Changes, one_spelling};
use super::manifest_filter::{CONCURRENT_MANIFESTS, Dangling, Filtered};
use super::removal::FileKey;
use super::snapshot_base::Base;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::ManifestEvaluator;
use crate::spec::{
    ContentFile, Manifest, ManifestContent, ManifestFile, SequenceNumber, UNASSIGNED_SEQUENCE_NUMBER,
};

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
    let removed_data = removed.map(|file| one_spelling(base.table, &file.file_path)).collect();
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

/// Added data files must not be in the table already.
pub(super) async fn check_not_live(base: &Base<'_>, changes: &Changes) -> Result<()> {
    let paths: HashSet<&str> = changes.data.iter().map(|file| file.file_path.as_str()).collect();
    for manifest in data_manifests(base, &changes.data)? {
        let read = base.table.manifest(manifest).await?;
        let mut live = read.entries.iter().filter(|entry| entry.is_live());
        if let Some(entry) = live.find(|entry| paths.contains(entry.data_file.file_path.as_str())) {
            let message = format!("file {} is in the table already", entry.data_file.file_path);
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
    }
    Ok(())
}

/// The added delete files that name a data file which is neither in the table nor added with them, in
/// the partition of the delete file: nothing would be deleted by them.
pub(super) async fn without_data<'a>(base: &Base<'_>, changes: &'a Changes) -> Result<Vec<&'a ContentFile>> {
    let of_files = changes.deletes.iter().map(|(file, _)| file);
    let mut wanted: Vec<(&str, &ContentFile)> =
        of_files.filter_map(|file| Some((file.referenced_data_file.as_deref()?, file))).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let deletes: Vec<_> = wanted.iter().map(|(_, file)| *file).collect();
    let reads: Vec<_> =
        data_manifests(base, deletes)?.into_iter().map(|manifest| base.table.manifest(manifest)).collect();
    let listed: Vec<Arc<Manifest>> = stream::iter(reads).buffered(CONCURRENT_MANIFESTS).try_collect().await?;
    let live = || {
        let entries = listed.iter().flat_map(|manifest| &manifest.entries);
        let live = entries.filter(|entry| entry.is_live()).map(|entry| &*entry.data_file);
        live.chain(&changes.data)
    };
    let is_of = |data: &ContentFile, delete: &ContentFile| {
        (data.spec_id, &data.partition) == (delete.spec_id, &delete.partition)
    };
    // Nearly always all are spelled as they are in the table, and resolving paths takes time.
    let of_paths: HashMap<&str, &ContentFile> = live().map(|file| (file.file_path.as_str(), file)).collect();
    wanted.retain(|(path, delete)| of_paths.get(path).is_none_or(|data| !is_of(data, delete)));
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let of_paths: HashMap<String, &ContentFile> =
        live().map(|file| (one_spelling(base.table, &file.file_path), file)).collect();
    wanted.retain(|(path, delete)| {
        of_paths.get(&one_spelling(base.table, path)).is_none_or(|data| !is_of(data, delete))
    });
    Ok(wanted.into_iter().map(|(_, delete)| delete).collect())
}

/// The manifests that may list live data files in the partitions of these files.
fn data_manifests<'a, 'b>(
    base: &'a Base<'_>,
    files: impl IntoIterator<Item = &'b ContentFile>,
) -> Result<Vec<&'a ManifestFile>> {
    let partitions: HashSet<_> = files.into_iter().map(|file| (file.spec_id, &file.partition)).collect();
    let mut evaluators = Vec::with_capacity(partitions.len());
    for (spec, tuple) in partitions {
        evaluators.push((spec, ManifestEvaluator::of_partition(base.table.partition_type(spec)?, tuple)));
    }
    let may_list = |manifest: &&ManifestFile| {
        let of_spec = evaluators.iter().filter(|(spec, _)| *spec == manifest.partition_spec_id);
        manifest.content == ManifestContent::Data
            && !manifest.has_no_live_files()
            && of_spec.into_iter().any(|(_, evaluator)| evaluator.may_match(manifest))
    };
    Ok(base.manifests.iter().filter(may_list).collect())
}
