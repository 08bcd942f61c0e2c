//! What snapshots consist of.

use super::*;
use crate::spec::{ManifestStatus, RefType, SequenceNumber, SnapshotId, SnapshotRef};

#[tokio::test]
async fn appends_of_all_versions_are_read_back() {
    for version in 1..=3 {
        let (catalog, table) = TestCatalog::with_table(version, &[]).await;
        let first =
            table.transaction().apply(Append::fast().files([file("a", Some(1), 5), file("b", None, 7)]));
        let table = first.commit(&catalog).await.unwrap();
        let append = Append::fast().files([file("c", Some(1), 11)]).property("who", "me");
        let table = table.transaction().apply(append).commit(&catalog).await.unwrap();

        assert_eq!(scanned(&table).await.into_keys().collect::<BTreeSet<_>>(), names(["a", "b", "c"]));
        let [one, two] = table.metadata().snapshots.as_slice() else { panic!("two snapshots") };
        assert_eq!((one.parent_snapshot_id, two.parent_snapshot_id), (None, Some(one.snapshot_id)));
        assert_eq!((one.operation(), two.operation()), (Some("append"), Some("append")));
        assert_eq!(two.summary["who"], "me");
        assert_eq!(two.schema_id, Some(SchemaId(0)));
        let expected = [
            ("added-data-files", 1),
            ("added-records", 11),
            ("added-files-size", 100),
            ("changed-partition-count", 1),
            ("total-data-files", 3),
            ("total-records", 23),
            ("total-files-size", 300),
            ("total-delete-files", 0),
            ("total-position-deletes", 0),
            ("total-equality-deletes", 0),
            ("manifests-created", 1),
            ("manifests-kept", 1),
            ("manifests-replaced", 0),
        ];
        for (name, n) in expected {
            assert_eq!(two.summary.get(name).map(String::as_str), Some(n.to_string().as_str()), "{name}");
        }
        let list = manifests(&table).await;
        assert_eq!(list.len(), 2);
        let added = |m: &ManifestFile| (m.added_snapshot_id.unwrap(), m.added_files_count.unwrap());
        assert_eq!(list.iter().map(added).collect::<Vec<_>>(), [(two.snapshot_id, 1), (one.snapshot_id, 2)]);
        let entries = entries(&table, ManifestContent::Data).await;
        let numbers: Vec<_> = entries.iter().map(|e| (e.sequence_number, e.file_sequence_number)).collect();
        let row_ids: Vec<_> = entries.iter().map(|e| e.data_file.first_row_id).collect();
        let of = |n| (Some(SequenceNumber(n)), Some(SequenceNumber(n)));
        let expected = if version == 1 { [of(0); 3] } else { [of(2), of(1), of(1)] };
        assert_eq!(numbers, expected, "{version}");
        match version {
            3 => {
                assert_eq!(row_ids, [Some(12), Some(0), Some(5)]);
                assert_eq!((two.first_row_id, two.added_rows), (Some(12), Some(11)));
                assert_eq!(table.metadata().next_row_id, 23);
            }
            _ => {
                assert_eq!(row_ids, [None; 3]);
                assert_eq!((two.first_row_id, two.added_rows), (None, None));
            }
        }
        assert_eq!(catalog.files().await, referenced(&table).await);
    }
}

#[tokio::test]
async fn files_are_named_as_others_name_them() {
    let (catalog, table) =
        TestCatalog::with_table(2, &[("write.metadata.path", "memory:///elsewhere/")]).await;
    let table =
        table.transaction().apply(Append::fast().files([file("a", None, 1)])).commit(&catalog).await.unwrap();
    let snapshot = current(&table);
    let commit_id = &snapshot.summary["icefloe.commit-id"];
    let expected = [
        format!("memory:///elsewhere/{commit_id}-m0.avro"),
        format!("memory:///elsewhere/snap-{}-1-{commit_id}.avro", snapshot.snapshot_id),
    ];
    assert_eq!(catalog.files().await, expected.into());
}

