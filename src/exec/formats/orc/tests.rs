//! ORC files without Iceberg's attributes, and what of a file is read.

use arrow::array::RecordBatch;
use serde_json::Value as Json;

use super::super::tests::{Ask, check, expected, schema, testdata};
use crate::spec::{NameMapping, NestedField, PrimitiveType as P, Schema};

const FILES: [&str; 4] = ["lz4-1.orc", "v011.orc", "zstd-0.orc", "snappy-0.orc"];

#[tokio::test]
async fn files_without_ids_are_read_by_name() {
    check("no_ids", &FILES, 4 * 40).await;
}

#[tokio::test]
async fn a_mapping_renames() {
    let schema = Schema::new(
        0.into(),
        vec![NestedField::optional(2, "id", P::String), NestedField::required(1, "number", P::Long)],
        vec![],
    )
    .unwrap();
    let mapping = NameMapping::parse(r#"[{"field-id": 1, "names": ["x y", "id"]}]"#).unwrap();
    for file in FILES {
        let ask = Ask { mapping: Some(&mapping), ..Ask::all(&schema) };
        let rows = ask.rows(file, testdata(&format!("no_ids/{file}"))).await.unwrap();
        let wanted: Vec<Json> = (0..40).map(|i| serde_json::json!([null, i])).collect();
        assert_eq!(rows, wanted);
    }
}

#[tokio::test]
async fn only_wanted_columns_come() {
    let schema = schema("no_ids");
    for file in FILES {
        let bytes = testdata(&format!("no_ids/{file}"));
        let ask = Ask { columns: ["st".to_owned(), "b".to_owned()].into(), ..Ask::all(&schema) };
        let batches = ask.read(file, bytes.clone()).await.unwrap();
        let names: Vec<String> = batches[0].schema().fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(names, ["b", "st"]);
        let ask = Ask { columns: Default::default(), ..Ask::all(&schema) };
        let batches = ask.read(file, bytes).await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
    }
}

#[tokio::test]
async fn types_that_do_not_fit_name_the_field() {
    for (name, p) in [("a", P::Int), ("st", P::Int)] {
        let schema = Schema::new(0.into(), vec![NestedField::optional(1, name, p)], vec![]).unwrap();
        let e = Ask::all(&schema).read(FILES[0], testdata("no_ids/lz4-1.orc")).await.unwrap_err().to_string();
        assert!(e.contains(&format!("`{name}`")), "{e}");
    }
}

#[tokio::test]
async fn rows_keep_their_order_in_batches() {
    let schema = schema("no_ids");
    let ask = Ask { batch_size: 7, ..Ask::all(&schema) };
    let rows = ask.rows("lz4-1.orc", testdata("no_ids/lz4-1.orc")).await.unwrap();
    assert_eq!(rows, expected("no_ids"));
}

#[tokio::test]
async fn stripes_follow_each_other() {
    let schema = Schema::new(
        0.into(),
        vec![NestedField::required(1, "id", P::Long), NestedField::optional(2, "s", P::String)],
        vec![],
    )
    .unwrap();
    let bytes = testdata("no_ids/stripes.orc");
    let rows = Ask::all(&schema).rows("stripes.orc", bytes).await.unwrap();
    let text = |i: usize| (!i.is_multiple_of(7)).then(|| format!("row {}{}", i * i, "!".repeat(5000)));
    let wanted: Vec<Json> = (0..900).map(|i| serde_json::json!([i, text(i)])).collect();
    assert_eq!(rows, wanted);
}
