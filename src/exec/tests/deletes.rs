//! Row-level deletes: which rows are left, whatever splits, prunes, limits or counts them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, StructArray};
use arrow::datatypes::{DataType, Field};

use super::table::{TestTable, id_and_s, longs, query, strings};
use crate::arrow::FIELD_ID_KEY;
use crate::spec::{
    FieldId, FileFormat, NestedField, PartitionField, PartitionSpec, PrimitiveType as P, SpecId, StructType,
    Transform, Value,
};

fn numbers(range: std::ops::Range<i64>) -> [super::table::FileColumn; 1] {
    [("id", Some(1), longs(range))]
}

fn by_identity(spec_id: i32, source: i32, name: &str) -> PartitionSpec {
    let field = PartitionField {
        source_ids: vec![FieldId(source)],
        field_id: FieldId(1000 + spec_id),
        name: name.to_owned(),
        transform: Transform::Identity,
        extra: Default::default(),
    };
    PartitionSpec { spec_id: SpecId(spec_id), fields: vec![field] }
}

/// Three row groups, of which a filter prunes the first; positions of all kinds in the third.
#[tokio::test]
async fn positions_are_those_of_the_file_whatever_is_pruned() {
    for kind in ["positions", "vector"] {
        let mut table = TestTable::new(id_and_s()).row_group_size(10);
        table.format_version = 3;
        let file = table.data(1, &numbers(0..30));
        match kind {
            "positions" => table.positions(2, &[(file, 0), (file, 25), (file, 25)]),
            _ => table.vector(2, file, &[0, 25]),
        }
        let expected: Vec<String> = (10..30).filter(|i| *i != 25).map(|i| format!("{i}")).collect();
        assert_eq!(table.rows("SELECT id FROM t WHERE id >= 10 ORDER BY id").await, expected, "{kind}");
        let rows = table.rows("SELECT id, _pos, _row_id FROM m WHERE id > 23 AND id < 27 ORDER BY id").await;
        assert_eq!(rows, ["24 24 24", "26 26 26"], "{kind}");
        assert_eq!(table.rows("SELECT count(*), min(id), max(id) FROM t").await, ["28 1 29"], "{kind}");
    }
}

/// What is computed of rows must not fail because of rows that are gone.
#[tokio::test]
async fn expressions_never_see_deleted_rows() {
    for kind in ["positions", "vector", "keys"] {
        let mut table = TestTable::new(id_and_s()).row_group_size(10);
        table.format_version = 3;
        let file = table.data(1, &numbers(0..30));
        match kind {
            "positions" => table.positions(2, &[(file, 0)]),
            "vector" => table.vector(2, file, &[0]),
            _ => table.equality(2, &[1], &numbers(0..1)),
        }
        assert_eq!(
            table.rows("SELECT sum(60 / id), count(*) FROM t WHERE id < 4").await,
            ["110 3"],
            "{kind}"
        );
        assert_eq!(
            table.rows("SELECT id FROM t WHERE 100 / id > 30 ORDER BY id").await,
            ["1", "2", "3"],
            "{kind}"
        );
        let both = "SELECT id, 60 / id AS x, id + 1 AS y, id AS z FROM t WHERE 60 / id = 20 AND id < 9";
        assert_eq!(table.rows(both).await, ["3 20 4 3"], "{kind}");
    }
}

/// What a scan of all rows finds out of deletes holds for the queries after it, and what a scan of some
/// rows finds out is not taken for all.
#[tokio::test]
async fn what_is_known_of_deletes_is_right() {
    let mut table = TestTable::new(id_and_s()).row_group_size(100);
    table.format_version = 3;
    let file = table.data(1, &numbers(0..1000));
    table.metrics(file, 1, 0, 0, 999);
    table.data(4, &numbers(1000..1100));
    table.vector(2, file, &[7, 500, 999]);
    table.equality(2, &[1], &[("id", Some(1), longs((0..1000).filter(|id| id % 10 == 1)))]);
    table.equality(5, &[1], &[("id", Some(1), longs([3, 1050]))]);
    let context = table.session(false).await;
    let gone = |id: i64| id < 1000 && id % 10 == 1 || [7, 500, 999, 3, 1050].contains(&id);
    let count = |range: std::ops::Range<i64>| vec![range.filter(|id| !gone(*id)).count().to_string()];
    let some = "SELECT count(*) FROM t WHERE id >= 440 AND id < 560";
    let all = "SELECT count(*) FROM t WHERE s IS NULL";
    for (sql, range) in [(some, 440..560), (all, 0..1100), (some, 440..560), (all, 0..1100)] {
        assert_eq!(query(&context, sql).await.unwrap(), count(range), "{sql}");
    }
    // A plan that is run twice sees some rows twice, and others not at all.
    let plan = context.sql(some).await.unwrap().create_physical_plan().await.unwrap();
    for _ in 0..20 {
        for partition in 0..datafusion::physical_plan::ExecutionPlanProperties::output_partitioning(&plan)
            .partition_count()
        {
            let rows = plan.execute(partition, context.task_ctx()).unwrap();
            datafusion::physical_plan::common::collect(rows).await.unwrap();
        }
    }
    assert_eq!(query(&context, all).await.unwrap(), count(0..1100));
}

