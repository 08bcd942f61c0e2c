//! Reading manifests: a plan is made from the schema in the file's header, then run once an entry.

use bytes::Bytes;

use super::avro::{AvroSchema, ContainerReader, Cursor, Kind, NodeId, RecordField, Slot, Want};
use super::content_file::{ContentFile, ContentType, FileFormat, ManifestStatus};
use super::ids::{FieldId, SchemaId, SequenceNumber, SnapshotId, SortOrderId, SpecId};
use super::manifest::{Inheritance, Manifest, ManifestHeader, StoredEntry};
use super::manifest_list::{ManifestContent, ManifestFile};
use super::manifest_partition::PartitionPlan;
use super::manifest_schema::{DATA_FILE, ENTRY, entry_id as id, resolve};
use super::metrics::{MetricMap, MetricMaps, Metrics};
use super::partition::PartitionSpec;
use super::types::StructType;
use crate::error::{Error, ErrorKind, Result, ResultExt};

impl Manifest {
    /// Decodes a manifest. `file` is its entry in the manifest list; `spec` the partition spec
    /// that this names, and `partition_type` the type of that spec's tuples.
    ///
    /// Column metrics are not decoded but share the memory of the (uncompressed) manifest.
    ///
    /// # Errors
    /// `DataInvalid` where the bytes are not a manifest; `Unsupported` for file formats and
    /// compression codecs that are not known.
    pub fn parse(
        bytes: Bytes,
        file: &ManifestFile,
        spec: &PartitionSpec,
        partition_type: &StructType,
    ) -> Result<Manifest> {
        Self::parse_inner(bytes, file, spec, partition_type)
            .context(|| format!("manifest {}", file.manifest_path))
    }

    fn parse_inner(
        bytes: Bytes,
        file: &ManifestFile,
        spec: &PartitionSpec,
        partition_type: &StructType,
    ) -> Result<Manifest> {
        let length = bytes.len();
        let mut reader = ContainerReader::open(bytes)?;
        let header = read_header(&reader);
        let schema = reader.schema()?;
        let plan = EntryPlan::new(&schema, partition_type)?;
        let mut inheritance = Inheritance::new(file, header.format_version < 2 && !plan.has_sequence_numbers);
        let mut entries = Vec::new();
        let mut memory = 0;
        while let Some(block) = reader.next_block()? {
            memory += block.data.len();
            // An entry has a path, a format and numbers: never less than some bytes.
            entries.reserve(block.count.min(block.data.len() / 16));
            let mut cursor = Cursor::new(&block.data);
            for _ in 0..block.count {
                let stored = plan
                    .read(&schema, &block.data, &mut cursor, spec.spec_id)
                    .and_then(|stored| inheritance.apply(stored))
                    .context(|| format!("entry {}", entries.len()))?;
                memory += memory_of(&stored.data_file);
                entries.push(stored);
            }
            if cursor.remaining() > 0 {
                return Err(Error::invalid("avro block is longer than its entries"));
            }
        }
        check_complete(file, length, entries.len())?;
        Ok(Manifest {
            content: file.content,
            spec_id: spec.spec_id,
            partition_type: plan.partition.partition_type,
            entries,
            header,
            memory,
        })
    }
}

/// A file cut off between two blocks looks whole. Lengths and counts in manifest lists alone are
/// not to be trusted, but both together are.
fn check_complete(file: &ManifestFile, length: usize, entries: usize) -> Result<()> {
    let (Some(added), Some(existing), Some(deleted)) =
        (file.added_files_count, file.existing_files_count, file.deleted_files_count)
    else {
        return Ok(());
    };
    let expected = i64::from(added) + i64::from(existing) + i64::from(deleted);
    if (length as i64) < file.manifest_length && (entries as i64) < expected {
        return Err(Error::invalid(format!(
            "it is cut off: {length} of {} bytes, {entries} of {expected} entries",
            file.manifest_length
        )));
    }
    Ok(())
}

