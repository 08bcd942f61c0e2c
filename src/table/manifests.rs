//! Reads a table's manifest lists and manifests, through the cache.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};

use super::Table;
use super::cache::{Key, Role};
use crate::error::{Error, Result, ResultExt};
use crate::spec::avro::ContainerReader;
use crate::spec::{
    Manifest, ManifestContent, ManifestFile, ManifestList, PartitionSpec, Snapshot, SnapshotManifests,
    SpecId, StructType, TableMetadata,
};
use crate::storage::Location;

/// How many manifests are looked into at a time to make a list of those without one.
const CONCURRENT_HEADERS: usize = 16;

/// A spec with the type of its partition tuples.
#[derive(Debug, Clone)]
pub(super) struct SpecPartition {
    spec: Arc<PartitionSpec>,
    partition_type: StructType,
    /// Differs wherever manifests would be decoded differently.
    fingerprint: Arc<str>,
}

/// All specs of a table, with the types of their partition tuples.
pub(super) fn spec_partitions(metadata: &TableMetadata) -> HashMap<SpecId, SpecPartition> {
    let specs = metadata.partition_specs.iter().map(|(id, spec)| {
        let partition_type = partition_type(metadata, spec);
        let fingerprint = format!("{id} {:?} {partition_type:?}", spec.fields).into();
        (*id, SpecPartition { spec: Arc::clone(spec), partition_type, fingerprint })
    });
    specs.collect()
}

/// The type of the partition tuples under the current schema. For a column that was dropped the
/// newest schema that has it counts.
fn partition_type(metadata: &TableMetadata, spec: &PartitionSpec) -> StructType {
    let current = metadata.schemas.get(&metadata.current_schema_id);
    let schemas: Vec<_> = current.into_iter().chain(metadata.schemas.values().rev()).collect();
    let mut result =
        current.map(|schema| spec.partition_type(schema)).unwrap_or_else(|| StructType::new(Vec::new()));
    for (i, field) in spec.fields.iter().enumerate() {
        let source = field.source_id();
        let known = source.and_then(|id| schemas.iter().find(|schema| schema.field_by_id(id).is_some()));
        let of_schema = known.and_then(|schema| spec.partition_type(schema).fields.into_iter().nth(i));
        if let (Some(slot), Some(found)) = (result.fields.get_mut(i), of_schema) {
            *slot = found;
        }
    }
    result
}

impl Table {
    /// The type of the partition tuples of a spec: under the current schema, and for a source column
    /// that was dropped under the newest schema that has it.
    ///
    /// # Errors
    /// `DataInvalid` if the table has no such spec.
    pub fn partition_type(&self, spec: SpecId) -> Result<&StructType> {
        self.spec_partition(spec).map(|found| &found.partition_type).map_err(|e| e.context(self.place()))
    }

    fn spec_partition(&self, id: SpecId) -> Result<&SpecPartition> {
        let found = self.0.specs.get(&id);
        found.ok_or_else(|| Error::invalid(format!("the table's metadata has no partition spec {id}")))
    }

    /// The manifests of a snapshot, from the cache or read.
    ///
    /// # Errors
    /// `NotFound` and `Io` if the file can't be read, `DataInvalid` if it is broken, `Unsupported`
    /// if it is encrypted; each names the table and the file.
    pub async fn manifest_list(&self, snapshot: &Snapshot) -> Result<Arc<Vec<ManifestFile>>> {
        let load = async {
            if snapshot.key_id.is_some() {
                return Err(Error::unsupported("encrypted manifest lists"));
            }
            match &snapshot.manifests {
                SnapshotManifests::List(path) => {
                    self.read_list(path).await.context(|| format!("manifest list `{path}`"))
                }
                SnapshotManifests::Inline(paths) => self.list_inline(snapshot, paths).await.map(Arc::new),
            }
        };
        load.await.map_err(|e| e.context(format!("snapshot {}", snapshot.snapshot_id)).context(self.place()))
    }

