//! What is there before a commit: tables, and files that were written for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};

use super::operations::Operation;
use super::rig::{Rig, Shot};
use super::state::key;
use super::{ident, rig};
use crate::arrow::to_arrow_schema;
use crate::catalog::{Catalog, TableCreation};
use crate::spec::{ContentFile, NestedField, PrimitiveType, Schema, SchemaId, SnapshotId};
use crate::table::Table;
use crate::transaction::{Action, Append, RowDelta};
use crate::write::{DataFileWriter, DeletionVectorWriter, PositionDeleteWriter, WriteOptions};

/// Which rows the files hold, and which positions are deleted by them.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: HashMap<String, Vec<i64>>,
    positions: HashMap<String, (String, Vec<u64>)>,
}

impl Rows {
    /// The rows of a data file that these delete files leave.
    ///
    /// # Errors
    /// For files that are not known.
    pub(super) fn of(&self, file: &ContentFile, deletes: &[&ContentFile]) -> Result<Vec<i64>, String> {
        let unknown = |file: &ContentFile| format!("file {} is not known", key(file));
        let rows = self.rows.get(&key(file)).ok_or_else(|| unknown(file))?;
        let mut gone = BTreeSet::new();
        for delete in deletes {
            let (of, positions) = self.positions.get(&key(delete)).ok_or_else(|| unknown(delete))?;
            if *of == file.file_path {
                gone.extend(positions.iter().copied());
            }
        }
        let left = rows.iter().enumerate().filter(|(i, _)| !gone.contains(&(*i as u64)));
        Ok(left.map(|(_, row)| *row).collect())
    }

    pub(super) fn add(&mut self, file: &ContentFile, rows: &[i64]) {
        self.rows.insert(key(file), rows.to_vec());
    }
}

/// The tables before a commit, and what it adds.
pub(super) struct Prepared {
    /// The data files by name: `a` and `b` are in the table, the others can be added.
    pub(super) files: BTreeMap<&'static str, ContentFile>,
    /// Of `b`, in the table.
    pub(super) old_delete: Option<ContentFile>,
    /// Of `a` and `b`; that of `b` deletes what the old one does.
    pub(super) deletes: Vec<ContentFile>,
    /// The snapshot that all of this was worked out from.
    pub(super) snapshot: Option<SnapshotId>,
    pub(super) rows: Rows,
    pub(super) start: Shot,
    /// The same with a commit of somebody else.
    pub(super) overtaken: Shot,
}

/// The schema and properties of the tables.
pub(super) fn creation(version: u8) -> TableCreation {
    let id = NestedField::optional(1, "id", PrimitiveType::Long);
    let mut creation = TableCreation::new(Schema::new(SchemaId(0), vec![id], Vec::new()).unwrap());
    for (name, value) in [
        ("format-version", version.to_string().as_str()),
        // Nobody waits for anything.
        ("commit.retry.num-retries", "4"),
        ("commit.retry.min-wait-ms", "0"),
        ("commit.retry.max-wait-ms", "0"),
        ("commit.status-check.num-retries", "1"),
        ("commit.status-check.min-wait-ms", "0"),
        ("commit.status-check.max-wait-ms", "0"),
        ("write.manifest.compression-codec", "none"),
        // Each commit merges manifests and removes a metadata file.
        ("commit.manifest.min-count-to-merge", "2"),
        ("write.metadata.previous-versions-max", "2"),
        ("write.metadata.delete-after-commit.enabled", "true"),
    ] {
        creation.properties.insert(name.to_owned(), value.to_owned());
    }
    creation
}

/// Writes a data file with these rows.
pub(super) async fn data_file(table: &Table, rows: &[i64]) -> ContentFile {
    let schema = Arc::new(to_arrow_schema(table.metadata().current_schema()).unwrap());
    let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(rows.to_vec()))]).unwrap();
    let mut writer = DataFileWriter::new(table, WriteOptions::default()).unwrap();
    writer.write(&batch).await.unwrap();
    writer.close().await.unwrap().remove(0)
}

/// Writes a delete file, or a deletion vector, of one data file.
async fn delete_file(table: &Table, data: &ContentFile, positions: &[u64]) -> ContentFile {
    let options = WriteOptions::default();
    let written = match table.metadata().format_version {
        2 => {
            let mut writer = PositionDeleteWriter::new(table, &options).unwrap();
            writer.delete(data, positions.iter().copied()).unwrap();
            writer.close().await
        }
        _ => {
            let mut writer = DeletionVectorWriter::new(table, &options).unwrap();
            writer.delete(data, positions.iter().copied()).unwrap();
            writer.close().await
        }
    };
    written.unwrap().remove(0)
}

async fn commit(rig: &Rig, table: &Table, action: impl Action + 'static) -> Table {
    table.transaction().apply(action).commit(&*rig.catalog).await.unwrap()
}

impl Prepared {
    pub(super) async fn new(rig: &Rig, operation: Operation) -> Self {
        rig.calm();
        let catalog = rig.catalog.as_ref();
        let version = operation.format_version();
        let mut this = Self {
            files: BTreeMap::new(),
            old_delete: None,
            deletes: Vec::new(),
            snapshot: None,
            rows: Rows::default(),
            start: rig.shot().await,
            overtaken: rig.shot().await,
        };
        let mut table = match operation {
            Operation::CreateStaged => catalog.stage_table(&ident("t"), creation(version)).await.unwrap(),
            _ => catalog.create_table(&ident("t"), creation(version)).await.unwrap(),
        };
        for (name, rows) in [
            ("a", [1, 2, 3]),
            ("b", [4, 5, 6]),
            ("c", [7, 8, 9]),
            ("d", [10, 11, 12]),
            ("a again", [1, 2, 3]),
            ("rival's", [100, 101, 102]),
            ("next", [200, 201, 202]),
        ] {
            let file = data_file(&table, &rows).await;
            this.rows.add(&file, &rows);
            this.files.insert(name, file);
        }
        if operation == Operation::CreateStaged {
            this.start = rig.shot().await;
            let theirs = catalog.create_table(&ident("t"), creation(version)).await.unwrap();
            commit(rig, &theirs, Append::fast().files([this.file("rival's")])).await;
            this.overtaken = rig.shot().await;
            return this;
        }
        table = commit(rig, &table, Append::fast().files([this.file("a")])).await;
        table = commit(rig, &table, Append::fast().files([this.file("b")])).await;
        let old = this.delete(&table, "b", &[0]).await;
        table = commit(rig, &table, RowDelta::new().add_deletes([old.clone()])).await;
        this.old_delete = Some(old);
        this.deletes = vec![this.delete(&table, "a", &[1]).await, this.delete(&table, "b", &[0, 2]).await];
        this.snapshot = table.metadata().current_snapshot_id;
        if operation == Operation::TwoTables {
            let other = catalog.create_table(&ident(rig::TABLES[1]), creation(version)).await.unwrap();
            commit(rig, &other, Append::fast().files([this.file("b")])).await;
        }
        this.start = rig.shot().await;
        commit(rig, &table, Append::fast().files([this.file("rival's")])).await;
        this.overtaken = rig.shot().await;
        this
    }

    async fn delete(&mut self, table: &Table, data: &str, positions: &[u64]) -> ContentFile {
        let data = self.file(data);
        let file = delete_file(table, &data, positions).await;
        self.rows.positions.insert(key(&file), (data.file_path, positions.to_vec()));
        file
    }

    pub(super) fn file(&self, name: &str) -> ContentFile {
        self.files[name].clone()
    }
}
