//! The table properties that snapshots are made by.

use crate::error::{Error, Result};
use crate::spec::{Codec, TableMetadata, TableProperties};

/// How manifests are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestSettings {
    /// About how long manifests get, in bytes.
    pub(super) target_size: u64,
    /// How many manifests a merge needs that takes in the new one.
    pub(super) min_count_to_merge: usize,
    /// Whether manifests are merged.
    pub(super) merge: bool,
    /// Up to how many changed partitions a summary describes one by one.
    pub(super) partition_summaries: usize,
    /// How manifests are compressed.
    pub(super) codec: Codec,
}

impl ManifestSettings {
    pub(super) fn new(metadata: &TableMetadata) -> Result<Self> {
        let properties = TableProperties::new(&metadata.properties);
        Ok(Self {
            target_size: properties.manifest_target_size()?,
            min_count_to_merge: properties.manifest_min_merge_count()?,
            merge: properties.manifest_merge_enabled()?,
            partition_summaries: properties.summary_partition_limit()?,
            codec: properties.manifest_codec()?,
        })
    }
}

/// The newest format version that is written.
const NEWEST_VERSION: u8 = 3;

/// Whether snapshots of the table can be written.
///
/// # Errors
/// `Unsupported` if the table needs something that is not written.
pub(super) fn check_writable(metadata: &TableMetadata) -> Result<()> {
    if metadata.format_version > NEWEST_VERSION {
        return Err(Error::unsupported(format!(
            "writing to a table of format version {}; {NEWEST_VERSION} is the newest that can be written",
            metadata.format_version
        )));
    }
    if metadata.properties.contains_key("encryption.key-id") {
        let message = "writing to an encrypted table: what is written would not be encrypted";
        return Err(Error::unsupported(message).context("table property `encryption.key-id`"));
    }
    Ok(())
}

/// The directory of a table's metadata files, as metadata records it.
///
/// # Errors
/// `DataInvalid` if the property that says so is wrong.
pub(super) fn metadata_directory(metadata: &TableMetadata) -> Result<String> {
    Ok(match TableProperties::new(&metadata.properties).metadata_path()? {
        Some(path) => path.to_owned(),
        None => format!("{}/metadata", metadata.location.trim_end_matches('/')),
    })
}

/// Milliseconds since 1970 UTC.
pub(super) fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}
