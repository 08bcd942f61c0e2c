//! Reading manifest lists, of any format version.

use bytes::Bytes;

use super::avro::{AvroSchema, ContainerReader, Cursor, Kind, NodeId, Slot, Want};
use super::ids::{SequenceNumber, SnapshotId, SpecId};
use super::manifest_list::{FieldSummary, ManifestContent, ManifestFile, ManifestList};
use super::manifest_schema::{FIELD_SUMMARY, MANIFEST_FILE, list_id as id, resolve};
use crate::error::{Error, Result, ResultExt};

impl ManifestList {
    /// Decodes a manifest list: the manifests of a snapshot, in the order of the file.
    ///
    /// # Errors
    /// `DataInvalid` where the bytes are not a manifest list; `Unsupported` for compression
    /// codecs that are not known.
    pub fn parse(bytes: Bytes) -> Result<Vec<ManifestFile>> {
        let mut reader = ContainerReader::open(bytes)?;
        let schema = reader.schema()?;
        let plan = Plan::new(&schema)?;
        let mut manifests = Vec::new();
        while let Some(block) = reader.next_block()? {
            let mut cursor = Cursor::new(&block.data);
            for _ in 0..block.count {
                let manifest =
                    plan.read(&schema, &mut cursor).context(|| format!("entry {}", manifests.len()))?;
                manifests.push(manifest);
            }
            if cursor.remaining() > 0 {
                return Err(Error::invalid("avro block is longer than its entries"));
            }
        }
        Ok(manifests)
    }
}

/// How the entries of a file are read.
struct Plan {
    steps: Vec<(String, Step)>,
}

enum Step {
    /// A number, by its field id.
    Number(i32, Slot),
    Path(Slot),
    Partitions(Slot, Vec<SummaryStep>),
    KeyMetadata(Slot),
    Skip(NodeId),
}

enum SummaryStep {
    ContainsNull(Slot),
    ContainsNan(Slot),
    LowerBound(Slot),
    UpperBound(Slot),
    Skip(NodeId),
}

impl Plan {
    fn new(schema: &AvroSchema) -> Result<Self> {
        let fields =
            schema.fields(schema.root()).ok_or_else(|| Error::invalid("the avro schema is not a record"))?;
        let ids = resolve(fields, MANIFEST_FILE)?;
        for (wanted, name) in [
            (id::MANIFEST_PATH, "manifest_path"),
            (id::MANIFEST_LENGTH, "manifest_length"),
            (id::PARTITION_SPEC_ID, "partition_spec_id"),
        ] {
            if !ids.contains(&Some(wanted)) {
                return Err(Error::invalid(format!("field `{name}` (id {wanted}) is missing")));
            }
        }
        let mut steps = Vec::with_capacity(fields.len());
        for (field, field_id) in fields.iter().zip(&ids) {
            let slot = |want| Slot::new(schema, field.node, want);
            let step = match *field_id {
                None => Ok(Step::Skip(field.node)),
                Some(id::MANIFEST_PATH) => slot(Want::Text).map(Step::Path),
                Some(id::KEY_METADATA) => slot(Want::Bytes).map(Step::KeyMetadata),
                Some(id::PARTITIONS) => slot(Want::Records).and_then(|slot| {
                    let steps = match schema.kind(slot.node()) {
                        Kind::Array(item) => summary_steps(schema, *item)?,
                        _ => Vec::new(),
                    };
                    Ok(Step::Partitions(slot, steps))
                }),
                Some(number) => slot(Want::Integer).map(|slot| Step::Number(number, slot)),
            };
            let step = step.context(|| format!("field `{}`", field.name))?;
            steps.push((field.name.clone(), step));
        }
        Ok(Self { steps })
    }

    fn read(&self, schema: &AvroSchema, cursor: &mut Cursor<'_>) -> Result<ManifestFile> {
        let mut manifest = ManifestFile::unlisted(String::new(), 0, SpecId(0));
        for (name, step) in &self.steps {
            step.read(schema, cursor, &mut manifest).context(|| format!("field `{name}`"))?;
        }
        Ok(manifest)
    }
}

