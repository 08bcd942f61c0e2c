//! Namespaces.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::json;

use super::RestCatalog;
use super::client::Request;
use super::config::strings;
use super::endpoint::Endpoint;
use super::failure::Subject;
use crate::error::{Error, ErrorKind, Result};
use crate::table::Namespace;

impl RestCatalog {
    pub(super) async fn create_namespace_at(
        &self,
        namespace: &Namespace,
        properties: &BTreeMap<String, String>,
    ) -> Result<()> {
        self.check(Endpoint::CreateNamespace)?;
        // It fails for names that no later request could hold.
        self.0.paths.namespace(namespace)?;
        let body = json!({"namespace": namespace.levels(), "properties": properties});
        let what = format!("create the namespace `{namespace}`");
        let request = Request::post(self.0.paths.namespaces(&[])?, Subject::Namespace, what, &body);
        self.0.client.send(&request).await.map(drop)
    }

    pub(super) async fn properties_of(&self, namespace: &Namespace) -> Result<BTreeMap<String, String>> {
        self.check(Endpoint::LoadNamespace)?;
        let what = format!("read the namespace `{namespace}`");
        let request = Request::get(self.0.paths.namespace(namespace)?, Subject::Namespace, what);
        strings(&self.0.client.send(&request).await?.json()?, "properties")
    }

    pub(super) async fn has_namespace(&self, namespace: &Namespace) -> Result<bool> {
        let asked = match self.0.endpoints.offers(Endpoint::NamespaceExists) {
            true => {
                let what = format!("look for the namespace `{namespace}`");
                let url = self.0.paths.namespace(namespace)?;
                let request = Request::new(Method::HEAD, url, Subject::Namespace, what);
                self.0.client.send(&request).await.map(drop)
            }
            false => self.properties_of(namespace).await.map(drop),
        };
        found(asked)
    }

    pub(super) async fn change_namespace(
        &self,
        namespace: &Namespace,
        set: &BTreeMap<String, String>,
        remove: &[String],
    ) -> Result<()> {
        self.check(Endpoint::UpdateNamespace)?;
        if let Some(both) = remove.iter().find(|name| set.contains_key(*name)) {
            return Err(Error::invalid(format!("property `{both}` is both set and removed")));
        }
        let remove: BTreeSet<&String> = remove.iter().collect();
        let body = json!({"removals": remove, "updates": set});
        let what = format!("change the properties of the namespace `{namespace}`");
        let url = self.0.paths.within(namespace, "properties", &[])?;
        self.0.client.send(&Request::post(url, Subject::Namespace, what, &body)).await.map(drop)
    }

    pub(super) async fn drop_namespace_at(&self, namespace: &Namespace) -> Result<()> {
        self.check(Endpoint::DropNamespace)?;
        let what = format!("drop the namespace `{namespace}`");
        let request = Request::delete(self.0.paths.namespace(namespace)?, Subject::DropNamespace, what);
        self.0.client.send(&request).await.map(drop)
    }
}

/// Whether what was asked for is there.
pub(super) fn found(asked: Result<()>) -> Result<bool> {
    match asked {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}
