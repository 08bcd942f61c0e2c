//! Properties of those who write rows.

use crate::error::Result;

use super::super::content_file::FileFormat;
use super::TableProperties;
use super::parse::bad_value;

/// A statement that changes single rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowLevelOperation {
    /// DELETE.
    Delete,
    /// UPDATE.
    Update,
    /// MERGE.
    Merge,
}

impl RowLevelOperation {
    /// As properties spell it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Update => "update",
            Self::Merge => "merge",
        }
    }
}

/// What concurrent commits a statement bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IsolationLevel {
    /// None that adds rows which the statement would have seen.
    #[default]
    Serializable,
    /// Those that only add rows.
    Snapshot,
}

/// How rows are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RowLevelMode {
    /// Files are written anew without the old rows.
    #[default]
    CopyOnWrite,
    /// Old rows are marked in delete files.
    MergeOnRead,
}

/// How rows are spread over writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DistributionMode {
    /// As they come.
    None,
    /// By partition.
    Hash,
    /// In ranges by partition or sort order.
    Range,
}

/// What a position delete file covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DeleteGranularity {
    /// Data files of a partition.
    #[default]
    Partition,
    /// One data file.
    File,
}

const DISTRIBUTION_MODES: [(&str, Option<DistributionMode>); 3] = [
    ("none", Some(DistributionMode::None)),
    ("hash", Some(DistributionMode::Hash)),
    ("range", Some(DistributionMode::Range)),
];

impl TableProperties<'_> {
    /// `write.{delete,update,merge}.isolation-level` (serializable).
    pub fn isolation_level(&self, operation: RowLevelOperation) -> Result<IsolationLevel> {
        let levels = [("serializable", IsolationLevel::Serializable), ("snapshot", IsolationLevel::Snapshot)];
        let name = format!("write.{}.isolation-level", operation.name());
        self.one_of(&name, &levels, IsolationLevel::default())
    }

    /// `write.{delete,update,merge}.mode` (copy-on-write).
    pub fn row_level_mode(&self, operation: RowLevelOperation) -> Result<RowLevelMode> {
        let modes =
            [("copy-on-write", RowLevelMode::CopyOnWrite), ("merge-on-read", RowLevelMode::MergeOnRead)];
        self.one_of(&format!("write.{}.mode", operation.name()), &modes, RowLevelMode::default())
    }

    /// `write.distribution-mode`, if it is set: what to do without is for engines to choose.
    pub fn distribution_mode(&self) -> Result<Option<DistributionMode>> {
        self.one_of("write.distribution-mode", &DISTRIBUTION_MODES, None)
    }

    /// `write.spark.fanout.enabled`: whether rows are written as they come, with a file open for each
    /// partition, in place of partition by partition (false).
    pub fn fanout(&self) -> Result<bool> {
        self.boolean("write.spark.fanout.enabled", false)
    }

    /// `write.{delete,update,merge}.distribution-mode`, if it is set.
    pub fn row_level_distribution_mode(
        &self,
        operation: RowLevelOperation,
    ) -> Result<Option<DistributionMode>> {
        self.one_of(&format!("write.{}.distribution-mode", operation.name()), &DISTRIBUTION_MODES, None)
    }

    /// `write.delete.granularity` (partition).
    pub fn delete_granularity(&self) -> Result<DeleteGranularity> {
        let granularities = [("partition", DeleteGranularity::Partition), ("file", DeleteGranularity::File)];
        self.one_of("write.delete.granularity", &granularities, DeleteGranularity::default())
    }

    /// `write.format.default`: the format of new data files (Parquet).
    pub fn data_format(&self) -> Result<FileFormat> {
        self.format("write.format.default").map(|format| format.unwrap_or(FileFormat::Parquet))
    }

    /// `write.delete.format.default`: the format of new delete files (that of data files).
    pub fn delete_format(&self) -> Result<FileFormat> {
        self.format("write.delete.format.default")?.map_or_else(|| self.data_format(), Ok)
    }

    /// `write.target-file-size-bytes`: when a writer begins another data file (512 MiB).
    pub fn target_file_size(&self) -> Result<u64> {
        self.positive("write.target-file-size-bytes", 512 << 20)
    }

    /// `write.delete.target-file-size-bytes`: when a writer begins another delete file (64 MiB).
    pub fn delete_target_file_size(&self) -> Result<u64> {
        self.positive("write.delete.target-file-size-bytes", 64 << 20)
    }

    /// `write.object-storage.enabled`: whether new files go to hashed directories (false); see
    /// [`DataLocation`](crate::spec::DataLocation).
    pub fn object_storage_enabled(&self) -> Result<bool> {
        self.boolean("write.object-storage.enabled", false)
    }

    /// `write.object-storage.partitioned-paths`: whether paths of hashed directories name the
    /// partition too (true).
    pub fn object_storage_partitioned_paths(&self) -> Result<bool> {
        self.boolean("write.object-storage.partitioned-paths", true)
    }

    fn format(&self, name: &str) -> Result<Option<FileFormat>> {
        let parse = |text: &str| match FileFormat::parse(text.trim()) {
            None | Some(FileFormat::Puffin) => Err(bad_value(name, text, "`parquet`, `avro` or `orc`")),
            format => Ok(format),
        };
        self.get(name).map_or(Ok(None), parse)
    }
}
