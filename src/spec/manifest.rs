//! Manifests (spec, "Manifests"): what they hold and what their entries inherit.

use std::sync::Arc;

use super::content_file::{ContentFile, ContentType, ManifestEntry, ManifestStatus};
use super::ids::{SchemaId, SequenceNumber, SnapshotId, SpecId};
use super::manifest_list::{ManifestContent, ManifestFile};
use super::types::StructType;
use crate::error::{Error, Result, ResultExt};

/// A manifest, decoded.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Data or deletes, as the manifest list says.
    pub content: ManifestContent,
    /// The spec of the files' partition tuples, as the manifest list says.
    pub spec_id: SpecId,
    /// The type of the files' partition tuples: that of the spec, with types that it does not
    /// know (source column dropped, unknown transform) as the manifest stores them.
    pub partition_type: StructType,
    /// The entries, in the order of the file, with what they inherit filled in.
    pub entries: Vec<ManifestEntry>,
    /// What the manifest says of itself.
    pub header: ManifestHeader,
    /// Bytes of memory that the entries keep, roughly.
    pub(crate) memory: usize,
}

/// The key-value metadata of a manifest: informational, as reading does not depend on it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ManifestHeader {
    /// The table's schema when it was written, as JSON text. Some writers leave it out or get it
    /// wrong.
    pub schema: Option<String>,
    /// The id of that schema.
    pub schema_id: Option<SchemaId>,
    /// The fields of its partition spec, as JSON text.
    pub partition_spec: Option<String>,
    /// The id of that spec.
    pub partition_spec_id: Option<SpecId>,
    /// The format version that it was written in; 1 if it does not say.
    pub format_version: u8,
    /// What it lists; data if it does not say.
    pub content: ManifestContent,
}

impl Manifest {
    /// Bytes of memory that the manifest keeps, roughly: for caches bounded in bytes.
    pub fn memory_size(&self) -> usize {
        self.memory + size_of::<Self>()
    }
}

/// An entry as a manifest stores it.
pub(crate) struct StoredEntry {
    pub(crate) status: ManifestStatus,
    pub(crate) snapshot_id: Option<SnapshotId>,
    pub(crate) sequence_number: Option<SequenceNumber>,
    pub(crate) file_sequence_number: Option<SequenceNumber>,
    pub(crate) file: ContentFile,
}

/// Fills in what a file inherits from its manifest (spec, "Sequence Number Inheritance" and
/// "First Row ID Inheritance"); to be used on the entries of one manifest in their order.
pub(crate) struct Inheritance<'a> {
    manifest: &'a ManifestFile,
    /// Whether the manifest was written without sequence numbers: all are 0 then.
    without_sequence_numbers: bool,
    next_row_id: Option<i64>,
}

impl<'a> Inheritance<'a> {
    pub(crate) fn new(manifest: &'a ManifestFile, without_sequence_numbers: bool) -> Self {
        let next_row_id = match manifest.content {
            ManifestContent::Data => manifest.first_row_id,
            ManifestContent::Deletes => None,
        };
        Self { manifest, without_sequence_numbers, next_row_id }
    }

    pub(crate) fn apply(&mut self, stored: StoredEntry) -> Result<ManifestEntry> {
        let manifest = self.manifest;
        let StoredEntry { status, snapshot_id, sequence_number, file_sequence_number, mut file } = stored;
        let inherited = if self.without_sequence_numbers || manifest.sequence_number.0 == 0 {
            Some(SequenceNumber(0))
        } else if status == ManifestStatus::Added {
            Some(manifest.sequence_number)
        } else {
            // Has to be explicit. What needs the number will have to complain.
            None
        };
        match manifest.content {
            ManifestContent::Deletes => file.first_row_id = None,
            ManifestContent::Data => {
                // Deleted files have no rows to number, and writers do not count them when they
                // reserve the ids of the manifest that follows.
                if let Some(next) = self.next_row_id
                    && file.first_row_id.is_none()
                    && status != ManifestStatus::Deleted
                {
                    file.first_row_id = Some(next);
                    let after =
                        u64::try_from(file.record_count).ok().and_then(|n| next.checked_add_unsigned(n));
                    self.next_row_id = Some(after.ok_or_else(|| {
                        Error::invalid(format!("{} rows after row id {next}", file.record_count))
                            .context("field `record_count`")
                    })?);
                }
            }
        }
        check_content(manifest.content, file.content).context(|| format!("file {}", file.file_path))?;
        Ok(ManifestEntry {
            status,
            snapshot_id: snapshot_id.or(manifest.added_snapshot_id),
            sequence_number: sequence_number.or(inherited),
            file_sequence_number: file_sequence_number.or(inherited),
            data_file: Arc::new(file),
        })
    }
}

/// A scan that took delete files for data, or never saw them, would be wrong.
pub(crate) fn check_content(manifest: ManifestContent, file: ContentType) -> Result<()> {
    match (manifest, file) {
        (ManifestContent::Data, ContentType::Data)
        | (ManifestContent::Deletes, ContentType::PositionDeletes | ContentType::EqualityDeletes) => Ok(()),
        (ManifestContent::Data, _) => Err(Error::invalid("a delete file is in a manifest of data files")),
        (ManifestContent::Deletes, _) => Err(Error::invalid("a data file is in a manifest of delete files")),
    }
}
