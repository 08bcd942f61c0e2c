//! Which snapshots expire, and which files go with them: against an oracle that knows what each
//! snapshot reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object_store::memory::InMemory;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::spec::{
    Codec, ContentFile, ContentType, FileFormat, ManifestContent, ManifestEntry, ManifestFile,
    ManifestListWriter, ManifestListWriterOptions, ManifestStatus, ManifestWriter, ManifestWriterOptions,
    Metrics, RefType, SchemaId, SequenceNumber, SnapshotRef, SpecId, StructType,
};
use crate::storage::{Location, Storage, StorageProperties};
use crate::table::OpenOptions;
use crate::transaction::evolution::test_tables::{self, apply};

fn expire() -> ExpireSnapshots {
    ExpireSnapshots::new().at(1000)
}

fn snapshot(id: i64, parent: Option<i64>, timestamp_ms: i64) -> Json {
    let mut snapshot = json!({
        "snapshot-id": id, "sequence-number": id, "timestamp-ms": timestamp_ms, "schema-id": 0,
        "manifest-list": format!("memory://bucket/table/metadata/list-{id}.avro"),
        "summary": {"operation": "append"}
    });
    if let Some(parent) = parent {
        snapshot["parent-snapshot-id"] = json!(parent);
    }
    snapshot
}

fn with(snapshots: Vec<Json>, refs: Json, properties: Json) -> TableMetadata {
    let mut json = test_tables::json(2);
    json["partition-specs"] = json!([{"spec-id": 0, "fields": []}]);
    json["last-sequence-number"] = json!(snapshots.len());
    json["snapshots"] = json!(snapshots);
    if let Some(main) = refs.get("main") {
        json["current-snapshot-id"] = main["snapshot-id"].clone();
        json["snapshot-log"] = json!([{"snapshot-id": main["snapshot-id"], "timestamp-ms": 1}]);
    }
    json["refs"] = refs;
    json["properties"] = properties;
    TableMetadata::from_json_value(&json).unwrap()
}

/// 1 (at 100) ← 2 (200) ← … ← 9 (900), and 2 ← 10 (250).
fn line(refs: Json, properties: Json) -> TableMetadata {
    let mut snapshots: Vec<Json> =
        (1..=9).map(|id| snapshot(id, (id > 1).then(|| id - 1), id * 100)).collect();
    snapshots.push(snapshot(10, Some(2), 250));
    with(snapshots, refs, properties)
}

fn main_at(id: i64) -> Json {
    json!({"main": {"snapshot-id": id, "type": "branch"}})
}

fn gone(metadata: &TableMetadata, expire: &ExpireSnapshots) -> (Vec<i64>, Vec<String>) {
    let expired = expire.expired(metadata).unwrap();
    (expired.snapshots.iter().map(|id| id.0).collect(), expired.refs.into_iter().collect())
}

fn snapshots_gone(metadata: &TableMetadata, expire: &ExpireSnapshots) -> Vec<i64> {
    gone(metadata, expire).0
}

#[test]
fn age_and_number() {
    let base = line(main_at(9), json!({}));
    assert!(snapshots_gone(&base, &expire()).is_empty(), "5 days by default");
    assert_eq!(snapshots_gone(&base, &expire().expire_older_than(700)), [1, 2, 3, 4, 5, 6, 10]);
    assert_eq!(snapshots_gone(&base, &expire().expire_older_than(5000)), [1, 2, 3, 4, 5, 6, 7, 8, 10]);
    assert_eq!(snapshots_gone(&base, &expire().expire_older_than(5000).retain_last(7)), [1, 2, 10]);
    assert!(snapshots_gone(&base, &expire().expire_older_than(0).retain_last(1)).is_empty());
    assert!(expire().retain_last(0).expired(&base).is_err());

    let properties =
        json!({"history.expire.max-snapshot-age-ms": "300", "history.expire.min-snapshots-to-keep": "5"});
    let base = line(main_at(9), properties);
    assert_eq!(snapshots_gone(&base, &expire()), [1, 2, 3, 4, 10]);
    assert_eq!(snapshots_gone(&base, &expire().retain_last(1)), [1, 2, 3, 4, 5, 6, 10]);
    let bad = line(main_at(9), json!({"history.expire.max-snapshot-age-ms": "x"}));
    assert!(expire().expired(&bad).unwrap_err().to_string().contains("max-snapshot-age-ms"));
}

