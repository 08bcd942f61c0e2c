//! The one suite of tests that every catalog has to pass.
//!
//! A catalog's tests say how one is made and what it can do, and get all cases as tests:
//!
//! ```ignore
//! async fn subject() -> Option<Subject> {
//!     let catalog: Arc<dyn Catalog> = Arc::new(MyCatalog::connect(…).await.unwrap());
//!     Some(Subject::new(catalog, Can { views: false, ..Can::EVERYTHING }))
//! }
//! crate::catalog::suite::cases!(subject);
//! ```
//!
//! The catalog may have other things in it: each case works in namespaces of its own. `None` skips;
//! whoever returns it prints why. `Subject::keep` holds what has to live as long as the catalog,
//! such as a temporary directory or a server.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use super::{Catalog, Namespace, TableCommit, TableCreation, TableIdent, ViewCreation};
use crate::error::ErrorKind;
use crate::spec::{
    FieldId, LAST_ADDED, MAIN_BRANCH, NestedField, NullOrder, PartitionField, PartitionSpec, PrimitiveType,
    RefType, Schema, SchemaId, SequenceNumber, Snapshot, SnapshotId, SnapshotManifests, SnapshotRef,
    SortDirection, SortField, SortOrder, SortOrderId, SpecId, TableMetadata, TableRequirement, TableUpdate,
    Transform, Type, ViewRepresentation,
};
use crate::storage::Location;
use crate::table::Table;

/// What a catalog can do beyond what all can.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Can {
    /// Namespaces in namespaces.
    pub(crate) nest: bool,
    /// A namespace needs its parent to exist.
    pub(crate) need_parents: bool,
    /// Namespaces have properties of their own.
    pub(crate) namespace_properties: bool,
    /// Levels of namespaces may have dots in their names.
    pub(crate) dotted_levels: bool,
    /// Names may have slashes in them.
    pub(crate) slashes: bool,
    /// Tables get other names.
    pub(crate) rename: bool,
    /// Tables are forgotten while their files stay, and are taken up again.
    pub(crate) register: bool,
    /// Tables lie where their creators want.
    pub(crate) place: bool,
    /// Views.
    pub(crate) views: bool,
    /// The files of the tables can be looked at: they are not on a server's own disk.
    pub(crate) show_files: bool,
    /// Metadata files are removed when a commit fails or they fall off the log, before the commit
    /// returns.
    pub(crate) clean_up: bool,
}

impl Can {
    pub(crate) const EVERYTHING: Self = Self {
        nest: true,
        need_parents: true,
        namespace_properties: true,
        dotted_levels: true,
        slashes: true,
        rename: true,
        register: true,
        place: true,
        views: true,
        show_files: true,
        clean_up: true,
    };
}

/// A catalog under test.
pub(crate) struct Subject {
    catalog: Arc<dyn Catalog>,
    can: Can,
    _keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl Subject {
    pub(crate) fn new(catalog: Arc<dyn Catalog>, can: Can) -> Self {
        Self { catalog, can, _keep: Vec::new() }
    }

    /// Keeps something alive as long as the catalog is tested.
    pub(crate) fn keep(mut self, thing: impl Any + Send + Sync) -> Self {
        self._keep.push(Box::new(thing));
        self
    }

    /// A namespace that nothing else uses, which exists.
    async fn namespace(&self) -> Namespace {
        let namespace = unused();
        self.catalog.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
        namespace
    }

    async fn create(&self, namespace: &Namespace, name: &str) -> Table {
        self.catalog.create_table(&ident(namespace, name), TableCreation::new(schema())).await.unwrap()
    }

    async fn commit(&self, table: &TableIdent, updates: Vec<TableUpdate>) -> crate::Result<Table> {
        self.commit_if(table, Vec::new(), updates).await
    }

    async fn commit_if(
        &self,
        table: &TableIdent,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> crate::Result<Table> {
        self.catalog.commit_table(TableCommit { table: table.clone(), requirements, updates }).await
    }

    async fn load(&self, table: &TableIdent) -> Table {
        self.catalog.load_table(table).await.unwrap()
    }
}

/// Makes every case of the suite a test of the subject that an async function gives.
macro_rules! cases {
    ($subject:path) => {
        $crate::catalog::suite::cases!($subject:
            namespaces_come_and_go, namespaces_nest, namespaces_have_properties, tables_come_and_go,
            tables_keep_what_they_were_created_with, a_table_is_what_it_was_loaded_as, tables_get_other_names,
            tables_are_registered, tables_lie_where_they_are_wanted, staged_tables, every_requirement_counts,
            failed_commits_leave_nothing, commits_need_a_table, writers_at_the_same_time,
            creators_at_the_same_time, several_tables_at_once, odd_names, views_come_and_go,
            tables_and_views_share_their_names, long_lists_are_whole, metadata_files_are_logged_and_removed,
            dropped_with_and_without_their_files, old_versions_are_upgraded);
    };
    ($subject:path: $($case:ident),+) => {
        $(
            #[tokio::test]
            async fn $case() {
                if let Some(subject) = $subject().await {
                    $crate::catalog::suite::$case(&subject).await;
                }
            }
        )+
    };
}
pub(crate) use cases;

fn unused() -> Namespace {
    Namespace::new([format!("ns_{}", Uuid::new_v4().simple())]).unwrap()
}

fn ident(namespace: &Namespace, name: &str) -> TableIdent {
    TableIdent::new(namespace.clone(), name).unwrap()
}

fn schema() -> Schema {
    let fields = vec![
        NestedField::required(7, "id", Type::Primitive(PrimitiveType::Long)),
        NestedField::optional(9, "data", Type::Primitive(PrimitiveType::String)),
    ];
    Schema::new(SchemaId(3), fields, Vec::new()).unwrap()
}

fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn set(name: &str, value: &str) -> TableUpdate {
    TableUpdate::SetProperties(map(&[(name, value)]))
}

fn names<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(T::to_string).collect()
}

#[track_caller]
fn kind<T>(result: crate::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it should have failed"),
        Err(e) => e.kind(),
    }
}

