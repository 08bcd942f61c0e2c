//! Branches, tags, and which snapshot is current (spec, "Snapshot References").

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use super::ancestry::{ancestors_of, is_ancestor};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{
    MAIN_BRANCH, RefType, SnapshotId, SnapshotRef, TableMetadata, TableRequirement, TableUpdate,
};
use crate::table::Table;
use crate::transaction::Action;

/// Creates, moves and removes branches and tags, and rolls the table back. The changes are made in
/// the order in which they are asked for.
#[derive(Debug, Clone, Default)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct ManageSnapshots {
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Create(RefType, String, Option<SnapshotId>),
    Replace(RefType, String, SnapshotId),
    ReplaceBy { branch: String, to: String, fast_forward: bool },
    Rename(String, String),
    Remove(RefType, String),
    MinSnapshotsToKeep(String, i32),
    MaxSnapshotAge(String, i64),
    MaxRefAge(String, i64),
    SetCurrent(SnapshotId),
    RollbackTo(SnapshotId),
    RollbackToTime(i64),
}

impl ManageSnapshots {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a branch at the current snapshot.
    pub fn create_branch(self, name: impl Into<String>) -> Self {
        self.with(Change::Create(RefType::Branch, name.into(), None))
    }

    /// Creates a branch at a snapshot.
    pub fn create_branch_at(self, name: impl Into<String>, snapshot: SnapshotId) -> Self {
        self.with(Change::Create(RefType::Branch, name.into(), Some(snapshot)))
    }

    /// Creates a tag of the current snapshot.
    pub fn create_tag(self, name: impl Into<String>) -> Self {
        self.with(Change::Create(RefType::Tag, name.into(), None))
    }

    /// Creates a tag of a snapshot.
    pub fn create_tag_at(self, name: impl Into<String>, snapshot: SnapshotId) -> Self {
        self.with(Change::Create(RefType::Tag, name.into(), Some(snapshot)))
    }

    /// Moves a branch to a snapshot, wherever that is.
    pub fn replace_branch(self, name: impl Into<String>, snapshot: SnapshotId) -> Self {
        self.with(Change::Replace(RefType::Branch, name.into(), snapshot))
    }

    /// Moves a branch to where another branch or tag is; creates it if there is none.
    pub fn replace_branch_by(self, name: impl Into<String>, to: impl Into<String>) -> Self {
        self.with(Change::ReplaceBy { branch: name.into(), to: to.into(), fast_forward: false })
    }

    /// Moves a tag to a snapshot.
    pub fn replace_tag(self, name: impl Into<String>, snapshot: SnapshotId) -> Self {
        self.with(Change::Replace(RefType::Tag, name.into(), snapshot))
    }

    /// Moves a branch forward to where another branch or tag is, which must be ahead of it; creates
    /// it if there is none.
    pub fn fast_forward(self, name: impl Into<String>, to: impl Into<String>) -> Self {
        self.with(Change::ReplaceBy { branch: name.into(), to: to.into(), fast_forward: true })
    }

    /// Gives a branch other than `main` another name.
    pub fn rename_branch(self, name: impl Into<String>, new_name: impl Into<String>) -> Self {
        self.with(Change::Rename(name.into(), new_name.into()))
    }

    /// Removes a branch other than `main`. Its snapshots stay until they expire.
    pub fn remove_branch(self, name: impl Into<String>) -> Self {
        self.with(Change::Remove(RefType::Branch, name.into()))
    }

    /// Removes a tag.
    pub fn remove_tag(self, name: impl Into<String>) -> Self {
        self.with(Change::Remove(RefType::Tag, name.into()))
    }

    /// How many snapshots of a branch expiry keeps at least.
    pub fn set_min_snapshots_to_keep(self, branch: impl Into<String>, count: i32) -> Self {
        self.with(Change::MinSnapshotsToKeep(branch.into(), count))
    }

    /// How old snapshots of a branch may get before they expire, in milliseconds.
    pub fn set_max_snapshot_age_ms(self, branch: impl Into<String>, age_ms: i64) -> Self {
        self.with(Change::MaxSnapshotAge(branch.into(), age_ms))
    }

    /// How old a branch or tag may get before it expires, in milliseconds.
    pub fn set_max_ref_age_ms(self, name: impl Into<String>, age_ms: i64) -> Self {
        self.with(Change::MaxRefAge(name.into(), age_ms))
    }

    /// Makes any snapshot of the table the current one.
    pub fn set_current_snapshot(self, snapshot: SnapshotId) -> Self {
        self.with(Change::SetCurrent(snapshot))
    }

