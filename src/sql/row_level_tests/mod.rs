//! DELETE, UPDATE and MERGE, on tables of every version and in both modes.

mod branches;
mod conflicts;
mod model;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::catalog::{Catalog, MemoryCatalog, Namespace, TableCreation, TableIdent};
use crate::error::{Error, ErrorKind};
use crate::provider::{IcebergCatalogProvider, IcebergTable};
use crate::spec::{
    FieldId, NestedField, PartitionField, PartitionSpec, PrimitiveType as P, Schema, SchemaId, SpecId,
    Transform,
};
use crate::sql::{IcebergSql, register};
use crate::table::Table;

/// A kind of table.
#[derive(Debug, Clone, Copy)]
struct Kind {
    version: u8,
    mode: &'static str,
    partitioned: bool,
}

fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for (version, mode) in [
        (1, "copy-on-write"),
        (2, "copy-on-write"),
        (2, "merge-on-read"),
        (3, "copy-on-write"),
        (3, "merge-on-read"),
    ] {
        kinds.extend([false, true].map(|partitioned| Kind { version, mode, partitioned }));
    }
    kinds
}

struct Rig {
    catalog: Arc<dyn Catalog>,
    context: SessionContext,
}

impl Rig {
    async fn new() -> Self {
        let catalog: Arc<dyn Catalog> = Arc::new(MemoryCatalog::new("ice").unwrap());
        catalog.create_namespace(&Namespace::new(["n"]).unwrap(), Default::default()).await.unwrap();
        let config = SessionConfig::new().with_target_partitions(3).with_batch_size(16);
        let context = SessionContext::new_with_config(config);
        context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::clone(&catalog))));
        register(&context).unwrap();
        Self { catalog, context }
    }

    /// A table `id long NOT NULL, p int, s string, x double`.
    async fn create(&self, name: &str, kind: Kind, properties: &[(&str, &str)]) {
        let fields = vec![
            NestedField::required(1, "id", P::Long),
            NestedField::optional(2, "p", P::Int),
            NestedField::optional(3, "s", P::String),
            NestedField::optional(4, "x", P::Double),
        ];
        let mut creation = TableCreation::new(Schema::new(SchemaId(0), fields, Vec::new()).unwrap());
        creation.properties.insert("format-version".to_owned(), kind.version.to_string());
        for operation in ["delete", "update", "merge"] {
            creation.properties.insert(format!("write.{operation}.mode"), kind.mode.to_owned());
        }
        for (name, value) in properties {
            creation.properties.insert((*name).to_owned(), (*value).to_owned());
        }
        if kind.partitioned {
            let field = PartitionField {
                source_ids: vec![FieldId(2)],
                field_id: FieldId(1000),
                name: "p".to_owned(),
                transform: Transform::Identity,
                extra: Default::default(),
            };
            creation.partition_spec = Some(PartitionSpec { spec_id: SpecId(0), fields: vec![field] });
        }
        self.catalog.create_table(&ident(name), creation).await.unwrap();
    }

    async fn load(&self, name: &str) -> Table {
        self.catalog.load_table(&ident(name)).await.unwrap()
    }

    async fn batches(&self, sql: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
        self.context.iceberg_sql(sql).await?.collect().await
    }

    async fn rows(&self, sql: &str) -> Vec<String> {
        let batches = self.batches(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let row = |batch: &RecordBatch, row: usize| {
            let cells = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            cells.collect::<Vec<_>>().join(" ")
        };
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |i| row(batch, i))).collect()
    }

    /// How many rows a statement changed.
    async fn count(&self, sql: &str) -> usize {
        self.rows(sql).await.join(",").parse().unwrap()
    }

    async fn fails(&self, sql: &str) -> Error {
        let error = self.batches(sql).await.unwrap_err();
        Error::find_in(&error).unwrap_or_else(|| panic!("{error}")).duplicate()
    }
}

fn ident(name: &str) -> TableIdent {
    TableIdent::new(Namespace::new(["n"]).unwrap(), name).unwrap()
}

const ROWS: &str = "(1, 1, 'a', 1.0), (2, 1, 'b', NULL), (3, 2, 'c', 3.0), (4, 2, NULL, 4.0), \
                    (5, NULL, 'e', 5.0), (6, NULL, NULL, NULL)";

