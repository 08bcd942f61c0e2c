//! ORC files without Iceberg's attributes, and what of a file is read.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use serde_json::Value as Json;

use super::super::tests::{Ask, check, expected, schema, testdata};
use super::super::{OpenedFile, Piece};
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

/// `id` >= this.
fn from(opened: &OpenedFile, id: i64) -> Arc<PruningPredicate> {
    let column = Arc::new(Column::new_with_schema("id", &opened.schema).unwrap());
    let filter: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(column, Operator::GtEq, lit(id)));
    PruningPredicateBuilder::new().with_file_schema(Arc::clone(&opened.schema)).build(filter).unwrap()
}

/// The rows of each piece; negative those passed over.
async fn pieces(mut opened: OpenedFile) -> Vec<i64> {
    let mut pieces = Vec::new();
    while let Some(piece) = opened.rows.next().await.unwrap() {
        pieces.push(match piece {
            Piece::Rows(batch) => batch.num_rows() as i64,
            Piece::Skipped(rows) => -(rows as i64),
        });
    }
    pieces
}

#[tokio::test]
async fn stripes_are_passed_over_by_their_statistics() {
    let schema = schema("stripes");
    let bytes = testdata("stripes/data-1.orc");
    for (id, passed) in [(i64::MIN, 0), (0, 0), (49, 0), (50, 1), (399, 7), (400, 8), (i64::MAX, 8)] {
        let mut opened = Ask::all(&schema).open("data-1.orc", bytes.clone()).await.unwrap();
        let filter = from(&opened, id);
        assert_eq!(opened.rows.prune(&filter).await.unwrap(), passed, "{id}");
        assert_eq!(pieces(opened).await, [vec![-50; passed], vec![50; 8 - passed]].concat());
    }
}

#[tokio::test]
async fn changed_statistics_never_panic() {
    let schema = schema("stripes");
    let bytes = testdata("stripes/data-1.orc");
    // The statistics, the footer and the postscript.
    for at in (bytes.len() - 2000..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        if let Ok(mut opened) = Ask::all(&schema).open("data-1.orc", changed).await
            && opened.schema.index_of("id").is_ok()
        {
            let filter = from(&opened, 200);
            let _ = opened.rows.prune(&filter).await;
        }
    }
}
