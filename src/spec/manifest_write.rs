//! Writing manifests of format versions 1 to 3.

use bytes::Bytes;

use super::avro::{Codec, ContainerWriter, Encoder, record_schema};
use super::content_file::{ContentFile, ContentType, ManifestEntry, ManifestStatus};
use super::ids::{SchemaId, SequenceNumber, SnapshotId};
use super::manifest::check_content;
use super::manifest_list::{FieldSummary, ManifestContent, ManifestFile, UNASSIGNED_SEQUENCE_NUMBER};
use super::manifest_partition::write_partition;
use super::manifest_schema::entry_struct;
use super::metrics::MetricMap;
use super::partition::PartitionSpec;
use super::schema::Schema;
use super::types::StructType;
use super::value::Value;
use crate::error::{Error, Result, ResultExt};

/// What a new manifest is for.
#[derive(Debug, Clone, Copy)]
pub struct ManifestWriterOptions<'a> {
    /// The format version: 1, 2 or 3.
    pub format_version: u8,
    /// The table's schema; recorded in the manifest.
    pub schema: &'a Schema,
    /// The spec of the files' partition tuples.
    pub spec: &'a PartitionSpec,
    /// The type of these tuples: [`PartitionSpec::partition_type`], or that of a manifest that
    /// is rewritten, which knows the types of columns dropped since.
    pub partition_type: &'a StructType,
    /// Data or deletes.
    pub content: ManifestContent,
    /// The snapshot that adds the manifest. In version 1 it must be known; later an id may be
    /// inherited, so that a manifest can be written before it.
    pub snapshot_id: Option<SnapshotId>,
    /// How it is compressed.
    pub codec: Codec,
}

/// A manifest in the making. After an error it can't be used any more.
pub struct ManifestWriter {
    format_version: u8,
    content: ManifestContent,
    snapshot_id: Option<SnapshotId>,
    partition_type: StructType,
    spec_id: super::ids::SpecId,
    container: ContainerWriter,
    summaries: Vec<SummaryBuilder>,
    counts: [(i32, i64); 3],
    min_sequence_number: Option<SequenceNumber>,
}

impl ManifestWriter {
    /// Starts a manifest.
    ///
    /// # Errors
    /// `Unsupported` for other format versions; `DataInvalid` for delete files in version 1 and
    /// for a partition type that is not the spec's.
    pub fn new(options: ManifestWriterOptions<'_>) -> Result<Self> {
        let ManifestWriterOptions { format_version, schema, spec, partition_type, content, .. } = options;
        if !(1..=3).contains(&format_version) {
            return Err(Error::unsupported(format!("writing manifests of format version {format_version}")));
        }
        if format_version == 1 && content == ManifestContent::Deletes {
            return Err(Error::invalid("format version 1 has no delete files"));
        }
        if format_version == 1 && options.snapshot_id.is_none() {
            return Err(Error::invalid("a manifest of format version 1 needs a snapshot id"));
        }
        let ids = |t: &StructType| t.fields.iter().map(|f| f.id).collect::<Vec<_>>();
        if ids(partition_type) != spec.fields.iter().map(|f| f.field_id).collect::<Vec<_>>() {
            return Err(Error::invalid("the partition type has other fields than the spec"));
        }
        let entry = entry_struct(format_version, partition_type);
        let mut metadata = vec![
            ("schema", schema.to_json()?.to_string()),
            ("partition-spec", spec.fields_to_json().to_string()),
            ("partition-spec-id", spec.spec_id.to_string()),
            ("schema-id", schema.schema_id.to_string()),
            ("format-version", format_version.to_string()),
            (
                "iceberg.schema",
                Schema::new(SchemaId(0), entry.fields.clone(), vec![])?.to_json()?.to_string(),
            ),
        ];
        if format_version > 1 {
            let content = match content {
                ManifestContent::Data => "data",
                ManifestContent::Deletes => "deletes",
            };
            metadata.push(("content", content.to_owned()));
        }
        let container =
            ContainerWriter::new(&record_schema("manifest_entry", &entry)?, &metadata, options.codec);
        Ok(Self {
            format_version,
            content,
            snapshot_id: options.snapshot_id,
            partition_type: partition_type.clone(),
            spec_id: spec.spec_id,
            container,
            summaries: partition_type.fields.iter().map(|_| SummaryBuilder::default()).collect(),
            counts: [(0, 0); 3],
            min_sequence_number: None,
        })
    }

