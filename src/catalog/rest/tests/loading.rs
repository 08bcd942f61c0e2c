//! Tables that are loaded again, and what opens their files.

use serde_json::json;

use super::server::Wrong;
use super::*;
use crate::ErrorKind;

#[tokio::test]
async fn a_table_that_has_not_changed_is_not_sent_again() {
    let (server, catalog) = with_table(Settings::default(), &[]).await;
    let first = catalog.load_table(&ident("t")).await.unwrap();
    let again = catalog.load_table(&ident("t")).await.unwrap();
    assert!(Arc::ptr_eq(first.metadata(), again.metadata()));
    let requests = server.requests();
    assert!(!requests[0].headers.contains_key("if-none-match"));
    assert!(requests[1].headers["if-none-match"].starts_with("W/"));
    assert!(requests.iter().all(|r| r.path.ends_with("?snapshots=all")), "{requests:?}");
    // What others commit is seen, and so is one's own.
    server.catalog.commit_table(change("t", "theirs")).await.unwrap();
    let theirs = catalog.load_table(&ident("t")).await.unwrap();
    assert_eq!(theirs.metadata().properties["value"], "theirs");
    let own = catalog.commit_table(change("t", "own")).await.unwrap();
    let loaded = catalog.load_table(&ident("t")).await.unwrap();
    assert!(Arc::ptr_eq(own.metadata(), loaded.metadata()));
    // A table of the same name is another one.
    catalog.drop_table(&ident("t"), true).await.unwrap();
    assert_eq!(catalog.load_table(&ident("t")).await.unwrap_err().kind(), ErrorKind::NotFound);
    catalog.create_table(&ident("t"), creation()).await.unwrap();
    let new = catalog.load_table(&ident("t")).await.unwrap();
    assert_ne!(new.metadata().table_uuid, first.metadata().table_uuid);
}

#[tokio::test]
async fn an_unasked_not_modified_is_an_error() {
    let (server, catalog) = with_table(Settings { etags: false, ..Settings::default() }, &[]).await;
    server.wrong("GET", "/tables/t", Wrong::Refused(304, false));
    let e = catalog.load_table(&ident("t")).await.unwrap_err();
    assert!(e.to_string().contains("not asked"), "{e}");
    server.wrong("GET", "/tables/t", Wrong::Garbage);
    let e = catalog.load_table(&ident("t")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DataInvalid);
}

#[tokio::test]
async fn credentials_are_asked_for() {
    for (more, expected) in [
        (&[][..], Some("vended-credentials")),
        (&[("rest.access-delegation", "none")], None),
        (&[("header.X-Iceberg-Access-Delegation", "remote-signing")], Some("remote-signing")),
    ] {
        let (server, catalog) = with_table(Settings::default(), more).await;
        catalog.load_table(&ident("t")).await.unwrap();
        catalog.create_table(&ident("u"), creation()).await.unwrap();
        for request in server.requests() {
            let sent = request.headers.get("x-iceberg-access-delegation").map(String::as_str);
            assert_eq!(sent, expected, "{more:?}");
        }
    }
}

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

fn keys(expires_at: i64) -> serde_json::Value {
    json!([{"prefix": "s3://b", "config": {"s3.access-key-id": "k", "s3.secret-access-key": "hunter2",
        "s3.session-token-expires-at-ms": expires_at.to_string()}}])
}

#[tokio::test]
async fn what_the_server_sets_opens_the_files() {
    let settings = Settings {
        config: json!({"s3.endpoint": "https://theirs", "s3.region": "r", "owner": "x"}),
        credentials: keys(now_ms() + 3_600_000),
        ..Settings::default()
    };
    let own =
        [("s3.endpoint", "https://own"), ("s3.access-key-id", "a"), ("s3.secret-access-key", "hunter2")];
    let (_server, catalog) = with_table(settings, &own).await;
    let table = catalog.load_table(&ident("t")).await.unwrap();
    let properties = table.storage().properties();
    assert_eq!(properties.get("s3.endpoint"), Some("https://theirs"));
    assert_eq!((properties.get("s3.region"), properties.get("owner")), (Some("r"), None));
    assert!(!format!("{table:?}").contains("hunter2"));
    // A commit's reply has no credentials: those that are known stay.
    let committed = catalog.commit_table(change("t", "1")).await.unwrap();
    assert_eq!(committed.storage().properties().get("s3.endpoint"), Some("https://theirs"));
    // So they do if the table was never loaded here.
    catalog.0.known.invalidate_all();
    let committed = catalog.commit_table(change("t", "2")).await.unwrap();
    assert_eq!(committed.storage().properties().get("s3.endpoint"), Some("https://theirs"));
    assert_eq!(committed.metadata().properties["value"], "2");
}

