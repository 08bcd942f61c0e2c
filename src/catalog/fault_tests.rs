//! A commit whose storage fails at any of its calls leaves the old state or the new one, says which
//! if it can be told, and never stands in the way of the next commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::memory::InMemory;

use super::{Catalog, FilesystemCatalog, MemoryCatalog, Namespace, TableCommit, TableCreation, TableIdent};
use crate::error::ErrorKind;
use crate::spec::{NestedField, PrimitiveType, Schema, SchemaId, TableUpdate, Type};
use crate::storage::fault::FaultStore;
use crate::storage::{Storage, StorageProperties};
use crate::table::OpenOptions;

/// More calls than any commit makes.
const MAX_CALLS: u64 = 40;

fn filesystem(root: &str, options: OpenOptions) -> Arc<dyn Catalog> {
    Arc::new(FilesystemCatalog::new("fs", root, options).unwrap())
}

fn memory(root: &str, options: OpenOptions) -> Arc<dyn Catalog> {
    Arc::new(MemoryCatalog::with_warehouse("mem", root, options).unwrap())
}

fn set(value: &str) -> Vec<TableUpdate> {
    vec![TableUpdate::SetProperties([("n".to_owned(), value.to_owned())].into())]
}

/// What became of a commit, and how many calls it took; `None` if the fault came too late for it.
async fn attempt(
    make: fn(&str, OpenOptions) -> Arc<dyn Catalog>,
    root: &str,
    at: u64,
) -> Option<(Option<ErrorKind>, bool)> {
    let store = Arc::new(FaultStore::new(Arc::new(InMemory::new())));
    let url = root.strip_suffix("/wh").unwrap();
    let storage = Storage::new(StorageProperties::new()).with_store(url, store.clone()).unwrap();
    let catalog = make(root, OpenOptions::new().storage(storage));
    let namespace = Namespace::new(["db"]).unwrap();
    catalog.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
    let t = TableIdent::new(namespace, "t").unwrap();
    let fields = vec![NestedField::optional(1, "x", Type::Primitive(PrimitiveType::Int))];
    let creation = TableCreation::new(Schema::new(SchemaId(0), fields, Vec::new()).unwrap());
    catalog.create_table(&t, creation).await.unwrap();
    let commit = |value: &str| {
        catalog.commit_table(TableCommit { table: t.clone(), requirements: Vec::new(), updates: set(value) })
    };
    commit("1").await.unwrap();
    let before = store.calls();
    store.fail_after(at);
    let result = commit("2").await;
    if store.calls() - before <= at {
        return None;
    }
    store.fail_after(u64::MAX);
    let found = catalog.load_table(&t).await.unwrap().metadata().properties["n"].clone();
    assert!(found == "1" || found == "2", "{found}");
    let again = commit("3").await.unwrap();
    assert_eq!(again.metadata().properties["n"], "3");
    assert_eq!(catalog.load_table(&t).await.unwrap().metadata(), again.metadata());
    Some((result.err().map(|e| e.kind()), found == "2"))
}

async fn every_call(make: fn(&str, OpenOptions) -> Arc<dyn Catalog>, root: &str) {
    let mut failed = 0;
    let mut at = 0;
    while let Some((error, happened)) = attempt(make, root, at).await {
        match error {
            None => assert!(happened, "at {at}"),
            Some(ErrorKind::CommitStateUnknown) => {}
            Some(kind) => assert!(!happened, "at {at}: {kind}"),
        }
        failed += usize::from(error.is_some() && !happened);
        at += 1;
        assert!(at < MAX_CALLS);
    }
    assert!(failed >= 2, "a commit reads and writes");
}

#[tokio::test]
async fn on_a_filesystem() {
    every_call(filesystem, "memory:///wh").await;
}

#[tokio::test]
async fn on_an_object_store() {
    every_call(filesystem, "s3://b/wh").await;
}

#[tokio::test]
async fn with_pointers() {
    every_call(memory, "memory:///wh").await;
    every_call(memory, "gs://b/wh").await;
}
