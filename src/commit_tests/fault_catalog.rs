//! A catalog of which any call may go wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::catalog::{Catalog, Namespace, TableCommit, TableCreation, TableIdent};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::fault::{Fault, Faults};
use crate::table::Table;

/// What happens to the first commit besides the fault that is looked at.
pub(super) enum Forced {
    /// Something happens just before it.
    Overtaken(BoxFuture<'static, ()>),
    Fault(Fault),
}

/// Wraps a catalog, counts its calls, and lets one of them go wrong.
pub(super) struct FaultCatalog {
    inner: Arc<dyn Catalog>,
    pub(super) faults: Arc<Faults>,
    forced: Mutex<Option<Forced>>,
    /// Called when that happens.
    when_forced: Box<dyn Fn() + Send + Sync>,
}

impl FaultCatalog {
    pub(super) fn new(
        inner: Arc<dyn Catalog>,
        faults: Arc<Faults>,
        when_forced: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { inner, faults, forced: Mutex::default(), when_forced: Box::new(when_forced) }
    }

    pub(super) fn force(&self, forced: Option<Forced>) {
        *self.forced.lock().unwrap() = forced;
    }

    async fn call<T>(&self, name: &str, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.faults.call(|| name.to_owned(), work, |_| of_a_read()).await
    }

    async fn commit<T>(&self, name: &str, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let forced = self.forced.lock().unwrap().take();
        if forced.is_some() {
            (self.when_forced)();
        }
        let name = || name.to_owned();
        match forced {
            Some(Forced::Fault(fault)) => {
                let done = if fault == Fault::Lost { work.await.map(drop) } else { Ok(()) };
                self.faults.call(name, async { done.and(Err(of_a_commit(fault))) }, of_a_commit).await
            }
            Some(Forced::Overtaken(rival)) => {
                rival.await;
                self.faults.call(name, work, of_a_commit).await
            }
            None => self.faults.call(name, work, of_a_commit).await,
        }
    }
}

/// What a catalog says that could not be asked.
pub(super) fn of_a_read() -> Error {
    Error::new(ErrorKind::Io, "injected fault")
}

/// What a catalog says of a commit.
pub(super) fn of_a_commit(fault: Fault) -> Error {
    let kind = match fault {
        Fault::Lost | Fault::LostInOutage | Fault::InDoubt => ErrorKind::CommitStateUnknown,
        Fault::Conflict => ErrorKind::CommitConflict,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("injected fault: {fault:?}"))
}

impl fmt::Debug for FaultCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultCatalog({:?})", self.inner)
    }
}

#[async_trait]
impl Catalog for FaultCatalog {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn list_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
        self.inner.list_namespaces(parent).await
    }

    async fn create_namespace(
        &self,
        namespace: &Namespace,
        properties: BTreeMap<String, String>,
    ) -> Result<()> {
        self.inner.create_namespace(namespace, properties).await
    }

    async fn list_tables(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
        self.inner.list_tables(namespace).await
    }

    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        self.call("load_table", self.inner.load_table(table)).await
    }

    async fn create_table(&self, table: &TableIdent, creation: TableCreation) -> Result<Table> {
        self.inner.create_table(table, creation).await
    }

    async fn stage_table(&self, table: &TableIdent, creation: TableCreation) -> Result<Table> {
        self.call("stage_table", self.inner.stage_table(table, creation)).await
    }

    async fn commit_table(&self, commit: TableCommit) -> Result<Table> {
        self.commit("commit_table", self.inner.commit_table(commit)).await
    }

    fn commits_several_tables(&self) -> bool {
        self.inner.commits_several_tables()
    }

    async fn commit_tables(&self, commits: Vec<TableCommit>) -> Result<()> {
        self.commit("commit_tables", self.inner.commit_tables(commits)).await
    }
}