/// A mask for single rows, the reader's selection for runs of them, together.
#[tokio::test]
async fn long_runs_of_deleted_rows_and_single_ones() {
    for kind in ["positions", "vector"] {
        let mut table = TestTable::new(id_and_s()).row_group_size(1000);
        table.format_version = 3;
        let file = table.data(1, &numbers(0..5000));
        let gone = |id: &i64| (500..2600).contains(id) || id % 7 == 3 || *id >= 4990;
        let deleted: Vec<i64> = (0..5000).filter(gone).collect();
        match kind {
            "positions" => table.positions(2, &deleted.iter().map(|p| (file, *p)).collect::<Vec<_>>()),
            _ => table.vector(2, file, &deleted.iter().map(|p| *p as u64).collect::<Vec<_>>()),
        }
        let left: Vec<i64> = (0..5000).filter(|id| !gone(id)).collect();
        let all: Vec<String> = left.iter().map(ToString::to_string).collect();
        assert_eq!(table.rows("SELECT id FROM t ORDER BY id").await, all, "{kind}");
        let some = left.iter().filter(|id| **id > 490 && **id < 2700);
        let some: Vec<String> = some.map(|id| format!("{id} {id}")).collect();
        let rows = table.rows("SELECT id, _pos FROM m WHERE id > 490 AND id < 2700 ORDER BY id").await;
        assert_eq!(rows, some, "{kind}");
        assert_eq!(
            table.rows("SELECT count(*) FROM t WHERE s IS NULL").await,
            [left.len().to_string()],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn limits_and_counts_see_only_what_is_left() {
    let mut table = TestTable::new(id_and_s()).row_group_size(10);
    let first = table.data(1, &numbers(0..50));
    table.data(1, &numbers(50..100));
    table.metrics(first, 1, 0, 0, 49);
    table.positions(2, &(0..45).map(|p| (first, p)).collect::<Vec<_>>());
    table.equality(3, &[1], &[("id", Some(1), longs(60..95))]);
    let left: Vec<i64> = (45..60).chain(95..100).collect();
    assert_eq!(table.rows("SELECT count(*) FROM t").await, [left.len().to_string()]);
    assert_eq!(table.rows("SELECT count(id), min(id), max(id) FROM t").await, ["20 45 99"]);
    for limit in [1, 15, 16, 20, 30] {
        let rows = table.rows(&format!("SELECT count(*) FROM (SELECT * FROM t LIMIT {limit})")).await;
        assert_eq!(rows, [left.len().min(limit).to_string()], "limit {limit}");
    }
    for (limit, expected) in [(3, 3), (12, 12), (40, 17)] {
        let sql = format!("SELECT count(*) FROM (SELECT s FROM t WHERE id > 47 LIMIT {limit})");
        assert_eq!(table.rows(&sql).await, [expected.to_string()], "limit {limit}");
    }
    assert_eq!(
        table.rows("SELECT id FROM t WHERE s IS NULL OR id <> 46 ORDER BY id LIMIT 2").await,
        ["45", "46"]
    );
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE s = 'x' OR s <> 'x'").await, ["0"]);
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id LIMIT 3").await, ["45", "46", "47"]);
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id DESC LIMIT 3").await, ["99", "98", "97"]);
}

#[tokio::test]
async fn every_filter_is_applied_to_orc_files_with_deletes() {
    let mut table = TestTable::new(id_and_s());
    table.format_version = 3;
    let file = table.copied(1, "no_ids/stripes.orc", FileFormat::Orc, 900);
    table.vector(2, file, &[0, 5]);
    let rows = table.rows("SELECT id FROM m WHERE id < 10 AND _pos IN (5, 6) AND s LIKE 'row%'").await;
    assert_eq!(rows, ["6"]);
    assert_eq!(table.rows("SELECT count(*) FROM m WHERE _pos < 10").await, ["8"]);
}

#[tokio::test]
async fn null_keys_delete_only_nulls() {
    for (deleted, left) in [(Some("A"), ["null 2", "B 3"]), (None, ["A 1", "B 3"])] {
        let mut table = TestTable::new(id_and_s());
        table.data(
            1,
            &[("id", Some(1), longs([1, 2, 3])), ("s", Some(2), strings(&[Some("A"), None, Some("B")]))],
        );
        table.equality(2, &[2], &[("s", Some(2), strings(&[deleted]))]);
        let rows = table.rows("SELECT s, id FROM t ORDER BY id").await;
        assert_eq!(rows, left, "delete {deleted:?}");
    }
    // And with several keys a null is equal to a null.
    let mut table = TestTable::new(id_and_s());
    let s = strings(&[None, None, Some("x")]);
    table.data(1, &[("id", Some(1), longs([Some(1), None, None])), ("s", Some(2), s)]);
    table.equality(2, &[1, 2], &[("id", Some(1), longs([None::<i64>])), ("s", Some(2), strings(&[None]))]);
    assert_eq!(table.rows("SELECT id, s FROM t ORDER BY id NULLS LAST").await, ["1 null", "null x"]);
}

#[tokio::test]
async fn only_older_rows_are_deleted_by_keys_and_no_newer_ones_by_position() {
    let mut table = TestTable::new(id_and_s());
    table.data(1, &numbers(0..3));
    let same = table.data(2, &numbers(0..3));
    table.data(3, &numbers(0..3));
    table.equality(2, &[1], &numbers(1..2));
    table.positions(2, &[(same, 0)]);
    assert_eq!(
        table.rows("SELECT id FROM t ORDER BY id").await,
        ["0", "0", "1", "1", "2", "2", "2"],
        "the key goes from the file of commit 1, the position from the file of its own commit"
    );
    // The newest deletion of a key counts, in whichever file it stands.
    let mut table = TestTable::new(id_and_s());
    table.data(1, &numbers(0..3));
    table.data(4, &numbers(0..3));
    table.equality(5, &[1], &numbers(1..2));
    table.equality(2, &[1], &numbers(1..3));
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id").await, ["0", "0", "2"]);
}

#[tokio::test]
async fn keys_delete_in_their_partition_or_everywhere() {
    let mut table = TestTable::new(id_and_s());
    table.specs.push(by_identity(1, 2, "s"));
    let s = |v: &str| vec![Some(Value::String(v.to_owned()))];
    for name in ["a", "b"] {
        let value = strings(&[Some(name); 3]);
        table.data_in(1, 1, s(name), &[("id", Some(1), longs(0..3)), ("s", Some(2), value)]);
    }
    table.equality_in(2, 1, s("a"), &[1], &numbers(0..1));
    assert_eq!(table.rows("SELECT s, id FROM t ORDER BY s, id").await, ["a 1", "a 2", "b 0", "b 1", "b 2"]);
    // The unpartitioned spec is global, by its fields.
    table.equality_in(3, 0, Vec::new(), &[1], &numbers(2..3));
    assert_eq!(table.rows("SELECT s, id FROM t ORDER BY s, id").await, ["a 1", "b 0", "b 1"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE s = 'b' ORDER BY id").await, ["0", "1"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE s = 'b'").await, ["2"]);
}

#[tokio::test]
async fn several_key_sets_apply_together() {
    let mut table = TestTable::new(id_and_s());
    let s = strings(&[Some("a"), Some("b"), Some("c"), None]);
    table.data(1, &[("id", Some(1), longs([1, 2, 3, 4])), ("s", Some(2), s)]);
    table.equality(2, &[1], &numbers(1..2));
    table.equality(2, &[2], &[("s", Some(2), strings(&[Some("c")]))]);
    table.equality(
        2,
        &[1, 2],
        &[("id", Some(1), longs([2, 4])), ("s", Some(2), strings(&[Some("x"), None]))],
    );
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id").await, ["2"]);
    // The columns that are compared need not be asked for, nor is their order important.
    assert_eq!(table.rows("SELECT s FROM t").await, ["b"]);
    assert_eq!(table.rows("SELECT count(*) FROM t").await, ["1"]);
}

#[tokio::test]
async fn keys_of_renamed_promoted_added_and_dropped_columns() {
    // Written when `id` was an int; promoted and renamed since.
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "id", P::Int),
        NestedField::optional(2, "s", P::String),
    ]);
    let ints = |v: Vec<i32>| Arc::new(Int32Array::from(v)) as ArrayRef;
    let s = strings(&[Some("a"), Some("b"), Some("c")]);
    table.data(1, &[("id", Some(1), ints(vec![1, 2, 3])), ("s", Some(2), s)]);
    table.equality(2, &[1], &[("id", Some(1), ints(vec![2]))]);
    table.equality(2, &[2], &[("s", Some(2), strings(&[Some("c")]))]);
    // `s` was dropped; its name went to a column of another type. A column was added, with a default.
    let mut added = NestedField::optional(4, "added", P::Long);
    added.initial_default = Some(Value::Long(7));
    table.evolve(vec![
        NestedField::optional(1, "number", P::Long),
        NestedField::optional(3, "s", P::Long),
        added,
    ]);
    table.format_version = 3;
    assert_eq!(table.rows("SELECT number, s, added FROM t ORDER BY number").await, ["1 null 7"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE number > 0").await, ["1"]);
    // Rows that lack a key's column have its default.
    table.equality(3, &[4], &[("added", Some(4), longs([8]))]);
    assert_eq!(table.rows("SELECT number FROM t").await, ["1"]);
    table.equality(4, &[4], &[("added", Some(4), longs([7]))]);
    assert_eq!(table.rows("SELECT number FROM t").await, Vec::<String>::new());
}

#[tokio::test]
async fn nested_and_floating_keys() {
    let inner = vec![NestedField::optional(11, "x", P::Long), NestedField::required(12, "y", P::Long)];
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "p", StructType::new(inner)),
        NestedField::optional(2, "f", P::Double),
    ]);
    let with_id = |name: &str, id: i32| {
        Arc::new(
            Field::new(name, DataType::Int64, true)
                .with_metadata([(FIELD_ID_KEY.to_owned(), id.to_string())].into()),
        )
    };
    let nulls = Some(vec![true, true, true, false].into());
    let points = StructArray::new(
        vec![with_id("x", 11), with_id("y", 12)].into(),
        vec![longs([1, 2, 3, 9]), longs([1, 1, 1, 9])],
        nulls,
    );
    let floats = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, 4.0])) as ArrayRef;
    table.data(1, &[("p", Some(1), Arc::new(points)), ("f", Some(2), floats)]);
    let all = table.rows("SELECT p['x'], f FROM t ORDER BY f, 1").await;
    assert_eq!(all.len(), 4);
    // The delete file holds only the field that is compared.
    let key = StructArray::new(vec![with_id("x", 11)].into(), vec![longs([2])], None);
    table.equality(2, &[11], &[("p", Some(1), Arc::new(key))]);
    table.equality(2, &[2], &[("f", Some(2), Arc::new(Float64Array::from(vec![f64::NAN])) as ArrayRef)]);
    assert_eq!(table.rows("SELECT p['x'], f FROM t ORDER BY f").await, ["1 0.0", "null 4.0"]);
    // Floats are compared by their bits.
    for (key, left) in [(-0.0, "0.0"), (0.0, "-0.0")] {
        let mut table = TestTable::new(vec![NestedField::optional(2, "f", P::Double)]);
        let floats = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        table.data(1, &[("f", Some(2), floats(vec![0.0, -0.0]))]);
        table.equality(2, &[2], &[("f", Some(2), floats(vec![key]))]);
        assert_eq!(table.rows("SELECT f FROM t").await, [left]);
    }
    // A null struct has null fields, whatever lies below.
    let none = StructArray::new(vec![with_id("x", 11)].into(), vec![longs([None::<i64>])], None);
    table.equality(3, &[11], &[("p", Some(1), Arc::new(none))]);
    assert_eq!(table.rows("SELECT p['x'], f FROM t").await, ["1 0.0"]);
}