/// That a commit is refused for what it is, whatever others do.
#[track_caller]
fn refused_for_good<T>(result: crate::Result<T>) {
    let kind = kind(result);
    assert!(
        matches!(kind, ErrorKind::DataInvalid | ErrorKind::ValidationFailed | ErrorKind::Unsupported),
        "{kind}"
    );
}

/// The files in the directory of a table's current metadata file, without hints.
async fn metadata_files(table: &Table) -> BTreeSet<String> {
    let dir = table.metadata_location().parent().unwrap();
    let listed = table.storage().list_dir(&dir).await.unwrap();
    listed.into_iter().map(|entry| entry.name).filter(|name| name.contains(".metadata.json")).collect()
}

/// The names of the metadata files that a table knows of.
fn known_files(table: &Table) -> BTreeSet<String> {
    let name = |location: &str| location.rsplit('/').next().unwrap().to_owned();
    let logged = table.metadata().metadata_log.iter().map(|entry| name(&entry.metadata_file));
    logged.chain([table.metadata_location().file_name().to_owned()]).collect()
}

fn snapshot(id: i64, parent: Option<i64>, sequence_number: i64, location: &str) -> Snapshot {
    Snapshot {
        snapshot_id: SnapshotId(id),
        parent_snapshot_id: parent.map(SnapshotId),
        sequence_number: SequenceNumber(sequence_number),
        timestamp_ms: chrono::Utc::now().timestamp_millis(),
        manifests: SnapshotManifests::List(format!("{location}/metadata/snap-{id}.avro")),
        summary: map(&[("operation", "append")]),
        schema_id: Some(SchemaId(0)),
        first_row_id: None,
        added_rows: None,
        key_id: None,
        extra: serde_json::Map::new(),
    }
}

fn branch(id: i64) -> SnapshotRef {
    SnapshotRef {
        snapshot_id: SnapshotId(id),
        ref_type: RefType::Branch,
        min_snapshots_to_keep: None,
        max_snapshot_age_ms: None,
        max_ref_age_ms: None,
        extra: Default::default(),
    }
}

/// The updates that a staged table is created by.
fn creation_of(metadata: &TableMetadata) -> Vec<TableUpdate> {
    vec![
        TableUpdate::AssignUuid(metadata.table_uuid.unwrap()),
        TableUpdate::UpgradeFormatVersion(metadata.format_version),
        TableUpdate::AddSchema(Arc::clone(metadata.current_schema())),
        TableUpdate::SetCurrentSchema(SchemaId(LAST_ADDED)),
        TableUpdate::AddSpec(Arc::clone(metadata.default_spec())),
        TableUpdate::SetDefaultSpec(SpecId(LAST_ADDED)),
        TableUpdate::AddSortOrder(Arc::clone(metadata.default_sort_order())),
        TableUpdate::SetDefaultSortOrder(SortOrderId(LAST_ADDED)),
        TableUpdate::SetLocation(metadata.location.clone()),
        TableUpdate::SetProperties(metadata.properties.clone()),
    ]
}

pub(crate) async fn namespaces_come_and_go(s: &Subject) {
    let (c, ns) = (&s.catalog, unused());
    assert!(!c.namespace_exists(&ns).await.unwrap());
    assert_eq!(kind(c.load_namespace(&ns).await), ErrorKind::NotFound);
    assert_eq!(kind(c.list_namespaces(Some(&ns)).await), ErrorKind::NotFound);
    assert_eq!(kind(c.list_tables(&ns).await), ErrorKind::NotFound);
    assert_eq!(kind(c.drop_namespace(&ns).await), ErrorKind::NotFound);
    c.create_namespace(&ns, BTreeMap::new()).await.unwrap();
    assert_eq!(kind(c.create_namespace(&ns, BTreeMap::new()).await), ErrorKind::AlreadyExists);
    assert!(c.namespace_exists(&ns).await.unwrap());
    c.load_namespace(&ns).await.unwrap();
    let listed = c.list_namespaces(None).await.unwrap();
    assert!(listed.contains(&ns) && listed.is_sorted(), "{listed:?}");
    assert_eq!(c.list_tables(&ns).await.unwrap(), []);
    assert_eq!(c.list_namespaces(Some(&ns)).await.unwrap(), []);
    s.create(&ns, "t").await;
    assert_eq!(kind(c.drop_namespace(&ns).await), ErrorKind::ValidationFailed);
    c.drop_table(&ident(&ns, "t"), true).await.unwrap();
    c.drop_namespace(&ns).await.unwrap();
    assert!(!c.namespace_exists(&ns).await.unwrap());
    assert!(!c.list_namespaces(None).await.unwrap().contains(&ns));
}

