//! Views (REST spec, `CreateViewRequest`, `CommitViewRequest`).

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::RestCatalog;
use super::client::{Reply, Request};
use super::endpoint::Endpoint;
use super::failure::Subject;
use super::tables::identifier;
use crate::catalog::{TableIdent, View, ViewCreation};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{LAST_ADDED, Schema, TableMetadata, TableUpdate, ViewMetadata};

impl RestCatalog {
    fn read_view(&self, view: &TableIdent, reply: &Reply) -> Result<View> {
        let json = reply.json()?;
        let metadata = json.get("metadata").ok_or_else(|| Error::invalid("the reply has no `metadata`"))?;
        let metadata = ViewMetadata::from_json_value(metadata).context(|| "field `metadata`".into())?;
        let metadata_location = json.get("metadata-location").and_then(Json::as_str).map(str::to_owned);
        Ok(View { ident: view.clone(), metadata: Arc::new(metadata), metadata_location })
    }

    pub(super) async fn view(&self, view: &TableIdent) -> Result<View> {
        self.check(Endpoint::LoadView)?;
        let url = self.0.paths.view(view)?;
        let request = Request::get(url, Subject::Entity, format!("load the view `{view}`"));
        let reply = self.0.client.send(&request).await?;
        self.read_view(view, &reply).context(|| format!("view `{view}`"))
    }

    /// The view that a request made. The server did it: what goes wrong now does not undo it.
    fn made_view(&self, view: &TableIdent, request: &Request<'_>, reply: &Reply) -> Result<View> {
        self.read_view(view, reply).map_err(|e| request.unknown(e.to_string()))
    }

    pub(super) async fn new_view(&self, view: &TableIdent, creation: ViewCreation) -> Result<View> {
        self.check(Endpoint::CreateView)?;
        let url = self.0.paths.within(view.namespace(), "views", &[])?;
        let place = || format!("view `{view}`");
        let schema = fresh(&creation.schema).context(place)?;
        let mut body = json!({
            "name": view.name(),
            "schema": schema.to_json().context(place)?,
            "view-version": version(&creation, 1, schema.schema_id.0),
            "properties": creation.properties,
        });
        if let (Some(members), Some(location)) = (body.as_object_mut(), &creation.location) {
            members.insert("location".into(), location.as_str().into());
        }
        let request = Request::post(url, Subject::Entity, format!("create the view `{view}`"), &body);
        let reply = self.0.client.send(&request).await?;
        self.made_view(view, &request, &reply)
    }

    pub(super) async fn new_version(&self, view: &TableIdent, creation: ViewCreation) -> Result<View> {
        self.check(Endpoint::ReplaceView)?;
        let place = || format!("view `{view}`");
        let current = self.view(view).await?.metadata;
        let last = current.versions.keys().next_back().copied().unwrap_or(current.current_version_id);
        let next = last.checked_add(1).ok_or_else(|| Error::invalid("there are no more version ids"));
        let next = next.context(place)?;
        let schema = fresh(&creation.schema).context(place)?;
        let mut updates = Vec::new();
        let set =
            creation.properties.iter().filter(|(name, value)| current.properties.get(*name) != Some(*value));
        let set: serde_json::Map<_, _> = set.map(|(n, v)| (n.clone(), Json::from(v.as_str()))).collect();
        if !set.is_empty() {
            updates.push(json!({"action": "set-properties", "updates": set}));
        }
        if let Some(location) = creation.location.as_ref().filter(|l| **l != current.location) {
            updates.push(json!({"action": "set-location", "location": location}));
        }
        updates.push(json!({"action": "add-schema", "schema": schema.to_json().context(place)?,
            "last-column-id": last_column(&schema)}));
        let version = version(&creation, next, LAST_ADDED);
        updates.push(json!({"action": "add-view-version", "view-version": version}));
        updates.push(json!({"action": "set-current-view-version", "view-version-id": LAST_ADDED}));
        let body = json!({
            "identifier": identifier(view),
            "requirements": [{"type": "assert-view-uuid", "uuid": current.view_uuid}],
            "updates": updates,
        });
        let url = self.0.paths.view(view)?;
        let request = Request::post(url, Subject::Commit, format!("replace the view `{view}`"), &body);
        let reply = self.0.client.send(&request).await?;
        self.made_view(view, &request, &reply)
    }

    pub(super) async fn remove_view(&self, view: &TableIdent) -> Result<()> {
        self.check(Endpoint::DropView)?;
        let url = self.0.paths.view(view)?;
        let request = Request::delete(url, Subject::Entity, format!("drop the view `{view}`"));
        self.0.client.send(&request).await.map(drop)
    }
}

/// The schema with field ids that are assigned anew.
fn fresh(schema: &Schema) -> Result<Arc<Schema>> {
    let updates = TableMetadata::creation(schema, None, None, "", &Default::default())?;
    let schema = updates.into_iter().find_map(|update| match update {
        TableUpdate::AddSchema(schema) => Some(schema),
        _ => None,
    });
    schema.ok_or_else(|| Error::new(ErrorKind::DataInvalid, "no schema"))
}

/// The highest field id, which old servers ask for.
fn last_column(schema: &Schema) -> i32 {
    schema.highest_field_id().0
}

fn version(creation: &ViewCreation, id: i32, schema_id: i32) -> Json {
    let representations: Vec<Json> = creation
        .representations
        .iter()
        .map(|r| json!({"type": "sql", "sql": r.sql, "dialect": r.dialect}))
        .collect();
    let mut version = json!({
        "version-id": id,
        "schema-id": schema_id,
        "timestamp-ms": chrono::Utc::now().timestamp_millis(),
        "summary": {"engine-name": "icefloe", "engine-version": env!("CARGO_PKG_VERSION")},
        "representations": representations,
        "default-namespace": creation.default_namespace,
    });
    if let (Some(members), Some(catalog)) = (version.as_object_mut(), &creation.default_catalog) {
        members.insert("default-catalog".into(), catalog.as_str().into());
    }
    version
}
