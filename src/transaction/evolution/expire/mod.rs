//! Expiry of snapshots (spec, "Snapshot Retention Policy").

mod cleanup;
mod garbage;
mod retention;
#[cfg(test)]
mod tests;
mod unused;

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{SnapshotId, TableMetadata, TableRequirement, TableUpdate};
use crate::table::Table;
use crate::transaction::Action;
use crate::transaction::evolution::statistics::snapshot_of;
use crate::transaction::settings::now_ms;
use retention::{Expired, Rules};

/// Which files are removed once snapshots have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CleanupLevel {
    /// All that no snapshot needs any more.
    #[default]
    All,
    /// Manifest lists, manifests and statistics, but no data and delete files.
    MetadataOnly,
    /// None.
    None,
}

/// Removes snapshots that are too old, with the files that only they need.
///
/// By default a snapshot expires that is older than `history.expire.max-snapshot-age-ms` and not
/// among the newest `history.expire.min-snapshots-to-keep` of a branch; branches and tags may have
/// rules of their own. What a branch or tag names never expires before it does.
///
/// Files are removed after the commit: a failure to do so is logged and leaves files behind, and
/// never fails the commit.
#[derive(Debug, Clone, Default)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct ExpireSnapshots {
    older_than_ms: Option<i64>,
    retain_last: Option<usize>,
    ids: BTreeSet<SnapshotId>,
    level: CleanupLevel,
    clean_metadata: bool,
    /// The time that ages are counted from, for tests.
    now_ms: Option<i64>,
    /// The table that the last attempt was made on.
    before: Option<Table>,
}

impl ExpireSnapshots {
    /// Expires by the table's properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Expires snapshots made before this time, in milliseconds since 1970 UTC, whatever the
    /// table's properties say; the rules of a branch of its own still go first.
    pub fn expire_older_than(mut self, timestamp_ms: i64) -> Self {
        self.older_than_ms = Some(timestamp_ms);
        self
    }

    /// Keeps at least this many snapshots (1 or more) of each branch without a rule of its own.
    pub fn retain_last(mut self, count: usize) -> Self {
        self.retain_last = Some(count);
        self
    }

    /// Expires a snapshot whatever its age; no branch or tag may name it. One that is gone already
    /// is no error.
    pub fn expire_snapshot_id(mut self, id: SnapshotId) -> Self {
        self.ids.insert(id);
        self
    }

    /// Which files are removed; all that are not needed any more unless told otherwise.
    pub fn cleanup_level(mut self, level: CleanupLevel) -> Self {
        self.level = level;
        self
    }

    /// Whether schemas and partition specs that no snapshot needs go too; they stay unless told
    /// otherwise.
    pub fn clean_expired_metadata(mut self, clean: bool) -> Self {
        self.clean_metadata = clean;
        self
    }

    #[cfg(test)]
    fn at(mut self, now_ms: i64) -> Self {
        self.now_ms = Some(now_ms);
        self
    }

    fn expired(&self, metadata: &TableMetadata) -> Result<Expired> {
        if self.retain_last == Some(0) {
            return Err(Error::invalid("at least one snapshot must be retained"));
        }
        let now_ms = self.now_ms.unwrap_or_else(now_ms);
        let rules = Rules::new(&metadata.properties, now_ms, self.older_than_ms, self.retain_last)?;
        if !rules.gc_enabled {
            return Err(Error::new(
                ErrorKind::ValidationFailed,
                "the table's property `gc.enabled` is false: its files may belong to other tables too",
            ));
        }
        retention::expired(metadata, &rules, &self.ids)
    }

    async fn updates_of(&self, table: &Table) -> Result<Vec<TableUpdate>> {
        let metadata = table.metadata();
        let expired = self.expired(metadata)?;
        let mut updates: Vec<TableUpdate> =
            expired.refs.iter().map(|name| TableUpdate::RemoveSnapshotRef(name.clone())).collect();
        if !expired.snapshots.is_empty() {
            updates.push(TableUpdate::RemoveSnapshots(expired.snapshots.iter().copied().collect()));
            // Not every catalog sees for itself that these go too.
            let of = |files: &[serde_json::Value]| {
                let ids = files.iter().filter_map(snapshot_of);
                ids.filter(|id| expired.snapshots.contains(id)).collect::<BTreeSet<_>>()
            };
            updates.extend(of(&metadata.statistics).into_iter().map(TableUpdate::RemoveStatistics));
            let partitions = of(&metadata.partition_statistics).into_iter();
            updates.extend(partitions.map(TableUpdate::RemovePartitionStatistics));
        }
        if self.clean_metadata {
            updates.extend(unused::updates(table, &expired).await?);
        }
        Ok(updates)
    }
}

#[async_trait]
impl Action for ExpireSnapshots {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        self.before = Some(table.clone());
        self.updates_of(table).await.context(|| "expiry of snapshots".to_owned())
    }

    /// That no branch or tag has been moved, which could have been to a snapshot that goes, or got
    /// other rules.
    fn requirements(&self, table: &Table) -> Vec<TableRequirement> {
        let refs = table.metadata().refs.iter();
        let are = refs.map(|(name, reference)| TableRequirement::Ref {
            name: name.clone(),
            reference: Some(reference.clone()),
        });
        are.collect()
    }

    async fn committed(&mut self, table: &Table) {
        let Some(before) = self.before.take().filter(|_| self.level != CleanupLevel::None) else { return };
        cleanup::clean_up(&before, table, self.level).await;
    }
}
