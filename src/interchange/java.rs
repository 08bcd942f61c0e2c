//! Iceberg for Java reads everything that we write: metadata files, manifests, metrics, rows.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value as Json;

use super::rows::{Differences, Rows};
use super::tables::{Kind, Maker, Sample};
use super::{engine, filesystem, run};
use crate::catalog::Catalog;
use crate::spec::TableMetadata;
use crate::table::Table;
use crate::{IcebergTable, MetadataTableKind as K};

/// The metadata tables that both have.
const METADATA_TABLES: &[K] = &[
    K::Snapshots,
    K::History,
    K::MetadataLogEntries,
    K::Refs,
    K::Manifests,
    K::Entries,
    K::Files,
    K::DataFiles,
    K::DeleteFiles,
    K::Partitions,
    K::AllManifests,
    K::AllEntries,
    K::AllDataFiles,
    K::AllDeleteFiles,
];

/// Has Java read the tables of a directory, and compares everything that it says of them with what
/// we say.
pub(super) async fn compare(
    classes: &str,
    catalog: &dyn Catalog,
    samples: &[Sample],
    found: &mut Differences,
) {
    let mut asked = Vec::new();
    for sample in samples {
        let table = catalog.load_table(&sample.table).await.unwrap();
        asked.push(format!("{}{}", mark(sample), table.metadata().location));
    }
    let answers = ask(classes, &asked);
    compare_answers(answers, catalog, samples, found).await;
}

/// What says that only the metadata are to be read.
pub(super) fn mark(sample: &Sample) -> &'static str {
    if sample.kind == Kind::Unread { "-" } else { "" }
}

/// What Java says: see `Check.java`.
pub(super) fn ask(classes: &str, arguments: &[String]) -> Vec<Json> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/interchange/Check.java");
    let mut command = Command::new("java");
    // Without a file, Hadoop's logging is as loud as it can be.
    command.args(["-Xmx1g", "-Duser.timezone=UTC", "-Dlog4j2.level=OFF", "-cp", classes]).arg(program);
    // The names of files are of this encoding.
    command.env("LC_ALL", "C.UTF-8").args(arguments);
    run(&mut command).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(super) async fn compare_answers(
    mut answers: Vec<Json>,
    catalog: &dyn Catalog,
    samples: &[Sample],
    found: &mut Differences,
) {
    for sample in samples {
        let table = catalog.load_table(&sample.table).await.unwrap();
        let location = table.metadata().location.clone();
        let (own, rest): (Vec<Json>, _) = answers.into_iter().partition(|a| a["table"] == location.as_str());
        answers = rest;
        assert!(!own.is_empty(), "Java said nothing of {}", sample.table);
        compare_table(sample, &table, &own, found).await;
    }
}

async fn compare_table(sample: &Sample, table: &Table, answers: &[Json], found: &mut Differences) {
    let place = |what: &str| format!("{} {what}", sample.table);
    let rows = |what: &str| -> Option<Rows> {
        let answer = answers.iter().find(|answer| answer["what"] == what)?;
        Some(Rows::new(answer["rows"].as_array().unwrap().clone()))
    };
    for answer in answers {
        match answer["what"].as_str().unwrap() {
            "error" => found.add(place(&format!("Java failed: {}", answer["rows"]))),
            "metadata" => compare_metadata(&place("metadata"), table, answer, found).await,
            _ => {}
        }
    }
    for kind in METADATA_TABLES {
        if let Some(theirs) = rows(kind.name()) {
            let (mut ours, mut theirs) = (Rows::of_metadata(table, *kind).await, theirs);
            if *kind == K::Partitions {
                (ours, theirs) = (of_known_specs(ours), of_known_specs(theirs));
            }
            if *kind == K::AllManifests {
                // Java has it since 1.11.
                ours = ours.without(&["key_metadata"]);
            }
            if matches!(kind, K::AllDataFiles | K::AllEntries) {
                (ours, theirs) = (without_first_rows(ours), without_first_rows(theirs));
            }
            found.rows(place(kind.name()), &ours, &theirs);
        } else {
            found.add(place(&format!("{kind}: Java said nothing")));
        }
    }
    if sample.kind == Kind::Unread {
        return;
    }
    found.rows(place("rows"), &Rows::of_table(table).await, &rows("rows").unwrap_or(Rows(Vec::new())));
    // What Java finds in the files is what the manifests say: the metrics of the footers, and the
    // partitions of the rows.
    for wrong in rows("wrong").map(|rows| rows.0).unwrap_or_default() {
        // Hadoop spells it `file:/…`: Spark wrote the file.
        if wrong["file"].as_str().unwrap().starts_with("file:///") {
            found.add(place(&wrong.to_string()));
        }
    }
    let tasks = IcebergTable::try_new(table.clone()).unwrap().data_files(&[]).await.unwrap();
    found.same(place("checked files"), tasks.len(), rows("checked").map_or(0, |rows| rows.0.len()));
}

