//! Table metadata after a commit's updates: what the specification and readers demand of it.

mod checks;
mod creation;
mod fresh_ids;
mod replacement;
mod schemas;
mod snapshots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result, ResultExt};

pub(super) use fresh_ids::assign_fresh_ids;

use super::ids::{FieldId, SchemaId, SequenceNumber, SnapshotId, SortOrderId, SpecId};
use super::partition_json::FIRST_PARTITION_FIELD_ID;
use super::sort::SortOrder;
use super::table_metadata::TableMetadata;
use super::table_update::TableUpdate;

/// The version of new tables that don't ask for another.
pub(crate) const DEFAULT_FORMAT_VERSION: u8 = 2;
/// The newest version that is written.
pub(crate) const MAX_WRITTEN_FORMAT_VERSION: u8 = 3;
/// By how much the clocks of writers may differ.
const CLOCK_SKEW_MS: i64 = 60_000;

/// The property that chooses the format version; it is never stored.
pub(crate) const FORMAT_VERSION_PROPERTY: &str = "format-version";

/// Properties that engines show as if they were the table's; none of them is stored.
const RESERVED_PROPERTIES: [&str; 9] = [
    FORMAT_VERSION_PROPERTY,
    "uuid",
    "snapshot-count",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
];

impl TableMetadata {
    /// The metadata after `updates`, in order; without a `base` they create the table. `now_ms`
    /// (milliseconds since 1970 UTC) stamps it, unless the base was stamped later. Updates that
    /// change nothing give the base again. The metadata log stays as it is: see
    /// [`TableMetadata::log_previous`].
    ///
    /// Added schemas, specs and sort orders that equal one that is there take its id, others the
    /// next free one, whatever id they came with: servers of the REST protocol do the same.
    ///
    /// # Errors
    /// `DataInvalid` for an update that the specification forbids; `ValidationFailed` for one that
    /// contradicts what the table has; `CommitConflict` for one that was made for an earlier state of
    /// the table, such as what names a snapshot or a spec that is gone; `Unsupported` for versions of the format that are not written.
    pub fn apply(base: Option<&TableMetadata>, updates: &[TableUpdate], now_ms: i64) -> Result<Self> {
        let mut builder = Builder::new(base, updates, now_ms)?;
        for update in updates {
            builder.update(update).context(|| format!("update `{}`", update.action()))?;
        }
        builder.finish()
    }
}

/// Metadata in the making.
struct Builder<'a> {
    base: Option<&'a TableMetadata>,
    metadata: TableMetadata,
    /// The stamp of the result.
    now_ms: i64,
    last_added_schema: Option<SchemaId>,
    last_added_spec: Option<SpecId>,
    last_added_order: Option<SortOrderId>,
    added_snapshots: HashSet<SnapshotId>,
    /// Added snapshots that `main` was at.
    added_and_current: HashSet<SnapshotId>,
    removed_snapshots: HashSet<SnapshotId>,
    removed_schemas: HashSet<SchemaId>,
}

impl<'a> Builder<'a> {
    fn new(base: Option<&'a TableMetadata>, updates: &[TableUpdate], now_ms: i64) -> Result<Self> {
        let metadata = match base {
            Some(base) => {
                base.require_all_snapshots("a change")?;
                base.clone()
            }
            None => {
                // A table that is created has the version it asks for, also an old one.
                let version = updates.iter().find_map(|update| match update {
                    TableUpdate::UpgradeFormatVersion(version) => Some(*version),
                    _ => None,
                });
                empty(version.unwrap_or(DEFAULT_FORMAT_VERSION))
            }
        };
        check_version(metadata.format_version)?;
        Ok(Self {
            base,
            now_ms: now_ms.max(metadata.last_updated_ms),
            metadata,
            last_added_schema: None,
            last_added_spec: None,
            last_added_order: None,
            added_snapshots: HashSet::new(),
            added_and_current: HashSet::new(),
            removed_snapshots: HashSet::new(),
            removed_schemas: HashSet::new(),
        })
    }

