//! Refusals, lost replies, and what is known after them.

use super::server::Wrong;
use super::*;
use crate::ErrorKind;

/// The value that the server has.
async fn value(server: &Server) -> Option<String> {
    let table = server.catalog.load_table(&ident("t")).await.unwrap();
    table.metadata().properties.get("value").cloned()
}

const COMMIT: &str = "/tables/t";

#[tokio::test]
async fn what_was_not_looked_at_is_sent_again() {
    let (server, catalog) = with_table(Settings::default(), &[]).await;
    for (method, wrong) in [
        ("GET", Wrong::Refused(429, true)),
        ("POST", Wrong::Refused(429, true)),
        ("POST", Wrong::Refused(503, true)),
    ] {
        server.wrong(method, COMMIT, wrong);
        server.wrong(method, COMMIT, wrong);
        catalog.load_table(&ident("t")).await.unwrap();
        catalog.commit_table(change("t", &format!("{wrong:?}"))).await.unwrap();
        assert_eq!(value(&server).await, Some(format!("{wrong:?}")));
        let again =
            server.requests().iter().filter(|r| r.method == method && r.path.contains(COMMIT)).count();
        assert_eq!(again, 3);
    }
}

#[tokio::test]
async fn patience_ends() {
    let (server, catalog) = with_table(Settings::default(), &[("rest.client.max-retries", "2")]).await;
    for _ in 0..3 {
        server.wrong("GET", COMMIT, Wrong::Refused(503, true));
    }
    let e = catalog.load_table(&ident("t")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.to_string().contains("as it was told to"), "{e}");
    assert_eq!(server.requests().len(), 3);
    catalog.load_table(&ident("t")).await.unwrap();
}

