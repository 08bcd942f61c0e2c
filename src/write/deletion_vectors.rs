//! Deletion vectors in Puffin files (spec, "Deletion Vectors"): the row-level deletes since version
//! 3.

use std::collections::BTreeMap;

use super::cleanup::Unclaimed;
use super::data_files::{WriteOptions, check_not_encrypted};
use super::location::FileNames;
use crate::error::{Error, Result, ResultExt};
use crate::spec::puffin::{BlobMetadata, PuffinWriter};
use crate::spec::{
    ContentFile, ContentType, DELETION_VECTOR_BLOB, DeletionVector, FieldId, FileFormat, Metrics,
    PartitionSpec, PartitionValues, SpecId,
};
use crate::table::Table;

/// The column of row positions (spec, "Reserved Field IDs"), which vectors are computed for.
const ROW_POSITION: FieldId = FieldId(i32::MAX - 2);
/// What a blob's properties call its data file and its number of positions.
const REFERENCED_DATA_FILE: &str = "referenced-data-file";
const CARDINALITY: &str = "cardinality";

/// Collects deleted positions, and writes them as one deletion vector a data file, many of them in a
/// Puffin file.
///
/// A data file has one vector at most: a new one has to hold what the old one held, and takes its
/// place in the commit.
pub struct DeletionVectorWriter {
    table: Table,
    names: FileNames,
    target_file_size: u64,
    /// By the path of the data file.
    vectors: BTreeMap<String, Deleted>,
}

struct Deleted {
    spec_id: SpecId,
    partition: PartitionValues,
    vector: DeletionVector,
}

impl DeletionVectorWriter {
    /// Nothing is deleted yet.
    ///
    /// # Errors
    /// `Unsupported` for a table of a version before 3, `DataInvalid` for properties that can't be
    /// read.
    pub fn new(table: &Table, options: &WriteOptions) -> Result<Self> {
        let make = || {
            check_not_encrypted(table)?;
            let version = table.metadata().format_version;
            if version < 3 {
                return Err(Error::unsupported(format!(
                    "version {version} tables have no deletion vectors; upgrade it to 3"
                )));
            }
            Ok(Self {
                table: table.clone(),
                names: options.names(table, "-deletes.puffin")?,
                target_file_size: options.deletes(table)?.target_file_size,
                vectors: BTreeMap::new(),
            })
        };
        make().context(|| format!("table `{}`", table.name()))
    }

    fn vector_of(&mut self, data_file: &ContentFile) -> &mut DeletionVector {
        let entry = self.vectors.entry(data_file.file_path.clone());
        let deleted = entry.or_insert_with(|| Deleted {
            spec_id: data_file.spec_id,
            partition: data_file.partition.clone(),
            vector: DeletionVector::new(),
        });
        &mut deleted.vector
    }

    /// Deletes the rows at these positions of a data file.
    ///
    /// # Errors
    /// `DataInvalid` for a position above 2^63 - 1.
    pub fn delete(
        &mut self,
        data_file: &ContentFile,
        positions: impl IntoIterator<Item = u64>,
    ) -> Result<()> {
        let vector = self.vector_of(data_file);
        for position in positions {
            vector.insert(position).map_err(|e| e.context(format!("data file {}", data_file.file_path)))?;
        }
        Ok(())
    }

    /// Deletes the rows that a vector has, such as the one that was there before.
    pub fn delete_all(&mut self, data_file: &ContentFile, vector: &DeletionVector) {
        self.vector_of(data_file).union(vector);
    }

    /// Writes the files; none if nothing was deleted. The result is one file a vector.
    ///
    /// # Errors
    /// `Io` if one can't be written: everything that was written is removed then.
    pub async fn close(mut self) -> Result<Vec<ContentFile>> {
        let vectors = std::mem::take(&mut self.vectors);
        let mut done = Unclaimed::new(&self.table);
        let mut file = PendingFile::new();
        for (path, deleted) in vectors.into_iter().filter(|(_, deleted)| !deleted.vector.is_empty()) {
            let mut added = file.add(path, deleted);
            if added.is_ok() && file.length >= self.target_file_size {
                added = self.write(std::mem::replace(&mut file, PendingFile::new()), &mut done.files).await;
            }
            if let Err(e) = added {
                return Err(self.gave_up(e, done).await);
            }
        }
        match self.write(file, &mut done.files).await {
            Ok(()) => Ok(done.take()),
            Err(e) => Err(self.gave_up(e, done).await),
        }
    }

    async fn write(&self, file: PendingFile, done: &mut Vec<ContentFile>) -> Result<()> {
        if file.blobs.is_empty() {
            return Ok(());
        }
        let path = self.names.next(&PartitionSpec::default(), &[]);
        let location = self.table.resolve(&path)?;
        let bytes = file.puffin.finish()?;
        let size = i64::try_from(bytes.len()).map_err(|_| Error::invalid("a file of 2^63 bytes"))?;
        let mut upload = self.table.storage().upload(&location)?;
        let written = match upload.write(bytes.into()).await {
            Ok(()) => upload.finish().await,
            Err(e) => Err(e),
        };
        if let Err(e) = written {
            upload.abort().await;
            return Err(e);
        }
        for mut blob in file.blobs {
            blob.file_path = path.clone();
            blob.file_size_in_bytes = size;
            done.push(blob);
        }
        Ok(())
    }

    async fn gave_up(&self, e: Error, done: Unclaimed) -> Error {
        done.remove().await;
        e.context(format!("table `{}`", self.table.name()))
    }
}

/// A Puffin file that is being put together.
struct PendingFile {
    puffin: PuffinWriter,
    length: u64,
    /// Without path and size of the file, which are not known yet.
    blobs: Vec<ContentFile>,
}

impl PendingFile {
    fn new() -> Self {
        let created_by = concat!("icefloe version ", env!("CARGO_PKG_VERSION"));
        let properties = BTreeMap::from([("created-by".to_owned(), created_by.to_owned())]);
        Self { puffin: PuffinWriter::new(properties), length: 0, blobs: Vec::new() }
    }

    fn add(&mut self, data_file: String, deleted: Deleted) -> Result<()> {
        let cardinality = deleted.vector.len();
        let metadata = BlobMetadata {
            blob_type: DELETION_VECTOR_BLOB.to_owned(),
            fields: vec![ROW_POSITION],
            // They are known when it is committed, and nobody needs them.
            snapshot_id: -1,
            sequence_number: -1,
            properties: BTreeMap::from([
                (REFERENCED_DATA_FILE.to_owned(), data_file.clone()),
                (CARDINALITY.to_owned(), cardinality.to_string()),
            ]),
            ..BlobMetadata::default()
        };
        let bytes = deleted.vector.to_bytes()?;
        let blob = self.puffin.add(metadata, &bytes);
        let signed = |n: u64| i64::try_from(n).map_err(|_| Error::invalid("a deletion vector of 2^63 bytes"));
        self.length = blob.offset + blob.length;
        self.blobs.push(ContentFile {
            content: ContentType::PositionDeletes,
            file_path: String::new(),
            file_format: FileFormat::Puffin,
            spec_id: deleted.spec_id,
            partition: deleted.partition,
            record_count: signed(cardinality)?,
            file_size_in_bytes: 0,
            metrics: Metrics::default(),
            key_metadata: None,
            split_offsets: None,
            equality_ids: None,
            sort_order_id: None,
            first_row_id: None,
            referenced_data_file: Some(data_file),
            content_offset: Some(signed(blob.offset)?),
            content_size_in_bytes: Some(signed(blob.length)?),
        });
        Ok(())
    }
}
