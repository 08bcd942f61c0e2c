//! Removes the files that only expired snapshots reached.
//!
//! What can't be read of the snapshots that stay ends it: then nothing is removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;

use super::CleanupLevel;
use super::garbage::{Garbage, statistics_of};
use crate::error::Result;
use crate::spec::{ManifestFile, Snapshot, SnapshotManifests};
use crate::storage::Location;
use crate::table::Table;

/// How many manifest lists and manifests are read at a time.
const CONCURRENT_READS: usize = 8;
/// How many files are removed at a time.
const CONCURRENT_DELETES: usize = 32;

/// Removes what `before` reached and `after` does not, as far as that is possible.
pub(super) async fn clean_up(before: &Table, after: &Table, level: CleanupLevel) {
    match find_garbage(before, after, level).await {
        Ok(garbage) => remove(before, garbage).await,
        Err(e) => tracing::warn!(
            table = before.name(),
            "files of expired snapshots were left behind, as it can't be told which are still needed: {e}"
        ),
    }
}

/// The files of snapshots that `before` has and `after` has not, without those that any snapshot
/// of `after` reaches.
pub(super) async fn find_garbage(before: &Table, after: &Table, level: CleanupLevel) -> Result<Garbage> {
    let mut garbage = Garbage::default();
    let retained = &after.metadata().snapshots;
    let is_gone = |snapshot: &&Arc<Snapshot>| after.metadata().snapshot(snapshot.snapshot_id).is_none();
    let expired: Vec<_> = before.metadata().snapshots.iter().filter(is_gone).cloned().collect();
    garbage.suspect_statistics(statistics_of(before.metadata()).filter_map(|path| location(before, path)));
    let kept: Vec<String> =
        statistics_of(after.metadata()).filter_map(|path| location(after, path)).collect();
    garbage.spare_statistics(kept.iter().map(String::as_str));
    if expired.is_empty() {
        return Ok(garbage);
    }

    let mut lists = lists(before, expired);
    while let Some((snapshot, list)) = lists.next().await {
        match list {
            Ok(list) => {
                let manifests = located(before, &list);
                garbage.suspect_list(list_location(before, &snapshot), manifests);
            }
            // Without it nobody knows what it listed; it stays, for those who want to find out.
            Err(e) => {
                tracing::warn!(table = before.name(), "files of an expired snapshot were left behind: {e}")
            }
        }
    }
    // The manifests that are still in use, each once.
    let mut in_use: BTreeMap<String, ManifestFile> = BTreeMap::new();
    let mut lists = self::lists(after, retained.clone());
    while let Some((snapshot, list)) = lists.next().await {
        let list = list?;
        let manifests = located(after, &list);
        let locations = manifests.iter().map(|(location, _)| location.as_str());
        garbage.spare_list(list_location(after, &snapshot).as_deref(), locations);
        in_use.extend(manifests);
    }
    if level != CleanupLevel::All || garbage.manifests.is_empty() {
        return Ok(garbage);
    }

    let unused: Vec<_> = garbage.manifests.clone().into_iter().collect();
    let mut unused = live_files(before, unused);
    while let Some((manifest, files)) = unused.next().await {
        match files {
            Ok(files) => garbage.suspect_files(files),
            Err(e) => {
                tracing::warn!(table = before.name(), "files of an expired snapshot were left behind: {e}");
                garbage.manifests.remove(&manifest);
            }
        }
    }
    let mut in_use = live_files(after, in_use.into_iter().collect());
    while !garbage.files.is_empty()
        && let Some((_, files)) = in_use.next().await
    {
        garbage.spare_files(files?.iter().map(String::as_str));
    }
    Ok(garbage)
}

type Lists<'a> = BoxStream<'a, (Arc<Snapshot>, Result<Arc<Vec<ManifestFile>>>)>;

fn lists(table: &Table, snapshots: Vec<Arc<Snapshot>>) -> Lists<'_> {
    let read = move |snapshot: Arc<Snapshot>| async move {
        let list = table.manifest_list(&snapshot).await;
        (snapshot, list)
    };
    futures::stream::iter(snapshots).map(read).buffer_unordered(CONCURRENT_READS).boxed()
}

type Files<'a> = BoxStream<'a, (String, Result<Vec<String>>)>;

/// The live files of each manifest, with the location that the manifest has here.
fn live_files(table: &Table, manifests: Vec<(String, ManifestFile)>) -> Files<'_> {
    let read = move |(location, manifest): (String, ManifestFile)| async move {
        let files = match manifest.has_no_live_files() {
            true => Ok(Vec::new()),
            false => read_live_files(table, &manifest).await,
        };
        (location, files)
    };
    futures::stream::iter(manifests).map(read).buffer_unordered(CONCURRENT_READS).boxed()
}

async fn read_live_files(table: &Table, manifest: &ManifestFile) -> Result<Vec<String>> {
    let manifest = table.manifest(manifest).await?;
    let live = manifest.entries.iter().filter(|entry| entry.is_live());
    Ok(live.filter_map(|entry| location(table, &entry.data_file.file_path)).collect())
}

/// What a file is known by: its location, so that spellings don't matter. One that the table may
/// not name has none, and is never removed.
fn location(table: &Table, path: &str) -> Option<String> {
    table.resolve(path).ok().map(|location| location.to_string())
}

fn located(table: &Table, list: &[ManifestFile]) -> Vec<(String, ManifestFile)> {
    let located = list.iter().filter_map(|m| Some((location(table, &m.manifest_path)?, m.clone())));
    located.collect()
}

fn list_location(table: &Table, snapshot: &Snapshot) -> Option<String> {
    match &snapshot.manifests {
        SnapshotManifests::List(path) => location(table, path),
        SnapshotManifests::Inline(_) => None,
    }
}

/// Removes files; those that name others last, so that what is left behind can still be found.
async fn remove(table: &Table, garbage: Garbage) {
    let Garbage { manifest_lists, manifests, files, statistics } = garbage;
    remove_all(table, "data and delete files", files).await;
    remove_all(table, "manifests", manifests.into_keys()).await;
    remove_all(table, "manifest lists", manifest_lists).await;
    remove_all(table, "statistics files", statistics).await;
}

async fn remove_all(table: &Table, what: &str, locations: impl IntoIterator<Item = String>) {
    let locations: Vec<String> = locations.into_iter().collect();
    let count = locations.len();
    let remove = |location: String| async move {
        let removed = async { table.storage().delete(&Location::parse(&location)?).await };
        removed
            .await
            .inspect_err(|e| tracing::warn!("a file that is not needed was left behind: {e}"))
            .is_ok()
    };
    let removed = futures::stream::iter(locations).map(remove).buffer_unordered(CONCURRENT_DELETES);
    let removed = removed.filter(|removed| futures::future::ready(*removed)).count().await;
    if count > 0 {
        tracing::info!(table = table.name(), "removed {removed} of {count} {what} of expired snapshots");
    }
}
