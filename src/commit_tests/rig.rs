//! Catalogs under test, with everything that may go wrong in them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, select_all};
use futures::{FutureExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::fault_catalog::FaultCatalog;
use super::fault_metastore::FaultMetastore;
use super::{ident, namespace};
use crate::catalog::{Catalog, EntryKind, FilesystemCatalog, MemoryCatalog, Metastore, Swap};
use crate::storage::fault::{FaultStore, Faults};
use crate::storage::{Storage, StorageProperties};
use crate::table::{MetadataCache, OpenOptions};

#[cfg(feature = "catalog-sql")]
use crate::catalog::SqlCatalog;
#[cfg(feature = "catalog-rest")]
use crate::catalog::{
    RestCatalog,
    rest_server::{Server, Settings, Wrong},
};

/// The tables that are looked at.
pub(super) const TABLES: [&str; 2] = ["t", "u"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Memory,
    /// The filesystem catalog where a file that was refused does not come later.
    Filesystem,
    /// The filesystem catalog in an object store.
    ObjectStore,
    #[cfg(feature = "catalog-sql")]
    Sqlite,
    #[cfg(feature = "catalog-rest")]
    Rest,
}

impl Kind {
    pub(super) const ALL: &[Kind] = &[
        Kind::Memory,
        Kind::Filesystem,
        Kind::ObjectStore,
        #[cfg(feature = "catalog-sql")]
        Kind::Sqlite,
        #[cfg(feature = "catalog-rest")]
        Kind::Rest,
    ];
}

/// Whose calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Domain {
    /// The writer's storage.
    Storage,
    /// The storage of the server that the writer's catalog talks to.
    ServerStorage,
    /// The catalog.
    Catalog,
    /// What the catalog keeps its pointers in.
    Pointers,
    /// Requests to a server.
    Requests,
}

