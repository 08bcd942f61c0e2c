//! What others do between the read of a table and a commit that does not look at it.

use super::*;
use crate::transaction::{ExpireSnapshots, ManageSnapshots, UpdateSpec};

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
