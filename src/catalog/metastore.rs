//! Catalogs that keep, for each table and view, where its current metadata file lies: what they have
//! in common.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::commit::{Base, Next, Written, missing, taken};
use super::placement::{LOCATION, Placement, spelled};
use super::purge::purge;
use super::views;
use super::{Catalog, Namespace, TableCommit, TableCreation, TableIdent, View, ViewCreation};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{TableMetadata, TableRequirement};
use crate::storage::Location;
use crate::table::{Table, read_metadata};

/// What a name stands for. Tables and views share their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Table,
    View,
}

/// One pointer to move.
#[derive(Debug, Clone)]
pub(crate) struct Swap {
    pub(crate) ident: TableIdent,
    pub(crate) kind: EntryKind,
    /// What it must point at; `None`: there must be nothing of that name.
    pub(crate) expected: Option<String>,
    /// What it points at then. The same as `expected` if it must only not have moved.
    pub(crate) new: String,
}

/// Keeps namespaces, and pointers to metadata files.
#[async_trait]
pub(crate) trait Metastore: Debug + Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;

    /// Where its tables lie, and how they are opened.
    fn placement(&self) -> &Placement;

    /// Fails if it can't keep views.
    fn check_views(&self) -> Result<()> {
        Ok(())
    }

    /// The namespaces directly in one that exists, or those of the top; sorted.
    async fn child_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>>;

    /// The properties of a namespace; `None` if there is none of that name.
    async fn namespace(&self, namespace: &Namespace) -> Result<Option<BTreeMap<String, String>>>;

    /// Adds a namespace, or fails with `AlreadyExists`, or `NotFound` for its parent.
    async fn add_namespace(&self, namespace: &Namespace, properties: BTreeMap<String, String>) -> Result<()>;

    /// Changes the properties of a namespace that exists.
    async fn change_namespace(
        &self,
        namespace: &Namespace,
        set: BTreeMap<String, String>,
        remove: Vec<String>,
    ) -> Result<()>;

    /// Removes a namespace that exists, or fails with `ValidationFailed` if something is in it.
    async fn remove_namespace(&self, namespace: &Namespace) -> Result<()>;

    /// The names of that kind in a namespace that exists; sorted.
    async fn names(&self, namespace: &Namespace, kind: EntryKind) -> Result<Vec<String>>;

    /// Where the metadata file of a table or view lies.
    async fn pointer(&self, ident: &TableIdent, kind: EntryKind) -> Result<Option<String>>;

    /// Moves pointers if each is what is expected: all or none.
    ///
    /// `AlreadyExists` if a name is taken, `CommitConflict` if a pointer has moved,
    /// `CommitStateUnknown` if it may have happened; any other kind if it has certainly not.
    async fn swap(&self, swaps: Vec<Swap>) -> Result<()>;

    /// Gives an entry another name, in a namespace that exists, or fails with `NotFound` or
    /// `AlreadyExists`.
    async fn rename(&self, from: &TableIdent, to: &TableIdent, kind: EntryKind) -> Result<()>;

    /// Removes an entry; whether there was one.
    async fn remove(&self, ident: &TableIdent, kind: EntryKind) -> Result<bool>;

    /// The place that errors name first.
    fn place(&self) -> String {
        format!("catalog `{}`", self.name())
    }

    /// Fails with `NotFound` if there is no such namespace.
    async fn existing_namespace(&self, namespace: &Namespace) -> Result<BTreeMap<String, String>> {
        let found = self.namespace(namespace).await?;
        found.ok_or_else(|| Error::not_found(format!("there is no namespace `{namespace}`")))
    }

    /// Fails with `AlreadyExists` if there is a table or view of that name.
    async fn free_name(&self, ident: &TableIdent) -> Result<()> {
        for kind in [EntryKind::Table, EntryKind::View] {
            if kind == EntryKind::View && self.check_views().is_err() {
                continue;
            }
            if self.pointer(ident, kind).await?.is_some() {
                return Err(taken(ident));
            }
        }
        Ok(())
    }
}

/// A table of a catalog whose metadata is known.
fn table_of<M: Metastore>(
    store: &M,
    ident: &TableIdent,
    metadata: Arc<TableMetadata>,
    location: &str,
) -> Result<Table> {
    let name = format!("{}.{ident}", store.name());
    let options = store.placement().options.clone().name(name).identifier(ident.clone());
    Table::from_metadata(metadata, location, &options)
}

async fn base<M: Metastore>(store: &M, ident: &TableIdent) -> Result<Option<Base>> {
    let Some(location) = store.pointer(ident, EntryKind::Table).await? else { return Ok(None) };
    let storage = store.placement().options.storage_or_new();
    let read = async { read_metadata(&storage, &Location::parse(&location)?).await };
    let metadata = read.await.context(|| format!("table `{ident}`"))?;
    Ok(Some(Base { metadata: Arc::new(metadata), location }))
}

