//! Rows of files that DataFusion's Parquet source does not read: deletes, filter and projection
//! are applied here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, Int64Array, RecordBatch, RecordBatchOptions,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, Schema as ArrowSchema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_boolean_array;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_expr_adapter::{PhysicalExprAdapterFactory, replace_columns_with_literals};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::metrics::MetricBuilder;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use crate::error::{Error, Result, ResultExt};
use crate::spec::{DeletionVector, FileFormat};

use super::adapter::AdapterFactory;
use super::deletes::EqualityFilter;
use super::files::open_file;
use super::filters::prunes_by_bounds;
use super::formats::{FileRows, Piece};
use super::open::OpenFiles;
use super::source::ScanFile;

/// Opens a file and returns what the query wants of its rows.
///
/// # Errors
/// As [`open_file`].
pub(crate) async fn open_rows(
    open: &OpenFiles,
    file: &PartitionedFile,
    scan_file: &ScanFile,
    positions: Option<DeletionVector>,
    equality: Option<EqualityFilter>,
) -> DfResult<BoxStream<'static, DfResult<RecordBatch>>> {
    // DataFusion may split a file by bytes; these are read as a whole, by whoever has the first.
    if file.range.as_ref().is_some_and(|range| range.start > 0) {
        return Ok(stream::empty().boxed());
    }
    let table_schema = open.inner.table_schema();
    let wanted = ProjectionExprs::new(open.projection());
    let output = Arc::new(wanted.project_schema(table_schema.table_schema())?);
    let keys = equality.iter().flat_map(EqualityFilter::key_columns);
    let keys: Vec<Column> = keys
        .map(|name| Ok(Column::new(&name, table_schema.table_schema().index_of(&name)?)))
        .collect::<DfResult<_>>()?;
    let predicate = all_filters(open);
    let exprs = wanted.iter().map(|p| &p.expr).chain(predicate.iter());
    let read = exprs.flat_map(collect_columns).chain(keys.iter().cloned());
    let context = &open.context;
    let in_file = |name: &str| context.read_from.get(name).map_or(name, String::as_str).to_owned();
    let columns: HashSet<String> = read.map(|c| in_file(c.name())).collect();

    let bytes = MetricBuilder::new(open.inner.metrics()).counter("bytes_scanned", open.partition);
    let data_file = &scan_file.task.data_file;
    let opened =
        open_file(&context.table, data_file, &context.resolution, &columns, open.batch_size, bytes).await?;

    // Expressions over the table → expressions over the file and a column of positions.
    let physical = with_fields(&opened.schema, table_schema.virtual_columns().iter());
    let logical = with_fields(table_schema.file_schema(), table_schema.virtual_columns().iter());
    let adapter = AdapterFactory {
        schema: Arc::clone(&context.schema),
        read_from: Arc::clone(&context.read_from),
        constants: Arc::clone(&scan_file.constants),
        position_column: open.position_column(),
    }
    .create(logical, Arc::clone(&physical))?;
    let constants: HashMap<String, ScalarValue> = table_schema
        .table_partition_cols()
        .iter()
        .zip(&file.partition_values)
        .map(|(f, v)| (f.name().clone(), v.clone()))
        .collect();
    let adapt =
        |expr: Arc<dyn PhysicalExpr>| adapter.rewrite(replace_columns_with_literals(expr, &constants)?);
    let mut rows = opened.rows;
    if let Some(predicate) = &predicate
        && data_file.file_format == FileFormat::Orc
    {
        let adapted: Vec<Arc<dyn PhysicalExpr>> = split_conjunction(predicate)
            .into_iter()
            .filter(|conjunct| prunes_by_bounds(conjunct, table_schema.table_schema()))
            .map(|conjunct| adapt(Arc::clone(conjunct)))
            .collect::<DfResult<_>>()?;
        prune(open, rows.as_mut(), conjunction(adapted), &physical)
            .await
            .context(|| format!("file {}", data_file.file_path))?;
    }
    let reader = RowReader {
        physical,
        has_positions: !table_schema.virtual_columns().is_empty(),
        predicate: predicate.map(&adapt).transpose()?,
        exprs: wanted.iter().map(|p| adapt(Arc::clone(&p.expr))).collect::<DfResult<_>>()?,
        output,
        keys: keys
            .into_iter()
            .map(|c| Ok((c.name().to_owned(), adapt(Arc::new(c))?)))
            .collect::<DfResult<_>>()?,
        positions,
        equality,
        next: 0,
        rows: data_file.record_count,
        file_path: data_file.file_path.clone(),
    };
    Ok(stream::try_unfold((reader, rows), |(mut reader, mut rows)| async move {
        while let Some(piece) = rows.next().await.context(|| format!("file {}", reader.file_path))? {
            match piece {
                Piece::Skipped(skipped) => reader.next += skipped,
                Piece::Rows(batch) => {
                    let batch = reader.read(batch)?;
                    if batch.num_rows() > 0 {
                        return Ok(Some((batch, (reader, rows))));
                    }
                }
            }
        }
        reader.finish()?;
        Ok(None)
    })
    .boxed())
}