pub(crate) async fn namespaces_nest(s: &Subject) {
    if !s.can.nest {
        return;
    }
    let (c, ns) = (&s.catalog, unused());
    let child = ns.child("a").unwrap();
    if s.can.need_parents {
        assert_eq!(kind(c.create_namespace(&child, BTreeMap::new()).await), ErrorKind::NotFound);
    }
    c.create_namespace(&ns, BTreeMap::new()).await.unwrap();
    for name in ["b", "a", "a2", "😀"] {
        c.create_namespace(&ns.child(name).unwrap(), BTreeMap::new()).await.unwrap();
    }
    let grandchild = child.child("x").unwrap();
    c.create_namespace(&grandchild, BTreeMap::new()).await.unwrap();
    let below = names(&c.list_namespaces(Some(&ns)).await.unwrap());
    assert_eq!(below, ["a", "a2", "b", "😀"].map(|name| format!("{ns}.{name}")));
    let (parent, smiling) = (ns.child("b").unwrap(), ns.child("b").unwrap().child("😀").unwrap());
    c.create_namespace(&smiling, BTreeMap::new()).await.unwrap();
    assert_eq!(c.list_namespaces(Some(&parent)).await.unwrap(), std::slice::from_ref(&smiling));
    assert_eq!(kind(c.drop_namespace(&parent).await), ErrorKind::ValidationFailed);
    assert_eq!(c.list_namespaces(Some(&child)).await.unwrap(), std::slice::from_ref(&grandchild));
    assert!(!c.list_namespaces(None).await.unwrap().contains(&child));
    s.create(&grandchild, "t").await;
    s.create(&child, "u").await;
    assert_eq!(names(&c.list_tables(&child).await.unwrap()), [format!("{child}.u")]);
    assert_eq!(c.list_tables(&ns).await.unwrap(), []);
    for full in [&ns, &child, &grandchild] {
        assert_eq!(kind(c.drop_namespace(full).await), ErrorKind::ValidationFailed, "{full}");
    }
    c.drop_table(&ident(&child, "u"), true).await.unwrap();
    assert_eq!(kind(c.drop_namespace(&child).await), ErrorKind::ValidationFailed);
    c.drop_table(&ident(&grandchild, "t"), true).await.unwrap();
    for empty in [&grandchild, &child] {
        c.drop_namespace(empty).await.unwrap();
    }
    assert!(c.namespace_exists(&ns.child("a2").unwrap()).await.unwrap());
}

pub(crate) async fn namespaces_have_properties(s: &Subject) {
    let (c, ns) = (&s.catalog, unused());
    let odd = map(&[("owner", "it's \"me\""), ("ü.key", "日本"), ("empty", "")]);
    if !s.can.namespace_properties {
        assert_eq!(kind(c.create_namespace(&ns, odd).await), ErrorKind::Unsupported);
        return;
    }
    c.create_namespace(&ns, odd.clone()).await.unwrap();
    let own = |properties: BTreeMap<String, String>| {
        let mut own = properties;
        own.remove("location");
        own
    };
    assert_eq!(own(c.load_namespace(&ns).await.unwrap()), odd);
    c.update_namespace(&ns, map(&[("owner", "you"), ("new", "1")]), vec!["empty".into(), "nothing".into()])
        .await
        .unwrap();
    let expected = map(&[("owner", "you"), ("ü.key", "日本"), ("new", "1")]);
    assert_eq!(own(c.load_namespace(&ns).await.unwrap()), expected);
    let both = c.update_namespace(&ns, map(&[("owner", "x")]), vec!["owner".into()]).await;
    assert_eq!(kind(both), ErrorKind::DataInvalid);
    let all = expected.into_keys().collect();
    c.update_namespace(&ns, BTreeMap::new(), all).await.unwrap();
    assert_eq!(own(c.load_namespace(&ns).await.unwrap()), BTreeMap::new());
    assert!(c.namespace_exists(&ns).await.unwrap());
    assert_eq!(kind(c.update_namespace(&unused(), map(&[("a", "b")]), vec![]).await), ErrorKind::NotFound);
}

pub(crate) async fn tables_come_and_go(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let t = ident(&ns, "t");
    assert!(!c.table_exists(&t).await.unwrap());
    let e = c.load_table(&t).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains(&t.to_string()), "{e}");
    assert_eq!(kind(c.drop_table(&t, false).await), ErrorKind::NotFound);
    let nowhere = ident(&unused(), "t");
    assert_eq!(kind(c.create_table(&nowhere, TableCreation::new(schema())).await), ErrorKind::NotFound);
    assert!(!c.table_exists(&nowhere).await.unwrap());

    let created = s.create(&ns, "t").await;
    assert_eq!(created.identifier(), Some(&t));
    assert_eq!(created.name(), format!("{}.{t}", c.name()));
    assert!(c.table_exists(&t).await.unwrap());
    assert_eq!(kind(c.create_table(&t, TableCreation::new(schema())).await), ErrorKind::AlreadyExists);
    let loaded = s.load(&t).await;
    assert_eq!(loaded.metadata(), created.metadata());
    assert_eq!(loaded.metadata_location(), created.metadata_location());
    assert_eq!(loaded.identifier(), Some(&t));
    s.create(&ns, "s").await;
    assert_eq!(c.list_tables(&ns).await.unwrap(), [ident(&ns, "s"), t.clone()]);
    c.drop_table(&t, true).await.unwrap();
    assert!(!c.table_exists(&t).await.unwrap());
    assert_eq!(kind(c.load_table(&t).await), ErrorKind::NotFound);
    let again = s.create(&ns, "t").await;
    assert_ne!(again.metadata().table_uuid, created.metadata().table_uuid);
}

pub(crate) async fn tables_keep_what_they_were_created_with(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    for version in ["1", "2", "3"] {
        let partition = PartitionField {
            source_ids: vec![FieldId(7)],
            field_id: FieldId(1000),
            name: "id_bucket".to_owned(),
            transform: Transform::Bucket(4),
            extra: Default::default(),
        };
        let order = SortField {
            source_ids: vec![FieldId(9)],
            transform: Transform::Identity,
            direction: SortDirection::Descending,
            null_order: NullOrder::Last,
            extra: Default::default(),
        };
        let creation = TableCreation {
            partition_spec: Some(PartitionSpec { spec_id: SpecId(5), fields: vec![partition] }),
            sort_order: Some(SortOrder { order_id: SortOrderId(8), fields: vec![order] }),
            properties: map(&[("format-version", version), ("owner", "it's \"me\""), ("ü", "日本")]),
            ..TableCreation::new(schema())
        };
        let t = ident(&ns, &format!("v{version}"));
        let created = c.create_table(&t, creation).await.unwrap();
        let metadata = s.load(&t).await.metadata().clone();
        assert_eq!(&metadata, created.metadata());
        assert_eq!(metadata.format_version.to_string(), version);
        assert!(metadata.table_uuid.is_some());
        assert_eq!(metadata.current_snapshot_id, None);
        let names: Vec<_> =
            metadata.current_schema().fields().iter().map(|f| (f.id.0, f.name.as_str())).collect();
        assert_eq!(names, [(1, "id"), (2, "data")]);
        let spec = &metadata.default_spec().fields;
        assert_eq!(
            (spec.len(), &spec[0].source_ids, &spec[0].transform),
            (1, &vec![FieldId(1)], &Transform::Bucket(4))
        );
        assert_eq!(metadata.default_sort_order().fields[0].source_ids, [FieldId(2)]);
        assert_eq!(metadata.properties["owner"], "it's \"me\"");
        assert_eq!(metadata.properties["ü"], "日本");
        assert!(!metadata.properties.contains_key("format-version"));
        // The location is one that other tools understand, and no two tables share it.
        Location::parse(&metadata.location).unwrap();
    }
    let wrong = TableCreation { properties: map(&[("format-version", "9")]), ..TableCreation::new(schema()) };
    let e = c.create_table(&ident(&ns, "v9"), wrong).await.unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::DataInvalid | ErrorKind::Unsupported), "{e}");
    assert!(!c.table_exists(&ident(&ns, "v9")).await.unwrap());
}

