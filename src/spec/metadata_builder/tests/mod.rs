mod creation;
mod laws;
mod schemas;
mod snapshots;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

use super::super::ids::{FieldId, SchemaId, SequenceNumber, SnapshotId, SortOrderId, SpecId};
use super::super::partition::{PartitionField, PartitionSpec};
use super::super::schema::Schema;
use super::super::snapshot::{MetadataLogEntry, RefType, Snapshot, SnapshotManifests, SnapshotRef};
use super::super::sort::{NullOrder, SortDirection, SortField, SortOrder};
use super::super::table_metadata::{MAIN_BRANCH, TableMetadata};
use super::super::table_update::{LAST_ADDED, TableUpdate};
use super::super::transform::Transform;
use super::super::types::{ListType, MapType, NestedField, PrimitiveType as P, StructType, Type};
use super::super::value::Value;

/// When the table of [`table`] was made.
const CREATED: i64 = 1_700_000_000_000;

fn schema(id: i32, fields: Vec<NestedField>) -> Schema {
    Schema::new(SchemaId(id), fields, vec![]).unwrap()
}

/// `id long required, ts timestamp, name string`.
fn columns() -> Vec<NestedField> {
    vec![
        NestedField::required(1, "id", P::Long),
        NestedField::optional(2, "ts", P::Timestamp),
        NestedField::optional(3, "name", P::String),
    ]
}

fn field(source: i32, id: i32, name: &str, transform: Transform) -> PartitionField {
    PartitionField {
        source_ids: vec![FieldId(source)],
        field_id: FieldId(id),
        name: name.to_owned(),
        transform,
        extra: serde_json::Map::new(),
    }
}

fn spec(fields: Vec<PartitionField>) -> PartitionSpec {
    PartitionSpec { spec_id: SpecId(0), fields }
}

fn key(source: i32, transform: Transform) -> SortField {
    SortField {
        source_ids: vec![FieldId(source)],
        transform,
        direction: SortDirection::Ascending,
        null_order: NullOrder::First,
        extra: serde_json::Map::new(),
    }
}

fn order(fields: Vec<SortField>) -> SortOrder {
    SortOrder { order_id: SortOrderId(1), fields }
}

fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// An empty table of that version: columns by [`columns`], partitioned by `day(ts)`.
fn table(version: u8) -> TableMetadata {
    let properties = strings(&[("format-version", &version.to_string())]);
    let spec = spec(vec![field(2, 1000, "ts_day", Transform::Day)]);
    let updates =
        TableMetadata::creation(&schema(0, columns()), Some(&spec), None, "s3://b/t", &properties).unwrap();
    TableMetadata::apply(None, &updates, CREATED).unwrap()
}

/// A snapshot that fits `base`.
fn snapshot(base: &TableMetadata, id: i64, parent: Option<i64>, at: i64) -> Snapshot {
    let v1 = base.format_version == 1;
    let v3 = base.format_version >= 3;
    Snapshot {
        snapshot_id: SnapshotId(id),
        parent_snapshot_id: parent.map(SnapshotId),
        sequence_number: SequenceNumber(if v1 { 0 } else { base.last_sequence_number.0 + 1 }),
        timestamp_ms: at,
        manifests: SnapshotManifests::List(format!("s3://b/t/metadata/snap-{id}.avro")),
        summary: strings(&[("operation", "append")]),
        schema_id: Some(base.current_schema_id),
        first_row_id: v3.then_some(base.next_row_id),
        added_rows: v3.then_some(10),
        key_id: None,
        extra: serde_json::Map::new(),
    }
}

fn add(snapshot: Snapshot) -> TableUpdate {
    TableUpdate::AddSnapshot(Arc::new(snapshot))
}

fn set_branch(name: &str, id: i64) -> TableUpdate {
    TableUpdate::SetSnapshotRef {
        name: name.to_owned(),
        reference: SnapshotRef::new(SnapshotId(id), RefType::Branch),
    }
}

fn set_tag(name: &str, id: i64) -> TableUpdate {
    TableUpdate::SetSnapshotRef {
        name: name.to_owned(),
        reference: SnapshotRef::new(SnapshotId(id), RefType::Tag),
    }
}

/// Applies updates, and sees that the result is what a reader reads.
fn apply(base: &TableMetadata, updates: &[TableUpdate], now: i64) -> Result<TableMetadata> {
    let after = TableMetadata::apply(Some(base), updates, now)?;
    assert_eq!(TableMetadata::from_json(&after.to_json().unwrap()).unwrap(), after);
    Ok(after)
}

/// The table with appended snapshots 1 to `n` on `main`, a second apart.
fn with_snapshots(version: u8, n: i64) -> TableMetadata {
    (1..=n).fold(table(version), |base, id| {
        let at = CREATED + id * 1000;
        let new = snapshot(&base, id, (id > 1).then_some(id - 1), at);
        apply(&base, &[add(new), set_branch(MAIN_BRANCH, id)], at).unwrap()
    })
}

fn refusal(base: &TableMetadata, updates: &[TableUpdate]) -> Error {
    TableMetadata::apply(Some(base), updates, CREATED + 60_000).unwrap_err()
}

/// Sees that an update is refused with that kind of error, which says `part`.
fn refuses(base: &TableMetadata, update: TableUpdate, kind: ErrorKind, part: &str) {
    let error = refusal(base, &[update]);
    assert!(error.to_string().contains(part), "{error}");
    assert_eq!(error.kind(), kind, "{error}");
}
