//! Requirements of a commit as JSON (REST protocol, `TableRequirement`).

use serde_json::{Value as Json, json};

use crate::error::{Error, Result};

use super::ids::{FieldId, SchemaId, SnapshotId, SortOrderId, SpecId};
use super::json::Node;
use super::requirement::TableRequirement;
use super::table_update_json::read_uuid;

impl TableRequirement {
    /// Reads a requirement.
    ///
    /// # Errors
    /// `Unsupported`, with its name, for a requirement of a kind that is not known; `DataInvalid`,
    /// with the path of the member, for JSON that is no requirement.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::read(&Node::root(json))
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        let kind = object.req("type", Node::string)?.to_ascii_lowercase();
        Ok(match kind.as_str() {
            "assert-create" => Self::Create,
            "assert-table-uuid" => Self::Uuid(object.req("uuid", read_uuid)?),
            "assert-ref-snapshot-id" => Self::RefSnapshotId {
                name: object.req("ref", Node::string)?,
                snapshot_id: object.opt("snapshot-id", Node::i64)?.map(SnapshotId),
            },
            "assert-last-assigned-field-id" => {
                Self::LastAssignedFieldId(FieldId(object.req("last-assigned-field-id", Node::i32)?))
            }
            "assert-current-schema-id" => {
                Self::CurrentSchemaId(SchemaId(object.req("current-schema-id", Node::i32)?))
            }
            "assert-last-assigned-partition-id" => {
                Self::LastAssignedPartitionId(FieldId(object.req("last-assigned-partition-id", Node::i32)?))
            }
            "assert-default-spec-id" => {
                Self::DefaultSpecId(SpecId(object.req("default-spec-id", Node::i32)?))
            }
            "assert-default-sort-order-id" => {
                Self::DefaultSortOrderId(SortOrderId(object.req("default-sort-order-id", Node::i32)?))
            }
            _ => {
                return Err(Error::unsupported(format!("icefloe doesn't know the requirement `{kind}`")));
            }
        })
    }

    /// Writes the requirement, as far as the protocol can say it.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Create => json!({"type": "assert-create"}),
            Self::Uuid(uuid) => json!({"type": "assert-table-uuid", "uuid": uuid.hyphenated().to_string()}),
            // A null has a meaning, so it is written.
            Self::RefSnapshotId { name, snapshot_id } => json!({
                "type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id.map(|id| id.0)
            }),
            Self::Ref { name, reference } => {
                let snapshot_id = reference.as_ref().map(|reference| reference.snapshot_id);
                Self::RefSnapshotId { name: name.clone(), snapshot_id }.to_json()
            }
            Self::LastAssignedFieldId(id) => {
                json!({"type": "assert-last-assigned-field-id", "last-assigned-field-id": id.0})
            }
            Self::CurrentSchemaId(id) => {
                json!({"type": "assert-current-schema-id", "current-schema-id": id.0})
            }
            Self::LastAssignedPartitionId(id) => {
                json!({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": id.0})
            }
            Self::DefaultSpecId(id) => json!({"type": "assert-default-spec-id", "default-spec-id": id.0}),
            Self::DefaultSortOrderId(id) => {
                json!({"type": "assert-default-sort-order-id", "default-sort-order-id": id.0})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn every_kind_survives_a_round_trip() {
        for json in [
            json!({"type": "assert-create"}),
            json!({"type": "assert-table-uuid", "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7"}),
            json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}),
            json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": null}),
            json!({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1}),
            json!({"type": "assert-current-schema-id", "current-schema-id": 1}),
            json!({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999}),
            json!({"type": "assert-default-spec-id", "default-spec-id": 1}),
            json!({"type": "assert-default-sort-order-id", "default-sort-order-id": 1}),
        ] {
            assert_eq!(TableRequirement::from_json(&json).unwrap().to_json(), json);
            for name in json.as_object().unwrap().keys().filter(|name| *name != "snapshot-id") {
                let mut less = json.clone();
                less.as_object_mut().unwrap().remove(name);
                let error = TableRequirement::from_json(&less).unwrap_err();
                assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
            }
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        let error = TableRequirement::from_json(&json!({"type": "assert-moon"})).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("assert-moon"));
    }
}
