//! Reads the manifests that can match, and picks files from them.

use std::borrow::Cow;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use crate::error::{Error, Result, ResultExt};
use crate::expr::Predicate;
use crate::spec::{
    DeleteFile, FieldId, FileScanTask, ManifestContent, ManifestEntry, ManifestFile, PrimitiveType, Schema,
    SequenceNumber, Snapshot, SpecId, Type,
};
use crate::table::Table;

use super::counters::PlanCounters;
use super::delete_index::{DeleteIndex, DeleteScope};
use super::evaluators::{Evaluators, Picked};

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
    /// What is left of the filter for the rows of these files; to be shown.
    pub(crate) residuals: Vec<Predicate>,
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
    let evaluators = Arc::new(Evaluators::new(table, request, &list)?);
    let kept: Vec<&ManifestFile> = list.iter().filter(|m| evaluators.may_match(m)).collect();
    counters.manifests_skipped = list.len() - kept.len();

    let reads: Vec<_> =
        kept.iter().map(|m| read_manifest(table.clone(), (*m).clone(), Arc::clone(&evaluators))).collect();
    let picked: Vec<Picked> = stream::iter(reads).buffered(CONCURRENT_MANIFESTS).try_collect().await?;

    let of = |content| picked.iter().filter(move |p| p.manifest.content == content);
    let mut deletes = Vec::new();
    for picked in of(ManifestContent::Deletes) {
        for entry in picked.entries() {
            let sequence_number = sequence_number(entry)?;
            deletes.push(DeleteFile { file: Arc::clone(&entry.data_file), sequence_number });
        }
    }
    counters.delete_files = deletes.len();
    let index = DeleteIndex::new(deletes, table).context(|| format!("table {}", table.name()))?;

    let mut tasks = Vec::with_capacity(of(ManifestContent::Data).map(|p| p.kept.len()).sum());
    for picked in of(ManifestContent::Data) {
        counters.files += picked.live;
        counters.files_skipped_by_partition += picked.skipped_by_partition;
        counters.files_skipped_by_metrics += picked.skipped_by_metrics;
        for entry in picked.entries() {
            let data_file = &entry.data_file;
            let (sequence_number, deletes) = if index.is_empty() {
                // Rows inherit it, but nothing depends on it.
                (entry.sequence_number.unwrap_or_default(), Vec::new())
            } else {
                let number = sequence_number(entry)?;
                (number, index.for_file(data_file, number, table)?)
            };
            tasks.push(FileScanTask { deletes, data_file: Arc::clone(data_file), sequence_number });
        }
    }
    counters.files_kept = tasks.len();
    let residuals = evaluators.residuals(&tasks, &request.filter);
    Ok(ScanPlan { tasks, residuals, counters })
}

/// Which deletes apply hangs on it: a guess would lose rows or bring them back.
pub(super) fn sequence_number(entry: &ManifestEntry) -> Result<SequenceNumber> {
    entry.sequence_number.ok_or_else(|| {
        Error::invalid("its manifest entry has no sequence number, and has none to inherit")
            .context(format!("file {}", entry.data_file.file_path))
    })
}

/// Reads a manifest and picks from it, on a task of its own, so that all cores do so.
async fn read_manifest(table: Table, file: ManifestFile, evaluators: Arc<Evaluators>) -> Result<Picked> {
    let load = async move { Ok(evaluators.pick(table.manifest(&file).await?)) };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            let joined = runtime.spawn(load).await;
            joined.map_err(|e| Error::invalid("reading a manifest was cut off").with_source(e))?
        }
        Err(_) => load.await,
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
