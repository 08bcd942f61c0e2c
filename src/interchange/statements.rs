//! The same SQL, by us and by Spark in turn: tables, and changes of their rows.

use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};

use super::rows::{Differences, Rows};
use super::spark::{LINEAGE, Script, check_totals, name};
use super::tables::{Kind, Sample};
use super::{engine, filesystem, java};
use crate::catalog::{Catalog, Namespace, TableIdent};
use crate::provider::IcebergCatalogProvider;
use crate::sql::{IcebergSql, register};

/// What both make of a table. `$T` is the table, `$I` the first of a hundred ids that nothing else has.
const CHANGES: &[&str] = &[
    "INSERT INTO $T VALUES ($I, 1, 'a', 0.5, DATE '2024-01-01', TRUE), ($I + 1, 2, NULL, NULL, NULL, NULL), \
     ($I + 2, NULL, 'b', 1.5, DATE '2024-02-01', FALSE), ($I + 3, 1, 'c', 2.5, DATE '2024-03-01', TRUE), \
     ($I + 4, 2, 'd', 3.5, NULL, NULL)",
    "DELETE FROM $T WHERE id % 100 = 2 OR (p = 1 AND s = 'c')",
    "UPDATE $T SET p = p + 1, s = s || '!', x = NULL WHERE day < DATE '2024-02-15' OR id % 50 = 1",
    "MERGE INTO $T AS t USING (SELECT id, p FROM $T WHERE p = 2) AS o ON t.id = o.id \
     WHEN MATCHED AND t.b THEN DELETE WHEN MATCHED THEN UPDATE SET x = o.id, s = 'm'",
    "MERGE INTO $T AS t USING (SELECT id + 10 AS id, s FROM $T WHERE id < $I + 50) AS o ON t.id = o.id \
     WHEN NOT MATCHED THEN INSERT (id, s, p) VALUES (o.id, o.s, 3)",
    "UPDATE $T SET p = (SELECT max(p) FROM $T) WHERE s IS NULL",
    "DELETE FROM $T WHERE p = 3 AND s LIKE 'a%'",
    "INSERT INTO $T SELECT id + 30, p, s, x, day, b FROM $T WHERE id >= $I AND id < $I + 5",
];

fn changes(table: &str, first: i64) -> impl Iterator<Item = String> {
    CHANGES.iter().map(move |sql| sql.replace("$T", table).replace("$I", &first.to_string()))
}

