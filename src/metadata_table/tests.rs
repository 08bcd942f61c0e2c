//! Metadata tables of the tables in `testdata`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::catalog::TableProvider;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::*;
use crate::ErrorKind;
use crate::spec::{SnapshotId, SnapshotSelector};
use crate::table::{OpenOptions, Table};

const TABLES: [&str; 5] =
    ["branches_tags", "copy_types", "part_special_chars", "partition_evolution", "rollback_time_travel"];

fn readable() -> impl Iterator<Item = MetadataTableKind> {
    MetadataTableKind::ALL.into_iter().filter(|kind| *kind != MetadataTableKind::PositionDeletes)
}

async fn open(table: &str) -> Table {
    let path = format!("{}/testdata/tables/{table}", env!("CARGO_MANIFEST_DIR"));
    Table::open(&path, &OpenOptions::new().allow_moved_paths(true)).await.unwrap()
}

fn of(table: &Table, kind: MetadataTableKind) -> MetadataTable {
    MetadataTable::try_new(table.clone(), table.metadata().current_snapshot().cloned(), kind).unwrap()
}

fn session(partitions: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions))
}

/// The batches of all partitions, in order.
async fn scan(table: &MetadataTable, projection: Option<Vec<usize>>, partitions: usize) -> RecordBatch {
    let context = session(partitions);
    let plan = table.scan(&context.state(), projection.as_ref(), &[], None).await.unwrap();
    let parts = datafusion::physical_plan::collect_partitioned(Arc::clone(&plan), context.task_ctx());
    concat_batches(&plan.schema(), parts.await.unwrap().iter().flatten()).unwrap()
}

#[tokio::test]
async fn every_projection_and_split_gives_the_same_rows() {
    for name in TABLES {
        let table = open(name).await;
        for kind in readable() {
            let metadata_table = of(&table, kind);
            let all = scan(&metadata_table, None, 1).await;
            assert_eq!(all, scan(&metadata_table, None, 3).await, "{name} {kind}");
            for i in (0..all.num_columns()).rev() {
                let one = scan(&metadata_table, Some(vec![i]), 2).await;
                assert_eq!(one.column(0), all.column(i), "{name} {kind}");
            }
            let none = scan(&metadata_table, Some(Vec::new()), 2).await;
            assert_eq!((none.num_rows(), none.num_columns()), (all.num_rows(), 0), "{name} {kind}");
        }
    }
}

#[tokio::test]
async fn plans_run_more_than_once() {
    let table = open("partition_evolution").await;
    for kind in readable() {
        let context = session(2);
        let plan = of(&table, kind).scan(&context.state(), None, &[], None).await.unwrap();
        let rows =
            |parts: Vec<Vec<RecordBatch>>| parts.iter().flatten().map(RecordBatch::num_rows).sum::<usize>();
        let run = || datafusion::physical_plan::collect_partitioned(Arc::clone(&plan), context.task_ctx());
        let (first, second) = (rows(run().await.unwrap()), rows(run().await.unwrap()));
        assert!(first > 0 && first == second, "{kind}: {first} {second}");
    }
}

#[tokio::test]
async fn tables_without_snapshots_have_no_rows() {
    for kind in readable().filter(|k| k.has_versions()) {
        let table = open("partition_evolution").await;
        let empty = MetadataTable::try_new(table.clone(), None, kind).unwrap();
        assert_eq!(scan(&empty, None, 2).await.num_rows(), 0, "{kind}");
        assert_eq!(empty.schema(), of(&table, kind).schema(), "{kind}");
    }
}

#[tokio::test]
async fn versions_are_those_of_the_table() {
    let table = open("rollback_time_travel").await;
    for kind in readable() {
        let at = |selector| of(&table, kind).at(&selector);
        let first = at(SnapshotSelector::Id(SnapshotId(4_462_988_853_346_703_124)));
        if !kind.has_versions() {
            assert_eq!(first.unwrap_err().kind(), ErrorKind::Unsupported, "{kind}");
            continue;
        }
        let (then, now) = (scan(&first.unwrap(), None, 1).await, scan(&of(&table, kind), None, 1).await);
        assert_eq!(then.schema(), now.schema(), "{kind}");
        // The table never had deletes.
        assert_eq!(then == now, kind == MetadataTableKind::DeleteFiles, "{kind}");
        let error = at(SnapshotSelector::Ref("nope".into())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{kind}");
        assert!(error.to_string().contains(&format!("${kind}: ")), "{error}");
    }
}

#[tokio::test]
async fn positions_are_refused_by_name() {
    let table = open("partition_evolution").await;
    let error = MetadataTable::try_new(table, None, MetadataTableKind::PositionDeletes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("position_deletes"), "{error}");
}

#[test]
fn names_are_found_in_any_case() {
    for kind in MetadataTableKind::ALL {
        assert_eq!(MetadataTableKind::parse(&kind.name().to_uppercase()), Some(kind));
        assert_eq!(MetadataTableKind::split(&format!("a$b${kind}")), Some(("a$b", kind)));
    }
    for name in ["t", "t$", "$files", "t$file", "t$files$", "t$files "] {
        assert_eq!(MetadataTableKind::split(name), None, "{name}");
    }
}