#[tokio::test]
async fn a_vector_hides_position_deletes_and_must_not_be_older_than_its_file() {
    let mut table = TestTable::new(id_and_s());
    table.format_version = 3;
    let file = table.data(2, &numbers(0..4));
    table.positions(3, &[(file, 0)]);
    table.vector(4, file, &[1]);
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id").await, ["0", "2", "3"]);
    let mut table = TestTable::new(id_and_s());
    table.format_version = 3;
    let file = table.data(5, &numbers(0..4));
    table.vector(4, file, &[1]);
    let error = table.error("SELECT * FROM t").await;
    assert!(error.contains("below its data file's 5") && error.contains("vector-1.puffin"), "{error}");
}

#[tokio::test]
async fn every_row_may_be_deleted() {
    let mut table = TestTable::new(id_and_s()).row_group_size(2);
    let file = table.data(1, &numbers(0..5));
    table.positions(2, &(0..5).map(|p| (file, p)).collect::<Vec<_>>());
    assert_eq!(table.rows("SELECT * FROM t").await, Vec::<String>::new());
    assert_eq!(table.rows("SELECT count(*), max(id) FROM t").await, ["0 null"]);
}

#[tokio::test]
async fn broken_delete_files_are_named() {
    let mut table = TestTable::new(id_and_s());
    table.format_version = 3;
    let file = table.data(1, &numbers(0..5));
    table.vector(2, file, &[1, 2]);
    let metadata = table.commit();
    let vector = metadata.parent().unwrap().join("vector-1.puffin");
    let mut bytes = std::fs::read(&vector).unwrap();
    let last = bytes.len() - 6;
    bytes[last] ^= 1;
    std::fs::write(&vector, bytes).unwrap();
    let error = table.error("SELECT * FROM t").await;
    assert!(error.contains("vector-1.puffin") && error.contains("invalid data"), "{error}");
    std::fs::remove_file(&vector).unwrap();
    let error = table.error("SELECT * FROM t").await;
    assert!(error.contains("vector-1.puffin") && error.contains("not found"), "{error}");
}

