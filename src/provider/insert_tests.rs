//! INSERT by SQL and by DataFrames, into tables of a catalog in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;

use super::{IcebergCatalogProvider, IcebergTable};
use crate::catalog::{Catalog, MemoryCatalog, Namespace, TableCreation, TableIdent};
use crate::error::{Error, ErrorKind};
use crate::spec::{
    ContentFile, FieldId, NestedField, NullOrder, PartitionField, PartitionSpec, PrimitiveType as P, Schema,
    SchemaId, SnapshotSelector, SortDirection, SortField, SortOrder, SortOrderId, SpecId, Transform, Value,
};
use crate::table::Table;
use crate::transaction::{UpdateProperties, UpdateSchema, UpdateSpec};

/// A session with the catalog `ice`, in it the namespace `n`.
struct Rig {
    catalog: Arc<dyn Catalog>,
    context: SessionContext,
}

impl Rig {
    async fn new() -> Self {
        let catalog: Arc<dyn Catalog> = Arc::new(MemoryCatalog::new("ice").unwrap());
        catalog.create_namespace(&Namespace::new(["n"]).unwrap(), Default::default()).await.unwrap();
        let config = SessionConfig::new().with_target_partitions(3);
        let context = SessionContext::new_with_config(config);
        let provider = IcebergCatalogProvider::new(Arc::clone(&catalog));
        context.register_catalog("ice", Arc::new(provider));
        Self { catalog, context }
    }

    /// A table `id long NOT NULL, s string, day date`.
    async fn create(&self, name: &str, change: impl FnOnce(&mut TableCreation)) {
        let fields = vec![
            NestedField::required(1, "id", P::Long),
            NestedField::optional(2, "s", P::String),
            NestedField::optional(3, "day", P::Date),
        ];
        let mut creation = TableCreation::new(Schema::new(SchemaId(0), fields, Vec::new()).unwrap());
        change(&mut creation);
        self.catalog.create_table(&ident(name), creation).await.unwrap();
    }

    async fn load(&self, name: &str) -> Table {
        self.catalog.load_table(&ident(name)).await.unwrap()
    }

    /// The rows as text.
    async fn rows(&self, sql: &str) -> Result<Vec<String>, DataFusionError> {
        let batches = self.context.sql(sql).await?.collect().await?;
        let row = |batch: &arrow::array::RecordBatch, row: usize| {
            let cells = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            cells.collect::<Vec<_>>().join(" ")
        };
        let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |i| row(batch, i)));
        Ok(rows.collect())
    }

    async fn fails(&self, sql: &str) -> Error {
        let error = self.rows(sql).await.unwrap_err();
        Error::find_in(&error).unwrap_or_else(|| panic!("{error}")).duplicate()
    }

    /// The data files that are in the table.
    async fn files(&self, name: &str) -> Vec<ContentFile> {
        let table = IcebergTable::try_new(self.load(name).await).unwrap();
        let tasks = table.data_files(&[]).await.unwrap();
        tasks.iter().map(|task| task.data_file.as_ref().clone()).collect()
    }

    /// The data files that lie in the table's directory.
    async fn stored(&self, name: &str) -> BTreeSet<String> {
        let table = self.load(name).await;
        let directory = table.resolve(&format!("{}/data", table.metadata().location)).unwrap();
        let listed: Vec<_> = table.storage().list_files(&directory).unwrap().try_collect().await.unwrap();
        listed.into_iter().map(|(location, _)| location.to_string()).collect()
    }
}

fn ident(name: &str) -> TableIdent {
    TableIdent::new(Namespace::new(["n"]).unwrap(), name).unwrap()
}

fn partitioned(fields: &[(i32, Transform)]) -> PartitionSpec {
    let fields = fields.iter().enumerate().map(|(i, (source, transform))| PartitionField {
        source_ids: vec![FieldId(*source)],
        field_id: FieldId(1000 + i as i32),
        name: format!("p{i}"),
        transform: transform.clone(),
        extra: Default::default(),
    });
    PartitionSpec { spec_id: SpecId(0), fields: fields.collect() }
}

