//! Files by location: object stores, their properties, and exact paths.

#[doc(hidden)]
pub mod fault;
mod location;
mod properties;
#[cfg(feature = "s3")]
mod signing;
mod stores;
mod tree;
mod upload;
mod vended;

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use location::redact;
pub(crate) use location::split_scheme;
pub use location::{Location, StoreKey, StoreKind};
pub use properties::StorageProperties;
pub(crate) use upload::Upload;
#[cfg(feature = "catalog-rest")]
pub(crate) use vended::expires_at;
pub use vended::{CredentialSource, PrefixCredentials, SignedRequest, UnsignedRequest};

use crate::error::{Error, ErrorKind, Result};
use vended::Vended;

/// Opens files in any store by their location. Cheap to clone; clones share their stores, and
/// with them connections and credentials.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

struct Inner {
    properties: StorageProperties,
    /// Hash of what decides which files the stores of this storage hold.
    identity: u64,
    /// Credentials by prefix, over the properties.
    vended: Option<Arc<Vended>>,
    stores: RwLock<HashMap<(StoreKey, Access), Opened>>,
}

/// What a store is opened with.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Access {
    /// It was given.
    Given,
    /// The properties alone.
    Properties,
    /// The credentials of a prefix.
    Vended(String),
}

#[derive(Clone)]
struct Opened {
    store: Arc<dyn ObjectStore>,
    /// Differs between stores that may hold different files under one location.
    identity: u64,
}

/// A file or directory directly in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its raw name.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Its size in bytes; 0 for a directory.
    pub size: u64,
}

impl Storage {
    /// A storage whose stores are built from `properties` and the environment when first used.
    pub fn new(properties: StorageProperties) -> Self {
        Self::with_vended(properties, None)
    }

    /// A storage as [`Storage::new`] makes it, with credentials that a catalog handed out: for each
    /// file, those of the longest prefix that its location has. They are renewed from `source`
    /// before they expire, if they say when.
    pub fn with_credentials(
        properties: StorageProperties,
        credentials: Vec<PrefixCredentials>,
        source: Option<Arc<dyn CredentialSource>>,
    ) -> Self {
        let vended = Vended::new(properties.clone(), credentials, source);
        Self::with_vended(properties, Some(Arc::new(vended)))
    }

    fn with_vended(properties: StorageProperties, vended: Option<Arc<Vended>>) -> Self {
        let mut hasher = DefaultHasher::new();
        properties.fingerprint().hash(&mut hasher);
        let identity = hasher.finish();
        Self(Arc::new(Inner { properties, identity, vended, stores: RwLock::default() }))
    }

    /// The same storage with `store` in place of the one it would build for `url`, a scheme and an
    /// authority such as `s3://bucket` or `memory://`.
    ///
    /// # Errors
    /// Those of [`Location::parse`]; `DataInvalid` if `url` has a path.
    pub fn with_store(&self, url: &str, store: Arc<dyn ObjectStore>) -> Result<Self> {
        let location = Location::parse(url)?;
        if !location.path().is_empty() {
            return Err(Error::invalid(format!(
                "`{url}`: expected a scheme and an authority without a path"
            )));
        }
        let mut stores = self.0.stores.read().unwrap_or_else(PoisonError::into_inner).clone();
        stores.insert((location.store().clone(), Access::Given), Opened { store, identity: unique() });
        Ok(Self(Arc::new(Inner {
            properties: self.0.properties.clone(),
            identity: self.0.identity,
            vended: self.0.vended.clone(),
            stores: RwLock::new(stores),
        })))
    }

    /// The properties that it was made with.
    pub fn properties(&self) -> &StorageProperties {
        &self.0.properties
    }

