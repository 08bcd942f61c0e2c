//! Table metadata as JSON (spec, "Table Metadata", Appendix C, and Appendix E for what changed
//! between versions). Reads what old and careless writers left out; writes what is required.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value as Json};
use uuid::Uuid;

use crate::error::{Error, Result, ResultExt};

use super::ids::{FieldId, SchemaId, SequenceNumber, SnapshotId, SortOrderId, SpecId};
use super::json::{Node, Object};
use super::partition::PartitionSpec;
use super::partition_json::{FIRST_PARTITION_FIELD_ID, read_partition_fields};
use super::schema::Schema;
use super::snapshot::{MetadataLogEntry, RefType, Snapshot, SnapshotLogEntry, SnapshotRef};
use super::snapshot_json::string_map;
use super::sort::SortOrder;
use super::table_metadata::{MAIN_BRANCH, TableMetadata};

/// The newest version of the format that is recognised.
const MAX_FORMAT_VERSION: i32 = 4;
/// What a gzip file may inflate to.
const MAX_INFLATED: u64 = 1 << 30;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// How versions before 3 spell "no snapshot", for readers that require a number.
const NO_SNAPSHOT: i64 = -1;

impl TableMetadata {
    /// Reads a metadata file, compressed with gzip or not.
    ///
    /// # Errors
    /// `DataInvalid`, naming the member, for what is no metadata or contradicts itself;
    /// `Unsupported` for a version above 4.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let inflated;
        let text = if bytes.starts_with(&GZIP_MAGIC) {
            inflated = inflate(bytes)?;
            &inflated
        } else {
            bytes
        };
        let json: Json = serde_json::from_slice(text)
            .map_err(|e| Error::invalid("table metadata is not JSON").with_source(e))?;
        Self::from_json_value(&json)
    }

    /// Reads metadata that was part of another document.
    ///
    /// # Errors
    /// As for [`TableMetadata::from_json`].
    pub fn from_json_value(json: &Json) -> Result<Self> {
        read(&Node::root(json))
    }

    /// Writes the metadata file, not compressed.
    ///
    /// # Errors
    /// `DataInvalid` for metadata that its version does not allow.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.to_json_value()?)
            .map_err(|e| Error::invalid("table metadata can't be written").with_source(e))
    }

    /// Writes the metadata as part of another document.
    ///
    /// # Errors
    /// As for [`TableMetadata::to_json`].
    pub fn to_json_value(&self) -> Result<Json> {
        write(self)
    }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut inflated = Vec::new();
    // The buffer grows with what really comes out.
    MultiGzDecoder::new(bytes)
        .take(MAX_INFLATED + 1)
        .read_to_end(&mut inflated)
        .map_err(|e| Error::invalid("table metadata is not valid gzip").with_source(e))?;
    if inflated.len() as u64 > MAX_INFLATED {
        return Err(Error::unsupported(format!("table metadata inflates to more than {MAX_INFLATED} bytes")));
    }
    Ok(inflated)
}

