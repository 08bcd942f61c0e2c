//! The fields of manifests and manifest lists (spec, "Manifests" and "Manifest Lists").

use super::avro::RecordField;
use super::types::{ListType, MapType, NestedField, PrimitiveType as P, StructType, Type};
use crate::error::{Error, Result};

/// Fields of a struct by id, with the names that writers have used for them, the current first.
pub(crate) type Names = &'static [(i32, &'static [&'static str])];

/// Field ids of `manifest_entry` and `data_file`.
pub(crate) mod entry_id {
    pub(crate) const STATUS: i32 = 0;
    pub(crate) const SNAPSHOT_ID: i32 = 1;
    pub(crate) const DATA_FILE: i32 = 2;
    pub(crate) const SEQUENCE_NUMBER: i32 = 3;
    pub(crate) const FILE_SEQUENCE_NUMBER: i32 = 4;
    pub(crate) const FILE_PATH: i32 = 100;
    pub(crate) const FILE_FORMAT: i32 = 101;
    pub(crate) const PARTITION: i32 = 102;
    pub(crate) const RECORD_COUNT: i32 = 103;
    pub(crate) const FILE_SIZE: i32 = 104;
    pub(crate) const COLUMN_SIZES: i32 = 108;
    pub(crate) const VALUE_COUNTS: i32 = 109;
    pub(crate) const NULL_VALUE_COUNTS: i32 = 110;
    pub(crate) const LOWER_BOUNDS: i32 = 125;
    pub(crate) const UPPER_BOUNDS: i32 = 128;
    pub(crate) const KEY_METADATA: i32 = 131;
    pub(crate) const SPLIT_OFFSETS: i32 = 132;
    pub(crate) const CONTENT: i32 = 134;
    pub(crate) const EQUALITY_IDS: i32 = 135;
    pub(crate) const NAN_VALUE_COUNTS: i32 = 137;
    pub(crate) const SORT_ORDER_ID: i32 = 140;
    pub(crate) const FIRST_ROW_ID: i32 = 142;
    pub(crate) const REFERENCED_DATA_FILE: i32 = 143;
    pub(crate) const CONTENT_OFFSET: i32 = 144;
    pub(crate) const CONTENT_SIZE: i32 = 145;
}

/// Field ids of `manifest_file` and `field_summary`.
pub(crate) mod list_id {
    pub(crate) const MANIFEST_PATH: i32 = 500;
    pub(crate) const MANIFEST_LENGTH: i32 = 501;
    pub(crate) const PARTITION_SPEC_ID: i32 = 502;
    pub(crate) const ADDED_SNAPSHOT_ID: i32 = 503;
    pub(crate) const ADDED_FILES: i32 = 504;
    pub(crate) const EXISTING_FILES: i32 = 505;
    pub(crate) const DELETED_FILES: i32 = 506;
    pub(crate) const PARTITIONS: i32 = 507;
    pub(crate) const CONTAINS_NULL: i32 = 509;
    pub(crate) const LOWER_BOUND: i32 = 510;
    pub(crate) const UPPER_BOUND: i32 = 511;
    pub(crate) const ADDED_ROWS: i32 = 512;
    pub(crate) const EXISTING_ROWS: i32 = 513;
    pub(crate) const DELETED_ROWS: i32 = 514;
    pub(crate) const SEQUENCE_NUMBER: i32 = 515;
    pub(crate) const MIN_SEQUENCE_NUMBER: i32 = 516;
    pub(crate) const CONTENT: i32 = 517;
    pub(crate) const CONTAINS_NAN: i32 = 518;
    pub(crate) const KEY_METADATA: i32 = 519;
    pub(crate) const FIRST_ROW_ID: i32 = 520;
}

pub(crate) const ENTRY: Names = &[
    (entry_id::STATUS, &["status"]),
    (entry_id::SNAPSHOT_ID, &["snapshot_id"]),
    (entry_id::SEQUENCE_NUMBER, &["sequence_number"]),
    (entry_id::FILE_SEQUENCE_NUMBER, &["file_sequence_number"]),
    (entry_id::DATA_FILE, &["data_file"]),
];

pub(crate) const DATA_FILE: Names = &[
    (entry_id::CONTENT, &["content"]),
    (entry_id::FILE_PATH, &["file_path"]),
    (entry_id::FILE_FORMAT, &["file_format"]),
    (entry_id::PARTITION, &["partition"]),
    (entry_id::RECORD_COUNT, &["record_count"]),
    (entry_id::FILE_SIZE, &["file_size_in_bytes"]),
    (entry_id::COLUMN_SIZES, &["column_sizes"]),
    (entry_id::VALUE_COUNTS, &["value_counts"]),
    (entry_id::NULL_VALUE_COUNTS, &["null_value_counts"]),
    (entry_id::NAN_VALUE_COUNTS, &["nan_value_counts"]),
    (entry_id::LOWER_BOUNDS, &["lower_bounds"]),
    (entry_id::UPPER_BOUNDS, &["upper_bounds"]),
    (entry_id::KEY_METADATA, &["key_metadata"]),
    (entry_id::SPLIT_OFFSETS, &["split_offsets"]),
    (entry_id::EQUALITY_IDS, &["equality_ids"]),
    (entry_id::SORT_ORDER_ID, &["sort_order_id"]),
    (entry_id::FIRST_ROW_ID, &["first_row_id"]),
    (entry_id::REFERENCED_DATA_FILE, &["referenced_data_file"]),
    (entry_id::CONTENT_OFFSET, &["content_offset"]),
    (entry_id::CONTENT_SIZE, &["content_size_in_bytes"]),
];

pub(crate) const MANIFEST_FILE: Names = &[
    (list_id::MANIFEST_PATH, &["manifest_path"]),
    (list_id::MANIFEST_LENGTH, &["manifest_length"]),
    (list_id::PARTITION_SPEC_ID, &["partition_spec_id"]),
    (list_id::CONTENT, &["content"]),
    (list_id::SEQUENCE_NUMBER, &["sequence_number"]),
    (list_id::MIN_SEQUENCE_NUMBER, &["min_sequence_number"]),
    (list_id::ADDED_SNAPSHOT_ID, &["added_snapshot_id"]),
    (list_id::ADDED_FILES, &["added_files_count", "added_data_files_count"]),
    (list_id::EXISTING_FILES, &["existing_files_count", "existing_data_files_count"]),
    (list_id::DELETED_FILES, &["deleted_files_count", "deleted_data_files_count"]),
    (list_id::ADDED_ROWS, &["added_rows_count"]),
    (list_id::EXISTING_ROWS, &["existing_rows_count"]),
    (list_id::DELETED_ROWS, &["deleted_rows_count"]),
    (list_id::PARTITIONS, &["partitions"]),
    (list_id::KEY_METADATA, &["key_metadata"]),
    (list_id::FIRST_ROW_ID, &["first_row_id"]),
];

pub(crate) const FIELD_SUMMARY: Names = &[
    (list_id::CONTAINS_NULL, &["contains_null"]),
    (list_id::CONTAINS_NAN, &["contains_nan"]),
    (list_id::LOWER_BOUND, &["lower_bound"]),
    (list_id::UPPER_BOUND, &["upper_bound"]),
];

/// The ids of a record's fields, in the record's order: by `field-id`, and by name or alias for
/// fields without one. `None` for fields that are not known.
///
/// # Errors
/// `DataInvalid` where two fields are the same.
pub(crate) fn resolve(fields: &[RecordField], names: Names) -> Result<Vec<Option<i32>>> {
    let mut found: Vec<Option<i32>> = Vec::with_capacity(fields.len());
    for field in fields {
        let known = names.iter().find(|(id, names)| match field.id {
            Some(field_id) => field_id == *id,
            None => {
                names.contains(&field.name.as_str())
                    || field.aliases.iter().any(|a| names.contains(&a.as_str()))
            }
        });
        let id = known.map(|(id, _)| *id);
        if id.is_some() && found.contains(&id) {
            return Err(Error::invalid("it occurs twice").context(format!("field `{}`", field.name)));
        }
        found.push(id);
    }
    Ok(found)
}

fn required(id: i32, name: &str, t: impl Into<Type>) -> NestedField {
    NestedField::required(id, name, t)
}

fn optional(id: i32, name: &str, t: impl Into<Type>) -> NestedField {
    NestedField::optional(id, name, t)
}

fn with_doc(field: NestedField, doc: &str) -> NestedField {
    NestedField { doc: Some(doc.to_owned()), ..field }
}

/// The struct that manifests of a format version hold (spec, "Manifest Entry Fields").
pub(crate) fn entry_struct(format_version: u8, partition_type: &StructType) -> StructType {
    use entry_id as id;
    let mut fields = vec![
        NestedField::required(id::STATUS, "status", P::Int),
        NestedField::optional(id::SNAPSHOT_ID, "snapshot_id", P::Long),
    ];
    if format_version > 1 {
        fields.push(NestedField::optional(id::SEQUENCE_NUMBER, "sequence_number", P::Long));
        fields.push(NestedField::optional(id::FILE_SEQUENCE_NUMBER, "file_sequence_number", P::Long));
    }
    fields.push(NestedField::required(
        id::DATA_FILE,
        "data_file",
        data_file_struct(format_version, partition_type),
    ));
    StructType::new(fields)
}

fn data_file_struct(format_version: u8, partition_type: &StructType) -> StructType {
    use entry_id as id;
    let longs = |id, name: &str, key, value, doc| {
        with_doc(optional(id, name, MapType::new(key, P::Int, value, P::Long, true)), doc)
    };
    let bounds = |id, name: &str, key, value, doc| {
        with_doc(optional(id, name, MapType::new(key, P::Int, value, P::Binary, true)), doc)
    };
    let v2 = format_version >= 2;
    let v3 = format_version >= 3;
    let fields = [
        v2.then(|| {
            let doc = "Contents of the file: 0=data, 1=position deletes, 2=equality deletes";
            with_doc(required(id::CONTENT, "content", P::Int), doc)
        }),
        Some(with_doc(required(id::FILE_PATH, "file_path", P::String), "Location URI with FS scheme")),
        Some(with_doc(
            required(id::FILE_FORMAT, "file_format", P::String),
            "File format name: avro, orc, or parquet",
        )),
        Some(with_doc(
            required(id::PARTITION, "partition", partition_type.clone()),
            "Partition data tuple, schema based on the partition spec",
        )),
        Some(with_doc(required(id::RECORD_COUNT, "record_count", P::Long), "Number of records in the file")),
        Some(with_doc(required(id::FILE_SIZE, "file_size_in_bytes", P::Long), "Total file size in bytes")),
        // Long out of use, but version 1 requires it.
        (!v2).then(|| required(105, "block_size_in_bytes", P::Long)),
        Some(longs(id::COLUMN_SIZES, "column_sizes", 117, 118, "Map of column id to total size on disk")),
        Some(longs(
            id::VALUE_COUNTS,
            "value_counts",
            119,
            120,
            "Map of column id to total count, including null and NaN",
        )),
        Some(longs(
            id::NULL_VALUE_COUNTS,
            "null_value_counts",
            121,
            122,
            "Map of column id to null value count",
        )),
        Some(longs(
            id::NAN_VALUE_COUNTS,
            "nan_value_counts",
            138,
            139,
            "Map of column id to number of NaN values in the column",
        )),
        Some(bounds(id::LOWER_BOUNDS, "lower_bounds", 126, 127, "Map of column id to lower bound")),
        Some(bounds(id::UPPER_BOUNDS, "upper_bounds", 129, 130, "Map of column id to upper bound")),
        Some(with_doc(optional(id::KEY_METADATA, "key_metadata", P::Binary), "Encryption key metadata blob")),
        Some(with_doc(
            optional(id::SPLIT_OFFSETS, "split_offsets", ListType::new(133, P::Long, true)),
            "Splittable offsets",
        )),
        v2.then(|| {
            let list = ListType::new(136, P::Int, true);
            with_doc(optional(id::EQUALITY_IDS, "equality_ids", list), "Equality comparison field IDs")
        }),
        Some(with_doc(optional(id::SORT_ORDER_ID, "sort_order_id", P::Int), "Sort order ID")),
        v3.then(|| {
            let doc = "The first row ID assigned to the first row in the data file";
            with_doc(optional(id::FIRST_ROW_ID, "first_row_id", P::Long), doc)
        }),
        v2.then(|| {
            let doc =
                "Fully qualified location (URI with FS scheme) of a data file that all deletes reference";
            with_doc(optional(id::REFERENCED_DATA_FILE, "referenced_data_file", P::String), doc)
        }),
        v3.then(|| {
            let doc = "The offset in the file where the content starts";
            with_doc(optional(id::CONTENT_OFFSET, "content_offset", P::Long), doc)
        }),
        v3.then(|| {
            let doc = "The length of referenced content stored in the file";
            with_doc(optional(id::CONTENT_SIZE, "content_size_in_bytes", P::Long), doc)
        }),
    ];
    StructType::new(fields.into_iter().flatten().collect())
}

/// The struct that manifest lists of a format version hold (spec, "Manifest Lists").
pub(crate) fn manifest_file_struct(format_version: u8) -> StructType {
    use list_id as id;
    let v2 = format_version >= 2;
    // Counts became required with version 2.
    let count =
        |id, name: &str, t: P, doc| with_doc(NestedField { required: v2, ..optional(id, name, t) }, doc);
    let summary = StructType::new(vec![
        with_doc(
            required(id::CONTAINS_NULL, "contains_null", P::Boolean),
            "True if any file has a null partition value",
        ),
        with_doc(
            optional(id::CONTAINS_NAN, "contains_nan", P::Boolean),
            "True if any file has a nan partition value",
        ),
        with_doc(optional(id::LOWER_BOUND, "lower_bound", P::Binary), "Partition lower bound for all files"),
        with_doc(optional(id::UPPER_BOUND, "upper_bound", P::Binary), "Partition upper bound for all files"),
    ]);
    let partitions = with_doc(
        optional(id::PARTITIONS, "partitions", ListType::new(508, summary, true)),
        "Summary for each partition",
    );
    let mut fields = vec![
        with_doc(required(id::MANIFEST_PATH, "manifest_path", P::String), "Location URI with FS scheme"),
        with_doc(required(id::MANIFEST_LENGTH, "manifest_length", P::Long), "Total file size in bytes"),
        with_doc(required(id::PARTITION_SPEC_ID, "partition_spec_id", P::Int), "Spec ID used to write"),
    ];
    if v2 {
        fields.extend([
            with_doc(required(id::CONTENT, "content", P::Int), "Contents of the manifest: 0=data, 1=deletes"),
            with_doc(
                required(id::SEQUENCE_NUMBER, "sequence_number", P::Long),
                "Sequence number when the manifest was added",
            ),
            with_doc(
                required(id::MIN_SEQUENCE_NUMBER, "min_sequence_number", P::Long),
                "Lowest sequence number in the manifest",
            ),
        ]);
    }
    fields.extend([
        with_doc(
            required(id::ADDED_SNAPSHOT_ID, "added_snapshot_id", P::Long),
            "Snapshot ID that added the manifest",
        ),
        count(id::ADDED_FILES, "added_files_count", P::Int, "Added entry count"),
        count(id::EXISTING_FILES, "existing_files_count", P::Int, "Existing entry count"),
        count(id::DELETED_FILES, "deleted_files_count", P::Int, "Deleted entry count"),
    ]);
    if !v2 {
        fields.push(partitions.clone());
    }
    fields.extend([
        count(id::ADDED_ROWS, "added_rows_count", P::Long, "Added rows count"),
        count(id::EXISTING_ROWS, "existing_rows_count", P::Long, "Existing rows count"),
        count(id::DELETED_ROWS, "deleted_rows_count", P::Long, "Deleted rows count"),
    ]);
    if v2 {
        fields.push(partitions);
    }
    fields.push(with_doc(
        optional(id::KEY_METADATA, "key_metadata", P::Binary),
        "Encryption key metadata blob",
    ));
    if format_version >= 3 {
        fields.push(with_doc(
            optional(id::FIRST_ROW_ID, "first_row_id", P::Long),
            "Starting row ID to assign to new rows in ADDED data files",
        ));
    }
    StructType::new(fields)
}
