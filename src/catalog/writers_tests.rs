//! Many writers on one table: every row is there exactly once, and nothing is left over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use uuid::Uuid;

use super::{Catalog, FilesystemCatalog, Namespace, TableCreation, TableIdent};
use crate::arrow::to_arrow_schema;
use crate::spec::{
    ContentFile, ContentType, FileFormat, Metrics, NestedField, PrimitiveType, Schema, SchemaId,
    SnapshotManifests, Type,
};
use crate::table::{OpenOptions, Table};
use crate::transaction::{Append, UpdateProperties};
use crate::{ErrorKind, IcebergTable};

const WRITERS: i64 = 16;
const COMMITS: i64 = 25;
const RETRIES: &str = "commit.retry.num-retries";

/// Writes a data file of one row.
async fn data_file(table: &Table, id: i64) -> ContentFile {
    let schema = Arc::new(to_arrow_schema(table.metadata().current_schema()).unwrap());
    let batch =
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![id]))]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let file_path = format!("{}/data/{}.parquet", table.metadata().location, Uuid::new_v4());
    let size = i64::try_from(bytes.len()).unwrap();
    table.storage().write(&table.resolve(&file_path).unwrap(), bytes.into()).await.unwrap();
    ContentFile {
        content: ContentType::Data,
        file_path,
        file_format: FileFormat::Parquet,
        spec_id: table.metadata().default_spec_id,
        partition: Default::default(),
        record_count: 1,
        file_size_in_bytes: size,
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

/// Appends a row to a table with one column, `id`.
#[cfg(any(feature = "catalog-sql", feature = "catalog-rest"))]
pub(crate) async fn append_row(catalog: &Arc<dyn Catalog>, ident: &TableIdent, id: i64) {
    let table = catalog.load_table(ident).await.unwrap();
    let file = data_file(&table, id).await;
    table.transaction().apply(Append::merging().files([file])).commit(catalog.as_ref()).await.unwrap();
}

/// All files that the table's metadata names, canonically spelled.
async fn reachable(table: &Table) -> BTreeSet<String> {
    let mut paths: BTreeSet<String> =
        table.metadata().metadata_log.iter().map(|entry| entry.metadata_file.clone()).collect();
    for snapshot in &table.metadata().snapshots {
        if let SnapshotManifests::List(list) = &snapshot.manifests {
            paths.insert(list.clone());
        }
        for manifest in table.manifest_list(snapshot).await.unwrap().iter() {
            if paths.insert(manifest.manifest_path.clone()) {
                let entries = table.manifest(manifest).await.unwrap();
                paths.extend(entries.entries.iter().map(|entry| entry.data_file.file_path.clone()));
            }
        }
    }
    let mut found: BTreeSet<String> =
        paths.iter().map(|path| table.resolve(path).unwrap().to_string()).collect();
    found.insert(table.metadata_location().to_string());
    found
}

/// Which files of a table are checked to be all needed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Checked {
    All,
    /// The server writes the metadata files, and leaves behind what it does not need.
    AllButMetadata,
    /// The directory can't be listed.
    None,
}

