//! Which snapshot of a table to read, and with which schema (spec, "Point in Time Reads").

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

use super::ids::SnapshotId;
use super::iso_time::{Unit, format_timestamp};
use super::schema::Schema;
use super::snapshot::{RefType, Snapshot};
use super::table_metadata::{MAIN_BRANCH, TableMetadata};

/// How many things that exist an error lists.
const MAX_LISTED: usize = 10;

/// What a query asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum SnapshotSelector {
    /// The current snapshot.
    #[default]
    Current,
    /// The snapshot with this id.
    Id(SnapshotId),
    /// The snapshot that a branch or tag is at.
    Ref(String),
    /// The snapshot that was current at this time, in milliseconds since 1970 UTC.
    AsOf(i64),
}

impl fmt::Display for SnapshotSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => f.write_str("current snapshot"),
            Self::Id(id) => write!(f, "snapshot {id}"),
            Self::Ref(name) => write!(f, "reference `{name}`"),
            Self::AsOf(ms) => write!(f, "snapshot as of {}", time(*ms)),
        }
    }
}

/// What is read: a snapshot through a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The snapshot; `None` for a table that has none yet.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The schema to read it with.
    pub schema: Arc<Schema>,
}

impl TableMetadata {
    /// Finds the snapshot and the schema to read it with: a branch is read with the table's
    /// current schema, everything else with the snapshot's own.
    ///
    /// Times are looked up in the snapshot log, which says what was current, not in the
    /// snapshots' lineage.
    ///
    /// # Errors
    /// `NotFound` if there is no such snapshot, saying which there are; `DataInvalid` if the
    /// snapshot's schema is missing; `Unsupported` if the snapshot may be one of those that are
    /// missing from metadata that [has not all](TableMetadata::has_all_snapshots).
    pub fn select(&self, selector: &SnapshotSelector) -> Result<Selection> {
        let current = || Selection {
            snapshot: self.current_snapshot().cloned(),
            schema: Arc::clone(self.current_schema()),
        };
        match selector {
            SnapshotSelector::Current => Ok(current()),
            SnapshotSelector::Id(id) => match self.snapshot(*id) {
                Some(snapshot) => self.with_own_schema(snapshot),
                None => {
                    self.require_all_snapshots(&format!("finding snapshot {id}"))?;
                    Err(self.no_snapshot(*id))
                }
            },
            SnapshotSelector::Ref(name) => match self.refs.get(name) {
                Some(reference) => {
                    let snapshot = self.snapshot(reference.snapshot_id).ok_or_else(|| {
                        self.no_snapshot(reference.snapshot_id).context(format!("reference `{name}`"))
                    })?;
                    match reference.ref_type {
                        RefType::Tag => self.with_own_schema(snapshot),
                        RefType::Branch => {
                            Ok(Selection { snapshot: Some(Arc::clone(snapshot)), ..current() })
                        }
                    }
                }
                // Every table has that branch, even if nothing was written to it.
                None if name == MAIN_BRANCH => Ok(current()),
                None => Err(self.no_ref(name)),
            },
            SnapshotSelector::AsOf(ms) => {
                self.require_all_snapshots("finding the snapshot of a time")?;
                // Of equal times the last counts: `max_by_key` returns the last maximum.
                let earlier = self.snapshot_log.iter().filter(|e| e.timestamp_ms <= *ms);
                let Some(entry) = earlier.max_by_key(|e| e.timestamp_ms) else {
                    return Err(self.no_log_entry(*ms));
                };
                match self.snapshot(entry.snapshot_id) {
                    Some(snapshot) => self.with_own_schema(snapshot),
                    None => Err(self.no_snapshot(entry.snapshot_id).context(format!("as of {}", time(*ms)))),
                }
            }
        }
    }

    fn with_own_schema(&self, snapshot: &Arc<Snapshot>) -> Result<Selection> {
        let schema = match snapshot.schema_id {
            None => self.current_schema(),
            Some(id) => self.schemas.get(&id).ok_or_else(|| {
                let message =
                    format!("snapshot {} has schema {id}, which the table lacks", snapshot.snapshot_id);
                Error::invalid(message)
            })?,
        };
        Ok(Selection { snapshot: Some(Arc::clone(snapshot)), schema: Arc::clone(schema) })
    }

