//! What others committed meanwhile: conflicts, and what is none.

use super::*;
use crate::spec::{SequenceNumber, SnapshotId};

/// A table with the file `a` in partition 1 and `b` in partition 2, and the snapshot of it.
async fn start(version: u8) -> (TestCatalog, Table, SnapshotId) {
    let (catalog, table) = TestCatalog::with_table(version, &[]).await;
    let append = Append::fast().files([a(), b()]);
    let table = table.transaction().apply(append).commit(&catalog).await.unwrap();
    let id = current(&table).snapshot_id;
    (catalog, table, id)
}

fn a() -> ContentFile {
    file("a", Some(1), 5)
}

fn b() -> ContentFile {
    file("b", Some(2), 5)
}

fn p(n: i32) -> Predicate {
    filter("p", Test::Eq(Value::Int(n)))
}

/// Commits what others do, then an action on the table as it was before: whether it fails.
async fn conflicts(
    catalog: &TestCatalog,
    table: &Table,
    others: Vec<Transaction>,
    action: impl Action + 'static,
) -> bool {
    let before = catalog.tables.lock().unwrap().clone();
    for other in others {
        other.commit(catalog).await.unwrap();
    }
    let result = table.transaction().apply(action).commit(catalog).await;
    *catalog.tables.lock().unwrap() = before;
    match result {
        Ok(_) => false,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::ValidationFailed, "{e}");
            true
        }
    }
}

#[tokio::test]
async fn data_in_other_partitions_is_no_conflict() {
    for version in 1..=3 {
        let (catalog, table, id) = start(version).await;
        let append = |p| vec![table.transaction().apply(Append::merging().files([file("new", Some(p), 1)]))];
        let overwrite = || Overwrite::new().rows_of(p(1)).validate_from_snapshot(id);
        let strict = || overwrite().validate_no_conflicting_data();
        assert!(!conflicts(&catalog, &table, append(2), strict()).await);
        assert!(conflicts(&catalog, &table, append(1), strict()).await);
        assert!(!conflicts(&catalog, &table, append(1), overwrite()).await, "nobody asked");
        let narrower = filter("x", Test::Gt(Value::Long(100)));
        let narrower = strict().conflict_detection_filter(narrower);
        assert!(!conflicts(&catalog, &table, append(1), narrower).await);
        // Without a snapshot to start from, all that was ever committed is new.
        let all = Overwrite::new().rows_of(p(1)).validate_no_conflicting_data();
        assert!(conflicts(&catalog, &table, vec![], all).await);
        assert!(!conflicts(&catalog, &table, vec![], strict()).await);

        let by_file = || Overwrite::new().remove_files([a()]).validate_from_snapshot(id);
        let by_file = || by_file().validate_no_conflicting_data();
        assert!(conflicts(&catalog, &table, append(2), by_file()).await, "it may have read anything");
        let filtered = by_file().conflict_detection_filter(p(1));
        assert!(!conflicts(&catalog, &table, append(2), filtered).await);

        let replace = || ReplacePartitions::new().files([file("r", Some(1), 1)]).validate_from_snapshot(id);
        let replace = || replace().validate_no_conflicting_data().validate_no_conflicting_deletes();
        assert!(!conflicts(&catalog, &table, append(2), replace()).await);
        assert!(conflicts(&catalog, &table, append(1), replace()).await);
        let delete = |file: ContentFile| vec![table.transaction().apply(DeleteFiles::new().files(&[file]))];
        assert!(conflicts(&catalog, &table, delete(a()), replace()).await);
        assert!(!conflicts(&catalog, &table, delete(b()), replace()).await);
    }
}

#[tokio::test]
async fn compaction_adds_no_data_but_removes_files() {
    let (catalog, table, id) = start(2).await;
    let compact = || {
        let rewrite = RewriteFiles::new().remove_data([a()]).add_data([file("c", Some(1), 5)]);
        vec![table.transaction().apply(rewrite.validate_from_snapshot(id))]
    };
    let overwrite = || Overwrite::new().rows_of(p(1)).validate_from_snapshot(id);
    assert!(!conflicts(&catalog, &table, compact(), overwrite().validate_no_conflicting_data()).await);
    assert!(conflicts(&catalog, &table, compact(), overwrite().validate_no_conflicting_deletes()).await);
    let other = Overwrite::new().rows_of(p(2)).validate_from_snapshot(id).validate_no_conflicting_deletes();
    assert!(!conflicts(&catalog, &table, compact(), other).await);
}