/// A struct of longs, each with its id; `null_at`: a row where the struct is null.
fn structs(fields: &[(&str, i32, ArrayRef)], null_at: Option<usize>) -> ArrayRef {
    let rows = fields[0].2.len();
    let (types, arrays): (Vec<_>, Vec<_>) = fields
        .iter()
        .map(|(name, id, array)| {
            let metadata = [(FIELD_ID_KEY.to_owned(), id.to_string())].into();
            let field = Field::new(*name, array.data_type().clone(), true).with_metadata(metadata);
            (Arc::new(field), Arc::clone(array))
        })
        .unzip();
    let nulls = null_at.map(|at| (0..rows).map(|i| i != at).collect::<Vec<_>>().into());
    Arc::new(StructArray::new(types.into(), arrays, nulls))
}

fn of_longs(fields: &[(i32, &str)]) -> StructType {
    StructType::new(fields.iter().map(|(id, name)| NestedField::optional(*id, *name, P::Long)).collect())
}

#[tokio::test]
async fn keys_that_were_dropped_out_of_structs() {
    let mut inner = of_longs(&[(11, "x"), (12, "y")]);
    inner.fields.push(NestedField::optional(13, "t", of_longs(&[(14, "u"), (15, "v")])));
    let mut table =
        TestTable::new(vec![NestedField::optional(1, "id", P::Long), NestedField::optional(10, "s", inner)]);
    let ids = ("id", Some(1), longs(1..7));
    let t = |u: [i64; 6]| structs(&[("u", 14, longs(u)), ("v", 15, longs([0; 6]))], Some(4));
    let all = [
        ("x", 11, longs([1, 2, 3, 4, 5, 6])),
        ("y", 12, longs([10, 20, 30, 40, 50, 60])),
        ("t", 13, t([100, 200, 300, 400, 500, 600])),
    ];
    table.data(1, &[ids.clone(), ("s", Some(10), structs(&all, Some(5)))]);
    // `s` was renamed, `s.x` and `s.t.u` were dropped; the name `x` went to another field.
    let mut inner = of_longs(&[(12, "why"), (16, "x")]);
    inner.fields.push(NestedField::optional(13, "t", of_longs(&[(15, "v")])));
    table.evolve(vec![NestedField::optional(1, "id", P::Long), NestedField::optional(10, "r", inner)]);
    // Written since: the new `x` is no old one, and what a file lacks is null.
    let new = [("why", 12, longs([20, 20])), ("x", 16, longs([2, 2]))];
    table.data(2, &[("id", Some(1), longs([21, 22])), ("r", Some(10), structs(&new, None))]);
    let sql = "SELECT id, r['why'], r['x'] FROM t ORDER BY id";
    let mut left = vec![
        "1 10 null",
        "2 20 null",
        "3 30 null",
        "4 40 null",
        "5 50 null",
        "6 null null",
        "21 20 2",
        "22 20 2",
    ];
    assert_eq!(table.rows(sql).await, left);
    let key = |fields: &[(&str, i32, ArrayRef)]| [("s", Some(10), structs(fields, None))];
    table.equality(3, &[11], &key(&[("x", 11, longs([2]))]));
    left.remove(1);
    assert_eq!(table.rows(sql).await, left);
    // One field is there, the other is not.
    table.equality(4, &[11, 12], &key(&[("x", 11, longs([3, 4])), ("y", 12, longs([30, 41]))]));
    left.remove(1);
    assert_eq!(table.rows(sql).await, left);
    // A column beside it, and a field further down.
    let deep = structs(&[("u", 14, longs([100, 401]))], None);
    let columns = [("id", Some(1), longs([1, 4])), ("s", Some(10), structs(&[("t", 13, deep)], None))];
    table.equality(5, &[1, 14], &columns);
    left.remove(0);
    assert_eq!(table.rows(sql).await, left);
    assert_eq!(
        table.rows("SELECT id FROM t WHERE r['why'] = 40 OR r['x'] = 2 ORDER BY id").await,
        ["4", "21", "22"]
    );
    assert_eq!(table.rows("SELECT count(*), sum(r['why']) FROM t").await, ["5 130"]);
    assert_eq!(table.rows("SELECT r FROM t WHERE id = 4").await, ["{why: 40, x: , t: {v: 0}}"]);
    // Null is equal to null: of a null struct, and of files that lack the field.
    table.equality(6, &[11], &key(&[("x", 11, longs([None::<i64>]))]));
    assert_eq!(table.rows(sql).await, ["4 40 null", "5 50 null"]);
    // `t` is null in the row 5.
    let deep = structs(&[("u", 14, longs([None::<i64>]))], None);
    table.equality(7, &[14], &key(&[("t", 13, deep)]));
    assert_eq!(table.rows(sql).await, ["4 40 null"]);
}

