//! Changes that any table takes, whoever wrote it last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, Schema as ArrowSchema};
use datafusion::prelude::{SessionContext, col, lit};

use crate::IcebergTable;
use crate::arrow::{to_arrow_schema, values_to_array};
use crate::catalog::Catalog;
use crate::spec::{ContentFile, ContentType, FileScanTask, NestedField, PrimitiveType as P, Type, Value};
use crate::table::Table;
use crate::transaction::{Append, Overwrite, RewriteFiles, RowDelta};
use crate::write::{
    DataFileWriter, DeletionVectorWriter, EqualityDeleteWriter, LAST_UPDATED_COLUMN, PositionDeleteWriter,
    ROW_ID_COLUMN, WriteOptions,
};

/// The `n`th of some values of a type, null among them; the same each time.
pub(super) fn some_value(t: &Type, n: usize) -> Option<Value> {
    let pick = |values: &[Option<Value>]| values[n % values.len()].clone();
    let numbers = [Some(7), None, Some(-1), Some(0), Some(i64::MAX), Some(i64::MIN), Some(1000)];
    let long = numbers[n % numbers.len()];
    let int = long.map(|v| v.clamp(i32::MIN.into(), i32::MAX.into()) as i32);
    // 2024-01-01 12:34:56.789012, one before 1970, one before the Gregorian calendar, the last one.
    let micros = [
        Some(1_704_112_496_789_012),
        Some(-1),
        None,
        Some(0),
        Some(-14_817_437_875_999_996),
        Some(253_402_300_799_999_999),
    ];
    let micros = micros[n % micros.len()];
    let floats = [Some(1.5), None, Some(-2.25), Some(f64::NAN), Some(0.0), Some(-0.0), Some(f64::INFINITY)];
    let float = floats[n % floats.len()];
    let bytes = |length: usize| {
        [Some(vec![7; length]), Some(vec![0xff; length]), None, Some(vec![0; length])][n % 4].clone()
    };
    match t {
        Type::Primitive(p) => match p {
            P::Boolean => [Some(true), None, Some(false)][n % 3].map(Value::Boolean),
            P::Int => int.map(Value::Int),
            P::Long => long.map(Value::Long),
            P::Float => float.map(|v| Value::Float(v as f32)),
            P::Double => float.map(Value::Double),
            P::Decimal { precision, scale } => {
                let top = 10_i128.pow(*precision) - 1;
                // Not the least: cut to a width it has a digit too many.
                [Some(12_345), Some(-5), None, Some(top), Some(-(top / 10)), Some(0)][n % 6]
                    .map(|v| Value::Decimal(v, *scale))
            }
            P::Date => [Some(19_723), Some(-1), None, Some(0), Some(-171_498), Some(2_932_896)][n % 6]
                .map(Value::Date),
            P::Time => [Some(45_296_789_012), None, Some(0), Some(86_399_999_999)][n % 4].map(Value::Time),
            P::Timestamp => micros.map(Value::Timestamp),
            P::Timestamptz => micros.map(Value::Timestamptz),
            P::TimestampNs | P::TimestamptzNs => {
                let nanos = [Some(1_704_112_496_789_012_345), Some(-1), None, Some(0)][n % 4];
                nanos.map(if *p == P::TimestampNs { Value::TimestampNs } else { Value::TimestamptzNs })
            }
            P::String => {
                let long = format!("{}y", "x".repeat(20));
                let texts = ["abc", "a/b=ü &%+c", "", "日本語", "🧊", &long, "\u{10ffff}\u{10ffff}"];
                match n % 8 {
                    1 => None,
                    n => texts.get(n.saturating_sub(1)).map(|text| Value::String((*text).to_owned())),
                }
            }
            P::Uuid => {
                let ids = [0x0123_4567_89ab_cdef_u128 << 64 | 5, u128::MAX - 5, 1];
                [Some(ids[0]), None, Some(ids[1]), Some(ids[2])][n % 4]
                    .map(|id| Value::Uuid(uuid::Uuid::from_u128(id)))
            }
            P::Fixed(length) => bytes(usize::try_from(*length).unwrap()).map(Value::Fixed),
            P::Binary => pick(&[
                Some(Value::Binary(b"ab".to_vec())),
                bytes(20).map(Value::Binary),
                Some(Value::Binary(Vec::new())),
            ]),
            P::Unknown | P::Geometry { .. } | P::Geography { .. } => None,
        },
        Type::Struct(s) => {
            let members = s.fields.iter().enumerate().map(|(i, f)| some_value(&f.field_type, n + i));
            (n % 5 != 3).then(|| Value::Struct(members.collect()))
        }
        Type::List(l) => {
            let elements = (0..n % 3).map(|i| some_value(&l.element.field_type, n + i)).collect();
            (n % 5 != 4).then_some(Value::List(elements))
        }
        Type::Map(m) => {
            let mut keys: Vec<Value> = Vec::new();
            let found = (0..n % 4).filter_map(|i| some_value(&m.key.field_type, n + i));
            found.for_each(|key| {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            });
            let pairs =
                keys.into_iter().enumerate().map(|(i, k)| (k, some_value(&m.value.field_type, n + i)));
            (n % 5 != 2).then(|| Value::Map(pairs.collect()))
        }
        Type::Variant => None,
    }
}

