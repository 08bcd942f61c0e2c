//! Java's REST catalog and ours share a server of Java's.

use std::sync::Arc;

use super::engine;
use super::java::{ask, compare_answers, mark};
use super::rows::{Differences, Rows};
use super::tables::{Maker, Sample};
use super::write::{append, delete};
use crate::catalog::{Catalog, RestCatalog, TableIdent, ViewCreation, java_rest_server};
use crate::spec::{NestedField, PrimitiveType, Schema, SchemaId, Type, ViewMetadata, ViewRepresentation};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reads_and_changes_what_the_other_made() {
    let Some(classes) = engine("ICEFLOE_TEST_JAVA") else { return };
    let Some(properties) = java_rest_server::properties(&[]) else { return };
    let server = format!("--uri={}", properties["uri"]);
    let rest = RestCatalog::connect("ice", properties).await.unwrap();
    let catalog: Arc<dyn Catalog> = Arc::new(rest);
    let prefix = format!("j{}_v", uuid::Uuid::new_v4().simple());
    let mut samples = Vec::new();
    for version in 1..=3 {
        samples.extend(Maker::new(&catalog, &prefix, version).await.all().await);
    }
    let mut asked = vec![server.clone()];
    asked.extend(samples.iter().map(|sample| format!("{}{}", mark(sample), sample.table)));
    let mut found = Differences::default();
    compare_answers(ask(&classes, &asked), catalog.as_ref(), &samples, &mut found).await;

    // Java changes some, and we do after it.
    let is_changed = |sample: &&Sample| matches!(sample.name(), "types" | "wide" | "maintained");
    let changed: Vec<Sample> = samples.iter().filter(is_changed).cloned().collect();
    let mut before = Vec::new();
    let mut asked = vec![server.clone()];
    for sample in &changed {
        before.push(Rows::of_table(&catalog.load_table(&sample.table).await.unwrap()).await.0.len());
        asked.push(format!("+{}", sample.table));
    }
    let namespace = changed[0].table.namespace().clone();
    let ident = |name: &str| TableIdent::new(namespace.clone(), name).unwrap();
    let view = |sql: &str| ViewCreation {
        schema: schema_of_view(),
        representations: vec![
            ViewRepresentation { sql: sql.to_owned(), dialect: "spark".to_owned() },
            ViewRepresentation { sql: sql.to_owned(), dialect: "datafusion".to_owned() },
        ],
        default_catalog: Some("ice".to_owned()),
        default_namespace: namespace.levels().to_vec(),
        location: None,
        properties: [("comment".to_owned(), "it's \"a\" view".to_owned())].into(),
    };
    catalog.create_view(&ident("v"), view("SELECT 1")).await.unwrap();
    let ours = catalog.replace_view(&ident("v"), view("SELECT 'ü'")).await.unwrap();
    asked.push(format!("={}", ident("v")));
    let answers = ask(&classes, &asked);

    let seen = answers.iter().find(|answer| answer["what"] == "view").unwrap();
    let seen = ViewMetadata::from_json(seen["rows"].as_str().unwrap().as_bytes()).unwrap();
    found.same("the view", ours.metadata.as_ref(), &seen);
    let theirs = catalog.load_view(&ident("v")).await.unwrap().metadata;
    let sql = |metadata: &ViewMetadata| {
        metadata.versions[&metadata.current_version_id].representations[0].sql.clone()
    };
    found.same("the changed view", sql(&theirs), "SELECT 'by Java'".to_owned());
    found.same("its versions", theirs.versions.len(), 3);
    found.same("its property", theirs.properties.get("by").map(String::as_str), Some("java"));
    let after = catalog.replace_view(&ident("v"), view("SELECT 3")).await.unwrap().metadata;
    found.same("the view again", sql(&after), "SELECT 3".to_owned());
    let copy = catalog.load_view(&ident("v_java")).await.unwrap().metadata;
    found.same("the view of Java", sql(&copy), "SELECT 1".to_owned());
    for name in ["v", "v_java"] {
        catalog.drop_view(&ident(name)).await.unwrap();
    }

    for answer in answers.iter().filter(|answer| answer["what"] == "error") {
        found.add(answer.to_string());
    }
    let mut asked = vec![server];
    for (sample, before) in changed.iter().zip(before) {
        let table = catalog.load_table(&sample.table).await.unwrap();
        let metadata = table.metadata();
        let by_java = metadata.current_schema().field_by_path(&["by_java"]).is_some();
        found.same(format!("{} column", sample.table), by_java, true);
        found.same(format!("{} refs", sample.table), metadata.refs.contains_key("by_java"), true);
        found.same(format!("{} spec", sample.table), metadata.default_spec().fields.len(), 1);
        let rows = Rows::of_table(&table).await;
        found.same(format!("{} rows", sample.table), rows.0.len(), before + 1);
        let table = append(catalog.as_ref(), &table, &[5000, 5001, 5002]).await;
        delete(catalog.as_ref(), &table, &[5001, 9000, 3]).await;
        asked.push(sample.table.to_string());
    }
    compare_answers(ask(&classes, &asked), catalog.as_ref(), &changed, &mut found).await;
    for sample in &samples {
        catalog.drop_table(&sample.table, true).await.unwrap();
    }
    found.assert_none();
}

fn schema_of_view() -> Schema {
    let field = NestedField::optional(1, "a", Type::Primitive(PrimitiveType::String));
    Schema::new(SchemaId(0), vec![field], Vec::new()).unwrap()
}
