//! Commits to a table that is a directory: the next version of its metadata is created by one of
//! those who try.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::commit::{Base, Next, remove, taken};
use super::metastore::moved;
use super::purge::purge;
use super::{TableCommit, TableIdent};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::TableMetadata;
use crate::storage::{Location, Storage, StoreKind};
use crate::table::{
    METADATA_DIR, MetadataCodec, Table, find_current, hadoop_files, hadoop_version, hinted_version, is_table,
    read_metadata, version_hint,
};

/// A property that Hadoop tables can't have.
const METADATA_PATH: &str = "write.metadata.path";
/// How often the directory of a dropped table is removed before what is in it stays.
const REMOVALS: usize = 5;
const REMOVAL_WAIT: Duration = Duration::from_millis(20);

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
        let committed =
            self.write(next.metadata, version, codec, &commit.table, Some(&base.location)).await?;
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
        self.write(metadata, 1, MetadataCodec::None, ident, None).await
    }

    /// Writes the metadata that follows that of the file `base`, or a new table's.
    async fn write(
        &self,
        metadata: TableMetadata,
        version: u64,
        codec: MetadataCodec,
        ident: &TableIdent,
        base: Option<&str>,
    ) -> Result<(Arc<TableMetadata>, Location)> {
        if metadata.properties.contains_key(METADATA_PATH) {
            return Err(Error::unsupported(format!(
                "property `{METADATA_PATH}`: the metadata of a table in a filesystem catalog lies in its directory"
            )));
        }
        // What the next commit would fail on.
        MetadataCodec::of(&metadata.properties)?;
        let conflict = || if base.is_none() { taken(ident) } else { moved(ident) };
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
        if let Some(base) = base
            && self.was_dropped(base, &file).await
        {
            remove(&self.storage, &file.to_string()).await;
            return Err(super::commit::missing(ident));
        }
        let metadata = Arc::new(metadata);
        self.finish(&metadata, &file, version, ident).await?;
        Ok((metadata, file))
    }

    /// Whether the table was dropped before `file` was written: the file before it is gone, and
    /// nobody went on from `file`, who may have removed that one as too old.
    async fn was_dropped(&self, base: &str, file: &Location) -> bool {
        let gone = match Location::parse(base) {
            Ok(base) => matches!(self.storage.exists(&base).await, Ok(false)),
            Err(_) => false,
        };
        gone && match find_current(&self.storage, &self.directory).await {
            Ok(current) => current == *file,
            Err(e) => e.kind() == ErrorKind::NotFound,
        }
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
            self.write_hint(version).await;
            return Ok(());
        }
        if hinted == Some(version) {
            return Ok(());
        }
        let name = file.file_name();
        let current = self.current().await.map_err(unknown)?;
        let Some((current, _)) = current else { return Err(unknown(moved(ident))) };
        if Location::parse(&current.location)? == *file {
            // Nothing is where the hint points at, so that it is of no use to anybody.
            self.write_hint(version).await;
            return Ok(());
        }
        if current.metadata.table_uuid != metadata.table_uuid {
            return Err(unknown(moved(ident)));
        }
        let logged = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
        let log = &current.metadata.metadata_log;
        // The log tells a file's time too: one of the same name may have been removed since.
        let mut here = log.iter().filter(|entry| logged(&entry.metadata_file) == name);
        let is_ours = here.next().map(|entry| entry.timestamp_ms == metadata.last_updated_ms);
        if is_ours == Some(true) {
            return Ok(());
        }
        let oldest =
            log.first().and_then(|entry| hadoop_version(&Location::parse(&entry.metadata_file).ok()?));
        // The log goes back that far, and tells of another file in its place, or of none.
        if is_ours == Some(false) || oldest.is_some_and(|oldest| oldest <= version) {
            remove(&self.storage, &file.to_string()).await;
            return Err(moved(ident));
        }
        Err(unknown(moved(ident)))
    }

    async fn write_hint(&self, version: u64) {
        let hint = version_hint(&self.directory);
        if let Err(error) = self.storage.write(&hint, version.to_string().into()).await {
            tracing::warn!(file = %hint, %error, "the version hint could not be written; readers go on past it");
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
        // Writers who have not seen yet that it is gone may put files into a directory meanwhile.
        for _ in 1..REMOVALS {
            match self.storage.remove_dir(&self.directory).await {
                Err(e) if e.kind() == ErrorKind::Io => {}
                removed => return removed,
            }
            // Somebody has made another table.
            if is_table(&self.storage, &self.directory).await? {
                return Ok(());
            }
            tokio::time::sleep(REMOVAL_WAIT).await;
        }
        self.storage.remove_dir(&self.directory).await
    }
}

