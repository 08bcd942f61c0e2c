//! Tables that are loaded with the snapshots of their branches and tags only.

use datafusion::prelude::SessionContext;

use super::plans::register;
use super::*;
use crate::exec::tests::table::{TestTable, id_and_s, longs, query};
use crate::provider::IcebergCatalogProvider;
use crate::spec::{MAIN_BRANCH, SnapshotId, SnapshotSelector};
use crate::sql::IcebergSql;
use crate::table::Table;
use crate::transaction::{Append, CherryPick, ExpireSnapshots, ManageSnapshots};
use crate::{ErrorKind, IcebergTable};

const REFS: (&str, &str) = ("snapshot-loading-mode", "REFS");

/// All that a catalog can do is the same.
mod suite {
    use super::*;
    use crate::catalog::suite::{Can, Subject};

    async fn subject() -> Option<Subject> {
        let server = Server::start(Settings::default()).await;
        let catalog: Arc<dyn Catalog> = Arc::new(connect(&server, &[REFS]).await);
        Some(Subject::new(catalog, Can { slashes: false, ..Can::EVERYTHING }).keep(server))
    }

    crate::catalog::suite::cases!(subject);
}

/// `db.t` with snapshots 1 (with two rows) and those of so many empty appends.
async fn with_snapshots(appends: usize) -> (TestTable, Arc<Server>, RestCatalog) {
    let mut written = TestTable::new(id_and_s());
    written.data(1, &[("id", Some(1), longs(0..2))]);
    let server = Server::start(Settings::default()).await;
    let mut table = register(&server, &written).await;
    for _ in 0..appends {
        let append = table.transaction().apply(Append::fast());
        table = append.commit(server.catalog.as_ref()).await.unwrap();
    }
    let catalog = connect(&server, &[REFS]).await;
    server.requests();
    (written, server, catalog)
}

fn modes(server: &Server) -> Vec<String> {
    let loads = server.requests().into_iter().filter(|r| r.method == "GET" && r.path.contains("/tables/t"));
    loads.map(|r| r.path.rsplit_once('=').unwrap().1.to_owned()).collect()
}

fn ids(table: &Table) -> Vec<i64> {
    table.metadata().snapshots.iter().map(|s| s.snapshot_id.0).collect()
}

#[tokio::test]
async fn others_are_loaded_when_they_are_needed_once() {
    let (_written, server, catalog) = with_snapshots(2).await;
    let table = catalog.load_table(&ident("t")).await.unwrap();
    assert_eq!((ids(&table).len(), table.has_all_snapshots()), (1, false));
    let whole = table.with_all_snapshots().await.unwrap();
    assert_eq!((ids(&whole).len(), whole.has_all_snapshots()), (3, true));
    assert!(Arc::ptr_eq(whole.metadata(), table.clone().with_all_snapshots().await.unwrap().metadata()));
    // The table that is remembered is the same one.
    let again = catalog.load_table(&ident("t")).await.unwrap();
    again.with_all_snapshots().await.unwrap();
    assert_eq!(modes(&server), ["refs", "all", "refs"]);
    assert!(Arc::ptr_eq(whole.metadata(), whole.with_all_snapshots().await.unwrap().metadata()));
    let all = connect(&server, &[]).await.load_table(&ident("t")).await.unwrap();
    assert!(all.has_all_snapshots());
    let properties = map(&[("uri", &server.uri), ("snapshot-loading-mode", "some")]);
    let e = RestCatalog::connect("ice", properties).await.unwrap_err();
    assert!(e.to_string().contains("snapshot-loading-mode"), "{e}");
}