/// A point, as WKB.
fn point(n: usize) -> Vec<u8> {
    let parts = [vec![1, 1, 0, 0, 0], (n as f64).to_le_bytes().to_vec(), 2.5_f64.to_le_bytes().to_vec()];
    parts.concat()
}

fn column(field: &NestedField, data_type: &DataType, ids: &[i64]) -> ArrayRef {
    let n = |id: &i64| usize::try_from(*id).unwrap() + usize::try_from(field.id.0).unwrap();
    match &field.field_type {
        // An empty dictionary, and small integers.
        Type::Variant => {
            let DataType::Struct(parts) = data_type else { unreachable!() };
            let metadata = BinaryArray::from_iter_values(ids.iter().map(|_| [1, 0, 0]));
            let values = BinaryArray::from_iter_values(ids.iter().map(|id| [3 << 2, (n(id) % 100) as u8]));
            let parts: (_, Vec<ArrayRef>) = (parts.clone(), vec![Arc::new(metadata), Arc::new(values)]);
            Arc::new(StructArray::new(parts.0, parts.1, None))
        }
        Type::Primitive(P::Geometry { .. } | P::Geography { .. }) => {
            cast(&BinaryArray::from_iter_values(ids.iter().map(|id| point(n(id)))), data_type).unwrap()
        }
        t => {
            let values: Vec<Option<Value>> = match field.name.as_str() {
                "id" if t.as_primitive() == Some(&P::Long) => {
                    ids.iter().map(|id| Some(Value::Long(*id))).collect()
                }
                "id" => ids.iter().map(|id| Some(Value::Int(i32::try_from(*id).unwrap()))).collect(),
                _ if field.required => {
                    ids.iter().map(|id| (n(id)..).find_map(|n| some_value(t, n))).collect()
                }
                _ => ids.iter().map(|id| some_value(t, n(id))).collect(),
            };
            values_to_array(&values.iter().map(Option::as_ref).collect::<Vec<_>>(), t, data_type).unwrap()
        }
    }
}

/// Rows of the table with these ids.
pub(super) fn batch(table: &Table, ids: &[i64]) -> RecordBatch {
    let schema = table.metadata().current_schema();
    let arrow = Arc::new(to_arrow_schema(schema).unwrap());
    let fields = schema.fields().iter().zip(arrow.fields());
    let columns = fields.map(|(field, arrow)| column(field, arrow.data_type(), ids)).collect();
    RecordBatch::try_new(arrow, columns).unwrap()
}

pub(super) async fn data_files(
    table: &Table,
    batches: &[RecordBatch],
    options: WriteOptions,
) -> Vec<ContentFile> {
    let mut writer = DataFileWriter::new(table, options).unwrap();
    for batch in batches {
        writer.write(batch).await.unwrap();
    }
    writer.close().await.unwrap()
}

/// New files with rows of these ids.
pub(super) async fn files(table: &Table, ids: &[i64]) -> Vec<ContentFile> {
    data_files(table, &[batch(table, ids)], WriteOptions::default()).await
}

pub(super) async fn append(catalog: &dyn Catalog, table: &Table, ids: &[i64]) -> Table {
    let append = Append::merging().files(files(table, ids).await);
    table.transaction().apply(append).commit(catalog).await.unwrap()
}

