//! What must hold of a table for a commit to be right (the REST protocol's `TableRequirement`).

use uuid::Uuid;

use super::ids::{FieldId, SchemaId, SnapshotId, SortOrderId, SpecId};

/// One condition on the table as it is when a commit arrives.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TableRequirement {
    /// There is no such table yet.
    Create,
    /// The table is the one that was read, not another of its name.
    Uuid(Uuid),
    /// The branch or tag names this snapshot; `None`: there is none of that name.
    RefSnapshotId {
        /// The name of the branch or tag.
        name: String,
        /// The snapshot it names.
        snapshot_id: Option<SnapshotId>,
    },
    /// Nobody added columns.
    LastAssignedFieldId(FieldId),
    /// Nobody changed the current schema.
    CurrentSchemaId(SchemaId),
    /// Nobody added partition fields.
    LastAssignedPartitionId(FieldId),
    /// Nobody changed the spec that writers use.
    DefaultSpecId(SpecId),
    /// Nobody changed the sort order that writers use.
    DefaultSortOrderId(SortOrderId),
}
