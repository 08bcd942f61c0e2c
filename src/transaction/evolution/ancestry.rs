//! The line of snapshots that a snapshot was made from.

use std::collections::HashSet;
use std::sync::Arc;

use crate::spec::{Snapshot, SnapshotId, TableMetadata};

/// A snapshot and those that it was made from, newest first, as far as they are still there.
pub(super) fn ancestors_of(
    metadata: &TableMetadata,
    id: Option<SnapshotId>,
) -> impl Iterator<Item = &Arc<Snapshot>> {
    // Broken metadata may go in circles.
    let mut seen = HashSet::new();
    let mut next = id;
    std::iter::from_fn(move || {
        let id = next.take()?;
        if !seen.insert(id) {
            return None;
        }
        let snapshot = metadata.snapshot(id)?;
        next = snapshot.parent_snapshot_id;
        Some(snapshot)
    })
}

/// Whether `ancestor` is `id` or one that it was made from.
pub(super) fn is_ancestor(metadata: &TableMetadata, ancestor: SnapshotId, id: Option<SnapshotId>) -> bool {
    ancestors_of(metadata, id).any(|snapshot| snapshot.snapshot_id == ancestor)
}
