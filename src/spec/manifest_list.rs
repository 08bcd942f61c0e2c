//! Manifest lists (spec, "Manifest Lists").

use super::ids::{SequenceNumber, SnapshotId, SpecId};

/// Whether a manifest lists data files or delete files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ManifestContent {
    /// Data files.
    #[default]
    Data,
    /// Delete files.
    Deletes,
}

/// The file that lists a snapshot's manifests; see [`ManifestList::parse`].
#[derive(Debug)]
pub struct ManifestList;

/// A manifest, as a manifest list describes it. Counts are `None` where the writer left them
/// out (v1): unknown, not zero.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestFile {
    /// Where it lies; a full path, exact.
    pub manifest_path: String,
    /// Its size in bytes.
    pub manifest_length: i64,
    /// The spec of its files' partition tuples.
    pub partition_spec_id: SpecId,
    /// Data or deletes.
    pub content: ManifestContent,
    /// The sequence number its new files inherit.
    pub sequence_number: SequenceNumber,
    /// The smallest data sequence number of its live files.
    pub min_sequence_number: SequenceNumber,
    /// The snapshot that added it.
    pub added_snapshot_id: Option<SnapshotId>,
    /// Entries with status added.
    pub added_files_count: Option<i32>,
    /// Entries with status existing.
    pub existing_files_count: Option<i32>,
    /// Entries with status deleted.
    pub deleted_files_count: Option<i32>,
    /// Rows of its added files.
    pub added_rows_count: Option<i64>,
    /// Rows of its existing files.
    pub existing_rows_count: Option<i64>,
    /// Rows of its deleted files.
    pub deleted_rows_count: Option<i64>,
    /// One summary a field of its spec, if there are any.
    pub partitions: Option<Vec<FieldSummary>>,
    /// Encryption key metadata.
    pub key_metadata: Option<Vec<u8>>,
    /// The first row id its added files inherit (v3).
    pub first_row_id: Option<i64>,
}

/// What is known of a partition field over all files of a manifest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldSummary {
    /// Whether any tuple holds null.
    pub contains_null: bool,
    /// Whether any tuple holds NaN, if known.
    pub contains_nan: Option<bool>,
    /// Below or equal to every value that is not null and not NaN, in binary single-value form.
    pub lower_bound: Option<Vec<u8>>,
    /// Above or equal to every value that is not null and not NaN, in binary single-value form.
    pub upper_bound: Option<Vec<u8>>,
}

/// The sequence number of what is not committed yet: writers of manifest lists replace it by the
/// snapshot's.
pub const UNASSIGNED_SEQUENCE_NUMBER: SequenceNumber = SequenceNumber(-1);

impl ManifestFile {
    /// A manifest of data files of which no list says anything: all counts are unknown.
    pub(crate) fn unlisted(path: impl Into<String>, length: i64, spec_id: SpecId) -> Self {
        Self {
            manifest_path: path.into(),
            manifest_length: length,
            partition_spec_id: spec_id,
            content: ManifestContent::Data,
            sequence_number: SequenceNumber(0),
            min_sequence_number: SequenceNumber(0),
            added_snapshot_id: None,
            added_files_count: None,
            existing_files_count: None,
            deleted_files_count: None,
            added_rows_count: None,
            existing_rows_count: None,
            deleted_rows_count: None,
            partitions: None,
            key_metadata: None,
            first_row_id: None,
        }
    }

    /// Whether no live file is in it, for sure. Counts that are not known may be anything.
    pub fn has_no_live_files(&self) -> bool {
        self.added_files_count == Some(0) && self.existing_files_count == Some(0)
    }
}