/// Structs within the struct, the struct itself, and fields that were dropped one after the other.
#[tokio::test]
async fn keys_of_structs_that_were_dropped_in_steps() {
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "id", P::Long),
        NestedField::optional(10, "s", of_longs(&[(11, "x"), (12, "y"), (17, "z")])),
    ]);
    let fields = [("x", 11, longs(1..6)), ("y", 12, longs(11..16)), ("z", 17, longs(21..26))];
    table.data(1, &[("id", Some(1), longs(1..6)), ("s", Some(10), structs(&fields, None))]);
    let id = || NestedField::optional(1, "id", P::Long);
    table.evolve(vec![id(), NestedField::optional(10, "s", of_longs(&[(12, "y"), (17, "z")]))]);
    table.evolve(vec![id(), NestedField::optional(10, "s", of_longs(&[(17, "z")]))]);
    let key = |fields: &[(&str, i32, ArrayRef)]| [("s", Some(10), structs(fields, None))];
    table.equality(2, &[11, 12], &key(&[("x", 11, longs([2, 3])), ("y", 12, longs([12, 12]))]));
    table.equality(2, &[12, 17], &key(&[("y", 12, longs([13])), ("z", 17, longs([23]))]));
    table.equality(2, &[17], &key(&[("z", 17, longs([21]))]));
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id").await, ["4", "5"]);
    assert_eq!(table.rows("SELECT s FROM t ORDER BY id").await, ["{z: 24}", "{z: 25}"]);
    // The struct itself was dropped too, and its name reused.
    table.evolve(vec![id(), NestedField::optional(30, "s", of_longs(&[(31, "x")]))]);
    table.equality(3, &[11], &key(&[("x", 11, longs([4]))]));
    assert_eq!(table.rows("SELECT id, s FROM t ORDER BY id").await, ["5 null"]);
}

