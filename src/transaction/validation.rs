//! What others committed since a change was worked out, and whether it contradicts the change.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::changes::one_spelling;
use super::manifest_filter::CONCURRENT_MANIFESTS;
use super::removal::Partition;
use super::snapshot_base::Base;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::{ManifestEvaluator, MetricsEvaluator, PartitionEvaluator, Predicate};
use crate::plan::DeleteIndex;
use crate::spec::{
    ContentFile, ContentType, DeleteFile, ManifestContent, ManifestEntry, ManifestFile, ManifestStatus,
    SequenceNumber, SnapshotId, SpecId,
};
use crate::table::Table;

/// Operations that add rows; compaction adds none.
const ADD_DATA: &[&str] = &["append", "overwrite"];
/// Operations that remove data files.
const REMOVE_DATA: &[&str] = &["overwrite", "replace", "delete"];
/// Operations that delete all rows of the data files that they remove.
const DELETE_DATA: &[&str] = &["delete"];
/// Operations that remove data files, without those that delete all rows of the files.
const REPLACE_DATA: &[&str] = &["overwrite", "replace"];
/// Operations that add deletes; compaction adds none.
const ADD_DELETES: &[&str] = &["overwrite", "delete"];

/// How many files an error names.
const NAMED_FILES: usize = 5;

/// Which files are of interest.
#[derive(Clone, Copy)]
pub(super) enum Scope<'a> {
    /// Those that may hold rows which match.
    Rows(&'a Predicate),
    /// Those of some partitions.
    Partitions(&'a HashSet<Partition>),
}

/// The commits to a branch after a snapshot.
pub(super) struct Since<'a> {
    base: &'a Base<'a>,
    /// That snapshot; `None`: from the beginning.
    from: Option<SnapshotId>,
}

/// Manifests that some commits added.
struct Added {
    manifests: Vec<ManifestFile>,
    snapshots: HashSet<SnapshotId>,
}

impl<'a> Since<'a> {
    pub(super) fn new(base: &'a Base<'a>, from: Option<SnapshotId>) -> Self {
        Self { base, from }
    }

    /// Nobody added data files within the scope.
    pub(super) async fn no_added_data(&self, scope: Scope<'_>) -> Result<()> {
        let added = self.manifests(ADD_DATA, ManifestContent::Data).await?;
        let found = self.entries(&added, ManifestStatus::Added, Some(scope)).await?;
        no_entries(&found, "others added data that this change would have had to see")
    }

    /// Nobody removed data files within the scope.
    pub(super) async fn no_removed_data(&self, scope: Scope<'_>) -> Result<()> {
        let added = self.manifests(REMOVE_DATA, ManifestContent::Data).await?;
        let found = self.entries(&added, ManifestStatus::Deleted, Some(scope)).await?;
        no_entries(&found, "others removed data that this change builds on")
    }

    /// Nobody added delete files within the scope.
    pub(super) async fn no_added_deletes(&self, scope: Scope<'_>) -> Result<()> {
        let found = self.new_deletes(Some(scope)).await?;
        no_entries(&found, "others deleted rows that this change builds on")
    }

