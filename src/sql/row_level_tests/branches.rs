//! Branches, tags, and changes that are audited before they are published.

use super::{Rig, V3_MOR, kinds};
use crate::sql::IcebergSql;

#[tokio::test]
async fn branches_are_changed_apart() {
    for kind in kinds() {
        let rig = Rig::with_rows(kind, &[]).await;
        rig.rows("ALTER TABLE ice.n.t CREATE BRANCH audit").await;
        rig.rows("ALTER TABLE ice.n.t CREATE TAG `v-1`").await;
        let t = "ice.n.t.branch_audit";
        assert_eq!(rig.count(&format!("INSERT INTO {t} VALUES (7, 1, 'g', 7.0)")).await, 1);
        assert_eq!(rig.count(&format!("DELETE FROM {t} WHERE id = 1")).await, 1);
        assert_eq!(rig.count(&format!("UPDATE {t} SET x = 0.5 WHERE id < 4")).await, 2);
        let merge = "MERGE INTO ice.n.\"t$branch_audit\" AS b USING source s ON b.id = s.id WHEN MATCHED THEN UPDATE SET p = s.v \
                     WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)";
        assert_eq!(rig.count(merge).await, 2, "{kind:?}");
        assert_eq!(rig.count(&format!("DELETE FROM {t} WHERE p IS NULL AND id > 4")).await, 2, "{kind:?}");
        assert_eq!(rig.all().await.len(), 6, "{kind:?}");
        assert_eq!(rig.all().await[0], "1 1 a 1.0");
        let audited = rig.rows(&format!("SELECT id, p, s, x FROM {t} ORDER BY id")).await;
        assert_eq!(audited, ["1   ", "2 200 b 0.5", "3 2 c 0.5", "4 2  4.0", "7 1 g 7.0"], "{kind:?}");
        assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t.`tag_v-1`").await, ["6"]);
        rig.rows("ALTER TABLE ice.n.t CREATE BRANCH empty").await;
        assert_eq!(rig.count("TRUNCATE TABLE ice.n.t.branch_empty").await, 6);
        assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t.branch_empty").await, ["0"]);
        assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t VERSION AS OF 'audit'").await, ["5"]);
        // Others' changes of main are no conflict.
        let frame = rig.context.iceberg_sql(&format!("DELETE FROM {t} WHERE id = 4")).await.unwrap();
        rig.rows("DELETE FROM ice.n.t WHERE id < 6").await;
        frame.collect().await.unwrap();
        assert_eq!(rig.rows(&format!("SELECT count(*) FROM {t}")).await, ["4"]);
        for (sql, wanted) in [
            ("DELETE FROM ice.n.t.`tag_v-1` WHERE id = 1", "can only be read"),
            ("INSERT INTO ice.n.t.`tag_v-1` (id) VALUES (1)", "can only be read"),
            ("DELETE FROM ice.n.t.branch_nope", "nope"),
            ("INSERT INTO ice.n.t.branch_nope (id) VALUES (1)", "nope"),
        ] {
            let error = rig.batches(sql).await.unwrap_err().to_string();
            assert!(error.contains(wanted), "{sql}: {error}");
        }
    }
}

#[tokio::test]
async fn what_is_audited_is_published_later() {
    let rig = Rig::with_rows(V3_MOR, &[("write.wap.enabled", "true")]).await;
    rig.create("u", V3_MOR, &[]).await;
    rig.rows("SET spark.wap.branch = audit-branch").await;
    // It begins with the first change, at what is in main.
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t").await, ["6"]);
    assert_eq!(rig.count("INSERT INTO ice.n.t (id) VALUES (7)").await, 1);
    assert_eq!(rig.count("DELETE FROM ice.n.t WHERE id < 3").await, 2);
    assert_eq!(rig.count("UPDATE ice.n.t AS y SET p = 9 WHERE y.id = 7").await, 1);
    assert_eq!(rig.rows("SELECT count(*), max(t.p) FROM ice.n.t").await, ["5 9"]);
    // Tables without the property are not audited.
    assert_eq!(rig.count("INSERT INTO ice.n.u (id) VALUES (7)").await, 1);
    // In nested namespaces, and by other statements.
    rig.rows("CREATE SCHEMA ice.n.m").await;
    rig.rows("CREATE TABLE ice.n.m.t (id int) TBLPROPERTIES ('write.wap.enabled' = 'true')").await;
    rig.count("INSERT INTO ice.n.m.t VALUES (1), (2)").await;
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.m.t").await, ["2"]);
    rig.rows("RESET spark.wap.branch").await;
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.m.t").await, ["0"]);
    rig.count("INSERT INTO ice.n.m.t VALUES (3)").await;
    rig.rows("SET spark.wap.branch = Audit-Branch").await;
    assert_eq!(rig.count("TRUNCATE TABLE ice.n.m.t").await, 2);
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.m.t VERSION AS OF 'main'").await, ["1"]);
    rig.rows("SET datafusion.catalog.default_catalog = 'ice'").await;
    rig.rows("SET datafusion.catalog.default_schema = 'n'").await;
    let error = rig.fails("WITH t AS (SELECT * FROM t WHERE id = 7) SELECT * FROM t").await;
    assert!(error.to_string().contains("call one of them otherwise"), "{error}");
    let error = rig.fails("WITH u AS (SELECT * FROM u WHERE id = 7) DELETE FROM u").await;
    assert!(error.to_string().contains("call it otherwise"), "{error}");
    rig.rows("RESET spark.wap.branch").await;
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t").await, ["6"]);
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t VERSION AS OF 'audit-branch'").await, ["5"]);
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.u").await, ["1"]);
    rig.rows("CALL ice.system.fast_forward('n.t', 'main', 'audit-branch')").await;
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t").await, ["5"]);
    let error = rig.batches("SET spark.wap.id = x").await.unwrap_err().to_string();
    assert!(error.contains("spark.wap.branch"), "{error}");
}
