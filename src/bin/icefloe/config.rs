//! Which catalogs there are: by the configuration file, the environment, and the command line.
//!
//! ```toml
//! [catalog.lake]
//! type = "filesystem"
//! warehouse = "s3://bucket/warehouse"
//! ```
//!
//! In the environment that is `ICEFLOE_CATALOG__LAKE__TYPE=filesystem`, and it goes first: two
//! underscores are a dot of the property's name, one is a dash.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use icefloe::catalog::load_catalog;
use icefloe::provider::IcebergCatalogProvider;
use icefloe::{Error, Result};

/// What the names of variables that set properties of catalogs begin with.
const VARIABLES: &str = "ICEFLOE_CATALOG__";
/// The property that says how old the tables of a catalog may be, in milliseconds.
const MAX_STALENESS: &str = "max-staleness-ms";

/// How long a catalog may take to answer when the shell starts.
const PATIENCE: Duration = Duration::from_secs(20);

/// A configuration file.
#[derive(Debug, Default)]
pub struct Config {
    /// Catalogs by the name that SQL uses.
    pub catalogs: BTreeMap<String, CatalogConfig>,
    /// The file of which some are.
    file: Option<PathBuf>,
}

/// One `[catalog.NAME]`.
#[derive(Default)]
pub struct CatalogConfig {
    /// Its properties.
    pub properties: BTreeMap<String, toml::Value>,
    /// Whether it is in the configuration file.
    in_file: bool,
}

impl std::fmt::Debug for CatalogConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Their values may be secrets.
        f.debug_set().entries(self.properties.keys()).finish()
    }
}

impl CatalogConfig {
    async fn open(&self, name: &str) -> Result<IcebergCatalogProvider> {
        let place = |e: Error| e.context(format!("catalog `{name}`"));
        let mut properties = self.properties().map_err(place)?;
        let staleness = match properties.remove(MAX_STALENESS) {
            None => Duration::ZERO,
            Some(text) => Duration::from_millis(text.trim().parse().map_err(|_| {
                place(Error::invalid(format!(
                    "property `{MAX_STALENESS}` is a number of milliseconds, not `{text}`"
                )))
            })?),
        };
        let catalog = load_catalog(name, properties).await?;
        Ok(IcebergCatalogProvider::new(catalog).with_max_staleness(staleness))
    }

    /// Fails if it is a directory that is not there: without a word, it would be empty.
    async fn check_warehouse(&self, provider: &IcebergCatalogProvider) -> Result<()> {
        let is_directory = self.properties.get("type").and_then(toml::Value::as_str).is_some_and(|kind| {
            ["filesystem", "hadoop"].iter().any(|known| kind.trim().eq_ignore_ascii_case(known))
        });
        match is_directory && self.warehouse_is_local() {
            true => provider.catalog().list_namespaces(None).await.map(drop),
            false => Ok(()),
        }
    }

    fn warehouse_is_local(&self) -> bool {
        let warehouse = self.properties.get("warehouse").and_then(toml::Value::as_str).unwrap_or_default();
        warehouse.starts_with("file:") || !warehouse.contains("://")
    }

    /// The properties as text; nested tables become dotted names (`s3.endpoint`).
    pub fn properties(&self) -> Result<BTreeMap<String, String>> {
        let mut flat = BTreeMap::new();
        for (name, value) in &self.properties {
            flatten(name, value, &mut flat)?;
        }
        Ok(flat)
    }
}

/// Removes the property of that dotted name, spelled with dashes or underscores, nested or not.
fn remove(properties: &mut BTreeMap<String, toml::Value>, name: &str) {
    let same = |key: &str, name: &str| key.replace('_', "-") == name.replace('_', "-");
    properties.retain(|key, value| {
        if same(key, name) {
            return false;
        }
        if let (toml::Value::Table(table), Some(rest)) = (value, name.strip_prefix(&format!("{key}."))) {
            table.retain(|inner, _| !same(inner, rest));
        }
        true
    });
}

fn table(value: toml::Value, key: &str) -> Result<toml::Table> {
    match value {
        toml::Value::Table(table) => Ok(table),
        other => Err(Error::invalid(format!("expected a section, not a value of type {}", other.type_str()))
            .context(format!("key `{key}`"))),
    }
}

