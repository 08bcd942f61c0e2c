//! Scans of Iceberg tables with row-level deletes, against DataFusion's own scan of all rows of
//! the same Parquet files in the same run. `cargo bench --bench deletes`.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use support::{Data, compare, queries, register, row_count, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn deletes(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let data = Data::write(row_count());
    let cases = [
        ("vectors_1_percent", 3, data.vectors(100)),
        ("vectors_20_percent", 3, data.vectors(5)),
        ("position_files_1_percent", 2, data.positions(100, 10)),
        ("equality_1_percent", 2, data.keys(5)),
    ];
    let context = runtime.block_on(async {
        let context = data.session().await;
        for (name, version, files) in &cases {
            register(&context, name, &data.table(name, *version, files)).await;
        }
        context
    });
    let mut group = c.benchmark_group("deletes");
    group.sample_size(10);
    for table in std::iter::once("raw").chain(cases.iter().map(|(name, ..)| *name)) {
        for (query, sql) in queries(table) {
            group.bench_function(format!("{query}/{table}"), |b| {
                b.iter(|| runtime.block_on(run(&context, &sql)));
            });
        }
    }
    group.finish();
    println!("\nscan with deletes / scan of all rows of the Parquet files");
    for (table, ..) in &cases {
        for ((query, ours), (_, raw)) in queries(table).into_iter().zip(queries("raw")) {
            compare(
                &format!("{table} {query}"),
                15,
                || {
                    runtime.block_on(run(&context, &ours));
                },
                || {
                    runtime.block_on(run(&context, &raw));
                },
            );
        }
    }
}

criterion_group!(benches, deletes);
criterion_main!(benches);