fn read(node: &Node<'_>) -> Result<TableMetadata> {
    let object = node.object()?;
    let format_version = object.req("format-version", read_version)?;
    let (schemas, current_schema_id) = read_schemas(&object)?;
    let (partition_specs, default_spec_id) = read_specs(&object)?;
    let (sort_orders, default_sort_order_id) = read_sort_orders(&object)?;
    let snapshots = object.list("snapshots", |n| {
        let mut snapshot = Snapshot::read(n)?;
        if format_version == 1 {
            snapshot.sequence_number = SequenceNumber(0);
        }
        Ok(Arc::new(snapshot))
    })?;
    // Ids that are lower than what is in use would be given out again by a writer.
    let last_column_id = schemas
        .values()
        .map(|s| s.highest_field_id())
        .fold(FieldId(object.req("last-column-id", Node::i32)?), FieldId::max);
    let last_partition_id = partition_specs
        .values()
        .flat_map(|spec| spec.fields.iter().map(|f| f.field_id))
        .chain(object.opt("last-partition-id", Node::i32)?.map(FieldId))
        .fold(FieldId(FIRST_PARTITION_FIELD_ID - 1), FieldId::max);
    // DuckDB leaves it out.
    let last_sequence_number = object.opt("last-sequence-number", Node::i64)?;
    let last_sequence_number = match format_version {
        1 => SequenceNumber(0),
        _ => snapshots
            .iter()
            .map(|s| s.sequence_number)
            .fold(SequenceNumber(last_sequence_number.unwrap_or(0)), SequenceNumber::max),
    };
    let next_row_id = object.opt("next-row-id", Node::i64)?;
    let next_row_id = if format_version >= 3 {
        let used = |s: &Arc<Snapshot>| s.first_row_id?.checked_add(s.added_rows.unwrap_or(0));
        next_row_id.unwrap_or_else(|| snapshots.iter().filter_map(used).fold(0, i64::max))
    } else {
        0
    };
    let current_snapshot_id =
        object.opt("current-snapshot-id", Node::i64)?.filter(|id| *id != NO_SNAPSHOT).map(SnapshotId);
    let refs = object.opt("refs", |n| n.map(|n| SnapshotRef::read(n)))?.unwrap_or_default();
    let location = match object.opt("location", Node::string)? {
        None if format_version >= 4 => String::new(),
        None => object.req("location", Node::string)?,
        Some(location) => location,
    };
    let mut metadata = TableMetadata {
        format_version,
        table_uuid: object.opt("table-uuid", |n| {
            Uuid::try_parse(n.str()?).map_err(|e| n.error("is no UUID").with_source(e))
        })?,
        location,
        last_sequence_number,
        last_updated_ms: object.req("last-updated-ms", Node::i64)?,
        last_column_id,
        schemas,
        current_schema_id,
        partition_specs,
        default_spec_id,
        last_partition_id,
        properties: object.opt("properties", Node::string_map)?.unwrap_or_default(),
        current_snapshot_id,
        snapshots,
        snapshot_log: object.list("snapshot-log", SnapshotLogEntry::read)?,
        metadata_log: object.list("metadata-log", MetadataLogEntry::read)?,
        sort_orders,
        default_sort_order_id,
        refs,
        statistics: object.list("statistics", read_object)?,
        partition_statistics: object.list("partition-statistics", read_object)?,
        next_row_id,
        encryption_keys: object.list("encryption-keys", read_object)?,
        extra: object.extra(),
        snapshot_index: Default::default(),
    };
    metadata.index_snapshots();
    check_snapshots(&mut metadata)?;
    Ok(metadata)
}

fn read_version(node: &Node<'_>) -> Result<u8> {
    match node.i32()? {
        version if version > MAX_FORMAT_VERSION => {
            let message = format!(
                "format version {version} is newer than what this version of icefloe reads ({MAX_FORMAT_VERSION})"
            );
            Err(node.locate(Error::unsupported(message)))
        }
        version => match u8::try_from(version) {
            Ok(version) if version >= 1 => Ok(version),
            _ => Err(node.error(format!("there is no format version {version}"))),
        },
    }
}

fn read_object(node: &Node<'_>) -> Result<Json> {
    node.object().map(|_| node.json().clone())
}

/// `schemas` and `current-schema-id`; where old v1 writers left them out, `schema`.
fn read_schemas(object: &Object<'_>) -> Result<(BTreeMap<SchemaId, Arc<Schema>>, SchemaId)> {
    let schemas = object.list("schemas", Schema::read)?;
    // Newer members win, and then the old one need not even be right.
    let legacy = object.get("schema");
    let current = object.opt("current-schema-id", Node::i32)?.map(SchemaId);
    if schemas.is_empty() {
        let Some(node) = legacy else {
            return object
                .req("schemas", |_| Err(object.error("neither `schemas` nor `schema` holds a schema")));
        };
        let schema = Schema::read(&node)?;
        let id = schema.schema_id;
        return Ok((BTreeMap::from([(id, Arc::new(schema))]), id));
    }
    let schemas = by_id(object, "schemas", schemas.into_iter().map(|s| (s.schema_id, s)))?;
    let current = match (current, legacy) {
        (Some(id), _) => Some(id),
        (None, Some(node)) => Some(Schema::read(&node)?.schema_id),
        (None, None) => only_key(&schemas),
    };
    let current = chosen(object, "current-schema-id", &schemas, current)?;
    Ok((schemas, current))
}