/// The commit that creates a table.
async fn creation<M: Metastore>(
    store: &M,
    ident: &TableIdent,
    creation: TableCreation,
) -> Result<TableCommit> {
    let namespace = store.existing_namespace(ident.namespace()).await?;
    store.free_name(ident).await?;
    let location = match &creation.location {
        Some(location) => spelled(location)?,
        None => store.placement().of_table(ident, &namespace),
    };
    let properties = store.placement().table_properties(creation.properties);
    let (spec, order) = (creation.partition_spec.as_ref(), creation.sort_order.as_ref());
    let updates = TableMetadata::creation(&creation.schema, spec, order, &location, &properties)
        .context(|| format!("table `{ident}`"))?;
    Ok(TableCommit { table: ident.clone(), requirements: vec![TableRequirement::Create], updates })
}

/// Commits to tables: all or none. Gives them as they are then.
async fn commit_all<M: Metastore>(store: &M, commits: &[TableCommit]) -> Result<Vec<Table>> {
    let mut names = BTreeSet::new();
    if let Some(twice) = commits.iter().find(|commit| !names.insert(&commit.table)) {
        return Err(Error::invalid(format!("table `{}` is committed to twice at once", twice.table)));
    }
    // Everything that may be refused is refused before anything is written.
    let mut planned = Vec::with_capacity(commits.len());
    for commit in commits {
        let base = base(store, &commit.table).await?;
        if base.is_none() && commit.requirements.contains(&TableRequirement::Create) {
            store.existing_namespace(commit.table.namespace()).await?;
        }
        planned.push((commit, Next::of(commit, base.as_ref())?, base));
    }
    let storage = store.placement().options.storage_or_new();
    let (mut swaps, mut written, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    let mut writes = Ok(());
    for (commit, next, base) in planned {
        let expected = base.as_ref().map(|base| base.location.clone());
        let (metadata, new) = match (next, base) {
            (Some(next), _) => match next.write(&storage, expected.as_deref()).await {
                Ok(file) => {
                    let result = (Arc::clone(&file.metadata), file.location.clone());
                    written.push(file);
                    result
                }
                Err(e) => {
                    writes = Err(e.context(format!("table `{}`", commit.table)));
                    break;
                }
            },
            (None, Some(base)) => (base.metadata, base.location),
            (None, None) => return Err(missing(&commit.table)),
        };
        tables.push((commit.table.clone(), metadata, new.clone()));
        swaps.push(Swap { ident: commit.table.clone(), kind: EntryKind::Table, expected, new });
    }
    let swapped = match writes {
        // A commit of one table that changes nothing has nothing to swap.
        Ok(()) if written.is_empty() && swaps.len() < 2 => Ok(()),
        Ok(()) => store.swap(swaps).await,
        Err(e) => Err(e),
    };
    for file in &written {
        Written::settle(file, &storage, &swapped).await;
    }
    swapped?;
    tables
        .into_iter()
        .map(|(ident, metadata, location)| table_of(store, &ident, metadata, &location))
        .collect()
}

async fn list<M: Metastore>(store: &M, namespace: &Namespace, kind: EntryKind) -> Result<Vec<TableIdent>> {
    store.existing_namespace(namespace).await?;
    let names = store.names(namespace, kind).await?;
    // What other tools recorded without a name can't be addressed.
    Ok(names.into_iter().filter_map(|name| TableIdent::new(namespace.clone(), name).ok()).collect())
}

async fn rename<M: Metastore>(store: &M, from: &TableIdent, to: &TableIdent, kind: EntryKind) -> Result<()> {
    if store.pointer(from, kind).await?.is_none() {
        return Err(match kind {
            EntryKind::Table => missing(from),
            EntryKind::View => views::missing(from),
        });
    }
    if from == to {
        return Ok(());
    }
    store.existing_namespace(to.namespace()).await?;
    store.free_name(to).await?;
    store.rename(from, to, kind).await
}

#[async_trait]
impl<M: Metastore> Catalog for M {
    fn name(&self) -> &str {
        Metastore::name(self)
    }

    async fn list_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
        if let Some(parent) = parent {
            self.existing_namespace(parent).await.context(|| self.place())?;
        }
        self.child_namespaces(parent).await.context(|| self.place())
    }

    async fn create_namespace(
        &self,
        namespace: &Namespace,
        properties: BTreeMap<String, String>,
    ) -> Result<()> {
        self.add_namespace(namespace, properties).await.context(|| self.place())
    }

    async fn load_namespace(&self, namespace: &Namespace) -> Result<BTreeMap<String, String>> {
        let mut properties = self.existing_namespace(namespace).await.context(|| self.place())?;
        let location = || self.placement().of_namespace(namespace);
        properties.entry(LOCATION.to_owned()).or_insert_with(location);
        Ok(properties)
    }

    async fn namespace_exists(&self, namespace: &Namespace) -> Result<bool> {
        let found = self.namespace(namespace).await.context(|| self.place())?;
        Ok(found.is_some())
    }

    async fn update_namespace(
        &self,
        namespace: &Namespace,
        set: BTreeMap<String, String>,
        remove: Vec<String>,
    ) -> Result<()> {
        if let Some(both) = remove.iter().find(|name| set.contains_key(*name)) {
            return Err(
                Error::invalid(format!("property `{both}` is both set and removed")).context(self.place())
            );
        }
        self.existing_namespace(namespace).await.context(|| self.place())?;
        self.change_namespace(namespace, set, remove).await.context(|| self.place())
    }

    async fn drop_namespace(&self, namespace: &Namespace) -> Result<()> {
        self.existing_namespace(namespace).await.context(|| self.place())?;
        self.remove_namespace(namespace).await.context(|| self.place())
    }

    async fn list_tables(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
        list(self, namespace, EntryKind::Table).await.context(|| self.place())
    }

    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        let found = base(self, table).await.context(|| self.place())?;
        let found = found.ok_or_else(|| missing(table).context(self.place()))?;
        table_of(self, table, found.metadata, &found.location)
    }

    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        let found = self.pointer(table, EntryKind::Table).await.context(|| self.place())?;
        Ok(found.is_some())
    }

    async fn create_table(&self, table: &TableIdent, asked: TableCreation) -> Result<Table> {
        let commit = creation(self, table, asked).await.context(|| self.place())?;
        self.commit_table(commit).await
    }

    async fn stage_table(&self, table: &TableIdent, asked: TableCreation) -> Result<Table> {
        let staged = async {
            let commit = creation(self, table, asked).await?;
            let Some(next) = Next::of(&commit, None)? else { return Err(missing(table)) };
            // Where its metadata file would be; there is none.
            let location = crate::table::next_metadata_location(
                &next.metadata.location,
                &next.metadata.properties,
                None,
            )?;
            table_of(self, table, Arc::new(next.metadata), &location).map(Table::into_staged)
        };
        staged.await.context(|| self.place())
    }

    async fn register_table(&self, table: &TableIdent, metadata_location: &str) -> Result<Table> {
        let registered = async {
            self.existing_namespace(table.namespace()).await?;
            self.free_name(table).await?;
            let location = spelled(metadata_location)?;
            let storage = self.placement().options.storage_or_new();
            let metadata = read_metadata(&storage, &Location::parse(&location)?).await?;
            let new = location.clone();
            let swap = Swap { ident: table.clone(), kind: EntryKind::Table, expected: None, new };
            self.swap(vec![swap]).await?;
            table_of(self, table, Arc::new(metadata), &location)
        };
        registered.await.context(|| self.place())
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        rename(self, from, to, EntryKind::Table).await.context(|| self.place())
    }

    async fn drop_table(&self, table: &TableIdent, purging: bool) -> Result<()> {
        // Without its metadata, what to purge can't be told.
        let loaded = match purging {
            true => Some(self.load_table(table).await?),
            false => None,
        };
        if !self.remove(table, EntryKind::Table).await.context(|| self.place())? {
            return Err(missing(table).context(self.place()));
        }
        if let Some(loaded) = loaded {
            purge(&loaded).await;
        }
        Ok(())
    }

    async fn commit_table(&self, commit: TableCommit) -> Result<Table> {
        let table = commit.table.clone();
        let committed = commit_all(self, &[commit]).await.context(|| self.place())?;
        committed.into_iter().next().ok_or_else(|| missing(&table))
    }

    fn commits_several_tables(&self) -> bool {
        true
    }

    async fn commit_tables(&self, commits: Vec<TableCommit>) -> Result<()> {
        commit_all(self, &commits).await.map(drop).context(|| self.place())
    }

    async fn list_views(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
        self.check_views().context(|| self.place())?;
        list(self, namespace, EntryKind::View).await.context(|| self.place())
    }

    async fn load_view(&self, view: &TableIdent) -> Result<View> {
        views::load(self, view).await.context(|| self.place())
    }

    async fn create_view(&self, view: &TableIdent, asked: ViewCreation) -> Result<View> {
        views::create(self, view, asked).await.context(|| self.place())
    }

    async fn replace_view(&self, view: &TableIdent, asked: ViewCreation) -> Result<View> {
        views::replace(self, view, asked).await.context(|| self.place())
    }

    async fn rename_view(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.check_views().context(|| self.place())?;
        rename(self, from, to, EntryKind::View).await.context(|| self.place())
    }

    async fn drop_view(&self, view: &TableIdent) -> Result<()> {
        self.check_views().context(|| self.place())?;
        match self.remove(view, EntryKind::View).await.context(|| self.place())? {
            true => Ok(()),
            false => Err(views::missing(view).context(self.place())),
        }
    }
}

/// The error for a pointer that somebody else moved.
pub(crate) fn moved(ident: &TableIdent) -> Error {
    let message = format!("somebody else committed to `{ident}` meanwhile");
    Error::new(ErrorKind::CommitConflict, message)
}
