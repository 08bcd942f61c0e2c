//! Transactions on tables in memory, committed through a catalog that fails on demand.

mod conflicts;
mod history;
mod isolation;
mod meanwhile;
mod removals;
mod rows;
mod snapshots;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::*;
use crate::catalog::{Namespace, TableCommit, TableIdent};
use crate::error::{Error, ErrorKind};
use crate::expr::{Predicate, Term, Test};
use crate::plan::{ScanRequest, plan_files};
use crate::spec::{
    ContentFile, ContentType, FieldId, FileFormat, ManifestContent, ManifestEntry, ManifestFile, MetricMaps,
    NestedField, PartitionField, PartitionSpec, PrimitiveType, Schema, SchemaId, Snapshot, SnapshotManifests,
    SpecId, TableMetadata, TableUpdate, Transform, Value,
};
use crate::storage::fault::FaultStore;
use crate::storage::{Storage, StorageProperties};
use crate::table::OpenOptions;

/// What happens to a commit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fault {
    /// Somebody else commits first, then it is tried.
    Overtaken,
    /// It is refused as a conflict although nobody committed.
    Conflict,
    /// It happens, but a conflict is reported: it was sent twice on the way.
    DoneButConflict,
    /// It happens, but the reply is lost.
    DoneButLost,
    /// It does not happen, and nobody says so.
    Lost,
    /// The same, and somebody else commits.
    LostAndOvertaken,
    /// It is refused for good.
    Refused,
}

/// Holds tables in memory; `apply` is the swap.
#[derive(Debug)]
pub(super) struct TestCatalog {
    tables: Mutex<BTreeMap<TableIdent, (Arc<TableMetadata>, usize)>>,
    options: OpenOptions,
    pub(super) memory: Arc<InMemory>,
    pub(super) fault: Arc<FaultStore>,
    faults: Mutex<VecDeque<Fault>>,
    pub(super) commits: Mutex<Vec<TableCommit>>,
    several: bool,
}

impl TestCatalog {
    pub(super) fn new() -> Self {
        let memory = Arc::new(InMemory::new());
        let fault = Arc::new(FaultStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>));
        let storage = Storage::new(StorageProperties::new());
        let storage = storage.with_store("memory://", Arc::clone(&fault) as Arc<dyn ObjectStore>).unwrap();
        Self {
            tables: Mutex::default(),
            options: OpenOptions::new().storage(storage).cache(Arc::default()),
            memory,
            fault,
            faults: Mutex::default(),
            commits: Mutex::default(),
            several: false,
        }
    }

    /// A catalog with a table `n.t` of `p int` (the partition) and `x long`.
    pub(super) async fn with_table(version: u8, properties: &[(&str, &str)]) -> (Self, Table) {
        let catalog = Self::new();
        let table = catalog.create("t", version, properties);
        (catalog, table)
    }

    pub(super) fn create(&self, name: &str, version: u8, properties: &[(&str, &str)]) -> Table {
        let metadata = created(name, version, properties);
        self.tables.lock().unwrap().insert(ident(name), (Arc::new(metadata), 0));
        self.load(&ident(name)).unwrap()
    }

    pub(super) fn staged(&self, name: &str, version: u8) -> Table {
        let options = self.options.clone().name(name).identifier(ident(name));
        let metadata = Arc::new(created(name, version, &[]));
        let location = format!("memory:///{name}/metadata/v0.metadata.json");
        Table::from_metadata(metadata, &location, &options).unwrap().into_staged()
    }

    pub(super) fn faults(&self, faults: &[Fault]) {
        self.faults.lock().unwrap().extend(faults);
    }

    pub(super) fn commit_count(&self) -> usize {
        self.commits.lock().unwrap().len()
    }

    pub(super) fn drop(&self, name: &str) {
        self.tables.lock().unwrap().remove(&ident(name));
    }

    fn load(&self, ident: &TableIdent) -> crate::Result<Table> {
        let tables = self.tables.lock().unwrap();
        let Some((metadata, version)) = tables.get(ident) else {
            return Err(Error::not_found(format!("table `{ident}` does not exist")));
        };
        let options = self.options.clone().name(ident.name()).identifier(ident.clone());
        let location = format!("{}/metadata/v{version}.metadata.json", metadata.location);
        Table::from_metadata(Arc::clone(metadata), &location, &options)
    }

    fn swap(&self, commits: &[TableCommit]) -> crate::Result<()> {
        let mut tables = self.tables.lock().unwrap();
        let mut after = Vec::new();
        for commit in commits {
            let before = tables.get(&commit.table).cloned();
            let base = before.as_ref().map(|(metadata, _)| metadata.as_ref());
            commit.requirements.iter().try_for_each(|requirement| requirement.check(base))?;
            let metadata = TableMetadata::apply(base, &commit.updates, super::settings::now_ms())?;
            after.push((commit.table.clone(), (Arc::new(metadata), before.map_or(0, |(_, n)| n + 1))));
        }
        tables.extend(after);
        Ok(())
    }

    /// Another writer appends a file, if the storage lets it.
    async fn overtake(&self, ident: &TableIdent) {
        let table = self.load(ident).unwrap();
        let mut other = Append::fast().files([file("other", Some(9), 1)]);
        let Ok(updates) = other.updates(&table).await else { return };
        let commit = TableCommit { table: ident.clone(), requirements: Vec::new(), updates };
        self.swap(&[commit]).unwrap();
    }

    async fn send(&self, commits: Vec<TableCommit>) -> crate::Result<()> {
        self.commits.lock().unwrap().extend(commits.clone());
        let fault = self.faults.lock().unwrap().pop_front();
        let conflict = || Error::new(ErrorKind::CommitConflict, "somebody was faster");
        let unknown = || Error::new(ErrorKind::CommitStateUnknown, "no reply");
        match fault {
            None => self.swap(&commits),
            Some(Fault::Conflict) => Err(conflict()),
            Some(Fault::Overtaken) => {
                self.overtake(&commits[0].table).await;
                self.swap(&commits)
            }
            Some(Fault::DoneButConflict) => self.swap(&commits).and(Err(conflict())),
            Some(Fault::DoneButLost) => self.swap(&commits).and(Err(unknown())),
            Some(Fault::Lost) => Err(unknown()),
            Some(Fault::LostAndOvertaken) => {
                self.overtake(&commits[0].table).await;
                Err(unknown())
            }
            Some(Fault::Refused) => Err(Error::new(ErrorKind::Io, "forbidden")),
        }
    }

    /// The paths of all files in the store.
    pub(super) async fn files(&self) -> BTreeSet<String> {
        let listed: Vec<_> = self.memory.list(None).try_collect().await.unwrap();
        listed.into_iter().map(|o| format!("memory:///{}", o.location)).collect()
    }
}

