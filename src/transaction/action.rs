//! What a transaction is made of.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::spec::{TableRequirement, TableUpdate};
use crate::table::Table;

/// One change of a table in a transaction, such as an append or an update of its schema.
#[async_trait]
pub trait Action: Debug + Send {
    /// The changes of the metadata that it comes to, against `table`: the table as it is now, with
    /// what the earlier actions of the same transaction change. Called once an attempt, so what was
    /// written for an earlier attempt is to be used again where it still holds.
    ///
    /// # Errors
    /// `ValidationFailed` if what others committed meanwhile contradicts it.
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>>;

    /// What must hold of the table besides what follows from the updates; `table` is as it was read,
    /// without what the transaction changes.
    fn requirements(&self, table: &Table) -> Vec<TableRequirement> {
        let _ = table;
        Vec::new()
    }

    /// Removes what it wrote for attempts that failed; `table` is what was committed.
    async fn committed(&mut self, table: &Table) {
        let _ = table;
    }

    /// Removes all that it wrote: the transaction has certainly not been committed.
    async fn failed(&mut self, table: &Table) {
        let _ = table;
    }
}
