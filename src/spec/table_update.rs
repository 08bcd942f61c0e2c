//! Changes of a table's metadata, as commits are made of them (the REST protocol's `TableUpdate`).

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::ids::{SchemaId, SnapshotId, SortOrderId, SpecId};
use super::partition::PartitionSpec;
use super::schema::Schema;
use super::snapshot::{Snapshot, SnapshotRef};
use super::sort::SortOrder;

/// In place of an id: the schema, spec or order that the same commit added last.
pub const LAST_ADDED: i32 = -1;

/// One change of a table's metadata. A commit is a list of them, applied in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TableUpdate {
    /// Gives a new table its identity.
    AssignUuid(Uuid),
    /// Raises the format version; never lowers it.
    UpgradeFormatVersion(u8),
    /// Adds a schema. It gets the next free id, or that of an equal schema that is there already.
    AddSchema(Arc<Schema>),
    /// Makes a schema the current one.
    SetCurrentSchema(SchemaId),
    /// Adds a partition spec. It gets the next free id, or that of an equal one that is there already.
    AddSpec(Arc<PartitionSpec>),
    /// Makes a spec the one that writers use.
    SetDefaultSpec(SpecId),
    /// Adds a sort order. It gets the next free id, or that of an equal one that is there already.
    AddSortOrder(Arc<SortOrder>),
    /// Makes a sort order the one that writers use.
    SetDefaultSortOrder(SortOrderId),
    /// Adds a snapshot, which no reference names yet.
    AddSnapshot(Arc<Snapshot>),
    /// Creates or moves a branch or tag; `main` decides the current snapshot.
    SetSnapshotRef {
        /// The name of the branch or tag.
        name: String,
        /// What it becomes.
        reference: SnapshotRef,
    },
    /// Removes snapshots, and with them the references to them.
    RemoveSnapshots(Vec<SnapshotId>),
    /// Removes a branch or tag.
    RemoveSnapshotRef(String),
    /// Changes the base location.
    SetLocation(String),
    /// Sets properties.
    SetProperties(BTreeMap<String, String>),
    /// Removes properties.
    RemoveProperties(Vec<String>),
    /// Sets the statistics file of a snapshot, as its JSON object.
    SetStatistics(serde_json::Value),
    /// Removes the statistics file of a snapshot.
    RemoveStatistics(SnapshotId),
    /// Sets the partition statistics file of a snapshot, as its JSON object.
    SetPartitionStatistics(serde_json::Value),
    /// Removes the partition statistics file of a snapshot.
    RemovePartitionStatistics(SnapshotId),
    /// Removes specs that no manifest uses.
    RemovePartitionSpecs(Vec<SpecId>),
    /// Removes schemas that no snapshot uses.
    RemoveSchemas(Vec<SchemaId>),
    /// Adds an encryption key, as its JSON object (v3).
    AddEncryptionKey(serde_json::Value),
    /// Removes an encryption key by its id (v3).
    RemoveEncryptionKey(String),
}

impl TableUpdate {
    /// What the REST protocol calls this kind of update.
    pub fn action(&self) -> &'static str {
        match self {
            Self::AssignUuid(_) => "assign-uuid",
            Self::UpgradeFormatVersion(_) => "upgrade-format-version",
            Self::AddSchema(_) => "add-schema",
            Self::SetCurrentSchema(_) => "set-current-schema",
            Self::AddSpec(_) => "add-spec",
            Self::SetDefaultSpec(_) => "set-default-spec",
            Self::AddSortOrder(_) => "add-sort-order",
            Self::SetDefaultSortOrder(_) => "set-default-sort-order",
            Self::AddSnapshot(_) => "add-snapshot",
            Self::SetSnapshotRef { .. } => "set-snapshot-ref",
            Self::RemoveSnapshots(_) => "remove-snapshots",
            Self::RemoveSnapshotRef(_) => "remove-snapshot-ref",
            Self::SetLocation(_) => "set-location",
            Self::SetProperties(_) => "set-properties",
            Self::RemoveProperties(_) => "remove-properties",
            Self::SetStatistics(_) => "set-statistics",
            Self::RemoveStatistics(_) => "remove-statistics",
            Self::SetPartitionStatistics(_) => "set-partition-statistics",
            Self::RemovePartitionStatistics(_) => "remove-partition-statistics",
            Self::RemovePartitionSpecs(_) => "remove-partition-specs",
            Self::RemoveSchemas(_) => "remove-schemas",
            Self::AddEncryptionKey(_) => "add-encryption-key",
            Self::RemoveEncryptionKey(_) => "remove-encryption-key",
        }
    }
}