#[tokio::test]
async fn rows_are_deleted_updated_and_merged() {
    let rig = Rig::new().await;
    for (i, kind) in kinds().into_iter().enumerate() {
        rig.create(&format!("t{i}"), kind, &[]).await;
        let t = format!("ice.n.t{i}");
        let all = format!("SELECT id, p, s, x FROM {t} ORDER BY id");
        assert_eq!(rig.count(&format!("INSERT INTO {t} VALUES {ROWS}")).await, 6);
        assert_eq!(rig.count(&format!("DELETE FROM {t} WHERE x > 3")).await, 2, "{kind:?}");
        assert_eq!(rig.rows(&all).await, ["1 1 a 1.0", "2 1 b ", "3 2 c 3.0", "6   "], "{kind:?}");
        assert_eq!(rig.count(&format!("UPDATE {t} SET s = 'z', p = p + 1 WHERE id < 3")).await, 2);
        assert_eq!(rig.rows(&all).await, ["1 2 z 1.0", "2 2 z ", "3 2 c 3.0", "6   "], "{kind:?}");
        let merge = format!(
            "MERGE INTO {t} AS t USING (VALUES (2, 'm'), (3, 'n'), (7, 'o'), (8, 'q')) AS v (id, s) ON t.id = v.id \
             WHEN MATCHED AND v.s = 'n' THEN DELETE WHEN MATCHED THEN UPDATE SET s = v.s, x = 9 \
             WHEN NOT MATCHED AND v.id < 8 THEN INSERT (id, s) VALUES (v.id, v.s) \
             WHEN NOT MATCHED BY SOURCE AND t.id = 6 THEN UPDATE SET p = 60"
        );
        assert_eq!(rig.count(&merge).await, 4, "{kind:?}");
        assert_eq!(rig.rows(&all).await, ["1 2 z 1.0", "2 2 m 9.0", "6 60  ", "7  o "], "{kind:?}");
    }
}

const V3_MOR: Kind = Kind { version: 3, mode: "merge-on-read", partitioned: false };
const V2_MOR: Kind = Kind { version: 2, mode: "merge-on-read", partitioned: true };
const V3_COW: Kind = Kind { version: 3, mode: "copy-on-write", partitioned: true };

impl Rig {
    /// With a table `ice.n.t` of the usual rows, and a source.
    async fn with_rows(kind: Kind, properties: &[(&str, &str)]) -> Self {
        let rig = Self::new().await;
        rig.create("t", kind, properties).await;
        rig.count(&format!("INSERT INTO ice.n.t VALUES {ROWS}")).await;
        rig.rows(
            "CREATE TABLE source AS SELECT column1 AS id, column2 AS v FROM (VALUES (1, 100), (2, 200))",
        )
        .await;
        rig.rows(
            "CREATE TABLE whole AS SELECT column1 AS x, column2 AS s, column3 AS p, column4 AS id \
             FROM (VALUES (1.5, 'q', 7, 1), (2.5, 'r', 8, 20))",
        )
        .await;
        rig
    }

    async fn all(&self) -> Vec<String> {
        self.rows("SELECT id, p, s, x FROM ice.n.t ORDER BY id").await
    }

    /// The files that lie in the table's directory.
    async fn stored(&self) -> BTreeSet<String> {
        use futures::TryStreamExt;
        let table = self.load("t").await;
        let directory = table.resolve(&format!("{}/data", table.metadata().location)).unwrap();
        let listed: Vec<_> = table.storage().list_files(&directory).unwrap().try_collect().await.unwrap();
        listed.into_iter().map(|(location, _)| location.to_string()).collect()
    }

    async fn snapshots(&self) -> usize {
        self.load("t").await.metadata().snapshots.len()
    }
}

