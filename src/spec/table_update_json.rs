//! Updates of a table as JSON (REST protocol, `TableUpdate`).

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use crate::error::{Error, Result};

use super::ids::{SchemaId, SnapshotId, SortOrderId, SpecId};
use super::json::{Node, Object};
use super::partition::PartitionSpec;
use super::partition_json::read_partition_fields;
use super::schema::Schema;
use super::snapshot::{Snapshot, SnapshotRef};
use super::snapshot_json::string_map;
use super::sort::SortOrder;
use super::table_update::TableUpdate;

impl TableUpdate {
    /// Reads an update.
    ///
    /// # Errors
    /// `Unsupported`, with its name, for an update of a kind that is not known; `DataInvalid`, with
    /// the path of the member, for JSON that is no update.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::read(&Node::root(json))
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        let action = object.req("action", Node::string)?.to_ascii_lowercase();
        Ok(match action.as_str() {
            "assign-uuid" => Self::AssignUuid(object.req("uuid", read_uuid)?),
            "upgrade-format-version" => Self::UpgradeFormatVersion(object.req("format-version", |n| {
                u8::try_from(n.i32()?).map_err(|_| n.error("there is no such format version"))
            })?),
            "add-schema" => Self::AddSchema(Arc::new(object.req("schema", Schema::read)?)),
            "set-current-schema" => Self::SetCurrentSchema(SchemaId(object.req("schema-id", Node::i32)?)),
            "add-spec" => Self::AddSpec(Arc::new(object.req("spec", read_spec)?)),
            "set-default-spec" => Self::SetDefaultSpec(SpecId(object.req("spec-id", Node::i32)?)),
            "add-sort-order" => Self::AddSortOrder(Arc::new(object.req("sort-order", SortOrder::read)?)),
            "set-default-sort-order" => {
                Self::SetDefaultSortOrder(SortOrderId(object.req("sort-order-id", Node::i32)?))
            }
            "add-snapshot" => Self::AddSnapshot(Arc::new(object.req("snapshot", Snapshot::read)?)),
            "set-snapshot-ref" => {
                let name = object.req("ref-name", Node::string)?;
                let mut reference = SnapshotRef::read(node)?;
                // These are members of the update.
                reference.extra.retain(|member, _| member != "action" && member != "ref-name");
                Self::SetSnapshotRef { name, reference }
            }
            "remove-snapshots" => {
                Self::RemoveSnapshots(object.req("snapshot-ids", |n| n.list(|n| n.i64().map(SnapshotId)))?)
            }
            "remove-snapshot-ref" => Self::RemoveSnapshotRef(object.req("ref-name", Node::string)?),
            "set-location" => Self::SetLocation(object.req("location", Node::string)?),
            // The first versions of the protocol had other names for these two members.
            "set-properties" => Self::SetProperties(
                either(&object, "updates", "updated")
                    .map_or_else(|| object.req("updates", Node::string_map), |node| node.string_map())?,
            ),
            "remove-properties" => {
                Self::RemoveProperties(either(&object, "removals", "removed").map_or_else(
                    || object.req("removals", |n| n.list(|n| n.string())),
                    |node| node.list(|n| n.string()),
                )?)
            }
            "set-statistics" => Self::SetStatistics(object.req("statistics", read_object)?),
            "remove-statistics" => Self::RemoveStatistics(object.req("snapshot-id", read_snapshot_id)?),
            "set-partition-statistics" => {
                Self::SetPartitionStatistics(object.req("partition-statistics", read_object)?)
            }
            "remove-partition-statistics" => {
                Self::RemovePartitionStatistics(object.req("snapshot-id", read_snapshot_id)?)
            }
            "remove-partition-specs" => {
                Self::RemovePartitionSpecs(object.req("spec-ids", |n| n.list(|n| n.i32().map(SpecId)))?)
            }
            "remove-schemas" => {
                Self::RemoveSchemas(object.req("schema-ids", |n| n.list(|n| n.i32().map(SchemaId)))?)
            }
            "add-encryption-key" => Self::AddEncryptionKey(object.req("encryption-key", read_object)?),
            "remove-encryption-key" => Self::RemoveEncryptionKey(object.req("key-id", Node::string)?),
            _ => {
                return Err(Error::unsupported(format!("icefloe doesn't know the table update `{action}`")));
            }
        })
    }

    /// Writes the update.
    ///
    /// # Errors
    /// `DataInvalid` for a schema with a default that is not of its field's type.
    pub fn to_json(&self) -> Result<Json> {
        let mut members = Map::new();
        members.insert("action".to_owned(), self.action().into());
        let mut insert = |name: &str, value: Json| drop(members.insert(name.to_owned(), value));
        match self {
            Self::AssignUuid(uuid) => insert("uuid", uuid.hyphenated().to_string().into()),
            Self::UpgradeFormatVersion(version) => insert("format-version", (*version).into()),
            Self::AddSchema(schema) => {
                insert("schema", schema.to_json()?);
                // No longer in the protocol, but older servers want it.
                insert("last-column-id", schema.highest_field_id().0.into());
            }
            Self::SetCurrentSchema(id) => insert("schema-id", id.0.into()),
            Self::AddSpec(spec) => insert("spec", spec.to_json()),
            Self::SetDefaultSpec(id) => insert("spec-id", id.0.into()),
            Self::AddSortOrder(order) => insert("sort-order", order.to_json()),
            Self::SetDefaultSortOrder(id) => insert("sort-order-id", id.0.into()),
            Self::AddSnapshot(snapshot) => insert("snapshot", snapshot_json(snapshot)),
            Self::SetSnapshotRef { name, reference } => {
                insert("ref-name", name.as_str().into());
                if let Json::Object(reference) = reference.to_json() {
                    reference.into_iter().for_each(|(name, value)| insert(&name, value));
                }
            }
            Self::RemoveSnapshots(ids) => insert("snapshot-ids", ids.iter().map(|id| id.0).collect()),
            Self::RemoveSnapshotRef(name) => insert("ref-name", name.as_str().into()),
            Self::SetLocation(location) => insert("location", location.as_str().into()),
            Self::SetProperties(properties) => insert("updates", string_map(properties)),
            Self::RemoveProperties(names) => insert("removals", names.as_slice().into()),
            Self::SetStatistics(file) => {
                insert("snapshot-id", file.get("snapshot-id").cloned().unwrap_or_default());
                insert("statistics", file.clone());
            }
            Self::SetPartitionStatistics(file) => insert("partition-statistics", file.clone()),
            Self::RemoveStatistics(id) | Self::RemovePartitionStatistics(id) => {
                insert("snapshot-id", id.0.into());
            }
            Self::RemovePartitionSpecs(ids) => insert("spec-ids", ids.iter().map(|id| id.0).collect()),
            Self::RemoveSchemas(ids) => insert("schema-ids", ids.iter().map(|id| id.0).collect()),
            Self::AddEncryptionKey(key) => insert("encryption-key", key.clone()),
            Self::RemoveEncryptionKey(id) => insert("key-id", json!(id)),
        }
        Ok(Json::Object(members))
    }
}

