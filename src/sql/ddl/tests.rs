//! Statements about catalogs.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::SessionContext;

use super::enable_url_table;
use crate::catalog::{Catalog, MemoryCatalog, Namespace, TableIdent};
use crate::error::{Error, ErrorKind};
use crate::provider::IcebergCatalogProvider;
use crate::spec::{NullOrder, SortDirection, TableMetadata, Type};
use crate::sql::IcebergSql;

/// Sessions as applications have them, and as the shell has one.
fn sessions() -> [(SessionContext, Arc<MemoryCatalog>); 2] {
    [SessionContext::new(), enable_url_table(SessionContext::new())].map(with_catalog)
}

fn with_catalog(context: SessionContext) -> (SessionContext, Arc<MemoryCatalog>) {
    let catalog = Arc::new(MemoryCatalog::new("ice").unwrap());
    let provider = IcebergCatalogProvider::new(Arc::clone(&catalog) as Arc<dyn Catalog>);
    context.register_catalog("ice", Arc::new(provider));
    (context, catalog)
}

fn namespace(levels: &[&str]) -> Namespace {
    Namespace::new(levels.iter().copied()).unwrap()
}

#[tokio::test]
async fn schemas_are_created_at_any_depth() {
    for (context, catalog) in sessions() {
        for sql in ["CREATE SCHEMA ice.x", "CREATE SCHEMA ice.\"x.y\"", "CREATE SCHEMA \"ice\".\"x.y.z\""] {
            context.iceberg_sql(sql).await.unwrap().collect().await.unwrap();
            assert!(context.iceberg_sql(sql).await.unwrap_err().to_string().contains("already exists"));
            context.iceberg_sql(&sql.replace("SCHEMA", "SCHEMA IF NOT EXISTS")).await.unwrap();
        }
        assert!(catalog.namespace_exists(&namespace(&["x", "y", "z"])).await.unwrap());
        let e = context.iceberg_sql("CREATE SCHEMA IF NOT EXISTS ice.\"a.b\"").await.unwrap_err();
        assert_eq!(Error::find_in(&e).unwrap().kind(), ErrorKind::NotFound);
        context.iceberg_sql("DROP SCHEMA ice.\"x.y.z\"").await.unwrap();
        assert!(!catalog.namespace_exists(&namespace(&["x", "y", "z"])).await.unwrap());
        assert!(context.iceberg_sql("DROP SCHEMA ice.\"x.y.z\"").await.is_err());
        context.iceberg_sql("DROP SCHEMA IF EXISTS ice.\"x.y.z\"").await.unwrap();
        // Others go elsewhere, and without a catalog they go to the default one.
        context.iceberg_sql("CREATE SCHEMA s").await.unwrap();
        assert!(context.catalog("datafusion").unwrap().schema("s").is_some());
        context.iceberg_sql("SET datafusion.catalog.default_catalog = 'ice'").await.unwrap();
        context.iceberg_sql("CREATE SCHEMA \"x.q\"").await.unwrap();
        assert!(catalog.namespace_exists(&namespace(&["x", "q"])).await.unwrap());
    }
}

#[tokio::test]
async fn what_another_dropped_is_created_again() {
    for (context, catalog) in sessions() {
        context.iceberg_sql("CREATE SCHEMA ice.x").await.unwrap();
        assert!(context.catalog("ice").unwrap().schema("x").is_some());
        catalog.drop_namespace(&namespace(&["x"])).await.unwrap();
        context.iceberg_sql("CREATE SCHEMA IF NOT EXISTS ice.x").await.unwrap();
        assert!(catalog.namespace_exists(&namespace(&["x"])).await.unwrap());
    }
}

/// A session whose catalog `ice` has the namespace `n`.
async fn session() -> (SessionContext, Arc<MemoryCatalog>) {
    let context = SessionContext::new();
    crate::sql::register(&context).unwrap();
    let (context, catalog) = with_catalog(context);
    run(&context, "CREATE SCHEMA ice.n").await;
    (context, catalog)
}

async fn run(context: &SessionContext, sql: &str) -> Vec<String> {
    let frame = context.iceberg_sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let batches = frame.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let row = |batch: &RecordBatch, row: usize| {
        let cells = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        cells.collect::<Vec<_>>().join(" ")
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |i| row(batch, i))).collect()
}

