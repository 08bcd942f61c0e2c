//! Deleted positions → which rows of a file are left.
//!
//! Long runs of deleted rows become Parquet's row selection, so that their pages are never decoded.
//! Single rows don't: the reader would decode every run between them on its own, which costs more
//! than to decode all and to take them out of the batches by a mask.

use arrow::array::{BooleanBufferBuilder, Int64Array};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::util::bit_iterator::BitSliceIterator;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use crate::error::{Error, Result};
use crate::spec::DeletionVector;

/// From so many rows on, a run of deleted rows is skipped by the reader.
const LONG_RUN: usize = 1024;

/// One bit a row of a file: whether it is left.
#[derive(Debug, Clone)]
pub(crate) struct LiveRows(BooleanBuffer);

impl LiveRows {
    /// The rows of a file of `rows` rows without the deleted ones.
    ///
    /// # Errors
    /// `DataInvalid` for a file with more rows than memory has addresses.
    pub(crate) fn new(deleted: &DeletionVector, rows: u64) -> Result<Self> {
        let length = usize::try_from(rows).map_err(|_| Error::invalid(format!("a file of {rows} rows")))?;
        let mut words = vec![u64::MAX; length.div_ceil(64)];
        deleted.clear_in(&mut words);
        Ok(Self::of_words(words, length))
    }

    /// The first `length` bits of words, of which there are enough: the lowest bit of the first word
    /// is the first row.
    pub(super) fn of_words(mut words: Vec<u64>, length: usize) -> Self {
        // Arrow's bits have the order of bytes in memory that little-endian words have.
        if cfg!(target_endian = "big") {
            words.iter_mut().for_each(|word| *word = word.swap_bytes());
        }
        Self(BooleanBuffer::new(Buffer::from_vec(words), 0, length))
    }

    pub(super) fn of_bits(bits: BooleanBuffer) -> Self {
        Self(bits)
    }

    pub(super) fn bits(&self) -> &BooleanBuffer {
        &self.0
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.0.inner().len()
    }

    /// Whether no row is deleted.
    pub(crate) fn is_all(&self) -> bool {
        self.0.count_set_bits() == self.0.len()
    }

    /// The reader's selection of what lies between long runs of deleted rows; `None` without one.
    pub(crate) fn long_runs(&self) -> Option<RowSelection> {
        if !self.has_a_run_of_words(LONG_RUN / 64 - 1) {
            return None;
        }
        let mut selectors = Vec::new();
        // The end of the last live run, and of the last long run of deleted rows.
        let (mut live_end, mut next) = (0, 0);
        let runs = BitSliceIterator::new(self.0.values(), self.0.offset(), self.0.len());
        for (start, end) in runs.chain([(self.0.len(), self.0.len())]) {
            if start - live_end >= LONG_RUN {
                if live_end > next {
                    selectors.push(RowSelector::select(live_end - next));
                }
                selectors.push(RowSelector::skip(start - live_end));
                next = start;
            }
            live_end = end;
        }
        if selectors.is_empty() {
            return None;
        }
        if next < self.0.len() {
            selectors.push(RowSelector::select(self.0.len() - next));
        }
        Some(RowSelection::from(selectors))
    }

    /// Whether so many words of 64 rows, one after the other, are deleted; what is beyond the end counts
    /// as deleted. A longer run of deleted rows has that, and to look for it takes a moment.
    fn has_a_run_of_words(&self, words: usize) -> bool {
        let mut run = 0;
        self.0.bit_chunks().iter_padded().any(|word| {
            run = if word == 0 { run + 1 } else { 0 };
            run >= words
        })
    }