#[tokio::test]
async fn deletes_of_rewritten_files_are_conflicts() {
    let (catalog, table, id) = start(2).await;
    let delta = |file| vec![table.transaction().apply(RowDelta::new().add_deletes([file]))];
    let rewrite = || {
        RewriteFiles::new().remove_data([a()]).add_data([file("c", Some(1), 5)]).validate_from_snapshot(id)
    };
    let keeps_age = || rewrite().data_sequence_number(SequenceNumber(1));
    assert!(conflicts(&catalog, &table, delta(positions("d", Some(1))), rewrite()).await);
    assert!(conflicts(&catalog, &table, delta(positions("d", Some(1))), keeps_age()).await);
    assert!(conflicts(&catalog, &table, delta(equality("d", Some(1))), rewrite()).await);
    assert!(!conflicts(&catalog, &table, delta(equality("d", Some(1))), keeps_age()).await);
    assert!(!conflicts(&catalog, &table, delta(equality("d", Some(2))), rewrite()).await);
    let new = file("new", Some(1), 1);
    let of_new = ContentFile { referenced_data_file: Some(new.file_path.clone()), ..positions("d", Some(1)) };
    let of_new = RowDelta::new().add_rows([new]).add_deletes([of_new]);
    let of_new = vec![table.transaction().apply(of_new)];
    assert!(!conflicts(&catalog, &table, of_new, rewrite()).await, "of another file");

    let by_file = || Overwrite::new().remove_files([a()]).validate_from_snapshot(id);
    let by_file = || by_file().validate_no_conflicting_deletes();
    assert!(conflicts(&catalog, &table, delta(equality("d", Some(1))), by_file()).await);
    assert!(!conflicts(&catalog, &table, delta(equality("d", Some(2))), by_file()).await);
    let rows = RowDelta::new().remove_rows([a()]).validate_from_snapshot(id);
    let rows = rows.validate_no_conflicting_deletes().conflict_detection_filter(p(1));
    assert!(conflicts(&catalog, &table, delta(positions("d", Some(1))), rows).await);
    // What was there before was seen.
    let earlier = table.transaction().apply(RowDelta::new().add_deletes([equality("old", Some(1))]));
    let table = earlier.commit(&catalog).await.unwrap();
    let seen = rewrite().validate_from_snapshot(current(&table).snapshot_id);
    assert!(!conflicts(&catalog, &table, vec![], seen).await);
    assert!(conflicts(&catalog, &table, vec![], rewrite()).await);
}

#[tokio::test]
async fn vectors_of_rewritten_files_are_conflicts() {
    let (catalog, table, id) = start(3).await;
    let first = vector("v", &a(), 4);
    let with_one = || vec![table.transaction().apply(RowDelta::new().add_deletes([first.clone()]))];
    let with_two = || {
        let second = RowDelta::new().add_deletes([vector("w", &a(), 4)]).remove_deletes([&first]);
        with_one().into_iter().chain([table.transaction().apply(second)]).collect()
    };
    let rewrite = |file: ContentFile| {
        let new = ContentFile { file_path: "memory:///data/c".into(), ..file.clone() };
        RewriteFiles::new().remove_data([file]).add_data([new]).validate_from_snapshot(id)
    };
    assert!(conflicts(&catalog, &table, with_one(), rewrite(a())).await);
    assert!(conflicts(&catalog, &table, with_two(), rewrite(a())).await);
    let keeps_age = rewrite(a()).data_sequence_number(SequenceNumber(1));
    assert!(conflicts(&catalog, &table, with_two(), keeps_age).await);
    assert!(!conflicts(&catalog, &table, with_two(), rewrite(b())).await);
    let delta = |data: ContentFile| {
        RowDelta::new().add_deletes([vector("mine", &data, 4)]).validate_from_snapshot(id)
    };
    assert!(conflicts(&catalog, &table, with_one(), delta(a())).await);
    assert!(!conflicts(&catalog, &table, with_one(), delta(b())).await);
    let filtered = |n| delta(b()).validate_no_conflicting_deletes().conflict_detection_filter(p(n));
    assert!(!conflicts(&catalog, &table, with_one(), filtered(2)).await);
    assert!(conflicts(&catalog, &table, with_one(), filtered(1)).await);
}

