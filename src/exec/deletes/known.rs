//! Which rows of data files are left, kept for the queries to come: files are immutable, so it is
//! found out once. Deleted keys are found out of by scans that happen to see every row of a file.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::Int64Array;
use arrow::buffer::BooleanBuffer;

use crate::error::{Error, Result};
use crate::spec::{FileScanTask, SchemaId};
use crate::table::Table;

use super::positions::LiveRows;

/// Deletes that take a longer text are not kept: it would weigh more than what it tells.
const LONGEST_TEXT: usize = 16 << 10;

/// The place of a data file's live rows in the table's cache.
#[derive(Debug, Clone)]
pub(crate) struct KnownRows {
    table: Table,
    file: (u64, String),
    deletes: Arc<str>,
}

impl KnownRows {
    /// The place for a file with its deletes; `None` if they are too many.
    ///
    /// # Errors
    /// Those of [`Table::resolve`].
    pub(crate) fn new(table: &Table, schema: SchemaId, task: &FileScanTask) -> Result<Option<Self>> {
        use std::fmt::Write;
        let mut text = format!("{schema} {} {}", task.sequence_number, task.data_file.record_count);
        for delete in &task.deletes {
            let file = &delete.file;
            // Into a string, nothing fails.
            let _ = write!(
                text,
                "\n{} {:?} {:?} {} {}",
                delete.sequence_number, file.content_offset, file.equality_ids, file.spec_id, file.file_path
            );
            if text.len() > LONGEST_TEXT {
                return Ok(None);
            }
        }
        let location = table.resolve(&task.data_file.file_path)?;
        let file = table.storage().cache_key(&location)?;
        Ok(Some(Self { table: table.clone(), file, deletes: text.into() }))
    }

    /// The rows that are left, if somebody found that out before.
    pub(crate) async fn get(&self) -> Option<LiveRows> {
        self.table.cache().live_rows(&self.file, &self.deletes).await.map(LiveRows::of_bits)
    }

    pub(crate) async fn keep(self, live: &LiveRows) {
        self.table.cache().keep_live_rows(self.file, self.deletes, live.bits().clone()).await;
    }
}

/// Watches which rows of a data file a scan finds deleted by their keys.
#[derive(Debug)]
pub(crate) struct Observer {
    place: KnownRows,
    rows: Mutex<Rows>,
}

/// The runs of positions that follow each other.
fn runs(positions: &[i64]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let follows = |a: &i64, b: &i64| a.checked_add(1) == Some(*b);
    positions.chunk_by(follows).filter_map(|run| {
        let first = usize::try_from(*run.first()?).ok()?;
        Some(first..first.checked_add(run.len())?)
    })
}

/// The words that hold the bits of a run, with these bits set.
fn bits_of(run: std::ops::Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    (run.start / 64..run.end.div_ceil(64)).map(move |word| {
        let below = |end: usize| match end.saturating_sub(word * 64) {
            bits @ ..64 => (1u64 << bits) - 1,
            _ => u64::MAX,
        };
        (word, below(run.end) & !below(run.start))
    })
}

#[derive(Debug)]
struct Rows {
    length: usize,
    /// One bit a row: whether it was seen, and whether it is left.
    seen: Vec<u64>,
    live: Vec<u64>,
}

impl Observer {
    /// For a file of `rows` rows, of which position deletes leave `live`.
    ///
    /// # Errors
    /// `DataInvalid` for a file with more rows than memory has addresses.
    pub(crate) fn new(place: KnownRows, rows: u64, live: Option<&LiveRows>) -> Result<Self> {
        let length = usize::try_from(rows).map_err(|_| Error::invalid(format!("a file of {rows} rows")))?;
        let words = length.div_ceil(64);
        let (mut seen, mut left) = (vec![0u64; words], vec![u64::MAX; words]);
        if let Some(live) = live {
            // What is gone already need not be seen.
            for row in (!live.bits()).set_indices() {
                if let (Some(seen), Some(left)) = (seen.get_mut(row / 64), left.get_mut(row / 64)) {
                    *seen |= 1 << (row % 64);
                    *left &= !(1 << (row % 64));
                }
            }
        }
        Ok(Self { place, rows: Mutex::new(Rows { length, seen, live: left }) })
    }

    /// Takes note of rows, and of which of them their keys leave; `None`: all.
    pub(crate) fn note(&self, positions: &Int64Array, live: Option<&BooleanBuffer>) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = &mut *rows;
        let values = positions.values();
        for (word, bits) in runs(values).flat_map(bits_of) {
            if let Some(seen) = rows.seen.get_mut(word) {
                *seen |= bits;
            }
        }
        let Some(live) = live else { return };
        for i in (!live).set_indices() {
            let row = values.get(i).and_then(|position| usize::try_from(*position).ok());
            if let Some((row, left)) = row.and_then(|row| Some((row, rows.live.get_mut(row / 64)?))) {
                *left &= !(1 << (row % 64));
            }
        }
    }

    /// Keeps the result if every row was seen.
    pub(crate) async fn finish(&self) {
        let live = {
            let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let seen: usize = rows.seen.iter().map(|word| word.count_ones() as usize).sum();
            if seen < rows.length {
                return;
            }
            LiveRows::of_words(rows.live.clone(), rows.length)
        };
        self.place.clone().keep(&live).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_cover_their_positions(positions in prop::collection::btree_set(0i64..400, 0..200)) {
            let positions: Vec<i64> = positions.into_iter().collect();
            let mut covered = BTreeSet::new();
            for (word, bits) in runs(&positions).flat_map(bits_of) {
                covered.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word as i64 * 64 + bit));
            }
            prop_assert_eq!(covered.into_iter().collect::<Vec<_>>(), positions);
        }
    }
}
