//! Removes data files.

use async_trait::async_trait;

use super::Action;
use super::changes::Changes;
use super::snapshot_options::snapshot_options;
use super::snapshot_producer::SnapshotProducer;
use crate::error::Result;
use crate::expr::Predicate;
use crate::spec::{ContentFile, TableUpdate};
use crate::table::Table;

/// Removes data files from a table, with all their rows. A file that is not in the table (any more)
/// is no error, unless asked for.
#[derive(Debug)]
#[must_use = "nothing happens until it is applied to a transaction"]
pub struct DeleteFiles {
    producer: SnapshotProducer,
    changes: Changes,
}

impl Default for DeleteFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl DeleteFiles {
    /// Removes nothing yet.
    pub fn new() -> Self {
        Self { producer: SnapshotProducer::new(), changes: Changes::default() }
    }

    /// Removes files.
    pub fn files<'a>(mut self, files: impl IntoIterator<Item = &'a ContentFile>) -> Self {
        files.into_iter().for_each(|file| self.changes.removed_data.remove(file));
        self
    }

    /// Removes files by their paths, exactly as the table has them. All manifests have to be read
    /// to find them.
    pub fn paths<S: Into<String>>(mut self, paths: impl IntoIterator<Item = S>) -> Self {
        paths.into_iter().for_each(|path| self.changes.removed_data.remove_path(path.into()));
        self
    }

    /// Removes the files of which all rows match. It fails where only some of a file's rows may.
    #[allow(dead_code, reason = "for the statements that change rows")]
    pub(crate) fn rows_of(mut self, filter: Predicate) -> Self {
        self.changes.removed_data.remove_matching(filter.clone());
        self.changes.removed_deletes.remove_matching(filter);
        self
    }

    /// Fails if a file is not in the table.
    pub fn validate_files_exist(mut self) -> Self {
        self.changes.removed_data.all_must_exist = true;
        self
    }

    snapshot_options!();
}

#[async_trait]
impl Action for DeleteFiles {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let base = self.producer.begin(table).await?;
        self.producer.merge(&base, &self.changes, "delete").await
    }

    async fn committed(&mut self, table: &Table) {
        self.producer.committed(table).await;
    }

    async fn failed(&mut self, table: &Table) {
        self.producer.failed(table).await;
    }
}
