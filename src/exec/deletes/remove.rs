//! Takes deleted rows out of batches.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::error::{Error, Result};

use super::equality::{EqualityFilter, both};
use super::positions::LiveRows;

/// What the column of positions is called in the batches that deleted rows are taken out of; no
/// column of a user's has that name by accident.
pub(crate) const POSITION: &str = "\u{1}position";

/// The deletes of one file that are applied to its batches after decoding.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// The rows that position deletes leave.
    pub(crate) live: Option<LiveRows>,
    pub(crate) equality: Option<EqualityFilter>,
}

impl Removal {
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_none() && self.equality.is_none()
    }

    /// The key columns that it needs of a batch, by name.
    pub(crate) fn key_columns(&self) -> Vec<String> {
        self.equality.iter().flat_map(EqualityFilter::key_columns).collect()
    }

    /// Whether it needs the column [`POSITION`].
    pub(crate) fn needs_positions(&self) -> bool {
        self.live.is_some()
    }

    fn live(&self, batch: &RecordBatch) -> Result<Option<BooleanBuffer>> {
        let by_position = match &self.live {
            None => None,
            Some(live) => {
                let positions =
                    batch.column_by_name(POSITION).and_then(|p| p.as_primitive_opt::<Int64Type>());
                live.at(positions.ok_or_else(|| Error::invalid("the scan lacks positions"))?)?
            }
        };
        let by_key = self.equality.as_ref().map(|equality| equality.live(batch)).transpose()?;
        Ok(both(by_position, by_key.flatten()))
    }
}

/// What a query wants of the rows that are left.
#[derive(Debug)]
pub(crate) struct Remainder {
    removal: Removal,
    /// The batch's columns that the expressions read, and the expressions over them; columns
    /// alone need no expressions.
    columns: Vec<usize>,
    projector: Option<Projector>,
    output: SchemaRef,
}

impl Remainder {
    /// `wanted`, over the table's schema, of batches with the schema `decoded`; the result has the
    /// schema `output`.
    ///
    /// Expressions are evaluated after the deleted rows are gone: one of them might be an error.
    ///
    /// # Errors
    /// If `decoded` lacks a column.
    pub(crate) fn new(
        removal: Removal,
        wanted: &ProjectionExprs,
        decoded: &Schema,
        output: SchemaRef,
    ) -> DfResult<Self> {
        let columns: Option<Vec<&Column>> = wanted.iter().map(|p| p.expr.downcast_ref::<Column>()).collect();
        if let Some(columns) = columns {
            let columns = columns.iter().map(|c| decoded.index_of(c.name()));
            return Ok(Self {
                removal,
                columns: columns.collect::<Result<_, _>>()?,
                projector: None,
                output,
            });
        }
        let read: HashSet<String> =
            wanted.iter().flat_map(|p| collect_columns(&p.expr)).map(|c| c.name().to_owned()).collect();
        let columns: Vec<usize> =
            (0..decoded.fields().len()).filter(|i| read.contains(decoded.field(*i).name())).collect();
        let read = decoded.project(&columns)?;
        let rebased = wanted.clone().try_map_exprs(|expr| reassign_expr_columns(expr, &read))?;
        Ok(Self { removal, columns, projector: Some(rebased.make_projector(&read)?), output })
    }

    /// The rows of a batch that are left, as the query wants them.
    ///
    /// # Errors
    /// `DataInvalid` where the batch lacks a column; those of the query's expressions.
    pub(crate) fn of(&self, batch: &RecordBatch) -> DfResult<RecordBatch> {
        let live = self.removal.live(batch)?;
        let mut batch = filtered(batch.project(&self.columns)?, live)?;
        if let Some(projector) = &self.projector {
            batch = projector.project_batch(&batch)?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), batch.columns().to_vec(), &options)?)
    }
}

/// The rows of a batch that are left; all of them without a mask.
///
/// # Errors
/// If the mask has another length.
pub(crate) fn filtered(batch: RecordBatch, live: Option<BooleanBuffer>) -> DfResult<RecordBatch> {
    match live {
        None => Ok(batch),
        Some(live) => Ok(filter_record_batch(&batch, &BooleanArray::new(live, None))?),
    }
}
