//! What Iceberg's files look like in Avro, rule by rule.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use serde_json::{Value as Json, json};

use super::super::tests::Ask;
use crate::spec::avro::{Codec, ContainerWriter, Encoder};
use crate::spec::{ListType, MapType, NameMapping, NestedField, PrimitiveType as P, Schema, StructType};

fn schema(fields: Vec<NestedField>) -> Schema {
    Schema::new(0.into(), fields, vec![]).unwrap()
}

/// A file of records with these fields.
fn file(fields: Json, rows: &[&dyn Fn(&mut Encoder)]) -> Vec<u8> {
    let avro = json!({"type": "record", "name": "table", "fields": fields});
    let mut writer = ContainerWriter::new(&avro.to_string(), &[], Codec::Null);
    for row in rows {
        row(writer.item());
        writer.end_item().unwrap();
    }
    writer.finish().unwrap()
}

async fn rows(schema: &Schema, file: Vec<u8>) -> Vec<Json> {
    Ask::all(schema).rows("f.avro", file).await.unwrap()
}

async fn error(schema: &Schema, file: Vec<u8>) -> String {
    Ask::all(schema).rows("f.avro", file).await.unwrap_err().to_string()
}

#[tokio::test]
async fn fields_are_found_by_id() {
    let file = file(
        json!([
            {"name": "b", "type": "string", "field-id": 1},
            {"name": "gone", "type": ["null", {"type": "array", "items": "int"}], "field-id": 9},
            {"name": "noid", "type": "int"},
            {"name": "a", "type": {"type": "record", "name": "r3", "fields": [
                {"name": "x", "type": "int", "field-id": 4},
                {"name": "y", "type": "int", "field-id": 5}]}, "field-id": 3}
        ]),
        &[&|e| {
            e.string("one");
            e.long(1);
            e.long(2);
            e.long(7);
            e.long(8);
            e.long(0);
            e.long(99);
            e.long(10);
            e.long(11);
        }],
    );
    let inner = StructType::new(vec![
        NestedField::optional(5, "x", P::Long),
        NestedField::optional(6, "new", P::Int),
    ]);
    let schema = schema(vec![
        NestedField::optional(2, "b", P::String),
        NestedField::optional(3, "s", inner),
        NestedField::required(1, "renamed", P::String),
        NestedField::optional(10, "noid", P::Int),
    ]);
    assert_eq!(rows(&schema, file.clone()).await, [json!([null, {"x": 11, "new": null}, "one", null])]);

    let batches = Ask::all(&schema).read("f.avro", file.clone()).await.unwrap();
    let names: Vec<String> = batches[0].schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["renamed", "s"], "in the file's order, the table's names");

    let ask = Ask { columns: Default::default(), ..Ask::all(&schema) };
    let batches = ask.read("f.avro", file).await.unwrap();
    assert_eq!((batches[0].num_columns(), batches[0].num_rows()), (0, 1), "rows without columns");
}

#[tokio::test]
async fn files_without_ids_are_read_by_name() {
    let file = file(
        json!([
            {"name": "old", "type": "int"},
            {"name": "l", "type": {"type": "array", "items": {"type": "record", "name": "r", "fields": [
                {"name": "p", "type": "int"}, {"name": "q", "type": "int"}]}}}
        ]),
        &[&|e| {
            for v in [5, 1, 6, 7, 0] {
                e.long(v);
            }
        }],
    );
    let item = StructType::new(vec![NestedField::optional(4, "q", P::Int)]);
    let schema = schema(vec![
        NestedField::optional(1, "id", P::Int),
        NestedField::optional(2, "l", ListType::new(3, item, false)),
    ]);
    assert_eq!(rows(&schema, file.clone()).await, [json!([null, [{"q": 7}]])], "the schema's names");
    let mapping = NameMapping::parse(
        r#"[{"field-id": 1, "names": ["new", "old"]}, {"field-id": 2, "names": ["l"], "fields": [
            {"field-id": 3, "names": ["element"], "fields": [{"field-id": 4, "names": ["p"]}]}]}]"#,
    )
    .unwrap();
    let ask = Ask { mapping: Some(&mapping), ..Ask::all(&schema) };
    assert_eq!(ask.rows("f.avro", file).await.unwrap(), [json!([5, [{"q": 6}]])]);
}