#[tokio::test]
async fn tables_with_credentials_that_expire_are_loaded_anew() {
    for (left, asked_about) in [(3_600_000, true), (30_000, false), (-1, false)] {
        let settings = Settings { credentials: keys(now_ms() + left), ..Settings::default() };
        let (server, catalog) = with_table(settings, &[]).await;
        catalog.load_table(&ident("t")).await.unwrap();
        catalog.load_table(&ident("t")).await.unwrap();
        assert_eq!(server.requests()[1].headers.contains_key("if-none-match"), asked_about, "{left}");
    }
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn expired_credentials_are_got_again() {
    use object_store::ObjectStoreExt;

    // An S3 that refuses everything, and says who asked.
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let s3 = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let text = request.headers()["authorization"].to_str().unwrap().to_owned();
        seen.lock().unwrap().push(text);
        async { axum::http::StatusCode::NOT_FOUND }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, s3).await.unwrap() });

    let credentials = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials";
    for (config, lacks, path) in [
        (json!({}), vec![], "/tables/t/credentials"),
        (json!({}), vec![credentials], "/tables/t?snapshots=all"),
        (
            json!({"client.refresh-credentials-endpoint": "v1/wh/main/namespaces/x/tables/y/credentials"}),
            vec![],
            "/tables/y/credentials",
        ),
    ] {
        let settings = Settings {
            config,
            credentials: keys(now_ms() - 1),
            lacks: Some(lacks),
            overrides: vec![("prefix", "wh/main"), ("s3.region", "r"), ("s3.path-style-access", "true")],
            ..Settings::default()
        };
        let (server, catalog) = with_table(settings, &[("s3.endpoint", &endpoint)]).await;
        let table = catalog.load_table(&ident("t")).await.unwrap();
        server.requests();
        let (_, store, path_of_file) = table.storage().store("s3://b/t/x").unwrap();
        let e = store.get(&path_of_file).await.unwrap_err();
        assert!(matches!(e, object_store::Error::NotFound { .. }), "{e}");
        let requests = server.requests();
        assert!(requests.len() == 1 && requests[0].path.ends_with(path), "{requests:?}");
        let last = asked.lock().unwrap().last().unwrap().clone();
        assert!(last.contains("Credential=k/"), "{last}");
    }
}

#[tokio::test]
async fn tables_get_the_properties_of_the_catalog() {
    let more =
        [("table-default.a", "default"), ("table-default.b", "default"), ("table-override.c", "override")];
    let (_server, catalog) = with_table(Settings::default(), &more).await;
    let asked = TableCreation { properties: map(&[("b", "asked"), ("c", "asked")]), ..creation() };
    let table = catalog.create_table(&ident("u"), asked).await.unwrap();
    let value = |name: &str| table.metadata().properties[name].as_str();
    assert_eq!([value("a"), value("b"), value("c")], ["default", "asked", "override"]);
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn the_server_signs_requests() {
    use object_store::ObjectStoreExt;

    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let s3 = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let header = |name: &str| request.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        let found = ["authorization", "x-amz-content-sha256", "range"].map(header);
        seen.lock().unwrap().push((request.uri().to_string(), found));
        async { axum::http::StatusCode::NOT_FOUND }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, s3).await.unwrap() });

    let settings = Settings {
        config: json!({"s3.remote-signing-enabled": "true", "s3.endpoint": endpoint, "s3.path-style-access": "true"}),
        ..Settings::default()
    };
    let (server, catalog) = with_table(settings, &[]).await;
    let table = catalog.load_table(&ident("t")).await.unwrap();
    server.requests();
    let (_, store, path) = table.storage().store("s3://b/t/a b").unwrap();
    let e = store.get_range(&path, 3..5).await.unwrap_err();
    assert!(matches!(e, object_store::Error::NotFound { .. }), "{e}");
    let (uri, headers) = asked.lock().unwrap().last().unwrap().clone();
    assert_eq!(uri, "/b/t/a%20b");
    let expected = ["signed GET us-east-1", "UNSIGNED-PAYLOAD", "bytes=3-4"];
    assert_eq!(headers.map(Option::unwrap), expected);
    let requests = server.requests();
    assert!(
        requests.len() == 1 && requests[0].path.ends_with("/namespaces/db/tables/t/sign"),
        "{requests:?}"
    );
    // A signer that says no is heard.
    server.wrong("POST", "/sign", Wrong::Refused(403, false));
    let e = store.get(&path).await.unwrap_err();
    assert!(e.to_string().contains("as it was told to"), "{e}");
}

#[tokio::test]
async fn a_runtime_that_stands_still_holds_no_connection() {
    // The server has a runtime of its own, this test one thread.
    let (send, receive) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.spawn(async move { send.send(with_table(Settings::default(), &[]).await).unwrap() });
    let (server, first) = receive.recv().unwrap();
    let catalog = connect(&server, &[("token", "t"), ("rest.client.max-retries", "0")]).await;
    // The connection that is kept from here is used while nothing here moves on.
    catalog.load_table(&ident("t")).await.unwrap();
    let listed =
        crate::catalog::background::wait_for(async move { catalog.list_tables(&namespace("db")).await });
    assert_eq!(listed.unwrap(), [ident("t")]);
    drop(first);
    runtime.shutdown_background();
}

/// However often a query names a table, it is asked for once, and nothing else is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_costs_one_round_trip() {
    use datafusion::prelude::SessionContext;

    let (server, catalog) = with_table(Settings::default(), &[]).await;
    let context = SessionContext::new();
    let provider = crate::provider::IcebergCatalogProvider::new(Arc::new(catalog));
    context.register_catalog("ice", Arc::new(provider));
    // The first looks for the namespace, too.
    context.sql("SELECT * FROM ice.db.t").await.unwrap().collect().await.unwrap();
    server.requests();
    for sql in [
        "SELECT count(*) FROM ice.db.t",
        "SELECT * FROM ice.db.t AS a JOIN ice.db.t AS b USING (id) WHERE a.id IN (SELECT id FROM ice.db.t)",
    ] {
        context.sql(sql).await.unwrap().collect().await.unwrap();
        let seen: Vec<String> =
            server.requests().iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect();
        assert_eq!(seen.len(), 1, "{sql}: {seen:?}");
        assert!(seen[0].starts_with("GET") && seen[0].contains("/namespaces/db/tables/t"), "{seen:?}");
    }
}