pub(crate) async fn a_table_is_what_it_was_loaded_as(s: &Subject) {
    let ns = s.namespace().await;
    let created = s.create(&ns, "t").await;
    let t = ident(&ns, "t");
    let committed = s.commit(&t, vec![set("a", "1"), set("b", "1")]).await.unwrap();
    assert!(!created.metadata().properties.contains_key("a"));
    assert_eq!(committed.metadata().properties["a"], "1");
    assert_ne!(committed.metadata_location(), created.metadata_location());
    let loaded = s.load(&t).await;
    assert_eq!(loaded.metadata(), committed.metadata());
    assert_eq!(loaded.metadata_location(), committed.metadata_location());
    let after = s.commit(&t, vec![TableUpdate::RemoveProperties(vec!["b".into()])]).await.unwrap();
    assert!(!after.metadata().properties.contains_key("b"));
    assert!(loaded.metadata().properties.contains_key("b"));
    assert!(after.metadata().last_updated_ms >= loaded.metadata().last_updated_ms);
    // Nothing to do is no commit.
    let nothing = s.commit(&t, Vec::new()).await.unwrap();
    assert_eq!(nothing.metadata(), after.metadata());
}

pub(crate) async fn tables_get_other_names(s: &Subject) {
    let (c, ns, other) = (&s.catalog, s.namespace().await, s.namespace().await);
    let (a, b, there) = (ident(&ns, "a"), ident(&ns, "b"), ident(&other, "a"));
    let created = s.create(&ns, "a").await;
    if !s.can.rename {
        assert_eq!(kind(c.rename_table(&a, &b).await), ErrorKind::Unsupported);
        return;
    }
    c.rename_table(&a, &b).await.unwrap();
    assert!(!c.table_exists(&a).await.unwrap());
    assert_eq!(s.load(&b).await.metadata(), created.metadata());
    c.rename_table(&b, &there).await.unwrap();
    assert_eq!(c.list_tables(&ns).await.unwrap(), []);
    assert_eq!(c.list_tables(&other).await.unwrap(), std::slice::from_ref(&there));
    s.commit(&there, vec![set("x", "y")]).await.unwrap();
    s.create(&ns, "a").await;
    assert_eq!(kind(c.rename_table(&a, &there).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(c.rename_table(&b, &a).await), ErrorKind::NotFound);
    assert_eq!(kind(c.rename_table(&a, &ident(&unused(), "a")).await), ErrorKind::NotFound);
    assert!(c.table_exists(&a).await.unwrap() && c.table_exists(&there).await.unwrap());
}

pub(crate) async fn tables_are_registered(s: &Subject) {
    if !s.can.register {
        return;
    }
    let (c, ns) = (&s.catalog, s.namespace().await);
    let t = ident(&ns, "t");
    s.create(&ns, "t").await;
    let table = s.commit(&t, vec![set("a", "1")]).await.unwrap();
    let file = table.metadata_location().to_string();
    assert_eq!(kind(c.register_table(&t, &file).await), ErrorKind::AlreadyExists);
    c.drop_table(&t, false).await.unwrap();
    let u = ident(&ns, "u");
    let registered = c.register_table(&u, &file).await.unwrap();
    assert_eq!(registered.metadata(), table.metadata());
    assert_eq!(registered.identifier(), Some(&u));
    let after = s.commit(&u, vec![set("a", "2")]).await.unwrap();
    assert_eq!(after.metadata().metadata_log.len(), 2);
    assert_eq!(kind(c.register_table(&ident(&unused(), "t"), &file).await), ErrorKind::NotFound);
    let gone = format!("{}x", file.trim_end_matches(".metadata.json")) + ".metadata.json";
    assert_eq!(kind(c.register_table(&t, &gone).await), ErrorKind::NotFound);
    assert!(!c.table_exists(&t).await.unwrap());
}

pub(crate) async fn tables_lie_where_they_are_wanted(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let first = s.create(&ns, "t").await;
    let location = format!("{}_elsewhere", first.metadata().location);
    let creation = TableCreation { location: Some(format!("{location}/")), ..TableCreation::new(schema()) };
    let created = c.create_table(&ident(&ns, "u"), creation).await;
    if !s.can.place {
        assert_eq!(kind(created), ErrorKind::Unsupported);
        let moved = s.commit(&ident(&ns, "t"), vec![TableUpdate::SetLocation(location)]).await;
        assert_eq!(kind(moved), ErrorKind::Unsupported);
        return;
    }
    let created = created.unwrap();
    assert_eq!(created.metadata().location, location);
    assert!(created.metadata_location().to_string().contains("_elsewhere/metadata/"));
    let moved = format!("{location}_2");
    let moved_to = s.commit(&ident(&ns, "u"), vec![TableUpdate::SetLocation(moved.clone())]).await.unwrap();
    assert_eq!(moved_to.metadata().location, moved);
    assert_eq!(s.load(&ident(&ns, "u")).await.metadata(), moved_to.metadata());
}

pub(crate) async fn staged_tables(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let t = ident(&ns, "t");
    let creation = TableCreation { properties: map(&[("a", "1")]), ..TableCreation::new(schema()) };
    let staged = c.stage_table(&t, creation.clone()).await.unwrap();
    assert_eq!(staged.identifier(), Some(&t));
    assert!(staged.is_staged());
    assert!(!c.table_exists(&t).await.unwrap());
    assert_eq!(c.list_tables(&ns).await.unwrap(), []);
    let mut updates = creation_of(staged.metadata());
    updates.push(TableUpdate::AddSnapshot(Arc::new(snapshot(1, None, 1, &staged.metadata().location))));
    updates.push(TableUpdate::SetSnapshotRef { name: MAIN_BRANCH.into(), reference: branch(1) });
    let created = s.commit_if(&t, vec![TableRequirement::Create], updates.clone()).await.unwrap();
    assert!(!created.is_staged());
    assert_eq!(created.metadata().current_snapshot_id, Some(SnapshotId(1)));
    assert_eq!(created.metadata().table_uuid, staged.metadata().table_uuid);
    assert_eq!(created.metadata().location, staged.metadata().location);
    assert_eq!(s.load(&t).await.metadata(), created.metadata());
    let again = s.commit_if(&t, vec![TableRequirement::Create], updates).await;
    assert!(matches!(kind(again), ErrorKind::AlreadyExists | ErrorKind::CommitConflict));
    assert_eq!(kind(c.stage_table(&t, creation.clone()).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(c.stage_table(&ident(&unused(), "t"), creation).await), ErrorKind::NotFound);
}

pub(crate) async fn every_requirement_counts(s: &Subject) {
    let ns = s.namespace().await;
    let created = s.create(&ns, "t").await;
    let t = ident(&ns, "t");
    let location = created.metadata().location.clone();
    let first = snapshot(10, None, 1, &location);
    let grown = Schema::new(
        SchemaId(1),
        vec![
            NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long)),
            NestedField::optional(2, "data", Type::Primitive(PrimitiveType::String)),
            NestedField::optional(3, "more", Type::Primitive(PrimitiveType::Int)),
        ],
        Vec::new(),
    );
    let updates = vec![
        TableUpdate::AddSnapshot(Arc::new(first)),
        TableUpdate::SetSnapshotRef { name: MAIN_BRANCH.into(), reference: branch(10) },
        TableUpdate::AddSchema(Arc::new(grown.unwrap())),
        TableUpdate::SetCurrentSchema(SchemaId(LAST_ADDED)),
    ];
    let uuid = created.metadata().table_uuid.unwrap();
    let no_main = TableRequirement::RefSnapshotId { name: MAIN_BRANCH.into(), snapshot_id: None };
    let base = s.commit_if(&t, vec![TableRequirement::Uuid(uuid), no_main.clone()], updates).await.unwrap();
    let at = |name: &str, id| TableRequirement::RefSnapshotId {
        name: name.into(),
        snapshot_id: Some(SnapshotId(id)),
    };
    for wrong in [
        TableRequirement::Uuid(Uuid::new_v4()),
        no_main,
        at(MAIN_BRANCH, 11),
        at("other", 10),
        TableRequirement::LastAssignedFieldId(FieldId(2)),
        TableRequirement::CurrentSchemaId(SchemaId(0)),
        TableRequirement::LastAssignedPartitionId(FieldId(1000)),
        TableRequirement::DefaultSpecId(SpecId(1)),
        TableRequirement::DefaultSortOrderId(SortOrderId(1)),
    ] {
        for updates in [vec![set("a", "1")], Vec::new()] {
            let refused = s.commit_if(&t, vec![TableRequirement::Uuid(uuid), wrong.clone()], updates).await;
            assert_eq!(kind(refused), ErrorKind::CommitConflict, "{wrong:?}");
        }
    }
    assert_eq!(s.load(&t).await.metadata(), base.metadata());
    let right = vec![
        TableRequirement::Uuid(uuid),
        at(MAIN_BRANCH, 10),
        TableRequirement::LastAssignedFieldId(FieldId(3)),
        TableRequirement::CurrentSchemaId(base.metadata().current_schema_id),
        TableRequirement::LastAssignedPartitionId(base.metadata().last_partition_id),
        TableRequirement::DefaultSpecId(base.metadata().default_spec_id),
        TableRequirement::DefaultSortOrderId(base.metadata().default_sort_order_id),
    ];
    s.commit_if(&t, right, vec![set("a", "1")]).await.unwrap();
}

