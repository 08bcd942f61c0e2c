//! What the server does for a table that was loaded.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::RestCatalog;
use super::auth::TableToken;
use super::loaded::Grant;
use crate::catalog::TableIdent;
use crate::error::{Result, ResultExt};
use crate::spec::TableMetadata;
use crate::storage::Location;
use crate::table::{Report, ScanDemand, ServerPlan, Table, TableService};

/// The server, about one table.
pub(super) struct Service {
    pub(super) catalog: RestCatalog,
    pub(super) table: TableIdent,
    plans: bool,
    pub(super) grant: Grant,
    pub(super) token: Option<TableToken>,
}

impl Service {
    pub(super) fn new(
        catalog: &RestCatalog,
        table: &TableIdent,
        plans: bool,
        grant: Grant,
        token: Option<TableToken>,
    ) -> Self {
        Self { catalog: catalog.forgetful(), table: table.clone(), plans, grant, token }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest is secret.
        f.debug_struct("Service").field("table", &self.table).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableService for Service {
    async fn whole(&self) -> Result<(Arc<TableMetadata>, Location)> {
        let whole = async {
            let (loaded, _) = self.catalog.fetch(&self.table).await?;
            Ok((loaded.metadata, Location::parse(&loaded.location)?))
        };
        whole.await.context(|| self.catalog.place())
    }

    fn plans_scans(&self) -> bool {
        self.plans
    }

    async fn plan_scan(&self, table: &Table, demand: &ScanDemand) -> Result<ServerPlan> {
        self.plan(table, demand).await.context(|| self.catalog.place())
    }

    fn report(&self, report: Report) {
        if let Some(reports) = &self.catalog.0.reports {
            reports.send(self, report);
        }
    }
}
