//! Columns that every table has but `SELECT *` does not show (spec, "Reserved Field IDs").

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use parquet::arrow::RowNumber;

use crate::arrow::{to_arrow_field, value_to_scalar};
use crate::error::Result;
use crate::spec::{
    ContentFile, FieldId, NestedField, PartitionValues, PrimitiveType, StructType, TableMetadata, Type, Value,
};
use crate::table::Table;

/// The path of the row's file, as the table's metadata has it.
pub const FILE: &str = "_file";
/// The row's position in its file, from 0.
pub const POS: &str = "_pos";
/// The partition spec of the row's file.
pub const SPEC_ID: &str = "_spec_id";
/// The partition tuple of the row's file: a struct of all partition fields the table ever had.
pub const PARTITION: &str = "_partition";
/// The row's id (v3).
pub const ROW_ID: &str = "_row_id";
/// The sequence number of the commit that last changed the row (v3).
pub const LAST_UPDATED_SEQUENCE_NUMBER: &str = "_last_updated_sequence_number";

/// All of them, in the order in which they follow a table's own columns.
pub const METADATA_COLUMNS: [&str; 6] = [FILE, POS, SPEC_ID, PARTITION, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER];

pub(crate) const ROW_ID_ID: FieldId = FieldId(i32::MAX - 107);
pub(crate) const LAST_UPDATED_SEQUENCE_NUMBER_ID: FieldId = FieldId(i32::MAX - 108);

/// The columns that files of v3 tables may store.
///
/// Their comments are more than that: a file never has them, so that its schema is never the one
/// that is read. DataFusion would take its columns as they are then, and what is not stored would be
/// null instead of inherited.
pub(crate) fn lineage_fields() -> [NestedField; 2] {
    let field = |id: FieldId, name: &str, doc: &str| NestedField {
        doc: Some(doc.to_owned()),
        ..NestedField::optional(id.0, name, PrimitiveType::Long)
    };
    [
        field(ROW_ID_ID, ROW_ID, "the row's id, stored or inherited"),
        field(
            LAST_UPDATED_SEQUENCE_NUMBER_ID,
            LAST_UPDATED_SEQUENCE_NUMBER,
            "the sequence number of the commit that last changed the row, stored or inherited",
        ),
    ]
}

/// Whether it is one of [`lineage_fields`]. What files store of them is not what is read: rows of
/// which nothing is stored inherit something.
pub(crate) fn is_lineage(id: FieldId) -> bool {
    matches!(id, ROW_ID_ID | LAST_UPDATED_SEQUENCE_NUMBER_ID)
}

/// The type of `_partition`: every partition field that any spec of the table has, by id, newest
/// name first.
pub(crate) fn unified_partition_type(table: &Table) -> Result<StructType> {
    let mut fields: Vec<NestedField> = Vec::new();
    for id in table.metadata().partition_specs.keys().rev() {
        for field in table.partition_type(*id)?.fields.iter().cloned() {
            match fields.iter_mut().find(|f| f.id == field.id) {
                // A field whose source was dropped is void in newer v1 specs.
                Some(known) if known.field_type == Type::Primitive(PrimitiveType::Unknown) => *known = field,
                Some(_) => {}
                None => fields.push(field),
            }
        }
    }
    fields.retain(|f| f.field_type != Type::Primitive(PrimitiveType::Unknown));
    fields.sort_by_key(|f| f.id);
    let mut names = std::collections::HashSet::new();
    for field in &mut fields {
        if !names.insert(field.name.clone()) {
            field.name = format!("{}_{}", field.name, field.id);
            names.insert(field.name.clone());
        }
    }
    Ok(StructType::new(fields))
}

/// A file's partition tuple, over the fields of [`unified_partition_type`].
pub(crate) fn partition_tuple(
    file: &ContentFile,
    metadata: &TableMetadata,
    unified: &StructType,
) -> PartitionValues {
    let spec = metadata.partition_specs.get(&file.spec_id);
    let values = unified.fields.iter().map(|field| {
        let position = spec?.fields.iter().position(|f| f.field_id == field.id)?;
        let value = file.partition.get(position)?.clone()?;
        value.is_of(&field.field_type).then_some(value)
    });
    values.collect()
}

/// A file's value of `_partition`.
pub(crate) fn partition_value(
    file: &ContentFile,
    metadata: &TableMetadata,
    unified: &StructType,
) -> Result<ScalarValue> {
    let value = Value::Struct(partition_tuple(file, metadata, unified));
    let field = partition_field(unified)?;
    value_to_scalar(Some(&value), &Type::Struct(unified.clone()), field.data_type())
}

fn partition_field(unified: &StructType) -> Result<Field> {
    /// As reserved for the column (spec, "Reserved Field IDs").
    const PARTITION_ID: i32 = i32::MAX - 5;
    to_arrow_field(&NestedField::optional(PARTITION_ID, PARTITION, unified.clone()))
}

/// The Arrow field of a metadata column; `None` for other names.
pub(crate) fn metadata_field(name: &str, unified: &StructType) -> Result<Option<FieldRef>> {
    Ok(Some(Arc::new(match name {
        FILE => Field::new(FILE, DataType::Utf8View, false),
        POS => Field::new(POS, DataType::Int64, false).with_extension_type(RowNumber),
        SPEC_ID => Field::new(SPEC_ID, DataType::Int32, false),
        PARTITION => partition_field(unified)?,
        _ => match lineage_fields().iter().find(|f| f.name == name) {
            Some(field) => to_arrow_field(field)?,
            None => return Ok(None),
        },
    })))
}
