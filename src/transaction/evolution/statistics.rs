//! Statistics files of snapshots (spec, "Table Statistics" and "Partition Statistics").

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value as Json;

use crate::error::{Error, Result, ResultExt};
use crate::spec::{SnapshotId, TableMetadata, TableUpdate};
use crate::table::Table;
use crate::transaction::Action;

/// Sets and removes the statistics files of snapshots.
#[derive(Debug, Clone, Default)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct UpdateStatistics(Files);

/// Sets and removes the partition statistics files of snapshots.
#[derive(Debug, Clone, Default)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct UpdatePartitionStatistics(Files);

/// The file of each snapshot that changes; `None` to remove it.
#[derive(Debug, Clone, Default)]
struct Files {
    set: Vec<Json>,
    remove: Vec<SnapshotId>,
}

impl UpdateStatistics {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the statistics file of the snapshot that `file` names, as it is described in table
    /// metadata: with `snapshot-id`, `statistics-path`, `file-size-in-bytes`,
    /// `file-footer-size-in-bytes` and `blob-metadata`.
    pub fn set(mut self, file: Json) -> Self {
        self.0.set.push(file);
        self
    }

    /// Removes the statistics file of a snapshot; one that has none is no error.
    pub fn remove(mut self, snapshot: SnapshotId) -> Self {
        self.0.remove.push(snapshot);
        self
    }
}

impl UpdatePartitionStatistics {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the partition statistics file of the snapshot that `file` names, as it is described in
    /// table metadata: with `snapshot-id`, `statistics-path` and `file-size-in-bytes`.
    pub fn set(mut self, file: Json) -> Self {
        self.0.set.push(file);
        self
    }

    /// Removes the partition statistics file of a snapshot; one that has none is no error.
    pub fn remove(mut self, snapshot: SnapshotId) -> Self {
        self.0.remove.push(snapshot);
        self
    }
}

/// The snapshot that a statistics file belongs to.
pub(super) fn snapshot_of(file: &Json) -> Option<SnapshotId> {
    file.get("snapshot-id").and_then(Json::as_i64).map(SnapshotId)
}

/// Where a statistics file lies.
pub(super) fn path_of(file: &Json) -> Option<&str> {
    file.get("statistics-path").and_then(Json::as_str)
}

impl Files {
    fn updates(
        &self,
        metadata: &TableMetadata,
        there: &[Json],
        numbers: &[&str],
        set: fn(Json) -> TableUpdate,
        remove: fn(SnapshotId) -> TableUpdate,
    ) -> Result<Vec<TableUpdate>> {
        let mut files: BTreeMap<SnapshotId, Option<&Json>> = BTreeMap::new();
        for id in &self.remove {
            files.insert(*id, None);
        }
        for file in &self.set {
            let id = check(file, numbers)?;
            if metadata.snapshot(id).is_none() {
                return Err(Error::not_found(format!("there is no snapshot {id} to have statistics of")));
            }
            if files.insert(id, Some(file)).is_some_and(|before| before.is_none()) {
                return Err(Error::invalid(format!("statistics of snapshot {id} are both set and removed")));
            }
        }
        let current = |id: SnapshotId| there.iter().find(|file| snapshot_of(file) == Some(id));
        let changed = files.into_iter().filter(|(id, file)| current(*id) != *file);
        Ok(changed
            .map(|(id, file)| match file {
                Some(file) => set(file.clone()),
                None => remove(id),
            })
            .collect())
    }
}

fn check(file: &Json, numbers: &[&str]) -> Result<SnapshotId> {
    let missing = |name: &str| Error::invalid("is missing or of the wrong type").context(format!("field `{name}`"));
    let id = snapshot_of(file).ok_or_else(|| missing("snapshot-id"))?;
    if path_of(file).is_none_or(str::is_empty) {
        return Err(missing("statistics-path"));
    }
    for name in numbers {
        if file.get(name).and_then(Json::as_i64).is_none_or(|number| number < 0) {
            return Err(missing(name));
        }
    }
    Ok(id)
}

#[async_trait]
impl Action for UpdateStatistics {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let metadata = table.metadata();
        if self.0.set.iter().any(|file| !file.get("blob-metadata").is_some_and(Json::is_array)) {
            let missing = Error::invalid("is missing or no list").context("field `blob-metadata`");
            return Err(missing.context("statistics file"));
        }
        let numbers = ["file-size-in-bytes", "file-footer-size-in-bytes"];
        let updates = self.0.updates(
            metadata,
            &metadata.statistics,
            &numbers,
            TableUpdate::SetStatistics,
            TableUpdate::RemoveStatistics,
        );
        updates.context(|| "statistics file".to_owned())
    }
}

#[async_trait]
impl Action for UpdatePartitionStatistics {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let metadata = table.metadata();
        let updates = self.0.updates(
            metadata,
            &metadata.partition_statistics,
            &["file-size-in-bytes"],
            TableUpdate::SetPartitionStatistics,
            TableUpdate::RemovePartitionStatistics,
        );
        updates.context(|| "partition statistics file".to_owned())
    }
}