fn unknown(error: Error) -> Error {
    Error::new(ErrorKind::CommitStateUnknown, "whether the commit happened can't be told").with_source(error)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::storage::StorageProperties;

    /// What an error of that kind means, with this content in the file.
    async fn outcome(store: &str, kind: ErrorKind, content: Option<&str>) -> Option<ErrorKind> {
        let storage = Storage::new(StorageProperties::new());
        let storage = storage.with_store(store, Arc::new(InMemory::new())).unwrap();
        let directory = Location::parse(&format!("{store}/t")).unwrap();
        let file = directory.join("metadata/v2.metadata.json");
        if let Some(content) = content {
            storage.write(&file, content.to_owned().into()).await.unwrap();
        }
        let table = HadoopTable::new(storage, directory);
        let conflict = || Error::new(ErrorKind::CommitConflict, "conflict");
        let told = table.outcome(&file, &"ours".into(), Error::new(kind, "failed"), conflict).await;
        told.err().map(|e| e.kind())
    }

    #[tokio::test]
    async fn errors_are_told_by_what_is_in_the_file() {
        use ErrorKind::{AlreadyExists, CommitConflict, CommitStateUnknown, Io, Unsupported};
        for (store, kind, content, expected) in [
            // The reply was lost, or a first attempt of the store's client had worked.
            ("s3://b", Io, Some("ours"), None),
            ("s3://b", AlreadyExists, Some("ours"), None),
            ("s3://b", AlreadyExists, Some("theirs"), Some(CommitConflict)),
            ("s3://b", Io, Some("theirs"), Some(CommitConflict)),
            ("s3://b", AlreadyExists, None, Some(CommitConflict)),
            // It may still arrive.
            ("s3://b", Io, None, Some(CommitStateUnknown)),
            ("memory://", Io, None, Some(Io)),
            ("s3://b", Unsupported, None, Some(Unsupported)),
        ] {
            assert_eq!(outcome(store, kind, content).await, expected, "{store} {kind} {content:?}");
        }
    }

    #[tokio::test]
    async fn a_commit_that_fills_a_hole_is_too_late() {
        let storage = Storage::new(StorageProperties::new());
        let directory = Location::parse("memory:///t").unwrap();
        let schema = crate::spec::Schema::new(crate::spec::SchemaId(0), Vec::new(), Vec::new()).unwrap();
        let updates =
            TableMetadata::creation(&schema, None, None, "memory:///t", &Default::default()).unwrap();
        let first = TableMetadata::apply(None, &updates, 1).unwrap();
        // Version 5 tells of 3 and 4; somebody who read version 1 creates 2 and 3 behind it.
        let mut current = first.clone();
        for version in [3, 4] {
            let metadata_file = format!("memory:///t/metadata/v{version}.metadata.json");
            current.metadata_log.push(crate::spec::MetadataLogEntry { timestamp_ms: 1, metadata_file });
        }
        let v5 = directory.join("metadata/v5.metadata.json");
        storage.write(&v5, current.to_json().unwrap().into()).await.unwrap();
        storage.write(&version_hint(&directory), "5".into()).await.unwrap();
        let table = HadoopTable::new(storage.clone(), directory.clone());
        let namespace = super::super::Namespace::new(["n"]).unwrap();
        let ident = TableIdent::new(namespace, "t").unwrap();
        let base = v5.to_string();
        let late =
            |version: u64| table.write(first.clone(), version, MetadataCodec::None, &ident, Some(&base));
        // The log does not go back that far.
        assert_eq!(late(2).await.unwrap_err().kind(), ErrorKind::CommitStateUnknown);
        // The log tells of a file of that name and time, and then of another one.
        late(3).await.unwrap();
        current.metadata_log[0].timestamp_ms = 2;
        storage.write(&v5, current.to_json().unwrap().into()).await.unwrap();
        storage.delete(&directory.join("metadata/v3.metadata.json")).await.unwrap();
        assert_eq!(late(3).await.unwrap_err().kind(), ErrorKind::CommitConflict);
        storage.delete(&v5).await.unwrap();
        current.metadata_log.remove(1);
        current.metadata_log[0].metadata_file = "memory:///t/metadata/v1.metadata.json".to_owned();
        storage.write(&v5, current.to_json().unwrap().into()).await.unwrap();
        let [v4, ..] = hadoop_files(&directory, 4);
        assert_eq!(late(4).await.unwrap_err().kind(), ErrorKind::CommitConflict);
        assert!(!storage.exists(&v4).await.unwrap());
    }

    /// A table in memory, in which versions up to the given one are.
    async fn versions(last: u64) -> (Storage, HadoopTable, TableMetadata, TableIdent) {
        let storage = Storage::new(StorageProperties::new());
        let directory = Location::parse("memory:///t").unwrap();
        let schema = crate::spec::Schema::new(crate::spec::SchemaId(0), Vec::new(), Vec::new()).unwrap();
        let updates =
            TableMetadata::creation(&schema, None, None, "memory:///t", &Default::default()).unwrap();
        let metadata = TableMetadata::apply(None, &updates, 1).unwrap();
        for version in 1..=last {
            let [file, ..] = hadoop_files(&directory, version);
            storage.write(&file, metadata.to_json().unwrap().into()).await.unwrap();
        }
        let namespace = super::super::Namespace::new(["n"]).unwrap();
        let table = HadoopTable::new(storage.clone(), directory);
        (storage, table, metadata, TableIdent::new(namespace, "t").unwrap())
    }

    #[tokio::test]
    async fn a_hint_at_nothing_keeps_nobody_from_committing() {
        let (storage, table, metadata, ident) = versions(2).await;
        for (hint, version) in [("500", 3), ("18446744073709551615", 4)] {
            storage.write(&version_hint(&table.directory), hint.into()).await.unwrap();
            let [base, ..] = hadoop_files(&table.directory, version - 1).map(|file| file.to_string());
            let codec = MetadataCodec::None;
            let (_, file) = table.write(metadata.clone(), version, codec, &ident, Some(&base)).await.unwrap();
            assert_eq!(find_current(&storage, &table.directory).await.unwrap(), file);
            assert_eq!(hinted_version(&storage, &table.directory).await.unwrap(), Some(version));
        }
    }

    #[tokio::test]
    async fn a_commit_after_a_drop_makes_no_table() {
        let (storage, table, metadata, ident) = versions(2).await;
        let [base, ..] = hadoop_files(&table.directory, 2).map(|file| file.to_string());
        let next = |version| table.write(metadata.clone(), version, MetadataCodec::None, &ident, Some(&base));
        // Whoever committed after this may have removed the file that this followed.
        for version in [2, 3] {
            let [file, ..] = hadoop_files(&table.directory, version);
            storage.delete(&file).await.unwrap();
        }
        let [later, ..] = hadoop_files(&table.directory, 4);
        storage.write(&later, metadata.to_json().unwrap().into()).await.unwrap();
        next(3).await.unwrap();
        table.drop_files(None).await.unwrap();
        assert_eq!(next(3).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert!(!is_table(&storage, &table.directory).await.unwrap());
    }
}
