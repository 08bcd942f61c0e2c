//! Catalogs by their properties, with the names that Java and PyIceberg have for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Catalog, FilesystemCatalog, MemoryCatalog};
use crate::error::{Error, Result};
use crate::storage::StorageProperties;
use crate::table::OpenOptions;

/// Properties that other engines have and that change nothing here.
const OF_OTHERS: &[&str] = &[
    "type",
    "catalog-impl",
    "py-catalog-impl",
    "io-impl",
    "py-io-impl",
    "cache-enabled",
    "cache.case-sensitive",
    "cache.expiration-interval-ms",
    "clients",
    "default-namespace",
    "downcast-ns-timestamp-to-us-on-write",
    "echo",
    "lock-impl",
    "metrics-reporter-impl",
    "pool_pre_ping",
];

/// The kinds of catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rest,
    Sql,
    Filesystem,
    Memory,
}

impl Kind {
    /// What `type`, `catalog-impl` or else `uri` says.
    fn of(properties: &BTreeMap<String, String>) -> Result<Self> {
        let get =
            |name: &str| properties.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        if let Some(name) = get("type") {
            return match name.to_ascii_lowercase().as_str() {
                "rest" => Ok(Self::Rest),
                "sql" | "jdbc" => Ok(Self::Sql),
                "filesystem" | "hadoop" => Ok(Self::Filesystem),
                "memory" | "in-memory" => Ok(Self::Memory),
                other => Err(Error::unsupported(format!(
                    "a catalog of type `{other}`; there are rest, sql (jdbc), filesystem (hadoop) and memory"
                ))),
            };
        }
        if let Some(class) = get("catalog-impl").or_else(|| get("py-catalog-impl")) {
            return match class {
                "org.apache.iceberg.rest.RESTCatalog" | "pyiceberg.catalog.rest.RestCatalog" => {
                    Ok(Self::Rest)
                }
                "org.apache.iceberg.jdbc.JdbcCatalog" | "pyiceberg.catalog.sql.SqlCatalog" => Ok(Self::Sql),
                "org.apache.iceberg.hadoop.HadoopCatalog" => Ok(Self::Filesystem),
                "org.apache.iceberg.inmemory.InMemoryCatalog"
                | "pyiceberg.catalog.memory.InMemoryCatalog" => Ok(Self::Memory),
                other => {
                    Err(Error::unsupported(format!("the catalog `{other}`; say by `type` what it is like")))
                }
            };
        }
        let missing = "property `type` is missing: rest, sql, filesystem or memory";
        let Some(uri) = get("uri") else { return Err(Error::invalid(missing)) };
        let scheme = uri.split(':').next().unwrap_or_default().split('+').next().unwrap_or_default();
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Ok(Self::Rest),
            "sqlite" | "postgresql" | "postgres" | "mysql" | "mariadb" | "jdbc" => Ok(Self::Sql),
            _ => Err(Error::invalid(missing)),
        }
    }
}

/// Builds a catalog from its properties.
///
/// ```
/// # async fn example() -> icefloe::Result<()> {
/// use icefloe::catalog::CatalogBuilder;
///
/// let catalog = CatalogBuilder::new("ice")
///     .property("type", "sql")
///     .property("uri", "sqlite:///catalog.db")
///     .property("warehouse", "s3://bucket/warehouse")
///     .build()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CatalogBuilder {
    name: String,
    properties: BTreeMap<String, String>,
    options: Option<OpenOptions>,
}

impl fmt::Debug for CatalogBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Their values may be secrets.
        let names: Vec<&String> = self.properties.keys().collect();
        f.debug_struct("CatalogBuilder").field("name", &self.name).field("properties", &names).finish()
    }
}