/// The data files that a scan reads, with their deletes.
pub(super) async fn scanned(table: &Table) -> Vec<FileScanTask> {
    IcebergTable::try_new(table.clone()).unwrap().data_files(&[]).await.unwrap()
}

/// The rows of a table, with their files, positions and lineage.
async fn all_rows(table: &Table) -> Vec<RecordBatch> {
    let provider = IcebergTable::try_new(table.clone()).unwrap().with_metadata_columns().unwrap();
    SessionContext::new().read_table(Arc::new(provider)).unwrap().collect().await.unwrap()
}

fn longs(batch: &RecordBatch, name: &str) -> Vec<i64> {
    let longs = cast(batch.column_by_name(name).unwrap(), &DataType::Int64).unwrap();
    longs.as_primitive::<Int64Type>().values().to_vec()
}

/// For each data file the positions of its rows that are visible, and those of rows with these ids.
async fn positions(table: &Table, ids: &[i64]) -> HashMap<String, (BTreeSet<u64>, BTreeSet<u64>)> {
    let mut found: HashMap<String, (BTreeSet<u64>, BTreeSet<u64>)> = HashMap::new();
    for batch in all_rows(table).await {
        let paths = cast(batch.column_by_name("_file").unwrap(), &DataType::Utf8).unwrap();
        let (own, positions) = (longs(&batch, "id"), longs(&batch, "_pos"));
        for row in 0..batch.num_rows() {
            let (visible, chosen) = found.entry(paths.as_string::<i32>().value(row).to_owned()).or_default();
            let position = u64::try_from(positions[row]).unwrap();
            visible.insert(position);
            if ids.contains(&own[row]) {
                chosen.insert(position);
            }
        }
    }
    found
}

/// Deletes the rows with these ids as the table's version has it: by new files in the place of old
/// ones, by position delete files, or by deletion vectors.
pub(super) async fn delete(catalog: &dyn Catalog, table: &Table, ids: &[i64]) -> Table {
    if table.metadata().format_version == 1 {
        return delete_by_copy(catalog, table, ids).await;
    }
    let positions = positions(table, ids).await;
    let (mut files, mut replaced) = (Vec::new(), Vec::new());
    let tasks = scanned(table).await;
    let touched = tasks.iter().filter_map(|task| {
        let (visible, chosen) = positions.get(&task.data_file.file_path)?;
        (!chosen.is_empty()).then_some((task, visible, chosen))
    });
    if table.metadata().format_version == 2 {
        let mut writer = PositionDeleteWriter::new(table, &WriteOptions::default()).unwrap();
        for (task, _, chosen) in touched {
            writer.delete(&task.data_file, chosen.iter().copied()).unwrap();
        }
        files.extend(writer.close().await.unwrap());
    } else {
        let mut writer = DeletionVectorWriter::new(table, &WriteOptions::default()).unwrap();
        for (task, visible, chosen) in touched {
            // What was deleted before, in whatever way, is deleted by the new vector too.
            let rows = 0..u64::try_from(task.data_file.record_count).unwrap();
            let gone = rows.filter(|row| !visible.contains(row) || chosen.contains(row));
            writer.delete(&task.data_file, gone).unwrap();
            let of_file = task.deletes.iter().map(|delete| delete.file.as_ref().clone());
            replaced.extend(of_file.filter(|delete| {
                delete.content == ContentType::PositionDeletes && delete.referenced_data_file.is_some()
            }));
        }
        files.extend(writer.close().await.unwrap());
    }
    let changed =
        positions.iter().filter(|(_, (_, chosen))| !chosen.is_empty()).map(|(path, _)| path.as_str());
    let delta = RowDelta::new()
        .add_deletes(files)
        .remove_deletes(&replaced)
        .validate_data_files_exist(changed)
        .validate_from_snapshot(table.metadata().current_snapshot_id.unwrap());
    table.transaction().apply(delta).commit(catalog).await.unwrap()
}

