//! Files that were written, read back and compared with their rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use bytes::Bytes;
use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use parquet::basic::{Compression, LogicalType, Type as Physical};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use proptest::prelude::*;

use super::*;
use crate::arrow::{to_arrow_schema, values_to_array};
use crate::exec::tests::table::{TestTable, id_and_s, longs, strings};
use crate::spec::{
    ContentFile, ContentType, FieldId, ListType, ManifestContent, MapType, MetricMaps, NestedField,
    PartitionField, PartitionSpec, PrimitiveType as P, SortOrderId, SpecId, StructType, TableMetadata,
    Transform, Type, Value,
};
use crate::storage::fault::FaultStore;
use crate::storage::{Location, Storage, StorageProperties};
use crate::table::{OpenOptions, Table};
use crate::{Error, ErrorKind, IcebergTable, Result};

async fn open(table: &TestTable) -> Table {
    Table::open(table.commit().to_str().unwrap(), &OpenOptions::new()).await.unwrap()
}

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).unwrap()
}

async fn write(table: &Table, options: WriteOptions, batches: &[RecordBatch]) -> Vec<ContentFile> {
    let mut writer = DataFileWriter::new(table, options).unwrap();
    for batch in batches {
        writer.write(batch).await.unwrap();
    }
    writer.close().await.unwrap()
}

async fn footer(table: &Table, file: &ContentFile) -> ParquetMetaData {
    let location = table.resolve(&file.file_path).unwrap();
    let bytes = table.storage().read(&location).await.unwrap();
    assert_eq!(bytes.len() as i64, file.file_size_in_bytes);
    ParquetMetaDataReader::new().parse_and_finish(&bytes).unwrap()
}

/// A column of each primitive type that can be written.
fn all_types() -> Vec<P> {
    vec![
        P::Boolean,
        P::Int,
        P::Long,
        P::Float,
        P::Double,
        P::Decimal { precision: 9, scale: 2 },
        P::Decimal { precision: 18, scale: 0 },
        P::Decimal { precision: 38, scale: 10 },
        P::Date,
        P::Time,
        P::Timestamp,
        P::Timestamptz,
        P::TimestampNs,
        P::TimestamptzNs,
        P::String,
        P::Uuid,
        P::Fixed(3),
        P::Fixed(100),
        P::Binary,
    ]
}

/// Some values of the type, its ends among them.
fn some_value(p: P) -> BoxedStrategy<Value> {
    let long = || prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -9_i64..9].boxed();
    let int = || prop_oneof![any::<i32>(), Just(i32::MIN), Just(i32::MAX), -9_i32..9].boxed();
    let byte = || prop_oneof![any::<u8>(), Just(0xff_u8), Just(0)];
    match p {
        P::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        P::Int => int().prop_map(Value::Int).boxed(),
        P::Long => long().prop_map(Value::Long).boxed(),
        P::Float => prop_oneof![
            any::<u32>().prop_map(f32::from_bits),
            prop::sample::select(vec![0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::MIN])
        ]
        .prop_map(Value::Float)
        .boxed(),
        P::Double => prop_oneof![
            any::<u64>().prop_map(f64::from_bits),
            prop::sample::select(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::NEG_INFINITY, f64::MAX])
        ]
        .prop_map(Value::Double)
        .boxed(),
        P::Decimal { precision, scale } => {
            let limit = 10_i128.pow(precision);
            prop_oneof![(1 - limit)..limit, Just(1 - limit), Just(limit - 1), -9_i128..9]
                .prop_map(move |v| Value::Decimal(v, scale))
                .boxed()
        }
        P::Date => int().prop_map(Value::Date).boxed(),
        P::Time => (0_i64..86_400_000_000).prop_map(Value::Time).boxed(),
        P::Timestamp => long().prop_map(Value::Timestamp).boxed(),
        P::Timestamptz => long().prop_map(Value::Timestamptz).boxed(),
        P::TimestampNs => long().prop_map(Value::TimestampNs).boxed(),
        P::TimestamptzNs => long().prop_map(Value::TimestamptzNs).boxed(),
        P::String => {
            let c = prop_oneof![any::<char>(), prop::sample::select(vec!['a', 'ü', '\u{d7ff}', char::MAX])];
            let text = |length| prop::collection::vec(c.clone(), length).prop_map(String::from_iter);
            prop_oneof![text(0..6), text(14..20), text(60..70), Just("\u{10ffff}".repeat(30))]
                .prop_map(Value::String)
                .boxed()
        }
        P::Uuid => any::<[u8; 16]>().prop_map(|v| Value::Uuid(uuid::Uuid::from_bytes(v))).boxed(),
        P::Fixed(length) => prop::collection::vec(byte(), length as usize).prop_map(Value::Fixed).boxed(),
        P::Binary => prop_oneof![
            prop::collection::vec(byte(), 0..6),
            prop::collection::vec(byte(), 14..20),
            prop::collection::vec(byte(), 60..70),
            Just(vec![0xff; 30])
        ]
        .prop_map(Value::Binary)
        .boxed(),
        P::Unknown | P::Geometry { .. } | P::Geography { .. } => unreachable!(),
    }
}

/// The metrics that a column of these values has at that mode, by the specification.
fn oracle(values: &[Option<Value>]) -> (i64, i64, i64, Vec<&Value>) {
    let present: Vec<_> = values.iter().flatten().filter(|v| !v.is_nan()).collect();
    let nulls = values.iter().filter(|v| v.is_none()).count() as i64;
    let nans = values.iter().flatten().filter(|v| v.is_nan()).count() as i64;
    (values.len() as i64, nulls, nans, present)
}