fn sorted(source: i32, direction: SortDirection) -> SortOrder {
    let field = SortField {
        source_ids: vec![FieldId(source)],
        transform: Transform::Identity,
        direction,
        null_order: NullOrder::Last,
        extra: Default::default(),
    };
    SortOrder { order_id: SortOrderId(1), fields: vec![field] }
}

#[tokio::test]
async fn rows_are_added() {
    let rig = Rig::new().await;
    rig.create("t", |_| {}).await;
    let sql = "INSERT INTO ice.n.t VALUES (1, 'a', '2024-01-01'), (2, NULL, NULL)";
    assert_eq!(rig.rows(sql).await.unwrap(), ["2"]);
    // Names in another order, and some left out.
    assert_eq!(rig.rows("INSERT INTO ice.n.t (s, id) VALUES ('c', 3)").await.unwrap(), ["1"]);
    assert_eq!(rig.rows("INSERT INTO ice.n.t SELECT id + 10, s, day FROM ice.n.t").await.unwrap(), ["3"]);
    let all = ["1 a 2024-01-01", "2  ", "3 c ", "11 a 2024-01-01", "12  ", "13 c "];
    assert_eq!(rig.rows("SELECT * FROM ice.n.t ORDER BY id").await.unwrap(), all);
    let table = rig.load("t").await;
    let snapshots = &table.metadata().snapshots;
    assert_eq!(snapshots.iter().map(|s| s.operation()).collect::<Vec<_>>(), [Some("append"); 3]);
    assert_eq!(snapshots[2].summary["total-records"], "6");
    // No rows are no change.
    assert_eq!(rig.rows("INSERT INTO ice.n.t SELECT * FROM ice.n.t WHERE id > 99").await.unwrap(), ["0"]);
    assert_eq!(rig.load("t").await.metadata().snapshots.len(), 3);
}

#[tokio::test]
async fn rows_are_replaced() {
    let rig = Rig::new().await;
    rig.create("t", |t| t.partition_spec = Some(partitioned(&[(2, Transform::Identity)]))).await;
    rig.rows("INSERT INTO ice.n.t VALUES (1, 'a', NULL), (2, 'b', NULL)").await.unwrap();
    let sql = "INSERT OVERWRITE ice.n.t SELECT id * 2, 'c', day FROM ice.n.t";
    assert_eq!(rig.rows(sql).await.unwrap(), ["2"]);
    assert_eq!(rig.rows("SELECT id, s FROM ice.n.t ORDER BY id").await.unwrap(), ["2 c", "4 c"]);
    assert_eq!(rig.load("t").await.metadata().current_snapshot().unwrap().operation(), Some("overwrite"));
    // Not if others added rows meanwhile, which the query has not seen.
    let plan = rig.context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    rig.rows("INSERT INTO ice.n.t VALUES (9, 'i', NULL)").await.unwrap();
    let error = datafusion::physical_plan::collect(plan, rig.context.task_ctx()).await.unwrap_err();
    assert_eq!(Error::find_in(&error).unwrap().kind(), ErrorKind::ValidationFailed, "{error}");
    assert_eq!(rig.rows("SELECT id FROM ice.n.t ORDER BY id").await.unwrap(), ["2", "4", "9"]);
    // By nothing at all.
    assert_eq!(rig.rows("INSERT OVERWRITE ice.n.t SELECT * FROM ice.n.t WHERE false").await.unwrap(), ["0"]);
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t").await.unwrap(), ["0"]);
    assert_eq!(rig.load("t").await.metadata().current_snapshot().unwrap().operation(), Some("delete"));
}