    fn no_snapshot(&self, id: SnapshotId) -> Error {
        let expired = self.snapshot_log.iter().any(|e| e.snapshot_id == id)
            || self.snapshots.iter().any(|s| s.parent_snapshot_id == Some(id));
        let what = if expired { "has expired" } else { "does not exist" };
        // The latest ones, as these are what one most likely wants.
        let mut latest: Vec<&Arc<Snapshot>> = self.snapshots.iter().collect();
        latest.sort_by_key(|s| std::cmp::Reverse(s.timestamp_ms));
        let known = latest.iter().map(|s| format!("{} ({})", s.snapshot_id, time(s.timestamp_ms)));
        let known = list(known, latest.len(), "the table has no snapshot", "the table's snapshots are");
        Error::not_found(format!("snapshot {id} {what}; {known}"))
    }

    fn no_ref(&self, name: &str) -> Error {
        let known = self.refs.iter().map(|(name, reference)| match reference.ref_type {
            RefType::Branch => format!("branch `{name}`"),
            RefType::Tag => format!("tag `{name}`"),
        });
        let known = list(known, self.refs.len(), "the table has none", "the table has");
        Error::not_found(format!("there is no branch or tag `{name}`; {known}"))
    }

    fn no_log_entry(&self, ms: i64) -> Error {
        let known = match self.snapshot_log.iter().map(|e| e.timestamp_ms).min() {
            Some(first) => format!("its earliest entry is of {}", time(first)),
            None => "it is empty".to_owned(),
        };
        let message = format!("the table's snapshot log has no entry at or before {}; {known}", time(ms));
        Error::not_found(message)
    }
}

/// A time for people to read, and the number to use in a query.
fn time(ms: i64) -> String {
    match ms.checked_mul(1000) {
        Some(micros) => {
            let text = format_timestamp(micros, Unit::Micros, false);
            // Milliseconds have three of the six digits.
            format!("{}Z", text.get(..text.len().saturating_sub(3)).unwrap_or(&text))
        }
        None => format!("{ms} ms"),
    }
}

