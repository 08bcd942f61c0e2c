//! A server of the protocol over a catalog in memory, which does wrong what it is told to.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value as Json, json};

use crate::catalog::{
    Catalog, MemoryCatalog, Namespace, TableCommit, TableCreation, TableIdent, View, ViewCreation,
};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{PartitionSpec, Schema, SortOrder, TableRequirement, TableUpdate, ViewRepresentation};
use crate::table::{OpenOptions, Table};

/// What goes wrong with the next request that fits.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// The method, and a part of the path.
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) what: Wrong,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Wrong {
    /// This status in place of doing anything, with `Retry-After: 0` or without.
    Refused(u16, bool),
    /// It is done, and answered with this status.
    DoneBut(u16, bool),
    /// It is done, and the connection breaks.
    LostReply,
    /// It is done, and the answer is garbage.
    Garbage,
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// With the query, as it was sent.
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Bytes,
}

pub(crate) struct Server {
    pub(crate) uri: String,
    pub(crate) catalog: Arc<MemoryCatalog>,
    _warehouse: Option<tempfile::TempDir>,
    settings: Settings,
    pub(crate) faults: Mutex<VecDeque<Fault>>,
    /// What goes wrong with the request of that number among those in `seen`.
    pub(crate) nth: Mutex<Option<(usize, Wrong)>>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    replies: Mutex<HashMap<String, (u16, Bytes)>>,
    /// Tokens that are accepted.
    pub(crate) tokens: Mutex<Vec<String>>,
    pub(crate) issued: AtomicU32,
    /// Whether tokens are exchanged.
    pub(crate) exchanges: AtomicBool,
    /// What requests of a method are answered with whose path has a part, each once.
    canned: Mutex<Vec<(&'static str, &'static str, Json)>>,
    came: tokio::sync::Notify,
}

/// How a server is set up.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) overrides: Vec<(&'static str, &'static str)>,
    /// Endpoints that are not offered; `None`: nothing is said about endpoints.
    pub(crate) lacks: Option<Vec<&'static str>>,
    /// Endpoints that are offered besides.
    pub(crate) also: Vec<&'static str>,
    pub(crate) idempotent: bool,
    /// `client:secret`, which must be exchanged for tokens.
    pub(crate) credential: Option<&'static str>,
    pub(crate) expires_in: Option<u64>,
    pub(crate) page_size: usize,
    pub(crate) separator: &'static str,
    pub(crate) etags: bool,
    /// Of tables that are loaded.
    pub(crate) config: Json,
    pub(crate) credentials: Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            overrides: vec![("prefix", "wh/main")],
            lacks: Some(Vec::new()),
            also: Vec::new(),
            idempotent: false,
            credential: None,
            expires_in: None,
            page_size: 2,
            separator: "\u{1f}",
            etags: true,
            config: json!({}),
            credentials: json!([]),
        }
    }
}

/// Everything of the protocol that is served here.
const ENDPOINTS: &[&str] = &[
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/views/rename",
];

impl Server {
    pub(crate) async fn start(settings: Settings) -> Arc<Self> {
        let warehouse = tempfile::tempdir().unwrap();
        let location = format!("file:{}", warehouse.path().display());
        let catalog = MemoryCatalog::with_warehouse("behind", &location, OpenOptions::new()).unwrap();
        Self::serve(settings, catalog, Some(warehouse)).await
    }

