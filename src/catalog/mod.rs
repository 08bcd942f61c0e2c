//! Catalogs: from a table's name to the table, and the swap that commits to it.

pub(crate) mod background;
mod commit;
mod config;
#[cfg(test)]
mod fault_tests;
mod filesystem;
mod hadoop;
mod memory;
mod metastore;
mod placement;
mod purge;
mod requests;
#[cfg(feature = "catalog-rest")]
mod rest;
#[cfg(feature = "catalog-sql")]
mod sql;
#[cfg(test)]
pub(crate) mod suite;
mod views;
#[cfg(test)]
pub(crate) mod writers_tests;

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

pub use crate::table::{Namespace, TableIdent};
pub use config::{CatalogBuilder, load_catalog};
pub use filesystem::FilesystemCatalog;
pub use memory::MemoryCatalog;
pub use requests::{TableCommit, TableCreation, View, ViewCreation};
#[cfg(feature = "catalog-rest")]
pub use rest::RestCatalog;
#[cfg(feature = "catalog-sql")]
pub use sql::SqlCatalog;

#[cfg(test)]
pub(crate) use metastore::{EntryKind, Metastore, Swap};
#[cfg(test)]
pub(crate) use placement::Placement;
#[cfg(all(test, feature = "catalog-rest"))]
pub(crate) use rest::tests::{java as java_rest_server, server as rest_server};

use crate::error::{Error, ErrorKind, Result};
use crate::table::Table;

/// Knows tables and views by namespace and name, and changes them.
///
/// What a catalog can't do is an `Unsupported` error that names the catalog.
#[async_trait]
pub trait Catalog: Debug + Send + Sync {
    /// What it is called in errors and in SQL.
    fn name(&self) -> &str;

    /// The namespaces directly in `parent`, sorted by name; those of the top without a parent.
    ///
    /// # Errors
    /// `NotFound` if there is no such parent.
    async fn list_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>>;

    /// Creates a namespace. Those that it is in must exist, where the catalog keeps them at all.
    ///
    /// # Errors
    /// `AlreadyExists`; `NotFound` if its parent does not exist.
    async fn create_namespace(
        &self,
        namespace: &Namespace,
        properties: BTreeMap<String, String>,
    ) -> Result<()> {
        let _ = (namespace, properties);
        Err(self.unsupported("create a namespace"))
    }

    /// The properties of a namespace.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace.
    async fn load_namespace(&self, namespace: &Namespace) -> Result<BTreeMap<String, String>> {
        let _ = namespace;
        Err(self.unsupported("read the properties of a namespace"))
    }

    /// Whether there is such a namespace.
    ///
    /// # Errors
    /// If that could not be found out.
    async fn namespace_exists(&self, namespace: &Namespace) -> Result<bool> {
        exists(self.load_namespace(namespace).await)
    }

    /// Sets and removes properties of a namespace. Removing one that is not there is no error.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace; `DataInvalid` if a name is both set and removed.
    async fn update_namespace(
        &self,
        namespace: &Namespace,
        set: BTreeMap<String, String>,
        remove: Vec<String>,
    ) -> Result<()> {
        let _ = (namespace, set, remove);
        Err(self.unsupported("change the properties of a namespace"))
    }

    /// Drops a namespace, which must be empty.
    ///
    /// # Errors
    /// `NotFound`; `ValidationFailed` if something is in it.
    async fn drop_namespace(&self, namespace: &Namespace) -> Result<()> {
        let _ = namespace;
        Err(self.unsupported("drop a namespace"))
    }

    /// The tables directly in a namespace, sorted by name.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace.
    async fn list_tables(&self, namespace: &Namespace) -> Result<Vec<TableIdent>>;

    /// Opens a table as it is now.
    ///
    /// # Errors
    /// `NotFound` if there is no such table, and those of reading its metadata.
    async fn load_table(&self, table: &TableIdent) -> Result<Table>;