impl CatalogBuilder {
    /// A catalog that is called `name` in errors and in SQL.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), properties: BTreeMap::new(), options: None }
    }

    /// Adds a property, replacing an earlier one of that name:
    ///
    /// * `type`: `rest`, `sql` (or `jdbc`), `filesystem` (or `hadoop`), `memory`; or a class that is
    ///   known of Java or PyIceberg as `catalog-impl`; without both, `uri` decides;
    /// * `uri`: of the server or database;
    /// * `warehouse`: where tables lie, or which warehouse of the server it is;
    /// * `table-default.…`, `table-override.…`: properties of new tables;
    /// * `allow_moved_paths`: `true` to read a directory of tables that were copied (filesystem);
    /// * those of stores, such as `s3.endpoint`, and those that
    ///   [`SqlCatalog`](super::SqlCatalog) and the REST catalog have of their own.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Adds several properties.
    pub fn properties<K: Into<String>, V: Into<String>>(
        mut self,
        properties: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.properties.extend(properties.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// How tables are opened: a storage or a cache to share. Without it, the properties of stores
    /// decide, and what a REST catalog's server says.
    pub fn open_options(mut self, options: OpenOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Opens the catalog.
    ///
    /// # Errors
    /// `DataInvalid` for missing, unknown and malformed properties, `Unsupported` for a kind of
    /// catalog that there is not; `Io` if it can't be reached.
    pub async fn build(self) -> Result<Arc<dyn Catalog>> {
        let name = self.name.clone();
        let place = || format!("catalog `{name}`");
        match Kind::of(&self.properties).map_err(|e| e.context(place()))? {
            Kind::Filesystem => self.filesystem().map_err(|e| e.context(place())),
            Kind::Memory => self.memory().map_err(|e| e.context(place())),
            Kind::Sql => self.sql().await,
            Kind::Rest => self.rest().await,
        }
    }

    fn filesystem(self) -> Result<Arc<dyn Catalog>> {
        self.check_known(&["warehouse", "allow_moved_paths", "allow-moved-paths"])?;
        let Some(warehouse) = self.properties.get("warehouse").filter(|w| !w.is_empty()) else {
            return Err(Error::invalid("property `warehouse`, a directory or a URL, is missing"));
        };
        let moved =
            ["allow_moved_paths", "allow-moved-paths"].iter().find_map(|name| self.properties.get(*name));
        let moved = match moved.map(String::as_str) {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                return Err(Error::invalid(format!(
                    "property `allow_moved_paths` is true or false, not `{other}`"
                )));
            }
        };
        let options = self.options().allow_moved_paths(moved);
        let catalog = FilesystemCatalog::new(self.name.as_str(), warehouse, options)?;
        Ok(Arc::new(catalog.with_properties(&self.properties)))
    }

    fn memory(self) -> Result<Arc<dyn Catalog>> {
        self.check_known(&["warehouse", "unique-table-location"])?;
        let warehouse = self.properties.get("warehouse").map_or("memory:///warehouse", String::as_str);
        let catalog = MemoryCatalog::with_warehouse(self.name.as_str(), warehouse, self.options())?;
        Ok(Arc::new(catalog.with_properties(&self.properties)?))
    }

    #[cfg(feature = "catalog-sql")]
    async fn sql(self) -> Result<Arc<dyn Catalog>> {
        const OWN: &[&str] = &[
            "uri",
            "warehouse",
            "init_catalog_tables",
            "init-catalog-tables",
            "schema_version",
            "schema-version",
            "unique-table-location",
        ];
        self.check_known(OWN).map_err(|e| e.context(format!("catalog `{}`", self.name)))?;
        let options = self.options();
        Ok(Arc::new(super::SqlCatalog::connect_with(self.name, self.properties, options).await?))
    }

    #[cfg(not(feature = "catalog-sql"))]
    async fn sql(self) -> Result<Arc<dyn Catalog>> {
        Err(Error::unsupported(
            "this build of icefloe has no SQL catalogs; turn on its Cargo feature `catalog-sql`",
        ))
    }

    #[cfg(feature = "catalog-rest")]
    async fn rest(self) -> Result<Arc<dyn Catalog>> {
        // Servers and the layers before them have properties that nobody here knows of.
        let connected = match self.options {
            Some(options) => super::RestCatalog::connect_with(&self.name, self.properties, options).await,
            None => super::RestCatalog::connect(&self.name, self.properties).await,
        };
        Ok(Arc::new(connected?))
    }

    #[cfg(not(feature = "catalog-rest"))]
    async fn rest(self) -> Result<Arc<dyn Catalog>> {
        Err(Error::unsupported(
            "this build of icefloe has no REST catalogs; turn on its Cargo feature `catalog-rest`",
        ))
    }

    fn options(&self) -> OpenOptions {
        if let Some(options) = &self.options {
            return options.clone();
        }
        let stores = self.properties.iter().filter(|(name, _)| StorageProperties::is_known(name));
        OpenOptions::new().properties(stores.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// A property that nobody knows is a misspelled one.
    fn check_known(&self, own: &[&str]) -> Result<()> {
        let known = |name: &str| {
            own.contains(&name)
                || OF_OTHERS.contains(&name)
                || StorageProperties::is_known(name)
                || ["table-default.", "table-override.", "jdbc.", "lock."].iter().any(|p| name.starts_with(p))
        };
        match self.properties.keys().find(|name| !known(name)) {
            None => Ok(()),
            Some(unknown) => Err(Error::invalid(format!(
                "unknown property `{unknown}`; there are {}, table-default.…, table-override.… and the properties \
                 of stores, such as s3.endpoint",
                own.join(", ")
            ))),
        }
    }
}

/// Opens the catalog `name` by its properties, which [`CatalogBuilder::property`] lists.
///
/// # Errors
/// As [`CatalogBuilder::build`].
pub async fn load_catalog<K: Into<String>, V: Into<String>>(
    name: impl Into<String>,
    properties: impl IntoIterator<Item = (K, V)>,
) -> Result<Arc<dyn Catalog>> {
    let properties = properties.into_iter().map(|(name, value)| (name.into(), value.into()));
    CatalogBuilder::new(name).properties(properties).build().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn builder(list: &[(&str, &str)]) -> CatalogBuilder {
        CatalogBuilder::new("c").properties(list.iter().copied())
    }

    #[test]
    fn kinds() {
        for (list, kind) in [
            (&[("type", "rest")][..], Kind::Rest),
            (&[("type", "JDBC"), ("uri", "http://x")], Kind::Sql),
            (&[("type", "hadoop")], Kind::Filesystem),
            (&[("type", "in-memory")], Kind::Memory),
            (&[("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog")], Kind::Sql),
            (&[("uri", "https://x")], Kind::Rest),
            (&[("uri", "postgresql+psycopg2://x")], Kind::Sql),
            (&[("uri", "jdbc:mysql://x")], Kind::Sql),
        ] {
            assert_eq!(Kind::of(&builder(list).properties).unwrap(), kind, "{list:?}");
        }
        for (list, said) in [
            (&[][..], "`type` is missing"),
            (&[("uri", "thrift://x")], "`type` is missing"),
            (&[("type", "hive")], "`hive`"),
            (&[("catalog-impl", "x.Y")], "`x.Y`"),
        ] {
            let e = Kind::of(&builder(list).properties).unwrap_err();
            assert!(e.to_string().contains(said), "{e}");
        }
    }

    #[tokio::test]
    async fn catalogs_are_built() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let uri = format!("sqlite:///{path}/c.db");
        for list in [
            &[("type", "memory")][..],
            &[("type", "filesystem"), ("warehouse", path.as_str()), ("table-default.a", "b")],
            #[cfg(feature = "catalog-sql")]
            &[("uri", uri.as_str()), ("warehouse", path.as_str()), ("s3.region", "x"), ("jdbc.user", "u")],
        ] {
            let catalog = builder(list).build().await.unwrap();
            assert_eq!(catalog.name(), "c");
            catalog.list_namespaces(None).await.unwrap();
        }
    }

    #[tokio::test]
    async fn unknown_properties_are_named() {
        for kind in ["filesystem", "memory", "sql"] {
            let e = builder(&[("type", kind), ("warehose", "/x")]).build().await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::DataInvalid);
            assert!(e.to_string().contains("catalog `c`") && e.to_string().contains("`warehose`"), "{e}");
        }
        assert!(!format!("{:?}", builder(&[("s3.secret-access-key", "hunter2")])).contains("hunter2"));
    }
}
