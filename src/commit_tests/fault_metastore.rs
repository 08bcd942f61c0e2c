//! A store of pointers to metadata files of which any call may go wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::fault_catalog::{of_a_commit, of_a_read};
use crate::catalog::{EntryKind, Metastore, Namespace, Placement, Swap, TableIdent};
use crate::error::Result;
use crate::storage::fault::Faults;

/// Wraps what a catalog keeps its pointers in, counts its calls, and lets one of them go wrong.
#[derive(Debug)]
pub(super) struct FaultMetastore {
    pub(super) inner: Arc<dyn Metastore>,
    pub(super) faults: Arc<Faults>,
}

#[async_trait]
impl Metastore for FaultMetastore {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn placement(&self) -> &Placement {
        self.inner.placement()
    }

    fn check_views(&self) -> Result<()> {
        self.inner.check_views()
    }

    async fn child_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
        self.inner.child_namespaces(parent).await
    }

    async fn namespace(&self, namespace: &Namespace) -> Result<Option<BTreeMap<String, String>>> {
        let work = self.inner.namespace(namespace);
        self.faults.call(|| "namespace".to_owned(), work, |_| of_a_read()).await
    }

    async fn add_namespace(&self, namespace: &Namespace, properties: BTreeMap<String, String>) -> Result<()> {
        self.inner.add_namespace(namespace, properties).await
    }

    async fn change_namespace(
        &self,
        namespace: &Namespace,
        set: BTreeMap<String, String>,
        remove: Vec<String>,
    ) -> Result<()> {
        self.inner.change_namespace(namespace, set, remove).await
    }

    async fn remove_namespace(&self, namespace: &Namespace) -> Result<()> {
        self.inner.remove_namespace(namespace).await
    }

    async fn names(&self, namespace: &Namespace, kind: EntryKind) -> Result<Vec<String>> {
        self.inner.names(namespace, kind).await
    }

    async fn pointer(&self, ident: &TableIdent, kind: EntryKind) -> Result<Option<String>> {
        let work = self.inner.pointer(ident, kind);
        self.faults.call(|| "pointer".to_owned(), work, |_| of_a_read()).await
    }

    async fn swap(&self, swaps: Vec<Swap>) -> Result<()> {
        self.faults.call(|| "swap".to_owned(), self.inner.swap(swaps), of_a_commit).await
    }

    async fn rename(&self, from: &TableIdent, to: &TableIdent, kind: EntryKind) -> Result<()> {
        self.inner.rename(from, to, kind).await
    }

    async fn remove(&self, ident: &TableIdent, kind: EntryKind) -> Result<bool> {
        self.inner.remove(ident, kind).await
    }
}
