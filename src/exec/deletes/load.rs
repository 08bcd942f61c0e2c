//! Delete files of a query: each is read once, however many data files and partitions share it,
//! and what they hold is accounted to the query's memory pool.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::metrics::Count;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::OnceCell;

use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{
    ContentFile, ContentType, DeleteFile, DeletionVector, FieldId, FileScanTask, NestedField,
    PartitionValues, PrimitiveType, Schema, SchemaId, SpecId,
};
use crate::table::Table;

use super::super::field_ids::FieldResolution;
use super::super::files::read_file;
use super::super::struct_keys::StructKeys;
use super::equality::{EqualityFilter, KeySchema, KeySet};
use super::known::{KnownRows, Observer};
use super::positions::LiveRows;
use super::remove::Removal;

/// Reserved field ids of position delete files (spec, "Reserved Field IDs").
const FILE_PATH_ID: i32 = i32::MAX - 101;
const POS_ID: i32 = i32::MAX - 102;

/// How many delete files are read at a time for one data file.
const CONCURRENT_FILES: usize = 8;

/// The deleted positions of one position delete file by data file.
type Positions = HashMap<String, DeletionVector>;

/// Equality deletes with the same key columns and the same scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KeyGroup {
    ids: Vec<FieldId>,
    /// `None`: global.
    partition: Option<(SpecId, PartitionValues)>,
    /// The only file, where no sequence numbers say which of the group's apply.
    file: Option<String>,
}

/// Reads and keeps the delete files of one scan.
pub(crate) struct DeleteLoader {
    table: Table,
    bytes_scanned: Count,
    memory: Mutex<MemoryReservation>,
    positions: Cells<String, Positions>,
    live: Cells<String, LiveRows>,
    observers: Cells<String, Observer>,
    schema: SchemaId,
    keys: Cells<KeyGroup, KeySet>,
    groups: HashMap<KeyGroup, Vec<DeleteFile>>,
    key_schemas: HashMap<Vec<FieldId>, Arc<KeySchema>>,
}

/// Things that are made once, by whoever comes first.
struct Cells<K, V>(Mutex<HashMap<K, Arc<OnceCell<Arc<V>>>>>);

impl<K: Clone + Eq + std::hash::Hash, V> Cells<K, V> {
    fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    async fn get_or_load(&self, key: &K, load: impl Future<Output = Result<V>>) -> Result<Arc<V>> {
        let cell = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(key.clone()).or_default())
        };
        cell.get_or_try_init(|| async { load.await.map(Arc::new) }).await.cloned()
    }
}

impl DeleteLoader {
    /// A loader for the deletes of these tasks.
    ///
    /// # Errors
    /// `DataInvalid` for equality deletes without key columns, or of columns no schema ever had.
    pub(crate) fn new(
        table: &Table,
        read: &Schema,
        tasks: &[FileScanTask],
        memory: &Arc<dyn MemoryPool>,
        bytes_scanned: Count,
    ) -> Result<Self> {
        let mut groups: HashMap<KeyGroup, Vec<DeleteFile>> = HashMap::new();
        let mut key_schemas = HashMap::new();
        let mut seen = std::collections::HashSet::new();
        for delete in tasks.iter().flat_map(|t| &t.deletes) {
            if delete.file.content != ContentType::EqualityDeletes
                || !seen.insert(delete.file.file_path.as_str())
            {
                continue;
            }
            let group = key_group(table, delete)?;
            if !key_schemas.contains_key(&group.ids) {
                let schema = KeySchema::new(table.metadata(), read, &group.ids)
                    .context(|| format!("delete file {}", delete.file.file_path))?;
                key_schemas.insert(group.ids.clone(), Arc::new(schema));
            }
            groups.entry(group).or_default().push(delete.clone());
        }
        Ok(Self {
            table: table.clone(),
            bytes_scanned,
            memory: Mutex::new(MemoryConsumer::new("iceberg deletes").register(memory)),
            positions: Cells::new(),
            live: Cells::new(),
            observers: Cells::new(),
            schema: read.schema_id,
            keys: Cells::new(),
            groups,
            key_schemas,
        })
    }

    /// Columns that equality deletes compare and that the schema that is read lacks.
    pub(crate) fn dropped_columns(&self) -> Vec<NestedField> {
        let mut columns: Vec<NestedField> = Vec::new();
        for column in self.key_schemas.values().flat_map(|k| k.dropped_columns()) {
            if !columns.iter().any(|c| c.id == column.id) {
                columns.push(column.clone());
            }
        }
        columns.sort_by_key(|c| c.id);
        columns
    }

    /// Columns with key fields that were dropped out of structs; each set of keys has its own.
    pub(crate) fn struct_keys(&self) -> Vec<StructKeys> {
        let mut keys: Vec<StructKeys> =
            self.key_schemas.values().flat_map(|k| k.struct_keys()).cloned().collect();
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        keys
    }

