//! The tables that the metadata file holds whole: `snapshots`, `history`, `metadata_log_entries`
//! and `refs`.

use std::collections::HashSet;
use std::sync::Arc;

use super::columns::{Column, Columns};
use super::contents::Known;
use crate::error::Result;
use crate::spec::{
    MapType, MetadataLogEntry, NestedField, PrimitiveType, RefType, Snapshot, SnapshotId, SnapshotManifests,
    SnapshotRef, TableMetadata, Value,
};
use crate::table::Table;

/// The member of a snapshot's summary that is a column of its own.
const OPERATION: &str = "operation";

pub(super) fn snapshots(metadata: &TableMetadata) -> Result<Known<Arc<Snapshot>>> {
    let map = MapType::new(7, PrimitiveType::String, 8, PrimitiveType::String, true);
    let columns: Vec<Column<Arc<Snapshot>>> = vec![
        Column::time(1, "committed_at", |s: &Arc<Snapshot>| s.timestamp_ms),
        Column::long(2, "snapshot_id", |s: &Arc<Snapshot>| s.snapshot_id.0),
        Column::long_or_null(3, "parent_id", |s: &Arc<Snapshot>| s.parent_snapshot_id.map(|id| id.0)),
        Column::text_or_null(4, "operation", |s: &Arc<Snapshot>| s.operation().map(str::to_owned)),
        Column::text_or_null(5, "manifest_list", |s: &Arc<Snapshot>| match &s.manifests {
            SnapshotManifests::List(path) => Some(path.clone()),
            SnapshotManifests::Inline(_) => None,
        }),
        Column::new(NestedField::optional(6, "summary", map), |s: &Arc<Snapshot>| summary(s)),
    ];
    Ok(Known::new(Columns::try_new(columns)?, metadata.snapshots.clone()))
}

/// A snapshot without a summary has none, not an empty one.
fn summary(snapshot: &Snapshot) -> Option<Value> {
    let text = |s: &String| Value::String(s.clone());
    let pairs = snapshot.summary.iter().filter(|(key, _)| *key != OPERATION);
    let pairs = pairs.map(|(key, value)| (text(key), Some(text(value)))).collect();
    (!snapshot.summary.is_empty()).then_some(Value::Map(pairs))
}

#[derive(Debug)]
pub(super) struct HistoryRow {
    made_current_ms: i64,
    snapshot_id: SnapshotId,
    parent_id: Option<SnapshotId>,
    is_current_ancestor: bool,
}

pub(super) fn history(metadata: &TableMetadata) -> Result<Known<HistoryRow>> {
    let columns: Vec<Column<HistoryRow>> = vec![
        Column::time(1, "made_current_at", |r: &HistoryRow| r.made_current_ms),
        Column::long(2, "snapshot_id", |r: &HistoryRow| r.snapshot_id.0),
        Column::long_or_null(3, "parent_id", |r: &HistoryRow| r.parent_id.map(|id| id.0)),
        Column::new(
            NestedField::required(4, "is_current_ancestor", PrimitiveType::Boolean),
            |r: &HistoryRow| Some(Value::Boolean(r.is_current_ancestor)),
        ),
    ];
    let ancestors = current_ancestors(metadata);
    let rows = metadata.snapshot_log.iter().map(|entry| HistoryRow {
        made_current_ms: entry.timestamp_ms,
        snapshot_id: entry.snapshot_id,
        parent_id: metadata.snapshot(entry.snapshot_id).and_then(|s| s.parent_snapshot_id),
        is_current_ancestor: ancestors.contains(&entry.snapshot_id),
    });
    Ok(Known::new(Columns::try_new(columns)?, rows.collect()))
}

/// The current snapshot and those it was made from, as far as they have not expired.
fn current_ancestors(metadata: &TableMetadata) -> HashSet<SnapshotId> {
    let mut ancestors = HashSet::new();
    let mut next = metadata.current_snapshot();
    while let Some(snapshot) = next {
        // Broken metadata may go in circles.
        if !ancestors.insert(snapshot.snapshot_id) {
            break;
        }
        next = snapshot.parent_snapshot_id.and_then(|id| metadata.snapshot(id));
    }
    ancestors
}

#[derive(Debug)]
pub(super) struct LogRow {
    entry: MetadataLogEntry,
    latest: Option<SnapshotId>,
    snapshot: Option<Arc<Snapshot>>,
}

pub(super) fn metadata_log_entries(table: &Table) -> Result<Known<LogRow>> {
    let columns: Vec<Column<LogRow>> = vec![
        Column::time(1, "timestamp", |r: &LogRow| r.entry.timestamp_ms),
        Column::text(2, "file", |r: &LogRow| r.entry.metadata_file.clone()),
        Column::long_or_null(3, "latest_snapshot_id", |r: &LogRow| r.latest.map(|id| id.0)),
        Column::int_or_null(4, "latest_schema_id", |r: &LogRow| {
            r.snapshot.as_ref().and_then(|s| s.schema_id).map(|id| id.0)
        }),
        Column::long_or_null(5, "latest_sequence_number", |r: &LogRow| {
            r.snapshot.as_ref().map(|s| s.sequence_number.0)
        }),
    ];
    let metadata = table.metadata();
    let current = MetadataLogEntry {
        timestamp_ms: metadata.last_updated_ms,
        metadata_file: table.metadata_location().to_string(),
    };
    let mut logged: Vec<_> = metadata.snapshot_log.iter().collect();
    // Stable: of equal times the last one counts, as in time travel.
    logged.sort_by_key(|e| e.timestamp_ms);
    let rows = metadata.metadata_log.iter().cloned().chain([current]).map(|entry| {
        let earlier = logged.partition_point(|e| e.timestamp_ms <= entry.timestamp_ms);
        let latest = earlier.checked_sub(1).and_then(|i| logged.get(i)).map(|e| e.snapshot_id);
        let snapshot = latest.and_then(|id| metadata.snapshot(id)).cloned();
        LogRow { entry, latest, snapshot }
    });
    Ok(Known::new(Columns::try_new(columns)?, rows.collect()))
}

type NamedRef = (String, SnapshotRef);

pub(super) fn refs(metadata: &TableMetadata) -> Result<Known<NamedRef>> {
    let columns: Vec<Column<NamedRef>> = vec![
        Column::text(1, "name", |(name, _): &NamedRef| name.clone()),
        Column::text(2, "type", |(_, r): &NamedRef| {
            let name = match r.ref_type {
                RefType::Branch => "BRANCH",
                RefType::Tag => "TAG",
            };
            name.to_owned()
        }),
        Column::long(3, "snapshot_id", |(_, r): &NamedRef| r.snapshot_id.0),
        Column::long_or_null(4, "max_reference_age_in_ms", |(_, r): &NamedRef| r.max_ref_age_ms),
        Column::int_or_null(5, "min_snapshots_to_keep", |(_, r): &NamedRef| r.min_snapshots_to_keep),
        Column::long_or_null(6, "max_snapshot_age_in_ms", |(_, r): &NamedRef| r.max_snapshot_age_ms),
    ];
    let rows = metadata.refs.iter().map(|(name, r)| (name.clone(), r.clone()));
    Ok(Known::new(Columns::try_new(columns)?, rows.collect()))
}
