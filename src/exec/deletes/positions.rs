//! Deleted positions → the rows that Parquet reads.

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use crate::error::{Error, Result};
use crate::spec::DeletionVector;

/// The rows of a file that are left: what Parquet's reader selects.
///
/// # Errors
/// `DataInvalid` for a file with more rows than memory has addresses.
pub(crate) fn row_selection(deleted: &DeletionVector, rows: u64) -> Result<RowSelection> {
    let too_large = |_| Error::invalid(format!("a file of {rows} rows"));
    let mut selectors = Vec::new();
    let mut next = 0u64;
    let mut positions = deleted.iter_range(0..rows).peekable();
    while let Some(first) = positions.next() {
        let mut end = first + 1;
        while positions.next_if_eq(&end).is_some() {
            end += 1;
        }
        if first > next {
            selectors.push(RowSelector::select(usize::try_from(first - next).map_err(too_large)?));
        }
        selectors.push(RowSelector::skip(usize::try_from(end - first).map_err(too_large)?));
        next = end;
    }
    if next < rows {
        selectors.push(RowSelector::select(usize::try_from(rows - next).map_err(too_large)?));
    }
    Ok(RowSelection::from(selectors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn selects_what_is_not_deleted(
            deleted in proptest::collection::btree_set(0u64..300, 0..120),
            rows in 0u64..260,
        ) {
            let mut vector = DeletionVector::new();
            for position in &deleted {
                vector.insert(*position).unwrap();
            }
            let selection = row_selection(&vector, rows).unwrap();
            let mut at = 0u64;
            let mut left = Vec::new();
            for selector in selection.iter() {
                if !selector.skip {
                    left.extend(at..at + selector.row_count as u64);
                }
                at += selector.row_count as u64;
            }
            prop_assert_eq!(at, rows, "a selection covers the whole file");
            let expected: Vec<u64> = (0..rows).filter(|p| !deleted.contains(p)).collect();
            prop_assert_eq!(left, expected);
        }
    }
}
