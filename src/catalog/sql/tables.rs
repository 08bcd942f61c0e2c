//! The tables of a SQL catalog, and the statements on them (Java's JdbcCatalog, versions 0 and 1).

use std::collections::BTreeMap;

use super::database::{Database, Statement};
use super::uri::Dialect;
use super::{not_a_commit, text_of};
use crate::catalog::TableIdent;
use crate::catalog::metastore::{EntryKind, Swap};
use crate::error::{Error, Result};

/// Reads no rows, and works if the tables are there.
const PROBE_TABLES: &str = "SELECT table_name FROM iceberg_tables WHERE 1 = 0";
const PROBE_PROPERTIES: &str = "SELECT property_key FROM iceberg_namespace_properties WHERE 1 = 0";
const PROBE_TYPE: &str = "SELECT iceberg_type FROM iceberg_tables WHERE 1 = 0";

const COLUMNS: &str = "catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, \
    table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000)";
const TYPE_COLUMN: &str = "iceberg_type VARCHAR(5)";
const KEY: &str = "PRIMARY KEY (catalog_name, table_namespace, table_name)";
const PROPERTY_TABLE: &str = "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, \
    namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000), \
    PRIMARY KEY (catalog_name, namespace, property_key))";

/// Which columns `iceberg_tables` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaVersion {
    /// Tables only.
    V0,
    /// `iceberg_type` tells tables and views apart; tables of older tools have none.
    V1,
}

impl SchemaVersion {
    /// What the catalog's properties ask for.
    pub(super) fn wanted(properties: &BTreeMap<String, String>) -> Result<Option<Self>> {
        // Java's name, and PyIceberg's.
        let names = ["jdbc.schema-version", "schema_version", "schema-version"];
        let Some((name, value)) = names.iter().find_map(|name| Some((name, properties.get(*name)?))) else {
            return Ok(None);
        };
        match value.to_ascii_uppercase().as_str() {
            "V0" => Ok(Some(Self::V0)),
            "V1" => Ok(Some(Self::V1)),
            _ => Err(Error::invalid(format!("`{value}` is neither V0 nor V1"))
                .context(format!("property `{name}`"))),
        }
    }
}

/// What the tables of one catalog are asked.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    catalog: String,
    version: SchemaVersion,
    dialect: Dialect,
}

impl Tables {
    /// Finds out what tables there are; makes them if there are none and `init` says so.
    pub(super) async fn open(
        database: &Database,
        catalog: &str,
        init: bool,
        wanted: Option<SchemaVersion>,
    ) -> Result<Self> {
        if init {
            let new = match wanted {
                Some(SchemaVersion::V0) => format!("CREATE TABLE iceberg_tables ({COLUMNS}, {KEY})"),
                _ => format!("CREATE TABLE iceberg_tables ({COLUMNS}, {TYPE_COLUMN}, {KEY})"),
            };
            create(database, PROBE_TABLES, new).await?;
            create(database, PROBE_PROPERTIES, PROPERTY_TABLE.to_owned()).await?;
        } else if !database.understands(PROBE_TABLES).await?
            || !database.understands(PROBE_PROPERTIES).await?
        {
            return Err(Error::not_found(
                "the database has no tables `iceberg_tables` and `iceberg_namespace_properties`, and \
                 `init_catalog_tables` says to make none",
            ));
        }
        let version = match (database.understands(PROBE_TYPE).await?, wanted) {
            (true, _) => SchemaVersion::V1,
            (false, Some(SchemaVersion::V1)) => {
                let add = format!("ALTER TABLE iceberg_tables ADD COLUMN {TYPE_COLUMN}");
                let added = database.change(Statement::new(add, &[])).await;
                // Somebody may have been faster.
                if let Err(e) = added
                    && !database.understands(PROBE_TYPE).await?
                {
                    return Err(not_a_commit(e));
                }
                SchemaVersion::V1
            }
            (false, _) => SchemaVersion::V0,
        };
        Ok(Self { catalog: catalog.to_owned(), version, dialect: database.dialect() })
    }

    pub(super) fn check_views(&self) -> Result<()> {
        match self.version {
            SchemaVersion::V1 => Ok(()),
            SchemaVersion::V0 => Err(Error::unsupported(
                "the tables of the database are of version V0, which has no views; the property \
                 `jdbc.schema-version` = V1 updates them",
            )),
        }
    }

