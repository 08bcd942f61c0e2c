//! Schemas and partition specs that no snapshot needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use super::retention::Expired;
use crate::error::Result;
use crate::spec::{FieldId, ManifestContent, SchemaId, Snapshot, SpecId, TableMetadata, TableUpdate};
use crate::table::Table;

/// How many manifest lists are read at a time.
const CONCURRENT_LISTS: usize = 8;

/// The updates that remove what the snapshots that stay don't need.
pub(super) async fn updates(table: &Table, expired: &Expired) -> Result<Vec<TableUpdate>> {
    let metadata = table.metadata();
    let stays = |snapshot: &Snapshot| !expired.snapshots.contains(&snapshot.snapshot_id);
    let retained: Vec<_> = metadata.snapshots.iter().filter(|snapshot| stays(snapshot)).cloned().collect();
    let read = |snapshot: Arc<Snapshot>| async move { table.manifest_list(&snapshot).await };
    let mut lists = futures::stream::iter(retained.clone()).map(read).buffer_unordered(CONCURRENT_LISTS);
    let mut specs = BTreeSet::from([metadata.default_spec_id]);
    let mut has_deletes = false;
    while let Some(list) = lists.try_next().await? {
        specs.extend(list.iter().map(|manifest| manifest.partition_spec_id));
        has_deletes |= list.iter().any(|manifest| manifest.content == ManifestContent::Deletes);
    }
    let schemas = schemas_in_use(metadata, retained.iter().map(AsRef::as_ref), &specs, has_deletes);
    let unused_specs: Vec<SpecId> =
        metadata.partition_specs.keys().filter(|id| !specs.contains(*id)).copied().collect();
    let unused_schemas: Vec<SchemaId> =
        metadata.schemas.keys().filter(|id| !schemas.contains(*id)).copied().collect();
    let mut updates = Vec::new();
    if !unused_specs.is_empty() {
        updates.push(TableUpdate::RemovePartitionSpecs(unused_specs));
    }
    if !unused_schemas.is_empty() {
        updates.push(TableUpdate::RemoveSchemas(unused_schemas));
    }
    Ok(updates)
}

/// The schemas of snapshots, and for each column that was dropped but is still needed the newest
/// that has it: the source of a partition field, and any that equality deletes may go by.
fn schemas_in_use<'a>(
    metadata: &TableMetadata,
    snapshots: impl Iterator<Item = &'a Snapshot>,
    specs: &BTreeSet<SpecId>,
    has_deletes: bool,
) -> BTreeSet<SchemaId> {
    let mut schemas: BTreeSet<SchemaId> = snapshots.filter_map(|snapshot| snapshot.schema_id).collect();
    schemas.insert(metadata.current_schema_id);
    let of_specs = metadata.partition_specs.iter().filter(|(id, _)| specs.contains(id));
    let mut needed: BTreeSet<FieldId> =
        of_specs.flat_map(|(_, spec)| &spec.fields).flat_map(|field| field.source_ids.clone()).collect();
    if has_deletes {
        needed.extend(metadata.schemas.values().flat_map(|schema| schema.field_ids()));
    }
    needed.retain(|id| metadata.current_schema().field_by_id(*id).is_none());
    for id in needed {
        let newest = metadata.schemas.values().rev().find(|schema| schema.field_by_id(id).is_some());
        schemas.extend(newest.map(|schema| schema.schema_id));
    }
    schemas
}