#[tokio::test]
async fn statements_in_the_words_of_other_engines() {
    for (sql, count, rows) in [
        ("DELETE FROM ice.n.t AS y WHERE y.id < 6", 5, "6   "),
        (
            "DELETE FROM ice.n.t y WHERE EXISTS (SELECT 1 FROM source WHERE source.id = y.id) OR y.id > 3",
            5,
            "3 2 c 3.0",
        ),
        ("DELETE FROM ice.n.t USING source WHERE t.id = source.id OR t.id IN (3, 4, 5)", 5, "6   "),
        ("WITH c AS (SELECT 6 AS id) DELETE FROM ice.n.t WHERE id NOT IN (SELECT id FROM c)", 5, "6   "),
        ("DELETE FROM ice.n.t WHERE _pos >= 0 AND id <> 2", 5, "2 1 b "),
        ("TRUNCATE TABLE ice.n.t", 6, ""),
        ("DELETE FROM ice.n.t", 6, ""),
        ("UPDATE ice.n.t AS y SET y.p = y.p + 9, S = 'n' WHERE y.id = 1", 1, "1 10 n 1.0"),
        ("UPDATE ice.n.t SET t.p = DEFAULT, x = (SELECT max(id) FROM ice.n.t) WHERE id = 1", 1, "1  a 6.0"),
        (
            "UPDATE ice.n.t SET p = source.v FROM source WHERE t.id = source.id AND source.v < 150",
            1,
            "1 100 a 1.0",
        ),
        ("UPDATE ice.n.t y SET p = s.v FROM source AS s WHERE y.id = s.id AND y.x = 1", 1, "1 100 a 1.0"),
        ("UPDATE ice.n.t SET p = 3 WHERE _file LIKE '%.parquet' AND id = 1", 1, "1 3 a 1.0"),
        ("WITH c AS (SELECT 1 AS id) UPDATE ice.n.t SET x = NULL FROM c WHERE c.id = t.id", 1, "1 1 a "),
        (
            "MERGE INTO ice.n.t t USING whole w ON t.id = w.id WHEN MATCHED THEN UPDATE SET * \
             WHEN NOT MATCHED THEN INSERT *",
            2,
            "1 7 q 1.5|20 8 r 2.5",
        ),
        (
            "merge into ice.n.t using whole on t.id = whole.id when not matched then insert *;",
            1,
            "20 8 r 2.5",
        ),
        (
            "MERGE INTO ice.n.t AS t USING (VALUES (1, 5) AS s(id, v)) ON t.id = s.id \
             WHEN MATCHED THEN UPDATE SET t.p = s.v",
            1,
            "1 5 a 1.0",
        ),
        (
            "WITH c AS (SELECT 1 AS id) MERGE INTO ice.n.t USING c ON t.id = c.id WHEN MATCHED THEN UPDATE SET P = 1, x = 3",
            1,
            "1 1 a 3.0",
        ),
        (
            "MERGE INTO ice.n.t USING source s ON t.id = s.id WHEN MATCHED AND s.v > (SELECT avg(v) FROM source) THEN DELETE",
            1,
            "",
        ),
        // A row that two match is removed once.
        ("MERGE INTO ice.n.t USING (VALUES (1), (1)) s(id) ON t.id = s.id WHEN MATCHED THEN DELETE", 1, ""),
        ("MERGE INTO ice.n.t USING source ON false WHEN NOT MATCHED BY SOURCE AND p = 2 THEN DELETE", 2, ""),
    ] {
        for kind in [V3_MOR, V3_COW, V2_MOR] {
            let rig = Rig::with_rows(kind, &[]).await;
            assert_eq!(rig.count(sql).await, count, "{sql} of {kind:?}");
            let now = rig.all().await;
            let wanted: Vec<&str> = rows.split('|').filter(|row| !row.is_empty()).collect();
            assert!(wanted.iter().all(|row| now.iter().any(|now| now == row)), "{sql} of {kind:?}: {now:?}");
            if sql.contains("DELETE") || sql.contains("TRUNCATE") {
                assert_eq!(now.len(), 6 - count, "{sql} of {kind:?}: {now:?}");
            }
        }
    }
}

