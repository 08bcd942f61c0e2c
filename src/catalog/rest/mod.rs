//! A catalog behind the Iceberg REST protocol (REST spec, `rest-catalog-open-api.yaml`).
//!
//! Tables may be loaded with the snapshots of their branches and tags only, their scans may be
//! planned by the server (`planning`), which is told of scans and commits (`reports`).

mod auth;
mod catalog;
mod client;
mod config;
mod connection;
mod content_files;
mod endpoint;
mod failure;
mod listing;
mod loaded;
mod namespaces;
mod paths;
mod plan_reply;
mod planning;
mod properties;
mod reports;
mod retry;
mod service;
mod tables;
#[cfg(test)]
pub(super) mod tests;
mod vending;
mod views;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};

use super::TableIdent;
use crate::error::{Error, Result, ResultExt};
use crate::table::OpenOptions;
use client::{Client, Request};
use config::Config;
use endpoint::{Endpoint, Endpoints};
use failure::Subject;
use paths::{DEFAULT_SEPARATOR, Paths};
use planning::Planning;
use properties::Properties;
use reports::Reports;
use tables::Known;

/// How long a table that was loaded is remembered, and how many are.
const REMEMBER: Duration = Duration::from_secs(300);
const REMEMBERED: u64 = 100;

/// How long the server may take to plan a scan, unless told otherwise.
const PLANNING_TIMEOUT: Duration = Duration::from_secs(300);

/// The header that says how files may be opened.
const ACCESS_DELEGATION: HeaderName = HeaderName::from_static("x-iceberg-access-delegation");

/// A catalog that a server keeps. Cheap to clone; clones share connections, tokens and what they
/// remember of tables.
///
/// Its properties have the names that Java and PyIceberg use: `uri`, `warehouse`, `prefix`;
/// `token`, `credential`, `oauth2-server-uri`, `scope`, `audience`, `resource`,
/// `token-refresh-enabled`, `token-exchange-enabled`; `rest.auth.type` (`none`, `basic`, `oauth2`,
/// `sigv4`), `rest.auth.basic.username`, `rest.auth.basic.password`; `rest.sigv4-enabled`,
/// `rest.signing-name`, `rest.signing-region`, `rest.access-key-id`, `rest.secret-access-key`,
/// `rest.session-token`; `header.NAME`; `rest.tls.ca-file` or `ssl.cabundle`, `ssl.client.cert`,
/// `ssl.client.key`; `rest.client.max-retries`, `rest.client.connection-timeout-ms`,
/// `rest.client.socket-timeout-ms`, `rest.client.proxy.hostname`, `rest.client.proxy.port`;
/// `rest-page-size`, `view-endpoints-supported`, `table-default.NAME`, `table-override.NAME`,
/// `rest-table-cache.max-entries`, `rest-table-cache.expire-after-write-ms`; `snapshot-loading-mode`
/// (`all`, or `refs` to load other snapshots when they are needed), `scan-planning-mode` (`client` or
/// `server`, which a table's configuration may override), `rest-scan-planning.poll-timeout-ms`,
/// `rest-metrics-reporting-enabled`; and those of
/// [`StorageProperties`](crate::storage::StorageProperties) for the files. Without
/// `rest.client.proxy.hostname`, the proxy of the environment (`HTTPS_PROXY`, `HTTP_PROXY`,
/// `NO_PROXY`) is used, but not for servers on this machine. Beside them,
/// `rest.access-delegation` says how the server may let clients at files (`vended-credentials`
/// unless given, `none` to ask for nothing), and `rest.allow-http` permits credentials without TLS
/// to other machines. A value `env:NAME` is taken from the environment. What the server configures
/// comes on top.
#[derive(Clone)]
pub struct RestCatalog(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    name: String,
    client: Arc<Client>,
    paths: Paths,
    endpoints: Endpoints,
    properties: Properties,
    /// How the catalog's tables are opened that need nothing special.
    options: OpenOptions,
    delegation: Option<HeaderValue>,
    page_size: Option<u64>,
    known: moka::sync::Cache<TableIdent, Known>,
    /// Which snapshots tables are loaded with.
    snapshots: Snapshots,
    /// Who plans scans, as far as the catalog says.
    planning: Option<Planning>,
    /// How long the server may take to plan a scan.
    planning_timeout: Duration,
    reports: Option<Reports>,
    /// The same catalog without memory, for the tables that are remembered here: they must not keep
    /// alive what keeps them.
    forgetful: Option<RestCatalog>,
}

/// Which snapshots tables are loaded with (REST spec, the parameter `snapshots`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Snapshots {
    All,
    /// Those that branches and tags name.
    Refs,
}

impl Snapshots {
    fn of(properties: &Properties) -> Result<Self> {
        let name = "snapshot-loading-mode";
        match properties.get(name).unwrap_or("all") {
            mode if mode.eq_ignore_ascii_case("all") => Ok(Self::All),
            mode if mode.eq_ignore_ascii_case("refs") => Ok(Self::Refs),
            _ => Err(Error::invalid("expected `all` or `refs`").context(format!("property `{name}`"))),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Refs => "refs",
        }
    }
}