#[test]
fn a_branch_has_its_own_rules() {
    let mut refs = main_at(9);
    refs["dev"] = json!({"snapshot-id": 10, "type": "branch", "min-snapshots-to-keep": 2});
    refs["main"]["max-snapshot-age-ms"] = json!(150);
    let base = line(refs, json!({}));
    assert_eq!(snapshots_gone(&base, &expire()), [3, 4, 5, 6, 7, 8], "`dev` and what it was made from stay");
    assert_eq!(snapshots_gone(&base, &expire().expire_older_than(5000)), [1, 3, 4, 5, 6, 7, 8], "but for 1");
    let refs = json!({
        "main": {"snapshot-id": 9, "type": "branch", "min-snapshots-to-keep": 4},
        "dev": {"snapshot-id": 10, "type": "branch", "max-snapshot-age-ms": 10000}
    });
    let base = line(refs, json!({}));
    assert_eq!(snapshots_gone(&base, &expire().expire_older_than(5000)), [3, 4, 5]);
}

#[test]
fn branches_and_tags_get_old() {
    let refs = json!({
        "main": {"snapshot-id": 9, "type": "branch", "max-ref-age-ms": 1},
        "young": {"snapshot-id": 8, "type": "tag", "max-ref-age-ms": 200},
        "old": {"snapshot-id": 7, "type": "tag", "max-ref-age-ms": 200},
        "dev": {"snapshot-id": 10, "type": "branch", "max-ref-age-ms": 1},
        "kept": {"snapshot-id": 1, "type": "tag"}
    });
    let base = line(refs.clone(), json!({}));
    let (snapshots, gone_refs) = gone(&base, &expire().expire_older_than(5000));
    assert_eq!(gone_refs, ["dev", "old"]);
    assert_eq!(snapshots, [2, 3, 4, 5, 6, 7, 10]);
    // By the table's rule.
    let base = line(refs, json!({"history.expire.max-ref-age-ms": "500"}));
    assert_eq!(gone(&base, &expire()).1, ["dev", "kept", "old"]);
}

#[test]
fn what_has_no_name_goes_by_its_age() {
    let base = line(main_at(4), json!({}));
    // 5 to 9 are no ancestors of 4, as after a roll-back; nor is 10.
    assert_eq!(snapshots_gone(&base, &expire().expire_older_than(800)), [1, 2, 3, 5, 6, 7, 10]);
    assert_eq!(snapshots_gone(&base, &expire().expire_older_than(800).retain_last(9)), [5, 6, 7, 10]);
}

#[test]
fn by_id() {
    let mut refs = main_at(9);
    refs["v"] = json!({"snapshot-id": 3, "type": "tag"});
    let base = line(refs, json!({}));
    let id = SnapshotId;
    let by_id = expire().expire_snapshot_id(id(5)).expire_snapshot_id(id(99));
    assert_eq!(snapshots_gone(&base, &by_id), [5]);
    for (named, name) in [(9, "main"), (3, "v")] {
        let e = expire().expire_snapshot_id(id(named)).expired(&base).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ValidationFailed);
        assert!(e.to_string().contains(&format!("`{name}` names it")), "{e}");
    }
}

#[test]
fn gc_must_be_allowed() {
    let base = line(main_at(9), json!({"gc.enabled": "false"}));
    let e = expire().expired(&base).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed);
    assert!(e.to_string().contains("`gc.enabled`"), "{e}");
}

#[test]
fn lineage_may_be_broken() {
    let circle = vec![snapshot(1, Some(2), 100), snapshot(2, Some(1), 200), snapshot(3, Some(77), 50)];
    let base = with(circle, main_at(2), json!({}));
    assert_eq!(snapshots_gone(&base, &expire().expire_older_than(150)), [1, 3]);
}

