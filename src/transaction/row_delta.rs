//! Adds rows and deletes rows by delete files.

use std::collections::HashSet;

use async_trait::async_trait;

use super::Action;
use super::changes::{Changes, one_spelling};
use super::conflict_checks::ConflictChecks;
use super::live_files::without_data;
use super::snapshot_base::Base;
use super::snapshot_options::{conflict_options, snapshot_options};
use super::snapshot_producer::SnapshotProducer;
use super::validation::{Scope, Since};
use crate::error::{Error, ErrorKind, Result};
use crate::expr::Predicate;
use crate::spec::{ContentFile, IsolationLevel, RowLevelOperation, TableUpdate};
use crate::table::Table;

/// Adds data files and delete files: the change of rows that leaves the files of other rows alone.
#[derive(Debug)]
#[must_use = "nothing happens until it is applied to a transaction"]
pub struct RowDelta {
    producer: SnapshotProducer,
    changes: Changes,
    checks: ConflictChecks,
    /// The data files that are removed.
    removed: Vec<ContentFile>,
    /// The data files that must be there, as the deletes refer to them.
    required: Vec<String>,
    check_deleted: bool,
}

impl Default for RowDelta {
    fn default() -> Self {
        Self::new()
    }
}

impl RowDelta {
    /// Changes nothing yet.
    pub fn new() -> Self {
        let mut changes = Changes::default();
        changes.removed_data.all_must_exist = true;
        Self {
            producer: SnapshotProducer::new(),
            changes,
            checks: ConflictChecks::default(),
            removed: Vec::new(),
            required: Vec::new(),
            check_deleted: false,
        }
    }

    /// Adds data files.
    pub fn add_rows(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        self.changes.add_data(files);
        self
    }

    /// Adds delete files. The data file that one names must be in the table, in the partition of the
    /// delete file, when it is committed: if it was rewritten or replaced since, the commit fails. That
    /// it was deleted with all its rows is no failure, as for [`RowDelta::validate_data_files_exist`].
    ///
    /// A deletion vector must hold what the vector and the position delete files
    /// held that its data file had before; these are to be given to [`RowDelta::remove_deletes`].
    pub fn add_deletes(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        self.changes.add_deletes(files);
        self
    }

    /// Removes data files. Each of them must be in the table when it is committed.
    pub fn remove_rows(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        for file in files {
            self.changes.removed_data.remove(&file);
            self.removed.push(file);
        }
        self
    }

    /// Removes delete files.
    pub fn remove_deletes<'a>(mut self, files: impl IntoIterator<Item = &'a ContentFile>) -> Self {
        files.into_iter().for_each(|file| self.changes.removed_deletes.remove(file));
        self
    }

    /// Fails if one of these data files is not in the table any more, as it was rewritten or
    /// replaced: deletes that refer to it would be lost. That it was deleted with all its rows is no
    /// failure, unless [`RowDelta::validate_deleted_files`] is asked for.
    pub fn validate_data_files_exist<S: Into<String>>(mut self, paths: impl IntoIterator<Item = S>) -> Self {
        self.required.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Fails if others deleted files that this change refers to or removes.
    pub fn validate_deleted_files(mut self) -> Self {
        self.check_deleted = true;
        self.changes.removed_deletes.all_must_exist = true;
        self
    }

    /// Checks what others did for a statement that deletes rows by delete files. Rows that others
    /// added are a conflict if it is to be serializable. Rows that they deleted are one for statements
    /// that also write new versions of rows, which would come back: not for a DELETE.
    pub fn validate_isolation(mut self, level: IsolationLevel, operation: RowLevelOperation) -> Self {
        self.checks.no_data |= level == IsolationLevel::Serializable;
        match operation {
            RowLevelOperation::Delete => self,
            RowLevelOperation::Update | RowLevelOperation::Merge => {
                self.checks.no_deletes = true;
                self.validate_deleted_files()
            }
        }
    }

    snapshot_options!();
    conflict_options!();

    fn operation(&self) -> &'static str {
        let (adds_rows, adds_deletes) = (!self.changes.data.is_empty(), !self.changes.deletes.is_empty());
        match (adds_rows, adds_deletes) {
            (true, false) if self.changes.removed_data.is_empty() => "append",
            (false, _) => "delete",
            _ => "overwrite",
        }
    }

    async fn validate(&self, base: &Base<'_>) -> Result<()> {
        self.changes.check(base.table)?;
        let spelled = |path: &str| one_spelling(base.table, path);
        let removed: HashSet<String> = self.removed.iter().map(|file| spelled(&file.file_path)).collect();
        if let Some(path) = self.required.iter().find(|path| removed.contains(&spelled(path))) {
            let message = format!("data file {path} is removed, but deletes refer to it");
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
        let since = Since::new(base, self.checks.from);
        let all = Predicate::True;
        let filter = self.checks.filter.as_ref();
        let scope = Scope::Rows(filter.unwrap_or(&all));
        since.files_exist(&self.required, !self.check_deleted).await?;
        self.refer_to_data(base, &since).await?;
        if self.checks.no_data {
            since.no_added_data(scope).await?;
        }
        if self.checks.no_deletes {
            since.no_deletes_for(&self.removed, filter, false).await?;
            since.no_added_deletes(scope).await?;
        }
        Ok(())
    }

    /// Deletes of a data file that is not there would be lost, unless its rows are gone anyway.
    async fn refer_to_data(&self, base: &Base<'_>, since: &Since<'_>) -> Result<()> {
        let lost = without_data(base, &self.changes).await?;
        let named = |delete: &&ContentFile| delete.referenced_data_file.clone();
        let paths: Vec<String> = lost.iter().filter_map(named).collect();
        if paths.is_empty() {
            return Ok(());
        }
        let deleted = if self.check_deleted { HashSet::new() } else { since.deleted(&paths).await? };
        for (path, delete) in paths.iter().zip(&lost) {
            if !deleted.contains(path) {
                let message = format!(
                    "delete file {} deletes rows of data file {path}, which is not in the table (any more), \
                     or in another partition",
                    delete.file_path
                );
                return Err(Error::new(ErrorKind::ValidationFailed, message));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Action for RowDelta {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let base = self.producer.begin(table).await?;
        self.validate(&base).await?;
        let operation = self.operation();
        self.producer.merge(&base, &self.changes, operation).await
    }

    async fn committed(&mut self, table: &Table) {
        self.producer.committed(table).await;
    }

    async fn failed(&mut self, table: &Table) {
        self.producer.failed(table).await;
    }
}
