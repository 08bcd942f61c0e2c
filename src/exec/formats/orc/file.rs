//! Finding and fetching the parts of an ORC file, and its rows stripe by stripe.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::physical_optimizer::pruning::PruningPredicate;

use super::super::{FileRows, OpenedFile, Piece, StoredFile, Wanted, batch};
use super::column::{Column, StripeData};
use super::footer::{Footer, PostScript, Stripe, StripeFooter};
use super::input::{Compression, Input};
use super::plan::{Planned, plan};
use super::statistics::StripeStatistics;
use super::timestamp::Clock;
use crate::error::{Error, Result, ResultExt};

/// How much of the end of a file is fetched at first.
const TAIL: u64 = 64 << 10;
/// No footer is longer, decompressed.
const MAX_FOOTER: usize = 256 << 20;
/// Statistics that are longer are not used: they are decoded as a whole.
const MAX_STATISTICS: usize = 16 << 20;
/// About as many bytes of the file become one batch, however few rows these are.
const BATCH_BYTES: u64 = 16 << 20;

/// Opens an ORC file.
///
/// # Errors
/// `NotFound` and `Io` from the store, `DataInvalid` for a file that is broken or does not fit the
/// schema, `Unsupported` for encryption, LZO, unions and unknown time zones.
pub(crate) async fn open_orc(file: StoredFile, wanted: &Wanted<'_>) -> Result<OpenedFile> {
    let Tail { compression, footer, statistics, writer_version } = read_tail(&file).await?;
    let (columns, fields) = plan(&footer, wanted)?;
    let schema: SchemaRef = Arc::new(ArrowSchema::new(fields));
    let mut needed = HashSet::new();
    columns.iter().for_each(|c| c.add_columns(&mut needed));
    let rows = File {
        file,
        compression,
        footer,
        statistics,
        writer_version,
        pruned: Vec::new(),
        next_stripe: 0,
        columns,
        needed,
        schema: Arc::clone(&schema),
        batch_size: wanted.batch_size.max(1),
        rows: None,
    };
    Ok(OpenedFile { schema, rows: Box::new(rows) })
}

/// What the end of a file says.
struct Tail {
    compression: Compression,
    footer: Footer,
    statistics: Section,
    writer_version: u64,
}

/// A part of a file that may have come with its end.
enum Section {
    Fetched(Bytes),
    At(Range<u64>),
}

impl Section {
    /// A part of the file whose bytes from `start` on are `tail`.
    fn new(range: Range<u64>, tail: &Bytes, start: u64) -> Self {
        let at = |position: u64| usize::try_from(position.checked_sub(start)?).ok();
        match (at(range.start), at(range.end)) {
            (Some(from), Some(to)) if from <= to && to <= tail.len() => {
                Section::Fetched(tail.slice(from..to))
            }
            _ => Section::At(range),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Section::Fetched(bytes) => bytes.len() as u64,
            Section::At(range) => range.end - range.start,
        }
    }

    async fn read(&self, file: &StoredFile) -> Result<Bytes> {
        match self {
            Section::Fetched(bytes) => Ok(bytes.clone()),
            Section::At(range) => file.read(range.clone()).await,
        }
    }
}

async fn read_tail(file: &StoredFile) -> Result<Tail> {
    const TOO_SHORT: &str = "orc file is too short";
    let size = file.size;
    let start = size.saturating_sub(TAIL);
    let tail = file.read(start..size).await?;
    let (length, before) = tail.split_last().ok_or_else(|| Error::invalid(TOO_SHORT))?;
    let postscript = before.len().checked_sub(usize::from(*length)).and_then(|at| before.get(at..));
    let postscript = PostScript::parse(postscript.ok_or_else(|| Error::invalid(TOO_SHORT))?)?;

    let end = size - 1 - u64::from(*length);
    let at = end.checked_sub(postscript.footer_length).ok_or_else(|| Error::invalid(TOO_SHORT))?;
    let footer = Section::new(at..end, &tail, start).read(file).await?;
    let footer = Input::new(footer, postscript.compression).all(MAX_FOOTER)?;
    let statistics = at.saturating_sub(postscript.metadata_length)..at;
    Ok(Tail {
        compression: postscript.compression,
        footer: Footer::parse(&footer, at)?,
        statistics: Section::new(statistics, &tail, start),
        writer_version: postscript.writer_version,
    })
}

struct File {
    file: StoredFile,
    compression: Compression,
    footer: Footer,
    statistics: Section,
    writer_version: u64,
    /// By stripe, whether it is passed over; those without an entry are not.
    pruned: Vec<bool>,
    next_stripe: usize,
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

#[async_trait]
impl FileRows for File {
    async fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            if let Some(rows) = &mut self.rows
                && rows.left > 0
            {
                return rows.next_batch(&self.schema).map(|batch| Some(Piece::Rows(batch)));
            }
            let Some(stripe) = self.footer.stripes.get(self.next_stripe).copied() else { return Ok(None) };
            let is_pruned = self.pruned.get(self.next_stripe).is_some_and(|pruned| *pruned);
            self.next_stripe += 1;
            if is_pruned {
                return Ok(Some(Piece::Skipped(stripe.rows)));
            }
            self.rows = Some(self.open_stripe(&stripe).await?);
        }
    }

    async fn prune(&mut self, filter: &PruningPredicate) -> Result<usize> {
        if !StripeStatistics::are_trusted(self.writer_version)
            || self.statistics.len() > MAX_STATISTICS as u64
        {
            return Ok(0);
        }
        let metadata = self.statistics.read(&self.file).await?;
        // What can't be understood does not hinder reading.
        let kept = Input::new(metadata, self.compression)
            .all(MAX_STATISTICS)
            .and_then(|metadata| {
                StripeStatistics::parse(&metadata, self.writer_version, &self.footer, &self.columns)
            })
            .map_err(Error::from)
            .and_then(|statistics| statistics.kept(filter, &self.schema));
        match kept {
            Ok(kept) => self.pruned = kept.into_iter().map(|kept| !kept).collect(),
            Err(e) => tracing::debug!(file = %self.file.path, error = %e, "no stripes are pruned"),
        }
        Ok(self.pruned.iter().filter(|pruned| **pruned).count())
    }
}

impl File {
    async fn open_stripe(&self, stripe: &Stripe) -> Result<Rows> {
        if self.columns.is_empty() {
            return Ok(Rows { left: stripe.rows, batch_size: self.batch_size, columns: Vec::new() });
        }
        // None of these sums can overflow: the file's footer was checked.
        let streams_end = stripe.offset + stripe.index_length + stripe.data_length;
        let footer = streams_end..streams_end + stripe.footer_length;
        let footer = self.file.read(footer).await?;
        let footer = Input::new(footer, self.compression).all(MAX_FOOTER)?;
        let footer = StripeFooter::parse(&footer)?;

        let (keys, ranges) = self.needed_streams(&footer, stripe.offset..streams_end)?;
        let bytes: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        let data = self.file.read_all(&ranges).await?;
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
        batch(schema, columns.collect::<Result<_>>()?, rows)
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
