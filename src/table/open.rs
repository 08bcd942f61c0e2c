//! How a table is opened, and its first reading.

use std::sync::Arc;

use super::cache::MetadataCache;
use super::service::TableService;
use super::{Table, TableIdent, metadata_file};
use crate::error::{Error, Result, ResultExt};
use crate::storage::{Location, Storage, StorageProperties};

/// How to open a table.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    pub(super) allow_moved_paths: bool,
    properties: StorageProperties,
    storage: Option<Storage>,
    cache: Option<Arc<MetadataCache>>,
    name: Option<String>,
    pub(super) identifier: Option<TableIdent>,
    pub(super) service: Option<Arc<dyn TableService>>,
}

impl OpenOptions {
    /// Paths as recorded, stores by the environment, and a cache of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the table may lie elsewhere than its metadata says: every path under the recorded
    /// location is then looked for under the directory that was opened.
    ///
    /// Without it, paths are used as recorded. In either case a table can't name files that its own
    /// origin gives no right to: local ones if it does not lie in the local file system itself.
    pub fn allow_moved_paths(mut self, allow: bool) -> Self {
        self.allow_moved_paths = allow;
        self
    }

    /// Whether tables may lie elsewhere than their metadata says.
    pub(crate) fn allows_moved_paths(&self) -> bool {
        self.allow_moved_paths
    }

    /// Endpoints and credentials of the stores. They take the place of those of
    /// [`OpenOptions::storage`] where both are given and these are not empty.
    pub fn properties(mut self, properties: StorageProperties) -> Self {
        self.properties = properties;
        self
    }

    /// A storage to share with other tables.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// A cache to share with other tables.
    pub fn cache(mut self, cache: Arc<MetadataCache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// What the table is called in errors; its location unless given.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The name that the table's catalog has for it; commits go by that.
    pub fn identifier(mut self, identifier: TableIdent) -> Self {
        self.identifier = Some(identifier);
        self
    }

    /// What the server of the table's catalog does for it.
    #[cfg(feature = "catalog-rest")]
    pub(crate) fn service(mut self, service: Arc<dyn TableService>) -> Self {
        self.service = Some(service);
        self
    }

    /// The same options for several tables: with the storage and the cache that they share.
    pub(crate) fn shared(self) -> Self {
        let (storage, cache) = (self.storage_or_new(), self.cache_or_new());
        self.with(storage, cache)
    }

    pub(super) fn with(self, storage: Storage, cache: Arc<MetadataCache>) -> Self {
        Self { storage: Some(storage), properties: StorageProperties::new(), cache: Some(cache), ..self }
    }

    pub(crate) fn storage_or_new(&self) -> Storage {
        match &self.storage {
            Some(storage) if self.properties.is_empty() => storage.clone(),
            _ => Storage::new(self.properties.clone()),
        }
    }

    pub(super) fn cache_or_new(&self) -> Arc<MetadataCache> {
        self.cache.clone().unwrap_or_default()
    }

    pub(super) fn name_or(&self, location: &Location) -> String {
        self.name.clone().unwrap_or_else(|| location.to_string())
    }
}

impl Table {
    /// Opens a table by its directory, or by one of its metadata files.
    ///
    /// In a directory, `metadata/version-hint.text` names the current metadata file: by its number
    /// `N` (`vN.metadata.json`, or the last that follows it) or by the stem of its name. Without a
    /// usable hint it is the one with the highest number. Either may be compressed with gzip.
    ///
    /// # Errors
    /// `NotFound` if there is no table, `DataInvalid` if its metadata is broken, `Unsupported` if
    /// `url` has an unknown scheme, `Io` if it can't be read.
    pub async fn open(url: &str, options: &OpenOptions) -> Result<Self> {
        Self::open_directory(Location::from_user(url)?, options).await
    }

    /// Like [`Table::open`], for a location that was parsed already.
    pub(crate) async fn open_directory(opened: Location, options: &OpenOptions) -> Result<Self> {
        let name = options.name_or(&opened);
        Self::open_location(opened, options).await.context(|| format!("table `{name}`"))
    }

    pub(super) async fn open_location(opened: Location, options: &OpenOptions) -> Result<Self> {
        let storage = options.storage_or_new();
        let metadata_location = if metadata_file::is_metadata_file(&opened) {
            opened.clone()
        } else {
            metadata_file::find_current(&storage, &opened).await?
        };
        let metadata = Arc::new(metadata_file::read(&storage, &metadata_location).await?);
        Self::assemble(opened, metadata, metadata_location, storage, options, false)
    }
}

/// The directory of the table that a metadata file belongs to.
pub(super) fn directory_of(metadata_location: &Location) -> Result<Location> {
    let dir = metadata_location.parent().filter(|dir| dir.file_name() == metadata_file::METADATA_DIR);
    dir.and_then(|dir| dir.parent()).ok_or_else(|| {
        Error::unsupported(format!(
            "`{metadata_location}` does not lie in a directory called `metadata`, so where the table lies now can't \
             be told; `allow_moved_paths` needs that"
        ))
    })
}
