//! The filter of a scan as the stages of planning use it.

use std::collections::HashMap;
use std::sync::Arc;

use super::planner::ScanRequest;
use crate::error::{Error, Result};
use crate::expr::{ManifestEvaluator, MetricsEvaluator, PartitionEvaluator, Predicate, ResidualEvaluator};
use crate::spec::{FileScanTask, Manifest, ManifestContent, ManifestEntry, ManifestFile, SpecId};
use crate::table::Table;

/// Up to this many files are asked what is left of the filter for their rows.
const FILES_WITH_RESIDUALS: usize = 1000;

/// How many different residuals are worth showing.
const SHOWN_RESIDUALS: usize = 4;

/// The filter, made ready for every spec of the snapshot's manifests.
pub(super) struct Evaluators {
    specs: HashMap<SpecId, SpecEvaluators>,
    metrics: MetricsEvaluator,
}

struct SpecEvaluators {
    manifest: ManifestEvaluator,
    partition: PartitionEvaluator,
    residual: ResidualEvaluator,
}

impl Evaluators {
    pub(super) fn new(table: &Table, request: &ScanRequest, list: &[ManifestFile]) -> Result<Self> {
        let (filter, schema) = (&request.filter, &request.schema);
        let mut specs = HashMap::new();
        for manifest in list {
            let id = manifest.partition_spec_id;
            if specs.contains_key(&id) {
                continue;
            }
            let spec = table.metadata().partition_specs.get(&id).ok_or_else(|| {
                Error::invalid(format!("the table's metadata has no partition spec {id}"))
                    .context(format!("manifest {}", manifest.manifest_path))
                    .context(format!("table {}", table.name()))
            })?;
            specs.insert(
                id,
                SpecEvaluators {
                    manifest: ManifestEvaluator::new(filter, spec, schema),
                    partition: PartitionEvaluator::new(filter, spec, schema),
                    residual: ResidualEvaluator::new(filter, spec, schema),
                },
            );
        }
        Ok(Self { specs, metrics: MetricsEvaluator::new(filter, schema) })
    }

    fn of(&self, spec: SpecId) -> Option<&SpecEvaluators> {
        self.specs.get(&spec)
    }

    /// What is left of the filter for the rows of these files, by their partitions: each different
    /// residual once; the whole filter where that would be too much to find out or to show.
    pub(super) fn residuals(&self, tasks: &[FileScanTask], filter: &Predicate) -> Vec<Predicate> {
        let mut found = Vec::new();
        for task in tasks.iter().take(FILES_WITH_RESIDUALS + 1) {
            let file = &task.data_file;
            let residual = match self.of(file.spec_id) {
                Some(spec) => spec.residual.residual(&file.partition),
                None => filter.clone(),
            };
            if !found.contains(&residual) {
                found.push(residual);
            }
        }
        if tasks.len() > FILES_WITH_RESIDUALS || found.len() > SHOWN_RESIDUALS || found.is_empty() {
            return vec![filter.clone()];
        }
        found
    }

    /// Stage 1. Counts that the writer left out are unknown, not zero.
    pub(super) fn may_match(&self, manifest: &ManifestFile) -> bool {
        !manifest.has_no_live_files()
            && self.of(manifest.partition_spec_id).is_none_or(|e| e.manifest.may_match(manifest))
    }

    /// Stages 2 and 3. Only data files are judged by their metrics: those of position deletes are
    /// of other columns.
    pub(super) fn pick(&self, manifest: Arc<Manifest>) -> Picked {
        let partition = self.of(manifest.spec_id).map(|e| &e.partition).filter(|e| !e.keeps_all());
        let metrics = (manifest.content == ManifestContent::Data).then_some(&self.metrics);
        let mut picked = Picked {
            kept: Vec::with_capacity(if partition.is_none() { manifest.entries.len() } else { 0 }),
            live: 0,
            skipped_by_partition: 0,
            skipped_by_metrics: 0,
            manifest: Arc::clone(&manifest),
        };
        for (i, entry) in manifest.entries.iter().enumerate().filter(|(_, e)| e.is_live()) {
            picked.live += 1;
            // Deletes that name their data file apply whatever partition they were put into.
            let by_path = entry.data_file.referenced_data_file.is_some();
            if !by_path && partition.is_some_and(|e| !e.may_match(&entry.data_file.partition)) {
                picked.skipped_by_partition += 1;
            } else if metrics.is_some_and(|e| !e.may_match(&entry.data_file)) {
                picked.skipped_by_metrics += 1;
            } else {
                picked.kept.push(i);
            }
        }
        picked
    }
}

/// The entries of a manifest that may match.
pub(super) struct Picked {
    pub(super) manifest: Arc<Manifest>,
    /// Their positions.
    pub(super) kept: Vec<usize>,
    /// How many live ones there are in all.
    pub(super) live: usize,
    pub(super) skipped_by_partition: usize,
    pub(super) skipped_by_metrics: usize,
}

impl Picked {
    /// The entries, in the order of the manifest.
    pub(super) fn entries(&self) -> impl Iterator<Item = &ManifestEntry> {
        self.kept.iter().filter_map(|i| self.manifest.entries.get(*i))
    }
}
