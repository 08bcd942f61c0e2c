//! Scans that the server plans.

use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::{Value as Json, json};

use super::plans::{ENDPOINTS, Form, all_tasks, completed, planning, register, tasks_json};
use super::server::Wrong;
use super::*;
use crate::exec::tests::table::{FileColumn, TestTable, id_and_s, longs, query, strings};
use crate::provider::IcebergCatalogProvider;
use crate::spec::{FieldId, NestedField, PartitionField, PartitionSpec, SpecId, Transform, Value};
use crate::table::Table;
use crate::{EqualityDeleteMemory, Error, ErrorKind, IcebergTable};

fn rows(ids: std::ops::Range<i64>, s: &str) -> [FileColumn; 2] {
    let text = vec![Some(s); ids.clone().count()];
    [("id", Some(1), longs(ids)), ("s", Some(2), strings(&text))]
}

fn by_s() -> PartitionField {
    PartitionField {
        source_ids: vec![FieldId(2)],
        field_id: FieldId(1000),
        name: "s".into(),
        transform: Transform::Identity,
        extra: Default::default(),
    }
}

/// Two partitions, positions, and keys that were deleted before and after rows with the same keys.
fn table() -> TestTable {
    let mut table = TestTable::new(id_and_s());
    table.specs = vec![PartitionSpec { spec_id: SpecId(0), fields: vec![by_s()] }];
    let of = |s: &str| vec![Some(Value::String(s.into()))];
    let first = table.data_in(1, 0, of("a"), &rows(0..10, "a"));
    table.metrics(first, 1, 0, 0, 9);
    table.data_in(1, 0, of("b"), &rows(0..10, "b"));
    table.equality_in(2, 0, of("a"), &[1], &[("id", Some(1), longs([2, 3]))]);
    // The same keys again, of which the second delete leaves 2.
    table.data_in(2, 0, of("a"), &rows(2..4, "a"));
    table.equality_in(3, 0, of("a"), &[1], &[("id", Some(1), longs([3]))]);
    table.data_in(3, 0, of("a"), &rows(3..4, "a"));
    table.positions(3, &[(first, 0), (first, 9)]);
    table
}

const QUERIES: [&str; 6] = [
    "SELECT id, s FROM ice.db.t ORDER BY id, s",
    "SELECT id FROM ice.db.t WHERE s = 'a' ORDER BY id",
    "SELECT id FROM ice.db.t WHERE s = 'a' AND id < 3 ORDER BY id",
    "SELECT s FROM ice.db.t WHERE id IN (3, 9) OR s IS NULL ORDER BY s",
    "SELECT count(*) FROM ice.db.t WHERE s = 'b'",
    "SELECT count(*) FROM ice.db.t",
];

fn session(catalog: Arc<dyn Catalog>, config: SessionConfig) -> SessionContext {
    let context = SessionContext::new_with_config(config.with_target_partitions(3).with_batch_size(4));
    context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(catalog)));
    context
}

/// Ways that a server may give its tasks in.
#[derive(Debug, Clone, Copy)]
enum Way {
    AtOnce,
    Waiting,
    InParts,
}

