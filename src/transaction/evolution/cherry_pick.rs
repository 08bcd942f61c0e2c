//! Publishes what a snapshot changed that is not part of the table's history.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::ancestry::{ancestors_of, is_ancestor};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{
    ContentFile, MAIN_BRANCH, ManifestContent, ManifestEntry, ManifestStatus, PartitionValues, RefType,
    Snapshot, SnapshotId, SnapshotRef, SpecId, TableMetadata, TableUpdate,
};
use crate::table::Table;
use crate::transaction::Action;
use crate::transaction::changes::Changes;
use crate::transaction::snapshot_producer::SnapshotProducer;

const WAP_ID: &str = "wap.id";
const PUBLISHED_WAP_ID: &str = "published-wap-id";
const SOURCE_SNAPSHOT_ID: &str = "source-snapshot-id";
const REPLACE_PARTITIONS: &str = "replace-partitions";

/// Makes the changes of a snapshot, such as a staged one, part of `main`.
///
/// A snapshot that was made from the current one becomes the current one itself. Otherwise an append
/// is made again on top of the current snapshot, and so is a dynamic overwrite if nobody added files
/// to its partitions meanwhile; nothing else can be. A snapshot is picked once, and so is one of each
/// `wap.id`.
#[derive(Debug)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct CherryPick {
    id: SnapshotId,
    producer: SnapshotProducer,
    /// What the snapshot changed, once it was read.
    picked: Option<Picked>,
    /// Whether the last attempt made no snapshot of its own.
    is_fast_forward: bool,
}

#[derive(Debug)]
struct Picked {
    changes: Changes,
    /// The partitions of the added files.
    partitions: HashSet<(SpecId, PartitionValues)>,
}

impl CherryPick {
    /// Picks that snapshot.
    pub fn new(snapshot: SnapshotId) -> Self {
        Self { id: snapshot, producer: SnapshotProducer::new(), picked: None, is_fast_forward: false }
    }

    async fn updates_of(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let metadata = table.metadata();
        let Some(snapshot) = metadata.snapshot(self.id).cloned() else {
            return Err(Error::not_found("there is no such snapshot"));
        };
        if let Some(id) = wap_id(&snapshot) {
            check_not_published(metadata, id)?;
        }
        self.is_fast_forward = snapshot.parent_snapshot_id == metadata.current_snapshot_id;
        if self.is_fast_forward {
            let main = metadata.refs.get(MAIN_BRANCH).cloned();
            let main = main.unwrap_or_else(|| SnapshotRef::new(self.id, RefType::Branch));
            let reference = SnapshotRef { snapshot_id: self.id, ..main };
            return Ok(vec![TableUpdate::SetSnapshotRef { name: MAIN_BRANCH.to_owned(), reference }]);
        }
        check_not_picked(metadata, self.id)?;
        let operation = snapshot.operation().unwrap_or_default().to_owned();
        let is_overwrite = operation == "overwrite"
            && snapshot.summary.get(REPLACE_PARTITIONS).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        if operation != "append" && !is_overwrite {
            return Err(refused(format!(
                "others committed since it was made, and it is no append and no dynamic overwrite but `{operation}`"
            )));
        }
        let picked = match self.picked.take() {
            Some(picked) => picked,
            None => pick(table, &snapshot, is_overwrite).await?,
        };
        let picked = self.picked.insert(picked);
        if is_overwrite {
            check_partitions(table, &snapshot, &picked.partitions).await?;
        }
        self.producer.properties.insert(SOURCE_SNAPSHOT_ID.to_owned(), self.id.to_string());
        if let Some(id) = wap_id(&snapshot) {
            self.producer.properties.insert(PUBLISHED_WAP_ID.to_owned(), id.to_owned());
        }
        let base = self.producer.begin(table).await?;
        self.producer.merge(&base, &picked.changes, &operation).await
    }
}

#[async_trait]
impl Action for CherryPick {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let id = self.id;
        self.updates_of(table).await.context(|| format!("cherry-pick of snapshot {id}"))
    }

    async fn committed(&mut self, table: &Table) {
        match self.is_fast_forward {
            // An earlier attempt may have had to make a snapshot.
            true => self.producer.failed(table).await,
            false => self.producer.committed(table).await,
        }
    }

    async fn failed(&mut self, table: &Table) {
        self.producer.failed(table).await;
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ValidationFailed, message)
}

