//! What one execution of a statement found out about the rows that it changes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{BooleanArray, Int64Array};
use datafusion::physical_plan::ExecutionPlan;
use tokio::sync::{OnceCell, watch};

use crate::error::{Error, ErrorKind, Result};
use crate::spec::{DeletionVector, FileScanTask};

/// The old versions of rows, by the path of their file, and how many rows there are.
#[derive(Default)]
pub(super) struct Changes {
    removed: Mutex<BTreeMap<String, DeletionVector>>,
    rows: AtomicU64,
    /// How many partitions of the statement have told all of their rows.
    complete: watch::Sender<usize>,
    /// The files that rows are removed from.
    files: OnceCell<Vec<FileScanTask>>,
    /// What reads the other rows of these files.
    rest: OnceCell<Option<Arc<dyn ExecutionPlan>>>,
}

impl Changes {
    /// Takes rows out of a file; whether each of them was still in it.
    ///
    /// # Errors
    /// `DataInvalid` for positions that can't be.
    pub(super) fn remove(&self, file: &str, positions: &[i64]) -> Result<Vec<bool>> {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        if !removed.contains_key(file) {
            removed.insert(file.to_owned(), DeletionVector::new());
        }
        let vector = removed.get_mut(file).ok_or_else(|| Error::invalid("a file was lost"))?;
        let insert = |position: &i64| {
            let position = u64::try_from(*position);
            vector.insert(position.map_err(|_| Error::invalid("a row has a negative position"))?)
        };
        positions.iter().map(insert).collect()
    }

    /// Counts changed rows.
    pub(super) fn count(&self, rows: usize) {
        self.rows.fetch_add(u64::try_from(rows).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How many rows were changed.
    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// The old versions of rows. Only once all is told are they all.
    pub(super) fn removed(&self) -> BTreeMap<String, DeletionVector> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Which of these rows of a file stay; `None` if all do.
    pub(super) fn stay(&self, file: &str, positions: &Int64Array) -> Option<BooleanArray> {
        let removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let vector = removed.get(file)?;
        let stays = |position: &i64| u64::try_from(*position).is_ok_and(|p| !vector.contains(p));
        Some(positions.values().iter().map(stays).map(Some).collect())
    }

    /// One partition has told all of its rows.
    pub(super) fn tell_complete(&self) {
        self.complete.send_modify(|complete| *complete += 1);
    }

    /// Waits until all partitions have told all of their rows.
    pub(super) async fn all_complete(&self, partitions: usize) {
        // The sender is ours.
        let _ = self.complete.subscribe().wait_for(|complete| *complete >= partitions).await;
    }

    /// The files that rows are removed from, found by whoever asks first.
    pub(super) async fn files<F: Future<Output = Result<Vec<FileScanTask>>>>(
        &self,
        find: impl FnOnce(BTreeMap<String, DeletionVector>) -> F,
    ) -> Result<&[FileScanTask]> {
        let find = || async {
            let removed = self.removed();
            let files = find(removed.clone()).await?;
            match files.len() == removed.len() {
                true => Ok(files),
                false => {
                    Err(Error::new(ErrorKind::DataInvalid, "rows were changed in files that are not there"))
                }
            }
        };
        Ok(self.files.get_or_try_init(find).await?)
    }

    /// What reads the rest, made by whoever asks first.
    pub(super) async fn rest<F: Future<Output = Result<Option<Arc<dyn ExecutionPlan>>>>>(
        &self,
        make: impl FnOnce() -> F,
    ) -> Result<Option<&Arc<dyn ExecutionPlan>>> {
        Ok(self.rest.get_or_try_init(make).await?.as_ref())
    }
}
