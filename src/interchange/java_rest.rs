//! Java's REST catalog and ours share a server of Java's; Spark's too, with its views.

use std::process::Command;
use std::sync::Arc;

use super::java::{ask, compare_answers, mark};
use super::rows::{Differences, Rows};
use super::tables::{Kind, Maker};
use super::write::{append, delete};
use super::{engine, run};
use crate::catalog::{
    Catalog, Namespace, RestCatalog, TableCreation, TableIdent, ViewCreation, java_rest_server,
};
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
    let (mut changed, mut before) = (Vec::new(), Vec::new());
    let mut asked = vec![server.clone()];
    for sample in samples.iter().filter(|sample| sample.kind == Kind::Plain) {
        let table = catalog.load_table(&sample.table).await.unwrap();
        let rows = Rows::of_table(&table).await.0.len();
        if table.metadata().default_spec().fields.is_empty() && rows > 0 {
            changed.push(sample.clone());
            before.push(rows);
            asked.push(format!("+{}", sample.table));
        }
    }
    assert!(changed.len() > 10, "{changed:?}");
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

/// A table and views that Spark and we make, use and change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spark_uses_our_views_and_makes_its_own() {
    let Some(spark) = engine("ICEFLOE_TEST_SPARK") else { return };
    let Some(properties) = java_rest_server::properties(&[]) else { return };
    let uri = properties["uri"].clone();
    let catalog = RestCatalog::connect("ice", properties).await.unwrap();
    let namespace = Namespace::new([format!("s{}", uuid::Uuid::new_v4().simple())]).unwrap();
    catalog.create_namespace(&namespace, Default::default()).await.unwrap();
    let ident = |name: &str| TableIdent::new(namespace.clone(), name).unwrap();
    let long = |id, name: &str| NestedField::optional(id, name, Type::Primitive(PrimitiveType::Long));
    let schema = |fields| Schema::new(SchemaId(0), fields, Vec::new()).unwrap();
    let creation = TableCreation::new(schema(vec![long(1, "id"), long(2, "n")]));
    let table = catalog.create_table(&ident("t"), creation).await.unwrap();
    append(&catalog, &table, &[1, 2, 3]).await;
    let view = |sql: &str| ViewCreation {
        schema: schema(vec![long(1, "ten")]),
        representations: vec![ViewRepresentation { sql: sql.to_owned(), dialect: "spark".to_owned() }],
        default_catalog: Some("r".to_owned()),
        default_namespace: namespace.levels().to_vec(),
        location: None,
        properties: [("comment".to_owned(), "ten times".to_owned())].into(),
    };
    let sql = "SELECT id * 10 FROM t WHERE id > 1";
    catalog.create_view(&ident("v"), view("SELECT 1L")).await.unwrap();
    catalog.replace_view(&ident("v"), view(sql)).await.unwrap();
    catalog.create_view(&ident("replaced"), view(sql)).await.unwrap();

    let place = format!("r.{namespace}");
    let printed = run(Command::new(spark).arg(std::env::temp_dir()).args([
        "SET spark.sql.catalog.r=org.apache.iceberg.spark.SparkCatalog".to_owned(),
        "SET spark.sql.catalog.r.type=rest".to_owned(),
        format!("SET spark.sql.catalog.r.uri={uri}"),
        format!("SELECT * FROM {place}.v ORDER BY ten"),
        format!("SELECT ten + 1 FROM {place}.replaced ORDER BY ten"),
        format!("CREATE VIEW {place}.by_spark COMMENT 'Spark made it' AS SELECT id, 's' AS s FROM {place}.t"),
        format!("CREATE OR REPLACE VIEW {place}.replaced AS SELECT n FROM {place}.t"),
        format!("ALTER VIEW {place}.replaced RENAME TO {place}.renamed"),
        format!("INSERT INTO {place}.t SELECT id + 100, n FROM {place}.t"),
        format!("DELETE FROM {place}.t WHERE id = 2"),
        format!("ALTER TABLE {place}.t ADD COLUMN more STRING"),
        format!(
            "CREATE TABLE {place}.made USING iceberg TBLPROPERTIES ('format-version' = '3') \
             AS SELECT * FROM {place}.v"
        ),
    ]));
    let seen: Vec<&str> =
        printed.lines().filter(|line| line.starts_with('[') && !line.contains("spark.sql")).collect();
    assert_eq!(seen, ["[20]", "[30]", "[21]", "[31]"]);

    let views = catalog.list_views(&namespace).await.unwrap();
    assert_eq!(views, ["by_spark", "renamed", "v"].map(ident));
    let theirs = catalog.load_view(&ident("by_spark")).await.unwrap().metadata;
    let version = &theirs.versions[&theirs.current_version_id];
    assert_eq!(version.representations[0].dialect, "spark");
    assert!(version.representations[0].sql.contains("'s' AS s"), "{version:?}");
    assert_eq!(theirs.properties["comment"], "Spark made it");
    let fields = theirs.schemas[&version.schema_id].fields();
    assert_eq!(fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["id", "s"]);
    let renamed = catalog.load_view(&ident("renamed")).await.unwrap().metadata;
    assert_eq!(renamed.versions.len(), 2);
    catalog.replace_view(&ident("by_spark"), view(sql)).await.unwrap();

    let ids = async |name: &str| {
        let rows = Rows::of_table(&catalog.load_table(&ident(name)).await.unwrap()).await;
        let mut ids: Vec<_> =
            rows.0.iter().map(|row| row.as_object().unwrap().values().next().cloned()).collect();
        ids.sort_by_key(|id| id.as_ref().and_then(|id| id.as_i64()));
        ids.into_iter().map(|id| id.unwrap().as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids("t").await, [1, 3, 101, 102, 103]);
    assert_eq!(ids("made").await, [30, 1010, 1020, 1030]);
    let table = catalog.load_table(&ident("made")).await.unwrap();
    assert_eq!(table.metadata().format_version, 3);
    for name in ["t", "made"] {
        catalog.drop_table(&ident(name), true).await.unwrap();
    }
    for name in ["by_spark", "renamed", "v"] {
        catalog.drop_view(&ident(name)).await.unwrap();
    }
    catalog.drop_namespace(&namespace).await.unwrap();
}

fn schema_of_view() -> Schema {
    let field = NestedField::optional(1, "a", Type::Primitive(PrimitiveType::String));
    Schema::new(SchemaId(0), vec![field], Vec::new()).unwrap()
}
