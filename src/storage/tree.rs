//! Directories as a whole: made, emptied, removed, listed at any depth.
//!
//! An object store has no directories: one that nothing is in exists there by a marker file.

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::{ObjectMeta, ObjectStore};

use super::{Location, Storage, StoreKind};
use crate::error::{Error, ErrorKind, Result};

/// The file that makes an empty directory exist in an object store.
const MARKER: &str = ".directory";

impl Storage {
    /// All files below a directory, at any depth and in no order. A directory that does not exist
    /// holds none.
    ///
    /// # Errors
    /// As [`Storage::list_dir`], also as items of the stream.
    pub fn list_files(
        &self,
        directory: &Location,
    ) -> Result<BoxStream<'static, Result<(Location, ObjectMeta)>>> {
        let store = self.open(directory)?.store;
        let prefix = if directory.path().is_empty() { None } else { Some(directory.object_path()?) };
        let root = directory.root();
        let (storage, directory) = (self.clone(), directory.clone());
        let listed = store.list(prefix.as_ref()).filter_map(move |found| {
            let found = match found {
                Ok(meta) => Some(Ok((root.join(meta.location.as_ref()), meta))),
                Err(object_store::Error::NotFound { .. }) => None,
                Err(e) => Some(Err(storage.error("list", &directory, e))),
            };
            futures::future::ready(found)
        });
        Ok(listed.boxed())
    }

    /// Makes an empty directory, and those that it is in.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one; `Io`.
    pub async fn create_dir(&self, directory: &Location) -> Result<()> {
        if directory.kind() != StoreKind::File {
            if self.dir_exists(directory).await? {
                return Err(exists(directory));
            }
            return match self.write_new(&directory.join(MARKER), bytes::Bytes::new()).await {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(exists(directory)),
                written => written,
            };
        }
        let path = local(directory)?;
        let made = blocking(move || {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::create_dir(&path)
        });
        match made.await? {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(directory)),
            made => made.map_err(|e| io("make", directory, e)),
        }
    }

    /// Whether there is a directory: one that holds a file, or was made.
    ///
    /// # Errors
    /// As [`Storage::list_dir`].
    pub async fn dir_exists(&self, directory: &Location) -> Result<bool> {
        if directory.kind() == StoreKind::File {
            let path = local(directory)?;
            return blocking(move || path.is_dir()).await;
        }
        if directory.path().is_empty() {
            return Ok(true);
        }
        let mut files = self.list_files(directory)?;
        files.try_next().await.map(|first| first.is_some())
    }

    /// Removes a directory that nothing is in.
    ///
    /// # Errors
    /// `ValidationFailed` if something is in it, `NotFound` if it does not exist, `Io`.
    pub async fn remove_empty_dir(&self, directory: &Location) -> Result<()> {
        let missing = || Error::not_found(format!("directory `{directory}` does not exist"));
        let full =
            || Error::new(ErrorKind::ValidationFailed, format!("directory `{directory}` is not empty"));
        if directory.kind() == StoreKind::File {
            let path = local(directory)?;
            return match blocking(move || std::fs::remove_dir(path)).await? {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(missing()),
                Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => Err(full()),
                removed => removed.map_err(|e| io("remove", directory, e)),
            };
        }
        // Files count: some stores list directories that the last file is gone from.
        let marker = directory.join(MARKER);
        let mut files = self.list_files(directory)?;
        let mut is_made = false;
        while let Some((file, _)) = files.try_next().await? {
            if file != marker {
                return Err(full());
            }
            is_made = true;
        }
        if !is_made && !self.dir_exists(directory).await? {
            return Err(missing());
        }
        self.delete(&marker).await?;
        match self.dir_exists(directory).await? {
            // Hadoop's own markers are keys that end in `/`, which can't be addressed here.
            true => Err(Error::unsupported(format!(
                "directory `{directory}` still exists: its marker was made by another tool, which has to remove it"
            ))),
            false => Ok(()),
        }
    }

    /// Removes a directory with all that is in it; one that does not exist is no error.
    ///
    /// # Errors
    /// `Io`: some of it may have been removed.
    pub async fn remove_dir(&self, directory: &Location) -> Result<()> {
        if directory.path().is_empty() {
            return Err(Error::unsupported(format!("removing all of `{directory}`")));
        }
        if directory.kind() == StoreKind::File {
            let path = local(directory)?;
            return match blocking(move || std::fs::remove_dir_all(path)).await? {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
                removed => removed.map_err(|e| io("remove", directory, e)),
            };
        }
        let store = self.open(directory)?.store;
        let prefix = directory.object_path()?;
        let found = store.list(Some(&prefix)).map_ok(|meta| meta.location).boxed();
        let removed = store.delete_stream(found).filter_map(|removed| {
            futures::future::ready(match removed {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => None,
                Err(e) => Some(e),
            })
        });
        // All that can go goes; the first error is told.
        let failed: Vec<object_store::Error> = removed.collect().await;
        match failed.into_iter().next() {
            Some(e) => Err(self.error("remove", directory, e)),
            None => Ok(()),
        }
    }
}

fn exists(directory: &Location) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("directory `{directory}` exists already"))
}

fn io(what: &str, directory: &Location, e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what} `{directory}`")).with_source(e)
}

/// The path of a local directory.
fn local(directory: &Location) -> Result<std::path::PathBuf> {
    let path = directory.object_path()?;
    LocalFileSystem::new()
        .path_to_filesystem(&path)
        .map_err(|e| Error::invalid(e.to_string()).context(format!("location `{directory}`")))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::new(ErrorKind::Io, "a file operation was cut off").with_source(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StorageProperties;

    #[tokio::test]
    async fn directories_live_and_die() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::new(StorageProperties::new());
        for base in [dir.path().display().to_string(), "memory:///base".to_owned()] {
            let at = |path: &str| Location::parse(&format!("{base}/{path}")).unwrap();
            assert!(!storage.dir_exists(&at("a/ü b")).await.unwrap());
            storage.create_dir(&at("a/ü b")).await.unwrap();
            assert!(storage.dir_exists(&at("a")).await.unwrap());
            assert!(storage.dir_exists(&at("a/ü b")).await.unwrap());
            let e = storage.create_dir(&at("a/ü b")).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::AlreadyExists);
            let e = storage.remove_empty_dir(&at("a")).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::ValidationFailed);
            storage.remove_empty_dir(&at("a/ü b")).await.unwrap();
            assert!(!storage.dir_exists(&at("a/ü b")).await.unwrap());
            let e = storage.remove_empty_dir(&at("a/ü b")).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NotFound);

            for file in ["t/x", "t/y/z%20", "t2/x"] {
                storage.write(&at(file), "1".into()).await.unwrap();
            }
            let listed: Vec<_> = storage.list_files(&at("t")).unwrap().try_collect().await.unwrap();
            let mut names: Vec<_> = listed.into_iter().map(|(l, _)| l.to_string()).collect();
            names.sort();
            assert_eq!(names, [at("t/x").to_string(), at("t/y/z%20").to_string()]);
            let e = storage.remove_empty_dir(&at("t")).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::ValidationFailed);
            storage.remove_dir(&at("t")).await.unwrap();
            storage.remove_dir(&at("t")).await.unwrap();
            assert!(!storage.dir_exists(&at("t")).await.unwrap());
            assert!(storage.exists(&at("t2/x")).await.unwrap());
            assert_eq!(storage.list_files(&at("nowhere")).unwrap().count().await, 0);
        }
        let root = Location::parse("memory:///").unwrap();
        assert_eq!(storage.remove_dir(&root).await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
