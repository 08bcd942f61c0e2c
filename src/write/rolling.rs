//! Rows of one partition, in files of about the size that the table asks for.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::location::FileNames;
use super::parquet_file::{ParquetFile, ParquetFormat, WrittenFile};
use crate::error::Result;
use crate::spec::{PartitionSpec, PartitionValues};
use crate::table::Table;

/// Writes one file after another, a file at a time.
pub(super) struct RollingWriter {
    table: Table,
    format: Arc<ParquetFormat>,
    spec: Arc<PartitionSpec>,
    partition: PartitionValues,
    file: Option<ParquetFile>,
}

impl RollingWriter {
    /// Files of that partition.
    pub(super) fn new(
        table: &Table,
        format: &Arc<ParquetFormat>,
        spec: &Arc<PartitionSpec>,
        partition: PartitionValues,
    ) -> Self {
        let (format, spec) = (Arc::clone(format), Arc::clone(spec));
        Self { table: table.clone(), format, spec, partition, file: None }
    }

    /// Adds rows, as [`ParquetFormat::conform`] made them, and puts files that are large enough by
    /// then into `done`.
    ///
    /// # Errors
    /// `Io`, after which it is to be aborted.
    pub(super) async fn write(
        &mut self,
        batch: &RecordBatch,
        names: &FileNames,
        done: &mut Vec<WrittenFile>,
    ) -> Result<()> {
        for piece in self.format.pieces(batch) {
            let file = match &mut self.file {
                Some(file) => file,
                none => {
                    let path = names.next(&self.spec, &self.partition);
                    let location = self.table.resolve(&path)?;
                    let storage = self.table.storage();
                    none.insert(ParquetFile::create(&self.format, path, storage, &location)?)
                }
            };
            file.write(&piece).await?;
            if file.size() >= self.format.target_file_size {
                done.extend(self.close().await?);
            }
        }
        Ok(())
    }

    /// Ends the file, if one is open.
    ///
    /// # Errors
    /// As [`RollingWriter::write`].
    pub(super) async fn close(&mut self) -> Result<Option<WrittenFile>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        // It stays where it is if that fails, to be aborted.
        let written = file.finish().await?;
        self.file = None;
        Ok(Some(written))
    }

    /// Ends the row group of the open file, which frees its memory.
    ///
    /// # Errors
    /// As [`RollingWriter::write`].
    pub(super) async fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            Some(file) => file.flush().await,
            None => Ok(()),
        }
    }

    /// Whether a file is open.
    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Bytes that the open file keeps in memory.
    pub(super) fn memory(&self) -> usize {
        self.file.as_ref().map_or(0, ParquetFile::memory)
    }

    /// Removes the open file.
    pub(super) async fn abort(self) {
        if let Some(file) = self.file {
            file.abort().await;
        }
    }
}
