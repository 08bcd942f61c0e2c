//! Tables as a whole, on those in `testdata`.

use std::path::PathBuf;

use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, PutPayload};

use super::*;
use crate::ErrorKind;
use crate::spec::{
    ManifestFile, NestedField, PartitionField, PartitionSpec, PrimitiveType, Schema, SchemaId, Snapshot,
    SnapshotManifests, Transform, Type,
};
use crate::storage::StorageProperties;
use crate::storage::fault::FaultStore;

const TABLES: [&str; 2] = ["part_special_chars", "copy_types"];

fn testdata(table: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/tables").join(table)
}

fn moved() -> OpenOptions {
    OpenOptions::new().allow_moved_paths(true)
}

async fn open(table: &str) -> Table {
    Table::open(testdata(table).to_str().unwrap(), &moved()).await.unwrap()
}

fn current(table: &Table) -> Arc<Snapshot> {
    table.metadata().current_snapshot().unwrap().clone()
}

/// The number of live files, each of which was found with the size that its manifest says.
async fn count_files(table: &Table) -> usize {
    let mut files = 0;
    for manifest in table.manifest_list(&current(table)).await.unwrap().iter() {
        for entry in table.manifest(manifest).await.unwrap().entries.iter().filter(|e| e.is_live()) {
            let (_, store, path) = table.store(&entry.data_file.file_path).unwrap();
            let size = store.head(&path).await.unwrap().size;
            assert_eq!(i64::try_from(size).unwrap(), entry.data_file.file_size_in_bytes);
            files += 1;
        }
    }
    files
}

/// Copies a table of `testdata` into a store that lies in memory.
async fn upload(table: &str, store: &dyn ObjectStore, prefix: &str) {
    let root = testdata(table);
    let mut pending = vec![root.clone()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
                continue;
            }
            let name = entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let path = Path::parse(format!("{prefix}/{name}")).unwrap();
            store.put(&path, PutPayload::from(std::fs::read(entry.path()).unwrap())).await.unwrap();
        }
    }
}

#[tokio::test]
async fn moved_tables_are_read_whole_however_they_are_spelled() {
    for (name, files) in TABLES.into_iter().zip([26, 1]) {
        let dir = testdata(name).display().to_string();
        let metadata_file = open(name).await.metadata_location().to_string();
        for url in
            [dir.clone(), format!("{dir}/"), format!("file:{dir}"), format!("file://{dir}"), metadata_file]
        {
            let table = Table::open(&url, &moved()).await.unwrap();
            assert_eq!(count_files(&table).await, files, "{url}");
        }
    }
}

#[tokio::test]
async fn a_table_can_move_to_another_store() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    upload("part_special_chars", store.as_ref(), "wh/t").await;
    let storage = Storage::new(StorageProperties::new()).with_store("s3://b", store).unwrap();
    for url in ["s3://b/wh/t", "s3a://b/wh/t/"] {
        let table = Table::open(url, &moved().storage(storage.clone())).await.unwrap();
        assert_eq!(count_files(&table).await, 26);
        // It can't name the local files that its metadata was written about, unless they moved.
        let stays = Table::open(url, &OpenOptions::new().storage(storage.clone())).await.unwrap();
        let e = stays.manifest_list(&current(&stays)).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("/tmp/fixtures/"), "{e}");
    }
}

