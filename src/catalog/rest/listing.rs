//! Lists that come in pages (REST spec, `PageToken`).

use std::collections::{BTreeSet, HashSet};

use serde_json::Value as Json;
use url::Url;

use super::client::Request;
use super::failure::Subject;
use super::{RestCatalog, TableIdent};
use crate::error::{Error, Result};
use crate::table::Namespace;

/// More pages than that have no end.
const MAX_PAGES: usize = 100_000;

impl RestCatalog {
    /// All elements of the array `member` over all pages.
    async fn pages(
        &self,
        url: impl Fn(&[(&str, String)]) -> Result<Url>,
        mut query: Vec<(&str, String)>,
        member: &str,
        what: String,
    ) -> Result<Vec<Json>> {
        if let Some(size) = self.0.page_size {
            query.push(("pageSize", size.to_string()));
        }
        // An empty token says that the client can turn pages.
        query.push(("pageToken", String::new()));
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        loop {
            let request = Request::get(url(&query)?, Subject::Namespace, what.as_str());
            let mut page = self.0.client.send(&request).await?.json()?;
            match page.get_mut(member).map(Json::take) {
                Some(Json::Array(elements)) => all.extend(elements),
                Some(Json::Null) | None => {}
                Some(_) => {
                    return Err(Error::invalid("expected an array").context(format!("field `{member}`")));
                }
            }
            let next = match page.get("next-page-token") {
                Some(Json::String(token)) if !token.is_empty() => token.clone(),
                _ => return Ok(all),
            };
            if seen.len() >= MAX_PAGES || !seen.insert(next.clone()) {
                return Err(Error::invalid(format!(
                    "cannot {what}: the server's pages have no end, one follows itself"
                )));
            }
            if let Some((_, token)) = query.last_mut() {
                *token = next;
            }
        }
    }

    /// The namespaces directly in one, or at the top.
    pub(super) async fn namespaces_in(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
        let mut query = Vec::new();
        if let Some(parent) = parent {
            query.push(("parent", self.0.paths.parent(parent)?));
        }
        let url = |query: &[(&str, String)]| self.0.paths.namespaces(query);
        let listed = self.pages(url, query, "namespaces", "list namespaces".into()).await?;
        let above = parent.map(Namespace::levels).unwrap_or_default();
        let mut found = BTreeSet::new();
        for levels in &listed {
            let levels = self.levels(levels)?;
            // Some servers list what is further down, or the parent itself.
            if levels.len() == above.len() + 1 && levels.starts_with(above) {
                found.insert(Namespace::new(levels)?);
            }
        }
        Ok(found.into_iter().collect())
    }

    fn levels(&self, json: &Json) -> Result<Vec<String>> {
        let texts = json.as_array().and_then(|levels| {
            levels.iter().map(|level| level.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.ok_or_else(|| Error::invalid("expected an array of strings").context("field `namespaces`"))
    }

    /// The tables or views in a namespace.
    pub(super) async fn names_in(&self, namespace: &Namespace, kind: &str) -> Result<Vec<TableIdent>> {
        let url = |query: &[(&str, String)]| self.0.paths.within(namespace, kind, query);
        let what = format!("list the {kind} in `{namespace}`");
        let listed = self.pages(url, Vec::new(), "identifiers", what).await?;
        let mut found = BTreeSet::new();
        for ident in &listed {
            let name = ident.get("name").and_then(Json::as_str);
            let name =
                name.ok_or_else(|| Error::invalid("the `name` is missing").context("field `identifiers`"))?;
            found.insert(TableIdent::new(namespace.clone(), name)?);
        }
        Ok(found.into_iter().collect())
    }
}