    /// The store of a location, as metadata records it, and the path in it.
    ///
    /// # Errors
    /// Those of [`Location::parse`] and [`Location::object_path`]; a scheme whose Cargo feature is
    /// off, or bad properties.
    pub fn store(&self, location: &str) -> Result<(StoreKey, Arc<dyn ObjectStore>, Path)> {
        let location = Location::parse(location)?;
        let path = location.object_path()?;
        let opened = self.open(&location)?;
        Ok((location.store().clone(), opened.store, path))
    }

    /// Like [`Storage::store`], for a location that was parsed already.
    ///
    /// # Errors
    /// As [`Storage::store`].
    pub fn store_of(&self, location: &Location) -> Result<(Arc<dyn ObjectStore>, Path)> {
        Ok((self.open(location)?.store, location.object_path()?))
    }

    fn open(&self, location: &Location) -> Result<Opened> {
        let key = location.store();
        let prefix = self.0.vended.as_ref().and_then(|vended| vended.prefix(location));
        let access = prefix.map_or(Access::Properties, Access::Vended);
        let stores = self.0.stores.read().unwrap_or_else(PoisonError::into_inner);
        let given = stores.get(&(key.clone(), Access::Given));
        let wanted = (key.clone(), access);
        if let Some(opened) = given.or_else(|| stores.get(&wanted)) {
            return Ok(opened.clone());
        }
        drop(stores);
        let store = match (&self.0.vended, &wanted.1) {
            (Some(vended), Access::Vended(prefix)) => {
                stores::build(key, &vended.properties(Some(prefix)), Some((vended, prefix)))?
            }
            _ => stores::build(key, &self.0.properties, None)?,
        };
        // The memory of one storage is not that of another.
        let identity = if key.kind() == StoreKind::Memory { unique() } else { self.0.identity };
        let mut stores = self.0.stores.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have been faster; all have to see the same one.
        Ok(stores.entry(wanted).or_insert(Opened { store, identity }).clone())
    }

