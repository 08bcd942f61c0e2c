//! Tables that Spark made: we change them, and Spark changes them again.

use std::sync::Arc;

use super::rows::{Differences, Rows};
use super::spark::{LINEAGE, Script, change_rows, check_totals, name};
use super::tables::{Kind, Sample};
use super::write::{append, compact, delete, delete_keys};
use super::{engine, filesystem, java};
use crate::catalog::{Catalog, Namespace, TableIdent};
use crate::spec::{PrimitiveType, Transform};
use crate::table::Table;
use crate::transaction::{ExpireSnapshots, ManageSnapshots, RewriteManifests, UpdateSchema, UpdateSpec};

const COLUMNS: &str = "id BIGINT NOT NULL, a INT, f FLOAT, d DOUBLE, n DECIMAL(20, 3), b BOOLEAN, s STRING, \
    bytes BINARY, day DATE, t TIMESTAMP, local TIMESTAMP_NTZ, st STRUCT<x: INT, y: ARRAY<STRING>>, \
    m MAP<STRING, STRUCT<z: DOUBLE>>";

const ROWS: &str = "SELECT id, CAST(id AS INT), CAST(id / 3 AS FLOAT), id / 7, CAST(id AS DECIMAL(20, 3)), \
    id % 2 = 0, concat('s', id % 5), CAST(concat('b', id) AS BINARY), date_add(DATE'2024-01-01', CAST(id AS INT)), \
    TIMESTAMP'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, CAST(id AS INT)), \
    TIMESTAMP_NTZ'1969-12-31 12:00:00' + make_interval(0, 0, 0, 0, CAST(id AS INT)), \
    named_struct('x', CAST(id AS INT), 'y', array('a', NULL)), map('k', named_struct('z', double(id)))";

/// How each table is partitioned, what else is said of it, and in which format versions it is made.
const TABLES: &[(&str, &str, &str, &[u8])] = &[
    ("plain", "", "", &[2, 3]),
    ("by_id", "PARTITIONED BY (bucket(4, id))", "", &[1, 3]),
    ("by_text", "PARTITIONED BY (s, truncate(2, s))", "'write.object-storage.enabled'='true',", &[2]),
    ("by_time", "PARTITIONED BY (days(t), months(local))", "'write.distribution-mode'='none',", &[3]),
    ("by_value", "PARTITIONED BY (n, b)", "'write.parquet.compression-codec'='gzip',", &[1, 2]),
];

fn insert(table: &str, from: i64, to: i64) -> String {
    format!("INSERT INTO {table} {ROWS} FROM range({from}, {to}) AS r")
}

/// What we make of a table.
async fn change(catalog: &dyn Catalog, table: Table) -> Table {
    let table = append(catalog, &table, &[5000, 5001, 5002, 5003]).await;
    let table = delete(catalog, &table, &[2, 1003, 5001]).await;
    let schema = UpdateSchema::new()
        .add_column("ours", PrimitiveType::String)
        .rename_column("a", "renamed")
        .update_column("f", PrimitiveType::Double)
        .delete_column("bytes");
    let spec = UpdateSpec::new().add_field("day", Transform::Year);
    let evolve = table.transaction().apply(schema).apply(spec);
    let table = evolve.commit(catalog).await.unwrap();
    let mut table = append(catalog, &table, &[5100, 5101]).await;
    if table.metadata().format_version > 1 {
        table = delete_keys(catalog, &table, &[5100, 9]).await;
    }
    let tag = ManageSnapshots::new().create_tag_at("ours", table.metadata().current_snapshot_id.unwrap());
    let tidy = table.transaction().apply(RewriteManifests::new()).apply(tag);
    let table = tidy.commit(catalog).await.unwrap();
    let table = compact(catalog, &table).await;
    let expire = ExpireSnapshots::new().expire_older_than(i64::MAX).retain_last(2);
    table.transaction().apply(expire).commit(catalog).await.unwrap()
}