fn flatten(name: &str, value: &toml::Value, flat: &mut BTreeMap<String, String>) -> Result<()> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Table(table) => {
            return table.iter().try_for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, flat));
        }
        toml::Value::Datetime(_) | toml::Value::Array(_) => {
            return Err(
                Error::invalid("expected text, a number or a table").context(format!("property `{name}`"))
            );
        }
    };
    flat.insert(name.to_string(), text);
    Ok(())
}

impl Config {
    /// Reads `file`, or else the user's own file if there is one.
    pub fn load(file: Option<&Path>) -> Result<Self> {
        let (path, must_exist) = match (file, user_file()) {
            (Some(path), _) => (path.to_path_buf(), true),
            (None, Some(path)) => (path, false),
            (None, None) => return Ok(Self::default()),
        };
        let place = |e: Error| e.context(format!("configuration {}", path.display()));
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let config = Self::parse(&text).map_err(place)?;
                Ok(Self { file: Some(path), ..config })
            }
            Err(e) if e.kind() == ErrorKind::NotFound && !must_exist => Ok(Self::default()),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(place(Error::not_found("no such file"))),
            Err(e) => Err(place(Error::new(icefloe::ErrorKind::Io, "it can't be read").with_source(e))),
        }
    }

    /// Messages name lines and keys, and no values: those may be secrets.
    fn parse(text: &str) -> Result<Self> {
        let file: toml::Table = toml::from_str(text).map_err(|e| {
            let line = e.span().map(|s| text.get(..s.start).unwrap_or_default().matches('\n').count() + 1);
            let place = line.map(|l| format!("line {l}: ")).unwrap_or_default();
            Error::invalid(format!("{place}{}", e.message()))
        })?;
        let mut config = Self::default();
        for (section, catalogs) in file {
            if section != "catalog" {
                return Err(Error::invalid(format!(
                    "unknown key `{section}`; there are sections `catalog.NAME`"
                )));
            }
            for (name, properties) in table(catalogs, "catalog")? {
                let properties = table(properties, &format!("catalog.{name}"))?;
                let catalog = CatalogConfig { properties: properties.into_iter().collect(), in_file: true };
                config.catalogs.insert(name, catalog);
            }
        }
        Ok(config)
    }

    /// Adds what variables of the environment say: `ICEFLOE_CATALOG__NAME__PROPERTY`. Gives an error
    /// for each that lacks a part of that.
    pub fn add_variables(&mut self, variables: impl IntoIterator<Item = (String, String)>) -> Vec<Error> {
        let mut errors = Vec::new();
        for (variable, value) in variables {
            let Some(rest) = variable.strip_prefix(VARIABLES) else { continue };
            let (name, property) = rest.split_once("__").unwrap_or_default();
            if name.is_empty() || property.is_empty() {
                let message = format!("expected a name of the form {VARIABLES}NAME__PROPERTY");
                errors.push(Error::invalid(message).context(format!("environment variable `{variable}`")));
                continue;
            }
            let property = property.to_ascii_lowercase().replace("__", ".").replace('_', "-");
            let same = |known: &&String| known.replace('-', "_").eq_ignore_ascii_case(name);
            let known = self.catalogs.keys().find(same).cloned();
            let catalog =
                self.catalogs.entry(known.unwrap_or_else(|| name.to_ascii_lowercase())).or_default();
            // What the file says of it may be spelled in another way, and be nested.
            remove(&mut catalog.properties, &property);
            catalog.properties.insert(property, toml::Value::String(value));
        }
        errors
    }

    /// Adds the catalog of a local directory: `catalog.db` in it, which is made if need be.
    pub fn add_warehouse(&mut self, name: &str, directory: &Path) -> Result<()> {
        let place = || format!("warehouse {}", directory.display());
        let io = |e: std::io::Error| Error::new(icefloe::ErrorKind::Io, e.to_string()).context(place());
        std::fs::create_dir_all(directory).map_err(io)?;
        let absolute = directory.canonicalize().map_err(io)?;
        let Some(path) = absolute.to_str() else {
            return Err(Error::unsupported("its path is not UTF-8").context(place()));
        };
        let properties = [
            ("type", "sql".to_owned()),
            ("uri", format!("sqlite:///{path}/catalog.db")),
            ("warehouse", path.to_owned()),
        ];
        let catalog = self.catalogs.entry(name.to_owned()).or_default();
        for (property, value) in properties {
            catalog.properties.insert(property.to_owned(), toml::Value::String(value));
        }
        Ok(())
    }

    /// Registers the catalogs in a session. One that can't be had does not keep the others from
    /// being used; its error is among those that are returned.
    pub async fn register(&self, context: &SessionContext) -> Vec<Error> {
        let mut errors = Vec::new();
        for (name, catalog) in &self.catalogs {
            if name.is_empty() || context.catalog(name).is_some() {
                let message =
                    format!("`{name}` can't be the name of a catalog: the session has it for its own");
                errors.push(self.place(catalog, Error::invalid(message)));
                continue;
            }
            let opened = tokio::time::timeout(PATIENCE, catalog.open(name)).await.unwrap_or_else(|_| {
                let message = format!("it has not answered for {} seconds", PATIENCE.as_secs());
                Err(Error::new(icefloe::ErrorKind::Io, message).context(format!("catalog `{name}`")))
            });
            match opened {
                Ok(provider) => {
                    if let Err(e) = catalog.check_warehouse(&provider).await {
                        errors.push(self.place(catalog, e));
                    }
                    context.register_catalog(name, Arc::new(provider));
                }
                Err(e) => errors.push(self.place(catalog, e)),
            }
        }
        errors
    }

    /// Says of what is to be corrected in the configuration file that it is there.
    fn place(&self, catalog: &CatalogConfig, e: Error) -> Error {
        use icefloe::ErrorKind::{DataInvalid, NotFound, Unsupported};
        match &self.file {
            Some(file) if catalog.in_file && matches!(e.kind(), DataInvalid | NotFound | Unsupported) => {
                e.context(format!("configuration {}", file.display()))
            }
            _ => e,
        }
    }
}