#[tokio::test]
async fn moved_references_are_conflicts() {
    let base = line(
        json!({"main": {"snapshot-id": 9, "type": "branch"}, "t": {"snapshot-id": 1, "type": "tag"}}),
        json!({}),
    );
    let required = expire().requirements(&test_tables::opened(base));
    let is = |name: &str, id, ref_type| TableRequirement::Ref {
        name: name.into(),
        reference: Some(SnapshotRef::new(SnapshotId(id), ref_type)),
    };
    assert_eq!(required, [is("main", 9, RefType::Branch), is("t", 1, RefType::Tag)]);
}

/// What a snapshot reaches.
#[derive(Debug, Clone, Default)]
struct Reached {
    list: String,
    manifests: Vec<(ManifestFile, BTreeSet<String>)>,
}

/// What a snapshot does to its parent.
#[derive(Debug, Clone)]
struct Step {
    parent: Option<usize>,
    adds: usize,
    /// A manifest of the parent to write anew, without some of its files.
    rewrites: Option<(usize, u8)>,
    drops: Option<usize>,
    expires: bool,
    has_statistics: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    let index = any::<usize>;
    (
        proptest::option::weighted(0.9, index()),
        0usize..3,
        proptest::option::of((index(), any::<u8>())),
        proptest::option::weighted(0.3, index()),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(parent, adds, rewrites, drops, expires, has_statistics)| Step {
            parent,
            adds,
            rewrites,
            drops,
            expires,
            has_statistics,
        })
}

const ROOT: &str = "memory://bucket/table";

fn data_file(path: String) -> ContentFile {
    ContentFile {
        content: ContentType::Data,
        file_path: path,
        file_format: FileFormat::Parquet,
        spec_id: SpecId(0),
        partition: vec![],
        record_count: 1,
        file_size_in_bytes: 1,
        metrics: Metrics::default(),
        key_metadata: None,
        split_offsets: None,
        equality_ids: None,
        sort_order_id: None,
        first_row_id: None,
        referenced_data_file: None,
        content_offset: None,
        content_size_in_bytes: None,
    }
}

struct History {
    table: Table,
    reached: Vec<Reached>,
    statistics: BTreeMap<i64, String>,
}