/// Answers the requests of one scan with all of the table's files, in the way wanted.
fn give(server: &Server, all: &[Json], way: Way) {
    let (plan, poll, tasks) = (("POST", "/plan"), ("GET", "/plan/p%201"), ("POST", "/tasks"));
    let merged = |from: &[Json]| {
        // Each part has delete files of its own: references are put behind those of the others.
        let (mut files, mut deletes) = (Vec::new(), Vec::new());
        for part in from {
            let before = deletes.len() as u64;
            for task in part["file-scan-tasks"].as_array().unwrap() {
                let mut task = task.clone();
                for reference in task["delete-file-references"].as_array_mut().unwrap() {
                    *reference = (reference.as_u64().unwrap() + before).into();
                }
                files.push(task);
            }
            deletes.extend(part["delete-files"].as_array().unwrap().iter().cloned());
        }
        json!({"file-scan-tasks": files, "delete-files": deletes})
    };
    match way {
        Way::AtOnce => server.answer_with(plan.0, plan.1, completed(merged(all))),
        Way::Waiting => {
            server.answer_with(plan.0, plan.1, json!({"status": "submitted", "plan-id": "p 1"}));
            server.answer_with(poll.0, poll.1, json!({"status": "submitted"}));
            let mut done = completed(merged(all));
            done.as_object_mut().unwrap().remove("plan-id");
            server.answer_with(poll.0, poll.1, done);
        }
        Way::InParts => {
            let (first, rest) = all.split_first().unwrap();
            let mut reply = completed(first.clone());
            reply["plan-tasks"] = json!(["one", "two"]);
            server.answer_with(plan.0, plan.1, reply);
            let (left, right) = rest.split_at(1);
            let mut reply = merged(left);
            reply["plan-tasks"] = json!(["three"]);
            server.answer_with(tasks.0, tasks.1, reply);
            server.answer_with(tasks.0, tasks.1, json!({}));
            server.answer_with(tasks.0, tasks.1, merged(right));
        }
    }
}

