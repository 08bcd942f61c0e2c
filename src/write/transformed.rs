//! Partition values and sort keys of rows as expressions, by which DataFusion deals out and sorts rows.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema as ArrowSchema};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use super::partition::{SourceColumn, source_column};
use crate::arrow::transform_array;
use crate::error::Result;

/// A transform of a column of the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TransformedColumn {
    column: SourceColumn,
    data_type: DataType,
}

impl TransformedColumn {
    pub(super) fn new(column: SourceColumn) -> Result<Self> {
        let data_type = column.result_type()?;
        Ok(Self { column, data_type })
    }
}

impl Display for TransformedColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.column.transform, self.column.path.join("."))
    }
}

impl PhysicalExpr for TransformedColumn {
    fn data_type(&self, _: &ArrowSchema) -> DfResult<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, _: &ArrowSchema) -> DfResult<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        let source = source_column(batch, &self.column.path)?;
        let transformed = transform_array(&self.column.transform, &source, &self.column.source)?;
        Ok(ColumnarValue::Array(transformed))
    }

    // Columns are found by name, in rows that have those of the table.
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}
