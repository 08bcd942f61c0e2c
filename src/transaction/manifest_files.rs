//! The manifests and manifest lists that a commit writes, and removes if they are of no use.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use uuid::Uuid;

use super::settings::{ManifestSettings, metadata_directory};
use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    ContentFile, ManifestContent, ManifestFile, ManifestWriter, ManifestWriterOptions, SequenceNumber,
    SnapshotId, SpecId, StructType,
};
use crate::table::Table;

/// Names the files of one commit, writes them, and remembers them.
#[derive(Debug)]
pub(super) struct ManifestFiles {
    commit_id: Uuid,
    manifests: AtomicUsize,
    lists: AtomicUsize,
    /// Paths as metadata records them. A file whose writing failed may be there, too.
    written: Mutex<Vec<String>>,
}

/// The snapshot that manifests are written for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// The table that the snapshot is added to.
    pub(super) table: &'a Table,
    /// The snapshot.
    pub(super) snapshot_id: SnapshotId,
    /// How manifests are written.
    pub(super) settings: &'a ManifestSettings,
    /// Where they are written.
    pub(super) files: &'a ManifestFiles,
}

/// Files that one manifest lists all of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind<'a> {
    /// Data or deletes.
    pub(super) content: ManifestContent,
    /// Their spec.
    pub(super) spec_id: SpecId,
    /// The type of their partition tuples.
    pub(super) partition_type: &'a StructType,
}

impl ManifestFiles {
    pub(super) fn new() -> Self {
        Self {
            commit_id: Uuid::new_v4(),
            manifests: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
            written: Mutex::default(),
        }
    }

    /// What tells the commit from any other.
    pub(super) fn commit_id(&self) -> Uuid {
        self.commit_id
    }

    /// Where the next manifest list is written.
    ///
    /// # Errors
    /// `DataInvalid` if the table's properties are wrong.
    pub(super) fn next_list(&self, table: &Table, snapshot_id: SnapshotId) -> Result<String> {
        let attempt = self.lists.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let directory = metadata_directory(table.metadata())?;
        Ok(format!("{directory}/snap-{snapshot_id}-{attempt}-{}.avro", self.commit_id))
    }

    fn next_manifest(&self, table: &Table) -> Result<String> {
        let number = self.manifests.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{}/{}-m{number}.avro", metadata_directory(table.metadata())?, self.commit_id))
    }

    /// Writes a file.
    pub(super) async fn write(&self, table: &Table, path: &str, bytes: Bytes) -> Result<()> {
        // Before it is tried: a failure does not tell that nothing was written.
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        let location = table.resolve(path)?;
        table.storage().write(&location, bytes).await
    }

    /// Removes all files but these. What can't be removed is left behind.
    pub(super) async fn remove_all_but(&self, table: &Table, keep: &HashSet<&str>) {
        let written = std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        for path in written.iter().filter(|path| !keep.contains(path.as_str())) {
            let removed = match table.resolve(path) {
                Ok(location) => table.storage().delete(&location).await,
                Err(e) => Err(e),
            };
            if let Err(e) = removed {
                tracing::warn!(error = %e, path, "cannot remove a file that a commit left behind");
            }
        }
    }
}

impl<'a> Target<'a> {
    /// Starts a manifest.
    pub(super) fn manifest(&self, kind: Kind<'_>) -> Result<ManifestWriter> {
        let metadata = self.table.metadata();
        let spec = metadata.partition_specs.get(&kind.spec_id).ok_or_else(|| {
            Error::invalid(format!("the table's metadata has no partition spec {}", kind.spec_id))
        })?;
        ManifestWriter::new(ManifestWriterOptions {
            format_version: metadata.format_version,
            schema: metadata.current_schema(),
            spec,
            partition_type: kind.partition_type,
            content: kind.content,
            snapshot_id: Some(self.snapshot_id),
            codec: self.settings.codec,
        })
    }

    /// Ends a manifest and stores it.
    pub(super) async fn store(&self, writer: ManifestWriter) -> Result<ManifestFile> {
        let path = self.files.next_manifest(self.table)?;
        let (bytes, manifest) = writer.finish(path.as_str())?;
        let written = self.files.write(self.table, &path, bytes).await;
        written.context(|| format!("manifest {path}"))?;
        Ok(manifest)
    }

    /// Writes manifests of added files, each about as long as the settings say at most.
    pub(super) async fn added(
        &self,
        kind: Kind<'_>,
        files: impl Iterator<Item = (&ContentFile, Option<SequenceNumber>)>,
    ) -> Result<Vec<ManifestFile>> {
        let mut manifests = Vec::new();
        let mut writer: Option<ManifestWriter> = None;
        for (file, sequence_number) in files {
            let mut open = match writer.take() {
                Some(open) => open,
                None => self.manifest(kind)?,
            };
            open.add(file, sequence_number)?;
            match self.is_full(&open) {
                true => manifests.push(self.store(open).await?),
                false => writer = Some(open),
            }
        }
        if let Some(open) = writer {
            manifests.push(self.store(open).await?);
        }
        Ok(manifests)
    }

    /// Whether a manifest is as long as it should get.
    pub(super) fn is_full(&self, writer: &ManifestWriter) -> bool {
        writer.length() as u64 >= self.settings.target_size
    }
}