/// `partition-specs` and `default-spec-id`; where old v1 writers left them out, `partition-spec`.
fn read_specs(object: &Object<'_>) -> Result<(BTreeMap<SpecId, Arc<PartitionSpec>>, SpecId)> {
    let specs = object.list("partition-specs", PartitionSpec::read)?;
    let legacy = object.get("partition-spec");
    let default = object.opt("default-spec-id", Node::i32)?.map(SpecId);
    if specs.is_empty() {
        let fields = legacy.map(|node| read_partition_fields(&node)).transpose()?.unwrap_or_default();
        let spec = PartitionSpec { spec_id: SpecId(0), fields };
        return Ok((BTreeMap::from([(spec.spec_id, Arc::new(spec))]), SpecId(0)));
    }
    let specs = by_id(object, "partition-specs", specs.into_iter().map(|s| (s.spec_id, s)))?;
    let default = chosen(object, "default-spec-id", &specs, default.or_else(|| only_key(&specs)))?;
    Ok((specs, default))
}

/// `sort-orders` and `default-sort-order-id`; the unsorted order is there even if it is not listed.
fn read_sort_orders(object: &Object<'_>) -> Result<(BTreeMap<SortOrderId, Arc<SortOrder>>, SortOrderId)> {
    let orders = object.list("sort-orders", SortOrder::read)?;
    let default = object.opt("default-sort-order-id", Node::i32)?.map_or(SortOrderId(0), SortOrderId);
    let mut orders = by_id(object, "sort-orders", orders.into_iter().map(|o| (o.order_id, o)))?;
    orders.entry(SortOrderId(0)).or_default();
    let default = chosen(object, "default-sort-order-id", &orders, Some(default))?;
    Ok((orders, default))
}

fn by_id<K: Ord + Copy + std::fmt::Display, T>(
    object: &Object<'_>,
    name: &str,
    items: impl Iterator<Item = (K, T)>,
) -> Result<BTreeMap<K, Arc<T>>> {
    let mut map = BTreeMap::new();
    for (id, item) in items {
        if map.insert(id, Arc::new(item)).is_some() {
            return Err(object.error(format!("id {id} occurs twice in `{name}`")));
        }
    }
    Ok(map)
}

fn only_key<K: Copy, T>(map: &BTreeMap<K, T>) -> Option<K> {
    map.keys().next().copied().filter(|_| map.len() == 1)
}

/// The chosen id, if it is one of the map's.
fn chosen<K: Ord + Copy + std::fmt::Display, T>(
    object: &Object<'_>,
    name: &'static str,
    map: &BTreeMap<K, T>,
    id: Option<K>,
) -> Result<K> {
    let Some(id) = id else {
        return object.req(name, |node| Err(node.error("is missing")));
    };
    if !map.contains_key(&id) {
        let known: Vec<String> = map.keys().map(K::to_string).collect();
        let message = format!("`{name}` is {id}, which is none of {}", known.join(", "));
        return Err(object.error(message));
    }
    Ok(id)
}