fn wap_id(snapshot: &Snapshot) -> Option<&str> {
    snapshot.summary.get(WAP_ID).map(String::as_str).filter(|id| !id.is_empty())
}

fn check_not_published(metadata: &TableMetadata, id: &str) -> Result<()> {
    let mut ancestors = ancestors_of(metadata, metadata.current_snapshot_id);
    let published = ancestors.find(|ancestor| {
        [WAP_ID, PUBLISHED_WAP_ID].iter().any(|key| ancestor.summary.get(*key).is_some_and(|v| v == id))
    });
    match published {
        None => Ok(()),
        Some(by) => Err(refused(format!("`{id}` was published by snapshot {} already", by.snapshot_id))),
    }
}

fn check_not_picked(metadata: &TableMetadata, id: SnapshotId) -> Result<()> {
    let text = id.to_string();
    for ancestor in ancestors_of(metadata, metadata.current_snapshot_id) {
        if ancestor.snapshot_id == id {
            return Err(refused("it is part of the table's history already"));
        }
        if ancestor.summary.get(SOURCE_SNAPSHOT_ID) == Some(&text) {
            return Err(refused(format!("it was picked by snapshot {} already", ancestor.snapshot_id)));
        }
    }
    Ok(())
}

/// The files that a snapshot added and removed.
async fn pick(table: &Table, snapshot: &Snapshot, is_overwrite: bool) -> Result<Picked> {
    let mut picked = Picked { changes: Changes::default(), partitions: HashSet::new() };
    for entry in changed_data_files(table, snapshot).await? {
        let file: &ContentFile = &entry.data_file;
        match entry.status {
            ManifestStatus::Added => {
                picked.partitions.insert((file.spec_id, file.partition.clone()));
                picked.changes.add_data([file.clone()]);
            }
            ManifestStatus::Deleted if is_overwrite => picked.changes.removed_data.remove(file),
            _ => {}
        }
    }
    picked.changes.removed_data.all_must_exist = is_overwrite;
    Ok(picked)
}

/// The entries of the data files that a snapshot added or removed.
async fn changed_data_files(table: &Table, snapshot: &Snapshot) -> Result<Vec<ManifestEntry>> {
    let id = Some(snapshot.snapshot_id);
    let list = table.manifest_list(snapshot).await?;
    let mut changed = Vec::new();
    for file in list.iter().filter(|m| m.content == ManifestContent::Data && m.added_snapshot_id == id) {
        let manifest = table.manifest(file).await?;
        let entries = manifest.entries.iter().filter(|entry| entry.snapshot_id == id);
        changed.extend(entries.filter(|entry| entry.status != ManifestStatus::Existing).cloned());
    }
    Ok(changed)
}

/// Nobody may have added files to the partitions that an overwrite replaced: it would have replaced
/// them too.
async fn check_partitions(
    table: &Table,
    snapshot: &Snapshot,
    partitions: &HashSet<(SpecId, PartitionValues)>,
) -> Result<()> {
    let metadata = table.metadata();
    let current = metadata.current_snapshot_id;
    let parent = snapshot.parent_snapshot_id;
    if parent.is_some_and(|parent| !is_ancestor(metadata, parent, current)) {
        return Err(refused("it is an overwrite of what is not part of the table's history"));
    }
    let since: Vec<Arc<Snapshot>> = ancestors_of(metadata, current)
        .take_while(|ancestor| Some(ancestor.snapshot_id) != parent)
        .cloned()
        .collect();
    for ancestor in since {
        for entry in changed_data_files(table, &ancestor).await? {
            let file = &entry.data_file;
            if entry.status == ManifestStatus::Added
                && partitions.contains(&(file.spec_id, file.partition.clone()))
            {
                return Err(refused(format!(
                    "snapshot {} added file {} to a partition that it overwrites",
                    ancestor.snapshot_id, file.file_path
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
