//! Tables: metadata files, the paths in them, and their manifests.

mod cache;
mod identifier;
mod manifests;
mod metadata_file;
mod metadata_write;
mod open;
mod relocate;
mod reports;
mod service;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

pub use cache::MetadataCache;
pub use identifier::{Namespace, TableIdent};
pub use open::OpenOptions;

use crate::error::Result;
use crate::spec::{SpecId, TableMetadata};
use crate::storage::{Location, Storage, StoreKey};
use manifests::SpecPartition;
pub(crate) use metadata_file::{
    METADATA_DIR, find_current, hadoop_files, hadoop_version, hinted_version, is_metadata_name, is_table,
    read as read_metadata, version_hint,
};
pub(crate) use metadata_write::{MetadataCodec, next_metadata_location};
use relocate::Paths;
pub(crate) use reports::{CommitReport, Report, ScanReport};
#[cfg_attr(
    not(feature = "catalog-rest"),
    allow(unused_imports, reason = "only such catalogs have servers")
)]
pub(crate) use service::{ScanDemand, ServerPlan, TableService};

/// A table as one of its metadata files describes it: it does not change when others commit.
/// Cheap to clone.
#[derive(Clone)]
pub struct Table(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    name: String,
    /// What the user gave, to open it again.
    opened: Location,
    metadata: Arc<TableMetadata>,
    metadata_location: Location,
    storage: Storage,
    cache: Arc<MetadataCache>,
    options: OpenOptions,
    paths: Paths,
    specs: HashMap<SpecId, SpecPartition>,
    /// Whether the table does not exist yet: its first commit creates it.
    staged: bool,
    /// The same table with all of its snapshots, once somebody asked for that.
    whole: tokio::sync::OnceCell<Table>,
}

impl Table {
    /// A table whose metadata a catalog gave.
    ///
    /// # Errors
    /// If `metadata_location` is malformed.
    pub fn from_metadata(
        metadata: Arc<TableMetadata>,
        metadata_location: &str,
        options: &OpenOptions,
    ) -> Result<Self> {
        let location = Location::parse(metadata_location)?;
        Self::assemble(location.clone(), metadata, location, options.storage_or_new(), options, false)
    }

    /// The same table as one that does not exist yet, as
    /// [`Catalog::stage_table`](crate::catalog::Catalog::stage_table) gives it: a transaction on it
    /// creates it, with what the transaction does. Its metadata location is where a file would be.
    pub fn into_staged(self) -> Self {
        Self(Arc::new(Inner { staged: true, ..Arc::unwrap_or_clone(self.0) }))
    }

    /// Whether the table does not exist yet; see [`Table::into_staged`].
    pub fn is_staged(&self) -> bool {
        self.0.staged
    }

    /// The same table as other metadata describe it: what a commit would make of it.
    ///
    /// # Errors
    /// As [`Table::from_metadata`].
    pub(crate) fn with_metadata(&self, metadata: Arc<TableMetadata>) -> Result<Self> {
        let inner = &self.0;
        Self::assemble(
            inner.opened.clone(),
            metadata,
            inner.metadata_location.clone(),
            inner.storage.clone(),
            &inner.options,
            inner.staged,
        )
    }

    /// The same table, whose files another storage opens.
    pub(crate) fn with_storage(&self, storage: Storage) -> Self {
        Self(Arc::new(Inner { storage, ..self.0.as_ref().clone() }))
    }

    /// A table that was found by its directory, by which it is found again.
    pub(crate) fn from_directory(
        directory: Location,
        metadata: Arc<TableMetadata>,
        metadata_location: Location,
        options: &OpenOptions,
    ) -> Result<Self> {
        Self::assemble(directory, metadata, metadata_location, options.storage_or_new(), options, false)
    }

    fn assemble(
        opened: Location,
        metadata: Arc<TableMetadata>,
        metadata_location: Location,
        storage: Storage,
        options: &OpenOptions,
        staged: bool,
    ) -> Result<Self> {
        let moved_to = match options.allow_moved_paths {
            true => Some(open::directory_of(&metadata_location)?),
            false => None,
        };
        let origin = metadata_location.store().clone();
        let paths = Paths::new(metadata.format_version, &metadata.location, origin, moved_to);
        let cache = options.cache_or_new();
        // What was made for this table is kept when it is opened again.
        let options = options.clone().with(storage.clone(), Arc::clone(&cache));
        Ok(Self(Arc::new(Inner {
            name: options.name_or(&opened),
            opened,
            specs: manifests::spec_partitions(&metadata),
            metadata,
            metadata_location,
            storage,
            cache,
            options,
            paths,
            staged,
            whole: tokio::sync::OnceCell::new(),
        })))
    }

    /// Reads the table's current metadata again: by the version hint if it was opened by its
    /// directory, and the same file if it was opened by that.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub async fn refresh(&self) -> Result<Self> {
        let opened = Self::open_location(self.0.opened.clone(), &self.0.options).await;
        opened.map_err(|e| e.context(self.place()))
    }

    /// What it is called in errors.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its name in its catalog; `None` if it was opened by its location.
    pub fn identifier(&self) -> Option<&TableIdent> {
        self.0.options.identifier.as_ref()
    }

    /// Everything that its metadata file says.
    pub fn metadata(&self) -> &Arc<TableMetadata> {
        &self.0.metadata
    }

    /// Where the metadata file is.
    pub fn metadata_location(&self) -> &Location {
        &self.0.metadata_location
    }

    /// The storage that its files are read through.
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// The cache of its decoded metadata.
    pub fn cache(&self) -> &Arc<MetadataCache> {
        &self.0.cache
    }

    /// Where a file is that the table's metadata records as `path`: moved, if that is allowed, and
    /// relative to the table since format version 4.
    ///
    /// # Errors
    /// `Unsupported` for a path in an unknown kind of store, or one that the table may not name
    /// (see [`OpenOptions::allow_moved_paths`]); `DataInvalid` for a malformed one.
    pub fn resolve(&self, path: &str) -> Result<Location> {
        self.0.paths.resolve(path)
    }

    /// The store of a file that the table's metadata records as `path`, and the path in it.
    ///
    /// # Errors
    /// As [`Table::resolve`] and [`Storage::store`].
    pub fn store(&self, path: &str) -> Result<(StoreKey, Arc<dyn ObjectStore>, Path)> {
        let location = self.resolve(path)?;
        let (store, path) = self.0.storage.store_of(&location)?;
        Ok((location.store().clone(), store, path))
    }

    /// The place that errors of the table name first.
    fn place(&self) -> String {
        format!("table `{}`", self.0.name)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.0.name)
            .field("metadata_location", &self.0.metadata_location.to_string())
            .field("storage", &self.0.storage)
            .finish_non_exhaustive()
    }
}
