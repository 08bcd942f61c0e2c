//! Reads the manifests that can match, and picks files from them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use crate::error::{Error, Result, ResultExt};
use crate::expr::{ManifestEvaluator, MetricsEvaluator, PartitionEvaluator, Predicate};
use crate::spec::{
    DeleteFile, FieldId, FileScanTask, Manifest, ManifestContent, ManifestFile, PrimitiveType, Schema,
    Snapshot, SpecId, Type,
};
use crate::table::Table;

use super::counters::PlanCounters;
use super::delete_index::{DeleteIndex, DeleteScope};

/// How many manifests are read at a time.
const CONCURRENT_MANIFESTS: usize = 16;

/// What a scan is planned for.
pub(crate) struct ScanRequest {
    /// The schema to read with.
    pub(crate) schema: Arc<Schema>,
    /// Which rows are wanted.
    pub(crate) filter: Predicate,
}

/// The files that a scan reads.
#[derive(Debug, Default)]
pub(crate) struct ScanPlan {
    /// In the order of the manifests and their entries.
    pub(crate) tasks: Vec<FileScanTask>,
    /// What was left out.
    pub(crate) counters: PlanCounters,
}

/// Plans the files of a snapshot that may hold rows that match.
///
/// # Errors
/// As [`Table::manifest_list`] and [`Table::manifest`]; `DataInvalid` where deletes contradict the
/// data.
pub(crate) async fn plan_files(
    table: &Table,
    snapshot: &Snapshot,
    request: &ScanRequest,
) -> Result<ScanPlan> {
    let list = table.manifest_list(snapshot).await?;
    let mut counters = PlanCounters { manifests: list.len(), ..Default::default() };
    let evaluators = Evaluators::new(table, request, &list)?;
    let kept: Vec<&ManifestFile> = list.iter().filter(|m| evaluators.may_match(m)).collect();
    counters.manifests_skipped = list.len() - kept.len();

    let reads: Vec<_> = kept.iter().map(|m| read_manifest(table.clone(), (*m).clone())).collect();
    let manifests: Vec<Arc<Manifest>> =
        stream::iter(reads).buffered(CONCURRENT_MANIFESTS).try_collect().await?;

    let mut deletes = Vec::new();
    for (file, manifest) in kept.iter().zip(&manifests) {
        if file.content == ManifestContent::Deletes {
            deletes.extend(live_deletes(manifest, evaluators.of(manifest.spec_id)));
        }
    }
    counters.delete_files = deletes.len();
    let index = DeleteIndex::new(deletes, table).context(|| format!("table {}", table.name()))?;

    let mut tasks = Vec::new();
    for (file, manifest) in kept.iter().zip(&manifests) {
        if file.content != ManifestContent::Data {
            continue;
        }
        let evaluator = evaluators.of(manifest.spec_id);
        for entry in manifest.entries.iter().filter(|e| e.is_live()) {
            counters.files += 1;
            let data_file = &entry.data_file;
            if let Some(e) = evaluator
                && !e.partition.may_match(&data_file.partition)
            {
                counters.files_skipped_by_partition += 1;
                continue;
            }
            if !evaluators.metrics.may_match(data_file) {
                counters.files_skipped_by_metrics += 1;
                continue;
            }
            let sequence_number = entry.sequence_number.unwrap_or_default();
            tasks.push(FileScanTask {
                deletes: index.for_file(data_file, sequence_number, table)?,
                data_file: Arc::clone(data_file),
                sequence_number,
            });
        }
    }
    counters.files_kept = tasks.len();
    Ok(ScanPlan { tasks, counters })
}

/// On a task of its own, so that all cores decode.
async fn read_manifest(table: Table, file: ManifestFile) -> Result<Arc<Manifest>> {
    let load = async move { table.manifest(&file).await };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            let joined = runtime.spawn(load).await;
            joined.map_err(|e| Error::invalid("reading a manifest was cut off").with_source(e))?
        }
        Err(_) => load.await,
    }
}

fn live_deletes(manifest: &Manifest, evaluator: Option<&SpecEvaluators>) -> Vec<DeleteFile> {
    let live = manifest.entries.iter().filter(|e| e.is_live());
    let kept = live.filter(|e| evaluator.is_none_or(|s| s.partition.may_match(&e.data_file.partition)));
    kept.map(|e| DeleteFile {
        file: Arc::clone(&e.data_file),
        sequence_number: e.sequence_number.unwrap_or_default(),
    })
    .collect()
}

/// The filter, made ready for every spec of the snapshot's manifests.
struct Evaluators {
    specs: HashMap<SpecId, SpecEvaluators>,
    metrics: MetricsEvaluator,
}

struct SpecEvaluators {
    manifest: ManifestEvaluator,
    partition: PartitionEvaluator,
}

impl Evaluators {
    fn new(table: &Table, request: &ScanRequest, list: &[ManifestFile]) -> Result<Self> {
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
                },
            );
        }
        Ok(Self { specs, metrics: MetricsEvaluator::new(filter, schema) })
    }

    fn of(&self, spec: SpecId) -> Option<&SpecEvaluators> {
        self.specs.get(&spec)
    }

    /// Stage 1. Counts that the writer left out are unknown, not zero.
    fn may_match(&self, manifest: &ManifestFile) -> bool {
        let is_empty = manifest.added_files_count == Some(0) && manifest.existing_files_count == Some(0);
        !is_empty && self.of(manifest.partition_spec_id).is_none_or(|e| e.manifest.may_match(manifest))
    }
}

impl DeleteScope for Table {
    fn is_unpartitioned(&self, spec: SpecId) -> bool {
        self.metadata().partition_specs.get(&spec).is_some_and(|s| s.is_unpartitioned())
    }

    fn field_type(&self, id: FieldId) -> Option<PrimitiveType> {
        let metadata = self.metadata();
        let schemas = std::iter::once(metadata.current_schema()).chain(metadata.schemas.values().rev());
        let mut found = schemas.filter_map(|s| s.field_by_id(id));
        match &found.next()?.field_type {
            Type::Primitive(p) => Some(p.clone()),
            _ => None,
        }
    }

    fn canonical<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match self.resolve(path) {
            Ok(location) => Cow::Owned(location.to_string()),
            // Reading the file will say what is wrong with its path.
            Err(_) => Cow::Borrowed(path),
        }
    }
}
