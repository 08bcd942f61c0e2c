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
    let missing =
        |name: &str| Error::invalid("is missing or of the wrong type").context(format!("field `{name}`"));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_tables::{apply, json as base_json, opened};
    use super::*;
    use crate::error::ErrorKind;

    fn base() -> TableMetadata {
        let mut json = base_json(2);
        json["snapshots"] = json!([{
            "snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": "memory://bucket/l",
            "summary": {"operation": "append"}
        }]);
        json["last-sequence-number"] = json!(1);
        TableMetadata::from_json_value(&json).unwrap()
    }

    fn file(id: i64, path: &str) -> Json {
        json!({
            "snapshot-id": id, "statistics-path": path, "file-size-in-bytes": 10, "file-footer-size-in-bytes": 5,
            "blob-metadata": []
        })
    }

    async fn updates(mut action: impl Action, base: &TableMetadata) -> Result<Vec<TableUpdate>> {
        action.updates(&opened(base.clone())).await
    }

    #[tokio::test]
    async fn files_are_set_and_removed() {
        let base = base();
        let set = UpdateStatistics::new().set(file(1, "a"));
        let with = apply(&base, &updates(set.clone(), &base).await.unwrap());
        assert_eq!(with.statistics, [file(1, "a")]);
        assert!(updates(set, &with).await.unwrap().is_empty());
        let other = apply(&with, &updates(UpdateStatistics::new().set(file(1, "b")), &with).await.unwrap());
        assert_eq!(other.statistics, [file(1, "b")]);
        let remove = UpdateStatistics::new().remove(SnapshotId(1));
        assert!(apply(&other, &updates(remove.clone(), &other).await.unwrap()).statistics.is_empty());
        assert!(updates(remove, &base).await.unwrap().is_empty());

        let set = UpdatePartitionStatistics::new().set(file(1, "p"));
        let with = apply(&base, &updates(set, &base).await.unwrap());
        assert_eq!(with.partition_statistics, [file(1, "p")]);
        let remove = UpdatePartitionStatistics::new().remove(SnapshotId(1));
        assert!(apply(&with, &updates(remove, &with).await.unwrap()).partition_statistics.is_empty());
    }

    #[tokio::test]
    async fn a_file_must_be_described() {
        let base = base();
        let e = updates(UpdateStatistics::new().set(file(2, "a")), &base).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
        for field in [
            "snapshot-id",
            "statistics-path",
            "file-size-in-bytes",
            "file-footer-size-in-bytes",
            "blob-metadata",
        ] {
            let mut file = file(1, "a");
            file.as_object_mut().unwrap().remove(field);
            let e = updates(UpdateStatistics::new().set(file), &base).await.unwrap_err();
            assert!(e.to_string().contains(&format!("`{field}`")), "{e}");
        }
        let both = UpdateStatistics::new().set(file(1, "a")).remove(SnapshotId(1));
        assert!(updates(both, &base).await.unwrap_err().to_string().contains("both set and removed"));
    }
}
