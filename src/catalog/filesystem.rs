//! A catalog whose tables are directories (spec, "File System Tables"): `<root>/<namespace>/<table>`,
//! as Hadoop catalogs lay them out.
//!
//! The current metadata of a table is its file `vN.metadata.json` with the highest N. A commit makes
//! `vN+1`, which only one of several can do. For development: a store must be able to create a file
//! only if it is absent, and a table can be damaged by tools that can't.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};

use super::commit::taken;
use super::hadoop::{self, HadoopTable};
use super::placement::{LOCATION, TableDefaults, spelled};
use super::{Catalog, Namespace, TableCommit, TableCreation, TableIdent};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{TableMetadata, TableRequirement};
use crate::storage::{Location, Storage, StoreKind};
use crate::table::{OpenOptions, Table, is_metadata_name, is_table, read_metadata};

/// How many directories are looked into at a time.
const CONCURRENT_LISTINGS: usize = 16;

/// The tables in the directories below a root. A directory with a `metadata` directory that holds
/// metadata files is a table, any other one is a namespace.
///
/// Tables can't be renamed or lie elsewhere, and namespaces have no properties. A table that is
/// dropped is gone with all its files: its directory is what makes it a table.
#[derive(Debug)]
pub struct FilesystemCatalog {
    name: String,
    root: Location,
    /// The root as the user spelled it, for the locations that metadata records.
    spelled_root: String,
    options: OpenOptions,
    defaults: TableDefaults,
}

impl FilesystemCatalog {
    /// A catalog of the tables below `root`, which are opened with `options`; all share one storage
    /// and one cache.
    ///
    /// # Errors
    /// Those of [`Location::parse`].
    pub fn new(name: impl Into<String>, root: &str, options: OpenOptions) -> Result<Self> {
        Ok(Self {
            name: name.into(),
            root: Location::from_user(root)?,
            spelled_root: spelled(root)?,
            options: options.shared(),
            defaults: TableDefaults::default(),
        })
    }

    /// Follows the catalog's properties `table-default.…` and `table-override.…`.
    pub(crate) fn with_properties(mut self, properties: &BTreeMap<String, String>) -> Self {
        self.defaults = TableDefaults::new(properties);
        self
    }

    /// The directory of its top namespaces.
    pub fn root(&self) -> &Location {
        &self.root
    }

    fn directory<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Location> {
        let mut directory = self.root.clone();
        for name in names {
            // A name is one directory, never a way out of the root.
            if matches!(name, "." | "..") || name.contains(['/', '\\']) {
                return Err(Error::invalid(format!("`{name}` can't be the name of a directory"))
                    .context(self.place()));
            }
            directory = directory.join(name);
        }
        Ok(directory)
    }

    fn namespace_directory(&self, namespace: &Namespace) -> Result<Location> {
        self.directory(namespace.levels().iter().map(String::as_str))
    }

    fn table_directory(&self, table: &TableIdent) -> Result<Location> {
        self.directory(table.namespace().levels().iter().map(String::as_str).chain([table.name()]))
    }

    /// The location that a table's metadata records.
    fn table_location(&self, table: &TableIdent) -> String {
        let names = table.namespace().levels().iter().map(String::as_str).chain([table.name()]);
        names.fold(self.spelled_root.clone(), |location, name| format!("{location}/{name}"))
    }

    fn place(&self) -> String {
        format!("catalog `{}`", self.name)
    }

    fn storage(&self) -> Storage {
        self.options.storage_or_new()
    }

    fn table_options(&self, table: &TableIdent) -> OpenOptions {
        self.options.clone().name(format!("{}.{table}", self.name)).identifier(table.clone())
    }

    /// The names of the directories in a directory, with whether each is a table.
    async fn children(&self, directory: &Location) -> Result<Vec<(String, bool)>> {
        let storage = self.storage();
        let listed = storage.list_dir(directory).await?;
        let names = listed.into_iter().filter(|e| e.is_dir && !e.name.starts_with('.')).map(|e| e.name);
        let look = |name: String| async {
            let directory = directory.join(&name);
            Result::Ok(match is_table(&storage, &directory).await? {
                true => Some((name, true)),
                // Some stores list directories that the last file is gone from.
                false => storage.dir_exists(&directory).await?.then_some((name, false)),
            })
        };
        let looked = futures::stream::iter(names).map(look).buffered(CONCURRENT_LISTINGS);
        looked.try_filter_map(|found| async { Ok(found) }).try_collect().await
    }

