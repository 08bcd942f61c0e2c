//! ORC files of which only some stripes are read.

use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use proptest::prelude::*;

use super::table::{TestTable, query};
use crate::spec::{FileFormat, NestedField, PrimitiveType, Schema};

/// Spark's file of eight stripes, some of its rows deleted.
fn table() -> TestTable {
    let schema = std::fs::read(format!("{}/testdata/files/stripes/schema.json", env!("CARGO_MANIFEST_DIR")));
    let schema = Schema::from_json(&serde_json::from_slice(&schema.unwrap()).unwrap()).unwrap();
    let mut table = TestTable::new(schema.fields().to_vec());
    table.format_version = 3;
    let file = table.copied(1, "stripes/data-1.orc", FileFormat::Orc, 400);
    table.vector(2, file, &[0, 49, 50, 120, 121, 122, 349, 399]);
    table
}

/// How many stripes a query passes over.
async fn pruned(context: &SessionContext, sql: &str) -> usize {
    let plan = query(context, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap().join("\n");
    let found = plan.split_once("orc_stripes_pruned=").map_or("0", |(_, found)| found);
    found.split([',', ']']).next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn stripes_without_a_match_are_not_read() {
    let table = table();
    let context = table.session(false).await;
    for (filter, stripes) in [
        ("id = 120", 7),
        ("id > 349 OR id < 50", 6),
        ("id + 0 = 120", 0),
        ("i < -2000", 6),
        ("i IS NOT NULL", 1),
        ("i IS NULL AND id >= 150 AND id < 200", 7),
        ("b", 3),
        ("NOT b", 2),
        ("l IN (1154, 98197)", 7),
        ("s = 'dä1'", 7),
        ("s > 'h'", 7),
        ("s IS NULL", 7),
        ("d < DATE '1969-12-11'", 7),
        ("n > 200.00", 6),
        ("n > arrow_cast('200', 'Decimal128(9, 2)')", 6),
        ("CAST(i AS BOOLEAN) = false", 0),
        ("CAST(t AS TIME) > TIME '12:00:00'", 0),
        ("f > 100", 0),
        ("z >= TIMESTAMP '1970-01-02T00:00:02.001Z'", 5),
        ("t >= TIMESTAMP '1971-01-01T00:00:00'", 8),
    ] {
        assert_eq!(pruned(&context, &format!("SELECT * FROM t WHERE {filter}")).await, stripes, "{filter}");
    }
}

#[tokio::test]
async fn positions_and_row_ids_count_what_is_passed_over() {
    let table = table();
    let rows = table.rows("SELECT id, _pos, _row_id FROM m WHERE id BETWEEN 119 AND 123 ORDER BY id").await;
    assert_eq!(rows, ["119 119 119", "123 123 123"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE id >= 300").await, ["98"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE id >= 398").await, ["398"]);
}

#[tokio::test]
async fn the_best_rows_prune_as_they_come() {
    let table = table();
    assert_eq!(table.rows("SELECT id FROM t ORDER BY id DESC LIMIT 2").await, ["398", "397"]);
    assert_eq!(table.rows("SELECT id FROM t ORDER BY z LIMIT 1").await.len(), 1);
}

#[tokio::test]
async fn columns_that_changed_since() {
    let mut table = table();
    let fields = table.schemas[0].fields().iter().cloned().map(|field| match field.name.as_str() {
        "i" => NestedField::optional(2, "s", PrimitiveType::Long),
        "s" => NestedField::optional(6, "i", PrimitiveType::String),
        "n" => NestedField::optional(8, "n", PrimitiveType::Decimal { precision: 20, scale: 2 }),
        _ => field,
    });
    let added = NestedField::optional(77, "added", PrimitiveType::Int);
    table.evolve(fields.chain([added]).collect());
    let context = table.session(false).await;
    for (filter, stripes, rows) in [
        ("s < -2000", 6, 90),
        ("s = 5000000000", 8, 0),
        ("i >= 'h'", 7, 49),
        ("n > 1000000000.00", 8, 0),
        ("n > 200.00 AND added IS NULL", 6, 90),
    ] {
        assert_eq!(pruned(&context, &format!("SELECT * FROM t WHERE {filter}")).await, stripes, "{filter}");
        let counted = table.rows(&format!("SELECT count(*) FROM t WHERE {filter}")).await;
        let counted: usize = counted[0].parse().unwrap();
        assert!(counted.abs_diff(rows) < 12 && (counted == 0) == (rows == 0), "{filter}: {counted}");
    }
}

#[tokio::test]
async fn stripes_of_the_other_writer() {
    let fields = vec![
        NestedField::required(1, "id", PrimitiveType::Long),
        NestedField::optional(2, "s", PrimitiveType::String),
    ];
    let mut table = TestTable::new(fields);
    table.copied(1, "no_ids/stripes.orc", FileFormat::Orc, 900);
    let context = table.session(false).await;
    assert!(pruned(&context, "SELECT id FROM t WHERE id = 450").await >= 3);
    let rows = table.rows("SELECT id, _pos FROM m WHERE id >= 448 AND id < 451 ORDER BY id").await;
    assert_eq!(rows, ["448 448", "449 449", "450 450"]);
}

/// A literal of a column near a border between stripes.
fn literal(column: &'static str) -> BoxedStrategy<String> {
    let near = (-1i64..10, prop_oneof![Just(0i64), -2i64..3, 0i64..1000]);
    near.prop_map(move |(stripe, off)| match column {
        "id" | "_pos" | "_row_id" => (stripe * 50 + off % 50).to_string(),
        "i" => ((stripe - 4) * 1000 + off).to_string(),
        "l" => ((stripe - 3) * 1_000_000_000_000 + off * 100).to_string(),
        "f" => format!("{}.{off:03}", stripe).replace('-', ""),
        "s" => {
            let letter = char::from(b'a' + (stripe.rem_euclid(9)) as u8);
            let rest = ["", "ä", "ä5", "äzz"][off.rem_euclid(4) as usize];
            format!("'{letter}{rest}'")
        }
        "d" => format!("(DATE '1969-12-01' + INTERVAL '{}' DAY)", stripe * 10 + off % 10),
        "n" => format!("{}.{:02}", (stripe - 4) * 100 + off / 10, off.rem_euclid(100)),
        "t" => timestamp((stripe - 4) * 500_000 + off * 500, ""),
        _ => timestamp((stripe - 4) * 86_400_000_000 + off * 86_400_000, "Z"),
    })
    .boxed()
}

fn timestamp(micros: i64, zone: &str) -> String {
    let time = chrono::DateTime::from_timestamp_micros(micros).unwrap().naive_utc();
    format!("TIMESTAMP '{}{zone}'", time.format("%Y-%m-%dT%H:%M:%S%.6f"))
}

const COLUMNS: [&str; 11] = ["id", "_pos", "_row_id", "i", "l", "f", "s", "d", "n", "t", "z"];

fn filter() -> BoxedStrategy<String> {
    let compared = (0..COLUMNS.len()).prop_flat_map(|column| {
        let column = COLUMNS[column];
        let operator = prop::sample::select(vec![
            "=",
            "<>",
            "<",
            "<=",
            ">",
            ">=",
            "IS DISTINCT FROM",
            "IS NOT DISTINCT FROM",
        ]);
        (operator, literal(column), literal(column), 0..4).prop_map(move |(op, a, b, form)| match form {
            0 => format!("{column} IN ({a}, {b})"),
            1 => format!("{column} NOT BETWEEN {a} AND {b}"),
            2 => format!("{column} BETWEEN {a} AND {b}"),
            _ => format!("{column} {op} {a}"),
        })
    });
    let null = (0..COLUMNS.len(), any::<bool>())
        .prop_map(|(column, not)| format!("{} IS {}NULL", COLUMNS[column], if not { "NOT " } else { "" }));
    let other = prop::sample::select(vec![
        "b",
        "NOT b",
        "b IS NULL",
        "s LIKE 'cä%'",
        "s NOT LIKE 'd%'",
        "f = 'NaN'",
        "CAST(t AS TIME) > TIME '12:00:00'",
        "CAST(i AS BOOLEAN) = false",
        "i % 7 = 3",
        "i > id",
    ]);
    let leaf = prop_oneof![6 => compared, 1 => null, 2 => other.prop_map(str::to_owned)];
    leaf.prop_recursive(3, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            inner.prop_map(|a| format!("NOT ({a})")),
        ]
    })
    .boxed()
}

/// The table, and all its rows in memory as `all_rows`.
async fn with_all_rows() -> (TestTable, SessionContext) {
    let table = table();
    let context = table.session(false).await;
    let all = context.sql("SELECT id, i, l, b, f, s, d, n, t, z, _pos, _row_id FROM m").await.unwrap();
    let schema = Arc::clone(all.schema().inner());
    let rows = MemTable::try_new(schema, vec![all.collect().await.unwrap()]).unwrap();
    context.register_table("all_rows", Arc::new(rows)).unwrap();
    (table, context)
}

#[test]
fn pruning_never_loses_a_row() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (_table, context) = runtime.block_on(with_all_rows());
    proptest!(ProptestConfig::with_cases(256), |(filter in filter())| {
        let of = |table: &str| {
            let sql = format!("SELECT id, _pos, _row_id FROM {table} WHERE {filter} ORDER BY id");
            runtime.block_on(query(&context, &sql))
        };
        let (pruned, whole) = (of("m"), of("all_rows"));
        match (pruned, whole) {
            (Ok(pruned), Ok(whole)) => prop_assert_eq!(pruned, whole),
            (_, whole) => prop_assert!(whole.is_err(), "{filter}"),
        }
    });
}
