//! What manifests say of files → DataFusion's statistics.
//!
//! `Exact` is a promise that the optimizer turns into answers, so it is only given where it
//! holds: see [`is_tight`].

use std::cmp::Ordering;

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

use super::metadata_columns::is_lineage;
use crate::arrow::value_to_scalar;
use crate::spec::{FileFormat, FileScanTask, NestedField, PrimitiveType, Schema, Type, Value};

/// The statistics of one file, for these columns of the schema (indices); others are unknown.
pub(crate) fn file_statistics(
    task: &FileScanTask,
    schema: &Schema,
    arrow: &SchemaRef,
    columns: &[usize],
) -> Statistics {
    let mut statistics = Statistics::new_unknown(arrow);
    let file = &task.data_file;
    statistics.num_rows = match usize::try_from(file.record_count) {
        Ok(rows) if task.deletes.is_empty() => Precision::Exact(rows),
        Ok(rows) => Precision::Inexact(rows),
        Err(_) => Precision::Absent,
    };
    statistics.total_byte_size =
        usize::try_from(file.file_size_in_bytes).map_or(Precision::Absent, Precision::Inexact);
    for &i in columns {
        let (Some(field), Some(column)) = (schema.fields().get(i), statistics.column_statistics.get_mut(i))
        else {
            continue;
        };
        *column = column_statistics(task, field, arrow.field(i).data_type());
    }
    statistics
}

fn column_statistics(
    task: &FileScanTask,
    field: &NestedField,
    data_type: &arrow::datatypes::DataType,
) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    let Type::Primitive(primitive) = &field.field_type else {
        return statistics;
    };
    // Some writers have metrics of what is stored.
    if is_lineage(field.id) {
        return statistics;
    }
    let metrics = &task.data_file.metrics;
    // A column that the file lacks has no metrics, but may have a default: nothing is known.
    // With deletes even exact numbers are only bounds of what is left.
    let exact = task.deletes.is_empty();
    let precision = |value: Precision<usize>| if exact { value } else { value.to_inexact() };
    let nulls = metrics.null_value_count(field.id).filter(|n| *n <= task.data_file.record_count);
    if let Some(nulls) = nulls.and_then(|n| usize::try_from(n).ok()) {
        statistics.null_count = precision(Precision::Exact(nulls));
    }
    let no_nan = match primitive {
        PrimitiveType::Float | PrimitiveType::Double => metrics.nan_value_count(field.id) == Some(0),
        _ => true,
    };
    let value = |bytes: Option<&[u8]>| Value::from_bytes(primitive, bytes?).ok().filter(|v| !v.is_nan());
    let (lower, upper) = (value(metrics.lower_bound(field.id)), value(metrics.upper_bound(field.id)));
    if let (Some(lower), Some(upper)) = (&lower, &upper)
        && lower.compare(upper) != Some(Ordering::Less)
        && lower.compare(upper) != Some(Ordering::Equal)
    {
        return statistics;
    }
    // Older writers of other formats rounded bounds.
    let tight = exact && task.data_file.file_format == FileFormat::Parquet && is_tight(primitive);
    let bound = |value: Option<Value>| {
        let value = value?;
        let scalar = value_to_scalar(Some(&value), &field.field_type, data_type).ok()?;
        Some(if tight { Precision::Exact(scalar) } else { Precision::Inexact(scalar) })
    };
    statistics.min_value = bound(lower).unwrap_or(Precision::Absent);
    // NaN is above every number here, but not in Iceberg's bounds.
    if no_nan {
        statistics.max_value = bound(upper).unwrap_or(Precision::Absent);
    } else {
        // -NaN is below every number.
        statistics.min_value = Precision::Absent;
    }
    statistics
}

/// Whether writers record the smallest and largest value itself for this type: strings and bytes
/// are cut, and of floats the signs of zeros are lost.
fn is_tight(primitive: &PrimitiveType) -> bool {
    use PrimitiveType as P;
    matches!(
        primitive,
        P::Boolean
            | P::Int
            | P::Long
            | P::Decimal { .. }
            | P::Date
            | P::Time
            | P::Timestamp
            | P::Timestamptz
            | P::TimestampNs
            | P::TimestamptzNs
    )
}

/// The statistics of all files together, for these columns of the schema.
pub(crate) fn scan_statistics(
    tasks: &[FileScanTask],
    schema: &Schema,
    arrow: &SchemaRef,
    columns: &[usize],
) -> Statistics {
    let mut total = Statistics::new_unknown(arrow);
    total.num_rows = Precision::Exact(0);
    total.total_byte_size = Precision::Inexact(0);
    for task in tasks {
        total.num_rows = total.num_rows.add(&match usize::try_from(task.data_file.record_count) {
            Ok(rows) if task.deletes.is_empty() => Precision::Exact(rows),
            Ok(rows) => Precision::Inexact(rows),
            Err(_) => Precision::Absent,
        });
        let size = usize::try_from(task.data_file.file_size_in_bytes);
        total.total_byte_size =
            total.total_byte_size.add(&size.map_or(Precision::Absent, Precision::Inexact));
    }
    for &i in columns {
        let (Some(field), Some(column)) = (schema.fields().get(i), total.column_statistics.get_mut(i)) else {
            continue;
        };
        *column = merged(tasks, field, arrow.field(i).data_type());
    }
    total
}

fn merged(
    tasks: &[FileScanTask],
    field: &NestedField,
    data_type: &arrow::datatypes::DataType,
) -> ColumnStatistics {
    let mut total = ColumnStatistics::new_unknown();
    total.null_count = Precision::Exact(0);
    let mut bounds: Option<(Precision<ScalarValue>, Precision<ScalarValue>)> = None;
    for task in tasks {
        let one = column_statistics(task, field, data_type);
        total.null_count = total.null_count.add(&one.null_count);
        let rows = usize::try_from(task.data_file.record_count).unwrap_or(usize::MAX);
        // A file of nulls has no bounds and does not move those of the others.
        if one.null_count == Precision::Exact(rows) {
            continue;
        }
        bounds = Some(match bounds {
            None => (one.min_value, one.max_value),
            Some((min, max)) => (min.min(&one.min_value), max.max(&one.max_value)),
        });
        if total.null_count == Precision::Absent
            && matches!(bounds, Some((Precision::Absent, Precision::Absent)))
        {
            break;
        }
    }
    if let Some((min, max)) = bounds {
        total.min_value = min;
        total.max_value = max;
    }
    total
}
