//! Finding and fetching the parts of an ORC file, and its rows stripe by stripe.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;

use super::super::{OpenedFile, read_range, unreadable};
use super::column::{Column, StripeData};
use super::footer::{Footer, PostScript, Stripe, StripeFooter};
use super::input::{Compression, Input};
use super::plan::{Planned, plan};
use super::timestamp::Clock;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{NameMapping, Schema};

/// How much of the end of a file is fetched at first.
const TAIL: u64 = 64 << 10;
/// No footer is longer, decompressed.
const MAX_FOOTER: usize = 256 << 20;
/// About as many bytes of the file become one batch, however few rows these are.
const BATCH_BYTES: u64 = 16 << 20;

/// Opens an ORC file of `size` bytes to read `columns` of `schema`, in batches of up to
/// `batch_size` rows. Files without field ids are read by `mapping`, or else by name.
///
/// # Errors
/// `NotFound` and `Io` from the store, `DataInvalid` for a file that is broken or does not fit the
/// schema, `Unsupported` for encryption, LZO, unions and unknown time zones.
pub(crate) async fn open_orc(
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    schema: &Schema,
    mapping: Option<&NameMapping>,
    columns: &HashSet<String>,
    batch_size: usize,
) -> Result<OpenedFile> {
    let (compression, footer) = read_footer(&store, &path, size).await?;
    let (columns, fields) = plan(&footer, schema, mapping, columns)?;
    let schema: SchemaRef = Arc::new(ArrowSchema::new(fields));
    let mut needed = HashSet::new();
    columns.iter().for_each(|c| c.add_columns(&mut needed));
    let file = File {
        store,
        path,
        compression,
        stripes: footer.stripes.into_iter(),
        columns,
        needed,
        schema: Arc::clone(&schema),
        batch_size: batch_size.max(1),
        rows: None,
    };
    let batches = stream::try_unfold(file, |mut file| async move {
        let batch = file.next_batch().await?;
        Ok(batch.map(|batch| (batch, file)))
    });
    Ok(OpenedFile { schema, batches: batches.boxed() })
}

async fn read_footer(store: &Arc<dyn ObjectStore>, path: &Path, size: u64) -> Result<(Compression, Footer)> {
    const TOO_SHORT: &str = "orc file is too short";
    let start = size.saturating_sub(TAIL);
    let tail = read_range(store, path, start..size).await?;
    let (length, before) = tail.split_last().ok_or_else(|| Error::invalid(TOO_SHORT))?;
    let postscript = before.len().checked_sub(usize::from(*length)).and_then(|at| before.get(at..));
    let postscript = PostScript::parse(postscript.ok_or_else(|| Error::invalid(TOO_SHORT))?)?;

    let end = size - 1 - u64::from(*length);
    let at = end.checked_sub(postscript.footer_length).ok_or_else(|| Error::invalid(TOO_SHORT))?;
    let footer = match at.checked_sub(start).and_then(|at| usize::try_from(at).ok()) {
        Some(at) => tail.slice(at..before.len() - usize::from(*length)),
        None => read_range(store, path, at..end).await?,
    };
    let footer = Input::new(footer, postscript.compression).all(MAX_FOOTER)?;
    Ok((postscript.compression, Footer::parse(&footer, at)?))
}

struct File {
    store: Arc<dyn ObjectStore>,
    path: Path,
    compression: Compression,
    /// Those not begun.
    stripes: std::vec::IntoIter<Stripe>,
    columns: Vec<Planned>,
    /// The numbers of the columns whose streams are needed.
    needed: HashSet<u64>,
    schema: SchemaRef,
    batch_size: usize,
    /// The stripe that is read.
    rows: Option<Rows>,
}

/// What is left of a stripe.
struct Rows {
    left: u64,
    batch_size: usize,
    columns: Vec<Column>,
}

