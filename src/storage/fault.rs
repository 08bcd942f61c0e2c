//! Calls that fail on demand, for tests of what happens then.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::watch;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing is done, and the caller is told so.
    Refused,
    /// It is done, but the reply is lost: the caller is told of a failure.
    Lost,
    /// The caller dies before anything is done: the call, and all later ones, never return.
    CrashBefore,
    /// The caller dies when it is done.
    CrashAfter,
    /// Nothing is done, and no later call is answered either.
    Outage,
    /// It is done, but the reply is lost, and no later call is answered.
    LostInOutage,
    /// Nothing is done, and the caller is not told so: of commits, which have an error for that.
    InDoubt,
    /// Nothing is done, because somebody else was faster: of commits, too.
    Conflict,
}

/// Counts calls, and lets one of them go wrong.
#[derive(Debug, Default)]
pub struct Faults {
    calls: AtomicU64,
    armed: Mutex<Option<(u64, Fault)>>,
    /// The names of the calls since the last reset.
    names: Mutex<Vec<String>>,
    crashed: watch::Sender<bool>,
    /// Whether all calls are refused.
    outage: AtomicBool,
}

impl Faults {
    /// Lets one call go wrong: the next for 0, the one after it for 1, and so on.
    pub fn arm(&self, calls: u64, fault: Fault) {
        let at = self.calls().saturating_add(calls);
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, fault));
    }

    /// Forgets all calls; nothing goes wrong any more.
    pub fn reset(&self) {
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.calls.store(0, Ordering::SeqCst);
        self.crashed.send_replace(false);
        self.outage.store(false, Ordering::SeqCst);
    }

    /// The number of calls so far, failed ones included.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// What the calls were since the last reset.
    pub fn names(&self) -> Vec<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the caller is dead: whoever calls it drops what made the calls.
    pub async fn crashed(&self) {
        // It can't be closed while it is borrowed here.
        let _ = self.crashed.subscribe().wait_for(|crashed| *crashed).await;
    }

    /// Does `work`, unless it is its turn to go wrong.
    ///
    /// # Errors
    /// Those of `work`, and `error` for a fault.
    pub async fn call<T, E>(
        &self,
        name: impl FnOnce() -> String,
        work: impl Future<Output = Result<T, E>>,
        error: impl FnOnce(Fault) -> E,
    ) -> Result<T, E> {
        match self.next(name) {
            None => work.await,
            Some(fault @ (Fault::Lost | Fault::LostInOutage)) => {
                let done = work.await;
                self.outage.store(fault == Fault::LostInOutage, Ordering::SeqCst);
                done.and(Err(error(fault)))
            }
            Some(Fault::Outage) => {
                self.outage.store(true, Ordering::SeqCst);
                Err(error(Fault::Outage))
            }
            Some(Fault::CrashAfter) => {
                let _ = work.await;
                self.crash().await
            }
            Some(Fault::CrashBefore) => self.crash().await,
            Some(fault) => Err(error(fault)),
        }
    }

    fn next(&self, name: impl FnOnce() -> String) -> Option<Fault> {
        if *self.crashed.borrow() {
            return Some(Fault::CrashBefore);
        }
        self.names.lock().unwrap_or_else(PoisonError::into_inner).push(name());
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.outage.load(Ordering::SeqCst) {
            return Some(Fault::Refused);
        }
        let armed = *self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.filter(|(at, _)| *at == call).map(|(_, fault)| fault)
    }

    async fn crash<T>(&self) -> T {
        self.crashed.send_replace(true);
        std::future::pending().await
    }
}

/// Wraps a store, counts its calls, and lets one of them go wrong.
#[derive(Debug)]
pub struct FaultStore {
    inner: RwLock<Arc<dyn ObjectStore>>,
    faults: Arc<Faults>,
}

impl FaultStore {
    /// Fails nothing until told to.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner: RwLock::new(inner), faults: Arc::default() }
    }

    /// Fails one call: the next for 0, the one after it for 1, and so on.
    pub fn fail_after(&self, calls: u64) {
        self.faults.arm(calls, Fault::Refused);
    }

    /// The number of calls so far, failed ones included.
    pub fn calls(&self) -> u64 {
        self.faults.calls()
    }

    /// What goes wrong.
    pub fn faults(&self) -> &Arc<Faults> {
        &self.faults
    }

    /// Wraps another store from now on.
    pub fn replace(&self, inner: Arc<dyn ObjectStore>) {
        *self.inner.write().unwrap_or_else(PoisonError::into_inner) = inner;
    }

    fn inner(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.inner.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn call<T>(
        &self,
        what: &str,
        path: &Path,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.faults.call(|| format!("{what} {path}"), work, error).await
    }

    /// A stream that is one call: it goes wrong as a whole, and if it is done before that, all of it.
    fn call_stream<T: Send + 'static>(
        &self,
        name: String,
        work: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let faults = Arc::clone(&self.faults);
        let done = async move {
            let items = async { Ok(work.collect::<Vec<_>>().await) };
            match faults.call(|| name, items, error).await {
                Ok(items) => items,
                Err(e) => vec![Err(e)],
            }
        };
        stream::once(done).flat_map(stream::iter).boxed()
    }
}

fn error(_: Fault) -> Error {
    Error::Generic { store: "FaultStore", source: "injected fault".into() }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.inner())
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let inner = self.inner();
        self.call("put", location, inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner();
        self.call("begin", location, inner.put_multipart_opts(location, opts)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let inner = self.inner();
        let what = if options.head { "head" } else { "get" };
        self.call(what, location, inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let inner = self.inner();
        self.call("get", location, inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (faults, inner) = (Arc::clone(&self.faults), self.inner());
        // Each file is a call of its own.
        let delete = move |location: Result<Path>| {
            let (faults, inner) = (Arc::clone(&faults), Arc::clone(&inner));
            async move {
                let location = location?;
                let one = stream::iter([Ok(location.clone())]).boxed();
                let work = async { inner.delete_stream(one).next().await.unwrap_or(Ok(location.clone())) };
                faults.call(|| format!("delete {location}"), work, error).await
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.call_stream(format!("list {}", prefix.map_or("", Path::as_ref)), self.inner().list(prefix))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let inner = self.inner();
        let path = prefix.cloned().unwrap_or_default();
        self.call("list", &path, inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let inner = self.inner();
        self.call("copy", to, inner.copy_opts(from, to, options)).await
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn each_fault_does_what_it_says() {
        for (fault, is_there, returns) in [
            (Fault::Refused, false, true),
            (Fault::Lost, true, true),
            (Fault::CrashBefore, false, false),
            (Fault::CrashAfter, true, false),
            (Fault::Outage, false, true),
            (Fault::LostInOutage, true, true),
        ] {
            let memory = Arc::new(InMemory::new());
            let store = FaultStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>);
            store.put(&"a".into(), "1".into()).await.unwrap();
            store.faults().arm(0, fault);
            let path: Path = "b".into();
            let put = async {
                let put = store.put(&path, "2".into()).await;
                assert!(put.is_err());
                store.get(&path).await.map(drop)
            };
            tokio::select! {
                biased;
                got = put => assert!(returns && got.is_ok() == (fault == Fault::Lost), "{fault:?}"),
                () = store.faults().crashed() => assert!(!returns, "{fault:?}"),
            }
            assert_eq!(memory.head(&path).await.is_ok(), is_there, "{fault:?}");
            store.faults().reset();
            store.delete(&"a".into()).await.unwrap();
            assert_eq!(store.faults().names(), ["delete a"]);
        }
    }
}