    /// Makes a snapshot the current one that the current one was made from.
    pub fn rollback_to(self, snapshot: SnapshotId) -> Self {
        self.with(Change::RollbackTo(snapshot))
    }

    /// Goes back to the newest snapshot before a time (milliseconds since 1970 UTC) that the
    /// current one was made from.
    pub fn rollback_to_time(self, timestamp_ms: i64) -> Self {
        self.with(Change::RollbackToTime(timestamp_ms))
    }

    fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    fn updates_of(&self, metadata: &TableMetadata) -> Result<Vec<TableUpdate>> {
        let mut refs = Refs { metadata, refs: metadata.refs.clone() };
        for change in &self.changes {
            refs.make(change)?;
        }
        let removed = metadata.refs.keys().filter(|name| !refs.refs.contains_key(*name));
        let mut updates: Vec<_> = removed.map(|name| TableUpdate::RemoveSnapshotRef(name.clone())).collect();
        let set =
            refs.refs.into_iter().filter(|(name, reference)| metadata.refs.get(name) != Some(reference));
        updates.extend(set.map(|(name, reference)| TableUpdate::SetSnapshotRef { name, reference }));
        Ok(updates)
    }
}

#[async_trait]
impl Action for ManageSnapshots {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        self.updates_of(table.metadata())
    }

    /// That nothing happened to the branches and tags that the changes have to do with: also to those
    /// that they only go by, or take away, or find as they shall be.
    fn requirements(&self, table: &Table) -> Vec<TableRequirement> {
        let names: BTreeSet<&str> = self.changes.iter().flat_map(Change::names).collect();
        let are = names.into_iter().map(|name| TableRequirement::Ref {
            name: name.to_owned(),
            reference: table.metadata().refs.get(name).cloned(),
        });
        are.collect()
    }
}

impl Change {
    /// The branches and tags that it reads or changes.
    fn names(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Create(_, name, None) => (name.as_str(), Some(MAIN_BRANCH)),
            Self::ReplaceBy { branch: name, to: other, .. } | Self::Rename(name, other) => {
                (name.as_str(), Some(other.as_str()))
            }
            Self::Create(_, name, Some(_))
            | Self::Replace(_, name, _)
            | Self::Remove(_, name)
            | Self::MinSnapshotsToKeep(name, _)
            | Self::MaxSnapshotAge(name, _)
            | Self::MaxRefAge(name, _) => (name.as_str(), None),
            Self::SetCurrent(_) | Self::RollbackTo(_) | Self::RollbackToTime(_) => (MAIN_BRANCH, None),
        };
        std::iter::once(first).chain(second)
    }
}

/// The references as they shall be.
struct Refs<'a> {
    metadata: &'a TableMetadata,
    refs: BTreeMap<String, SnapshotRef>,
}

