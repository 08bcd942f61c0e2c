//! Planning a scan of a table of 10,000 and 100,000 data files in 100 manifests: metrics on ten
//! columns, partitioned by day over ten years, deflate. Cold is a new table with an empty cache,
//! warm one whose manifests were read before; the unit is merely inflating all manifests on the
//! same cores.
//!
//! `cargo bench --bench planning`
//!
//! On a virtual machine with two cores, files on its disk's cache:
//!
//! | | 10,000 files | 100,000 files |
//! |---|---|---|
//! | inflate only | 9.6 ms | 94 ms |
//! | cold, no filter | 28.5 ms | 145 ms |
//! | cold, one day | 0.35 ms | 2.1 ms |
//! | cold, metrics | 25.9 ms | 170 ms |
//! | warm, no filter | 0.62 ms | 4.4 ms |
//! | warm, one day | 0.03 ms | 0.07 ms |
//! | warm, metrics | 1.8 ms | 19 ms |
//!
//! With 100 files a manifest, opening and reading the manifest's header is most of the work.

#![allow(clippy::expect_used)]

use std::sync::Arc;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use datafusion::prelude::{Expr, col, lit};
use datafusion::scalar::ScalarValue;
use icefloe::IcebergTable;
use tokio::runtime::Runtime;

mod generated;

const MANIFESTS: usize = 100;

/// The filters, and whether they leave all files.
fn filters() -> Vec<(&'static str, Vec<Expr>)> {
    let micros = |day: i32| {
        let micros = i64::from(day) * 86_400_000_000;
        lit(ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into())))
    };
    let day = generated::FIRST_DAY + 1_000;
    vec![
        ("no filter", vec![]),
        ("one day", vec![col("ts").gt_eq(micros(day)), col("ts").lt(micros(day + 1))]),
        ("metrics", vec![col("number_4").gt(lit(1_990.0))]),
    ]
}

fn inflate_all(runtime: &Runtime, manifests: &[Bytes]) {
    runtime.block_on(async {
        let tasks: Vec<_> =
            manifests.iter().cloned().map(|m| tokio::spawn(async move { generated::inflate(&m) })).collect();
        for task in tasks {
            task.await.expect("inflated");
        }
    });
}

fn planning(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for files in [10_000, 100_000] {
        let directory = tempfile::tempdir().expect("a directory");
        let manifests = generated::table(directory.path(), files, MANIFESTS);
        let url = directory.path().to_str().expect("UTF-8").to_owned();
        let open = || runtime.block_on(IcebergTable::open(&url)).expect("a table");

        let mut group = c.benchmark_group(format!("{files} files"));
        group.sample_size(20);
        group.bench_function("inflate only", |b| b.iter(|| inflate_all(&runtime, &manifests)));
        for (name, filters) in filters() {
            let plan = |table: &IcebergTable| {
                let table = table.clone();
                let filters = filters.clone();
                // On a worker, as in a server: there is nothing else for the caller to do.
                runtime
                    .block_on(
                        async move { tokio::spawn(async move { table.data_files(&filters).await }).await },
                    )
                    .expect("planned")
                    .expect("a plan")
            };
            let warm = Arc::new(open());
            println!("{name}: {} of {files} files", plan(&warm).len());
            group.bench_function(format!("cold, {name}"), |b| {
                b.iter_batched(open, |table| (plan(&table), table), BatchSize::PerIteration);
            });
            group.bench_function(format!("warm, {name}"), |b| b.iter_with_large_drop(|| plan(&warm)));
        }
        group.finish();
    }
}

criterion_group!(benches, planning);
criterion_main!(benches);
