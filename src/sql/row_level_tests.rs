//! DELETE, UPDATE and MERGE, on tables of every version and in both modes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{IcebergSql, register};
use crate::catalog::{Catalog, MemoryCatalog, Namespace, TableCreation, TableIdent};
use crate::error::{Error, ErrorKind};
use crate::provider::{IcebergCatalogProvider, IcebergTable};
use crate::spec::{
    FieldId, NestedField, PartitionField, PartitionSpec, PrimitiveType as P, Schema, SchemaId, SpecId,
    Transform,
};
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

/// A row of the model.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: i64,
    p: Option<i32>,
    s: Option<String>,
    x: Option<f64>,
    /// With the sequence number of its last change; of version 3 only.
    lineage: Option<(i64, i64)>,
}

impl Row {
    fn text(&self) -> String {
        let x = self.x.map(|x| format!("{x:?}")).unwrap_or_default();
        let p = self.p.map(|p| p.to_string()).unwrap_or_default();
        format!("{} {p} {} {x}", self.id, self.s.clone().unwrap_or_default())
    }
}

/// A condition in SQL, and what it is for a row. Its parameter is a small number.
type Condition = (&'static str, fn(&Row, i64) -> Option<bool>);

const CONDITIONS: &[Condition] = &[
    ("id > $", |row, n| Some(row.id > n)),
    ("id = $", |row, n| Some(row.id == n)),
    ("p = $ % 4", |row, n| row.p.map(|p| i64::from(p) == n % 4)),
    ("NOT (p = $ % 4)", |row, n| row.p.map(|p| i64::from(p) != n % 4)),
    ("p IS NULL", |row, _| Some(row.p.is_none())),
    ("s LIKE 'a%'", |row, _| row.s.as_ref().map(|s| s.starts_with('a'))),
    ("x >= $ OR s IS NULL", |row, n| match (row.x.map(|x| x >= n as f64), row.s.is_none()) {
        (_, true) => Some(true),
        (x, false) => x,
    }),
    ("id IN (SELECT id FROM source)", |row, n| Some(source(n).iter().any(|(id, _)| *id == row.id))),
    ("id NOT IN (SELECT id FROM source) AND id % 2 = 0", |row, n| {
        Some(source(n).iter().all(|(id, _)| *id != row.id) && row.id % 2 == 0)
    }),
    ("EXISTS (SELECT 1 FROM source WHERE source.id = t.id AND source.v > 5)", |row, n| {
        Some(source(n).iter().any(|(id, v)| *id == row.id && *v > 5))
    }),
    ("false", |_, _| Some(false)),
    ("true", |_, _| Some(true)),
    ("NULL", |_, _| None),
];

/// The rows of the source by the parameter: ids are unique.
fn source(n: i64) -> Vec<(i64, i32)> {
    (0..8).map(|i| (n + i * 3, ((n + i) % 11) as i32)).collect()
}

/// An assignment in SQL, and what it does.
type Assignment = (&'static str, fn(&mut Row, i64));

const ASSIGNMENTS: &[Assignment] = &[
    ("p = p + 1", |row, _| row.p = row.p.map(|p| p + 1)),
    ("p = NULL, s = 'n'", |row, _| (row.p, row.s) = (None, Some("n".to_owned()))),
    ("x = id * 0.5, p = $ % 3", |row, n| (row.x, row.p) = (Some(row.id as f64 * 0.5), Some((n % 3) as i32))),
    ("s = concat('a', id)", |row, _| row.s = Some(format!("a{}", row.id))),
    ("p = (SELECT max(v) FROM source)", |row, n| row.p = source(n).iter().map(|(_, v)| *v).max()),
];

struct Model {
    rig: Rig,
    kind: Kind,
    rows: Vec<Row>,
    random: rand::rngs::StdRng,
    next_id: i64,
    /// What has been done.
    log: Vec<String>,
}

impl Model {
    fn pick(&mut self, n: usize) -> usize {
        use rand::RngExt;
        self.random.random_range(0..n)
    }

    fn condition(&mut self, n: i64) -> (String, impl Fn(&Row) -> bool + use<>) {
        let place = self.pick(CONDITIONS.len());
        let (sql, holds) = CONDITIONS[place];
        (sql.replace('$', &n.to_string()), move |row: &Row| holds(row, n) == Some(true))
    }

    async fn insert(&mut self) {
        let count = 1 + self.pick(12) as i64;
        let values: Vec<String> = (self.next_id..self.next_id + count)
            .map(|id| {
                let row = Row {
                    id,
                    p: (id % 5 != 0).then_some((id % 4) as i32),
                    s: (id % 3 != 0).then(|| format!("{}{id}", if id % 2 == 0 { 'a' } else { 'b' })),
                    x: (id % 7 != 0).then_some(id as f64),
                    lineage: None,
                };
                let text = |value: Option<String>| value.unwrap_or("NULL".to_owned());
                let s = text(row.s.as_ref().map(|s| format!("'{s}'")));
                let (p, x) = (text(row.p.map(|p| p.to_string())), text(row.x.map(|x| format!("{x:?}"))));
                self.rows.push(row);
                format!("({id}, {p}, {s}, {x})")
            })
            .collect();
        self.next_id += count;
        self.run(&format!("INSERT INTO t VALUES {}", values.join(", ")), count as usize).await;
    }

    async fn source(&self, n: i64) {
        self.rig.rows("DROP TABLE IF EXISTS source").await;
        let values: Vec<_> = source(n).iter().map(|(id, v)| format!("({id}, {v})")).collect();
        let values = values.join(", ");
        self.rig
            .rows(&format!(
                "CREATE TABLE source AS SELECT column1 AS id, column2 AS v FROM (VALUES {values})"
            ))
            .await;
    }

    async fn run(&mut self, sql: &str, count: usize) {
        let sql = sql.replace(" t ", " ice.n.t ").replace(" t.", " ice.n.t.");
        self.log.push(sql.clone());
        assert_eq!(self.rig.count(&sql).await, count, "{:?}\n{}", self.kind, self.log.join(";\n"));
        self.check().await;
    }

    async fn delete(&mut self, n: i64) {
        let (sql, holds) = self.condition(n);
        let before = self.rows.len();
        self.rows.retain(|row| !holds(row));
        let count = before - self.rows.len();
        self.run(&format!("DELETE FROM t WHERE {sql}"), count).await;
    }

    async fn update(&mut self, n: i64) {
        let (sql, holds) = self.condition(n);
        let place = self.pick(ASSIGNMENTS.len());
        let (assignment, assign) = ASSIGNMENTS[place];
        let mut count = 0;
        for row in self.rows.iter_mut().filter(|row| holds(row)) {
            assign(row, n);
            touch(row);
            count += 1;
        }
        let assignment = assignment.replace('$', &n.to_string());
        self.run(&format!("UPDATE t SET {assignment} WHERE {sql}"), count).await;
    }

    /// Clauses are picked; the last condition of each kind is left out now and then.
    async fn merge(&mut self, n: i64) {
        let source = source(n);
        let mut sql = "MERGE INTO t USING source AS v ON t.id = v.id".replace(" t.", " ice.n.t.");
        let mut count = 0;
        let (mut done, mut complete) = (BTreeSet::new(), BTreeSet::new());
        let clauses = 1 + self.pick(4);
        for _ in 0..clauses {
            let (condition, holds) = match self.pick(3) {
                0 => ("", None),
                1 => (" AND v.v > 4", Some(4)),
                _ => (" AND v.v <= 7", Some(-7)),
            };
            let of_source = |v: i32| match holds {
                None => true,
                Some(4) => v > 4,
                Some(_) => v <= 7,
            };
            let value = |id: i64| source.iter().find(|(theirs, _)| *theirs == id).map(|(_, v)| *v);
            let clause = self.pick(5);
            // What comes behind a clause without a condition is refused.
            let kind = ["matched", "matched", "added", "", ""][clause];
            if complete.contains(kind) {
                continue;
            }
            if holds.is_none() && clause < 3 {
                complete.insert(kind);
            }
            match clause {
                0 => {
                    sql += &format!(" WHEN MATCHED{condition} THEN DELETE");
                    let gone: Vec<i64> = self
                        .rows
                        .iter()
                        .filter(|r| !done.contains(&r.id))
                        .filter(|r| value(r.id).is_some_and(of_source))
                        .map(|r| r.id)
                        .collect();
                    self.rows.retain(|row| !gone.contains(&row.id));
                    count += gone.len();
                    done.extend(gone);
                }
                1 => {
                    sql += &format!(" WHEN MATCHED{condition} THEN UPDATE SET s = 'm', p = v.v");
                    for row in &mut self.rows {
                        if let Some(v) = value(row.id).filter(|v| of_source(*v))
                            && done.insert(row.id)
                        {
                            (row.s, row.p) = (Some("m".to_owned()), Some(v));
                            touch(row);
                            count += 1;
                        }
                    }
                }
                2 => {
                    sql += &format!(" WHEN NOT MATCHED{condition} THEN INSERT (x, id) VALUES (v.v, v.id)");
                    for (id, v) in &source {
                        let there = self.rows.iter().any(|row| row.id == *id);
                        if !there && of_source(*v) && done.insert(*id) {
                            self.rows.push(Row {
                                id: *id,
                                p: None,
                                s: None,
                                x: Some(f64::from(*v)),
                                lineage: None,
                            });
                            self.next_id = self.next_id.max(id + 1);
                            count += 1;
                        }
                    }
                }
                3 => {
                    sql += " WHEN NOT MATCHED BY SOURCE AND ice.n.t.p = 1 THEN UPDATE SET x = -1.0";
                    for row in &mut self.rows {
                        if value(row.id).is_none() && row.p == Some(1) && done.insert(row.id) {
                            row.x = Some(-1.0);
                            touch(row);
                            count += 1;
                        }
                    }
                }
                _ => {
                    sql += " WHEN NOT MATCHED BY SOURCE AND ice.n.t.s IS NULL THEN DELETE";
                    let gone: Vec<i64> = self
                        .rows
                        .iter()
                        .filter(|r| !done.contains(&r.id))
                        .filter(|r| value(r.id).is_none() && r.s.is_none())
                        .map(|r| r.id)
                        .collect();
                    self.rows.retain(|row| !gone.contains(&row.id));
                    count += gone.len();
                    done.extend(gone);
                }
            }
        }
        self.run(&sql, count).await;
    }

    /// The table has the rows of the model, with the ids that they had.
    async fn check(&mut self) {
        let told = || format!("{:?}\n{}", self.kind, self.log.join(";\n"));
        let mut wanted: Vec<String> = self.rows.iter().map(Row::text).collect();
        wanted.sort();
        let mut rows = self.rig.rows("SELECT id, p, s, x FROM ice.n.t").await;
        rows.sort();
        assert_eq!(rows, wanted, "{}", told());
        if self.kind.version < 3 {
            return;
        }
        let sql = "SELECT id, _row_id, _last_updated_sequence_number FROM ice.n.t";
        let mut seen = BTreeSet::new();
        let mut lineage = BTreeMap::new();
        for row in self.rig.rows(sql).await {
            let numbers: Vec<i64> = row.split(' ').map(|n| n.parse().unwrap()).collect();
            assert!(seen.insert(numbers[1]), "two rows have the id {}\n{}", numbers[1], told());
            lineage.insert(numbers[0], (numbers[1], numbers[2]));
        }
        let sequence = self.rig.load("t").await.metadata().last_sequence_number.0;
        for row in &mut self.rows {
            let now = lineage[&row.id];
            match row.lineage {
                None => assert_eq!(now.1, sequence),
                // A change: the id stays.
                Some((id, -1)) => assert_eq!(now, (id, sequence)),
                Some(before) => assert_eq!(now, before),
            }
            row.lineage = Some(now);
        }
    }
}

fn touch(row: &mut Row) {
    if let Some((_, changed)) = &mut row.lineage {
        *changed = -1;
    }
}

#[tokio::test]
async fn any_statements_do_what_a_model_does() {
    use rand::SeedableRng;
    let seeds = std::env::var("ICEFLOE_TEST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2u64);
    for kind in kinds() {
        for seed in 0..seeds {
            let rig = Rig::new().await;
            // Both ways of writing position deletes.
            let granularity = if seed % 2 == 0 { "file" } else { "partition" };
            rig.create("t", kind, &[("write.delete.granularity", granularity)]).await;
            let random = rand::rngs::StdRng::seed_from_u64(seed);
            let mut model = Model { rig, kind, rows: Vec::new(), random, next_id: 1, log: Vec::new() };
            model.insert().await;
            for _ in 0..12 {
                let n = model.pick(20) as i64;
                model.source(n).await;
                match model.pick(5) {
                    0 => model.insert().await,
                    1 => model.delete(n).await,
                    2 => model.update(n).await,
                    _ => model.merge(n).await,
                }
            }
        }
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
