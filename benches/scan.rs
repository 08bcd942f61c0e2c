//! Scans of an Iceberg table without deletes, against DataFusion's own scan of the same Parquet
//! files in the same run. `cargo bench --bench scan`; fewer rows with `ICEFLOE_BENCH_ROWS`.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use support::{Data, compare, queries, register, row_count, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn scan(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let data = Data::write(row_count());
    let metadata = data.table("plain", 2, &[]);
    let context = runtime.block_on(async {
        let context = data.session().await;
        register(&context, "iceberg", &metadata).await;
        context
    });
    let mut group = c.benchmark_group("scan");
    group.sample_size(10);
    for table in ["raw", "iceberg"] {
        for (name, sql) in queries(table) {
            group.bench_function(format!("{name}/{table}"), |b| {
                b.iter(|| runtime.block_on(run(&context, &sql)));
            });
        }
    }
    group.finish();
    println!("\nscan of the Iceberg table / scan of its Parquet files");
    for ((name, ours), (_, raw)) in queries("iceberg").into_iter().zip(queries("raw")) {
        compare(
            name,
            21,
            || {
                runtime.block_on(run(&context, &ours));
            },
            || {
                runtime.block_on(run(&context, &raw));
            },
        );
    }
}

criterion_group!(benches, scan);
criterion_main!(benches);
