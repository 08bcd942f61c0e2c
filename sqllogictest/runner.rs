//! Runs the sqllogictest files beside this file: `cargo test --test slt [-- NAME …]`.
//!
//! `sqllogictest/<verb>/<topic>.slt`, each in a session and a temporary directory of its own.
//! A session has the empty Iceberg catalogs `ice` and `demo`. In statements `$TESTDATA` is the path of
//! `testdata/`, `$TEMP` that of the directory.
//! `-- --complete` writes what came out into the files; read the difference before committing.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};

use icefloe::catalog::MemoryCatalog;
use icefloe::provider::IcebergCatalogProvider;
use icefloe::sql::{IcebergSql, session_state_builder};
use sqllogictest::{
    AsyncDB, DBOutput, DefaultColumnType, Runner, default_normalizer, default_validator,
    strict_column_validator,
};

/// What went wrong, as the shell says it.
#[derive(Debug)]
struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Failure {}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        match icefloe::Error::find_in(&error) {
            Some(ours) => Self(ours.to_string()),
            None => Self(error.strip_backtrace()),
        }
    }
}

/// A session over the test data.
struct Session {
    context: SessionContext,
    temp: tempfile::TempDir,
}

impl Session {
    fn new() -> Result<Self, Failure> {
        let config = SessionConfig::new().with_information_schema(true).with_target_partitions(4);
        let state = session_state_builder().with_config(config).build();
        let temp = tempfile::tempdir().map_err(|e| Failure(e.to_string()))?;
        let context = SessionContext::new_with_state(state);
        for name in ["ice", "demo"] {
            let catalog = MemoryCatalog::new(name).map_err(|e| Failure(e.to_string()))?;
            context.register_catalog(name, Arc::new(IcebergCatalogProvider::new(Arc::new(catalog))));
        }
        Ok(Self { context, temp })
    }

    fn substitute(&self, sql: &str) -> String {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
        let temp = self.temp.path().to_string_lossy();
        sql.replace("$TESTDATA", &testdata.to_string_lossy()).replace("$TEMP", &temp)
    }
}

#[async_trait]
impl AsyncDB for Session {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let frame = self.context.iceberg_sql(&self.substitute(sql)).await?;
        let fields = frame.schema().fields().clone();
        let batches = frame.collect().await?;
        if fields.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let types = fields.iter().map(|f| column_type(f.data_type())).collect();
        let names: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
        let mut rows = Vec::new();
        for batch in &batches {
            rows.extend(cells(batch)?);
        }
        if names == ["plan_type", "plan"] {
            rows = rows.into_iter().flat_map(plan_lines).collect();
        }
        let temp = self.temp.path().to_string_lossy().into_owned();
        let testdata = self.substitute("$TESTDATA");
        for cell in rows.iter_mut().flatten() {
            *cell = cell.replace(&testdata, "$TESTDATA").replace(&temp, "$TEMP").replace('\n', "\\n");
        }
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "icefloe"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

fn column_type(data_type: &DataType) -> DefaultColumnType {
    match data_type {
        t if t.is_integer() => DefaultColumnType::Integer,
        t if t.is_floating() => DefaultColumnType::FloatingPoint,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => DefaultColumnType::FloatingPoint,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DefaultColumnType::Text,
        _ => DefaultColumnType::Any,
    }
}

fn cells(batch: &RecordBatch) -> Result<Vec<Vec<String>>, Failure> {
    let columns: Result<Vec<Vec<String>>, DataFusionError> =
        batch.columns().iter().map(column_cells).collect();
    let columns = columns?;
    Ok((0..batch.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect()).collect())
}

fn column_cells(column: &ArrayRef) -> Result<Vec<String>, DataFusionError> {
    let options = FormatOptions::new().with_null("NULL").with_display_error(false);
    let formatter = ArrayFormatter::try_new(column, &options)?;
    let cell = |row: usize| -> Result<String, DataFusionError> {
        Ok(match column.data_type() {
            _ if column.is_null(row) => "NULL".to_string(),
            DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row), 12),
            DataType::Float32 => float(column.as_primitive::<Float32Type>().value(row).into(), 6),
            _ => match formatter.value(row).try_to_string()? {
                text if text.is_empty() => "(empty)".to_string(),
                text => text,
            },
        })
    };
    (0..column.len()).map(cell).collect()
}

/// Few enough digits that the order of additions does not show.
fn float(value: f64, digits: usize) -> String {
    let rounded = format!("{value:.*e}", digits - 1).parse().unwrap_or(value);
    format!("{rounded:?}")
}

/// A plan has a line for each node; its indentation is kept as dashes.
fn plan_lines(row: Vec<String>) -> Vec<Vec<String>> {
    let [kind, plan] = row.as_slice() else { return vec![row] };
    let lines = plan.lines().enumerate().map(|(n, line)| {
        let text = line.trim_start();
        vec![kind.clone(), format!("{:02}){}{text}", n + 1, "-".repeat(line.len() - text.len()))]
    });
    lines.collect()
}

/// The test files below `directory`, sorted.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|e| e == "slt") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The arguments of cargo's own test harness that mean something here.
#[derive(Default)]
struct Options {
    list: bool,
    exact: bool,
    ignored: bool,
    complete: bool,
    names: Vec<String>,
    skip: Vec<String>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Self {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--list" => options.list = true,
                "--exact" => options.exact = true,
                "--ignored" => options.ignored = true,
                "--complete" => options.complete = true,
                "--skip" => options.skip.extend(args.next()),
                // These have a value of their own.
                "--format" | "--test-threads" | "--color" | "--logfile" | "-Z" => {
                    let _ = args.next();
                }
                flag if flag.starts_with('-') => {}
                _ => options.names.push(arg),
            }
        }
        options
    }

    fn wants(&self, name: &str) -> bool {
        let matches = |filter: &String| if self.exact { name == filter } else { name.contains(filter) };
        !self.ignored
            && (self.names.is_empty() || self.names.iter().any(matches))
            && !self.skip.iter().any(matches)
    }
}

async fn run_file(path: PathBuf, complete: bool) -> Result<(), String> {
    let mut runner = Runner::new(|| async { Session::new() });
    runner.with_column_validator(strict_column_validator);
    if complete {
        let updated = runner.update_test_file(
            &path,
            " ",
            default_validator,
            default_normalizer,
            strict_column_validator,
        );
        return updated.await.map_err(|e| e.to_string());
    }
    runner.run_file_async(&path).await.map_err(|e| e.display(false).to_string())
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sqllogictest");
    let (mut passed, mut failed) = (0, 0);
    for path in files(&root)? {
        let name = path.strip_prefix(&root)?.with_extension("").to_string_lossy().replace('\\', "/");
        if !options.wants(&name) {
            continue;
        }
        if options.list {
            println!("{name}: test");
            continue;
        }
        let start = Instant::now();
        // A task of its own, so that a panic is the failure of one file.
        let outcome =
            tokio::spawn(run_file(path, options.complete)).await.unwrap_or_else(|e| Err(e.to_string()));
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("ok   {name} ({} ms)", start.elapsed().as_millis());
            }
            Err(error) => {
                failed += 1;
                println!("FAIL {name}\n{error}");
            }
        }
    }
    if !options.list {
        println!("sqllogictest: {passed} passed, {failed} failed");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
