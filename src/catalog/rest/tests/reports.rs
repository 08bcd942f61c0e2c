//! Reports of scans and commits.

use datafusion::prelude::SessionContext;
use serde_json::{Value as Json, json};

use super::plans::register;
use super::server::{Seen, Wrong};
use super::*;
use crate::exec::tests::table::{TestTable, id_and_s, longs, query, strings};
use crate::provider::IcebergCatalogProvider;
use crate::transaction::Append;

const ENDPOINT: &str = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics";

async fn server(also: Vec<&'static str>) -> (TestTable, Arc<Server>) {
    let mut written = TestTable::new(id_and_s());
    let columns = [("id", Some(1), longs(0..2)), ("s", Some(2), strings(&[Some("hunter2"), None]))];
    written.data(1, &columns);
    written.positions(2, &[(0, 0)]);
    let server = Server::start(Settings { also, ..Settings::default() }).await;
    register(&server, &written).await;
    (written, server)
}

fn context(catalog: &RestCatalog) -> SessionContext {
    let context = SessionContext::new();
    context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::new(catalog.clone()))));
    context
}

fn body(seen: Seen) -> Json {
    assert!(seen.path.ends_with("/namespaces/db/tables/t/metrics"), "{}", seen.path);
    serde_json::from_slice(&seen.body).unwrap()
}

const SQL: &str = "SELECT id FROM ice.db.t WHERE s = 'hunter2' OR id > 0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_hears_of_scans_and_commits() {
    let (_written, server) = server(vec![ENDPOINT]).await;
    let catalog = connect(&server, &[("token", "t")]).await;
    assert_eq!(query(&context(&catalog), SQL).await.unwrap(), ["1"]);
    let seen = server.comes("POST", "/metrics").await;
    assert_eq!(seen.headers["authorization"], "Bearer t");
    assert!(!String::from_utf8_lossy(&seen.body).contains("hunter2"));
    let scan = body(seen);
    for (member, expected) in [
        ("report-type", json!("scan-report")),
        ("table-name", json!("ice.db.t")),
        ("snapshot-id", json!(1)),
        ("schema-id", json!(0)),
        ("projected-field-ids", json!([1, 2])),
        ("projected-field-names", json!(["id", "s"])),
    ] {
        assert_eq!(scan[member], expected, "{member}");
    }
    assert_eq!(scan["filter"]["type"], "or");
    for (name, value) in [("result-data-files", 1), ("result-delete-files", 1), ("skipped-data-files", 0)] {
        assert_eq!(scan["metrics"][name], json!({"unit": "count", "value": value}), "{name}");
    }
    assert_eq!(scan["metrics"]["total-planning-duration"]["time-unit"], "nanoseconds");
    assert!(scan["metrics"]["total-file-size-in-bytes"]["value"].as_i64().unwrap() > 0);

    let table = catalog.load_table(&ident("t")).await.unwrap();
    let table = table.transaction().apply(Append::fast()).commit(&catalog).await.unwrap();
    let commit = body(server.comes("POST", "/metrics").await);
    assert_eq!(commit["report-type"], "commit-report");
    assert_eq!(commit["snapshot-id"], table.metadata().current_snapshot_id.unwrap().0);
    assert_eq!(commit["sequence-number"], 3);
    assert_eq!(commit["operation"], "append");
    assert_eq!(commit["metrics"]["attempts"]["value"], 1);
    assert_eq!(commit["metrics"]["total-duration"]["count"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_suffers_from_reports() {
    let (_written, server) = server(vec![ENDPOINT]).await;
    let catalog = connect(&server, &[]).await;
    for what in [Wrong::Refused(500, false), Wrong::Refused(403, false), Wrong::LostReply, Wrong::Garbage] {
        server.wrong("POST", "/metrics", what);
        assert_eq!(query(&context(&catalog), SQL).await.unwrap(), ["1"]);
        server.comes("POST", "/metrics").await;
    }
    // As many as are under way at most, and none waits for another.
    server.wrong("POST", "/metrics", Wrong::Refused(503, true));
    for _ in 0..40 {
        assert_eq!(query(&context(&catalog), SQL).await.unwrap(), ["1"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_want_reports_gets_none() {
    for (also, property) in [(vec![], "true"), (vec![ENDPOINT], "false")] {
        let (_written, server) = server(also).await;
        let catalog = connect(&server, &[("rest-metrics-reporting-enabled", property)]).await;
        assert!(catalog.0.reports.is_none());
        assert_eq!(query(&context(&catalog), SQL).await.unwrap(), ["1"]);
        assert!(server.requests().iter().all(|r| !r.path.contains("metrics")));
    }
}