#[tokio::test]
async fn statements_that_can_not_be_leave_nothing() {
    for (sql, wanted) in [
        ("UPDATE ice.n.t SET p = 1, P = 2", "sets column `p` twice"),
        ("UPDATE ice.n.t SET q = 4", "column `q`; the table has id, p, s, x"),
        ("UPDATE ice.n.t SET (p, x) = (1, 2)", "set each of them"),
        ("UPDATE ice.n.t SET s.a = 1", "set the whole column"),
        (
            "UPDATE ice.n.t SET id = NULL WHERE id > 3",
            "column `id`: invalid data: a required column has nulls",
        ),
        ("UPDATE ice.n.t SET p = max(p)", "GROUP BY"),
        ("UPDATE ice.n.t SET _pos = 1", "column `_pos`"),
        ("UPDATE ice.n.t SET p = 'y'", "Cannot cast string 'y'"),
        ("UPDATE ice.n.t SET p = id * 3000000000", "Can't cast value"),
        (
            "UPDATE ice.n.t SET p = s.v FROM (VALUES (1, 5), (1, 6)) s(id, v) WHERE t.id = s.id",
            "several rows of the source",
        ),
        ("DELETE FROM ice.n.t VERSION AS OF 'main' WHERE id = 1", "only the current state"),
        (
            "MERGE INTO ice.n.t USING source s ON t.id IN (SELECT 1) WHEN MATCHED THEN DELETE",
            "subquery in MERGE's ON",
        ),
        (
            "MERGE INTO ice.n.t USING source s ON t.id = s.id WHEN MATCHED AND s.v IN (SELECT 1) THEN DELETE",
            "make it a column of the source",
        ),
        (
            "MERGE INTO ice.n.t USING (VALUES (1, 5), (1, 6)) s(id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = v",
            "MERGE changes a row of the table several times",
        ),
        (
            "MERGE INTO ice.n.t USING (VALUES (1, 5), (1, 6)) s(id, v) ON t.id = s.id \
             WHEN MATCHED AND v = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET p = v",
            "MERGE changes a row of the table several times",
        ),
        (
            "MERGE INTO ice.n.t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            "column `p` of MERGE's source",
        ),
        (
            "MERGE INTO ice.n.t USING source s ON t.id = s.v WHEN NOT MATCHED THEN INSERT (p) VALUES (s.v)",
            "`id`",
        ),
        ("DELETE FROM ice.n.t WHERE nope = 1", "No field named nope"),
        ("DELETE FROM ice.n.t WHERE id = 9 OR p NOT IN (SELECT v FROM source)", "write NOT EXISTS"),
        ("DELETE FROM ice.n.t WHERE id = 9 OR NOT (p IN (SELECT v FROM source))", "write NOT EXISTS"),
        ("UPDATE ice.n.t SET p = 1 WHERE (p IN (SELECT v FROM source)) IS NULL", "write NOT EXISTS"),
        (
            "MERGE INTO ice.n.t USING source ON t.id = source.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET p = 1",
            "it never applies",
        ),
        ("UPDATE ice.n.t RIGHT JOIN source ON t.id = source.id SET p = source.v", "UPDATE of a join"),
        ("DELETE FROM ice.n.t PARTITION (p0)", "PARTITION, TABLESAMPLE"),
        ("DELETE FROM ice.n.t TABLESAMPLE (10 PERCENT)", "PARTITION, TABLESAMPLE"),
        (
            "MERGE INTO ice.n.t USING source ON t.id = source.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET p = v",
            "there is no row of the source",
        ),
        (
            "MERGE INTO ice.n.t USING source ON t.id = source.id WHEN MATCHED THEN DELETE \
             WHEN NOT MATCHED THEN INSERT (id, p) VALUES (source.id, p)",
            "there is no row of the table",
        ),
        (
            "MERGE INTO ice.n.t USING whole ON t.id = whole.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
            "there is no row of the source",
        ),
        (
            "MERGE INTO source USING whole ON source.id = whole.id WHEN MATCHED THEN UPDATE SET *",
            "not Iceberg's",
        ),
    ] {
        for kind in [V3_MOR, V3_COW, V2_MOR] {
            let rig = Rig::with_rows(kind, &[]).await;
            let (before, stored, snapshots) = (rig.all().await, rig.stored().await, rig.snapshots().await);
            let error = rig.batches(sql).await.unwrap_err().to_string();
            assert!(error.contains(wanted), "{sql}: {error}");
            assert_eq!(rig.all().await, before, "{sql}");
            assert_eq!(rig.stored().await, stored, "{sql}");
            assert_eq!(rig.snapshots().await, snapshots, "{sql}");
        }
    }
}