#[tokio::test]
async fn later_actions_see_what_earlier_ones_changed() {
    let (catalog, table) = TestCatalog::with_table(3, &[]).await;
    let table = table
        .transaction()
        .apply(Append::fast().files([file("a", None, 2)]))
        .apply(SetProperty("k", "v"))
        .apply(Overwrite::new().remove_files([file("a", None, 2)]).add_files([file("b", None, 3)]))
        .commit(&catalog)
        .await
        .unwrap();
    assert_eq!(catalog.commit_count(), 1);
    assert_eq!(table.metadata().snapshots.len(), 2);
    assert_eq!(scanned(&table).await.into_keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(current(&table).parent_snapshot_id, Some(table.metadata().snapshots[0].snapshot_id));
    assert_eq!(table.metadata().last_sequence_number, SequenceNumber(2));
    assert_eq!(number(&current(&table), "total-records"), 3);
    assert_eq!(table.metadata().properties["k"], "v");
}

#[tokio::test]
async fn without_changes_nothing_is_committed() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    table.transaction().commit(&catalog).await.unwrap();
    table.transaction().apply(RewriteManifests::new()).commit(&catalog).await.unwrap();
    assert_eq!(catalog.commit_count(), 0);
}

#[tokio::test]
async fn a_table_without_a_catalog_is_refused() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let stray = Table::from_metadata(
        Arc::clone(table.metadata()),
        &table.metadata_location().to_string(),
        &OpenOptions::new().name("stray"),
    );
    let e = stray.unwrap().transaction().commit(&catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("stray"), "{e}");
}

#[tokio::test]
async fn branches_are_written_to() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = |name| Append::fast().files([file(name, None, 1)]);
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();
    let on_main = current(&table).snapshot_id;
    let table = table.transaction().apply(append("b").branch("dev")).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(append("c").branch("dev")).commit(&catalog).await.unwrap();
    assert_eq!(current(&table).snapshot_id, on_main);
    let head = table.metadata().snapshot(table.metadata().refs["dev"].snapshot_id).unwrap().clone();
    assert_eq!(table.manifest_list(&head).await.unwrap().len(), 3);
    let parent = table.metadata().snapshot(head.parent_snapshot_id.unwrap()).unwrap();
    assert_eq!(parent.parent_snapshot_id, Some(on_main));
    assert_eq!(number(&head, "total-data-files"), 3);

    #[derive(Debug)]
    struct Tag;
    #[async_trait]
    impl Action for Tag {
        async fn updates(&mut self, table: &Table) -> crate::Result<Vec<TableUpdate>> {
            let reference = SnapshotRef::new(current(table).snapshot_id, RefType::Tag);
            Ok(vec![TableUpdate::SetSnapshotRef { name: "v1".into(), reference }])
        }
    }
    let table = table.transaction().apply(Tag).commit(&catalog).await.unwrap();
    let e = table.transaction().apply(append("d").branch("v1")).commit(&catalog).await.unwrap_err();
    assert!(e.to_string().contains("`v1` is a tag"), "{e}");
}

#[tokio::test]
async fn a_branch_keeps_its_rules() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = |name| Append::fast().files([file(name, None, 1)]);
    let table = table.transaction().apply(append("a")).commit(&catalog).await.unwrap();

    #[derive(Debug)]
    struct Rules;
    #[async_trait]
    impl Action for Rules {
        async fn updates(&mut self, table: &Table) -> crate::Result<Vec<TableUpdate>> {
            let main = SnapshotRef {
                min_snapshots_to_keep: Some(7),
                ..SnapshotRef::new(current(table).snapshot_id, RefType::Branch)
            };
            Ok(vec![TableUpdate::SetSnapshotRef { name: "main".into(), reference: main }])
        }
    }
    let table = table.transaction().apply(Rules).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(append("b")).commit(&catalog).await.unwrap();
    let main = &table.metadata().refs["main"];
    assert_eq!((main.snapshot_id, main.min_snapshots_to_keep), (current(&table).snapshot_id, Some(7)));
}

#[tokio::test]
async fn staged_snapshots_are_on_no_branch() {
    let (catalog, table) = TestCatalog::with_table(2, &[]).await;
    let append = || Append::fast().files([file("a", None, 1)]);
    let e = table.transaction().apply(append().wap_id("w1")).commit(&catalog).await.unwrap_err();
    assert!(e.to_string().contains("write.wap.enabled"), "{e}");
    let audited = SetProperty("write.wap.enabled", "true");
    let table = table.transaction().apply(audited).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(append().wap_id("w1")).commit(&catalog).await.unwrap();
    assert_eq!(table.metadata().current_snapshot_id, None);
    assert_eq!(table.metadata().snapshots[0].summary["wap.id"], "w1");
    assert!(table.metadata().refs.is_empty());
}

