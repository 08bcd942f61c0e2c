//! Columns of files by field id, by name mapping, by default; metadata columns; statistics.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float32Array, Int32Array, ListArray, StructArray, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};

use super::table::{TestTable, id_and_s, longs, query, strings};
use crate::IcebergTable;
use crate::arrow::FIELD_ID_KEY;
use crate::spec::{
    FieldId, ListType, NestedField, PartitionField, PartitionSpec, PrimitiveType as P, SnapshotId,
    SnapshotSelector, SpecId, StructType, Transform, Value,
};

fn field(name: &str, id: i32, t: DataType) -> Field {
    Field::new(name, t, true).with_metadata([(FIELD_ID_KEY.to_owned(), id.to_string())].into())
}

#[tokio::test]
async fn a_name_that_was_dropped_and_given_again_is_another_column() {
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "a", P::Long),
        NestedField::optional(2, "b", P::Binary),
    ]);
    let bytes = Arc::new(arrow::array::BinaryArray::from(vec![b"\xff\xfe".as_slice(), b"x"])) as ArrayRef;
    table.data(1, &[("a", Some(1), longs([1, 2])), ("b", Some(2), bytes)]);
    table.evolve(vec![NestedField::optional(3, "b", P::String), NestedField::optional(1, "c", P::Long)]);
    table.data(2, &[("b", Some(3), strings(&[Some("new")])), ("c", Some(1), longs([3]))]);
    assert_eq!(table.rows("SELECT * FROM t ORDER BY c").await, ["null 1", "null 2", "new 3"]);
    assert_eq!(table.rows("SELECT c FROM t WHERE b IS NULL ORDER BY c").await, ["1", "2"]);
    assert_eq!(table.rows("SELECT c FROM t WHERE b = 'new' OR c = 2 ORDER BY c").await, ["2", "3"]);
    assert_eq!(table.rows("SELECT c FROM t WHERE b LIKE 'n%'").await, ["3"]);
}

#[tokio::test]
async fn missing_columns_have_their_default_in_filters_too() {
    let mut table = TestTable::new(id_and_s());
    table.format_version = 3;
    table.data(1, &[("id", Some(1), longs([1, 2])), ("s", Some(2), strings(&[Some("a"), None]))]);
    let mut added = NestedField::required(3, "c", P::String);
    added.initial_default = Some(Value::String("x".to_owned()));
    let plain = NestedField::optional(4, "d", P::Long);
    table.evolve([id_and_s(), vec![added, plain]].concat());
    let c = strings(&[Some("y")]);
    table.data(
        2,
        &[
            ("id", Some(1), longs([3])),
            ("s", Some(2), strings(&[None])),
            ("c", Some(3), c),
            ("d", Some(4), longs([9])),
        ],
    );
    assert_eq!(table.rows("SELECT id, c, d FROM t ORDER BY id").await, ["1 x null", "2 x null", "3 y 9"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE c = 'x' ORDER BY id").await, ["1", "2"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE c NOT IN ('x') ORDER BY id").await, ["3"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE d NOT IN (1) ORDER BY id").await, ["3"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE d IS NULL ORDER BY id").await, ["1", "2"]);
    assert_eq!(table.rows("SELECT max(c), min(c), count(d) FROM t").await, ["y x 1"]);
}

#[tokio::test]
async fn a_required_column_without_default_must_be_there() {
    let mut table = TestTable::new(id_and_s());
    table.data(1, &[("id", Some(1), longs([1]))]);
    table.evolve(vec![NestedField::required(9, "must", P::Long)]);
    let error = table.error("SELECT * FROM t").await;
    assert!(error.contains("`must`") && error.contains("data-0.parquet"), "{error}");
}