    /// Lists a file that the manifest's snapshot adds. Its sequence numbers are inherited from
    /// the snapshot, unless the data belongs to an older one (compaction): then
    /// `sequence_number` says to which.
    ///
    /// # Errors
    /// `DataInvalid` where the file is not of the manifest's content or partition type.
    pub fn add(&mut self, file: &ContentFile, sequence_number: Option<SequenceNumber>) -> Result<()> {
        let snapshot_id = self.snapshot_id;
        self.write(ManifestStatus::Added, snapshot_id, sequence_number, None, file)
    }

    /// Lists a file that was there before, whatever its status was.
    ///
    /// # Errors
    /// As [`Self::add`]; and where the entry does not know its snapshot and sequence numbers.
    pub fn existing(&mut self, entry: &ManifestEntry) -> Result<()> {
        self.write(
            ManifestStatus::Existing,
            entry.snapshot_id,
            entry.sequence_number,
            entry.file_sequence_number,
            &entry.data_file,
        )
    }

    /// Lists a file that the manifest's snapshot removes.
    ///
    /// # Errors
    /// As [`Self::existing`].
    pub fn delete(&mut self, entry: &ManifestEntry) -> Result<()> {
        let snapshot_id = self.snapshot_id;
        self.write(
            ManifestStatus::Deleted,
            snapshot_id,
            entry.sequence_number,
            entry.file_sequence_number,
            &entry.data_file,
        )
    }

    fn write(
        &mut self,
        status: ManifestStatus,
        snapshot_id: Option<SnapshotId>,
        sequence_number: Option<SequenceNumber>,
        file_sequence_number: Option<SequenceNumber>,
        file: &ContentFile,
    ) -> Result<()> {
        let place = || format!("file {}", file.file_path);
        check_content(self.content, file.content).context(place)?;
        if self.format_version > 1 && status != ManifestStatus::Added && sequence_number.is_none() {
            return Err(Error::invalid("only added files inherit sequence numbers").context(place()));
        }
        if status == ManifestStatus::Existing && snapshot_id.is_none() {
            return Err(Error::invalid("the snapshot of an existing file is not known").context(place()));
        }
        let live = status != ManifestStatus::Deleted;
        if let Some(number) = sequence_number.filter(|n| live && n.0 >= 0) {
            self.min_sequence_number = Some(self.min_sequence_number.map_or(number, |min| min.min(number)));
        }
        let (files, rows) = match status {
            ManifestStatus::Added => &mut self.counts[0],
            ManifestStatus::Existing => &mut self.counts[1],
            ManifestStatus::Deleted => &mut self.counts[2],
        };
        *files = files.checked_add(1).ok_or_else(|| Error::invalid("a manifest has too many files"))?;
        *rows = rows
            .checked_add(file.record_count)
            .ok_or_else(|| Error::invalid("a manifest has too many rows"))?;

        let e = self.container.item();
        e.long(match status {
            ManifestStatus::Existing => 0,
            ManifestStatus::Added => 1,
            ManifestStatus::Deleted => 2,
        });
        e.option(snapshot_id, |e, id| e.long(id.0));
        if self.format_version > 1 {
            e.option(sequence_number, |e, n| e.long(n.0));
            e.option(file_sequence_number, |e, n| e.long(n.0));
        }
        write_file(e, self.format_version, file, &self.partition_type).context(place)?;
        self.container.end_item()?;
        for (summary, value) in self.summaries.iter_mut().zip(&file.partition) {
            summary.add(value.as_ref());
        }
        Ok(())
    }

    /// How long the manifest is so far, in bytes; roughly, as not all of it is compressed yet.
    pub fn length(&self) -> usize {
        self.container.length()
    }

