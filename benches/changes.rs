//! DELETE, UPDATE and MERGE of 1 % of a table's rows, against DataFusion's queries and COPYs that read and
//! write as many rows of the same Parquet files in the same run. `cargo bench --bench changes`; fewer
//! rows with `ICEFLOE_BENCH_ROWS`.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::prelude::SessionContext;
use icefloe::catalog::{Catalog, Namespace, TableIdent, load_catalog};
use icefloe::provider::IcebergCatalogProvider;
use icefloe::spec::SnapshotId;
use icefloe::sql::IcebergSql;
use icefloe::transaction::ManageSnapshots;
use support::{Data, compare, row_count, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// 1 % of the rows, in all files and row groups.
const SOME: &str = "l_partkey % 100 = 7";
const COLUMNS: &str = "l_orderkey, l_partkey, l_suppkey, l_quantity, l_extendedprice, l_discount, l_tax, l_returnflag, \
                       l_linestatus, l_shipdate, l_comment";

/// A statement, and a query that reads and writes what it has to.
struct Case {
    name: &'static str,
    mode: &'static str,
    statement: String,
    /// `COPY` writes what it gives, unless it only counts.
    query: String,
}

fn cases() -> Vec<Case> {
    let updated = COLUMNS.replace("l_tax", "CAST(0.01 AS decimal(15, 2)) AS l_tax");
    let kept = COLUMNS.replace("l_tax", &format!("CASE WHEN {SOME} THEN 0.01 ELSE l_tax END AS l_tax"));
    let merge = "MERGE INTO $T AS t USING news AS n ON t.l_orderkey = n.k AND t.l_partkey = n.p \
                 WHEN MATCHED THEN UPDATE SET l_tax = n.tax";
    let joined = COLUMNS.replace("l_tax", "n.tax AS l_tax");
    let all_joined = COLUMNS.replace("l_tax", "coalesce(n.tax, l_tax) AS l_tax");
    let on = "JOIN news AS n ON l_orderkey = n.k AND l_partkey = n.p";
    let case = |name, mode, statement: &str, query: String| Case {
        name,
        mode,
        statement: statement.to_owned(),
        query,
    };
    let (mor, cow) = ("merge-on-read", "copy-on-write");
    vec![
        case(
            "delete, merge-on-read",
            mor,
            &format!("DELETE FROM $T WHERE {SOME}"),
            format!("SELECT count(*) FROM raw WHERE {SOME}"),
        ),
        case(
            "delete, copy-on-write",
            cow,
            &format!("DELETE FROM $T WHERE {SOME}"),
            format!("SELECT * FROM raw WHERE NOT ({SOME})"),
        ),
        case(
            "update, merge-on-read",
            mor,
            &format!("UPDATE $T SET l_tax = 0.01 WHERE {SOME}"),
            format!("SELECT {updated} FROM raw WHERE {SOME}"),
        ),
        case(
            "update, copy-on-write",
            cow,
            &format!("UPDATE $T SET l_tax = 0.01 WHERE {SOME}"),
            format!("SELECT {kept} FROM raw"),
        ),
        case("merge, merge-on-read", mor, merge, format!("SELECT {joined} FROM raw {on}")),
        case("merge, copy-on-write", cow, merge, format!("SELECT {all_joined} FROM raw LEFT {on}")),
    ]
}

struct Table {
    context: SessionContext,
    catalog: Arc<dyn Catalog>,
    ident: TableIdent,
    /// The snapshot with all rows.
    whole: SnapshotId,
}

impl Table {
    async fn new(context: SessionContext, warehouse: &Path) -> Self {
        icefloe::sql::register(&context).unwrap();
        let warehouse = warehouse.display().to_string();
        let catalog = load_catalog("lake", [("type", "memory"), ("warehouse", &warehouse)]).await.unwrap();
        context.register_catalog("lake", Arc::new(IcebergCatalogProvider::new(Arc::clone(&catalog))));
        for sql in [
            "CREATE SCHEMA lake.n",
            "CREATE TABLE lake.n.t TBLPROPERTIES ('format-version' = '3', 'write.parquet.compression-codec' = 'snappy', \
             'history.expire.min-snapshots-to-keep' = '1') AS SELECT * FROM raw",
        ] {
            context.iceberg_sql(sql).await.unwrap().collect().await.unwrap();
        }
        // What MERGE has: 1 % of the keys.
        let news = format!(
            "SELECT l_orderkey AS k, l_partkey AS p, min(l_tax) AS tax FROM raw WHERE {SOME} GROUP BY 1, 2"
        );
        run(&context, &format!("CREATE TABLE news AS {news}")).await;
        let ident = TableIdent::new(Namespace::new(["n"]).unwrap(), "t").unwrap();
        let whole = catalog.load_table(&ident).await.unwrap().metadata().current_snapshot_id.unwrap();
        Self { context, catalog, ident, whole }
    }

    async fn set_mode(&self, mode: &str) {
        let names = ["delete", "update", "merge"].map(|name| format!("'write.{name}.mode' = '{mode}'"));
        let sql = format!("ALTER TABLE lake.n.t SET TBLPROPERTIES ({})", names.join(", "));
        self.context.iceberg_sql(&sql).await.unwrap();
    }

    /// Changes rows, and takes the change back.
    async fn change(&self, case: &Case) {
        run(&self.context, &case.statement.replace("$T", "lake.n.t")).await;
        let table = self.catalog.load_table(&self.ident).await.unwrap();
        let back = ManageSnapshots::new().set_current_snapshot(self.whole);
        table.transaction().apply(back).commit(self.catalog.as_ref()).await.unwrap();
    }

    async fn copy(&self, directory: &Path, case: &Case) {
        if case.query.starts_with("SELECT count") {
            run(&self.context, &case.query).await;
            return;
        }
        let to = directory.display();
        let sql =
            format!("COPY ({}) TO '{to}/' STORED AS PARQUET OPTIONS (compression 'snappy')", case.query);
        run(&self.context, &sql).await;
        std::fs::remove_dir_all(directory).unwrap();
    }
}

fn change_and_copy(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let data = Data::write(row_count());
    let dir = tempfile::tempdir().unwrap();
    let table =
        runtime.block_on(async { Table::new(data.session().await, &dir.path().join("warehouse")).await });
    let directory = dir.path().join("copied");
    let mut group = c.benchmark_group("changes");
    group.sample_size(10);
    for case in cases() {
        runtime.block_on(table.set_mode(case.mode));
        group.bench_function(format!("{}/iceberg", case.name), |b| {
            b.iter(|| runtime.block_on(table.change(&case)));
        });
        group.bench_function(format!("{}/datafusion", case.name), |b| {
            b.iter(|| runtime.block_on(table.copy(&directory, &case)));
        });
    }
    group.finish();
    println!("\nchange of 1 % of the rows / query or COPY that reads and writes as many");
    for case in cases() {
        runtime.block_on(table.set_mode(case.mode));
        let (change, copy) =
            (|| runtime.block_on(table.change(&case)), || runtime.block_on(table.copy(&directory, &case)));
        compare(case.name, 7, change, copy);
    }
}

criterion_group!(benches, change_and_copy);
criterion_main!(benches);
