//! One SQLite file for PyIceberg and us, in both directions.
//!
//! `ICEFLOE_TEST_PYICEBERG` names a Python that has PyIceberg and PyArrow.

use std::process::Command;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;

use super::SqlCatalog;
use crate::catalog::writers_tests::append_row;
use crate::catalog::{Catalog, Namespace, TableCommit, TableCreation, TableIdent};
use crate::spec::{NestedField, PrimitiveType, Schema, SchemaId, TableUpdate, Type};

const SCRIPT: &str = r#"
import sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

uri, warehouse = sys.argv[1:]
catalog = SqlCatalog("c", uri=uri, warehouse=warehouse)
assert catalog.list_namespaces() == [("ours",)], catalog.list_namespaces()
assert catalog.list_namespaces("ours") == [("ours", "deep")], catalog.list_namespaces("ours")
assert catalog.load_namespace_properties("ours")["owner"] == "me"
assert catalog.list_tables("ours") == [("ours", "t")], catalog.list_tables("ours")
table = catalog.load_table("ours.t")
assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
assert table.properties["a"] == "1"
rows = pa.table({"id": pa.array([3], pa.int64())})
table.append(rows)

catalog.create_namespace("theirs")
catalog.create_namespace("named", {"owner": "you"})
theirs = catalog.create_table("theirs.t", schema=rows.schema)
theirs.append(rows)
with theirs.update_schema() as update:
    update.add_column("more", StringType())
catalog.rename_table("theirs.t", "named.u")
"#;

async fn ids(catalog: &Arc<dyn Catalog>, ident: &TableIdent) -> Vec<i64> {
    let table = crate::IcebergTable::try_new(catalog.load_table(ident).await.unwrap()).unwrap();
    let context = SessionContext::new();
    context.register_table("t", Arc::new(table)).unwrap();
    let batches = context.sql("SELECT id FROM t ORDER BY id").await.unwrap().collect().await.unwrap();
    batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[tokio::test]
async fn pyiceberg_shares_a_sqlite_file() {
    let Some(python) = crate::interchange::engine("ICEFLOE_TEST_PYICEBERG") else { return };
    let dir = tempfile::tempdir().unwrap();
    let uri = format!("sqlite:///{}/catalog.db", dir.path().display());
    let warehouse = format!("file://{}/wh", dir.path().display());
    let properties = [("uri".to_owned(), uri.clone()), ("warehouse".to_owned(), warehouse.clone())];
    let catalog: Arc<dyn Catalog> = Arc::new(SqlCatalog::connect("c", properties.into()).await.unwrap());
    let ours = Namespace::new(["ours"]).unwrap();
    catalog.create_namespace(&ours, [("owner".to_owned(), "me".to_owned())].into()).await.unwrap();
    catalog.create_namespace(&ours.child("deep").unwrap(), Default::default()).await.unwrap();
    let t = TableIdent::new(ours, "t").unwrap();
    let fields = vec![NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long))];
    let creation = TableCreation::new(Schema::new(SchemaId(0), fields, Vec::new()).unwrap());
    catalog.create_table(&t, creation).await.unwrap();
    for id in [1, 2] {
        append_row(&catalog, &t, id).await;
    }
    let update = TableUpdate::SetProperties([("a".to_owned(), "1".to_owned())].into());
    let commit = TableCommit { table: t.clone(), requirements: Vec::new(), updates: vec![update] };
    catalog.commit_table(commit).await.unwrap();

    let ran = Command::new(python).args(["-c", SCRIPT, &uri, &warehouse]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    assert_eq!(ids(&catalog, &t).await, [1, 2, 3]);
    append_row(&catalog, &t, 4).await;
    assert_eq!(ids(&catalog, &t).await, [1, 2, 3, 4]);
    let names: Vec<_> =
        catalog.list_namespaces(None).await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["named", "ours", "theirs"]);
    let named = Namespace::new(["named"]).unwrap();
    assert_eq!(catalog.load_namespace(&named).await.unwrap()["owner"], "you");
    let u = TableIdent::new(named, "u").unwrap();
    assert_eq!(ids(&catalog, &u).await, [3]);
    catalog.drop_table(&u, true).await.unwrap();
}
