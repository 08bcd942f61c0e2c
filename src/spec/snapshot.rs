//! Snapshots, references and logs (spec, "Snapshots", "Snapshot Retention Policy").

use std::collections::BTreeMap;

use super::ids::{SchemaId, SequenceNumber, SnapshotId};

/// The state of a table at some time.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its id.
    pub snapshot_id: SnapshotId,
    /// The snapshot it was made from.
    pub parent_snapshot_id: Option<SnapshotId>,
    /// Its relative age; 0 in v1 and where v2 metadata left it out.
    pub sequence_number: SequenceNumber,
    /// When it was made, in milliseconds since 1970 UTC.
    pub timestamp_ms: i64,
    /// Where its manifests are listed.
    pub manifests: SnapshotManifests,
    /// `operation` and the numbers that the writer added.
    pub summary: BTreeMap<String, String>,
    /// The table's schema when it was made, if recorded.
    pub schema_id: Option<SchemaId>,
    /// The first row id of the rows it added (v3).
    pub first_row_id: Option<i64>,
    /// An upper bound of the rows with assigned ids that it added (v3).
    pub added_rows: Option<i64>,
    /// The key of its encrypted manifest list (v3).
    pub key_id: Option<String>,
    /// Members of the JSON object that this version does not know; kept and written back.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Where a snapshot's manifests are listed.
#[derive(Debug, Clone, PartialEq)]
pub enum SnapshotManifests {
    /// In a manifest list file.
    List(String),
    /// By path, in the snapshot itself (old v1 tables).
    Inline(Vec<String>),
}

impl Snapshot {
    /// The operation that made it (`append`, `replace`, `overwrite`, `delete`), if recorded.
    pub fn operation(&self) -> Option<&str> {
        self.summary.get("operation").map(String::as_str)
    }
}

/// Whether a reference moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefType {
    /// Commits move it.
    Branch,
    /// It stays where it is.
    Tag,
}

/// A named reference to a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotRef {
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// Branch or tag.
    pub ref_type: RefType,
    /// How many snapshots of the branch expiry keeps at least.
    pub min_snapshots_to_keep: Option<i32>,
    /// How old snapshots of the branch may get, in milliseconds.
    pub max_snapshot_age_ms: Option<i64>,
    /// How old the reference itself may get, in milliseconds.
    pub max_ref_age_ms: Option<i64>,
    /// Members of the JSON object that this version does not know; kept and written back.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl SnapshotRef {
    /// A reference to a snapshot, without rules of its own for expiry.
    pub fn new(snapshot_id: SnapshotId, ref_type: RefType) -> Self {
        Self {
            snapshot_id,
            ref_type,
            min_snapshots_to_keep: None,
            max_snapshot_age_ms: None,
            max_ref_age_ms: None,
            extra: serde_json::Map::new(),
        }
    }
}

/// An entry of the log of current snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLogEntry {
    /// When it became current, in milliseconds since 1970 UTC.
    pub timestamp_ms: i64,
    /// The snapshot.
    pub snapshot_id: SnapshotId,
}

/// An entry of the log of earlier metadata files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataLogEntry {
    /// When it was replaced, in milliseconds since 1970 UTC.
    pub timestamp_ms: i64,
    /// Where it lies.
    pub metadata_file: String,
}