#[tokio::test]
async fn paths_are_used_as_recorded_unless_they_may_have_moved() {
    let table = Table::open(testdata("copy_types").to_str().unwrap(), &OpenOptions::new()).await.unwrap();
    let recorded = table.metadata().location.clone();
    let file = table.resolve(&format!("{recorded}/data/f")).unwrap();
    assert_eq!(file, Location::parse(&format!("{recorded}/data/f")).unwrap());
    let e =
        Table::open(testdata("copy_types").join("data/x.metadata.json").to_str().unwrap(), &moved()).await;
    assert_eq!(e.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn decoded_metadata_is_read_once_and_shared() {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    upload("part_special_chars", memory.as_ref(), "t").await;
    let store = Arc::new(FaultStore::new(memory));
    let storage = Storage::new(StorageProperties::new()).with_store("gs://b", store.clone()).unwrap();
    let options = moved().storage(storage).cache(Arc::new(MetadataCache::default()));
    let first = Table::open("gs://b/t", &options).await.unwrap();
    let list = first.manifest_list(&current(&first)).await.unwrap();
    let manifest = first.manifest(&list[0]).await.unwrap();
    assert!(first.cache().size().await > 0);
    let second = Table::open("gs://b/t", &options).await.unwrap();
    let calls = store.calls();
    for table in [&first, &second] {
        assert!(Arc::ptr_eq(&table.manifest_list(&current(table)).await.unwrap(), &list));
        assert!(Arc::ptr_eq(&table.manifest(&list[0]).await.unwrap(), &manifest));
    }
    assert_eq!(store.calls(), calls);
    // What its entries inherit is part of what it is.
    let other = ManifestFile { first_row_id: Some(7), ..list[0].clone() };
    assert!(!Arc::ptr_eq(&first.manifest(&other).await.unwrap(), &manifest));
    // A failure is not kept.
    first.cache().clear();
    store.fail_after(0);
    let e = first.manifest(&list[0]).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.to_string().contains(&list[0].manifest_path), "{e}");
    assert!(first.manifest(&list[0]).await.is_ok());
}

#[tokio::test]
async fn missing_and_broken_files_are_named() {
    let table = open("part_special_chars").await;
    let list = table.manifest_list(&current(&table)).await.unwrap();

    let missing = ManifestFile {
        manifest_path: format!("{}/metadata/gone.avro", table.metadata().location),
        ..list[0].clone()
    };
    let e = table.manifest(&missing).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains(table.name()) && e.to_string().contains("gone.avro"), "{e}");

    let cut = ManifestFile { manifest_length: list[0].manifest_length + 1, ..list[0].clone() };
    table.cache().clear();
    let e = table.manifest(&cut).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DataInvalid);
    assert!(e.to_string().contains(&cut.manifest_path), "{e}");

    let unknown_spec = ManifestFile { partition_spec_id: SpecId(77), ..list[0].clone() };
    let e = table.manifest(&unknown_spec).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DataInvalid);
    assert!(e.to_string().contains("77"), "{e}");
    assert_eq!(table.partition_type(SpecId(77)).unwrap_err().kind(), ErrorKind::DataInvalid);

    let gone = format!("{}/metadata/snap-gone.avro", table.metadata().location);
    let snapshot = Snapshot { manifests: SnapshotManifests::List(gone), ..(*current(&table)).clone() };
    let e = table.manifest_list(&snapshot).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("snap-gone.avro") && e.to_string().contains(table.name()), "{e}");

    for key_id in [None, Some("k".to_owned())] {
        let encrypted = ManifestFile { key_metadata: Some(vec![1]), ..list[0].clone() };
        let kind = match &key_id {
            None => table.manifest(&encrypted).await.unwrap_err().kind(),
            Some(_) => {
                table.manifest_list(&Snapshot { key_id, ..snapshot.clone() }).await.unwrap_err().kind()
            }
        };
        assert_eq!(kind, ErrorKind::Unsupported);
    }
}

#[tokio::test]
async fn broken_metadata_names_its_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("metadata")).unwrap();
    for broken in [&b"{"[..], b"", b"\x1f\x8b", b"[]", b"{\"format-version\": \"x\"}"] {
        std::fs::write(dir.path().join("metadata/v1.metadata.json"), broken).unwrap();
        let e = Table::open(dir.path().to_str().unwrap(), &OpenOptions::new()).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::DataInvalid);
        assert!(e.to_string().contains("v1.metadata.json"), "{e}");
    }
    let e = Table::open(dir.path().join("nowhere").to_str().unwrap(), &OpenOptions::new().name("db.t"))
        .await
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("db.t") && e.to_string().contains("nowhere"), "{e}");
    let json = dir.path().join("v1.metadata.json");
    std::fs::copy(
        open("copy_types").await.metadata_location().to_string().trim_start_matches("file://"),
        &json,
    )
    .unwrap();
    let e = Table::open(json.to_str().unwrap(), &moved()).await.unwrap_err();
    assert!(e.to_string().contains("allow_moved_paths"), "{e}");
    assert!(Table::open(json.to_str().unwrap(), &OpenOptions::new()).await.is_ok());
}

