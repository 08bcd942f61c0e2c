//! Expressions over the table's columns → expressions over a file's columns.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema as ArrowSchema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, lit};
use datafusion::physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};

use crate::error::{Error, Result};
use crate::spec::{FieldId, NestedField, PrimitiveType, Schema, Type};

use super::metadata_columns::{LAST_UPDATED_SEQUENCE_NUMBER_ID, ROW_ID_ID};
use super::nested;

/// What one file knows beyond its columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FileConstants {
    /// Named in errors.
    pub(crate) file_path: String,
    /// Values of columns that the file may lack: identity partition values of imported files.
    pub(crate) partition_values: Vec<(FieldId, ScalarValue)>,
    /// The id of its first row (v3).
    pub(crate) first_row_id: Option<i64>,
    /// Its data sequence number (v3).
    pub(crate) sequence_number: Option<i64>,
}

/// Makes adapters for the files of a scan, or for one file when it has constants.
#[derive(Debug, Clone)]
pub(crate) struct AdapterFactory {
    /// The schema that is read, with the row lineage columns.
    pub(crate) schema: Arc<Schema>,
    /// The columns of files that columns with another name are read from.
    pub(crate) read_from: Arc<HashMap<String, String>>,
    /// What the file at hand knows.
    pub(crate) constants: Arc<FileConstants>,
    /// What the column of positions is called, if the scan has one.
    pub(crate) position_column: Option<Arc<str>>,
}

impl PhysicalExprAdapterFactory for AdapterFactory {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> DfResult<Arc<dyn PhysicalExprAdapter>> {
        Ok(Arc::new(Adapter { factory: self.clone(), logical, physical }))
    }
}

#[derive(Debug)]
struct Adapter {
    factory: AdapterFactory,
    logical: SchemaRef,
    physical: SchemaRef,
}

impl PhysicalExprAdapter for Adapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> DfResult<Arc<dyn PhysicalExpr>> {
        expr.transform_up(|expr| match expr.downcast_ref::<Column>() {
            Some(column) => self.column(column).map(Transformed::yes).map_err(Into::into),
            None => Ok(Transformed::no(expr)),
        })
        .data()
    }
}

