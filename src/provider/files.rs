//! The files of a table, for who reads them himself.

use std::sync::Arc;

use datafusion::logical_expr::Expr;

use super::table::IcebergTable;
use crate::arrow::to_predicate;
use crate::error::{Result, ResultExt};
use crate::expr::Predicate;
use crate::plan::{ScanRequest, plan_files};
use crate::spec::FileScanTask;

impl IcebergTable {
    /// The data files that a scan with these filters (all of them hold) reads, with the delete
    /// files that apply to each, in the order of the manifests. Filters that can't be used, in
    /// whole or in part, only leave more files; rows that don't match may be in any of them.
    ///
    /// # Errors
    /// `NotFound`, `Io` and `DataInvalid` for metadata that can't be read; `Unsupported` for
    /// encrypted metadata.
    pub async fn data_files(&self, filters: &[Expr]) -> Result<Vec<FileScanTask>> {
        let Some(snapshot) = &self.selection().snapshot else { return Ok(Vec::new()) };
        let schema = &self.selection().schema;
        let filter = Predicate::and(filters.iter().map(|f| to_predicate(f, schema).predicate));
        let request = ScanRequest { schema: Arc::clone(schema), filter };
        let plan = plan_files(self.table(), snapshot, &request).await;
        Ok(plan.context(|| format!("table {}", self.table().name()))?.tasks)
    }
}
