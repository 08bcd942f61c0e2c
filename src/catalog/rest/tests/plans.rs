//! Plans of scans as servers write them.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::*;
use crate::exec::tests::table::TestTable;
use crate::expr::Predicate;
use crate::plan::{ScanRequest, plan_files};
use crate::spec::{ContentFile, ContentType, FieldId, FileScanTask, Type, Value};
use crate::table::Table;

/// Everything of scan planning.
pub(super) const ENDPOINTS: [&str; 4] = [
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
];

/// A server that plans scans, as it says of its tables.
pub(super) fn planning() -> Settings {
    Settings {
        also: ENDPOINTS.to_vec(),
        config: json!({"scan-planning-mode": "server"}),
        ..Settings::default()
    }
}

/// Makes a table that was written file by file `db.t` of the server.
pub(super) async fn register(server: &Server, table: &TestTable) -> Table {
    let location: PathBuf = table.commit();
    let _ = server.catalog.create_namespace(&namespace("db"), BTreeMap::new()).await;
    server.catalog.register_table(&ident("t"), location.to_str().unwrap()).await.unwrap()
}

/// How servers write files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// As the protocol says.
    Protocol,
    /// As Java does: bounds are bytes, and tuples were objects.
    Java,
}

/// All live files of a table, whatever a filter says.
pub(super) async fn all_tasks(table: &Table) -> Vec<FileScanTask> {
    let metadata = table.metadata();
    let schema = Arc::clone(metadata.current_schema());
    let request = ScanRequest { schema, filter: Predicate::True };
    plan_files(table, metadata.current_snapshot().unwrap(), &request).await.unwrap().tasks
}

/// Tasks with the delete files that they refer to.
pub(super) fn tasks_json(table: &Table, tasks: &[FileScanTask], form: Form) -> Json {
    let mut deletes: Vec<&ContentFile> = Vec::new();
    let tasks: Vec<Json> = tasks
        .iter()
        .map(|task| {
            let references: Vec<usize> = task
                .deletes
                .iter()
                .map(|delete| {
                    let file = delete.file.as_ref();
                    let known = deletes.iter().position(|d| *d == file);
                    known.unwrap_or_else(|| {
                        deletes.push(file);
                        deletes.len() - 1
                    })
                })
                .collect();
            json!({
                "data-file": file_json(table, &task.data_file, form),
                "delete-file-references": references,
                "residual-filter": {"type": "mystery"},
            })
        })
        .collect();
    let deletes: Vec<Json> = deletes.iter().map(|file| file_json(table, file, form)).collect();
    json!({"delete-files": deletes, "file-scan-tasks": tasks})
}

fn map_json<V: Clone + Into<Json>>(map: &BTreeMap<FieldId, V>) -> Json {
    let (keys, values): (Vec<i32>, Vec<Json>) = map.iter().map(|(id, v)| (id.0, v.clone().into())).unzip();
    json!({"keys": keys, "values": values})
}

fn file_json(table: &Table, file: &ContentFile, form: Form) -> Json {
    let fields = &table.partition_type(file.spec_id).unwrap().fields;
    let values = file.partition.iter().zip(fields).map(|(value, field)| {
        let json = value.as_ref().map_or(Json::Null, |v| v.to_json(&field.field_type).unwrap());
        (field.id.to_string(), json)
    });
    let partition = match form {
        Form::Protocol => values.map(|(_, value)| value).collect::<Vec<_>>().into(),
        Form::Java => Json::Object(values.collect()),
    };
    let maps = file.metrics.to_maps();
    let bounds = |bounds: &BTreeMap<FieldId, bytes::Bytes>| {
        let json = bounds.iter().filter_map(|(id, bytes)| {
            let field = table.metadata().current_schema().field_by_id(*id)?;
            let value = Value::from_bytes(field.field_type.as_primitive()?, bytes).ok()?;
            let hex = Value::Binary(bytes.to_vec()).to_json(&Type::Primitive(PrimitiveType::Binary));
            Some((
                *id,
                match form {
                    Form::Protocol => value.to_json(&field.field_type).unwrap(),
                    Form::Java => hex.unwrap(),
                },
            ))
        });
        map_json(&json.collect())
    };
    let mut json = json!({
        "content": match (file.content, form) {
            (ContentType::Data, Form::Protocol) => "data",
            (ContentType::Data, Form::Java) => "DATA",
            (ContentType::PositionDeletes, Form::Protocol) => "position-deletes",
            (ContentType::PositionDeletes, Form::Java) => "POSITION_DELETES",
            (ContentType::EqualityDeletes, _) => "equality-deletes",
        },
        "file-path": file.file_path,
        "file-format": file.file_format.to_string().to_lowercase(),
        "spec-id": file.spec_id.0,
        "partition": partition,
        "record-count": file.record_count,
        "file-size-in-bytes": file.file_size_in_bytes,
        "value-counts": map_json(&maps.value_counts),
        "null-value-counts": map_json(&maps.null_value_counts),
        "lower-bounds": bounds(&maps.lower_bounds),
        "upper-bounds": bounds(&maps.upper_bounds),
        "equality-ids": file.equality_ids.as_ref().map(|ids| ids.iter().map(|id| id.0).collect::<Vec<_>>()),
        "first-row-id": file.first_row_id,
        "content-offset": file.content_offset,
        "content-size-in-bytes": file.content_size_in_bytes,
        "referenced-data-file": file.referenced_data_file,
    });
    json.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    json
}

/// The answer that a plan is done.
pub(super) fn completed(mut tasks: Json) -> Json {
    tasks["status"] = "completed".into();
    tasks["plan-id"] = "p 1".into();
    tasks
}
