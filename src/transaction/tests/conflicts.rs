//! Commits that others get in the way of, or that fail.

use super::*;
use crate::spec::{RefType, SnapshotRef, TableRequirement};

fn append(name: &str) -> Append {
    Append::fast().files([file(name, Some(1), 1)])
}

async fn all_files(table: &Table) -> BTreeSet<String> {
    live(table, ManifestContent::Data).await
}

#[tokio::test]
async fn a_retry_writes_only_the_manifest_list() {
    for version in 1..=3 {
        let (catalog, table) = TestCatalog::with_table(version, &[]).await;
        let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
        catalog.faults(&[Fault::Overtaken, Fault::Overtaken]);
        let table = table.transaction().apply(append("b")).commit(&catalog).await.unwrap();
        // Each other writer writes two files; the reads are all from the cache but for theirs.
        let own: Vec<_> = {
            let commit_id = current(&table).summary["icefloe.commit-id"].clone();
            catalog.files().await.into_iter().filter(|path| path.contains(&commit_id)).collect()
        };
        assert_eq!(own.len(), 2, "one manifest and one list are left: {own:?}");
        assert!(own.iter().any(|path| path.contains("-3-")), "the third list was committed: {own:?}");
        assert_eq!(all_files(&table).await, names(["a", "b", "other"]));
        assert_eq!(catalog.files().await, referenced(&table).await);
        assert_eq!(number(&current(&table), "total-data-files"), 4);
    }
}

#[tokio::test]
async fn a_retry_costs_one_write() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let calls = || catalog.fault.calls();
    let before = calls();
    let table = table.transaction().apply(append("b")).commit(&catalog).await.unwrap();
    let without = calls() - before;
    table.manifest_list(&current(&table)).await.unwrap();
    catalog.faults(&[Fault::Conflict]);
    let before = calls();
    table.transaction().apply(append("c")).commit(&catalog).await.unwrap();
    // The second list, and the removal of the first.
    assert_eq!(calls() - before, without + 1);
}

#[tokio::test]
async fn a_retry_merges_and_filters_only_what_changed() {
    let properties = [("commit.manifest.min-count-to-merge", "2")];
    let (catalog, table) = TestCatalog::with_table(3, &properties).await;
    let table = table.transaction().apply(append("a")).apply(append("b")).commit(&catalog).await.unwrap();
    catalog.faults(&[Fault::Overtaken]);
    let overwrite = Overwrite::new().remove_files([file("a", Some(1), 1)]).add_files([file("c", Some(1), 1)]);
    let table = table.transaction().apply(overwrite).commit(&catalog).await.unwrap();
    assert_eq!(all_files(&table).await, names(["b", "c", "other"]));
    assert_eq!(catalog.files().await, referenced(&table).await);
    assert_eq!(number(&current(&table), "total-data-files"), 3);
}

/// The second action builds on what the first one wrote, which inherits something else at each
/// attempt.
#[tokio::test]
async fn a_retry_of_several_actions_keeps_no_numbers() {
    for version in 2..=3 {
        let properties = [("commit.manifest.min-count-to-merge", "2")];
        let (catalog, table) = TestCatalog::with_table(version, &properties).await;
        catalog.faults(&[Fault::Overtaken]);
        let both = Append::fast().files([file("a", Some(1), 2), file("b", Some(1), 3)]);
        let overwrite =
            Overwrite::new().remove_files([file("a", Some(1), 2)]).add_files([file("c", Some(1), 1)]);
        let table = table.transaction().apply(both).apply(overwrite).commit(&catalog).await.unwrap();
        let entries = entries(&table, ManifestContent::Data).await;
        let numbers: BTreeMap<_, _> = entries
            .iter()
            .filter(|e| e.is_live())
            .map(|e| (name(&e.data_file), (e.sequence_number.unwrap().0, e.data_file.first_row_id)))
            .collect();
        let ids = |id| (version == 3).then_some(id);
        assert_eq!(numbers["other"], (1, ids(0)));
        assert_eq!(numbers["b"], (2, ids(3)));
        assert_eq!(numbers["c"].0, 3);
        assert_eq!(catalog.files().await, referenced(&table).await);
    }
}