#[async_trait]
impl Catalog for TestCatalog {
    fn name(&self) -> &str {
        "test"
    }

    async fn list_namespaces(&self, _: Option<&Namespace>) -> crate::Result<Vec<Namespace>> {
        Ok(Vec::new())
    }

    async fn list_tables(&self, _: &Namespace) -> crate::Result<Vec<TableIdent>> {
        Ok(Vec::new())
    }

    async fn load_table(&self, table: &TableIdent) -> crate::Result<Table> {
        tokio::task::yield_now().await;
        self.load(table)
    }

    async fn commit_table(&self, commit: TableCommit) -> crate::Result<Table> {
        tokio::task::yield_now().await;
        let ident = commit.table.clone();
        self.send(vec![commit]).await?;
        self.load(&ident)
    }

    fn commits_several_tables(&self) -> bool {
        self.several
    }

    async fn commit_tables(&self, commits: Vec<TableCommit>) -> crate::Result<()> {
        self.send(commits).await
    }
}

pub(super) fn ident(name: &str) -> TableIdent {
    TableIdent::new(Namespace::new(["n"]).unwrap(), name).unwrap()
}

fn schema() -> Schema {
    let fields = vec![
        NestedField::optional(1, "p", PrimitiveType::Int),
        NestedField::optional(2, "x", PrimitiveType::Long),
    ];
    Schema::new(SchemaId(0), fields, vec![]).unwrap()
}

fn created(name: &str, version: u8, properties: &[(&str, &str)]) -> TableMetadata {
    let p = PartitionField {
        source_ids: vec![FieldId(1)],
        field_id: FieldId(1000),
        name: "p".into(),
        transform: Transform::Identity,
        extra: Default::default(),
    };
    let spec = PartitionSpec { spec_id: SpecId(0), fields: vec![p] };
    let version = version.to_string();
    let properties: BTreeMap<String, String> = properties
        .iter()
        .copied()
        .chain([("format-version", version.as_str())])
        // Nobody waits for anything.
        .chain([("commit.retry.min-wait-ms", "0"), ("commit.status-check.min-wait-ms", "0")])
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let location = format!("memory:///{name}");
    let updates = TableMetadata::creation(&schema(), Some(&spec), None, &location, &properties).unwrap();
    TableMetadata::apply(None, &updates, 0).unwrap()
}

/// A data file of partition `p` with `rows` rows, whose `x` is from 0 to 9.
pub(super) fn file(name: &str, p: Option<i32>, rows: i64) -> ContentFile {
    let bytes = |v: i64| [(FieldId(2), Bytes::copy_from_slice(&v.to_le_bytes()))].into();
    let metrics = MetricMaps {
        value_counts: [(FieldId(2), rows)].into(),
        null_value_counts: [(FieldId(2), 0)].into(),
        lower_bounds: bytes(0),
        upper_bounds: bytes(9),
        ..MetricMaps::default()
    };
    ContentFile {
        content: ContentType::Data,
        file_path: format!("memory:///data/{name}"),
        file_format: FileFormat::Parquet,
        spec_id: SpecId(0),
        partition: vec![p.map(Value::Int)],
        record_count: rows,
        file_size_in_bytes: 100,
        metrics: metrics.into(),
        key_metadata: None,
        split_offsets: None,
        equality_ids: None,
        sort_order_id: None,
        first_row_id: None,
        referenced_data_file: None,
        content_offset: None,
        content_size_in_bytes: None,
    }
}