#[tokio::test]
async fn a_partition_has_one_writer() {
    let rig = Rig::new().await;
    let spec =
        || partitioned(&[(1, Transform::Bucket(4)), (3, Transform::Month), (2, Transform::Truncate(1))]);
    rig.create("t", |t| t.partition_spec = Some(spec())).await;
    let source = "SELECT v AS id, concat(chr(CAST(97 + v % 3 AS BIGINT)), v) AS s, \
                  DATE '2024-01-20' + CAST(v % 2 * 20 AS INT) AS day FROM generate_series(1, 20000) AS g(v)";
    rig.context.sql(source).await.unwrap().create_physical_plan().await.unwrap();
    assert_eq!(rig.rows(&format!("INSERT INTO ice.n.t {source}")).await.unwrap(), ["20000"]);
    let files = rig.files("t").await;
    let partitions: BTreeSet<String> = files.iter().map(|file| format!("{:?}", file.partition)).collect();
    assert_eq!((files.len(), partitions.len()), (24, 24));
    let wrong = format!("SELECT * FROM ({source}) EXCEPT SELECT * FROM ice.n.t");
    assert!(rig.rows(&wrong).await.unwrap().is_empty());
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t").await.unwrap(), ["20000"]);

    // Unless it is not asked for: then each writer has files of its own.
    rig.create("u", |t| {
        t.partition_spec = Some(spec());
        t.properties.insert("write.distribution-mode".to_owned(), "none".to_owned());
    })
    .await;
    rig.rows(&format!("INSERT INTO ice.n.u {source}")).await.unwrap();
    assert!(rig.files("u").await.len() > 24);
    assert_eq!(rig.rows("SELECT count(DISTINCT id) FROM ice.n.u").await.unwrap(), ["20000"]);
}

#[tokio::test]
async fn many_partitions_have_one_file_each() {
    for (fanout, mode) in [("false", "hash"), ("false", "none"), ("true", "hash")] {
        let rig = Rig::new().await;
        rig.create("t", |t| {
            t.partition_spec = Some(partitioned(&[(2, Transform::Identity)]));
            t.properties.insert("write.spark.fanout.enabled".to_owned(), fanout.to_owned());
            t.properties.insert("write.distribution-mode".to_owned(), mode.to_owned());
        })
        .await;
        let source =
            "SELECT v AS id, concat('s', v % 300) AS s, NULL AS day FROM generate_series(1, 30000) AS g(v)";
        rig.rows(&format!("INSERT INTO ice.n.t {source}")).await.unwrap();
        let files = rig.files("t").await.len();
        match (fanout, mode) {
            ("false", "hash") => assert_eq!(files, 300),
            // Each of three writers has all partitions.
            ("false", "none") => assert!(files <= 900, "{files}"),
            // As the rows come, with a bounded number of open files.
            _ => assert!(files >= 300, "{files}"),
        }
        assert_eq!(
            rig.rows("SELECT count(*), count(DISTINCT id) FROM ice.n.t").await.unwrap(),
            ["30000 30000"]
        );
    }
}

#[tokio::test]
async fn what_the_optimizer_made_wider_is_cast_back() {
    let rig = Rig::new().await;
    rig.create("t", |_| {}).await;
    let narrow = UpdateSchema::new().add_column("n", P::Int).add_column("f", P::Float);
    rig.load("t").await.transaction().apply(narrow).commit(rig.catalog.as_ref()).await.unwrap();
    let insert = |n: &str| {
        format!(
            "INSERT INTO ice.n.t (id, n, f) SELECT v, CASE WHEN v > 1 THEN CAST(1 AS INT) ELSE {n} END, 1.5 \
             FROM generate_series(1, 2) AS g(v) UNION ALL SELECT 3, 2, 2.5"
        )
    };
    assert_eq!(rig.rows(&insert("v")).await.unwrap(), ["3"]);
    let rows = rig.rows("SELECT id, n, f FROM ice.n.t ORDER BY id").await.unwrap();
    assert_eq!(rows, ["1 1 1.5", "2 1 1.5", "3 2 2.5"]);
    // What does not fit is an error, not another number.
    assert!(rig.rows(&insert("v + 3000000000")).await.is_err());
    assert_eq!(rig.rows("SELECT count(*) FROM ice.n.t").await.unwrap(), ["3"]);
}