/// Writes a history with all of its files.
async fn write_history(steps: &[Step]) -> History {
    let storage = Storage::new(StorageProperties::new())
        .with_store("memory://bucket", Arc::new(InMemory::new()))
        .unwrap();
    let put = async |path: &str, bytes: bytes::Bytes| {
        storage.write(&Location::parse(path).unwrap(), bytes).await.unwrap();
    };
    let base = with(vec![], json!({}), json!({}));
    let partition_type = StructType::default();
    let mut reached: Vec<Reached> = Vec::new();
    let mut snapshots = Vec::new();
    let mut statistics = BTreeMap::new();
    for (i, step) in steps.iter().enumerate() {
        let id = i64::try_from(i).unwrap() + 1;
        let parent = step.parent.filter(|_| i > 0).map(|parent| parent % i);
        let mut manifests = parent.map(|p| reached[p].manifests.clone()).unwrap_or_default();
        if let Some(dropped) = step.drops.filter(|_| !manifests.is_empty()) {
            manifests.remove(dropped % manifests.len());
        }
        let writer = || {
            ManifestWriter::new(ManifestWriterOptions {
                format_version: 2,
                schema: base.current_schema(),
                spec: base.default_spec(),
                partition_type: &partition_type,
                content: ManifestContent::Data,
                snapshot_id: Some(SnapshotId(id)),
                codec: Codec::Null,
            })
            .unwrap()
        };
        if let Some((which, mask)) = step.rewrites.filter(|_| !manifests.is_empty()) {
            let at = which % manifests.len();
            let (_, files) = manifests.remove(at);
            let mut manifest = writer();
            let mut live = BTreeSet::new();
            for (bit, path) in files.into_iter().enumerate() {
                let entry = ManifestEntry {
                    status: ManifestStatus::Existing,
                    snapshot_id: Some(SnapshotId(1)),
                    sequence_number: Some(SequenceNumber(1)),
                    file_sequence_number: Some(SequenceNumber(1)),
                    data_file: Arc::new(data_file(path.clone())),
                };
                if mask >> (bit % 8) & 1 == 1 {
                    manifest.existing(&entry).unwrap();
                    live.insert(path);
                } else {
                    manifest.delete(&entry).unwrap();
                }
            }
            let path = format!("{ROOT}/metadata/{id}-rewritten.avro");
            let (bytes, file) = manifest.finish(&path).unwrap();
            put(&path, bytes).await;
            manifests.insert(at, (file, live));
        }
        if step.adds > 0 {
            let mut manifest = writer();
            let mut live = BTreeSet::new();
            for n in 0..step.adds {
                let path = format!("{ROOT}/data/{id}-{n}.parquet");
                put(&path, bytes::Bytes::from_static(b"x")).await;
                manifest.add(&data_file(path.clone()), None).unwrap();
                live.insert(path);
            }
            let path = format!("{ROOT}/metadata/{id}-added.avro");
            let (bytes, file) = manifest.finish(&path).unwrap();
            put(&path, bytes).await;
            manifests.push((file, live));
        }
        let mut list = ManifestListWriter::new(ManifestListWriterOptions {
            format_version: 2,
            snapshot_id: SnapshotId(id),
            parent_snapshot_id: None,
            sequence_number: SequenceNumber(id),
            first_row_id: None,
            codec: Codec::Null,
        })
        .unwrap();
        for (manifest, _) in &mut manifests {
            if manifest.sequence_number.0 < 0 {
                manifest.sequence_number = SequenceNumber(id);
                manifest.min_sequence_number = SequenceNumber(1);
            }
            list.add(manifest).unwrap();
        }
        let path = format!("{ROOT}/metadata/list-{id}.avro");
        put(&path, list.finish().unwrap()).await;
        if step.has_statistics {
            let path = format!("{ROOT}/metadata/{id}.stats");
            put(&path, bytes::Bytes::from_static(b"x")).await;
            statistics.insert(id, path);
        }
        snapshots.push(snapshot(id, parent.map(|p| i64::try_from(p).unwrap() + 1), id * 100));
        reached.push(Reached { list: path, manifests });
    }
    let mut metadata = with(snapshots, json!({}), json!({}));
    let of = |(id, path): (&i64, &String)| json!({"snapshot-id": id, "statistics-path": path});
    metadata.statistics = statistics.iter().map(of).collect();
    let options = OpenOptions::new().storage(storage);
    let location = format!("{ROOT}/metadata/v1.metadata.json");
    let table = Table::from_metadata(Arc::new(metadata), &location, &options).unwrap();
    History { table, reached, statistics }
}

/// The same table after some snapshots are gone.
fn without(table: &Table, ids: Vec<SnapshotId>) -> Table {
    let metadata = apply(table.metadata(), &[TableUpdate::RemoveSnapshots(ids)]);
    let options = OpenOptions::new().storage(table.storage().clone());
    Table::from_metadata(Arc::new(metadata), &table.metadata_location().to_string(), &options).unwrap()
}

/// Paths of lists, manifests and files of some snapshots.
fn union<'a>(reached: impl Iterator<Item = &'a Reached>) -> [BTreeSet<String>; 3] {
    let mut all: [BTreeSet<String>; 3] = Default::default();
    for snapshot in reached {
        all[0].insert(snapshot.list.clone());
        for (manifest, files) in &snapshot.manifests {
            all[1].insert(manifest.manifest_path.clone());
            all[2].extend(files.iter().cloned());
        }
    }
    all
}