    /// What identifies the file for caches that several storages share.
    pub(crate) fn cache_key(&self, location: &Location) -> Result<(u64, String)> {
        Ok((self.open(location)?.identity, location.to_string()))
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `Io` if it can't be read; the message names it.
    pub async fn read(&self, location: &Location) -> Result<Bytes> {
        let (store, path) = self.store_of(location)?;
        let read = async { store.get(&path).await?.bytes().await };
        read.await.map_err(|e| self.error("read", location, e))
    }

    /// Reads some bytes of a file: all of `range`, or an error.
    ///
    /// # Errors
    /// As [`Storage::read`]; `DataInvalid` if the file ends before the range does.
    pub async fn read_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes> {
        let (store, path) = self.store_of(location)?;
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let wanted = range.end - range.start;
        let bytes =
            store.get_range(&path, range.clone()).await.map_err(|e| self.error("read", location, e))?;
        match bytes.len() as u64 == wanted {
            true => Ok(bytes),
            false => {
                let message = format!("the file ends before byte {}", range.end);
                Err(Error::invalid(message).context(format!("file `{location}`")))
            }
        }
    }

    /// Reads the last `len` bytes of a file, or all of a shorter one, and the file's size.
    ///
    /// # Errors
    /// As [`Storage::read`].
    pub async fn read_tail(&self, location: &Location, len: u64) -> Result<(Bytes, u64)> {
        let (store, path) = self.store_of(location)?;
        let options = GetOptions { range: Some(GetRange::Suffix(len)), ..GetOptions::default() };
        let read = async {
            let result = store.get_opts(&path, options).await?;
            let size = result.meta.size;
            Ok((result.bytes().await?, size))
        };
        match read.await {
            // Azure can't count from the end.
            Err(object_store::Error::NotSupported { .. }) => {
                let size = self.head(location).await?.size;
                Ok((self.read_range(location, size.saturating_sub(len)..size).await?, size))
            }
            read => read.map_err(|e| self.error("read", location, e)),
        }
    }

    /// The size of a file and when it was changed.
    ///
    /// # Errors
    /// As [`Storage::read`].
    pub async fn head(&self, location: &Location) -> Result<ObjectMeta> {
        let (store, path) = self.store_of(location)?;
        store.head(&path).await.map_err(|e| self.error("look up", location, e))
    }

    /// Whether there is a file; a directory is none.
    ///
    /// # Errors
    /// `Io` if that could not be found out.
    pub async fn exists(&self, location: &Location) -> Result<bool> {
        match self.head(location).await {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether there is a file, where "may not be known" counts as no: without the right to list a
    /// bucket, S3 answers "forbidden" for a key that does not exist.
    pub(crate) async fn may_exist(&self, location: &Location) -> Result<bool> {
        let (store, path) = self.store_of(location)?;
        match store.head(&path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. } | object_store::Error::PermissionDenied { .. }) => {
                Ok(false)
            }
            Err(e) => Err(self.error("look up", location, e)),
        }
    }

    /// What lies directly in a directory, by name. A directory that does not exist is empty.
    ///
    /// # Errors
    /// `Io` if it can't be listed, `Unsupported` if the store can't list.
    pub async fn list_dir(&self, location: &Location) -> Result<Vec<DirEntry>> {
        let store = self.open(location)?.store;
        let prefix = if location.path().is_empty() { None } else { Some(location.object_path()?) };
        let listed = match store.list_with_delimiter(prefix.as_ref()).await {
            Ok(listed) => listed,
            Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            Err(e) => return Err(self.error("list", location, e)),
        };
        let name = |path: &Path| path.filename().unwrap_or_default().to_owned();
        let dirs = listed.common_prefixes.iter().map(|p| DirEntry { name: name(p), is_dir: true, size: 0 });
        let files =
            listed.objects.iter().map(|o| DirEntry { name: name(&o.location), is_dir: false, size: o.size });
        let mut entries: Vec<_> = dirs.chain(files).filter(|e| !e.name.is_empty()).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Writes a whole file, over one that is there.
    ///
    /// # Errors
    /// `Io`: the file may or may not have been written.
    pub async fn write(&self, location: &Location, bytes: Bytes) -> Result<()> {
        self.put(location, bytes, PutMode::Overwrite).await
    }

    /// Writes a whole file if none is there: of several that try, one succeeds.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one; `Unsupported` if the store can't promise that; `Io`: the
    /// file may or may not have been written.
    pub async fn write_new(&self, location: &Location, bytes: Bytes) -> Result<()> {
        self.put(location, bytes, PutMode::Create).await
    }

    async fn put(&self, location: &Location, bytes: Bytes, mode: PutMode) -> Result<()> {
        let (store, path) = self.store_of(location)?;
        let put = store.put_opts(&path, bytes.into(), PutOptions { mode, ..PutOptions::default() }).await;
        put.map(drop).map_err(|e| self.error("write", location, e))
    }

    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// `Io`: the file may or may not have been removed.
    pub async fn delete(&self, location: &Location) -> Result<()> {
        let (store, path) = self.store_of(location)?;
        match store.delete(&path).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            deleted => deleted.map_err(|e| self.error("remove", location, e)),
        }
    }

    /// Turns the error of a store into one of ours, which names the file and holds no secret.
    fn error(&self, what: &str, location: &Location, e: object_store::Error) -> Error {
        use object_store::Error as Store;
        let location = redact(&location.to_string());
        let kind = match &e {
            Store::NotFound { .. } => {
                return Error::not_found(format!("file `{location}` does not exist"));
            }
            Store::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Store::NotSupported { .. } | Store::NotImplemented { .. } => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        // The cause may hold a signed URL, so only its scrubbed text is kept.
        let mut cause = self.0.properties.scrub(&e.to_string());
        if let Some(vended) = &self.0.vended {
            cause = vended.scrub(cause);
        }
        Error::new(kind, format!("cannot {what} `{location}`")).with_source(cause)
    }
}

/// A number that no other call in this process returns.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = DefaultHasher::new();
    ("unique", NEXT.fetch_add(1, Ordering::Relaxed)).hash(&mut hasher);
    hasher.finish()
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores = self.0.stores.read().unwrap_or_else(PoisonError::into_inner);
        // The stores themselves might show their credentials.
        let stores: Vec<_> = stores.keys().map(|(key, _)| key.as_str()).collect();
        f.debug_struct("Storage").field("properties", &self.0.properties).field("stores", &stores).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::fault::FaultStore;
    use super::*;
    use object_store::memory::InMemory;

    /// Names that are taken apart or decoded by something on the way to the file.
    const NAMES: &[&str] = &[
        "plain",
        "a b",
        "a%2Fb",
        "100%25",
        "%",
        "%zz",
        "a#b",
        "a?b",
        "a:b",
        "a&b=c",
        "ü",
        "日本",
        "😀",
        "a+b",
        "it's",
        "\"q\"",
        "{c}",
        "[c]",
        "star*",
        "back\\slash",
        "~",
        "...",
        "%2e%2e",
        "a;b",
        "p=a#1",
        "<>|^`",
    ];

    #[tokio::test]
    async fn the_real_names_of_local_files_survive() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::new(StorageProperties::new());
        for (i, name) in NAMES.iter().enumerate() {
            let content = format!("content {i}");
            let on_disk = dir.path().join(format!("p={name}"));
            std::fs::create_dir(&on_disk).unwrap();
            std::fs::write(on_disk.join(format!("{name}.parquet")), &content).unwrap();
            let base = dir.path().to_str().unwrap();
            for spelling in ["", "file:", "file://", "file://localhost"] {
                let location = format!("{spelling}{base}/p={name}/{name}.parquet");
                let parsed = Location::parse(&location).unwrap();
                assert_eq!(storage.read(&parsed).await.unwrap(), content, "{location}");
                let (key, store, path) = storage.store(&location).unwrap();
                assert_eq!(key.as_str(), "file://");
                assert_eq!(store.head(&path).await.unwrap().size, content.len() as u64);
            }
            let listed =
                storage.list_dir(&Location::parse(on_disk.to_str().unwrap()).unwrap()).await.unwrap();
            assert_eq!(listed.len(), 1);
            assert_eq!(listed[0].name, format!("{name}.parquet"));
        }
        let listed = storage.list_dir(&Location::parse(dir.path().to_str().unwrap()).unwrap()).await.unwrap();
        assert_eq!(listed.len(), NAMES.len());
        assert!(listed.iter().all(|e| e.is_dir));
    }

