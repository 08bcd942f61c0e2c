//! Scans of Iceberg tables with row-level deletes, against DataFusion's own scan of all rows of
//! the same Parquet files in the same run. `cargo bench --bench deletes`.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use std::path::Path;

use criterion::{Criterion, criterion_group};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
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
    let tables = cases.each_ref().map(|(name, version, files)| (*name, data.table(name, *version, files)));
    let context = runtime.block_on(async {
        let context = data.session().await;
        for (name, metadata) in &tables {
            register(&context, name, metadata).await;
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
    println!("\nthe same, by the first query of a table that was just opened");
    for (table, metadata) in &tables {
        for ((query, ours), (_, raw)) in queries(table).into_iter().zip(queries("raw")) {
            compare(
                &format!("{table} {query}"),
                9,
                || {
                    runtime.block_on(async {
                        context.deregister_table(*table).unwrap();
                        register(&context, table, metadata).await;
                        run(&context, &ours).await
                    });
                },
                || {
                    runtime.block_on(run(&context, &raw));
                },
            );
        }
    }
    println!("\npeak memory of a process that scans, against one that scans the Parquet files");
    if let Some(raw) = peak_memory(&data.dir.path().join("data")) {
        for (name, metadata) in &tables {
            if let Some(peak) = peak_memory(metadata) {
                println!("{name:<30} {:5.2}  ({peak:.0} MB to {raw:.0} MB)", peak / raw);
            }
        }
    }
}

/// Where the process that measures memory finds what it reads.
const PEAK_OF: &str = "ICEFLOE_BENCH_PEAK_OF";

/// The highest resident set of a process that only scans `source`, in megabytes: the median of some,
/// as it depends on what threads do at the same time. Huge pages would hide it: with them the allocator
/// holds 2 MB for the first byte, for each size of allocation in each thread.
fn peak_memory(source: &Path) -> Option<f64> {
    let program = std::env::current_exe().unwrap();
    let peak = || {
        let output = std::process::Command::new(&program)
            .env(PEAK_OF, source)
            .env("MIMALLOC_ALLOW_THP", "0")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().ok()
    };
    let mut peaks = (0..9).map(|_| peak()).collect::<Option<Vec<f64>>>()?;
    peaks.sort_by(f64::total_cmp);
    Some(peaks[peaks.len() / 2])
}

/// Scans all columns of a directory of Parquet files or of a table, and prints the peak.
fn scan_and_print_peak(source: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = SessionContext::new();
        match source.is_dir() {
            true => {
                let files = source.to_str().unwrap();
                context.register_parquet("t", files, ParquetReadOptions::default()).await.unwrap();
            }
            false => register(&context, "t", source).await,
        }
        for (_, sql) in queries("t") {
            run(&context, &sql).await;
        }
        // The other columns, by what no statistics answer.
        let sql = "SELECT sum(length(l_comment)), sum(l_partkey), sum(l_suppkey), sum(l_orderkey) FROM t";
        run(&context, sql).await;
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    if let Some(kilobytes) = kilobytes {
        println!("{}", kilobytes / 1024.0);
    }
}

criterion_group!(benches, deletes);

fn main() {
    if let Some(source) = std::env::var_os(PEAK_OF) {
        return scan_and_print_peak(Path::new(&source));
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
