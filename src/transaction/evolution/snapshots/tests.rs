use serde_json::json;

use super::*;
use crate::transaction::evolution::test_tables::{self, apply, table};

/// 1 ← 2 ← 3 is `main`, 2 ← 4 is `dev`, 1 is the tag `v1`; 5 is unnamed.
fn branches() -> TableMetadata {
    let mut json = test_tables::json(2);
    let snapshot = |id: i64, parent: Option<i64>| {
        let mut snapshot = json!({
            "snapshot-id": id, "sequence-number": id, "timestamp-ms": id * 100, "manifest-list": "memory://bucket/l",
            "summary": {"operation": "append"}, "schema-id": 0
        });
        if let Some(parent) = parent {
            snapshot["parent-snapshot-id"] = json!(parent);
        }
        snapshot
    };
    json["snapshots"] = json!([
        snapshot(1, None),
        snapshot(2, Some(1)),
        snapshot(3, Some(2)),
        snapshot(4, Some(2)),
        snapshot(5, Some(77))
    ]);
    json["last-sequence-number"] = json!(5);
    json["current-snapshot-id"] = json!(3);
    json["refs"] = json!({
        "main": {"snapshot-id": 3, "type": "branch", "min-snapshots-to-keep": 7},
        "dev": {"snapshot-id": 4, "type": "branch"},
        "v1": {"snapshot-id": 1, "type": "tag"}
    });
    json["snapshot-log"] = json!([{"snapshot-id": 3, "timestamp-ms": 300}]);
    TableMetadata::from_json_value(&json).unwrap()
}

fn manage() -> ManageSnapshots {
    ManageSnapshots::new()
}

fn after(update: ManageSnapshots) -> TableMetadata {
    let base = branches();
    apply(&base, &update.updates_of(&base).unwrap())
}

fn at(metadata: &TableMetadata, name: &str) -> Option<i64> {
    metadata.refs.get(name).map(|reference| reference.snapshot_id.0)
}

fn fails(update: ManageSnapshots) -> (ErrorKind, String) {
    let e = update.updates_of(&branches()).unwrap_err();
    (e.kind(), e.to_string())
}

#[test]
fn branches_and_tags() {
    let id = SnapshotId;
    let table = after(
        manage()
            .create_branch("b")
            .create_branch_at("b2", id(2))
            .create_tag("t")
            .create_tag_at("t5", id(5))
            .remove_tag("v1")
            .rename_branch("dev", "test")
            .set_max_ref_age_ms("t", 10)
            .set_max_snapshot_age_ms("b", 20)
            .set_min_snapshots_to_keep("b", 3),
    );
    let names: Vec<(&str, i64)> = table.refs.iter().map(|(n, r)| (n.as_str(), r.snapshot_id.0)).collect();
    assert_eq!(names, [("b", 3), ("b2", 2), ("main", 3), ("t", 3), ("t5", 5), ("test", 4)]);
    let (b, t) = (&table.refs["b"], &table.refs["t"]);
    assert_eq!(
        (b.max_snapshot_age_ms, b.min_snapshots_to_keep, b.ref_type),
        (Some(20), Some(3), RefType::Branch)
    );
    assert_eq!((t.max_ref_age_ms, t.ref_type), (Some(10), RefType::Tag));
}

#[test]
fn what_was_made_and_unmade_is_no_update() {
    let base = branches();
    let update = manage().create_branch("b").remove_branch("b").replace_branch("dev", SnapshotId(4));
    assert!(update.updates_of(&base).unwrap().is_empty());
}

#[test]
fn replacing_keeps_the_rules() {
    let table = after(manage().replace_branch("main", SnapshotId(4)).replace_tag("v1", SnapshotId(2)));
    assert_eq!((at(&table, "main"), at(&table, "v1")), (Some(4), Some(2)));
    assert_eq!(table.refs["main"].min_snapshots_to_keep, Some(7));
    assert_eq!(table.current_snapshot_id, Some(SnapshotId(4)));
    let table = after(manage().replace_branch_by("dev", "v1").replace_branch_by("new", "dev"));
    assert_eq!((at(&table, "dev"), at(&table, "new")), (Some(1), Some(1)));
}

