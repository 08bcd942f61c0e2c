//! Tokens, keys, and that none is ever shown.

use std::sync::atomic::Ordering;

use super::server::Wrong;
use super::*;
use crate::{Error, ErrorKind};

fn guarded() -> Settings {
    Settings { credential: Some("me:hunter2"), ..Settings::default() }
}

const CREDENTIAL: (&str, &str) = ("credential", "me:hunter2");

fn authorizations(server: &Server) -> Vec<Option<String>> {
    server.requests().iter().map(|r| r.headers.get("authorization").cloned()).collect()
}

async fn refused(uri: &str, more: &[(&str, &str)]) -> Error {
    let mut properties = map(more);
    properties.insert("uri".into(), uri.into());
    let e = RestCatalog::connect("ice", properties).await.unwrap_err();
    assert!(!format!("{e} {e:?}").contains("hunter2"), "{e:?}");
    e
}

#[tokio::test]
async fn a_credential_becomes_a_token() {
    let server = Server::start(guarded()).await;
    let more = [CREDENTIAL, ("scope", "all of it"), ("audience", "you"), ("resource", "urn:x")];
    let catalog = connect(&server, &more).await;
    catalog.list_namespaces(None).await.unwrap();
    catalog.list_namespaces(None).await.unwrap();
    let requests = server.requests();
    assert!(requests[0].path.ends_with("/api/v1/oauth/tokens"), "{requests:?}");
    let form: BTreeMap<String, String> =
        url::form_urlencoded::parse(&requests[0].body).into_owned().collect();
    let expected = map(&[
        ("grant_type", "client_credentials"),
        ("client_id", "me"),
        ("client_secret", "hunter2"),
        ("scope", "all of it"),
        ("audience", "you"),
        ("resource", "urn:x"),
    ]);
    assert_eq!(form, expected);
    // One token for all.
    assert_eq!(requests.len(), 4);
    assert!(requests[1..].iter().all(|r| r.headers["authorization"] == "Bearer hunter2-token-0"));
    let e = refused(&server.uri, &[("credential", "me:hunter2-wrong")]).await;
    assert!(e.to_string().contains("invalid_client"), "{e}");
    assert_eq!(e.kind(), ErrorKind::Io);
}

#[tokio::test]
async fn a_token_is_renewed_when_it_expires() {
    let server = Server::start(Settings { expires_in: Some(0), ..guarded() }).await;
    let catalog = connect(&server, &[CREDENTIAL]).await;
    catalog.list_namespaces(None).await.unwrap();
    catalog.list_namespaces(None).await.unwrap();
    assert_eq!(server.issued.load(Ordering::SeqCst), 3);
    let without = connect(&server, &[CREDENTIAL, ("token-refresh-enabled", "false")]).await;
    without.list_namespaces(None).await.unwrap();
    assert_eq!(server.issued.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let (server, catalog) = with_table(guarded(), &[CREDENTIAL]).await;
    server.revoke();
    // Of many that notice at once, one gets the token.
    let all = (0..8).map(|_| catalog.list_namespaces(None));
    for listed in futures::future::join_all(all).await {
        listed.unwrap();
    }
    assert_eq!(server.issued.load(Ordering::SeqCst), 2);
    // A commit was not looked at: it is sent again.
    server.revoke();
    catalog.commit_table(change("t", "new")).await.unwrap();
    server.requests();
    server.wrong("GET", "/namespaces", Wrong::Refused(419, false));
    catalog.list_namespaces(None).await.unwrap();
    // But not for ever.
    server.requests();
    for _ in 0..3 {
        server.wrong("GET", "/namespaces", Wrong::Refused(401, false));
    }
    let e = catalog.list_namespaces(None).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.to_string().contains("not authenticated"), "{e}");
    assert_eq!(server.requests().iter().filter(|r| r.path.contains("namespaces")).count(), 2);
}