#[tokio::test]
async fn a_commit_without_an_answer_is_in_doubt() {
    for wrong in [
        Wrong::DoneBut(500, false),
        Wrong::DoneBut(502, false),
        Wrong::DoneBut(503, false),
        Wrong::DoneBut(504, false),
        Wrong::Refused(500, false),
        Wrong::LostReply,
        Wrong::Garbage,
    ] {
        let (server, catalog) = with_table(Settings::default(), &[]).await;
        server.wrong("POST", COMMIT, wrong);
        let e = catalog.commit_table(change("t", "new")).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::CommitStateUnknown, "{wrong:?}: {e}");
        let done = !matches!(wrong, Wrong::Refused(..));
        assert_eq!(value(&server).await.as_deref(), done.then_some("new"), "{wrong:?}");
        // It is not sent twice.
        assert_eq!(server.requests().len(), 1, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_refused_commit_is_none() {
    for (status, kind) in [
        (400, ErrorKind::DataInvalid),
        (401, ErrorKind::Io),
        (403, ErrorKind::Io),
        (404, ErrorKind::NotFound),
        (409, ErrorKind::CommitConflict),
        (419, ErrorKind::Io),
        (501, ErrorKind::Unsupported),
    ] {
        let (server, catalog) = with_table(Settings::default(), &[]).await;
        server.wrong("POST", COMMIT, Wrong::Refused(status, false));
        let e = catalog.commit_table(change("t", "new")).await.unwrap_err();
        assert_eq!(e.kind(), kind, "{status}: {e}");
        assert!(e.to_string().contains("`ice`") && e.to_string().contains("`db.t`"), "{e}");
        server.wrong("POST", "/transactions/commit", Wrong::Refused(status, false));
        let several = vec![change("t", "new"), change("u", "new")];
        assert_eq!(catalog.commit_tables(several).await.unwrap_err().kind(), kind, "{status}");
    }
    // Nobody is there at all.
    let (server, catalog) = with_table(Settings::default(), &[("rest.client.max-retries", "0")]).await;
    let nowhere = map(&[("uri", "http://127.0.0.1:1"), ("rest.client.max-retries", "0")]);
    let e = RestCatalog::connect("ice", nowhere).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    drop((server, catalog));
}

#[tokio::test]
async fn a_conflict_after_doubt_is_no_conflict() {
    let (server, catalog) = with_table(Settings::default(), &[]).await;
    // It is done, the server says that it is not available, and then that somebody was faster.
    server.wrong("POST", COMMIT, Wrong::DoneBut(503, true));
    server.wrong("POST", COMMIT, Wrong::Refused(409, false));
    let e = catalog.commit_table(change("t", "new")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::CommitStateUnknown, "{e}");
    assert_eq!(value(&server).await.as_deref(), Some("new"));
    // Nor is it a refusal if the token is no good any more.
    let settings = Settings { credential: Some("me:hunter2"), ..Settings::default() };
    let (server, catalog) = with_table(settings, &[("credential", "me:hunter2")]).await;
    server.wrong("POST", COMMIT, Wrong::DoneBut(503, true));
    server.wrong("POST", COMMIT, Wrong::Refused(401, false));
    server.wrong("POST", "/oauth/tokens", Wrong::Refused(400, false));
    let e = catalog.commit_table(change("t", "new")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::CommitStateUnknown, "{e}");
}

#[tokio::test]
async fn a_known_request_is_sent_again_and_done_once() {
    let settings = Settings { idempotent: true, ..Settings::default() };
    for wrong in [Wrong::LostReply, Wrong::Refused(500, false), Wrong::Refused(502, false)] {
        let (server, catalog) = with_table(settings.clone(), &[]).await;
        server.wrong("POST", COMMIT, wrong);
        let table = catalog.commit_table(change("t", "new")).await.unwrap();
        assert_eq!(table.metadata().properties["value"], "new");
        let metadata = server.catalog.load_table(&ident("t")).await.unwrap().metadata().clone();
        assert_eq!(metadata.metadata_log.len(), 1, "{wrong:?}");
        let posts = server.requests().into_iter().filter(|r| r.method == "POST");
        let keys: Vec<_> = posts.map(|r| r.headers.get("idempotency-key").cloned()).collect();
        assert_eq!(keys.len(), 2);
        assert!(keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
        server.wrong("POST", "/tables", Wrong::LostReply);
        catalog.create_table(&ident("u"), creation()).await.unwrap();
    }
    // Reading needs no key, and each change has its own.
    let (server, catalog) = with_table(settings, &[]).await;
    catalog.load_table(&ident("t")).await.unwrap();
    catalog.commit_table(change("t", "1")).await.unwrap();
    catalog.commit_table(change("t", "2")).await.unwrap();
    let requests = server.requests();
    let keys: Vec<_> = requests.iter().map(|r| r.headers.get("idempotency-key")).collect();
    assert!(keys[0].is_none() && keys[1].is_some() && keys[1] != keys[2], "{keys:?}");
}

#[tokio::test]
async fn a_table_is_dropped_once() {
    let (server, catalog) = with_table(Settings::default(), &[]).await;
    server.wrong("DELETE", COMMIT, Wrong::LostReply);
    catalog.drop_table(&ident("t"), false).await.unwrap();
    assert!(!server.catalog.table_exists(&ident("t")).await.unwrap());
    assert_eq!(server.requests().len(), 2);
    assert_eq!(catalog.drop_table(&ident("t"), false).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_creation_without_an_answer_is_in_doubt() {
    let (server, catalog) = with_table(Settings::default(), &[]).await;
    server.wrong("POST", "/tables", Wrong::LostReply);
    let e = catalog.create_table(&ident("u"), creation()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::CommitStateUnknown, "{e}");
    // What can't be read was made nevertheless, and is looked up.
    server.wrong("POST", "/tables", Wrong::Garbage);
    catalog.create_table(&ident("v"), creation()).await.unwrap();
    assert!(server.catalog.table_exists(&ident("u")).await.unwrap());
}

#[tokio::test]
async fn pages_without_end_are_an_error() {
    let app = axum::Router::new().fallback(|request: axum::extract::Request| async move {
        match request.uri().path().ends_with("config") {
            true => "{\"defaults\": {}, \"overrides\": {}}",
            false => "{\"namespaces\": [[\"a\"]], \"identifiers\": [], \"next-page-token\": \"next\"}",
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let catalog = RestCatalog::connect("ice", map(&[("uri", &uri)])).await.unwrap();
    for e in [
        catalog.list_namespaces(None).await.unwrap_err(),
        catalog.list_tables(&namespace("db")).await.unwrap_err(),
    ] {
        assert!(e.to_string().contains("no end"), "{e}");
    }
    // This server lists no endpoints, so it is not asked for what old ones don't know.
    let e = catalog.list_views(&namespace("db")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("view-endpoints-supported"), "{e}");
    assert!(catalog.commits_several_tables());
}

#[tokio::test]
async fn what_is_not_offered_is_not_asked_for() {
    let lacks = Some(vec![
        "POST /v1/{prefix}/tables/rename",
        "POST /v1/{prefix}/transactions/commit",
        "GET /v1/{prefix}/namespaces/{namespace}/views",
    ]);
    let (server, catalog) = with_table(Settings { lacks, ..Settings::default() }, &[]).await;
    assert!(!catalog.commits_several_tables());
    for e in [
        catalog.rename_table(&ident("t"), &ident("u")).await.unwrap_err(),
        catalog.commit_tables(vec![change("t", "1"), change("u", "1")]).await.unwrap_err(),
        catalog.list_views(&namespace("db")).await.unwrap_err(),
    ] {
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("does not offer"), "{e}");
    }
    assert_eq!(server.requests().len(), 0);
}
