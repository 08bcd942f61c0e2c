//! The table properties that commits go by.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::spec::{Codec, TableMetadata};

/// A property, or its default.
///
/// # Errors
/// `DataInvalid` if the property is not of its type; it names it.
pub(super) fn property<T: FromStr>(
    properties: &BTreeMap<String, String>,
    name: &str,
    default: T,
) -> Result<T> {
    match properties.get(name) {
        None => Ok(default),
        Some(text) => text.trim().parse().map_err(|_| {
            Error::invalid(format!("`{text}` can't be understood"))
                .context(format!("table property `{name}`"))
        }),
    }
}

/// How manifests are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestSettings {
    /// About how long manifests get, in bytes.
    pub(super) target_size: u64,
    /// How many manifests a merge needs that takes in the new one.
    pub(super) min_count_to_merge: usize,
    /// Whether manifests are merged.
    pub(super) merge: bool,
    /// How many changed partitions a summary describes one by one.
    pub(super) partition_summaries: usize,
    /// How manifests are compressed.
    pub(super) codec: Codec,
}

impl ManifestSettings {
    pub(super) fn new(metadata: &TableMetadata) -> Result<Self> {
        let properties = &metadata.properties;
        Ok(Self {
            target_size: property(properties, "commit.manifest.target-size-bytes", 8 << 20)?,
            min_count_to_merge: property(properties, "commit.manifest.min-count-to-merge", 100)?,
            merge: property(properties, "commit.manifest-merge.enabled", true)?,
            partition_summaries: property(properties, "write.summary.partition-limit", 0)?,
            codec: codec(properties)?,
        })
    }
}

fn codec(properties: &BTreeMap<String, String>) -> Result<Codec> {
    const NAME: &str = "write.manifest.compression-codec";
    let Some(name) = properties.get(NAME) else { return Ok(Codec::default()) };
    match name.to_ascii_lowercase().as_str() {
        "uncompressed" | "none" | "null" => Ok(Codec::Null),
        "gzip" | "deflate" => Ok(Codec::Deflate),
        "snappy" => Ok(Codec::Snappy),
        "zstd" | "zstandard" => Ok(Codec::Zstandard),
        other => Err(Error::unsupported(format!(
            "compression `{other}`; there are gzip, zstd, snappy and uncompressed"
        ))
        .context(format!("table property `{NAME}`"))),
    }
}

/// The directory of a table's metadata files, as metadata records it.
pub(super) fn metadata_directory(metadata: &TableMetadata) -> String {
    let directory = match metadata.properties.get("write.metadata.path") {
        Some(path) => path.clone(),
        None => format!("{}/metadata", metadata.location.trim_end_matches('/')),
    };
    directory.trim_end_matches('/').to_owned()
}

/// Milliseconds since 1970 UTC.
pub(super) fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}
