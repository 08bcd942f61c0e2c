//! The catalog against a server of Iceberg for Java's own handlers: see `Server.java`, beside this
//! file. All tests share one, which stops when they do.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use datafusion::prelude::SessionContext;

use super::*;
use crate::ErrorKind;
use crate::catalog::writers_tests::{Checked, append_row};
use crate::exec::tests::table::query;
use crate::provider::IcebergCatalogProvider;

/// Java does not remove metadata files of commits that failed, and namespaces need no parents.
const CAN: Can = Can { slashes: false, need_parents: false, clean_up: false, ..Can::EVERYTHING };

/// A catalog's properties: of the one without secrets, unless `more` says otherwise. `None`: there
/// is no Java.
pub(crate) fn properties(more: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    static SERVER: OnceLock<(String, Child)> = OnceLock::new();
    let classes = crate::interchange::engine("ICEFLOE_TEST_JAVA")?;
    let (uri, _) = SERVER.get_or_init(|| start(&classes));
    let mut properties = map(more);
    properties.insert("uri".into(), uri.clone());
    Some(properties)
}

/// The server, which stops when this process does: that is the end of its standard input.
fn start(classes: &str) -> (String, Child) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/catalog/rest/tests/Server.java");
    let mut server = Command::new("java")
        // It starts sooner so.
        .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args(["-Dlog4j2.level=OFF", "-Dsun.net.httpserver.nodelay=true"])
        .arg(format!("-Djava.io.tmpdir={}", std::env::temp_dir().display()))
        .args(["-cp", classes])
        .arg(program)
        // The names of files are of this encoding.
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let port: u16 = port.trim().parse().expect("the server did not start");
    (format!("http://127.0.0.1:{port}"), server)
}

async fn connect_to(more: &[(&str, &str)]) -> Option<RestCatalog> {
    Some(RestCatalog::connect("java", properties(more)?).await.unwrap())
}

async fn sixteen_writers(more: &[(&str, &str)]) {
    let Some(catalog) = connect_to(more).await else { return };
    crate::catalog::writers_tests::sixteen_writers(Arc::new(catalog), Checked::AllButMetadata).await;
}

mod plain {
    use super::*;

    async fn subject() -> Option<Subject> {
        Some(Subject::new(Arc::new(connect_to(&[]).await?), CAN))
    }

    crate::catalog::suite::cases!(subject);

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn sixteen_writers() {
        super::sixteen_writers(&[]).await;
    }
}

/// With tokens that are exchanged every few seconds, a token for each table, another separator, keys
/// of idempotency, and pages.
mod demanding {
    use super::*;

    const PROPERTIES: &[(&str, &str)] = &[
        ("warehouse", "guarded"),
        ("credential", "brief:hunter2"),
        ("token-exchange-enabled", "true"),
        ("rest-page-size", "7"),
    ];

    async fn subject() -> Option<Subject> {
        Some(Subject::new(Arc::new(connect_to(PROPERTIES).await?), CAN))
    }

    crate::catalog::suite::cases!(subject);

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn sixteen_writers() {
        super::sixteen_writers(PROPERTIES).await;
    }
}

/// A catalog that wants tokens, or does not.
const OPEN: &[(&str, &str)] = &[];
const GUARDED: &[(&str, &str)] = &[("warehouse", "guarded"), ("credential", "me:hunter2")];

/// A new table of one column, in a new namespace.
async fn new_table(catalog: &RestCatalog) -> TableIdent {
    let namespace = namespace(&format!("ns_{}", uuid::Uuid::new_v4().simple()));
    catalog.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
    let table = TableIdent::new(namespace, "t").unwrap();
    catalog.create_table(&table, creation()).await.unwrap();
    table
}

#[tokio::test]
async fn what_is_known_is_not_sent_again() {
    for properties in [OPEN, GUARDED] {
        let Some(catalog) = connect_to(properties).await else { return };
        let table = new_table(&catalog).await;
        let change = |value: &str| TableCommit { table: table.clone(), ..change("t", value) };
        let known = catalog.commit_table(change("1")).await.unwrap();
        let again = catalog.load_table(&table).await.unwrap();
        // The same in memory: nothing came.
        assert!(std::ptr::eq(known.metadata(), again.metadata()));
        let other = connect_to(properties).await.unwrap();
        other.commit_table(change("2")).await.unwrap();
        let changed = catalog.load_table(&table).await.unwrap();
        assert_eq!(changed.metadata().properties["value"], "2");
        other.drop_table(&table, true).await.unwrap();
        assert_eq!(catalog.load_table(&table).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn snapshots_come_when_they_are_needed() {
    for properties in [OPEN, GUARDED] {
        let Some(catalog) = connect_to(properties).await else { return };
        let table = new_table(&catalog).await;
        let catalog: Arc<dyn Catalog> = Arc::new(catalog);
        for id in 0..3 {
            append_row(&catalog, &table, id).await;
        }
        let all = catalog.load_table(&table).await.unwrap();
        let refs = connect_to(&[properties, &[("snapshot-loading-mode", "refs")]].concat()).await.unwrap();
        let some = refs.load_table(&table).await.unwrap();
        assert_eq!((all.metadata().snapshots.len(), some.metadata().snapshots.len()), (3, 1));
        let known = refs.load_table(&table).await.unwrap();
        assert!(std::ptr::eq(known.metadata(), some.metadata()));
        let context = SessionContext::new();
        let shared: Arc<dyn Catalog> = Arc::new(refs);
        context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::clone(&shared))));
        let count = async |name: &str| {
            let sql = format!("SELECT count(*) FROM ice.{}.{name}", table.namespace());
            query(&context, &sql).await.unwrap()
        };
        assert_eq!(count("t").await, ["3"]);
        assert_eq!(count("t$snapshots").await, ["3"]);
        append_row(&shared, &table, 3).await;
        assert_eq!(count("t").await, ["4"]);
        assert_eq!(count("t$snapshots").await, ["4"]);
    }
}

