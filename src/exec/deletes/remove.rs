//! Takes deleted rows out of batches.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{BatchCoalescer, prep_null_mask_filter};
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExprs, Projector};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::error::{Error, Result};

use super::equality::{EqualityFilter, both};
use super::fill_gaps::Gaps;
use super::known::Observer;
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
    /// Who wants to know what the keys leave.
    pub(crate) observer: Option<Arc<Observer>>,
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
        self.live.is_some() || self.observer.is_some()
    }

    fn live(&self, batch: &RecordBatch) -> Result<Option<BooleanBuffer>> {
        let positions = || {
            let column = batch.column_by_name(POSITION).and_then(|p| p.as_primitive_opt::<Int64Type>());
            column.ok_or_else(|| Error::invalid("the scan lacks positions"))
        };
        let by_position = match &self.live {
            None => None,
            Some(live) => live.at(positions()?)?,
        };
        let by_key = self.equality.as_ref().map(|equality| equality.live(batch)).transpose()?.flatten();
        if let Some(observer) = &self.observer {
            observer.note(positions()?, by_key.as_ref());
        }
        Ok(both(by_position, by_key))
    }
}

/// What a query wants of the rows that are left.
#[derive(Debug)]
pub(crate) struct Remainder {
    removal: Removal,
    /// Over the decoded batch.
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// The batch's columns that the expressions read, and the expressions over them; columns
    /// alone need no expressions.
    columns: Vec<usize>,
    read: SchemaRef,
    projector: Option<Projector>,
    output: SchemaRef,
    batch_size: usize,
    /// Whether rows have to come out in the order in which they come in.
    in_order: bool,
}

impl Remainder {
    /// What `wanted` gives, over the table's schema, of the rows of batches with the schema `decoded`
    /// that `filter` lets through. The result has the schema `output`.
    ///
    /// Expressions are evaluated when the deleted rows are gone: they may be errors there. The filter
    /// is evaluated before, so it must not fail.
    ///
    /// # Errors
    /// If `decoded` lacks a column.
    pub(crate) fn new(
        removal: Removal,
        filter: Option<Arc<dyn PhysicalExpr>>,
        wanted: &ProjectionExprs,
        decoded: &Schema,
        output: SchemaRef,
        batch_size: usize,
        in_order: bool,
    ) -> DfResult<Self> {
        let filter = filter.map(|filter| reassign_expr_columns(filter, decoded)).transpose()?;
        let plain: Option<Vec<&Column>> = wanted.iter().map(|p| p.expr.downcast_ref::<Column>()).collect();
        let columns: Vec<usize> = match &plain {
            Some(columns) => columns.iter().map(|c| decoded.index_of(c.name())).collect::<Result<_, _>>()?,
            None => {
                let read: HashSet<Column> = wanted.iter().flat_map(|p| collect_columns(&p.expr)).collect();
                let is_read = |i: &usize| read.iter().any(|c| c.name() == decoded.field(*i).name());
                (0..decoded.fields().len()).filter(is_read).collect()
            }
        };
        let read = Arc::new(decoded.project(&columns)?);
        let projector = match plain {
            Some(_) => None,
            None => {
                let rebased = wanted.clone().try_map_exprs(|expr| reassign_expr_columns(expr, &read))?;
                Some(rebased.make_projector(&read)?)
            }
        };
        Ok(Self { removal, filter, columns, read, projector, output, batch_size, in_order })
    }

    /// The rows that are left of a stream of batches, in batches of about the session's size.
    ///
    /// # Errors
    /// `DataInvalid` where a batch lacks a column; those of the query's expressions.
    pub(crate) fn of(
        self: Arc<Self>,
        batches: BoxStream<'static, DfResult<RecordBatch>>,
    ) -> BoxStream<'static, DfResult<RecordBatch>> {
        let size = self.batch_size;
        let left = BatchCoalescer::new(Arc::clone(&self.read), size)
            .with_biggest_coalesce_batch_size(Some(size / 2));
        let state = (self, batches, left, false);
        stream::try_unfold(state, |(this, mut batches, mut left, mut ended)| async move {
            loop {
                if let Some(batch) = left.next_completed_batch() {
                    return Ok(Some((this.project(batch)?, (this, batches, left, ended))));
                }
                if ended {
                    return Ok(None);
                }
                match batches.next().await {
                    Some(batch) => this.push(batch?, &mut left)?,
                    None => {
                        if let Some(observer) = &this.removal.observer {
                            observer.finish().await;
                        }
                        left.finish_buffered_batch()?;
                        ended = true;
                    }
                }
            }
        })
        .boxed()
    }

    /// Adds the rows of a batch that are left.
    fn push(&self, batch: RecordBatch, left: &mut BatchCoalescer) -> DfResult<()> {
        let mut live = self.removal.live(&batch)?;
        if let Some(filter) = &self.filter {
            let matches = filter.evaluate(&batch)?.into_array(batch.num_rows())?;
            let matches = as_boolean_array(&matches)?;
            let matches = match matches.null_count() {
                0 => matches.values().clone(),
                _ => prep_null_mask_filter(matches).values().clone(),
            };
            live = both(live, Some(matches));
        }
        // The columns that are read belong to nobody else from here on.
        let read: Vec<ArrayRef> = batch.project(&self.columns)?.columns().to_vec();
        let rows = batch.num_rows();
        drop(batch);
        let Some(live) = live else { return Ok(left.push_batch(self.batch(read, rows)?)?) };
        let count = live.count_set_bits();
        if read.is_empty() {
            left.push_batch(self.batch(read, count)?)?;
        } else if count > self.batch_size / 2 && !self.in_order {
            let filled = Gaps::new(&live, count).fill(read)?;
            left.push_batch(self.batch(filled, count)?)?;
        } else {
            left.push_batch_with_filter(self.batch(read, rows)?, &BooleanArray::new(live, None))?;
        }
        Ok(())
    }

    /// Columns as they are read, with a number of rows for where there is no column.
    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> DfResult<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.read), columns, &options)?)
    }

    fn project(&self, batch: RecordBatch) -> DfResult<RecordBatch> {
        let batch = match &self.projector {
            Some(projector) => projector.project_batch(&batch)?,
            None => batch,
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), batch.columns().to_vec(), &options)?)
    }
}