    /// Serves a catalog.
    pub(crate) async fn serve(
        settings: Settings,
        catalog: MemoryCatalog,
        warehouse: Option<tempfile::TempDir>,
    ) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/api", listener.local_addr().unwrap());
        Self::listen(listener, uri, settings, catalog, warehouse)
    }

    /// Answers what comes in by `listener`, which is known as `uri`.
    pub(super) fn listen<L>(
        listener: L,
        uri: String,
        settings: Settings,
        catalog: MemoryCatalog,
        warehouse: Option<tempfile::TempDir>,
    ) -> Arc<Self>
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let server = Arc::new(Self {
            uri,
            catalog: Arc::new(catalog),
            _warehouse: warehouse,
            settings,
            faults: Mutex::default(),
            nth: Mutex::default(),
            seen: Mutex::default(),
            replies: Mutex::default(),
            tokens: Mutex::default(),
            issued: AtomicU32::new(0),
            exchanges: AtomicBool::new(true),
            canned: Mutex::default(),
            came: tokio::sync::Notify::new(),
        });
        let app = axum::Router::new().fallback(handle).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        server
    }

    pub(crate) fn wrong(&self, method: &'static str, path: &'static str, what: Wrong) {
        self.faults.lock().unwrap().push_back(Fault { method, path, what });
    }

    /// The requests that came in since the last call.
    pub(crate) fn requests(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Answers the next request of that kind so.
    pub(crate) fn answer_with(&self, method: &'static str, path: &'static str, answer: Json) {
        self.canned.lock().unwrap().push((method, path, answer));
    }

    fn canned(&self, seen: &Seen) -> Option<Json> {
        let mut canned = self.canned.lock().unwrap();
        let at = canned.iter().position(|(m, p, _)| *m == seen.method && seen.path.contains(p))?;
        Some(canned.remove(at).2)
    }

    /// Waits for a request of that kind, and takes it out of those that were seen.
    pub(crate) async fn comes(&self, method: &str, path: &str) -> Seen {
        loop {
            let next = self.came.notified();
            let mut next = std::pin::pin!(next);
            next.as_mut().enable();
            {
                let mut seen = self.seen.lock().unwrap();
                if let Some(at) = seen.iter().position(|s| s.method == method && s.path.contains(path)) {
                    return seen.remove(at);
                }
            }
            next.await;
        }
    }

    /// No token that was issued is accepted any more.
    pub(crate) fn revoke(&self) {
        self.tokens.lock().unwrap().clear();
    }

    fn fault(&self, number: usize, method: &str, path: &str) -> Option<Wrong> {
        if let Some((nth, wrong)) = *self.nth.lock().unwrap()
            && nth == number
        {
            return Some(wrong);
        }
        let mut faults = self.faults.lock().unwrap();
        let at = faults.iter().position(|f| f.method == method && path.contains(f.path))?;
        faults.remove(at).map(|f| f.what)
    }

    fn is_authentic(&self, headers: &HashMap<String, String>) -> bool {
        let token = headers.get("authorization").and_then(|h| h.strip_prefix("Bearer "));
        let known = self.tokens.lock().unwrap();
        self.settings.credential.is_none() || token.is_some_and(|token| known.iter().any(|k| k == token))
    }

    fn token(&self, form: &Bytes) -> (u16, Json) {
        let form: HashMap<String, String> = url::form_urlencoded::parse(form).into_owned().collect();
        let get = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let granted = match get("grant_type") {
            "client_credentials" => {
                Some(format!("{}:{}", get("client_id"), get("client_secret")).as_str())
                    == self.settings.credential
            }
            _ => self.exchanges.load(Ordering::SeqCst) && !get("subject_token").is_empty(),
        };
        if !granted {
            // Careless servers say too much.
            let description = format!("not {} {}", get("client_secret"), get("subject_token"));
            return (401, json!({"error": "invalid_client", "error_description": description}));
        }
        let token = format!("hunter2-token-{}", self.issued.fetch_add(1, Ordering::SeqCst));
        self.tokens.lock().unwrap().push(token.clone());
        let mut reply = json!({"access_token": token, "token_type": "bearer"});
        if let Some(seconds) = self.settings.expires_in {
            reply["expires_in"] = seconds.into();
        }
        (200, reply)
    }

    async fn answer(&self, seen: &Seen) -> Result<(u16, Json, Option<String>)> {
        let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
        let query: HashMap<String, String> =
            url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let body: Json = serde_json::from_slice(&seen.body).unwrap_or_default();
        let Some(path) = path.strip_prefix("/api/v1/") else { return Err(no_route()) };
        if path == "config" {
            // What it overrides goes before its defaults.
            let mut config = json!({"defaults": {"prefix": "no/such"}, "overrides": {}});
            for (name, value) in &self.settings.overrides {
                config["overrides"][name] = (*value).into();
            }
            if let Some(lacks) = &self.settings.lacks {
                let offered: Vec<_> =
                    ENDPOINTS.iter().filter(|e| !lacks.contains(e)).chain(&self.settings.also).collect();
                config["endpoints"] = json!(offered);
            }
            if self.settings.idempotent {
                config["idempotency-key-lifetime"] = "PT30M".into();
            }
            return Ok((200, config, None));
        }
        let Some(path) = path.strip_prefix("wh/main/") else { return Err(no_route()) };
        let decoded: Vec<String> = path
            .split('/')
            .map(|s| percent_encoding::percent_decode_str(s).decode_utf8().unwrap().into_owned())
            .collect();
        let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let namespace = |text: &str| Namespace::new(text.split(self.settings.separator));
        let ident = |ns: &str, name: &str| TableIdent::new(namespace(ns)?, name);
        let catalog = self.catalog.as_ref();
        let done = |()| (204, Json::Null, None);
        match (seen.method.as_str(), segments.as_slice()) {
            ("GET", ["namespaces"]) => {
                let parent = query.get("parent").map(|p| namespace(p)).transpose()?;
                let listed = catalog.list_namespaces(parent.as_ref()).await?;
                let all = listed.iter().map(|n| json!(n.levels())).collect();
                Ok((200, self.page("namespaces", all, &query), None))
            }
            ("POST", ["namespaces"]) => {
                let levels: Vec<String> = serde_json::from_value(body["namespace"].clone()).unwrap();
                catalog.create_namespace(&Namespace::new(levels)?, strings(&body["properties"])).await?;
                Ok((200, body, None))
            }
            ("GET", ["namespaces", ns]) => {
                let properties = catalog.load_namespace(&namespace(ns)?).await?;
                Ok((200, json!({"namespace": [], "properties": properties}), None))
            }
            ("HEAD", ["namespaces", ns]) => match catalog.namespace_exists(&namespace(ns)?).await? {
                true => Ok(done(())),
                false => Err(Error::not_found("no such namespace")),
            },
            ("DELETE", ["namespaces", ns]) => catalog.drop_namespace(&namespace(ns)?).await.map(done),
            ("POST", ["namespaces", ns, "properties"]) => {
                let remove: Vec<String> = serde_json::from_value(body["removals"].clone()).unwrap();
                catalog.update_namespace(&namespace(ns)?, strings(&body["updates"]), remove).await?;
                Ok((200, json!({"updated": [], "removed": []}), None))
            }
            ("GET", ["namespaces", ns, kind @ ("tables" | "views")]) => {
                let listed = match *kind {
                    "tables" => catalog.list_tables(&namespace(ns)?).await?,
                    _ => catalog.list_views(&namespace(ns)?).await?,
                };
                let all =
                    listed.iter().map(|i| json!({"namespace": i.namespace().levels(), "name": i.name()}));
                Ok((200, self.page("identifiers", all.collect(), &query), None))
            }
            ("POST", ["namespaces", ns, "tables"]) => {
                let table = ident(ns, body["name"].as_str().unwrap())?;
                let creation = creation(&body)?;
                let made = match body["stage-create"] == true {
                    true => catalog.stage_table(&table, creation).await?,
                    false => catalog.create_table(&table, creation).await?,
                };
                Ok(self.table(&made, body["stage-create"] == true))
            }
            ("POST", ["namespaces", ns, "register"]) => {
                let table = ident(ns, body["name"].as_str().unwrap())?;
                let location = body["metadata-location"].as_str().unwrap();
                Ok(self.table(&catalog.register_table(&table, location).await?, false))
            }
            ("GET", ["namespaces", ns, "tables", name]) => {
                let loaded = catalog.load_table(&ident(ns, name)?).await?;
                let (status, mut reply, etag) = self.table(&loaded, false);
                if query.get("snapshots").is_some_and(|s| s == "refs") {
                    let refs = &loaded.metadata().refs;
                    let named = |s: &Json| refs.values().any(|r| s["snapshot-id"] == r.snapshot_id.0);
                    reply["metadata"]["snapshots"].as_array_mut().unwrap().retain(named);
                }
                match etag.is_some() && seen.headers.get("if-none-match") == etag.as_ref() {
                    true => Ok((304, Json::Null, etag)),
                    false => Ok((status, reply, etag)),
                }
            }
            ("HEAD", ["namespaces", ns, "tables", name]) => {
                match catalog.table_exists(&ident(ns, name)?).await? {
                    true => Ok(done(())),
                    false => Err(Error::not_found("no such table")),
                }
            }
            ("GET", ["namespaces", _, "tables", _, "credentials"]) => {
                Ok((200, json!({"storage-credentials": self.settings.credentials}), None))
            }
            ("POST", ["namespaces", _, "tables", _, "sign"]) => {
                let mut headers = body["headers"].clone();
                let text = |name: &str| body[name].as_str().unwrap().to_owned();
                headers["Authorization"] = json!([format!("signed {} {}", text("method"), text("region"))]);
                Ok((200, json!({"uri": body["uri"], "headers": headers}), None))
            }
            ("POST", ["namespaces", _, "tables", _, "metrics"]) => Ok(done(())),
            ("DELETE", ["namespaces", _, "tables", _, "plan", _]) => Ok(done(())),
            ("POST", ["namespaces", ns, "tables", name]) => {
                let committed = catalog.commit_table(commit(ident(ns, name)?, &body)?).await?;
                let (status, mut reply, etag) = self.table(&committed, false);
                reply.as_object_mut().unwrap().retain(|name, _| name.starts_with("metadata"));
                Ok((status, reply, etag))
            }
            ("DELETE", ["namespaces", ns, "tables", name]) => {
                let purge = query.get("purgeRequested").is_some_and(|p| p == "true");
                catalog.drop_table(&ident(ns, name)?, purge).await.map(done)
            }
            ("POST", [kind @ ("tables" | "views"), "rename"]) => {
                let [from, to] = ["source", "destination"].map(|part| ident_of(&body[part]));
                match *kind {
                    "tables" => catalog.rename_table(&from?, &to?).await.map(done),
                    _ => catalog.rename_view(&from?, &to?).await.map(done),
                }
            }
            ("POST", ["transactions", "commit"]) => {
                let changes = body["table-changes"].as_array().unwrap().iter();
                let commits = changes.map(|change| commit(ident_of(&change["identifier"])?, change));
                catalog.commit_tables(commits.collect::<Result<_>>()?).await.map(done)
            }
            ("GET", ["namespaces", ns, "views", name]) => {
                Ok(view(&catalog.load_view(&ident(ns, name)?).await?))
            }
            ("POST", ["namespaces", ns, "views"]) => {
                let name = ident(ns, body["name"].as_str().unwrap())?;
                let schema = Schema::from_json(&body["schema"])?;
                let mut creation = view_creation(schema, &body["view-version"]);
                creation.location = body["location"].as_str().map(str::to_owned);
                creation.properties = strings(&body["properties"]);
                Ok(view(&catalog.create_view(&name, creation).await?))
            }
            ("POST", ["namespaces", ns, "views", name]) => {
                let name = ident(ns, name)?;
                let now = catalog.load_view(&name).await?.metadata;
                if body["requirements"][0]["uuid"] != now.view_uuid.to_string() {
                    return Err(Error::new(ErrorKind::CommitConflict, "another view"));
                }
                let updates = body["updates"].as_array().unwrap();
                let of = |action: &str| updates.iter().find(|u| u["action"] == action).unwrap_or(&Json::Null);
                let version = &of("add-view-version")["view-version"];
                assert_eq!(of("set-current-view-version")["view-version-id"], -1);
                let schema = match version["schema-id"].as_i64().unwrap() {
                    -1 => Schema::from_json(&of("add-schema")["schema"])?,
                    id => now.schemas[&crate::spec::SchemaId(id as i32)].as_ref().clone(),
                };
                let mut creation = view_creation(schema, version);
                creation.location = of("set-location")["location"].as_str().map(str::to_owned);
                creation.properties = strings(&of("set-properties")["updates"]);
                Ok(view(&catalog.replace_view(&name, creation).await?))
            }
            ("DELETE", ["namespaces", ns, "views", name]) => {
                catalog.drop_view(&ident(ns, name)?).await.map(done)
            }
            _ => Err(no_route()),
        }
    }

    fn page(&self, member: &str, all: Vec<Json>, query: &HashMap<String, String>) -> Json {
        let Some(token) = query.get("pageToken") else { return json!({member: all}) };
        let size = query.get("pageSize").map_or(self.settings.page_size, |s| s.parse().unwrap());
        let from: usize = token.strip_prefix("page ").unwrap_or("0").parse().unwrap();
        let mut page = json!({member: all.iter().skip(from).take(size).collect::<Vec<_>>()});
        if all.len() > from + size {
            page["next-page-token"] = format!("page {}", from + size).into();
        }
        page
    }

    fn table(&self, table: &Table, staged: bool) -> (u16, Json, Option<String>) {
        let location = table.metadata_location().to_string();
        let mut reply = json!({
            "metadata": table.metadata().to_json_value().unwrap(),
            "config": self.settings.config,
            "storage-credentials": self.settings.credentials,
        });
        if !staged {
            reply["metadata-location"] = location.as_str().into();
        }
        (
            200,
            reply,
            (self.settings.etags && !staged)
                .then(|| format!("W/\"{:x}\"", crc32fast::hash(location.as_bytes()))),
        )
    }
}