#[test]
fn fast_forward_goes_forward_only() {
    let base = manage().create_branch_at("b", SnapshotId(2));
    let table = after(base.clone().fast_forward("b", "dev").fast_forward("new", "v1"));
    assert_eq!((at(&table, "b"), at(&table, "new")), (Some(4), Some(1)));
    assert_eq!(at(&after(base.fast_forward("b", "b")), "b"), Some(2));
    for (from, to) in [("main", "dev"), ("dev", "v1")] {
        let (kind, message) = fails(manage().fast_forward(from, to));
        assert_eq!(kind, ErrorKind::ValidationFailed, "{message}");
        assert!(message.contains(&format!("`{to}` is not ahead")), "{message}");
    }
}

#[test]
fn what_is_not_possible() {
    use ErrorKind::{AlreadyExists, DataInvalid, NotFound};
    let id = SnapshotId;
    for (update, kind, part) in [
        (manage().create_branch("dev"), AlreadyExists, "`dev` already"),
        (manage().create_tag("dev"), AlreadyExists, "`dev` already"),
        (manage().create_branch_at("b", id(9)), NotFound, "no snapshot 9"),
        (manage().create_branch(""), DataInvalid, "can't be empty"),
        (manage().remove_branch("main"), DataInvalid, "can't be removed"),
        (manage().remove_branch("v1"), DataInvalid, "`v1` is no branch"),
        (manage().remove_tag("dev"), DataInvalid, "`dev` is no tag"),
        (manage().remove_tag("nope"), NotFound, "no tag `nope`"),
        (manage().rename_branch("main", "m"), DataInvalid, "can't be renamed"),
        (manage().rename_branch("dev", "v1"), AlreadyExists, "`v1` already"),
        (manage().replace_branch("v1", id(1)), DataInvalid, "`v1` is no branch"),
        (manage().replace_branch("dev", id(9)), NotFound, "no snapshot 9"),
        (manage().replace_branch_by("dev", "nope"), NotFound, "`nope`"),
        (manage().replace_tag("nope", id(1)), NotFound, "no tag `nope`"),
        (manage().set_max_snapshot_age_ms("v1", 1), DataInvalid, "`v1` is no branch"),
        (manage().set_min_snapshots_to_keep("v1", 1), DataInvalid, "`v1` is no branch"),
        (manage().set_min_snapshots_to_keep("dev", 0), DataInvalid, "greater than 0"),
        (manage().set_max_snapshot_age_ms("dev", 0), DataInvalid, "greater than 0"),
        (manage().set_max_ref_age_ms("dev", -1), DataInvalid, "greater than 0"),
        (manage().set_current_snapshot(id(9)), NotFound, "no snapshot 9"),
    ] {
        let (found, message) = fails(update);
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(part), "{message}");
    }
    let e = manage().create_branch("b").updates_of(&table(2)).unwrap_err();
    assert!(e.to_string().contains("none yet"), "{e}");
    let e = manage().create_tag_at("main", SnapshotId(1)).updates_of(&table(2)).unwrap_err();
    assert!(e.to_string().contains("can't be a tag"), "{e}");
}

#[test]
fn current_and_back() {
    let id = SnapshotId;
    assert_eq!(at(&after(manage().set_current_snapshot(id(5))), "main"), Some(5));
    assert_eq!(at(&after(manage().rollback_to(id(1))), "main"), Some(1));
    assert_eq!(at(&after(manage().rollback_to(id(3))), "main"), Some(3));
    let (kind, message) = fails(manage().rollback_to(id(4)));
    assert_eq!(kind, ErrorKind::ValidationFailed);
    assert!(message.contains("was not made from it"), "{message}");
    assert_eq!(fails(manage().rollback_to(id(9))).0, ErrorKind::NotFound);
    for (ms, expected) in [(101, 1), (200, 1), (201, 2), (300, 2), (301, 3), (i64::MAX, 3)] {
        assert_eq!(at(&after(manage().rollback_to_time(ms)), "main"), Some(expected), "{ms}");
    }
    assert_eq!(fails(manage().rollback_to_time(100)).0, ErrorKind::NotFound);
    let empty = manage().set_current_snapshot(id(1)).updates_of(&{
        let mut base = branches();
        base.refs.clear();
        base.current_snapshot_id = None;
        base
    });
    let main = SnapshotRef::new(id(1), RefType::Branch);
    assert_eq!(empty.unwrap(), [TableUpdate::SetSnapshotRef { name: "main".into(), reference: main }]);
}