    async fn read_list(&self, path: &str) -> Result<Arc<Vec<ManifestFile>>> {
        let location = self.resolve(path)?;
        let key = Key { file: self.0.storage.cache_key(&location)?, role: Role::List };
        let load = async { ManifestList::parse(self.0.storage.read(&location).await?) };
        self.0.cache.list(key, load).await
    }

    /// Old snapshots name their manifests themselves; the rest is in the files (spec, "Snapshots").
    async fn list_inline(&self, snapshot: &Snapshot, paths: &[String]) -> Result<Vec<ManifestFile>> {
        let describe = |path: String| async move {
            let described = async {
                let location = self.resolve(&path)?;
                self.describe_manifest(snapshot, &path, &location).await
            };
            described.await.context(|| format!("manifest `{path}`"))
        };
        futures::stream::iter(paths.to_vec()).map(describe).buffered(CONCURRENT_HEADERS).try_collect().await
    }

    async fn describe_manifest(
        &self,
        snapshot: &Snapshot,
        path: &str,
        location: &Location,
    ) -> Result<ManifestFile> {
        let bytes = self.0.storage.read(location).await?;
        let manifest_length = i64::try_from(bytes.len()).map_err(|_| Error::invalid("an absurd length"))?;
        let header = ContainerReader::open(bytes)?;
        let partition_spec_id = match header.text("partition-spec-id") {
            Some(text) => SpecId(text.trim().parse().map_err(|_| {
                Error::invalid(format!("`{text}` is not a number")).context("header `partition-spec-id`")
            })?),
            // Version 1 did not require it, and gave the first spec the id 0.
            None => SpecId(0),
        };
        Ok(ManifestFile {
            added_snapshot_id: Some(snapshot.snapshot_id),
            ..ManifestFile::unlisted(path, manifest_length, partition_spec_id)
        })
    }

    /// A manifest with its entries, from the cache or read and decoded within this call.
    ///
    /// # Errors
    /// As [`Table::manifest_list`], and `DataInvalid` if the table has no such partition spec or the
    /// file is shorter than the manifest list says.
    pub async fn manifest(&self, file: &ManifestFile) -> Result<Arc<Manifest>> {
        self.read_manifest(file).await.map_err(|e| e.context(self.place()))
    }

    async fn read_manifest(&self, file: &ManifestFile) -> Result<Arc<Manifest>> {
        // Decoding names the manifest itself.
        let place = || format!("manifest {}", file.manifest_path);
        let (partition, location, key) = self.look_up_manifest(file).context(place)?;
        let load = async {
            let bytes = self.read_manifest_file(file, &location).await.context(place)?;
            Manifest::parse(bytes, file, &partition.spec, &partition.partition_type)
        };
        self.0.cache.manifest(key, load).await
    }

    fn look_up_manifest(&self, file: &ManifestFile) -> Result<(&SpecPartition, Location, Key)> {
        if file.key_metadata.as_ref().is_some_and(|key| !key.is_empty()) {
            return Err(Error::unsupported("encrypted manifests"));
        }
        let partition = self.spec_partition(file.partition_spec_id)?;
        let location = self.resolve(&file.manifest_path)?;
        let role = Role::Manifest {
            sequence_number: file.sequence_number,
            added_snapshot_id: file.added_snapshot_id,
            first_row_id: file.first_row_id,
            is_deletes: file.content == ManifestContent::Deletes,
            partition: Arc::clone(&partition.fingerprint),
        };
        let key = Key { file: self.0.storage.cache_key(&location)?, role };
        Ok((partition, location, key))
    }

    async fn read_manifest_file(&self, file: &ManifestFile, location: &Location) -> Result<Bytes> {
        let bytes = self.0.storage.read(location).await?;
        // One that was cut off between two blocks would be read without an error, and its files
        // would be missing.
        if i64::try_from(bytes.len()).is_ok_and(|length| length < file.manifest_length) {
            let expected = file.manifest_length;
            let message =
                format!("the file has {} bytes, but the manifest list says {expected}", bytes.len());
            return Err(Error::invalid(message));
        }
        Ok(bytes)
    }
}