#[tokio::test]
async fn tokens_are_renewed_and_exchanged() {
    let Some(properties) = properties(&[]) else { return };
    let brief = [("warehouse", "guarded"), ("credential", "brief:hunter2")];
    let brief = connect_to(&[&brief[..], &[("token-refresh-enabled", "false")]].concat()).await.unwrap();
    let form = "grant_type=client_credentials&client_id=me&client_secret=hunter2";
    let request = reqwest::Client::new().post(format!("{}/v1/oauth/tokens", properties["uri"])).body(form);
    let reply: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    let token = reply["access_token"].as_str().unwrap();
    let given = [("warehouse", "guarded"), ("token", token), ("token-expires-in-ms", "1000")];
    let left_alone = connect_to(&given[..2]).await.unwrap();
    left_alone.list_namespaces(None).await.unwrap();
    let exchanging = connect_to(&given).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(950)).await;
    exchanging.list_namespaces(None).await.unwrap();
    // Which was the end of the one that was given.
    let e = left_alone.list_namespaces(None).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.to_string().contains("status 401") && !e.to_string().contains(token), "{e}");
    exchanging.list_namespaces(None).await.unwrap();

    tokio::time::sleep(std::time::Duration::from_millis(3200)).await;
    // The server says that it is over, and another one is got.
    brief.list_namespaces(None).await.unwrap();
}

#[tokio::test]
async fn who_is_not_known_is_refused() {
    for (more, kind) in [
        (&[("warehouse", "guarded")][..], ErrorKind::Io),
        (&[("warehouse", "guarded"), ("token", "hunter2")], ErrorKind::Io),
        (&[("warehouse", "guarded"), ("credential", "me:hunter3")], ErrorKind::Io),
        (&[("warehouse", "nowhere")], ErrorKind::NotFound),
    ] {
        let Some(properties) = properties(more) else { return };
        let e = RestCatalog::connect("java", properties).await.unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(!e.to_string().contains("hunter"), "{e}");
    }
}

/// Java reads what is reported, and writes what it read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_are_understood() {
    let Some(catalog) = connect_to(OPEN).await else { return };
    let table = new_table(&catalog).await;
    let shared: Arc<dyn Catalog> = Arc::new(catalog.clone());
    append_row(&shared, &table, 7).await;
    let context = SessionContext::new();
    context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(shared)));
    let sql = format!("SELECT id FROM ice.{} WHERE id > 5", table);
    assert_eq!(query(&context, &sql).await.unwrap(), ["7"]);
    let name = format!("java.{table}");
    let uri = properties(&[]).unwrap()["uri"].clone();
    let mut seen = Vec::new();
    for _ in 0..100 {
        let reply = reqwest::get(format!("{uri}/reports")).await.unwrap();
        let all: Vec<serde_json::Value> = reply.json().await.unwrap();
        seen = all.into_iter().filter(|report| report["table-name"] == name.as_str()).collect();
        if seen.len() == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    seen.sort_by_key(|report| report["report-type"].as_str().unwrap().to_owned());
    let [commit, scan] = &seen[..] else { panic!("{seen:?}") };
    let snapshot = catalog.load_table(&table).await.unwrap().metadata().current_snapshot_id.unwrap().0;
    for report in [commit, scan] {
        assert_eq!(report["snapshot-id"], snapshot);
    }
    assert_eq!((&commit["operation"], &commit["sequence-number"]), (&"append".into(), &1.into()));
    assert_eq!(commit["metrics"]["added-data-files"]["value"], 1);
    assert_eq!(commit["metrics"]["total-duration"]["count"], 1);
    assert_eq!(scan["projected-field-names"], serde_json::json!(["id"]));
    // Without the value, which is nobody's business.
    assert_eq!(scan["filter"], serde_json::json!({"type": "gt", "term": "id", "value": "(long)"}));
    assert_eq!(scan["metrics"]["result-data-files"]["value"], 1);
    assert!(scan["metrics"]["total-planning-duration"]["total-duration"].as_i64().unwrap() > 0);
}
