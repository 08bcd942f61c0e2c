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
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::error::{Error, ErrorKind, Result};

pub(crate) use avro::open_avro;
pub(crate) use orc::open_orc;

/// An opened file: its rows in file order, all of them (positions are counted by the caller).
pub(crate) struct OpenedFile {
    /// The file's own types; columns and fields of structs are named as the table names the same
    /// field ids, unmatched ones are left out.
    pub(crate) schema: SchemaRef,
    /// Batches of that schema. An error ends the stream; it names the field, the caller the file.
    pub(crate) batches: BoxStream<'static, Result<RecordBatch>>,
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