#[tokio::test]
async fn it_stays_the_version_that_it_was() {
    let (_written, server, catalog) = with_snapshots(1).await;
    let table = catalog.load_table(&ident("t")).await.unwrap();
    let before = server.catalog.load_table(&ident("t")).await.unwrap();
    before.transaction().apply(Append::fast()).commit(server.catalog.as_ref()).await.unwrap();
    let whole = table.with_all_snapshots().await.unwrap();
    assert_eq!(ids(&whole), ids(&before));
    assert_eq!(whole.metadata(), before.metadata());
    assert_eq!(whole.metadata_location(), table.metadata_location());
    // Another table took its name.
    let table = catalog.load_table(&ident("t")).await.unwrap();
    server.catalog.drop_table(&ident("t"), false).await.unwrap();
    server.catalog.create_table(&ident("t"), creation()).await.unwrap();
    let e = table.with_all_snapshots().await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_load_what_they_need() {
    let (_written, server, catalog) = with_snapshots(2).await;
    let all = ids(&server.catalog.load_table(&ident("t")).await.unwrap());
    let context = SessionContext::new();
    crate::sql::register(&context).unwrap();
    context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::new(catalog))));
    let count = |sql: String| {
        let context = context.clone();
        async move {
            let batches = context.iceberg_sql(&sql).await.unwrap().collect().await.unwrap();
            let column =
                datafusion::arrow::compute::cast(batches[0].column(0), &arrow::datatypes::DataType::Int64);
            use datafusion::arrow::array::AsArray;
            column.unwrap().as_primitive::<arrow::datatypes::Int64Type>().value(0)
        }
    };
    assert_eq!(count("SELECT count(*) FROM ice.db.t".into()).await, 2);
    assert_eq!(modes(&server), ["refs"]);
    let last = all[2];
    for (sql, expected) in [
        (format!("SELECT count(*) FROM ice.db.t VERSION AS OF {}", all[1]), 2),
        ("SELECT count(*) FROM ice.db.t TIMESTAMP AS OF '2100-01-01 00:00:00'".to_owned(), 2),
        ("SELECT count(*) FROM ice.db.t$snapshots".to_owned(), 3),
        ("SELECT count(*) FROM ice.db.t.history WHERE is_current_ancestor".to_owned(), 2),
        ("SELECT count(*) FROM ice.db.t$all_manifests".to_owned(), 3),
        ("SELECT count(*) FROM ice.db.t$all_data_files".to_owned(), 1),
        (format!("SELECT count(*) FROM ice.db.t$files VERSION AS OF {}", all[0]), 1),
        (
            "SELECT latest_snapshot_id FROM ice.db.t$metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
                .to_owned(),
            last,
        ),
        ("SELECT count(*) FROM ice.db.t$partitions WHERE last_updated_snapshot_id IS NOT NULL".to_owned(), 1),
    ] {
        assert_eq!(count(sql.clone()).await, expected, "{sql}");
    }
    // Once for all of them: the table has not changed.
    let modes = modes(&server);
    assert_eq!(modes.iter().filter(|mode| *mode == "all").count(), 1, "{modes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_wait_is_refused() {
    let (_written, server, catalog) = with_snapshots(2).await;
    let all = ids(&server.catalog.load_table(&ident("t")).await.unwrap());
    let table = IcebergTable::try_new(catalog.load_table(&ident("t")).await.unwrap()).unwrap();
    let old = SnapshotSelector::Id(SnapshotId(all[0]));
    for e in [
        table.at(&old).unwrap_err(),
        table.at(&SnapshotSelector::AsOf(1_700_000_000_000)).unwrap_err(),
        table.metadata_table(crate::MetadataTableKind::Snapshots).unwrap_err(),
    ] {
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("with_all_snapshots"), "{e}");
    }
    assert!(table.at(&SnapshotSelector::Ref(MAIN_BRANCH.into())).is_ok());
    assert!(table.with_all_snapshots().await.unwrap().at(&old).is_ok());
    // DataFusion's own planner can't wait, either.
    let context = SessionContext::new();
    crate::sql::register(&context).unwrap();
    context.sql("SET datafusion.sql_parser.dialect = 'Databricks'").await.unwrap();
    context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::new(catalog))));
    let sql = format!("SELECT * FROM ice.db.t VERSION AS OF {}", all[0]);
    let e = query(&context, &sql).await.unwrap_err();
    assert!(e.to_string().contains("with_all_snapshots"), "{e}");
}

#[tokio::test]
async fn transactions_know_history() {
    let (_written, server, catalog) = with_snapshots(2).await;
    let all = ids(&server.catalog.load_table(&ident("t")).await.unwrap());
    let table = catalog.load_table(&ident("t")).await.unwrap();
    let back = ManageSnapshots::new().rollback_to(SnapshotId(all[0]));
    let table = table.transaction().apply(back).commit(&catalog).await.unwrap();
    assert_eq!(table.metadata().current_snapshot_id, Some(SnapshotId(all[0])));
    assert!(table.has_all_snapshots(), "a commit's reply has all");
    catalog.0.known.invalidate_all();
    // The second is no reference's any more, but can be picked.
    let table = catalog.load_table(&ident("t")).await.unwrap();
    assert_eq!(ids(&table).len(), 1);
    let table =
        table.transaction().apply(CherryPick::new(SnapshotId(all[1]))).commit(&catalog).await.unwrap();
    assert_eq!(table.metadata().current_snapshot_id, Some(SnapshotId(all[1])));
    catalog.0.known.invalidate_all();
    // Somebody else is faster, so that the table is read again.
    let table = catalog.load_table(&ident("t")).await.unwrap();
    server.catalog.commit_table(change("t", "theirs")).await.unwrap();
    let other = server.catalog.load_table(&ident("t")).await.unwrap();
    other.transaction().apply(Append::fast()).commit(server.catalog.as_ref()).await.unwrap();
    let table = table.transaction().apply(Append::fast()).commit(&catalog).await.unwrap();
    assert_eq!(ids(&table).len(), 5);
    catalog.0.known.invalidate_all();
    let table = catalog.load_table(&ident("t")).await.unwrap();
    let expire = ExpireSnapshots::new().expire_older_than(i64::MAX).retain_last(1);
    let table = table.transaction().apply(expire).commit(&catalog).await.unwrap();
    assert_eq!(ids(&table).len(), 1);
    let now = server.catalog.load_table(&ident("t")).await.unwrap();
    assert_eq!(ids(&now), ids(&table));
}
