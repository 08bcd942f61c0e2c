//! The tables that are read from manifests, an entry a row: `files`, `entries` and their like.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::columns::{Column, Columns, struct_column};
use super::contents::{Contents, Part, Wanted, batches};
use super::files::{file_columns, struct_columns};
use super::readable_metrics::readable_metrics;
use crate::error::Result;
use crate::spec::{ContentFile, ManifestContent, ManifestEntry, ManifestFile, ManifestStatus, Snapshot};
use crate::table::Table;

/// How many manifest lists are read at a time.
const CONCURRENT_LISTS: usize = 8;
/// How many manifests each partition of a scan reads ahead.
const CONCURRENT_MANIFESTS: usize = 4;

/// Which entries are rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filter {
    /// Those of data or of delete files; else both.
    pub(super) content: Option<ManifestContent>,
    /// Only files that are part of the snapshot.
    pub(super) live: bool,
}

/// A table of entries of manifests.
#[derive(Debug)]
pub(super) struct Entries {
    table: Table,
    snapshots: Vec<Arc<Snapshot>>,
    filter: Filter,
    columns: Columns<ManifestEntry>,
}

impl Entries {
    /// Live files.
    pub(super) fn files(
        table: &Table,
        snapshots: Vec<Arc<Snapshot>>,
        content: Option<ManifestContent>,
    ) -> Result<Self> {
        let columns = file_columns(table)?.into_iter().map(|c| c.of(file_of)).collect();
        let filter = Filter { content, live: true };
        Ok(Self { table: table.clone(), snapshots, filter, columns: Columns::try_new(columns)? })
    }

    /// All entries.
    pub(super) fn listing(table: &Table, snapshots: Vec<Arc<Snapshot>>) -> Result<Self> {
        let columns: Vec<Column<ManifestEntry>> = vec![
            Column::int(0, "status", |e: &ManifestEntry| match e.status {
                ManifestStatus::Existing => 0,
                ManifestStatus::Added => 1,
                ManifestStatus::Deleted => 2,
            }),
            Column::long_or_null(1, "snapshot_id", |e: &ManifestEntry| e.snapshot_id.map(|id| id.0)),
            Column::long_or_null(3, "sequence_number", |e: &ManifestEntry| e.sequence_number.map(|n| n.0)),
            Column::long_or_null(4, "file_sequence_number", |e: &ManifestEntry| {
                e.file_sequence_number.map(|n| n.0)
            }),
            struct_column(2, "data_file", struct_columns(table)?).of(file_of),
            readable_metrics(table.metadata().current_schema()).of(file_of),
        ];
        let filter = Filter { content: None, live: false };
        Ok(Self { table: table.clone(), snapshots, filter, columns: Columns::try_new(columns)? })
    }
}

fn file_of(entry: &ManifestEntry) -> &ContentFile {
    &entry.data_file
}

#[async_trait]
impl Contents for Entries {
    fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    async fn scan(&self, wanted: &Wanted<'_>) -> Result<Vec<Part>> {
        let manifests = manifests_of(&self.table, &self.snapshots, self.filter).await?;
        let columns = Arc::new(self.columns.project(wanted.projection)?);
        let size = manifests.len().div_ceil(wanted.partitions.max(1)).max(1);
        let groups = manifests.chunks(size).map(|group| {
            let (table, filter, columns) = (self.table.clone(), self.filter, Arc::clone(&columns));
            let group: Arc<[ManifestFile]> = group.into();
            let schema = Arc::clone(columns.schema());
            Part::new(&schema, move || {
                let columns = Arc::clone(&columns);
                let rows = entries_of(table.clone(), Arc::clone(&group), filter);
                let each = move |rows| batches(Arc::clone(&columns), Arc::new(rows));
                rows.map_ok(each).try_flatten().boxed()
            })
        });
        Ok(groups.collect())
    }
}

/// The manifests of some snapshots, each once, in order.
pub(super) async fn manifests_of(
    table: &Table,
    snapshots: &[Arc<Snapshot>],
    filter: Filter,
) -> Result<Vec<ManifestFile>> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for (_, list) in manifest_lists(table, snapshots).await? {
        for manifest in list.iter() {
            let wanted = filter.content.is_none_or(|content| content == manifest.content)
                && !(filter.live && manifest.has_no_live_files());
            if wanted && seen.insert(manifest.manifest_path.clone()) {
                found.push(manifest.clone());
            }
        }
    }
    Ok(found)
}

type Listed = (Arc<Snapshot>, Arc<Vec<ManifestFile>>);

/// The manifest lists of some snapshots, in their order.
pub(super) async fn manifest_lists(table: &Table, snapshots: &[Arc<Snapshot>]) -> Result<Vec<Listed>> {
    let read = |snapshot: Arc<Snapshot>| {
        let table = table.clone();
        async move { table.manifest_list(&snapshot).await.map(|list| (snapshot, list)) }
    };
    stream::iter(snapshots.to_vec()).map(read).buffered(CONCURRENT_LISTS).try_collect().await
}

/// The entries of manifests that the filter lets through, manifest by manifest.
pub(super) fn entries_of(
    table: Table,
    manifests: Arc<[ManifestFile]>,
    filter: Filter,
) -> impl Stream<Item = Result<Vec<ManifestEntry>>> + Send + 'static {
    let count = manifests.len();
    let read = move |i: usize| {
        let (table, manifests) = (table.clone(), Arc::clone(&manifests));
        async move {
            let Some(file) = manifests.get(i) else { return Ok(Vec::new()) };
            let manifest = table.manifest(file).await?;
            Ok(manifest.entries.iter().filter(|e| e.is_live() || !filter.live).cloned().collect())
        }
    };
    stream::iter(0..count).map(read).buffered(CONCURRENT_MANIFESTS)
}