#[tokio::test]
async fn manifests_are_merged_and_keep_what_entries_inherited() {
    for version in 1..=3 {
        let properties = [("commit.manifest.min-count-to-merge", "3")];
        let (catalog, mut table) = TestCatalog::with_table(version, &properties).await;
        let mut counts = Vec::new();
        for (i, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            let append = Append::merging().files([file(name, None, i as i64 + 1)]);
            table = table.transaction().apply(append).commit(&catalog).await.unwrap();
            counts.push(manifests(&table).await.len());
        }
        assert_eq!(counts, [1, 2, 1, 2, 1], "{version}");
        let snapshots: Vec<SnapshotId> = table.metadata().snapshots.iter().map(|s| s.snapshot_id).collect();
        let entries = entries(&table, ManifestContent::Data).await;
        assert_eq!(entries.len(), 5);
        for entry in &entries {
            let i = ["a", "b", "c", "d", "e"].iter().position(|n| *n == name(&entry.data_file)).unwrap();
            assert_eq!(entry.snapshot_id, Some(snapshots[i]), "{entry:?}");
            let is_new = entry.status == ManifestStatus::Added;
            assert_eq!(is_new, i == 4, "{entry:?}");
            let expected = SequenceNumber(if version == 1 { 0 } else { i as i64 + 1 });
            assert_eq!(entry.sequence_number, Some(expected));
            // Ids are set aside for all rows of a new manifest, also for those that have some.
            let row_id = [0, 1, 3, 9, 13][i];
            assert_eq!(entry.data_file.first_row_id, (version == 3).then_some(row_id), "{entry:?}");
        }
        assert_eq!(number(&current(&table), "manifests-replaced"), 2);
        assert_eq!(catalog.files().await, referenced(&table).await);
    }
}

#[tokio::test]
async fn manifests_are_merged_up_to_their_length_and_not_at_all_where_not_wanted() {
    let properties =
        [("commit.manifest.min-count-to-merge", "2"), ("commit.manifest.target-size-bytes", "1")];
    let off = [("commit.manifest.min-count-to-merge", "2"), ("commit.manifest-merge.enabled", "false")];
    for properties in [properties, off] {
        let (catalog, mut table) = TestCatalog::with_table(2, &properties).await;
        for name in ["a", "b", "c"] {
            let append = Append::merging().files([file(name, None, 1)]);
            table = table.transaction().apply(append).commit(&catalog).await.unwrap();
        }
        assert_eq!(manifests(&table).await.len(), 3);
    }
}

#[tokio::test]
async fn new_manifests_are_rolled_and_separate_by_spec() {
    let (catalog, table) =
        TestCatalog::with_table(2, &[("commit.manifest.target-size-bytes", "20000")]).await;
    let files: Vec<_> = (0..2000).map(|i| file(&format!("{i}"), Some(i), 1)).collect();
    let table = table.transaction().apply(Append::fast().files(files)).commit(&catalog).await.unwrap();
    let list = manifests(&table).await;
    assert!(list.len() > 1, "{}", list.len());
    assert_eq!(list.iter().map(|m| m.added_files_count.unwrap()).sum::<i32>(), 2000);
    assert_eq!(scanned(&table).await.len(), 2000);
}

#[tokio::test]
async fn old_files_get_row_ids_after_an_upgrade() {
    let (catalog, table) = TestCatalog::with_table(1, &[]).await;
    let append = |name, rows| Append::fast().files([file(name, None, rows)]);
    let table = table.transaction().apply(append("a", 5)).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(Upgrade(2)).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(append("b", 7)).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(Upgrade(3)).commit(&catalog).await.unwrap();
    let table = table.transaction().apply(append("c", 11)).commit(&catalog).await.unwrap();
    let ids = |entries: Vec<ManifestEntry>| -> BTreeMap<String, (Option<i64>, Option<SequenceNumber>)> {
        let of = |e: &ManifestEntry| (name(&e.data_file), (e.data_file.first_row_id, e.sequence_number));
        entries.iter().map(of).collect()
    };
    let expected = |id: i64, number: i64| (Some(id), Some(SequenceNumber(number)));
    let all = ids(entries(&table, ManifestContent::Data).await);
    assert_eq!(all["c"], expected(0, 2));
    assert_eq!(all["b"], expected(11, 1));
    assert_eq!(all["a"], expected(18, 0));
    assert_eq!(table.metadata().next_row_id, 23);
    // Once given they stay, also where manifests are merged.
    let merge = SetProperty("commit.manifest.min-count-to-merge", "1");
    let merging = Append::merging().files([file("d", None, 1)]);
    let table = table.transaction().apply(merge).apply(merging).commit(&catalog).await.unwrap();
    assert_eq!(manifests(&table).await.len(), 1);
    let after = ids(entries(&table, ManifestContent::Data).await);
    for old in ["a", "b", "c"] {
        assert_eq!(after[old], all[old], "{old}");
    }
    assert!(after["d"].0.unwrap() >= 23);
}

