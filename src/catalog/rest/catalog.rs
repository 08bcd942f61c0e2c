//! What every catalog can do, done by the server.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::RestCatalog;
use super::endpoint::Endpoint;
use crate::catalog::{Catalog, Namespace, TableCommit, TableCreation, TableIdent, View, ViewCreation};
use crate::error::{Result, ResultExt};
use crate::table::Table;

#[async_trait]
impl Catalog for RestCatalog {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn list_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
        let listed = async {
            self.check(Endpoint::ListNamespaces)?;
            self.namespaces_in(parent).await
        };
        listed.await.context(|| self.place())
    }

    async fn create_namespace(
        &self,
        namespace: &Namespace,
        properties: BTreeMap<String, String>,
    ) -> Result<()> {
        self.create_namespace_at(namespace, &properties).await.context(|| self.place())
    }

    async fn load_namespace(&self, namespace: &Namespace) -> Result<BTreeMap<String, String>> {
        self.properties_of(namespace).await.context(|| self.place())
    }

    async fn namespace_exists(&self, namespace: &Namespace) -> Result<bool> {
        self.has_namespace(namespace).await.context(|| self.place())
    }

    async fn update_namespace(
        &self,
        namespace: &Namespace,
        set: BTreeMap<String, String>,
        remove: Vec<String>,
    ) -> Result<()> {
        self.change_namespace(namespace, &set, &remove).await.context(|| self.place())
    }

    async fn drop_namespace(&self, namespace: &Namespace) -> Result<()> {
        self.drop_namespace_at(namespace).await.context(|| self.place())
    }

    async fn list_tables(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
        let listed = async {
            self.check(Endpoint::ListTables)?;
            self.names_in(namespace, "tables").await
        };
        listed.await.context(|| self.place())
    }

    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        self.load(table).await.context(|| self.place())
    }

    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        self.has_table(table).await.context(|| self.place())
    }

    async fn create_table(&self, table: &TableIdent, creation: TableCreation) -> Result<Table> {
        self.create(table, creation, false).await.context(|| self.place())
    }

    async fn stage_table(&self, table: &TableIdent, creation: TableCreation) -> Result<Table> {
        self.create(table, creation, true).await.context(|| self.place())
    }

    async fn register_table(&self, table: &TableIdent, metadata_location: &str) -> Result<Table> {
        self.register(table, metadata_location).await.context(|| self.place())
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.rename("table", from, to).await.context(|| self.place())
    }

    async fn drop_table(&self, table: &TableIdent, purge: bool) -> Result<()> {
        self.remove(table, purge).await.context(|| self.place())
    }

    async fn commit_table(&self, commit: TableCommit) -> Result<Table> {
        self.commit(&commit).await.context(|| self.place())
    }

    fn commits_several_tables(&self) -> bool {
        self.check(Endpoint::CommitTables).is_ok()
    }

    async fn commit_tables(&self, commits: Vec<TableCommit>) -> Result<()> {
        let committed = match commits.as_slice() {
            [] => Ok(()),
            [commit] => self.commit(commit).await.map(drop),
            several => self.commit_all(several).await,
        };
        committed.context(|| self.place())
    }

    async fn list_views(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
        let listed = async {
            self.check(Endpoint::ListViews)?;
            self.names_in(namespace, "views").await
        };
        listed.await.context(|| self.place())
    }

    async fn load_view(&self, view: &TableIdent) -> Result<View> {
        self.view(view).await.context(|| self.place())
    }

    async fn create_view(&self, view: &TableIdent, creation: ViewCreation) -> Result<View> {
        self.new_view(view, creation).await.context(|| self.place())
    }

    async fn replace_view(&self, view: &TableIdent, creation: ViewCreation) -> Result<View> {
        self.new_version(view, creation).await.context(|| self.place())
    }

    async fn rename_view(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.rename("view", from, to).await.context(|| self.place())
    }

    async fn drop_view(&self, view: &TableIdent) -> Result<()> {
        self.remove_view(view).await.context(|| self.place())
    }
}
