//! Snapshots, references and the snapshot log of metadata in the making.

use std::sync::Arc;

use crate::error::{Error, Result};

use super::super::ids::SnapshotId;
use super::super::snapshot::{RefType, Snapshot, SnapshotLogEntry, SnapshotManifests, SnapshotRef};
use super::super::table_metadata::MAIN_BRANCH;
use super::{Builder, CLOCK_SKEW_MS, outdated, refused, remove_files};

impl Builder<'_> {
    pub(super) fn add_snapshot(&mut self, snapshot: &Arc<Snapshot>) -> Result<()> {
        let id = snapshot.snapshot_id;
        self.check_snapshot(snapshot)?;
        self.check_times(snapshot)?;
        let next_row_id = self.next_row_id(snapshot)?;
        let metadata = &mut self.metadata;
        metadata.next_row_id = next_row_id;
        metadata.last_sequence_number = snapshot.sequence_number;
        metadata.snapshot_index.insert(id, metadata.snapshots.len());
        metadata.snapshots.push(Arc::clone(snapshot));
        self.added_snapshots.insert(id);
        self.removed_snapshots.remove(&id);
        Ok(())
    }

    fn check_snapshot(&self, snapshot: &Snapshot) -> Result<()> {
        let metadata = &self.metadata;
        let id = snapshot.snapshot_id;
        if id.0 < 0 {
            return Err(Error::invalid(format!("snapshot id {id} is negative")));
        }
        if metadata.snapshot(id).is_some() {
            return Err(refused(format!("snapshot {id} exists already")));
        }
        if let Some(parent) = snapshot.parent_snapshot_id
            && metadata.snapshot(parent).is_none()
        {
            return Err(outdated(format!("snapshot {parent}, the parent of snapshot {id}, is gone")));
        }
        if let Some(schema) = snapshot.schema_id
            && !metadata.schemas.contains_key(&schema)
        {
            return Err(outdated(format!(
                "the table has no schema {schema}, with which snapshot {id} was made"
            )));
        }
        let (sequence, last) = (snapshot.sequence_number, metadata.last_sequence_number);
        if metadata.format_version == 1 {
            if sequence.0 != 0 {
                return Err(Error::invalid(format!(
                    "snapshot {id} has the sequence number {sequence}; in version 1 there are none"
                )));
            }
            return Ok(());
        }
        if sequence <= last {
            return Err(outdated(format!(
                "snapshot {id} has the sequence number {sequence}, but the table is at {last} already"
            )));
        }
        if !matches!(snapshot.manifests, SnapshotManifests::List(_)) {
            return Err(Error::invalid(format!("snapshot {id} has no manifest list")));
        }
        if snapshot.operation().is_none() {
            return Err(Error::invalid(format!("the summary of snapshot {id} has no `operation`")));
        }
        Ok(())
    }

    /// Readers expect the table's times in order, but for what clocks differ.
    fn check_times(&self, snapshot: &Snapshot) -> Result<()> {
        let time = snapshot.timestamp_ms;
        let logged = self.metadata.snapshot_log.last().map_or(i64::MIN, |entry| entry.timestamp_ms);
        let last = self.metadata.last_updated_ms.max(logged);
        let wrong = if time < last.saturating_sub(CLOCK_SKEW_MS) {
            Some(format!("more than a minute before the table's last change at {last}"))
        } else if time > self.now_ms.saturating_add(CLOCK_SKEW_MS) {
            Some(format!("more than a minute after the commit at {}", self.now_ms))
        } else {
            None
        };
        match wrong {
            None => Ok(()),
            Some(wrong) => Err(Error::invalid(format!(
                "snapshot {} was made at {time}, {wrong}: are the clocks right?",
                snapshot.snapshot_id
            ))),
        }
    }

    /// The table's next row id with a snapshot's rows.
    fn next_row_id(&self, snapshot: &Snapshot) -> Result<i64> {
        let id = snapshot.snapshot_id;
        let next = self.metadata.next_row_id;
        if self.metadata.format_version < 3 {
            if snapshot.first_row_id.is_some() || snapshot.added_rows.is_some() || snapshot.key_id.is_some() {
                return Err(Error::invalid(format!(
                    "snapshot {id} has row ids or a key, which need a table of version 3"
                )));
            }
            return Ok(next);
        }
        let (Some(first), Some(added)) = (snapshot.first_row_id, snapshot.added_rows) else {
            // It may have been made before the table was upgraded.
            return Err(outdated(format!("snapshot {id} needs `first-row-id` and `added-rows`")));
        };
        if first < next {
            return Err(outdated(format!(
                "the rows of snapshot {id} begin at {first}, but the table is at {next} already"
            )));
        }
        match first.checked_add(added) {
            Some(end) if added >= 0 => Ok(end),
            _ => Err(Error::invalid(format!("snapshot {id} adds {added} rows from {first} on"))),
        }
    }

    pub(super) fn set_ref(&mut self, name: &str, reference: &SnapshotRef) -> Result<()> {
        check_ref(name, reference)?;
        if self.metadata.refs.get(name) == Some(reference) {
            return Ok(());
        }
        let id = reference.snapshot_id;
        let Some(snapshot) = self.metadata.snapshot(id) else {
            return Err(outdated(format!(
                "`{name}` can't be at snapshot {id}, which the table does not have"
            )));
        };
        if name == MAIN_BRANCH {
            let added = self.added_snapshots.contains(&id);
            let time = if added { snapshot.timestamp_ms } else { self.now_ms };
            let last = self.metadata.snapshot_log.last().map_or(time, |entry| entry.timestamp_ms);
            let timestamp_ms = if time < last.saturating_sub(CLOCK_SKEW_MS) { last } else { time };
            // Also when only the branch's rules change, as Java has it.
            self.metadata.snapshot_log.push(SnapshotLogEntry { timestamp_ms, snapshot_id: id });
            self.metadata.current_snapshot_id = Some(id);
            if added {
                self.added_and_current.insert(id);
            }
        }
        self.metadata.refs.insert(name.to_owned(), reference.clone());
        Ok(())
    }

    pub(super) fn remove_ref(&mut self, name: &str) {
        if name == MAIN_BRANCH {
            self.metadata.current_snapshot_id = None;
        }
        self.metadata.refs.remove(name);
    }

    ///
    /// # Errors
    /// `CommitConflict` for a snapshot that a branch or tag names: whoever removes it did not know of
    /// that, and must not take it away in silence.
    pub(super) fn remove_snapshots(&mut self, ids: &[SnapshotId]) -> Result<()> {
        let metadata = &mut self.metadata;
        if let Some((name, reference)) = metadata.refs.iter().find(|(_, r)| ids.contains(&r.snapshot_id)) {
            return Err(outdated(format!(
                "snapshot {} can't be removed: `{name}` names it",
                reference.snapshot_id
            )));
        }
        let gone: Vec<SnapshotId> =
            ids.iter().copied().filter(|id| metadata.snapshot(*id).is_some()).collect();
        self.removed_snapshots.extend(gone);
        let removed = &self.removed_snapshots;
        metadata.snapshots.retain(|snapshot| !removed.contains(&snapshot.snapshot_id));
        metadata.index_snapshots();
        remove_files(&mut metadata.statistics, |id| removed.contains(&id));
        remove_files(&mut metadata.partition_statistics, |id| removed.contains(&id));
        if metadata.current_snapshot_id.is_some_and(|id| removed.contains(&id)) {
            metadata.current_snapshot_id = None;
        }
        Ok(())
    }

    /// Takes out snapshots that were current only in the middle of the commit, and the history up
    /// to a snapshot that is gone: the one before it would seem to have been current for longer.
    pub(super) fn prune_snapshot_log(&mut self) {
        let metadata = &mut self.metadata;
        let current = metadata.current_snapshot_id;
        let passed = |id: SnapshotId| self.added_and_current.contains(&id) && current != Some(id);
        let mut log = std::mem::take(&mut metadata.snapshot_log);
        log.retain(|entry| !passed(entry.snapshot_id));
        if !self.removed_snapshots.is_empty() {
            let gone = log.iter().rposition(|entry| metadata.snapshot(entry.snapshot_id).is_none());
            log.drain(..gone.map_or(0, |last| last + 1));
        }
        metadata.snapshot_log = log;
    }
}

fn check_ref(name: &str, reference: &SnapshotRef) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid("a branch or tag needs a name"));
    }
    let of_branches = reference.min_snapshots_to_keep.is_some() || reference.max_snapshot_age_ms.is_some();
    if reference.ref_type == RefType::Tag {
        if name == MAIN_BRANCH {
            return Err(Error::invalid(format!("`{MAIN_BRANCH}` must be a branch")));
        }
        if of_branches {
            return Err(Error::invalid(format!(
                "tag `{name}` has rules for the snapshots of a branch; only its own age can be limited"
            )));
        }
    }
    let limits = [
        ("min-snapshots-to-keep", reference.min_snapshots_to_keep.map(i64::from)),
        ("max-snapshot-age-ms", reference.max_snapshot_age_ms),
        ("max-ref-age-ms", reference.max_ref_age_ms),
    ];
    match limits.into_iter().find(|(_, limit)| limit.is_some_and(|n| n <= 0)) {
        None => Ok(()),
        Some((limit, _)) => Err(Error::invalid("must be greater than 0").context(format!("field `{limit}`"))),
    }
}
