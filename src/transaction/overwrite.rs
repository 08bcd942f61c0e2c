//! Puts data files in the place of others.

use async_trait::async_trait;

use super::Action;
use super::changes::Changes;
use super::conflict_checks::ConflictChecks;
use super::snapshot_base::Base;
use super::snapshot_options::{conflict_options, snapshot_options};
use super::snapshot_producer::SnapshotProducer;
use super::validation::{Scope, Since};
use crate::error::{Error, ErrorKind, Result};
use crate::expr::{PartitionEvaluator, Predicate, ResidualEvaluator, StrictMetricsEvaluator};
use crate::spec::{ContentFile, IsolationLevel, TableUpdate};
use crate::table::Table;

/// Puts data files in the place of other files, or of all rows that match a filter.
#[derive(Debug)]
#[must_use = "nothing happens until it is applied to a transaction"]
pub struct Overwrite {
    producer: SnapshotProducer,
    changes: Changes,
    checks: ConflictChecks,
    /// The data files that are removed by name.
    removed: Vec<ContentFile>,
    added_must_match: bool,
}

impl Default for Overwrite {
    fn default() -> Self {
        Self::new()
    }
}

impl Overwrite {
    /// Changes nothing yet.
    pub fn new() -> Self {
        let mut changes = Changes::default();
        // If somebody rewrote a file meanwhile, its rows would be there twice.
        changes.removed_data.all_must_exist = true;
        Self {
            producer: SnapshotProducer::new(),
            changes,
            checks: ConflictChecks::default(),
            removed: Vec::new(),
            added_must_match: false,
        }
    }

    /// Adds data files.
    pub fn add_files(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        self.changes.add_data(files);
        self
    }

    /// Removes data files. Each of them must be in the table when it is committed.
    pub fn remove_files(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        for file in files {
            self.changes.removed_data.remove(&file);
            self.removed.push(file);
        }
        self
    }

    /// Removes delete files that go with the removed data files. Their deletion vectors go with them
    /// in any case.
    pub fn remove_deletes<'a>(mut self, files: impl IntoIterator<Item = &'a ContentFile>) -> Self {
        files.into_iter().for_each(|file| self.changes.removed_deletes.remove(file));
        self
    }

    /// Removes the files of which all rows match. It fails where only some of a file's rows may.
    pub(crate) fn rows_of(mut self, filter: Predicate) -> Self {
        self.changes.removed_data.remove_matching(filter.clone());
        // Deletes in a partition that is removed have nothing left to delete.
        self.changes.removed_deletes.remove_matching(filter);
        self
    }

    /// Fails if an added file may have a row that the filter would not have removed.
    pub fn validate_added_files_match_filter(mut self) -> Self {
        self.added_must_match = true;
        self
    }

    /// Checks what others did for a statement that copies the rows of the removed files which it does
    /// not change. Rows that others deleted are always a conflict, as they would come back; rows that
    /// they added are one if it is to be serializable.
    pub fn validate_isolation(mut self, level: IsolationLevel) -> Self {
        self.checks.no_deletes = true;
        self.checks.no_data |= level == IsolationLevel::Serializable;
        self
    }

    snapshot_options!();
    conflict_options!();

    fn operation(&self) -> &'static str {
        match (self.changes.removed_data.is_empty(), self.changes.data.is_empty()) {
            (false, true) => "delete",
            (true, false) => "append",
            _ => "overwrite",
        }
    }

    fn validate_added(&self, base: &Base<'_>) -> Result<()> {
        let never = Predicate::False;
        let filter = self.changes.removed_data.filter.as_ref().unwrap_or(&never);
        let metadata = base.table.metadata();
        let schema = metadata.current_schema();
        let metrics = StrictMetricsEvaluator::new(filter, schema);
        for file in &self.changes.data {
            let Some(spec) = metadata.partition_specs.get(&file.spec_id) else { continue };
            let partition = PartitionEvaluator::new(filter, spec, schema);
            let residual = ResidualEvaluator::new(filter, spec, schema).residual(&file.partition);
            let all = residual == Predicate::True
                || metrics.all_match(file)
                || StrictMetricsEvaluator::new(&residual, schema).all_match(file);
            if !(partition.may_match(&file.partition) && all) {
                let message =
                    format!("added file {} may have rows that do not match `{filter}`", file.file_path);
                return Err(Error::new(ErrorKind::ValidationFailed, message));
            }
        }
        Ok(())
    }

    async fn validate(&self, base: &Base<'_>) -> Result<()> {
        if self.added_must_match {
            self.validate_added(base)?;
        }
        let since = Since::new(base, self.checks.from);
        let given = self.checks.filter.as_ref();
        let rows = self.changes.removed_data.filter.as_ref();
        if self.checks.no_data {
            let all = Predicate::True;
            let filter = given.or(rows.filter(|_| self.removed.is_empty())).unwrap_or(&all);
            since.no_added_data(Scope::Rows(filter)).await?;
        }
        if self.checks.no_deletes {
            if let Some(rows) = rows {
                let scope = Scope::Rows(given.unwrap_or(rows));
                since.no_added_deletes(scope).await?;
                since.no_removed_data(scope).await?;
            }
            since.no_deletes_for(&self.removed, given, false).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Action for Overwrite {
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
