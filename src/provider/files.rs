//! The files of a table, for who reads them himself.

use datafusion::logical_expr::Expr;

use super::scan_plan::{Wanted, plan_scan};
use super::table::IcebergTable;
use crate::arrow::to_predicate;
use crate::error::{Error, Result, ResultExt};
use crate::expr::Predicate;
use crate::spec::FileScanTask;

impl IcebergTable {
    /// The data files that a scan with these filters (all of them hold) reads, with the delete
    /// files that apply to each, in the order of the manifests. Filters that can't be used, in
    /// whole or in part, only leave more files; rows that don't match may be in any of them.
    ///
    /// # Errors
    /// `NotFound`, `Io` and `DataInvalid` for metadata that can't be read; `Unsupported` for
    /// encrypted metadata, and for scans that a server plans with credentials for them alone.
    pub async fn data_files(&self, filters: &[Expr]) -> Result<Vec<FileScanTask>> {
        let schema = &self.selection().schema;
        let filter = Predicate::and(filters.iter().map(|f| to_predicate(f, schema).predicate));
        let in_table = || format!("table {}", self.table().name());
        let columns: Vec<String> = schema.fields().iter().map(|field| field.name.clone()).collect();
        let wanted =
            Wanted { selection: self.selection(), filter: &filter, columns: columns.iter().collect() };
        let planned = plan_scan(self.table(), &wanted).await.context(in_table)?;
        if planned.has_own_storage() {
            let message =
                "the files of a scan that the server planned with credentials of its own; query the table";
            return Err(Error::unsupported(message).context(in_table()));
        }
        Ok(planned.plan.tasks)
    }
}
