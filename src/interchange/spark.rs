//! Spark and we write to the same tables of a filesystem catalog, in turn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value as Json;

use super::rows::{Differences, Rows};
use super::tables::{Kind, Maker, Sample};
use super::write::{append, compact, delete};
use super::{engine, filesystem, java, run};
use crate::MetadataTableKind;
use crate::catalog::Catalog;
use crate::spec::{NestedField, PrimitiveType, Schema, Type};
use crate::table::Table;

/// The tables of which Spark changes rows, and we after it. All others it only adds rows to.
const CHANGED: &[&str] = &[
    "types",
    "metrics",
    "by_identity",
    "by_bucket",
    "evolved",
    "maintained",
    "deletes",
    "deletes_by_file",
    "deletes_everywhere",
    "defaults",
    "upgraded",
];
/// The tables of which Spark changes the schema and the spec too, and which it rewrites.
const EVOLVED: &[&str] = &["evolved", "deletes", "upgraded"];

/// One run of Spark: its statements, and where the results of its queries will be.
pub(super) struct Script<'a> {
    warehouse: &'a Path,
    results: PathBuf,
    statements: Vec<String>,
}

impl<'a> Script<'a> {
    pub(super) fn new(dir: &'a Path, run: &str) -> Self {
        let settings = [
            "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS",
            "spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED",
        ];
        Self {
            warehouse: dir,
            results: dir.join(format!("results_{run}")),
            statements: settings.iter().map(|setting| format!("SET {setting}")).collect(),
        }
    }

    pub(super) fn say(&mut self, statement: impl Into<String>) {
        self.statements.push(statement.into());
    }

    fn directory(&self, sample: &Sample, what: &str) -> PathBuf {
        self.results.join(sample.table.to_string()).join(what)
    }

    /// Keeps the rows of a query.
    pub(super) fn keep(&mut self, sample: &Sample, what: &str, query: &str) {
        let directory = self.directory(sample, what);
        self.say(format!("INSERT OVERWRITE DIRECTORY '{}' USING parquet {query}", directory.display()));
    }

    pub(super) fn run(&self, program: &str) {
        run(Command::new(program).arg(self.warehouse).args(&self.statements));
    }

    pub(super) async fn rows(&self, sample: &Sample, what: &str) -> Rows {
        Rows::of_parquet(&self.directory(sample, what)).await
    }
}

pub(super) fn name(sample: &Sample) -> String {
    format!("ice.{}", sample.table)
}

/// All columns, with another id.
fn columns(table: &Table, id: &str) -> String {
    let fields = table.metadata().current_schema().fields().iter();
    let columns =
        fields.map(|f| if f.name == "id" { format!("{id} AS id") } else { format!("`{}`", f.name) });
    columns.collect::<Vec<_>>().join(", ")
}

pub(super) const LINEAGE: &str = "SELECT id, _row_id, _last_updated_sequence_number FROM";
const PLACES: &str = "SELECT id, _file, _pos, _spec_id FROM";

/// Branches and tags but `main`, and one whose schema has a partition column of a narrower type than
/// the current one: Spark takes its partition values for what they are now.
fn references(table: &Table) -> impl Iterator<Item = &String> {
    table.metadata().refs.keys().filter(|name| !["main", "first"].contains(&name.as_str()))
}

fn first_script<'a>(dir: &'a Path, tables: &[(Sample, Table)]) -> Script<'a> {
    let mut script = Script::new(dir, "first");
    for (sample, table) in tables {
        let (t, version) = (name(sample), table.metadata().format_version);
        script.keep(sample, "before", &format!("SELECT * FROM {t}"));
        script.keep(sample, "places", &format!("{PLACES} {t}"));
        if version >= 3 {
            script.keep(sample, "lineage", &format!("{LINEAGE} {t}"));
        }
        for reference in references(table) {
            script.keep(
                sample,
                &format!("ref_{reference}"),
                &format!("SELECT * FROM {t} VERSION AS OF '{reference}'"),
            );
        }
        if let Some(twin) = &sample.twin {
            script.say(format!("INSERT INTO ice.{twin} SELECT * FROM {t}"));
        }
        script.say(format!("INSERT INTO {t} SELECT {} FROM {t} WHERE id < 4", columns(table, "id + 1000")));
        if CHANGED.contains(&sample.name()) {
            change_rows(&mut script, &t, version);
        }
        if EVOLVED.contains(&sample.name()) {
            evolve(&mut script, &t, version);
        }
        script.keep(sample, "after", &format!("SELECT * FROM {t}"));
    }
    script
}

