//! Decoded manifest lists, manifests and footers, and which rows of data files are left, kept while
//! there is room for them.
//!
//! All of them are immutable, so an entry never gets stale. What decides how a manifest is decoded is part
//! of its key: the values that its entries inherit, and the type of its partition tuples.

use std::future::Future;
use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use moka::future::Cache;
use parquet::file::metadata::ParquetMetaData;

use crate::error::{Error, Result};
use crate::spec::{Manifest, ManifestFile, SequenceNumber, SnapshotId};

/// How much a cache holds unless told otherwise.
const DEFAULT_CAPACITY: u64 = 256 << 20;

/// Keeps decoded metadata of the tables of a session, up to a number of bytes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MetadataCache {
    entries: Cache<Key, Entry>,
}

/// A file, and what decides how it is decoded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Which store, and the location in it.
    pub(super) file: (u64, String),
    pub(super) role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Role {
    List,
    /// A Parquet footer, as resolved for one schema.
    Footer(u64),
    /// The rows that deletes, as told by this text, leave of a data file.
    LiveRows(Arc<str>),
    Manifest {
        sequence_number: SequenceNumber,
        added_snapshot_id: Option<SnapshotId>,
        first_row_id: Option<i64>,
        is_deletes: bool,
        /// The spec and the type of the partition tuples.
        partition: Arc<str>,
    },
}

#[derive(Debug, Clone)]
enum Entry {
    List(Arc<Vec<ManifestFile>>),
    Manifest(Arc<Manifest>),
    Footer(Arc<ParquetMetaData>),
    LiveRows(BooleanBuffer),
}

impl Default for MetadataCache {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

impl MetadataCache {
    /// A cache that holds up to `capacity` bytes of decoded metadata; 0 turns it off.
    pub fn new(capacity: u64) -> Self {
        let weigh = |key: &Key, entry: &Entry| {
            let size = match entry {
                Entry::List(list) => list_size(list),
                Entry::Manifest(manifest) => manifest.memory_size(),
                Entry::Footer(footer) => footer.memory_size(),
                Entry::LiveRows(live) => live.inner().capacity(),
            };
            let text = match &key.role {
                Role::LiveRows(deletes) => deletes.len(),
                _ => 0,
            };
            let key = key.file.1.len() + text + size_of::<Key>();
            u32::try_from(size.saturating_add(key)).unwrap_or(u32::MAX)
        };
        Self { entries: Cache::builder().max_capacity(capacity).weigher(weigh).build() }
    }

    /// The manifest list of that key, loaded if need be; by one of those who ask at the same time.
    pub(super) async fn list(
        &self,
        key: Key,
        load: impl Future<Output = Result<Vec<ManifestFile>>>,
    ) -> Result<Arc<Vec<ManifestFile>>> {
        let load = async { Ok(Entry::List(Arc::new(load.await?))) };
        match self.entries.try_get_with(key, load).await.map_err(shared_error)? {
            Entry::List(list) => Ok(list),
            _ => Err(Error::invalid("the metadata cache mixed up its entries")),
        }
    }

    /// The manifest of that key, loaded if need be; by one of those who ask at the same time.
    pub(super) async fn manifest(
        &self,
        key: Key,
        load: impl Future<Output = Result<Manifest>>,
    ) -> Result<Arc<Manifest>> {
        let load = async { Ok(Entry::Manifest(Arc::new(load.await?))) };
        match self.entries.try_get_with(key, load).await.map_err(shared_error)? {
            Entry::Manifest(manifest) => Ok(manifest),
            _ => Err(Error::invalid("the metadata cache mixed up its entries")),
        }
    }

    /// The footer of that file, resolved for the schema of that fingerprint, if it is held.
    pub(crate) async fn footer(
        &self,
        file: &(u64, String),
        fingerprint: u64,
    ) -> Option<Arc<ParquetMetaData>> {
        let key = Key { file: file.clone(), role: Role::Footer(fingerprint) };
        match self.entries.get(&key).await {
            Some(Entry::Footer(footer)) => Some(footer),
            _ => None,
        }
    }

