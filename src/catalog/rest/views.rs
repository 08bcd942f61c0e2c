//! Views (REST spec, `CreateViewRequest`, `CommitViewRequest`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::RestCatalog;
use super::client::{Reply, Request};
use super::endpoint::Endpoint;
use super::failure::Subject;
use super::tables::identifier;
use crate::catalog::{TableIdent, View, ViewCreation};
use crate::error::{Error, Result, ResultExt};
use crate::spec::{LAST_ADDED, Schema, SchemaId, TableUpdate, ViewDefinition, ViewMetadata, ViewVersion};

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
        let body = new_view(view.name(), creation).context(|| format!("view `{view}`"))?;
        let request = Request::post(url, Subject::Entity, format!("create the view `{view}`"), &body);
        let reply = self.0.client.send(&request).await?;
        self.made_view(view, &request, &reply)
    }

    pub(super) async fn new_version(&self, view: &TableIdent, creation: ViewCreation) -> Result<View> {
        self.check(Endpoint::ReplaceView)?;
        let current = self.view(view).await?.metadata;
        let updates = new_version(&current, creation).context(|| format!("view `{view}`"))?;
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

fn definition(creation: ViewCreation) -> ViewDefinition {
    ViewDefinition {
        schema: creation.schema,
        representations: creation.representations,
        default_catalog: creation.default_catalog,
        default_namespace: creation.default_namespace,
        summary: BTreeMap::from([
            ("engine-name".to_owned(), "icefloe".to_owned()),
            ("engine-version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]),
    }
}

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

/// The current version of a view that was made here, with its schema.
fn current(view: &ViewMetadata) -> Result<(&ViewVersion, &Schema)> {
    let current = view.current_version().zip(view.current_schema());
    let (version, schema) = current.ok_or_else(|| Error::invalid("a view without a version"))?;
    Ok((version, schema))
}

/// The request for a new view.
fn new_view(name: &str, creation: ViewCreation) -> Result<Json> {
    let (location, properties) = (creation.location.clone(), creation.properties.clone());
    // The server decides where it lies, if nobody else does.
    let placed = location.as_deref().unwrap_or("memory:///unknown");
    let view = ViewMetadata::create(&definition(creation), placed, &properties, now_ms())?;
    let (version, schema) = current(&view)?;
    let mut body = json!({
        "name": name,
        "schema": schema.to_json()?,
        "view-version": version.to_json(),
        "properties": properties,
    });
    if let (Some(members), Some(location)) = (body.as_object_mut(), location) {
        members.insert("location".into(), location.into());
    }
    Ok(body)
}

/// The changes that give a view another version.
fn new_version(view: &ViewMetadata, creation: ViewCreation) -> Result<Vec<Json>> {
    let (location, properties) = (creation.location.clone(), creation.properties.clone());
    let next = view.replace(&definition(creation), location.as_deref(), &properties, now_ms())?;
    let mut updates = Vec::new();
    let set = properties.iter().filter(|(name, value)| view.properties.get(*name) != Some(*value));
    let set: BTreeMap<_, _> = set.collect();
    if !set.is_empty() {
        updates.push(json!({"action": "set-properties", "updates": set}));
    }
    if next.location != view.location {
        updates.push(json!({"action": "set-location", "location": next.location}));
    }
    let (version, schema) = current(&next)?;
    let mut id = version.version_id;
    if !view.versions.contains_key(&id) {
        let mut version = version.clone();
        if !view.schemas.contains_key(&version.schema_id) {
            let schema = TableUpdate::AddSchema(Arc::new(schema.clone()));
            updates.push(schema.to_json()?);
            version.schema_id = SchemaId(LAST_ADDED);
        }
        updates.push(json!({"action": "add-view-version", "view-version": version.to_json()}));
        id = LAST_ADDED;
    }
    updates.push(json!({"action": "set-current-view-version", "view-version-id": id}));
    Ok(updates)
}
