//! The target of statements that change rows.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::table::IcebergTable;
use crate::error::Error;
use crate::spec::RowLevelOperation;
use crate::write::{InsertTarget, RowChange, plan_row_change};

/// A table as DELETE, UPDATE and MERGE see it: what is inserted here are changes of rows, in the
/// columns [`OLD_FILE`](crate::write::OLD_FILE) and those beside it.
///
/// DataFusion plans an INSERT of any query, which is all that these statements need: its own hooks for
/// them are given no query, but conditions that it finds in one.
pub(crate) struct RowChangeTarget {
    table: IcebergTable,
    target: InsertTarget,
    change: RowChange,
}

impl RowChangeTarget {
    /// # Errors
    /// `Unsupported` for a table that can only be read.
    pub(crate) fn try_new(table: &IcebergTable, change: RowChange) -> crate::error::Result<Self> {
        let target = table.target(&change.operation.name().to_uppercase())?;
        Ok(Self { table: table.clone(), target, change })
    }
}

impl RowChangeTarget {
    pub(crate) fn operation(&self) -> RowLevelOperation {
        self.change.operation
    }
}

impl Debug for RowChangeTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RowChangeTarget").field(&self.target).field(&self.change).finish()
    }
}

#[async_trait]
impl TableProvider for RowChangeTarget {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.table.scan(state, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        match operation {
            InsertOp::Append => {
                Ok(plan_row_change(self.target.clone(), input, self.change.clone(), session).await?)
            }
            other => Err(Error::unsupported(format!("changes of rows by {other}")).into()),
        }
    }
}
