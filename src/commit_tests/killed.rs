//! Writers that are dropped at some await or other: what they were about to do is done or not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::prepared::{creation, data_file};
use super::state::query;
use super::{ident, namespace};
use crate::catalog::{Catalog, FilesystemCatalog, MemoryCatalog};
use crate::error::{ErrorKind, Result};
use crate::expr::Predicate;
use crate::plan::{ScanRequest, plan_files};
use crate::spec::ContentFile;
use crate::table::{MetadataCache, OpenOptions, Table};
use crate::transaction::{Append, Overwrite};

const ROUNDS: usize = 25;
const WRITERS: usize = 4;

/// Polls a future so often at most, and then drops it; with how often it was polled.
async fn killed_after<T>(polls: u32, future: impl Future<Output = T>) -> (Option<T>, u32) {
    let mut future = pin!(future);
    let mut polled = 0;
    let ended = poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        future.as_mut().poll(context).map(Some)
    });
    (ended.await, polled)
}

/// Which row is in which file; each file has one.
type Ids = Arc<Mutex<HashMap<String, i64>>>;

/// The data files that a scan reads.
async fn scan(table: &Table) -> Result<Vec<ContentFile>> {
    let Some(snapshot) = table.metadata().current_snapshot() else { return Ok(Vec::new()) };
    let request =
        ScanRequest { schema: Arc::clone(table.metadata().current_schema()), filter: Predicate::True };
    let plan = plan_files(table, snapshot, &request).await?;
    Ok(plan.tasks.iter().map(|task| ContentFile::clone(&task.data_file)).collect())
}

/// What a writer does.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Adds a row.
    Append { id: i64, fast: bool },
    /// Puts a row that is there into another file.
    Move { at: usize },
}

async fn write(catalog: Arc<dyn Catalog>, ids: Ids, step: Step) -> Result<Table> {
    let table = catalog.load_table(&ident("t")).await?;
    let new_file = async |id: i64| {
        let file = data_file(&table, &[id]).await;
        ids.lock().unwrap().insert(file.file_path.clone(), id);
        file
    };
    let transaction = match step {
        Step::Append { id, fast } => {
            let append = if fast { Append::fast() } else { Append::merging() };
            table.transaction().apply(append.files([new_file(id).await]))
        }
        Step::Move { at } => {
            let files = scan(&table).await?;
            let Some(file) = files.get(at % files.len().max(1)) else { return Ok(table) };
            let id = ids.lock().unwrap()[&file.file_path];
            let overwrite = Overwrite::new().remove_files([file.clone()]).add_files([new_file(id).await]);
            table.transaction().apply(overwrite)
        }
    };
    transaction.commit(catalog.as_ref()).await
}

/// How often each row is in the table, all of whose files are there.
async fn rows(table: &Table, ids: &Ids) -> BTreeMap<i64, usize> {
    let mut rows = BTreeMap::new();
    for file in scan(table).await.unwrap() {
        assert!(table.storage().exists(&table.resolve(&file.file_path).unwrap()).await.unwrap());
        *rows.entry(ids.lock().unwrap()[&file.file_path]).or_default() += 1;
    }
    rows
}

type Reopen = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Catalog>>>;

/// Nothing is remembered from one time to the next.
fn options() -> OpenOptions {
    OpenOptions::new().cache(Arc::new(MetadataCache::new(0)))
}