async fn fails(context: &SessionContext, sql: &str) -> String {
    match context.iceberg_sql(sql).await {
        Ok(frame) => frame.collect().await.map(|_| panic!("{sql} is no error")).unwrap_err().to_string(),
        Err(e) => e.to_string(),
    }
}

async fn metadata(catalog: &MemoryCatalog, name: &str) -> Arc<TableMetadata> {
    let table = TableIdent::new(namespace(&["n"]), name).unwrap();
    Arc::clone(catalog.load_table(&table).await.unwrap().metadata())
}

/// The columns as text: name, type, `!` if required.
fn columns(metadata: &TableMetadata) -> Vec<String> {
    let fields = metadata.current_schema().fields().iter();
    fields.map(|f| format!("{} {}{}", f.name, f.field_type, if f.required { "!" } else { "" })).collect()
}

fn partitions(metadata: &TableMetadata) -> Vec<String> {
    metadata.default_spec().fields.iter().map(|f| format!("{} {}", f.name, f.transform)).collect()
}

#[tokio::test]
async fn tables_are_created() {
    let (context, catalog) = session().await;
    run(
        &context,
        "CREATE TABLE ice.n.t (id bigint NOT NULL COMMENT 'the key', Name string, ts timestamp, day date,
            tags array<string>, m map<string, array<int>>, p struct<x: double NOT NULL, y: struct<z: int>> COMMENT 'place',
            price decimal(9, 2), \"Big\" varchar(10), b binary, u uuid, f fixed(4), tz timestamptz, l int[],
            PRIMARY KEY (id) NOT ENFORCED)
         USING iceberg
         PARTITIONED BY (days(ts), bucket(16, id), truncate(Name, 4), p.x)
         COMMENT 'all of it'
         TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'format-version' = '3', history.expire.min-snapshots-to-keep = 5)",
    )
    .await;
    let metadata = metadata(&catalog, "t").await;
    assert_eq!(
        columns(&metadata),
        [
            "id long!",
            "name string",
            "ts timestamp",
            "day date",
            "tags list<string>",
            "m map<string, list<int>>",
            "p struct<7: x: required double, 8: y: optional struct<9: z: optional int>>",
            "price decimal(9, 2)",
            "Big string",
            "b binary",
            "u uuid",
            "f fixed[4]",
            "tz timestamptz",
            "l list<int>",
        ]
        .map(|column| match column.starts_with("p ") {
            true => format!("p {}", metadata.current_schema().field_by_full_name("p").unwrap().field_type),
            false => column.to_owned(),
        })
    );
    assert_eq!(
        partitions(&metadata),
        ["ts_day day", "id_bucket bucket[16]", "name_trunc truncate[4]", "p.x identity"]
    );
    let schema = metadata.current_schema();
    assert_eq!(schema.field_by_full_name("id").unwrap().doc.as_deref(), Some("the key"));
    assert!(schema.field_by_full_name("p.x").unwrap().required);
    assert_eq!(schema.identifier_field_ids, [schema.field_by_full_name("id").unwrap().id]);
    assert_eq!(metadata.format_version, 3);
    let properties: Vec<_> = metadata.properties.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert!(properties.contains(&"comment=all of it".to_owned()), "{properties:?}");
    assert!(properties.contains(&"history.expire.min-snapshots-to-keep=5".to_owned()), "{properties:?}");
    assert!(properties.contains(&"write.delete.mode=merge-on-read".to_owned()), "{properties:?}");

    assert!(fails(&context, "CREATE TABLE ice.n.t (a int)").await.contains("it exists"));
    run(&context, "CREATE TABLE IF NOT EXISTS ice.n.t (a int)").await;
    assert!(fails(&context, "CREATE OR REPLACE TABLE ice.n.t (a int)").await.contains("replacing a table"));
    run(
        &context,
        "CREATE OR REPLACE TABLE ice.n.fresh (a int DEFAULT 1 + 2, b int) TBLPROPERTIES ('format-version'='3')",
    )
    .await;
    run(&context, "INSERT INTO ice.n.fresh (b) VALUES (1)").await;
    assert_eq!(run(&context, "SELECT a FROM ice.n.fresh").await, ["3"]);
    // What follows a default is no part of it.
    run(
        &context,
        "CREATE TABLE ice.n.defaults (a boolean DEFAULT false NOT NULL, b string DEFAULT 'x' || 'y' NOT NULL COMMENT 'c', \
         c date DEFAULT '2024-02-03', d decimal(5, 2) DEFAULT 1.5, e int DEFAULT NULL, f bigint DEFAULT (1 + 2) * 3 NULL, \
         g timestamp(6) DEFAULT '2024-01-01 00:00:00' PRIMARY KEY, h int) TBLPROPERTIES ('format-version' = '3', 'x' = -9007199254740993)",
    )
    .await;
    run(&context, "INSERT INTO ice.n.defaults (h) VALUES (1)").await;
    let rows = run(&context, "SELECT a, b, c, d, e, f, g FROM ice.n.defaults").await;
    assert_eq!(rows, ["false xy 2024-02-03 1.50  9 2024-01-01T00:00:00"]);
    let defaults = self::metadata(&catalog, "defaults").await;
    assert_eq!(columns(&defaults)[..2], ["a boolean!", "b string!"]);
    assert_eq!(defaults.properties["x"], "-9007199254740993");
    for (sql, wanted) in [
        ("CREATE TABLE ice.nope.t (a int)", "namespace `ice.nope`"),
        ("CREATE TABLE ice.n.u (a int) USING parquet", "USING iceberg, not parquet"),
        ("CREATE TABLE ice.n.u (a intt)", "a type of Iceberg"),
        ("CREATE TABLE ice.n.u (a array<int>, b map<int, struct<c: array<int>>>, c array<array<int)", "`>`"),
        ("CREATE TABLE ice.n.u (a int) PARTITIONED BY (b)", "column `b`; there are a"),
        ("CREATE TABLE ice.n.u (a int) PARTITIONED BY (weeks(a))", "there are years, months"),
        ("CREATE TABLE ice.n.u (a int) PARTITIONED BY (days(a))", "day"),
        ("CREATE TABLE ice.n.u (a int, a int)", "a"),
        ("CREATE TABLE ice.n.u", "without columns"),
        ("CREATE TABLE ice.n.u (a int) LOCATED 'x'", "the end of the statement"),
        ("CREATE TABLE ice.n.u (a int DEFAULT 'x') TBLPROPERTIES ('format-version'='3')", "Cast"),
        ("CREATE TABLE ice.n.u (a int DEFAULT 1)", "default"),
        ("REPLACE TABLE ice.n.u (a int)", "no such table"),
        ("CREATE TABLE ice.n.u (a int) PARTITIONED BY (a) PARTITIONED BY (a)", "twice"),
        ("CREATE TABLE ice.n.u (a int) TBLPROPERTIES ('a' = 'b') OPTIONS (a = 'c')", "twice"),
        ("CREATE TABLE ice.n.u (a int NOT NULL NULL)", "twice"),
        ("CREATE TABLE ice.n.u (a int DEFAULT 1 DEFAULT 2)", "twice"),
        ("CREATE TABLE ice.n.u (a int DEFAULT 1.7) TBLPROPERTIES ('format-version'='3')", "is no int"),
        (
            "CREATE TABLE ice.n.u (a timestamp DEFAULT now()) TBLPROPERTIES ('format-version'='3')",
            "constants",
        ),
        (
            "CREATE TABLE ice.n.u (a double DEFAULT random()) TBLPROPERTIES ('format-version'='3')",
            "constants",
        ),
        (
            "CREATE TABLE ice.n.u (a int DEFAULT 1 2) TBLPROPERTIES ('format-version'='3')",
            "end of the default",
        ),
        ("CREATE TABLE ice.n.u (a int) LOCATION 'here/u'", "is relative"),
        ("CREATE TABLE ice.n.u (a int) TBLPROPERTIES ('provider' = 'x')", "use USING"),
        ("CREATE TABLE ice.n.u (a int) TBLPROPERTIES ('write.delete.mode' = 'x')", "write.delete.mode"),
        ("CREATE TABLE ice.n.u (a timestamp(3))", "6 or 9 digits"),
    ] {
        let error = fails(&context, sql).await;
        assert!(error.contains(wanted), "{sql}: {error}");
        let table = TableIdent::new(namespace(&["n"]), "u").unwrap();
        assert!(!catalog.table_exists(&table).await.unwrap(), "{sql}");
    }
}