fn check_column(maps: &MetricMaps, id: i32, p: &P, values: &[Option<Value>], cut: Option<usize>) {
    let id = FieldId(id);
    let (count, nulls, nans, present) = oracle(values);
    assert_eq!(maps.value_counts[&id], count, "{p}");
    assert_eq!(maps.null_value_counts[&id], nulls, "{p}");
    let is_float = matches!(p, P::Float | P::Double);
    assert_eq!(maps.nan_value_counts.get(&id).copied(), is_float.then_some(nans), "{p}");
    assert!(maps.column_sizes[&id] > 0, "{p}");
    let bound = |map: &BTreeMap<FieldId, Bytes>| map.get(&id).map(|b| Value::from_bytes(p, b).unwrap());
    let (lower, upper) = (bound(&maps.lower_bounds), bound(&maps.upper_bounds));
    let order = |a: &&&Value, b: &&&Value| a.compare(b).unwrap();
    let (min, max) = (present.iter().min_by(order), present.iter().max_by(order));
    let (Some(min), Some(max)) = (min, max) else {
        assert_eq!((lower, upper), (None, None), "{p}");
        return;
    };
    let lower = lower.unwrap();
    assert_ne!(lower.compare(min), Some(std::cmp::Ordering::Greater), "{p}: {lower:?} {min:?}");
    // Bounds are as near as they may be.
    let short = |v: &Value| match (v, cut) {
        (Value::String(v), Some(n)) => v.chars().count() <= n,
        (Value::Binary(v), Some(n)) => v.len() <= n,
        _ => true,
    };
    match &upper {
        Some(upper) => {
            assert_ne!(upper.compare(max), Some(std::cmp::Ordering::Less), "{p}: {upper:?} {max:?}");
            assert!(short(upper));
        }
        None => assert!(!short(max), "{p}: no upper bound of {max:?}"),
    }
    assert!(short(&lower));
    if short(min) {
        assert_eq!(lower, **min, "{p}");
    }
    if short(max) {
        assert_eq!(upper.as_ref(), Some(*max), "{p}");
    }
}

fn rows() -> impl Strategy<Value = Vec<Vec<Option<Value>>>> {
    (0_usize..12).prop_flat_map(|rows| {
        all_types()
            .into_iter()
            .map(|p| prop::collection::vec(prop::option::of(some_value(p)), rows))
            .collect::<Vec<_>>()
    })
}

fn typed_batch(table: &Table, columns: &[Vec<Option<Value>>]) -> RecordBatch {
    let schema = table.metadata().current_schema();
    let arrow = Arc::new(to_arrow_schema(schema).unwrap());
    let arrays = schema.fields().iter().zip(arrow.fields()).zip(columns).map(|((field, arrow), values)| {
        let values: Vec<_> = values.iter().map(Option::as_ref).collect();
        values_to_array(&values, &field.field_type, arrow.data_type()).unwrap()
    });
    RecordBatch::try_new(arrow.clone(), arrays.collect()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn metrics_are_those_of_the_values(columns in rows(), cut in prop::option::of(1_usize..20), group in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fields = all_types().into_iter().enumerate();
            let fields = fields.map(|(i, p)| NestedField::optional(i as i32 + 1, format!("c{i}"), p)).collect();
            let mut table = TestTable::new(fields);
            table.format_version = 3;
            let mode = cut.map_or_else(|| "full".to_owned(), |n| format!("truncate({n})"));
            table.properties.push(("write.metadata.metrics.default", mode));
            if group {
                // A row group for every batch.
                table.properties.push(("write.parquet.row-group-size-bytes", "1".to_owned()));
            }
            let opened = open(&table).await;
            let whole = typed_batch(&opened, &columns);
            let middle = whole.num_rows() / 2;
            let batches = [whole.slice(0, middle), whole.slice(middle, whole.num_rows() - middle)];
            let files = write(&opened, WriteOptions::default(), &batches).await;
            assert_eq!(files.len(), usize::from(whole.num_rows() > 0));
            for file in files {
                assert_eq!(file.record_count, whole.num_rows() as i64);
                let maps = file.metrics.to_maps();
                for (i, (p, values)) in all_types().iter().zip(&columns).enumerate() {
                    check_column(&maps, i as i32 + 1, p, values, cut);
                }
                let footer = footer(&opened, &file).await;
                let groups = batches.iter().filter(|b| b.num_rows() > 0).count();
                assert_eq!(footer.num_row_groups(), if group { groups } else { 1 });
                let starts: Vec<i64> = footer.row_groups().iter().map(|g| g.columns()[0].byte_range().0 as i64).collect();
                assert_eq!(file.split_offsets, Some(starts));
                table.push(1, file);
            }
            let read = collect(&table, "SELECT * FROM t").await;
            let read = arrow::compute::concat_batches(&whole.schema(), read.iter().map(|b| b.clone().with_schema(whole.schema()).unwrap()).collect::<Vec<_>>().iter()).unwrap();
            assert_eq!(read, whole);
        });
    }
}

async fn collect(table: &TestTable, sql: &str) -> Vec<RecordBatch> {
    let context =
        SessionContext::new_with_config(datafusion::prelude::SessionConfig::new().with_target_partitions(1));
    let provider = IcebergTable::open(table.commit().to_str().unwrap()).await.unwrap();
    context.register_table("t", Arc::new(provider)).unwrap();
    context.sql(sql).await.unwrap().collect().await.unwrap()
}