/// Each file for itself, with the deletes that are its own.
async fn parts(table: &Table, form: Form) -> Vec<Json> {
    all_tasks(table).await.iter().map(|task| tasks_json(table, std::slice::from_ref(task), form)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_right_whoever_plans() {
    let written = table();
    let server = Server::start(planning()).await;
    let behind = register(&server, &written).await;
    let catalog: Arc<dyn Catalog> = Arc::new(connect(&server, &[]).await);
    let plain = session(server.catalog.clone(), SessionConfig::new());
    for form in [Form::Protocol, Form::Java] {
        let all = parts(&behind, form).await;
        for way in [Way::AtOnce, Way::Waiting, Way::InParts] {
            for joined in [false, true] {
                let mut config = SessionConfig::new();
                if joined {
                    config = config.with_extension(Arc::new(EqualityDeleteMemory(0)));
                }
                let context = session(Arc::clone(&catalog), config);
                for sql in QUERIES {
                    give(&server, &all, way);
                    let expected = query(&plain, sql).await.unwrap();
                    assert!(!expected.is_empty());
                    let found = query(&context, sql).await.unwrap();
                    assert_eq!(found, expected, "{sql} {form:?} {way:?} {joined}");
                }
            }
        }
    }
    // Nothing was cancelled that was fetched whole.
    let requests = server.requests();
    assert!(requests.iter().all(|r| r.method != "DELETE"), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_are_applied() {
    let mut written = TestTable::new(id_and_s());
    written.format_version = 3;
    let file = written.data(1, &rows(0..10, "a"));
    written.data(1, &rows(10..20, "b"));
    written.vector(2, file, &[0, 5]);
    let server = Server::start(planning()).await;
    let behind = register(&server, &written).await;
    let catalog: Arc<dyn Catalog> = Arc::new(connect(&server, &[]).await);
    give(&server, &parts(&behind, Form::Protocol).await, Way::AtOnce);
    let context = session(catalog, SessionConfig::new());
    let found = query(&context, "SELECT id FROM ice.db.t WHERE id < 7 ORDER BY id").await.unwrap();
    assert_eq!(found, ["1", "2", "3", "4", "6"]);
    // So they are through a storage of the plan's own, which nobody else has.
    let mut reply = completed(tasks_json(&behind, &all_tasks(&behind).await, Form::Protocol));
    reply["storage-credentials"] =
        json!([{"prefix": "s3://b", "config": {"s3.access-key-id": "x", "s3.secret-access-key": "hunter2"}}]);
    server.answer_with("POST", "/plan", reply.clone());
    let found = query(&context, "SELECT count(id), sum(id) FROM ice.db.t WHERE id <> 1").await.unwrap();
    assert_eq!(found, ["17 184"]);
    server.answer_with("POST", "/plan", reply);
    let e = failing(&server, &[]).await;
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("query the table") && !e.to_string().contains("hunter2"), "{e}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_told_what_is_wanted() {
    let server = Server::start(planning()).await;
    let written = table();
    register(&server, &written).await;
    let catalog: Arc<dyn Catalog> = Arc::new(connect(&server, &[]).await);
    let context = session(catalog, SessionConfig::new());
    server.answer_with("POST", "/plan", completed(json!({})));
    let sql = "SELECT s FROM ice.db.t WHERE id > 5 AND s <> upper(s)";
    assert!(query(&context, sql).await.unwrap().is_empty());
    let asked = server.comes("POST", "/tables/t/plan").await;
    assert_eq!(asked.headers["x-iceberg-access-delegation"], "vended-credentials");
    let mut body: Json = serde_json::from_slice(&asked.body).unwrap();
    body["select"].as_array_mut().unwrap().sort_by_key(Json::to_string);
    assert_eq!(
        body,
        json!({
            "snapshot-id": 1, "select": ["id", "s"], "case-sensitive": true, "use-snapshot-schema": false,
            "filter": {"type": "gt", "term": "id", "value": 5},
        })
    );
    // Sequence numbers are not told.
    let loaded = connect(&server, &[]).await.load_table(&ident("t")).await.unwrap();
    let with_columns = IcebergTable::try_new(loaded).unwrap().with_metadata_columns().unwrap();
    context.register_table("m", Arc::new(with_columns)).unwrap();
    let e = query(&context, "SELECT _last_updated_sequence_number FROM m").await.unwrap_err();
    assert!(e.to_string().contains("scan-planning-mode"), "{e}");
    // The files with their deletes can be had, too.
    server.answer_with("POST", "/plan", completed(json!({})));
    let loaded = connect(&server, &[]).await.load_table(&ident("t")).await.unwrap();
    assert!(IcebergTable::try_new(loaded).unwrap().data_files(&[]).await.unwrap().is_empty());
}

async fn failing(server: &Server, more: &[(&str, &str)]) -> Error {
    let table = connect(server, more).await.load_table(&ident("t")).await.unwrap();
    let failed = IcebergTable::try_new(table).unwrap().data_files(&[]).await;
    failed.unwrap_err()
}

#[tokio::test]
async fn plans_that_fail() {
    let server = Server::start(planning()).await;
    let written = table();
    register(&server, &written).await;
    let submitted = json!({"status": "submitted", "plan-id": "p 1"});
    let failed = json!({"status": "failed", "error": {"message": "too big", "type": "TooBig", "code": 406}});
    server.answer_with("POST", "/plan", failed.clone());
    let e = failing(&server, &[]).await;
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("too big") && e.to_string().contains("`db.t`"), "{e}");
    for (answer, part) in [(failed, "too big"), (json!({"status": "cancelled"}), "was cancelled")] {
        server.answer_with("POST", "/plan", submitted.clone());
        server.answer_with("GET", "/plan/p%201", answer);
        let e = failing(&server, &[]).await;
        assert!(e.to_string().contains(part), "{e}");
    }
    // What has ended is not cancelled.
    assert!(server.requests().iter().all(|r| r.method != "DELETE"));
    // The server does not come to an end.
    server.answer_with("POST", "/plan", submitted.clone());
    let e = failing(&server, &[("rest-scan-planning.poll-timeout-ms", "1")]).await;
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.to_string().contains("rest-scan-planning.poll-timeout-ms"), "{e}");
    assert!(server.comes("DELETE", "/plan/").await.path.ends_with("/tables/t/plan/p%201"));
    // Neither is a plan kept whose tasks can't be fetched.
    let mut with_tasks = completed(json!({}));
    with_tasks["plan-tasks"] = json!(["one"]);
    server.answer_with("POST", "/plan", with_tasks);
    server.wrong("POST", "/tasks", Wrong::Refused(404, false));
    assert_eq!(failing(&server, &[]).await.kind(), ErrorKind::NotFound);
    server.comes("DELETE", "/plan/p%201").await;
}

#[tokio::test]
async fn a_query_that_is_dropped_takes_its_plan_along() {
    let server = Server::start(planning()).await;
    let written = table();
    register(&server, &written).await;
    let table = connect(&server, &[]).await.load_table(&ident("t")).await.unwrap();
    server.answer_with("POST", "/plan", json!({"status": "submitted", "plan-id": "p 1"}));
    for _ in 0..100 {
        server.answer_with("GET", "/plan/", json!({"status": "submitted"}));
    }
    let query = tokio::spawn(async move { IcebergTable::try_new(table).unwrap().data_files(&[]).await });
    server.comes("GET", "/plan/p%201").await;
    query.abort();
    server.comes("DELETE", "/plan/p%201").await;
}

#[tokio::test]
async fn answers_that_are_wrong_are_errors() {
    let mut written = TestTable::new(id_and_s());
    written.format_version = 3;
    let file = written.data(1, &rows(0..10, "a"));
    written.data(1, &rows(10..20, "b"));
    written.vector(2, file, &[0, 5]);
    let server = Server::start(planning()).await;
    let behind = register(&server, &written).await;
    let good = completed(tasks_json(&behind, &all_tasks(&behind).await, Form::Protocol));
    let with_vector = good["file-scan-tasks"].as_array().unwrap().iter();
    let with_vector = with_vector.clone().position(|t| t["delete-file-references"] == json!([0])).unwrap();
    let task = |member: &str, value: Json| {
        let mut bad = good.clone();
        bad["file-scan-tasks"][with_vector][member] = value;
        bad
    };
    let data = |member: &str, value: Json| {
        let mut bad = good.clone();
        bad["file-scan-tasks"][with_vector]["data-file"][member] = value;
        bad
    };
    let with = |member: &str, value: Json| {
        let mut bad = good.clone();
        bad[member] = value;
        bad
    };
    let swapped = {
        let mut bad = good.clone();
        bad["file-scan-tasks"][with_vector]["delete-file-references"] = json!([]);
        bad["file-scan-tasks"][1 - with_vector]["delete-file-references"] = json!([0]);
        bad
    };
    let twice = {
        let mut bad = good.clone();
        let again = bad["file-scan-tasks"][0].clone();
        bad["file-scan-tasks"].as_array_mut().unwrap().push(again);
        bad
    };
    let two_vectors = {
        let mut bad = good.clone();
        let again = bad["delete-files"][0].clone();
        bad["delete-files"].as_array_mut().unwrap().push(again);
        bad["file-scan-tasks"][with_vector]["delete-file-references"] = json!([0, 1]);
        bad
    };
    for (bad, part) in [
        (json!({"status": "done"}), "status"),
        (json!([]), "status"),
        (json!({"status": "submitted"}), "plan-id"),
        (json!({"status": "cancelled"}), "cancelled"),
        (with("file-scan-tasks", json!({})), "file-scan-tasks"),
        (with("file-scan-tasks", json!([{}])), "data-file"),
        (with("plan-tasks", json!([1])), "plan-tasks"),
        (with("storage-credentials", json!([{}])), "storage-credentials"),
        (task("delete-file-references", json!([1])), "there is no delete file 1"),
        (task("delete-file-references", json!([-1])), "there is no delete file -1"),
        (task("data-file", good["delete-files"][0].clone()), "found a delete file"),
        (with("delete-files", json!([good["file-scan-tasks"][0]["data-file"]])), "found a data file"),
        (data("spec-id", json!(7)), "spec-id"),
        (data("partition", json!([1])), "partition"),
        (data("partition", json!({"1000": 1})), "partition"),
        (data("record-count", json!(-1)), "record-count"),
        (data("file-size-in-bytes", Json::Null), "file-size-in-bytes"),
        (data("file-format", json!("csv")), "file-format"),
        (data("content", json!("rows")), "content"),
        (data("value-counts", json!({"keys": [1], "values": []})), "value-counts"),
        (data("split-offsets", json!(["4"])), "split-offsets"),
        (data("key-metadata", json!("xyz")), "key-metadata"),
        (swapped, "is no vector of"),
        (two_vectors, "two deletion vectors"),
        (twice, "planned twice"),
    ] {
        server.answer_with("POST", "/plan", bad.clone());
        let e = failing(&server, &[]).await;
        assert!(e.to_string().contains(part), "{part}: {e}");
    }
    // Tasks that lead to each other.
    let mut endless = completed(json!({}));
    endless["plan-tasks"] = json!(["one"]);
    server.answer_with("POST", "/plan", endless);
    server.answer_with("POST", "/tasks", json!({"plan-tasks": ["one"]}));
    assert!(failing(&server, &[]).await.to_string().contains("no end"));
    // What it was changed from is taken.
    server.answer_with("POST", "/plan", good);
    let table = connect(&server, &[]).await.load_table(&ident("t")).await.unwrap();
    assert_eq!(IcebergTable::try_new(table).unwrap().data_files(&[]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn who_plans_is_agreed_on() {
    // The catalog says so, a table may say otherwise.
    for (config, property, by_server) in [
        (json!({}), ("scan-planning-mode", "server"), true),
        (json!({}), ("rest-scan-planning-enabled", "true"), true),
        (json!({"scan-planning-mode": "client"}), ("scan-planning-mode", "server"), false),
        (json!({"scan-planning-mode": "catalog"}), ("scan-planning-mode", "client"), true),
        (json!({}), ("x", "y"), false),
    ] {
        let settings = Settings { config: config.clone(), ..planning() };
        let (_server, catalog) = with_table(settings, &[property]).await;
        let table = catalog.load_table(&ident("t")).await.unwrap();
        assert_eq!(table.scan_service().is_some(), by_server, "{config} {property:?}");
        // A commit's reply does not say.
        let table = catalog.commit_table(change("t", "1")).await.unwrap();
        assert_eq!(table.scan_service().is_some(), by_server, "{config} {property:?}");
    }
    // It can't be agreed on.
    for lacks in [None, Some(Vec::new())] {
        let settings = Settings { also: Vec::new(), lacks, ..planning() };
        let (_server, catalog) = with_table(settings, &[]).await;
        let e = catalog.load_table(&ident("t")).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        for part in ["scan-planning-mode", ENDPOINTS[0], "`db.t`"] {
            assert!(e.to_string().contains(part), "{e}");
        }
    }
    let settings = Settings { config: json!({"scan-planning-mode": "both"}), ..planning() };
    let (_server, catalog) = with_table(settings, &[]).await;
    assert!(catalog.load_table(&ident("t")).await.unwrap_err().to_string().contains("`both`"));
    // Plans to wait for, and tasks to fetch, need endpoints of their own.
    for (lacks, answer) in [
        (ENDPOINTS[1], json!({"status": "submitted", "plan-id": "p"})),
        (ENDPOINTS[3], json!({"status": "completed", "plan-id": "p", "plan-tasks": ["one"]})),
    ] {
        let also = ENDPOINTS.iter().copied().filter(|e| *e != lacks).collect();
        let server = Server::start(Settings { also, ..planning() }).await;
        let written = table();
        register(&server, &written).await;
        server.answer_with("POST", "/plan", answer);
        assert!(failing(&server, &[]).await.to_string().contains(lacks));
    }
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn a_plan_brings_its_credentials() {
    use object_store::ObjectStoreExt;

    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let s3 = axum::Router::new().fallback(move |request: axum::extract::Request| {
        seen.lock().unwrap().push(request.headers()["authorization"].to_str().unwrap().to_owned());
        async { axum::http::StatusCode::NOT_FOUND }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, s3).await.unwrap() });

    let keys = |name: &str, expires_at: i64| {
        json!([{"prefix": "s3://b", "config": {"s3.access-key-id": name, "s3.secret-access-key": "hunter2",
            "s3.session-token-expires-at-ms": expires_at.to_string()}}])
    };
    let now = chrono::Utc::now().timestamp_millis();
    let settings = Settings {
        overrides: vec![("prefix", "wh/main"), ("s3.region", "r"), ("s3.path-style-access", "true")],
        credentials: keys("renewed", now + 3_600_000),
        ..planning()
    };
    let server = Server::start(settings).await;
    let written = table();
    register(&server, &written).await;
    let catalog = connect(&server, &[("s3.endpoint", &endpoint)]).await;
    let table = catalog.load_table(&ident("t")).await.unwrap();
    let metadata = table.metadata();
    let demand = crate::table::ScanDemand {
        snapshot_id: metadata.current_snapshot_id.unwrap(),
        use_snapshot_schema: false,
        select: Vec::new(),
        filter: None,
    };
    for (expires_at, expected) in [(now + 3_600_000, "planned"), (now - 1, "renewed")] {
        let mut reply = completed(json!({}));
        reply["storage-credentials"] = keys("planned", expires_at);
        server.answer_with("POST", "/plan", reply);
        let plan = table.scan_service().unwrap().plan_scan(&table, &demand).await.unwrap();
        let (_, store, path) = plan.storage.unwrap().store("s3://b/x").unwrap();
        store.get(&path).await.unwrap_err();
        let last = asked.lock().unwrap().last().unwrap().clone();
        assert!(last.contains(&format!("Credential={expected}/")), "{last}");
    }
    let path = server.comes("GET", "/credentials").await.path;
    assert!(path.ends_with("/tables/t/credentials?planId=p%201"), "{path}");
    // Without any, the table's open the files.
    server.answer_with("POST", "/plan", completed(json!({"storage-credentials": []})));
    assert!(table.scan_service().unwrap().plan_scan(&table, &demand).await.unwrap().storage.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_the_partition_are_read_from_the_plan() {
    // The file lacks the column: its value is the partition's.
    let mut written = TestTable::new(id_and_s());
    written.specs = vec![PartitionSpec { spec_id: SpecId(0), fields: vec![by_s()] }];
    written.data_in(1, 0, vec![Some(Value::String("a".into()))], &[("id", Some(1), longs(0..2))]);
    written.data_in(1, 0, vec![None], &[("id", Some(1), longs(2..3))]);
    let server = Server::start(planning()).await;
    let behind = register(&server, &written).await;
    let catalog: Arc<dyn Catalog> = Arc::new(connect(&server, &[]).await);
    let context = session(catalog, SessionConfig::new());
    for form in [Form::Protocol, Form::Java] {
        give(&server, &parts(&behind, form).await, Way::AtOnce);
        let found = query(&context, "SELECT id, s FROM ice.db.t ORDER BY id").await.unwrap();
        assert_eq!(found, ["0 a", "1 a", "2 null"], "{form:?}");
    }
}

#[tokio::test]
async fn an_older_snapshot_is_read_with_its_own_schema() {
    let mut written = TestTable::new(id_and_s());
    written.data(1, &rows(0..2, "a"));
    written.snapshot_schema = Some(0);
    written.evolve(vec![NestedField::optional(1, "renamed", PrimitiveType::Long)]);
    let server = Server::start(planning()).await;
    let behind = register(&server, &written).await;
    let table = connect(&server, &[]).await.load_table(&ident("t")).await.unwrap();
    let table = IcebergTable::try_new(table).unwrap();
    let context = SessionContext::new();
    context.register_table("now", Arc::new(table.clone())).unwrap();
    let then = table.at(&crate::spec::SnapshotSelector::Id(1.into())).unwrap();
    context.register_table("then", Arc::new(then)).unwrap();
    for (sql, own) in
        [("SELECT renamed FROM now WHERE renamed > 0", false), ("SELECT id FROM \"then\" WHERE id > 0", true)]
    {
        give(&server, &parts(&behind, Form::Protocol).await, Way::AtOnce);
        assert_eq!(query(&context, sql).await.unwrap(), ["1"]);
        let body: Json = serde_json::from_slice(&server.comes("POST", "/plan").await.body).unwrap();
        assert_eq!(body["use-snapshot-schema"], own);
        assert_eq!(body["filter"]["term"], if own { "id" } else { "renamed" });
    }
}