#[tokio::test]
async fn keys_dropped_out_of_structs_have_defaults_and_mapped_names() {
    // `x` was added with a default after the first file, and dropped again.
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "id", P::Long),
        NestedField::optional(10, "s", of_longs(&[(12, "y")])),
    ]);
    table.format_version = 3;
    let id = || NestedField::optional(1, "id", P::Long);
    let y = structs(&[("y", 12, longs([1, 2]))], Some(1));
    table.data(1, &[("id", Some(1), longs([1, 2])), ("s", Some(10), y)]);
    let mut with_default = of_longs(&[(11, "x"), (12, "y")]);
    with_default.fields[0].initial_default = Some(Value::Long(7));
    table.evolve(vec![id(), NestedField::optional(10, "s", with_default)]);
    let x = structs(&[("x", 11, longs([7, 8])), ("y", 12, longs([3, 4]))], None);
    table.data(1, &[("id", Some(1), longs([3, 4])), ("s", Some(10), x)]);
    table.evolve(vec![id(), NestedField::optional(10, "s", of_longs(&[(12, "y")]))]);
    table.equality(2, &[11], &[("s", Some(10), structs(&[("x", 11, longs([7]))], None))]);
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id").await, ["2", "4"]);

    // A file without ids, whose fields a mapping names.
    let mut table =
        TestTable::new(vec![id(), NestedField::optional(10, "s", of_longs(&[(11, "x"), (12, "y")]))]);
    let plain = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
    let s = StructArray::new(vec![plain("x"), plain("y")].into(), vec![longs([1, 2]), longs([3, 4])], None);
    table.data(1, &[("id", None, longs([1, 2])), ("s", None, Arc::new(s))]);
    table.evolve(vec![id(), NestedField::optional(10, "s", of_longs(&[(12, "y")]))]);
    let mapping = r#"[{"field-id": 1, "names": ["id"]}, {"field-id": 10, "names": ["s"], "fields":
        [{"field-id": 11, "names": ["x"]}, {"field-id": 12, "names": ["y"]}]}]"#;
    table.properties.push(("schema.name-mapping.default", mapping.to_owned()));
    table.equality(2, &[11], &[("s", Some(10), structs(&[("x", 11, longs([2]))], None))]);
    assert_eq!(table.rows("SELECT id, s FROM t").await, ["1 {y: 3}"]);
}

