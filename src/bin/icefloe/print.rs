//! Writing results: as a table, CSV, TSV or JSON.

use std::io::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::arrow::json::writer::{JsonArray, JsonFormat, LineDelimited, WriterBuilder as JsonBuilder};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

use crate::args::{Format, MaxRows};

/// Writes a whole result as it comes and gives the number of its rows.
///
/// Only the table format keeps rows, `maxrows` of them at most; it counts the rest. `before`
/// is called once, before anything is written.
pub async fn print_stream<W: Write + Send>(
    mut stream: SendableRecordBatchStream,
    format: Format,
    maxrows: MaxRows,
    options: &FormatOptions<'_>,
    out: &mut W,
    before: impl FnOnce() + Send,
) -> Result<usize> {
    let schema = stream.schema();
    let first = match stream.next().await {
        Some(batch) => batch?,
        // Even a result without rows has columns.
        None => RecordBatch::new_empty(schema),
    };
    let stream = futures::stream::once(async { Ok(first) }).chain(stream).boxed();
    let rows = match format {
        Format::Table | Format::Automatic => return table(stream, maxrows.0, options, out, before).await,
        Format::Csv => delimited(stream, b',', options, out, before).await?,
        Format::Tsv => delimited(stream, b'\t', options, out, before).await?,
        Format::Json => {
            let rows = json::<JsonArray, W>(stream, out, before).await?;
            writeln!(out)?;
            rows
        }
        Format::NdJson => json::<LineDelimited, W>(stream, out, before).await?,
    };
    out.flush()?;
    Ok(rows)
}

type Batches = futures::stream::BoxStream<'static, Result<RecordBatch>>;

async fn table<W: Write>(
    mut batches: Batches,
    maxrows: usize,
    options: &FormatOptions<'_>,
    out: &mut W,
    before: impl FnOnce(),
) -> Result<usize> {
    let mut rows = 0_usize;
    let mut shown = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let room = maxrows.saturating_sub(rows).min(batch.num_rows());
        rows += batch.num_rows();
        if room > 0 || shown.is_empty() {
            shown.push(batch.slice(0, room));
        }
    }
    before();
    writeln!(out, "{}", pretty_format_batches_with_options(&shown, options)?)?;
    out.flush()?;
    Ok(rows)
}

async fn delimited<W: Write>(
    mut batches: Batches,
    delimiter: u8,
    options: &FormatOptions<'_>,
    out: &mut W,
    before: impl FnOnce(),
) -> Result<usize> {
    let mut rows = 0;
    let mut before = Some(before);
    let mut writer = csv::WriterBuilder::new().with_header(true).with_delimiter(delimiter).build(&mut *out);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if let Some(before) = before.take() {
            before();
        }
        rows += batch.num_rows();
        writer.write(&flat(batch, options)?)?;
    }
    Ok(rows)
}

