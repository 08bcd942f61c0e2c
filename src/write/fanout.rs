//! Rows of all partitions at once, with a bounded number of open files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::cleanup;
use super::location::FileNames;
use super::parquet_file::{ParquetFormat, WrittenFile};
use super::partition::PartitionSplitter;
use super::rolling::RollingWriter;
use crate::error::Result;
use crate::spec::{ContentFile, ContentType, PartitionSpec, PartitionValues};
use crate::table::Table;

/// Bounds of what a writer keeps in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How many files are open at a time.
    pub(super) open_files: usize,
    /// How many bytes of row groups are kept in memory, roughly.
    pub(super) memory: usize,
}

/// Writes rows to the files of their partitions.
pub(super) struct FanoutWriter {
    table: Table,
    format: Arc<ParquetFormat>,
    spec: Arc<PartitionSpec>,
    content: ContentType,
    splitter: Option<PartitionSplitter>,
    names: FileNames,
    limits: Limits,
    open: HashMap<PartitionValues, Partition>,
    /// Counts batches, to tell which partition was not written to for the longest time.
    clock: u64,
    done: Vec<ContentFile>,
}

struct Partition {
    writer: RollingWriter,
    used: u64,
}

impl FanoutWriter {
    pub(super) fn new(
        table: &Table,
        format: Arc<ParquetFormat>,
        spec: Arc<PartitionSpec>,
        content: ContentType,
        splitter: Option<PartitionSplitter>,
        names: FileNames,
        limits: Limits,
    ) -> Self {
        Self {
            table: table.clone(),
            format,
            spec,
            content,
            splitter,
            names,
            limits,
            open: HashMap::new(),
            clock: 0,
            done: Vec::new(),
        }
    }

    /// Adds rows, each to its partition.
    ///
    /// # Errors
    /// `DataInvalid` for rows that are not of the schema, `Io` if they can't be written; all is to be
    /// aborted then.
    pub(super) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = self.format.conform(batch)?;
        match &self.splitter {
            None => {
                // All fields are void.
                let partition = vec![None; self.spec.fields.len()];
                self.write_conformed(partition, &batch).await
            }
            Some(splitter) => {
                for (partition, rows) in splitter.split(&batch)? {
                    self.write_conformed(partition, &rows).await?;
                }
                Ok(())
            }
        }
    }

    /// Adds rows to the partition that they are known to belong to.
    ///
    /// # Errors
    /// As [`FanoutWriter::write`].
    pub(super) async fn write_to(&mut self, partition: PartitionValues, batch: &RecordBatch) -> Result<()> {
        let batch = self.format.conform(batch)?;
        self.write_conformed(partition, &batch).await
    }

    async fn write_conformed(&mut self, partition: PartitionValues, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.clock += 1;
        if !self.open.contains_key(&partition) {
            self.make_room().await?;
        }
        let slot = self.open.entry(partition.clone()).or_insert_with(|| Partition {
            writer: RollingWriter::new(&self.table, &self.format, &self.spec, partition.clone()),
            used: 0,
        });
        slot.used = self.clock;
        let mut done = Vec::new();
        let written = slot.writer.write(batch, &self.names, &mut done).await;
        if !slot.writer.is_open() {
            self.open.remove(&partition);
        }
        // What was finished is remembered even if what came after failed: it may have to be removed.
        for file in done {
            self.finished(file, partition.clone());
        }
        written?;
        self.bound_memory().await
    }

    fn finished(&mut self, file: WrittenFile, partition: PartitionValues) {
        self.done.push(file.describe(self.content, self.spec.spec_id, partition));
    }

    /// Ends the file that was not written to for the longest time, if there are too many.
    async fn make_room(&mut self) -> Result<()> {
        while self.open.len() >= self.limits.open_files.max(1) {
            let oldest = self.open.iter().min_by_key(|(_, p)| p.used).map(|(partition, _)| partition.clone());
            let Some(partition) = oldest else { return Ok(()) };
            self.end(partition).await?;
        }
        Ok(())
    }

    async fn end(&mut self, partition: PartitionValues) -> Result<()> {
        let Some(slot) = self.open.get_mut(&partition) else { return Ok(()) };
        let file = slot.writer.close().await?;
        self.open.remove(&partition);
        if let Some(file) = file {
            self.finished(file, partition);
        }
        Ok(())
    }

    /// Ends the largest row groups, if all of them together are too large.
    async fn bound_memory(&mut self) -> Result<()> {
        // One alone is bounded by the size of row groups.
        if self.open.len() < 2 {
            return Ok(());
        }
        while self.memory() > self.limits.memory && self.flush_largest().await? {}
        Ok(())
    }

    /// How many bytes of unfinished row groups are in memory.
    pub(super) fn memory(&self) -> usize {
        self.open.values().map(|p| p.writer.memory()).sum()
    }

    /// Ends the largest row group; whether there was one.
    ///
    /// # Errors
    /// `Io` if it can't be written.
    pub(super) async fn flush_largest(&mut self) -> Result<bool> {
        let largest = self.open.values_mut().max_by_key(|p| p.writer.memory());
        let Some(largest) = largest.filter(|p| p.writer.memory() > 0) else { return Ok(false) };
        largest.writer.flush().await?;
        Ok(true)
    }

    pub(super) fn format(&self) -> &ParquetFormat {
        &self.format
    }

    /// Ends all files.
    ///
    /// # Errors
    /// `Io` if one can't be written; everything that was written is removed then.
    pub(super) async fn close(mut self) -> Result<Vec<ContentFile>> {
        match self.finish().await {
            Ok(files) => Ok(files),
            Err(e) => {
                self.abort().await;
                Err(e)
            }
        }
    }

    /// Ends all files, of which it keeps hold until all have ended.
    ///
    /// # Errors
    /// `Io` if one can't be written; all is to be aborted then.
    pub(super) async fn finish(&mut self) -> Result<Vec<ContentFile>> {
        let mut partitions: Vec<_> = self.open.iter().map(|(p, slot)| (slot.used, p.clone())).collect();
        partitions.sort_by_key(|(used, _)| *used);
        for (_, partition) in partitions {
            self.end(partition).await?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// Removes everything that was written.
    pub(super) async fn abort(mut self) {
        let (open, done) = (std::mem::take(&mut self.open), std::mem::take(&mut self.done));
        remove(&self.table, open, done).await;
    }
}

async fn remove(table: &Table, open: HashMap<PartitionValues, Partition>, done: Vec<ContentFile>) {
    for slot in open.into_values() {
        slot.writer.abort().await;
    }
    remove_files(table, &done).await;
}

/// Rows that failed on the way, or that nobody waits for any more: their files are of no use.
impl Drop for FanoutWriter {
    fn drop(&mut self) {
        let (open, done) = (std::mem::take(&mut self.open), std::mem::take(&mut self.done));
        if open.is_empty() && done.is_empty() {
            return;
        }
        let table = self.table.clone();
        cleanup::spawn(async move { remove(&table, open, done).await });
    }
}

/// Removes files that no snapshot names; one that can't be removed is only logged.
pub(super) async fn remove_files(table: &Table, files: &[ContentFile]) {
    // Deletion vectors share files.
    let paths: HashSet<&str> = files.iter().map(|file| file.file_path.as_str()).collect();
    for path in paths {
        let removed = match table.resolve(path) {
            Ok(location) => table.storage().delete(&location).await,
            Err(e) => Err(e),
        };
        if let Err(e) = removed {
            tracing::warn!("a file that is not needed could not be removed: {e}");
        }
    }
}