#[tokio::test]
async fn tables_are_created_with_rows_or_not_at_all() {
    let (context, catalog) = session().await;
    let sql = "CREATE TABLE ice.n.t USING iceberg PARTITIONED BY (k) TBLPROPERTIES ('a' = 'b') AS
               SELECT column1 AS k, 'x' || column2 AS s, DATE '2024-01-01' AS d FROM (VALUES (1, 'a'), (2, 'b'))";
    assert!(fails(&context, &format!("EXPLAIN {sql}")).await.contains("its query's"));
    run(&context, "EXPLAIN FORMAT 'tree' SELECT 1").await;
    assert!(catalog.list_tables(&namespace(&["n"])).await.unwrap().is_empty());
    assert_eq!(run(&context, sql).await, ["2"]);
    assert_eq!(
        run(&context, "SELECT * FROM ice.n.t ORDER BY k").await,
        ["1 xa 2024-01-01", "2 xb 2024-01-01"]
    );
    let made = metadata(&catalog, "t").await;
    assert_eq!(
        (columns(&made), made.snapshots.len()),
        (vec!["k long".into(), "s string".into(), "d date".into()], 1)
    );
    assert_eq!(partitions(&made), ["k identity"]);
    // No rows are a table too, and versions can be copied.
    assert_eq!(run(&context, "CREATE TABLE ice.n.none AS SELECT * FROM ice.n.t WHERE false").await, ["0"]);
    assert_eq!(columns(metadata(&catalog, "none").await.as_ref()), columns(&made));
    run(&context, "DELETE FROM ice.n.t WHERE k = 1").await;
    let sql = format!(
        "CREATE TABLE ice.n.old AS SELECT * FROM ice.n.t VERSION AS OF {}",
        made.current_snapshot_id.unwrap().0
    );
    assert_eq!(run(&context, &sql).await, ["2"]);
    assert!(run(&context, "CREATE TABLE IF NOT EXISTS ice.n.t AS SELECT 1 AS a").await.is_empty());
    // DataFusion's types become those that every table has.
    let sql = "CREATE TABLE ice.n.types AS SELECT to_timestamp('2024-01-02T03:04:05.678901') AS t, row_number() OVER () AS n, \
               1 AS i, 1.5 AS f, 'x' AS s, [1] AS l";
    assert_eq!(run(&context, sql).await, ["1"]);
    let types = columns(metadata(&catalog, "types").await.as_ref());
    assert_eq!(types, ["t timestamp", "n long", "i long", "f double", "s string", "l list<long>"]);
    assert_eq!(run(&context, "SELECT t, n FROM ice.n.types").await, ["2024-01-02T03:04:05.678901 1"]);
    // The columns of an INSERT go by their places.
    run(
        &context,
        "INSERT INTO ice.n.t SELECT 7, NULL, NULL UNION ALL SELECT k, 's', NULL FROM ice.n.t WHERE false",
    )
    .await;
    run(&context, "CREATE TABLE ice.n.pair (a int, b int, c int)").await;
    assert_eq!(
        run(
            &context,
            "INSERT INTO ice.n.pair SELECT a, a, 1 FROM (VALUES (4, 4)) AS x(a, b) UNION ALL SELECT 5, 5, 5"
        )
        .await,
        ["2"]
    );
    assert_eq!(run(&context, "SELECT * FROM ice.n.pair ORDER BY a").await, ["4 4 1", "5 5 5"]);
    // VALUES in a query are what they are.
    run(&context, "CREATE TABLE ice.n.sums (a int, b double) TBLPROPERTIES ('format-version' = '3')").await;
    run(
        &context,
        "INSERT INTO ice.n.sums SELECT 1, x + y FROM (VALUES (1.5, 2.5), (NULL, 1)) AS v(x, y) WHERE y > 1",
    )
    .await;
    run(&context, "INSERT INTO ice.n.sums (b) WITH v AS (VALUES (0.25)) SELECT column1 FROM v").await;
    run(&context, "INSERT INTO ice.n.sums (b, a) SELECT 9, 8 UNION ALL VALUES (0.5, 4)").await;
    run(&context, "EXPLAIN INSERT INTO ice.n.sums SELECT * FROM (VALUES (1, 2)) AS v(x, y)").await;
    let sums = run(&context, "SELECT a, b FROM ice.n.sums ORDER BY b").await;
    assert_eq!(sums, [" 0.25", "4 0.5", "1 4.0", "8 9.0"]);
    for (sql, wanted) in [
        ("INSERT INTO ice.n.sums SELECT x FROM (VALUES (1)) AS v(x)", "INSERT of 1 columns into 2"),
        ("INSERT INTO ice.n.sums (a, a) SELECT x, x FROM (VALUES (1)) AS v(x)", "`a` twice"),
        ("INSERT INTO ice.n.sums (z) SELECT x FROM (VALUES (1)) AS v(x)", "there are a, b"),
    ] {
        let error = fails(&context, sql).await;
        assert!(error.contains(wanted), "{sql}: {error}");
    }
    run(&context, "INSERT OVERWRITE ice.n.sums SELECT x, y FROM (VALUES (1, 1.5)) AS v(x, y)").await;
    assert_eq!(run(&context, "SELECT a, b FROM ice.n.sums").await, ["1 1.5"]);
    run(&context, "CREATE TABLE ice.n.st (id int, s struct<a: int, b: int>)").await;
    run(&context, "INSERT INTO ice.n.st VALUES (1, {a: 1, b: 2})").await;
    for sql in [
        "INSERT INTO ice.n.st SELECT 2, named_struct('a', 1, 'bb', 2)",
        "UPDATE ice.n.st SET s = named_struct('a', 1)",
        "UPDATE ice.n.st SET s = named_struct('a', 1, 'b', 2, 'c', 3)",
        "MERGE INTO ice.n.st USING (SELECT 1 AS id) n ON st.id = n.id WHEN MATCHED THEN UPDATE SET s = named_struct('b', 1)",
    ] {
        assert!(fails(&context, sql).await.contains("other fields"), "{sql}");
    }
    run(&context, "UPDATE ice.n.st SET s = named_struct('b', 8, 'a', 7)").await;
    assert_eq!(run(&context, "SELECT s.a, s.b FROM ice.n.st").await, ["7 8"]);
    for (sql, wanted) in [
        ("CREATE TABLE ice.n.u AS SELECT 1 AS a, 1 / 0 AS b", "Divide by zero"),
        ("CREATE TABLE ice.n.u AS SELECT 1 / (column1 - 2) AS b FROM (VALUES (1), (2))", "Divide by zero"),
        ("CREATE TABLE ice.n.u (a int) AS SELECT 1 AS a", "the query says"),
        ("CREATE TABLE ice.n.u AS SELECT nope FROM ice.n.t", "nope"),
        ("CREATE TABLE ice.n.u AS SELECT INTERVAL '1 day' AS i", "Interval"),
        ("CREATE TABLE ice.n.t AS SELECT 1 AS a", "it exists"),
    ] {
        let error = fails(&context, sql).await;
        assert!(error.contains(wanted), "{sql}: {error}");
        let table = TableIdent::new(namespace(&["n"]), "u").unwrap();
        assert!(!catalog.table_exists(&table).await.unwrap(), "{sql}");
    }
}

