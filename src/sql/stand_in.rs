//! Until the provider is here.
use crate::spec::SnapshotId;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::logical_expr::CreateExternalTable;
use std::sync::Arc;

/// A snapshot of a table.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, dead_code)]
pub enum SnapshotSelector {
    Current,
    Id(SnapshotId),
    Ref(String),
    AsOf(i64),
}

pub(super) fn travel(
    _table: &dyn TableProvider,
    _selector: &SnapshotSelector,
) -> Option<crate::Result<Arc<dyn TableProvider>>> {
    None
}

#[derive(Debug)]
pub(super) struct Factory;

#[async_trait::async_trait]
impl TableProviderFactory for Factory {
    async fn create(
        &self,
        _: &dyn Session,
        _: &CreateExternalTable,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        Err(crate::Error::unsupported("no provider yet").into())
    }
}
