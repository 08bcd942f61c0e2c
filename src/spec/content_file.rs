//! Data files and delete files, as manifests list them (spec, "Manifests").

use std::fmt;

use super::ids::{FieldId, SequenceNumber, SnapshotId, SortOrderId, SpecId};
use super::metrics::Metrics;
use super::partition::PartitionValues;

/// What a file of a manifest holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ContentType {
    /// Rows.
    #[default]
    Data,
    /// Positions of deleted rows; a deletion vector if the file is Puffin.
    PositionDeletes,
    /// Keys of deleted rows.
    EqualityDeletes,
}

/// The format of a data or delete file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Apache Avro.
    Avro,
    /// Apache ORC.
    Orc,
    /// Apache Parquet.
    Parquet,
    /// Puffin; holds deletion vectors.
    Puffin,
}

impl FileFormat {
    /// Parses a format's name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "avro" => Self::Avro,
            "orc" => Self::Orc,
            "parquet" => Self::Parquet,
            "puffin" => Self::Puffin,
            _ => return None,
        })
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Avro => "AVRO",
            Self::Orc => "ORC",
            Self::Parquet => "PARQUET",
            Self::Puffin => "PUFFIN",
        })
    }
}

/// A data or delete file.
#[derive(Debug, Clone, PartialEq)]
pub struct ContentFile {
    /// What it holds.
    pub content: ContentType,
    /// Where it lies; a full path, exact.
    pub file_path: String,
    /// Its format.
    pub file_format: FileFormat,
    /// The spec that `partition` belongs to (from the manifest).
    pub spec_id: SpecId,
    /// Its partition tuple.
    pub partition: PartitionValues,
    /// The number of rows in it.
    pub record_count: i64,
    /// Its size in bytes.
    pub file_size_in_bytes: i64,
    /// What is known of its columns.
    pub metrics: Metrics,
    /// Encryption key metadata.
    pub key_metadata: Option<Vec<u8>>,
    /// Where it may be split, ascending, in bytes.
    pub split_offsets: Option<Vec<i64>>,
    /// The key columns of an equality delete file.
    pub equality_ids: Option<Vec<FieldId>>,
    /// The order that its rows have.
    pub sort_order_id: Option<SortOrderId>,
    /// The id of its first row (v3), own or inherited.
    pub first_row_id: Option<i64>,
    /// The data file that all deletes in the file refer to.
    pub referenced_data_file: Option<String>,
    /// Where a deletion vector begins in its Puffin file, in bytes.
    pub content_offset: Option<i64>,
    /// How long a deletion vector is, in bytes.
    pub content_size_in_bytes: Option<i64>,
}

impl ContentFile {
    /// Whether it is a deletion vector.
    pub fn is_deletion_vector(&self) -> bool {
        self.content == ContentType::PositionDeletes && self.file_format == FileFormat::Puffin
    }
}

/// What a manifest entry says of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ManifestStatus {
    /// Was there before the manifest's snapshot.
    Existing,
    /// Was added by the entry's snapshot.
    Added,
    /// Was removed by the entry's snapshot.
    Deleted,
}

/// An entry of a manifest, with what it inherits filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestEntry {
    /// Existing, added or deleted.
    pub status: ManifestStatus,
    /// The snapshot that added or deleted the file.
    pub snapshot_id: Option<SnapshotId>,
    /// The data sequence number: what deletes compare.
    pub sequence_number: Option<SequenceNumber>,
    /// The sequence number of the snapshot that added the file.
    pub file_sequence_number: Option<SequenceNumber>,
    /// The file.
    pub data_file: std::sync::Arc<ContentFile>,
}

impl ManifestEntry {
    /// Whether the file is part of the snapshot.
    pub fn is_live(&self) -> bool {
        self.status != ManifestStatus::Deleted
    }
}
