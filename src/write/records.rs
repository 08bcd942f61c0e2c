//! Data files as bytes, on their way from who wrote them to who commits them.
//!
//! They are manifests that nobody stores: all that a manifest says of files is kept, and the way may
//! lead to another machine.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::spec::{
    Codec, ContentFile, Manifest, ManifestContent, ManifestFile, ManifestWriter, ManifestWriterOptions,
    PartitionSpec, SpecId, UNASSIGNED_SEQUENCE_NUMBER,
};
use crate::table::Table;

/// The name of the only column of [`schema`].
const FILES: &str = "data_files";

/// The schema of the batches that the bytes travel in.
pub(super) fn schema() -> SchemaRef {
    Arc::new(ArrowSchema::new(vec![Field::new(FILES, DataType::Binary, false)]))
}

/// New data files of the table, all of one spec.
///
/// # Errors
/// `DataInvalid` for files that can't be in the table.
pub(super) fn encode(table: &Table, spec_id: SpecId, files: &[ContentFile]) -> Result<RecordBatch> {
    let metadata = table.metadata();
    let mut writer = ManifestWriter::new(ManifestWriterOptions {
        format_version: metadata.format_version.max(2),
        schema: metadata.current_schema(),
        spec: spec(table, spec_id)?,
        partition_type: table.partition_type(spec_id)?,
        content: ManifestContent::Data,
        snapshot_id: None,
        codec: Codec::Null,
    })?;
    for file in files {
        writer.add(file, None)?;
    }
    let (bytes, _) = writer.finish("")?;
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values([bytes]));
    RecordBatch::try_new(schema(), vec![column])
        .map_err(|e| Error::invalid("the files can't be passed on").with_source(e))
}

/// The files of a batch.
///
/// # Errors
/// `DataInvalid` for batches that [`encode`] did not make.
pub(super) fn decode(table: &Table, spec_id: SpecId, batch: &RecordBatch) -> Result<Vec<ContentFile>> {
    let column = batch.column_by_name(FILES).and_then(|column| column.as_binary_opt::<i32>());
    let column = column.ok_or_else(|| Error::invalid("there is no column of data files"))?;
    let mut files = Vec::new();
    for bytes in column.iter().flatten() {
        let bytes = Bytes::copy_from_slice(bytes);
        let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        let manifest = ManifestFile {
            // Not committed yet.
            sequence_number: UNASSIGNED_SEQUENCE_NUMBER,
            min_sequence_number: UNASSIGNED_SEQUENCE_NUMBER,
            ..ManifestFile::unlisted(String::new(), length, spec_id)
        };
        let partition_type = table.partition_type(spec_id)?;
        let read = Manifest::parse(bytes, &manifest, spec(table, spec_id)?, partition_type)?;
        files.extend(read.entries.into_iter().map(|entry| entry.data_file.as_ref().clone()));
    }
    Ok(files)
}

fn spec(table: &Table, id: SpecId) -> Result<&Arc<PartitionSpec>> {
    let spec = table.metadata().partition_specs.get(&id);
    spec.ok_or_else(|| Error::invalid(format!("there is no partition spec {id}")))
}