#[tokio::test]
async fn columns_have_the_types_of_the_specification() {
    let mut fields: Vec<_> = all_types()
        .into_iter()
        .enumerate()
        .map(|(i, p)| NestedField::optional(i as i32 + 1, format!("c{i}"), p))
        .collect();
    fields.push(NestedField::required(50, "1 wéird.näme", P::Int));
    fields.push(NestedField::optional(60, "nothing", P::Unknown));
    fields.push(NestedField::optional(70, "g", P::Geometry { crs: None }));
    fields.push(NestedField::optional(71, "v", Type::Variant));
    let inner = StructType::new(vec![
        NestedField::required(81, "x", P::Double),
        NestedField::optional(82, "u", P::Unknown),
    ]);
    fields.push(NestedField::optional(80, "l", ListType::new(83, inner, false)));
    fields.push(NestedField::optional(90, "m", MapType::new(91, P::String, 92, P::Uuid, false)));
    let mut table = TestTable::new(fields);
    table.format_version = 3;
    let opened = open(&table).await;
    let schema = opened.metadata().current_schema();
    let arrow = Arc::new(to_arrow_schema(schema).unwrap());
    let arrays: Vec<ArrayRef> = arrow
        .fields()
        .iter()
        .map(|f| match f.is_nullable() {
            true => arrow::array::new_null_array(f.data_type(), 2),
            false => Arc::new(Int32Array::from(vec![1, 2])),
        })
        .collect();
    let files =
        write(&opened, WriteOptions::default(), &[RecordBatch::try_new(arrow, arrays).unwrap()]).await;
    let footer = footer(&opened, &files[0]).await;
    let descriptor = footer.file_metadata().schema_descr();
    let column = |id: i32| {
        let found = descriptor.columns().iter().find(|c| {
            let info = c.self_type().get_basic_info();
            info.has_id() && info.id() == id
        });
        found.unwrap().clone()
    };
    use parquet::basic::TimeUnit::{MICROS, NANOS};
    for (id, physical, logical, length) in [
        (1, Physical::BOOLEAN, None, -1),
        (2, Physical::INT32, None, -1),
        (6, Physical::INT32, Some(LogicalType::decimal(2, 9)), -1),
        (7, Physical::INT64, Some(LogicalType::decimal(0, 18)), -1),
        (8, Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::decimal(10, 38)), 16),
        (9, Physical::INT32, Some(LogicalType::Date), -1),
        (10, Physical::INT64, Some(LogicalType::time(false, MICROS)), -1),
        (11, Physical::INT64, Some(LogicalType::timestamp(false, MICROS)), -1),
        (12, Physical::INT64, Some(LogicalType::timestamp(true, MICROS)), -1),
        (13, Physical::INT64, Some(LogicalType::timestamp(false, NANOS)), -1),
        (14, Physical::INT64, Some(LogicalType::timestamp(true, NANOS)), -1),
        (15, Physical::BYTE_ARRAY, Some(LogicalType::String), -1),
        (16, Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), 16),
        (17, Physical::FIXED_LEN_BYTE_ARRAY, None, 3),
        (19, Physical::BYTE_ARRAY, None, -1),
        (70, Physical::BYTE_ARRAY, Some(LogicalType::geometry(None)), -1),
    ] {
        let column = column(id);
        assert_eq!(column.physical_type(), physical, "{id}");
        assert_eq!(column.logical_type_ref(), logical.as_ref(), "{id}");
        if length > 0 {
            assert_eq!(column.type_length(), length, "{id}");
        }
    }
    assert_eq!(column(50).name(), "_1_x20wéird_x2Enäme");
    assert_eq!(column(81).path().string(), "l.list.element.x");
    assert_eq!(column(91).path().string(), "m.key_value.key");
    let names: Vec<_> = descriptor.columns().iter().map(|c| c.path().string()).collect();
    assert!(!names.iter().any(|n| n.contains("nothing") || n.ends_with(".u")), "{names:?}");
    let variant = descriptor.root_schema().get_fields().iter().find(|f| f.name() == "v").unwrap();
    assert_eq!(variant.get_basic_info().logical_type_ref(), Some(&LogicalType::variant(Some(1))));
    assert_eq!(variant.get_basic_info().id(), 71);
    assert!(variant.get_fields().iter().all(|f| !f.get_basic_info().has_id()));
    assert!(footer.file_metadata().key_value_metadata().is_none(), "no schema of Arrow's");
    assert!(matches!(footer.row_group(0).column(0).compression(), Compression::ZSTD(_)));
    table.push(1, files[0].clone());
    assert_eq!(table.rows("SELECT count(*), count(v), count(nothing) FROM t").await, ["2 0 0"]);
}

#[tokio::test]
async fn what_lies_in_other_types_is_counted_but_has_bounds_in_structs_only() {
    let point = StructType::new(vec![
        NestedField::optional(11, "x", P::Double),
        NestedField::optional(12, "n", P::Long),
    ]);
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "p", point),
        NestedField::optional(2, "l", ListType::new(21, P::Double, false)),
    ]);
    let opened = open(&table).await;
    // Under a null struct, whatever is there does not count; nor does what a null list holds.
    let x = Arc::new(Float64Array::from(vec![Some(1.5), Some(f64::NAN), Some(f64::NAN), None])) as ArrayRef;
    let n = Arc::new(Int64Array::from(vec![Some(7), Some(i64::MAX), None, Some(-3)])) as ArrayRef;
    let fields = vec![Field::new("x", DataType::Float64, true), Field::new("n", DataType::Int64, true)];
    let valid = NullBuffer::from(vec![true, false, true, true]);
    let points = StructArray::new(fields.into(), vec![x, n], Some(valid));
    let values: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(1.0), None, Some(f64::NAN), Some(2.0)]));
    let lists = ListArray::new(
        Arc::new(Field::new("item", DataType::Float64, true)),
        OffsetBuffer::from_lengths([2, 1, 0, 1]),
        values.slice(0, 4),
        Some(NullBuffer::from(vec![true, true, true, false])),
    );
    let rows = batch(&[("l", Arc::new(lists)), ("p", Arc::new(points))]);
    // A slice has offsets of its own.
    let files = write(&opened, WriteOptions::default(), &[rows.slice(0, 1), rows.slice(1, 3)]).await;
    let maps = files[0].metrics.to_maps();
    let of = |id: i32| {
        let id = FieldId(id);
        (maps.value_counts[&id], maps.null_value_counts[&id], maps.nan_value_counts.get(&id).copied())
    };
    assert_eq!(of(11), (4, 2, Some(1)));
    assert_eq!(of(12), (4, 2, None));
    assert_eq!(of(21), (3, 1, Some(1)));
    let bytes = |v: Value| Bytes::from(v.to_bytes().unwrap());
    assert_eq!(maps.lower_bounds[&FieldId(11)], bytes(Value::Double(1.5)));
    assert_eq!(maps.upper_bounds[&FieldId(11)], bytes(Value::Double(1.5)));
    assert_eq!(maps.lower_bounds[&FieldId(12)], bytes(Value::Long(-3)));
    assert_eq!(maps.upper_bounds[&FieldId(12)], bytes(Value::Long(7)));
    assert!(!maps.lower_bounds.contains_key(&FieldId(21)) && !maps.upper_bounds.contains_key(&FieldId(21)));
    assert!(maps.column_sizes.contains_key(&FieldId(21)));
    table.push(1, files[0].clone());
    assert_eq!(
        table.rows("SELECT p['n'], cardinality(l) FROM t WHERE p IS NOT NULL").await,
        ["7 2", "null 0", "-3 null"]
    );
}

