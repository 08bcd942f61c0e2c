//! DuckDB reads what we write.

use std::process::Command;
use std::sync::Arc;

use super::rows::{Differences, Rows};
use super::tables::{Kind, Maker};
use super::{engine, filesystem, run};
use crate::catalog::Catalog;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duckdb_reads_what_we_write() {
    let Some(program) = engine("ICEFLOE_TEST_DUCKDB") else { return };
    let dir = tempfile::tempdir().unwrap();
    let catalog: Arc<dyn Catalog> = filesystem(dir.path());
    let mut command = Command::new(program);
    let mut tables = Vec::new();
    for version in 1..=3 {
        for sample in Maker::new(&catalog, "v", version).await.all().await {
            // DuckDB 1.5 fails where keys are deleted from a partition that is null.
            if sample.kind != Kind::Plain || sample.name() == "deletes" {
                continue;
            }
            let table = catalog.load_table(&sample.table).await.unwrap();
            let results = dir.path().join("results").join(sample.table.to_string());
            std::fs::create_dir_all(&results).unwrap();
            let metadata = table.metadata_location().to_string().replace("file://", "");
            command.arg(format!(
                "COPY (SELECT * FROM iceberg_scan('{metadata}')) TO '{}/rows.parquet' (FORMAT parquet)",
                results.display()
            ));
            tables.push((sample, table, results));
        }
    }
    run(&mut command);
    let mut found = Differences::default();
    for (sample, table, results) in tables {
        found.rows(&sample.table, &Rows::of_table(&table).await, &Rows::of_parquet(&results).await);
    }
    found.assert_none();
}
