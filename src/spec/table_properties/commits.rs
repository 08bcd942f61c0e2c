//! Properties of commits, metadata files and expiry.

use std::time::Duration;

use crate::error::Result;

use super::super::avro::Codec;
use super::super::name_mapping::NameMapping;
use super::TableProperties;
use super::parse::{bad_value, wrong};

/// How often and for how long something is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many times after the first.
    pub retries: u32,
    /// The wait before the first retry; it doubles from there.
    pub min_wait: Duration,
    /// The longest wait before a retry.
    pub max_wait: Duration,
    /// When to give up, counted from the first attempt.
    pub total_timeout: Duration,
}

impl TableProperties<'_> {
    /// `commit.retry.*`: 4 times, after 100 ms to a minute, for half an hour.
    pub fn commit_retry(&self) -> Result<RetryPolicy> {
        Ok(RetryPolicy {
            retries: self.number("commit.retry.num-retries", 4)?,
            min_wait: self.millis("commit.retry.min-wait-ms", 100)?,
            max_wait: self.millis("commit.retry.max-wait-ms", 60_000)?,
            total_timeout: self.millis("commit.retry.total-timeout-ms", 1_800_000)?,
        })
    }

    /// `commit.status-check.*`, for commits that may or may not have happened: 3 times, after a
    /// second to a minute, for half an hour.
    pub fn commit_status_checks(&self) -> Result<RetryPolicy> {
        Ok(RetryPolicy {
            retries: self.number("commit.status-check.num-retries", 3)?,
            min_wait: self.millis("commit.status-check.min-wait-ms", 1_000)?,
            max_wait: self.millis("commit.status-check.max-wait-ms", 60_000)?,
            total_timeout: self.millis("commit.status-check.total-timeout-ms", 1_800_000)?,
        })
    }

    /// `commit.manifest.target-size-bytes`: how large manifests are merged to (8 MiB).
    pub fn manifest_target_size(&self) -> Result<u64> {
        self.positive("commit.manifest.target-size-bytes", 8 << 20)
    }

    /// `commit.manifest.min-count-to-merge`: how many small manifests gather before they are
    /// merged (100).
    pub fn manifest_min_merge_count(&self) -> Result<usize> {
        self.number("commit.manifest.min-count-to-merge", 100)
    }

    /// `commit.manifest-merge.enabled`: whether appends merge manifests (true).
    pub fn manifest_merge_enabled(&self) -> Result<bool> {
        self.boolean("commit.manifest-merge.enabled", true)
    }

    /// `write.manifest.compression-codec`: how manifests are compressed (gzip, which Avro calls
    /// deflate).
    pub fn manifest_codec(&self) -> Result<Codec> {
        const NAME: &str = "write.manifest.compression-codec";
        let codecs = [
            ("gzip", Codec::Deflate),
            ("deflate", Codec::Deflate),
            ("zstd", Codec::Zstandard),
            ("snappy", Codec::Snappy),
            ("uncompressed", Codec::Null),
            ("none", Codec::Null),
        ];
        self.one_of(NAME, &codecs, Codec::Deflate)
    }

    /// `write.metadata.compression-codec`: whether metadata files are compressed with gzip (no).
    pub fn metadata_gzip(&self) -> Result<bool> {
        let codecs = [("none", false), ("uncompressed", false), ("gzip", true)];
        self.one_of("write.metadata.compression-codec", &codecs, false)
    }

    /// `write.metadata.previous-versions-max`: how many earlier metadata files the log keeps (100).
    pub fn metadata_previous_versions_max(&self) -> Result<usize> {
        self.number("write.metadata.previous-versions-max", 100)
    }

    /// `write.metadata.delete-after-commit.enabled`: whether metadata files that fall off the log
    /// are removed (false).
    pub fn metadata_delete_after_commit(&self) -> Result<bool> {
        self.boolean("write.metadata.delete-after-commit.enabled", false)
    }

    /// `write.metadata.path`: where metadata files go; `metadata` in the table's location without.
    pub fn metadata_path(&self) -> Result<Option<&str>> {
        self.location("write.metadata.path")
    }

    /// `write.summary.partition-limit`: up to how many changed partitions summaries tell of each
    /// (0).
    pub fn summary_partition_limit(&self) -> Result<usize> {
        self.number("write.summary.partition-limit", 0)
    }

    /// `write.wap.enabled`: whether writers may stage snapshots to be published later (false).
    pub fn wap_enabled(&self) -> Result<bool> {
        self.boolean("write.wap.enabled", false)
    }

    /// `gc.enabled`: whether files of the table may be removed by expiry and purging (true).
    pub fn gc_enabled(&self) -> Result<bool> {
        self.boolean("gc.enabled", true)
    }

    /// `history.expire.max-snapshot-age-ms`: how old snapshots may get (5 days), in milliseconds.
    pub fn max_snapshot_age_ms(&self) -> Result<i64> {
        self.not_negative("history.expire.max-snapshot-age-ms", 5 * 24 * 60 * 60 * 1000)
    }

    /// `history.expire.min-snapshots-to-keep`: how many snapshots of a branch are kept at least (1).
    pub fn min_snapshots_to_keep(&self) -> Result<usize> {
        match self.number("history.expire.min-snapshots-to-keep", 1)? {
            0 => Err(bad_value("history.expire.min-snapshots-to-keep", "0", "a number above 0")),
            n => Ok(n),
        }
    }

    /// `history.expire.max-ref-age-ms`: how old branches and tags may get (for ever), in
    /// milliseconds. `main` never expires.
    pub fn max_ref_age_ms(&self) -> Result<i64> {
        self.not_negative("history.expire.max-ref-age-ms", i64::MAX)
    }

    /// `schema.name-mapping.default`: field ids for files that have none.
    pub fn name_mapping(&self) -> Result<Option<NameMapping>> {
        const NAME: &str = "schema.name-mapping.default";
        self.get(NAME).map(|text| NameMapping::parse(text).map_err(|e| wrong(NAME, e))).transpose()
    }

    fn millis(&self, name: &str, default: u64) -> Result<Duration> {
        Ok(Duration::from_millis(self.number(name, default)?))
    }
}
