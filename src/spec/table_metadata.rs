//! Table metadata (spec, "Table Metadata").

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::ids::{FieldId, SchemaId, SequenceNumber, SnapshotId, SortOrderId, SpecId};
use super::partition::PartitionSpec;
use super::schema::Schema;
use super::snapshot::{MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef};
use super::sort::SortOrder;

/// The name of the branch that is read and written unless another is named.
pub const MAIN_BRANCH: &str = "main";

/// Everything that a metadata file says of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableMetadata {
    /// 1 to 4; of version 4, what is compatible with version 3.
    pub format_version: u8,
    /// The table's identity; old v1 tables have none.
    pub table_uuid: Option<Uuid>,
    /// The table's base location; empty if a version 4 table leaves it to the catalog.
    pub location: String,
    /// The last assigned sequence number; 0 in v1.
    pub last_sequence_number: SequenceNumber,
    /// When it was last updated, in milliseconds since 1970 UTC.
    pub last_updated_ms: i64,
    /// The highest field id ever assigned.
    pub last_column_id: FieldId,
    /// All schemas by id.
    pub schemas: BTreeMap<SchemaId, Arc<Schema>>,
    /// The current one; always in `schemas`.
    pub current_schema_id: SchemaId,
    /// All partition specs by id.
    pub partition_specs: BTreeMap<SpecId, Arc<PartitionSpec>>,
    /// The one that writers use; always in `partition_specs`.
    pub default_spec_id: SpecId,
    /// The highest partition field id ever assigned; 999 if none was.
    pub last_partition_id: FieldId,
    /// The table's properties.
    pub properties: BTreeMap<String, String>,
    /// The current snapshot; `None` for a table without one.
    pub current_snapshot_id: Option<SnapshotId>,
    /// The valid snapshots, in the order of the file; only those that branches and tags name unless
    /// [`TableMetadata::has_all_snapshots`].
    pub snapshots: Vec<Arc<Snapshot>>,
    /// Which snapshot was current when; not always in order.
    pub snapshot_log: Vec<SnapshotLogEntry>,
    /// Earlier metadata files.
    pub metadata_log: Vec<MetadataLogEntry>,
    /// All sort orders by id; always holds the unsorted one.
    pub sort_orders: BTreeMap<SortOrderId, Arc<SortOrder>>,
    /// The one that writers use; always in `sort_orders`.
    pub default_sort_order_id: SortOrderId,
    /// Branches and tags by name; `main` is there whenever there is a current snapshot.
    pub refs: BTreeMap<String, SnapshotRef>,
    /// Statistics files, as their JSON objects.
    pub statistics: Vec<serde_json::Value>,
    /// Partition statistics files, as their JSON objects.
    pub partition_statistics: Vec<serde_json::Value>,
    /// The next row id to assign (v3); 0 before.
    pub next_row_id: i64,
    /// Encryption keys, as their JSON objects (v3).
    pub encryption_keys: Vec<serde_json::Value>,
    /// Members of the JSON object that this version does not know; kept and written back.
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// Position in `snapshots` by id; filled by [`TableMetadata::index_snapshots`].
    pub(crate) snapshot_index: HashMap<SnapshotId, usize>,
    /// Whether a server left out the snapshots that no branch or tag names.
    pub(crate) is_partial: bool,
}

impl TableMetadata {
    /// The current schema.
    pub fn current_schema(&self) -> &Arc<Schema> {
        // The reader and the builders guarantee that the id is there.
        &self.schemas[&self.current_schema_id]
    }

    /// The spec that writers use.
    pub fn default_spec(&self) -> &Arc<PartitionSpec> {
        &self.partition_specs[&self.default_spec_id]
    }

    /// The order that writers use.
    pub fn default_sort_order(&self) -> &Arc<SortOrder> {
        &self.sort_orders[&self.default_sort_order_id]
    }

    /// The snapshot with that id, if it has not expired. That there is none says nothing unless
    /// [`TableMetadata::has_all_snapshots`].
    pub fn snapshot(&self, id: SnapshotId) -> Option<&Arc<Snapshot>> {
        self.snapshots.get(*self.snapshot_index.get(&id)?)
    }

    /// The current snapshot, if there is one.
    pub fn current_snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot(self.current_snapshot_id?)
    }

    /// Makes [`TableMetadata::snapshot`] find all of `snapshots`; to be called after a change.
    pub(crate) fn index_snapshots(&mut self) {
        self.snapshot_index = self.snapshots.iter().enumerate().map(|(i, s)| (s.snapshot_id, i)).collect();
    }
}