    fn update(&mut self, update: &TableUpdate) -> Result<()> {
        match update {
            TableUpdate::AssignUuid(uuid) => self.assign_uuid(*uuid),
            TableUpdate::UpgradeFormatVersion(version) => self.upgrade(*version),
            TableUpdate::AddSchema(schema) => self.add_schema(schema),
            TableUpdate::SetCurrentSchema(id) => self.set_current_schema(*id),
            TableUpdate::AddSpec(spec) => self.add_spec(spec),
            TableUpdate::SetDefaultSpec(id) => self.set_default_spec(*id),
            TableUpdate::AddSortOrder(order) => self.add_sort_order(order),
            TableUpdate::SetDefaultSortOrder(id) => self.set_default_sort_order(*id),
            TableUpdate::AddSnapshot(snapshot) => self.add_snapshot(snapshot),
            TableUpdate::SetSnapshotRef { name, reference } => self.set_ref(name, reference),
            TableUpdate::RemoveSnapshots(ids) => self.remove_snapshots(ids),
            TableUpdate::RemoveSnapshotRef(name) => {
                self.remove_ref(name);
                Ok(())
            }
            TableUpdate::SetLocation(location) => self.set_location(location),
            TableUpdate::SetProperties(properties) => self.set_properties(properties),
            TableUpdate::RemoveProperties(names) => {
                names.iter().for_each(|name| drop(self.metadata.properties.remove(name)));
                Ok(())
            }
            TableUpdate::SetStatistics(file) => set_file(&mut self.metadata.statistics, file),
            TableUpdate::RemoveStatistics(id) => {
                remove_files(&mut self.metadata.statistics, |of| of == *id);
                Ok(())
            }
            TableUpdate::SetPartitionStatistics(file) => {
                set_file(&mut self.metadata.partition_statistics, file)
            }
            TableUpdate::RemovePartitionStatistics(id) => {
                remove_files(&mut self.metadata.partition_statistics, |of| of == *id);
                Ok(())
            }
            TableUpdate::RemovePartitionSpecs(ids) => self.remove_specs(ids),
            TableUpdate::RemoveSchemas(ids) => self.remove_schemas(ids),
            TableUpdate::AddEncryptionKey(key) => self.add_encryption_key(key),
            TableUpdate::RemoveEncryptionKey(id) => {
                self.metadata.encryption_keys.retain(|key| key_id(key) != Some(id));
                Ok(())
            }
        }
    }

    fn assign_uuid(&mut self, uuid: Uuid) -> Result<()> {
        match self.metadata.table_uuid {
            Some(before) if before != uuid && self.base.is_some() => {
                Err(refused(format!("the table's UUID is {before}; it can't become {uuid}")))
            }
            _ => {
                self.metadata.table_uuid = Some(uuid);
                Ok(())
            }
        }
    }

    fn upgrade(&mut self, version: u8) -> Result<()> {
        check_version(version)?;
        let before = self.metadata.format_version;
        if version < before {
            return Err(refused(format!("a table of version {before} can't go back to version {version}")));
        }
        self.metadata.format_version = version;
        Ok(())
    }

    fn set_location(&mut self, location: &str) -> Result<()> {
        if location.is_empty() {
            return Err(Error::invalid("a table's location can't be empty"));
        }
        self.metadata.location = without_trailing_slash(location).to_owned();
        Ok(())
    }