async fn files_of(table: &Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for dir in ["metadata", "data"] {
        let dir = format!("{ROOT}/{dir}");
        for entry in table.storage().list_dir(&Location::parse(&dir).unwrap()).await.unwrap() {
            found.insert(format!("{dir}/{}", entry.name));
        }
    }
    found
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn files_go_that_no_snapshot_reaches(steps in proptest::collection::vec(any_step(), 1..10)) {
        run(async {
            let history = write_history(&steps).await;
            let is_gone = |i: &usize| steps[*i].expires;
            let ids: Vec<_> =
                (0..steps.len()).filter(is_gone).map(|i| SnapshotId(i64::try_from(i).unwrap() + 1)).collect();
            let after = without(&history.table, ids.clone());
            let of = |expires: bool| {
                let all = history.reached.iter().zip(&steps);
                union(all.filter(|(_, step)| step.expires == expires).map(|(reached, _)| reached))
            };
            let (expired, retained) = (of(true), of(false));
            let expected: Vec<BTreeSet<String>> =
                expired.iter().zip(&retained).map(|(a, b)| a.difference(b).cloned().collect()).collect();
            let statistics: BTreeSet<String> =
                ids.iter().filter_map(|id| history.statistics.get(&id.0)).cloned().collect();

            let garbage = cleanup::find_garbage(&history.table, &after, CleanupLevel::All).await.unwrap();
            prop_assert_eq!(&garbage.manifest_lists, &expected[0]);
            prop_assert_eq!(&garbage.manifests.keys().cloned().collect::<BTreeSet<_>>(), &expected[1]);
            prop_assert_eq!(&garbage.files, &expected[2]);
            prop_assert_eq!(&garbage.statistics, &statistics);
            let garbage = cleanup::find_garbage(&history.table, &after, CleanupLevel::MetadataOnly).await.unwrap();
            prop_assert!(garbage.files.is_empty());

            let all = files_of(&history.table).await;
            cleanup::clean_up(&history.table, &after, CleanupLevel::All).await;
            let mut left = all;
            left.retain(|path| !statistics.contains(path) && !expected.iter().any(|gone| gone.contains(path)));
            prop_assert_eq!(files_of(&after).await, left);
            Ok(())
        })?;
    }
}

fn step(adds: usize, expires: bool) -> Step {
    Step { parent: Some(0), adds, rewrites: None, drops: None, expires, has_statistics: false }
}

#[tokio::test]
async fn nothing_goes_that_may_be_in_use() {
    // What the snapshot that stays reaches can't be told.
    for broken in ["list-2.avro", "2-added.avro"] {
        let mut steps = [step(1, true), step(1, false)];
        steps[1].parent = None;
        let history = write_history(&steps).await;
        let after = without(&history.table, vec![SnapshotId(1)]);
        let broken = Location::parse(&format!("{ROOT}/metadata/{broken}")).unwrap();
        history.table.storage().delete(&broken).await.unwrap();
        let before = files_of(&after).await;
        cleanup::clean_up(&history.table, &after, CleanupLevel::All).await;
        assert_eq!(files_of(&after).await, before);
    }
}

#[tokio::test]
async fn what_an_expired_snapshot_listed_may_be_lost() {
    for broken in ["list-1.avro", "1-added.avro"] {
        let mut steps = [step(1, true), step(1, false)];
        steps[1].parent = None;
        let history = write_history(&steps).await;
        let after = without(&history.table, vec![SnapshotId(1)]);
        let broken = Location::parse(&format!("{ROOT}/metadata/{broken}")).unwrap();
        history.table.storage().delete(&broken).await.unwrap();
        cleanup::clean_up(&history.table, &after, CleanupLevel::All).await;
        let left = files_of(&after).await;
        assert!(left.contains(&format!("{ROOT}/data/1-0.parquet")), "nobody knows whose it is: {left:?}");
        assert!(left.contains(&format!("{ROOT}/data/2-0.parquet")));
    }
}

#[tokio::test]
async fn files_that_the_table_may_not_name_stay() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "x").unwrap();
    let history = write_history(&[step(1, true), step(1, false)]).await;
    let mut metadata = history.table.metadata().as_ref().clone();
    metadata.statistics =
        vec![json!({"snapshot-id": 1, "statistics-path": format!("file://{}", secret.display())})];
    let options = OpenOptions::new().storage(history.table.storage().clone());
    let location = history.table.metadata_location().to_string();
    let before = Table::from_metadata(Arc::new(metadata), &location, &options).unwrap();
    let after = without(&history.table, vec![SnapshotId(1)]);
    cleanup::clean_up(&before, &after, CleanupLevel::All).await;
    assert!(secret.exists());
}