/// All files, and where the catalog's pointers point.
#[derive(Debug, Clone)]
pub(super) struct Shot {
    memory: Arc<InMemory>,
    pub(super) files: Arc<BTreeMap<Path, ObjectMeta>>,
    pointers: Vec<(&'static str, Option<String>)>,
}

/// A catalog with everything that may go wrong.
pub(super) struct Rig {
    pub(super) kind: Kind,
    /// What the writer has.
    pub(super) catalog: Arc<FaultCatalog>,
    pub(super) domains: BTreeMap<Domain, Arc<Faults>>,
    /// The numbers of calls when something was forced to happen.
    pub(super) forced_at: Arc<Mutex<BTreeMap<Domain, u64>>>,
    stores: Vec<Arc<FaultStore>>,
    memory: Mutex<Arc<InMemory>>,
    /// Where the pointers are, but for directories.
    metastore: Option<Arc<dyn Metastore>>,
    /// A storage without faults.
    sound: OpenOptions,
    /// Another catalog of the same tables over that; none for those that end with their process.
    other: Option<Arc<dyn Catalog>>,
    #[cfg(feature = "catalog-rest")]
    server: Option<Arc<Server>>,
    _keep: Vec<Box<dyn Any + Send + Sync>>,
}

fn options(store: &Arc<FaultStore>, cache: u64) -> OpenOptions {
    let dynamic = || Arc::clone(store) as Arc<dyn ObjectStore>;
    let storage = Storage::new(StorageProperties::new());
    let storage =
        storage.with_store("memory://", dynamic()).unwrap().with_store("s3://b", dynamic()).unwrap();
    OpenOptions::new().storage(storage).cache(Arc::new(MetadataCache::new(cache)))
}

impl Rig {
    pub(super) async fn new(kind: Kind) -> Self {
        let memory = Arc::new(InMemory::new());
        let store = || Arc::new(FaultStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>));
        let (writer, clean) = (store(), store());
        let mut stores = vec![Arc::clone(&writer), Arc::clone(&clean)];
        let mut domains = BTreeMap::from([(Domain::Storage, Arc::clone(writer.faults()))]);
        let mut keep: Vec<Box<dyn Any + Send + Sync>> = Vec::new();
        // The writer reads everything anew, so that each of its calls is a call. Whoever looks at the
        // table checks that every file is there, and may remember what was in it.
        let (faulty, sound) = (options(&writer, 0), options(&clean, 64 << 20));
        let root = if kind == Kind::ObjectStore { "s3://b/wh" } else { "memory:///wh" };
        #[cfg(feature = "catalog-rest")]
        let mut server = None;
        let pointed = |metastore: Arc<dyn Metastore>, domains: &mut BTreeMap<Domain, Arc<Faults>>| {
            let faulty = FaultMetastore { inner: metastore, faults: Arc::default() };
            domains.insert(Domain::Pointers, Arc::clone(&faulty.faults));
            Arc::new(faulty) as Arc<dyn Catalog>
        };
        let inner: Arc<dyn Catalog>;
        let metastore: Option<Arc<dyn Metastore>>;
        let other: Option<Arc<dyn Catalog>>;
        match kind {
            Kind::Memory => {
                let store = Arc::new(MemoryCatalog::with_warehouse("mem", root, faulty).unwrap());
                inner = pointed(Arc::clone(&store) as Arc<dyn Metastore>, &mut domains);
                other = None;
                metastore = Some(store);
            }
            Kind::Filesystem | Kind::ObjectStore => {
                inner = Arc::new(FilesystemCatalog::new("fs", root, faulty).unwrap());
                other = Some(Arc::new(FilesystemCatalog::new("fs", root, sound.clone()).unwrap()));
                metastore = None;
            }
            #[cfg(feature = "catalog-sql")]
            Kind::Sqlite => {
                let dir = tempfile::tempdir().unwrap();
                let properties = BTreeMap::from([
                    ("uri".to_owned(), format!("sqlite:///{}/catalog.db", dir.path().display())),
                    ("warehouse".to_owned(), root.to_owned()),
                ]);
                let connect = |options| SqlCatalog::connect_with("sql", properties.clone(), options);
                let store = Arc::new(connect(faulty).await.unwrap());
                inner = pointed(Arc::clone(&store) as Arc<dyn Metastore>, &mut domains);
                other = Some(Arc::new(connect(sound.clone()).await.unwrap()));
                metastore = Some(store);
                keep.push(Box::new(dir));
            }
            #[cfg(feature = "catalog-rest")]
            Kind::Rest => {
                let behind = store();
                stores.push(Arc::clone(&behind));
                domains.insert(Domain::ServerStorage, Arc::clone(behind.faults()));
                let catalog = MemoryCatalog::with_warehouse("behind", root, options(&behind, 0)).unwrap();
                let serving = Server::serve(Settings::default(), catalog, None).await;
                // What is repeatable is repeated once, to see that it is.
                let properties: BTreeMap<String, String> =
                    [("uri", serving.uri.as_str()), ("rest.client.max-retries", "1")]
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .into();
                let connect = |options| RestCatalog::connect_with("rest", properties.clone(), options);
                inner = Arc::new(connect(faulty).await.unwrap());
                other = Some(Arc::new(connect(sound.clone()).await.unwrap()));
                metastore = Some(Arc::clone(&serving.catalog) as Arc<dyn Metastore>);
                server = Some(serving);
            }
        }
        let forced_at: Arc<Mutex<BTreeMap<Domain, u64>>> = Arc::default();
        let calls: Arc<Faults> = Arc::default();
        domains.insert(Domain::Catalog, Arc::clone(&calls));
        let counted = domains.clone();
        let marks = Arc::clone(&forced_at);
        #[cfg(feature = "catalog-rest")]
        let requests = server.clone();
        let catalog = FaultCatalog::new(inner, calls, move || {
            let mut marks = marks.lock().unwrap();
            marks.extend(counted.iter().map(|(domain, faults)| (*domain, faults.calls())));
            #[cfg(feature = "catalog-rest")]
            marks.extend(requests.iter().map(|s| (Domain::Requests, s.seen.lock().unwrap().len() as u64)));
        });
        let rig = Self {
            kind,
            catalog: Arc::new(catalog),
            domains,
            forced_at,
            stores,
            memory: Mutex::new(memory),
            metastore,
            sound,
            other,
            #[cfg(feature = "catalog-rest")]
            server,
            _keep: keep,
        };
        rig.catalog.create_namespace(&namespace(), BTreeMap::new()).await.unwrap();
        rig
    }

    fn memory(&self) -> Arc<InMemory> {
        Arc::clone(&self.memory.lock().unwrap())
    }

