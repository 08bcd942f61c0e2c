//! Small tables for the tests.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::spec::{TableMetadata, TableUpdate};
use crate::table::{OpenOptions, Table};

/// A table with nested columns, partitioned by `id` in 16 buckets and by day of `ts`.
pub(super) fn json(format_version: u8) -> Json {
    let mut table = json!({
        "format-version": format_version, "location": "memory://bucket/table", "last-updated-ms": 1000,
        "table-uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        "last-column-id": 14, "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "identifier-field-ids": [1], "fields": [
            {"id": 1, "name": "id", "required": true, "type": "int"},
            {"id": 2, "name": "name", "required": false, "type": "string", "doc": "of a person"},
            {"id": 3, "name": "ts", "required": false, "type": "timestamp"},
            {"id": 4, "name": "day", "required": false, "type": "date"},
            {"id": 5, "name": "point", "required": false, "type": {"type": "struct", "fields": [
                {"id": 6, "name": "x", "required": true, "type": "float"},
                {"id": 7, "name": "y", "required": false, "type": "float"}
            ]}},
            {"id": 8, "name": "tags", "required": false, "type": {
                "type": "map", "key-id": 9, "key": "string", "value-id": 10, "value-required": false,
                "value": {"type": "struct", "fields": [
                    {"id": 11, "name": "n", "required": false, "type": "decimal(9, 2)"}
                ]}
            }},
            {"id": 12, "name": "list", "required": false, "type": {
                "type": "list", "element-id": 13, "element-required": false, "element": {
                    "type": "struct", "fields": [{"id": 14, "name": "a", "required": false, "type": "int"}]
                }
            }}
        ]}],
        "default-spec-id": 0, "last-partition-id": 1001,
        "partition-specs": [{"spec-id": 0, "fields": [
            {"source-id": 1, "field-id": 1000, "name": "id_bucket_16", "transform": "bucket[16]"},
            {"source-id": 3, "field-id": 1001, "name": "ts_day", "transform": "day"}
        ]}],
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
        "last-sequence-number": 0, "next-row-id": 0, "properties": {}
    });
    if format_version < 3 {
        table.as_object_mut().unwrap().remove("next-row-id");
    }
    table
}

pub(super) fn table(format_version: u8) -> TableMetadata {
    TableMetadata::from_json_value(&json(format_version)).unwrap()
}

pub(super) fn with_properties(format_version: u8, properties: Json) -> TableMetadata {
    let mut json = json(format_version);
    json["properties"] = properties;
    TableMetadata::from_json_value(&json).unwrap()
}

/// The metadata after a commit, as a reader sees it.
pub(super) fn apply(base: &TableMetadata, updates: &[TableUpdate]) -> TableMetadata {
    let after = TableMetadata::apply(Some(base), updates, 2000).unwrap();
    let written = after.to_json_value().unwrap();
    let read = TableMetadata::from_json_value(&written).unwrap();
    assert_eq!(read, after);
    read
}

pub(super) fn opened(metadata: TableMetadata) -> Table {
    let location = "memory://bucket/table/metadata/v1.metadata.json";
    Table::from_metadata(Arc::new(metadata), location, &OpenOptions::new()).unwrap()
}
