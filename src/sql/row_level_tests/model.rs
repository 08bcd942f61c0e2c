//! Random statements, and a model of what they do.

use std::collections::{BTreeMap, BTreeSet};

use super::{Kind, Rig, kinds};

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