#[tokio::test]
async fn a_mapping_is_not_asked_if_any_field_has_an_id() {
    let file = file(
        json!([{"name": "a", "type": "int"}, {"name": "s", "type": {"type": "record", "name": "r", "fields": [
            {"name": "x", "type": "int", "field-id": 7}]}}]),
        &[&|e| {
            e.long(1);
            e.long(2);
        }],
    );
    let schema = schema(vec![NestedField::optional(1, "a", P::Int)]);
    let mapping = NameMapping::from_schema(&schema);
    let ask = Ask { mapping: Some(&mapping), ..Ask::all(&schema) };
    assert_eq!(ask.rows("f.avro", file).await.unwrap(), [json!([null])]);
}

#[tokio::test]
async fn unions_in_either_order() {
    let file = file(
        json!([
            {"name": "a", "type": ["null", "int"], "field-id": 1},
            {"name": "b", "type": ["int", "null"], "field-id": 2},
            {"name": "c", "type": ["int"], "field-id": 3},
            {"name": "d", "type": "null", "field-id": 4}
        ]),
        &[
            &|e| {
                e.long(1);
                e.long(5);
                e.long(0);
                e.long(6);
                e.long(0);
                e.long(7);
            },
            &|e| {
                e.long(0);
                e.long(1);
                e.long(0);
                e.long(8);
            },
        ],
    );
    let schema = schema(
        (1..=4).map(|i| NestedField::optional(i, ["a", "b", "c", "d"][i as usize - 1], P::Int)).collect(),
    );
    assert_eq!(rows(&schema, file).await, [json!([5, 6, 7, null]), json!([null, null, 8, null])]);
}

#[tokio::test]
async fn maps_with_any_keys() {
    let pair = |name: &str, key: &str| {
        json!({"type": "array", "logicalType": "map", "items": {"type": "record", "name": name, "fields": [
            {"name": "key", "type": key, "field-id": 2}, {"name": "value", "type": ["null", "string"], "field-id": 3}]}})
    };
    let schema = |key| schema(vec![NestedField::optional(1, "m", MapType::new(2, key, 3, P::String, false))]);
    let numbers = file(
        json!([{"name": "m", "type": pair("k2_v3", "int"), "field-id": 1}]),
        // Two pairs in a block with its size, one in a block without, none.
        &[
            &|e| {
                e.long(-2);
                e.long(6);
                e.raw(&[2, 2, 2, b'a', 4, 0]);
                e.long(1);
                e.raw(&[6, 2, 2, b'c']);
                e.long(0);
            },
            &|e| e.long(0),
        ],
    );
    let expected = [json!([[[1, "a"], [2, null], [3, "c"]]]), json!([[]])];
    assert_eq!(rows(&schema(P::Int), numbers).await, expected);

    let strings = file(
        json!([{"name": "m", "type": {"type": "map", "values": "string", "key-id": 2, "value-id": 3}, "field-id": 1}]),
        &[&|e| {
            e.long(1);
            e.string("k");
            e.string("v");
            e.long(0);
        }],
    );
    assert_eq!(rows(&schema(P::String), strings).await, [json!([[["k", "v"]]])]);
}

#[tokio::test]
async fn null_keys_are_errors() {
    let file = file(
        json!([{"name": "m", "type": {"type": "array", "items": {"type": "record", "name": "r", "fields": [
            {"name": "key", "type": ["null", "int"]}, {"name": "value", "type": "int"}]}}, "field-id": 1}]),
        &[&|e| e.raw(&[2, 0, 2, 0])],
    );
    let schema = schema(vec![NestedField::optional(1, "m", MapType::new(2, P::Int, 3, P::Int, false))]);
    assert!(error(&schema, file).await.contains("null key"));
}