    /// What a row must be to be of that kind.
    fn kind(&self, kind: EntryKind) -> &'static str {
        match (self.version, kind) {
            (SchemaVersion::V0, EntryKind::Table) => "",
            (SchemaVersion::V0, EntryKind::View) => " AND 1 = 0",
            (SchemaVersion::V1, EntryKind::Table) => " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)",
            (SchemaVersion::V1, EntryKind::View) => " AND iceberg_type = 'VIEW'",
        }
    }

    /// One row: namespace, name, location, previous location.
    pub(super) fn pointer(&self, ident: &TableIdent, kind: EntryKind) -> Result<Statement> {
        let sql = format!(
            "SELECT table_namespace, table_name, metadata_location, previous_metadata_location \
             FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?{}",
            self.kind(kind)
        );
        Ok(Statement::new(sql, &[&self.catalog, &text_of(ident.namespace())?, ident.name()]))
    }

    /// Changes one row if all is as expected.
    pub(super) fn swap(&self, swap: &Swap) -> Result<Statement> {
        let (namespace, name) = (text_of(swap.ident.namespace())?, swap.ident.name());
        let here =
            "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?";
        let kind = self.kind(swap.kind);
        Ok(match &swap.expected {
            None => {
                let (column, value) = match (self.version, swap.kind) {
                    (SchemaVersion::V0, _) => ("", ""),
                    (SchemaVersion::V1, EntryKind::Table) => (", iceberg_type", ", 'TABLE'"),
                    (SchemaVersion::V1, EntryKind::View) => (", iceberg_type", ", 'VIEW'"),
                };
                let sql = format!(
                    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, \
                     previous_metadata_location{column}) VALUES (?, ?, ?, ?, NULL{value})"
                );
                Statement::new(sql, &[&self.catalog, &namespace, name, &swap.new])
            }
            Some(expected) if *expected == swap.new => {
                let sql = format!("UPDATE iceberg_tables SET metadata_location = ? {here}{kind}");
                Statement::new(sql, &[&swap.new, &self.catalog, &namespace, name, expected])
            }
            Some(expected) => {
                let sql = format!(
                    "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? {here}{kind}"
                );
                Statement::new(sql, &[&swap.new, expected, &self.catalog, &namespace, name, expected])
            }
        })
    }

    pub(super) fn rename(&self, from: &TableIdent, to: &TableIdent, kind: EntryKind) -> Result<Statement> {
        let sql = format!(
            "UPDATE iceberg_tables SET table_namespace = ?, table_name = ? \
             WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?{}",
            self.kind(kind)
        );
        let (new, old) = (text_of(to.namespace())?, text_of(from.namespace())?);
        Ok(Statement::new(sql, &[&new, to.name(), &self.catalog, &old, from.name()]))
    }

    pub(super) fn remove(&self, ident: &TableIdent, kind: EntryKind) -> Result<Statement> {
        let sql = format!(
            "DELETE FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?{}",
            self.kind(kind)
        );
        Ok(Statement::new(sql, &[&self.catalog, &text_of(ident.namespace())?, ident.name()]))
    }

    /// Namespace and name of all that is directly in a namespace.
    pub(super) fn entries(&self, namespace: &str) -> Statement {
        let sql = "SELECT table_namespace, table_name FROM iceberg_tables \
                   WHERE catalog_name = ? AND table_namespace = ?";
        Statement::new(sql, &[&self.catalog, namespace])
    }

    /// Namespace and name of all of a kind that is directly in a namespace.
    pub(super) fn entries_of(&self, namespace: &str, kind: EntryKind) -> Statement {
        let mut statement = self.entries(namespace);
        statement.sql.push_str(self.kind(kind));
        statement
    }

    /// The namespaces at and below one, or all, and perhaps others that are spelled alike.
    pub(super) fn namespaces(&self, namespace: Option<&str>) -> Statement {
        let Some(namespace) = namespace else {
            let sql = "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ? \
                       UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?";
            return Statement::new(sql, &[&self.catalog, &self.catalog]);
        };
        // MariaDB looks for a pattern in an index as if the text after it began with none of the
        // characters below the space or beyond the first 65536, and so misses some.
        let whole = |column: &str| match self.dialect {
            Dialect::MySql => format!("CONCAT({column}, '')"),
            Dialect::Sqlite | Dialect::Postgres => column.to_owned(),
        };
        let sql = format!(
            "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ? \
             AND (table_namespace = ? OR {} LIKE ? ESCAPE '!') \
             UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ? \
             AND (namespace = ? OR {} LIKE ? ESCAPE '!')",
            whole("table_namespace"),
            whole("namespace"),
        );
        let mut below = String::new();
        for c in namespace.chars() {
            if matches!(c, '!' | '%' | '_') {
                below.push('!');
            }
            below.push(c);
        }
        below.push_str(".%");
        Statement::new(sql, &[&self.catalog, namespace, &below, &self.catalog, namespace, &below])
    }

    /// Namespace, key and value of a namespace's properties.
    pub(super) fn properties(&self, namespace: &str) -> Statement {
        let sql = "SELECT namespace, property_key, property_value FROM iceberg_namespace_properties \
                   WHERE catalog_name = ? AND namespace = ?";
        Statement::new(sql, &[&self.catalog, namespace])
    }

    pub(super) fn add_property(&self, namespace: &str, key: &str, value: &str) -> Statement {
        let sql = "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value) \
                   VALUES (?, ?, ?, ?)";
        Statement::new(sql, &[&self.catalog, namespace, key, value])
    }

    pub(super) fn remove_property(&self, namespace: &str, key: &str) -> Statement {
        let sql = "DELETE FROM iceberg_namespace_properties \
                   WHERE catalog_name = ? AND namespace = ? AND property_key = ?";
        Statement::new(sql, &[&self.catalog, namespace, key])
    }

    pub(super) fn remove_properties(&self, namespace: &str) -> Statement {
        let sql = "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?";
        Statement::new(sql, &[&self.catalog, namespace])
    }
}

/// Creates a table unless it is there.
async fn create(database: &Database, probe: &'static str, mut sql: String) -> Result<()> {
    if database.understands(probe).await? {
        return Ok(());
    }
    if database.dialect() == Dialect::MySql {
        // Otherwise names that differ in case only would be the same.
        sql.push_str(" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin");
    }
    match database.change(Statement::new(sql, &[])).await {
        Ok(_) => Ok(()),
        // Somebody may have been faster.
        Err(e) => match database.understands(probe).await? {
            true => Ok(()),
            false => Err(not_a_commit(e)),
        },
    }
}