#[tokio::test]
async fn files_are_sorted_as_the_table_says() {
    for (partitions, mode) in [(vec![], "hash"), (vec![(1, Transform::Bucket(2))], "range")] {
        let rig = Rig::new().await;
        rig.create("t", |t| {
            t.partition_spec = Some(partitioned(&partitions));
            t.sort_order = Some(sorted(1, SortDirection::Descending));
            t.properties.insert("write.distribution-mode".to_owned(), mode.to_owned());
        })
        .await;
        let sql = "INSERT INTO ice.n.t SELECT v * 7919 % 10007, NULL AS s, NULL AS day FROM generate_series(1, 10000) AS g(v)";
        let plan = rig.rows(&format!("EXPLAIN {sql}")).await.unwrap().join("\n");
        assert!(plan.contains("SortExec") && plan.contains("IcebergCommitExec"), "{plan}");
        assert!(rig.load("t").await.metadata().snapshots.is_empty(), "EXPLAIN writes nothing");
        assert_eq!(rig.rows(sql).await.unwrap(), ["10000"]);
        let files = rig.files("t").await;
        assert!(files.iter().all(|file| file.sort_order_id == Some(SortOrderId(1))));
        for file in files {
            let sql = format!("SELECT id FROM ice.n.t WHERE _file = '{}' ORDER BY _pos", file.file_path);
            let frame = crate::sql::IcebergSql::iceberg_sql(&rig.context, &sql);
            crate::sql::register(&rig.context).unwrap();
            let batches = frame.await.unwrap().collect().await.unwrap();
            let ids: Vec<i64> = batches
                .iter()
                .flat_map(|batch| {
                    arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.column(0))
                        .values()
                })
                .copied()
                .collect();
            assert_eq!(ids.len() as i64, file.record_count);
            assert!(ids.is_sorted_by(|a, b| a >= b));
        }
    }
}

/// The sides of a join have columns of the table's names, which are other ones: the optimizer must not sort
/// by those.
#[tokio::test]
async fn rows_of_joins_are_sorted_by_their_own_columns() {
    let rig = Rig::new().await;
    rig.create("t", |t| {
        t.partition_spec = Some(partitioned(&[(2, Transform::Truncate(1))]));
        t.sort_order = Some(SortOrder {
            order_id: SortOrderId(1),
            fields: vec![SortField {
                transform: Transform::Truncate(10),
                ..sorted(1, SortDirection::Ascending).fields[0].clone()
            }],
        });
    })
    .await;
    let source = |name: &str, id: &str| {
        format!(
            "CREATE TABLE {name} AS SELECT {id} AS id, concat(chr(CAST(97 + v % 5 AS BIGINT)), v) AS s, \
                 CAST(NULL AS DATE) AS day, v AS k FROM generate_series(1, 3000) AS g(v)"
        )
    };
    rig.rows(&source("a", "v * 7919 % 3001")).await.unwrap();
    rig.rows(&source("b", "3000 - v")).await.unwrap();
    for join in
        ["a JOIN b USING (k)", "a LEFT JOIN b USING (k)", "b RIGHT JOIN a USING (k)", "b JOIN a USING (k)"]
    {
        for columns in ["a.id, a.s, a.day", "b.id, a.s, b.day", "a.id, b.s, a.day"] {
            rig.rows(&format!("INSERT OVERWRITE ice.n.t SELECT {columns} FROM {join}")).await.unwrap();
            let files = rig.files("t").await;
            assert_eq!(files.len(), 5, "{columns} FROM {join}");
            crate::sql::register(&rig.context).unwrap();
            for file in files {
                let sql = format!("SELECT id FROM ice.n.t WHERE _file = '{}' ORDER BY _pos", file.file_path);
                let frame = crate::sql::IcebergSql::iceberg_sql(&rig.context, &sql).await.unwrap();
                let ids = frame.collect().await.unwrap().into_iter().flat_map(|batch| {
                    arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.column(0))
                        .values()
                        .to_vec()
                });
                assert!(ids.map(|id| id / 10).is_sorted(), "{columns} FROM {join}");
            }
        }
    }
}