fn list(items: impl Iterator<Item = String>, count: usize, none: &str, some: &str) -> String {
    if count == 0 {
        return none.to_owned();
    }
    let shown: Vec<String> = items.take(MAX_LISTED).collect();
    let more = match count.saturating_sub(MAX_LISTED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{some} {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::ids::SchemaId;
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    fn table() -> TableMetadata {
        let schema = |id: i32| {
            json!({"type": "struct", "schema-id": id, "fields": [
                {"id": 1, "name": format!("a{id}"), "required": false, "type": "int"}
            ]})
        };
        let snapshot = |id: i64, schema: serde_json::Value| json!({"snapshot-id": id, "timestamp-ms": id * 1000, "manifest-list": "l", "schema-id": schema});
        let json = json!({
            "format-version": 2, "location": "s3://b/t", "last-updated-ms": 1, "last-column-id": 1,
            "table-uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
            "schemas": [schema(0), schema(1), schema(2)], "current-schema-id": 2,
            "snapshots": [
                snapshot(1, json!(0)), snapshot(2, json!(1)), snapshot(3, json!(1)), snapshot(4, json!(null)),
                snapshot(5, json!(9)),
            ],
            "current-snapshot-id": 3,
            "refs": {
                "main": {"snapshot-id": 3, "type": "branch"},
                "dev": {"snapshot-id": 2, "type": "branch"},
                "v1": {"snapshot-id": 1, "type": "tag"}
            },
            // Out of order, with a roll-back to 1, a tie at 2000 and an expired snapshot.
            "snapshot-log": [
                {"timestamp-ms": 4000, "snapshot-id": 3},
                {"timestamp-ms": 1000, "snapshot-id": 1},
                {"timestamp-ms": 2000, "snapshot-id": 3},
                {"timestamp-ms": 2000, "snapshot-id": 2},
                {"timestamp-ms": 3000, "snapshot-id": 1},
                {"timestamp-ms": 500, "snapshot-id": 77}
            ]
        });
        TableMetadata::from_json_value(&json).unwrap()
    }

    fn select(selector: SnapshotSelector) -> (i64, i32) {
        let selection = table().select(&selector).unwrap();
        (selection.snapshot.unwrap().snapshot_id.0, selection.schema.schema_id.0)
    }

    fn fails(selector: SnapshotSelector) -> (ErrorKind, String) {
        let error = table().select(&selector).unwrap_err();
        (error.kind(), error.to_string())
    }

    #[test]
    fn each_selector_has_its_schema() {
        assert_eq!(select(SnapshotSelector::Current), (3, 2));
        assert_eq!(select(SnapshotSelector::Id(SnapshotId(1))), (1, 0));
        assert_eq!(select(SnapshotSelector::Id(SnapshotId(4))), (4, 2), "none recorded: the current one");
        assert_eq!(select(SnapshotSelector::Ref("main".into())), (3, 2));
        assert_eq!(select(SnapshotSelector::Ref("dev".into())), (2, 2), "a branch: the table's");
        assert_eq!(select(SnapshotSelector::Ref("v1".into())), (1, 0), "a tag: the snapshot's");
    }

    #[test]
    fn times_go_by_the_log() {
        for (ms, id) in [(1000, 1), (1999, 1), (2000, 2), (2999, 2), (3000, 1), (4000, 3), (i64::MAX, 3)] {
            assert_eq!(select(SnapshotSelector::AsOf(ms)).0, id, "{ms}");
        }
        assert_eq!(select(SnapshotSelector::AsOf(2000)), (2, 1), "with the snapshot's schema");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let (kind, message) = fails(SnapshotSelector::Id(SnapshotId(9)));
        assert_eq!(kind, ErrorKind::NotFound);
        assert!(message.contains("snapshot 9 does not exist"), "{message}");
        assert!(message.contains("4 (1970-01-01T00:00:04.000Z), 3 ("), "{message}");
        let (kind, message) = fails(SnapshotSelector::Ref("nope".into()));
        assert_eq!(kind, ErrorKind::NotFound);
        assert!(message.contains("branch `dev`, branch `main`, tag `v1`"), "{message}");
        let (kind, message) = fails(SnapshotSelector::AsOf(499));
        assert_eq!(kind, ErrorKind::NotFound);
        assert!(message.contains("at or before 1970-01-01T00:00:00.499Z"), "{message}");
        assert!(message.contains("1970-01-01T00:00:00.500Z"), "{message}");
        let (kind, message) = fails(SnapshotSelector::AsOf(500));
        assert_eq!(kind, ErrorKind::NotFound);
        assert!(message.contains("snapshot 77 has expired"), "{message}");
        let (kind, message) = fails(SnapshotSelector::Id(SnapshotId(5)));
        assert_eq!(kind, ErrorKind::DataInvalid);
        assert!(message.contains("schema 9"), "{message}");
        assert!(fails(SnapshotSelector::AsOf(i64::MIN)).1.contains("no entry"));
    }

    #[test]
    fn an_empty_table() {
        let mut table = table();
        table.snapshots.clear();
        table.snapshot_log.clear();
        table.refs.clear();
        table.current_snapshot_id = None;
        table.index_snapshots();
        for selector in [SnapshotSelector::Current, SnapshotSelector::Ref("main".into())] {
            let selection = table.select(&selector).unwrap();
            assert!(selection.snapshot.is_none());
            assert_eq!(selection.schema.schema_id, SchemaId(2));
        }
        let error = table.select(&SnapshotSelector::AsOf(5)).unwrap_err();
        assert!(error.to_string().contains("it is empty"), "{error}");
        let error = table.select(&SnapshotSelector::Id(SnapshotId(5))).unwrap_err();
        assert!(error.to_string().contains("no snapshot"), "{error}");
    }
}