#[tokio::test]
async fn rows_of_another_schema_are_refused() {
    let fields = vec![NestedField::required(1, "id", P::Long), NestedField::optional(2, "s", P::String)];
    let table = TestTable::new(fields);
    let opened = open(&table).await;
    let s = || strings(&[Some("a")]);
    for (rows, part) in [
        (batch(&[("id", longs([1]))]), "`s`"),
        (batch(&[("id", longs([1])), ("s", s()), ("t", s())]), "`t`"),
        (batch(&[("id", longs([None])), ("s", s())]), "`id`"),
        (batch(&[("id", longs([1])), ("s", longs([1]))]), "`s`"),
        (batch(&[("id", Arc::new(Int32Array::from(vec![1]))), ("s", s())]), "`id`"),
    ] {
        let mut writer = DataFileWriter::new(&opened, WriteOptions::default()).unwrap();
        let e = writer.write(&rows).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::DataInvalid);
        assert!(e.to_string().contains(part) && e.to_string().contains(opened.name()), "{e}");
        writer.abort().await;
    }
    let dictionary: arrow::array::DictionaryArray<arrow::datatypes::Int8Type> =
        [Some("b"), None, Some("b")].into_iter().collect();
    let rows = batch(&[("s", Arc::new(dictionary)), ("id", longs([1, 2, 3]))]);
    let files = write(&opened, WriteOptions::default(), &[rows]).await;
    assert_eq!(files[0].metrics.null_value_count(FieldId(2)), Some(1));
}

fn by(fields: &[(i32, &str, Transform)]) -> PartitionSpec {
    let fields = fields.iter().enumerate().map(|(i, (source, name, transform))| PartitionField {
        source_ids: vec![FieldId(*source)],
        field_id: FieldId(1000 + i as i32),
        name: (*name).to_owned(),
        transform: transform.clone(),
        extra: serde_json::Map::new(),
    });
    PartitionSpec { spec_id: SpecId(0), fields: fields.collect() }
}

fn id_rows(ids: impl IntoIterator<Item = i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.into_iter().collect();
    let s: StringArray = ids.iter().map(|id| (id % 5 != 0).then(|| format!("s{}", id % 3))).collect();
    batch(&[("id", longs(ids)), ("s", Arc::new(s))])
}

#[tokio::test]
async fn rows_go_to_the_files_of_their_partitions() {
    for max_open_files in [1, 2, 100] {
        let mut table = TestTable::new(id_and_s());
        table.specs = vec![by(&[(2, "s", Transform::Identity), (1, "b/ü", Transform::Truncate(50))])];
        let opened = open(&table).await;
        let options = WriteOptions { max_open_files, partition: 3, ..WriteOptions::default() };
        let files = write(&opened, options, &[id_rows(0..60), id_rows(60..100)]).await;
        let mut rows = 0;
        for file in files {
            let [s, Some(Value::Long(b))] = file.partition.as_slice() else { panic!("{file:?}") };
            let text = match s {
                Some(Value::String(s)) => s.clone(),
                None => "null".to_owned(),
                _ => panic!("{file:?}"),
            };
            let directory = format!("/data/s={text}/b%2F%C3%BC={b}/00003-0-");
            assert!(file.file_path.contains(&directory), "{}", file.file_path);
            assert_eq!(file.sort_order_id, Some(SortOrderId(0)));
            rows += file.record_count;
            table.push(1, file);
        }
        assert_eq!(rows, 100);
        assert_eq!(table.rows("SELECT count(*), sum(id) FROM t").await, ["100 4950"]);
        assert_eq!(table.rows("SELECT count(*) FROM t WHERE s = 's1' AND id >= 50").await, ["13"]);
        assert_eq!(table.rows("SELECT count(*) FROM t WHERE s IS NULL AND id < 50").await, ["10"]);
    }
}