fn tables() -> Vec<(Sample, String)> {
    let layouts = [
        ("plain", ""),
        ("by_p", "PARTITIONED BY (p)"),
        ("by_both", "PARTITIONED BY (bucket(3, id), months(day))"),
    ];
    let kinds = [
        (1, "copy-on-write", 1..2),
        (2, "copy-on-write", 1..2),
        (2, "merge-on-read", 1..3),
        (3, "copy-on-write", 0..2),
        (3, "merge-on-read", 0..3),
    ];
    let mut tables = Vec::new();
    for (version, mode, some) in kinds {
        for (layout, partitions) in &layouts[some] {
            let namespace = Namespace::new([format!("v{version}")]).unwrap();
            let table = TableIdent::new(namespace, format!("{layout}_{}", mode.replace('-', "_"))).unwrap();
            let properties =
                ["delete", "update", "merge"].map(|name| format!("'write.{name}.mode' = '{mode}'"));
            let create = format!(
                "CREATE TABLE ice.{table} (id bigint NOT NULL, p int, s string, x double, day date, b boolean) \
                 USING iceberg {partitions} TBLPROPERTIES ('format-version' = '{version}', {})",
                properties.join(", ")
            );
            tables.push((Sample { table, kind: Kind::Plain, twin: None }, create));
        }
    }
    tables
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spark_and_we_run_the_same_statements() {
    let Some(program) = engine("ICEFLOE_TEST_SPARK") else { return };
    let dir = tempfile::tempdir().unwrap();
    let catalog: Arc<dyn Catalog> = filesystem(dir.path());
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&context).unwrap();
    context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::clone(&catalog))));
    let run = async |sql: String| {
        let frame = context.iceberg_sql(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        frame.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    };

    // We begin with some, and Spark with the others: each table has a twin that only Spark changes.
    let tables = tables();
    let mut script = Script::new(dir.path(), "turns");
    for (i, (sample, create)) in tables.iter().enumerate() {
        let t = name(sample);
        if i == 0 || tables[i - 1].0.table.namespace() != sample.table.namespace() {
            run(format!("CREATE SCHEMA ice.{}", sample.table.namespace())).await;
        }
        run(create.clone()).await;
        for sql in changes(&t, 1000) {
            run(sql).await;
        }
        script.keep(sample, "ours", &format!("SELECT * FROM {t}"));
        let twin = format!("{t}_twin");
        script.say(create.replacen(&t, &twin, 1));
        for sql in changes(&twin, 1000) {
            script.say(sql);
        }
        script.keep(sample, "twin", &format!("SELECT * FROM {twin}"));
        for sql in changes(&t, 2000).chain(changes(&twin, 2000)) {
            script.say(sql);
        }
        script.keep(sample, "theirs", &format!("SELECT * FROM {t}"));
        script.keep(sample, "twin_again", &format!("SELECT * FROM {twin}"));
        if t.contains(".v3.") {
            script.keep(sample, "lineage", &format!("{LINEAGE} {t}"));
        }
    }
    let mut found = Differences::default();
    let mut before = Vec::new();
    for (sample, _) in &tables {
        before.push(Rows::of_table(&catalog.load_table(&sample.table).await.unwrap()).await);
    }
    script.run(&program);

    let mut last = Script::new(dir.path(), "last");
    for ((sample, _), before) in tables.iter().zip(before) {
        let place = |what: &str| format!("{} {what}", sample.table);
        found.rows(place("before"), &before, &script.rows(sample, "ours").await);
        found.rows(place("as by Spark"), &before, &script.rows(sample, "twin").await);
        let table = catalog.load_table(&sample.table).await.unwrap();
        check_totals(&table, &mut found).await;
        let rows = Rows::of_table(&table).await;
        found.rows(place("after"), &rows, &script.rows(sample, "theirs").await);
        found.rows(place("after, as by Spark"), &rows, &script.rows(sample, "twin_again").await);
        if table.metadata().format_version >= 3 {
            let lineage = Rows::of_query(&table, &format!("{LINEAGE} t")).await;
            found.rows(place("lineage"), &lineage, &script.rows(sample, "lineage").await);
        }
        let t = name(sample);
        for sql in changes(&t, 3000) {
            run(sql).await;
        }
        let table = catalog.load_table(&sample.table).await.unwrap();
        check_totals(&table, &mut found).await;
        last.keep(sample, "last", &format!("SELECT * FROM {t}"));
        if table.metadata().format_version >= 3 {
            last.keep(sample, "lineage", &format!("{LINEAGE} {t}"));
        }
    }
    last.run(&program);
    let mut samples = Vec::new();
    for (sample, _) in tables {
        let table = catalog.load_table(&sample.table).await.unwrap();
        found.rows(
            format!("{} last", sample.table),
            &Rows::of_table(&table).await,
            &last.rows(&sample, "last").await,
        );
        if table.metadata().format_version >= 3 {
            let lineage = Rows::of_query(&table, &format!("{LINEAGE} t")).await;
            found.rows(
                format!("{} last lineage", sample.table),
                &lineage,
                &last.rows(&sample, "lineage").await,
            );
        }
        samples.push(sample);
    }
    if let Some(classes) = engine("ICEFLOE_TEST_JAVA") {
        java::compare(&classes, catalog.as_ref(), &samples, &mut found).await;
    }
    found.assert_none();
}