async fn delete_by_copy(catalog: &dyn Catalog, table: &Table, ids: &[i64]) -> Table {
    let positions = positions(table, ids).await;
    let is_touched = |path: &str| positions.get(path).is_some_and(|(_, chosen)| !chosen.is_empty());
    let old: Vec<ContentFile> =
        scanned(table).await.iter().map(|task| task.data_file.as_ref().clone()).collect();
    let old: Vec<ContentFile> = old.into_iter().filter(|file| is_touched(&file.file_path)).collect();
    let paths: Vec<_> = old.iter().map(|file| lit(file.file_path.as_str())).collect();
    let provider = IcebergTable::try_new(table.clone()).unwrap().with_metadata_columns().unwrap();
    let rows = SessionContext::new().read_table(Arc::new(provider)).unwrap();
    let gone = ids.iter().map(|id| lit(*id)).collect();
    let rows = rows.filter(col("_file").in_list(paths, false).and(col("id").in_list(gone, true))).unwrap();
    let batches = without_metadata(table, &rows.collect().await.unwrap(), false);
    let new = data_files(table, &batches, WriteOptions::default()).await;
    let overwrite = Overwrite::new().remove_files(old).add_files(new);
    table.transaction().apply(overwrite).commit(catalog).await.unwrap()
}

/// The table's own columns, and those of row lineage if they are wanted.
fn without_metadata(table: &Table, batches: &[RecordBatch], lineage: bool) -> Vec<RecordBatch> {
    let own = table.metadata().current_schema().fields().iter().map(|field| field.name.as_str());
    let lineage = [ROW_ID_COLUMN, LAST_UPDATED_COLUMN].into_iter().filter(|_| lineage);
    let names: Vec<&str> = own.chain(lineage).collect();
    let project = |batch: &RecordBatch| {
        let pick = |name: &&str| {
            let i = batch.schema_ref().index_of(name).unwrap();
            (batch.schema_ref().field(i).clone(), Arc::clone(batch.column(i)))
        };
        let (fields, columns): (Vec<_>, Vec<_>) = names.iter().map(pick).unzip();
        RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns).unwrap()
    };
    batches.iter().map(project).collect()
}

/// Deletes by keys: the rows with these ids that were there before, in any partition of the
/// table's default spec if that has none.
pub(super) async fn delete_keys(catalog: &dyn Catalog, table: &Table, ids: &[i64]) -> Table {
    let schema = table.metadata().current_schema();
    let id = schema.field_by_path(&["id"]).unwrap().id;
    let all = batch(table, ids);
    let keys = all.project(&[all.schema_ref().index_of("id").unwrap()]).unwrap();
    let partitions: BTreeMap<String, _> = scanned(table)
        .await
        .iter()
        .filter(|task| task.data_file.spec_id == table.metadata().default_spec_id)
        .map(|task| (format!("{:?}", task.data_file.partition), task.data_file.partition.clone()))
        .collect();
    let mut writer = EqualityDeleteWriter::new(table, &[id], &WriteOptions::default()).unwrap();
    if table.metadata().default_spec().is_unpartitioned() {
        writer.write(&keys).await.unwrap();
    } else {
        for partition in partitions.into_values() {
            writer.write_to_partition(partition, &keys).await.unwrap();
        }
    }
    let delta = RowDelta::new().add_deletes(writer.close().await.unwrap());
    table.transaction().apply(delta).commit(catalog).await.unwrap()
}

/// Rewrites the whole table: rows keep their ids and ages where the version has them, deletes go.
pub(super) async fn compact(catalog: &dyn Catalog, table: &Table) -> Table {
    let row_lineage = table.metadata().format_version >= 3;
    let tasks = scanned(table).await;
    let batches = without_metadata(table, &all_rows(table).await, row_lineage);
    let new = data_files(table, &batches, WriteOptions { row_lineage, ..WriteOptions::default() }).await;
    let mut deletes: BTreeMap<(String, Option<i64>), ContentFile> = BTreeMap::new();
    for delete in tasks.iter().flat_map(|task| &task.deletes) {
        let file = delete.file.as_ref().clone();
        deletes.insert((file.file_path.clone(), file.content_offset), file);
    }
    let deletes: Vec<ContentFile> = deletes.into_values().collect();
    let rewrite = RewriteFiles::new()
        .remove_data(tasks.iter().map(|task| task.data_file.as_ref().clone()))
        .remove_deletes(&deletes)
        .add_data(new)
        .validate_from_snapshot(table.metadata().current_snapshot_id.unwrap());
    table.transaction().apply(rewrite).commit(catalog).await.unwrap()
}