    /// Whether there is such a table.
    ///
    /// # Errors
    /// If that could not be found out.
    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        exists(self.load_table(table).await)
    }

    /// Creates a table.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a table or view of that name; `NotFound` if there is no such
    /// namespace; `DataInvalid` for a creation that the spec forbids.
    async fn create_table(&self, table: &TableIdent, creation: TableCreation) -> Result<Table> {
        let _ = (table, creation);
        Err(self.unsupported("create a table"))
    }

    /// A table that does not exist until [`Catalog::commit_table`] creates it with
    /// [`TableRequirement::Create`](crate::spec::TableRequirement::Create): files can be written
    /// for it, nobody else sees it.
    ///
    /// # Errors
    /// Those of [`Catalog::create_table`].
    async fn stage_table(&self, table: &TableIdent, creation: TableCreation) -> Result<Table> {
        let _ = (table, creation);
        Err(self.unsupported("create a table in two steps"))
    }

    /// Takes a table that exists in storage into the catalog, by its metadata file.
    ///
    /// # Errors
    /// `AlreadyExists`, `NotFound` if there is no such namespace or file, and those of reading it.
    async fn register_table(&self, table: &TableIdent, metadata_location: &str) -> Result<Table> {
        let _ = (table, metadata_location);
        Err(self.unsupported("register a table"))
    }

    /// Gives a table another name, also in another namespace.
    ///
    /// # Errors
    /// `NotFound` if there is no such table or namespace; `AlreadyExists` if the name is taken.
    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        let _ = (from, to);
        Err(self.unsupported("rename a table"))
    }

    /// Forgets a table; with `purge`, its files are removed too.
    ///
    /// # Errors
    /// `NotFound` if there is no such table.
    async fn drop_table(&self, table: &TableIdent, purge: bool) -> Result<()> {
        let _ = (table, purge);
        Err(self.unsupported("drop a table"))
    }

    /// Applies changes to a table if its requirements hold: all or nothing. Tries once.
    ///
    /// # Errors
    /// `CommitConflict` if a requirement does not hold or somebody was faster; `CommitStateUnknown`
    /// if it may have happened; any other kind only if it has certainly not happened.
    async fn commit_table(&self, commit: TableCommit) -> Result<Table> {
        let _ = commit;
        Err(self.unsupported("commit to a table"))
    }

    /// Whether [`Catalog::commit_tables`] takes several tables.
    fn commits_several_tables(&self) -> bool {
        false
    }

    /// Applies changes to several tables: all or nothing.
    ///
    /// # Errors
    /// Those of [`Catalog::commit_table`]; `Unsupported` for several tables where
    /// [`Catalog::commits_several_tables`] says so.
    async fn commit_tables(&self, mut commits: Vec<TableCommit>) -> Result<()> {
        match (commits.pop(), commits.is_empty()) {
            (None, _) => Ok(()),
            (Some(commit), true) => self.commit_table(commit).await.map(drop),
            (Some(_), false) => Err(self.unsupported("commit to several tables at once")),
        }
    }

    /// The views directly in a namespace, sorted by name.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace.
    async fn list_views(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
        let _ = namespace;
        Err(self.unsupported("list views"))
    }

    /// Reads a view.
    ///
    /// # Errors
    /// `NotFound` if there is no such view.
    async fn load_view(&self, view: &TableIdent) -> Result<View> {
        let _ = view;
        Err(self.unsupported("read views"))
    }

    /// Creates a view.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a table or view of that name; `NotFound` if there is no such
    /// namespace.
    async fn create_view(&self, view: &TableIdent, creation: ViewCreation) -> Result<View> {
        let _ = (view, creation);
        Err(self.unsupported("create a view"))
    }

    /// Gives a view a new version.
    ///
    /// # Errors
    /// `NotFound` if there is no such view; `CommitConflict` if somebody was faster.
    async fn replace_view(&self, view: &TableIdent, creation: ViewCreation) -> Result<View> {
        let _ = (view, creation);
        Err(self.unsupported("replace a view"))
    }

    /// Gives a view another name.
    ///
    /// # Errors
    /// As [`Catalog::rename_table`].
    async fn rename_view(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        let _ = (from, to);
        Err(self.unsupported("rename a view"))
    }

    /// Drops a view.
    ///
    /// # Errors
    /// `NotFound` if there is no such view.
    async fn drop_view(&self, view: &TableIdent) -> Result<()> {
        let _ = view;
        Err(self.unsupported("drop a view"))
    }

    /// The error of what the catalog can't do.
    #[doc(hidden)]
    fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(format!("catalog `{}` can't {what}", self.name()))
    }
}

fn exists<T>(loaded: Result<T>) -> Result<bool> {
    match loaded {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}
