//! Until the provider is here.
use crate::spec::SnapshotSelector;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::logical_expr::CreateExternalTable;
use std::sync::Arc;

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
