//! Table metadata as JSON (spec, "Table Metadata", Appendix C, and Appendix E for what changed
//! between versions). Reads what old and careless writers left out; writes what is required.

use std::borrow::Cow;
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
const MAX_INFLATED: u64 = 512 << 20;
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
        let json: Json = serde_json::from_slice(&inflated(bytes, "table metadata")?)
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

/// The text of a metadata file of a table or view (`what`), compressed with gzip or not.
pub(super) fn inflated<'a>(bytes: &'a [u8], what: &str) -> Result<Cow<'a, [u8]>> {
    if !bytes.starts_with(&GZIP_MAGIC) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut inflated = Vec::new();
    // The buffer grows with what really comes out.
    MultiGzDecoder::new(bytes)
        .take(MAX_INFLATED + 1)
        .read_to_end(&mut inflated)
        .map_err(|e| Error::invalid(format!("{what} is not valid gzip")).with_source(e))?;
    if inflated.len() as u64 > MAX_INFLATED {
        return Err(Error::unsupported(format!("{what} inflates to more than {MAX_INFLATED} bytes")));
    }
    Ok(Cow::Owned(inflated))
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
    let refs = object.opt("refs", |n| n.map(SnapshotRef::read))?.unwrap_or_default();
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
        is_partial: false,
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
                .req("schemas", |node| Err(node.error("holds no schema, and there is no `schema`")));
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
    metadata.require_all_snapshots("writing its metadata")?;
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

#[cfg(test)]
mod tests {
    use super::super::snapshot::SnapshotManifests;
    use super::super::value::Value;
    use super::*;
    use crate::error::ErrorKind;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use serde_json::json;
    use std::io::Write;

    const LEGACY: &[u8] = include_bytes!("../../testdata/metadata/spark_v1_legacy.metadata.json");
    const V1_GZIP: &[u8] = include_bytes!("../../testdata/metadata/spark_v1.gz.metadata.json");
    const REFS: &[u8] = include_bytes!("../../testdata/metadata/spark_v2_branches_tags.metadata.json");
    const DEFAULTS: &[u8] = include_bytes!("../../testdata/metadata/spark_v3_default_values.metadata.json");
    const PYICEBERG: &[u8] = include_bytes!("../../testdata/metadata/pyiceberg_v2_partitioned.metadata.json");
    const DUCKDB: &[u8] = include_bytes!("../../testdata/metadata/duckdb_v2_copy.metadata.json");

