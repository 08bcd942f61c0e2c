//! The columns of data and delete files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::columns::Column;
use super::readable_metrics::readable_metrics;
use crate::error::Result;
use crate::exec::{partition_tuple, unified_partition_type};
use crate::spec::{
    ContentFile, ContentType, FieldId, ListType, MapType, MetricMap, NestedField, PrimitiveType, Type, Value,
};
use crate::table::Table;

/// The columns of `files` and its like.
pub(super) fn file_columns(table: &Table) -> Result<Vec<Column<ContentFile>>> {
    let mut columns = struct_columns(table)?;
    columns.push(readable_metrics(table.metadata().current_schema()));
    Ok(columns)
}

/// The same without the metrics in readable form: the members of `data_file` in `entries`.
pub(super) fn struct_columns(table: &Table) -> Result<Vec<Column<ContentFile>>> {
    use PrimitiveType as P;
    let mut columns: Vec<Column<ContentFile>> = vec![
        Column::int_or_null(134, "content", |f: &ContentFile| Some(content_id(f.content))),
        Column::text(100, "file_path", |f: &ContentFile| f.file_path.clone()),
        Column::text(101, "file_format", |f: &ContentFile| f.file_format.to_string()),
        Column::int_or_null(141, "spec_id", |f: &ContentFile| Some(f.spec_id.0)),
    ];
    columns.extend(partition_column(table)?);
    columns.extend([
        Column::long(103, "record_count", |f: &ContentFile| f.record_count),
        Column::long(104, "file_size_in_bytes", |f: &ContentFile| f.file_size_in_bytes),
        counts(108, "column_sizes", (117, 118), MetricMap::ColumnSizes),
        counts(109, "value_counts", (119, 120), MetricMap::ValueCounts),
        counts(110, "null_value_counts", (121, 122), MetricMap::NullValueCounts),
        counts(137, "nan_value_counts", (138, 139), MetricMap::NanValueCounts),
        bounds(125, "lower_bounds", (126, 127), MetricMap::LowerBounds),
        bounds(128, "upper_bounds", (129, 130), MetricMap::UpperBounds),
        Column::new(NestedField::optional(131, "key_metadata", P::Binary), |f: &ContentFile| {
            f.key_metadata.clone().map(Value::Binary)
        }),
        Column::new(
            NestedField::optional(132, "split_offsets", ListType::new(133, P::Long, true)),
            |f: &ContentFile| {
                let offsets = f.split_offsets.as_ref()?;
                Some(Value::List(offsets.iter().map(|o| Some(Value::Long(*o))).collect()))
            },
        ),
        Column::new(
            NestedField::optional(135, "equality_ids", ListType::new(136, P::Int, true)),
            |f: &ContentFile| {
                let ids = f.equality_ids.as_ref()?;
                Some(Value::List(ids.iter().map(|id| Some(Value::Int(id.0))).collect()))
            },
        ),
        Column::int_or_null(140, "sort_order_id", |f: &ContentFile| f.sort_order_id.map(|id| id.0)),
        Column::long_or_null(142, "first_row_id", |f: &ContentFile| f.first_row_id),
        Column::text_or_null(143, "referenced_data_file", |f: &ContentFile| f.referenced_data_file.clone()),
        Column::long_or_null(144, "content_offset", |f: &ContentFile| f.content_offset),
        Column::long_or_null(145, "content_size_in_bytes", |f: &ContentFile| f.content_size_in_bytes),
    ]);
    Ok(columns)
}

/// The partition tuple over all specs; tables that never were partitioned have no such column.
fn partition_column(table: &Table) -> Result<Option<Column<ContentFile>>> {
    let unified = unified_partition_type(table)?;
    if unified.fields.is_empty() {
        return Ok(None);
    }
    let field = NestedField::required(102, "partition", Type::Struct(unified.clone()));
    let metadata = Arc::clone(table.metadata());
    Ok(Some(Column::new(field, move |file: &ContentFile| {
        Some(Value::Struct(partition_tuple(file, &metadata, &unified)))
    })))
}

fn content_id(content: ContentType) -> i32 {
    match content {
        ContentType::Data => 0,
        ContentType::PositionDeletes => 1,
        ContentType::EqualityDeletes => 2,
    }
}

/// A column from a map of counts. A map that the writer left out is null.
fn counts(id: i32, name: &str, (key, value): (i32, i32), map: MetricMap) -> Column<ContentFile> {
    let map_type = MapType::new(key, PrimitiveType::Int, value, PrimitiveType::Long, true);
    Column::new(NestedField::optional(id, name, map_type), move |file: &ContentFile| {
        let metrics = &file.metrics;
        metrics.encoded(map)?;
        Some(by_id(metrics.longs(map), Value::Long))
    })
}

fn bounds(id: i32, name: &str, (key, value): (i32, i32), map: MetricMap) -> Column<ContentFile> {
    let map_type = MapType::new(key, PrimitiveType::Int, value, PrimitiveType::Binary, true);
    Column::new(NestedField::optional(id, name, map_type), move |file: &ContentFile| {
        let metrics = &file.metrics;
        metrics.encoded(map)?;
        Some(by_id(metrics.bounds(map), |bytes| Value::Binary(bytes.to_vec())))
    })
}

/// Sorted; of a column that is there twice the first one holds, as in look-ups.
fn by_id<T>(pairs: impl Iterator<Item = (FieldId, T)>, value: impl Fn(T) -> Value) -> Value {
    let mut sorted = BTreeMap::new();
    for (id, item) in pairs {
        sorted.entry(id).or_insert(item);
    }
    Value::Map(sorted.into_iter().map(|(id, item)| (Value::Int(id.0), Some(value(item)))).collect())
}