#[tokio::test]
async fn defaults_are_filled_in() {
    let rig = Rig::new().await;
    rig.create("t", |t| {
        t.properties.insert("format-version".to_owned(), "3".to_owned());
    })
    .await;
    let s = UpdateSchema::new().update_column_default("s", Some(Value::String("none".to_owned())));
    let table = rig.load("t").await;
    table.transaction().apply(s).commit(rig.catalog.as_ref()).await.unwrap();
    rig.rows("INSERT INTO ice.n.t (id) VALUES (1)").await.unwrap();
    rig.rows("INSERT INTO ice.n.t VALUES (2, NULL, NULL)").await.unwrap();
    assert_eq!(rig.rows("SELECT id, s FROM ice.n.t ORDER BY id").await.unwrap(), ["1 none", "2 "]);
}

#[tokio::test]
async fn what_fails_leaves_nothing() {
    let rig = Rig::new().await;
    rig.create("t", |t| t.partition_spec = Some(partitioned(&[(1, Transform::Bucket(8))]))).await;
    rig.rows("INSERT INTO ice.n.t VALUES (1, 'a', NULL)").await.unwrap();
    let before = rig.stored("t").await;
    assert_eq!(before.len(), 1);
    // A required column, and a row that can't be computed, far from the first.
    let sql = "INSERT INTO ice.n.t SELECT nullif(v, 99999), NULL AS s, NULL AS day \
               FROM generate_series(1, 100000) AS g(v)";
    let e = rig.fails(sql).await;
    assert!(e.to_string().contains("`id`") && e.to_string().contains("t`"), "{e}");
    assert!(rig.rows("INSERT INTO ice.n.t (s) VALUES ('x')").await.is_err());
    let sql = "INSERT INTO ice.n.t SELECT 1 / (v - 199999), NULL AS s, NULL AS day FROM generate_series(1, 200000) AS g(v)";
    let error = rig.rows(sql).await.unwrap_err();
    assert!(error.to_string().contains("ivide"), "{error}");
    // Nobody has to wait for that, though other writers were at work, and some of their files done.
    assert_eq!(rig.stored("t").await, before);
    // Others change what the rows were written for: the commit is refused for good.
    let sql = "INSERT INTO ice.n.t VALUES (5, 'e', NULL)";
    let plan = rig.context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    rig.catalog.drop_table(&ident("t"), false).await.unwrap();
    rig.create("t", |_| {}).await;
    let error = datafusion::physical_plan::collect(plan, rig.context.task_ctx()).await.unwrap_err();
    assert_eq!(Error::find_in(&error).unwrap().kind(), ErrorKind::ValidationFailed, "{error}");
    assert_eq!(rig.stored("t").await, before);
}