    /// A complete table of version 2 with two snapshots.
    fn table() -> Json {
        let schema = json!({"type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "a", "required": false, "type": "int"}
        ]});
        let snapshot = |id: i64| {
            json!({
                "snapshot-id": id, "sequence-number": id, "timestamp-ms": id, "manifest-list": "s3://b/l",
                "summary": {"operation": "append"}, "schema-id": 0
            })
        };
        json!({
            "format-version": 2, "table-uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
            "location": "s3://b/t", "last-sequence-number": 2, "last-updated-ms": 5, "last-column-id": 1,
            "schemas": [schema], "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": [
                {"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"}
            ]}],
            "default-spec-id": 0, "last-partition-id": 1000,
            "sort-orders": [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [
                {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
            ]}],
            "default-sort-order-id": 1,
            "properties": {"p": "1"}, "current-snapshot-id": 2, "snapshots": [snapshot(1), snapshot(2)],
            "refs": {"main": {"snapshot-id": 2, "type": "branch"}},
            "snapshot-log": [{"timestamp-ms": 1, "snapshot-id": 1}, {"timestamp-ms": 2, "snapshot-id": 2}],
            "metadata-log": [{"timestamp-ms": 1, "metadata-file": "s3://b/v1.metadata.json"}]
        })
    }

    fn read(json: &Json) -> Result<TableMetadata> {
        TableMetadata::from_json(json.to_string().as_bytes())
    }

    /// The table with some members replaced; null removes one.
    fn with(changes: Json) -> Json {
        let mut json = table();
        for (name, value) in changes.as_object().unwrap() {
            json[name] = value.clone();
        }
        json.as_object_mut().unwrap().retain(|_, v| !v.is_null());
        json
    }

    fn fails(changes: Json) -> String {
        let error = read(&with(changes.clone())).expect_err(&changes.to_string());
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
        error.to_string()
    }

    #[test]
    fn everything_survives_a_round_trip() {
        for changes in [
            json!({}),
            json!({"x": {"y": [1.5, "z"]}}),
            json!({"statistics": [{"snapshot-id": 1}], "partition-statistics": [{"snapshot-id": 1}]}),
            json!({"format-version": 3, "next-row-id": 7, "encryption-keys": [{"key-id": "k"}]}),
            json!({"format-version": 4, "next-row-id": 7, "location": null}),
            json!({"properties": {}, "snapshots": [], "refs": {}, "snapshot-log": [], "current-snapshot-id": -1}),
        ] {
            let json = with(changes);
            assert_eq!(read(&json).unwrap().to_json_value().unwrap(), json);
        }
        for file in [LEGACY, V1_GZIP, REFS, DEFAULTS, PYICEBERG, DUCKDB] {
            let metadata = TableMetadata::from_json(file).unwrap();
            assert_eq!(TableMetadata::from_json(&metadata.to_json().unwrap()).unwrap(), metadata);
        }
    }

    #[test]
    fn the_oldest_metadata() {
        let metadata = TableMetadata::from_json(LEGACY).unwrap();
        assert_eq!(metadata.format_version, 1);
        assert_eq!(metadata.current_schema().fields().len(), 3);
        assert_eq!(metadata.default_spec().fields[0].field_id, FieldId(1000));
        assert_eq!(metadata.last_partition_id, FieldId(1000));
        assert_eq!(metadata.default_sort_order().fields, []);
        assert_eq!(metadata.refs[MAIN_BRANCH].snapshot_id, metadata.current_snapshot_id.unwrap());
        assert!(
            metadata
                .snapshots
                .iter()
                .all(|s| s.sequence_number == SequenceNumber(0) && s.schema_id.is_none())
        );
        let SnapshotManifests::Inline(paths) = &metadata.current_snapshot().unwrap().manifests else {
            panic!("inline manifests");
        };
        assert_eq!(paths.len(), 2);
        let json = metadata.to_json_value().unwrap();
        assert_eq!(json["schema"], json["schemas"][0]);
        assert_eq!(json["partition-spec"][0]["source-id"], 2);
        assert_eq!(json["snapshots"][1]["manifests"].as_array().unwrap().len(), 2);
        assert_eq!(json["snapshots"][0].get("sequence-number"), None);
        assert_eq!(json.get("last-sequence-number"), None);
        assert_eq!(json.get("next-row-id"), None);
    }

    #[test]
    fn what_v1_may_leave_out() {
        let schema = table()["schemas"][0].clone();
        let v1 = json!({
            "format-version": 1, "location": "/t", "last-updated-ms": 1, "last-column-id": 1, "schema": schema
        });
        let metadata = read(&v1).unwrap();
        assert_eq!(metadata.table_uuid, None);
        assert!(metadata.default_spec().is_unpartitioned());
        assert_eq!(metadata.last_partition_id, FieldId(999));
        assert_eq!((metadata.current_snapshot_id, metadata.refs.len()), (None, 0));
        assert_eq!(metadata.to_json_value().unwrap()["current-snapshot-id"], -1);
        let mut only_schemas = v1.clone();
        only_schemas["schemas"] = json!([schema]);
        only_schemas.as_object_mut().unwrap().remove("schema");
        assert_eq!(read(&only_schemas).unwrap(), metadata);
        only_schemas["schemas"] = json!([]);
        assert!(read(&only_schemas).unwrap_err().to_string().contains("field `schemas`"));
        // Of several, `schema` says which is current; `schemas` wins where both have it.
        let mut other = schema.clone();
        other["schema-id"] = json!(1);
        let mut both = v1;
        both["schemas"] = json!([other, schema]);
        assert_eq!(read(&both).unwrap().current_schema_id, SchemaId(0));
        both["current-schema-id"] = json!(1);
        both["schema"] = json!("broken");
        assert_eq!(read(&both).unwrap().current_schema_id, SchemaId(1));
    }

    #[test]
    fn duckdb_leaves_things_out() {
        let metadata = TableMetadata::from_json(DUCKDB).unwrap();
        assert_eq!(metadata.last_sequence_number, SequenceNumber(0));
        assert!(metadata.default_sort_order().fields.is_empty());
        assert_eq!(metadata.last_partition_id, FieldId(999));
        assert!(metadata.current_snapshot().is_some());
        let derived = read(&with(json!({"last-sequence-number": null}))).unwrap();
        assert_eq!(derived.last_sequence_number, SequenceNumber(2));
        for orders in [json!([]), json!(null)] {
            let changes = json!({"sort-orders": orders, "default-sort-order-id": null});
            assert_eq!(read(&with(changes)).unwrap().default_sort_order_id, SortOrderId(0));
        }
        let mut upgraded = table();
        upgraded["snapshots"][0].as_object_mut().unwrap().remove("sequence-number");
        assert_eq!(read(&upgraded).unwrap().snapshots[0].sequence_number, SequenceNumber(0));
        let v3 = json!({"format-version": 3, "snapshots": [
            {"snapshot-id": 2, "timestamp-ms": 2, "manifest-list": "l", "first-row-id": 5, "added-rows": 3}
        ]});
        assert_eq!(read(&with(v3)).unwrap().next_row_id, 8);
    }

    #[test]
    fn the_current_snapshot_is_main() {
        let main = json!({"main": {"snapshot-id": 2, "type": "branch"}});
        let tag = json!({"t": {"snapshot-id": 1, "type": "tag"}});
        for (current, refs) in [
            (json!(2), json!(null)),
            (json!(2), json!({})),
            (json!(2), tag),
            (json!(-1), main.clone()),
            (json!(null), main),
        ] {
            let metadata = read(&with(json!({"current-snapshot-id": current, "refs": refs}))).unwrap();
            assert_eq!(metadata.current_snapshot_id, Some(SnapshotId(2)));
            assert_eq!(metadata.refs[MAIN_BRANCH].snapshot_id, SnapshotId(2));
            assert_eq!(metadata.refs[MAIN_BRANCH].ref_type, RefType::Branch);
        }
        for (current, written) in [(2, json!(-1)), (3, json!(null))] {
            let changes = json!({"format-version": current, "current-snapshot-id": -1, "refs": null});
            let metadata = read(&with(changes)).unwrap();
            assert_eq!(metadata.current_snapshot_id, None);
            assert_eq!(metadata.to_json_value().unwrap()["current-snapshot-id"], written);
        }
        assert!(fails(json!({"current-snapshot-id": 1})).contains("`main` is at 2"));
    }

    #[test]
    fn ids_of_what_is_not_there_are_errors() {
        for (changes, part) in [
            (json!({"current-schema-id": 7}), "`current-schema-id` is 7, which is none of 0"),
            (json!({"default-spec-id": 7}), "`default-spec-id` is 7, which is none of 0"),
            (json!({"default-sort-order-id": 7}), "`default-sort-order-id` is 7, which is none of 0, 1"),
            (json!({"current-snapshot-id": 7, "refs": null}), "field `current-snapshot-id`"),
            (
                json!({"refs": {"main": {"snapshot-id": 2, "type": "branch"}, "x": {"snapshot-id": 7, "type": "tag"}}}),
                "field `refs.x`: invalid data: snapshot 7",
            ),
            (json!({"refs": {"x": {"snapshot-id": 7}}}), "field `refs.x.type`"),
        ] {
            let found = fails(changes);
            assert!(found.contains(part), "{found}");
        }
    }

    #[test]
    fn wrong_types_and_missing_members_are_named() {
        for name in ["location", "last-updated-ms", "last-column-id", "schemas", "format-version"] {
            assert!(fails(json!({name: null})).contains(&format!("field `{name}`")), "{name}");
        }
        for (changes, part) in [
            (json!({"last-updated-ms": "5"}), "`last-updated-ms`"),
            (json!({"last-updated-ms": 5.0}), "`last-updated-ms`"),
            (json!({"last-column-id": 1_u64 << 40}), "`last-column-id`"),
            (json!({"table-uuid": "x"}), "`table-uuid`"),
            (json!({"properties": {"a": {}}}), "`properties.a`"),
            (json!({"properties": []}), "`properties`"),
            (json!({"snapshots": [{"snapshot-id": 1}]}), "`snapshots[0]"),
            (json!({"snapshot-log": [{"snapshot-id": 1}]}), "`snapshot-log[0].timestamp-ms`"),
            (json!({"metadata-log": [1]}), "`metadata-log[0]`"),
            (json!({"statistics": [1]}), "`statistics[0]`"),
            (json!({"format-version": "2"}), "`format-version`"),
            (json!({"format-version": 0}), "no format version 0"),
            (json!({"format-version": -1}), "no format version -1"),
        ] {
            let found = fails(changes);
            assert!(found.contains(part), "{found}");
        }
        let twice = |name: &str| {
            let mut json = table();
            let first = json[name][0].clone();
            json[name].as_array_mut().unwrap().push(first);
            read(&json).unwrap_err().to_string()
        };
        for name in ["schemas", "partition-specs", "sort-orders", "snapshots"] {
            let found = twice(name);
            assert!(found.contains(name) && found.contains("occurs twice"), "{found}");
        }
        for text in ["", "{", "[]", "null", "\u{feff}{}"] {
            assert!(TableMetadata::from_json(text.as_bytes()).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(TableMetadata::from_json(deep.as_bytes()).is_err());
    }

    #[test]
    fn newer_versions() {
        let error = read(&with(json!({"format-version": 5}))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("format version 5"), "{error}");
        let v4 = read(&with(json!({"format-version": 4, "location": null}))).unwrap();
        assert_eq!((v4.format_version, v4.location.as_str()), (4, ""));
    }

    #[test]
    fn ids_in_use_are_not_given_out_again() {
        let metadata = read(&with(json!({
            "last-column-id": 0, "last-partition-id": 0, "last-sequence-number": 0
        })))
        .unwrap();
        assert_eq!(metadata.last_column_id, FieldId(1));
        assert_eq!(metadata.last_partition_id, FieldId(1000));
        assert_eq!(metadata.last_sequence_number, SequenceNumber(2));
    }

    #[test]
    fn version_2_needs_a_uuid_when_written() {
        let metadata = read(&with(json!({"table-uuid": null}))).unwrap();
        assert!(metadata.to_json().unwrap_err().to_string().contains("`table-uuid`"));
    }

    #[test]
    fn what_other_writers_say() {
        let metadata = TableMetadata::from_json(REFS).unwrap();
        assert!(metadata.refs.values().any(|r| r.ref_type == RefType::Tag));
        assert!(metadata.refs.len() > 2);
        let metadata = TableMetadata::from_json(DEFAULTS).unwrap();
        let defaults = metadata.current_schema().fields().iter().filter_map(|f| f.initial_default.clone());
        assert!(defaults.clone().count() >= 8);
        assert!(defaults.clone().any(|d| d == Value::Int(42)));
        let metadata = TableMetadata::from_json(V1_GZIP).unwrap();
        assert_eq!(metadata.format_version, 1);
        let metadata = TableMetadata::from_json(PYICEBERG).unwrap();
        assert!(!metadata.default_spec().is_unpartitioned());
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_of_one_and_several_members() {
        let plain = TableMetadata::from_json(REFS).unwrap();
        assert_eq!(TableMetadata::from_json(&gzip(REFS)).unwrap(), plain);
        let (a, b) = REFS.split_at(1000);
        let members = [gzip(a), gzip(b)].concat();
        assert_eq!(TableMetadata::from_json(&members).unwrap(), plain);
        let zipped = gzip(REFS);
        let error = TableMetadata::from_json(&zipped[..zipped.len() / 2]).unwrap_err();
        assert!(error.to_string().contains("gzip"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn damaged_files_never_panic(
            file in 0..6_usize,
            at in any::<proptest::sample::Index>(),
            bytes in proptest::collection::vec(any::<u8>(), 1..4),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut damaged = [LEGACY, V1_GZIP, REFS, DEFAULTS, PYICEBERG, DUCKDB][file].to_vec();
            let i = at.index(damaged.len());
            for (old, new) in damaged[i..].iter_mut().zip(bytes) {
                *old = new;
            }
            if let Ok(metadata) = TableMetadata::from_json(&damaged) {
                // What can be read is consistent enough to be used.
                let _ = (metadata.current_schema(), metadata.default_spec(), metadata.default_sort_order());
                let _ = metadata.to_json();
            }
            let _ = TableMetadata::from_json(&damaged[..cut.index(damaged.len())]);
        }

        /// Any one value anywhere in the document replaced by one of another kind.
        #[test]
        fn misplaced_values_never_panic(
            file in 0..5_usize,
            at in any::<proptest::sample::Index>(),
            kind in 0..9_usize,
        ) {
            let file = [LEGACY, REFS, DEFAULTS, PYICEBERG, DUCKDB][file];
            let mut json: Json = serde_json::from_slice(file).unwrap();
            let count = visit(&mut json, &mut |_| {});
            let target = at.index(count);
            let with = [
                json!(null), json!(-1), json!(i64::MAX), json!(u64::MAX), json!(0.5), json!("x"), json!(""),
                json!([]), json!({}),
            ][kind].clone();
            let mut i = 0;
            visit(&mut json, &mut |value| {
                if i == target {
                    *value = with.clone();
                }
                i += 1;
            });
            if let Ok(metadata) = read(&json) {
                let _ = (metadata.current_schema(), metadata.default_spec(), metadata.default_sort_order());
                if metadata.table_uuid.is_some() {
                    let back = TableMetadata::from_json(&metadata.to_json().unwrap()).unwrap();
                    prop_assert_eq!(back, metadata);
                }
            }
        }
    }

    /// Calls `f` with each value of a document, children first; returns how many there are.
    fn visit(json: &mut Json, f: &mut impl FnMut(&mut Json)) -> usize {
        let below = match json {
            Json::Array(values) => values.iter_mut().map(|v| visit(v, f)).sum(),
            Json::Object(members) => members.values_mut().map(|v| visit(v, f)).sum(),
            _ => 0,
        };
        f(json);
        below + 1
    }
}
