//! Files written piece by piece, without ever being held whole.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;

use super::{Location, Storage};
use crate::error::{Error, Result};

/// The size of all parts but the last: some stores want equal ones, of 5 MiB at least, and S3 takes
/// up to 10,000.
const PART_SIZE: usize = 16 * 1024 * 1024;
/// How many parts are on their way at a time; so many are kept in memory.
const CONCURRENT_PARTS: usize = 3;

/// A file that is being written. It is there once [`Upload::finish`] returned, and not before.
pub(crate) struct Upload {
    storage: Storage,
    location: Location,
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// What has not become a part yet.
    pending: Vec<Bytes>,
    pending_length: usize,
    written: u64,
    multipart: Option<Box<dyn MultipartUpload>>,
    parts: JoinSet<object_store::Result<()>>,
}

impl Storage {
    /// Begins to write a file, over one that is there. Small files are written in one go when they
    /// are finished, larger ones in parts.
    ///
    /// # Errors
    /// As [`Storage::store_of`].
    pub(crate) fn upload(&self, location: &Location) -> Result<Upload> {
        let (store, path) = self.store_of(location)?;
        Ok(Upload {
            storage: self.clone(),
            location: location.clone(),
            store,
            path,
            pending: Vec::new(),
            pending_length: 0,
            written: 0,
            multipart: None,
            parts: JoinSet::new(),
        })
    }
}

impl Upload {
    /// Bytes so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Adds to the file; waits while enough parts are on their way.
    ///
    /// # Errors
    /// `Io`: the upload is to be aborted.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.written += bytes.len() as u64;
        self.pending_length += bytes.len();
        self.pending.push(bytes);
        while self.pending_length > PART_SIZE {
            let part = self.take(PART_SIZE);
            self.put_part(part).await.map_err(|e| self.error(e))?;
        }
        Ok(())
    }

    /// Takes that many bytes from what is pending.
    fn take(&mut self, length: usize) -> PutPayload {
        let mut left = length;
        let mut taken = Vec::new();
        let mut rest = Vec::new();
        for mut bytes in std::mem::take(&mut self.pending) {
            if left >= bytes.len() {
                left -= bytes.len();
                taken.push(bytes);
            } else {
                if left > 0 {
                    taken.push(bytes.split_to(left));
                    left = 0;
                }
                rest.push(bytes);
            }
        }
        self.pending_length -= length - left;
        self.pending = rest;
        taken.into_iter().collect()
    }

    async fn put_part(&mut self, part: PutPayload) -> object_store::Result<()> {
        while self.parts.len() >= CONCURRENT_PARTS {
            self.next_part().await?;
        }
        let multipart = match &mut self.multipart {
            Some(multipart) => multipart,
            none => none.insert(self.store.put_multipart(&self.path).await?),
        };
        self.parts.spawn(multipart.put_part(part));
        Ok(())
    }

    /// Waits for one of the parts that are on their way.
    async fn next_part(&mut self) -> object_store::Result<()> {
        match self.parts.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(e)) => Err(object_store::Error::JoinError { source: e }),
            None => Ok(()),
        }
    }

    /// Writes what is left, and makes the file appear.
    ///
    /// # Errors
    /// `Io`: the file may or may not be there.
    pub(crate) async fn finish(&mut self) -> Result<u64> {
        self.complete().await.map_err(|e| self.error(e))?;
        Ok(self.written)
    }

    async fn complete(&mut self) -> object_store::Result<()> {
        let rest = self.take(self.pending_length);
        if self.multipart.is_none() {
            return self.store.put(&self.path, rest).await.map(drop);
        }
        if rest.content_length() > 0 {
            self.put_part(rest).await?;
        }
        while !self.parts.is_empty() {
            self.next_part().await?;
        }
        match &mut self.multipart {
            Some(multipart) => multipart.complete().await.map(drop),
            None => Ok(()),
        }
    }

    /// Gives up, and removes the file and all parts of it. To be called after an error too.
    pub(crate) async fn abort(mut self) {
        self.parts.shutdown().await;
        if let Some(mut multipart) = self.multipart.take()
            && let Err(e) = multipart.abort().await
        {
            let cause = self.error(e);
            tracing::warn!("an upload could not be aborted: {cause}");
        }
        // A failed request may have done its work.
        if let Err(e) = self.storage.delete(&self.location).await {
            tracing::warn!("a file that is not needed could not be removed: {e}");
        }
    }

    fn error(&self, e: object_store::Error) -> Error {
        self.storage.error("write", &self.location, e)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StorageProperties, fault::FaultStore};
    use super::*;
    use crate::ErrorKind;
    use object_store::memory::InMemory;

    fn storage() -> (Storage, Arc<FaultStore>, Location) {
        let store = Arc::new(FaultStore::new(Arc::new(InMemory::new())));
        let storage = Storage::new(StorageProperties::new()).with_store("s3://b", store.clone()).unwrap();
        (storage, store, Location::parse("s3://b/dir/f").unwrap())
    }

    #[tokio::test]
    async fn files_of_any_length_are_whole() {
        let (storage, store, location) = storage();
        for (length, calls) in [(0, 1), (10, 1), (PART_SIZE, 1), (PART_SIZE + 1, 1), (3 * PART_SIZE + 7, 1)] {
            let content: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let before = store.calls();
            let mut upload = storage.upload(&location).unwrap();
            for piece in content.chunks(7_000_001) {
                upload.write(Bytes::copy_from_slice(piece)).await.unwrap();
            }
            assert_eq!(upload.finish().await.unwrap(), length as u64);
            assert_eq!(store.calls() - before, calls, "one call begins it, parts are not counted");
            assert!(storage.read(&location).await.unwrap() == content, "{length}");
        }
    }

    #[tokio::test]
    async fn nothing_is_left_of_what_failed() {
        let (storage, store, location) = storage();
        for length in [10, PART_SIZE + 10] {
            let mut upload = storage.upload(&location).unwrap();
            store.fail_after(0);
            let written = upload.write(vec![1; length].into()).await;
            let e = match written {
                Ok(()) => upload.finish().await.unwrap_err(),
                Err(e) => e,
            };
            assert_eq!(e.kind(), ErrorKind::Io);
            assert!(e.to_string().contains("s3://b/dir/f"), "{e}");
            upload.abort().await;
            assert!(!storage.exists(&location).await.unwrap());
        }
        let mut upload = storage.upload(&location).unwrap();
        upload.write(vec![1; PART_SIZE + 10].into()).await.unwrap();
        upload.abort().await;
        assert!(!storage.exists(&location).await.unwrap());
    }
}
