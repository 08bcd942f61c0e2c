//! Data and delete files that are not Parquet: Avro and ORC.
//!
//! A file is opened for a schema: its fields are matched by field id, get the names that the
//! schema has for them, and what the schema lacks is not even decoded. The values keep the file's
//! types; [`super::nested::read_as`] makes them the table's.

mod avro;
mod orc;
mod resolve;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::physical_optimizer::pruning::PruningPredicate;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::error::{Error, ErrorKind, Result};

pub(crate) use avro::open_avro;
pub(crate) use orc::open_orc;

/// An opened file.
pub(crate) struct OpenedFile {
    /// The file's own types; columns and fields of structs are named as the table names the same
    /// field ids, unmatched ones are left out.
    pub(crate) schema: SchemaRef,
    pub(crate) rows: Box<dyn FileRows>,
}

/// The rows of a file in file order, piece by piece. The pieces cover the whole file, so that
/// whoever reads them can count positions.
#[async_trait]
pub(crate) trait FileRows: Send {
    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// They name the field, the caller the file. Nothing is to be read after one.
    async fn next(&mut self) -> Result<Option<Piece>>;

    /// Before the first piece: passes over parts of the file none of whose rows `filter`, which is
    /// over the file's columns, can let through. Returns how many parts these are.
    ///
    /// # Errors
    /// `NotFound` and `Io` from the store.
    async fn prune(&mut self, _filter: &PruningPredicate) -> Result<usize> {
        Ok(0)
    }
}

/// A part of a file's rows.
pub(crate) enum Piece {
    /// Of the file's schema.
    Rows(RecordBatch),
    /// So many rows that were passed over.
    Skipped(u64),
}

/// Reads a range of a file, and nothing but the whole of it.
async fn read_range(store: &Arc<dyn ObjectStore>, path: &Path, range: Range<u64>) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let length = range.end - range.start;
    let bytes = store.get_range(path, range).await.map_err(|e| unreadable(e, path))?;
    if bytes.len() as u64 == length {
        Ok(bytes)
    } else {
        Err(Error::invalid("the file is shorter than its metadata says"))
    }
}

/// An error of the store, as ours.
fn unreadable(e: object_store::Error, path: &Path) -> Error {
    let kind = match e {
        object_store::Error::NotFound { .. } => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{path} can't be read")).with_source(e)
}