fn view(view: &View) -> (u16, Json, Option<String>) {
    let reply = json!({
        "metadata-location": view.metadata_location,
        "metadata": view.metadata.to_json_value().unwrap(),
    });
    (200, reply, None)
}

fn view_creation(schema: Schema, version: &Json) -> ViewCreation {
    let text = |json: &Json| json.as_str().unwrap().to_owned();
    let representations = version["representations"].as_array().unwrap().iter().map(|r| {
        assert_eq!(r["type"], "sql");
        ViewRepresentation { sql: text(&r["sql"]), dialect: text(&r["dialect"]) }
    });
    ViewCreation {
        schema,
        representations: representations.collect(),
        default_catalog: version["default-catalog"].as_str().map(str::to_owned),
        default_namespace: serde_json::from_value(version["default-namespace"].clone()).unwrap(),
        location: None,
        properties: BTreeMap::new(),
    }
}

fn no_route() -> Error {
    Error::unsupported("no such route")
}

fn strings(json: &Json) -> BTreeMap<String, String> {
    serde_json::from_value(json.clone()).unwrap_or_default()
}

fn ident_of(json: &Json) -> Result<TableIdent> {
    let levels: Vec<String> = serde_json::from_value(json["namespace"].clone()).unwrap();
    TableIdent::new(Namespace::new(levels)?, json["name"].as_str().unwrap())
}