/// What Spark makes of it after us.
fn change_again(script: &mut Script<'_>, sample: &Sample, version: u8) {
    let t = name(sample);
    script.keep(sample, "changed", &format!("SELECT * FROM {t}"));
    script.keep(sample, "tagged", &format!("SELECT id, s FROM {t} VERSION AS OF 'ours'"));
    if version >= 3 {
        script.keep(sample, "lineage", &format!("{LINEAGE} {t}"));
    }
    script.say(format!("INSERT INTO {t} SELECT * FROM {t} WHERE id >= 5100"));
    change_rows(script, &t, version);
    script.say(format!("CALL ice.system.rewrite_manifests('{t}')"));
    if version > 1 {
        let options = "map('delete-file-threshold', '1', 'min-input-files', '2')";
        script.say(format!("CALL ice.system.rewrite_data_files(table => '{t}', options => {options})"));
    }
    script.say(format!("ALTER TABLE {t} DROP TAG ours"));
    let expire = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1";
    script.say(format!("CALL ice.system.expire_snapshots(table => '{t}', {expire})"));
    script.keep(sample, "at_last", &format!("SELECT * FROM {t}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_change_what_spark_made() {
    let Some(program) = engine("ICEFLOE_TEST_SPARK") else { return };
    let dir = tempfile::tempdir().unwrap();
    let catalog: Arc<dyn Catalog> = filesystem(dir.path());
    let mut samples = Vec::new();
    let mut first = Script::new(dir.path(), "first");
    for version in 1..=3_u8 {
        let namespace = Namespace::new([format!("made_v{version}")]).unwrap();
        for (table, partitions, properties, versions) in TABLES {
            if !versions.contains(&version) {
                continue;
            }
            let table = TableIdent::new(namespace.clone(), *table).unwrap();
            let sample = Sample { table, kind: Kind::Plain, twin: None };
            let t = name(&sample);
            let mode = if version == 1 { "copy-on-write" } else { "merge-on-read" };
            first.say(format!(
                "CREATE TABLE {t} ({COLUMNS}) USING iceberg {partitions} TBLPROPERTIES ({properties} \
                 'format-version'='{version}', 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}')"
            ));
            first.say(insert(&t, 0, 20));
            first.say(insert(&t, 1000, 1010));
            first.say(format!("DELETE FROM {t} WHERE id IN (1, 1001)"));
            first.say(format!("UPDATE {t} SET a = NULL, d = double('nan') WHERE id % 5 = 0"));
            first.keep(&sample, "made", &format!("SELECT * FROM {t}"));
            samples.push((sample, version));
        }
    }
    first.run(&program);

    let mut found = Differences::default();
    let mut ours = Vec::new();
    let mut second = Script::new(dir.path(), "second");
    for (sample, version) in &samples {
        let table = catalog.load_table(&sample.table).await.unwrap();
        assert_eq!(table.metadata().format_version, *version);
        let theirs = first.rows(sample, "made").await;
        assert_eq!(theirs.0.len(), 28);
        found.rows(format!("{} made", sample.table), &Rows::of_table(&table).await, &theirs);
        check_totals(&table, &mut found).await;
        let table = change(catalog.as_ref(), table).await;
        check_totals(&table, &mut found).await;
        change_again(&mut second, sample, *version);
        // Spark's expiry removes the files of this state.
        let tagged = Rows::of_query(&table, "SELECT id, s FROM t VERSION AS OF 'ours'").await;
        let lineage = match version {
            3 => Rows::of_query(&table, &format!("{LINEAGE} t")).await,
            _ => Rows(Vec::new()),
        };
        ours.push((Rows::of_table(&table).await, tagged, lineage));
    }
    second.run(&program);
    for ((sample, version), (rows, tagged, lineage)) in samples.iter().zip(&ours) {
        let place = |what: &str| format!("{} {what}", sample.table);
        found.rows(place("changed"), rows, &second.rows(sample, "changed").await);
        found.rows(place("tagged"), tagged, &second.rows(sample, "tagged").await);
        if *version >= 3 {
            found.rows(place("lineage"), lineage, &second.rows(sample, "lineage").await);
        }
        let table = catalog.load_table(&sample.table).await.unwrap();
        let theirs = second.rows(sample, "at_last").await;
        found.rows(place("at last"), &Rows::of_table(&table).await, &theirs);
        check_totals(&table, &mut found).await;
    }
    if let Some(classes) = engine("ICEFLOE_TEST_JAVA") {
        let samples: Vec<Sample> = samples.into_iter().map(|(sample, _)| sample).collect();
        java::compare(&classes, catalog.as_ref(), &samples, &mut found).await;
    }
    found.assert_none();
}