fn memory_of(file: &ContentFile) -> usize {
    // The counts of the Arc and what allocators add.
    const OVERHEAD: usize = 48;
    size_of::<super::content_file::ManifestEntry>()
        + size_of::<ContentFile>()
        + OVERHEAD
        + file.file_path.len()
        + size_of_val(file.partition.as_slice())
        + file.split_offsets.as_ref().map_or(0, |o| size_of_val(o.as_slice()))
}

fn read_header(reader: &ContainerReader) -> ManifestHeader {
    let number = |key| reader.text(key).and_then(|text| text.trim().parse::<i32>().ok());
    ManifestHeader {
        schema: reader.text("schema").map(str::to_owned),
        schema_id: number("schema-id").map(SchemaId),
        partition_spec: reader.text("partition-spec").map(str::to_owned),
        partition_spec_id: number("partition-spec-id").map(SpecId),
        format_version: number("format-version").and_then(|v| u8::try_from(v).ok()).unwrap_or(1),
        content: match reader.text("content") {
            Some(text) if text.eq_ignore_ascii_case("deletes") => ManifestContent::Deletes,
            _ => ManifestContent::Data,
        },
    }
}

/// How the entries of a file are read.
struct EntryPlan {
    steps: Vec<EntryStep>,
    partition: PartitionPlan,
    has_sequence_numbers: bool,
}

enum EntryStep {
    Status(Slot),
    SnapshotId(Slot),
    SequenceNumber(Slot),
    FileSequenceNumber(Slot),
    DataFile(Vec<FileStep>),
    Skip(NodeId),
}

enum FileStep {
    Content(Slot),
    Path(Slot),
    Format(Slot),
    Partition,
    RecordCount(Slot),
    FileSize(Slot),
    /// A map stored just as [`Metrics`] wants it.
    Map(MetricMap, Slot),
    /// A map stored in some other way.
    OtherMap(MetricMap, Slot, MapShape),
    KeyMetadata(Slot),
    SplitOffsets(Slot),
    EqualityIds(Slot),
    SortOrderId(Slot),
    FirstRowId(Slot),
    ReferencedDataFile(Slot),
    ContentOffset(Slot),
    ContentSize(Slot),
    Skip(NodeId),
}

impl EntryPlan {
    fn new(schema: &AvroSchema, partition_type: &StructType) -> Result<Self> {
        let fields =
            schema.fields(schema.root()).ok_or_else(|| Error::invalid("the avro schema is not a record"))?;
        let ids = resolve(fields, ENTRY)?;
        let mut partition = PartitionPlan::of_nulls(partition_type);
        let mut steps = Vec::with_capacity(fields.len());
        for (field, field_id) in fields.iter().zip(&ids) {
            let place = || format!("field `{}`", field.name);
            let integer = || Slot::new(schema, field.node, Want::Integer).context(place);
            steps.push(match *field_id {
                Some(id::STATUS) => EntryStep::Status(integer()?),
                Some(id::SNAPSHOT_ID) => EntryStep::SnapshotId(integer()?),
                Some(id::SEQUENCE_NUMBER) => EntryStep::SequenceNumber(integer()?),
                Some(id::FILE_SEQUENCE_NUMBER) => EntryStep::FileSequenceNumber(integer()?),
                Some(id::DATA_FILE) => {
                    let (steps, found) = file_steps(schema, field, partition_type).context(place)?;
                    partition = found.unwrap_or(partition);
                    EntryStep::DataFile(steps)
                }
                _ => EntryStep::Skip(field.node),
            });
        }
        require(&ids, &[(id::STATUS, "status"), (id::DATA_FILE, "data_file")])?;
        let has_sequence_numbers = ids.contains(&Some(id::SEQUENCE_NUMBER));
        Ok(Self { steps, partition, has_sequence_numbers })
    }