/// Arrow's CSV writer takes no nested columns: they become text.
fn flat(batch: RecordBatch, options: &FormatOptions<'_>) -> Result<RecordBatch> {
    if !batch.schema().fields().iter().any(|f| f.data_type().is_nested()) {
        return Ok(batch);
    }
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if !field.data_type().is_nested() {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let formatter = ArrayFormatter::try_new(column, options)?;
        let mut text = StringBuilder::new();
        for row in 0..column.len() {
            match column.is_null(row) {
                true => text.append_null(),
                false => text.append_value(formatter.value(row).try_to_string()?),
            }
        }
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(text.finish()));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The keys of JSON's objects are text: so are those of maps then, at any depth.
fn with_text_keys(batch: RecordBatch) -> Result<RecordBatch> {
    fn field(f: &FieldRef) -> FieldRef {
        Arc::new(f.as_ref().clone().with_data_type(text_keys(f.data_type())))
    }
    fn text_keys(data_type: &DataType) -> DataType {
        match data_type {
            DataType::List(f) => DataType::List(field(f)),
            DataType::LargeList(f) => DataType::LargeList(field(f)),
            DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
            DataType::Map(entries, ordered) => {
                let DataType::Struct(parts) = entries.data_type() else { return data_type.clone() };
                let parts = parts.iter().enumerate().map(|(i, f)| match (i, f.data_type()) {
                    (0, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Arc::clone(f),
                    (0, _) => Arc::new(f.as_ref().clone().with_data_type(DataType::Utf8)),
                    _ => field(f),
                });
                let parts = DataType::Struct(parts.collect());
                DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(parts)), *ordered)
            }
            other => other.clone(),
        }
    }
    let fields: Vec<FieldRef> = batch.schema().fields().iter().map(field).collect();
    let columns = batch.columns().iter().zip(&fields).map(|(c, f)| cast(c, f.data_type()));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

async fn json<F: JsonFormat, W: Write>(
    mut batches: Batches,
    out: &mut W,
    before: impl FnOnce(),
) -> Result<usize> {
    let mut rows = 0;
    let mut before = Some(before);
    let mut writer = JsonBuilder::new().with_explicit_nulls(true).build::<_, F>(&mut *out);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if let Some(before) = before.take() {
            before();
        }
        rows += batch.num_rows();
        writer.write(&with_text_keys(batch)?)?;
    }
    writer.finish()?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;

    async fn printed(sql: &str, format: Format, maxrows: usize) -> (String, usize) {
        let context = SessionContext::new();
        let stream = context.sql(sql).await.unwrap().execute_stream().await.unwrap();
        let mut out = Vec::new();
        let mut called = 0;
        let options = FormatOptions::new().with_null("NULL");
        let rows =
            print_stream(stream, format, MaxRows(maxrows), &options, &mut out, || called += 1).await.unwrap();
        assert_eq!(called, 1);
        (String::from_utf8(out).unwrap(), rows)
    }

    #[tokio::test]
    async fn json_of_maps_with_numbers_as_keys() {
        let sql = "SELECT map([1], ['a']) AS m, [map([2], [3])] AS l";
        let (json, rows) = printed(sql, Format::NdJson, 1).await;
        assert_eq!((json.as_str(), rows), ("{\"m\":{\"1\":\"a\"},\"l\":[{\"2\":3}]}\n", 1));
    }

    const ROWS: &str = "SELECT * FROM (VALUES (1, 'a,b', [1, 2]), (2, NULL, NULL), (3, 'x\ty', [])) AS t (i, s, l) ORDER BY i";
    const NONE: &str = "SELECT 1 AS i, 'x' AS s WHERE false";

    #[tokio::test]
    async fn tables() {
        let table = "\
+---+------+--------+
| i | s    | l      |
+---+------+--------+
| 1 | a,b  | [1, 2] |
| 2 | NULL | NULL   |
+---+------+--------+
";
        assert_eq!(printed(ROWS, Format::Table, 2).await, (table.to_string(), 3));
        let (all, rows) = printed(ROWS, Format::Automatic, usize::MAX).await;
        assert_eq!((all.lines().count(), rows), (7, 3));
        let empty = "+---+---+\n| i | s |\n+---+---+\n+---+---+\n";
        assert_eq!(printed(NONE, Format::Table, 40).await, (empty.to_string(), 0));
        assert_eq!(printed("SELECT 1 AS i", Format::Table, 0).await.1, 1);
    }

    #[tokio::test]
    async fn delimited_text() {
        let csv = "i,s,l\n1,\"a,b\",\"[1, 2]\"\n2,,\n3,x\ty,[]\n";
        assert_eq!(printed(ROWS, Format::Csv, 1).await, (csv.to_string(), 3));
        let tsv = "i\ts\tl\n1\ta,b\t[1, 2]\n2\t\t\n3\t\"x\ty\"\t[]\n";
        assert_eq!(printed(ROWS, Format::Tsv, 1).await, (tsv.to_string(), 3));
        assert_eq!(printed(NONE, Format::Csv, 1).await, ("i,s\n".to_string(), 0));
    }

    #[tokio::test]
    async fn json_text() {
        let lines = [
            r#"{"i":1,"s":"a,b","l":[1,2]}"#,
            r#"{"i":2,"s":null,"l":null}"#,
            r#"{"i":3,"s":"x\ty","l":[]}"#,
        ];
        assert_eq!(printed(ROWS, Format::NdJson, 1).await, (lines.join("\n") + "\n", 3));
        assert_eq!(printed(ROWS, Format::Json, 1).await, (format!("[{}]\n", lines.join(",")), 3));
        assert_eq!(printed(NONE, Format::Json, 1).await, ("[]\n".to_string(), 0));
        assert_eq!(printed(NONE, Format::NdJson, 1).await, (String::new(), 0));
    }

    #[tokio::test]
    async fn several_batches_have_one_header() {
        let sql = "SELECT value AS i FROM generate_series(1, 20000)";
        let (csv, rows) = printed(sql, Format::Csv, 1).await;
        assert_eq!((csv.lines().count(), rows), (20_001, 20_000));
        let (json, _) = printed(sql, Format::Json, 1).await;
        assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&json).unwrap().len(), 20_000);
        let (table, rows) = printed(sql, Format::Table, 10_000).await;
        assert_eq!((table.lines().count(), rows), (10_004, 20_000));
    }
}
