//! Files that are removed and replaced.

use super::*;
use crate::spec::ManifestStatus;

/// A table with the files `a` and `b` of partition 1 in one manifest and `c` of partition 2 in another.
async fn with_files(version: u8) -> (TestCatalog, Table) {
    let (catalog, table) = TestCatalog::with_table(version, &[]).await;
    let append = |files: Vec<ContentFile>| Append::fast().files(files);
    let table = table
        .transaction()
        .apply(append(vec![file("a", Some(1), 2), file("b", Some(1), 3)]))
        .apply(append(vec![file("c", Some(2), 4)]))
        .commit(&catalog)
        .await
        .unwrap();
    (catalog, table)
}

async fn files(table: &Table) -> BTreeSet<String> {
    live(table, ManifestContent::Data).await
}

#[tokio::test]
async fn removed_entries_tell_who_removed_them_and_others_stay_as_they_are() {
    for version in 1..=3 {
        let (catalog, before) = with_files(version).await;
        let delete = DeleteFiles::new().files(&[file("a", Some(1), 2)]);
        let table = before.transaction().apply(delete).commit(&catalog).await.unwrap();
        let snapshot = current(&table);
        let old = entries(&before, ManifestContent::Data).await;
        let old = |n: &str| old.iter().find(|e| name(&e.data_file) == n).unwrap().clone();
        for entry in entries(&table, ManifestContent::Data).await {
            let old = old(&name(&entry.data_file));
            assert_eq!(
                (entry.sequence_number, entry.file_sequence_number),
                (old.sequence_number, old.file_sequence_number)
            );
            match name(&entry.data_file).as_str() {
                "a" => assert_eq!(
                    (entry.status, entry.snapshot_id),
                    (ManifestStatus::Deleted, Some(snapshot.snapshot_id))
                ),
                "b" => {
                    assert_eq!((entry.status, entry.snapshot_id), (ManifestStatus::Existing, old.snapshot_id))
                }
                _ => assert_eq!(entry.status, ManifestStatus::Added, "the manifest of `c` is the same"),
            }
            if version == 3 {
                assert_eq!(entry.data_file.first_row_id, old.data_file.first_row_id);
            }
        }
        assert_eq!(snapshot.operation(), Some("delete"));
        for (name, n) in [
            ("deleted-data-files", 1),
            ("deleted-records", 2),
            ("removed-files-size", 100),
            ("total-records", 7),
            ("total-data-files", 2),
            ("manifests-replaced", 1),
        ] {
            assert_eq!(number(&snapshot, name), n, "{name}");
        }
        assert_eq!(scanned(&table).await.into_keys().collect::<BTreeSet<_>>(), names(["b", "c"]));
    }
}

/// Lesson 18: manifests that list nothing live may go, and what they removed must not come back.
#[tokio::test]
async fn what_was_removed_does_not_come_back() {
    for version in 1..=3 {
        let (catalog, table) = with_files(version).await;
        let rewrite = RewriteFiles::new()
            .remove_data([file("c", Some(2), 4)])
            .add_data([file("d", Some(2), 4)])
            .validate_from_snapshot(current(&table).snapshot_id);
        let mut table = table.transaction().apply(rewrite).commit(&catalog).await.unwrap();
        let only_deleted = |m: &ManifestFile| m.has_no_live_files() && m.deleted_files_count == Some(1);
        assert_eq!(manifests(&table).await.iter().filter(|m| only_deleted(m)).count(), 1);
        for (append, kept) in [(Append::fast(), 1), (Append::merging(), 0), (Append::fast(), 0)] {
            let append = append.files([file(&format!("new{}", table.metadata().snapshots.len()), None, 1)]);
            table = table.transaction().apply(append).commit(&catalog).await.unwrap();
            assert_eq!(manifests(&table).await.iter().filter(|m| only_deleted(m)).count(), kept);
            let files = files(&table).await;
            assert!(!files.contains("c") && files.contains("d"), "{files:?}");
        }
    }
}

