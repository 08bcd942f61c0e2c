//! Delete files: which of them stay, and for how long.

use super::*;
use crate::spec::SequenceNumber;

async fn deletes(table: &Table) -> BTreeSet<String> {
    live(table, ManifestContent::Deletes).await
}

#[tokio::test]
async fn deletes_apply_to_what_was_there() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = Append::fast().files([file("a", Some(1), 5)]);
    let table = table.transaction().apply(append).commit(&catalog).await.unwrap();
    let delta = RowDelta::new()
        .add_rows([file("b", Some(1), 1)])
        .add_deletes([positions("pos", Some(1)), equality("eq", Some(1))]);
    let table = table.transaction().apply(delta).commit(&catalog).await.unwrap();
    let scanned = scanned(&table).await;
    assert_eq!(scanned["a"], names(["pos", "eq"]));
    assert_eq!(scanned["b"], names(["pos"]), "equality deletes are for older data only");
    let snapshot = current(&table);
    assert_eq!(snapshot.operation(), Some("overwrite"));
    for (name, n) in [
        ("added-delete-files", 2),
        ("added-position-delete-files", 1),
        ("added-equality-delete-files", 1),
        ("added-position-deletes", 1),
        ("added-equality-deletes", 1),
        ("total-delete-files", 2),
        ("total-position-deletes", 1),
        ("total-equality-deletes", 1),
        ("total-data-files", 2),
    ] {
        assert_eq!(number(&snapshot, name), n, "{name}");
    }
    let only_deletes = RowDelta::new().add_deletes([equality("eq2", Some(1))]);
    let table = table.transaction().apply(only_deletes).commit(&catalog).await.unwrap();
    assert_eq!(current(&table).operation(), Some("delete"));
    let only_rows = RowDelta::new().add_rows([file("c", Some(1), 1)]);
    let table = table.transaction().apply(only_rows).commit(&catalog).await.unwrap();
    assert_eq!(current(&table).operation(), Some("append"));
}

#[tokio::test]
async fn a_data_file_has_one_vector() {
    let (catalog, table) = TestCatalog::with_table(3, &[]).await;
    let (a, b) = (file("a", Some(1), 5), file("b", Some(2), 5));
    let append = Append::fast().files([a.clone(), b.clone()]);
    let table = table.transaction().apply(append).commit(&catalog).await.unwrap();
    // Both in one Puffin file.
    let (va, vb) = (vector("v", &a, 4), vector("v", &b, 44));
    let first = RowDelta::new().add_deletes([va.clone(), vb.clone()]);
    let table = table.transaction().apply(first).commit(&catalog).await.unwrap();
    assert_eq!(number(&current(&table), "added-dvs"), 2);
    assert_eq!(number(&current(&table), "added-files-size"), 80);

    let newer = vector("w", &a, 4);
    let hides = RowDelta::new().add_deletes([newer.clone()]);
    let e = table.transaction().apply(hides).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed);
    assert!(e.to_string().contains("another deletion vector"), "{e}");

    let replaces = RowDelta::new().add_deletes([newer]).remove_deletes(&[va]);
    let table = table.transaction().apply(replaces).commit(&catalog).await.unwrap();
    let scanned = scanned(&table).await;
    assert_eq!((&scanned["a"], &scanned["b"]), (&names(["w"]), &names(["v"])));
    let snapshot = current(&table);
    for (name, n) in [("added-dvs", 1), ("removed-dvs", 1), ("total-delete-files", 2)] {
        assert_eq!(number(&snapshot, name), n, "{name}");
    }
}

#[tokio::test]
async fn a_vector_that_came_in_between_is_seen() {
    let (catalog, table) = TestCatalog::with_table(3, &[]).await;
    let a = file("a", Some(1), 5);
    let table = table.transaction().apply(Append::fast().files([a.clone()])).commit(&catalog).await.unwrap();
    let delta = |name| RowDelta::new().add_deletes([vector(name, &a, 4)]);
    table.transaction().apply(delta("v")).commit(&catalog).await.unwrap();
    let before = catalog.files().await;
    let e = table.transaction().apply(delta("w")).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed, "{e}");
    assert_eq!(catalog.files().await, before);
}

#[tokio::test]
async fn deletes_of_files_that_are_removed_are_refused() {
    let (catalog, table) = TestCatalog::with_table(3, &[]).await;
    let a = file("a", Some(1), 5);
    let table = table.transaction().apply(Append::fast().files([a.clone()])).commit(&catalog).await.unwrap();
    let delta = RowDelta::new().remove_rows([a.clone()]).add_deletes([vector("v", &a, 4)]);
    let e = table.transaction().apply(delta).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed, "{e}");
}

