//! Files that other engines wrote, whole and broken; see `testdata/files/README.md`.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value as Json, json};

use super::super::nested::{missing_value, read_as};
use super::{OpenedFile, Piece, StoredFile, Wanted, open_avro, open_orc};
use crate::arrow::to_arrow_schema;
use crate::error::Result;
use crate::spec::{NameMapping, NestedField, PrimitiveType, Schema, Type};

/// What a test asks for.
pub(super) struct Ask<'a> {
    pub(super) schema: &'a Schema,
    pub(super) mapping: Option<&'a NameMapping>,
    pub(super) columns: HashSet<String>,
    pub(super) batch_size: usize,
}

impl<'a> Ask<'a> {
    /// All columns.
    pub(super) fn all(schema: &'a Schema) -> Self {
        let columns = schema.fields().iter().map(|f| f.name.clone()).collect();
        Self { schema, mapping: None, columns, batch_size: 1000 }
    }

    pub(super) async fn open(&self, name: &str, bytes: Vec<u8>) -> Result<OpenedFile> {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from(name);
        let size = bytes.len() as u64;
        store.put(&path, bytes.into()).await.unwrap();
        self.open_stored(StoredFile { store, path, size }).await
    }

    async fn open_stored(&self, file: StoredFile) -> Result<OpenedFile> {
        let Ask { schema, mapping, columns, batch_size } = self;
        let wanted = Wanted { schema, mapping: *mapping, columns, batch_size: *batch_size };
        match file.path.extension() {
            Some("avro") => open_avro(file, &wanted).await,
            _ => open_orc(file, &wanted).await,
        }
    }

    pub(super) async fn read(&self, name: &str, bytes: Vec<u8>) -> Result<Vec<RecordBatch>> {
        batches(self.open(name, bytes).await?).await
    }

    /// The rows as the table has them, in JSON.
    pub(super) async fn rows(&self, name: &str, bytes: Vec<u8>) -> Result<Vec<Json>> {
        let target = to_arrow_schema(self.schema).unwrap();
        let mut rows = Vec::new();
        for batch in self.read(name, bytes).await? {
            let mut columns = Vec::new();
            for (field, target) in self.schema.fields().iter().zip(target.fields()) {
                let array = match batch.column_by_name(&field.name) {
                    Some(array) => read_as(array, field, target)?,
                    None => missing_value(field, target)?.to_array_of_size(batch.num_rows()).unwrap(),
                };
                assert_eq!(array.data_type(), target.data_type());
                columns.push((array, &field.field_type));
            }
            for row in 0..batch.num_rows() {
                rows.push(columns.iter().map(|(array, t)| to_json(array, row, t)).collect());
            }
        }
        Ok(rows)
    }
}

/// The batches of a file that is not pruned.
pub(super) async fn batches(mut opened: OpenedFile) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    while let Some(piece) = opened.rows.next().await? {
        let Piece::Rows(batch) = piece else { panic!("rows are skipped") };
        assert_eq!(batch.schema(), opened.schema);
        batches.push(batch);
    }
    Ok(batches)
}