/// A position delete file of a partition.
pub(super) fn positions(name: &str, p: Option<i32>) -> ContentFile {
    ContentFile {
        content: ContentType::PositionDeletes,
        metrics: MetricMaps::default().into(),
        ..file(name, p, 1)
    }
}

/// An equality delete file of a partition, by `x`.
pub(super) fn equality(name: &str, p: Option<i32>) -> ContentFile {
    ContentFile {
        content: ContentType::EqualityDeletes,
        equality_ids: Some(vec![FieldId(2)]),
        ..positions(name, p)
    }
}

/// A deletion vector of a data file.
pub(super) fn vector(name: &str, data: &ContentFile, offset: i64) -> ContentFile {
    ContentFile {
        file_format: FileFormat::Puffin,
        partition: data.partition.clone(),
        referenced_data_file: Some(data.file_path.clone()),
        content_offset: Some(offset),
        content_size_in_bytes: Some(40),
        ..positions(name, None)
    }
}

/// The filter `name test`.
pub(super) fn filter(name: &str, test: Test) -> Predicate {
    let schema = schema();
    let field = schema.field_by_path(&[name]).unwrap();
    let term = Term {
        field_id: field.id,
        name: name.into(),
        field_type: field.field_type.as_primitive().unwrap().clone(),
        transform: None,
    };
    Predicate::new(term, test).unwrap()
}

pub(super) fn current(table: &Table) -> Arc<Snapshot> {
    Arc::clone(table.metadata().current_snapshot().unwrap())
}

pub(super) async fn manifests(table: &Table) -> Vec<ManifestFile> {
    table.manifest_list(&current(table)).await.unwrap().as_ref().clone()
}

/// All entries of the current snapshot, of that content.
pub(super) async fn entries(table: &Table, content: ManifestContent) -> Vec<ManifestEntry> {
    let mut entries = Vec::new();
    for manifest in manifests(table).await.iter().filter(|m| m.content == content) {
        entries.extend(table.manifest(manifest).await.unwrap().entries.iter().cloned());
    }
    entries
}

pub(super) fn name(file: &ContentFile) -> String {
    file.file_path.trim_start_matches("memory:///data/").to_owned()
}

/// The names of the live files of the current snapshot.
pub(super) async fn live(table: &Table, content: ManifestContent) -> BTreeSet<String> {
    let entries = entries(table, content).await;
    entries.iter().filter(|e| e.is_live()).map(|e| name(&e.data_file)).collect()
}

/// The data files that a scan reads, with the delete files that apply.
pub(super) async fn scanned(table: &Table) -> BTreeMap<String, BTreeSet<String>> {
    let request =
        ScanRequest { schema: Arc::clone(table.metadata().current_schema()), filter: Predicate::True };
    let plan = plan_files(table, &current(table), &request).await.unwrap();
    let tasks = plan.tasks.iter();
    tasks.map(|t| (name(&t.data_file), t.deletes.iter().map(|d| name(&d.file)).collect())).collect()
}

pub(super) fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// The metadata files that the table's snapshots consist of.
pub(super) async fn referenced(table: &Table) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for snapshot in &table.metadata().snapshots {
        let SnapshotManifests::List(list) = &snapshot.manifests else { continue };
        paths.insert(list.clone());
        let list = table.manifest_list(snapshot).await.unwrap();
        paths.extend(list.iter().map(|m| m.manifest_path.clone()));
    }
    paths
}

pub(super) fn number(snapshot: &Snapshot, name: &str) -> i64 {
    snapshot.summary.get(name).map_or(0, |n| n.parse().unwrap())
}

/// Sets a property.
#[derive(Debug)]
pub(super) struct SetProperty(pub(super) &'static str, pub(super) &'static str);

#[async_trait]
impl Action for SetProperty {
    async fn updates(&mut self, _: &Table) -> crate::Result<Vec<TableUpdate>> {
        Ok(vec![TableUpdate::SetProperties([(self.0.to_owned(), self.1.to_owned())].into())])
    }
}

/// Raises the format version.
#[derive(Debug)]
pub(super) struct Upgrade(pub(super) u8);

#[async_trait]
impl Action for Upgrade {
    async fn updates(&mut self, _: &Table) -> crate::Result<Vec<TableUpdate>> {
        Ok(vec![TableUpdate::UpgradeFormatVersion(self.0)])
    }
}
