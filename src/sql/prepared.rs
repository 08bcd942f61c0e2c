//! Prepared statements that change rows, which can't be.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, WriteOp};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::row_level::iceberg_table;
use crate::error::Error;

/// Refuses statements that come to the optimizer as they were written, which only prepared ones do: it
/// would change them by what it does not know of MERGE, and their tables would be old when they run.
#[derive(Debug)]
pub(super) struct RefusePrepared;

impl OptimizerRule for RefusePrepared {
    fn name(&self) -> &'static str {
        "iceberg_refuse_prepared_statements"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Dml(statement) = &plan
            && let Some(table) = iceberg_table(&statement.target)
            && !matches!(statement.op, WriteOp::Insert(_) | WriteOp::Ctas)
        {
            return Err(prepared().context(format!("table {}", table.table().name())).into());
        }
        Ok(Transformed::no(plan))
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }
}

/// What DataFusion keeps of a prepared statement has the table as it was then.
pub(super) fn prepared() -> Error {
    Error::unsupported(
        "a prepared statement that changes rows: it would see the table as it was when it was prepared; run the \
         statement itself",
    )
}
