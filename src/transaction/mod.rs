//! Changes of tables: built against a table as it was read, validated against what others did
//! meanwhile, committed through a catalog.

mod action;
mod append;
mod changes;
mod commit;
mod commit_status;
mod conflict_checks;
mod create;
mod delete_files;
mod evolution;
mod live_files;
mod manifest_files;
mod manifest_filter;
mod manifest_merge;
mod overwrite;
mod removal;
mod replace_partitions;
mod retry;
mod rewrite_files;
mod rewrite_manifests;
mod row_delta;
mod settings;
mod snapshot_base;
mod snapshot_options;
mod snapshot_producer;
#[cfg(test)]
mod tests;
mod validation;

pub use action::Action;
pub use append::Append;
pub use commit::commit_all;
pub use delete_files::DeleteFiles;
pub use evolution::{
    CherryPick, CleanupLevel, ExpireSnapshots, ManageSnapshots, NewColumn, ReplaceSortOrder, UpdateLocation,
    UpdatePartitionStatistics, UpdateProperties, UpdateSchema, UpdateSpec, UpdateStatistics,
    UpgradeFormatVersion,
};
pub use overwrite::Overwrite;
pub use replace_partitions::ReplacePartitions;
pub use rewrite_files::RewriteFiles;
pub use rewrite_manifests::RewriteManifests;
pub use row_delta::RowDelta;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::table::Table;

/// Changes of one table that are committed together, all or none.
///
/// ```no_run
/// # async fn example(table: icefloe::table::Table, catalog: &dyn icefloe::catalog::Catalog,
/// #     append: impl icefloe::transaction::Action + 'static) -> icefloe::Result<()> {
/// let table = table.transaction().apply(append).commit(catalog).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens until it is committed"]
pub struct Transaction {
    table: Table,
    actions: Vec<Box<dyn Action>>,
}

impl Table {
    /// Starts a transaction. It begins with the table as it is here; when others have changed it by
    /// the time of the commit, the changes are made again to what it has become.
    pub fn transaction(&self) -> Transaction {
        Transaction { table: self.clone(), actions: Vec::new() }
    }
}

impl Transaction {
    /// Adds a change. Each sees what those before it changed.
    pub fn apply(mut self, action: impl Action + 'static) -> Self {
        self.actions.push(Box::new(action));
        self
    }

    /// Commits the changes, and tries again by the table's `commit.retry.*` properties while others
    /// are faster. The result is the table as it was committed. Without changes nothing is
    /// committed, except that a staged table is created.
    ///
    /// Where the outcome of a commit can't be told, the catalog is asked by the properties
    /// `commit.status-check.*` what became of it.
    ///
    /// # Errors
    /// `CommitConflict` if others were faster each time; `CommitStateUnknown` if it may have been
    /// committed: then no file is removed; `ValidationFailed` if what others committed contradicts
    /// it; `AlreadyExists` if a staged table exists by now; `Unsupported` if the table has no name
    /// in a catalog; and those of the actions and the catalog. With any but `CommitStateUnknown`
    /// nothing has been committed, and the metadata files written for it are removed.
    pub async fn commit(self, catalog: &dyn Catalog) -> Result<Table> {
        commit::commit(self, catalog).await
    }
}
