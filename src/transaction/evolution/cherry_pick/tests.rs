use std::collections::BTreeSet;

use object_store::memory::InMemory;
use serde_json::json;

use super::*;
use crate::spec::{ContentType, FileFormat, Metrics, Value};
use crate::storage::{Location, Storage, StorageProperties};
use crate::table::OpenOptions;
use crate::transaction::evolution::test_tables;
use crate::transaction::settings::now_ms;
use crate::transaction::{Append, DeleteFiles, ReplacePartitions};

/// An empty table, partitioned by `name`.
fn table(format_version: u8) -> Table {
    let mut json = test_tables::json(format_version);
    json["partition-specs"] = json!([{"spec-id": 0, "fields": [
        {"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}
    ]}]);
    json["last-partition-id"] = json!(1000);
    json["properties"] = json!({"write.wap.enabled": "true"});
    let metadata = TableMetadata::from_json_value(&json).unwrap();
    let storage = Storage::new(StorageProperties::new());
    let storage = storage.with_store("memory://bucket", Arc::new(InMemory::new())).unwrap();
    let location = "memory://bucket/table/metadata/v1.metadata.json";
    Table::from_metadata(Arc::new(metadata), location, &OpenOptions::new().storage(storage)).unwrap()
}

fn file(path: &str, partition: &str) -> ContentFile {
    ContentFile {
        content: ContentType::Data,
        file_path: format!("memory://bucket/table/data/{path}"),
        file_format: FileFormat::Parquet,
        spec_id: SpecId(0),
        partition: vec![Some(Value::String(partition.to_owned()))],
        record_count: 10,
        file_size_in_bytes: 100,
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

async fn try_step(table: &Table, action: &mut impl Action) -> Result<Table> {
    let updates = action.updates(table).await?;
    let metadata = TableMetadata::apply(Some(table.metadata()), &updates, now_ms())?;
    let after = table.with_metadata(Arc::new(metadata))?;
    action.committed(&after).await;
    Ok(after)
}

async fn step(table: &Table, mut action: impl Action) -> Table {
    try_step(table, &mut action).await.unwrap()
}

async fn refusal(table: &Table, id: SnapshotId) -> String {
    let e = try_step(table, &mut CherryPick::new(id)).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ValidationFailed, "{e}");
    e.to_string()
}

fn append(path: &str, partition: &str) -> Append {
    Append::fast().files([file(path, partition)])
}

fn last(table: &Table) -> SnapshotId {
    table.metadata().snapshots.last().unwrap().snapshot_id
}

/// The names of the live files.
async fn files(table: &Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Some(snapshot) = table.metadata().current_snapshot() {
        for manifest in table.manifest_list(snapshot).await.unwrap().iter() {
            for entry in &table.manifest(manifest).await.unwrap().entries {
                if entry.is_live() {
                    found.insert(entry.data_file.file_path.rsplit('/').next().unwrap().to_owned());
                }
            }
        }
    }
    found
}

async fn assert_files(table: &Table, expected: &[&str]) {
    assert_eq!(files(table).await, expected.iter().map(|f| (*f).to_owned()).collect());
}

#[tokio::test]
async fn what_is_based_on_the_current_snapshot_becomes_it() {
    for version in 1..=3 {
        let empty = table(version);
        let staged = step(&empty, append("a", "x").stage_only()).await;
        let picked = step(&staged, CherryPick::new(last(&staged))).await;
        assert_eq!(picked.metadata().current_snapshot_id, Some(last(&staged)));
        let staged = step(&picked, append("b", "x").stage_only()).await;
        let picked = step(&staged, CherryPick::new(last(&staged))).await;
        assert_eq!(picked.metadata().snapshots.len(), 2);
        assert_files(&picked, &["a", "b"]).await;
        // So may what could not be made again.
        let staged = step(&picked, DeleteFiles::new().files([&file("a", "x")]).stage_only()).await;
        let picked = step(&staged, CherryPick::new(last(&staged))).await;
        assert_files(&picked, &["b"]).await;
    }
}

#[tokio::test]
async fn appends_are_made_again_once() {
    for version in 1..=3 {
        let base = step(&table(version), append("a", "x")).await;
        let staged = step(&base, append("b", "x").stage_only()).await;
        let id = last(&staged);
        let other = step(&staged, append("c", "x")).await;
        let picked = step(&other, CherryPick::new(id)).await;
        assert_files(&picked, &["a", "b", "c"]).await;
        let summary = &picked.metadata().current_snapshot().unwrap().summary;
        assert_eq!(summary.get("source-snapshot-id"), Some(&id.to_string()));
        assert_eq!(summary.get("operation").map(String::as_str), Some("append"));
        assert_eq!(summary.get("added-data-files").map(String::as_str), Some("1"));
        assert!(refusal(&picked, id).await.contains("was picked by snapshot"));
        assert!(refusal(&picked, last(&picked)).await.contains("part of the table's history already"));
    }
}

#[tokio::test]
async fn a_wap_id_is_published_once() {
    let base = step(&table(2), append("a", "x")).await;
    let staged = step(&base, append("b", "x").wap_id("job-1")).await;
    let first = last(&staged);
    let staged = step(&staged, append("c", "x").wap_id("job-1")).await;
    let second = last(&staged);
    let other = step(&staged, append("d", "x")).await;
    let picked = step(&other, CherryPick::new(first)).await;
    let summary = &picked.metadata().current_snapshot().unwrap().summary;
    assert_eq!(summary.get("published-wap-id").map(String::as_str), Some("job-1"));
    assert!(refusal(&picked, second).await.contains("`job-1` was published by snapshot"));
    // Also where the staged snapshot itself became the current one.
    let forward = step(&staged, CherryPick::new(first)).await;
    assert!(refusal(&forward, second).await.contains("`job-1` was published by snapshot"));
}

#[tokio::test]
async fn an_overwrite_is_made_again_if_nobody_came_in_between() {
    let base = step(&table(2), append("a", "x")).await;
    let base = step(&base, append("b", "y")).await;
    let staged = step(&base, ReplacePartitions::new().files([file("a2", "x")]).stage_only()).await;
    let id = last(&staged);
    let elsewhere = step(&staged, append("b2", "y")).await;
    let picked = step(&elsewhere, CherryPick::new(id)).await;
    assert_files(&picked, &["a2", "b", "b2"]).await;
    assert_eq!(picked.metadata().current_snapshot().unwrap().operation(), Some("overwrite"));

    let there = step(&staged, append("a3", "x")).await;
    assert!(refusal(&there, id).await.contains("added file memory://bucket/table/data/a3"));
    // What it removes is gone already.
    let gone = step(&staged, DeleteFiles::new().files([&file("a", "x")])).await;
    assert!(!refusal(&gone, id).await.is_empty());
    // What it was made from was rolled back.
    let first = base.metadata().snapshots[0].snapshot_id;
    let back = step(&staged, crate::transaction::ManageSnapshots::new().rollback_to(first)).await;
    assert!(refusal(&back, id).await.contains("not part of the table's history"));
}

#[tokio::test]
async fn nothing_else_can_be_picked() {
    let base = step(&table(2), append("a", "x")).await;
    let staged = step(&base, DeleteFiles::new().files([&file("a", "x")]).stage_only()).await;
    let id = last(&staged);
    let other = step(&staged, append("b", "x")).await;
    assert!(refusal(&other, id).await.contains("but `delete`"));
    let e = try_step(&base, &mut CherryPick::new(SnapshotId(5))).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn another_attempt_is_made_on_what_others_did() {
    let base = step(&table(2), append("a", "x")).await;
    let staged = step(&base, append("b", "x").stage_only()).await;
    let id = last(&staged);
    let mut pick = CherryPick::new(id);
    let first = step(&staged, append("c", "x")).await;
    pick.updates(&first).await.unwrap();
    let second = step(&first, append("d", "x")).await;
    let picked = try_step(&second, &mut pick).await.unwrap();
    assert_files(&picked, &["a", "b", "c", "d"]).await;
    // Rolled back to where it began, it is a fast-forward: the attempt before leaves no file.
    let directory = Location::parse("memory://bucket/table/metadata").unwrap();
    let before = staged.storage().list_dir(&directory).await.unwrap();
    let mut pick = CherryPick::new(id);
    pick.updates(&second).await.unwrap();
    let forward = try_step(&staged, &mut pick).await.unwrap();
    assert_eq!(forward.metadata().current_snapshot_id, Some(id));
    assert_eq!(staged.storage().list_dir(&directory).await.unwrap(), before);
}
