//! Equality deletes whose keys don't fit in memory: an anti-join that spills.
//!
//! The scan then reads the files without these deletes, and next to the columns that the query wants
//! the key columns, the files' sequence numbers and partitions. A sort-merge join with the delete
//! files takes the deleted rows out; both of its sorts spill.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result as DfResult;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use futures::{StreamExt, TryStreamExt, stream};

use crate::arrow::to_arrow_schema;
use crate::error::{Error, Result, ResultExt};
use crate::plan::ScanPlan;
use crate::spec::{ContentFile, ContentType, DeleteFile, FieldId, NestedField};
use crate::table::Table;

use super::deletes::KeySchema;
use super::field_ids::FieldResolution;
use super::files::read_rows;
use super::scan::{SCOPE, SEQUENCE_NUMBER, ScanRequest, scan_files};

/// How many bytes of deleted keys a scan holds in memory before it sorts and joins instead; an
/// extension of a session's configuration. Without one it is half of what the session's memory pool
/// is limited to.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::prelude::{SessionConfig, SessionContext};
/// use icefloe::EqualityDeleteMemory;
///
/// let config = SessionConfig::new().with_extension(Arc::new(EqualityDeleteMemory(256 << 20)));
/// let context = SessionContext::new_with_config(config);
/// # let _ = context;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EqualityDeleteMemory(pub u64);

/// Equality deletes that are joined with the rows of a scan.
pub(super) struct LargeKeys {
    groups: Vec<Group>,
}

/// Deletes with the same key columns, all in partitions or all global.
struct Group {
    ids: Vec<FieldId>,
    keys: Arc<KeySchema>,
    global: bool,
    files: Vec<DeleteFile>,
    /// What the keys take in memory.
    bytes: u64,
}

/// What the spec and partition of a file are to a join: two files have the same text if they have
/// the same partition.
pub(super) fn scope(file: &ContentFile) -> String {
    format!("{} {:?}", file.spec_id, file.partition)
}

impl LargeKeys {
    /// The equality deletes of a plan, if all of their keys together take too much memory.
    ///
    /// # Errors
    /// As [`KeySchema::new`].
    pub(super) fn find(
        request: &ScanRequest<'_>,
        plan: &ScanPlan,
        session: &dyn Session,
    ) -> Result<Option<Self>> {
        let limit = match session.config().get_extension::<EqualityDeleteMemory>() {
            Some(limit) => limit.0,
            None => match session.runtime_env().memory_pool.memory_limit() {
                MemoryLimit::Finite(limit) => limit as u64 / 2,
                _ => return Ok(None),
            },
        };
        let mut seen = HashSet::new();
        let mut groups: Vec<Group> = Vec::new();
        for delete in plan.tasks.iter().flat_map(|task| &task.deletes) {
            let file = &delete.file;
            // Which rows those apply to that were assigned one by one, no join can tell.
            if file.content != ContentType::EqualityDeletes
                || delete.is_assigned()
                || !seen.insert(file.file_path.as_str())
            {
                continue;
            }
            let ids = key_ids(file);
            let spec = request.table.metadata().partition_specs.get(&file.spec_id);
            let global = spec.is_some_and(|spec| spec.is_unpartitioned());
            let group = match groups.iter().position(|g| g.ids == ids && g.global == global) {
                Some(known) => known,
                None => {
                    let keys = KeySchema::new(request.table.metadata(), &request.schema, &ids)
                        .context(|| format!("delete file {}", file.file_path))?;
                    groups.push(Group { ids, keys: Arc::new(keys), global, files: Vec::new(), bytes: 0 });
                    groups.len() - 1
                }
            };
            if let Some(group) = groups.get_mut(group) {
                let rows = file.record_count.unsigned_abs();
                group.bytes = group
                    .bytes
                    .saturating_add(rows.saturating_mul(group.keys.bytes_a_key()))
                    .saturating_add(file.file_size_in_bytes.unsigned_abs());
                group.files.push(delete.clone());
            }
        }
        // The largest are joined until the others fit. Some can't be, so their keys have to fit.
        let mut bytes = groups.iter().fold(0u64, |sum, group| sum.saturating_add(group.bytes));
        groups.retain(|group| group.keys.can_be_joined());
        groups.sort_by_key(|group| std::cmp::Reverse(group.bytes));
        let large = groups.iter().take_while(|group| {
            let too_many = bytes > limit;
            bytes = bytes.saturating_sub(group.bytes);
            too_many
        });
        let large = large.count();
        groups.truncate(large);
        Ok((!groups.is_empty()).then_some(Self { groups }))
    }