fn user_file() -> Option<PathBuf> {
    Some(user_directory("XDG_CONFIG_HOME", ".config")?.join("icefloe.toml"))
}

/// The file of the lines that were typed.
pub fn history_file() -> Option<PathBuf> {
    Some(user_directory("XDG_DATA_HOME", ".local/share")?.join("history"))
}

/// Our directory in what `variable` names, or else in `default` in the user's home.
fn user_directory(variable: &str, default: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = match named {
        Some(path) => path,
        None if cfg!(windows) => PathBuf::from(std::env::var_os("APPDATA")?),
        None => PathBuf::from(std::env::var_os("HOME").filter(|h| !h.is_empty())?).join(default),
    };
    Some(base.join("icefloe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(config: &Config, catalog: &str) -> Vec<(String, String)> {
        config.catalogs[catalog].properties().unwrap().into_iter().collect()
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    const LAKE: &str = r#"
        [catalog.lake]
        type = "filesystem"
        warehouse = "/data"
        "s3.endpoint" = "http://localhost"
        [catalog.lake.s3]
        path-style-access = true
        retries = 3
        "#;

    #[test]
    fn catalogs_and_their_properties() {
        let config = Config::parse(LAKE).unwrap();
        let want = [
            ("s3.endpoint", "http://localhost"),
            ("s3.path-style-access", "true"),
            ("s3.retries", "3"),
            ("type", "filesystem"),
            ("warehouse", "/data"),
        ];
        assert_eq!(properties(&config, "lake"), pairs(&want));
        assert!(!format!("{config:?}").contains("/data"));
    }

    #[test]
    fn the_environment_goes_first() {
        let mut config = Config::parse(LAKE).unwrap();
        let errors = config.add_variables(pairs(&[
            ("ICEFLOE_CATALOG__LAKE__WAREHOUSE", "s3://b/wh"),
            ("ICEFLOE_CATALOG__LAKE__S3__PATH_STYLE_ACCESS", "false"),
            ("ICEFLOE_CATALOG__LAKE__S3__ACCESS_KEY_ID", "k"),
            ("ICEFLOE_CATALOG__MY_REST__URI", "http://localhost/"),
            ("ICEFLOE_CATALOG__MY_REST__HEADER__X_Y", "z"),
            ("ICEFLOE_CATALOG____URI", "x"),
            ("ICEFLOE_CATALOG__LAKE", "x"),
            ("ICEFLOE_CONFIG", "x"),
            ("PATH", "x"),
        ]));
        let want = [
            ("s3.access-key-id", "k"),
            ("s3.endpoint", "http://localhost"),
            ("s3.path-style-access", "false"),
            ("s3.retries", "3"),
            ("type", "filesystem"),
            ("warehouse", "s3://b/wh"),
        ];
        assert_eq!(properties(&config, "lake"), pairs(&want));
        let want = [("header.x-y", "z"), ("uri", "http://localhost/")];
        assert_eq!(properties(&config, "my_rest"), pairs(&want));
        assert_eq!(config.catalogs.len(), 2);
        for (e, variable) in errors.iter().zip(["`ICEFLOE_CATALOG____URI`", "`ICEFLOE_CATALOG__LAKE`"]) {
            assert!(e.to_string().contains(variable), "{e}");
        }
        assert_eq!(errors.len(), 2);
    }

    #[tokio::test]
    async fn errors_say_where() {
        for (text, want) in [
            ("\n\n[catalog", "line 3"),
            ("[catalogue.x]\ntype = 'hunter2'", "`catalogue`"),
            ("catalog = 'hunter2'", "key `catalog`"),
            ("[catalog]\nx = 'hunter2'", "key `catalog.x`"),
            ("[[catalog.x]]\ntoken = 'hunter2'", "key `catalog.x`"),
            ("[catalog.x]\ntoken = hunter2", "line 2"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(want) && !error.contains("hunter2"), "{error}");
        }
        for (text, want) in [
            ("[catalog.x]\nwarehouse = '/x'", "`type` is missing"),
            ("[catalog.x]\ntype = 'hive'", "catalog `x`: unsupported: a catalog of type `hive`"),
            ("[catalog.x]\ntype = 'filesystem'", "`warehouse`"),
            ("[catalog.x]\ntype = 'filesystem'\nwarehouse = '/x'\nwarehose = 1", "`warehose`"),
            (
                "[catalog.x]\ntype = 'memory'\nmax-staleness-ms = 'x'",
                "catalog `x`: invalid data: property `max-",
            ),
            ("[catalog.x]\ntype = 'memory'\na = 2020-01-01", "catalog `x`: property `a`"),
            ("[catalog.datafusion]\ntype = 'memory'", "`datafusion`"),
            ("[catalog.'']\ntype = 'memory'", "name"),
            ("[catalog.x]\ntype = 'hadoop'\nwarehouse = '/no/such/directory'", "`file:///no/such/directory`"),
        ] {
            let config = Config::parse(text).unwrap();
            let errors = config.register(&SessionContext::new()).await;
            let error = errors.first().unwrap().to_string();
            assert!(error.contains(want), "{error}");
        }
        let config = Config::parse("[catalog.x]\ntype = 'hive'\nlist = [1]").unwrap();
        let error = config.catalogs["x"].properties().unwrap_err().to_string();
        assert!(error.contains("property `list`"), "{error}");
    }

    #[tokio::test]
    async fn a_file_system_is_a_catalog() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("db")).unwrap();
        let text =
            format!("[catalog.lake]\ntype = 'filesystem'\nwarehouse = '{}'", directory.path().display());
        let context = SessionContext::new();
        assert!(Config::parse(&text).unwrap().register(&context).await.is_empty());
        assert_eq!(context.catalog("lake").unwrap().schema_names(), ["db"]);
    }

    #[tokio::test]
    async fn a_warehouse_is_a_catalog_that_stays() {
        let directory = tempfile::tempdir().unwrap();
        let warehouse = directory.path().join("w h/x");
        for namespaces in [&[][..], &["db"]] {
            let context = SessionContext::new();
            let mut config = Config::default();
            config.add_warehouse("ice", &warehouse).unwrap();
            assert!(config.register(&context).await.is_empty());
            assert_eq!(context.catalog("ice").unwrap().schema_names(), namespaces);
            if namespaces.is_empty() {
                context.sql("CREATE SCHEMA ice.db").await.unwrap();
            }
        }
        assert!(warehouse.join("catalog.db").is_file());
    }

    #[tokio::test]
    async fn what_is_wrong_in_a_file_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("c.toml");
        std::fs::write(&file, "[catalog.x]\ntype = 'hive'").unwrap();
        let mut config = Config::load(Some(&file)).unwrap();
        config.add_variables(pairs(&[("ICEFLOE_CATALOG__Y__TYPE", "hive")]));
        let errors = config.register(&SessionContext::new()).await;
        let named: Vec<bool> = errors.iter().map(|e| e.to_string().contains("c.toml")).collect();
        assert_eq!(named, [true, false]);
    }

    #[test]
    fn a_named_file_must_exist() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("c.toml");
        let error = Config::load(Some(&file)).unwrap_err();
        assert_eq!(error.kind(), icefloe::ErrorKind::NotFound);
        assert!(error.to_string().contains("c.toml"));
        std::fs::write(&file, "").unwrap();
        assert!(Config::load(Some(&file)).unwrap().catalogs.is_empty());
    }
}