#[tokio::test]
async fn what_numbers_mean() {
    let long =
        |logical: &str, utc: Json| json!({"type": "long", "logicalType": logical, "adjust-to-utc": utc});
    let file = file(
        json!([
            {"name": "ts", "type": long("timestamp-micros", json!(false)), "field-id": 1},
            {"name": "tz", "type": long("timestamp-micros", json!(true)), "field-id": 2},
            {"name": "local", "type": long("local-timestamp-micros", json!(null)), "field-id": 3},
            {"name": "ns", "type": long("timestamp-nanos", json!(false)), "field-id": 4},
            {"name": "tzns", "type": long("timestamp-nanos", json!(true)), "field-id": 5},
            {"name": "t", "type": long("time-micros", json!(null)), "field-id": 6},
            {"name": "millis", "type": long("timestamp-millis", json!(null)), "field-id": 7},
            {"name": "unsaid", "type": {"type": "long", "logicalType": "timestamp-micros"}, "field-id": 8}
        ]),
        &[&|e| (1..=8).for_each(|v| e.long(v))],
    );
    let fields = [P::Timestamp, P::Timestamptz, P::Timestamp, P::TimestampNs, P::TimestamptzNs, P::Time];
    let fields = fields.into_iter().chain([P::Timestamptz, P::Timestamptz]);
    let fields =
        fields.enumerate().map(|(i, p)| NestedField::optional(i as i32 + 1, format!("c{i}"), p)).collect();
    let schema = schema(fields);
    let batch = Ask::all(&schema).read("f.avro", file).await.unwrap().remove(0);
    let types: Vec<DataType> = batch.columns().iter().map(|c| c.data_type().clone()).collect();
    let timestamp = |unit, utc: bool| DataType::Timestamp(unit, utc.then(|| "UTC".into()));
    use TimeUnit::{Microsecond, Millisecond, Nanosecond};
    let expected = [
        timestamp(Microsecond, false),
        timestamp(Microsecond, true),
        timestamp(Microsecond, false),
        timestamp(Nanosecond, false),
        timestamp(Nanosecond, true),
        DataType::Time64(Microsecond),
        timestamp(Millisecond, true),
        timestamp(Microsecond, true),
    ];
    assert_eq!(types, expected);
    assert_eq!(batch.column(0).as_primitive::<TimestampMicrosecondType>().value(0), 1);
    assert_eq!(batch.column(4).as_primitive::<TimestampNanosecondType>().value(0), 5);
}

#[tokio::test]
async fn uuids_and_decimals_in_any_encoding() {
    let decimal = |t: &str| json!({"type": t, "name": "d", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2});
    let file = file(
        json!([
            {"name": "u", "type": {"type": "string", "logicalType": "uuid"}, "field-id": 1},
            {"name": "d", "type": decimal("bytes"), "field-id": 2},
            {"name": "e", "type": decimal("fixed"), "field-id": 3}
        ]),
        &[&|e| {
            e.string("00112233-4455-6677-8899-aabbccddeeff");
            e.bytes(&[0xff]);
            e.raw(&[0, 1, 0]);
        }],
    );
    let decimal = P::Decimal { precision: 5, scale: 2 };
    let wider = P::Decimal { precision: 20, scale: 2 };
    let schema = schema(vec![
        NestedField::required(1, "u", P::Uuid),
        NestedField::required(2, "d", decimal),
        NestedField::required(3, "e", wider),
    ]);
    let expected = json!(["00112233-4455-6677-8899-aabbccddeeff", "-0.01", "2.56"]);
    assert_eq!(rows(&schema, file).await, [expected]);
}

