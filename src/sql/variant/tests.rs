//! Variants and geometries from files to SQL.

use std::path::Path;

use datafusion::arrow::array::{
    BinaryArray, Int32Array, ListArray, MapArray, RecordBatch, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{Fields, Schema as ArrowSchema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use parquet::arrow::ArrowWriter;
use parquet_variant_compute::{json_to_variant, shred_variant};

use super::*;
use crate::IcebergTable;
use crate::arrow::FIELD_ID_KEY;
use crate::spec::{
    Codec, ContentFile, ContentType, FieldId, FileFormat, ListType, ManifestContent, ManifestListWriter,
    ManifestListWriterOptions, ManifestWriter, ManifestWriterOptions, MapType, MetricMaps, NestedField,
    PartitionSpec, PrimitiveType as P, Schema, SchemaId, SequenceNumber, SnapshotId, SpecId, StructType,
    Type,
};
use crate::sql::{IcebergSql, session_state_builder};

fn schema() -> Schema {
    let variant = |id, name: &str| NestedField::optional(id, name, Type::Variant);
    let fields = vec![
        NestedField::required(1, "id", P::Int),
        variant(2, "v"),
        NestedField::optional(3, "l", ListType { element: Box::new(variant(4, "element")) }),
        NestedField::optional(5, "s", StructType::new(vec![variant(6, "value")])),
        NestedField::optional(
            7,
            "m",
            MapType {
                key: Box::new(NestedField::required(8, "key", P::String)),
                value: Box::new(variant(9, "value")),
            },
        ),
        NestedField::optional(10, "g", P::Geometry { crs: None }),
        NestedField::optional(11, "w", P::Geography { crs: None, algorithm: Some("karney".into()) }),
    ];
    Schema::new(SchemaId(0), fields, Vec::new()).unwrap()
}

/// Variants shredded as a type, or whole.
fn variants(rows: &[Option<&str>], as_type: Option<&DataType>) -> ArrayRef {
    let whole = json_to_variant(&(Arc::new(StringArray::from(rows.to_vec())) as ArrayRef)).unwrap();
    let array = as_type.map_or_else(|| whole.clone(), |t| shred_variant(&whole, t).unwrap());
    Arc::new(array.into_inner())
}

fn with_id(name: &str, id: i32, array: &ArrayRef) -> Field {
    Field::new(name, array.data_type().clone(), name != "key")
        .with_metadata([(FIELD_ID_KEY.to_owned(), id.to_string())].into())
}

/// Four rows as a file; where variants lie in something, each row has one.
fn batch(first: i32, as_type: Option<&DataType>) -> RecordBatch {
    let rows = [
        Some(r#"{"a": 1, "b": "x", "c": [1.5, null]}"#),
        None,
        Some("null"),
        Some(r#"{"a": "no number", "b": 2}"#),
    ];
    let v = variants(&rows, as_type);
    let inner = variants(&[Some(r#"{"a": 5}"#), Some("7"), None, Some("null")], as_type);
    let offsets = || OffsetBuffer::<i32>::from_lengths([1, 1, 1, 1]);
    let list = ListArray::new(Arc::new(with_id("element", 4, &inner)), offsets(), Arc::clone(&inner), None);
    let group = StructArray::new(
        Fields::from(vec![with_id("value", 6, &inner)]),
        vec![Arc::clone(&inner)],
        Some(NullBuffer::from(vec![true, true, true, false])),
    );
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["k"; 4]));
    let pair = Fields::from(vec![with_id("key", 8, &keys), with_id("value", 9, &inner)]);
    let pairs = StructArray::new(pair, vec![keys, inner], None);
    let entries = Field::new("key_value", pairs.data_type().clone(), false);
    let map = MapArray::new(Arc::new(entries), offsets(), pairs, None, false);
    let points: Vec<Vec<u8>> = (0..4).map(|i| point(first + i)).collect();
    let points = || Arc::new(BinaryArray::from_iter_values(&points)) as ArrayRef;
    let columns: Vec<(&str, i32, ArrayRef)> = vec![
        ("id", 1, Arc::new(Int32Array::from_iter_values(first..first + 4))),
        // The name that the column had once; that of a part of it must not be taken for a column.
        ("metadata", 2, v),
        ("l", 3, Arc::new(list)),
        ("s", 5, Arc::new(group)),
        ("m", 7, Arc::new(map)),
        ("g", 10, points()),
        ("w", 11, points()),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, id, array)| with_id(name, *id, array)).collect();
    let columns = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns).unwrap()
}

/// A point as WKB.
fn point(x: i32) -> Vec<u8> {
    let mut bytes = vec![1, 1, 0, 0, 0];
    bytes.extend(f64::from(x).to_le_bytes());
    bytes.extend(0_f64.to_le_bytes());
    bytes
}

fn write_file(path: &Path, batch: &RecordBatch) -> ContentFile {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    // Bounds of geometries are points, and those of variants are variants: as bytes they would
    // exclude every row.
    let columns = [2, 10, 11].map(FieldId);
    let maps = MetricMaps {
        value_counts: columns.map(|id| (id, batch.num_rows() as i64)).into(),
        null_value_counts: columns.map(|id| (id, 0)).into(),
        lower_bounds: columns.map(|id| (id, vec![0xff; 16].into())).into(),
        upper_bounds: columns.map(|id| (id, vec![0xff; 16].into())).into(),
        ..MetricMaps::default()
    };
    ContentFile {
        content: ContentType::Data,
        file_path: path.to_str().unwrap().to_owned(),
        file_format: FileFormat::Parquet,
        spec_id: SpecId(0),
        partition: Vec::new(),
        record_count: batch.num_rows() as i64,
        file_size_in_bytes: std::fs::metadata(path).unwrap().len() as i64,
        metrics: maps.into(),
        key_metadata: None,
        split_offsets: None,
        equality_ids: None,
        sort_order_id: None,
        first_row_id: None,
        referenced_data_file: None,
        content_offset: None,
        content_size_in_bytes: None,
    }
}

/// A session with a table `t` of a file with shredded variants (ids 1 to 4) and one without.
async fn session(dir: &Path) -> SessionContext {
    let object = DataType::Struct(Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("d", DataType::Utf8, true),
    ]));
    let shredded = batch(1, Some(&object));
    assert!(format!("{:?}", shredded.schema()).contains("typed_value"));
    let files =
        [write_file(&dir.join("a.parquet"), &shredded), write_file(&dir.join("b.parquet"), &batch(5, None))];
    let (schema, spec) = (schema(), PartitionSpec::default());
    let mut manifest = ManifestWriter::new(ManifestWriterOptions {
        format_version: 3,
        schema: &schema,
        spec: &spec,
        partition_type: &spec.partition_type(&schema),
        content: ManifestContent::Data,
        snapshot_id: Some(SnapshotId(1)),
        codec: Codec::Null,
    })
    .unwrap();
    for file in &files {
        manifest.add(file, None).unwrap();
    }
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (bytes, mut described) = manifest.finish(path("m.avro")).unwrap();
    std::fs::write(path("m.avro"), bytes).unwrap();
    described.sequence_number = SequenceNumber(1);
    described.min_sequence_number = SequenceNumber(1);
    described.first_row_id = Some(0);
    let mut list = ManifestListWriter::new(ManifestListWriterOptions {
        format_version: 3,
        snapshot_id: SnapshotId(1),
        parent_snapshot_id: None,
        sequence_number: SequenceNumber(1),
        first_row_id: Some(0),
        codec: Codec::Null,
    })
    .unwrap();
    list.add(&described).unwrap();
    std::fs::write(path("snap.avro"), list.finish().unwrap()).unwrap();
    let metadata = serde_json::json!({
        "format-version": 3, "table-uuid": "11111111-2222-3333-4444-555555555555", "location": path(""),
        "last-sequence-number": 1, "last-updated-ms": 0, "last-column-id": 11, "current-schema-id": 0,
        "schemas": [schema.to_json().unwrap()], "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], "properties": {},
        "current-snapshot-id": 1, "refs": {"main": {"snapshot-id": 1, "type": "branch"}}, "next-row-id": 8,
        "snapshots": [{"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 0, "first-row-id": 0,
            "added-rows": 8, "manifest-list": path("snap.avro"), "summary": {"operation": "append"},
            "schema-id": 0}],
    });
    std::fs::write(path("v1.metadata.json"), metadata.to_string()).unwrap();
    let context = SessionContext::new_with_state(session_state_builder().build());
    let table = IcebergTable::open(&path("v1.metadata.json")).await.unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

/// The rows, one a line, with `|` between the columns.
async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    let batches = context.iceberg_sql(sql).await.unwrap().collect().await.unwrap();
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let lines = table.lines().skip(3).filter(|l| !l.starts_with('+'));
    lines.map(|l| l.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join("|")).collect()
}

#[tokio::test]
async fn shredded_and_whole_files_read_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let context = session(dir.path()).await;
    let inner = [r#"{"a":5}"#, "7", "", ""];
    let rest = [
        (r#"{"a":1,"b":"x","c":[1.5,null]}"#, "false|false", r#"{"a":5}|false"#),
        ("", "true|false", "7|false"),
        ("", "false|true", "|false"),
        (r#"{"a":"no number","b":2}"#, "false|false", "|false"),
    ];
    let expected: Vec<String> = (1..=8)
        .map(|id: usize| {
            let at = (id - 1) % 4;
            let (v, nulls, s) = rest[at];
            // An element may be the variant null, too; that of a null struct isn't.
            let (in_list, list_null) = (inner[at], at == 3);
            format!("{id}|{v}|{nulls}|{in_list}|{list_null}|{s}|{in_list}")
        })
        .collect();
    let sql = "SELECT id, variant_to_json(v), v IS NULL, is_variant_null(v), variant_to_json(l[1]), \
               is_variant_null(l[1]), variant_to_json(s['value']), is_variant_null(s['value']), \
               variant_to_json(m['k']) FROM t ORDER BY id";
    assert_eq!(rows(&context, sql).await, expected);
}

#[tokio::test]
async fn filters_on_variants_and_their_parts() {
    let dir = tempfile::tempdir().unwrap();
    let context = session(dir.path()).await;
    for (filter, expected) in [
        ("v IS NULL", "2 6"),
        ("v IS NOT NULL", "1 3 4 5 7 8"),
        ("is_variant_null(v)", "3 7"),
        ("variant_get(v, '$.a', 'int') = 1", "1 5"),
        ("variant_get(v, 'b', 'string') = 'x'", "1 5"),
        ("variant_get(v, '$.c[0]', 'decimal(3,1)') = 1.5 AND id > 1", "5"),
        ("variant_get(v, '$.a', 'int') IS NULL AND v IS NOT NULL", "3 4 7 8"),
        ("is_variant_null(variant_get(v, '$.c[1]'))", "1 5"),
        ("variant_to_json(s['value']) = '7'", "2 6"),
    ] {
        let found = rows(&context, &format!("SELECT id FROM t WHERE {filter} ORDER BY id")).await;
        assert_eq!(found.join(" "), expected, "{filter}");
    }
    let grouped =
        "SELECT variant_get(v, '$.b', 'string') AS b, count(*), count(v) FROM t GROUP BY b ORDER BY b";
    assert_eq!(rows(&context, grouped).await, ["2|2|2", "x|2|2", "|4|2"]);
    assert_eq!(rows(&context, "SELECT count(*) FROM (SELECT DISTINCT v, g FROM t)").await, ["8"]);
}

#[tokio::test]
async fn geometries_are_bytes_and_not_pruned_by_their_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let context = session(dir.path()).await;
    let hex = |x: i32| point(x).iter().map(|b| format!("{b:02X}")).collect::<String>();
    // As bytes, which have another order than the points.
    let that = |test: &dyn Fn(&Vec<u8>) -> bool| {
        let ids = (1..=8).filter(|x| test(&point(*x))).map(|x| x.to_string());
        ids.collect::<Vec<_>>()
    };
    for column in ["g", "w"] {
        for (test, expected) in [
            ("=", that(&|p| *p == point(6))),
            ("<", that(&|p| *p < point(6))),
            (">=", that(&|p| *p >= point(6))),
            ("<>", that(&|p| *p != point(6))),
        ] {
            let sql = format!("SELECT id FROM t WHERE {column} {test} X'{}' ORDER BY id", hex(6));
            assert_eq!(rows(&context, &sql).await, expected, "{sql}");
        }
        let sql = format!("SELECT count(*) FROM t WHERE {column} IS NOT NULL");
        assert_eq!(rows(&context, &sql).await, ["8"]);
        let greatest = (1..=8).max_by_key(|x| point(*x)).unwrap();
        let sql = format!("SELECT encode(max({column}), 'hex') FROM t");
        assert_eq!(rows(&context, &sql).await, [hex(greatest).to_lowercase()], "not from statistics");
    }
    let frame = context.sql("SELECT g, w, v FROM t").await.unwrap();
    let metadata = |name: &str| frame.schema().field_with_unqualified_name(name).unwrap().metadata().clone();
    assert_eq!(metadata("g")["ARROW:extension:name"], "geoarrow.wkb");
    assert!(metadata("w")["ARROW:extension:metadata"].contains("karney"));
    let extracted = context.sql("SELECT variant_get(v, 'a') AS a FROM t").await.unwrap();
    let batch = extracted.collect().await.unwrap().remove(0);
    for metadata in [metadata("v"), batch.schema().field(0).metadata().clone()] {
        assert_eq!(metadata["ARROW:extension:name"], "arrow.parquet.variant");
    }
}

#[tokio::test]
async fn arguments_that_make_no_sense() {
    let dir = tempfile::tempdir().unwrap();
    let context = session(dir.path()).await;
    for (call, part) in [
        ("variant_to_json(id)", "Int32"),
        ("variant_to_json(g)", "BinaryView"),
        ("variant_get(v, '$.a', 'money')", "`money`"),
        ("variant_get(v, '$[')", "`$[`"),
        ("variant_get(v, 1)", "path"),
        ("variant_get(v, '$.a', variant_to_json(v))", "literal"),
        ("variant_get(v, variant_to_json(v))", "path"),
    ] {
        let failed = match context.iceberg_sql(&format!("SELECT {call} FROM t")).await {
            Ok(frame) => frame.collect().await.map(|_| ()),
            Err(e) => Err(e),
        };
        let error = failed.unwrap_err().to_string();
        let name = call.split('(').next().unwrap();
        assert!(error.contains(part) && error.contains(name), "{call}: {error}");
    }
    let nulls = "SELECT variant_to_json(NULL), variant_get(NULL, '$'), is_variant_null(NULL), \
                 variant_get(v, NULL) FROM t LIMIT 1";
    assert_eq!(rows(&context, nulls).await, ["||false|"]);
    let per_row =
        "SELECT variant_get(v, CASE WHEN id = 1 THEN 'a' ELSE 'b' END, 'string') FROM t ORDER BY id";
    assert_eq!(rows(&context, per_row).await, ["1", "", "", "2", "x", "", "", "2"]);
}
