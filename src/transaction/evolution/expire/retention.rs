//! Which snapshots, branches and tags expire.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{MAIN_BRANCH, RefType, SnapshotId, SnapshotRef, TableMetadata, TableProperties};
use crate::transaction::evolution::ancestry::ancestors_of;

/// The rules for snapshots, branches and tags without rules of their own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) gc_enabled: bool,
    now_ms: i64,
    /// Snapshots that were made before may go.
    older_than_ms: i64,
    min_snapshots_to_keep: usize,
    max_ref_age_ms: i64,
}

/// What goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Expired {
    pub(super) refs: BTreeSet<String>,
    pub(super) snapshots: BTreeSet<SnapshotId>,
}

impl Rules {
    pub(super) fn new(
        properties: &BTreeMap<String, String>,
        now_ms: i64,
        older_than_ms: Option<i64>,
        retain_last: Option<usize>,
    ) -> Result<Self> {
        let properties = TableProperties::new(properties);
        let max_age = properties.max_snapshot_age_ms()?;
        Ok(Self {
            gc_enabled: properties.gc_enabled()?,
            now_ms,
            older_than_ms: older_than_ms.unwrap_or_else(|| now_ms.saturating_sub(max_age)),
            min_snapshots_to_keep: match retain_last {
                Some(count) => count,
                None => properties.min_snapshots_to_keep()?,
            },
            max_ref_age_ms: properties.max_ref_age_ms()?,
        })
    }
}

/// What goes by the rules, and the snapshots of `ids`.
pub(super) fn expired(
    metadata: &TableMetadata,
    rules: &Rules,
    ids: &BTreeSet<SnapshotId>,
) -> Result<Expired> {
    let (kept, gone): (Vec<_>, Vec<_>) =
        metadata.refs.iter().partition(|(name, reference)| is_kept(metadata, rules, name, reference));
    for (name, reference) in &kept {
        if ids.contains(&reference.snapshot_id) {
            let message = format!("snapshot {} can't expire: `{name}` names it", reference.snapshot_id);
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
    }
    let mut retained = BTreeSet::new();
    // Those that a branch or tag that stays was made from. Of the others, which nothing names, only
    // the age counts.
    let mut named = BTreeSet::new();
    for (_, reference) in &kept {
        retained.insert(reference.snapshot_id);
        named.insert(reference.snapshot_id);
        if reference.ref_type == RefType::Branch {
            named.extend(ancestors_of(metadata, Some(reference.snapshot_id)).map(|s| s.snapshot_id));
            retain_branch(metadata, rules, reference, &mut retained);
        }
    }
    for snapshot in &metadata.snapshots {
        let id = snapshot.snapshot_id;
        if !named.contains(&id) && snapshot.timestamp_ms >= rules.older_than_ms {
            retained.insert(id);
        }
    }
    let all = metadata.snapshots.iter().map(|snapshot| snapshot.snapshot_id);
    let snapshots = all.filter(|id| !retained.contains(id) || ids.contains(id)).collect();
    Ok(Expired { refs: gone.into_iter().map(|(name, _)| name.clone()).collect(), snapshots })
}

fn is_kept(metadata: &TableMetadata, rules: &Rules, name: &str, reference: &SnapshotRef) -> bool {
    if name == MAIN_BRANCH {
        return true;
    }
    let max_age = reference.max_ref_age_ms.unwrap_or(rules.max_ref_age_ms);
    // One that names nothing is of no use.
    metadata
        .snapshot(reference.snapshot_id)
        .is_some_and(|snapshot| rules.now_ms.saturating_sub(snapshot.timestamp_ms) <= max_age)
}

/// The snapshots of a branch up to the first that may go: what is older than a gap is not reached.
fn retain_branch(
    metadata: &TableMetadata,
    rules: &Rules,
    branch: &SnapshotRef,
    retained: &mut BTreeSet<SnapshotId>,
) {
    let older_than =
        branch.max_snapshot_age_ms.map_or(rules.older_than_ms, |age| rules.now_ms.saturating_sub(age));
    let own = branch.min_snapshots_to_keep.and_then(|count| usize::try_from(count).ok());
    let at_least = own.unwrap_or(rules.min_snapshots_to_keep);
    let ancestors = ancestors_of(metadata, Some(branch.snapshot_id)).enumerate();
    let kept = ancestors.take_while(|(i, s)| *i < at_least || s.timestamp_ms >= older_than);
    retained.extend(kept.map(|(_, snapshot)| snapshot.snapshot_id));
}