#[tokio::test]
async fn promoted_types_and_other_units() {
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "i", P::Int),
        NestedField::optional(2, "f", P::Float),
        NestedField::optional(3, "ts", P::Timestamptz),
    ]);
    let ms = Arc::new(TimestampMillisecondArray::from(vec![-1, 1_500]).with_timezone("UTC")) as ArrayRef;
    table.data(
        1,
        &[
            ("i", Some(1), Arc::new(Int32Array::from(vec![i32::MAX, -5])) as ArrayRef),
            ("f", Some(2), Arc::new(Float32Array::from(vec![1.5, -0.25])) as ArrayRef),
            ("ts", Some(3), ms),
        ],
    );
    table.evolve(vec![
        NestedField::optional(1, "i", P::Long),
        NestedField::optional(2, "f", P::Double),
        NestedField::optional(3, "ts", P::Timestamptz),
    ]);
    assert_eq!(table.rows("SELECT i + 1, f FROM t ORDER BY i").await, ["-4 -0.25", "2147483648 1.5"]);
    assert_eq!(table.rows("SELECT i FROM t WHERE i > 2147483646").await, ["2147483647"]);
    assert_eq!(table.rows("SELECT i FROM t WHERE i = 4294967291").await, Vec::<String>::new());
    assert_eq!(
        table.rows("SELECT ts FROM t WHERE ts < TIMESTAMP '1970-01-01T00:00:00Z'").await,
        ["1969-12-31T23:59:59.999Z"]
    );
}

fn person(renamed: bool) -> StructArray {
    let names = if renamed { ["last", "first"] } else { ["a", "b"] };
    StructArray::new(
        vec![Arc::new(field(names[0], 11, DataType::Utf8)), Arc::new(field(names[1], 12, DataType::Int64))]
            .into(),
        vec![strings(&[Some("x"), Some("y"), None]), longs([1, 2, 3])],
        Some(vec![true, false, true].into()),
    )
}

#[tokio::test]
async fn nested_fields_by_id_with_defaults_under_null_structs() {
    let mut table = TestTable::new(vec![NestedField::optional(
        1,
        "p",
        StructType::new(vec![NestedField::optional(11, "a", P::String)]),
    )]);
    table.format_version = 3;
    // In the file the fields have each other's new names.
    table.data(1, &[("p", Some(1), Arc::new(person(true)) as ArrayRef)]);
    let mut added = NestedField::optional(13, "z", P::Long);
    added.initial_default = Some(Value::Long(5));
    let fields = vec![
        NestedField::optional(12, "last", P::Long),
        added,
        NestedField::optional(11, "first", P::String),
    ];
    table.evolve(vec![NestedField::optional(1, "q", StructType::new(fields))]);
    assert_eq!(
        table.rows("SELECT q FROM t").await,
        ["{last: 1, z: 5, first: x}", "null", "{last: 3, z: 5, first: }"],
    );
    assert_eq!(table.rows("SELECT q['z'], q['first'] FROM t").await, ["5 x", "null null", "5 null"]);
    assert_eq!(table.rows("SELECT q['last'] FROM t WHERE q['z'] = 5 AND q['first'] = 'x'").await, ["1"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE q['last'] IS NULL").await, ["1"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE q IS NULL").await, ["1"]);
}

#[tokio::test]
async fn lists_of_structs_keep_their_shape() {
    let element = NestedField::optional(12, "n", P::Long);
    let mut table = TestTable::new(vec![NestedField::optional(
        1,
        "l",
        ListType::new(10, StructType::new(vec![element]), false),
    )]);
    let structs = StructArray::new(
        vec![Arc::new(field("old", 12, DataType::Int32))].into(),
        vec![Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef],
        None,
    );
    let item = Arc::new(field("item", 10, structs.data_type().clone()));
    let lists = ListArray::new(
        item,
        OffsetBuffer::new(vec![0, 2, 2, 3].into()),
        Arc::new(structs),
        Some(vec![true, true, false].into()),
    );
    table.data(1, &[("l", Some(1), Arc::new(lists) as ArrayRef)]);
    assert_eq!(table.rows("SELECT l FROM t").await, ["[{n: 1}, {n: 2}]", "[]", "null"]);
    assert_eq!(table.rows("SELECT l[1]['n'] FROM t").await, ["1", "null", "null"]);
}