impl Adapter {
    fn column(&self, column: &Column) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = &self.factory.schema;
        let in_file = self.factory.read_from.get(column.name()).map_or(column.name(), String::as_str);
        let physical = self.physical.column_with_name(in_file);
        let Some(field) = schema.root.field_by_name(column.name()) else {
            // A virtual column: the reader makes it.
            return match physical {
                Some((index, _)) => Ok(Arc::new(Column::new(column.name(), index))),
                None => Err(Error::invalid(format!("no such column: `{}`", column.name()))),
            };
        };
        let logical = self
            .logical
            .field_with_name(column.name())
            .map_err(|e| Error::invalid("the scan's schema lacks a column").with_source(e))?;
        let read = match physical {
            Some((index, physical)) => Some(self.read(field, logical, index, physical)?),
            None => None,
        };
        match field.id {
            ROW_ID_ID => self.row_id(read),
            LAST_UPDATED_SEQUENCE_NUMBER_ID => Ok(self.inherited_sequence_number(read)),
            _ => match read {
                Some(read) => Ok(read),
                None => self.missing(field, logical).map(lit),
            },
        }
    }

    fn read(
        &self,
        field: &NestedField,
        logical: &Field,
        index: usize,
        physical: &Field,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(physical.name(), index));
        // A file's bounds of these are no bounds of bytes: nothing may be pruned by them, and
        // nothing is through `ReadAs`.
        let is_geo = matches!(
            field.field_type,
            Type::Primitive(PrimitiveType::Geometry { .. } | PrimitiveType::Geography { .. })
        );
        if !is_geo && physical.data_type() == logical.data_type() {
            return Ok(column);
        }
        Ok(match &field.field_type {
            Type::Primitive(p) if !matches!(p, PrimitiveType::Unknown) => {
                if !nested::is_readable(physical.data_type(), p) {
                    return Err(Error::invalid(format!(
                        "the file holds {}, which can't be read as {p}",
                        physical.data_type()
                    ))
                    .context(format!("field `{}`", field.name))
                    .context(format!("file {}", self.factory.constants.file_path)));
                }
                match is_geo {
                    // DataFusion knows how to prune and simplify through its own cast.
                    false => Arc::new(CastExpr::new(column, logical.data_type().clone(), None)),
                    true => self.read_as(column, field, logical),
                }
            }
            _ => self.read_as(column, field, logical),
        })
    }

    fn read_as(
        &self,
        column: Arc<dyn PhysicalExpr>,
        field: &NestedField,
        logical: &Field,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(ReadAs {
            column,
            field: Arc::new(field.clone()),
            target: Arc::new(logical.clone()),
            file_path: self.factory.constants.file_path.clone(),
        })
    }

    fn missing(&self, field: &NestedField, logical: &Field) -> Result<ScalarValue> {
        let constants = &self.factory.constants;
        if let Some((_, value)) = constants.partition_values.iter().find(|(id, _)| *id == field.id) {
            return Ok(value.clone());
        }
        nested::missing_value(field, logical).map_err(|e| e.context(format!("file {}", constants.file_path)))
    }

    /// A stored row id, else the file's first row id plus the row's position; null where the file
    /// has no first row id: it is older than the table's upgrade to v3.
    fn row_id(&self, stored: Option<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(first) = self.factory.constants.first_row_id else {
            return Ok(stored.unwrap_or_else(|| lit(ScalarValue::Int64(None))));
        };
        let name = self.factory.position_column.as_deref();
        let name = name.ok_or_else(|| Error::invalid("row ids need positions"))?;
        let index = self
            .physical
            .index_of(name)
            .map_err(|e| Error::invalid("row ids need positions").with_source(e))?;
        let position: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, index));
        let inherited: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(lit(first), Operator::Plus, position));
        Ok(match stored {
            None => inherited,
            Some(stored) => coalesce(stored, inherited)?,
        })
    }

    /// A stored number, else the file's data sequence number; null before v3.
    fn inherited_sequence_number(&self, stored: Option<Arc<dyn PhysicalExpr>>) -> Arc<dyn PhysicalExpr> {
        let constants = &self.factory.constants;
        let inherited = constants.first_row_id.and(constants.sequence_number);
        let Some(number) = inherited else {
            return stored.unwrap_or_else(|| lit(ScalarValue::Int64(None)));
        };
        match stored.map(|s| coalesce(s, lit(number))) {
            Some(Ok(expr)) => expr,
            _ => lit(number),
        }
    }
}

fn coalesce(first: Arc<dyn PhysicalExpr>, second: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let present: Arc<dyn PhysicalExpr> = Arc::new(IsNotNullExpr::new(Arc::clone(&first)));
    let case = CaseExpr::try_new(None, vec![(present, first)], Some(second));
    case.map(|c| Arc::new(c) as _)
        .map_err(|e| Error::invalid("a row lineage column has the wrong type").with_source(e))
}

/// Reads a nested column of a file as the table's field; see [`nested::read_as`].
#[derive(Debug, Clone)]
pub(crate) struct ReadAs {
    column: Arc<dyn PhysicalExpr>,
    field: Arc<NestedField>,
    target: FieldRef,
    file_path: String,
}

impl PartialEq for ReadAs {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.target == other.target && self.field == other.field
    }
}

impl Eq for ReadAs {}

impl Hash for ReadAs {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.target.hash(state);
    }
}

impl fmt::Display for ReadAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read_as({}, {})", self.column, self.field.field_type)
    }
}

impl PhysicalExpr for ReadAs {
    fn data_type(&self, _: &ArrowSchema) -> DfResult<DataType> {
        Ok(self.target.data_type().clone())
    }

    fn nullable(&self, _: &ArrowSchema) -> DfResult<bool> {
        Ok(self.target.is_nullable())
    }

    fn return_field(&self, _: &ArrowSchema) -> DfResult<FieldRef> {
        Ok(Arc::clone(&self.target))
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        let array = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        let read = nested::read_as(&array, &self.field, &self.target)
            .map_err(|e| e.context(format!("file {}", self.file_path)))?;
        Ok(ColumnarValue::Array(read))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DfResult<Arc<dyn PhysicalExpr>> {
        let mut new = Arc::unwrap_or_clone(self);
        if let Some(column) = children.into_iter().next() {
            new.column = column;
        }
        Ok(Arc::new(new))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