#[tokio::test]
async fn a_partition_by_a_field_in_a_struct_is_null_where_the_struct_is() {
    let inner = StructType::new(vec![NestedField::optional(11, "x", P::String)]);
    let mut table = TestTable::new(vec![NestedField::optional(1, "p", inner)]);
    table.specs = vec![by(&[(11, "x", Transform::Truncate(1)), (99, "gone", Transform::Void)])];
    let opened = open(&table).await;
    let x = strings(&[Some("ab"), Some("hidden"), None, Some("ac")]);
    let valid = NullBuffer::from(vec![true, false, true, true]);
    let p = StructArray::new(vec![Field::new("x", DataType::Utf8, true)].into(), vec![x], Some(valid));
    let files = write(&opened, WriteOptions::default(), &[batch(&[("p", Arc::new(p))])]).await;
    let found: Vec<_> = files.iter().map(|f| (f.partition.clone(), f.record_count)).collect();
    let a = Some(Value::String("a".into()));
    assert_eq!(found.len(), 2);
    assert!(found.contains(&(vec![a, None], 2)) && found.contains(&(vec![None, None], 2)), "{found:?}");
}

#[tokio::test]
async fn nans_are_one_partition() {
    let mut table = TestTable::new(vec![NestedField::optional(1, "d", P::Double)]);
    table.specs = vec![by(&[(1, "d", Transform::Identity)])];
    let opened = open(&table).await;
    let d = Float64Array::from(vec![f64::NAN, 0.0, -f64::NAN, -0.0, f64::from_bits(f64::NAN.to_bits() | 1)]);
    let files = write(&opened, WriteOptions::default(), &[batch(&[("d", Arc::new(d))])]).await;
    let mut rows: Vec<_> = files.iter().map(|f| f.record_count).collect();
    rows.sort_unstable();
    assert_eq!(rows, [1, 1, 3]);
}

#[tokio::test]
async fn files_end_where_they_are_large_enough() {
    let mut table = TestTable::new(id_and_s());
    table.properties.push(("write.parquet.compression-codec", "uncompressed".to_owned()));
    table.properties.push(("write.parquet.dict-encoding-enabled.column.id", "false".to_owned()));
    let opened = open(&table).await;
    let options = WriteOptions { target_file_size: Some(100_000), ..WriteOptions::default() };
    let batches: Vec<_> = (0..10).map(|i| id_rows(i * 5000..(i + 1) * 5000)).collect();
    let files = write(&opened, options, &batches).await;
    assert!((4..=10).contains(&files.len()), "{}", files.len());
    let names: std::collections::HashSet<_> = files.iter().map(|f| f.file_path.clone()).collect();
    assert_eq!(names.len(), files.len());
    assert!(files.iter().rev().skip(1).all(|f| (80_000..250_000).contains(&f.file_size_in_bytes)));
    for file in files {
        table.push(1, file);
    }
    assert_eq!(table.rows("SELECT count(*), sum(id) FROM t").await, ["50000 1249975000"]);
}

#[tokio::test]
async fn many_open_files_are_bounded_in_memory() {
    let mut table = TestTable::new(id_and_s());
    table.specs = vec![by(&[(1, "b", Transform::Bucket(8))])];
    let opened = open(&table).await;
    let options = WriteOptions { max_memory: 1, ..WriteOptions::default() };
    let files = write(&opened, options, &[id_rows(0..1000), id_rows(0..1000)]).await;
    assert_eq!(files.len(), 8, "row groups are ended, not files");
    assert!(files.iter().any(|f| f.split_offsets.as_ref().unwrap().len() > 1));
    assert_eq!(files.iter().map(|f| f.record_count).sum::<i64>(), 2000);
}

/// A table in a store that fails on demand.
async fn faulty(table: &TestTable) -> (Table, Arc<FaultStore>) {
    let store = Arc::new(FaultStore::new(Arc::new(InMemory::new())));
    let storage = Storage::new(StorageProperties::new()).with_store("s3://b", store.clone()).unwrap();
    let opened = open(table).await;
    let metadata = TableMetadata { location: "s3://b/t".into(), ..TableMetadata::clone(opened.metadata()) };
    let options = OpenOptions::new().storage(storage);
    let opened = Table::from_metadata(Arc::new(metadata), "s3://b/t/metadata/v1.metadata.json", &options);
    (opened.unwrap(), store)
}

async fn files_in(table: &Table, directory: &str) -> usize {
    let mut pending = vec![Location::parse(directory).unwrap()];
    let mut files = 0;
    while let Some(directory) = pending.pop() {
        for entry in table.storage().list_dir(&directory).await.unwrap() {
            match entry.is_dir {
                true => pending.push(directory.join(&entry.name)),
                false => files += 1,
            }
        }
    }
    files
}

#[tokio::test]
async fn nothing_is_left_of_a_write_that_failed() {
    let mut table = TestTable::new(id_and_s());
    table.specs = vec![by(&[(1, "b", Transform::Bucket(4))])];
    let (opened, store) = faulty(&table).await;
    // The number of files is the number of calls.
    for fault in 0..4 {
        let mut writer = DataFileWriter::new(&opened, WriteOptions::default()).unwrap();
        writer.write(&id_rows(0..100)).await.unwrap();
        store.fail_after(fault);
        let e = writer.close().await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io);
        assert_eq!(files_in(&opened, "s3://b/t").await, 0, "{fault}");
    }
    let options = WriteOptions { max_open_files: 1, ..WriteOptions::default() };
    for fault in 0..3 {
        let mut writer = DataFileWriter::new(&opened, options.clone()).unwrap();
        store.fail_after(fault);
        writer.write(&id_rows(0..100)).await.unwrap_err();
        writer.abort().await;
        assert_eq!(files_in(&opened, "s3://b/t").await, 0, "{fault}");
    }
    let files = write(&opened, WriteOptions::default(), &[id_rows(0..100)]).await;
    assert_eq!(files_in(&opened, "s3://b/t/data").await, files.len());
}

