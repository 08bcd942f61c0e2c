//! Data and delete files that are not Parquet: Avro and ORC.
//!
//! A file is opened for a schema: its fields are matched by field id, get the names that the
//! schema has for them, and what the schema lacks is not even decoded. The values keep the file's
//! types; [`super::nested::read_as`] makes them the table's.

mod avro;
mod orc;
mod resolve;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use datafusion::physical_optimizer::pruning::PruningPredicate;

use crate::error::{Error, Result};
use crate::spec::{NameMapping, NestedField, Schema};

pub(crate) use avro::open_avro;
pub(crate) use orc::open_orc;
pub(crate) use stored::StoredFile;

/// What is wanted of a file.
pub(crate) struct Wanted<'a> {
    pub(crate) schema: &'a Schema,
    /// How files without field ids are read; by name if there is none.
    pub(crate) mapping: Option<&'a NameMapping>,
    /// The names of the schema's columns that are read.
    pub(crate) columns: &'a HashSet<String>,
    /// How many rows a batch has at most.
    pub(crate) batch_size: usize,
}

impl Wanted<'_> {
    fn fields(&self) -> Vec<NestedField> {
        let fields = self.schema.fields().iter();
        fields.filter(|f| self.columns.contains(&f.name)).cloned().collect()
    }
}

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

/// A batch of `rows` rows.
fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|e| Error::invalid("the rows make no batch").with_source(e))
}
