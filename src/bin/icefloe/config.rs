//! The configuration file: which catalogs there are.
//!
//! ```toml
//! [catalog.lake]
//! type = "filesystem"
//! warehouse = "s3://bucket/warehouse"
//! ```

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use icefloe::catalog::FilesystemCatalog;
use icefloe::provider::IcebergCatalogProvider;
use icefloe::storage::StorageProperties;
use icefloe::table::OpenOptions;
use icefloe::{Error, Result, ResultExt};
use serde::Deserialize;

/// A configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Catalogs by the name that SQL uses.
    #[serde(default, rename = "catalog")]
    pub catalogs: BTreeMap<String, CatalogConfig>,
}

/// One `[catalog.NAME]`.
#[derive(Debug, Deserialize)]
pub struct CatalogConfig {
    /// What kind of catalog it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// Everything else.
    #[serde(flatten)]
    pub properties: BTreeMap<String, toml::Value>,
}

impl CatalogConfig {
    async fn open(&self, name: &str) -> Result<IcebergCatalogProvider> {
        let mut properties = self.properties()?;
        match self.kind.as_str() {
            "filesystem" | "hadoop" => {
                let warehouse = properties.remove("warehouse").ok_or_else(|| {
                    Error::invalid("property `warehouse`, a directory or a URL, is missing")
                })?;
                let moved = match properties.remove("allow_moved_paths").as_deref() {
                    None | Some("false") => false,
                    Some("true") => true,
                    Some(other) => {
                        return Err(Error::invalid(format!(
                            "property `allow_moved_paths` is true or false, not `{other}`"
                        )));
                    }
                };
                if let Some(unknown) = properties.keys().find(|key| !StorageProperties::is_known(key)) {
                    return Err(Error::invalid(format!(
                        "unknown property `{unknown}`; there are warehouse, allow_moved_paths and the \
                         properties of stores, such as s3.endpoint"
                    )));
                }
                let options = OpenOptions::new()
                    .allow_moved_paths(moved)
                    .properties(StorageProperties::from_iter(properties));
                let catalog = FilesystemCatalog::new(name, &warehouse, options)?;
                IcebergCatalogProvider::try_new(Arc::new(catalog)).await
            }
            other => Err(Error::unsupported(format!("a catalog of type `{other}`; there is `filesystem`"))),
        }
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
            Ok(text) => Self::parse(&text).map_err(place),
            Err(e) if e.kind() == ErrorKind::NotFound && !must_exist => Ok(Self::default()),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(place(Error::not_found("no such file"))),
            Err(e) => Err(place(Error::new(icefloe::ErrorKind::Io, "it can't be read").with_source(e))),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|e| {
            let line = e.span().map(|s| text.get(..s.start).unwrap_or_default().matches('\n').count() + 1);
            let place = line.map(|l| format!("line {l}: ")).unwrap_or_default();
            Error::invalid(format!("{place}{}", e.message()))
        })
    }

    /// Registers the catalogs in a session.
    pub async fn register(&self, context: &SessionContext) -> Result<()> {
        for (name, catalog) in &self.catalogs {
            let provider = catalog.open(name).await.context(|| format!("catalog `{name}`"))?;
            context.register_catalog(name, Arc::new(provider));
        }
        Ok(())
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

    #[test]
    fn catalogs_and_their_properties() {
        let config = Config::parse(
            r#"
            [catalog.lake]
            type = "filesystem"
            warehouse = "/data"
            "s3.endpoint" = "http://localhost"
            [catalog.lake.s3]
            path-style-access = true
            retries = 3
            "#,
        )
        .unwrap();
        let lake = &config.catalogs["lake"];
        assert_eq!(lake.kind, "filesystem");
        let properties: Vec<_> = lake.properties().unwrap().into_iter().collect();
        let want = [
            ("s3.endpoint", "http://localhost"),
            ("s3.path-style-access", "true"),
            ("s3.retries", "3"),
            ("warehouse", "/data"),
        ];
        assert_eq!(properties, want.map(|(k, v)| (k.to_string(), v.to_string())));
    }

    #[tokio::test]
    async fn errors_say_where() {
        for (text, want) in [
            ("\n[catalog.x]\nwarehouse = 1", "missing field `type`"),
            ("\n\n[catalog", "line 3"),
            ("[catalogue.x]\ntype = 'a'", "catalogue"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        let config = Config::parse("[catalog.x]\ntype = 'hive'").unwrap();
        let error = config.register(&SessionContext::new()).await.unwrap_err();
        assert!(error.to_string().contains("catalog `x`: unsupported: a catalog of type `hive`"), "{error}");
        let config = Config::parse("[catalog.x]\ntype = 'hive'\nlist = [1]").unwrap();
        let error = config.catalogs["x"].properties().unwrap_err().to_string();
        assert!(error.contains("property `list`"), "{error}");
    }

    #[tokio::test]
    async fn a_file_system_is_a_catalog() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("db")).unwrap();
        let lake = CatalogConfig { kind: "filesystem".into(), properties: BTreeMap::new() };
        assert!(lake.open("lake").await.unwrap_err().to_string().contains("`warehouse`"));
        let warehouse = toml::Value::String(directory.path().to_string_lossy().into_owned());
        let lake = CatalogConfig { properties: [("warehouse".to_string(), warehouse)].into(), ..lake };
        let context = SessionContext::new();
        Config { catalogs: [("lake".to_string(), lake)].into() }.register(&context).await.unwrap();
        assert_eq!(context.catalog("lake").unwrap().schema_names(), ["db"]);
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