#[tokio::test]
async fn tables_that_can_not_be_written_say_so() {
    for (name, value, part) in [
        ("write.format.default", "orc", "write.format.default"),
        ("encryption.key-id", "k", "encryption.key-id"),
        ("write.parquet.compression-codec", "lzo", "write.parquet.compression-codec"),
        ("write.target-file-size-bytes", "0", "write.target-file-size-bytes"),
    ] {
        let mut table = TestTable::new(id_and_s());
        table.properties.push((name, value.to_owned()));
        let e = DataFileWriter::new(&open(&table).await, WriteOptions::default()).err().unwrap();
        assert!(e.to_string().contains(part), "{e}");
    }
    // Each kind of delete file has its own format.
    for (data, deletes, part) in [
        ("parquet", Some("avro"), "write.delete.format.default"),
        ("parquet", Some("csv"), "write.delete.format.default"),
        ("orc", None, "write.delete.format.default"),
        ("orc", Some("parquet"), ""),
    ] {
        let mut table = TestTable::new(id_and_s());
        table.properties.push(("write.format.default", data.to_owned()));
        table.properties.extend(deletes.map(|format| ("write.delete.format.default", format.to_owned())));
        let opened = open(&table).await;
        let options = WriteOptions::default();
        let positions = PositionDeleteWriter::new(&opened, &options).err();
        let keys = EqualityDeleteWriter::new(&opened, &[FieldId(1)], &options).err();
        for e in [positions, keys] {
            assert_eq!(e.is_none(), part.is_empty(), "{data} {deletes:?}");
            assert!(e.is_none_or(|e| e.to_string().contains(part)), "{data} {deletes:?}");
        }
        table.format_version = 3;
        assert!(DeletionVectorWriter::new(&open(&table).await, &options).is_ok(), "{data} {deletes:?}");
    }
    let mut table = TestTable::new(id_and_s());
    table.specs = vec![by(&[(1, "z", Transform::Unknown("zorder".into()))])];
    let e = DataFileWriter::new(&open(&table).await, WriteOptions::default()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("zorder"), "{e}");
}

#[tokio::test]
async fn version_four_records_relative_paths() {
    let table = TestTable::new(id_and_s());
    let (opened, _) = faulty(&table).await;
    let metadata = TableMetadata { format_version: 4, ..TableMetadata::clone(opened.metadata()) };
    let options = OpenOptions::new().storage(opened.storage().clone());
    let location = "s3://b/t/metadata/v1.metadata.json";
    let opened = Table::from_metadata(Arc::new(metadata), location, &options).unwrap();
    let files = write(&opened, WriteOptions::default(), &[id_rows(0..9)]).await;
    assert!(files[0].file_path.starts_with("data/00000-0-"), "{}", files[0].file_path);
    assert_eq!(files_in(&opened, "s3://b/t/data").await, 1);
}

#[tokio::test]
async fn bloom_filters_and_codecs_by_the_properties() {
    let mut table = TestTable::new(id_and_s());
    for (name, value) in [
        ("write.parquet.bloom-filter-enabled.column.s", "true"),
        ("write.parquet.bloom-filter-max-bytes", "4096"),
        ("write.parquet.compression-codec", "GZIP"),
        ("write.parquet.compression-level", "9"),
        ("write.metadata.metrics.column.id", "none"),
        ("write.metadata.metrics.column.s", "counts"),
    ] {
        table.properties.push((name, value.to_owned()));
    }
    let opened = open(&table).await;
    let files = write(&opened, WriteOptions::default(), &[id_rows(0..100)]).await;
    let footer = footer(&opened, &files[0]).await;
    let columns = footer.row_group(0).columns();
    assert!(columns[0].bloom_filter_offset().is_none());
    assert!(columns[1].bloom_filter_length().unwrap() <= 4096 + 64);
    assert!(matches!(columns[0].compression(), Compression::GZIP(_)));
    let maps = files[0].metrics.to_maps();
    assert_eq!(maps.value_counts, BTreeMap::from([(FieldId(2), 100)]));
    assert_eq!(maps.null_value_counts, BTreeMap::from([(FieldId(2), 20)]));
    assert!(maps.lower_bounds.is_empty() && maps.upper_bounds.is_empty());
    assert_eq!(maps.column_sizes.keys().copied().collect::<Vec<_>>(), [FieldId(2)]);
}

#[tokio::test]
async fn rows_that_move_keep_their_lineage() {
    let mut table = TestTable::new(id_and_s());
    let options = WriteOptions { row_lineage: true, ..WriteOptions::default() };
    assert!(DataFileWriter::new(&open(&table).await, options.clone()).is_err());
    table.format_version = 3;
    let opened = open(&table).await;
    let rows = batch(&[
        ("id", longs([1, 2])),
        ("s", strings(&[None, None])),
        (ROW_ID_COLUMN, longs([Some(70), None])),
        (LAST_UPDATED_COLUMN, longs([Some(3), None])),
    ]);
    let files = write(&opened, options, &[rows]).await;
    assert!(files[0].metrics.value_counts().all(|(id, _)| id.0 < 100), "they would be of what is stored");
    table.push(9, files[0].clone());
    // The file has exactly the columns that are read, and what is null is inherited all the same.
    assert_eq!(
        table.rows("SELECT id, s, _row_id, _last_updated_sequence_number FROM m ORDER BY id").await,
        ["1 null 70 3", "2 null 1 9"]
    );
}

