//! `manifests` and `all_manifests`.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

use super::columns::{Column, Columns};
use super::contents::{Contents, Part, Wanted, batches};
use super::entries::manifest_lists;
use crate::error::Result;
use crate::spec::{
    FieldSummary, ListType, ManifestContent, ManifestFile, NestedField, PrimitiveType, Snapshot, SnapshotId,
    StructType, Transform, Type, Value, partition_text,
};
use crate::table::Table;

/// A manifest and the snapshot whose list it is in.
#[derive(Debug, Clone)]
struct Row {
    manifest: ManifestFile,
    reference: SnapshotId,
}

/// A table of manifests.
#[derive(Debug)]
pub(super) struct Manifests {
    table: Table,
    snapshots: Vec<Arc<Snapshot>>,
    columns: Columns<Row>,
}

impl Manifests {
    /// The manifests of a snapshot.
    pub(super) fn of_snapshot(table: &Table, snapshot: Option<Arc<Snapshot>>) -> Result<Self> {
        let columns = Columns::try_new(columns(table))?;
        Ok(Self { table: table.clone(), snapshots: snapshot.into_iter().collect(), columns })
    }

    /// The manifests of each snapshot.
    pub(super) fn all(table: &Table) -> Result<Self> {
        let mut columns = columns(table);
        columns.push(Column::long(18, "reference_snapshot_id", |r: &Row| r.reference.0));
        columns.push(Column::new(
            NestedField::optional(19, "key_metadata", PrimitiveType::Binary),
            |r: &Row| r.manifest.key_metadata.clone().map(Value::Binary),
        ));
        let snapshots = table.metadata().snapshots.clone();
        Ok(Self { table: table.clone(), snapshots, columns: Columns::try_new(columns)? })
    }
}

#[async_trait]
impl Contents for Manifests {
    fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    async fn scan(&self, wanted: &Wanted<'_>) -> Result<Vec<Part>> {
        let mut rows = Vec::new();
        for (snapshot, list) in manifest_lists(&self.table, &self.snapshots).await? {
            let reference = snapshot.snapshot_id;
            rows.extend(list.iter().cloned().map(|manifest| Row { manifest, reference }));
        }
        let (rows, columns) = (Arc::new(rows), Arc::new(self.columns.project(wanted.projection)?));
        let schema = Arc::clone(columns.schema());
        Ok(vec![Part::new(&schema, move || batches(Arc::clone(&columns), Arc::clone(&rows)))])
    }
}

/// Counts and summaries that old writers left out are null: unknown.
fn columns(table: &Table) -> Vec<Column<Row>> {
    use ManifestContent::{Data, Deletes};
    vec![
        Column::int(14, "content", |r: &Row| match r.manifest.content {
            Data => 0,
            Deletes => 1,
        }),
        Column::text(1, "path", |r: &Row| r.manifest.manifest_path.clone()),
        Column::long(2, "length", |r: &Row| r.manifest.manifest_length),
        Column::int(3, "partition_spec_id", |r: &Row| r.manifest.partition_spec_id.0),
        Column::long_or_null(4, "added_snapshot_id", |r: &Row| r.manifest.added_snapshot_id.map(|id| id.0)),
        count(5, "added_data_files_count", Data, |m| m.added_files_count),
        count(6, "existing_data_files_count", Data, |m| m.existing_files_count),
        count(7, "deleted_data_files_count", Data, |m| m.deleted_files_count),
        count(15, "added_delete_files_count", Deletes, |m| m.added_files_count),
        count(16, "existing_delete_files_count", Deletes, |m| m.existing_files_count),
        count(17, "deleted_delete_files_count", Deletes, |m| m.deleted_files_count),
        summaries(table.clone()),
    ]
}

fn count(
    id: i32,
    name: &str,
    content: ManifestContent,
    count: fn(&ManifestFile) -> Option<i32>,
) -> Column<Row> {
    Column::int_or_null(id, name, move |row: &Row| match row.manifest.content == content {
        true => count(&row.manifest),
        false => Some(0),
    })
}

fn summaries(table: Table) -> Column<Row> {
    use PrimitiveType as P;
    let summary = StructType::new(vec![
        NestedField::required(10, "contains_null", P::Boolean),
        NestedField::optional(11, "contains_nan", P::Boolean),
        NestedField::optional(12, "lower_bound", P::String),
        NestedField::optional(13, "upper_bound", P::String),
    ]);
    let field = NestedField::optional(8, "partition_summaries", ListType::new(9, summary, true));
    Column::checked(field, move |row: &Row| {
        let Some(summaries) = &row.manifest.partitions else { return Ok(None) };
        let id = row.manifest.partition_spec_id;
        let types = &table.partition_type(id)?.fields;
        let transforms = table.metadata().partition_specs.get(&id).map(|s| s.fields.as_slice());
        let shown = summaries.iter().enumerate().map(|(i, summary)| {
            let field = transforms.unwrap_or_default().get(i);
            let of = field.map(|f| &f.transform).zip(types.get(i).map(|t| &t.field_type));
            Some(summary_value(summary, of))
        });
        Ok(Some(Value::List(shown.collect())))
    })
}

fn summary_value(summary: &FieldSummary, of: Option<(&Transform, &Type)>) -> Value {
    let bound = |bytes: &Option<Vec<u8>>| {
        // Without values there is no bound, for which Java shows this word.
        if bytes.is_none() {
            return Some(Value::String("null".to_owned()));
        }
        let (transform, t) = of?;
        let value = Value::from_bytes(t.as_primitive()?, bytes.as_deref()?).ok()?;
        Some(Value::String(partition_text(transform, &value)))
    };
    Value::Struct(vec![
        Some(Value::Boolean(summary.contains_null)),
        summary.contains_nan.map(Value::Boolean),
        bound(&summary.lower_bound),
        bound(&summary.upper_bound),
    ])
}
