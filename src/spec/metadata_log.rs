//! The log of a table's earlier metadata files (spec, "Table Metadata Fields").

use crate::error::Result;

use super::snapshot::MetadataLogEntry;
use super::table_metadata::TableMetadata;
use super::table_properties::TableProperties;

impl TableMetadata {
    /// Adds the metadata file that this metadata replaces to the log, which keeps as many as
    /// `write.metadata.previous-versions-max` says, and at least one. Gives the entries that fell
    /// off, oldest first: with `write.metadata.delete-after-commit.enabled` their files go.
    ///
    /// # Errors
    /// `DataInvalid` if the property is no number.
    pub fn log_previous(&mut self, previous: MetadataLogEntry) -> Result<Vec<MetadataLogEntry>> {
        let limit = TableProperties::new(&self.properties).metadata_previous_versions_max()?.max(1);
        self.metadata_log.push(previous);
        let excess = self.metadata_log.len().saturating_sub(limit);
        Ok(self.metadata_log.drain(..excess).collect())
    }
}