#[tokio::test]
async fn a_given_token_is_sent_and_exchanged_before_it_expires() {
    let server = Server::start(guarded()).await;
    server.tokens.lock().unwrap().push("hunter2-given".into());
    let catalog = connect(&server, &[("token", "hunter2-given")]).await;
    catalog.list_namespaces(None).await.unwrap();
    assert!(authorizations(&server).iter().all(|a| a.as_deref() == Some("Bearer hunter2-given")));
    server.revoke();
    let e = catalog.list_namespaces(None).await.unwrap_err();
    assert!(!format!("{e} {e:?}").contains("hunter2"), "{e:?}");
    assert_eq!(server.issued.load(Ordering::SeqCst), 0);

    server.tokens.lock().unwrap().push("hunter2-given".into());
    let long = connect(&server, &[("token", "hunter2-given"), ("token-expires-in-ms", "10000000")]).await;
    long.list_namespaces(None).await.unwrap();
    assert_eq!(server.issued.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn another_kind_of_token_is_exchanged() {
    let server = Server::start(guarded()).await;
    let jwt = "urn:ietf:params:oauth:token-type:jwt";
    let catalog = connect(&server, &[CREDENTIAL, (jwt, "hunter2-jwt")]).await;
    catalog.list_namespaces(None).await.unwrap();
    let requests = server.requests();
    let form: BTreeMap<String, String> =
        url::form_urlencoded::parse(&requests[1].body).into_owned().collect();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!((form["subject_token"].as_str(), form["subject_token_type"].as_str()), ("hunter2-jwt", jwt));
    assert_eq!(form["actor_token"], "hunter2-token-0");
    assert_eq!(requests[1].headers["authorization"], "Bearer hunter2-token-0");
    assert_eq!(requests.last().unwrap().headers["authorization"], "Bearer hunter2-token-1");
    server.exchanges.store(false, Ordering::SeqCst);
    refused(&server.uri, &[(jwt, "hunter2-jwt")]).await;
}

#[tokio::test]
async fn the_token_of_a_table_is_for_that_table() {
    let config = serde_json::json!({"token": "hunter2-of-table"});
    let (server, catalog) = with_table(Settings { config, ..guarded() }, &[CREDENTIAL]).await;
    server.tokens.lock().unwrap().push("hunter2-of-table".into());
    catalog.load_table(&ident("t")).await.unwrap();
    catalog.commit_table(change("t", "1")).await.unwrap();
    catalog.list_namespaces(None).await.unwrap();
    let sent: Vec<_> = authorizations(&server).into_iter().flatten().collect();
    assert_eq!(sent, ["Bearer hunter2-token-0", "Bearer hunter2-of-table", "Bearer hunter2-token-0"]);
}

#[tokio::test]
async fn headers_of_the_user_are_sent() {
    let server = Server::start(Settings::default()).await;
    let basic = [
        ("rest.auth.type", "basic"),
        ("rest.auth.basic.username", "me"),
        ("rest.auth.basic.password", "hunter2"),
        ("header.X-Team", "blue"),
    ];
    connect(&server, &basic).await;
    let request = server.requests().remove(0);
    assert_eq!(request.headers["authorization"], "Basic bWU6aHVudGVyMg==");
    assert_eq!(request.headers["x-team"], "blue");
    assert!(request.headers["user-agent"].starts_with("icefloe/"));
    // The user's own header wins over a token.
    connect(&server, &[("token", "t"), ("header.Authorization", "Own hunter2")]).await;
    assert_eq!(server.requests()[0].headers["authorization"], "Own hunter2");
    refused(&server.uri, &[("header.X", "hunter2\n")]).await;
    refused(&server.uri, &[("header.no such", "hunter2")]).await;
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn requests_are_signed() {
    let server = Server::start(Settings::default()).await;
    let keys = [
        ("rest.sigv4-enabled", "true"),
        ("rest.signing-region", "eu-west-1"),
        ("rest.signing-name", "glue"),
        ("rest.access-key-id", "AKID"),
        ("rest.secret-access-key", "hunter2"),
        ("rest.session-token", "hunter2-session"),
        ("token", "hunter2-token"),
    ];
    let catalog = connect(&server, &keys).await;
    catalog.create_namespace(&Namespace::new(["a b"]).unwrap(), BTreeMap::new()).await.unwrap();
    for request in server.requests() {
        let authorization = &request.headers["authorization"];
        assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKID/"), "{authorization}");
        assert!(authorization.contains("/eu-west-1/glue/aws4_request"), "{authorization}");
        assert!(authorization.contains("original-authorization"), "{authorization}");
        assert_eq!(request.headers["original-authorization"], "Bearer hunter2-token");
        assert_eq!(request.headers["x-amz-security-token"], "hunter2-session");
        assert_eq!(request.headers["x-amz-content-sha256"].len(), 64);
    }
    refused(
        &server.uri,
        &[("rest.sigv4-enabled", "true"), ("rest.signing-region", "r"), ("rest.access-key-id", "hunter2")],
    )
    .await;
    refused(
        &server.uri,
        &[
            keys[0],
            keys[1],
            ("rest.access-key-id", "x"),
            ("rest.secret-access-key", "y"),
            ("rest.session-token", "hunter2\n"),
        ],
    )
    .await;
}

#[tokio::test]
async fn secrets_are_never_shown() {
    let (server, catalog) = with_table(guarded(), &[CREDENTIAL, ("header.X-Key", "hunter2-key")]).await;
    let table = catalog.load_table(&ident("t")).await.unwrap();
    let shown = format!("{catalog:?} {catalog:#?} {table:?}");
    assert!(!shown.contains("hunter2") && shown.contains("credential"), "{shown}");
    // The server repeats what it was sent.
    server.revoke();
    *server.tokens.lock().unwrap() = vec!["nothing".into()];
    let e = refused(&server.uri, &[("token", "hunter2-bad")]).await;
    assert!(e.to_string().contains("who is Bearer ***?"), "{e}");
}

#[tokio::test]
async fn secrets_are_not_sent_without_tls() {
    for more in [
        &[("token", "hunter2")][..],
        &[("credential", "me:hunter2")],
        &[("header.Authorization", "hunter2")],
        &[("header.X-Api-Key", "hunter2")],
    ] {
        let e = refused("http://192.0.2.1:1", more).await;
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("rest.allow-http"), "{e}");
    }
    let elsewhere = [("credential", "me:hunter2"), ("oauth2-server-uri", "http://192.0.2.1/token")];
    assert_eq!(refused("https://192.0.2.1:1", &elsewhere).await.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn nothing_is_sent_to_where_a_server_redirects() {
    let other = Server::start(Settings::default()).await;
    let to = format!("{}/v1/config", other.uri);
    let app = axum::Router::new().fallback(move || {
        let to = to.clone();
        async move { ([("location", to)], axum::http::StatusCode::TEMPORARY_REDIRECT) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        axum::serve(listener, app.into_make_service()).await.unwrap();
    });
    let e = refused(&uri, &[("token", "hunter2")]).await;
    assert!(e.to_string().contains("redirects"), "{e}");
    assert_eq!(other.requests().len(), 0);
}
