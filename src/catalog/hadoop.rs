//! Commits to a table that is a directory: the next version of its metadata is created by one of
//! those who try.

use std::sync::Arc;

use bytes::Bytes;

use super::commit::{Base, Next, remove, taken};
use super::metastore::moved;
use super::purge::purge;
use super::{TableCommit, TableIdent};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{TableMetadata, TableProperties};
use crate::storage::{Location, Storage, StoreKind};
use crate::table::{
    METADATA_DIR, MetadataCodec, Table, find_current, hadoop_files, hadoop_version, hinted_version,
    read_metadata, version_hint,
};

/// A property that Hadoop tables can't have.
const METADATA_PATH: &str = "write.metadata.path";

/// A table in a directory, there already or not.
#[derive(Debug)]
pub(super) struct HadoopTable {
    storage: Storage,
    directory: Location,
}

/// The metadata of the table that a commit creates, before it does.
pub(super) fn first(commit: &TableCommit) -> Result<Arc<TableMetadata>> {
    match Next::of(commit, None)? {
        Some(next) => Ok(Arc::new(next.metadata)),
        None => Err(Error::invalid("a table can't be created by nothing")),
    }
}

impl HadoopTable {
    pub(super) fn new(storage: Storage, directory: Location) -> Self {
        Self { storage, directory }
    }

    pub(super) fn directory(&self) -> &Location {
        &self.directory
    }

    /// The table as it is now, with its version.
    async fn current(&self) -> Result<Option<(Base, u64)>> {
        let file = match find_current(&self.storage, &self.directory).await {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let version = hadoop_version(&file).ok_or_else(|| {
            Error::unsupported(format!(
                "the metadata files of `{}` are not numbered as those of Hadoop tables are (`{}`), so nobody who \
                 writes it would see a commit; commit to it through its own catalog, or register it in one",
                self.directory,
                file.file_name()
            ))
        })?;
        let metadata = Arc::new(read_metadata(&self.storage, &file).await?);
        Ok(Some((Base { metadata, location: file.to_string() }, version)))
    }

    /// Applies a commit; gives the metadata then, and its file.
    pub(super) async fn commit(&self, commit: &TableCommit) -> Result<(Arc<TableMetadata>, Location)> {
        let current = self.current().await?;
        let base = current.as_ref().map(|(base, _)| base);
        let Some(next) = Next::of(commit, base)? else {
            return match base {
                Some(base) => Ok((Arc::clone(&base.metadata), Location::parse(&base.location)?)),
                None => Err(super::commit::missing(&commit.table)),
            };
        };
        if let Some(base) = base
            && base.metadata.location != next.metadata.location
        {
            return Err(Error::unsupported(format!(
                "table `{}` can't be moved: it is its directory",
                commit.table
            )));
        }
        let Some((base, version)) = &current else { return self.create(next.metadata, &commit.table).await };
        let version = version.checked_add(1).ok_or_else(|| Error::invalid("no version is left"))?;
        // The codec of what is replaced, so that all who replace it try to create the same file.
        let codec = MetadataCodec::of(&base.metadata.properties)?;
        let committed = self.write(next.metadata, version, codec, &commit.table, false).await?;
        for file in &next.expired {
            remove(&self.storage, file).await;
        }
        Ok(committed)
    }

    /// Creates the table with this metadata.
    pub(super) async fn create(
        &self,
        metadata: TableMetadata,
        ident: &TableIdent,
    ) -> Result<(Arc<TableMetadata>, Location)> {
        self.write(metadata, 1, MetadataCodec::None, ident, true).await
    }

    async fn write(
        &self,
        metadata: TableMetadata,
        version: u64,
        codec: MetadataCodec,
        ident: &TableIdent,
        creates: bool,
    ) -> Result<(Arc<TableMetadata>, Location)> {
        if TableProperties::new(&metadata.properties).metadata_path().is_some() {
            return Err(Error::unsupported(format!(
                "property `{METADATA_PATH}`: the metadata of a table in a filesystem catalog lies in its directory"
            )));
        }
        // What the next commit would fail on.
        MetadataCodec::of(&metadata.properties)?;
        let conflict = || if creates { taken(ident) } else { moved(ident) };
        let file = self.directory.join(METADATA_DIR).join(&format!("v{version}{}", codec.suffix()));
        for other in hadoop_files(&self.directory, version).iter().filter(|other| **other != file) {
            if self.storage.may_exist(other).await? {
                return Err(conflict());
            }
        }
        let bytes = codec.encode(metadata.to_json()?)?;
        if let Err(e) = self.storage.write_new(&file, bytes.clone()).await {
            self.outcome(&file, &bytes, e, conflict).await?;
        }
        let metadata = Arc::new(metadata);
        self.finish(&metadata, &file, version, ident).await?;
        Ok((metadata, file))
    }

    /// What an error of creating a file means: the store may have created it all the same, and have
    /// refused when it was asked again after a lost answer.
    async fn outcome(
        &self,
        file: &Location,
        written: &Bytes,
        error: Error,
        conflict: impl Fn() -> Error,
    ) -> Result<()> {
        if !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Io) {
            return Err(error);
        }
        match self.storage.read(file).await {
            Ok(found) if found == *written => Ok(()),
            Ok(_) => Err(conflict()),
            Err(e) if e.kind() == ErrorKind::NotFound => match error.kind() {
                // Whoever was in the way has failed.
                ErrorKind::AlreadyExists => Err(conflict()),
                // A local file does not come later.
                _ if matches!(file.kind(), StoreKind::File | StoreKind::Memory) => Err(error),
                _ => Err(unknown(error)),
            },
            // That the file is there was said, and somebody else's is as likely as ours.
            Err(_) => Err(unknown(error)),
        }
    }