impl Step {
    fn read(&self, schema: &AvroSchema, cursor: &mut Cursor<'_>, manifest: &mut ManifestFile) -> Result<()> {
        let is_null = || Error::invalid("it is null");
        match self {
            Step::Path(slot) => {
                manifest.manifest_path = slot.string(cursor)?.ok_or_else(is_null)?.to_owned();
            }
            Step::KeyMetadata(slot) => manifest.key_metadata = slot.bytes(cursor)?.map(<[u8]>::to_vec),
            Step::Partitions(slot, steps) => {
                if slot.is_present(cursor)? {
                    manifest.partitions = Some(read_summaries(steps, schema, cursor)?);
                }
            }
            Step::Skip(node) => schema.skip(*node, cursor)?,
            Step::Number(number, slot) => {
                let value = slot.long(cursor)?;
                let int = || {
                    value
                        .map(i32::try_from)
                        .transpose()
                        .map_err(|_| Error::invalid("it has more than 32 bits"))
                };
                match *number {
                    id::MANIFEST_LENGTH => manifest.manifest_length = value.ok_or_else(is_null)?,
                    id::PARTITION_SPEC_ID => manifest.partition_spec_id = SpecId(int()?.ok_or_else(is_null)?),
                    id::CONTENT => {
                        manifest.content = match value {
                            None | Some(0) => ManifestContent::Data,
                            Some(1) => ManifestContent::Deletes,
                            Some(other) => return Err(Error::invalid(format!("{other} has no meaning"))),
                        };
                    }
                    id::SEQUENCE_NUMBER => manifest.sequence_number = SequenceNumber(value.unwrap_or(0)),
                    id::MIN_SEQUENCE_NUMBER => {
                        manifest.min_sequence_number = SequenceNumber(value.unwrap_or(0));
                    }
                    id::ADDED_SNAPSHOT_ID => manifest.added_snapshot_id = value.map(SnapshotId),
                    id::ADDED_FILES => manifest.added_files_count = int()?,
                    id::EXISTING_FILES => manifest.existing_files_count = int()?,
                    id::DELETED_FILES => manifest.deleted_files_count = int()?,
                    id::ADDED_ROWS => manifest.added_rows_count = value,
                    id::EXISTING_ROWS => manifest.existing_rows_count = value,
                    id::DELETED_ROWS => manifest.deleted_rows_count = value,
                    id::FIRST_ROW_ID => manifest.first_row_id = value,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn summary_steps(schema: &AvroSchema, item: NodeId) -> Result<Vec<SummaryStep>> {
    let fields = schema.fields(item).unwrap_or_default();
    let ids = resolve(fields, FIELD_SUMMARY)?;
    // Without it, "no nulls" would be a guess that prunes.
    if !ids.contains(&Some(id::CONTAINS_NULL)) {
        return Err(Error::invalid("field `contains_null` (id 509) is missing"));
    }
    fields
        .iter()
        .zip(&ids)
        .map(|(field, field_id)| {
            let slot =
                |want| Slot::new(schema, field.node, want).context(|| format!("field `{}`", field.name));
            Ok(match *field_id {
                Some(id::CONTAINS_NULL) => SummaryStep::ContainsNull(slot(Want::Boolean)?),
                Some(id::CONTAINS_NAN) => SummaryStep::ContainsNan(slot(Want::Boolean)?),
                Some(id::LOWER_BOUND) => SummaryStep::LowerBound(slot(Want::Bytes)?),
                Some(id::UPPER_BOUND) => SummaryStep::UpperBound(slot(Want::Bytes)?),
                _ => SummaryStep::Skip(field.node),
            })
        })
        .collect()
}

fn read_summaries(
    steps: &[SummaryStep],
    schema: &AvroSchema,
    cursor: &mut Cursor<'_>,
) -> Result<Vec<FieldSummary>> {
    let mut summaries = Vec::new();
    loop {
        let (count, _) = cursor.block()?;
        if count == 0 {
            return Ok(summaries);
        }
        for _ in 0..count {
            // Where null is stored, nothing is known.
            let mut summary = FieldSummary { contains_null: true, ..FieldSummary::default() };
            for step in steps {
                match step {
                    SummaryStep::ContainsNull(slot) => {
                        summary.contains_null = slot.boolean(cursor)?.unwrap_or(true);
                    }
                    SummaryStep::ContainsNan(slot) => summary.contains_nan = slot.boolean(cursor)?,
                    SummaryStep::LowerBound(slot) => {
                        summary.lower_bound = slot.bytes(cursor)?.map(<[u8]>::to_vec);
                    }
                    SummaryStep::UpperBound(slot) => {
                        summary.upper_bound = slot.bytes(cursor)?.map(<[u8]>::to_vec);
                    }
                    SummaryStep::Skip(node) => schema.skip(*node, cursor)?,
                }
            }
            summaries.push(summary);
        }
    }
}