pub(super) fn testdata(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/testdata/files/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

pub(super) fn schema(table: &str) -> Schema {
    let json: Json = serde_json::from_slice(&testdata(&format!("{table}/schema.json"))).unwrap();
    Schema::from_json(&json).unwrap()
}

pub(super) fn expected(table: &str) -> Vec<Json> {
    let text = String::from_utf8(testdata(&format!("{table}/rows.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A value in the form of the golden tables' answers.
fn to_json(array: &ArrayRef, row: usize, t: &Type) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let float = |v: f64| match v {
        v if v.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        v => json!(v),
    };
    let text = |timestamp: &str| {
        let options = FormatOptions::new()
            .with_timestamp_format(Some(timestamp))
            .with_timestamp_tz_format(Some(timestamp));
        ArrayFormatter::try_new(array, &options).unwrap().value(row).to_string()
    };
    let p = match t {
        Type::Struct(s) => {
            let columns = array.as_struct().columns();
            let fields = s.fields.iter().zip(columns);
            return fields.map(|(f, c)| (f.name.clone(), to_json(c, row, &f.field_type))).collect();
        }
        Type::List(l) => {
            let items = array.as_list::<i32>().value(row);
            return (0..items.len()).map(|i| to_json(&items, i, &l.element.field_type)).collect();
        }
        Type::Map(m) => {
            let pairs = array.as_map().value(row);
            let (keys, values) = (pairs.column(0), pairs.column(1));
            let mut pairs: Vec<Json> = (0..pairs.len())
                .map(|i| {
                    json!([to_json(keys, i, &m.key.field_type), to_json(values, i, &m.value.field_type)])
                })
                .collect();
            pairs.sort_by_key(|p| p[0].to_string());
            return pairs.into();
        }
        Type::Primitive(p) => p,
        Type::Variant => panic!("a variant has no answer"),
    };
    use PrimitiveType as P;
    match p {
        P::Boolean => array.as_boolean().value(row).into(),
        P::Int => array.as_primitive::<Int32Type>().value(row).into(),
        P::Long => array.as_primitive::<Int64Type>().value(row).into(),
        P::Float => float(array.as_primitive::<Float32Type>().value(row).into()),
        P::Double => float(array.as_primitive::<Float64Type>().value(row)),
        P::Date => {
            assert!(array.as_primitive_opt::<Date32Type>().is_some());
            text("").into()
        }
        P::Decimal { .. } => text("").into(),
        P::Timestamp => text("%Y-%m-%dT%H:%M:%S%.6f").into(),
        P::Timestamptz => text("%Y-%m-%dT%H:%M:%S%.6f%:z").into(),
        P::String => cast(array, &DataType::Utf8).unwrap().as_string::<i32>().value(row).into(),
        P::Uuid => {
            uuid::Uuid::from_slice(array.as_fixed_size_binary().value(row)).unwrap().to_string().into()
        }
        P::Fixed(_) => hex(array.as_fixed_size_binary().value(row)).into(),
        P::Binary => hex(cast(array, &DataType::Binary).unwrap().as_binary::<i32>().value(row)).into(),
        other => panic!("a {other} has no answer"),
    }
}

/// The rows of `files` are among the table's expected rows, `count` in all.
pub(super) async fn check(table: &str, files: &[&str], count: usize) {
    let schema = schema(table);
    let expected = expected(table);
    let mut found = 0;
    for file in files {
        for batch_size in [1, 1000] {
            let ask = Ask { batch_size, ..Ask::all(&schema) };
            let rows = ask.rows(file, testdata(&format!("{table}/{file}"))).await.unwrap();
            for row in &rows {
                let id = &row[0];
                let wanted = expected.iter().find(|e| e[0] == *id);
                assert_eq!(Some(row), wanted, "{table}/{file}");
            }
            found += rows.len();
        }
    }
    assert_eq!(found, 2 * count, "{table}");
}

#[tokio::test]
async fn every_type_in_avro_and_orc() {
    check("all_types", &["data-1.orc", "data-2.avro"], 2).await;
}

#[tokio::test]
async fn every_codec_of_avro() {
    let files: Vec<String> = (1..=7).map(|n| format!("data-{n}.avro")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    check("v1_avro", &files, 7).await;
}

#[tokio::test]
async fn every_codec_of_orc() {
    check("v1_orc", &["data-1.orc", "data-2.orc", "data-3.orc"], 4).await;
}

#[tokio::test]
async fn names_that_avro_can_not_hold() {
    check("weird_column_names", &["data-1.avro", "data-2.orc"], 2).await;
}

#[tokio::test]
async fn files_without_rows() {
    let schema =
        Schema::new(0.into(), vec![NestedField::required(1, "id", PrimitiveType::Long)], vec![]).unwrap();
    for file in ["zero_rows/data-1.orc", "zero_rows/data-2.avro"] {
        let ask = Ask::all(&schema);
        assert_eq!(ask.open(file, testdata(file)).await.unwrap().schema.fields().len(), 1);
        assert!(ask.read(file, testdata(file)).await.unwrap().is_empty());
    }
    for file in ["empty.orc", "empty.avro"] {
        assert!(Ask::all(&schema).read(file, Vec::new()).await.is_err());
    }
}

#[tokio::test]
async fn position_deletes() {
    let schema = schema("position_deletes");
    for (file, positions) in [("deletes-1.orc", vec![1]), ("deletes-2.avro", vec![3, 4, 9])] {
        let rows = Ask::all(&schema).rows(file, testdata(&format!("position_deletes/{file}"))).await.unwrap();
        let found: Vec<i64> = rows.iter().map(|r| r[1].as_i64().unwrap()).collect();
        assert_eq!(found, positions, "{file}");
        assert!(rows.iter().all(|r| r[0].as_str().unwrap().starts_with("file:/tmp/fixtures/spark_v2/")));
    }
}

#[tokio::test]
async fn a_size_that_is_too_large_is_an_error() {
    let schema = schema("v1_orc");
    for file in ["v1_orc/data-1.orc", "v1_avro/data-1.avro"] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from(file);
        let bytes = testdata(file);
        let size = bytes.len() as u64 + 100_000;
        store.put(&path, bytes.into()).await.unwrap();
        let failed = match Ask::all(&schema).open_stored(StoredFile { store, path, size }).await {
            Ok(opened) => batches(opened).await.is_err(),
            Err(_) => true,
        };
        assert!(failed, "{file}");
    }
}

const FILES: [&str; 19] = [
    "all_types/data-1.orc",
    "all_types/data-2.avro",
    "position_deletes/deletes-1.orc",
    "position_deletes/deletes-2.avro",
    "v1_avro/data-1.avro",
    "v1_avro/data-2.avro",
    "v1_avro/data-4.avro",
    "v1_avro/data-5.avro",
    "v1_avro/data-6.avro",
    "v1_avro/data-7.avro",
    "v1_orc/data-1.orc",
    "v1_orc/data-2.orc",
    "v1_orc/data-3.orc",
    "weird_column_names/data-1.avro",
    "weird_column_names/data-2.orc",
    "no_ids/lz4-1.orc",
    "no_ids/snappy-0.orc",
    "no_ids/v011.orc",
    "no_ids/zstd-0.orc",
];

fn schema_of(file: &str) -> Schema {
    schema(file.split('/').next().unwrap())
}

#[tokio::test]
async fn truncated_files_are_errors() {
    for file in FILES {
        let schema = schema_of(file);
        let bytes = testdata(file);
        let step = if bytes.len() > 3000 { 37 } else { 5 };
        for cut in (0..bytes.len()).step_by(step) {
            let read = Ask::all(&schema).read(file, bytes[..cut].to_vec()).await;
            // After the header, an Avro file may end.
            let may_end = file.ends_with(".avro") && read.as_ref().is_ok_and(Vec::is_empty);
            assert!(read.is_err() || may_end, "{file} cut at {cut}");
        }
    }
}

#[tokio::test]
async fn changed_files_never_panic() {
    for file in FILES {
        let schema = schema_of(file);
        let bytes = testdata(file);
        let step = if bytes.len() > 3000 { 11 } else { 3 };
        for at in (0..bytes.len()).step_by(step) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            let _ = Ask::all(&schema).read(file, changed).await;
        }
    }
}