    /// Writes the version hint, unless it is ahead already. If so, the file that was created may
    /// have filled a hole behind it: then it was too late.
    async fn finish(
        &self,
        metadata: &TableMetadata,
        file: &Location,
        version: u64,
        ident: &TableIdent,
    ) -> Result<()> {
        let hinted = hinted_version(&self.storage, &self.directory).await.unwrap_or_default();
        if hinted.is_none_or(|hinted| hinted < version) {
            let hint = version_hint(&self.directory);
            if let Err(error) = self.storage.write(&hint, version.to_string().into()).await {
                tracing::warn!(file = %hint, %error, "the version hint could not be written; readers go on past it");
            }
            return Ok(());
        }
        if hinted == Some(version) {
            return Ok(());
        }
        let name = file.file_name();
        let current = self.current().await.map_err(unknown)?;
        let Some((current, _)) = current else { return Err(unknown(moved(ident))) };
        if current.metadata.table_uuid != metadata.table_uuid {
            return Err(unknown(moved(ident)));
        }
        let logged = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
        let log = &current.metadata.metadata_log;
        if log.iter().any(|entry| logged(&entry.metadata_file) == name) {
            return Ok(());
        }
        let oldest =
            log.first().and_then(|entry| hadoop_version(&Location::parse(&entry.metadata_file).ok()?));
        match oldest {
            // The log goes back that far, and tells of another file in its place, or none.
            Some(oldest) if oldest <= version => {
                remove(&self.storage, &file.to_string()).await;
                Err(moved(ident))
            }
            _ => Err(unknown(moved(ident))),
        }
    }

    /// Removes the table; with `purging`, also files of it that lie elsewhere.
    pub(super) async fn drop_files(&self, purging: Option<&Table>) -> Result<()> {
        // First what makes it a table: nobody is to see one that lacks files.
        let metadata = self.directory.join(METADATA_DIR);
        let listed = self.storage.list_dir(&metadata).await?;
        for entry in listed.iter().filter(|entry| !entry.is_dir && entry.name.contains(".metadata.json")) {
            self.storage.delete(&metadata.join(&entry.name)).await?;
        }
        if let Some(table) = purging {
            purge(table).await;
        }
        self.storage.remove_dir(&self.directory).await
    }
}

fn unknown(error: Error) -> Error {
    Error::new(ErrorKind::CommitStateUnknown, "whether the commit happened can't be told").with_source(error)
}
