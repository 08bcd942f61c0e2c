//! Partition specs (spec, "Partition Specs" and "Partitioning").

use super::ids::{FieldId, SpecId};
use super::schema::Schema;
use super::transform::Transform;
use super::types::{NestedField, PrimitiveType, StructType};
use super::value::Value;

/// One value of a partition tuple's definition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionField {
    /// The columns it is derived from; one, except for multi-argument transforms (v3).
    pub source_ids: Vec<FieldId>,
    /// Its own id, unique across the table's specs (v1 may reuse them).
    pub field_id: FieldId,
    /// Its name in the partition tuple.
    pub name: String,
    /// How it is derived.
    pub transform: Transform,
    /// Members of the JSON object that this version does not know; kept and written back.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl PartitionField {
    /// The source column, if it is only one.
    pub fn source_id(&self) -> Option<FieldId> {
        match self.source_ids.as_slice() {
            [id] => Some(*id),
            _ => None,
        }
    }
}

/// How the rows of a table are laid out in partitions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PartitionSpec {
    /// Its number within the table.
    pub spec_id: SpecId,
    /// The fields of the partition tuple, in order.
    pub fields: Vec<PartitionField>,
}

impl PartitionSpec {
    /// Whether all rows lie in one partition: no field, or only void ones.
    pub fn is_unpartitioned(&self) -> bool {
        self.fields.iter().all(|f| f.transform == Transform::Void)
    }

    /// The type of the spec's partition tuples under a schema: one optional field a partition
    /// field. A field whose type can't be known (source column dropped, unknown transform) has
    /// the type `unknown`: nothing can be concluded from its values.
    pub fn partition_type(&self, schema: &Schema) -> StructType {
        let fields = self.fields.iter().map(|field| {
            let source = field.source_id().and_then(|id| schema.field_by_id(id));
            let result = source
                .and_then(|s| field.transform.result_type(&s.field_type))
                .unwrap_or(PrimitiveType::Unknown);
            NestedField::optional(field.field_id.0, field.name.clone(), result)
        });
        StructType::new(fields.collect())
    }
}

/// The partition tuple of a file: one value a field of its spec, in the spec's order.
pub type PartitionValues = Vec<Option<Value>>;
