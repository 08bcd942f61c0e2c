//! What others do between the read of a table and a commit that does not look at it.

use super::*;
use crate::transaction::{ExpireSnapshots, ManageSnapshots, UpdateSchema, UpdateSpec, UpgradeFormatVersion};

#[tokio::test]
async fn expiry_keeps_a_snapshot_that_was_tagged_meanwhile() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = |path: &str| Append::fast().files([file(path, Some(1), 1)]);
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let first = current(&table).snapshot_id;
    let table = table.transaction().apply(append("b")).commit(&catalog).await.unwrap();
    let stale = table.clone();
    let tag = ManageSnapshots::new().create_tag_at("keep", first);
    table.transaction().apply(tag).commit(&catalog).await.unwrap();
    let expire = ExpireSnapshots::new().expire_older_than(i64::MAX).retain_last(1);
    stale.transaction().apply(expire).commit(&catalog).await.unwrap();
    let now = catalog.load(&ident("t")).unwrap();
    assert!(now.metadata().refs.contains_key("keep"));
    assert!(now.metadata().snapshot(first).is_some());
}

#[tokio::test]
async fn an_append_does_not_bring_back_a_spec_that_was_removed() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let stale = table.clone();
    let unpartition = UpdateSpec::new().remove_field("p");
    let table = table.transaction().apply(unpartition).commit(&catalog).await.unwrap();
    let clean = ExpireSnapshots::new().clean_expired_metadata(true);
    let table = table.transaction().apply(clean).commit(&catalog).await.unwrap();
    assert!(!table.metadata().partition_specs.contains_key(&SpecId(0)));
    let append = Append::fast().files([file("a", Some(1), 1)]);
    let refused = stale.transaction().apply(append).commit(&catalog).await.unwrap_err();
    assert_ne!(refused.kind(), ErrorKind::CommitConflict, "{refused}");
    assert!(catalog.load(&ident("t")).unwrap().metadata().current_snapshot().is_none());
}

#[tokio::test]
async fn a_spec_that_main_uses_again_meanwhile_is_kept() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let unpartition = UpdateSpec::new().remove_field("p");
    let table = table.transaction().apply(unpartition).commit(&catalog).await.unwrap();
    let stale = table.clone();
    let append = Append::fast().files([file("a", Some(1), 1)]);
    table.transaction().apply(append).commit(&catalog).await.unwrap();
    let clean = ExpireSnapshots::new().clean_expired_metadata(true);
    stale.transaction().apply(clean).commit(&catalog).await.unwrap();
    let now = catalog.load(&ident("t")).unwrap();
    assert!(now.metadata().partition_specs.contains_key(&SpecId(0)));
    assert_eq!(live(&now, ManifestContent::Data).await, names(["a"]));
}

#[tokio::test]
async fn what_changes_nothing_may_change_what_others_made_of_the_table() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = |path: &str| Append::fast().files([file(path, Some(1), 1)]);
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let first = current(&table).snapshot_id;
    let stale = table.clone();
    table.transaction().apply(append("b")).commit(&catalog).await.unwrap();
    // The table is there, as far as `stale` knows.
    let back = ManageSnapshots::new().set_current_snapshot(first);
    let table = stale.transaction().apply(back.clone()).commit(&catalog).await.unwrap();
    assert_eq!(current(&table).snapshot_id, first);
    assert_eq!(catalog.load(&ident("t")).unwrap().metadata(), table.metadata());
    let commits = catalog.commit_count();
    let again = stale.transaction().apply(back).commit(&catalog).await.unwrap();
    assert_eq!(again.metadata(), table.metadata());
    assert_eq!(catalog.commit_count(), commits);
}

#[tokio::test]
async fn rules_of_branches_that_were_changed_meanwhile_stay() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = |path: &str| Append::fast().files([file(path, Some(1), 1)]);
    let stale = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let rule = ManageSnapshots::new().set_min_snapshots_to_keep("main", 7);
    stale.transaction().apply(rule).commit(&catalog).await.unwrap();
    stale.transaction().apply(append("b")).commit(&catalog).await.unwrap();
    let rule = ManageSnapshots::new().set_max_snapshot_age_ms("main", 8);
    let table = stale.transaction().apply(rule).commit(&catalog).await.unwrap();
    let main = &table.metadata().refs["main"];
    assert_eq!((main.min_snapshots_to_keep, main.max_snapshot_age_ms), (Some(7), Some(8)));
    assert_eq!(table.metadata().snapshots.len(), 2);
    // And expiry goes by them.
    let expire = ExpireSnapshots::new().expire_older_than(i64::MAX).retain_last(1);
    let table = stale.transaction().apply(expire).commit(&catalog).await.unwrap();
    assert_eq!(table.metadata().snapshots.len(), 2);
}

#[tokio::test]
async fn branches_that_others_moved_are_taken_from_where_they_are() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = |path: &str| Append::fast().files([file(path, Some(1), 1)]);
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let branches = ManageSnapshots::new().create_branch("b").create_branch("c");
    let stale = table.transaction().apply(branches).commit(&catalog).await.unwrap();
    let table = stale.transaction().apply(append("b").branch("b")).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(append("c").branch("c")).commit(&catalog).await.unwrap();
    let at = |table: &Table, name: &str| table.metadata().refs[name].snapshot_id;
    let (b, c) = (at(&table, "b"), at(&table, "c"));
    let forward = ManageSnapshots::new().fast_forward("main", "b");
    let table = stale.transaction().apply(forward).commit(&catalog).await.unwrap();
    assert_eq!(at(&table, "main"), b);
    let rename = ManageSnapshots::new().rename_branch("c", "d");
    let table = stale.transaction().apply(rename).commit(&catalog).await.unwrap();
    assert_eq!(at(&table, "d"), c);
    assert!(!table.metadata().refs.contains_key("c"));
}

#[tokio::test]
async fn what_others_removed_or_upgraded_meanwhile_is_looked_up_again() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    // The first schema and spec are still there for `stale`, and would do.
    let unpartition = UpdateSpec::new().remove_field("p");
    let add = UpdateSchema::new().add_column("y", PrimitiveType::Int);
    let changed = table.transaction().apply(unpartition.clone()).apply(add);
    let stale = changed.commit(&catalog).await.unwrap();
    let clean = ExpireSnapshots::new().clean_expired_metadata(true);
    let cleaned = stale.transaction().apply(clean).commit(&catalog).await.unwrap();
    assert_eq!((cleaned.metadata().partition_specs.len(), cleaned.metadata().schemas.len()), (1, 1));
    let partition = UpdateSpec::new().add_identity("p");
    let table = stale.transaction().apply(partition).commit(&catalog).await.unwrap();
    assert_eq!(table.metadata().default_spec().fields.len(), 1);
    let drop = UpdateSchema::new().delete_column("y");
    let table = stale.transaction().apply(drop).commit(&catalog).await.unwrap();
    assert!(table.metadata().current_schema().field_by_full_name("y").is_none());

    let (catalog, table) = TestCatalog::with_table(1, &[]).await;
    let added = UpdateSpec::new().add_field("p", Transform::Bucket(4));
    let stale = table.transaction().apply(added).commit(&catalog).await.unwrap();
    stale.transaction().apply(UpgradeFormatVersion::to(2)).commit(&catalog).await.unwrap();
    let table = stale.transaction().apply(unpartition).commit(&catalog).await.unwrap();
    // As version 2 has it: without a `void` field in its place.
    assert_eq!(table.metadata().default_spec().fields.len(), 1);
}