    pub(super) async fn shot(&self) -> Shot {
        let mut pointers = Vec::new();
        if let Some(metastore) = &self.metastore {
            for table in TABLES {
                let pointer = metastore.pointer(&ident(table), EntryKind::Table).await.unwrap();
                pointers.push((table, pointer));
            }
        }
        Shot { memory: Arc::new(self.memory().fork()), files: Arc::new(self.files().await), pointers }
    }

    /// Makes everything as it was, and forgets all faults.
    pub(super) async fn reset(&self, shot: &Shot) {
        self.calm();
        let memory = Arc::new(shot.memory.fork());
        self.stores.iter().for_each(|store| store.replace(Arc::clone(&memory) as Arc<dyn ObjectStore>));
        *self.memory.lock().unwrap() = memory;
        self.point(shot).await;
    }

    /// Nothing goes wrong any more.
    pub(super) fn calm(&self) {
        self.domains.values().for_each(|faults| faults.reset());
        self.catalog.force(None);
        self.forced_at.lock().unwrap().clear();
        #[cfg(feature = "catalog-rest")]
        if let Some(server) = &self.server {
            *server.nth.lock().unwrap() = None;
            server.requests();
        }
    }

    async fn point(&self, shot: &Shot) {
        let Some(metastore) = &self.metastore else { return };
        for (table, wanted) in &shot.pointers {
            set_pointer(metastore.as_ref(), table, wanted.clone()).await;
        }
    }

    /// Does at once what makes `before` into `after`, if it is done when the result is awaited.
    pub(super) fn rival(self: &Arc<Self>, before: &Shot, after: &Shot) -> BoxFuture<'static, ()> {
        let (rig, before, after) = (Arc::clone(self), before.clone(), after.clone());
        let work = async move {
            for (path, meta) in after.files.iter() {
                if before.files.get(path).is_none_or(|known| known.e_tag != meta.e_tag) {
                    let bytes = after.memory.get(path).await.unwrap().bytes().await.unwrap();
                    rig.memory().put(path, bytes.into()).await.unwrap();
                }
            }
            rig.point(&after).await;
        };
        work.boxed()
    }

    /// The catalog as somebody sees it who knows nothing of any fault.
    pub(super) async fn reopened(&self) -> Arc<dyn Catalog> {
        if let Some(other) = &self.other {
            return Arc::clone(other);
        }
        // The pointers are what has been in memory.
        let fresh = MemoryCatalog::with_warehouse("mem", "memory:///wh", self.sound.clone()).unwrap();
        fresh.create_namespace(&namespace(), BTreeMap::new()).await.unwrap();
        for (table, pointer) in self.shot().await.pointers {
            set_pointer(&fresh, table, pointer).await;
        }
        Arc::new(fresh)
    }

    /// All files, by their paths in the store.
    pub(super) async fn files(&self) -> BTreeMap<Path, ObjectMeta> {
        let listed: Vec<_> = self.memory().list(None).try_collect().await.unwrap();
        listed.into_iter().map(|meta| (meta.location.clone(), meta)).collect()
    }

    /// Waits until the writer is dead.
    pub(super) async fn crashed(&self) {
        let waits: Vec<_> = self.domains.values().map(|faults| faults.crashed().boxed()).collect();
        select_all(waits).await;
    }

    #[cfg(feature = "catalog-rest")]
    pub(super) fn requests(&self) -> Option<Vec<String>> {
        let server = self.server.as_ref()?;
        let seen = server.seen.lock().unwrap();
        Some(seen.iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect())
    }

    #[cfg(not(feature = "catalog-rest"))]
    pub(super) fn requests(&self) -> Option<Vec<String>> {
        None
    }

    /// Lets a request go wrong, by its number.
    #[cfg(feature = "catalog-rest")]
    pub(super) fn wrong(&self, number: u64, wrong: Wrong) {
        if let Some(server) = &self.server {
            *server.nth.lock().unwrap() = Some((number as usize, wrong));
        }
    }
}

async fn set_pointer(metastore: &dyn Metastore, table: &str, wanted: Option<String>) {
    let now = metastore.pointer(&ident(table), EntryKind::Table).await.unwrap();
    if now == wanted {
        return;
    }
    let Some(new) = wanted else {
        metastore.remove(&ident(table), EntryKind::Table).await.unwrap();
        return;
    };
    let swap = Swap { ident: ident(table), kind: EntryKind::Table, expected: now, new };
    metastore.swap(vec![swap]).await.unwrap();
}
