//! The changes that create a staged table.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::spec::{LAST_ADDED, SchemaId, SortOrderId, SpecId, TableMetadata, TableUpdate};

/// The updates that make nothing into a staged table; what they leave out, such as snapshots, a
/// staged table does not have.
pub(super) fn creation_updates(metadata: &TableMetadata) -> Vec<TableUpdate> {
    let mut updates = vec![
        TableUpdate::AssignUuid(metadata.table_uuid.unwrap_or_else(Uuid::new_v4)),
        TableUpdate::UpgradeFormatVersion(metadata.format_version),
        TableUpdate::AddSchema(Arc::clone(metadata.current_schema())),
        TableUpdate::SetCurrentSchema(SchemaId(LAST_ADDED)),
        TableUpdate::AddSpec(Arc::clone(metadata.default_spec())),
        TableUpdate::SetDefaultSpec(SpecId(LAST_ADDED)),
        TableUpdate::AddSortOrder(Arc::clone(metadata.default_sort_order())),
        TableUpdate::SetDefaultSortOrder(SortOrderId(LAST_ADDED)),
        TableUpdate::SetLocation(metadata.location.clone()),
    ];
    if !metadata.properties.is_empty() {
        let properties: BTreeMap<String, String> = metadata.properties.clone();
        updates.push(TableUpdate::SetProperties(properties));
    }
    updates
}