    /// The deleted positions of a data file; `None` where no position deletes apply.
    ///
    /// # Errors
    /// `DataInvalid` for a broken delete file, `NotFound`, `Io`, or out of memory.
    pub(crate) async fn positions(&self, task: &FileScanTask) -> Result<Option<DeletionVector>> {
        let deletes = task.deletes.iter().filter(|d| d.file.content == ContentType::PositionDeletes);
        let loads: Vec<_> = deletes.map(|d| self.positions_of(d, task).boxed()).collect();
        let mut loads = stream::iter(loads).buffer_unordered(CONCURRENT_FILES);
        let mut all: Option<DeletionVector> = None;
        while let Some(loaded) = loads.next().await {
            let Some(vector) = loaded? else { continue };
            match &mut all {
                None => all = Some(vector),
                Some(all) => all.union(&vector),
            }
        }
        Ok(all)
    }

    /// The deletes of a Parquet file, ready to be applied. `in_parts`: the file is read in several
    /// parts, which share what they load.
    ///
    /// # Errors
    /// As [`DeleteLoader::positions`].
    pub(crate) async fn removal(&self, task: &FileScanTask, in_parts: bool) -> Result<Removal> {
        let place = KnownRows::new(&self.table, self.schema, task)?;
        if let Some(place) = &place
            && let Some(live) = place.get().await
        {
            return Ok(Removal { live: (!live.is_all()).then_some(live), ..Removal::default() });
        }
        let file = &task.data_file;
        let rows = u64::try_from(file.record_count)
            .map_err(|_| Error::invalid(format!("record_count is {}", file.record_count)))?;
        let equality = self.equality(task).await?;
        let live = match task.deletes.iter().any(|d| d.file.content == ContentType::PositionDeletes) {
            false => None,
            true => Some(self.live_rows(task, rows, in_parts).await?),
        };
        let observer = match (place, &equality, &live) {
            (Some(place), None, Some(live)) => {
                place.keep(live).await;
                None
            }
            (Some(place), Some(_), live) => {
                let observe = async { Observer::new(place, rows, live.as_ref()) };
                Some(self.observers.get_or_load(&file.file_path, observe).await?)
            }
            _ => None,
        };
        Ok(Removal { live: live.filter(|live| !live.is_all()), equality, observer })
    }

    /// The rows of a data file that position deletes leave. Kept if `shared`.
    async fn live_rows(&self, task: &FileScanTask, rows: u64, shared: bool) -> Result<LiveRows> {
        let load = async {
            let positions = self.positions(task).await?.unwrap_or_default();
            LiveRows::new(&positions, rows)
        };
        if !shared {
            return load.await;
        }
        let load = async {
            let live = load.await?;
            self.grow(live.memory() as u64, 1)?;
            Ok(live)
        };
        Ok(self.live.get_or_load(&task.data_file.file_path, load).await?.as_ref().clone())
    }

    async fn positions_of(&self, delete: &DeleteFile, task: &FileScanTask) -> Result<Option<DeletionVector>> {
        let file = &delete.file;
        if file.is_deletion_vector() {
            // One vector a data file: nothing to share, and gone with the scan of the file.
            let vector = self.vector(file).await;
            return vector.context(|| format!("deletion vector in {}", file.file_path)).map(Some);
        }
        let load = async {
            self.position_file(file).await.context(|| format!("position delete file {}", file.file_path))
        };
        let positions = self.positions.get_or_load(&file.file_path, load).await?;
        let data_file = self.table.resolve(&task.data_file.file_path)?.to_string();
        Ok(positions.get(&data_file).cloned())
    }

