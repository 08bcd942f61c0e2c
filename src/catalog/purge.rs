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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use futures::TryStreamExt;
    use serde_json::json;

    use super::*;
    use crate::catalog::{Catalog, MemoryCatalog, Namespace, TableCreation, TableIdent};
    use crate::spec::{ContentFile, NestedField, PrimitiveType, Schema, SchemaId};
    use crate::transaction::{Append, DeleteFiles, RowDelta, UpdateStatistics};
    use crate::write::{DataFileWriter, PositionDeleteWriter, WriteOptions};

    async fn rows(table: &Table) -> Vec<ContentFile> {
        let mut writer = DataFileWriter::new(table, WriteOptions::default()).unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        writer.write(&RecordBatch::try_from_iter([("id", ids)]).unwrap()).await.unwrap();
        writer.close().await.unwrap()
    }

    async fn files(table: &Table) -> Vec<String> {
        let directory = table.resolve(&table.metadata().location).unwrap();
        let listed: Vec<_> = table.storage().list_files(&directory).unwrap().try_collect().await.unwrap();
        listed.into_iter().map(|(location, _)| location.to_string()).collect()
    }

    /// Data of an old snapshot, data and deletes of the current one, statistics, metadata.
    #[tokio::test]
    async fn nothing_is_left_but_what_is_not_to_be_collected() {
        for gc in ["true", "false"] {
            let catalog = MemoryCatalog::new("c").unwrap();
            let namespace = Namespace::new(["n"]).unwrap();
            catalog.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
            let ident = TableIdent::new(namespace, "t").unwrap();
            let id = NestedField::optional(1, "id", PrimitiveType::Long);
            let mut creation = TableCreation::new(Schema::new(SchemaId(0), vec![id], Vec::new()).unwrap());
            creation.properties.insert("gc.enabled".to_owned(), gc.to_owned());
            let table = catalog.create_table(&ident, creation).await.unwrap();
            let (old, new) = (rows(&table).await, rows(&table).await);
            let append = |files: &[ContentFile]| Append::fast().files(files.to_vec());
            let add = table.transaction().apply(append(&old)).apply(append(&new));
            let table = add.commit(&catalog).await.unwrap();
            let mut deletes = PositionDeleteWriter::new(&table, &WriteOptions::default()).unwrap();
            deletes.delete(&new[0], [1]).unwrap();
            let delta = RowDelta::new().add_deletes(deletes.close().await.unwrap());
            let remove = DeleteFiles::new().files(&old);
            let statistics = format!("{}/metadata/s.puffin", table.metadata().location);
            table.storage().write(&table.resolve(&statistics).unwrap(), "PFA1".into()).await.unwrap();
            let statistics = json!({
                "snapshot-id": table.metadata().current_snapshot_id.unwrap().0, "statistics-path": statistics,
                "file-size-in-bytes": 4, "file-footer-size-in-bytes": 4, "blob-metadata": [],
            });
            let statistics = UpdateStatistics::new().set(statistics);
            let change = table.transaction().apply(delta).apply(remove).apply(statistics);
            let table = change.commit(&catalog).await.unwrap();
            assert!(files(&table).await.len() > 10);
            catalog.drop_table(&ident, true).await.unwrap();
            let left = files(&table).await;
            let data = left.iter().filter(|file| file.contains("/data/")).count();
            assert_eq!((left.len(), data), if gc == "true" { (0, 0) } else { (3, 3) }, "{left:?}");
        }
    }
}