#[tokio::test]
async fn rewritten_manifests_list_the_same_files() {
    for version in 1..=3 {
        let (catalog, mut table) = TestCatalog::with_table(version, &[]).await;
        for i in 0..4 {
            let files = [file(&format!("{i}a"), Some(1), 2), file(&format!("{i}b"), Some(2), 3)];
            table = table.transaction().apply(Append::fast().files(files)).commit(&catalog).await.unwrap();
        }
        let drop = DeleteFiles::new().paths(["memory:///data/0a"]);
        table = table.transaction().apply(drop).commit(&catalog).await.unwrap();
        let of = |entries: Vec<ManifestEntry>| -> Vec<ManifestEntry> {
            let live = entries.into_iter().filter(ManifestEntry::is_live);
            let mut live: Vec<_> =
                live.map(|e| ManifestEntry { status: ManifestStatus::Existing, ..e }).collect();
            live.sort_by(|a, b| a.data_file.file_path.cmp(&b.data_file.file_path));
            live
        };
        let before = of(entries(&table, ManifestContent::Data).await);
        let rewrite = RewriteManifests::new().cluster_by(|file| format!("{:?}", file.partition));
        let table = table.transaction().apply(rewrite).commit(&catalog).await.unwrap();
        assert_eq!(of(entries(&table, ManifestContent::Data).await), before);
        let list = manifests(&table).await;
        assert_eq!(list.iter().map(|m| m.existing_files_count).collect::<Vec<_>>(), [Some(3), Some(4)]);
        let snapshot = current(&table);
        assert_eq!(snapshot.operation(), Some("replace"));
        assert_eq!(number(&snapshot, "entries-processed"), 7);
        assert_eq!(number(&snapshot, "total-data-files"), 7);
        assert_eq!(catalog.files().await, referenced(&table).await);

        let only = RewriteManifests::new().rewrite_if(|m| m.existing_files_count == Some(4));
        let table = table.transaction().apply(only).commit(&catalog).await.unwrap();
        assert_eq!(number(&current(&table), "manifests-kept"), 1);
        assert_eq!(of(entries(&table, ManifestContent::Data).await), before);
    }
}

#[tokio::test]
async fn a_staged_table_is_created_with_its_first_snapshot() {
    for version in 1..=3 {
        let catalog = TestCatalog::new();
        let staged = catalog.staged("new", version);
        let append = Append::fast().files([file("a", Some(1), 4)]);
        let table = staged.transaction().apply(append).commit(&catalog).await.unwrap();
        assert_eq!(table.metadata().table_uuid, staged.metadata().table_uuid);
        assert_eq!(table.metadata().current_schema().fields(), staged.metadata().current_schema().fields());
        assert_eq!(table.metadata().format_version, version);
        assert_eq!(scanned(&table).await.into_keys().collect::<Vec<_>>(), ["a"]);

        let late = Append::fast().files([file("b", Some(1), 4)]);
        let e = catalog.staged("new", version).transaction().apply(late).commit(&catalog).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::AlreadyExists);
        assert_eq!(catalog.files().await, referenced(&table).await);

        // Also without any change.
        let empty = catalog.staged("empty", version);
        empty.transaction().commit(&catalog).await.unwrap();
        assert!(catalog.load(&ident("empty")).is_ok());
    }
}

#[tokio::test]
async fn several_tables_change_together() {
    let mut catalog = TestCatalog::new();
    let (a, b) = (catalog.create("a", 2, &[]), catalog.create("b", 3, &[]));
    let both = || {
        let append = |name: &str| Append::fast().files([file(name, None, 1)]);
        vec![a.transaction().apply(append("x")), b.transaction().apply(append("y"))]
    };
    let e = commit_all(both(), &catalog).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("`test`"), "{e}");
    catalog.several = true;
    commit_all(both(), &catalog).await.unwrap();
    for (name, file) in [("a", "x"), ("b", "y")] {
        let table = catalog.load(&ident(name)).unwrap();
        assert_eq!(scanned(&table).await.into_keys().collect::<Vec<_>>(), [file]);
    }
    let twice = vec![a.transaction(), a.transaction()];
    assert_eq!(commit_all(twice, &catalog).await.unwrap_err().kind(), ErrorKind::DataInvalid);
    catalog.faults(&[Fault::Refused]);
    let before = catalog.files().await;
    assert!(commit_all(both(), &catalog).await.is_err());
    assert_eq!(catalog.files().await, before);
}