    /// The directory of a namespace that exists.
    async fn check_namespace(&self, namespace: &Namespace) -> Result<Location> {
        let directory = self.namespace_directory(namespace)?;
        match self.is_namespace(&directory).await.map_err(|e| e.context(self.place()))? {
            true => Ok(directory),
            false => {
                Err(Error::not_found(format!("there is no namespace `{namespace}`")).context(self.place()))
            }
        }
    }

    async fn is_namespace(&self, directory: &Location) -> Result<bool> {
        let storage = self.storage();
        Ok(storage.dir_exists(directory).await? && !is_table(&storage, directory).await?)
    }

    /// A misspelled directory is not one in which nothing is. Other stores have no directories, and an
    /// empty warehouse leaves no trace there.
    async fn check_root(&self) -> Result<()> {
        match self.root.kind() != StoreKind::File || self.storage().dir_exists(&self.root).await? {
            true => Ok(()),
            false => Err(Error::not_found(format!(
                "there is no directory `{}`; it is made with the first namespace",
                self.root
            ))),
        }
    }

    /// Moved tables name files that are not where they say: nothing is to be added to them.
    fn check_writable(&self) -> Result<()> {
        match self.options.allows_moved_paths() {
            true => Err(Error::unsupported("tables that may have moved are for reading only")),
            false => Ok(()),
        }
    }

    /// The table in its directory, to which may be committed.
    fn hadoop_table(&self, table: &TableIdent) -> Result<HadoopTable> {
        self.check_writable()?;
        Ok(HadoopTable::new(self.storage(), self.table_directory(table)?))
    }

    /// The commit that creates a table.
    async fn creation(&self, table: &TableIdent, creation: TableCreation) -> Result<TableCommit> {
        self.check_writable()?;
        check_table_name(table)?;
        let directory = self.table_directory(table)?;
        self.check_namespace(table.namespace()).await?;
        if is_table(&self.storage(), &directory).await? {
            return Err(taken(table));
        }
        // A table there would hide them.
        if self.children(&directory).await?.iter().any(|(_, is_table)| *is_table) {
            let message = format!("there is a namespace `{table}` already, with tables in it");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let location = self.table_location(table);
        if let Some(asked) = &creation.location
            && Location::parse(asked)? != Location::parse(&location)?
        {
            return Err(Error::unsupported(format!(
                "table `{table}` can't lie at `{asked}`: a filesystem catalog keeps it at `{location}`"
            )));
        }
        let properties = self.defaults.apply(creation.properties);
        let (spec, order) = (creation.partition_spec.as_ref(), creation.sort_order.as_ref());
        let updates = TableMetadata::creation(&creation.schema, spec, order, &location, &properties)?;
        Ok(TableCommit { table: table.clone(), requirements: vec![TableRequirement::Create], updates })
    }

    async fn commit(&self, commit: &TableCommit) -> Result<Table> {
        let table = self.hadoop_table(&commit.table)?;
        if commit.requirements.contains(&TableRequirement::Create) {
            self.check_namespace(commit.table.namespace()).await?;
        }
        let (metadata, file) = table.commit(commit).await?;
        Table::from_directory(table.directory().clone(), metadata, file, &self.table_options(&commit.table))
    }
}

/// Fails for the name of a directory that would not be listed: hidden ones, and those that look like
/// a file that is being written.
fn check_listed(name: &str) -> Result<()> {
    let in_progress = name.rsplit_once('#').is_some_and(|(_, n)| n.bytes().all(|b| b.is_ascii_digit()));
    match name.starts_with('.') || in_progress {
        true => Err(Error::invalid(format!("`{name}` would be the name of a directory that is not listed"))),
        false => Ok(()),
    }
}

/// Fails for a table whose directory would not be seen as one.
fn check_table_name(table: &TableIdent) -> Result<()> {
    check_listed(table.name())?;
    match is_metadata_name(table.name()) {
        true => Err(Error::invalid(format!("table `{table}` would have the name of a metadata file"))),
        false => Ok(()),
    }
}

#[async_trait]
impl Catalog for FilesystemCatalog {
    fn name(&self) -> &str {
        &self.name
    }