#[tokio::test]
async fn the_whole_action() {
    let history = write_history(&[step(2, true), step(1, false)]).await;
    let mut metadata = history.table.metadata().as_ref().clone();
    let main = crate::spec::SnapshotRef::new(SnapshotId(2), crate::spec::RefType::Branch);
    metadata = apply(&metadata, &[TableUpdate::SetSnapshotRef { name: "main".into(), reference: main }]);
    let options = OpenOptions::new().storage(history.table.storage().clone());
    let location = history.table.metadata_location().to_string();
    let table = Table::from_metadata(Arc::new(metadata), &location, &options).unwrap();
    let expired = format!("{ROOT}/metadata/list-1.avro");
    for (level, is_left) in [(CleanupLevel::None, true), (CleanupLevel::MetadataOnly, false)] {
        let mut action = expire().expire_older_than(150).cleanup_level(level);
        let updates = action.updates(&table).await.unwrap();
        assert_eq!(updates, [TableUpdate::RemoveSnapshots(vec![SnapshotId(1)])]);
        action.committed(&without(&table, vec![SnapshotId(1)])).await;
        let left = files_of(&table).await;
        assert_eq!(left.contains(&expired), is_left);
        assert!(left.contains(&format!("{ROOT}/data/1-0.parquet")), "the second snapshot has it too");
    }
}

#[tokio::test]
async fn schemas_and_specs_that_nobody_needs() {
    let history = write_history(&[step(1, true), step(1, false)]).await;
    let mut json = history.table.metadata().to_json_value().unwrap();
    let schema = json["schemas"][0].clone();
    let mut with_more = |id: i32, name: &str, field: i32| {
        let mut schema = schema.clone();
        schema["schema-id"] = json!(id);
        let column = json!({"id": field, "name": name, "required": false, "type": "int"});
        schema["fields"].as_array_mut().unwrap().push(column);
        json["schemas"].as_array_mut().unwrap().push(schema);
    };
    // 1 is of the snapshot that goes; 2 has the source of a spec in use; 3 is the current one.
    with_more(1, "gone", 20);
    with_more(2, "source", 21);
    with_more(3, "now", 22);
    json["current-schema-id"] = json!(3);
    json["last-column-id"] = json!(22);
    json["snapshots"][0]["schema-id"] = json!(1);
    json["partition-specs"] = json!([
        {"spec-id": 0, "fields": [{"source-id": 21, "field-id": 1000, "name": "p", "transform": "void"}]},
        {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1001, "name": "q", "transform": "void"}]},
        {"spec-id": 2, "fields": []}
    ]);
    json["default-spec-id"] = json!(2);
    json["refs"] = main_at(2);
    json["current-snapshot-id"] = json!(2);
    let metadata = TableMetadata::from_json_value(&json).unwrap();
    let options = OpenOptions::new().storage(history.table.storage().clone());
    let location = history.table.metadata_location().to_string();
    let table = Table::from_metadata(Arc::new(metadata), &location, &options).unwrap();
    let mut action = expire().expire_older_than(150).clean_expired_metadata(true);
    let updates = action.updates(&table).await.unwrap();
    let expected = [
        TableUpdate::RemoveSnapshots(vec![SnapshotId(1)]),
        TableUpdate::RemovePartitionSpecs(vec![SpecId(1)]),
        TableUpdate::RemoveSchemas(vec![SchemaId(1)]),
    ];
    assert_eq!(updates, expected);
    // Without a snapshot that goes, too.
    let mut action = expire().clean_expired_metadata(true);
    let updates = action.updates(&table).await.unwrap();
    assert_eq!(updates, [TableUpdate::RemovePartitionSpecs(vec![SpecId(1)])]);
}
