//! What planning left out, and where.

use std::fmt;

/// Counts of one planning; shown by `EXPLAIN` and kept as metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlanCounters {
    /// Manifests of the snapshot.
    pub(crate) manifests: usize,
    /// Manifests that were not read: no live files, or none that can match (stage 1).
    pub(crate) manifests_skipped: usize,
    /// Live data files of the manifests that were read.
    pub(crate) files: usize,
    /// Data files left out by their partition (stage 2).
    pub(crate) files_skipped_by_partition: usize,
    /// Data files left out by their column metrics (stage 3).
    pub(crate) files_skipped_by_metrics: usize,
    /// Data files to read.
    pub(crate) files_kept: usize,
    /// Live delete files of the manifests that were read.
    pub(crate) delete_files: usize,
}

impl PlanCounters {
    /// Every count with the name of its metric.
    pub(crate) fn named(&self) -> [(&'static str, usize); 7] {
        [
            ("manifests", self.manifests),
            ("manifests_skipped", self.manifests_skipped),
            ("files", self.files),
            ("files_skipped_by_partition", self.files_skipped_by_partition),
            ("files_skipped_by_metrics", self.files_skipped_by_metrics),
            ("files_kept", self.files_kept),
            ("delete_files", self.delete_files),
        ]
    }
}

impl fmt::Display for PlanCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, count)) in self.named().iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{name}={count}")?;
        }
        Ok(())
    }
}