    /// Which of the rows at these positions are left; `None`: all.
    ///
    /// # Errors
    /// `DataInvalid` for a position that the file does not have.
    pub(crate) fn at(&self, positions: &Int64Array) -> Result<Option<BooleanBuffer>> {
        let values = positions.values();
        let Some(first) = values.first() else { return Ok(None) };
        let index = |position: i64| {
            usize::try_from(position).ok().filter(|p| *p < self.0.len()).ok_or_else(|| {
                Error::invalid(format!("position {position} in a file of {} rows", self.0.len()))
            })
        };
        let live = if without_gaps(values) {
            index(first.saturating_add(values.len() as i64 - 1))?;
            self.0.slice(index(*first)?, values.len())
        } else {
            let mut live = BooleanBufferBuilder::new(values.len());
            for position in values {
                live.append(self.0.value(index(*position)?));
            }
            live.finish()
        };
        Ok((live.count_set_bits() < live.len()).then_some(live))
    }
}

/// Whether positions are one run.
///
/// They ascend, as a batch comes from one row group: then the last tells. To look at some between costs
/// nothing, and holds if a reader ever joins row groups in another order.
fn without_gaps(positions: &[i64]) -> bool {
    let Some(first) = positions.first() else { return true };
    let is_next = |i: usize| positions.get(i).is_some_and(|p| p.checked_sub(*first) == i64::try_from(i).ok());
    is_next(positions.len() - 1) && (0..positions.len()).step_by(positions.len() / 128 + 1).all(is_next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector(positions: impl IntoIterator<Item = u64>) -> DeletionVector {
        let mut vector = DeletionVector::new();
        for position in positions {
            vector.insert(position).unwrap();
        }
        vector
    }

    fn selected(selection: &RowSelection) -> (Vec<u64>, u64) {
        let mut at = 0u64;
        let mut left = Vec::new();
        for selector in selection.iter() {
            if !selector.skip {
                left.extend(at..at + selector.row_count as u64);
            }
            at += selector.row_count as u64;
        }
        (left, at)
    }

    proptest! {
        #[test]
        fn a_mask_knows_what_is_not_deleted(
            deleted in proptest::collection::btree_set(0u64..300, 0..120),
            rows in 1u64..260,
            picked in proptest::collection::btree_set(0i64..260, 0..100),
        ) {
            let live = LiveRows::new(&vector(deleted.iter().copied()), rows).unwrap();
            prop_assert_eq!(!live.is_all(), deleted.iter().any(|p| *p < rows));
            let some: Vec<i64> = picked.into_iter().filter(|p| *p < rows as i64).collect();
            for positions in [(0..rows as i64).collect(), some, Vec::new()] {
                let expected: Vec<bool> = positions.iter().map(|p| !deleted.contains(&(*p as u64))).collect();
                let mask = live.at(&Int64Array::from(positions)).unwrap();
                let mask: Vec<bool> = match mask {
                    Some(mask) => mask.iter().collect(),
                    None => vec![true; expected.len()],
                };
                prop_assert_eq!(mask, expected);
            }
        }
    }

    #[test]
    fn only_long_runs_are_skipped_by_the_reader() {
        let run = LONG_RUN as u64;
        let runs = |deleted: DeletionVector, rows| LiveRows::new(&deleted, rows).unwrap().long_runs();
        for scattered in [vector((0..5000).step_by(2)), vector(7..6 + run), vector([])] {
            assert!(runs(scattered, 5000).is_none());
        }
        let (left, length) = selected(&runs(vector(0..5000), 3000).unwrap());
        assert_eq!((left, length), (Vec::new(), 3000));
        let (left, length) =
            selected(&runs(vector((10..12).chain(1000..1000 + run).chain([4999])), 5000).unwrap());
        assert_eq!(length, 5000);
        assert_eq!(left, (0..1000).chain(1000 + run..5000).collect::<Vec<_>>());
        let (left, length) = selected(&runs(vector((0..run).chain(5000 - run..5000)), 5000).unwrap());
        assert_eq!(length, 5000);
        assert_eq!(left, (run..5000 - run).collect::<Vec<_>>());
    }

    #[test]
    fn a_position_outside_of_the_file_is_an_error() {
        let live = LiveRows::new(&vector([1]), 3).unwrap();
        for positions in [vec![3], vec![-1], vec![0, 7, 2]] {
            assert!(live.at(&Int64Array::from(positions)).is_err());
        }
    }
}
