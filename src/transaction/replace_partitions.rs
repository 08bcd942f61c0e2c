//! Puts data files in the place of all that is in their partitions.

use async_trait::async_trait;

use super::Action;
use super::changes::Changes;
use super::conflict_checks::ConflictChecks;
use super::snapshot_base::Base;
use super::snapshot_options::{conflict_options, snapshot_options};
use super::snapshot_producer::SnapshotProducer;
use super::validation::{Scope, Since};
use crate::error::{Error, Result};
use crate::expr::Predicate;
use crate::spec::{ContentFile, TableUpdate};
use crate::table::Table;

/// Puts data files in the place of all files that are in the same partitions of the same spec
/// (dynamic overwrite). Without partitions it is all of the table.
#[derive(Debug)]
#[must_use = "nothing happens until it is applied to a transaction"]
pub struct ReplacePartitions {
    producer: SnapshotProducer,
    changes: Changes,
    checks: ConflictChecks,
}

impl Default for ReplacePartitions {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplacePartitions {
    /// Changes nothing yet.
    pub fn new() -> Self {
        let mut producer = SnapshotProducer::new();
        producer.properties.insert("replace-partitions".to_owned(), "true".to_owned());
        Self { producer, changes: Changes::default(), checks: ConflictChecks::default() }
    }

    /// Adds data files, and removes what else is in their partitions. All must have the same spec.
    pub fn files(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        self.changes.add_data(files);
        self
    }

    /// Fails if there is anything in the partitions.
    pub fn validate_append_only(mut self) -> Self {
        self.changes.removed_data.none_may_exist = true;
        self.changes.removed_deletes.none_may_exist = true;
        self
    }

    snapshot_options!();
    conflict_options!();

    /// Finds out what to remove: it depends on whether the files' spec has partitions.
    fn choose(&mut self, base: &Base<'_>) -> Result<()> {
        let Some(first) = self.changes.data.first().map(|file| file.spec_id) else { return Ok(()) };
        if let Some(other) = self.changes.data.iter().find(|file| file.spec_id != first) {
            return Err(Error::invalid(format!(
                "files of partition specs {first} and {} can't replace partitions together",
                other.spec_id
            )));
        }
        let spec =
            base.table.metadata().partition_specs.get(&first).ok_or_else(|| {
                Error::invalid(format!("the table's metadata has no partition spec {first}"))
            })?;
        let files = self.changes.data.iter().map(|file| (file.spec_id, file.partition.clone()));
        for removal in [&mut self.changes.removed_data, &mut self.changes.removed_deletes] {
            match spec.is_unpartitioned() {
                true => removal.filter = Some(Predicate::True),
                false => removal.partitions = files.clone().collect(),
            }
        }
        Ok(())
    }

    async fn validate(&self, base: &Base<'_>) -> Result<()> {
        let since = Since::new(base, self.checks.from);
        let removal = &self.changes.removed_data;
        // Either all of the table is replaced, or these partitions.
        let scope = match &removal.filter {
            Some(all) => Scope::Rows(all),
            None => Scope::Partitions(&removal.partitions),
        };
        if self.checks.no_data {
            since.no_added_data(scope).await?;
        }
        if self.checks.no_deletes {
            since.no_removed_data(scope).await?;
            since.no_added_deletes(scope).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Action for ReplacePartitions {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let base = self.producer.begin(table).await?;
        self.choose(&base)?;
        self.validate(&base).await?;
        self.producer.merge(&base, &self.changes, "overwrite").await
    }

    async fn committed(&mut self, table: &Table) {
        self.producer.committed(table).await;
    }

    async fn failed(&mut self, table: &Table) {
        self.producer.failed(table).await;
    }
}