pub(crate) async fn failed_commits_leave_nothing(s: &Subject) {
    if !s.can.show_files || !s.can.clean_up {
        return;
    }
    let ns = s.namespace().await;
    let created = s.create(&ns, "t").await;
    let t = ident(&ns, "t");
    let before = metadata_files(&created).await;
    let wrong = vec![TableRequirement::Uuid(Uuid::new_v4())];
    assert_eq!(kind(s.commit_if(&t, wrong, vec![set("a", "1")]).await), ErrorKind::CommitConflict);
    // What the updates themselves forbid.
    refused_for_good(s.commit(&t, vec![TableUpdate::UpgradeFormatVersion(1)]).await);
    refused_for_good(s.commit(&t, vec![set("write.metadata.compression-codec", "lzo")]).await);
    assert_eq!(s.load(&t).await.metadata(), created.metadata());
    assert_eq!(metadata_files(&created).await, before);
}

pub(crate) async fn commits_need_a_table(s: &Subject) {
    let ns = s.namespace().await;
    for t in [ident(&ns, "t"), ident(&unused(), "t")] {
        assert_eq!(kind(s.commit(&t, vec![set("a", "1")]).await), ErrorKind::NotFound);
        let gone = s.commit_if(&t, vec![TableRequirement::Uuid(Uuid::new_v4())], vec![set("a", "1")]).await;
        assert!(matches!(kind(gone), ErrorKind::NotFound | ErrorKind::CommitConflict));
    }
}

