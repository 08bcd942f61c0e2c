//! Decoding a manifest of 10,000 entries with metrics on ten columns, against what it takes merely
//! to inflate it, and against decoding it with other crates.
//!
//! `cargo bench --bench manifest`
//!
//! On two cores of a virtual machine, one used (2.8 MB, 5.0 MB inflated):
//!
//! | | time | of inflating |
//! |---|---|---|
//! | inflate only | 12.0 ms | 1.0 |
//! | icefloe | 17.4 ms | 1.5 |
//! | icefloe, and the bounds of one column | 17.9 ms | 1.5 |
//! | arrow-avro into batches (59.3), not yet entries | 24.2 ms | 2.0 |
//! | apache-avro into values (0.22), not yet entries | 98.0 ms | 8.2 |
//!
//! The decoder is our own for that, and because a file keeps its metrics without decoding them.

#![allow(clippy::expect_used)]

use std::hint::black_box;
use std::io::Cursor;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use icefloe::spec::{FieldId, Manifest};

mod generated;

const ENTRIES: usize = 10_000;

fn decode(c: &mut Criterion) {
    let (bytes, file) = generated::manifest(0..ENTRIES, ENTRIES, "m.avro".into());
    let spec = generated::spec();
    let partition_type = spec.partition_type(&generated::schema());
    let inflated = generated::inflate(&bytes);
    println!("{} bytes, {inflated} inflated", bytes.len());

    let mut group = c.benchmark_group("manifest of 10,000 entries");
    group.throughput(Throughput::Elements(ENTRIES as u64));
    group.sample_size(20);
    group.bench_function("inflate only", |b| b.iter(|| generated::inflate(black_box(&bytes))));
    group.bench_function("icefloe", |b| {
        b.iter(|| {
            let manifest = Manifest::parse(bytes.clone(), &file, &spec, &partition_type).expect("a manifest");
            assert_eq!(manifest.entries.len(), ENTRIES);
            manifest
        });
    });
    group.bench_function("icefloe, and the bounds of one column", |b| {
        b.iter(|| {
            let manifest = Manifest::parse(bytes.clone(), &file, &spec, &partition_type).expect("a manifest");
            let metrics = manifest.entries.iter().map(|e| &e.data_file.metrics);
            metrics.map(|m| (m.lower_bound(FieldId(5)), m.upper_bound(FieldId(5)))).map(black_box).count()
        });
    });
    group.bench_function("arrow-avro into batches", |b| {
        b.iter(|| {
            let reader = arrow_avro::reader::ReaderBuilder::new()
                .with_batch_size(1024)
                .build(Cursor::new(&bytes[..]))
                .expect("a reader");
            let rows: usize = reader.map(|batch| black_box(batch.expect("a batch")).num_rows()).sum();
            assert_eq!(rows, ENTRIES);
        });
    });
    group.bench_function("apache-avro into values", |b| {
        b.iter(|| {
            let reader = apache_avro::Reader::new(&bytes[..]).expect("a reader");
            let rows = reader
                .inspect(|value| {
                    black_box(value.as_ref().expect("a value"));
                })
                .count();
            assert_eq!(rows, ENTRIES);
        });
    });
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