    /// Ends the manifest: its bytes, and how the manifest list describes it when it is stored at
    /// `path`. The sequence number, and the smallest one if only new files are in it, are
    /// [`UNASSIGNED_SEQUENCE_NUMBER`]; there is no first row id yet.
    ///
    /// # Errors
    /// Where it can't be compressed.
    pub fn finish(self, path: impl Into<String>) -> Result<(Bytes, ManifestFile)> {
        let bytes = Bytes::from(self.container.finish()?);
        let [added, existing, deleted] = self.counts;
        let partitions = self.summaries.into_iter().map(SummaryBuilder::finish).collect::<Result<_>>()?;
        let file = ManifestFile {
            manifest_path: path.into(),
            manifest_length: bytes.len() as i64,
            partition_spec_id: self.spec_id,
            content: self.content,
            sequence_number: UNASSIGNED_SEQUENCE_NUMBER,
            min_sequence_number: self.min_sequence_number.unwrap_or(UNASSIGNED_SEQUENCE_NUMBER),
            added_snapshot_id: self.snapshot_id,
            added_files_count: Some(added.0),
            existing_files_count: Some(existing.0),
            deleted_files_count: Some(deleted.0),
            added_rows_count: Some(added.1),
            existing_rows_count: Some(existing.1),
            deleted_rows_count: Some(deleted.1),
            partitions: Some(partitions),
            key_metadata: None,
            first_row_id: None,
        };
        Ok((bytes, file))
    }
}

/// Writes a `data_file`, in the order of [`entry_struct`].
fn write_file(e: &mut Encoder, version: u8, file: &ContentFile, partition_type: &StructType) -> Result<()> {
    let v2 = version >= 2;
    let v3 = version >= 3;
    if v2 {
        e.long(match file.content {
            ContentType::Data => 0,
            ContentType::PositionDeletes => 1,
            ContentType::EqualityDeletes => 2,
        });
    }
    e.string(&file.file_path);
    e.string(&file.file_format.to_string());
    write_partition(e, &file.partition, partition_type)?;
    e.long(file.record_count);
    e.long(file.file_size_in_bytes);
    if !v2 {
        // `block_size_in_bytes`: required, and of no use.
        e.long(64 * 1024 * 1024);
    }
    for map in MetricMap::ALL {
        e.option(file.metrics.encoded(map), |e, encoded| e.raw(encoded));
    }
    e.option(file.key_metadata.as_deref(), Encoder::bytes);
    e.option(file.split_offsets.as_deref(), |e, offsets| e.array(offsets.iter(), |e, o| e.long(*o)));
    if v2 {
        e.option(file.equality_ids.as_deref(), |e, ids| e.array(ids.iter(), |e, id| e.long(id.0.into())));
    }
    // The order of position deletes is given by the specification.
    let sort_order_id = file.sort_order_id.filter(|_| file.content != ContentType::PositionDeletes);
    e.option(sort_order_id, |e, id| e.long(id.0.into()));
    if v3 {
        e.option(file.first_row_id.filter(|_| file.content == ContentType::Data), Encoder::long);
    }
    if v2 {
        e.option(file.referenced_data_file.as_deref(), Encoder::string);
    }
    if v3 {
        e.option(file.content_offset, Encoder::long);
        e.option(file.content_size_in_bytes, Encoder::long);
    } else if file.is_deletion_vector() {
        return Err(Error::invalid(format!("format version {version} has no deletion vectors")));
    }
    Ok(())
}

#[derive(Default)]
struct SummaryBuilder {
    contains_null: bool,
    contains_nan: bool,
    bounds: Option<(Value, Value)>,
}

impl SummaryBuilder {
    fn add(&mut self, value: Option<&Value>) {
        let Some(value) = value else {
            self.contains_null = true;
            return;
        };
        if value.is_nan() {
            self.contains_nan = true;
            return;
        }
        match &mut self.bounds {
            None => self.bounds = Some((value.clone(), value.clone())),
            Some((lower, upper)) => {
                if value.compare(lower).is_some_and(|o| o.is_lt()) {
                    *lower = value.clone();
                }
                if value.compare(upper).is_some_and(|o| o.is_gt()) {
                    *upper = value.clone();
                }
            }
        }
    }

    fn finish(self) -> Result<FieldSummary> {
        let (lower, upper) = self.bounds.unzip();
        Ok(FieldSummary {
            contains_null: self.contains_null,
            contains_nan: Some(self.contains_nan),
            lower_bound: lower.map(|v| v.to_bytes()).transpose()?,
            upper_bound: upper.map(|v| v.to_bytes()).transpose()?,
        })
    }
}
