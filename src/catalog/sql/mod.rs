//! Catalogs in a database: the tables of Java's JdbcCatalog and PyIceberg's SqlCatalog, so that all
//! of them can share one.

mod database;
#[cfg(test)]
mod interchange_tests;
mod tables;
#[cfg(test)]
mod tests;
mod uri;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use async_trait::async_trait;

use self::database::{Database, Statement};
use self::tables::{SchemaVersion, Tables};
use self::uri::DatabaseUri;
use super::commit::{missing, taken};
use super::metastore::{EntryKind, Metastore, Swap, moved};
use super::placement::Placement;
use super::{Namespace, TableIdent, views};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::StorageProperties;
use crate::table::OpenOptions;

/// The property by which a namespace exists that has no other.
const EXISTS: &str = "exists";

/// A catalog in a SQLite, PostgreSQL or MySQL database, as Java's JdbcCatalog and PyIceberg's
/// SqlCatalog keep it.
///
/// A namespace's levels are joined with dots, so they can't have dots themselves. A namespace exists
/// if it has a property, or something is in it.
pub struct SqlCatalog {
    name: String,
    placement: Placement,
    database: Database,
    tables: Tables,
}

impl fmt::Debug for SqlCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlCatalog").field("name", &self.name).field("database", &self.database).finish()
    }
}

impl SqlCatalog {
    /// Opens the catalog `name` in a database; several catalogs may share one. Properties:
    ///
    /// * `uri`: `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://host/database`,
    ///   `mysql://host/database`, also as SQLAlchemy (`postgresql+psycopg2://`) and JDBC
    ///   (`jdbc:postgresql://`) spell them;
    /// * `warehouse`: where tables lie whose namespace has no `location`;
    /// * `jdbc.user`, `jdbc.password`;
    /// * `jdbc.schema-version`: `V1` (new databases get that) keeps views and updates a `V0` one;
    /// * `init_catalog_tables` or `jdbc.init-catalog-tables`: `false` to make no tables;
    /// * `table-default.…`, `table-override.…`, `unique-table-location`;
    /// * those of stores, such as `s3.endpoint`.
    ///
    /// # Errors
    /// `DataInvalid` for missing and malformed properties, `Io` if the database can't be reached.
    pub async fn connect(name: impl Into<String>, properties: BTreeMap<String, String>) -> Result<Self> {
        let stores = properties.iter().filter(|(name, _)| StorageProperties::is_known(name));
        let stores = stores.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self::connect_with(name, properties, OpenOptions::new().properties(stores)).await
    }

    /// As [`SqlCatalog::connect`], with tables that are opened with `options`.
    ///
    /// # Errors
    /// As [`SqlCatalog::connect`].
    pub async fn connect_with(
        name: impl Into<String>,
        properties: BTreeMap<String, String>,
        options: OpenOptions,
    ) -> Result<Self> {
        let name = name.into();
        let opened = Self::open(name.clone(), &properties, options).await;
        opened.map_err(|e| e.context(format!("catalog `{name}`")))
    }

    async fn open(name: String, properties: &BTreeMap<String, String>, options: OpenOptions) -> Result<Self> {
        let required = |property: &str| {
            let value = properties.get(property).filter(|value| !value.is_empty());
            value.ok_or_else(|| Error::invalid(format!("property `{property}` is missing")))
        };
        required("uri")?;
        let placement = Placement::new(required("warehouse")?, options)?.with_properties(properties)?;
        let init =
            flag(properties, &["init_catalog_tables", "init-catalog-tables", "jdbc.init-catalog-tables"])?
                .unwrap_or(true);
        let wanted = SchemaVersion::wanted(properties)?;
        let database = Database::connect(DatabaseUri::new(properties)?).await?;
        let tables = Tables::open(&database, &name, init, wanted).await?;
        Ok(Self { name, placement, database, tables })
    }

    /// The namespaces at and below one, as they are recorded; all, without one.
    async fn recorded(&self, namespace: Option<&str>) -> Result<BTreeSet<String>> {
        let rows = self.database.rows(self.tables.namespaces(namespace)).await?;
        let found = rows.into_iter().filter_map(|row| row.into_iter().next()?);
        // Some databases compare without regard to case.
        let prefix = namespace.map(|namespace| format!("{namespace}."));
        Ok(found
            .filter(|text| match (namespace, &prefix) {
                (Some(namespace), Some(prefix)) => text == namespace || text.starts_with(prefix),
                _ => true,
            })
            .collect())
    }

