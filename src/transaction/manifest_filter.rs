//! Takes files out of the manifests that list them; manifests without such files stay as they are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::changes::one_spelling;
use super::manifest_files::{Kind, Target};
use super::removal::{FileKey, Removal};
use crate::error::{Error, ErrorKind, Result};
use crate::expr::{
    ManifestEvaluator, MetricsEvaluator, Predicate, ResidualEvaluator, StrictMetricsEvaluator,
};
use crate::spec::{
    ContentFile, Manifest, ManifestContent, ManifestFile, PartitionSpec, PartitionValues, Schema, SchemaId,
    SequenceNumber,
};

/// How many manifests are read and written at a time.
pub(super) const CONCURRENT_MANIFESTS: usize = 16;

/// A manifest of the snapshot before, as the new snapshot lists it.
#[derive(Debug, Clone)]
pub(super) struct Filtered {
    /// The manifest as it was, or the one in its place.
    pub(super) manifest: ManifestFile,
    /// What was taken out of it; nothing if it stays as it was.
    pub(super) removed: Vec<Arc<ContentFile>>,
    /// How many entries were taken out of files that it listed more than once.
    pub(super) duplicates: u64,
}

/// Delete files that no data file is left for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Dangling {
    /// Those older than any data file: with a smaller sequence number, but not without one (0).
    pub(super) before: SequenceNumber,
    /// Deletion vectors of these data files, in `one_spelling`.
    pub(super) removed_data: Arc<HashSet<String>>,
}

/// What tells a manifest from another. The path alone does not: what its files inherit comes from the
/// list, and that of an earlier action of the same transaction changes with each attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ManifestKey {
    path: String,
    sequence_number: SequenceNumber,
    first_row_id: Option<i64>,
}

impl ManifestKey {
    pub(super) fn of(manifest: &ManifestFile) -> Self {
        Self {
            path: manifest.manifest_path.clone(),
            sequence_number: manifest.sequence_number,
            first_row_id: manifest.first_row_id,
        }
    }
}

/// Filters manifests, and remembers the results for the next attempt.
#[derive(Debug, Default)]
pub(super) struct ManifestFilter {
    results: HashMap<ManifestKey, (Dangling, Filtered)>,
    schema: Option<SchemaId>,
}

impl ManifestFilter {
    /// Forgets all results: they are of another snapshot or format version.
    pub(super) fn clear(&mut self) {
        self.results.clear();
    }

    /// The manifests without the files to remove, in their order.
    ///
    /// # Errors
    /// `ValidationFailed` if a file has rows that match the filter and others that don't, or files
    /// are missing that must exist.
    pub(super) async fn filter(
        &mut self,
        target: Target<'_>,
        manifests: Vec<ManifestFile>,
        removal: &Removal,
        dangling: &Dangling,
    ) -> Result<Vec<Filtered>> {
        // What a filter says of a file depends on the schema.
        let schema = target.table.metadata().current_schema_id;
        if self.schema.replace(schema).is_some_and(|before| before != schema) {
            self.results.clear();
        }
        let rules = Rules::new(target, &manifests, removal, dangling)?;
        let mut work = Vec::with_capacity(manifests.len());
        for manifest in manifests {
            let known = self.results.get(&ManifestKey::of(&manifest)).filter(|(before, _)| {
                // What is older than the oldest data file then is so now.
                before.removed_data == dangling.removed_data && before.before <= dangling.before
            });
            work.push((known.map(|(_, filtered)| filtered.clone()), manifest));
        }
        let rules = &rules;
        let filtered: Vec<(ManifestKey, Filtered)> = stream::iter(work)
            .map(|(known, manifest)| async move {
                let key = ManifestKey::of(&manifest);
                match known {
                    Some(known) => Ok((key, known)),
                    None => rules.filter(manifest).await.map(|filtered| (key, filtered)),
                }
            })
            .buffered(CONCURRENT_MANIFESTS)
            .try_collect()
            .await?;
        self.results.extend(filtered.iter().map(|(key, f)| (key.clone(), (dangling.clone(), f.clone()))));
        let filtered: Vec<Filtered> = filtered.into_iter().map(|(_, filtered)| filtered).collect();
        if removal.all_must_exist {
            check_all_found(removal, &filtered)?;
        }
        Ok(filtered)
    }
}