#[tokio::test]
async fn tables_change() {
    let (context, catalog) = session().await;
    run(
        &context,
        "CREATE TABLE ice.n.t (id int NOT NULL, s string, p struct<x: int, y: int>, ts timestamp) \
         TBLPROPERTIES ('format-version' = '3', 'a' = 'b')",
    )
    .await;
    run(&context, "INSERT INTO ice.n.t (id, s) VALUES (1, 'a')").await;
    for sql in [
        "ADD COLUMN c double COMMENT 'new' AFTER s",
        "ADD COLUMNS (d int DEFAULT 7, e array<int> FIRST)",
        "ADD COLUMN p.z string AFTER x",
        "RENAME COLUMN c TO cc",
        "DROP COLUMN IF EXISTS nope, e",
        "ALTER COLUMN id TYPE bigint",
        "ALTER COLUMN s SET DEFAULT 'dd'",
        "ALTER COLUMN s COMMENT 'text' FIRST",
        "ALTER COLUMN id DROP NOT NULL",
        "SET TBLPROPERTIES ('c' = 'd', write.delete.mode = 'merge-on-read')",
        "UNSET TBLPROPERTIES IF EXISTS ('a', 'nope')",
        "ADD PARTITION FIELD days(ts)",
        "ADD PARTITION FIELD bucket(8, id) AS shard",
        "ADD PARTITION FIELD s",
        "DROP PARTITION FIELD s",
        "REPLACE PARTITION FIELD ts_day WITH months(ts) AS month",
        "WRITE ORDERED BY id DESC NULLS FIRST, bucket(4, s)",
        "CREATE BRANCH audit RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 HOURS",
        "CREATE TAG `v-1`",
        "CREATE BRANCH IF NOT EXISTS audit",
        "ADD COLUMN IF NOT EXISTS d int",
        "ADD COLUMN f int, g int, ADD COLUMN h int, DROP COLUMN g, RENAME COLUMN f TO ff",
        "DROP ff, h",
    ] {
        run(&context, &format!("ALTER TABLE ice.n.t {sql}")).await;
    }
    let now = metadata(&catalog, "t").await;
    let struct_type = &now.current_schema().field_by_full_name("p").unwrap().field_type;
    assert_eq!(
        columns(&now),
        [
            "s string".to_owned(),
            "id long".into(),
            "cc double".into(),
            format!("p {struct_type}"),
            "ts timestamp".into(),
            "d int".into()
        ]
    );
    let Type::Struct(fields) = struct_type else { panic!() };
    assert_eq!(fields.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["x", "z", "y"]);
    assert_eq!(partitions(&now), ["shard bucket[8]", "month month"]);
    let keys = &now.default_sort_order().fields;
    assert_eq!(keys.len(), 2);
    assert_eq!((keys[0].direction, keys[0].null_order), (SortDirection::Descending, NullOrder::First));
    assert_eq!(now.properties.get("write.distribution-mode").unwrap(), "range");
    assert_eq!((now.properties.get("a"), now.properties.get("c").unwrap().as_str()), (None, "d"));
    let audit = &now.refs["audit"];
    assert_eq!(audit.max_ref_age_ms, Some(7 * 86_400_000));
    assert!(now.refs.contains_key("v-1"));
    run(&context, "INSERT INTO ice.n.t (id) VALUES (2)").await;
    let rows = run(&context, "SELECT id, s, d FROM ice.n.t ORDER BY id").await;
    assert_eq!(rows, ["1 a 7", "2 dd 7"]);

    for sql in ["DROP BRANCH audit", "DROP TAG IF EXISTS nope", "WRITE UNORDERED", "SET IDENTIFIER FIELDS d"]
    {
        let sql = format!("ALTER TABLE ice.n.t {sql}");
        match sql.contains("IDENTIFIER") {
            true => assert!(fails(&context, &sql).await.contains('d')),
            false => drop(run(&context, &sql).await),
        }
    }
    run(&context, "ALTER TABLE ice.n.t RENAME TO u").await;
    run(&context, "ALTER TABLE IF EXISTS ice.n.t SET TBLPROPERTIES ('x' = 'y')").await;
    assert_eq!(run(&context, "SELECT count(*) FROM ice.n.u").await, ["2"]);
    for (sql, wanted) in [
        ("ALTER TABLE ice.n.t ADD COLUMN x int", "not found"),
        ("ALTER TABLE ice.n.u ADD COLUMN id int", "id"),
        ("ALTER TABLE ice.n.u DROP COLUMN nope", "nope"),
        ("ALTER TABLE ice.n.u ALTER COLUMN d TYPE string", "d"),
        ("ALTER TABLE ice.n.u ALTER COLUMN d SET NOT NULL", "d"),
        ("ALTER TABLE ice.n.u ALTER COLUMN d", "TYPE, COMMENT"),
        ("ALTER TABLE ice.n.u UNSET TBLPROPERTIES ('nope')", "nope"),
        ("ALTER TABLE ice.n.u DROP PARTITION FIELD nope", "nope"),
        ("ALTER TABLE ice.n.u REPLACE TAG nope AS OF VERSION 1", "nope"),
        ("ALTER TABLE ice.n.u CREATE TAG x WITH SNAPSHOT RETENTION 3 SNAPSHOTS", "a tag is one snapshot"),
        ("ALTER TABLE ice.n.u SET LOCATION 'x'", "is relative"),
        ("ALTER TABLE ice.n.u SET TBLPROPERTIES ('sort-order' = 'd')", "WRITE ORDERED BY"),
        ("ALTER TABLE ice.n.u SET TBLPROPERTIES ('write.format.default' = 'x')", "write.format.default"),
        ("ALTER TABLE ice.n.u RENAME TO v, DROP COLUMN d", "run it alone"),
        ("ALTER TABLE ice.n.u DROP COLUMN d, ADD COLUMN IF NOT EXISTS d string", "run it alone"),
        ("ALTER TABLE ice.n.u ALTER COLUMN d TYPE bigint SET DEFAULT 3000000000", "run it alone"),
        ("ALTER TABLE ice.n.u FROB", "a change of a table"),
        ("ALTER TABLE ice.n.u SET TBLPROPERTIES ('format-version' = '2')", "version"),
    ] {
        let error = fails(&context, sql).await;
        assert!(error.contains(wanted), "{sql}: {error}");
    }
}

