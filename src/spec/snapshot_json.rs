//! Snapshots, references and logs as JSON (spec, "Snapshots", "Snapshot References", Appendix C).

use serde_json::{Map, Value as Json};

use crate::error::Result;

use super::ids::{SchemaId, SequenceNumber, SnapshotId};
use super::json::Node;
use super::snapshot::{
    MetadataLogEntry, RefType, Snapshot, SnapshotLogEntry, SnapshotManifests, SnapshotRef,
};

impl Snapshot {
    /// Reads a snapshot. One without `sequence-number` (v1, and v2 tables that were v1) has 0,
    /// one without `summary` an empty one.
    ///
    /// # Errors
    /// `DataInvalid`, with the path of the member, for JSON that is no snapshot.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::read(&Node::root(json))
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        let list = object.opt("manifest-list", Node::string)?;
        let inline = object.opt("manifests", |n| n.list(|n| n.string()))?;
        Ok(Self {
            snapshot_id: SnapshotId(object.req("snapshot-id", Node::i64)?),
            parent_snapshot_id: object.opt("parent-snapshot-id", Node::i64)?.map(SnapshotId),
            sequence_number: SequenceNumber(object.opt("sequence-number", Node::i64)?.unwrap_or(0)),
            timestamp_ms: object.req("timestamp-ms", Node::i64)?,
            manifests: match (list, inline) {
                (Some(list), _) => SnapshotManifests::List(list),
                (None, Some(paths)) => SnapshotManifests::Inline(paths),
                (None, None) => {
                    return Err(node.error("has neither `manifest-list` nor `manifests`"));
                }
            },
            summary: object.opt("summary", Node::string_map)?.unwrap_or_default(),
            schema_id: object.opt("schema-id", Node::i32)?.map(SchemaId),
            first_row_id: object.opt("first-row-id", Node::i64)?,
            added_rows: object.opt("added-rows", Node::i64)?,
            key_id: object.opt("key-id", Node::string)?,
            extra: object.extra(),
        })
    }

    /// Writes the snapshot for a table of `format_version`.
    pub fn to_json(&self, format_version: u8) -> Json {
        let mut members = self.extra.clone();
        let mut insert = |name: &str, value: Json| members.insert(name.to_owned(), value);
        insert("snapshot-id", self.snapshot_id.0.into());
        if let Some(parent) = self.parent_snapshot_id {
            insert("parent-snapshot-id", parent.0.into());
        }
        if format_version >= 2 {
            insert("sequence-number", self.sequence_number.0.into());
        }
        insert("timestamp-ms", self.timestamp_ms.into());
        match &self.manifests {
            SnapshotManifests::List(path) => insert("manifest-list", path.as_str().into()),
            SnapshotManifests::Inline(paths) => insert("manifests", paths.as_slice().into()),
        };
        // v1 may leave it out; a summary without `operation` would be none.
        if format_version >= 2 || !self.summary.is_empty() {
            insert("summary", string_map(&self.summary));
        }
        if let Some(id) = self.schema_id {
            insert("schema-id", id.0.into());
        }
        if format_version >= 3 {
            if let Some(first_row_id) = self.first_row_id {
                insert("first-row-id", first_row_id.into());
            }
            if let Some(added_rows) = self.added_rows {
                insert("added-rows", added_rows.into());
            }
            if let Some(key_id) = &self.key_id {
                insert("key-id", key_id.as_str().into());
            }
        }
        Json::Object(members)
    }
}

impl SnapshotRef {
    /// Reads a reference.
    ///
    /// # Errors
    /// `DataInvalid`, with the path of the member, for JSON that is no reference.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::read(&Node::root(json))
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        Ok(Self {
            snapshot_id: SnapshotId(object.req("snapshot-id", Node::i64)?),
            ref_type: object.req("type", |n| match n.str()?.to_ascii_lowercase().as_str() {
                "branch" => Ok(RefType::Branch),
                "tag" => Ok(RefType::Tag),
                _ => Err(n.error("expected `branch` or `tag`")),
            })?,
            min_snapshots_to_keep: object.opt("min-snapshots-to-keep", Node::i32)?,
            max_snapshot_age_ms: object.opt("max-snapshot-age-ms", Node::i64)?,
            max_ref_age_ms: object.opt("max-ref-age-ms", Node::i64)?,
            extra: object.extra(),
        })
    }

    /// Writes the reference.
    pub fn to_json(&self) -> Json {
        let mut members = self.extra.clone();
        let mut insert = |name: &str, value: Json| members.insert(name.to_owned(), value);
        insert("snapshot-id", self.snapshot_id.0.into());
        let ref_type = match self.ref_type {
            RefType::Branch => "branch",
            RefType::Tag => "tag",
        };
        insert("type", ref_type.into());
        if let Some(n) = self.min_snapshots_to_keep {
            insert("min-snapshots-to-keep", n.into());
        }
        if let Some(age) = self.max_snapshot_age_ms {
            insert("max-snapshot-age-ms", age.into());
        }
        if let Some(age) = self.max_ref_age_ms {
            insert("max-ref-age-ms", age.into());
        }
        Json::Object(members)
    }
}