#[tokio::test]
async fn each_statement_is_as_isolated_as_the_table_says() {
    use crate::spec::{IsolationLevel as L, RowLevelOperation as O, TableProperties};
    let (catalog, table, id) = start(2).await;
    let serializable = TableProperties::new(&table.metadata().properties);
    for operation in [O::Delete, O::Update, O::Merge] {
        assert_eq!(serializable.isolation_level(operation).unwrap(), L::Serializable);
    }
    let others = |what: &str, p: i32| {
        let (t, of) = (table.transaction(), if p == 1 { a() } else { b() });
        vec![match what {
            "added" => t.apply(Append::fast().files([file("new", Some(p), 1)])),
            "deleted" => t.apply(RowDelta::new().add_deletes([positions("d", Some(p))])),
            "removed" => t.apply(DeleteFiles::new().files(&[of])),
            _ => t.apply(Overwrite::new().remove_files([of]).add_files([file("c", Some(p), 1)])),
        }]
    };
    // By copy-on-write: the new file has rows of the old one.
    let copied = |level| {
        let new = file("copy", Some(1), 5);
        let overwrite = Overwrite::new().remove_files([a()]).add_files([new]).validate_from_snapshot(id);
        overwrite.conflict_detection_filter(p(1)).validate_isolation(level)
    };
    // By merge-on-read: a delete, and new rows unless it is a DELETE.
    let marked = |level, operation| {
        let deletes = ContentFile { referenced_data_file: Some(a().file_path), ..positions("mine", Some(1)) };
        let rows = (operation != O::Delete).then(|| file("mine_new", Some(1), 1));
        let delta = RowDelta::new().add_deletes([deletes]).add_rows(rows).validate_from_snapshot(id);
        delta.conflict_detection_filter(p(1)).validate_isolation(level, operation)
    };
    for (what, level, by_copy, by_delete, by_update) in [
        ("added", L::Serializable, true, true, true),
        ("added", L::Snapshot, false, false, false),
        ("deleted", L::Serializable, true, false, true),
        ("deleted", L::Snapshot, true, false, true),
        ("removed", L::Serializable, true, false, true),
        ("removed", L::Snapshot, true, false, true),
        ("replaced", L::Serializable, true, true, true),
        ("replaced", L::Snapshot, true, true, true),
    ] {
        let place = format!("{what}, {level:?}");
        assert_eq!(conflicts(&catalog, &table, others(what, 1), copied(level)).await, by_copy, "{place}");
        for (operation, expected) in [(O::Delete, by_delete), (O::Update, by_update), (O::Merge, by_update)] {
            let found = conflicts(&catalog, &table, others(what, 1), marked(level, operation)).await;
            assert_eq!(found, expected, "{place}, {operation:?}");
            // In another partition it is no matter.
            assert!(!conflicts(&catalog, &table, others(what, 2), marked(level, operation)).await);
        }
        assert!(!conflicts(&catalog, &table, others(what, 2), copied(level)).await);
    }
}

#[tokio::test]
async fn files_that_deletes_refer_to_must_be_there() {
    let (catalog, table, id) = start(2).await;
    let delta = || {
        RowDelta::new()
            .add_deletes([positions("mine", Some(1))])
            .validate_data_files_exist([a().file_path])
            .validate_from_snapshot(id)
    };
    let run = |action: Box<dyn Fn() -> Transaction>| vec![action()];
    let (t1, t2, t3) = (table.clone(), table.clone(), table.clone());
    let compacted = Box::new(move || {
        let rewrite = RewriteFiles::new().remove_data([a()]).add_data([file("c", Some(1), 5)]);
        t1.transaction().apply(rewrite.validate_from_snapshot(id))
    });
    assert!(conflicts(&catalog, &table, run(compacted), delta()).await);
    let deleted = Box::new(move || t2.transaction().apply(DeleteFiles::new().files(&[a()])));
    assert!(!conflicts(&catalog, &table, run(deleted.clone()), delta()).await);
    assert!(conflicts(&catalog, &table, run(deleted), delta().validate_deleted_files()).await);
    let other = Box::new(move || t3.transaction().apply(Overwrite::new().remove_files([b()])));
    assert!(!conflicts(&catalog, &table, run(other), delta().validate_deleted_files()).await);
    let contradicts = delta().remove_rows([a()]);
    assert!(conflicts(&catalog, &table, vec![], contradicts).await);
}

