//! Adds data files.

use async_trait::async_trait;

use super::Action;
use super::changes::Changes;
use super::snapshot_options::snapshot_options;
use super::snapshot_producer::SnapshotProducer;
use crate::error::Result;
use crate::spec::{ContentFile, TableUpdate};
use crate::table::Table;

/// Adds data files to a table; rows that are there stay as they are, so that any number of writers
/// can do so at once.
#[derive(Debug)]
#[must_use = "nothing happens until it is applied to a transaction"]
pub struct Append {
    producer: SnapshotProducer,
    changes: Changes,
    merge: bool,
}

impl Append {
    /// Writes one more manifest and leaves those that are there alone: the quickest way.
    pub fn fast() -> Self {
        Self { producer: SnapshotProducer::new(), changes: Changes::default(), merge: false }
    }

    /// Merges manifests by the table's `commit.manifest.*` properties: better for readers.
    pub fn merging() -> Self {
        Self { merge: true, ..Self::fast() }
    }

    /// Adds data files.
    pub fn files(mut self, files: impl IntoIterator<Item = ContentFile>) -> Self {
        self.changes.add_data(files);
        self
    }

    /// Fails if one of the files is in the table already. That has to be looked up.
    pub fn refuse_live_files(mut self) -> Self {
        self.changes.refuse_live_files = true;
        self
    }

    snapshot_options!();
}

#[async_trait]
impl Action for Append {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        let base = self.producer.begin(table).await?;
        match self.merge {
            true => self.producer.merge(&base, &self.changes, "append").await,
            false => self.producer.fast_append(&base, &self.changes).await,
        }
    }

    async fn committed(&mut self, table: &Table) {
        self.producer.committed(table).await;
    }

    async fn failed(&mut self, table: &Table) {
        self.producer.failed(table).await;
    }
}