/// Several writers, each with several commits: all of them land, none is lost, nothing is left over.
pub(crate) async fn writers_at_the_same_time(s: &Subject) {
    const WRITERS: usize = 8;
    const COMMITS: usize = 4;
    let ns = s.namespace().await;
    let t = ident(&ns, "t");
    s.create(&ns, "t").await;
    let writer = |writer: usize| {
        let (catalog, t) = (Arc::clone(&s.catalog), t.clone());
        tokio::spawn(async move {
            let mut conflicts = 0_usize;
            for commit in 0..COMMITS {
                loop {
                    let table = catalog.load_table(&t).await.unwrap();
                    // What was seen decides what is written, so a lost update would show.
                    let seen: usize =
                        table.metadata().properties.get("count").map_or(0, |n| n.parse().unwrap());
                    let count = (seen + 1).to_string();
                    let update = map(&[
                        ("count", count.as_str()),
                        (format!("w{writer}.{commit}").as_str(), count.as_str()),
                    ]);
                    // Nothing but the branch says that somebody else was here.
                    let main = table.metadata().refs.get(MAIN_BRANCH).map(|r| r.snapshot_id);
                    let id = i64::try_from(seen).unwrap() + 1;
                    let next = snapshot(id, main.map(|m| m.0), id, &table.metadata().location);
                    let updates = vec![
                        TableUpdate::AddSnapshot(Arc::new(next)),
                        TableUpdate::SetSnapshotRef { name: MAIN_BRANCH.into(), reference: branch(id) },
                        TableUpdate::SetProperties(update),
                    ];
                    let main =
                        TableRequirement::RefSnapshotId { name: MAIN_BRANCH.into(), snapshot_id: main };
                    let commit = TableCommit { table: t.clone(), requirements: vec![main], updates };
                    match catalog.commit_table(commit).await {
                        Ok(_) => break,
                        Err(e) if e.kind() == ErrorKind::CommitConflict => conflicts += 1,
                        Err(e) => panic!("{e}"),
                    }
                    assert!(conflicts < 2000, "writer {writer} starves");
                }
            }
        })
    };
    for done in (0..WRITERS).map(writer).collect::<Vec<_>>() {
        done.await.unwrap();
    }
    let table = s.load(&t).await;
    let properties = &table.metadata().properties;
    assert_eq!(properties["count"], (WRITERS * COMMITS).to_string());
    let counts: BTreeSet<&str> = properties
        .iter()
        .filter(|(name, _)| name.starts_with('w') && !name.starts_with("write."))
        .map(|(_, v)| v.as_str())
        .collect();
    assert_eq!(counts.len(), WRITERS * COMMITS);
    assert_eq!(table.metadata().snapshots.len(), WRITERS * COMMITS);
    if s.can.show_files && s.can.clean_up {
        assert_eq!(metadata_files(&table).await, known_files(&table));
    }
}

pub(crate) async fn creators_at_the_same_time(s: &Subject) {
    let ns = s.namespace().await;
    let t = ident(&ns, "t");
    let creator = |_| {
        let (catalog, t) = (Arc::clone(&s.catalog), t.clone());
        tokio::spawn(async move { catalog.create_table(&t, TableCreation::new(schema())).await })
    };
    let mut created = Vec::new();
    for done in (0..8).map(creator).collect::<Vec<_>>() {
        match done.await.unwrap() {
            Ok(table) => created.push(table),
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::CommitConflict), "{e}")
            }
        }
    }
    assert_eq!(created.len(), 1);
    let loaded = s.load(&t).await;
    assert_eq!(loaded.metadata(), created[0].metadata());
    if s.can.show_files && s.can.clean_up {
        assert_eq!(metadata_files(&loaded).await, known_files(&loaded));
    }
}

pub(crate) async fn several_tables_at_once(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let (a, b, new) = (ident(&ns, "a"), ident(&ns, "b"), ident(&ns, "new"));
    let tables = [s.create(&ns, "a").await, s.create(&ns, "b").await];
    let staged = c.stage_table(&new, TableCreation::new(schema())).await.unwrap();
    let commit = |table: &TableIdent, requirement: Option<TableRequirement>, value: &str| TableCommit {
        table: table.clone(),
        requirements: requirement.into_iter().collect(),
        updates: vec![set("a", value)],
    };
    c.commit_tables(Vec::new()).await.unwrap();
    c.commit_tables(vec![commit(&a, None, "0")]).await.unwrap();
    assert_eq!(s.load(&a).await.metadata().properties["a"], "0");
    if !c.commits_several_tables() {
        let several = c.commit_tables(vec![commit(&a, None, "1"), commit(&b, None, "1")]).await;
        assert_eq!(kind(several), ErrorKind::Unsupported);
        return;
    }
    let creating = TableCommit {
        table: new.clone(),
        requirements: vec![TableRequirement::Create],
        updates: creation_of(staged.metadata()),
    };
    let all = vec![commit(&b, None, "1"), creating.clone(), commit(&a, None, "1")];
    c.commit_tables(all).await.unwrap();
    assert_eq!(s.load(&a).await.metadata().properties["a"], "1");
    assert_eq!(s.load(&b).await.metadata().properties["a"], "1");
    assert!(c.table_exists(&new).await.unwrap());

    let wrong = Some(TableRequirement::Uuid(Uuid::new_v4()));
    for refused in [
        vec![commit(&a, None, "2"), commit(&b, wrong.clone(), "2")],
        vec![commit(&a, wrong, "2"), commit(&b, None, "2")],
        vec![commit(&a, None, "2"), creating],
        vec![commit(&a, None, "2"), commit(&ident(&ns, "nowhere"), None, "2")],
        vec![commit(&a, None, "2"), commit(&a, None, "3")],
    ] {
        let kind = kind(c.commit_tables(refused).await);
        assert_ne!(kind, ErrorKind::CommitStateUnknown);
    }
    for (table, ident) in tables.iter().zip([&a, &b]) {
        let loaded = s.load(ident).await;
        assert_eq!(loaded.metadata().properties["a"], "1");
        assert_eq!(loaded.metadata().table_uuid, table.metadata().table_uuid);
        if s.can.show_files && s.can.clean_up {
            assert_eq!(metadata_files(&loaded).await, known_files(&loaded));
        }
    }
}