    fn read(
        &self,
        schema: &AvroSchema,
        block: &Bytes,
        cursor: &mut Cursor<'_>,
        spec_id: SpecId,
    ) -> Result<StoredEntry> {
        let mut status = None;
        let mut snapshot_id = None;
        let mut sequence_number = None;
        let mut file_sequence_number = None;
        let mut file = None;
        for step in &self.steps {
            match step {
                EntryStep::Status(slot) => status = slot.long(cursor)?,
                EntryStep::SnapshotId(slot) => snapshot_id = slot.long(cursor)?.map(SnapshotId),
                EntryStep::SequenceNumber(slot) => sequence_number = slot.long(cursor)?.map(SequenceNumber),
                EntryStep::FileSequenceNumber(slot) => {
                    file_sequence_number = slot.long(cursor)?.map(SequenceNumber);
                }
                EntryStep::DataFile(steps) => {
                    file = Some(
                        self.read_file(steps, schema, block, cursor, spec_id)
                            .context(|| "field `data_file`".into())?,
                    );
                }
                EntryStep::Skip(node) => schema.skip(*node, cursor)?,
            }
        }
        let status = match required(status, "status")? {
            0 => ManifestStatus::Existing,
            1 => ManifestStatus::Added,
            2 => ManifestStatus::Deleted,
            other => return Err(unknown_number("status", other)),
        };
        let file = required(file, "data_file")?;
        Ok(StoredEntry { status, snapshot_id, sequence_number, file_sequence_number, file })
    }

    fn read_file(
        &self,
        steps: &[FileStep],
        schema: &AvroSchema,
        block: &Bytes,
        cursor: &mut Cursor<'_>,
        spec_id: SpecId,
    ) -> Result<ContentFile> {
        let mut file = ContentFile {
            content: ContentType::Data,
            file_path: String::new(),
            file_format: FileFormat::Parquet,
            spec_id,
            partition: Vec::new(),
            record_count: 0,
            file_size_in_bytes: 0,
            metrics: Metrics::in_block(block.clone()),
            key_metadata: None,
            split_offsets: None,
            equality_ids: None,
            sort_order_id: None,
            first_row_id: None,
            referenced_data_file: None,
            content_offset: None,
            content_size_in_bytes: None,
        };
        let mut other_maps: Option<MetricMaps> = None;
        let mut has_partition = false;
        for step in steps {
            match step {
                FileStep::Content(slot) => {
                    file.content = match slot.long(cursor)? {
                        None | Some(0) => ContentType::Data,
                        Some(1) => ContentType::PositionDeletes,
                        Some(2) => ContentType::EqualityDeletes,
                        Some(other) => return Err(unknown_number("content", other)),
                    };
                }
                FileStep::Path(slot) => {
                    let path =
                        slot.string(cursor).map_err(Error::from).context(|| "field `file_path`".into())?;
                    file.file_path = required(path, "file_path")?.to_owned();
                }
                FileStep::Format(slot) => {
                    let name = required(slot.string(cursor)?, "file_format")?;
                    file.file_format = FileFormat::parse(name)
                        .ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("file format `{name}`")))?;
                }
                FileStep::Partition => {
                    file.partition = self.partition.read(schema, cursor)?;
                    has_partition = true;
                }
                FileStep::RecordCount(slot) => {
                    file.record_count = required(slot.long(cursor)?, "record_count")?;
                }
                FileStep::FileSize(slot) => {
                    file.file_size_in_bytes = required(slot.long(cursor)?, "file_size_in_bytes")?;
                }
                FileStep::Map(map, slot) => {
                    if slot.is_present(cursor)? {
                        let start = cursor.position();
                        Metrics::validate(cursor, map.holds_bytes())?;
                        file.metrics.place(*map, start, cursor.position());
                    }
                }
                FileStep::OtherMap(map, slot, shape) => {
                    if slot.is_present(cursor)? {
                        shape.read(schema, cursor, *map, other_maps.get_or_insert_default())?;
                    }
                }
                FileStep::KeyMetadata(slot) => file.key_metadata = slot.bytes(cursor)?.map(<[u8]>::to_vec),
                FileStep::SplitOffsets(slot) => file.split_offsets = slot.longs(cursor)?,
                FileStep::EqualityIds(slot) => {
                    let ids = slot.longs(cursor)?.map(|ids| ids.into_iter().map(i32::try_from).collect());
                    let ids: Option<Vec<i32>> = ids.transpose().map_err(|_| {
                        Error::invalid("an id has more than 32 bits").context("field `equality_ids`")
                    })?;
                    file.equality_ids = ids.map(|ids| ids.into_iter().map(FieldId).collect());
                }
                FileStep::SortOrderId(slot) => file.sort_order_id = slot.int(cursor)?.map(SortOrderId),
                FileStep::FirstRowId(slot) => file.first_row_id = slot.long(cursor)?,
                FileStep::ReferencedDataFile(slot) => {
                    file.referenced_data_file = slot.string(cursor)?.map(str::to_owned);
                }
                FileStep::ContentOffset(slot) => file.content_offset = slot.long(cursor)?,
                FileStep::ContentSize(slot) => file.content_size_in_bytes = slot.long(cursor)?,
                FileStep::Skip(node) => schema.skip(*node, cursor)?,
            }
        }
        if !has_partition {
            file.partition = vec![None; self.partition.partition_type.fields.len()];
        }
        if let Some(mut maps) = other_maps {
            // Those that were stored as wanted join the others.
            maps.fill_from(&file.metrics);
            file.metrics = Metrics::from(&maps);
        }
        Ok(file)
    }
}