/// Deletes, updates and merges rows of ours and of Spark's own.
pub(super) fn change_rows(script: &mut Script<'_>, t: &str, version: u8) {
    let modes = if version >= 2 { &["merge-on-read", "copy-on-write"][..] } else { &["copy-on-write"] };
    for (i, mode) in modes.iter().enumerate() {
        let properties = ["delete", "update", "merge"].map(|what| format!("'write.{what}.mode'='{mode}'"));
        script.say(format!("ALTER TABLE {t} SET TBLPROPERTIES ({})", properties.join(", ")));
        let own = i * 4;
        script.say(format!("DELETE FROM {t} WHERE id IN ({own}, {})", 1000 + i));
        script.say(format!("UPDATE {t} SET id = id + 2000 WHERE id IN ({}, {})", own + 1, 1002 + i));
        script.say(format!(
            "MERGE INTO {t} AS t USING (SELECT CAST({} AS BIGINT) AS id UNION ALL SELECT 3001) AS s ON t.id = s.id \
             WHEN MATCHED THEN UPDATE SET id = t.id + 4000",
            own + 2
        ));
    }
}

fn evolve(script: &mut Script<'_>, t: &str, version: u8) {
    script.say(format!("ALTER TABLE {t} ADD COLUMN by_spark struct<a: int, b: array<string>> AFTER id"));
    script.say(format!("ALTER TABLE {t} ADD PARTITION FIELD truncate(100, id)"));
    script.say(format!(
        "UPDATE {t} SET by_spark = named_struct('a', CAST(id AS INT), 'b', array('x')) WHERE id % 2 = 0"
    ));
    script.say(format!("ALTER TABLE {t} CREATE TAG by_spark"));
    script.say(format!("ALTER TABLE {t} WRITE ORDERED BY id DESC"));
    script.say(format!("CALL ice.system.rewrite_manifests('{t}')"));
    if version >= 2 {
        let options = "map('delete-file-threshold', '1', 'min-input-files', '2')";
        script.say(format!("CALL ice.system.rewrite_data_files(table => '{t}', options => {options})"));
        script.say(format!("DELETE FROM {t} WHERE id = 1003"));
    }
}

/// Metrics, partitions and counts of what we wrote are what Spark wrote of the same rows.
async fn compare_twins(catalog: &dyn Catalog, sample: &Sample, found: &mut Differences) {
    let Some(twin) = &sample.twin else { return };
    let mut files = Vec::new();
    let mut summaries = Vec::new();
    for table in [&sample.table, twin] {
        let table = catalog.load_table(table).await.unwrap();
        // Spark added more since.
        let first = Arc::clone(&table.metadata().snapshots[0]);
        let here = crate::IcebergTable::try_new(table.clone()).unwrap();
        let at_first = here.at(&crate::spec::SnapshotSelector::Id(first.snapshot_id)).unwrap();
        let rows =
            Rows::of_provider(Arc::new(at_first.metadata_table(MetadataTableKind::Files).unwrap())).await;
        let rows = rows.without(&[
            "file_size_in_bytes",
            "column_sizes",
            "split_offsets",
            "readable_metrics",
            "first_row_id",
        ]);
        let location = table.metadata().location.clone();
        let counted = counted(table.metadata().current_schema());
        let rows = rows.0.into_iter().map(|row| only_counts_of(in_directory(row, &location), &counted));
        files.push(Rows::new(rows.collect()));
        let of_engine = |name: &str| {
            name.contains("files-size")
                || name.contains("manifests-")
                || name.contains("commit-id")
                || name.contains("version")
                || name.contains("engine")
                || name.contains("app")
        };
        let summary = first.summary.iter().filter(|(name, _)| !of_engine(name));
        summaries.push(summary.map(|(n, v)| (n.clone(), v.clone())).collect::<BTreeMap<_, _>>());
    }
    found.rows(format!("{} files", sample.table), &files[0], &files[1]);
    // Which of several files is written first is up to the writer.
    found.same(format!("{} summary", sample.table), &summaries[0], &summaries[1]);
}

/// The fields whose counts are compared: not those in lists and maps, of which Java keeps none, and no
/// floats in structs, where it leaves out the rows without a struct.
fn counted(schema: &Schema) -> Vec<i64> {
    let mut ids = Vec::new();
    for field in schema.fields() {
        match &field.field_type {
            Type::Primitive(_) => ids.push(i64::from(field.id.0)),
            Type::Struct(s) => {
                let is_float = |f: &&NestedField| {
                    matches!(f.field_type.as_primitive(), Some(PrimitiveType::Float | PrimitiveType::Double))
                };
                ids.extend(s.fields.iter().filter(|f| !is_float(f)).map(|f| i64::from(f.id.0)));
            }
            _ => {}
        }
    }
    ids
}

/// The file's row with the counts of these fields only. No counts are as good as none at all.
fn only_counts_of(mut row: Json, ids: &[i64]) -> Json {
    for counts in ["value_counts", "null_value_counts", "nan_value_counts"] {
        let pairs = row[counts].as_array().cloned().unwrap_or_default();
        row[counts] = pairs.into_iter().filter(|pair| ids.contains(&pair[0].as_i64().unwrap())).collect();
    }
    row
}

/// The file's row with the directory that the file is in, in its table.
fn in_directory(mut row: Json, location: &str) -> Json {
    let location = format!("/{}", location.trim_start_matches("file:").trim_start_matches('/'));
    let inside = row["file_path"].as_str().unwrap().strip_prefix(&location).unwrap();
    row["file_path"] = inside.rsplit_once('/').unwrap().0.into();
    row
}