fn check_all_found(removal: &Removal, filtered: &[Filtered]) -> Result<()> {
    let found: HashSet<FileKey> =
        filtered.iter().flat_map(|f| &f.removed).map(|file| FileKey::of(file)).collect();
    let mut missing: Vec<&str> =
        removal.files().filter(|key| !found.contains(key)).map(FileKey::path).collect();
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort_unstable();
    let message = format!("files to be removed are not in the table any more: {}", missing.join(", "));
    Err(Error::new(ErrorKind::ValidationFailed, message))
}

/// What is to be removed, made ready for the specs of the manifests.
struct Rules<'a> {
    target: Target<'a>,
    removal: &'a Removal,
    dangling: &'a Dangling,
    schema: &'a Schema,
    /// Finds the manifests that may list a file to remove; `None`: all may.
    partitions: Option<HashMap<crate::spec::SpecId, Vec<ManifestEvaluator>>>,
}

impl<'a> Rules<'a> {
    fn new(
        target: Target<'a>,
        manifests: &[ManifestFile],
        removal: &'a Removal,
        dangling: &'a Dangling,
    ) -> Result<Self> {
        let metadata = target.table.metadata();
        let specs: HashSet<_> = manifests.iter().map(|m| m.partition_spec_id).collect();
        let partitions = match removal.partitions_of_files() {
            None => None,
            Some(partitions) => {
                let mut evaluators: HashMap<_, Vec<ManifestEvaluator>> = HashMap::new();
                for (spec, tuple) in partitions {
                    if specs.contains(spec) {
                        let partition_type = target.table.partition_type(*spec)?;
                        let evaluator = ManifestEvaluator::of_partition(partition_type, tuple);
                        evaluators.entry(*spec).or_default().push(evaluator);
                    }
                }
                if let Some(filter) = &removal.filter {
                    for id in specs {
                        if let Some(spec) = metadata.partition_specs.get(&id) {
                            let evaluator = ManifestEvaluator::new(filter, spec, metadata.current_schema());
                            evaluators.entry(id).or_default().push(evaluator);
                        }
                    }
                }
                Some(evaluators)
            }
        };
        Ok(Self { target, removal, dangling, schema: metadata.current_schema(), partitions })
    }

    /// Whether the manifest has to be looked into.
    fn may_list(&self, manifest: &ManifestFile) -> bool {
        if manifest.has_no_live_files() {
            return false;
        }
        let is_deletes = manifest.content == ManifestContent::Deletes;
        let smallest = manifest.min_sequence_number.0;
        if is_deletes
            && (!self.dangling.removed_data.is_empty() || 0 < smallest && smallest < self.dangling.before.0)
        {
            return true;
        }
        match &self.partitions {
            None => true,
            Some(of_specs) => of_specs
                .get(&manifest.partition_spec_id)
                .is_some_and(|partitions| partitions.iter().any(|p| p.may_match(manifest))),
        }
    }

    async fn filter(&self, file: ManifestFile) -> Result<Filtered> {
        if !self.may_list(&file) {
            return Ok(Filtered { manifest: file, removed: Vec::new(), duplicates: 0 });
        }
        let manifest = self.target.table.manifest(&file).await?;
        let removed = self.find(&manifest)?;
        if removed.iter().all(|removed| !removed) {
            return Ok(Filtered { manifest: file, removed: Vec::new(), duplicates: 0 });
        }
        let kind = Kind {
            content: manifest.content,
            spec_id: manifest.spec_id,
            partition_type: &manifest.partition_type,
        };
        let mut writer = self.target.manifest(kind)?;
        let (mut files, mut seen, mut duplicates) = (Vec::new(), HashSet::new(), 0_u64);
        for (entry, removed) in manifest.entries.iter().zip(removed).filter(|(e, _)| e.is_live()) {
            if !removed {
                writer.existing(entry)?;
                continue;
            }
            writer.delete(entry)?;
            match seen.insert(FileKey::of(&entry.data_file)) {
                true => files.push(Arc::clone(&entry.data_file)),
                false => duplicates = duplicates.saturating_add(1),
            }
        }
        Ok(Filtered { manifest: self.target.store(writer).await?, removed: files, duplicates })
    }