impl RestCatalog {
    /// Connects to the server at the property `uri`, and gets its configuration. `name` is what the
    /// catalog is called here.
    ///
    /// # Errors
    /// `DataInvalid` for a missing or malformed property; `Unsupported` for one that asks for
    /// something that is not done, and for credentials that would be sent to another machine
    /// without TLS; `NotFound` if there is no such warehouse; `Io` if the server can't be reached
    /// or refuses.
    pub async fn connect(name: &str, properties: BTreeMap<String, String>) -> Result<Self> {
        let connected = Self::configure(name, Properties::of_user(properties), None).await;
        connected.context(|| format!("catalog `{name}`"))
    }

    /// As [`RestCatalog::connect`], with a storage and a cache for its tables, which share them;
    /// but a table has a storage of its own if the server gives credentials for it.
    ///
    /// # Errors
    /// As [`RestCatalog::connect`].
    pub async fn connect_with(
        name: &str,
        properties: BTreeMap<String, String>,
        options: OpenOptions,
    ) -> Result<Self> {
        let connected = Self::configure(name, Properties::of_user(properties), Some(options)).await;
        connected.context(|| format!("catalog `{name}`"))
    }

    async fn configure(name: &str, own: Properties, options: Option<OpenOptions>) -> Result<Self> {
        let uri = own.require("uri")?;
        let client = Client::new(&own, false)?;
        let url = Paths::config(uri, own.get("warehouse"))?;
        let request = Request::get(url, Subject::Server, "read the server's configuration");
        let config = Config::read(&client.send(&request).await?.json()?)
            .context(|| "the server's configuration".to_owned())?;
        let properties = own.between(config.defaults.clone(), config.overrides.clone());
        // The same settings, mostly; then the token that was got is good for the rest.
        let client = client.configured(&properties, config.idempotent)?;
        let uri = properties.require("uri")?;
        let separator = properties.get("namespace-separator").unwrap_or(DEFAULT_SEPARATOR);
        let expire = properties.millis("rest-table-cache.expire-after-write-ms", REMEMBER)?;
        let entries = properties.number("rest-table-cache.max-entries")?.unwrap_or(REMEMBERED);
        let page_size = properties.number("rest-page-size")?;
        if page_size == Some(0) {
            return Err(Error::invalid("expected a positive number").context("property `rest-page-size`"));
        }
        let options = options.unwrap_or_else(|| OpenOptions::new().properties(properties.storage())).shared();
        let endpoints = config.endpoints(&properties)?;
        let client = Arc::new(client);
        let mut inner = Inner {
            name: name.to_owned(),
            snapshots: Snapshots::of(&properties)?,
            planning: Planning::of(|name| properties.get(name))?,
            planning_timeout: properties.millis("rest-scan-planning.poll-timeout-ms", PLANNING_TIMEOUT)?,
            reports: Reports::new(&client, &endpoints, &properties)?,
            paths: Paths::new(uri, properties.get("prefix"), separator)?,
            endpoints,
            delegation: delegation(&properties)?,
            client,
            properties,
            options,
            page_size,
            known: moka::sync::Cache::new(0),
            forgetful: None,
        };
        inner.forgetful = Some(Self(Arc::new(inner.clone())));
        inner.known = moka::sync::Cache::builder().max_capacity(entries).time_to_live(expire).build();
        Ok(Self(Arc::new(inner)))
    }

    /// The catalog for what outlives it in its own memory.
    fn forgetful(&self) -> Self {
        self.0.forgetful.as_ref().unwrap_or(self).clone()
    }

    fn place(&self) -> String {
        format!("catalog `{}`", self.0.name)
    }

    /// Fails if the server does not offer an endpoint.
    fn check(&self, endpoint: Endpoint) -> Result<()> {
        if self.0.endpoints.offers(endpoint) {
            return Ok(());
        }
        let mut message = format!("the server does not offer `{endpoint}`");
        if endpoint.is_of_views() && !self.0.endpoints.listed {
            message.push_str(", as far as it says; if it does, set the property `view-endpoints-supported`");
        }
        Err(Error::unsupported(message))
    }
}

/// How the client wants to get at files.
fn delegation(properties: &Properties) -> Result<Option<HeaderValue>> {
    let name = "rest.access-delegation";
    match properties.get(name).unwrap_or("vended-credentials") {
        "none" => Ok(None),
        value => HeaderValue::from_str(value)
            .map(Some)
            .map_err(|_| Error::invalid("a value that can't be sent").context(format!("property `{name}`"))),
    }
}

impl fmt::Debug for RestCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestCatalog")
            .field("name", &self.0.name)
            .field("properties", &self.0.properties)
            .finish_non_exhaustive()
    }
}