/// All filters that rows have to pass: besides those in the Parquet source, there are those that
/// this takes for impossible, as of positions, but that the scan has promised.
fn all_filters(open: &OpenFiles) -> Option<Arc<dyn PhysicalExpr>> {
    let pushed = open.inner.filter();
    let mut all: Vec<&Arc<dyn PhysicalExpr>> = pushed.iter().flat_map(split_conjunction).collect();
    for promised in open.row_filter.iter().flat_map(split_conjunction) {
        if !all.contains(&promised) {
            all.push(promised);
        }
    }
    (!all.is_empty()).then(|| conjunction(all.into_iter().cloned()))
}

/// Has the file pass over stripes in which the predicate, over its columns, holds for no row.
async fn prune(
    open: &OpenFiles,
    rows: &mut dyn FileRows,
    predicate: Arc<dyn PhysicalExpr>,
    physical: &SchemaRef,
) -> Result<()> {
    let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(physical));
    if let Some(filter) = builder.build(predicate) {
        let pruned = MetricBuilder::new(open.inner.metrics()).counter("orc_stripes_pruned", open.partition);
        pruned.add(rows.prune(&filter).await?);
    }
    Ok(())
}

fn with_fields<'a>(schema: &'a SchemaRef, extra: impl Iterator<Item = &'a FieldRef>) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().chain(extra).cloned().collect();
    Arc::new(ArrowSchema::new(fields))
}

struct RowReader {
    /// The file's columns, and positions if the query needs them.
    physical: SchemaRef,
    has_positions: bool,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// What the expressions give.
    output: SchemaRef,
    /// What equality deletes compare.
    keys: Vec<(String, Arc<dyn PhysicalExpr>)>,
    positions: Option<DeletionVector>,
    equality: Option<EqualityFilter>,
    /// The position of the next row.
    next: u64,
    /// How many rows the manifest promises.
    rows: i64,
    file_path: String,
}

impl RowReader {
    fn read(&mut self, batch: RecordBatch) -> DfResult<RecordBatch> {
        let first = self.next;
        let rows = batch.num_rows() as u64;
        self.next += rows;
        let mut columns = batch.columns().to_vec();
        if self.has_positions {
            let end = first + rows;
            columns.push(Arc::new(Int64Array::from_iter_values(first as i64..end as i64)) as ArrayRef);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let mut batch = RecordBatch::try_new_with_options(Arc::clone(&self.physical), columns, &options)?;
        if let Some(deleted) = &self.positions
            && deleted.count_range(first..first + rows) > 0
        {
            let mut kept = BooleanBufferBuilder::new(batch.num_rows());
            kept.append_n(batch.num_rows(), true);
            for position in deleted.iter_range(first..first + rows) {
                kept.set_bit((position - first) as usize, false);
            }
            batch = filter_record_batch(&batch, &BooleanArray::new(kept.finish(), None))?;
        }
        if let Some(predicate) = &self.predicate {
            let matches = predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
            batch = filter_record_batch(&batch, as_boolean_array(&matches)?)?;
        }
        if let Some(equality) = &self.equality {
            let keys: Vec<(&str, ArrayRef)> = self
                .keys
                .iter()
                .map(|(name, key)| Ok((name.as_str(), key.evaluate(&batch)?.into_array(batch.num_rows())?)))
                .collect::<DfResult<_>>()?;
            if let Some(live) = equality.live(&RecordBatch::try_from_iter(keys)?)? {
                batch = filter_record_batch(&batch, &BooleanArray::new(live, None))?;
            }
        }
        let mut values = Vec::with_capacity(self.exprs.len());
        for expr in &self.exprs {
            values.push(expr.evaluate(&batch)?.into_array(batch.num_rows())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), values, &options)?)
    }

    fn finish(&self) -> Result<()> {
        if i64::try_from(self.next).ok() == Some(self.rows) {
            return Ok(());
        }
        let message = format!("the file holds {} rows, but its manifest says {}", self.next, self.rows);
        Err(Error::invalid(message).context(format!("file {}", self.file_path)))
    }
}