fn file_steps(
    schema: &AvroSchema,
    data_file: &RecordField,
    partition_type: &StructType,
) -> Result<(Vec<FileStep>, Option<PartitionPlan>)> {
    let fields =
        schema.fields(data_file.node).ok_or_else(|| Error::invalid("its avro type is not a record"))?;
    let ids = resolve(fields, DATA_FILE)?;
    let mut partition = None;
    let mut steps = Vec::with_capacity(fields.len());
    for (field, field_id) in fields.iter().zip(&ids) {
        let step = (|| {
            let slot = |want| Slot::new(schema, field.node, want);
            let map = |map| map_step(schema, field.node, map);
            Ok(match *field_id {
                Some(id::CONTENT) => FileStep::Content(slot(Want::Integer)?),
                Some(id::FILE_PATH) => FileStep::Path(slot(Want::Text)?),
                Some(id::FILE_FORMAT) => FileStep::Format(slot(Want::Text)?),
                Some(id::PARTITION) => {
                    partition = Some(PartitionPlan::new(schema, field.node, partition_type)?);
                    FileStep::Partition
                }
                Some(id::RECORD_COUNT) => FileStep::RecordCount(slot(Want::Integer)?),
                Some(id::FILE_SIZE) => FileStep::FileSize(slot(Want::Integer)?),
                Some(id::COLUMN_SIZES) => map(MetricMap::ColumnSizes)?,
                Some(id::VALUE_COUNTS) => map(MetricMap::ValueCounts)?,
                Some(id::NULL_VALUE_COUNTS) => map(MetricMap::NullValueCounts)?,
                Some(id::NAN_VALUE_COUNTS) => map(MetricMap::NanValueCounts)?,
                Some(id::LOWER_BOUNDS) => map(MetricMap::LowerBounds)?,
                Some(id::UPPER_BOUNDS) => map(MetricMap::UpperBounds)?,
                Some(id::KEY_METADATA) => FileStep::KeyMetadata(slot(Want::Bytes)?),
                Some(id::SPLIT_OFFSETS) => FileStep::SplitOffsets(slot(Want::Integers)?),
                Some(id::EQUALITY_IDS) => FileStep::EqualityIds(slot(Want::Integers)?),
                Some(id::SORT_ORDER_ID) => FileStep::SortOrderId(slot(Want::Integer)?),
                Some(id::FIRST_ROW_ID) => FileStep::FirstRowId(slot(Want::Integer)?),
                Some(id::REFERENCED_DATA_FILE) => FileStep::ReferencedDataFile(slot(Want::Text)?),
                Some(id::CONTENT_OFFSET) => FileStep::ContentOffset(slot(Want::Integer)?),
                Some(id::CONTENT_SIZE) => FileStep::ContentSize(slot(Want::Integer)?),
                _ => FileStep::Skip(field.node),
            })
        })();
        steps.push(step.context(|| format!("field `{}`", field.name))?);
    }
    require(
        &ids,
        &[
            (id::FILE_PATH, "file_path"),
            (id::FILE_FORMAT, "file_format"),
            (id::RECORD_COUNT, "record_count"),
            (id::FILE_SIZE, "file_size_in_bytes"),
        ],
    )?;
    if partition.is_none() && !partition_type.fields.is_empty() {
        require(&ids, &[(id::PARTITION, "partition")])?;
    }
    Ok((steps, partition))
}