/// Files of other engines with the rows `1, {a: 1, b: one}` and `2, null`, in one file or in two.
#[tokio::test]
async fn keys_dropped_out_of_structs_of_avro_and_orc_files() {
    let avro = ["v1_avro/data-1.avro", "v1_avro/data-3.avro"];
    for (files, format) in [(&avro[..], FileFormat::Avro), (&["v1_orc/data-1.orc"], FileFormat::Orc)] {
        let id = || NestedField::optional(1, "id", P::Long);
        let both = vec![NestedField::optional(16, "a", P::Int), NestedField::optional(17, "b", P::String)];
        let left = vec![NestedField::optional(17, "bee", P::String), NestedField::optional(18, "a", P::Int)];
        for (deleted, rows) in [(Some(1), ["2 null"]), (None, ["1 {bee: one, a: }"])] {
            let mut table =
                TestTable::new(vec![id(), NestedField::optional(12, "st", StructType::new(both.clone()))]);
            for file in files {
                table.copied(1, file, format, 2 / files.len());
            }
            table.evolve(vec![id(), NestedField::optional(12, "s", StructType::new(left.clone()))]);
            assert_eq!(table.rows("SELECT id FROM t ORDER BY id").await, ["1", "2"], "{format:?}");
            let key = structs(&[("a", 16, Arc::new(Int32Array::from(vec![deleted])))], None);
            table.equality(2, &[16], &[("st", Some(12), key)]);
            assert_eq!(table.rows("SELECT id, s FROM t").await, rows, "{format:?} {deleted:?}");
            assert_eq!(table.rows("SELECT count(*) FROM t WHERE id < 3").await, ["1"], "{format:?}");
        }
    }
}
