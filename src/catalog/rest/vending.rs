//! Credentials for the files of a table, as the server hands them out.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Value as Json, json};
use url::Url;

use super::auth::TableToken;
use super::client::Request;
use super::endpoint::Endpoint;
use super::failure::Subject;
use super::loaded::{Grant, Loaded, credentials, settings};
use super::paths::Paths;
use super::{Inner, RestCatalog, TableIdent};
use crate::error::{Error, Result, ResultExt};
use crate::storage::{CredentialSource, PrefixCredentials, SignedRequest, Storage, UnsignedRequest};

/// Asks the server for the credentials of a table once more.
#[derive(Debug)]
struct Source {
    catalog: RestCatalog,
    table: TableIdent,
    /// Where the server says that they are to be had.
    endpoint: Option<String>,
    config: BTreeMap<String, String>,
    /// What the server wants with each request that is to be signed.
    signing: Json,
    token: Option<TableToken>,
    /// The plan whose files they open.
    plan: Option<String>,
}

#[async_trait]
impl CredentialSource for Source {
    async fn credentials(&self) -> Result<Vec<PrefixCredentials>> {
        self.ask().await.context(|| format!("credentials for table `{}.{}`", self.catalog.0.name, self.table))
    }

    async fn sign(&self, request: UnsignedRequest) -> Result<SignedRequest> {
        let place = || format!("table `{}.{}`", self.catalog.0.name, self.table);
        self.ask_to_sign(request).await.context(place)
    }
}

impl Source {
    /// Where requests are signed (REST spec, `RemoteSignRequest`).
    fn signer(&self) -> Result<Url> {
        let inner: &Inner = &self.catalog.0;
        let get = |name: &str| {
            let names = [format!("s3.{name}"), name.to_owned()];
            names
                .iter()
                .find_map(|n| self.config.get(n).map(String::as_str).or_else(|| inner.properties.get(n)))
        };
        let uri = get("signer.uri").map_or_else(|| inner.properties.require("uri"), Ok)?;
        match get("signer.endpoint") {
            Some(endpoint) => Paths::resolve(uri, endpoint),
            None => inner.paths.of_table(&self.table, "sign"),
        }
    }

    async fn ask_to_sign(&self, request: UnsignedRequest) -> Result<SignedRequest> {
        let inner: &Inner = &self.catalog.0;
        let url = self.signer()?;
        inner.client.check_destination(&url)?;
        let headers: BTreeMap<&str, [&str; 1]> =
            request.headers.iter().map(|(name, value)| (name.as_str(), [value.as_str()])).collect();
        let mut body = json!({
            "method": request.method,
            "uri": request.uri,
            "region": request.region,
            "headers": headers,
            "provider": "s3",
        });
        if let Some(members) = body.as_object_mut() {
            members.extend(request.body.map(|body| ("body".to_owned(), body.into())));
            let given = self.signing.get("properties").filter(|given| given.is_object());
            members.extend(given.map(|given| ("properties".to_owned(), given.clone())));
        }
        let what = format!("have a request for the table `{}` signed", self.table);
        let mut ask = Request::post(url, Subject::Entity, what, &body).reading().token(self.token.as_ref());
        for (name, value) in multi_values(self.signing.get("headers"))? {
            let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(&value).ok());
            let (name, value) = header.ok_or_else(|| Error::invalid("headers that can't be sent"))?;
            ask = ask.header(name, value);
        }
        let reply = inner.client.send(&ask).await?.json()?;
        let uri = reply.get("uri").and_then(Json::as_str);
        let uri = uri.ok_or_else(|| Error::invalid("the signer gave no `uri`"))?.to_owned();
        Ok(SignedRequest { uri, headers: multi_values(reply.get("headers"))? })
    }

    async fn ask(&self) -> Result<Vec<PrefixCredentials>> {
        let inner: &Inner = &self.catalog.0;
        let url = match &self.endpoint {
            Some(endpoint) => Paths::resolve(inner.properties.require("uri")?, endpoint)?,
            None if inner.endpoints.offers(Endpoint::LoadCredentials) => {
                let plan = self.plan.iter().map(|id| ("planId", id.clone())).collect::<Vec<_>>();
                inner.paths.credentials(&self.table, &plan)?
            }
            // Every server that hands them out does so with the table.
            None if self.plan.is_some() => {
                return Err(Error::unsupported(
                    "the credentials of a planned scan have expired, and the server has no others",
                ));
            }
            None => return Ok(self.catalog.fetch(&self.table).await?.0.credentials),
        };
        inner.client.check_destination(&url)?;
        let what = format!("get credentials for the table `{}`", self.table);
        let request = Request::get(url, Subject::Entity, what).token(self.token.as_ref());
        // Those of the table's configuration have expired; its settings have not.
        let settings = settings(&self.config);
        credentials(&inner.client.send(&request).await?.json()?, &settings)
    }
}

impl RestCatalog {
    /// The storage for a table's files: the catalog's own, if the server has nothing to add.
    pub(super) fn storage_of(
        &self,
        table: &TableIdent,
        loaded: &Loaded,
        token: Option<TableToken>,
    ) -> Storage {
        match loaded.credentials.is_empty() {
            true => self.0.options.storage_or_new(),
            false => self.vended(table, loaded.grant(), loaded.credentials.clone(), token, None),
        }
    }

    /// A storage with credentials of the server: a table's, or those for the files of a plan.
    pub(super) fn vended(
        &self,
        table: &TableIdent,
        grant: Grant,
        credentials: Vec<PrefixCredentials>,
        token: Option<TableToken>,
        plan: Option<String>,
    ) -> Storage {
        let mut base = self.0.options.storage_or_new().properties().clone();
        for (name, value) in settings(&grant.config) {
            if crate::storage::StorageProperties::is_known(&name) {
                base.insert(name, value);
            }
        }
        let endpoint = grant.config.get("client.refresh-credentials-endpoint").cloned();
        let source = Source {
            catalog: self.forgetful(),
            table: table.clone(),
            // It is for the table's own.
            endpoint: endpoint.filter(|_| plan.is_none()),
            config: grant.config,
            signing: grant.signing,
            token,
            plan,
        };
        Storage::with_credentials(base, credentials, Some(Arc::new(source)))
    }
}

/// Headers of which each may have several values.
fn multi_values(json: Option<&Json>) -> Result<BTreeMap<String, String>> {
    let invalid = || Error::invalid("expected an object of arrays of strings").context("field `headers`");
    let Some(json) = json else { return Ok(BTreeMap::new()) };
    let members = json.as_object().ok_or_else(invalid)?;
    let join = |values: &Json| {
        let values = values.as_array()?.iter().map(Json::as_str).collect::<Option<Vec<_>>>()?;
        Some(values.join(", "))
    };
    members.iter().map(|(name, values)| Ok((name.clone(), join(values).ok_or_else(invalid)?))).collect()
}