    /// Keeps a footer for [`MetadataCache::footer`].
    pub(crate) async fn keep_footer(
        &self,
        file: (u64, String),
        fingerprint: u64,
        footer: Arc<ParquetMetaData>,
    ) {
        self.entries.insert(Key { file, role: Role::Footer(fingerprint) }, Entry::Footer(footer)).await;
    }

    /// One bit a row of a data file, set where `deletes`, a text that tells them from any others, leave
    /// it, if that is held.
    pub(crate) async fn live_rows(&self, file: &(u64, String), deletes: &Arc<str>) -> Option<BooleanBuffer> {
        let key = Key { file: file.clone(), role: Role::LiveRows(Arc::clone(deletes)) };
        match self.entries.get(&key).await {
            Some(Entry::LiveRows(live)) => Some(live),
            _ => None,
        }
    }

    /// Keeps bits for [`MetadataCache::live_rows`].
    pub(crate) async fn keep_live_rows(&self, file: (u64, String), deletes: Arc<str>, live: BooleanBuffer) {
        self.entries.insert(Key { file, role: Role::LiveRows(deletes) }, Entry::LiveRows(live)).await;
    }

    /// Bytes held now, roughly.
    pub async fn size(&self) -> u64 {
        self.entries.run_pending_tasks().await;
        self.entries.weighted_size()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.entries.invalidate_all();
    }
}

/// Those who waited for a load get its error, too; errors can't be cloned.
fn shared_error(error: Arc<Error>) -> Error {
    Arc::try_unwrap(error).unwrap_or_else(|error| error.duplicate())
}

fn list_size(list: &[ManifestFile]) -> usize {
    let of_bytes = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    let sizes = list.iter().map(|manifest| {
        let summaries = manifest.partitions.iter().flatten();
        let summaries =
            summaries.map(|s| size_of_val(s) + of_bytes(&s.lower_bound) + of_bytes(&s.upper_bound));
        size_of_val(manifest)
            + manifest.manifest_path.len()
            + of_bytes(&manifest.key_metadata)
            + summaries.sum::<usize>()
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn key(name: &str) -> Key {
        Key { file: (0, name.to_owned()), role: Role::List }
    }

    #[tokio::test]
    async fn concurrent_loads_of_one_file_happen_once() {
        let (cache, loads) = (MetadataCache::default(), AtomicUsize::new(0));
        let load = || async {
            tokio::task::yield_now().await;
            loads.fetch_add(1, Ordering::SeqCst);
            Ok(Vec::new())
        };
        let (a, b) = tokio::join!(cache.list(key("a"), load()), cache.list(key("a"), load()));
        assert!(Arc::ptr_eq(&a.unwrap(), &b.unwrap()));
        cache.list(key("b"), load()).await.unwrap();
        assert_eq!(loads.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn errors_reach_all_and_are_not_kept() {
        let cache = MetadataCache::default();
        let fail = || async {
            tokio::task::yield_now().await;
            Err(Error::not_found("gone").with_source("why").context("file x"))
        };
        let (a, b) = tokio::join!(cache.list(key("a"), fail()), cache.list(key("a"), fail()));
        for e in [a.unwrap_err(), b.unwrap_err()] {
            assert_eq!(e.kind(), ErrorKind::NotFound);
            assert_eq!(e.to_string(), "file x: not found: gone: why");
        }
        assert!(cache.list(key("a"), async { Ok(Vec::new()) }).await.is_ok());
    }

    #[tokio::test]
    async fn it_stays_within_its_bounds() {
        let cache = MetadataCache::new(10_000);
        for i in 0..1000 {
            cache.list(key(&format!("file {i}")), async { Ok(Vec::new()) }).await.unwrap();
        }
        let size = cache.size().await;
        assert!(size > 0 && size <= 10_000, "{size}");
        cache.clear();
        assert_eq!(cache.size().await, 0);
        let off = MetadataCache::new(0);
        assert!(off.list(key("a"), async { Ok(Vec::new()) }).await.is_ok());
        assert_eq!(off.size().await, 0);
    }
}