/// Kills writers of one table. `reopen` gives its catalog as another process would have it.
async fn kill_writers(reopen: Reopen, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let first = reopen().await;
    first.create_namespace(&namespace(), BTreeMap::new()).await.unwrap();
    let mut creation = creation(2);
    creation.properties.insert("commit.retry.num-retries".into(), "1000".into());
    creation.properties.insert("write.metadata.delete-after-commit.enabled".into(), "false".into());
    first.create_table(&ident("t"), creation).await.unwrap();

    let ids: Ids = Arc::default();
    // Those that must be there, and those that may.
    let (mut certain, mut possible) = (BTreeSet::new(), BTreeSet::new());
    let (mut killed, mut done, mut longest) = (0, 0, 0);
    for round in 0..ROUNDS {
        let catalog = reopen().await;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let id = (round * WRITERS + writer) as i64;
            let step = match random.random_range(0..3) {
                0 if round > 0 => Step::Move { at: random.random_range(0..1000) },
                n => Step::Append { id, fast: n == 1 },
            };
            // None is killed in the first round, which tells how long it takes.
            let polls = if round == 0 { u32::MAX } else { random.random_range(1..=longest) };
            let work = write(Arc::clone(&catalog), Arc::clone(&ids), step);
            writers.push((step, tokio::spawn(killed_after(polls, work))));
        }
        for (step, writer) in writers {
            let (ended, polls) = writer.await.unwrap();
            longest = longest.max(polls);
            match (ended, step) {
                (Some(Ok(_)), Step::Append { id, .. }) => {
                    certain.insert(id);
                    done += 1;
                }
                (Some(Ok(_)), Step::Move { .. }) => done += 1,
                // Somebody else moved the same row.
                (Some(Err(e)), Step::Move { .. }) if e.kind() == ErrorKind::ValidationFailed => {}
                (Some(Err(e)), step) => panic!("seed {seed}, round {round}: {step:?}: {e}"),
                (None, Step::Append { id, .. }) => {
                    possible.insert(id);
                    killed += 1;
                }
                (None, Step::Move { .. }) => killed += 1,
            }
        }
        let table = reopen().await.load_table(&ident("t")).await.unwrap();
        let rows = rows(&table, &ids).await;
        let place = format!("seed {seed}, round {round}: {rows:?}");
        assert!(rows.values().all(|count| *count == 1), "{place}");
        assert!(certain.iter().all(|id| rows.contains_key(id)), "{place}: {certain:?}");
        assert!(rows.keys().all(|id| certain.contains(id) || possible.contains(id)), "{place}");
        // What has been there stays.
        certain.extend(rows.keys().copied());
    }
    assert!(killed > 10 && done > 10, "{killed} were killed, {done} were done");

    let last = Step::Append { id: 1_000_000, fast: false };
    let table = write(reopen().await, Arc::clone(&ids), last).await.unwrap();
    let expected: Vec<i64> = rows(&table, &ids).await.into_keys().collect();
    assert_eq!(expected.last(), Some(&1_000_000));
    assert_eq!(query(&table).await.unwrap(), expected);
    println!("{killed} writers were killed, {done} were done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let warehouse = dir.path().display().to_string();
    let catalog = Arc::new(MemoryCatalog::with_warehouse("mem", &warehouse, options()).unwrap());
    let reopen = move || {
        let catalog = Arc::clone(&catalog) as Arc<dyn Catalog>;
        Box::pin(async { catalog }) as BoxFuture<'static, Arc<dyn Catalog>>
    };
    kill_writers(Box::new(reopen), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_filesystem() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display().to_string();
    let reopen = move || {
        let catalog = FilesystemCatalog::new("fs", &root, options()).unwrap();
        Box::pin(async { Arc::new(catalog) as Arc<dyn Catalog> }) as BoxFuture<'static, Arc<dyn Catalog>>
    };
    kill_writers(Box::new(reopen), 2).await;
}

#[cfg(feature = "catalog-sql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    let properties = BTreeMap::from([
        ("uri".to_owned(), format!("sqlite:///{root}/catalog.db")),
        ("warehouse".to_owned(), format!("{root}/wh")),
    ]);
    let reopen = move || {
        let connect = crate::catalog::SqlCatalog::connect_with("sql", properties.clone(), options());
        Box::pin(async { Arc::new(connect.await.unwrap()) as Arc<dyn Catalog> })
            as BoxFuture<'static, Arc<dyn Catalog>>
    };
    kill_writers(Box::new(reopen), 3).await;
}

#[cfg(feature = "catalog-rest")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_server() {
    use crate::catalog::RestCatalog;
    use crate::catalog::rest_server::{Server, Settings};
    let server = Server::start(Settings::default()).await;
    let uri = server.uri.clone();
    let reopen = move || {
        let properties = BTreeMap::from([("uri".to_owned(), uri.clone())]);
        let connect = async { RestCatalog::connect_with("rest", properties, options()).await.unwrap() };
        Box::pin(async { Arc::new(connect.await) as Arc<dyn Catalog> })
            as BoxFuture<'static, Arc<dyn Catalog>>
    };
    kill_writers(Box::new(reopen), 4).await;
}