#[tokio::test]
async fn missing_files_are_told() {
    let (catalog, table) = with_files(2).await;
    let gone = || file("gone", Some(1), 1);
    let new = || file("new", Some(1), 1);
    let commit = |transaction: Transaction| transaction.commit(&catalog);
    let start = || table.transaction();
    let failures = [
        commit(start().apply(Overwrite::new().remove_files([gone()]).add_files([new()]))).await,
        commit(start().apply(RewriteFiles::new().remove_data([gone()]).add_data([new()]))).await,
        commit(start().apply(RowDelta::new().remove_rows([gone()]).add_rows([new()]))).await,
        commit(start().apply(DeleteFiles::new().files(&[gone()]).validate_files_exist())).await,
        commit(start().apply(DeleteFiles::new().paths(["memory:///data/gone"]).validate_files_exist())).await,
    ];
    for failure in failures {
        let e = failure.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ValidationFailed, "{e}");
        assert!(e.to_string().contains("memory:///data/gone"), "{e}");
    }
    let table = commit(start().apply(DeleteFiles::new().paths(["memory:///data/gone"]))).await.unwrap();
    assert_eq!(files(&table).await, names(["a", "b", "c"]));
    // Removed twice: by a writer that read before the other committed.
    let overwrite = || Overwrite::new().remove_files([file("a", Some(1), 2)]);
    table.transaction().apply(overwrite()).commit(&catalog).await.unwrap();
    let e = table.transaction().apply(overwrite()).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed, "{e}");
}

#[tokio::test]
async fn files_are_overwritten_by_a_filter() {
    for version in 1..=3 {
        let (catalog, table) = with_files(version).await;
        let p = |n| filter("p", Test::Eq(Value::Int(n)));
        let x = |test: fn(Value) -> Test, n| filter("x", test(Value::Long(n)));
        let run = |filter: Predicate| {
            let overwrite = Overwrite::new().rows_of(filter).add_files([file("new", Some(1), 1)]);
            table.transaction().apply(overwrite)
        };
        // All of a file, by its partition or by its metrics; none of the others.
        for (filter, left) in [
            (p(1), names(["c", "new"])),
            (Predicate::and([p(2), x(Test::LtEq, 9)]), names(["a", "b", "new"])),
            (x(Test::GtEq, 0), names(["new"])),
            (x(Test::Gt, 9), names(["a", "b", "c", "new"])),
            (Predicate::True, names(["new"])),
        ] {
            let catalog_now = catalog.tables.lock().unwrap().clone();
            let table = run(filter.clone()).commit(&catalog).await.unwrap();
            assert_eq!(files(&table).await, left, "{filter}");
            assert_eq!(current(&table).operation(), Some("overwrite"));
            *catalog.tables.lock().unwrap() = catalog_now;
        }
        for filter in [x(Test::Lt, 5), Predicate::and([p(1), x(Test::Eq, 3)])] {
            let before = catalog.files().await;
            let e = run(filter.clone()).commit(&catalog).await.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::ValidationFailed, "{filter}");
            assert!(e.to_string().contains("but not all of them"), "{e}");
            assert_eq!(catalog.files().await, before);
        }
        let delete = DeleteFiles::new().rows_of(p(1));
        let table = table.transaction().apply(delete).commit(&catalog).await.unwrap();
        assert_eq!((files(&table).await, current(&table).operation()), (names(["c"]), Some("delete")));
    }
}

/// Lesson 14: a row that may be null does not match `<>`.
#[tokio::test]
async fn a_file_with_nulls_is_not_removed_as_different() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let mut with_null = file("a", Some(1), 2);
    let mut metrics = with_null.metrics.to_maps();
    metrics.null_value_counts = [(FieldId(2), 1)].into();
    with_null.metrics = metrics.into();
    let append = Append::fast().files([with_null]);
    let table = table.transaction().apply(append).commit(&catalog).await.unwrap();
    let delete = DeleteFiles::new().rows_of(filter("x", Test::NotEq(Value::Long(50))));
    let e = table.transaction().apply(delete).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed);
}

#[tokio::test]
async fn added_files_can_be_held_to_the_filter() {
    let (catalog, table) = with_files(2).await;
    let overwrite = |p| {
        Overwrite::new()
            .rows_of(filter("p", Test::Eq(Value::Int(1))))
            .add_files([file("new", Some(p), 1)])
            .validate_added_files_match_filter()
    };
    let e = table.transaction().apply(overwrite(2)).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed);
    assert!(e.to_string().contains("data/new"), "{e}");
    table.transaction().apply(overwrite(1)).commit(&catalog).await.unwrap();
}