/// Makes `main` and the current snapshot the same where only one is given, and checks that all
/// references point somewhere.
fn check_snapshots(metadata: &mut TableMetadata) -> Result<()> {
    if metadata.snapshot_index.len() != metadata.snapshots.len() {
        let mut ids: Vec<SnapshotId> = metadata.snapshots.iter().map(|s| s.snapshot_id).collect();
        ids.sort_unstable();
        let twice = ids.array_windows().find(|[a, b]| a == b).map(|[a, _]| a.0).unwrap_or_default();
        return Err(Error::invalid(format!("snapshot id {twice} occurs twice")).context("field `snapshots`"));
    }
    let main = metadata.refs.get(MAIN_BRANCH).map(|r| r.snapshot_id);
    match (metadata.current_snapshot_id, main) {
        (Some(current), Some(main)) if current != main => {
            return Err(Error::invalid(format!(
                "`current-snapshot-id` is {current}, but the branch `{MAIN_BRANCH}` is at {main}"
            )));
        }
        (Some(current), None) => {
            let main = SnapshotRef::new(current, RefType::Branch);
            metadata.refs.insert(MAIN_BRANCH.to_owned(), main);
        }
        (None, main) => metadata.current_snapshot_id = main,
        _ => {}
    }
    if let Some(id) = metadata.current_snapshot_id
        && metadata.snapshot(id).is_none()
    {
        return Err(Error::invalid(format!("snapshot {id} is not in `snapshots`"))
            .context("field `current-snapshot-id`"));
    }
    for (name, reference) in &metadata.refs {
        if metadata.snapshot(reference.snapshot_id).is_none() {
            return Err(Error::invalid(format!("snapshot {} is not in `snapshots`", reference.snapshot_id))
                .context(format!("field `refs.{name}`")));
        }
    }
    Ok(())
}

fn write(metadata: &TableMetadata) -> Result<Json> {
    let version = metadata.format_version;
    let mut members = metadata.extra.clone();
    let mut insert = |name: &str, value: Json| members.insert(name.to_owned(), value);
    insert("format-version", version.into());
    match metadata.table_uuid {
        Some(uuid) => drop(insert("table-uuid", uuid.hyphenated().to_string().into())),
        None if version >= 2 => {
            return Err(Error::invalid(format!("a table of version {version} needs one"))
                .context("field `table-uuid`"));
        }
        None => {}
    }
    if version < 4 || !metadata.location.is_empty() {
        insert("location", metadata.location.as_str().into());
    }
    if version >= 2 {
        insert("last-sequence-number", metadata.last_sequence_number.0.into());
    }
    insert("last-updated-ms", metadata.last_updated_ms.into());
    insert("last-column-id", metadata.last_column_id.0.into());

    let schemas =
        metadata.schemas.values().map(|s| s.to_json().context(|| format!("schema {}", s.schema_id)));
    insert("schemas", Json::Array(schemas.collect::<Result<_>>()?));
    insert("current-schema-id", metadata.current_schema_id.0.into());
    insert("partition-specs", metadata.partition_specs.values().map(|s| s.to_json()).collect());
    insert("default-spec-id", metadata.default_spec_id.0.into());
    insert("last-partition-id", metadata.last_partition_id.0.into());
    insert("sort-orders", metadata.sort_orders.values().map(|o| o.to_json()).collect());
    insert("default-sort-order-id", metadata.default_sort_order_id.0.into());
    if version == 1 {
        insert("schema", metadata.current_schema().to_json()?);
        insert("partition-spec", metadata.default_spec().fields_to_json());
    }

    insert("properties", string_map(&metadata.properties));
    match metadata.current_snapshot_id {
        Some(id) => drop(insert("current-snapshot-id", id.0.into())),
        None if version < 3 => drop(insert("current-snapshot-id", NO_SNAPSHOT.into())),
        None => {}
    }
    insert("snapshots", metadata.snapshots.iter().map(|s| s.to_json(version)).collect());
    let refs: Map<String, Json> = metadata.refs.iter().map(|(k, r)| (k.clone(), r.to_json())).collect();
    insert("refs", Json::Object(refs));
    insert("snapshot-log", metadata.snapshot_log.iter().map(|e| e.to_json()).collect());
    insert("metadata-log", metadata.metadata_log.iter().map(MetadataLogEntry::to_json).collect());
    if version >= 3 {
        insert("next-row-id", metadata.next_row_id.into());
    }
    for (name, list) in [
        ("statistics", &metadata.statistics),
        ("partition-statistics", &metadata.partition_statistics),
        ("encryption-keys", &metadata.encryption_keys),
    ] {
        if !list.is_empty() {
            insert(name, Json::Array(list.clone()));
        }
    }
    Ok(Json::Object(members))
}