#[tokio::test]
async fn rows_meet_changes_of_others() {
    let rig = Rig::new().await;
    rig.create("t", |t| t.partition_spec = Some(partitioned(&[(2, Transform::Identity)]))).await;
    let plan = |sql: &'static str| async {
        rig.context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
    };
    let first = plan("INSERT INTO ice.n.t VALUES (1, 'a', NULL)").await;
    let second = plan("INSERT INTO ice.n.t VALUES (2, 'b', NULL)").await;
    let third = plan("INSERT INTO ice.n.t VALUES (3, 'c', NULL)").await;
    let run = |plan| datafusion::physical_plan::collect(plan, rig.context.task_ctx());
    run(first).await.unwrap();
    run(second).await.unwrap();
    // A new column and a new spec: the rows are of the old ones, which is no harm.
    let table = rig.load("t").await;
    let evolve = table
        .transaction()
        .apply(UpdateSchema::new().add_column("new", P::Int))
        .apply(UpdateSpec::new().add_field("id", Transform::Bucket(3)))
        .apply(UpdateProperties::new().set("a", "b"));
    evolve.commit(rig.catalog.as_ref()).await.unwrap();
    run(third).await.unwrap();
    let rows = rig.rows("SELECT id, s, new FROM ice.n.t ORDER BY id").await.unwrap();
    assert_eq!(rows, ["1 a ", "2 b ", "3 c "]);
    rig.rows("INSERT INTO ice.n.t VALUES (4, 'd', NULL, 7)").await.unwrap();
    assert_eq!(rig.rows("SELECT id FROM ice.n.t WHERE new = 7").await.unwrap(), ["4"]);
    let specs: BTreeSet<i32> = rig.files("t").await.iter().map(|file| file.spec_id.0).collect();
    assert_eq!(specs, [0, 1].into());
}

#[tokio::test]
async fn frames_are_written_by_the_names_of_their_columns() {
    let rig = Rig::new().await;
    rig.create("t", |_| {}).await;
    let frame = |sql: &'static str| async { rig.context.sql(sql).await.unwrap() };
    let options = DataFrameWriteOptions::new;
    let other_order = "SELECT CAST('x' AS VARCHAR) AS s, DATE '2024-01-01' AS day, CAST(1 AS BIGINT) AS id";
    frame(other_order).await.write_table("ice.n.t", options()).await.unwrap();
    assert_eq!(rig.rows("SELECT * FROM ice.n.t").await.unwrap(), ["1 x 2024-01-01"]);
    for (sql, said) in [
        ("SELECT CAST(1 AS BIGINT) AS id, 'x' AS s", "day"),
        ("SELECT CAST(1 AS BIGINT) AS id, 'x' AS s, DATE '2024-01-01' AS day, 1 AS more", "more"),
        ("SELECT 'one' AS id, 'x' AS s, DATE '2024-01-01' AS day", "id"),
    ] {
        let error = frame(sql).await.write_table("ice.n.t", options()).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    assert_eq!(rig.load("t").await.metadata().snapshots.len(), 1);
}

#[tokio::test]
async fn what_can_only_be_read_says_so() {
    let rig = Rig::new().await;
    rig.create("t", |t| {
        t.properties.insert("write.format.default".to_owned(), "orc".to_owned());
    })
    .await;
    let e = rig.fails("INSERT INTO ice.n.t VALUES (1, 'a', NULL)").await;
    assert!(e.kind() == ErrorKind::Unsupported && e.to_string().contains("write.format.default"), "{e}");
    assert!(rig.rows("INSERT INTO ice.n.t$files SELECT * FROM ice.n.t$files").await.is_err());
    rig.create("u", |_| {}).await;
    rig.rows("INSERT INTO ice.n.u VALUES (1, 'a', NULL)").await.unwrap();
    let table = IcebergTable::try_new(rig.load("u").await).unwrap();
    let id = table.selection().snapshot.as_ref().unwrap().snapshot_id;
    let version = table.at(&SnapshotSelector::Id(id)).unwrap();
    for (name, table) in [("opened", table), ("version", version)] {
        rig.context.register_table(name, Arc::new(table)).unwrap();
        let e = rig.fails(&format!("INSERT INTO {name} VALUES (1, 'a', NULL)")).await;
        assert!(e.kind() == ErrorKind::Unsupported && e.to_string().contains("catalog"), "{e}");
    }
    let e = rig.rows("REPLACE INTO ice.n.u VALUES (1, 'a', NULL)").await.unwrap_err();
    assert!(e.to_string().contains("REPLACE"), "{e}");
}
