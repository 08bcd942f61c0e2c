//! Tables that other engines and we read and write in turn.
//!
//! A test runs if the environment says where its engine is, and else says that it was skipped:
//!
//! | variable | |
//! | --- | --- |
//! | `ICEFLOE_TEST_JAVA` | the class path of Iceberg for Java and of Hadoop, for its REST server too |
//! | `ICEFLOE_TEST_JDBC` | besides it: the class path of Java's SQLite driver |
//! | `ICEFLOE_TEST_SPARK` | a program: `spark_sql WAREHOUSE_DIR SQL…`, with a Hadoop catalog `ice` |
//! | `ICEFLOE_TEST_PYICEBERG` | a Python that has PyIceberg and PyArrow |
//! | `ICEFLOE_TEST_DUCKDB` | a program: `duck_sql SQL…` |
//! | `ICEFLOE_TEST_REST` | a REST catalog's properties, as `catalog/rest/tests/real.rs` has them |
//! | `ICEFLOE_TEST_S3` | the properties of an S3 bucket, as `catalog/filesystem.rs` has them |
//!
//! `.ci/interchange` sets them all. Rows are exchanged as Parquet files, which DataFusion's own
//! reader reads, so that nothing of ours is between an engine's answer and the comparison.

mod duckdb;
mod java;
#[cfg(feature = "catalog-rest")]
mod java_rest;
#[cfg(feature = "catalog-sql")]
mod jdbc;
mod pyiceberg;
mod rows;
mod spark;
mod spark_made;
mod statements;
mod tables;
mod write;

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::catalog::{Catalog, FilesystemCatalog};
use crate::table::OpenOptions;

/// What a variable says of an engine or a server. Without it the test is skipped, which is said.
pub(crate) fn engine(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok().filter(|value| !value.is_empty());
    if found.is_none() {
        skipped(&format!("{variable} is not set"));
    }
    found
}

/// Says that the test at hand did nothing, and why: past the test runner, which keeps what tests that
/// pass print to itself.
pub(crate) fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}

/// Runs an engine and gives what it prints.
#[track_caller]
fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    // Java's reasons come last, below many lines of where it happened.
    let reasons = said.lines().filter(|line| !line.trim_start().starts_with("at "));
    let reasons: Vec<_> = reasons.collect();
    let from = reasons.len().saturating_sub(40);
    let printed = String::from_utf8(ran.stdout).unwrap();
    // The statement before the one that failed.
    let last = printed.lines().rev().find(|line| line.starts_with("-- ")).unwrap_or_default();
    assert!(ran.status.success(), "{} after {last}\n{}", ran.status, reasons[from..].join("\n"));
    printed
}

fn filesystem(warehouse: &Path) -> Arc<dyn Catalog> {
    let root = warehouse.display().to_string();
    Arc::new(FilesystemCatalog::new("ice", &root, OpenOptions::new()).unwrap())
}
