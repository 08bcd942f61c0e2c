//! `readable_metrics`: what is known of each column of a file, by name and with bounds as values.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::spec::{
    ContentFile, FieldId, MetricMaps, NestedField, PrimitiveType, Schema, StructType, Type, Value,
};

use super::columns::Column;

/// The ids of its fields are nobody's but have to differ from those of the other columns.
const FIRST_ID: i32 = 10_000;

/// A column of the table with primitive values.
struct Leaf {
    id: FieldId,
    primitive: PrimitiveType,
}

/// The column of a table with this schema; at any depth, columns of primitive type have metrics.
pub(super) fn readable_metrics(schema: &Schema) -> Column<ContentFile> {
    let mut named: Vec<(String, Leaf)> = schema
        .field_ids()
        .filter_map(|id| {
            let primitive = schema.field_by_id(id)?.field_type.as_primitive()?.clone();
            Some((schema.full_name(id)?, Leaf { id, primitive }))
        })
        .collect();
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut next = FIRST_ID;
    let mut id = || {
        next += 1;
        next
    };
    let mut fields: Vec<NestedField> = Vec::with_capacity(named.len());
    let mut leaves = Vec::with_capacity(named.len());
    for (name, leaf) in named {
        let bound = shown_type(&leaf.primitive);
        let mut member = |name: &str, t: &PrimitiveType| NestedField::optional(id(), name, t.clone());
        let members = vec![
            member("column_size", &PrimitiveType::Long),
            member("value_count", &PrimitiveType::Long),
            member("null_value_count", &PrimitiveType::Long),
            member("nan_value_count", &PrimitiveType::Long),
            member("lower_bound", &bound),
            member("upper_bound", &bound),
        ];
        // Names with dots in them may come out the same; the first one holds.
        if fields.last().is_none_or(|last| last.name != name) {
            fields.push(NestedField::optional(id(), name, StructType::new(members)));
            leaves.push(leaf);
        }
    }
    let field = NestedField::optional(id(), "readable_metrics", Type::Struct(StructType::new(fields)));
    Column::new(field, move |file: &ContentFile| {
        let maps = file.metrics.to_maps();
        Some(Value::Struct(leaves.iter().map(|leaf| Some(leaf.metrics(&maps))).collect()))
    })
}

impl Leaf {
    fn metrics(&self, maps: &MetricMaps) -> Value {
        let count = |map: &BTreeMap<FieldId, i64>| map.get(&self.id).copied().map(Value::Long);
        let bound = |bytes: Option<&Bytes>| bytes.and_then(|b| shown(&self.primitive, b));
        Value::Struct(vec![
            count(&maps.column_sizes),
            count(&maps.value_counts),
            count(&maps.null_value_counts),
            count(&maps.nan_value_counts),
            bound(maps.lower_bounds.get(&self.id)),
            bound(maps.upper_bounds.get(&self.id)),
        ])
    }
}

/// The type that bounds are shown in. Bounds of `fixed` may be shorter than its values, and those
/// of geospatial types are points of another form.
fn shown_type(t: &PrimitiveType) -> PrimitiveType {
    match t {
        PrimitiveType::Fixed(_) | PrimitiveType::Geometry { .. } | PrimitiveType::Geography { .. } => {
            PrimitiveType::Binary
        }
        other => other.clone(),
    }
}

/// A bound's value. One that can't be read is unknown, as it is to pruning; `lower_bounds` and
/// `upper_bounds` show its bytes.
fn shown(t: &PrimitiveType, bytes: &[u8]) -> Option<Value> {
    Value::from_bytes(&shown_type(t), bytes).ok()
}