#[tokio::test]
async fn retries_end() {
    let (catalog, table) = TestCatalog::with_table(2, &[("commit.retry.num-retries", "2")]).await;
    catalog.faults(&[Fault::Conflict; 3]);
    let e = table.transaction().apply(append("a")).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::CommitConflict);
    assert!(e.to_string().contains("3 times"), "{e}");
    assert_eq!(catalog.commit_count(), 3);
    assert_eq!(catalog.files().await, BTreeSet::new());
}

#[tokio::test]
async fn a_commit_that_conflicts_with_itself_is_found() {
    for properties in [&[][..], &[("commit.retry.num-retries", "0")]] {
        let (catalog, table) = TestCatalog::with_table(2, properties).await;
        catalog.faults(&[Fault::DoneButConflict]);
        let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
        assert_eq!(catalog.commit_count(), 1);
        assert_eq!(scanned(&table).await.into_keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(catalog.files().await, referenced(&table).await);
    }
}

#[tokio::test]
async fn a_lost_reply_is_no_failure() {
    for version in 1..=3 {
        let (catalog, table) = TestCatalog::with_table(version, &[]).await;
        catalog.faults(&[Fault::DoneButLost]);
        let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
        assert_eq!(catalog.commit_count(), 1);
        assert_eq!(scanned(&table).await.into_keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(catalog.files().await, referenced(&table).await);
    }
}

#[tokio::test]
async fn an_outcome_that_cannot_be_known_cleans_up_nothing() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    catalog.faults(&[Fault::Lost]);
    let e = table.transaction().apply(append("a")).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::CommitStateUnknown);
    assert_eq!(catalog.files().await.len(), 2, "manifest and list");
    // It may yet arrive, and then the table is whole.
    let late = catalog.commits.lock().unwrap()[0].clone();
    catalog.swap(&[late]).unwrap();
    let table = catalog.load(&ident("t")).unwrap();
    assert_eq!(scanned(&table).await.into_keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn a_commit_that_was_overtaken_is_tried_again() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    catalog.faults(&[Fault::LostAndOvertaken]);
    let table = table.transaction().apply(append("b")).commit(&catalog).await.unwrap();
    assert_eq!(all_files(&table).await, names(["a", "b", "other"]));
    assert_eq!(catalog.files().await, referenced(&table).await);
    // The first one that was sent can't arrive any more.
    let late = catalog.commits.lock().unwrap()[1].clone();
    assert_eq!(catalog.swap(&[late]).unwrap_err().kind(), ErrorKind::CommitConflict);
}

#[tokio::test]
async fn unknown_changes_without_a_snapshot_are_found_by_what_they_do() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    catalog.faults(&[Fault::DoneButLost]);
    let table = table.transaction().apply(SetProperty("k", "1")).commit(&catalog).await.unwrap();
    assert_eq!(table.metadata().properties["k"], "1");
    for fault in [Fault::Lost, Fault::LostAndOvertaken] {
        catalog.faults(&[fault]);
        let e = table.transaction().apply(SetProperty("k", "2")).commit(&catalog).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::CommitStateUnknown);
    }
}

#[tokio::test]
async fn an_unknown_creation_is_found_by_its_identity() {
    let catalog = TestCatalog::new();
    catalog.faults(&[Fault::DoneButLost, Fault::Lost]);
    catalog.staged("a", 2).transaction().apply(append("x")).commit(&catalog).await.unwrap();
    let e = catalog.staged("b", 2).transaction().apply(append("y")).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::CommitStateUnknown);
}