#[tokio::test]
async fn partitions_are_replaced() {
    for version in 1..=3 {
        let (catalog, table) = with_files(version).await;
        let replace = |p| ReplacePartitions::new().files([file("new", p, 1)]);
        let append_only = replace(Some(2)).validate_append_only();
        let e = table.transaction().apply(append_only).commit(&catalog).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ValidationFailed);
        let table = table.transaction().apply(replace(Some(1))).commit(&catalog).await.unwrap();
        assert_eq!(files(&table).await, names(["c", "new"]));
        assert_eq!(current(&table).summary["replace-partitions"], "true");
        let null = ReplacePartitions::new().files([file("null", None, 1)]).validate_append_only();
        let table = table.transaction().apply(null).commit(&catalog).await.unwrap();
        assert_eq!(files(&table).await, names(["c", "new", "null"]));
    }
}

#[tokio::test]
async fn files_that_cannot_be_in_the_table_are_refused() {
    let (catalog, table) = with_files(2).await;
    let (old, _) = TestCatalog::with_table(1, &[]).await;
    let v1 = old.load(&ident("t")).unwrap();
    let (new, _) = TestCatalog::with_table(3, &[]).await;
    let v3 = new.load(&ident("t")).unwrap();
    let data = || file("new", Some(1), 1);
    let add = |file| RowDelta::new().add_rows([file]);
    let delete = |file| RowDelta::new().add_deletes([file]);
    let refused = [
        (&table, add(ContentFile { spec_id: SpecId(7), ..data() }), "spec 7"),
        (&table, add(ContentFile { partition: vec![], ..data() }), "0 values"),
        (&table, add(ContentFile { partition: vec![Some(Value::Long(1))], ..data() }), "partition.p"),
        (&table, add(ContentFile { record_count: -1, ..data() }), "record_count"),
        (&table, add(positions("new", Some(1))), "added as a data file"),
        (&table, add(data()).add_rows([data()]), "added twice"),
        (&table, add(data()).remove_rows([data()]), "both added and removed"),
        (&table, delete(data()), "added as a delete file"),
        (&table, delete(ContentFile { equality_ids: None, ..equality("new", Some(1)) }), "equality_ids"),
        (&table, delete(vector("new", &data(), 4)), "no deletion vectors"),
        (&v1, delete(positions("new", Some(1))), "format version 1"),
        (&v3, delete(positions("new", Some(1))), "deletion vectors only"),
        (
            &v3,
            delete(ContentFile { referenced_data_file: None, ..vector("new", &data(), 4) }),
            "referenced_data_file",
        ),
        (
            &v3,
            delete(vector("new", &data(), 4)).add_deletes([vector("new", &data(), 50)]),
            "another deletion vector",
        ),
    ];
    for (table, delta, message) in refused {
        let catalog = TestCatalog::new();
        catalog.tables.lock().unwrap().insert(ident("t"), (Arc::clone(table.metadata()), 0));
        let e = table.transaction().apply(delta).commit(&catalog).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::DataInvalid, "{e}");
        assert!(e.to_string().contains(message), "{message}: {e}");
        assert_eq!(catalog.commit_count(), 0);
    }
    let again = Append::fast().files([file("b", Some(1), 3)]);
    let e = table.transaction().apply(again.refuse_live_files()).commit(&catalog).await.unwrap_err();
    assert!(e.to_string().contains("in the table already"), "{e}");
    assert_eq!(e.kind(), ErrorKind::ValidationFailed);
}

#[tokio::test]
async fn a_rewrite_adds_no_rows() {
    let (catalog, table) = with_files(2).await;
    let rewrite = |rows| {
        RewriteFiles::new().remove_data([file("a", Some(1), 2)]).add_data([file("new", Some(1), rows)])
    };
    let e = table.transaction().apply(rewrite(3)).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed);
    let number = crate::spec::SequenceNumber(1);
    let table =
        table.transaction().apply(rewrite(2).data_sequence_number(number)).commit(&catalog).await.unwrap();
    let all = entries(&table, ManifestContent::Data).await;
    let new = all.iter().find(|e| name(&e.data_file) == "new").unwrap();
    assert_eq!((new.sequence_number, new.file_sequence_number.map(|n| n.0)), (Some(number), Some(3)));
    let nothing = RewriteFiles::new().add_data([file("x", Some(1), 1)]);
    assert!(table.transaction().apply(nothing).commit(&catalog).await.is_err());
}