    /// The scan with its deletes joined.
    ///
    /// # Errors
    /// As [`scan_files`].
    pub(super) fn scan(
        &self,
        request: &ScanRequest<'_>,
        mut plan: ScanPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let joined = |file: &ContentFile| {
            let ids = key_ids(file);
            let spec = request.table.metadata().partition_specs.get(&file.spec_id);
            let global = spec.is_some_and(|spec| spec.is_unpartitioned());
            file.content == ContentType::EqualityDeletes
                && self.groups.iter().any(|g| g.ids == ids && g.global == global)
        };
        for task in &mut plan.tasks {
            task.deletes.retain(|delete| delete.is_assigned() || !joined(&delete.file));
        }
        let mut below = ScanRequest { limit: None, ..request.clone() };
        let keys = self.groups.iter().flat_map(|g| g.keys.flat_columns().unwrap_or_default());
        let extra = keys.map(str::to_owned).chain([SEQUENCE_NUMBER.to_owned(), SCOPE.to_owned()]);
        for name in extra {
            if !below.projection.contains(&name) {
                below.projection.push(name);
            }
        }
        let dropped: Vec<NestedField> =
            self.groups.iter().flat_map(|g| g.keys.dropped_columns()).cloned().collect();
        let mut rows = scan_files(&below, plan, dropped, session)?;
        let partitions = session.config().target_partitions().max(1);
        for group in &self.groups {
            let failed = |e| Error::invalid("the equality deletes can't be joined").with_source(e);
            rows = group.join(request.table, rows, partitions).map_err(failed)?;
        }
        let wanted = below.projection.iter().take(request.projection.len()).enumerate();
        let wanted = wanted.map(|(i, name)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, i));
            (column, name.clone())
        });
        let projected = ProjectionExec::try_new(wanted.collect::<Vec<_>>(), rows);
        projected
            .map(|p| Arc::new(p) as Arc<dyn ExecutionPlan>)
            .map_err(|e| Error::invalid("the columns of the scan can't be picked").with_source(e))
    }
}

