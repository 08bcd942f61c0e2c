//! Deleted positions → which rows of a file are left.
//!
//! Long runs of deleted rows become Parquet's row selection, so that their pages are never decoded.
//! Single rows don't: the reader would decode every run between them on its own, which costs more
//! than to decode all and to take them out of the batches by a mask.

use std::sync::Arc;

use arrow::array::{BooleanBufferBuilder, Int64Array};
use arrow::buffer::BooleanBuffer;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use crate::error::{Error, Result};
use crate::spec::DeletionVector;

/// From so many rows on, a run of deleted rows is skipped by the reader.
const LONG_RUN: u64 = 1024;

/// The reader's selection of what lies between long runs of deleted rows; `None` without one.
///
/// # Errors
/// `DataInvalid` for a file with more rows than memory has addresses.
pub(crate) fn long_runs(deleted: &DeletionVector, rows: u64) -> Result<Option<RowSelection>> {
    let size = |n: u64| usize::try_from(n).map_err(|_| Error::invalid(format!("a file of {rows} rows")));
    let mut selectors = Vec::new();
    let mut next = 0u64;
    let mut positions = deleted.iter_range(0..rows).peekable();
    while let Some(first) = positions.next() {
        let mut end = first + 1;
        while positions.next_if_eq(&end).is_some() {
            end += 1;
        }
        if end - first < LONG_RUN {
            continue;
        }
        if first > next {
            selectors.push(RowSelector::select(size(first - next)?));
        }
        selectors.push(RowSelector::skip(size(end - first)?));
        next = end;
    }
    if selectors.is_empty() {
        return Ok(None);
    }
    if next < rows {
        selectors.push(RowSelector::select(size(rows - next)?));
    }
    Ok(Some(RowSelection::from(selectors)))
}

/// One bit a row of a file: whether it is left.
#[derive(Debug, Clone)]
pub(crate) struct LiveRows(Arc<BooleanBuffer>);

impl LiveRows {
    /// The rows of a file of `rows` rows without the deleted ones; `None` if none of them is deleted.
    ///
    /// # Errors
    /// As [`long_runs`].
    pub(crate) fn new(deleted: &DeletionVector, rows: u64) -> Result<Option<Self>> {
        let length = usize::try_from(rows).map_err(|_| Error::invalid(format!("a file of {rows} rows")))?;
        let mut deleted = deleted.iter_range(0..rows).peekable();
        if deleted.peek().is_none() {
            return Ok(None);
        }
        let mut bits = BooleanBufferBuilder::new(length);
        bits.append_n(length, true);
        for position in deleted {
            // Below `rows`, which fits.
            bits.set_bit(position as usize, false);
        }
        Ok(Some(Self(Arc::new(bits.finish()))))
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
        // A fold without a branch is made of vector instructions.
        let gaps = values.iter().zip(*first..).fold(0, |gaps, (position, next)| gaps | (position ^ next));
        let live = if gaps == 0 {
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
            prop_assert_eq!(live.is_some(), deleted.iter().any(|p| *p < rows));
            let Some(live) = live else { return Ok(()) };
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
        for scattered in [vector((0..5000).step_by(2)), vector(7..6 + LONG_RUN), vector([])] {
            assert!(long_runs(&scattered, 5000).unwrap().is_none());
        }
        let (left, length) = selected(&long_runs(&vector(0..5000), 3000).unwrap().unwrap());
        assert_eq!((left, length), (Vec::new(), 3000));
        let vector = vector((10..12).chain(1000..1000 + LONG_RUN).chain([4999]));
        let (left, length) = selected(&long_runs(&vector, 5000).unwrap().unwrap());
        assert_eq!(length, 5000);
        assert_eq!(left, (0..1000).chain(1000 + LONG_RUN..5000).collect::<Vec<_>>());
    }

    #[test]
    fn a_position_outside_of_the_file_is_an_error() {
        let live = LiveRows::new(&vector([1]), 3).unwrap().unwrap();
        for positions in [vec![3], vec![-1], vec![0, 7, 2]] {
            assert!(live.at(&Int64Array::from(positions)).is_err());
        }
    }
}