    #[tokio::test]
    async fn names_survive_in_memory_and_keys_keep_empty_segments() {
        let storage = Storage::new(StorageProperties::new());
        for name in NAMES.iter().copied().chain(["t//f"]) {
            let (_, store, path) = storage.store(&format!("memory:///t/{name}")).unwrap();
            store.put(&path, "x".into()).await.unwrap();
            assert_eq!(path.as_ref(), format!("t/{name}"));
            let location = Location::parse(&format!("memory:/t/{name}")).unwrap();
            assert_eq!(storage.read(&location).await.unwrap(), "x");
        }
    }

    #[tokio::test]
    async fn stores_are_shared_by_spelling_and_by_clones() {
        let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let storage =
            Storage::new(StorageProperties::new()).with_store("s3a://b", Arc::clone(&memory)).unwrap();
        memory.put(&"x/y".into(), "1".into()).await.unwrap();
        for spelling in ["s3://b/x/y", "s3a://b/x/y", "s3n://b/x/y"] {
            let (key, store, path) = storage.clone().store(spelling).unwrap();
            assert_eq!(key.as_str(), "s3://b");
            assert!(Arc::ptr_eq(&store, &memory));
            assert_eq!(path.as_ref(), "x/y");
        }
        assert!(storage.with_store("s3://b/x", memory).is_err());
    }

