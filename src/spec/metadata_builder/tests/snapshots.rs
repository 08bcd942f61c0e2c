use super::*;

fn log(table: &TableMetadata) -> Vec<(i64, i64)> {
    table.snapshot_log.iter().map(|e| (e.snapshot_id.0, e.timestamp_ms - CREATED)).collect()
}

#[test]
fn an_append_moves_main() {
    for version in [1, 2, 3] {
        let table = with_snapshots(version, 2);
        assert_eq!(table.current_snapshot().unwrap().snapshot_id, SnapshotId(2));
        assert_eq!(table.snapshot(SnapshotId(1)).unwrap().snapshot_id, SnapshotId(1));
        assert_eq!(table.last_sequence_number.0, if version == 1 { 0 } else { 2 });
        assert_eq!(table.next_row_id, if version == 3 { 20 } else { 0 });
        assert_eq!(log(&table), [(1, 1000), (2, 2000)]);
        assert_eq!(table.last_updated_ms, CREATED + 2000);
    }
}

#[test]
fn snapshots_that_do_not_fit_are_refused() {
    let conflict = ErrorKind::CommitConflict;
    let invalid = ErrorKind::DataInvalid;
    type Case = (u8, fn(&mut Snapshot), ErrorKind, &'static str);
    let cases: Vec<Case> = vec![
        (2, |s| s.snapshot_id = SnapshotId(1), ErrorKind::ValidationFailed, "exists already"),
        (2, |s| s.snapshot_id = SnapshotId(-1), invalid, "negative"),
        (2, |s| s.parent_snapshot_id = Some(SnapshotId(9)), conflict, "snapshot 9"),
        (2, |s| s.schema_id = Some(SchemaId(9)), conflict, "schema 9"),
        (2, |s| s.sequence_number = SequenceNumber(1), conflict, "sequence number 1"),
        (1, |s| s.sequence_number = SequenceNumber(2), invalid, "version 1"),
        (2, |s| s.timestamp_ms = CREATED + 1000 - 60_001, invalid, "clocks"),
        (2, |s| s.timestamp_ms = CREATED + 120_001, invalid, "clocks"),
        (2, |s| s.manifests = SnapshotManifests::Inline(vec![]), invalid, "manifest list"),
        (2, |s| s.summary.clear(), invalid, "`operation`"),
        (2, |s| s.first_row_id = Some(0), invalid, "version 3"),
        (2, |s| s.key_id = Some("k".into()), invalid, "version 3"),
        (3, |s| s.first_row_id = None, conflict, "first-row-id"),
        (3, |s| s.added_rows = None, conflict, "added-rows"),
        (3, |s| s.first_row_id = Some(9), conflict, "at 10 already"),
        (3, |s| s.added_rows = Some(-1), invalid, "-1 rows"),
        (3, |s| s.first_row_id = Some(i64::MAX), invalid, "adds 10 rows"),
    ];
    for (version, change, kind, part) in cases {
        let base = with_snapshots(version, 1);
        let mut new = snapshot(&base, 2, Some(1), CREATED + 2000);
        assert!(apply(&base, &[add(new.clone())], CREATED + 2000).is_ok());
        change(&mut new);
        refuses(&base, add(new), kind, part);
    }
}

#[test]
fn clocks_may_differ_by_a_minute() {
    let base = with_snapshots(2, 1);
    for at in [CREATED + 1000 - 60_000, CREATED + 120_000] {
        let new = snapshot(&base, 2, Some(1), at);
        let after = apply(&base, &[add(new), set_branch(MAIN_BRANCH, 2)], CREATED + 60_000).unwrap();
        assert_eq!(after.snapshot_log.last().unwrap().timestamp_ms, at);
        assert_eq!(after.last_updated_ms, CREATED + 60_000);
    }
}

#[test]
fn row_ids_are_never_given_out_twice() {
    let base = with_snapshots(3, 1);
    let mut new = snapshot(&base, 2, Some(1), CREATED + 2000);
    new.first_row_id = Some(100);
    let after = apply(&base, &[add(new)], CREATED + 2000).unwrap();
    assert_eq!(after.next_row_id, 110);
}

#[test]
fn several_snapshots_in_one_commit() {
    let base = with_snapshots(2, 1);
    let second = snapshot(&base, 2, Some(1), CREATED + 2000);
    let mut third = snapshot(&base, 3, Some(2), CREATED + 2001);
    third.sequence_number = SequenceNumber(3);
    let updates = [add(second), set_branch(MAIN_BRANCH, 2), add(third), set_branch(MAIN_BRANCH, 3)];
    let after = apply(&base, &updates, CREATED + 2002).unwrap();
    assert_eq!(log(&after), [(1, 1000), (3, 2001)], "nobody ever saw the second one");
    assert_eq!(after.snapshots.len(), 3);
    // Staged, and back to the first one: neither was ever current.
    let back = [&updates[..], &[set_branch(MAIN_BRANCH, 1)]].concat();
    let after = apply(&base, &back, CREATED + 2002).unwrap();
    assert_eq!(log(&after), [(1, 1000), (1, 2002)]);
}

#[test]
fn references() {
    let base = with_snapshots(2, 3);
    let updates = [set_branch("b", 2), set_tag("t", 1)];
    let after = apply(&base, &updates, CREATED + 4000).unwrap();
    assert_eq!(after.refs.len(), 3);
    assert_eq!(after.snapshot_log, base.snapshot_log, "only `main` has a log");
    // A rollback is logged with the time of the commit.
    let back = apply(&after, &[set_branch(MAIN_BRANCH, 1)], CREATED + 5000).unwrap();
    assert_eq!(back.current_snapshot_id, Some(SnapshotId(1)));
    assert_eq!(log(&back).last(), Some(&(1, 5000)));
    assert_eq!(apply(&back, &[set_branch(MAIN_BRANCH, 1)], CREATED + 6000).unwrap(), back);
    let none = apply(&back, &[TableUpdate::RemoveSnapshotRef(MAIN_BRANCH.into())], CREATED + 6000).unwrap();
    assert!(none.current_snapshot_id.is_none() && !none.refs.contains_key(MAIN_BRANCH));
    assert_eq!(none.snapshots.len(), 3);
    let gone = apply(&none, &[TableUpdate::RemoveSnapshotRef("nope".into())], CREATED + 7000).unwrap();
    assert_eq!(gone, none);

    let invalid = ErrorKind::DataInvalid;
    refuses(&base, set_branch("x", 9), ErrorKind::CommitConflict, "snapshot 9");
    refuses(&base, set_tag(MAIN_BRANCH, 1), invalid, "must be a branch");
    refuses(&base, set_branch("", 1), invalid, "name");
    let with = |ref_type, change: fn(&mut SnapshotRef)| {
        let mut reference = SnapshotRef::new(SnapshotId(1), ref_type);
        change(&mut reference);
        TableUpdate::SetSnapshotRef { name: "r".into(), reference }
    };
    refuses(&base, with(RefType::Tag, |r| r.min_snapshots_to_keep = Some(1)), invalid, "tag `r`");
    refuses(&base, with(RefType::Tag, |r| r.max_snapshot_age_ms = Some(1)), invalid, "tag `r`");
    refuses(&base, with(RefType::Branch, |r| r.min_snapshots_to_keep = Some(0)), invalid, "min-snapshots");
    refuses(&base, with(RefType::Branch, |r| r.max_snapshot_age_ms = Some(-1)), invalid, "max-snapshot-age");
    refuses(&base, with(RefType::Tag, |r| r.max_ref_age_ms = Some(0)), invalid, "max-ref-age");
    assert!(apply(&base, &[with(RefType::Tag, |r| r.max_ref_age_ms = Some(1))], CREATED + 4000).is_ok());
}

#[test]
fn removed_snapshots_take_all_that_is_theirs_with_them() {
    let base = with_snapshots(2, 4);
    let statistics = |id: i64| json!({"snapshot-id": id, "statistics-path": "s"});
    let updates = [
        set_branch("b", 2),
        set_tag("t", 3),
        TableUpdate::SetStatistics(statistics(2)),
        TableUpdate::SetStatistics(statistics(3)),
        TableUpdate::SetPartitionStatistics(statistics(2)),
    ];
    let base = apply(&base, &updates, CREATED + 5000).unwrap();
    let removed = TableUpdate::RemoveSnapshots(vec![SnapshotId(2), SnapshotId(77)]);
    // What others named meanwhile stays.
    refuses(&base, removed.clone(), ErrorKind::CommitConflict, "`b` names it");
    let remove = |name: &str| TableUpdate::RemoveSnapshotRef(name.into());
    let after = apply(&base, &[remove("b"), removed], CREATED + 6000).unwrap();
    assert_eq!(after.snapshots.len(), 3);
    assert!(after.snapshot(SnapshotId(2)).is_none() && after.snapshot(SnapshotId(4)).is_some());
    assert_eq!(after.refs.keys().collect::<Vec<_>>(), [MAIN_BRANCH, "t"]);
    assert_eq!(after.statistics, [statistics(3)]);
    assert!(after.partition_statistics.is_empty());
    // The first snapshot would seem to have been current until the third.
    assert_eq!(log(&after), [(3, 3000), (4, 4000)]);
    let all = (1..=4).map(SnapshotId).collect();
    let updates = [remove("b"), remove("t"), remove(MAIN_BRANCH), TableUpdate::RemoveSnapshots(all)];
    let after = apply(&base, &updates, CREATED + 6000).unwrap();
    assert!(after.current_snapshot_id.is_none() && after.refs.is_empty() && after.snapshot_log.is_empty());
    assert_eq!(after.last_sequence_number, SequenceNumber(4));
}

#[test]
fn a_snapshot_of_the_same_commit_may_go() {
    let base = with_snapshots(2, 1);
    let new = snapshot(&base, 2, Some(1), CREATED + 2000);
    let updates = [
        add(new),
        set_branch(MAIN_BRANCH, 2),
        set_branch(MAIN_BRANCH, 1),
        TableUpdate::RemoveSnapshots(vec![SnapshotId(2)]),
    ];
    let after = apply(&base, &updates, CREATED + 2000).unwrap();
    assert_eq!(log(&after), [(1, 1000), (1, 2000)], "it never was current, so no history is lost");
}

#[test]
fn a_snapshot_has_one_file_of_statistics() {
    let base = with_snapshots(2, 2);
    let file = |id: i64, path: &str| json!({"snapshot-id": id, "statistics-path": path, "x": 1});
    for (set, remove, of) in [
        (
            TableUpdate::SetStatistics as fn(Json) -> TableUpdate,
            TableUpdate::RemoveStatistics as fn(SnapshotId) -> TableUpdate,
            (|t| t.statistics.clone()) as fn(&TableMetadata) -> Vec<Json>,
        ),
        (TableUpdate::SetPartitionStatistics, TableUpdate::RemovePartitionStatistics, |t| {
            t.partition_statistics.clone()
        }),
    ] {
        let updates = [set(file(1, "a")), set(file(2, "b")), set(file(1, "c"))];
        let after = apply(&base, &updates, CREATED + 3000).unwrap();
        assert_eq!(of(&after), [file(2, "b"), file(1, "c")]);
        let after = apply(&after, &[remove(SnapshotId(1)), remove(SnapshotId(9))], CREATED + 3000).unwrap();
        assert_eq!(of(&after), [file(2, "b")]);
        refuses(&base, set(json!({"statistics-path": "a"})), ErrorKind::DataInvalid, "snapshot-id");
        refuses(&base, set(json!({"snapshot-id": 1})), ErrorKind::DataInvalid, "statistics-path");
    }
}

#[test]
fn the_metadata_log_is_as_long_as_it_may_be() {
    let entry = |i: i64| MetadataLogEntry { timestamp_ms: i, metadata_file: format!("v{i}.metadata.json") };
    let mut table = table(2);
    table.properties.insert("write.metadata.previous-versions-max".into(), "2".into());
    assert_eq!(table.log_previous(entry(1)).unwrap(), []);
    assert_eq!(table.log_previous(entry(2)).unwrap(), []);
    assert_eq!(table.log_previous(entry(3)).unwrap(), [entry(1)]);
    assert_eq!(table.metadata_log, [entry(2), entry(3)]);
    table.properties.insert("write.metadata.previous-versions-max".into(), "0".into());
    assert_eq!(table.log_previous(entry(4)).unwrap(), [entry(2), entry(3)]);
    assert_eq!(table.metadata_log, [entry(4)]);
    table.properties.insert("write.metadata.previous-versions-max".into(), "x".into());
    assert!(table.log_previous(entry(5)).unwrap_err().to_string().contains("previous-versions-max"));
    assert_eq!(table.metadata_log, [entry(4)]);
}