#[tokio::test]
async fn variants_are_structs_of_bytes() {
    let file = file(
        json!([{"name": "v", "type": {"type": "record", "name": "r", "logicalType": "variant", "fields": [
            {"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}]}, "field-id": 1}]),
        &[&|e| {
            e.bytes(&[1, 0, 0]);
            e.bytes(&[0]);
        }],
    );
    let schema = schema(vec![NestedField::optional(1, "v", crate::spec::Type::Variant)]);
    let batch = Ask::all(&schema).read("f.avro", file).await.unwrap().remove(0);
    let v = batch.column(0).as_struct();
    assert_eq!(v.column_by_name("metadata").unwrap().as_binary::<i32>().value(0), [1, 0, 0]);
    assert_eq!(v.column_by_name("value").unwrap().as_binary::<i32>().value(0), [0]);
}

#[tokio::test]
async fn shredded_variants_are_refused_by_name() {
    let parts = ["metadata", "value", "typed_value"].map(|name| json!({"name": name, "type": "bytes"}));
    let variant = json!({"type": "record", "name": "r", "logicalType": "variant", "fields": parts});
    let file = file(json!([{"name": "x", "type": variant, "field-id": 1}]), &[]);
    let e = error(&schema(vec![NestedField::optional(1, "wanted", crate::spec::Type::Variant)]), file).await;
    assert!(e.contains("`wanted`") && e.contains("shredded avro variant"), "{e}");
}

#[tokio::test]
async fn types_that_do_not_fit_name_the_field() {
    let list = NestedField::optional(1, "wanted", ListType::new(2, P::Int, false));
    let int = NestedField::optional(1, "wanted", P::Int);
    let string = file(json!([{"name": "x", "type": "string", "field-id": 1}]), &[]);
    let array = file(json!([{"name": "x", "type": {"type": "array", "items": "int"}, "field-id": 1}]), &[]);
    let union = file(json!([{"name": "x", "type": ["int", "string"], "field-id": 1}]), &[]);
    for (field, file) in [(list, string), (int.clone(), array), (int.clone(), union)] {
        let e = error(&schema(vec![field]), file).await;
        assert!(e.contains("`wanted`"), "{e}");
    }
    let twice =
        json!([{"name": "x", "type": "int", "field-id": 1}, {"name": "y", "type": "int", "field-id": 1}]);
    assert!(error(&schema(vec![int]), file(twice, &[])).await.contains("two fields with id 1"));
}

#[tokio::test]
async fn rows_of_many_blocks_and_pieces() {
    // More than the header and two pieces that are fetched at once.
    let doc = "x".repeat(100_000);
    let avro = json!({"type": "record", "name": "table", "doc": doc, "fields": [
        {"name": "a", "type": "int", "field-id": 1}, {"name": "s", "type": "string", "field-id": 2}]});
    let mut writer = ContainerWriter::new(&avro.to_string(), &[], Codec::Null);
    let long = "y".repeat(3000);
    for i in 0..3001 {
        writer.item().long(i);
        writer.item().string(if i == 1500 { "short" } else { &long });
        writer.end_item().unwrap();
    }
    let file = writer.finish().unwrap();
    assert!(file.len() > 9_000_000);
    let schema =
        schema(vec![NestedField::optional(1, "a", P::Long), NestedField::optional(2, "s", P::String)]);
    let ask = Ask { batch_size: 1000, ..Ask::all(&schema) };
    let batches = ask.read("f.avro", file.clone()).await.unwrap();
    let sizes: Vec<usize> = batches.iter().map(|b| b.num_rows()).collect();
    assert_eq!(sizes, [1000, 1000, 1000, 1]);
    let ids = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int32Type>().values().to_vec());
    assert!(ids.eq(0..3001));
    assert_eq!(batches[1].column(1).as_string::<i32>().value(500), "short");

    let cut = file[..file.len() - 100].to_vec();
    assert!(ask.read("f.avro", cut).await.unwrap_err().to_string().contains("within a block"));
}

#[tokio::test]
async fn items_without_bytes_are_bounded() {
    let schema = schema(vec![NestedField::optional(
        1,
        "l",
        ListType::new(2, StructType::new(vec![NestedField::optional(3, "n", P::Int)]), false),
    )]);
    let fields = json!([{"name": "l", "type": {"type": "array", "items": {"type": "record", "name": "r", "fields": [
        {"name": "n", "type": "null", "field-id": 3}]}}, "field-id": 1}]);
    let few = file(fields.clone(), &[&|e| e.raw(&[2, 0])]);
    assert_eq!(rows(&schema, few).await, [json!([[{"n": null}]])]);
    let bomb = file(fields, &[&|e| (0..10_000).for_each(|_| e.long(9000))]);
    assert!(error(&schema, bomb).await.contains("more items than bytes"));
}

#[tokio::test]
async fn a_column_of_longs_keeps_its_values() {
    let file = file(
        json!([{"name": "a", "type": "long", "field-id": 1}]),
        &[&|e| e.long(i64::MIN), &|e| e.long(i64::MAX)],
    );
    let schema = schema(vec![NestedField::required(1, "a", P::Long)]);
    let batch = Ask::all(&schema).read("f.avro", file).await.unwrap().remove(0);
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values().to_vec(), [i64::MIN, i64::MAX]);
    assert!(!batch.schema().field(0).is_nullable());
    assert_eq!(batch.column(0).null_count(), 0);
}