/// A snapshot without what only a later version of the format has.
fn snapshot_json(snapshot: &Snapshot) -> Json {
    let of_v3 = snapshot.first_row_id.is_some() || snapshot.added_rows.is_some() || snapshot.key_id.is_some();
    let version = match snapshot.sequence_number.0 {
        _ if of_v3 => 3,
        0 => 1,
        _ => 2,
    };
    snapshot.to_json(version)
}

/// A spec whose id may be missing: the table gives it one.
fn read_spec(node: &Node<'_>) -> Result<PartitionSpec> {
    let object = node.object()?;
    let spec_id = SpecId(object.opt("spec-id", Node::i32)?.unwrap_or(0));
    Ok(PartitionSpec { spec_id, fields: object.req("fields", read_partition_fields)? })
}

fn either<'a>(object: &Object<'a>, name: &'static str, old_name: &'static str) -> Option<Node<'a>> {
    object.get(name).or_else(|| object.get(old_name))
}

fn read_snapshot_id(node: &Node<'_>) -> Result<SnapshotId> {
    node.i64().map(SnapshotId)
}

fn read_object(node: &Node<'_>) -> Result<Json> {
    node.object().map(|_| node.json().clone())
}

pub(super) fn read_uuid(node: &Node<'_>) -> Result<Uuid> {
    Uuid::try_parse(node.str()?).map_err(|e| node.error("is no UUID").with_source(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// One of each kind, as the protocol has them.
    fn every_update() -> Vec<Json> {
        let schema = json!({"type": "struct", "schema-id": 1, "fields": [
            {"id": 3, "name": "a", "required": false, "type": "int"}
        ]});
        let snapshot = json!({
            "snapshot-id": 7, "parent-snapshot-id": 6, "sequence-number": 2, "timestamp-ms": 1000,
            "manifest-list": "s3://b/l.avro", "summary": {"operation": "append"}, "schema-id": 1
        });
        let statistics = json!({
            "snapshot-id": 7, "statistics-path": "s3://b/s.puffin", "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1, "blob-metadata": []
        });
        let partition_statistics =
            json!({"snapshot-id": 7, "statistics-path": "s3://b/p.parquet", "file-size-in-bytes": 1});
        vec![
            json!({"action": "assign-uuid", "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7"}),
            json!({"action": "upgrade-format-version", "format-version": 3}),
            json!({"action": "add-schema", "schema": schema, "last-column-id": 3}),
            json!({"action": "set-current-schema", "schema-id": -1}),
            json!({"action": "add-spec", "spec": {"spec-id": 1, "fields": [
                {"source-id": 3, "field-id": 1000, "name": "a", "transform": "identity"}
            ]}}),
            json!({"action": "set-default-spec", "spec-id": -1}),
            json!({"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [
                {"source-id": 3, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
            ]}}),
            json!({"action": "set-default-sort-order", "sort-order-id": -1}),
            json!({"action": "add-snapshot", "snapshot": snapshot}),
            json!({"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 7, "type": "branch",
                "min-snapshots-to-keep": 1, "max-snapshot-age-ms": 2, "max-ref-age-ms": 3}),
            json!({"action": "remove-snapshots", "snapshot-ids": [1, 2]}),
            json!({"action": "remove-snapshot-ref", "ref-name": "b"}),
            json!({"action": "set-location", "location": "s3://b/t"}),
            json!({"action": "set-properties", "updates": {"a": "b"}}),
            json!({"action": "remove-properties", "removals": ["a"]}),
            json!({"action": "set-statistics", "snapshot-id": 7, "statistics": statistics}),
            json!({"action": "remove-statistics", "snapshot-id": 7}),
            json!({"action": "set-partition-statistics", "partition-statistics": partition_statistics}),
            json!({"action": "remove-partition-statistics", "snapshot-id": 7}),
            json!({"action": "remove-partition-specs", "spec-ids": [1, 2]}),
            json!({"action": "remove-schemas", "schema-ids": [1, 2]}),
            json!({"action": "add-encryption-key", "encryption-key":
                {"key-id": "k", "encrypted-key-metadata": "bWV0YQ=="}}),
            json!({"action": "remove-encryption-key", "key-id": "k"}),
        ]
    }

    #[test]
    fn every_kind_survives_a_round_trip() {
        let mut actions = std::collections::BTreeSet::new();
        for json in every_update() {
            let update = TableUpdate::from_json(&json).unwrap();
            assert_eq!(update.to_json().unwrap(), json);
            actions.insert(update.action());
        }
        assert_eq!(actions.len(), 23, "a kind is missing here");
    }

    #[test]
    fn every_member_is_wanted() {
        let optional = ["last-column-id", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"];
        for json in every_update() {
            let members = json.as_object().unwrap();
            for name in members.keys().filter(|name| !optional.contains(&name.as_str())) {
                if name == "snapshot-id" && members["action"] == "set-statistics" {
                    continue;
                }
                let mut less = members.clone();
                less.remove(name);
                let error = TableUpdate::from_json(&Json::Object(less)).unwrap_err();
                assert!(error.to_string().contains(&format!("`{name}`")), "{name}: {error}");
            }
        }
    }

    #[test]
    fn old_names_and_missing_ids() {
        let update = TableUpdate::from_json(&json!({"action": "set-properties", "updated": {"a": "b"}}));
        assert_eq!(update.unwrap().to_json().unwrap()["updates"], json!({"a": "b"}));
        let both = json!({"action": "remove-properties", "removals": ["a"], "removed": ["b"]});
        let update = TableUpdate::from_json(&both).unwrap();
        assert_eq!(update, TableUpdate::RemoveProperties(vec!["a".into()]));
        let spec = json!({"action": "add-spec", "spec": {"fields": [
            {"source-id": 3, "name": "a", "transform": "identity"}
        ]}});
        let TableUpdate::AddSpec(spec) = TableUpdate::from_json(&spec).unwrap() else { panic!() };
        assert_eq!(spec.fields[0].field_id.0, 1000);
    }

    #[test]
    fn what_is_not_known_is_named() {
        for action in ["add-view-version", "explode"] {
            let error = TableUpdate::from_json(&json!({"action": action})).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains(action), "{error}");
        }
        let error = TableUpdate::from_json(&json!({"action": "assign-uuid", "uuid": "x"})).unwrap_err();
        assert!(error.to_string().contains("field `uuid`"), "{error}");
    }

    #[test]
    fn snapshots_have_only_what_their_version_has() {
        let v1 = json!({"action": "add-snapshot", "snapshot":
            {"snapshot-id": 7, "timestamp-ms": 1000, "manifest-list": "l"}});
        assert_eq!(TableUpdate::from_json(&v1).unwrap().to_json().unwrap(), v1);
        let v3 = json!({"action": "add-snapshot", "snapshot":
            {"snapshot-id": 7, "timestamp-ms": 1000, "manifest-list": "l", "sequence-number": 1,
             "summary": {"operation": "append"}, "first-row-id": 0, "added-rows": 0}});
        assert_eq!(TableUpdate::from_json(&v3).unwrap().to_json().unwrap(), v3);
    }
}
