//! SQL catalogs against the suite, and against databases of other tools.

use std::sync::Arc;

use super::*;
use crate::catalog::suite::{Can, Subject};
use crate::catalog::{Catalog, TableCreation};
use crate::spec::{NestedField, PrimitiveType, Schema, SchemaId, Type};

/// What a SQL catalog can do.
const CAN: Can = Can { need_parents: false, dotted_levels: false, ..Can::EVERYTHING };

fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn in_dir(dir: &tempfile::TempDir) -> BTreeMap<String, String> {
    let path = dir.path().display();
    map(&[("uri", &format!("sqlite:///{path}/catalog.db")), ("warehouse", &format!("{path}/wh"))])
}

async fn connect(properties: &BTreeMap<String, String>) -> SqlCatalog {
    SqlCatalog::connect("c", properties.clone()).await.unwrap()
}

fn schema() -> Schema {
    let fields = vec![NestedField::optional(1, "x", Type::Primitive(PrimitiveType::Int))];
    Schema::new(SchemaId(0), fields, Vec::new()).unwrap()
}

fn ident(name: &str) -> TableIdent {
    TableIdent::new(Namespace::new(["db"]).unwrap(), name).unwrap()
}

mod sqlite {
    use super::*;

    async fn subject() -> Option<Subject> {
        let dir = tempfile::tempdir().unwrap();
        let catalog = connect(&in_dir(&dir)).await;
        Some(Subject::new(Arc::new(catalog), CAN).keep(dir))
    }

    crate::catalog::suite::cases!(subject);
}

mod sqlite_in_memory {
    use super::*;

    async fn subject() -> Option<Subject> {
        let properties = map(&[("uri", "sqlite:///:memory:"), ("warehouse", "memory:///wh")]);
        Some(Subject::new(Arc::new(connect(&properties).await), CAN))
    }

    crate::catalog::suite::cases!(subject);
}

/// A catalog in the database that an environment variable names.
async fn on_server(variable: &str) -> Option<Subject> {
    let uri = crate::interchange::engine(variable)?;
    let dir = tempfile::tempdir().unwrap();
    let properties = map(&[("uri", &uri), ("warehouse", &dir.path().display().to_string())]);
    let catalog = SqlCatalog::connect("icefloe_test", properties).await.unwrap();
    Some(Subject::new(Arc::new(catalog), CAN).keep(dir))
}

mod postgres {
    use super::*;

    async fn subject() -> Option<Subject> {
        on_server("ICEFLOE_TEST_POSTGRES").await
    }

    crate::catalog::suite::cases!(subject);
}

mod mysql {
    use super::*;

    async fn subject() -> Option<Subject> {
        on_server("ICEFLOE_TEST_MYSQL").await
    }

    crate::catalog::suite::cases!(subject);
}

#[tokio::test]
async fn old_databases_are_used_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut properties = in_dir(&dir);
    properties.insert("jdbc.schema-version".to_owned(), "V0".to_owned());
    let namespace = Namespace::new(["db"]).unwrap();
    let old = connect(&properties).await;
    old.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
    old.create_table(&ident("t"), TableCreation::new(schema())).await.unwrap();
    properties.remove("jdbc.schema-version");
    let again = connect(&properties).await;
    assert_eq!(again.list_tables(&namespace).await.unwrap(), [ident("t")]);
    let e = again.list_views(&namespace).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("jdbc.schema-version"), "{e}");
    // The update keeps what is there; tables without a type are tables.
    properties.insert("schema_version".to_owned(), "v1".to_owned());
    let updated = connect(&properties).await;
    assert_eq!(updated.list_views(&namespace).await.unwrap(), []);
    assert_eq!(updated.list_tables(&namespace).await.unwrap(), [ident("t")]);
    updated.load_table(&ident("t")).await.unwrap();
    updated.rename_table(&ident("t"), &ident("u")).await.unwrap();
    // The old client still finds it.
    old.load_table(&ident("u")).await.unwrap();
}