/// The totals of the current snapshot are what its files add up to.
pub(super) async fn check_totals(table: &Table, found: &mut Differences) {
    let Some(snapshot) = table.metadata().current_snapshot() else { return };
    let mut totals: BTreeMap<&str, i64> = [
        "total-records",
        "total-data-files",
        "total-delete-files",
        "total-position-deletes",
        "total-equality-deletes",
        "total-files-size",
    ]
    .map(|name| (name, 0))
    .into();
    for file in Rows::of_metadata(table, MetadataTableKind::Files).await.0 {
        let rows = file["record_count"].as_i64().unwrap();
        let size = file["content_size_in_bytes"].as_i64().or(file["file_size_in_bytes"].as_i64()).unwrap();
        *totals.get_mut("total-files-size").unwrap() += size;
        let (files, counted) = match file["content"].as_i64().unwrap() {
            0 => ("total-data-files", "total-records"),
            1 => ("total-delete-files", "total-position-deletes"),
            _ => ("total-delete-files", "total-equality-deletes"),
        };
        *totals.get_mut(files).unwrap() += 1;
        *totals.get_mut(counted).unwrap() += rows;
    }
    for (name, total) in totals {
        let said = snapshot.summary.get(name).map(|n| n.parse::<i64>().unwrap());
        found.same(format!("{} {name}", table.name()), said, Some(total));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spark_and_we_take_turns() {
    let Some(program) = engine("ICEFLOE_TEST_SPARK") else { return };
    let dir = tempfile::tempdir().unwrap();
    let catalog: Arc<dyn Catalog> = filesystem(dir.path());
    let mut samples = Vec::new();
    for version in 1..=3 {
        let made = Maker::new(&catalog, "v", version).await.all().await;
        samples.extend(made.into_iter().filter(|sample| sample.kind == Kind::Plain));
    }
    let mut found = Differences::default();
    let mut tables = Vec::new();
    for sample in &samples {
        let table = catalog.load_table(&sample.table).await.unwrap();
        check_totals(&table, &mut found).await;
        tables.push((sample.clone(), table));
    }

    let first = first_script(dir.path(), &tables);
    first.run(&program);
    for (sample, table) in &tables {
        let place = |what: &str| format!("{} {what}", sample.table);
        found.rows(place("before"), &Rows::of_table(table).await, &first.rows(sample, "before").await);
        let places = Rows::of_query(table, &format!("{PLACES} t")).await;
        found.rows(place("places"), &places, &first.rows(sample, "places").await);
        if table.metadata().format_version >= 3 {
            let lineage = Rows::of_query(table, &format!("{LINEAGE} t")).await;
            found.rows(place("lineage"), &lineage, &first.rows(sample, "lineage").await);
        }
        for reference in references(table) {
            let query = format!("SELECT * FROM t VERSION AS OF '{reference}'");
            let theirs = first.rows(sample, &format!("ref_{reference}")).await;
            found.rows(place(reference), &Rows::of_query(table, &query).await, &theirs);
        }
        compare_twins(catalog.as_ref(), sample, &mut found).await;
    }

    // What Spark made of the tables, and what we make of that.
    let mut second = Script::new(dir.path(), "second");
    let mut ours = Vec::new();
    for sample in &samples {
        let mut table = catalog.load_table(&sample.table).await.unwrap();
        found.rows(
            format!("{} after", sample.table),
            &Rows::of_table(&table).await,
            &first.rows(sample, "after").await,
        );
        check_totals(&table, &mut found).await;
        if CHANGED.contains(&sample.name()) {
            table = append(catalog.as_ref(), &table, &[5000, 5001, 5002, 5003]).await;
            table = delete(catalog.as_ref(), &table, &[5001, 3, 6001, 3002]).await;
            if sample.name() != "types" {
                table = compact(catalog.as_ref(), &table).await;
            }
            table = append(catalog.as_ref(), &table, &[5100]).await;
            check_totals(&table, &mut found).await;
        }
        second.keep(sample, "final", &format!("SELECT * FROM {}", name(sample)));
        if table.metadata().format_version >= 3 {
            second.keep(sample, "lineage", &format!("{LINEAGE} {}", name(sample)));
        }
        ours.push((sample, table));
    }
    second.run(&program);
    for (sample, table) in ours {
        found.rows(
            format!("{} final", sample.table),
            &Rows::of_table(&table).await,
            &second.rows(sample, "final").await,
        );
        if table.metadata().format_version >= 3 {
            let lineage = Rows::of_query(&table, &format!("{LINEAGE} t")).await;
            found.rows(format!("{} lineage", sample.table), &lineage, &second.rows(sample, "lineage").await);
        }
    }
    if let Some(classes) = engine("ICEFLOE_TEST_JAVA") {
        java::compare(&classes, catalog.as_ref(), &samples, &mut found).await;
    }
    found.assert_none();
}
