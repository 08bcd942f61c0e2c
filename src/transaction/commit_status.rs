//! What became of a commit whose outcome is not known.

use std::sync::Arc;

use super::commit::Sent;
use super::retry::Retry;
use crate::catalog::Catalog;
use crate::error::{ErrorKind, Result};
use crate::spec::{Snapshot, SnapshotId, TableMetadata, TableProperties, TableUpdate};
use crate::table::Table;

/// The name in a snapshot's summary of what tells a commit from any other.
pub(super) const COMMIT_ID: &str = "icefloe.commit-id";

/// What is known of a commit.
pub(super) enum Outcome {
    /// It has happened. The tables, as they are now, in the order of what was sent.
    Committed(Vec<Table>),
    /// It has not, and can't any more: somebody else was faster.
    Lost,
    /// It may have happened, or happen yet.
    Unknown,
}

/// What one table says of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    /// Its snapshots are there.
    Snapshots,
    /// It added no snapshot, but all that it changed is so.
    Effects,
    /// Somebody else's snapshot took the place of its own.
    Replaced,
    None,
}

/// Looks for a commit, several times if need be.
pub(super) async fn find_out(sent: &[&Sent], catalog: &dyn Catalog) -> Outcome {
    let Some(first) = sent.first() else { return Outcome::Unknown };
    let properties = TableProperties::new(&first.base.metadata().properties);
    let Ok(policy) = properties.commit_status_checks() else { return Outcome::Unknown };
    let mut retry = Retry::new(policy);
    loop {
        match look(sent, catalog).await {
            Ok(Outcome::Unknown) => {}
            Ok(known) => return known,
            Err(e) => tracing::warn!(error = %e, "cannot look for a commit whose outcome is not known"),
        }
        if !retry.wait().await {
            return Outcome::Unknown;
        }
    }
}

async fn look(sent: &[&Sent], catalog: &dyn Catalog) -> Result<Outcome> {
    let (mut traces, mut tables) = (Vec::new(), Vec::new());
    for sent in sent {
        let loaded = match catalog.load_table(&sent.commit.table).await {
            Ok(table) => table.with_all_snapshots().await,
            Err(e) => Err(e),
        };
        match loaded {
            Ok(table) => {
                traces.push(trace(sent, &table));
                tables.push(table);
            }
            // Not created yet, or dropped since.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Outcome::Unknown),
            Err(e) => return Err(e),
        }
    }
    // All tables change, or none does: one is enough to know. That a table is as it should be does
    // not tell who made it so.
    Ok(if traces.contains(&Trace::Snapshots) {
        Outcome::Committed(tables)
    } else if traces.contains(&Trace::Replaced) {
        Outcome::Lost
    } else if traces.iter().all(|trace| *trace == Trace::Effects) {
        Outcome::Committed(tables)
    } else {
        Outcome::Unknown
    })
}

fn trace(sent: &Sent, now: &Table) -> Trace {
    if !is_same_table(sent, now) {
        return Trace::None;
    }
    if has_snapshots(sent, now) || sent.base.is_staged() {
        return Trace::Snapshots;
    }
    match added_snapshots(sent).next() {
        Some(_) if was_replaced(sent, now.metadata()) => Trace::Replaced,
        None if has_effects(sent, now.metadata()) => Trace::Effects,
        _ => Trace::None,
    }
}

/// Whether it is the table that was changed or created, not another of its name.
fn is_same_table(sent: &Sent, now: &Table) -> bool {
    sent.after.metadata().table_uuid == now.metadata().table_uuid
}

fn added_snapshots(sent: &Sent) -> impl Iterator<Item = &Arc<Snapshot>> {
    sent.commit.updates.iter().filter_map(|update| match update {
        TableUpdate::AddSnapshot(snapshot) => Some(snapshot),
        _ => None,
    })
}

/// Whether the snapshots that the commit adds are there; false if it adds none.
pub(super) fn has_snapshots(sent: &Sent, now: &Table) -> bool {
    let mut added = added_snapshots(sent).peekable();
    let is_there = |added: &Arc<Snapshot>| {
        let found = now.metadata().snapshot(added.snapshot_id);
        found.is_some_and(|found| found.summary.get(COMMIT_ID) == added.summary.get(COMMIT_ID))
    };
    added.peek().is_some() && is_same_table(sent, now) && added.all(is_there)
}

/// Whether a branch moved on from where the commit found it, without the commit's snapshot in its
/// history: then the commit has not happened, and its requirement can't hold any more.
fn was_replaced(sent: &Sent, now: &TableMetadata) -> bool {
    let base = sent.base.metadata();
    sent.commit.updates.iter().any(|update| {
        let TableUpdate::SetSnapshotRef { name, .. } = update else { return false };
        let head = |metadata: &TableMetadata| metadata.refs.get(name).map(|r| r.snapshot_id);
        let (before, after) = (head(base), head(now));
        before != after && after.is_some_and(|after| descends_from(now, after, before))
    })
}

/// Whether the history of a snapshot leads to `ancestor` (to its beginning if `None`), with nothing
/// missing in between.
fn descends_from(metadata: &TableMetadata, from: SnapshotId, ancestor: Option<SnapshotId>) -> bool {
    let mut next = Some(from);
    // As many steps as there are snapshots: a history that goes round in a circle ends, too.
    for _ in 0..=metadata.snapshots.len() {
        if next == ancestor {
            return true;
        }
        let Some(snapshot) = next.and_then(|id| metadata.snapshot(id)) else { return false };
        next = snapshot.parent_snapshot_id;
    }
    false
}

/// Whether the table is as if the commit had happened last.
fn has_effects(sent: &Sent, now: &TableMetadata) -> bool {
    let updates: Vec<TableUpdate> =
        sent.commit.updates.iter().filter(|update| !is_removed(update, now)).cloned().collect();
    let Ok(again) = TableMetadata::apply(Some(now), &updates, now.last_updated_ms) else { return false };
    let expected = TableMetadata {
        last_updated_ms: now.last_updated_ms,
        snapshot_log: now.snapshot_log.clone(),
        metadata_log: now.metadata_log.clone(),
        ..again
    };
    expected == *now
}

/// Whether an update removes what is not there.
fn is_removed(update: &TableUpdate, now: &TableMetadata) -> bool {
    let of_snapshot = |files: &[serde_json::Value], id: &SnapshotId| {
        files.iter().any(|file| file.get("snapshot-id").and_then(serde_json::Value::as_i64) == Some(id.0))
    };
    match update {
        TableUpdate::RemoveSnapshots(ids) => ids.iter().all(|id| now.snapshot(*id).is_none()),
        TableUpdate::RemoveSnapshotRef(name) => !now.refs.contains_key(name),
        TableUpdate::RemoveStatistics(id) => !of_snapshot(&now.statistics, id),
        TableUpdate::RemovePartitionStatistics(id) => !of_snapshot(&now.partition_statistics, id),
        TableUpdate::RemovePartitionSpecs(ids) => ids.iter().all(|id| !now.partition_specs.contains_key(id)),
        TableUpdate::RemoveSchemas(ids) => ids.iter().all(|id| !now.schemas.contains_key(id)),
        TableUpdate::RemoveProperties(names) => names.iter().all(|n| !now.properties.contains_key(n)),
        _ => false,
    }
}