/// Sixteen writers append twenty-five times each. The first time all but one of them must give up,
/// and they try again later.
pub(crate) async fn sixteen_writers(catalog: Arc<dyn Catalog>, checked: Checked) {
    let namespace = Namespace::new([format!("w_{}", Uuid::new_v4().simple())]).unwrap();
    catalog.create_namespace(&namespace, BTreeMap::new()).await.unwrap();
    let ident = TableIdent::new(namespace, "t").unwrap();
    let fields = vec![NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long))];
    let mut creation = TableCreation::new(Schema::new(SchemaId(0), fields, Vec::new()).unwrap());
    for (name, value) in [
        (RETRIES, "0"),
        ("commit.retry.min-wait-ms", "10"),
        ("commit.retry.max-wait-ms", "1000"),
        ("write.metadata.previous-versions-max", "20"),
        ("write.metadata.delete-after-commit.enabled", "true"),
    ] {
        creation.properties.insert(name.to_owned(), value.to_owned());
    }
    let table = catalog.create_table(&ident, creation).await.unwrap();
    // They have read the same table, so only one of them can commit.
    let first = |writer: i64| {
        let (catalog, table) = (Arc::clone(&catalog), table.clone());
        tokio::spawn(async move {
            let file = data_file(&table, writer * COMMITS).await;
            let append = table.transaction().apply(Append::merging().files([file.clone()]));
            match append.commit(catalog.as_ref()).await {
                Ok(_) => None,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::CommitConflict, "{e}");
                    Some(file)
                }
            }
        })
    };
    let mut refused = Vec::new();
    for done in (0..WRITERS).map(first).collect::<Vec<_>>() {
        refused.push(done.await.unwrap());
    }
    assert_eq!(refused.iter().filter(|file| file.is_none()).count(), 1);
    let table = catalog.load_table(&ident).await.unwrap();
    let patient = UpdateProperties::new().set(RETRIES, "1000");
    let table = table.transaction().apply(patient).commit(catalog.as_ref()).await.unwrap();

    let writer = |(writer, refused): (i64, Option<ContentFile>)| {
        let (catalog, mut table) = (Arc::clone(&catalog), table.clone());
        tokio::spawn(async move {
            let mut files: Vec<ContentFile> = refused.into_iter().collect();
            for commit in 1..COMMITS {
                files.push(data_file(&table, writer * COMMITS + commit).await);
            }
            for file in files {
                let append = table.transaction().apply(Append::merging().files([file]));
                table = append.commit(catalog.as_ref()).await.unwrap();
            }
        })
    };
    for done in (0..WRITERS).zip(refused).map(writer).collect::<Vec<_>>() {
        done.await.unwrap();
    }

    let table = catalog.load_table(&ident).await.unwrap();
    assert_eq!(i64::try_from(table.metadata().snapshots.len()).unwrap(), WRITERS * COMMITS);
    let context = SessionContext::new();
    context.register_table("t", Arc::new(IcebergTable::try_new(table.clone()).unwrap())).unwrap();
    let sql = "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t";
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    let row: Vec<i64> =
        batches[0].columns().iter().map(|column| column.as_primitive::<Int64Type>().value(0)).collect();
    assert_eq!(row, [WRITERS * COMMITS, WRITERS * COMMITS, 0, WRITERS * COMMITS - 1]);

    if checked == Checked::None {
        return;
    }
    let directory = table.resolve(&table.metadata().location).unwrap();
    let listed: Vec<_> = table.storage().list_files(&directory).unwrap().try_collect().await.unwrap();
    let is_checked = |file: &String| {
        let is_left_to_server = checked == Checked::AllButMetadata && file.ends_with(".metadata.json");
        !is_left_to_server && !file.ends_with("/version-hint.text")
    };
    let listed = listed.into_iter().map(|(location, _)| location.to_string());
    let files: BTreeSet<String> = listed.filter(is_checked).collect();
    assert!(files.len() > usize::try_from(WRITERS * COMMITS).unwrap());
    let needed: BTreeSet<String> = reachable(&table).await.into_iter().filter(is_checked).collect();
    assert_eq!(files, needed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_a_filesystem() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display().to_string();
    let catalog = FilesystemCatalog::new("fs", &root, OpenOptions::new()).unwrap();
    sixteen_writers(Arc::new(catalog), Checked::All).await;
}

#[cfg(feature = "catalog-sql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display().to_string();
    let properties = [
        ("uri".to_owned(), format!("sqlite:///{root}/catalog.db")),
        ("warehouse".to_owned(), format!("{root}/wh")),
    ];
    let catalog = super::SqlCatalog::connect("c", properties.into()).await.unwrap();
    sixteen_writers(Arc::new(catalog), Checked::All).await;
}

#[cfg(feature = "catalog-rest")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_a_rest_server() {
    let server = super::rest_server::Server::start(Default::default()).await;
    let properties = [("uri".to_owned(), server.uri.clone())].into();
    let catalog = super::RestCatalog::connect("rest", properties).await.unwrap();
    sixteen_writers(Arc::new(catalog), Checked::All).await;
}

/// In the database that an environment variable names.
#[cfg(feature = "catalog-sql")]
async fn on_server(variable: &str) {
    let Some(uri) = crate::interchange::engine(variable) else { return };
    let dir = tempfile::tempdir().unwrap();
    let warehouse = dir.path().display().to_string();
    let properties = [("uri".to_owned(), uri), ("warehouse".to_owned(), warehouse)];
    let catalog = super::SqlCatalog::connect("icefloe_test", properties.into()).await.unwrap();
    sixteen_writers(Arc::new(catalog), Checked::All).await;
}

#[cfg(feature = "catalog-sql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_postgres() {
    on_server("ICEFLOE_TEST_POSTGRES").await;
}

#[cfg(feature = "catalog-sql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_mysql() {
    on_server("ICEFLOE_TEST_MYSQL").await;
}
