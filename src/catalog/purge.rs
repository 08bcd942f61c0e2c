//! Removing the files of a table that was dropped.

use std::collections::BTreeSet;

use futures::StreamExt;

use crate::error::Result;
use crate::spec::{TableMetadata, TableProperties};
use crate::table::Table;

/// How many files are read or removed at a time.
const CONCURRENT_FILES: usize = 16;

/// Removes every file that the metadata of a table names, and that itself. What can't be removed or
/// read is told in the log and stays: the table is gone already.
///
/// With `gc.enabled=false`, data and delete files stay.
pub(crate) async fn purge(table: &Table) {
    let metadata = table.metadata();
    let manifests = manifests(table).await;
    // A property that can't be read may have meant to keep them.
    if TableProperties::new(&metadata.properties).gc_enabled().unwrap_or(false) {
        // File by file, so that no more than one manifest is held at a time for each that is read.
        let contents = futures::stream::iter(manifests.values).map(|manifest| async move {
            let path = manifest.manifest_path.clone();
            let read = table.manifest(&manifest).await;
            (path, read)
        });
        let mut contents = contents.buffer_unordered(CONCURRENT_FILES);
        while let Some((path, read)) = contents.next().await {
            match read {
                Ok(manifest) => {
                    let live = manifest.entries.iter().filter(|e| e.is_live());
                    remove(table, live.map(|e| e.data_file.file_path.clone()).collect()).await;
                }
                Err(error) => tracing::warn!(%path, %error, "the files of a manifest stay behind"),
            }
        }
    }
    remove(table, manifests.paths).await;
    remove(table, metadata_files(table, metadata)).await;
}

struct Manifests {
    values: Vec<crate::spec::ManifestFile>,
    /// Those of manifests and manifest lists.
    paths: BTreeSet<String>,
}

/// The manifests of all snapshots, each once.
async fn manifests(table: &Table) -> Manifests {
    let mut found = Manifests { values: Vec::new(), paths: BTreeSet::new() };
    for snapshot in &table.metadata().snapshots {
        match table.manifest_list(snapshot).await {
            Ok(list) => {
                for manifest in list.iter() {
                    if found.paths.insert(manifest.manifest_path.clone()) {
                        found.values.push(manifest.clone());
                    }
                }
            }
            Err(error) => {
                tracing::warn!(snapshot = %snapshot.snapshot_id, %error, "the files of a snapshot stay behind");
            }
        }
        if let crate::spec::SnapshotManifests::List(list) = &snapshot.manifests {
            found.paths.insert(list.clone());
        }
    }
    found
}

/// Statistics files, earlier metadata files, and the current one.
fn metadata_files(table: &Table, metadata: &TableMetadata) -> BTreeSet<String> {
    let statistics = metadata.statistics.iter().chain(&metadata.partition_statistics);
    let statistics = statistics.filter_map(|s| s.get("statistics-path")?.as_str().map(str::to_owned));
    let logged = metadata.metadata_log.iter().map(|entry| entry.metadata_file.clone());
    statistics.chain(logged).chain([table.metadata_location().to_string()]).collect()
}

async fn remove(table: &Table, paths: BTreeSet<String>) {
    let removed = futures::stream::iter(paths).map(|path| async move {
        let removed: Result<()> = async { table.storage().delete(&table.resolve(&path)?).await }.await;
        if let Err(error) = removed {
            tracing::warn!(%path, %error, "a file of a purged table stays behind");
        }
    });
    removed.buffer_unordered(CONCURRENT_FILES).collect::<Vec<()>>().await;
}
