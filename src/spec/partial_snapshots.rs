//! Metadata from which a server left out the snapshots that no branch or tag names (REST spec,
//! `loadTable` with `snapshots=refs`).
//!
//! Such metadata is good for reading the table at its references. Everything that goes by history
//! has to complete it first: where it does not, it gets an error, never a wrong answer.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value as Json;

use super::ids::SnapshotId;
use super::snapshot::Snapshot;
use super::table_metadata::TableMetadata;
use crate::error::{Error, Result};

impl TableMetadata {
    /// Whether all valid snapshots are there; else only those that branches and tags name.
    pub fn has_all_snapshots(&self) -> bool {
        !self.is_partial
    }

    /// The same metadata, as one from which other snapshots may have been left out.
    #[cfg_attr(not(feature = "catalog-rest"), allow(dead_code, reason = "only servers leave some out"))]
    pub(crate) fn with_snapshots_of_refs(self) -> Self {
        // Each snapshot has a number: without any there was none.
        let never_had_any = self.format_version >= 2 && self.last_sequence_number.0 == 0;
        Self { is_partial: !(never_had_any && self.snapshots.is_empty()), ..self }
    }

    /// Fails unless all snapshots are there. `what` needs them.
    pub(crate) fn require_all_snapshots(&self, what: &str) -> Result<()> {
        if self.has_all_snapshots() {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "{what} needs all snapshots of the table, and it was loaded with those that branches and tags name \
             (`snapshot-loading-mode`); `Table::with_all_snapshots` loads the others"
        )))
    }

    /// The same version of the table with all of its snapshots, taken from metadata of the same or a
    /// later version.
    ///
    /// # Errors
    /// `NotFound` if `full` is of another table, which took the name of this one.
    pub(crate) fn completed_from(&self, full: &TableMetadata) -> Result<Self> {
        full.require_all_snapshots("completing it")?;
        if self.table_uuid.is_some() && self.table_uuid != full.table_uuid {
            return Err(Error::not_found("the table was dropped, and another of its name created"));
        }
        let is_of_this_version = |s: &Snapshot| match self.format_version {
            // There are no sequence numbers.
            1 => s.timestamp_ms <= self.last_updated_ms,
            _ => s.sequence_number <= self.last_sequence_number,
        };
        let known = |id: SnapshotId| self.snapshot(id).is_some();
        let mut snapshots: Vec<Arc<Snapshot>> = full
            .snapshots
            .iter()
            .filter(|s| known(s.snapshot_id) || is_of_this_version(s))
            .cloned()
            .collect();
        // Those that expired meanwhile are still snapshots of this version.
        snapshots.extend(self.snapshots.iter().filter(|s| full.snapshot(s.snapshot_id).is_none()).cloned());
        let ids: HashSet<SnapshotId> = snapshots.iter().map(|s| s.snapshot_id).collect();
        let earlier = full.snapshot_log.iter().filter(|e| e.timestamp_ms <= self.last_updated_ms);
        let log: Vec<_> = earlier.cloned().collect();
        let of_these = |files: &[Json], own: &[Json]| -> Vec<Json> {
            let id = |file: &Json| file.get("snapshot-id").and_then(Json::as_i64).map(SnapshotId);
            let is_new = |file: &&Json| {
                id(file).is_some_and(|i| ids.contains(&i)) && !own.iter().any(|o| id(o) == id(file))
            };
            own.iter().chain(files.iter().filter(is_new)).cloned().collect()
        };
        let mut completed = Self {
            statistics: of_these(&full.statistics, &self.statistics),
            partition_statistics: of_these(&full.partition_statistics, &self.partition_statistics),
            snapshot_log: if log.len() > self.snapshot_log.len() { log } else { self.snapshot_log.clone() },
            snapshots,
            is_partial: false,
            ..self.clone()
        };
        completed.index_snapshots();
        Ok(completed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::spec::{SnapshotSelector, TableUpdate};

    /// Snapshots 1 to 3, of which the last is current.
    fn full(version: u8) -> TableMetadata {
        let snapshot = |n: i64| {
            let mut json = serde_json::json!({
                "snapshot-id": n, "timestamp-ms": n * 1000, "manifest-list": format!("/t/{n}.avro"),
                "summary": {"operation": "append"}, "sequence-number": n,
            });
            if n > 1 {
                json["parent-snapshot-id"] = (n - 1).into();
            }
            json
        };
        let log = [1, 2, 3].map(|n| serde_json::json!({"snapshot-id": n, "timestamp-ms": n * 1000}));
        let mut json = serde_json::json!({
            "format-version": version, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": "/t",
            "last-sequence-number": 3, "last-updated-ms": 3000, "last-column-id": 1,
            "schema": {"type": "struct", "fields": []}, "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
            "current-schema-id": 0, "partition-spec": [], "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0, "last-partition-id": 999, "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0, "current-snapshot-id": 3,
            "refs": {"main": {"snapshot-id": 3, "type": "branch"}},
            "snapshots": [snapshot(1), snapshot(2), snapshot(3)],
            "snapshot-log": log,
            "statistics": [{"snapshot-id": 1, "statistics-path": "/t/s"}],
        });
        if version == 1 {
            json.as_object_mut().unwrap().remove("last-sequence-number");
        }
        TableMetadata::from_json_value(&json).unwrap()
    }

    fn partial(version: u8) -> TableMetadata {
        let mut metadata = full(version);
        metadata.snapshots.retain(|s| s.snapshot_id.0 == 3);
        metadata.statistics.clear();
        metadata.index_snapshots();
        metadata.with_snapshots_of_refs()
    }

    #[test]
    fn what_needs_history_is_refused() {
        let metadata = partial(2);
        assert!(!metadata.has_all_snapshots());
        for selector in
            [SnapshotSelector::Current, SnapshotSelector::Ref("main".into()), SnapshotSelector::Id(3.into())]
        {
            assert_eq!(metadata.select(&selector).unwrap().snapshot.unwrap().snapshot_id.0, 3);
        }
        let update = TableUpdate::RemoveSnapshots(vec![3.into()]);
        for e in [
            metadata.select(&SnapshotSelector::Id(1.into())).unwrap_err(),
            metadata.select(&SnapshotSelector::AsOf(3500)).unwrap_err(),
            metadata.to_json().unwrap_err(),
            TableMetadata::apply(Some(&metadata), &[update], 0).unwrap_err(),
        ] {
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains("snapshot-loading-mode"), "{e}");
        }
        // There is no such reference, whatever was left out.
        let e = metadata.select(&SnapshotSelector::Ref("b".into())).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn it_is_completed_as_it_was() {
        for version in [1, 2] {
            assert_eq!(partial(version).completed_from(&full(version)).unwrap(), full(version));
            // A later version has a snapshot more, and one less: one that a reference named.
            let mut later = full(version);
            let mut added = later.snapshots[2].as_ref().clone();
            (added.snapshot_id, added.timestamp_ms, added.sequence_number) = (4.into(), 4000, 4.into());
            later.snapshots = vec![later.snapshots[0].clone(), later.snapshots[1].clone(), Arc::new(added)];
            later.index_snapshots();
            let completed = partial(version).completed_from(&later).unwrap();
            let ids: Vec<i64> = completed.snapshots.iter().map(|s| s.snapshot_id.0).collect();
            assert_eq!(ids, [1, 2, 3]);
            assert_eq!(completed.statistics.len(), 1);
            assert!(completed.has_all_snapshots());
        }
        let another = TableMetadata { table_uuid: None, ..full(2) };
        assert_eq!(partial(2).completed_from(&another).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(partial(2).completed_from(&partial(2)).is_err());
    }
}