fn creation(body: &Json) -> Result<TableCreation> {
    let member = |name: &str| body.get(name);
    Ok(TableCreation {
        schema: Schema::from_json(&body["schema"])?,
        partition_spec: member("partition-spec").map(PartitionSpec::from_json).transpose()?,
        sort_order: member("write-order").map(SortOrder::from_json).transpose()?,
        location: body["location"].as_str().map(str::to_owned),
        properties: strings(&body["properties"]),
    })
}

fn commit(table: TableIdent, body: &Json) -> Result<TableCommit> {
    assert_eq!(ident_of(&body["identifier"])?, table);
    let list = |name: &str| body[name].as_array().unwrap().clone();
    Ok(TableCommit {
        table,
        requirements: list("requirements").iter().map(TableRequirement::from_json).collect::<Result<_>>()?,
        updates: list("updates").iter().map(TableUpdate::from_json).collect::<Result<_>>()?,
    })
}

async fn handle(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let headers: HashMap<String, String> = parts
        .headers
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_str().unwrap_or_default().to_owned()))
        .collect();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let seen = Seen { method: parts.method.to_string(), path, headers, body };
    let number = {
        let mut all = server.seen.lock().unwrap();
        all.push(seen.clone());
        all.len() - 1
    };
    server.came.notify_waiters();
    let wrong = server.fault(number, &seen.method, &seen.path);
    if let Some(Wrong::Refused(status, wait)) = wrong {
        return reply(status, &refusal(status), None, wait);
    }
    let (status, body, etag) = respond(&server, &seen).await;
    match wrong {
        None | Some(Wrong::Refused(..)) => reply(status, &body, etag, false),
        Some(Wrong::DoneBut(status, wait)) => reply(status, &refusal(status), None, wait),
        Some(Wrong::Garbage) => reply(status, b"{\"metadata\": 1", None, false),
        Some(Wrong::LostReply) => {
            let broken = futures::stream::iter([Ok(Bytes::from("{")), Err("broken")]);
            // A reply without a body can't break off.
            let status = if status == 204 { 200 } else { status };
            Response::builder().status(status).body(Body::from_stream(broken)).unwrap()
        }
    }
}