#[tokio::test]
async fn what_changes_nothing_commits_nothing() {
    for kind in kinds() {
        let rig = Rig::with_rows(kind, &[]).await;
        for sql in [
            "DELETE FROM ice.n.t WHERE id > 99",
            "DELETE FROM ice.n.t WHERE false",
            "UPDATE ice.n.t SET p = 1 WHERE s = 'nobody'",
            "MERGE INTO ice.n.t USING source s ON t.id = s.v WHEN MATCHED THEN DELETE",
        ] {
            assert_eq!(rig.count(sql).await, 0, "{sql} of {kind:?}");
            for explain in ["EXPLAIN", "EXPLAIN VERBOSE"] {
                rig.rows(&format!("{explain} {}", sql.replace("99", "1"))).await;
            }
        }
        assert_eq!(rig.snapshots().await, 1, "{kind:?}");
    }
}

#[tokio::test]
async fn prepared_statements_would_see_old_rows() {
    let rig = Rig::with_rows(V3_MOR, &[]).await;
    for sql in [
        "PREPARE d AS DELETE FROM ice.n.t WHERE id = $1",
        "PREPARE e AS DELETE FROM ice.n.t WHERE false",
        "PREPARE u AS UPDATE ice.n.t SET p = $1 WHERE id = 3",
        "PREPARE m AS MERGE INTO ice.n.t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = s.v",
        "PREPARE n AS MERGE INTO ice.n.t USING (VALUES (1)) s(id) ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "PREPARE v AS TRUNCATE TABLE ice.n.t",
    ] {
        let error = rig.fails(sql).await;
        assert!(error.to_string().contains("run the statement itself"), "{sql}: {error}");
        let error = rig.context.sql(sql).await.unwrap_err();
        assert!(error.to_string().contains("run the statement itself"), "{sql}: {error}");
    }
    rig.rows("PREPARE i AS INSERT INTO ice.n.t (id) VALUES ($1)").await;
    assert_eq!(rig.count("EXECUTE i(9)").await, 1);
}

#[tokio::test]
async fn sessions_that_know_nothing_of_it_change_nothing() {
    let rig = Rig::with_rows(V3_MOR, &[]).await;
    let plain = SessionContext::new();
    plain.register_catalog("ice", rig.context.catalog("ice").unwrap());
    for sql in ["DELETE FROM ice.n.t WHERE id = 1", "UPDATE ice.n.t SET p = 1", "DELETE FROM ice.n.t"] {
        let error = plain.sql(sql).await.unwrap().collect().await.unwrap_err();
        assert_eq!(Error::find_in(&error).unwrap().kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("icefloe::sql::register"), "{error}");
    }
    assert_eq!(rig.snapshots().await, 1);
    // One that was told does, and so do statements that are run our way.
    let count = rig.context.sql("DELETE FROM ice.n.t WHERE id = 1").await.unwrap().collect().await.unwrap();
    assert_eq!(count[0].num_rows(), 1);
    plain.iceberg_sql("DELETE FROM ice.n.t WHERE id = 2").await.unwrap().collect().await.unwrap();
    assert_eq!(rig.all().await.len(), 4);
}

#[tokio::test]
async fn tables_that_can_not_be_changed_say_so() {
    let rig = Rig::with_rows(V3_MOR, &[]).await;
    // By its location.
    let location = rig.load("t").await;
    let table = IcebergTable::try_new(location).unwrap();
    rig.context.register_table("here", Arc::new(table)).unwrap();
    for sql in [
        "DELETE FROM here WHERE id = 1",
        "UPDATE here SET p = 1",
        "MERGE INTO here USING source s ON here.id = s.id WHEN MATCHED THEN DELETE",
    ] {
        let error = rig.fails(sql).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("write to the table of a catalog"), "{error}");
    }
    // Version 1 has no deletes.
    rig.create("one", Kind { version: 1, mode: "merge-on-read", partitioned: false }, &[]).await;
    rig.count(&format!("INSERT INTO ice.n.one VALUES {ROWS}")).await;
    let error = rig.fails("DELETE FROM ice.n.one WHERE id = 1").await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("write.delete.mode"), "{error}");
    // Whole files need none.
    assert_eq!(rig.count("DELETE FROM ice.n.one WHERE id > 0").await, 6);
    // A column that hides what is needed.
    let fields = vec![NestedField::required(1, "_pos", P::Long)];
    let creation = TableCreation::new(Schema::new(SchemaId(0), fields, Vec::new()).unwrap());
    rig.catalog.create_table(&ident("own"), creation).await.unwrap();
    let error = rig.fails("DELETE FROM ice.n.own WHERE _pos = 1").await;
    assert!(error.to_string().contains("rename it"), "{error}");
}