/// Java takes the spec of a partition from its last change; if that has expired, it says 0.
fn of_known_specs(rows: Rows) -> Rows {
    let known = rows.0.into_iter().map(|mut row| {
        if row["last_updated_snapshot_id"].is_null() {
            row["spec_id"] = Json::Null;
        }
        row
    });
    Rows::new(known.collect())
}

/// Manifests of tables that were upgraded to v3 are in lists with their first row id and in older
/// lists without it. The tables of all snapshots read each manifest once, and Java takes it from
/// whichever list its threads read first.
fn without_first_rows(rows: Rows) -> Rows {
    let without = rows.0.into_iter().map(|mut row| {
        for file in ["/first_row_id", "/data_file/first_row_id"] {
            row.pointer_mut(file).map(Json::take);
        }
        row
    });
    Rows::new(without.collect())
}

/// What Java writes of what it read is what we wrote.
async fn compare_metadata(place: &str, table: &Table, answer: &Json, found: &mut Differences) {
    let file = answer["file"].as_str().unwrap();
    let place = format!("{place} {file}");
    let theirs: Json = serde_json::from_str(answer["json"].as_str().unwrap()).unwrap();
    let ours = TableMetadata::from_json_value(&theirs).unwrap();
    let bytes = table.storage().read(&table.resolve(file).unwrap()).await.unwrap();
    let bytes = match file.contains(".gz.") {
        true => {
            let mut plain = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes.as_ref()), &mut plain)
                .unwrap();
            plain.into()
        }
        false => bytes,
    };
    found.same(&place, TableMetadata::from_json(&bytes).unwrap(), ours);
    let written = members(serde_json::from_slice(&bytes).unwrap());
    let theirs = members(theirs);
    for name in written.keys().chain(theirs.keys()).collect::<std::collections::BTreeSet<_>>() {
        found.same(format!("{place} `{name}`"), written.get(name), theirs.get(name));
    }
}

/// The members of table metadata, without those that say what is so without them.
fn members(metadata: Json) -> serde_json::Map<String, Json> {
    let Json::Object(mut members) = metadata else { panic!("{metadata}") };
    members.retain(|name, value| {
        !(value.is_null() || name.ends_with("statistics") && *value == Json::Array(vec![]))
    });
    for snapshot in members.get_mut("snapshots").and_then(Json::as_array_mut).into_iter().flatten() {
        let snapshot = snapshot.as_object_mut().unwrap();
        // Snapshots of version 1 have none.
        if snapshot.get("sequence-number").and_then(Json::as_i64) == Some(0) {
            snapshot.remove("sequence-number");
        }
    }
    members
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_reads_what_we_write() {
    let Some(classes) = engine("ICEFLOE_TEST_JAVA") else { return };
    let dir = tempfile::tempdir().unwrap();
    let catalog: Arc<dyn Catalog> = filesystem(dir.path());
    let mut samples = Vec::new();
    for version in 1..=3 {
        samples.extend(Maker::new(&catalog, "v", version).await.all().await);
    }
    let mut found = Differences::default();
    compare(&classes, catalog.as_ref(), &samples, &mut found).await;
    found.assert_none();
}
