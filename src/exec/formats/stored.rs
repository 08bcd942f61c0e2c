//! Fetching parts of a file that lies in an object store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::error::{Error, ErrorKind, Result};

/// A file in its store.
pub(crate) struct StoredFile {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) path: Path,
    /// In bytes.
    pub(crate) size: u64,
}

impl StoredFile {
    /// Reads a range of the file, and nothing but the whole of it.
    pub(super) async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let mut bytes = self.read_all(std::slice::from_ref(&range)).await?.into_iter();
        bytes.next().ok_or_else(too_short)
    }

    /// Reads ranges of the file.
    pub(super) async fn read_all(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let filled: Vec<Range<u64>> = ranges.iter().filter(|r| !r.is_empty()).cloned().collect();
        let fetched = match filled.as_slice() {
            [] => Vec::new(),
            [only] => {
                vec![self.store.get_range(&self.path, only.clone()).await.map_err(|e| self.unreadable(e))?]
            }
            several => self.store.get_ranges(&self.path, several).await.map_err(|e| self.unreadable(e))?,
        };
        let mut fetched = fetched.into_iter();
        let mut all = Vec::with_capacity(ranges.len());
        for range in ranges {
            let bytes = if range.is_empty() { Bytes::new() } else { fetched.next().unwrap_or_default() };
            if !range.is_empty() && bytes.len() as u64 != range.end - range.start {
                return Err(too_short());
            }
            all.push(bytes);
        }
        Ok(all)
    }

    fn unreadable(&self, e: object_store::Error) -> Error {
        let kind = match e {
            object_store::Error::NotFound { .. } => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("{} can't be read", self.path)).with_source(e)
    }
}

fn too_short() -> Error {
    Error::invalid("the file is shorter than its metadata says")
}
