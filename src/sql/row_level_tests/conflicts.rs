//! What others commit between the time at which a statement is planned and its commit.

use super::{Kind, Rig, V3_COW, V3_MOR, kinds};
use crate::error::{Error, ErrorKind};
use crate::sql::IcebergSql;

/// What others do between the time at which a statement is planned and its commit.
#[tokio::test]
async fn what_others_did_is_a_conflict_or_not() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Fate {
        Fine,
        Conflict,
        /// Only if it has to be serializable.
        Serializable,
        /// Only of deletion vectors, of which a data file has one.
        Vectors,
    }
    use Fate::*;
    let delete = "DELETE FROM ice.n.t WHERE p = 1 AND s = 'a'";
    let update = "UPDATE ice.n.t SET x = 7 WHERE p = 1 AND s = 'a'";
    let merge = "MERGE INTO ice.n.t USING source s ON t.id = s.id AND t.p = 1 AND t.s = 'a' \
                 WHEN MATCHED THEN UPDATE SET x = 7 WHEN NOT MATCHED AND s.id = 1 THEN INSERT (id) VALUES (77)";
    let whole =
        "MERGE INTO ice.n.t USING source s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.p = 2 THEN DELETE";
    let reading = "DELETE FROM ice.n.t WHERE p = 1 AND id < (SELECT max(id) FROM ice.n.t WHERE p = 2)";
    let inserts = |p: &str, s: &str| format!("INSERT INTO ice.n.t VALUES (50, {p}, '{s}', 1.0)");
    for (sql, other, fate) in [
        (delete, inserts("2", "a"), Fine),
        (delete, inserts("1", "b"), Fine),
        (delete, inserts("1", "a"), Serializable),
        (delete, "DELETE FROM ice.n.t WHERE id = 3".to_owned(), Fine),
        (delete, "DELETE FROM ice.n.t WHERE id = 2".to_owned(), Vectors),
        (update, inserts("2", "a"), Fine),
        (update, inserts("1", "a"), Serializable),
        (update, "DELETE FROM ice.n.t WHERE id = 3".to_owned(), Fine),
        (update, "DELETE FROM ice.n.t WHERE id = 1".to_owned(), Conflict),
        (update, "DELETE FROM ice.n.t WHERE p = 1".to_owned(), Conflict),
        (merge, inserts("2", "a"), Fine),
        (merge, inserts("1", "a"), Serializable),
        (merge, "UPDATE ice.n.t SET x = 5 WHERE id = 1".to_owned(), Conflict),
        (whole, inserts("1", "a"), Serializable),
        (reading, inserts("2", "z"), Serializable),
        (reading, "DELETE FROM ice.n.t WHERE p IS NULL".to_owned(), Fine),
        ("INSERT OVERWRITE ice.n.t SELECT * FROM ice.n.t", inserts("2", "z"), Conflict),
    ] {
        for kind in kinds().into_iter().filter(|kind| kind.partitioned && kind.version > 1) {
            for isolation in ["serializable", "snapshot"] {
                let names = ["delete", "update", "merge"].map(|name| format!("write.{name}.isolation-level"));
                let properties: Vec<(&str, &str)> =
                    names.iter().map(|name| (name.as_str(), isolation)).collect();
                let rig = Rig::with_rows(kind, &properties).await;
                let frame = rig.context.iceberg_sql(sql).await.unwrap();
                rig.rows(&other).await;
                let (before, stored) = (rig.all().await, rig.stored().await);
                let place = format!("{sql}; {other}; {kind:?}, {isolation}");
                let vectors = kind.version == 3 && kind.mode == "merge-on-read";
                let conflicts = match fate {
                    Fine => false,
                    Conflict => true,
                    Serializable => isolation == "serializable",
                    Vectors => vectors || kind.mode == "copy-on-write",
                };
                match frame.collect().await {
                    Ok(_) => {
                        assert!(!conflicts, "{place}: no conflict");
                        // What both would have done one after the other.
                        let serial = Rig::with_rows(kind, &properties).await;
                        let order = if fate == Serializable { [sql, &other] } else { [&other, sql] };
                        for sql in order {
                            serial.rows(sql).await;
                        }
                        assert_eq!(rig.all().await, serial.all().await, "{place}");
                    }
                    Err(e) => {
                        assert!(conflicts, "{place}: {e}");
                        let kind = Error::find_in(&e).unwrap().kind();
                        assert_eq!(kind, ErrorKind::ValidationFailed, "{place}: {e}");
                        assert_eq!(rig.all().await, before, "{place}");
                        assert_eq!(rig.stored().await, stored, "{place}");
                    }
                }
            }
        }
    }
}

/// One statement copies files and the other marks rows in delete files: of the same file, but of rows that
/// the other's condition has nothing to do with. None of them may come back or stay.
#[tokio::test]
async fn what_others_did_to_other_rows_of_a_file_is_not_lost() {
    let update = "UPDATE ice.n.t SET x = 7 WHERE p = 1 AND s = 'a'";
    let delete = "DELETE FROM ice.n.t WHERE p = 1 AND s = 'a'";
    let merge =
        "MERGE INTO ice.n.t USING source s ON t.id = s.id AND t.id = 1 WHEN MATCHED THEN UPDATE SET x = 7";
    let others = [
        "DELETE FROM ice.n.t WHERE id = 2",
        "UPDATE ice.n.t SET s = 'changed' WHERE id = 2",
        "MERGE INTO ice.n.t USING source s ON t.id = s.id AND s.id = 2 WHEN MATCHED THEN DELETE",
    ];
    let (cow, mor) = ("copy-on-write", "merge-on-read");
    for kind in [V3_COW, Kind { version: 2, ..V3_MOR }] {
        for (ours, theirs) in [(cow, mor), (mor, cow), (cow, cow), (mor, mor)] {
            for isolation in ["serializable", "snapshot"] {
                for sql in [update, delete, merge] {
                    for other in others {
                        let names =
                            ["delete", "update", "merge"].map(|name| format!("write.{name}.isolation-level"));
                        let properties: Vec<(&str, &str)> =
                            names.iter().map(|name| (name.as_str(), isolation)).collect();
                        let rig = Rig::with_rows(kind, &properties).await;
                        rig.set_mode(ours).await;
                        let frame = rig.context.iceberg_sql(sql).await.unwrap();
                        rig.set_mode(theirs).await;
                        rig.rows(other).await;
                        let before = rig.all().await;
                        let place = format!("{sql} ({ours}); {other} ({theirs}); {kind:?}, {isolation}");
                        // The mode is that of the table as it was planned.
                        match frame.collect().await {
                            Ok(_) => {
                                let serial = Rig::with_rows(kind, &[]).await;
                                serial.rows(other).await;
                                serial.rows(sql).await;
                                assert_eq!(rig.all().await, serial.all().await, "{place}");
                            }
                            Err(e) => {
                                let kind =
                                    Error::find_in(&e).unwrap_or_else(|| panic!("{place}: {e}")).kind();
                                assert_eq!(kind, ErrorKind::ValidationFailed, "{place}: {e}");
                                assert_eq!(rig.all().await, before, "{place}");
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Rig {
    async fn set_mode(&self, mode: &str) {
        let modes = ["delete", "update", "merge"].map(|name| format!("'write.{name}.mode' = '{mode}'"));
        self.rows(&format!("ALTER TABLE ice.n.t SET TBLPROPERTIES ({})", modes.join(", "))).await;
    }
}
