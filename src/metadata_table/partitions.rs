//! `partitions`: what a snapshot holds, partition by partition.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::{StreamExt, TryFutureExt, TryStreamExt, stream};

use super::columns::{Column, Columns, timestamp};
use super::contents::{Contents, Part, Wanted, batches};
use super::entries::{Filter, entries_of, manifests_of};
use crate::error::{Error, Result};
use crate::exec::{partition_tuple, unified_partition_type};
use crate::spec::{
    ContentFile, ContentType, ManifestEntry, ManifestFile, NestedField, PartitionValues, PrimitiveType,
    Snapshot, SnapshotId, SpecId, StructType, TableMetadata, Type, Value,
};
use crate::table::Table;

const LIVE: Filter = Filter { content: None, live: true };

/// A row: a partition, with counts of its live files.
#[derive(Debug)]
struct Partition {
    tuple: PartitionValues,
    spec_id: SpecId,
    data: Totals,
    position_deletes: Totals,
    equality_deletes: Totals,
    /// When its newest file was added, in milliseconds since 1970 UTC, and by which snapshot; as far
    /// as the snapshots have not expired.
    updated: Option<(i64, SnapshotId)>,
}

#[derive(Debug, Default)]
struct Totals {
    records: i64,
    files: i32,
    bytes: i64,
}

impl Totals {
    fn add(&mut self, file: &ContentFile) -> Option<()> {
        self.records = self.records.checked_add(file.record_count)?;
        self.files = self.files.checked_add(1)?;
        self.bytes = self.bytes.checked_add(file.file_size_in_bytes)?;
        Some(())
    }
}

/// The table of partitions.
#[derive(Debug)]
pub(super) struct Partitions {
    table: Table,
    snapshots: Vec<Arc<Snapshot>>,
    unified: Arc<StructType>,
    columns: Columns<Partition>,
}

impl Partitions {
    pub(super) fn new(table: &Table, snapshot: Option<Arc<Snapshot>>) -> Result<Self> {
        let unified = unified_partition_type(table)?;
        let mut columns: Vec<Column<Partition>> = Vec::new();
        // A table that never was partitioned is one partition.
        if !unified.fields.is_empty() {
            let field = NestedField::required(1, "partition", Type::Struct(unified.clone()));
            columns.push(Column::new(field, |p: &Partition| Some(Value::Struct(p.tuple.clone()))));
            columns.push(Column::int(4, "spec_id", |p: &Partition| p.spec_id.0));
        }
        columns.extend([
            Column::long(2, "record_count", |p: &Partition| p.data.records),
            Column::int(3, "file_count", |p: &Partition| p.data.files),
            Column::long(11, "total_data_file_size_in_bytes", |p: &Partition| p.data.bytes),
            Column::long(5, "position_delete_record_count", |p: &Partition| p.position_deletes.records),
            Column::int(6, "position_delete_file_count", |p: &Partition| p.position_deletes.files),
            Column::long(7, "equality_delete_record_count", |p: &Partition| p.equality_deletes.records),
            Column::int(8, "equality_delete_file_count", |p: &Partition| p.equality_deletes.files),
            Column::checked(
                NestedField::optional(9, "last_updated_at", PrimitiveType::Timestamptz),
                |p: &Partition| p.updated.map(|(millis, _)| timestamp(millis)).transpose(),
            ),
            Column::long_or_null(10, "last_updated_snapshot_id", |p: &Partition| {
                p.updated.map(|(_, snapshot)| snapshot.0)
            }),
        ]);
        Ok(Self {
            table: table.clone(),
            snapshots: snapshot.into_iter().collect(),
            unified: Arc::new(unified),
            columns: Columns::try_new(columns)?,
        })
    }
}

#[async_trait]
impl Contents for Partitions {
    fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    async fn scan(&self, wanted: &Wanted<'_>) -> Result<Vec<Part>> {
        let manifests: Arc<[ManifestFile]> = manifests_of(&self.table, &self.snapshots, LIVE).await?.into();
        let columns = Arc::new(self.columns.project(wanted.projection)?);
        let (table, unified) = (self.table.clone(), Arc::clone(&self.unified));
        let schema = Arc::clone(columns.schema());
        let part = Part::new(&schema, move || {
            let (table, columns) = (table.clone(), Arc::clone(&columns));
            let (manifests, unified) = (Arc::clone(&manifests), Arc::clone(&unified));
            let found = find(table, manifests, unified);
            let found = found.map_ok(|partitions| batches(columns, Arc::new(partitions)));
            stream::once(found).try_flatten().boxed()
        });
        Ok(vec![part])
    }
}

async fn find(
    table: Table,
    manifests: Arc<[ManifestFile]>,
    unified: Arc<StructType>,
) -> Result<Vec<Partition>> {
    let mut found = Found::default();
    let mut entries = std::pin::pin!(entries_of(table.clone(), manifests, LIVE));
    while let Some(entries) = entries.try_next().await? {
        for entry in &entries {
            found.add(entry, table.metadata(), &unified)?;
        }
    }
    Ok(found.partitions)
}

/// The partitions so far, in the order in which they were found.
#[derive(Default)]
struct Found {
    partitions: Vec<Partition>,
    /// Under specs of different fields, tuples that look the same are different partitions.
    index: HashMap<(usize, PartitionValues), usize>,
}

impl Found {
    fn add(&mut self, entry: &ManifestEntry, metadata: &TableMetadata, unified: &StructType) -> Result<()> {
        let file = &entry.data_file;
        let known = metadata.partition_specs.get(&file.spec_id);
        let fields = known.map_or(0, |spec| {
            spec.fields.iter().filter(|f| unified.fields.iter().any(|u| u.id == f.field_id)).count()
        });
        let tuple = partition_tuple(file, metadata, unified);
        let position = *self.index.entry((fields, tuple)).or_insert_with_key(|(_, tuple)| {
            self.partitions.push(Partition {
                tuple: tuple.clone(),
                spec_id: file.spec_id,
                data: Totals::default(),
                position_deletes: Totals::default(),
                equality_deletes: Totals::default(),
                updated: None,
            });
            self.partitions.len() - 1
        });
        let Some(partition) = self.partitions.get_mut(position) else { return Ok(()) };
        if let Some(snapshot) = entry.snapshot_id.and_then(|id| metadata.snapshot(id))
            && partition.updated.is_none_or(|(millis, _)| snapshot.timestamp_ms > millis)
        {
            partition.updated = Some((snapshot.timestamp_ms, snapshot.snapshot_id));
            partition.spec_id = file.spec_id;
        }
        let totals = match file.content {
            ContentType::Data => &mut partition.data,
            ContentType::PositionDeletes => &mut partition.position_deletes,
            ContentType::EqualityDeletes => &mut partition.equality_deletes,
        };
        totals.add(file).ok_or_else(|| {
            Error::invalid("the counts of a partition's files overflow")
                .context(format!("file {}", file.file_path))
        })
    }
}