#[tokio::test]
async fn whole_files_go_without_being_read() {
    for (sql, count, reads) in [
        ("DELETE FROM ice.n.t WHERE p = 1", 2, false),
        ("DELETE FROM ice.n.t WHERE p IS NULL", 2, false),
        ("DELETE FROM ice.n.t WHERE p = 1 OR p = 2", 4, false),
        ("DELETE FROM ice.n.t WHERE p = 1 AND id >= 1", 2, false),
        ("DELETE FROM ice.n.t WHERE p = 1 AND id > 1", 1, true),
        ("DELETE FROM ice.n.t WHERE p = 1 AND id IN (SELECT id FROM source)", 2, true),
        ("DELETE FROM ice.n.t WHERE p = 1 AND random() < 2", 2, true),
    ] {
        for kind in kinds().into_iter().filter(|kind| kind.partitioned) {
            let rig = Rig::with_rows(kind, &[]).await;
            let plan = rig.rows(&format!("EXPLAIN {sql}")).await.join("\n");
            assert_eq!(plan.contains("IcebergChangeExec"), reads, "{sql} of {kind:?}: {plan}");
            let stored = rig.stored().await;
            assert_eq!(rig.count(sql).await, count, "{sql} of {kind:?}");
            assert_eq!(rig.all().await.len(), 6 - count, "{sql} of {kind:?}");
            if !reads {
                assert_eq!(rig.stored().await, stored, "{sql} of {kind:?}");
            }
            let operation = "SELECT operation FROM ice.n.t$snapshots ORDER BY committed_at DESC LIMIT 1";
            let expected = if reads && kind.mode == "copy-on-write" && sql.contains("id > 1") {
                "overwrite"
            } else {
                "delete"
            };
            assert_eq!(rig.rows(operation).await, [expected], "{sql} of {kind:?}");
        }
    }
    // Merge-on-read sees that nothing is left of a file, and needs no delete file.
    let rig = Rig::with_rows(V3_MOR, &[]).await;
    assert_eq!(rig.count("DELETE FROM ice.n.t WHERE id % 2 = 0").await, 3);
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t$delete_files").await, ["1"]);
    assert_eq!(rig.count("DELETE FROM ice.n.t WHERE id % 2 = 1").await, 3);
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t$files").await, ["0"]);
}

#[tokio::test]
async fn a_row_that_two_sources_change_differently_may_be_changed_once() {
    for kind in [V3_MOR, V3_COW, V2_MOR] {
        let rig = Rig::with_rows(kind, &[]).await;
        let sql = "MERGE INTO ice.n.t USING (VALUES (1, 5), (1, 6)) s(id, v) ON t.id = s.id \
                   WHEN MATCHED AND v = 5 THEN UPDATE SET p = v";
        assert_eq!(rig.count(sql).await, 1);
        assert_eq!(rig.all().await[0], "1 5 a 1.0");
    }
}

/// Nothing says that a vector of another writer has only positions that its file has.
#[tokio::test]
async fn positions_beyond_a_file_delete_no_others() {
    use crate::transaction::RowDelta;
    use crate::write::{DeletionVectorWriter, WriteOptions};
    let rig = Rig::with_rows(V3_MOR, &[]).await;
    let table = rig.load("t").await;
    let files = IcebergTable::try_new(table.clone()).unwrap().data_files(&[]).await.unwrap();
    let mut writer = DeletionVectorWriter::new(&table, &WriteOptions::default()).unwrap();
    writer.delete(&files[0].data_file, [0].into_iter().chain(100..110)).unwrap();
    let delta = RowDelta::new().add_deletes(writer.close().await.unwrap());
    table.transaction().apply(delta).commit(rig.catalog.as_ref()).await.unwrap();
    assert_eq!(rig.all().await.len(), 5);
    assert_eq!(rig.count("DELETE FROM ice.n.t WHERE id = 2").await, 1);
    assert_eq!(rig.all().await.len(), 4);
}
