//! What somebody sees who opens the tables, and whether every file of them is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::ident;
use super::prepared::Rows;
use super::rig::Rig;
use crate::IcebergTable;
use crate::catalog::Catalog;
use crate::error::ErrorKind;
use crate::expr::Predicate;
use crate::plan::{ScanRequest, plan_files};
use crate::spec::{ContentFile, SnapshotManifests};
use crate::table::Table;

/// A table, as far as the operations change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) rows: Vec<i64>,
    /// The data files that are read, with their delete files.
    files: BTreeSet<String>,
    columns: Vec<String>,
    pub(super) snapshots: usize,
}

/// The tables that there are.
pub(super) type State = BTreeMap<&'static str, Seen>;

/// What a look at the tables shows.
pub(super) struct Look {
    pub(super) state: State,
    pub(super) tables: BTreeMap<&'static str, Table>,
    /// Every file that the tables need.
    pub(super) needed: BTreeSet<Path>,
}

/// Opens the tables, reads all their metadata, and plans a scan.
///
/// # Errors
/// What is not as it must be.
pub(super) async fn look(
    rig: &Rig,
    catalog: &dyn Catalog,
    names: &[&'static str],
    rows: &Rows,
) -> Result<Look, String> {
    let mut look = Look { state: State::new(), tables: BTreeMap::new(), needed: BTreeSet::new() };
    let files = rig.files().await;
    for name in names {
        let table = match catalog.load_table(&ident(name)).await {
            Ok(table) => table,
            Err(e) if e.kind() == ErrorKind::NotFound => match catalog.table_exists(&ident(name)).await {
                Ok(false) => continue,
                _ => return Err(format!("`{name}` exists, but its metadata file does not: {e}")),
            },
            Err(e) => return Err(format!("`{name}` can't be loaded: {e}")),
        };
        let seen = see(&table, rows, &files, &mut look.needed).await;
        look.state.insert(*name, seen.map_err(|e| format!("`{name}`: {e}"))?);
        look.tables.insert(*name, table);
    }
    Ok(look)
}

pub(super) async fn see(
    table: &Table,
    rows: &Rows,
    files: &BTreeMap<Path, ObjectMeta>,
    needed: &mut BTreeSet<Path>,
) -> Result<Seen, String> {
    let metadata = table.metadata();
    let path = |file: &str| -> Result<Path, String> {
        let location = table.resolve(file).map_err(|e| e.to_string())?;
        location.object_path().map_err(|e| e.to_string())
    };
    // With their lengths, where they are known.
    let mut of_table: BTreeMap<Path, Option<i64>> = BTreeMap::new();
    of_table.insert(path(&table.metadata_location().to_string())?, None);
    for entry in &metadata.metadata_log {
        of_table.insert(path(&entry.metadata_file)?, None);
    }
    for snapshot in &metadata.snapshots {
        if let SnapshotManifests::List(list) = &snapshot.manifests {
            of_table.insert(path(list)?, None);
        }
        for manifest in table.manifest_list(snapshot).await.map_err(|e| e.to_string())?.iter() {
            let length = manifest.manifest_length;
            if of_table.insert(path(&manifest.manifest_path)?, Some(length)).is_some() {
                continue;
            }
            let manifest = table.manifest(manifest).await.map_err(|e| e.to_string())?;
            for entry in manifest.entries.iter().filter(|entry| entry.is_live()) {
                let file = &entry.data_file;
                of_table.insert(path(&file.file_path)?, Some(file.file_size_in_bytes));
            }
        }
    }
    for (path, length) in of_table {
        let Some(found) = files.get(&path) else { return Err(format!("file {path} is missing")) };
        if length.is_some_and(|length| u64::try_from(length) != Ok(found.size)) {
            return Err(format!("file {path} has {} bytes, not {length:?}", found.size));
        }
        needed.insert(path);
    }
    let mut seen = Seen {
        rows: Vec::new(),
        files: BTreeSet::new(),
        columns: metadata.current_schema().fields().iter().map(|f| f.name.clone()).collect(),
        snapshots: metadata.snapshots.len(),
    };
    let Some(snapshot) = metadata.current_snapshot() else { return Ok(seen) };
    let request = ScanRequest { schema: Arc::clone(metadata.current_schema()), filter: Predicate::True };
    let plan = plan_files(table, snapshot, &request).await.map_err(|e| e.to_string())?;
    for task in &plan.tasks {
        let deletes: Vec<&ContentFile> = task.deletes.iter().map(|delete| delete.file.as_ref()).collect();
        seen.rows.extend(rows.of(&task.data_file, &deletes)?);
        let deletes: Vec<String> = deletes.iter().map(|d| key(d)).collect();
        seen.files.insert(format!("{} without {deletes:?}", key(&task.data_file)));
    }
    seen.rows.sort_unstable();
    Ok(seen)
}

/// What tells a file, or a deletion vector in a file, from others.
pub(super) fn key(file: &ContentFile) -> String {
    format!("{} at {:?}", file.file_path, file.content_offset)
}

/// The rows of a table as a query finds them.
pub(super) async fn query(table: &Table) -> Result<Vec<i64>, String> {
    let context = SessionContext::new();
    let query = async {
        context.register_table("t", Arc::new(IcebergTable::try_new(table.clone())?))?;
        context.sql("SELECT id FROM t ORDER BY id").await?.collect().await
    };
    let batches = query.await.map_err(|e| format!("a query fails: {e}"))?;
    let ids = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
    Ok(ids.flat_map(|ids| ids.values().to_vec()).collect())
}