#[tokio::test]
async fn positions_are_deleted_in_their_partitions() {
    for per_file in [false, true] {
        let mut table = TestTable::new(id_and_s());
        table.specs = vec![by(&[(1, "b", Transform::Truncate(100))])];
        if per_file {
            table.properties.push(("write.delete.granularity", "file".to_owned()));
        }
        let opened = open(&table).await;
        let mut data = Vec::new();
        for start in [0, 50, 100] {
            data.extend(write(&opened, WriteOptions::default(), &[id_rows(start..start + 50)]).await);
        }
        let mut writer = PositionDeleteWriter::new(&opened, &WriteOptions::default()).unwrap();
        writer.delete(&data[1], [7, 3]).unwrap();
        writer.delete(&data[0], [49]).unwrap();
        writer.delete(&data[1], [3]).unwrap();
        writer.delete(&data[2], 0..50).unwrap();
        assert!(writer.delete(&data[2], [u64::MAX]).is_err());
        let deletes = writer.close().await.unwrap();
        assert_eq!(deletes.len(), if per_file { 3 } else { 2 });
        let mut rows: Vec<_> = deletes.iter().map(|d| d.record_count).collect();
        rows.sort_unstable();
        assert_eq!(rows, if per_file { vec![1, 2, 50] } else { vec![3, 50] });
        for delete in &deletes {
            assert_eq!(delete.content, ContentType::PositionDeletes);
            assert_eq!(delete.sort_order_id, None);
            assert!(delete.file_path.ends_with("-deletes.parquet"), "{}", delete.file_path);
            let (lower, upper) = (FieldId(i32::MAX - 101), FieldId(i32::MAX - 102));
            let path = |b: Option<&[u8]>| String::from_utf8(b.unwrap().to_vec()).unwrap();
            let paths = (path(delete.metrics.lower_bound(lower)), path(delete.metrics.upper_bound(lower)));
            assert_eq!(delete.referenced_data_file.is_some(), paths.0 == paths.1);
            assert_eq!(delete.referenced_data_file.clone().unwrap_or(paths.0.clone()), paths.0);
            assert!(delete.metrics.lower_bound(upper).is_some());
        }
        data.into_iter().for_each(|file| table.push(1, file));
        deletes.into_iter().for_each(|file| table.push(2, file));
        assert_eq!(table.rows("SELECT count(*), sum(id) FROM t").await, ["97 4791"]);
    }
    let mut table = TestTable::new(id_and_s());
    table.format_version = 3;
    assert!(PositionDeleteWriter::new(&open(&table).await, &WriteOptions::default()).is_err());
}

#[tokio::test]
async fn vectors_lie_together_in_a_puffin_file() {
    let mut table = TestTable::new(id_and_s());
    assert!(DeletionVectorWriter::new(&open(&table).await, &WriteOptions::default()).is_err());
    table.format_version = 3;
    let opened = open(&table).await;
    let mut data = Vec::new();
    for start in [0, 50, 100] {
        data.extend(write(&opened, WriteOptions::default(), &[id_rows(start..start + 50)]).await);
    }
    for (target_file_size, puffins) in [(None, 1), (Some(1), 2)] {
        let options = WriteOptions { target_file_size, ..WriteOptions::default() };
        let mut writer = DeletionVectorWriter::new(&opened, &options).unwrap();
        let mut old = crate::spec::DeletionVector::new();
        old.insert(49).unwrap();
        writer.delete(&data[1], [7, 3]).unwrap();
        writer.delete_all(&data[0], &old);
        writer.delete(&data[0], [49, 0]).unwrap();
        writer.delete(&data[2], []).unwrap();
        let deletes = writer.close().await.unwrap();
        assert_eq!(deletes.len(), 2);
        let paths: std::collections::HashSet<_> = deletes.iter().map(|d| &d.file_path).collect();
        assert_eq!(paths.len(), puffins);
        assert!(deletes.iter().all(|d| d.is_deletion_vector() && d.record_count == 2));
        assert!(deletes.iter().all(|d| d.file_path.ends_with("-deletes.puffin")));
        if puffins == 2 {
            data.iter().for_each(|file| table.push(1, file.clone()));
            deletes.into_iter().for_each(|file| table.push(2, file));
        }
    }
    assert_eq!(table.rows("SELECT count(*), sum(id) FROM t").await, ["146 11016"]);
}

#[tokio::test]
async fn keys_are_deleted_in_their_partitions() {
    let mut table = TestTable::new(id_and_s());
    table.specs = vec![by(&[(1, "b", Transform::Truncate(10))])];
    let opened = open(&table).await;
    let data = write(&opened, WriteOptions::default(), &[id_rows(0..30)]).await;
    let options = WriteOptions::default();
    let mut writer = EqualityDeleteWriter::new(&opened, &[FieldId(1)], &options).unwrap();
    writer.write(&batch(&[("id", longs([3, 25, 1000]))])).await.unwrap();
    let by_id = writer.close().await.unwrap();
    assert_eq!(by_id.len(), 3);
    let mut writer = EqualityDeleteWriter::new(&opened, &[FieldId(2)], &options).unwrap();
    let keys = batch(&[("s", strings(&[Some("s1"), None]))]);
    assert!(writer.write(&keys).await.is_err(), "the partition can't be told");
    writer.write_to_partition(vec![Some(Value::Long(10))], &keys).await.unwrap();
    let by_s = writer.close().await.unwrap();
    assert_eq!((by_s.len(), by_s[0].equality_ids.clone()), (1, Some(vec![FieldId(2)])));
    assert_eq!(by_s[0].metrics.null_value_count(FieldId(2)), Some(1));
    data.into_iter().for_each(|file| table.push(1, file));
    by_id.into_iter().chain(by_s).for_each(|file| table.push(2, file));
    // 10, 13, 15, 16 and 19 of the second partition.
    assert_eq!(table.rows("SELECT count(*), sum(id) FROM t").await, ["23 334"]);
    for ids in [vec![], vec![FieldId(77)]] {
        assert!(EqualityDeleteWriter::new(&opened, &ids, &options).is_err());
    }
}

