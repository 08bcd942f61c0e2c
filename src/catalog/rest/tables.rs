//! Tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqwest::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use reqwest::{Method, StatusCode};
use serde_json::{Value as Json, json};

use super::auth::TableToken;
use super::client::{Reply, Request};
use super::endpoint::Endpoint;
use super::failure::Subject;
use super::loaded::{Grant, Loaded, metadata};
use super::namespaces::found;
use super::properties::Properties;
use super::service::Service;
use super::{ACCESS_DELEGATION, RestCatalog, Snapshots};
use crate::catalog::{TableCommit, TableCreation, TableIdent};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{TableMetadata, TableUpdate};
use crate::storage::{Storage, expires_at};
use crate::table::{Table, TableService};

/// Credentials with less time left are not used for a table that is opened anew, in milliseconds.
const MIN_LEFT_MS: i64 = 60_000;

/// What is remembered of a table.
#[derive(Clone)]
pub(super) struct Known {
    table: Table,
    /// What the server calls this version of it; without, it is not asked about.
    etag: Option<HeaderValue>,
    token: Option<TableToken>,
    /// When its credentials expire, in milliseconds since 1970 UTC.
    expires_at: Option<i64>,
}

impl Known {
    fn is_usable(&self) -> bool {
        let limit = chrono::Utc::now().timestamp_millis().saturating_add(MIN_LEFT_MS);
        self.expires_at.is_none_or(|at| at > limit)
    }
}

impl RestCatalog {
    /// Asks for a table; `None` in place of the table if it is still the one that `known` is.
    async fn ask(
        &self,
        table: &TableIdent,
        snapshots: Snapshots,
        known: Option<&Known>,
    ) -> Result<Option<(Loaded, Reply)>> {
        self.check(Endpoint::LoadTable)?;
        let url = self.0.paths.table(table, &[("snapshots", snapshots.as_str().into())])?;
        let mut request =
            self.delegated(Request::get(url, Subject::Entity, format!("load the table `{table}`")));
        let etag = known.and_then(|known| known.etag.clone());
        let asked = etag.is_some();
        if let Some(etag) = etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let reply = self.0.client.send(&request).await?;
        if reply.status == StatusCode::NOT_MODIFIED {
            return match asked {
                true => Ok(None),
                false => Err(Error::invalid(format!(
                    "cannot load the table `{table}`: the server says that it has not changed, but was not asked"
                ))),
            };
        }
        let mut loaded = Loaded::read(&reply.json()?).context(|| format!("table `{table}`"))?;
        if snapshots == Snapshots::Refs {
            let metadata = Arc::unwrap_or_clone(loaded.metadata);
            loaded.metadata = Arc::new(metadata.with_snapshots_of_refs());
        }
        Ok(Some((loaded, reply)))
    }

    /// A table as the server describes it now, with all of its snapshots.
    pub(super) async fn fetch(&self, table: &TableIdent) -> Result<(Loaded, Reply)> {
        let asked = self.ask(table, Snapshots::All, None).await?;
        asked.ok_or_else(|| Error::invalid(format!("the server sent no metadata of the table `{table}`")))
    }