pub(crate) async fn odd_names(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let mut odd = vec![
        "a b", "ü", "日本", "😀", "100%", "a%20b", "%2F", "it's", "\"q\"", "a.b", "a+b", "a&b=c", "[x]",
        "UPPER", "upper", "_", "__", "a;b", "--", "metadata", "data", "0",
    ];
    if s.can.slashes {
        odd.extend(["a/b", "a\\b", "..", ".", "a?b", "c#1"]);
    }
    for name in &odd {
        s.create(&ns, name).await;
        let t = ident(&ns, name);
        let committed = s.commit(&t, vec![set("name", name)]).await.unwrap();
        assert_eq!(s.load(&t).await.metadata(), committed.metadata(), "{name}");
    }
    let mut expected: Vec<_> = odd.iter().map(|name| ident(&ns, name)).collect();
    expected.sort();
    assert_eq!(c.list_tables(&ns).await.unwrap(), expected);
    for name in &odd {
        assert_eq!(&s.load(&ident(&ns, name)).await.metadata().properties["name"], name);
    }
    for name in &odd {
        c.drop_table(&ident(&ns, name), true).await.unwrap();
    }
    assert_eq!(c.list_tables(&ns).await.unwrap(), []);

    // Levels, and that none is taken for another or for a pattern.
    let prefix = unused().to_string();
    for name in &odd {
        if name.contains('.') && !s.can.dotted_levels {
            let namespace = Namespace::new([format!("{prefix}{name}")]).unwrap();
            let refused = c.create_namespace(&namespace, BTreeMap::new()).await;
            assert!(matches!(kind(refused), ErrorKind::DataInvalid | ErrorKind::Unsupported), "{name}");
            continue;
        }
        let namespace = Namespace::new([format!("{prefix}{name}")]).unwrap();
        assert!(!c.namespace_exists(&namespace).await.unwrap(), "{name}");
        c.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
        assert!(c.namespace_exists(&namespace).await.unwrap(), "{name}");
        assert!(c.list_namespaces(None).await.unwrap().contains(&namespace), "{name}");
        assert_eq!(c.list_tables(&namespace).await.unwrap(), []);
        if s.can.nest {
            c.create_namespace(&namespace.child("x y").unwrap(), BTreeMap::new()).await.unwrap();
            assert_eq!(c.list_namespaces(Some(&namespace)).await.unwrap(), [namespace.child("x y").unwrap()]);
        }
    }
}

fn view(sql: &str) -> ViewCreation {
    let representation =
        |dialect: &str| ViewRepresentation { sql: sql.to_owned(), dialect: dialect.to_owned() };
    ViewCreation {
        schema: schema(),
        representations: vec![representation("spark"), representation("datafusion")],
        default_catalog: Some("ice".to_owned()),
        default_namespace: vec!["a".to_owned(), "b".to_owned()],
        location: None,
        properties: map(&[("comment", "it's a view")]),
    }
}

pub(crate) async fn views_come_and_go(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let v = ident(&ns, "v");
    if !s.can.views {
        assert_eq!(kind(c.create_view(&v, view("SELECT 1")).await), ErrorKind::Unsupported);
        return;
    }
    assert_eq!(kind(c.load_view(&v).await), ErrorKind::NotFound);
    assert_eq!(kind(c.replace_view(&v, view("SELECT 1")).await), ErrorKind::NotFound);
    assert_eq!(kind(c.drop_view(&v).await), ErrorKind::NotFound);
    assert_eq!(kind(c.create_view(&ident(&unused(), "v"), view("SELECT 1")).await), ErrorKind::NotFound);
    assert_eq!(c.list_views(&ns).await.unwrap(), []);
    let created = c.create_view(&v, view("SELECT 1")).await.unwrap();
    assert_eq!(created.ident, v);
    let loaded = c.load_view(&v).await.unwrap();
    assert_eq!(loaded.metadata, created.metadata);
    let metadata = &loaded.metadata;
    let version = &metadata.versions[&metadata.current_version_id];
    assert_eq!(version.representations, view("SELECT 1").representations);
    assert_eq!(version.default_catalog.as_deref(), Some("ice"));
    assert_eq!(version.default_namespace, ["a", "b"]);
    assert_eq!(metadata.properties["comment"], "it's a view");
    let columns: Vec<_> =
        metadata.schemas[&version.schema_id].fields().iter().map(|f| (f.id.0, f.name.as_str())).collect();
    assert_eq!(columns, [(1, "id"), (2, "data")]);
    assert_eq!(kind(c.create_view(&v, view("SELECT 2")).await), ErrorKind::AlreadyExists);
    assert_eq!(c.list_views(&ns).await.unwrap(), std::slice::from_ref(&v));
    assert_eq!(c.list_tables(&ns).await.unwrap(), []);

    let replaced = c.replace_view(&v, view("SELECT 2")).await.unwrap();
    let metadata = c.load_view(&v).await.unwrap().metadata;
    assert_eq!(metadata, replaced.metadata);
    assert_eq!(metadata.view_uuid, created.metadata.view_uuid);
    assert_eq!(metadata.versions.len(), 2);
    assert_eq!(metadata.version_log.len(), 2);
    let version = &metadata.versions[&metadata.current_version_id];
    assert_eq!(version.representations[0].sql, "SELECT 2");

    let w = ident(&ns, "w");
    c.rename_view(&v, &w).await.unwrap();
    assert_eq!(kind(c.load_view(&v).await), ErrorKind::NotFound);
    assert_eq!(c.load_view(&w).await.unwrap().metadata, metadata);
    assert_eq!(kind(c.rename_view(&v, &w).await), ErrorKind::NotFound);
    assert_eq!(kind(c.drop_namespace(&ns).await), ErrorKind::ValidationFailed);
    c.drop_view(&w).await.unwrap();
    assert_eq!(c.list_views(&ns).await.unwrap(), []);
    c.drop_namespace(&ns).await.unwrap();
}