    async fn properties(&self, namespace: &str) -> Result<BTreeMap<String, String>> {
        let rows = self.database.rows(self.tables.properties(namespace)).await?;
        let mut properties = BTreeMap::new();
        for row in rows {
            if let [Some(of), Some(key), value] = row.as_slice()
                && of == namespace
            {
                properties.insert(key.clone(), value.clone().unwrap_or_default());
            }
        }
        properties.remove(EXISTS);
        Ok(properties)
    }

    /// Whether all that was to be swapped has been: the answer may have been lost on its way.
    async fn happened(&self, swaps: &[Swap]) -> Result<bool> {
        for swap in swaps {
            let rows = self.database.rows(self.tables.pointer(&swap.ident, swap.kind)?).await?;
            let here = rows.iter().any(|row| {
                // It may have been replaced since.
                matches!(row.as_slice(), [_, _, now, previous]
                    if [now, previous].contains(&&Some(swap.new.clone())))
            });
            if !here || swap.expected.as_ref() == Some(&swap.new) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn flag(properties: &BTreeMap<String, String>, names: &[&str]) -> Result<Option<bool>> {
    let Some((name, value)) = names.iter().find_map(|name| Some((name, properties.get(*name)?))) else {
        return Ok(None);
    };
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(Some(true)),
        "false" | "0" | "no" | "off" => Ok(Some(false)),
        _ => Err(Error::invalid("expected true or false").context(format!("property `{name}`"))),
    }
}

/// A namespace as it is recorded.
fn text_of(namespace: &Namespace) -> Result<String> {
    match namespace.levels().iter().find(|level| level.contains('.')) {
        Some(level) => Err(Error::invalid(format!(
            "namespace `{namespace}`: `{level}` has a dot, which can't be told from a level in a SQL catalog"
        ))),
        None => Ok(namespace.levels().join(".")),
    }
}

fn reserved(property: &str) -> Result<()> {
    match property {
        EXISTS => Err(Error::invalid(format!("the property `{EXISTS}` of namespaces is reserved"))),
        _ => Ok(()),
    }
}

#[async_trait]
impl Metastore for SqlCatalog {
    fn name(&self) -> &str {
        &self.name
    }

    fn placement(&self) -> &Placement {
        &self.placement
    }

    fn check_views(&self) -> Result<()> {
        self.tables.check_views()
    }

    async fn child_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
        let above = parent.map(text_of).transpose()?;
        let depth = parent.map_or(0, |parent| parent.levels().len());
        let recorded = self.recorded(above.as_deref()).await?;
        let below = recorded.iter().filter_map(|text| {
            let levels: Vec<&str> = text.split('.').collect();
            // What other tools recorded with an empty level can't be addressed.
            Namespace::new(levels.get(..=depth)?.iter().copied()).ok()
        });
        Ok(below.collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn namespace(&self, namespace: &Namespace) -> Result<Option<BTreeMap<String, String>>> {
        let Ok(text) = text_of(namespace) else { return Ok(None) };
        if self.recorded(Some(&text)).await?.is_empty() {
            return Ok(None);
        }
        self.properties(&text).await.map(Some)
    }

    async fn add_namespace(&self, namespace: &Namespace, properties: BTreeMap<String, String>) -> Result<()> {
        let text = text_of(namespace)?;
        properties.keys().try_for_each(|name| reserved(name))?;
        let exists =
            || Error::new(ErrorKind::AlreadyExists, format!("there is a namespace `{namespace}` already"));
        if !self.recorded(Some(&text)).await?.is_empty() {
            return Err(exists());
        }
        let mut rows = vec![(self.tables.add_property(&text, EXISTS, "true"), true)];
        rows.extend(properties.iter().map(|(k, v)| (self.tables.add_property(&text, k, v), true)));
        match self.database.change_all(rows).await {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(exists()),
            changed => changed.map(drop).map_err(not_a_commit),
        }
    }

    async fn change_namespace(
        &self,
        namespace: &Namespace,
        set: BTreeMap<String, String>,
        remove: Vec<String>,
    ) -> Result<()> {
        let text = text_of(namespace)?;
        set.keys().chain(&remove).try_for_each(|name| reserved(name))?;
        // PyIceberg may have made it without this; it must exist when all others are gone.
        let set = set.into_iter().chain([(EXISTS.to_owned(), "true".to_owned())]);
        let mut statements: Vec<(Statement, bool)> =
            remove.iter().map(|name| (self.tables.remove_property(&text, name), false)).collect();
        for (name, value) in set {
            statements.push((self.tables.remove_property(&text, &name), false));
            statements.push((self.tables.add_property(&text, &name, &value), true));
        }
        self.database.change_all(statements).await.map(drop).map_err(not_a_commit)
    }

    async fn remove_namespace(&self, namespace: &Namespace) -> Result<()> {
        let text = text_of(namespace)?;
        let below = self.recorded(Some(&text)).await?.iter().any(|found| *found != text);
        let rows = self.database.rows(self.tables.entries(&text)).await?;
        if below || rows.iter().any(|row| row.first() == Some(&Some(text.clone()))) {
            let message = format!("namespace `{namespace}` is not empty");
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
        self.database.change(self.tables.remove_properties(&text)).await.map(drop).map_err(not_a_commit)
    }

    async fn names(&self, namespace: &Namespace, kind: EntryKind) -> Result<Vec<String>> {
        let text = text_of(namespace)?;
        let rows = self.database.rows(self.tables.entries_of(&text, kind)).await?;
        let names = rows.into_iter().filter_map(|row| match row.as_slice() {
            [Some(of), Some(name)] if *of == text => Some(name.clone()),
            _ => None,
        });
        // Databases sort by collations of their own.
        Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn pointer(&self, ident: &TableIdent, kind: EntryKind) -> Result<Option<String>> {
        let Ok(namespace) = text_of(ident.namespace()) else { return Ok(None) };
        let rows = self.database.rows(self.tables.pointer(ident, kind)?).await?;
        Ok(rows.into_iter().find_map(|row| match <[_; 4]>::try_from(row) {
            Ok([Some(of), Some(name), location, _]) if of == namespace && name == ident.name() => location,
            _ => None,
        }))
    }

    async fn swap(&self, mut swaps: Vec<Swap>) -> Result<()> {
        // In one order for all writers, so that none waits for another that waits for it.
        swaps.sort_by(|a, b| a.ident.cmp(&b.ident));
        let statements: Result<Vec<_>> = swaps.iter().map(|swap| self.tables.swap(swap)).collect();
        let mut statements = statements?;
        let swapped = match statements.len() {
            0 => return Ok(()),
            1 => match statements.pop() {
                Some(only) => self.database.change(only).await.map(|rows| (rows != 1).then_some(0)),
                None => return Ok(()),
            },
            _ => self.database.change_all(statements.into_iter().map(|s| (s, true)).collect()).await,
        };
        let conflict = |swap: &Swap| match swap.expected {
            None => taken(&swap.ident),
            Some(_) => moved(&swap.ident),
        };
        match swapped {
            Ok(None) => Ok(()),
            Ok(Some(failed)) => Err(match swaps.get(failed) {
                Some(swap) => conflict(swap),
                None => Error::new(ErrorKind::CommitConflict, "somebody else committed meanwhile"),
            }),
            // Only what is created can be there already.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let created = swaps.iter().find(|swap| swap.expected.is_none());
                Err(created.map_or(e, |swap| taken(&swap.ident)))
            }
            Err(e) if e.kind() == ErrorKind::CommitStateUnknown => match self.happened(&swaps).await {
                Ok(true) => Ok(()),
                _ => Err(e),
            },
            Err(e) => Err(e),
        }
    }

    async fn rename(&self, from: &TableIdent, to: &TableIdent, kind: EntryKind) -> Result<()> {
        match self.database.change(self.tables.rename(from, to, kind)?).await {
            Ok(0) => Err(match kind {
                EntryKind::Table => missing(from),
                EntryKind::View => views::missing(from),
            }),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(taken(to)),
            Err(e) => Err(not_a_commit(e)),
        }
    }

    async fn remove(&self, ident: &TableIdent, kind: EntryKind) -> Result<bool> {
        let removed = self.database.change(self.tables.remove(ident, kind)?).await;
        removed.map(|rows| rows > 0).map_err(not_a_commit)
    }
}

/// What is no commit has no commit's state.
fn not_a_commit(e: Error) -> Error {
    match e.kind() {
        ErrorKind::CommitStateUnknown | ErrorKind::CommitConflict => {
            Error::new(ErrorKind::Io, e.message().to_owned()).with_source(e)
        }
        _ => e,
    }
}
