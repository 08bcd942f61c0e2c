//! The catalog against a server in this process, and against a real one if there is one.

mod faults;
pub(crate) mod java;
mod loading;
mod planning;
mod plans;
mod real;
mod refs;
mod reports;
pub(crate) mod server;
mod signing_in;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RestCatalog;
use crate::catalog::suite::{Can, Subject};
use crate::catalog::{Catalog, Namespace, TableCommit, TableCreation, TableIdent};
use crate::spec::{NestedField, PrimitiveType, Schema, SchemaId, TableUpdate, Type};
use server::{Server, Settings};

fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
}

async fn connect(server: &Server, more: &[(&str, &str)]) -> RestCatalog {
    let mut properties = map(more);
    properties.insert("uri".into(), server.uri.clone());
    RestCatalog::connect("ice", properties).await.unwrap()
}

fn namespace(name: &str) -> Namespace {
    Namespace::new([name]).unwrap()
}

fn ident(name: &str) -> TableIdent {
    TableIdent::new(namespace("db"), name).unwrap()
}

fn creation() -> TableCreation {
    let id = NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long));
    TableCreation::new(Schema::new(SchemaId(0), vec![id], Vec::new()).unwrap())
}

/// A commit that counts itself.
fn change(name: &str, value: &str) -> TableCommit {
    TableCommit {
        table: ident(name),
        requirements: Vec::new(),
        updates: vec![TableUpdate::SetProperties(map(&[("value", value)]))],
    }
}

/// A server with the table `db.t`, and a catalog that is connected to it.
async fn with_table(settings: Settings, more: &[(&str, &str)]) -> (Arc<Server>, RestCatalog) {
    let server = Server::start(settings).await;
    server.catalog.create_namespace(&namespace("db"), BTreeMap::new()).await.unwrap();
    server.catalog.create_table(&ident("t"), creation()).await.unwrap();
    let catalog = connect(&server, more).await;
    server.requests();
    (server, catalog)
}

mod plain {
    use super::*;

    async fn subject() -> Option<Subject> {
        let server = Server::start(Settings::default()).await;
        let catalog: Arc<dyn Catalog> = Arc::new(connect(&server, &[]).await);
        // No URL holds `.` and `..`, which are among the names with slashes.
        Some(Subject::new(catalog, Can { slashes: false, ..Can::EVERYTHING }).keep(server))
    }

    crate::catalog::suite::cases!(subject);
}

/// With tokens that expire at once, another separator, keys of idempotency, no `HEAD`, and one
/// element a page.
mod demanding {
    use super::*;

    async fn subject() -> Option<Subject> {
        let settings = Settings {
            overrides: vec![("prefix", "wh/main"), ("namespace-separator", "%7C")],
            separator: "|",
            lacks: Some(vec![
                "HEAD /v1/{prefix}/namespaces/{namespace}",
                "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            ]),
            idempotent: true,
            credential: Some("me:hunter2"),
            expires_in: Some(0),
            etags: false,
            ..Settings::default()
        };
        let server = Server::start(settings).await;
        let properties = [("credential", "me:hunter2"), ("rest-page-size", "1")];
        let catalog: Arc<dyn Catalog> = Arc::new(connect(&server, &properties).await);
        Some(Subject::new(catalog, Can { slashes: false, ..Can::EVERYTHING }).keep(server))
    }

    crate::catalog::suite::cases!(subject);
}