#[tokio::test]
async fn tables_and_namespaces_are_dropped() {
    for (context, catalog) in sessions() {
        run(&context, "CREATE DATABASE IF NOT EXISTS ice.x COMMENT 'c' WITH DBPROPERTIES ('a' = 'b')").await;
        run(&context, "ALTER DATABASE ice.x SET DBPROPERTIES ('a' = 'e')").await;
        let properties = catalog.load_namespace(&namespace(&["x"])).await.unwrap();
        assert_eq!((properties["a"].as_str(), properties["comment"].as_str()), ("e", "c"));
        run(&context, "CREATE TABLE ice.x.t (a int)").await;
        assert!(fails(&context, "DROP DATABASE ice.x").await.contains('x'));
        assert!(fails(&context, "DROP SCHEMA ice.x CASCADE").await.contains("drop what is in it first"));
        assert!(fails(&context, "DROP VIEW ice.x.t").await.contains("is a table"));
        run(&context, "DROP TABLE ice.x.t PURGE").await;
        assert!(fails(&context, "DROP TABLE ice.x.t").await.contains("not found"));
        run(&context, "DROP TABLE IF EXISTS ice.x.t PURGE").await;
        run(&context, "DROP TABLE IF EXISTS ice.nope.t").await;
        run(&context, "DROP VIEW IF EXISTS ice.x.t").await;
        run(&context, "DROP NAMESPACE ice.x").await;
        run(&context, "DROP NAMESPACE IF EXISTS ice.x").await;
        // What is in other catalogs is DataFusion's.
        run(&context, "CREATE TABLE here AS SELECT 1 AS a").await;
        run(&context, "DROP TABLE here").await;
        run(&context, "SET datafusion.catalog.default_catalog = 'ice'").await;
        run(&context, "CREATE SCHEMA public").await;
        run(&context, "CREATE TABLE t (a int)").await;
        run(&context, "INSERT INTO t VALUES (1)").await;
        run(&context, "CREATE TABLE public.u AS SELECT a + 1 AS b FROM t").await;
        assert_eq!(run(&context, "SELECT b FROM u").await, ["2"]);
        run(&context, "DROP TABLE t").await;
        assert_eq!(catalog.list_tables(&namespace(&["public"])).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn procedures_move_branches_and_snapshots() {
    let (context, catalog) = session().await;
    run(&context, "CREATE TABLE ice.n.t (a int)").await;
    let mut ids = Vec::new();
    for a in 1..=3 {
        run(&context, &format!("INSERT INTO ice.n.t VALUES ({a})")).await;
        ids.push(metadata(&catalog, "t").await.current_snapshot_id.unwrap().0);
    }
    let count = async || run(&context, "SELECT count(*) FROM ice.n.t").await.join("");
    let call = format!("CALL ice.system.rollback_to_snapshot('n.t', {})", ids[0]);
    assert_eq!(run(&context, &call).await, [format!("{} {}", ids[2], ids[0])]);
    assert_eq!(count().await, "1");
    let call = format!("CALL ice.system.set_current_snapshot(snapshot_id => {}, table => 'ice.n.t')", ids[1]);
    run(&context, &call).await;
    assert_eq!(count().await, "2");
    run(&context, &format!("ALTER TABLE ice.n.t CREATE BRANCH audit AS OF VERSION {}", ids[2])).await;
    let call = "CALL ice.system.fast_forward('ice.n.t', 'main', 'audit')";
    assert_eq!(run(&context, call).await, [format!("main {} {}", ids[1], ids[2])]);
    assert_eq!(count().await, "3");
    run(&context, "CALL ice.system.set_current_snapshot(table => 'n.t', ref => 'audit')").await;
    let ancestors = run(&context, "CALL ice.system.ancestors_of('n.t')").await;
    assert_eq!(
        ancestors
            .iter()
            .map(|row| row.split(' ').next().unwrap().parse::<i64>().unwrap())
            .collect::<Vec<_>>(),
        [ids[2], ids[1], ids[0]]
    );
    run(&context, "CALL ice.system.rollback_to_timestamp('n.t', TIMESTAMP '2100-01-01 00:00:00')").await;
    for (sql, wanted) in [
        ("CALL ice.system.rewrite_the_world('n.t')", "there are rollback_to_snapshot"),
        ("CALL ice.system.rollback_to_snapshot('n.t')", "`snapshot_id` is missing"),
        ("CALL ice.system.rollback_to_snapshot('n.t', 1, 2)", "too many arguments"),
        ("CALL ice.system.rollback_to_snapshot(table => 'n.t', nope => 1)", "no `nope`"),
        ("CALL ice.system.rollback_to_snapshot('n.t', 5)", "5"),
        ("CALL ice.system.rollback_to_snapshot('n.t', 1.5)", "not an id"),
        ("CALL ice.system.rollback_to_snapshot('t', 5)", "namespace too"),
        ("CALL ice.system.rollback_to_snapshot('n.nope', 5)", "nope"),
        ("CALL ice.system.set_current_snapshot('n.t')", "either `snapshot_id` or `ref`"),
        ("CALL ice.system.fast_forward('n.t', 'main', NULL)", "`to` is NULL"),
    ] {
        let error = fails(&context, sql).await;
        assert!(error.contains(wanted), "{sql}: {error}");
    }
}

#[tokio::test]
async fn options_forbid_our_statements_too() {
    let (context, catalog) = session().await;
    let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
    run(&context, "CREATE TABLE ice.n.t (a int)").await;
    for sql in [
        "CREATE TABLE ice.n.u (a int)",
        "CREATE TABLE ice.n.u AS SELECT 1 AS a",
        "DROP TABLE ice.n.t",
        "ALTER TABLE ice.n.t ADD COLUMN b int",
        "CREATE SCHEMA ice.m",
        "CALL ice.system.rollback_to_snapshot('n.t', 1)",
        "DELETE FROM ice.n.t",
        "UPDATE ice.n.t SET a = 1",
        "MERGE INTO ice.n.t USING ice.n.t s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE ice.n.t",
    ] {
        let error = context.iceberg_sql_with_options(sql, read_only).await.unwrap_err().to_string();
        assert!(error.contains("not supported"), "{sql}: {error}");
        // What is only explained does not happen.
        for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN FORMAT TREE"] {
            if let Ok(frame) = context.iceberg_sql(&format!("{explain} {sql}")).await {
                frame.collect().await.unwrap();
            }
        }
    }
    assert_eq!(catalog.list_tables(&namespace(&["n"])).await.unwrap().len(), 1);
    assert_eq!(columns(metadata(&catalog, "t").await.as_ref()), ["a int"]);
}

#[tokio::test]
async fn nested_namespaces_are_named_with_dots() {
    let (context, _) = session().await;
    run(&context, "CREATE SCHEMA ice.n.m").await;
    run(&context, "CREATE TABLE ice.n.m.t (a int, b int)").await;
    assert_eq!(run(&context, "INSERT INTO ice.n.m.t VALUES (1, 1), (2, 2)").await, ["2"]);
    assert_eq!(run(&context, "UPDATE ice.n.m.t SET b = 5 WHERE t.a = 1").await, ["1"]);
    assert_eq!(run(&context, "DELETE FROM ice.n.m.t AS x WHERE x.a = 2").await, ["1"]);
    assert_eq!(run(&context, "SELECT t.a, b FROM ice.n.m.t").await, ["1 5"]);
    assert_eq!(run(&context, "SELECT count(*) FROM ice.n.m.t.snapshots").await, ["3"]);
    run(&context, "ALTER TABLE ice.n.m.t CREATE BRANCH x").await;
    assert_eq!(run(&context, "INSERT INTO ice.n.m.t.branch_x VALUES (3, 3)").await, ["1"]);
    assert!(fails(&context, "SELECT count(*) FROM ice.n.m.nope").await.contains("nope"));
}
