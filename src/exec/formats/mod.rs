//! Data and delete files that aren't Parquet.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::error::{Error, Result};
use crate::spec::{NameMapping, Schema};

/// An opened file: its rows in file order.
pub(crate) struct OpenedFile {
    /// The file's own types, under the names that the table has for the field ids.
    pub(crate) schema: SchemaRef,
    /// All rows.
    pub(crate) batches: BoxStream<'static, Result<RecordBatch>>,
}

pub(crate) async fn open_avro(
    _: Arc<dyn ObjectStore>,
    _: Path,
    _: u64,
    _: &Schema,
    _: Option<&NameMapping>,
    _: &HashSet<String>,
    _: usize,
) -> Result<OpenedFile> {
    Err(Error::unsupported("Avro files"))
}

pub(crate) async fn open_orc(
    _: Arc<dyn ObjectStore>,
    _: Path,
    _: u64,
    _: &Schema,
    _: Option<&NameMapping>,
    _: &HashSet<String>,
    _: usize,
) -> Result<OpenedFile> {
    Err(Error::unsupported("ORC files"))
}