#[tokio::test]
async fn deletes_of_a_data_file_need_it() {
    for version in [2, 3] {
        let (catalog, table, id) = start(version).await;
        let of = |data: ContentFile| match version {
            3 => vector("mine", &data, 4),
            _ => ContentFile {
                referenced_data_file: Some(data.file_path),
                partition: data.partition,
                ..positions("mine", None)
            },
        };
        let delta = || RowDelta::new().add_deletes([of(a())]).validate_from_snapshot(id);
        let alone = |action: Transaction| vec![action];
        assert!(!conflicts(&catalog, &table, vec![], delta()).await);
        let compact = RewriteFiles::new().remove_data([a()]).add_data([file("c", Some(1), 5)]);
        let compact = table.transaction().apply(compact.validate_from_snapshot(id));
        assert!(conflicts(&catalog, &table, alone(compact), delta()).await);
        let replace = Overwrite::new().remove_files([a()]).add_files([file("c", Some(1), 5)]);
        assert!(conflicts(&catalog, &table, alone(table.transaction().apply(replace)), delta()).await);
        let delete = || alone(table.transaction().apply(DeleteFiles::new().files(&[a()])));
        assert!(!conflicts(&catalog, &table, delete(), delta()).await, "the rows are gone");
        assert!(conflicts(&catalog, &table, delete(), delta().validate_deleted_files()).await);
        // Never there; there, but in another partition, where the deletes would not apply.
        let never = RowDelta::new().add_deletes([of(file("z", Some(1), 5))]).validate_from_snapshot(id);
        assert!(conflicts(&catalog, &table, vec![], never).await);
        let elsewhere = ContentFile { partition: b().partition, ..of(a()) };
        let elsewhere = RowDelta::new().add_deletes([elsewhere]).validate_from_snapshot(id);
        assert!(conflicts(&catalog, &table, vec![], elsewhere).await);
        // Spelled in another way, or added with them.
        let path = Some("memory:/data/a".to_owned());
        let spelled = ContentFile { referenced_data_file: path, ..of(a()) };
        assert!(!conflicts(&catalog, &table, vec![], RowDelta::new().add_deletes([spelled])).await);
        let new = file("new", Some(1), 5);
        let both = RowDelta::new().add_rows([new.clone()]).add_deletes([of(new)]);
        assert!(!conflicts(&catalog, &table, vec![], both).await);
    }
}

#[tokio::test]
async fn a_path_is_the_same_however_it_is_spelled() {
    let (catalog, table, id) = start(3).await;
    let other = |data: ContentFile| {
        let path = data.file_path.replace("memory:///", "memory:/");
        ContentFile { referenced_data_file: Some(path), ..vector("v", &data, 4) }
    };
    let removed = RowDelta::new().remove_rows([a()]).add_deletes([other(a())]);
    assert!(conflicts(&catalog, &table, vec![], removed).await);
    let compact = RewriteFiles::new().remove_data([a()]).add_data([file("c", Some(1), 5)]);
    let compact = vec![table.transaction().apply(compact.validate_from_snapshot(id))];
    let requires = RowDelta::new().add_rows([file("d", Some(1), 1)]).validate_from_snapshot(id);
    let requires = requires.validate_data_files_exist(["memory:/data/a"]);
    assert!(conflicts(&catalog, &table, compact, requires).await);
    // A vector goes with its data.
    let delta = RowDelta::new().add_deletes([other(a()), vector("w", &b(), 4)]);
    let table = table.transaction().apply(delta).commit(&catalog).await.unwrap();
    assert_eq!(live(&table, ManifestContent::Deletes).await, names(["v", "w"]));
    let delete = DeleteFiles::new().files(&[a()]);
    let table = table.transaction().apply(delete).commit(&catalog).await.unwrap();
    assert_eq!(live(&table, ManifestContent::Deletes).await, names(["w"]));
}

#[tokio::test]
async fn an_unknown_history_is_a_conflict() {
    let (catalog, table, id) = start(2).await;
    let append = |name| Append::fast().files([file(name, Some(2), 1)]);
    let table = table.transaction().apply(append("c")).apply(append("d")).commit(&catalog).await.unwrap();

    #[derive(Debug)]
    struct Expire(SnapshotId);
    #[async_trait]
    impl Action for Expire {
        async fn updates(&mut self, _: &Table) -> crate::Result<Vec<TableUpdate>> {
            Ok(vec![TableUpdate::RemoveSnapshots(vec![self.0])])
        }
    }
    let middle = table.metadata().snapshots[1].snapshot_id;
    let overwrite = || Overwrite::new().rows_of(p(1)).validate_no_conflicting_data();
    assert!(!conflicts(&catalog, &table, vec![], overwrite().validate_from_snapshot(id)).await);
    let table = table.transaction().apply(Expire(middle)).commit(&catalog).await.unwrap();
    assert!(conflicts(&catalog, &table, vec![], overwrite().validate_from_snapshot(id)).await);
    let never = overwrite().validate_from_snapshot(SnapshotId(7));
    assert!(conflicts(&catalog, &table, vec![], never).await);
}