    fn set_properties(&mut self, properties: &BTreeMap<String, String>) -> Result<()> {
        for (name, value) in properties {
            if name == FORMAT_VERSION_PROPERTY {
                self.upgrade(parse_version(value)?)?;
            } else if is_reserved(name) {
                return Err(Error::invalid("this property is reserved and can't be set")
                    .context(format!("property `{name}`")));
            } else {
                self.metadata.properties.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }

    fn add_encryption_key(&mut self, key: &Json) -> Result<()> {
        let id = key_id(key).ok_or_else(|| Error::invalid("is missing").context("field `key-id`"))?;
        if self.metadata.format_version < 3 {
            return Err(refused("encryption keys need a table of version 3"));
        }
        if !self.metadata.encryption_keys.iter().any(|known| key_id(known) == Some(id)) {
            self.metadata.encryption_keys.push(key.clone());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<TableMetadata> {
        self.prune_snapshot_log();
        self.check_references()?;
        if self.base.is_some_and(|base| *base == self.metadata) {
            return Ok(self.metadata);
        }
        let metadata = &mut self.metadata;
        if metadata.table_uuid.is_none() && (self.base.is_none() || metadata.format_version >= 2) {
            metadata.table_uuid = Some(Uuid::new_v4());
        }
        metadata.last_updated_ms = self.now_ms;
        Ok(self.metadata)
    }
}

/// A table before its first update.
fn empty(format_version: u8) -> TableMetadata {
    TableMetadata {
        format_version,
        table_uuid: None,
        location: String::new(),
        last_sequence_number: SequenceNumber(0),
        last_updated_ms: i64::MIN,
        last_column_id: FieldId(0),
        schemas: BTreeMap::new(),
        // No id that exists; `finish` wants one that does.
        current_schema_id: SchemaId(-1),
        partition_specs: BTreeMap::new(),
        default_spec_id: SpecId(-1),
        last_partition_id: FieldId(FIRST_PARTITION_FIELD_ID - 1),
        properties: BTreeMap::new(),
        current_snapshot_id: None,
        snapshots: Vec::new(),
        snapshot_log: Vec::new(),
        metadata_log: Vec::new(),
        sort_orders: BTreeMap::from([(SortOrderId(0), Arc::new(SortOrder::default()))]),
        default_sort_order_id: SortOrderId(0),
        refs: BTreeMap::new(),
        statistics: Vec::new(),
        partition_statistics: Vec::new(),
        next_row_id: 0,
        encryption_keys: Vec::new(),
        extra: serde_json::Map::new(),
        snapshot_index: HashMap::new(),
        is_partial: false,
    }
}

fn check_version(version: u8) -> Result<()> {
    match version {
        1..=MAX_WRITTEN_FORMAT_VERSION => Ok(()),
        0 => Err(Error::invalid("there is no format version 0")),
        newer => Err(Error::unsupported(format!(
            "icefloe doesn't write tables of version {newer}; the newest that it writes is {MAX_WRITTEN_FORMAT_VERSION}"
        ))),
    }
}

/// The value of the property `format-version`.
fn parse_version(value: &str) -> Result<u8> {
    let parsed = value.trim().parse::<u8>();
    parsed
        .map_err(|e| Error::invalid(format!("expected a format version, found `{value}`")).with_source(e))
        .and_then(|version| check_version(version).map(|()| version))
        .context(|| format!("property `{FORMAT_VERSION_PROPERTY}`"))
}

/// Whether a property is one that tables never store.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED_PROPERTIES.contains(&name)
}

/// A location as metadata has it; the slash of `s3://` and of `/` stays.
pub(super) fn without_trailing_slash(location: &str) -> &str {
    let mut rest = location;
    while let Some(shorter) = rest.strip_suffix('/') {
        if shorter.is_empty() || rest.ends_with("://") {
            break;
        }
        rest = shorter;
    }
    rest
}

fn key_id(key: &Json) -> Option<&str> {
    key.get("key-id")?.as_str()
}

/// The snapshot that a statistics file is about.
fn file_snapshot(file: &Json) -> Option<SnapshotId> {
    file.get("snapshot-id")?.as_i64().map(SnapshotId)
}

/// A snapshot has one file of statistics: the new one replaces the old one.
fn set_file(files: &mut Vec<Json>, file: &Json) -> Result<()> {
    let id = file_snapshot(file)
        .ok_or_else(|| Error::invalid("expected a 64-bit integer").context("field `snapshot-id`"))?;
    if !file.get("statistics-path").is_some_and(Json::is_string) {
        return Err(Error::invalid("expected a string").context("field `statistics-path`"));
    }
    remove_files(files, |of| of == id);
    files.push(file.clone());
    Ok(())
}

fn remove_files(files: &mut Vec<Json>, remove: impl Fn(SnapshotId) -> bool) {
    files.retain(|file| !file_snapshot(file).is_some_and(&remove));
}

/// An error of an update that the table, as it is, does not allow.
fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ValidationFailed, message)
}

/// An error of a snapshot that was made for an earlier state of the table.
fn outdated(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::CommitConflict, message)
}