#[tokio::test]
async fn a_certain_failure_removes_every_file() {
    let (catalog, table) = TestCatalog::with_table(2, &[("commit.manifest.min-count-to-merge", "2")]).await;
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let before = catalog.files().await;
    catalog.faults(&[Fault::Conflict, Fault::Conflict, Fault::Refused]);
    let overwrite = Overwrite::new().remove_files([file("a", Some(1), 1)]).add_files([file("b", Some(1), 1)]);
    let transaction = table.transaction().apply(overwrite).apply(append("c"));
    assert_eq!(transaction.commit(&catalog).await.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(catalog.files().await, before);
}

#[tokio::test]
async fn every_failure_of_the_storage_leaves_the_old_state_or_the_new() {
    let mut failed = 0;
    for call in 0..40 {
        let (catalog, table) =
            TestCatalog::with_table(3, &[("commit.manifest.min-count-to-merge", "2")]).await;
        let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
        let before = catalog.files().await;
        catalog.faults(&[Fault::Overtaken]);
        catalog.fault.fail_after(call);
        let overwrite =
            Overwrite::new().remove_files([file("a", Some(1), 1)]).add_files([file("b", Some(1), 1)]);
        let result = table.transaction().apply(overwrite).commit(&catalog).await;
        catalog.fault.fail_after(u64::MAX / 2);
        let now = catalog.load(&ident("t")).unwrap();
        match result {
            Ok(_) => {
                let files = all_files(&now).await;
                assert!(files.contains("b") && !files.contains("a"), "{call}: {files:?}");
            }
            Err(e) => {
                failed += 1;
                assert_eq!(e.kind(), ErrorKind::Io, "{call}: {e}");
                assert!(all_files(&now).await.contains("a"), "{call}");
                let kept: BTreeSet<_> = before.union(&referenced(&now).await).cloned().collect();
                let left: Vec<_> = catalog.files().await.difference(&kept).cloned().collect();
                assert!(left.is_empty(), "{call}: {left:?}");
            }
        }
    }
    assert!((3..40).contains(&failed), "{failed}");
}

#[tokio::test]
async fn another_table_of_the_same_name_is_refused() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    catalog.drop("t");
    let e = table.transaction().apply(append("a")).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
    catalog.create("t", 2, &[]);
    let e = table.transaction().apply(append("a")).commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed, "{e}");
    assert_eq!(catalog.files().await, BTreeSet::new());
}

#[tokio::test]
async fn requirements_tell_what_was_read() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let uuid = TableRequirement::Uuid(table.metadata().table_uuid.unwrap());
    let table = table.transaction().apply(append("a")).apply(append("b")).commit(&catalog).await.unwrap();
    let main = |snapshot_id: Option<_>| TableRequirement::Ref {
        name: "main".into(),
        reference: snapshot_id.map(|id| SnapshotRef::new(id, RefType::Branch)),
    };
    let spec = TableRequirement::DefaultSpecId(SpecId(0));
    let expected = [uuid.clone(), spec.clone(), main(None)];
    assert_eq!(catalog.commits.lock().unwrap()[0].requirements, expected);
    let head = current(&table).snapshot_id;
    table.transaction().apply(append("c")).commit(&catalog).await.unwrap();
    assert_eq!(catalog.commits.lock().unwrap()[1].requirements, [uuid, spec, main(Some(head))]);
}

#[tokio::test]
async fn concurrent_appends_all_land() {
    for version in 1..=3 {
        let retries = [("commit.retry.num-retries", "1000"), ("commit.manifest.min-count-to-merge", "5")];
        let (catalog, table) = TestCatalog::with_table(version, &retries).await;
        let catalog = Arc::new(catalog);
        let mut writers = Vec::new();
        for w in 0..8 {
            let (catalog, table) = (Arc::clone(&catalog), table.clone());
            writers.push(tokio::spawn(async move {
                for i in 0..5 {
                    let files = [file(&format!("{w}-{i}"), Some(w), i64::from(w) + 1)];
                    let append = if i % 2 == 0 { Append::fast() } else { Append::merging() };
                    table.transaction().apply(append.files(files)).commit(catalog.as_ref()).await.unwrap();
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let table = catalog.load(&ident("t")).unwrap();
        let entries: Vec<_> = entries(&table, ManifestContent::Data).await;
        assert_eq!(entries.len(), 40);
        assert_eq!(scanned(&table).await.len(), 40);
        assert_eq!(table.metadata().snapshots.len(), 40);
        assert_eq!(number(&current(&table), "total-records"), 36 * 5);
        assert_eq!(catalog.files().await, referenced(&table).await);
        if version == 3 {
            let mut ids: Vec<(i64, i64)> = entries
                .iter()
                .map(|e| (e.data_file.first_row_id.unwrap(), e.data_file.record_count))
                .collect();
            ids.sort_unstable();
            assert!(ids.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "row ids overlap: {ids:?}");
            assert!(ids.last().unwrap().0 < table.metadata().next_row_id);
        }
    }
}