impl File {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = &mut self.rows
                && rows.left > 0
            {
                return rows.next_batch(&self.schema).map(Some);
            }
            let Some(stripe) = self.stripes.next() else { return Ok(None) };
            self.rows = Some(self.open_stripe(&stripe).await?);
        }
    }

    async fn open_stripe(&self, stripe: &Stripe) -> Result<Rows> {
        if self.columns.is_empty() {
            return Ok(Rows { left: stripe.rows, batch_size: self.batch_size, columns: Vec::new() });
        }
        // None of these sums can overflow: the file's footer was checked.
        let streams_end = stripe.offset + stripe.index_length + stripe.data_length;
        let footer = streams_end..streams_end + stripe.footer_length;
        let footer = read_range(&self.store, &self.path, footer).await?;
        let footer = Input::new(footer, self.compression).all(MAX_FOOTER)?;
        let footer = StripeFooter::parse(&footer)?;

        let (keys, ranges) = self.needed_streams(&footer, stripe.offset..streams_end)?;
        let bytes: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        let data = self.fetch(&ranges).await?;
        let mut streams = HashMap::new();
        for (key, data) in keys.into_iter().zip(data) {
            if streams.insert(key, data).is_some() {
                return Err(Error::invalid(format!(
                    "orc column {} has two streams of kind {}",
                    key.0, key.1
                )));
            }
        }
        let stripe_data = StripeData {
            streams,
            encodings: footer.encodings,
            compression: self.compression,
            clock: Clock::of_writer(footer.timezone.as_deref())?,
        };
        let columns = self.columns.iter().zip(self.schema.fields()).map(|(column, field)| {
            Column::open(column, &stripe_data).context(|| format!("field `{}`", field.name()))
        });
        Ok(Rows {
            left: stripe.rows,
            batch_size: batch_size(self.batch_size, stripe.rows, bytes),
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// Columns and kinds of the streams that are needed, and where they lie.
    #[allow(clippy::type_complexity)]
    fn needed_streams(
        &self,
        footer: &StripeFooter,
        stripe: Range<u64>,
    ) -> Result<(Vec<(u64, u64)>, Vec<Range<u64>>)> {
        let mut keys = Vec::new();
        let mut ranges = Vec::new();
        let mut position = stripe.start;
        for stream in &footer.streams {
            let end = position.checked_add(stream.length).filter(|end| *end <= stripe.end);
            let end = end.ok_or_else(|| Error::invalid("orc streams lie outside of their stripe"))?;
            if Column::needs(stream.kind) && self.needed.contains(&stream.column) {
                keys.push((stream.column, stream.kind));
                ranges.push(position..end);
            }
            position = end;
        }
        Ok((keys, ranges))
    }

    async fn fetch(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let filled: Vec<Range<u64>> = ranges.iter().filter(|r| !r.is_empty()).cloned().collect();
        let mut fetched = match filled.is_empty() {
            true => Vec::new(),
            false => {
                let fetched = self.store.get_ranges(&self.path, &filled).await;
                fetched.map_err(|e| unreadable(e, &self.path))?
            }
        }
        .into_iter();
        let mut all = Vec::with_capacity(ranges.len());
        for range in ranges {
            let bytes = if range.is_empty() { Bytes::new() } else { fetched.next().unwrap_or_default() };
            if bytes.len() as u64 != range.end - range.start {
                return Err(Error::invalid("the file is shorter than its metadata says"));
            }
            all.push(bytes);
        }
        Ok(all)
    }
}

/// Fewer rows than wanted where rows are large.
fn batch_size(wanted: usize, rows: u64, bytes: u64) -> usize {
    let fitting = u128::from(rows) * u128::from(BATCH_BYTES) / u128::from(bytes.max(1));
    wanted.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1)
}

impl Rows {
    fn next_batch(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.batch_size);
        self.left -= rows as u64;
        let columns =
            self.columns.iter_mut().zip(schema.fields()).map(|(column, field)| {
                column.read(rows, None).context(|| format!("field `{}`", field.name()))
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map_err(|e| Error::invalid("the rows make no batch").with_source(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_rows_come_in_small_batches() {
        assert_eq!(batch_size(8192, 1_000_000, 64 << 20), 8192);
        assert_eq!(batch_size(8192, 100, 1 << 30), 1);
        assert_eq!(batch_size(8192, 1000, 160 << 20), 100);
        assert_eq!(batch_size(8192, 0, 0), 1);
    }
}