#[tokio::test]
async fn files_without_ids_follow_the_mapping_or_their_positions() {
    let columns = || [("x", None, longs([1, 2])), ("s", None, strings(&[Some("a"), Some("b")]))];
    let mut table = TestTable::new(id_and_s());
    table.data(1, &columns());
    assert_eq!(table.rows("SELECT id, s FROM t ORDER BY id").await, ["1 a", "2 b"], "by position");
    // With a mapping positions don't count: `s` was dropped and given again, so it has another id.
    table.properties.push((
        "schema.name-mapping.default",
        r#"[{"field-id": 1, "names": ["id", "x"]}, {"field-id": 2, "names": ["old"]}]"#.to_owned(),
    ));
    assert_eq!(table.rows("SELECT id, s FROM t ORDER BY id").await, ["1 null", "2 null"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE id > 1").await, ["2"]);
}

#[tokio::test]
async fn identity_partition_values_stand_in_for_columns_that_files_lack() {
    let mut table = TestTable::new(id_and_s());
    table.specs.push(PartitionSpec {
        spec_id: SpecId(1),
        fields: vec![PartitionField {
            source_ids: vec![FieldId(2)],
            field_id: FieldId(1000),
            name: "s".to_owned(),
            transform: Transform::Identity,
            extra: Default::default(),
        }],
    });
    for (i, value) in [Some("a"), None, Some("b")].into_iter().enumerate() {
        let partition = vec![value.map(|v| Value::String(v.to_owned()))];
        table.data_in(1, 1, partition, &[("id", Some(1), longs([i as i64]))]);
    }
    assert_eq!(table.rows("SELECT id, s FROM t ORDER BY id").await, ["0 a", "1 null", "2 b"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE s = 'b'").await, ["2"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE s IS NULL").await, ["1"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE s <> 'a'").await, ["2"]);
    assert_eq!(table.rows("SELECT _partition, _spec_id FROM m WHERE id = 2").await, ["{s: b} 1"]);
}

#[tokio::test]
async fn a_users_own_columns_may_have_the_names_of_metadata_columns() {
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "_pos", P::String),
        NestedField::optional(2, "file_path", P::Long),
        NestedField::optional(3, "pos", P::Long),
    ]);
    table.format_version = 3;
    let own = strings(&[Some("mine"), Some("too")]);
    let file = table.data(
        1,
        &[("_pos", Some(1), own), ("file_path", Some(2), longs([7, 8])), ("pos", Some(3), longs([1, 0]))],
    );
    table.positions(2, &[(file, 1)]);
    assert_eq!(table.rows("SELECT _pos, file_path, pos FROM m").await, ["mine 7 1"]);
    assert_eq!(table.rows("SELECT * FROM t").await, ["mine 7 1"]);
}

#[tokio::test]
async fn row_ids_are_stored_or_inherited() {
    let mut table = TestTable::new(id_and_s());
    table.format_version = 3;
    table.data(1, &[("id", Some(1), longs([1, 2]))]);
    table.data(
        2,
        &[
            ("id", Some(1), longs([3, 4])),
            ("_row_id", Some(i32::MAX - 107), longs([Some(1), None])),
            ("_last_updated_sequence_number", Some(i32::MAX - 108), longs([None, Some(1)])),
        ],
    );
    let sql = "SELECT id, _row_id, _last_updated_sequence_number FROM m ORDER BY id";
    assert_eq!(table.rows(sql).await, ["1 0 1", "2 1 1", "3 1 2", "4 3 1"]);
    assert_eq!(table.rows("SELECT id FROM m WHERE _row_id = 1 ORDER BY id").await, ["2", "3"]);
    // Metrics are of what is stored, and say nothing of what is inherited.
    table.metrics(1, i32::MAX - 107, 1, 1, 1);
    table.metrics(1, i32::MAX - 108, 1, 1, 1);
    assert_eq!(table.rows(sql).await, ["1 0 1", "2 1 1", "3 1 2", "4 3 1"]);
    assert_eq!(table.rows("SELECT max(_row_id), count(_row_id) FROM m").await, ["3 4"]);
    assert_eq!(table.rows("SELECT id FROM m WHERE _row_id = 3").await, ["4"]);
    // Before v3 there are none.
    let mut table = TestTable::new(id_and_s());
    table.data(1, &[("id", Some(1), longs([1]))]);
    assert_eq!(table.rows(sql).await, ["1 null null"]);
}

#[tokio::test]
async fn splits_neither_lose_nor_repeat_rows() {
    let mut table = TestTable::new(id_and_s()).row_group_size(7);
    table.data(1, &[("id", Some(1), longs(0..100))]);
    table.data(1, &[("id", Some(1), longs(100..103))]);
    let expected: Vec<String> = (0..103).map(|i| i.to_string()).collect();
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id").await, expected);
    assert_eq!(table.rows("SELECT count(DISTINCT id), count(*) FROM t WHERE id >= 0").await, ["103 103"]);
}

#[tokio::test]
async fn counts_are_answered_from_manifests() {
    let mut table = TestTable::new(id_and_s());
    let file = table.data(1, &[("id", Some(1), longs([Some(3), None, Some(5)]))]);
    table.metrics(file, 1, 1, 3, 5);
    let context = table.session(false).await;
    let sql = "SELECT count(*), count(id), min(id), max(id) FROM t";
    let plan = query(&context, &format!("EXPLAIN {sql}")).await.unwrap().join("\n");
    assert!(!plan.contains("DataSourceExec: file_groups"), "{plan}");
    assert_eq!(table.rows(sql).await, ["3 2 3 5"]);
}

#[tokio::test]
async fn explain_says_what_each_stage_kept() {
    let mut table = TestTable::new(id_and_s());
    for start in [0, 10, 20] {
        let file = table.data(1, &[("id", Some(1), longs(start..start + 10))]);
        table.metrics(file, 1, 0, start, start + 9);
    }
    let context = table.session(false).await;
    let plan =
        query(&context, "EXPLAIN SELECT id FROM t WHERE id > 12 AND id < 18").await.unwrap().join("\n");
    for part in [
        "snapshot=1",
        "schema_id=0",
        "manifests=3",
        "files=3",
        "files_skipped_by_metrics=2",
        "files_kept=1",
        "residual=[",
    ] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    let plan = query(&context, "EXPLAIN ANALYZE SELECT id FROM t WHERE id > 12").await.unwrap().join("\n");
    for part in ["planning_time=", "bytes_scanned=", "files_kept=2"] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_what_its_manifest_says_is_named() {
    let mut table = TestTable::new(id_and_s());
    table.data(1, &[("id", Some(1), longs(0..100))]);
    let metadata = table.commit();
    let path = metadata.parent().unwrap().join("data-0.parquet");
    let whole = std::fs::read(&path).unwrap();
    for broken in [whole[..whole.len() / 2].to_vec(), vec![0; whole.len()], Vec::new()] {
        std::fs::write(&path, &broken).unwrap();
        let error = table.error("SELECT * FROM t").await;
        assert!(error.contains("data-0.parquet"), "{} bytes: {error}", broken.len());
    }
    std::fs::remove_file(&path).unwrap();
    let error = table.error("SELECT * FROM t").await;
    assert!(error.contains("data-0.parquet") && error.contains("not found"), "{error}");
}

#[tokio::test]
async fn a_sort_order_is_declared_only_where_no_file_has_nulls() {
    for nulls in [true, false] {
        let mut table = TestTable::new(id_and_s());
        table.sorted_by = Some(1);
        for start in [0, 10, 20, 30, 40] {
            let last = if nulls { None } else { Some(start + 2) };
            let file = table.data(1, &[("id", Some(1), longs([Some(start), Some(start + 1), last]))]);
            table.metrics(file, 1, i64::from(nulls), start, start + if nulls { 1 } else { 2 });
        }
        let context = table.session(false).await;
        let plan = query(&context, "EXPLAIN SELECT * FROM t").await.unwrap().join("\n");
        assert_eq!(plan.contains("output_ordering=[id"), !nulls, "{plan}");
        let groups =
            table.rows("SELECT id, count(*) FROM t GROUP BY id ORDER BY id DESC NULLS FIRST LIMIT 1").await;
        assert_eq!(groups, [if nulls { "null 5" } else { "42 1" }]);
        let first = table.rows("SELECT id FROM t ORDER BY id NULLS LAST LIMIT 4").await;
        assert_eq!(first, if nulls { ["0", "1", "10", "11"] } else { ["0", "1", "2", "10"] });
    }
}

/// Partitions that take files from each other are in no order; a limit makes DataFusion allow it.
#[tokio::test]
async fn partitions_that_are_in_order_share_no_files() {
    for files in [1, 3, 8] {
        let mut table = TestTable::new(id_and_s()).row_group_size(100);
        table.sorted_by = Some(1);
        for n in 0..files {
            let file = table.data(1, &[("id", Some(1), longs((n * 1000..n * 1000 + 1000).map(Some)))]);
            table.metrics(file, 1, 0, n * 1000, n * 1000 + 999);
        }
        let context = table.session(false).await;
        for (name, value) in [
            ("execution.target_partitions", "4"),
            ("optimizer.repartition_file_min_size", "0"),
            ("optimizer.prefer_hash_join", "false"),
        ] {
            context.sql(&format!("SET datafusion.{name} = {value}")).await.unwrap();
        }
        let sql = "SELECT id FROM t WHERE id % 2 = 0 ORDER BY id NULLS LAST LIMIT 300 OFFSET 100";
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let text = displayable(plan.as_ref()).indent(false).to_string();
        assert!(!text.contains("SortExec"), "{text}");
        let mut node = Arc::clone(&plan);
        while let Some(child) = node.children().first().map(|child| Arc::clone(child)) {
            node = child;
        }
        let scan = node.downcast_ref::<DataSourceExec>().unwrap();
        assert!(scan.properties().output_partitioning().partition_count() > 1, "{text}");
        let config = context.copied_config();
        assert!(scan.data_source().create_sibling_state(config.options()).is_none(), "{text}");
        let expected: Vec<String> =
            (0..files * 1000).step_by(2).skip(100).take(300).map(|i| i.to_string()).collect();
        assert_eq!(query(&context, sql).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn rows_with_nan_are_found() {
    let mut table = TestTable::new(vec![NestedField::optional(1, "x", P::Double)]).row_group_size(3);
    let x = Arc::new(arrow::array::Float64Array::from(vec![1.0, f64::NAN, 2.0, -0.0, 0.0, 7.0])) as ArrayRef;
    table.data(1, &[("x", Some(1), x)]);
    assert_eq!(table.rows("SELECT x FROM t WHERE x > 5 ORDER BY x").await, ["7.0", "NaN"]);
    assert_eq!(table.rows("SELECT x FROM t WHERE x = 'NaN'").await, ["NaN"]);
    assert_eq!(table.rows("SELECT x FROM t WHERE NOT (x <= 5) ORDER BY x").await, ["7.0", "NaN"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE x <= 5").await, ["4"]);
    assert_eq!(table.rows("SELECT count(*) FROM (SELECT x FROM t WHERE x <= 5 LIMIT 4)").await, ["4"]);
    assert_eq!(table.rows("SELECT max(x), count(*) FROM t").await, ["NaN 6"]);
}

#[tokio::test]
async fn row_ids_next_to_a_users_own_positions() {
    let mut table = TestTable::new(vec![NestedField::optional(1, "_pos", P::Long)]);
    table.format_version = 3;
    table.data(1, &[("_pos", Some(1), longs([50, 60]))]);
    assert_eq!(table.rows("SELECT _pos, _row_id FROM m ORDER BY 1").await, ["50 0", "60 1"]);
}

#[tokio::test]
async fn a_type_that_is_not_the_tables_is_an_error() {
    let floats = || Arc::new(Float32Array::from(vec![1.7, 2.2])) as ArrayRef;
    let mut table = TestTable::new(id_and_s());
    let file = table.data(1, &[("id", Some(1), floats())]);
    let error = table.error("SELECT id FROM t").await;
    for part in ["Float32", "long", "`id`", "data-0.parquet"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    // Nor are positions that are no whole numbers.
    let mut table = TestTable::new(id_and_s());
    table.data(1, &[("id", Some(1), longs([1, 2]))]);
    table.raw_positions(2, file, floats());
    let error = table.error("SELECT id FROM t").await;
    assert!(error.contains("positions-1.parquet") && error.contains("`pos`"), "{error}");
}

#[tokio::test]
async fn metrics_that_contradict_themselves_are_not_believed() {
    for (nulls, lower, upper) in [(5, 1, 3), (0, 3, 1), (-1, 1, 3)] {
        let mut table = TestTable::new(id_and_s());
        let file = table.data(1, &[("id", Some(1), longs([1, 2, 3]))]);
        table.metrics(file, 1, nulls, lower, upper);
        let rows = table.rows("SELECT count(id), min(id), max(id) FROM t").await;
        assert_eq!(rows, ["3 1 3"], "{nulls} {lower} {upper}");
    }
}

#[tokio::test]
async fn an_older_schema_is_filtered_right_although_partition_values_were_promoted() {
    for transform in [Transform::Identity, Transform::Truncate(2)] {
        let mut table = TestTable::new(vec![NestedField::optional(1, "id", P::Int)]);
        table.specs.push(PartitionSpec {
            spec_id: SpecId(1),
            fields: vec![PartitionField {
                source_ids: vec![FieldId(1)],
                field_id: FieldId(1000),
                name: "p".to_owned(),
                transform: transform.clone(),
                extra: Default::default(),
            }],
        });
        for id in [-6, 2, 4] {
            let ids = Arc::new(Int32Array::from(vec![id])) as ArrayRef;
            table.data_in(1, 1, vec![Some(Value::Int(id))], &[("id", Some(1), ids)]);
        }
        table.evolve(vec![NestedField::optional(1, "id", P::Long)]);
        table.snapshot_schema = Some(0);
        let context = table.session(false).await;
        let now = IcebergTable::open(table.commit().to_str().unwrap()).await.unwrap();
        let then = now.at(&SnapshotSelector::Id(SnapshotId(1))).unwrap();
        context.register_table("then", Arc::new(then)).unwrap();
        for name in ["t", "then"] {
            for (filter, expected) in [
                ("id >= 2", vec!["2", "4"]),
                ("id BETWEEN 2 AND 0", vec![]),
                ("id = 2", vec!["2"]),
                ("id < 0", vec!["-6"]),
                ("id IN (4, 5)", vec!["4"]),
            ] {
                let sql = format!("SELECT id FROM {name} WHERE {filter} ORDER BY id");
                assert_eq!(query(&context, &sql).await.unwrap(), expected, "{transform} {sql}");
            }
        }
    }
}

/// DataFusion prunes as if a cast to booleans kept the order of numbers.
#[tokio::test]
async fn casts_that_change_the_order_prune_nothing() {
    let mut table = TestTable::new(vec![
        NestedField::optional(1, "id", P::Long),
        NestedField::optional(2, "at", P::Timestamp),
    ]);
    let hour = 3_600_000_000i64;
    let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![hour, 30 * hour, 47 * hour]));
    let file = table.data(1, &[("id", Some(1), longs([-1, 0, 1])), ("at", Some(2), at)]);
    table.metrics(file, 1, 0, -1, 1);
    for sql in [
        "SELECT id FROM t WHERE CAST(id AS BOOLEAN) = false",
        "SELECT id FROM t WHERE TRY_CAST(id AS BOOLEAN) = false",
        "SELECT id FROM t WHERE NOT CAST(id AS BOOLEAN)",
        "SELECT id FROM t WHERE CAST(at AS TIME) = TIME '06:00:00'",
    ] {
        assert_eq!(table.rows(sql).await, ["0"], "{sql}");
    }
    assert_eq!(table.rows("SELECT id FROM t WHERE CAST(at AS TIME) > TIME '20:00:00'").await, ["1"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE CAST(id AS DOUBLE) > 0.5").await, ["1"]);
}