/// Writes the rows of each file of a table that Java wrote again, and compares what is said of them.
async fn compare_with_java(directory: &Path) -> Result<usize> {
    let options = OpenOptions::new().allow_moved_paths(true);
    let original = Table::open(directory.to_str().unwrap(), &options).await?;
    let Some(snapshot) = original.metadata().current_snapshot() else { return Ok(0) };
    let target = tempfile::tempdir().unwrap();
    let mut metadata = TableMetadata::clone(original.metadata());
    metadata.location = target.path().to_str().unwrap().to_owned();
    metadata
        .properties
        .retain(|name, _| name.starts_with("write.metadata.") || name.starts_with("write.parquet."));
    let ours = Table::from_metadata(
        Arc::new(metadata),
        &format!("{}/metadata/v1.metadata.json", target.path().display()),
        &OpenOptions::new(),
    )?;
    let context =
        SessionContext::new_with_config(datafusion::prelude::SessionConfig::new().with_target_partitions(1));
    let provider = IcebergTable::open_with(directory.to_str().unwrap(), &options).await?;
    context.register_table("t", Arc::new(provider.with_metadata_columns()?)).unwrap();
    let columns: Vec<_> = original
        .metadata()
        .current_schema()
        .fields()
        .iter()
        .map(|f| format!("\"{}\"", f.name.replace('"', "\"\"")))
        .collect();
    let mut compared = 0;
    for manifest in original.manifest_list(snapshot).await?.iter() {
        if manifest.content != ManifestContent::Data {
            continue;
        }
        for entry in original.manifest(manifest).await?.entries.iter().filter(|e| e.is_live()) {
            let java = &entry.data_file;
            if java.file_format != crate::spec::FileFormat::Parquet {
                continue;
            }
            let name = java.file_path.rsplit('/').next().unwrap();
            let sql = format!("SELECT {} FROM t WHERE _file LIKE '%{name}'", columns.join(", "));
            let batches = context.sql(&sql).await.map_err(|e| Error::invalid(e.to_string()))?.collect().await;
            let batches = batches.map_err(|e| Error::invalid(e.to_string()))?;
            if batches.iter().map(|b| b.num_rows()).sum::<usize>() as i64 != java.record_count {
                continue;
            }
            let options = WriteOptions { spec_id: Some(java.spec_id), ..WriteOptions::default() };
            let mut writer = DataFileWriter::new(&ours, options)?;
            for batch in &batches {
                writer.write_to_partition(java.partition.clone(), batch).await?;
            }
            let files = writer.close().await?;
            let Some(file) = files.first() else { continue };
            let (want, got) = (java.metrics.to_maps(), file.metrics.to_maps());
            let place = |what: &str, id: &FieldId| {
                let schema = original.metadata().current_schema();
                format!("{} {name} {what} {:?}", directory.display(), schema.full_name(*id))
            };
            let schema = original.metadata().current_schema();
            let known = |id: &FieldId| schema.field_by_id(*id).is_some();
            // Java does not count the floats in null structs at all.
            let is_counted = |id: &FieldId| {
                schema.path_of(*id).is_some_and(|path| {
                    path.len() == 1
                        || !matches!(path[path.len() - 1].field_type, Type::Primitive(P::Float | P::Double))
                })
            };
            for (what, want, got) in [
                ("values", &want.value_counts, &got.value_counts),
                ("nulls", &want.null_value_counts, &got.null_value_counts),
                ("nans", &want.nan_value_counts, &got.nan_value_counts),
            ] {
                for (id, want) in want.iter().filter(|(id, _)| is_counted(id)) {
                    assert_eq!(got.get(id), Some(want), "{}", place(what, id));
                }
            }
            for (what, want, got) in [
                ("lower", &want.lower_bounds, &got.lower_bounds),
                ("upper", &want.upper_bounds, &got.upper_bounds),
            ] {
                for (id, want) in want.iter().filter(|(id, _)| known(id)) {
                    let t = original.metadata().current_schema().field_by_id(*id).unwrap();
                    let t = t.field_type.as_primitive().unwrap();
                    let read = |b: &[u8]| Value::from_bytes(t, b).unwrap();
                    assert_eq!(got.get(id).map(|b| read(b)), Some(read(want)), "{}", place(what, id));
                }
            }
            for id in want.column_sizes.keys().filter(|id| known(id)) {
                assert!(got.column_sizes.contains_key(id), "{}", place("sizes", id));
            }
            compared += 1;
        }
    }
    Ok(compared)
}

#[tokio::test]
async fn metrics_are_those_of_java() {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tables");
    for (table, files) in [("copy_types", 1), ("part_special_chars", 26)] {
        assert_eq!(compare_with_java(&tables.join(table)).await.unwrap(), files, "{table}");
    }
    // More tables, where they are: `ICEFLOE_FIXTURES=directory`.
    let Ok(root) = std::env::var("ICEFLOE_FIXTURES") else { return };
    for group in ["spark_v1", "spark_v2", "spark_v3"] {
        for entry in std::fs::read_dir(Path::new(&root).join(group)).unwrap() {
            let directory = entry.unwrap().path();
            match compare_with_java(&directory).await {
                Ok(files) => println!("{}: {files} files", directory.display()),
                Err(e) => println!("{}: {e}", directory.display()),
            }
        }
    }
}

#[test]
fn binary_arrays_of_any_form_are_taken() {
    // Kept small: forms of strings and bytes are one case.
    let values = BinaryArray::from(vec![Some(b"x".as_slice()), None]);
    let large = arrow::compute::cast(&values, &DataType::LargeBinary).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let table = TestTable::new(vec![NestedField::optional(1, "b", P::Binary)]);
        let files = write(&open(&table).await, WriteOptions::default(), &[batch(&[("b", large)])]).await;
        assert_eq!(files[0].metrics.lower_bound(FieldId(1)), Some(b"x".as_slice()));
    });
}
