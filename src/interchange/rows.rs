//! Rows of any engine as JSON, so that they can be compared.
//!
//! Dates, times and decimals are text; bytes and UUIDs are hexadecimal digits; maps are lists of
//! pairs in the order of their text. `Check.java` writes the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int64Type, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion::catalog::TableProvider;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use serde_json::{Map, Value as Json, json};

use crate::table::Table;
use crate::{IcebergTable, MetadataTableKind};

/// Rows in the order of their text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rows(pub(super) Vec<Json>);

impl Rows {
    pub(super) fn new(mut rows: Vec<Json>) -> Self {
        rows.sort_by_cached_key(Json::to_string);
        Self(rows)
    }

    fn of_batches(batches: &[RecordBatch]) -> Self {
        let rows = batches.iter().flat_map(|batch| {
            (0..batch.num_rows()).map(|row| {
                let fields = batch.schema_ref().fields().iter().zip(batch.columns());
                Json::Object(fields.map(|(f, c)| (f.name().clone(), value(c, row))).collect())
            })
        });
        Self::new(rows.collect())
    }

    pub(super) async fn of_provider(provider: Arc<dyn TableProvider>) -> Self {
        let context = context();
        Self::of_batches(&context.read_table(provider).unwrap().collect().await.unwrap())
    }

    /// The rows that we read.
    pub(super) async fn of_table(table: &Table) -> Self {
        Self::of_provider(Arc::new(IcebergTable::try_new(table.clone()).unwrap())).await
    }

    /// The rows of a query, whose table is `t`.
    pub(super) async fn of_query(table: &Table, sql: &str) -> Self {
        use crate::sql::IcebergSql;
        let context = context();
        crate::sql::register(&context).unwrap();
        context.register_table("t", Arc::new(IcebergTable::try_new(table.clone()).unwrap())).unwrap();
        Self::of_batches(&context.iceberg_sql(sql).await.unwrap().collect().await.unwrap())
    }

    /// The rows of one of our metadata tables.
    pub(super) async fn of_metadata(table: &Table, kind: MetadataTableKind) -> Self {
        let table = IcebergTable::try_new(table.clone()).unwrap();
        Self::of_provider(Arc::new(table.metadata_table(kind).unwrap())).await
    }

    /// The rows of the Parquet files in a directory, as another engine wrote them.
    pub(super) async fn of_parquet(directory: &Path) -> Self {
        let context = context();
        let path = format!("{}/", directory.display());
        let rows = context.read_parquet(path, ParquetReadOptions::default()).await.unwrap();
        Self::of_batches(&rows.collect().await.unwrap())
    }

    /// Each row without these columns.
    pub(super) fn without(self, columns: &[&str]) -> Self {
        let rows = self.0.into_iter().map(|mut row| {
            columns.iter().for_each(|column| drop(row.as_object_mut().unwrap().remove(*column)));
            row
        });
        Self::new(rows.collect())
    }

    /// What is in one and not in the other; `None` if they are the same.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let count = |rows: &Self| {
            let mut counts = BTreeMap::new();
            rows.0.iter().for_each(|row| *counts.entry(row.to_string()).or_insert(0) += 1);
            counts
        };
        let (ours, theirs) = (count(self), count(other));
        let only = |a: &BTreeMap<String, i32>, b: &BTreeMap<String, i32>| {
            let only =
                a.iter().filter(|(row, n)| b.get(*row) != Some(n)).map(|(row, n)| format!("  {n} x {row}"));
            only.take(4).collect::<Vec<_>>().join("\n")
        };
        Some(format!(
            "{} rows, and {} there\nonly here:\n{}\nonly there:\n{}",
            self.0.len(),
            other.0.len(),
            only(&ours, &theirs),
            only(&theirs, &ours)
        ))
    }
}

fn context() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2))
}

/// What is wrong, of everything that was compared.
#[derive(Debug, Default)]
pub(super) struct Differences(Vec<String>);

impl Differences {
    pub(super) fn rows(&mut self, what: impl std::fmt::Display, ours: &Rows, theirs: &Rows) {
        self.0.extend(ours.difference(theirs).map(|difference| format!("{what}: {difference}")));
    }

    pub(super) fn same<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: impl std::fmt::Display,
        ours: T,
        theirs: T,
    ) {
        if ours != theirs {
            self.0.push(format!("{what}:\n  here  {ours:?}\n  there {theirs:?}"));
        }
    }

    pub(super) fn add(&mut self, difference: String) {
        self.0.push(difference);
    }

    #[track_caller]
    pub(super) fn assert_none(self) {
        assert!(self.0.is_empty(), "{} differences\n{}", self.0.len(), self.0.join("\n\n"));
    }
}

pub(super) fn float(value: f64) -> Json {
    match serde_json::Number::from_f64(value) {
        Some(number) => Json::Number(number),
        None if value.is_nan() => json!("NaN"),
        None if value > 0.0 => json!("Infinity"),
        None => json!("-Infinity"),
    }
}

fn hex(bytes: &[u8]) -> Json {
    Json::String(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Text; UUIDs, which some engines have as text, without dashes, and local files as paths.
fn text(text: &str) -> Json {
    if let Some(path) = text.strip_prefix("file:/") {
        return json!(format!("/{}", path.trim_start_matches('/')));
    }
    match uuid::Uuid::parse_str(text) {
        Ok(uuid) if text.len() == 36 => json!(uuid.simple().to_string()),
        _ => json!(text),
    }
}

fn list(values: &dyn Array) -> Json {
    (0..values.len()).map(|row| value(values, row)).collect()
}

fn value(array: &dyn Array, row: usize) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        DataType::Null => Json::Null,
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => text(array.as_string_view().value(row)),
        DataType::Binary => hex(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => hex(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => hex(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => hex(array.as_fixed_size_binary().value(row)),
        DataType::Date32 => json!(format!("date {}", array.as_primitive::<Date32Type>().value(row))),
        DataType::Time32(_) | DataType::Time64(_) => {
            let times = cast(array, &DataType::Time64(TimeUnit::Nanosecond)).unwrap();
            json!(format!("time {}", times.as_primitive::<Time64NanosecondType>().value(row)))
        }
        DataType::Timestamp(unit, _) => {
            let (value, scale) = match unit {
                TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().value(row), 1_000_000_000),
                TimeUnit::Millisecond => {
                    (array.as_primitive::<TimestampMillisecondType>().value(row), 1_000_000)
                }
                TimeUnit::Microsecond => (array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000),
                TimeUnit::Nanosecond => (array.as_primitive::<TimestampNanosecondType>().value(row), 1),
            };
            json!(format!("timestamp {}", i128::from(value) * scale))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            Json::Object(columns.map(|(f, c)| (f.name().clone(), value(c, row))).collect::<Map<_, _>>())
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row)),
        DataType::Map(_, _) => {
            let pairs = array.as_map().value(row);
            let pair = |i| json!([value(pairs.column(0), i), value(pairs.column(1), i)]);
            let mut pairs: Vec<Json> = (0..pairs.len()).map(pair).collect();
            pairs.sort_by_cached_key(Json::to_string);
            Json::Array(pairs)
        }
        integer if integer.is_integer() => {
            json!(cast(array, &DataType::Int64).unwrap().as_primitive::<Int64Type>().value(row))
        }
        decimal if decimal.is_decimal() => {
            let text = cast(array, &DataType::Utf8).unwrap();
            json!(text.as_string::<i32>().value(row))
        }
        other => panic!("values of Arrow's {other}"),
    }
}
