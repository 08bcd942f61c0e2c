//! What the server of a table's catalog does for the table, besides keeping its metadata.

#![cfg_attr(
    not(feature = "catalog-rest"),
    allow(dead_code, reason = "only catalogs behind the REST protocol have servers")
)]

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value as Json;

use super::Table;
use super::reports::Report;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{FileScanTask, SnapshotId, TableMetadata};
use crate::storage::{Location, Storage};

/// What a scan that the server plans is of.
#[derive(Debug, Clone)]
pub(crate) struct ScanDemand {
    pub(crate) snapshot_id: SnapshotId,
    /// Whether it is read with the snapshot's schema, not with the table's.
    pub(crate) use_snapshot_schema: bool,
    /// The full names of the columns that are read.
    pub(crate) select: Vec<String>,
    /// What may be used to leave files out, as JSON (REST spec, `Expression`).
    pub(crate) filter: Option<Json>,
}

/// A scan as the server planned it.
#[derive(Debug)]
pub(crate) struct ServerPlan {
    /// With the deletes that apply to each.
    pub(crate) tasks: Vec<FileScanTask>,
    /// What opens their files, if it is not the table's storage.
    pub(crate) storage: Option<Storage>,
}

/// A server that a table can ask.
#[async_trait]
pub(crate) trait TableService: fmt::Debug + Send + Sync {
    /// The table with all of its snapshots, as it is now, and where its metadata file is.
    async fn whole(&self) -> Result<(Arc<TableMetadata>, Location)>;

    /// Whether it plans the table's scans, and nobody else does.
    fn plans_scans(&self) -> bool;

    /// Plans a scan. Gives up if it is dropped.
    async fn plan_scan(&self, table: &Table, demand: &ScanDemand) -> Result<ServerPlan>;

    /// Tells the server of a scan or a commit, some time later and if it wants to know.
    fn report(&self, report: Report);
}

impl Table {
    /// Whether [`Table::metadata`] has all snapshots; see [`Table::with_all_snapshots`].
    pub fn has_all_snapshots(&self) -> bool {
        self.metadata().has_all_snapshots()
    }

    /// The same table with all of its snapshots. A REST catalog whose property
    /// `snapshot-loading-mode` is `refs` loads tables with the snapshots only that branches and tags
    /// name; the others are then loaded once for this table and its clones.
    ///
    /// Transactions do so themselves, and so do SQL statements that need history.
    ///
    /// # Errors
    /// Those of the catalog; `NotFound` if the table was dropped.
    pub async fn with_all_snapshots(&self) -> Result<Self> {
        if self.has_all_snapshots() {
            return Ok(self.clone());
        }
        let load = async {
            let service = self.service().ok_or_else(|| Error::invalid("nobody has the other snapshots"))?;
            let (full, location) = service.whole().await?;
            let metadata = match location == *self.metadata_location() {
                true => full,
                false => Arc::new(self.metadata().completed_from(&full)?),
            };
            self.with_metadata(metadata)
        };
        let whole = self.0.whole.get_or_try_init(|| load).await;
        whole.cloned().context(|| self.place())
    }

    /// The server that plans its scans; `None` if they are planned here.
    pub(crate) fn scan_service(&self) -> Option<&Arc<dyn TableService>> {
        self.service().filter(|service| service.plans_scans())
    }

    /// The server of its catalog, if there is one.
    pub(crate) fn service(&self) -> Option<&Arc<dyn TableService>> {
        self.0.options.service.as_ref()
    }
}
