//! Puts the same rows into other files.

use async_trait::async_trait;

use super::Action;
use super::changes::Changes;
use super::snapshot_base::Base;
use super::snapshot_options::snapshot_options;
use super::snapshot_producer::SnapshotProducer;
use super::validation::Since;
use crate::error::{Error, Result};
use crate::spec::{ContentFile, SequenceNumber, SnapshotId, TableUpdate};
use crate::table::Table;

/// Puts files in the place of others that hold the same rows (compaction). It fails if others
/// removed one of the files, or deleted rows of them, meanwhile.
#[derive(Debug)]
#[must_use = "nothing happens until it is applied to a transaction"]
pub struct RewriteFiles {
    producer: SnapshotProducer,
    changes: Changes,
    /// The snapshot that the files were read from.
    from: Option<SnapshotId>,
    /// The data files that are rewritten.
    removed: Vec<ContentFile>,
}

impl Default for RewriteFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl RewriteFiles {
    /// Changes nothing yet.
    pub fn new() -> Self {
        let mut changes = Changes::default();
        changes.removed_data.all_must_exist = true;
        changes.removed_deletes.all_must_exist = true;
        Self { producer: SnapshotProducer::new(), changes, from: None, removed: Vec::new() }
    }

    /// Removes data files, whose rows are in the added ones.
    pub fn remove_data(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        for file in files {
            self.changes.removed_data.remove(&file);
            self.removed.push(file);
        }
        self
    }

    /// Removes delete files: they are rewritten, or applied to the rewritten data.
    pub fn remove_deletes<'a>(mut self, files: impl IntoIterator<Item = &'a ContentFile>) -> Self {
        files.into_iter().for_each(|file| self.changes.removed_deletes.remove(file));
        self
    }

    /// Adds data files.
    pub fn add_data(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        self.changes.add_data(files);
        self
    }

    /// Adds a delete file in the place of others; `sequence_number` says how old its deletes are.
    pub fn add_deletes(mut self, file: ContentFile, sequence_number: Option<SequenceNumber>) -> Self {
        self.changes.deletes.push((file, sequence_number));
        self
    }

    /// How old the rows of the added data files are: with the sequence number of the snapshot that
    /// they were read from, equality deletes that others commit meanwhile apply to them.
    pub fn data_sequence_number(mut self, number: SequenceNumber) -> Self {
        self.changes.data_sequence_number = Some(number);
        self
    }

    /// The snapshot that the files were read from. Without one, any delete that applies to them is
    /// taken for a new one.
    pub fn validate_from_snapshot(mut self, id: SnapshotId) -> Self {
        self.from = Some(id);
        self
    }

    snapshot_options!();

    fn check(&self) -> Result<()> {
        let Changes { data, deletes, removed_data, removed_deletes, .. } = &self.changes;
        if removed_data.is_empty() && removed_deletes.is_empty() {
            return Err(Error::invalid("rewriting files needs files to remove"));
        }
        if removed_data.is_empty() && !data.is_empty() {
            return Err(Error::invalid("data files are added, but none removed: their rows would be new"));
        }
        if removed_deletes.is_empty() && !deletes.is_empty() {
            return Err(Error::invalid(
                "delete files are added, but none removed: their deletes would be new",
            ));
        }
        Ok(())
    }

    async fn validate(&self, base: &Base<'_>) -> Result<()> {
        let keeps_age = self.changes.data_sequence_number.is_some();
        Since::new(base, self.from).no_deletes_for(&self.removed, None, keeps_age).await
    }
}

#[async_trait]
impl Action for RewriteFiles {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        self.check()?;
        let base = self.producer.begin(table).await?;
        self.validate(&base).await?;
        self.producer.merge(&base, &self.changes, "replace").await
    }

    async fn committed(&mut self, table: &Table) {
        self.producer.committed(table).await;
    }

    async fn failed(&mut self, table: &Table) {
        self.producer.failed(table).await;
    }
}
