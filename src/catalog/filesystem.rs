//! A catalog whose tables are directories (spec, "File System Tables"): `<root>/<namespace>/<table>`,
//! as Hadoop catalogs lay them out. For reading only.

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};

use super::{Catalog, Namespace, TableIdent};
use crate::error::{Error, Result};
use crate::storage::Location;
use crate::table::{OpenOptions, Table, is_table};

/// How many directories are looked into at a time.
const CONCURRENT_LISTINGS: usize = 16;

/// The tables in the directories below a root. A directory with a `metadata` directory that holds
/// metadata files is a table, any other one is a namespace.
#[derive(Debug)]
pub struct FilesystemCatalog {
    name: String,
    root: Location,
    options: OpenOptions,
}

impl FilesystemCatalog {
    /// A catalog of the tables below `root`, which are opened with `options`; all share one storage
    /// and one cache.
    ///
    /// # Errors
    /// Those of [`Location::parse`].
    pub fn new(name: impl Into<String>, root: &str, options: OpenOptions) -> Result<Self> {
        Ok(Self { name: name.into(), root: Location::from_user(root)?, options: options.shared() })
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

    fn place(&self) -> String {
        format!("catalog `{}`", self.name)
    }

    /// The names of the directories in a directory, with whether each is a table.
    async fn children(&self, directory: &Location) -> Result<Vec<(String, bool)>> {
        let storage = self.options.storage_or_new();
        let listed = storage.list_dir(directory).await?;
        let names = listed.into_iter().filter(|e| e.is_dir && !e.name.starts_with('.')).map(|e| e.name);
        let look = |name: String| async {
            let is_table = is_table(&storage, &directory.join(&name)).await?;
            Ok((name, is_table))
        };
        futures::stream::iter(names).map(look).buffered(CONCURRENT_LISTINGS).try_collect().await
    }

    /// An empty directory is a namespace in a file system; in a bucket it does not exist.
    async fn check_namespace(&self, namespace: &Namespace) -> Result<Location> {
        let missing =
            || Error::not_found(format!("there is no namespace `{namespace}`")).context(self.place());
        let directory = self.namespace_directory(namespace)?;
        let Some(parent) = directory.parent() else { return Err(missing()) };
        let storage = self.options.storage_or_new();
        let siblings = storage.list_dir(&parent).await.map_err(|e| e.context(self.place()))?;
        let exists = siblings.iter().any(|e| e.is_dir && e.name == directory.file_name());
        if !exists || is_table(&storage, &directory).await.map_err(|e| e.context(self.place()))? {
            return Err(missing());
        }
        Ok(directory)
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
            None => self.root.clone(),
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

    async fn list_tables(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
        let directory = self.check_namespace(namespace).await?;
        let children = self.children(&directory).await.map_err(|e| e.context(self.place()))?;
        let names = children.into_iter().filter(|(_, is_table)| *is_table).map(|(name, _)| name);
        names.map(|name| TableIdent::new(namespace.clone(), name)).collect()
    }

    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        let directory = self.table_directory(table)?;
        let options = self.options.clone().name(format!("{}.{table}", self.name)).identifier(table.clone());
        Table::open_directory(directory, &options).await
    }

    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        let directory = self.table_directory(table)?;
        is_table(&self.options.storage_or_new(), &directory).await.map_err(|e| e.context(self.place()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

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
}