    #[tokio::test]
    async fn ranges_and_tails() {
        let storage = Storage::new(StorageProperties::new());
        let (_, store, path) = storage.store("memory:///f").unwrap();
        store.put(&path, "0123456789".into()).await.unwrap();
        let f = Location::parse("memory:///f").unwrap();
        assert_eq!(storage.read_range(&f, 2..4).await.unwrap(), "23");
        assert_eq!(storage.read_range(&f, 4..4).await.unwrap(), "");
        assert_eq!(storage.read_range(&f, 8..11).await.unwrap_err().kind(), ErrorKind::DataInvalid);
        assert_eq!(storage.read_tail(&f, 3).await.unwrap(), (Bytes::from("789"), 10));
        assert_eq!(storage.read_tail(&f, 30).await.unwrap(), (Bytes::from("0123456789"), 10));
        assert!(storage.exists(&f).await.unwrap());
    }

    #[tokio::test]
    async fn a_missing_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::new(StorageProperties::new());
        for location in [format!("{}/no such%20file", dir.path().display()), "memory:///no".to_owned()] {
            let location = Location::parse(&location).unwrap();
            for e in [
                storage.read(&location).await.unwrap_err(),
                storage.head(&location).await.unwrap_err(),
                storage.read_range(&location, 0..1).await.unwrap_err(),
                storage.read_tail(&location, 1).await.unwrap_err(),
            ] {
                assert_eq!(e.kind(), ErrorKind::NotFound);
                assert!(e.to_string().contains(&location.to_string()), "{e}");
            }
            assert!(!storage.exists(&location).await.unwrap());
            assert_eq!(storage.list_dir(&location).await.unwrap(), vec![]);
        }
        let dir = Location::parse(dir.path().to_str().unwrap()).unwrap();
        assert!(!storage.exists(&dir).await.unwrap());
    }

    #[tokio::test]
    async fn failures_are_io_errors_that_name_the_file() {
        let fault = Arc::new(FaultStore::new(Arc::new(InMemory::new())));
        let storage = Storage::new(StorageProperties::new()).with_store("gs://b", fault.clone()).unwrap();
        let f = Location::parse("gs://b/f").unwrap();
        fault.fail_after(0);
        let e = storage.exists(&f).await.unwrap_err();
        assert_eq!((e.kind(), fault.calls()), (ErrorKind::Io, 1));
        assert!(e.to_string().contains("gs://b/f"), "{e}");
        assert!(!storage.exists(&f).await.unwrap());
        fault.fail_after(1);
        assert!(storage.list_dir(&f).await.is_ok());
        assert_eq!(storage.list_dir(&f).await.unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn cache_keys_tell_stores_apart() {
        let f = Location::parse("s3://b/f").unwrap();
        let key = |s: &Storage| s.cache_key(&f).unwrap();
        let at = |endpoint: &str| {
            let list = [("s3.endpoint", endpoint), ("s3.access-key-id", "a"), ("s3.secret-access-key", "b")];
            Storage::new(list.into_iter().collect())
        };
        #[cfg(feature = "s3")]
        {
            assert_eq!(key(&at("https://one")), key(&at("https://one")));
            assert_ne!(key(&at("https://one")), key(&at("https://two")));
        }
        let injected = || at("https://one").with_store("s3://b", Arc::new(InMemory::new())).unwrap();
        assert_ne!(key(&injected()), key(&injected()));
        let storage = injected();
        assert_eq!(key(&storage), key(&storage.clone()));
    }

    #[test]
    fn debug_shows_no_secrets() {
        let list = [("s3.access-key-id", "hunter2"), ("s3.secret-access-key", "hunter2")];
        let storage = Storage::new(list.into_iter().collect());
        #[cfg(feature = "s3")]
        storage.store("s3://b/x").unwrap();
        let text = format!("{storage:?}");
        assert!(!text.contains("hunter2") && text.contains("s3.access-key-id"), "{text}");
    }
}