    pub(super) fn delegated<'a>(&self, request: Request<'a>) -> Request<'a> {
        match &self.0.delegation {
            Some(value) => request.header(ACCESS_DELEGATION, value.clone()),
            None => request,
        }
    }

    fn open(
        &self,
        table: &TableIdent,
        metadata: Arc<TableMetadata>,
        location: &str,
        storage: Storage,
        service: Arc<dyn TableService>,
    ) -> Result<Table> {
        let name = format!("{}.{table}", self.0.name);
        let options = self.0.options.clone().storage(storage).name(name).identifier(table.clone());
        Table::from_metadata(metadata, location, &options.service(service))
    }

    /// Makes a table of what the server sent, and remembers it.
    async fn remember(&self, table: &TableIdent, loaded: Loaded, reply: &Reply) -> Result<Table> {
        let plans = self.plans_scans(&loaded.config).context(|| format!("table `{table}`"))?;
        let config = Properties::of_server(loaded.config.clone());
        let token = self.0.client.table_token(&config).await?;
        let storage = self.storage_of(table, &loaded, token.clone());
        let service = Service::new(self, table, plans, loaded.grant(), token.clone());
        let opened = self.open(table, loaded.metadata, &loaded.location, storage, Arc::new(service))?;
        let expires_at = loaded.credentials.iter().filter_map(|c| expires_at(&c.properties)).min();
        let etag = reply.headers.get(ETAG).cloned();
        self.0.known.insert(table.clone(), Known { table: opened.clone(), etag, token, expires_at });
        Ok(opened)
    }

    pub(super) async fn load(&self, table: &TableIdent) -> Result<Table> {
        let known = self.0.known.get(table).filter(Known::is_usable);
        match (self.ask(table, self.0.snapshots, known.as_ref()).await, known) {
            (Ok(Some((loaded, reply))), _) => self.remember(table, loaded, &reply).await,
            (Ok(None), Some(known)) => Ok(known.table),
            (Ok(None), None) => {
                Err(Error::invalid(format!("the server sent no metadata of the table `{table}`")))
            }
            (Err(e), _) => {
                if e.kind() == ErrorKind::NotFound {
                    self.0.known.invalidate(table);
                }
                Err(e)
            }
        }
    }

    pub(super) async fn has_table(&self, table: &TableIdent) -> Result<bool> {
        if !self.0.endpoints.offers(Endpoint::TableExists) {
            return found(self.load(table).await.map(drop));
        }
        let url = self.0.paths.table(table, &[])?;
        let request =
            Request::new(Method::HEAD, url, Subject::Entity, format!("look for the table `{table}`"));
        found(self.0.client.send(&request).await.map(drop))
    }

    /// Creates a table, or prepares for that.
    pub(super) async fn create(
        &self,
        table: &TableIdent,
        creation: TableCreation,
        stage: bool,
    ) -> Result<Table> {
        self.check(Endpoint::CreateTable)?;
        // It fails for names that no later request could hold.
        self.0.paths.table(table, &[])?;
        let body = self.creation(table, creation, stage).context(|| format!("table `{table}`"))?;
        let what = format!("{} the table `{table}`", if stage { "prepare" } else { "create" });
        let url = self.0.paths.within(table.namespace(), "tables", &[])?;
        let request = self.delegated(Request::post(url, Subject::Entity, what, &body));
        let reply = self.0.client.send(&request).await?;
        self.made(table, &request, &reply, stage).await
    }

    /// What a table is to be. Its ids are assigned here, because not every server does so.
    fn creation(&self, table: &TableIdent, creation: TableCreation, stage: bool) -> Result<Json> {
        let properties = self.table_properties(creation.properties);
        let (spec, order) = (creation.partition_spec.as_ref(), creation.sort_order.as_ref());
        let updates = TableMetadata::creation(&creation.schema, spec, order, "", &properties)?;
        let mut body = json!({"name": table.name(), "properties": properties, "stage-create": stage});
        let Some(members) = body.as_object_mut() else { return Ok(body) };
        for update in &updates {
            match update {
                TableUpdate::AddSchema(schema) => members.insert("schema".into(), schema.to_json()?),
                TableUpdate::AddSpec(spec) => members.insert("partition-spec".into(), spec.to_json()),
                TableUpdate::AddSortOrder(order) => members.insert("write-order".into(), order.to_json()),
                _ => None,
            };
        }
        if let Some(location) = creation.location {
            members.insert("location".into(), location.into());
        }
        Ok(body)
    }

    /// The properties of a new table, with those that the catalog's properties give.
    fn table_properties(&self, asked: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let below = |prefix: &'static str| {
            let found = self.0.properties.below(prefix);
            found.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        let mut all: BTreeMap<_, _> = below("table-default.").into_iter().collect();
        all.extend(asked);
        all.extend(below("table-override."));
        all
    }

    /// The table that a request made. The server did it: what goes wrong now does not undo it.
    async fn made(
        &self,
        table: &TableIdent,
        request: &Request<'_>,
        reply: &Reply,
        stage: bool,
    ) -> Result<Table> {
        let read = async { self.remember(table, Loaded::read(&reply.json()?)?, reply).await };
        match read.await {
            Ok(made) if stage => Ok(made.into_staged()),
            Ok(made) => Ok(made),
            Err(e) if stage => Err(e.context(format!("table `{table}`"))),
            Err(e) if e.kind() == ErrorKind::Unsupported => Err(e),
            Err(e) => match self.load(table).await {
                Ok(loaded) => Ok(loaded),
                Err(_) => Err(request.unknown(e.to_string())),
            },
        }
    }

    pub(super) async fn register(&self, table: &TableIdent, metadata_location: &str) -> Result<Table> {
        self.check(Endpoint::RegisterTable)?;
        self.0.paths.table(table, &[])?;
        let body = json!({"name": table.name(), "metadata-location": metadata_location});
        let url = self.0.paths.within(table.namespace(), "register", &[])?;
        let what = format!("register the table `{table}`");
        let request = self.delegated(Request::post(url, Subject::Entity, what, &body));
        let reply = self.0.client.send(&request).await?;
        self.made(table, &request, &reply, false).await
    }

    pub(super) async fn rename(&self, kind: &str, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.check(if kind == "view" { Endpoint::RenameView } else { Endpoint::RenameTable })?;
        self.0.paths.table(to, &[])?;
        let body = json!({"source": identifier(from), "destination": identifier(to)});
        let url = self.0.paths.beside(if kind == "view" { "views/rename" } else { "tables/rename" })?;
        let what = format!("rename the {kind} `{from}` to `{to}`");
        let request = Request::post(url, Subject::Entity, what, &body);
        self.0.known.invalidate(from);
        self.0.known.invalidate(to);
        self.0.client.send(&request).await.map(drop)
    }

    pub(super) async fn remove(&self, table: &TableIdent, purge: bool) -> Result<()> {
        self.check(Endpoint::DropTable)?;
        let query = if purge { vec![("purgeRequested", "true".to_owned())] } else { Vec::new() };
        let url = self.0.paths.table(table, &query)?;
        let request = Request::delete(url, Subject::Entity, format!("drop the table `{table}`"));
        self.0.known.invalidate(table);
        self.0.client.send(&request).await.map(drop)
    }

    pub(super) async fn commit(&self, commit: &TableCommit) -> Result<Table> {
        self.check(Endpoint::CommitTable)?;
        let table = &commit.table;
        let known = self.0.known.get(table);
        let what = format!("commit to the table `{table}`");
        let url = self.0.paths.table(table, &[])?;
        let body = change(commit).context(|| format!("table `{table}`"))?;
        let token = known.as_ref().and_then(|known| known.token.as_ref());
        let request = Request::post(url, Subject::Commit, what, &body).token(token);
        let reply = self.0.client.send(&request).await?;
        // It is done: what can't be read now does not undo it.
        let unknown = |e: Error| request.unknown(e.to_string());
        let (metadata, location) = reply.json().and_then(|json| metadata(&json)).map_err(unknown)?;
        let same = known.as_ref().filter(|k| k.table.metadata().table_uuid == metadata.table_uuid);
        let before = match same {
            Some(known) => Some(known.table.clone()),
            // A commit's reply has no credentials.
            None => match self.load(table).await {
                Ok(loaded) => Some(loaded),
                Err(e) => {
                    tracing::warn!("table `{table}` is committed to, but can't be loaded: {e}");
                    None
                }
            },
        };
        let storage =
            before.as_ref().map_or_else(|| self.0.options.storage_or_new(), |t| t.storage().clone());
        let service = before.as_ref().and_then(|t| t.service().cloned()).unwrap_or_else(|| {
            let plans = self.plans_scans(&BTreeMap::new()).unwrap_or(false);
            Arc::new(Service::new(self, table, plans, Grant::default(), None))
        });
        let opened = self.open(table, metadata, &location, storage, service).map_err(unknown)?;
        if let Some(known) = known {
            let etag = reply.headers.get(ETAG).cloned();
            self.0.known.insert(table.clone(), Known { table: opened.clone(), etag, ..known });
        }
        Ok(opened)
    }

    pub(super) async fn commit_all(&self, commits: &[TableCommit]) -> Result<()> {
        self.check(Endpoint::CommitTables)?;
        let changes: Vec<Json> = commits
            .iter()
            .map(|commit| change(commit).context(|| format!("table `{}`", commit.table)))
            .collect::<Result<_>>()?;
        let names: Vec<String> = commits.iter().map(|commit| format!("`{}`", commit.table)).collect();
        let what = format!("commit to the tables {}", names.join(", "));
        let url = self.0.paths.beside("transactions/commit")?;
        let request = Request::post(url, Subject::Commit, what, &json!({"table-changes": changes}));
        self.0.client.send(&request).await.map(drop)
    }
}

/// A table's or view's name as requests have it.
pub(super) fn identifier(ident: &TableIdent) -> Json {
    json!({"namespace": ident.namespace().levels(), "name": ident.name()})
}

fn change(commit: &TableCommit) -> Result<Json> {
    let requirements: Vec<Json> = commit.requirements.iter().map(|r| r.to_json()).collect();
    let updates: Vec<Json> = commit.updates.iter().map(|u| u.to_json()).collect::<Result<_>>()?;
    Ok(json!({
        "identifier": identifier(&commit.table),
        "requirements": requirements,
        "updates": updates,
    }))
}
