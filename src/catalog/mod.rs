//! Catalogs: from a table's name to the table.

mod filesystem;
mod identifier;

use std::fmt::Debug;

use async_trait::async_trait;

pub use filesystem::FilesystemCatalog;
pub use identifier::{Namespace, TableIdent};

use crate::error::{ErrorKind, Result};
use crate::table::Table;

/// Knows tables by namespace and name.
#[async_trait]
pub trait Catalog: Debug + Send + Sync {
    /// What it is called in errors and in SQL.
    fn name(&self) -> &str;

    /// The namespaces directly in `parent`, sorted by name; those of the top without a parent.
    ///
    /// # Errors
    /// `NotFound` if there is no such parent.
    async fn list_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>>;

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
        match self.load_table(table).await {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}
