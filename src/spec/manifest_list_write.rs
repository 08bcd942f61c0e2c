//! Writing manifest lists of format versions 1 to 3.

use bytes::Bytes;

use super::avro::{Codec, ContainerWriter, Encoder, record_schema};
use super::ids::{SchemaId, SequenceNumber, SnapshotId};
use super::manifest_list::{FieldSummary, ManifestContent, ManifestFile, UNASSIGNED_SEQUENCE_NUMBER};
use super::manifest_schema::manifest_file_struct;
use super::schema::Schema;
use crate::error::{Error, Result, ResultExt};

/// The snapshot that a new manifest list is for.
#[derive(Debug, Clone, Copy)]
pub struct ManifestListWriterOptions {
    /// The format version: 1, 2 or 3.
    pub format_version: u8,
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// Its parent.
    pub parent_snapshot_id: Option<SnapshotId>,
    /// Its sequence number; not used in version 1.
    pub sequence_number: SequenceNumber,
    /// Its first row id; only used in version 3.
    pub first_row_id: Option<i64>,
    /// How the list is compressed.
    pub codec: Codec,
}

/// A manifest list in the making. After an error it can't be used any more.
pub struct ManifestListWriter {
    options: ManifestListWriterOptions,
    container: ContainerWriter,
}

impl ManifestListWriter {
    /// Starts a manifest list.
    ///
    /// # Errors
    /// `Unsupported` for other format versions.
    pub fn new(options: ManifestListWriterOptions) -> Result<Self> {
        let version = options.format_version;
        if !(1..=3).contains(&version) {
            return Err(Error::unsupported(format!("writing manifest lists of format version {version}")));
        }
        let manifest_file = manifest_file_struct(version);
        let or_null = |id: Option<i64>| id.map_or("null".to_owned(), |id| id.to_string());
        let schema = Schema::new(SchemaId(0), manifest_file.fields.clone(), vec![])?;
        let mut metadata = vec![
            ("snapshot-id", options.snapshot_id.to_string()),
            ("parent-snapshot-id", or_null(options.parent_snapshot_id.map(|id| id.0))),
            ("format-version", version.to_string()),
            ("iceberg.schema", schema.to_json()?.to_string()),
        ];
        if version >= 2 {
            metadata.push(("sequence-number", options.sequence_number.to_string()));
        }
        if version >= 3 {
            metadata.push(("first-row-id", or_null(options.first_row_id)));
        }
        let container =
            ContainerWriter::new(&record_schema("manifest_file", &manifest_file)?, &metadata, options.codec);
        Ok(Self { options, container })
    }

    /// Lists a manifest as it is described, but for sequence numbers that are
    /// [`UNASSIGNED_SEQUENCE_NUMBER`]: they become the snapshot's.
    ///
    /// # Errors
    /// `DataInvalid` where something is missing that the format version requires.
    pub fn add(&mut self, manifest: &ManifestFile) -> Result<()> {
        self.write(manifest).context(|| format!("manifest {}", manifest.manifest_path))
    }

    fn write(&mut self, manifest: &ManifestFile) -> Result<()> {
        let v2 = self.options.format_version >= 2;
        let own = self.options.sequence_number;
        let assigned = |n| if n == UNASSIGNED_SEQUENCE_NUMBER { own } else { n };
        let missing = |name: &str| Error::invalid("it is missing").context(format!("field `{name}`"));
        let counts = [
            ("added_files_count", manifest.added_files_count),
            ("existing_files_count", manifest.existing_files_count),
            ("deleted_files_count", manifest.deleted_files_count),
        ];
        let rows = [
            ("added_rows_count", manifest.added_rows_count),
            ("existing_rows_count", manifest.existing_rows_count),
            ("deleted_rows_count", manifest.deleted_rows_count),
        ];
        if !v2 && manifest.content == ManifestContent::Deletes {
            return Err(Error::invalid("format version 1 has no delete files"));
        }
        let added_snapshot_id = manifest.added_snapshot_id.ok_or_else(|| missing("added_snapshot_id"))?;
        if v2 {
            let names = counts.iter().filter(|(_, n)| n.is_none()).map(|(name, _)| name);
            let names = names.chain(rows.iter().filter(|(_, n)| n.is_none()).map(|(name, _)| name));
            if let Some(name) = names.into_iter().next() {
                return Err(missing(name));
            }
        }

        let e = self.container.item();
        e.string(&manifest.manifest_path);
        e.long(manifest.manifest_length);
        e.long(manifest.partition_spec_id.0.into());
        if v2 {
            e.long(match manifest.content {
                ManifestContent::Data => 0,
                ManifestContent::Deletes => 1,
            });
            e.long(assigned(manifest.sequence_number).0);
            e.long(assigned(manifest.min_sequence_number).0);
        }
        e.long(added_snapshot_id.0);
        // Required with version 2, optional before.
        let count = |e: &mut Encoder, n: Option<i64>| match n {
            Some(n) if v2 => e.long(n),
            n => e.option(n, Encoder::long),
        };
        for (_, n) in counts {
            count(e, n.map(i64::from));
        }
        if !v2 {
            write_summaries(e, manifest.partitions.as_deref());
        }
        for (_, n) in rows {
            count(e, n);
        }
        if v2 {
            write_summaries(e, manifest.partitions.as_deref());
        }
        e.option(manifest.key_metadata.as_deref(), Encoder::bytes);
        if self.options.format_version >= 3 {
            let first_row_id = manifest.first_row_id.filter(|_| manifest.content == ManifestContent::Data);
            e.option(first_row_id, Encoder::long);
        }
        self.container.end_item()
    }

    /// Ends the list and gives its bytes.
    ///
    /// # Errors
    /// Where it can't be compressed.
    pub fn finish(self) -> Result<Bytes> {
        Ok(self.container.finish()?.into())
    }
}

fn write_summaries(e: &mut Encoder, summaries: Option<&[FieldSummary]>) {
    e.option(summaries, |e, summaries| {
        e.array(summaries.iter(), |e, summary| {
            e.boolean(summary.contains_null);
            e.option(summary.contains_nan, Encoder::boolean);
            e.option(summary.lower_bound.as_deref(), Encoder::bytes);
            e.option(summary.upper_bound.as_deref(), Encoder::bytes);
        });
    });
}
