//! Partition values and sort keys of rows as expressions, by which DataFusion deals out and sorts rows.

use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema as ArrowSchema};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::partition::{SourceColumn, below};
use crate::arrow::transform_array;
use crate::error::{Error, Result};
use crate::spec::Transform;

/// A transform of a column, or of a field at any depth in it.
#[derive(Debug, Clone)]
pub(super) struct TransformedColumn {
    source: SourceColumn,
    /// The column: a child, as the optimizer moves expressions by the columns that it finds in them.
    column: Arc<dyn PhysicalExpr>,
    data_type: DataType,
}

/// The transform of a column of rows that have this schema.
///
/// # Errors
/// `DataInvalid` if they have no such column.
pub(super) fn transformed(source: SourceColumn, rows: &ArrowSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let name = source.path.first().map(String::as_str).unwrap_or_default();
    let column = Column::new_with_schema(name, rows)
        .map_err(|e| Error::invalid("the rows lack a column").with_source(e))?;
    if source.transform == Transform::Identity && source.path.len() == 1 {
        return Ok(Arc::new(column));
    }
    let data_type = source.result_type()?;
    Ok(Arc::new(TransformedColumn { source, column: Arc::new(column), data_type }))
}

impl PartialEq for TransformedColumn {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.column.as_ref() == other.column.as_ref()
    }
}

impl Eq for TransformedColumn {}

impl Hash for TransformedColumn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state);
        self.column.hash(state);
    }
}

impl Display for TransformedColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.source.transform, self.source.path.join("."))
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
        let column = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        let source = below(column, self.source.path.get(1..).unwrap_or_default())?;
        let transformed = transform_array(&self.source.transform, &source, &self.source.source)?;
        Ok(ColumnarValue::Array(transformed))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DfResult<Arc<dyn PhysicalExpr>> {
        let [column] = children.as_slice() else {
            return Err(DataFusionError::Internal("a transform has one column".to_owned()));
        };
        Ok(Arc::new(Self { column: Arc::clone(column), ..Self::clone(&self) }))
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}