    /// For each entry whether it is removed.
    fn find(&self, manifest: &Manifest) -> Result<Vec<bool>> {
        let spec = self.target.table.metadata().partition_specs.get(&manifest.spec_id);
        let mut rows = match (&self.removal.filter, spec) {
            (Some(filter), Some(spec)) => Some(RowFilter::new(filter, spec, self.schema)),
            _ => None,
        };
        let mut found = Vec::with_capacity(manifest.entries.len());
        for entry in &manifest.entries {
            let file = &entry.data_file;
            if !entry.is_live() {
                found.push(false);
                continue;
            }
            let asked_for = self.removal.covers(file)
                || match &mut rows {
                    Some(rows) => rows.all_match(file, manifest.content)?,
                    None => false,
                };
            if asked_for && self.removal.none_may_exist {
                let message = format!("there is data already where files are added: {}", file.file_path);
                return Err(Error::new(ErrorKind::ValidationFailed, message));
            }
            let is_deletes = manifest.content == ManifestContent::Deletes;
            found.push(asked_for || is_deletes && self.is_dangling(file, entry.sequence_number));
        }
        Ok(found)
    }

    fn is_dangling(&self, file: &ContentFile, sequence_number: Option<SequenceNumber>) -> bool {
        let removed = &self.dangling.removed_data;
        let is_old = sequence_number.is_some_and(|n| n.0 > 0 && n < self.dangling.before);
        is_old
            || file.is_deletion_vector()
                && !removed.is_empty()
                && file
                    .referenced_data_file
                    .as_ref()
                    .is_some_and(|data| removed.contains(&one_spelling(self.target.table, data)))
    }
}

/// Decides by partition and metrics whether all rows of a file match.
struct RowFilter<'a> {
    filter: &'a Predicate,
    schema: &'a Schema,
    residuals: ResidualEvaluator,
    /// By partition.
    evaluators: HashMap<PartitionValues, Evaluators>,
}

struct Evaluators {
    residual: Predicate,
    some: MetricsEvaluator,
    all: StrictMetricsEvaluator,
}

impl<'a> RowFilter<'a> {
    fn new(filter: &'a Predicate, spec: &PartitionSpec, schema: &'a Schema) -> Self {
        let residuals = ResidualEvaluator::new(filter, spec, schema);
        Self { filter, schema, residuals, evaluators: HashMap::new() }
    }

    fn all_match(&mut self, file: &ContentFile, content: ManifestContent) -> Result<bool> {
        if !self.evaluators.contains_key(&file.partition) {
            let residual = self.residuals.residual(&file.partition);
            let evaluators = Evaluators {
                some: MetricsEvaluator::new(&residual, self.schema),
                all: StrictMetricsEvaluator::new(&residual, self.schema),
                residual,
            };
            self.evaluators.insert(file.partition.clone(), evaluators);
        }
        let Some(evaluators) = self.evaluators.get(&file.partition) else { return Ok(false) };
        if content == ManifestContent::Deletes {
            // Metrics of delete files aren't those of the rows that they delete.
            return Ok(evaluators.residual == Predicate::True);
        }
        if evaluators.residual == Predicate::True {
            return Ok(true);
        }
        if !evaluators.some.may_match(file) {
            return Ok(false);
        }
        if evaluators.all.all_match(file) {
            return Ok(true);
        }
        let message = format!(
            "file {} can't be removed: some of its rows may match `{}`, but not all of them for certain",
            file.file_path, self.filter
        );
        Err(Error::new(ErrorKind::ValidationFailed, message))
    }
}
