//! PyIceberg and we share catalogs: a SQLite file, and REST servers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::rows::{Differences, Rows};
use super::tables::{Kind, Maker, Sample};
use super::write::{append, delete};
use super::{engine, run};
#[cfg(feature = "catalog-rest")]
use crate::catalog::java_rest_server;
use crate::catalog::{Catalog, CatalogBuilder};

/// The tables that PyIceberg changes, and we after it. All others it reads: without its native part it
/// knows no transform but identity. It does not write to tables of version 3.
const CHANGED: &[&str] = &["types", "wide", "maintained"];

/// What PyIceberg can't read: deletes by key.
fn is_readable(sample: &Sample) -> bool {
    sample.kind == Kind::Plain && !sample.name().starts_with("deletes")
}

/// Without the column whose null lists PyIceberg reads as empty ones: lists of structs.
fn known(rows: Rows) -> Rows {
    rows.without(&["some_structs"])
}

fn script(python: &str, properties: &BTreeMap<String, String>, results: &Path, tables: &[String]) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/interchange/take_turns.py");
    let properties = serde_json::to_string(properties).unwrap();
    run(Command::new(python).arg(program).arg(properties).arg(results).args(tables));
}

/// `odd_paths`: files may lie in any directory.
async fn take_turns(python: &str, properties: BTreeMap<String, String>, versions: &[u8], odd_paths: bool) {
    let dir = tempfile::tempdir().unwrap();
    let catalog: Arc<dyn Catalog> =
        CatalogBuilder::new("ice").properties(properties.clone()).build().await.unwrap();
    let mut samples = Vec::new();
    // A server may have tables of others.
    let prefix = format!("i{}_v", uuid::Uuid::new_v4().simple());
    for version in versions {
        let maker = Maker::new(&catalog, &prefix, *version).await;
        let made = match odd_paths {
            true => maker.all().await,
            false => maker.without_odd_paths().await,
        };
        samples.extend(made.into_iter().filter(is_readable));
    }
    let is_changed = |sample: &Sample| {
        CHANGED.contains(&sample.name()) && !sample.table.namespace().to_string().ends_with("_v3")
    };
    let names: Vec<String> = samples
        .iter()
        .map(|sample| format!("{}{}", if is_changed(sample) { "+" } else { "" }, sample.table))
        .collect();
    let mut before = Vec::new();
    for sample in &samples {
        before.push(catalog.load_table(&sample.table).await.unwrap());
    }
    let first = dir.path().join("first");
    script(python, &properties, &first, &names);
    let mut found = Differences::default();
    let of = |results: &Path, sample: &Sample, what: &str| results.join(sample.table.to_string()).join(what);
    for (sample, table) in samples.iter().zip(before) {
        let theirs = known(Rows::of_parquet(&of(&first, sample, "before")).await);
        found.rows(format!("{} before", sample.table), &known(Rows::of_table(&table).await), &theirs);
        for reference in table.metadata().refs.keys().filter(|name| *name != "main") {
            let query = format!("SELECT * FROM t VERSION AS OF '{reference}'");
            let theirs = Rows::of_parquet(&of(&first, sample, &format!("ref_{reference}"))).await;
            found.rows(
                format!("{} {reference}", sample.table),
                &Rows::of_query(&table, &query).await,
                &theirs,
            );
        }
    }
    let changed: Vec<&Sample> = samples.iter().filter(|sample| is_changed(sample)).collect();
    let mut ours = Vec::new();
    for sample in &changed {
        let table = catalog.load_table(&sample.table).await.unwrap();
        let theirs = known(Rows::of_parquet(&of(&first, sample, "after")).await);
        found.rows(format!("{} after", sample.table), &known(Rows::of_table(&table).await), &theirs);
        let table = append(catalog.as_ref(), &table, &[5000, 5001, 5002]).await;
        ours.push(delete(catalog.as_ref(), &table, &[5001, 3002, 3]).await);
    }
    let second = dir.path().join("second");
    script(
        python,
        &properties,
        &second,
        &changed.iter().map(|sample| sample.table.to_string()).collect::<Vec<_>>(),
    );
    for (sample, table) in changed.iter().zip(ours) {
        let theirs = known(Rows::of_parquet(&of(&second, sample, "before")).await);
        found.rows(format!("{} final", sample.table), &known(Rows::of_table(&table).await), &theirs);
    }
    for sample in &samples {
        catalog.drop_table(&sample.table, true).await.unwrap();
    }
    found.assert_none();
}

#[cfg(feature = "catalog-sql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_sqlite_file() {
    let Some(python) = engine("ICEFLOE_TEST_PYICEBERG") else { return };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    let properties = [
        ("type", "sql".to_owned()),
        ("uri", format!("sqlite:///{root}/catalog.db")),
        ("warehouse", format!("file://{root}/warehouse")),
    ];
    take_turns(&python, properties.map(|(n, v)| (n.to_owned(), v)).into(), &[1, 2, 3], true).await;
}

#[cfg(feature = "catalog-rest")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_rest_server() {
    let Some(python) = engine("ICEFLOE_TEST_PYICEBERG") else { return };
    let Some(text) = engine("ICEFLOE_TEST_REST") else { return };
    let mut properties: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
    for of_tests in ["lacks", "fails"] {
        properties.remove(of_tests);
    }
    properties.insert("type".to_owned(), "rest".to_owned());
    // SeaweedFS refuses directories of empty values.
    take_turns(&python, properties, &[1, 2], false).await;
}

#[cfg(feature = "catalog-rest")]
async fn through_java(more: &[(&str, &str)]) {
    let Some(python) = engine("ICEFLOE_TEST_PYICEBERG") else { return };
    let Some(mut properties) = java_rest_server::properties(more) else { return };
    properties.insert("type".to_owned(), "rest".to_owned());
    take_turns(&python, properties, &[1, 2, 3], true).await;
}

#[cfg(feature = "catalog-rest")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_server_of_java() {
    through_java(&[]).await;
}

/// With tokens, and with the snapshots of branches and tags only.
#[cfg(feature = "catalog-rest")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_guarded_server_of_java() {
    through_java(&[
        ("warehouse", "guarded"),
        ("credential", "me:hunter2"),
        ("snapshot-loading-mode", "refs"),
    ])
    .await;
}
