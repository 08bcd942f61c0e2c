//! INSERT into an Iceberg table, against DataFusion's COPY of the same rows to Parquet files with the
//! same codec in the same run. `cargo bench --bench insert`; fewer rows with `ICEFLOE_BENCH_ROWS`.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::prelude::SessionContext;
use icefloe::catalog::{Catalog, Namespace, TableCreation, TableIdent, load_catalog};
use icefloe::provider::IcebergCatalogProvider;
use icefloe::spec::{
    FieldId, NullOrder, PartitionField, PartitionSpec, SortDirection, SortField, SortOrder, SortOrderId,
    SpecId, Transform,
};
use support::{Data, compare, row_count, run, schema};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A table, and the COPY that does as much.
struct Case {
    name: &'static str,
    spec: Option<PartitionSpec>,
    order: Option<SortOrder>,
    /// What COPY is told more.
    query: &'static str,
    options: &'static str,
}

fn by(source: i32, transform: Transform) -> Option<PartitionSpec> {
    let field = PartitionField {
        source_ids: vec![FieldId(source)],
        field_id: FieldId(1000),
        name: "p".to_owned(),
        transform,
        extra: Default::default(),
    };
    Some(PartitionSpec { spec_id: SpecId(0), fields: vec![field] })
}

fn sorted_by(source: i32) -> Option<SortOrder> {
    let field = SortField {
        source_ids: vec![FieldId(source)],
        transform: Transform::Identity,
        direction: SortDirection::Ascending,
        null_order: NullOrder::First,
        extra: Default::default(),
    };
    Some(SortOrder { order_id: SortOrderId(1), fields: vec![field] })
}

fn cases() -> Vec<Case> {
    let plain = || Case { name: "plain", spec: None, order: None, query: "SELECT * FROM raw", options: "" };
    let month = "SELECT *, CAST(date_trunc('month', l_shipdate) AS DATE) AS p FROM raw";
    vec![
        Case {
            name: "partitioned",
            spec: by(8, Transform::Identity),
            options: "PARTITIONED BY (l_returnflag)",
            ..plain()
        },
        Case {
            name: "84 months",
            spec: by(10, Transform::Month),
            query: month,
            options: "PARTITIONED BY (p)",
            ..plain()
        },
        Case {
            name: "sorted",
            order: sorted_by(10),
            query: "SELECT * FROM raw ORDER BY l_shipdate",
            ..plain()
        },
        plain(),
    ]
}

async fn create(catalog: &Arc<dyn Catalog>, case: &Case) {
    let table = TableIdent::new(Namespace::new(["n"]).unwrap(), case.name).unwrap();
    let codec = ("write.parquet.compression-codec".to_owned(), "snappy".to_owned());
    let creation = TableCreation {
        partition_spec: case.spec.clone(),
        sort_order: case.order.clone(),
        properties: [codec].into(),
        ..TableCreation::new(schema())
    };
    catalog.create_table(&table, creation).await.unwrap();
}

/// Puts the rows in the place of those before.
async fn insert(context: &SessionContext, catalog: &Arc<dyn Catalog>, case: &Case) {
    run(context, &format!("INSERT INTO lake.n.\"{}\" SELECT * FROM raw", case.name)).await;
    let table = TableIdent::new(Namespace::new(["n"]).unwrap(), case.name).unwrap();
    catalog.drop_table(&table, true).await.unwrap();
    create(catalog, case).await;
}

async fn copy(context: &SessionContext, directory: &Path, case: &Case) {
    let Case { query, options, .. } = case;
    let to = directory.display();
    let sql = format!("COPY ({query}) TO '{to}/' STORED AS PARQUET {options} OPTIONS (compression 'snappy')");
    run(context, &sql).await;
    std::fs::remove_dir_all(directory).unwrap();
}

fn insert_and_copy(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let data = Data::write(row_count());
    let dir = tempfile::tempdir().unwrap();
    let (context, catalog) = runtime.block_on(async {
        let context = data.session().await;
        let warehouse = dir.path().join("warehouse").display().to_string();
        let catalog = load_catalog("lake", [("type", "memory"), ("warehouse", &warehouse)]).await.unwrap();
        let namespace = Namespace::new(["n"]).unwrap();
        catalog.create_namespace(&namespace, Default::default()).await.unwrap();
        context.register_catalog("lake", Arc::new(IcebergCatalogProvider::new(Arc::clone(&catalog))));
        for case in cases() {
            create(&catalog, &case).await;
        }
        (context, catalog)
    });
    let directory = dir.path().join("copied");
    let mut group = c.benchmark_group("insert");
    group.sample_size(10);
    for case in cases() {
        group.bench_function(format!("{}/iceberg", case.name), |b| {
            b.iter(|| runtime.block_on(insert(&context, &catalog, &case)));
        });
        group.bench_function(format!("{}/copy", case.name), |b| {
            b.iter(|| runtime.block_on(copy(&context, &directory, &case)));
        });
    }
    group.finish();
    println!("\nINSERT into an Iceberg table / COPY of the same rows to Parquet files");
    for case in cases() {
        let (insert, copy) = (
            || runtime.block_on(insert(&context, &catalog, &case)),
            || runtime.block_on(copy(&context, &directory, &case)),
        );
        compare(case.name, 7, insert, copy);
    }
}

criterion_group!(benches, insert_and_copy);
criterion_main!(benches);