pub(crate) async fn tables_and_views_share_their_names(s: &Subject) {
    if !s.can.views {
        return;
    }
    let (c, ns) = (&s.catalog, s.namespace().await);
    let (t, v) = (ident(&ns, "t"), ident(&ns, "v"));
    s.create(&ns, "t").await;
    c.create_view(&v, view("SELECT 1")).await.unwrap();
    assert_eq!(kind(c.create_view(&t, view("SELECT 1")).await), ErrorKind::AlreadyExists);
    assert_eq!(kind(c.create_table(&v, TableCreation::new(schema())).await), ErrorKind::AlreadyExists);
    assert_eq!(c.list_tables(&ns).await.unwrap(), std::slice::from_ref(&t));
    assert_eq!(c.list_views(&ns).await.unwrap(), std::slice::from_ref(&v));
    assert!(!c.table_exists(&v).await.unwrap());
    assert_eq!(kind(c.load_table(&v).await), ErrorKind::NotFound);
    assert_eq!(kind(c.load_view(&t).await), ErrorKind::NotFound);
    assert_eq!(kind(c.drop_table(&v, false).await), ErrorKind::NotFound);
    assert_eq!(kind(c.drop_view(&t).await), ErrorKind::NotFound);
    assert_eq!(kind(s.commit(&v, vec![set("a", "1")]).await), ErrorKind::NotFound);
    if s.can.rename {
        assert_eq!(kind(c.rename_table(&t, &v).await), ErrorKind::AlreadyExists);
        assert_eq!(kind(c.rename_view(&v, &t).await), ErrorKind::AlreadyExists);
        assert_eq!(kind(c.rename_table(&v, &ident(&ns, "x")).await), ErrorKind::NotFound);
    }
    assert!(c.table_exists(&t).await.unwrap());
    c.load_view(&v).await.unwrap();
}

pub(crate) async fn long_lists_are_whole(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let mut expected = Vec::new();
    for i in 0..40 {
        expected.push(ident(&ns, &format!("t{i}")));
        s.create(&ns, &format!("t{i}")).await;
    }
    expected.sort();
    assert_eq!(c.list_tables(&ns).await.unwrap(), expected);
    if s.can.nest {
        let mut children = Vec::new();
        let parent = s.namespace().await;
        for i in 0..40 {
            let child = parent.child(format!("n{i}")).unwrap();
            c.create_namespace(&child, BTreeMap::new()).await.unwrap();
            children.push(child);
        }
        children.sort();
        assert_eq!(c.list_namespaces(Some(&parent)).await.unwrap(), children);
    }
}

pub(crate) async fn metadata_files_are_logged_and_removed(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let t = ident(&ns, "t");
    let properties = map(&[("write.metadata.compression-codec", "gzip")]);
    let first =
        c.create_table(&t, TableCreation { properties, ..TableCreation::new(schema()) }).await.unwrap();
    let mut files = vec![first.metadata_location().to_string()];
    for i in 0..4 {
        let table = s.commit(&t, vec![set("i", &i.to_string())]).await.unwrap();
        let logged: Vec<_> = table.metadata().metadata_log.iter().map(|e| &e.metadata_file).collect();
        let canonical: Vec<_> = logged.iter().map(|l| Location::parse(l).unwrap().to_string()).collect();
        assert_eq!(canonical, files);
        files.push(table.metadata_location().to_string());
    }
    assert!(files[4].ends_with(".gz.metadata.json"), "{files:?}");
    let limits = map(&[
        ("write.metadata.previous-versions-max", "2"),
        ("write.metadata.delete-after-commit.enabled", "true"),
    ]);
    let table = s.commit(&t, vec![TableUpdate::SetProperties(limits)]).await.unwrap();
    assert_eq!(table.metadata().metadata_log.len(), 2);
    if s.can.show_files && s.can.clean_up {
        assert_eq!(metadata_files(&table).await, known_files(&table));
    }
    assert_eq!(s.load(&t).await.metadata(), table.metadata());
}

pub(crate) async fn dropped_with_and_without_their_files(s: &Subject) {
    if !s.can.show_files {
        return;
    }
    let (c, ns) = (&s.catalog, s.namespace().await);
    for (name, purge) in [("kept", false), ("purged", true)] {
        let table = s.create(&ns, name).await;
        let t = ident(&ns, name);
        s.commit(&t, vec![set("a", "1")]).await.unwrap();
        c.drop_table(&t, purge).await.unwrap();
        assert!(!c.table_exists(&t).await.unwrap());
        if purge {
            assert_eq!(metadata_files(&table).await, BTreeSet::new());
        } else if s.can.register {
            assert_eq!(metadata_files(&table).await.len(), 2);
        }
    }
    assert_eq!(c.list_tables(&ns).await.unwrap(), []);
}

pub(crate) async fn old_versions_are_upgraded(s: &Subject) {
    let (c, ns) = (&s.catalog, s.namespace().await);
    let t = ident(&ns, "t");
    let properties = map(&[("format-version", "1")]);
    c.create_table(&t, TableCreation { properties, ..TableCreation::new(schema()) }).await.unwrap();
    for version in [2, 3] {
        let table = s.commit(&t, vec![TableUpdate::UpgradeFormatVersion(version)]).await.unwrap();
        assert_eq!(table.metadata().format_version, version);
        assert_eq!(s.load(&t).await.metadata(), table.metadata());
    }
    refused_for_good(s.commit(&t, vec![TableUpdate::UpgradeFormatVersion(1)]).await);
}
