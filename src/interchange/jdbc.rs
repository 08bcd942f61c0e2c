//! Java's JdbcCatalog and our SQL catalog share a SQLite database.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::engine;
use super::java::{ask, compare_answers};
use super::rows::{Differences, Rows};
use super::tables::{Kind, Sample};
use super::write::{append, delete};
use crate::ErrorKind;
use crate::catalog::{Catalog, Namespace, SqlCatalog, TableCreation, TableIdent, ViewCreation};
use crate::spec::{NestedField, PrimitiveType, Schema, SchemaId, Type, ViewMetadata, ViewRepresentation};
use crate::table::Table;

const V1: (&str, &str) = ("jdbc.schema-version", "V1");

/// A database and a warehouse, empty at first.
struct Shared {
    classes: String,
    properties: [(&'static str, String); 2],
    _dir: TempDir,
}

impl Shared {
    fn new() -> Option<Self> {
        let classes = format!("{}:{}", engine("ICEFLOE_TEST_JAVA")?, engine("ICEFLOE_TEST_JDBC")?);
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().display();
        let uri = format!("jdbc:sqlite:{root}/catalog.db");
        let properties = [("uri", uri), ("warehouse", format!("file://{root}/warehouse"))];
        Some(Self { classes, properties, _dir: dir })
    }

    fn with(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = self.properties.iter().map(|(name, value)| (*name, value.as_str()));
        own.chain(more.iter().copied()).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
    }

    async fn ours(&self, more: &[(&str, &str)]) -> SqlCatalog {
        SqlCatalog::connect("ice", self.with(more).into_iter().collect()).await.unwrap()
    }

    /// What Java says, which has no errors, and apart from it the names that it found.
    fn ask(&self, more: &[(&str, &str)], asked: &[&str]) -> (Vec<Json>, Vec<Json>) {
        let mut arguments = vec!["--catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog".to_owned()];
        arguments.extend(self.with(more).iter().map(|(name, value)| format!("--{name}={value}")));
        arguments.extend(asked.iter().map(|asked| (*asked).to_owned()));
        let answers = ask(&self.classes, &arguments);
        let errors: Vec<_> = answers.iter().filter(|answer| answer["what"] == "error").collect();
        assert!(errors.is_empty(), "{errors:?}");
        let (names, answers): (Vec<Json>, _) = answers.into_iter().partition(|a| a["what"] == "names");
        (answers, names.into_iter().map(|mut answer| without_locations(answer["rows"].take())).collect())
    }
}

/// Java makes one up for namespaces that have none.
fn without_locations(mut names: Json) -> Json {
    for namespace in names.as_object_mut().unwrap().values_mut() {
        namespace["properties"].as_object_mut().unwrap().remove("location");
    }
    names
}

/// What there is, as `Check.java` says it.
async fn names(catalog: &dyn Catalog) -> Json {
    let own = |idents: Vec<TableIdent>| idents.iter().map(|ident| json!(ident.name())).collect::<Json>();
    let mut names = serde_json::Map::new();
    let mut below = catalog.list_namespaces(None).await.unwrap();
    while let Some(namespace) = below.pop() {
        below.extend(catalog.list_namespaces(Some(&namespace)).await.unwrap());
        let views = match catalog.list_views(&namespace).await {
            Ok(views) => own(views),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
                Json::Null
            }
        };
        let found = json!({
            "properties": catalog.load_namespace(&namespace).await.unwrap(),
            "tables": own(catalog.list_tables(&namespace).await.unwrap()),
            "views": views,
        });
        names.insert(namespace.to_string(), found);
    }
    without_locations(Json::Object(names))
}

fn namespace(name: &str) -> Namespace {
    Namespace::new(name.split('.')).unwrap()
}

fn ident(name: &str) -> TableIdent {
    let (parent, name) = name.rsplit_once('.').unwrap();
    TableIdent::new(namespace(parent), name).unwrap()
}

fn sample(name: &str) -> Sample {
    Sample { table: ident(name), kind: Kind::Plain, twin: None }
}

fn schema() -> Schema {
    let field = |id, name: &str, kind| NestedField::optional(id, name, Type::Primitive(kind));
    let fields = vec![field(1, "id", PrimitiveType::Long), field(2, "text", PrimitiveType::String)];
    Schema::new(SchemaId(0), fields, Vec::new()).unwrap()
}

/// A table with the rows 1 and 3, and one that was deleted.
async fn create(catalog: &dyn Catalog, name: &str, version: u8) -> Table {
    let mut creation = TableCreation::new(schema());
    creation.properties.insert("format-version".to_owned(), version.to_string());
    let table = catalog.create_table(&ident(name), creation).await.unwrap();
    let table = append(catalog, &table, &[1, 2, 3]).await;
    delete(catalog, &table, &[2]).await
}

fn view(sql: &str) -> ViewCreation {
    let representation =
        |dialect: &str| ViewRepresentation { sql: sql.to_owned(), dialect: dialect.to_owned() };
    ViewCreation {
        schema: schema(),
        representations: vec![representation("spark"), representation("datafusion")],
        default_catalog: Some("ice".to_owned()),
        default_namespace: vec!["ours".to_owned(), "deep".to_owned()],
        location: None,
        properties: [("comment".to_owned(), "it's \"a\" view".to_owned())].into(),
    }
}

fn sql(metadata: &ViewMetadata) -> &str {
    &metadata.versions[&metadata.current_version_id].representations[0].sql
}

async fn ids(catalog: &dyn Catalog, name: &str) -> Vec<i64> {
    let rows = Rows::of_table(&catalog.load_table(&ident(name)).await.unwrap()).await;
    let mut ids: Vec<_> = rows.0.iter().map(|row| row["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// That Java reads of these tables what we do, and finds the same names.
async fn compare(shared: &Shared, catalog: &dyn Catalog, tables: &[&str]) {
    let (answers, found) = shared.ask(&[], &[&["*"][..], tables].concat());
    assert_eq!(found, [names(catalog).await]);
    let samples: Vec<_> = tables.iter().map(|name| sample(name)).collect();
    let mut found = Differences::default();
    compare_answers(answers, catalog, &samples, &mut found).await;
    found.assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_uses_what_the_other_made() {
    let Some(shared) = Shared::new() else { return };
    let catalog: Arc<dyn Catalog> = Arc::new(shared.ours(&[]).await);
    let catalog = catalog.as_ref();
    let owner = [("owner".to_owned(), "it's \"ü\"".to_owned())];
    catalog.create_namespace(&namespace("ours"), owner.into()).await.unwrap();
    for name in ["ours.deep", "empty"] {
        catalog.create_namespace(&namespace(name), Default::default()).await.unwrap();
    }
    let mut tables = Vec::new();
    for (name, version) in [("ours.deep.v2", 2), ("ours.deep.v3", 3), ("ours.moved", 2)] {
        tables.push(create(catalog, name, version).await);
    }
    let of_view = catalog.create_view(&ident("ours.deep.view"), view("SELECT 1")).await.unwrap();
    compare(&shared, catalog, &["ours.deep.v2", "ours.deep.v3", "ours.moved"]).await;

    let (answers, found) = shared.ask(
        &[V1],
        &[
            "!theirs.deep.made",
            "+ours.deep.v2",
            "+ours.deep.v3",
            "=ours.deep.view",
            ">ours.moved>theirs.deep.moved",
            "*",
        ],
    );
    let seen = answers.iter().find(|answer| answer["what"] == "view").unwrap();
    let seen = ViewMetadata::from_json(seen["rows"].as_str().unwrap().as_bytes()).unwrap();
    assert_eq!(seen, *of_view.metadata);
    let expected = json!({
        "empty": {"properties": {}, "tables": [], "views": []},
        "ours": {"properties": {"owner": "it's \"ü\""}, "tables": [], "views": []},
        "ours.deep": {"properties": {}, "tables": ["v2", "v3"], "views": ["view", "view_java"]},
        "theirs": {"properties": {}, "tables": [], "views": []},
        "theirs.deep": {"properties": {"by": "java"}, "tables": ["made", "moved"], "views": []},
    });
    assert_eq!(found, std::slice::from_ref(&expected));
    assert_eq!(names(catalog).await, expected);

    for (name, table) in ["ours.deep.v2", "ours.deep.v3"].into_iter().zip(&tables) {
        assert_eq!(ids(catalog, name).await, [1, 3, 9000]);
        // As it was before Java changed it.
        append(catalog, table, &[4]).await;
        let table = catalog.load_table(&ident(name)).await.unwrap();
        assert_eq!(table.metadata().properties["by"], "java");
        assert!(table.metadata().current_schema().field_by_path(&["by_java"]).is_some());
        let table = append(catalog, &table, &[5000, 5001]).await;
        delete(catalog, &table, &[5000, 9000, 3]).await;
        assert_eq!(ids(catalog, name).await, [1, 4, 5001]);
    }
    let made = catalog.load_table(&ident("theirs.deep.made")).await.unwrap();
    assert_eq!(made.metadata().format_version, 3);
    append(catalog, &made, &[2]).await;
    assert_eq!(ids(catalog, "theirs.deep.made").await, [1, 2]);
    catalog.rename_table(&ident("theirs.deep.moved"), &ident("ours.moved_back")).await.unwrap();
    assert_eq!(ids(catalog, "ours.moved_back").await, [1, 3]);

    let theirs = catalog.load_view(&ident("ours.deep.view")).await.unwrap().metadata;
    assert_eq!((sql(&theirs), theirs.versions.len()), ("SELECT 'by Java'", 2));
    assert_eq!(theirs.properties["by"], "java");
    let copy = ident("ours.deep.view_java");
    assert_eq!(sql(&catalog.load_view(&copy).await.unwrap().metadata), "SELECT 1");
    catalog.replace_view(&copy, view("SELECT 3")).await.unwrap();
    catalog.rename_view(&copy, &ident("theirs.deep.view")).await.unwrap();
    catalog.drop_view(&ident("ours.deep.view")).await.unwrap();
    catalog.drop_namespace(&namespace("empty")).await.unwrap();
    compare(&shared, catalog, &["ours.deep.v2", "ours.deep.v3", "ours.moved_back", "theirs.deep.made"]).await;

    let (answers, _) = shared.ask(&[V1], &["=theirs.deep.view"]);
    let seen = ViewMetadata::from_json(answers[0]["rows"].as_str().unwrap().as_bytes()).unwrap();
    assert_eq!(sql(&seen), "SELECT 3");
}

/// In a database that has no views, until it is updated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_uses_an_old_database_of_java() {
    let Some(shared) = Shared::new() else { return };
    let (_, found) = shared.ask(&[], &["!theirs.deep.made", "*"]);
    let expected = json!({
        "theirs": {"properties": {}, "tables": [], "views": null},
        "theirs.deep": {"properties": {"by": "java"}, "tables": ["made"], "views": null},
    });
    assert_eq!(found, std::slice::from_ref(&expected));
    let old: Arc<dyn Catalog> = Arc::new(shared.ours(&[]).await);
    let old = old.as_ref();
    assert_eq!(names(old).await, expected);
    let made = old.load_table(&ident("theirs.deep.made")).await.unwrap();
    append(old, &made, &[2]).await;
    old.create_namespace(&namespace("ours"), Default::default()).await.unwrap();
    create(old, "ours.t", 2).await;
    let e = old.create_view(&ident("ours.view"), view("SELECT 1")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    compare(&shared, old, &["ours.t", "theirs.deep.made"]).await;

    shared.ask(&[("jdbc.schema-version", "V0")], &["+ours.t", ">theirs.deep.made>ours.made"]);
    assert_eq!(ids(old, "ours.t").await, [1, 3, 9000]);
    assert_eq!(ids(old, "ours.made").await, [1, 2]);

    let new: Arc<dyn Catalog> = Arc::new(shared.ours(&[V1]).await);
    let new = new.as_ref();
    new.create_view(&ident("ours.view"), view("SELECT 1")).await.unwrap();
    let table = new.load_table(&ident("ours.t")).await.unwrap();
    append(new, &table, &[4]).await;
    compare(&shared, new, &["ours.t", "ours.made"]).await;
    shared.ask(&[], &["=ours.view", "+ours.made"]);
    assert_eq!(sql(&new.load_view(&ident("ours.view")).await.unwrap().metadata), "SELECT 'by Java'");
    assert_eq!(ids(new, "ours.made").await, [1, 2, 9000]);
}