/// A map of column metrics that is not an array of pairs of plain numbers and values.
enum MapShape {
    /// An array of records: where key and value are among the fields.
    Pairs(Vec<PairStep>),
    /// An Avro map, whose keys are text.
    Text(Slot),
}

enum PairStep {
    Key(Slot),
    Value(Slot),
    Skip(NodeId),
}

fn map_step(schema: &AvroSchema, node: NodeId, map: MetricMap) -> Result<FileStep> {
    let slot = Slot::new(schema, node, Want::Anything)?;
    let value_type = if map.holds_bytes() { Want::Bytes } else { Want::Integer };
    match schema.kind(slot.node()) {
        Kind::Null => Ok(FileStep::Map(map, slot)),
        Kind::Map(values) => {
            let values = Slot::new(schema, *values, value_type)?;
            Ok(FileStep::OtherMap(map, slot, MapShape::Text(values)))
        }
        Kind::Array(item) => {
            let fields = schema
                .fields(*item)
                .ok_or_else(|| Error::invalid("its items are not pairs of key and value"))?;
            let steps = fields
                .iter()
                .map(|field| {
                    Ok(match field.name.as_str() {
                        "key" => PairStep::Key(Slot::new(schema, field.node, Want::Integer)?),
                        "value" => PairStep::Value(Slot::new(schema, field.node, value_type)?),
                        _ => PairStep::Skip(field.node),
                    })
                })
                .collect::<Result<Vec<_>>>()?;
            match steps.as_slice() {
                [PairStep::Key(k), PairStep::Value(v)] if k.is_plain() && v.is_plain() => {
                    Ok(FileStep::Map(map, slot))
                }
                _ => Ok(FileStep::OtherMap(map, slot, MapShape::Pairs(steps))),
            }
        }
        _ => Err(Error::invalid("its avro type is not a map")),
    }
}

impl MapShape {
    fn read(
        &self,
        schema: &AvroSchema,
        cursor: &mut Cursor<'_>,
        map: MetricMap,
        maps: &mut MetricMaps,
    ) -> Result<()> {
        loop {
            let (count, _) = cursor.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                let mut key = None;
                let mut long = None;
                let mut bytes = None;
                let mut value = |slot: &Slot, cursor: &mut Cursor<'_>| -> Result<()> {
                    if map.holds_bytes() {
                        bytes = slot.bytes(cursor)?.map(Bytes::copy_from_slice);
                    } else {
                        long = slot.long(cursor)?;
                    }
                    Ok(())
                };
                match self {
                    MapShape::Text(slot) => {
                        let text = cursor.string()?;
                        let id = text.parse::<i32>().map_err(|e| {
                            Error::invalid(format!("`{text}` is not a field id")).with_source(e)
                        })?;
                        key = Some(id);
                        value(slot, cursor)?;
                    }
                    MapShape::Pairs(steps) => {
                        for step in steps {
                            match step {
                                PairStep::Key(slot) => key = slot.int(cursor)?,
                                PairStep::Value(slot) => value(slot, cursor)?,
                                PairStep::Skip(node) => schema.skip(*node, cursor)?,
                            }
                        }
                    }
                }
                let id = FieldId(required(key, "key")?);
                if let Some(long) = long {
                    maps.insert_long(map, id, long);
                }
                if let Some(bytes) = bytes {
                    maps.insert_bytes(map, id, bytes);
                }
            }
        }
    }
}

fn required<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| Error::invalid("it is null").context(format!("field `{name}`")))
}

fn require(ids: &[Option<i32>], wanted: &[(i32, &str)]) -> Result<()> {
    match wanted.iter().find(|(id, _)| !ids.contains(&Some(*id))) {
        None => Ok(()),
        Some((id, name)) => Err(Error::invalid(format!("field `{name}` (id {id}) is missing"))),
    }
}

fn unknown_number(name: &str, number: i64) -> Error {
    Error::invalid(format!("{number} has no meaning")).context(format!("field `{name}`"))
}