    /// Nobody added deletes that apply to these data files. Equality deletes are no conflict for data
    /// that keeps its age: they apply to the new files as well.
    pub(super) async fn no_deletes_for(
        &self,
        files: &[ContentFile],
        filter: Option<&Predicate>,
        ignore_equality: bool,
    ) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let table = self.base.table;
        let found = self.new_deletes(filter.map(Scope::Rows)).await?;
        let (vectors, others): (Vec<_>, Vec<_>) = found
            .into_iter()
            .filter(|e| !ignore_equality || e.data_file.content != ContentType::EqualityDeletes)
            .partition(|e| e.data_file.is_deletion_vector());
        // Several may have followed each other, so that an index would refuse them.
        let of_vectors: HashMap<String, &ManifestEntry> = vectors
            .iter()
            .filter_map(|e| Some((one_spelling(table, e.data_file.referenced_data_file.as_ref()?), e)))
            .collect();
        let start = self.start();
        let others = others.into_iter().map(|entry| DeleteFile {
            sequence_number: entry.sequence_number.unwrap_or(SequenceNumber(i64::MAX)),
            file: entry.data_file,
        });
        let index = DeleteIndex::new(others.collect(), table)?;
        for file in files {
            let vector = of_vectors.get(&one_spelling(table, &file.file_path)).map(|e| &e.data_file);
            let applied = index.for_file(file, start, table)?;
            if let Some(delete) = vector.or(applied.first().map(|delete| &delete.file)) {
                let message = format!(
                    "others deleted rows of file {}, which this change replaces: by {}",
                    file.file_path, delete.file_path
                );
                return Err(Error::new(ErrorKind::ValidationFailed, message));
            }
        }
        Ok(())
    }

    /// Nobody rewrote or replaced these data files; nor deleted them with all their rows, unless that
    /// is no matter.
    pub(super) async fn files_exist(&self, paths: &[String], deleted_are_fine: bool) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let operations = if deleted_are_fine { REPLACE_DATA } else { REMOVE_DATA };
        let found = self.removed(paths, operations).await?;
        no_entries(&found, "others removed data files that this change refers to")
    }

    /// Which of these data files others deleted with all their rows.
    pub(super) async fn deleted(&self, paths: &[String]) -> Result<HashSet<String>> {
        let found = self.removed(paths, DELETE_DATA).await?;
        let table = self.base.table;
        let found: HashSet<_> =
            found.iter().map(|entry| one_spelling(table, &entry.data_file.file_path)).collect();
        Ok(paths.iter().filter(|path| found.contains(&one_spelling(table, path))).cloned().collect())
    }

    /// The entries of these data files that commits of these operations removed.
    async fn removed(&self, paths: &[String], operations: &[&str]) -> Result<Vec<ManifestEntry>> {
        let table = self.base.table;
        let paths: HashSet<String> = paths.iter().map(|path| one_spelling(table, path)).collect();
        let added = self.manifests(operations, ManifestContent::Data).await?;
        let mut found = self.entries(&added, ManifestStatus::Deleted, None).await?;
        found.retain(|entry| paths.contains(&one_spelling(table, &entry.data_file.file_path)));
        Ok(found)
    }

    /// The sequence number of the snapshot that it starts from.
    fn start(&self) -> SequenceNumber {
        let snapshot = self.from.and_then(|id| self.base.table.metadata().snapshot(id));
        snapshot.map(|snapshot| snapshot.sequence_number).unwrap_or_default()
    }

    /// Delete files that were added; those that were only moved there keep their age.
    async fn new_deletes(&self, scope: Option<Scope<'_>>) -> Result<Vec<ManifestEntry>> {
        if self.base.table.metadata().format_version < 2 {
            return Ok(Vec::new());
        }
        let added = self.manifests(ADD_DELETES, ManifestContent::Deletes).await?;
        let mut found = self.entries(&added, ManifestStatus::Added, scope).await?;
        let start = self.start();
        found.retain(|entry| entry.sequence_number.is_none_or(|number| number > start));
        Ok(found)
    }

    /// The manifests that commits of these operations added.
    async fn manifests(&self, operations: &[&str], content: ManifestContent) -> Result<Added> {
        let metadata = self.base.table.metadata();
        let mut added = Added { manifests: Vec::new(), snapshots: HashSet::new() };
        let mut next = self.base.parent.as_ref().map(|parent| parent.snapshot_id);
        // As many steps as there are snapshots: a history that goes round in a circle ends, too.
        for _ in 0..=metadata.snapshots.len() {
            if next == self.from {
                return Ok(added);
            }
            let Some(snapshot) = next.and_then(|id| metadata.snapshot(id)) else { break };
            // What an old writer did not name may be anything.
            if snapshot.operation().is_none_or(|operation| operations.contains(&operation)) {
                added.snapshots.insert(snapshot.snapshot_id);
                let list = self.base.table.manifest_list(snapshot).await?;
                let own = list.iter().filter(|manifest| {
                    manifest.content == content && manifest.added_snapshot_id == Some(snapshot.snapshot_id)
                });
                added.manifests.extend(own.cloned());
            }
            next = snapshot.parent_snapshot_id;
        }
        let from = self.from.map_or("its beginning".to_owned(), |id| format!("snapshot {id}"));
        let message = format!(
            "what was committed since {from} is not known: the history does not lead there, or part \
             of it has expired"
        );
        Err(Error::new(ErrorKind::ValidationFailed, message))
    }

    async fn entries(
        &self,
        added: &Added,
        status: ManifestStatus,
        scope: Option<Scope<'_>>,
    ) -> Result<Vec<ManifestEntry>> {
        let table = self.base.table;
        let mut matchers = HashMap::new();
        for manifest in &added.manifests {
            let id = manifest.partition_spec_id;
            if let (Some(scope), false) = (scope, matchers.contains_key(&id)) {
                matchers.insert(id, Matcher::new(scope, id, table)?);
            }
        }
        let matchers = &matchers;
        let found: Vec<Vec<ManifestEntry>> = stream::iter(added.manifests.iter().cloned())
            .map(|file| async move {
                let matcher = matchers.get(&file.partition_spec_id);
                let counted = match status {
                    ManifestStatus::Added => file.added_files_count,
                    ManifestStatus::Deleted => file.deleted_files_count,
                    ManifestStatus::Existing => file.existing_files_count,
                };
                if counted == Some(0) || matcher.is_some_and(|m| !m.may_list(&file)) {
                    return Result::<Vec<ManifestEntry>>::Ok(Vec::new());
                }
                let manifest = table.manifest(&file).await?;
                let is_it = |entry: &&ManifestEntry| {
                    entry.status == status
                        && entry.snapshot_id.is_some_and(|id| added.snapshots.contains(&id))
                        && matcher.is_none_or(|m| m.may_match(&entry.data_file))
                };
                Ok(manifest.entries.iter().filter(is_it).cloned().collect())
            })
            .buffered(CONCURRENT_MANIFESTS)
            .try_collect::<Vec<_>>()
            .await?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// A scope, made ready for the files of one spec.
#[allow(clippy::large_enum_variant, reason = "there are few, and not for long")]
enum Matcher<'a> {
    Rows { manifests: ManifestEvaluator, partitions: PartitionEvaluator, metrics: Arc<MetricsEvaluator> },
    Partitions { manifests: Vec<ManifestEvaluator>, all: &'a HashSet<Partition> },
}

impl<'a> Matcher<'a> {
    fn new(scope: Scope<'a>, spec_id: SpecId, table: &Table) -> Result<Self> {
        let metadata = table.metadata();
        match scope {
            Scope::Rows(filter) => {
                let spec = metadata.partition_specs.get(&spec_id).ok_or_else(|| {
                    Error::invalid(format!("the table's metadata has no partition spec {spec_id}"))
                })?;
                let schema = metadata.current_schema();
                Ok(Self::Rows {
                    manifests: ManifestEvaluator::new(filter, spec, schema),
                    partitions: PartitionEvaluator::new(filter, spec, schema),
                    metrics: Arc::new(MetricsEvaluator::new(filter, schema)),
                })
            }
            Scope::Partitions(all) => {
                let partition_type = table.partition_type(spec_id)?;
                let of_spec = all.iter().filter(|(spec, _)| *spec == spec_id);
                let manifests = of_spec
                    .map(|(_, tuple)| ManifestEvaluator::of_partition(partition_type, tuple))
                    .collect();
                Ok(Self::Partitions { manifests, all })
            }
        }
    }

    fn may_list(&self, manifest: &ManifestFile) -> bool {
        match self {
            Self::Rows { manifests, .. } => manifests.may_match(manifest),
            Self::Partitions { manifests, .. } => manifests.iter().any(|m| m.may_match(manifest)),
        }
    }

    fn may_match(&self, file: &ContentFile) -> bool {
        match self {
            // Metrics of delete files aren't those of the rows that they delete.
            Self::Rows { partitions, metrics, .. } => {
                partitions.may_match(&file.partition)
                    && (file.content != ContentType::Data || metrics.may_match(file))
            }
            Self::Partitions { all, .. } => all.contains(&(file.spec_id, file.partition.clone())),
        }
    }
}

fn no_entries(found: &[ManifestEntry], what: &str) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let named: Vec<&str> =
        found.iter().take(NAMED_FILES).map(|entry| entry.data_file.file_path.as_str()).collect();
    let more = match found.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("{what}: {}{more}", named.join(", "));
    Err(Error::new(ErrorKind::ValidationFailed, message))
}