impl SnapshotLogEntry {
    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        Ok(Self {
            timestamp_ms: object.req("timestamp-ms", Node::i64)?,
            snapshot_id: SnapshotId(object.req("snapshot-id", Node::i64)?),
        })
    }

    pub(crate) fn to_json(self) -> Json {
        let mut members = Map::new();
        members.insert("timestamp-ms".into(), self.timestamp_ms.into());
        members.insert("snapshot-id".into(), self.snapshot_id.0.into());
        Json::Object(members)
    }
}

impl MetadataLogEntry {
    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        Ok(Self {
            timestamp_ms: object.req("timestamp-ms", Node::i64)?,
            metadata_file: object.req("metadata-file", Node::string)?,
        })
    }

    pub(crate) fn to_json(&self) -> Json {
        let mut members = Map::new();
        members.insert("timestamp-ms".into(), self.timestamp_ms.into());
        members.insert("metadata-file".into(), self.metadata_file.as_str().into());
        Json::Object(members)
    }
}

/// A map of strings as an object.
pub(crate) fn string_map(map: &std::collections::BTreeMap<String, String>) -> Json {
    Json::Object(map.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn snapshots_survive_a_round_trip() {
        let json = json!({
            "snapshot-id": 7, "parent-snapshot-id": 6, "sequence-number": 2, "timestamp-ms": 1000,
            "manifest-list": "s3://b/l.avro", "summary": {"operation": "append", "n": "1"},
            "schema-id": 1, "first-row-id": 5, "added-rows": 3, "key-id": "k", "x": {"y": []}
        });
        let snapshot = Snapshot::from_json(&json).unwrap();
        assert_eq!(snapshot.operation(), Some("append"));
        assert_eq!(snapshot.to_json(3), json);
        let v1 = snapshot.to_json(1);
        for absent in ["sequence-number", "first-row-id", "added-rows", "key-id"] {
            assert!(v1.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn old_snapshots() {
        let json = json!({"snapshot-id": 7, "timestamp-ms": 1000, "manifests": ["a.avro", "b.avro"]});
        let snapshot = Snapshot::from_json(&json).unwrap();
        assert_eq!(snapshot.sequence_number, SequenceNumber(0));
        assert_eq!(snapshot.manifests, SnapshotManifests::Inline(vec!["a.avro".into(), "b.avro".into()]));
        assert_eq!(snapshot.to_json(1), json);
        let both = json!({"snapshot-id": 7, "timestamp-ms": 1000, "manifests": [], "manifest-list": "l"});
        assert_eq!(Snapshot::from_json(&both).unwrap().manifests, SnapshotManifests::List("l".into()));
        let neither = json!({"snapshot-id": 7, "timestamp-ms": 1000});
        assert!(Snapshot::from_json(&neither).unwrap_err().to_string().contains("`manifest-list`"));
    }

    #[test]
    fn refs_survive_a_round_trip() {
        let json = json!({
            "snapshot-id": 7, "type": "branch", "min-snapshots-to-keep": 2, "max-snapshot-age-ms": 3,
            "max-ref-age-ms": 4, "x": 1
        });
        assert_eq!(SnapshotRef::from_json(&json).unwrap().to_json(), json);
        let tag = SnapshotRef::from_json(&json!({"snapshot-id": 7, "type": "TAG"})).unwrap();
        assert_eq!(tag.ref_type, RefType::Tag);
        assert!(SnapshotRef::from_json(&json!({"snapshot-id": 7, "type": "x"})).is_err());
    }
}
