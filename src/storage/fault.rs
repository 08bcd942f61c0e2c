//! A store that fails on demand, for tests of what happens then.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Wraps a store, counts its calls, and fails one of them.
#[derive(Debug)]
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    calls: AtomicU64,
    fail_at: AtomicU64,
}

impl FaultStore {
    /// Fails nothing until told to.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, calls: AtomicU64::new(0), fail_at: AtomicU64::new(u64::MAX) }
    }

    /// Fails one call: the next for 0, the one after it for 1, and so on.
    pub fn fail_after(&self, calls: u64) {
        self.fail_at.store(self.calls().saturating_add(calls), Ordering::SeqCst);
    }

    /// The number of calls so far, failed ones included.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn call(&self) -> Result<()> {
        match self.calls.fetch_add(1, Ordering::SeqCst) == self.fail_at.load(Ordering::SeqCst) {
            true => Err(Error::Generic { store: "FaultStore", source: "injected fault".into() }),
            false => Ok(()),
        }
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.call()?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.call()?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.call()?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.call()?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.call() {
            Ok(()) => self.inner.delete_stream(locations),
            Err(e) => Box::pin(futures::stream::once(async { Err(e) })),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.call() {
            Ok(()) => self.inner.list(prefix),
            Err(e) => Box::pin(futures::stream::once(async { Err(e) })),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.call()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.call()?;
        self.inner.copy_opts(from, to, options).await
    }
}