fn key_ids(file: &ContentFile) -> Vec<FieldId> {
    let mut ids = file.equality_ids.clone().unwrap_or_default();
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Group {
    /// The rows that no delete of the group names.
    fn join(
        &self,
        table: &Table,
        rows: Arc<dyn ExecutionPlan>,
        partitions: usize,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let deletes = self.deletes(table, partitions)?;
        let (left, right) = (rows.schema(), deletes.schema());
        let column = |schema: &SchemaRef, name: &str| -> DfResult<Arc<dyn PhysicalExpr>> {
            Ok(Arc::new(Column::new(name, schema.index_of(name)?)))
        };
        let mut names = self.keys.flat_columns().unwrap_or_default();
        if !self.global {
            names.push(SCOPE);
        }
        let on = names
            .iter()
            .map(|name| Ok((column(&left, name)?, column(&right, name)?)))
            .collect::<DfResult<Vec<_>>>()?;
        // Only newer deletes than the row's file.
        let newer = BinaryExpr::new(
            Arc::new(Column::new("deleted", 1)),
            Operator::Gt,
            Arc::new(Column::new("written", 0)),
        );
        let numbers = [("written", &left, JoinSide::Left), ("deleted", &right, JoinSide::Right)];
        let indices = numbers
            .iter()
            .map(|(_, schema, side)| {
                Ok(ColumnIndex { index: schema.index_of(SEQUENCE_NUMBER)?, side: *side })
            })
            .collect::<DfResult<Vec<_>>>()?;
        let fields: Vec<Field> = numbers.iter().map(|n| Field::new(n.0, DataType::Int64, false)).collect();
        let filter = JoinFilter::new(Arc::new(newer), indices, Arc::new(ArrowSchema::new(fields)));
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = on.iter().cloned().unzip();
        let join = SortMergeJoinExec::try_new(
            sorted(rows, left_keys, partitions)?,
            sorted(deletes, right_keys, partitions)?,
            on,
            Some(filter),
            JoinType::LeftAnti,
            vec![SortOptions::default(); names.len()],
            NullEquality::NullEqualsNull,
        )?;
        Ok(Arc::new(join))
    }

    /// The rows of the delete files, with their sequence numbers and partitions.
    fn deletes(&self, table: &Table, partitions: usize) -> DfResult<Arc<dyn ExecutionPlan>> {
        let keys = to_arrow_schema(self.keys.schema())?;
        let fields = keys.fields().iter().map(|f| f.as_ref().clone()).chain([
            Field::new(SEQUENCE_NUMBER, DataType::Int64, false),
            Field::new(SCOPE, DataType::Utf8, false),
        ]);
        let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
        let share = self.files.len().div_ceil(partitions).max(1);
        let streams = self.files.chunks(share).map(|files| {
            Arc::new(Deletes {
                table: table.clone(),
                keys: Arc::clone(&self.keys),
                files: files.to_vec(),
                schema: Arc::clone(&schema),
            }) as Arc<dyn PartitionStream>
        });
        let streams = streams.collect();
        Ok(Arc::new(StreamingTableExec::try_new(Arc::clone(&schema), streams, None, [], false, None)?))
    }
}

/// Equal keys in one partition, sorted.
fn sorted(
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    partitions: usize,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let order = keys.iter().map(|key| PhysicalSortExpr::new(Arc::clone(key), SortOptions::default()));
    let order = LexOrdering::new(order.collect::<Vec<_>>());
    let order = order.ok_or_else(|| Error::invalid("an equality delete without key columns"))?;
    let apart = RepartitionExec::try_new(input, Partitioning::Hash(keys, partitions))?;
    Ok(Arc::new(SortExec::new(order, Arc::new(apart)).with_preserve_partitioning(true)))
}

/// Reads some delete files one after the other.
struct Deletes {
    table: Table,
    keys: Arc<KeySchema>,
    files: Vec<DeleteFile>,
    schema: SchemaRef,
}

impl fmt::Debug for Deletes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deletes").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl PartitionStream for Deletes {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (table, schema) = (self.table.clone(), Arc::clone(&self.schema));
        let resolution = FieldResolution { schema: Arc::clone(self.keys.schema()), name_mapping: None };
        let open = move |delete: DeleteFile| {
            let (table, schema, resolution) = (table.clone(), Arc::clone(&schema), resolution.clone());
            async move {
                let place = format!("equality delete file {}", delete.file.file_path);
                let in_file = |e: Error| e.context(place.clone());
                let batches =
                    read_rows(&table, &delete.file, &resolution, Count::new()).await.map_err(in_file)?;
                let scope = scope(&delete.file);
                let with_constants = move |batch: RecordBatch| -> DfResult<RecordBatch> {
                    let rows = batch.num_rows();
                    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
                    columns.push(Arc::new(Int64Array::from_value(delete.sequence_number.0, rows)));
                    columns.push(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&scope, rows))));
                    Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
                };
                let batches = batches.map(move |batch| match batch {
                    Ok(batch) => with_constants(batch),
                    Err(e) => Err(e.context(place.clone()).into()),
                });
                Ok::<_, datafusion::error::DataFusionError>(batches)
            }
        };
        let batches = stream::iter(self.files.clone()).then(open).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