    async fn list_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
        let directory = match parent {
            Some(parent) => self.check_namespace(parent).await?,
            None => {
                self.check_root().await.context(|| self.place())?;
                self.root.clone()
            }
        };
        let children = self.children(&directory).await.map_err(|e| e.context(self.place()))?;
        let names = children.into_iter().filter(|(_, is_table)| !is_table).map(|(name, _)| name);
        names
            .map(|name| match parent {
                Some(parent) => parent.child(name),
                None => Namespace::new([name]),
            })
            .collect()
    }

    async fn create_namespace(
        &self,
        namespace: &Namespace,
        properties: BTreeMap<String, String>,
    ) -> Result<()> {
        if !properties.is_empty() {
            return Err(self.unsupported("keep properties of namespaces"));
        }
        let directory = self.namespace_directory(namespace)?;
        namespace.levels().iter().try_for_each(|level| check_listed(level)).context(|| self.place())?;
        if let Some(parent) = namespace.parent() {
            self.check_namespace(&parent).await?;
        }
        match self.storage().create_dir(&directory).await {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let message = format!("there is a namespace or table `{namespace}` already");
                Err(Error::new(ErrorKind::AlreadyExists, message).context(self.place()))
            }
            created => created.context(|| self.place()),
        }
    }

    /// The only property is the location.
    async fn load_namespace(&self, namespace: &Namespace) -> Result<BTreeMap<String, String>> {
        self.check_namespace(namespace).await?;
        let levels = namespace.levels().iter();
        let location =
            levels.fold(self.spelled_root.clone(), |location, level| format!("{location}/{level}"));
        Ok([(LOCATION.to_owned(), location)].into())
    }

    async fn namespace_exists(&self, namespace: &Namespace) -> Result<bool> {
        let directory = self.namespace_directory(namespace)?;
        self.is_namespace(&directory).await.context(|| self.place())
    }

    async fn drop_namespace(&self, namespace: &Namespace) -> Result<()> {
        let directory = self.check_namespace(namespace).await?;
        self.storage().remove_empty_dir(&directory).await.map_err(|e| match e.kind() {
            ErrorKind::ValidationFailed => {
                Error::new(e.kind(), format!("namespace `{namespace}` is not empty")).context(self.place())
            }
            _ => e.context(self.place()),
        })
    }

    async fn list_tables(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
        let directory = self.check_namespace(namespace).await?;
        let children = self.children(&directory).await.map_err(|e| e.context(self.place()))?;
        let names = children.into_iter().filter(|(_, is_table)| *is_table).map(|(name, _)| name);
        names.map(|name| TableIdent::new(namespace.clone(), name)).collect()
    }

    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        Table::open_directory(self.table_directory(table)?, &self.table_options(table)).await
    }

    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        let directory = self.table_directory(table)?;
        is_table(&self.storage(), &directory).await.map_err(|e| e.context(self.place()))
    }

    async fn create_table(&self, table: &TableIdent, creation: TableCreation) -> Result<Table> {
        let commit = self.creation(table, creation).await.context(|| self.place())?;
        self.commit(&commit).await.context(|| self.place())
    }

    async fn stage_table(&self, table: &TableIdent, creation: TableCreation) -> Result<Table> {
        let staged = async {
            let commit = self.creation(table, creation).await?;
            let metadata = hadoop::first(&commit)?;
            let directory = self.table_directory(table)?;
            let [file, ..] = crate::table::hadoop_files(&directory, 1);
            let staged = Table::from_directory(directory, metadata, file, &self.table_options(table));
            staged.map(Table::into_staged)
        };
        staged.await.context(|| self.place())
    }

    /// The metadata file is copied into the catalog; the table's other files stay where they are.
    async fn register_table(&self, table: &TableIdent, metadata_location: &str) -> Result<Table> {
        let registered = async {
            self.check_namespace(table.namespace()).await?;
            check_table_name(table)?;
            let hadoop = self.hadoop_table(table)?;
            if is_table(&self.storage(), hadoop.directory()).await? {
                return Err(taken(table));
            }
            let metadata = read_metadata(&self.storage(), &Location::parse(metadata_location)?).await?;
            let (metadata, file) = hadoop.create(metadata, table).await?;
            Table::from_directory(hadoop.directory().clone(), metadata, file, &self.table_options(table))
        };
        registered.await.context(|| self.place())
    }

    /// Removes the table's directory, whatever `purge` says; with it, also files that lie elsewhere.
    async fn drop_table(&self, table: &TableIdent, purging: bool) -> Result<()> {
        self.check_writable().context(|| self.place())?;
        let directory = self.table_directory(table)?;
        if !self.table_exists(table).await? {
            return Err(super::commit::missing(table).context(self.place()));
        }
        let loaded = match purging {
            true => Some(self.load_table(table).await?),
            false => None,
        };
        let dropped = HadoopTable::new(self.storage(), directory).drop_files(loaded.as_ref()).await;
        dropped.context(|| self.place())
    }

    async fn commit_table(&self, commit: TableCommit) -> Result<Table> {
        self.commit(&commit).await.context(|| self.place())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::suite::{Can, Subject};

    const METADATA: &str = r#"{"format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "/anywhere", "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0,
            "fields": [{"id": 1, "name": "x", "required": false, "type": "int"}]}],
        "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}]}"#;

    fn warehouse() -> (tempfile::TempDir, FilesystemCatalog) {
        let dir = tempfile::tempdir().unwrap();
        for table in ["db/t", "db/a b%2F", "db/sub/u", "other/v"] {
            let metadata = dir.path().join("wh").join(table).join("metadata");
            std::fs::create_dir_all(&metadata).unwrap();
            std::fs::create_dir_all(dir.path().join("wh").join(table).join("data")).unwrap();
            std::fs::write(metadata.join("v1.metadata.json"), METADATA).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("wh/empty")).unwrap();
        std::fs::create_dir_all(dir.path().join("wh/.hidden")).unwrap();
        std::fs::create_dir_all(dir.path().join("wh/db/no_table/metadata")).unwrap();
        std::fs::write(dir.path().join("wh/file"), "x").unwrap();
        let root = format!("file:{}", dir.path().join("wh").display());
        let catalog = FilesystemCatalog::new("wh", &root, OpenOptions::new()).unwrap();
        (dir, catalog)
    }

    fn namespace(name: &str) -> Namespace {
        Namespace::new(name.split('.')).unwrap()
    }

    fn names<T: ToString>(list: Vec<T>) -> Vec<String> {
        list.iter().map(T::to_string).collect()
    }

    /// What directories can do.
    const CAN: Can = Can {
        namespace_properties: false,
        slashes: false,
        rename: false,
        register: false,
        place: false,
        views: false,
        ..Can::EVERYTHING
    };

    /// In the S3 bucket that `ICEFLOE_TEST_S3` has the properties of, as a JSON object: `warehouse` is the
    /// bucket.
    mod on_s3 {
        use super::*;
        use crate::catalog::writers_tests::{Checked, sixteen_writers};
        use crate::catalog::{Catalog, CatalogBuilder};

        async fn catalog() -> Option<Arc<dyn Catalog>> {
            let text = crate::interchange::engine("ICEFLOE_TEST_S3")?;
            let mut properties: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
            // Each test has a directory of its own.
            let warehouse = properties.get_mut("warehouse").unwrap();
            *warehouse = format!("{warehouse}/{}", uuid::Uuid::new_v4().simple());
            properties.insert("type".to_owned(), "hadoop".to_owned());
            Some(CatalogBuilder::new("s3").properties(properties).build().await.unwrap())
        }

        async fn subject() -> Option<Subject> {
            Some(Subject::new(catalog().await?, CAN))
        }

        crate::catalog::suite::cases!(subject);

        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn many_writers() {
            if let Some(catalog) = catalog().await {
                sixteen_writers(catalog, Checked::All).await;
            }
        }
    }

    mod local {
        use super::*;

        async fn subject() -> Option<Subject> {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("w h").display().to_string();
            let catalog = FilesystemCatalog::new("fs", &root, OpenOptions::new()).unwrap();
            Some(Subject::new(Arc::new(catalog), CAN).keep(dir))
        }

        crate::catalog::suite::cases!(subject);
    }

    mod in_memory {
        use super::*;

        async fn subject() -> Option<Subject> {
            let catalog = FilesystemCatalog::new("fs", "memory:///wh", OpenOptions::new()).unwrap();
            Some(Subject::new(Arc::new(catalog), CAN))
        }

        crate::catalog::suite::cases!(subject);
    }

    #[tokio::test]
    async fn directories_are_namespaces_and_tables() {
        let (_dir, catalog) = warehouse();
        let catalog: &dyn Catalog = &catalog;
        assert_eq!(names(catalog.list_namespaces(None).await.unwrap()), ["db", "empty", "other"]);
        let below = catalog.list_namespaces(Some(&namespace("db"))).await.unwrap();
        assert_eq!(names(below), ["db.no_table", "db.sub"]);
        assert_eq!(names(catalog.list_tables(&namespace("db")).await.unwrap()), ["db.a b%2F", "db.t"]);
        assert_eq!(names(catalog.list_tables(&namespace("db.sub")).await.unwrap()), ["db.sub.u"]);
        assert_eq!(catalog.list_tables(&namespace("empty")).await.unwrap(), []);
        for missing in ["nowhere", "db.t", "file"] {
            let e = catalog.list_tables(&namespace(missing)).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NotFound);
            assert!(e.to_string().contains(missing), "{e}");
        }
    }

    #[tokio::test]
    async fn tables_are_loaded_by_name() {
        let (_dir, catalog) = warehouse();
        for (ns, name) in [("db", "t"), ("db", "a b%2F"), ("db.sub", "u")] {
            let table = TableIdent::new(namespace(ns), name).unwrap();
            assert!(catalog.table_exists(&table).await.unwrap());
            let loaded = catalog.load_table(&table).await.unwrap();
            assert_eq!(loaded.name(), format!("wh.{ns}.{name}"));
            assert_eq!(loaded.metadata().last_updated_ms, 1);
        }
        let missing = TableIdent::new(namespace("db"), "nope").unwrap();
        assert!(!catalog.table_exists(&missing).await.unwrap());
        let e = catalog.load_table(&missing).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
        assert!(e.to_string().contains("wh.db.nope"), "{e}");
    }

    #[tokio::test]
    async fn a_name_is_no_way_out_of_the_root() {
        let (_dir, catalog) = warehouse();
        for (ns, name) in [("..", "x"), ("db", ".."), ("db", "../../x"), ("db", "a/b"), (".", "t")] {
            let ns = Namespace::new([ns]).unwrap();
            let table = TableIdent::new(ns, name).unwrap();
            assert_eq!(
                catalog.load_table(&table).await.unwrap_err().kind(),
                ErrorKind::DataInvalid,
                "{table}"
            );
        }
    }

    #[tokio::test]
    async fn a_missing_warehouse_is_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("wh").display().to_string();
        let catalog = FilesystemCatalog::new("fs", &root, OpenOptions::new()).unwrap();
        let e = catalog.list_namespaces(None).await.unwrap_err();
        assert!(e.kind() == ErrorKind::NotFound && e.to_string().contains(&root), "{e}");
        catalog.create_namespace(&namespace("db"), BTreeMap::new()).await.unwrap();
        assert_eq!(names(catalog.list_namespaces(None).await.unwrap()), ["db"]);
    }

    #[tokio::test]
    async fn no_table_has_the_name_of_a_metadata_file() {
        let (_dir, catalog) = warehouse();
        let fields = vec![crate::spec::NestedField::required(1, "x", crate::spec::PrimitiveType::Int)];
        let schema = crate::spec::Schema::new(crate::spec::SchemaId(0), fields, Vec::new()).unwrap();
        for name in ["v1.metadata.json", "x.gz.metadata.json"] {
            let table = TableIdent::new(namespace("db"), name).unwrap();
            let e = catalog.create_table(&table, TableCreation::new(schema.clone())).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::DataInvalid);
            assert!(!catalog.table_exists(&table).await.unwrap());
        }
    }
}