    async fn vector(&self, file: &ContentFile) -> Result<DeletionVector> {
        let range = |offset: Option<i64>, size: Option<i64>| {
            let (offset, size) = (u64::try_from(offset?).ok()?, u64::try_from(size?).ok()?);
            Some(offset..offset.checked_add(size)?)
        };
        let Some(range) = range(file.content_offset, file.content_size_in_bytes) else {
            return Err(Error::invalid(format!(
                "content_offset {:?} and content_size_in_bytes {:?} say not where the vector lies",
                file.content_offset, file.content_size_in_bytes
            )));
        };
        let location = self.table.resolve(&file.file_path)?;
        self.bytes_scanned.add(usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
        let blob = self.table.storage().read_range(&location, range).await?;
        let cardinality = u64::try_from(file.record_count)
            .map_err(|_| Error::invalid(format!("record_count is {}", file.record_count)))?;
        DeletionVector::parse(&blob, Some(cardinality))
    }

    async fn position_file(&self, file: &Arc<ContentFile>) -> Result<Positions> {
        let schema = Schema::new(
            SchemaId(0),
            vec![
                NestedField::required(FILE_PATH_ID, "file_path", PrimitiveType::String),
                NestedField::required(POS_ID, "pos", PrimitiveType::Long),
            ],
            Vec::new(),
        )?;
        let resolution = FieldResolution { schema: Arc::new(schema), name_mapping: None };
        let mut positions = Positions::new();
        // Rows come sorted by path: the vector at hand is looked up once a run.
        let mut current: Option<(String, String)> = None;
        read_file(&self.table, file, &resolution, self.bytes_scanned.clone(), |batch| {
            let (Some(paths), Some(numbers)) =
                (batch.column(0).as_string_view_opt(), batch.column(1).as_primitive_opt::<Int64Type>())
            else {
                return Err(Error::invalid(
                    "columns `file_path` and `pos` have other types than the spec says",
                ));
            };
            for row in 0..batch.num_rows() {
                let path = paths.value(row);
                if current.as_ref().is_none_or(|(last, _)| last != path) {
                    current = Some((path.to_owned(), self.table.resolve(path)?.to_string()));
                }
                let position = u64::try_from(numbers.value(row))
                    .map_err(|_| Error::invalid(format!("position {} of {path}", numbers.value(row))))?;
                if let Some((_, resolved)) = &current {
                    match positions.get_mut(resolved) {
                        Some(vector) => vector.insert(position)?,
                        None => positions.entry(resolved.clone()).or_default().insert(position)?,
                    };
                }
            }
            Ok(())
        })
        .await?;
        // At most two bytes a position once the bitmaps are filled, and some for each of them.
        self.grow(file.record_count.unsigned_abs().saturating_mul(2), positions.len())?;
        Ok(positions)
    }

    /// What equality deletes do to a data file; `None` where none apply.
    ///
    /// # Errors
    /// As [`DeleteLoader::positions`].
    pub(crate) async fn equality(&self, task: &FileScanTask) -> Result<Option<EqualityFilter>> {
        let mut wanted: Vec<KeyGroup> = Vec::new();
        for delete in &task.deletes {
            if delete.file.content == ContentType::EqualityDeletes {
                let group = key_group(&self.table, delete)?;
                if !wanted.contains(&group) {
                    wanted.push(group);
                }
            }
        }
        let mut sets = Vec::with_capacity(wanted.len());
        for group in wanted {
            let load = async { self.key_set(&group).await };
            sets.push(self.keys.get_or_load(&group, load).await?);
        }
        Ok((!sets.is_empty()).then(|| EqualityFilter::new(sets, task.sequence_number)))
    }

    async fn key_set(&self, group: &KeyGroup) -> Result<KeySet> {
        let (Some(schema), Some(files)) = (self.key_schemas.get(&group.ids), self.groups.get(group)) else {
            return Err(Error::invalid("an equality delete file was not planned"));
        };
        let mut set = KeySet::new(Arc::clone(schema))?;
        let resolution = FieldResolution { schema: Arc::clone(schema.schema()), name_mapping: None };
        for delete in files {
            let before = set.memory();
            let read =
                read_file(&self.table, &delete.file, &resolution, self.bytes_scanned.clone(), |batch| {
                    set.insert(&batch, delete.sequence_number)
                });
            read.await.context(|| format!("equality delete file {}", delete.file.file_path))?;
            let grown = set.memory().saturating_sub(before);
            self.grow(grown as u64, 1)?;
        }
        let before = set.memory();
        set.finish();
        self.grow(set.memory().saturating_sub(before) as u64, 0)?;
        Ok(set)
    }

    fn grow(&self, bytes: u64, things: usize) -> Result<()> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(things.saturating_mul(64));
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.try_grow(bytes).map_err(|e| {
            Error::new(
                ErrorKind::Unsupported,
                "the deletes of this query don't fit in its memory pool; raise the limit",
            )
            .with_source(e)
        })
    }
}

impl std::fmt::Debug for DeleteLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeleteLoader").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

fn key_group(table: &Table, delete: &DeleteFile) -> Result<KeyGroup> {
    let file = &delete.file;
    let mut ids = file.equality_ids.clone().unwrap_or_default();
    if ids.is_empty() {
        return Err(
            Error::invalid("equality_ids is missing").context(format!("delete file {}", file.file_path))
        );
    }
    ids.sort_unstable();
    ids.dedup();
    let spec = table.metadata().partition_specs.get(&file.spec_id);
    let global = spec.is_some_and(|s| s.is_unpartitioned());
    let partition = (!global).then(|| (file.spec_id, file.partition.clone()));
    let file = delete.is_assigned().then(|| file.file_path.clone());
    Ok(KeyGroup { ids, partition, file })
}