#[tokio::test]
async fn vectors_go_with_their_data() {
    let (catalog, table) = TestCatalog::with_table(3, &[]).await;
    let (a, b) = (file("a", Some(1), 5), file("b", Some(1), 5));
    let append = Append::fast().files([a.clone(), b.clone()]);
    let table = table.transaction().apply(append).commit(&catalog).await.unwrap();
    let delta = RowDelta::new().add_deletes([vector("v", &a, 4), vector("v", &b, 44)]);
    let table = table.transaction().apply(delta).commit(&catalog).await.unwrap();
    let rewrite = RewriteFiles::new()
        .remove_data([a])
        .add_data([file("c", Some(1), 4)])
        .validate_from_snapshot(current(&table).snapshot_id);
    let table = table.transaction().apply(rewrite).commit(&catalog).await.unwrap();
    let scanned = scanned(&table).await;
    assert_eq!(scanned.keys().cloned().collect::<BTreeSet<_>>(), names(["b", "c"]));
    assert_eq!((&scanned["b"], &scanned["c"]), (&names(["v"]), &names([])));
    let left = entries(&table, ManifestContent::Deletes).await;
    assert_eq!(left.iter().filter(|e| e.is_live()).count(), 1);
    assert_eq!(number(&current(&table), "removed-dvs"), 1);
}

#[tokio::test]
async fn deletes_go_when_all_older_data_is_gone() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let a = file("a", Some(1), 5);
    let append = |name| Append::merging().files([file(name, Some(1), 5)]);
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let delta = RowDelta::new().add_deletes([equality("eq", Some(1))]);
    let table = table.transaction().apply(delta).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(append("b")).commit(&catalog).await.unwrap();
    assert_eq!(deletes(&table).await, names(["eq"]), "`a` is older");
    // What is rewritten with its old number keeps it.
    let from = current(&table).snapshot_id;
    let rewrite = RewriteFiles::new()
        .remove_data([a.clone()])
        .add_data([file("c", Some(1), 5)])
        .data_sequence_number(SequenceNumber(1))
        .validate_from_snapshot(from);
    let kept = table.transaction().apply(rewrite).commit(&catalog).await.unwrap();
    assert_eq!(deletes(&kept).await, names(["eq"]));
    assert_eq!(scanned(&kept).await["c"], names(["eq"]));
    let delete = DeleteFiles::new().files(&[file("c", Some(1), 5)]);
    let table = kept.transaction().apply(delete).commit(&catalog).await.unwrap();
    assert_eq!(deletes(&table).await, names([]));
    assert_eq!(number(&current(&table), "removed-equality-delete-files"), 1);
    assert_eq!(number(&current(&table), "total-delete-files"), 0);
}

#[tokio::test]
async fn deletes_of_replaced_partitions_go_with_them() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = Append::fast().files([file("a", Some(1), 5), file("b", Some(2), 5)]);
    let table = table.transaction().apply(append).commit(&catalog).await.unwrap();
    let delta = RowDelta::new().add_deletes([positions("one", Some(1)), equality("two", Some(2))]);
    let table = table.transaction().apply(delta).commit(&catalog).await.unwrap();
    let replace = ReplacePartitions::new().files([file("c", Some(1), 1)]);
    let replaced = table.transaction().apply(replace).commit(&catalog).await.unwrap();
    assert_eq!(deletes(&replaced).await, names(["two"]));
    let overwrite = Overwrite::new().rows_of(filter("p", Test::Eq(Value::Int(2))));
    let table = replaced.transaction().apply(overwrite).commit(&catalog).await.unwrap();
    assert_eq!(deletes(&table).await, names([]));
    // A filter on the rows' values says nothing of delete files.
    let delta = RowDelta::new().add_deletes([equality("three", Some(1))]).add_rows([file("d", Some(3), 1)]);
    let table = table.transaction().apply(delta).commit(&catalog).await.unwrap();
    let by_value = Overwrite::new().rows_of(Predicate::and([
        filter("p", Test::Eq(Value::Int(3))),
        filter("x", Test::Lt(Value::Long(100))),
    ]));
    let table = table.transaction().apply(by_value).commit(&catalog).await.unwrap();
    assert_eq!(deletes(&table).await, names(["three"]));
    assert_eq!(scanned(&table).await["c"], names(["three"]));
}

#[tokio::test]
async fn delete_files_are_rewritten_with_their_age() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = |name| Append::fast().files([file(name, Some(1), 5)]);
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let old = equality("eq", Some(1));
    let delta = RowDelta::new().add_deletes([old.clone()]);
    let table = table.transaction().apply(delta).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(append("b")).commit(&catalog).await.unwrap();
    let rewrite = RewriteFiles::new()
        .remove_deletes(&[old])
        .add_deletes(equality("new", Some(1)), Some(SequenceNumber(2)));
    let table = table.transaction().apply(rewrite).commit(&catalog).await.unwrap();
    let scanned = scanned(&table).await;
    assert_eq!((&scanned["a"], &scanned["b"]), (&names(["new"]), &names([])));
}