#[tokio::test]
async fn catalogs_share_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let one = connect(&in_dir(&dir)).await;
    let two = SqlCatalog::connect("d", in_dir(&dir)).await.unwrap();
    let namespace = Namespace::new(["db"]).unwrap();
    one.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
    one.create_table(&ident("t"), TableCreation::new(schema())).await.unwrap();
    assert_eq!(two.list_namespaces(None).await.unwrap(), []);
    assert!(!two.table_exists(&ident("t")).await.unwrap());
    two.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
    assert_eq!(two.list_tables(&namespace).await.unwrap(), []);
}

#[tokio::test]
async fn namespaces_exist_by_what_is_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = connect(&in_dir(&dir)).await;
    // As PyIceberg makes them: without the property `exists` if there is another.
    let row = catalog.tables.add_property("a.b", "owner", "me");
    catalog.database.change(row).await.unwrap();
    let (a, b) = (Namespace::new(["a"]).unwrap(), Namespace::new(["a", "b"]).unwrap());
    for namespace in [&a, &b] {
        assert!(catalog.namespace_exists(namespace).await.unwrap());
    }
    for missing in ["A", "a.", "_", "%", "a.b.c"] {
        let namespace = Namespace::new([missing]).unwrap();
        assert!(!catalog.namespace_exists(&namespace).await.unwrap(), "{missing}");
    }
    assert_eq!(catalog.list_namespaces(None).await.unwrap(), std::slice::from_ref(&a));
    assert_eq!(catalog.list_namespaces(Some(&a)).await.unwrap(), std::slice::from_ref(&b));
    let e = catalog.drop_namespace(&a).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed);
    catalog.update_namespace(&b, BTreeMap::new(), vec!["owner".to_owned()]).await.unwrap();
    assert!(catalog.namespace_exists(&b).await.unwrap());
    let e = catalog.update_namespace(&b, map(&[(EXISTS, "x")]), vec![]).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DataInvalid);
    catalog.drop_namespace(&b).await.unwrap();
    assert!(!catalog.namespace_exists(&a).await.unwrap());
}

#[tokio::test]
async fn a_database_may_be_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut properties = in_dir(&dir);
    properties.insert("init_catalog_tables".to_owned(), "false".to_owned());
    let e = SqlCatalog::connect("c", properties.clone()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    connect(&in_dir(&dir)).await;
    connect(&properties).await;
}

#[tokio::test]
async fn wrong_properties_are_named() {
    for (list, named) in [
        (&[("warehouse", "/wh")][..], "`uri`"),
        (&[("uri", "sqlite://")], "`warehouse`"),
        (&[("uri", "oracle:x"), ("warehouse", "/wh")], "oracle"),
        (&[("uri", "sqlite://"), ("warehouse", "/wh"), ("jdbc.schema-version", "V2")], "V2"),
        (
            &[("uri", "sqlite://"), ("warehouse", "/wh"), ("init_catalog_tables", "perhaps")],
            "init_catalog_tables",
        ),
        (
            &[("uri", "sqlite://"), ("warehouse", "/wh"), ("unique-table-location", "x")],
            "unique-table-location",
        ),
        (&[("uri", "sqlite:////no/such/directory/x.db"), ("warehouse", "/wh")], "/no/such/directory/x.db"),
        (&[("uri", "postgresql://u:hunter2@127.0.0.1:1/db"), ("warehouse", "/wh")], "127.0.0.1:1/db"),
    ] {
        let e = SqlCatalog::connect("c", map(list)).await.unwrap_err().to_string();
        assert!(e.contains("catalog `c`") && e.contains(named) && !e.contains("hunter2"), "{e}");
    }
}

#[tokio::test]
async fn debug_shows_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let mut properties = in_dir(&dir);
    properties.insert("s3.secret-access-key".to_owned(), "hunter2".to_owned());
    properties.insert("jdbc.password".to_owned(), "hunter2".to_owned());
    let catalog = connect(&properties).await;
    assert!(!format!("{catalog:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_damaged_database_is_no_commit_of_unknown_state() {
    let dir = tempfile::tempdir().unwrap();
    connect(&in_dir(&dir)).await;
    let whole = std::fs::read(dir.path().join("catalog.db")).unwrap();
    for damaged in [&whole[..5000], &b"no database at all"[..]] {
        std::fs::write(dir.path().join("catalog.db"), damaged).unwrap();
        let e = SqlCatalog::connect("c", in_dir(&dir)).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{e}");
    }
}
