//! Credentials for the files of a table, as the server hands them out.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::auth::TableToken;
use super::client::Request;
use super::endpoint::Endpoint;
use super::failure::Subject;
use super::loaded::{Loaded, credentials, settings};
use super::paths::Paths;
use super::{Inner, RestCatalog, TableIdent};
use crate::error::{Result, ResultExt};
use crate::storage::{CredentialSource, PrefixCredentials, Storage};

/// Asks the server for the credentials of a table once more.
#[derive(Debug)]
struct Source {
    catalog: RestCatalog,
    table: TableIdent,
    /// Where the server says that they are to be had.
    endpoint: Option<String>,
    config: BTreeMap<String, String>,
    token: Option<TableToken>,
}

#[async_trait]
impl CredentialSource for Source {
    async fn credentials(&self) -> Result<Vec<PrefixCredentials>> {
        self.ask().await.context(|| format!("credentials for table `{}.{}`", self.catalog.0.name, self.table))
    }
}

impl Source {
    async fn ask(&self) -> Result<Vec<PrefixCredentials>> {
        let inner: &Inner = &self.catalog.0;
        let url = match &self.endpoint {
            Some(endpoint) => Paths::resolve(inner.properties.require("uri")?, endpoint)?,
            None if inner.endpoints.offers(Endpoint::LoadCredentials) => {
                inner.paths.credentials(&self.table)?
            }
            // Every server that hands them out does so with the table.
            None => return Ok(self.catalog.fetch(&self.table, None).await?.0.credentials),
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
        if loaded.credentials.is_empty() {
            return self.0.options.storage_or_new();
        }
        let mut base = self.0.options.storage_or_new().properties().clone();
        for (name, value) in settings(&loaded.config) {
            if crate::storage::StorageProperties::is_known(&name) {
                base.insert(name, value);
            }
        }
        let source = Source {
            catalog: self.clone(),
            table: table.clone(),
            endpoint: loaded.config.get("client.refresh-credentials-endpoint").cloned(),
            config: loaded.config.clone(),
            token,
        };
        Storage::with_credentials(base, loaded.credentials.clone(), Some(Arc::new(source)))
    }
}