impl Refs<'_> {
    fn make(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Create(ref_type, name, snapshot) => self.create(*ref_type, name, *snapshot),
            Change::Replace(ref_type, name, snapshot) => {
                self.snapshot(*snapshot)?;
                self.get(name, Some(*ref_type))?.snapshot_id = *snapshot;
                Ok(())
            }
            Change::ReplaceBy { branch, to, fast_forward } => self.replace_by(branch, to, *fast_forward),
            Change::Rename(name, new_name) => self.rename(name, new_name),
            Change::Remove(ref_type, name) => {
                if name == MAIN_BRANCH {
                    return Err(Error::invalid(format!("branch `{MAIN_BRANCH}` can't be removed")));
                }
                self.get(name, Some(*ref_type))?;
                self.refs.remove(name);
                Ok(())
            }
            Change::MinSnapshotsToKeep(name, count) => {
                positive(i64::from(*count)).context(|| "the number of snapshots to keep".to_owned())?;
                self.get(name, Some(RefType::Branch))?.min_snapshots_to_keep = Some(*count);
                Ok(())
            }
            Change::MaxSnapshotAge(name, age) => {
                positive(*age).context(|| "the age of snapshots".to_owned())?;
                self.get(name, Some(RefType::Branch))?.max_snapshot_age_ms = Some(*age);
                Ok(())
            }
            Change::MaxRefAge(name, age) => {
                positive(*age).context(|| format!("the age of reference `{name}`"))?;
                self.get(name, None)?.max_ref_age_ms = Some(*age);
                Ok(())
            }
            Change::SetCurrent(snapshot) => self.set_current(*snapshot),
            Change::RollbackTo(snapshot) => {
                self.snapshot(*snapshot)?;
                if !is_ancestor(self.metadata, *snapshot, self.current()) {
                    return Err(Error::new(
                        ErrorKind::ValidationFailed,
                        format!(
                            "can't roll back to snapshot {snapshot}: the current snapshot was not made from it; \
                             `set_current_snapshot` goes to any"
                        ),
                    ));
                }
                self.set_current(*snapshot)
            }
            Change::RollbackToTime(ms) => {
                let older = ancestors_of(self.metadata, self.current()).filter(|s| s.timestamp_ms < *ms);
                // Of equal times the newest counts: `max_by_key` takes the last.
                let newest_last: Vec<_> = older.collect();
                let found = newest_last.into_iter().rev().max_by_key(|s| s.timestamp_ms);
                let found = found.map(|snapshot| snapshot.snapshot_id);
                self.set_current(found.ok_or_else(|| {
                    Error::not_found(format!("there is no snapshot before {ms} ms to roll back to"))
                })?)
            }
        }
    }

    fn current(&self) -> Option<SnapshotId> {
        self.refs.get(MAIN_BRANCH).map(|main| main.snapshot_id)
    }

    fn snapshot(&self, id: SnapshotId) -> Result<()> {
        match self.metadata.snapshot(id) {
            Some(_) => Ok(()),
            None => Err(Error::not_found(format!("the table has no snapshot {id}"))),
        }
    }

    fn get(&mut self, name: &str, ref_type: Option<RefType>) -> Result<&mut SnapshotRef> {
        let what = match ref_type {
            Some(RefType::Branch) => "branch",
            Some(RefType::Tag) => "tag",
            None => "branch or tag",
        };
        match self.refs.get_mut(name) {
            None => Err(Error::not_found(format!("there is no {what} `{name}`"))),
            Some(found) if ref_type.is_some_and(|t| t != found.ref_type) => {
                Err(Error::invalid(format!("`{name}` is no {what}")))
            }
            Some(found) => Ok(found),
        }
    }

    fn create(&mut self, ref_type: RefType, name: &str, snapshot: Option<SnapshotId>) -> Result<()> {
        if name.is_empty() {
            return Err(Error::invalid("the name of a branch or tag can't be empty"));
        }
        if name == MAIN_BRANCH && ref_type == RefType::Tag {
            return Err(Error::invalid(format!("`{MAIN_BRANCH}` is a branch and can't be a tag")));
        }
        if self.refs.contains_key(name) {
            let message = format!("there is a branch or tag `{name}` already");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let snapshot = snapshot.or_else(|| self.current()).ok_or_else(|| {
            Error::not_found(format!(
                "`{name}` would name the current snapshot, but the table has none yet: append to it first"
            ))
        })?;
        self.snapshot(snapshot)?;
        self.refs.insert(name.to_owned(), SnapshotRef::new(snapshot, ref_type));
        Ok(())
    }

    fn replace_by(&mut self, branch: &str, to: &str, fast_forward: bool) -> Result<()> {
        let target = self.get(to, None)?.snapshot_id;
        if !self.refs.contains_key(branch) {
            return self.create(RefType::Branch, branch, Some(target));
        }
        let metadata = self.metadata;
        let reference = self.get(branch, Some(RefType::Branch))?;
        if fast_forward && !is_ancestor(metadata, reference.snapshot_id, Some(target)) {
            return Err(Error::new(
                ErrorKind::ValidationFailed,
                format!("can't fast-forward `{branch}`: `{to}` is not ahead of it"),
            ));
        }
        reference.snapshot_id = target;
        Ok(())
    }

    fn rename(&mut self, name: &str, new_name: &str) -> Result<()> {
        if name == MAIN_BRANCH {
            return Err(Error::invalid(format!("branch `{MAIN_BRANCH}` can't be renamed")));
        }
        let reference = self.get(name, Some(RefType::Branch))?.clone();
        self.create(RefType::Branch, new_name, Some(reference.snapshot_id))?;
        self.refs.insert(new_name.to_owned(), reference);
        self.refs.remove(name);
        Ok(())
    }

    fn set_current(&mut self, snapshot: SnapshotId) -> Result<()> {
        self.snapshot(snapshot)?;
        let main = self.refs.entry(MAIN_BRANCH.to_owned());
        main.or_insert_with(|| SnapshotRef::new(snapshot, RefType::Branch)).snapshot_id = snapshot;
        Ok(())
    }
}

fn positive(number: i64) -> Result<()> {
    match number > 0 {
        true => Ok(()),
        false => Err(Error::invalid(format!("must be greater than 0, not {number}"))),
    }
}

#[cfg(test)]
mod tests;