#[tokio::test]
async fn a_refresh_sees_the_next_version() {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    upload("part_special_chars", memory.as_ref(), "t").await;
    let storage = Storage::new(StorageProperties::new()).with_store("s3://b", Arc::clone(&memory)).unwrap();
    let table = Table::open("s3://b/t", &moved().storage(storage).name("db.t")).await.unwrap();
    assert_eq!(table.metadata_location().file_name(), "v2.metadata.json");
    let copy = memory.get(&"t/metadata/v2.metadata.json".into()).await.unwrap().bytes().await.unwrap();
    memory.put(&"t/metadata/v3.metadata.json".into(), copy.into()).await.unwrap();
    let fresh = table.refresh().await.unwrap();
    assert_eq!(fresh.metadata_location().file_name(), "v3.metadata.json");
    assert_eq!(fresh.name(), "db.t");
    assert!(Arc::ptr_eq(fresh.cache(), table.cache()));
    assert_eq!(count_files(&fresh).await, 26);
}

#[tokio::test]
async fn snapshots_without_a_manifest_list() {
    let table = open("part_special_chars").await;
    let list = table.manifest_list(&current(&table)).await.unwrap();
    let paths = list.iter().map(|m| m.manifest_path.clone()).collect();
    let inline = Snapshot { manifests: SnapshotManifests::Inline(paths), ..(*current(&table)).clone() };
    let described = table.manifest_list(&inline).await.unwrap();
    for (found, recorded) in described.iter().zip(list.iter()) {
        assert_eq!(found.manifest_path, recorded.manifest_path);
        assert_eq!(found.manifest_length, recorded.manifest_length);
        assert_eq!(found.partition_spec_id, recorded.partition_spec_id);
        let entries = |m: Arc<crate::spec::Manifest>| {
            m.entries.iter().map(|e| e.data_file.file_path.clone()).collect::<Vec<_>>()
        };
        let (of_found, of_recorded) =
            (table.manifest(found).await.unwrap(), table.manifest(recorded).await.unwrap());
        assert_eq!(entries(of_found), entries(of_recorded));
    }
    assert_eq!(described.len(), list.len());
    let gone = SnapshotManifests::Inline(vec![format!("{}/metadata/gone.avro", table.metadata().location)]);
    let e = table.manifest_list(&Snapshot { manifests: gone, ..inline }).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("gone.avro"), "{e}");
}

#[tokio::test]
async fn partition_types_outlive_their_columns() {
    let table = open("part_special_chars").await;
    let column = |id, name: &str, field_type| NestedField::optional(id, name, Type::Primitive(field_type));
    let schema =
        |id, fields| (SchemaId(id), Arc::new(Schema::new(SchemaId(id), fields, Vec::new()).unwrap()));
    let mut metadata = (**table.metadata()).clone();
    // Column 1 was promoted and then dropped; 2 was promoted; 9 never was there.
    metadata.schemas = [
        schema(0, vec![column(1, "a", PrimitiveType::Int), column(2, "b", PrimitiveType::Int)]),
        schema(1, vec![column(1, "a", PrimitiveType::Long), column(2, "b", PrimitiveType::Int)]),
        schema(2, vec![column(2, "b", PrimitiveType::Long)]),
    ]
    .into();
    metadata.current_schema_id = SchemaId(2);
    let field = |source: i32, id: i32, transform| PartitionField {
        source_ids: vec![source.into()],
        field_id: id.into(),
        name: format!("p{id}"),
        transform,
        extra: Default::default(),
    };
    let fields = vec![
        field(1, 1000, Transform::Identity),
        field(2, 1001, Transform::Identity),
        field(9, 1002, Transform::Identity),
        field(1, 1003, Transform::Bucket(16)),
    ];
    metadata.partition_specs.insert(SpecId(5), Arc::new(PartitionSpec { spec_id: SpecId(5), fields }));
    let location = table.metadata_location().to_string();
    let changed = Table::from_metadata(Arc::new(metadata), &location, &moved()).unwrap();
    let types: Vec<_> =
        changed.partition_type(SpecId(5)).unwrap().fields.iter().map(|f| f.field_type.clone()).collect();
    let expected = [PrimitiveType::Long, PrimitiveType::Long, PrimitiveType::Unknown, PrimitiveType::Int];
    assert_eq!(types, expected.map(Type::Primitive));
}

#[tokio::test]
async fn debug_shows_no_secrets() {
    let properties: StorageProperties = [("s3.secret-access-key", "hunter2")].into_iter().collect();
    let options = moved().properties(properties);
    let table = Table::open(testdata("copy_types").to_str().unwrap(), &options).await.unwrap();
    let text = format!("{table:?} {options:?}");
    assert!(!text.contains("hunter2") && text.contains("copy_types"), "{text}");
}