async fn respond(server: &Server, seen: &Seen) -> (u16, Bytes, Option<String>) {
    if seen.path.ends_with("/v1/oauth/tokens") {
        let (status, body) = server.token(&seen.body);
        return (status, body.to_string().into(), None);
    }
    if !server.is_authentic(&seen.headers) {
        let told = seen.headers.get("authorization").cloned().unwrap_or_default();
        return (401, error(401, "NotAuthorizedException", &format!("who is {told}?")), None);
    }
    let key = seen.headers.get("idempotency-key").filter(|_| server.settings.idempotent);
    if let Some((status, body)) = key.and_then(|key| server.replies.lock().unwrap().get(key).cloned()) {
        return (status, body, None);
    }
    if let Some(canned) = server.canned(seen) {
        return (200, canned.to_string().into(), None);
    }
    let (status, body, etag) = match server.answer(seen).await {
        Ok((status, Json::Null, etag)) => (status, Bytes::new(), etag),
        Ok((status, json, etag)) => (status, json.to_string().into(), etag),
        Err(e) => {
            let (status, name) = match e.kind() {
                ErrorKind::NotFound => (404, "NoSuchTableException"),
                ErrorKind::AlreadyExists => (409, "AlreadyExistsException"),
                ErrorKind::CommitConflict => (409, "CommitFailedException"),
                ErrorKind::ValidationFailed if seen.method == "DELETE" => (409, "NamespaceNotEmptyException"),
                ErrorKind::ValidationFailed => (400, "ValidationException"),
                ErrorKind::DataInvalid => (400, "BadRequestException"),
                ErrorKind::Unsupported => (406, "UnsupportedOperationException"),
                _ => (500, "InternalServerError"),
            };
            (status, error(status, name, &e.to_string()), None)
        }
    };
    if let Some(key) = key
        && status < 500
    {
        server.replies.lock().unwrap().insert(key.clone(), (status, body.clone()));
    }
    (status, body, etag)
}

fn error(status: u16, name: &str, message: &str) -> Bytes {
    json!({"error": {"message": message, "type": name, "code": status}}).to_string().into()
}

fn refusal(status: u16) -> Bytes {
    error(status, "Whatever", "as it was told to")
}

fn reply(status: u16, body: &[u8], etag: Option<String>, wait: bool) -> Response {
    let mut response = Response::builder().status(status);
    if let Some(etag) = etag {
        response = response.header("etag", etag);
    }
    if wait {
        response = response.header("retry-after", "0");
    }
    response.body(Body::from(body.to_vec())).unwrap()
}
