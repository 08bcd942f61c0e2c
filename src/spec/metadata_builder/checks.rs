//! What schemas, partition specs and sort orders must be like to be written.

use std::collections::HashSet;

use crate::error::{Error, Result};

use super::super::ids::FieldId;
use super::super::partition::PartitionSpec;
use super::super::schema::Schema;
use super::super::sort::SortOrder;
use super::super::transform::Transform;
use super::super::types::{NestedField, PrimitiveType, Type};
use super::super::value::Value;

/// The version of the format that has defaults and the newer types.
const NEW_TYPES_VERSION: u8 = 3;

/// Whether a schema may be written to a table of `format_version`, and read by others.
pub(super) fn check_schema(schema: &Schema, format_version: u8) -> Result<()> {
    let mut names = HashSet::new();
    for field in schema.fields() {
        check_field(field, field.name.clone(), format_version, &mut names)?;
    }
    schema.identifier_field_ids.iter().try_for_each(|id| check_identifier(schema, *id))
}

fn check_field(
    field: &NestedField,
    full_name: String,
    format_version: u8,
    names: &mut HashSet<String>,
) -> Result<()> {
    let wrong = |message: String| Err(Error::invalid(message).context(format!("field `{full_name}`")));
    if field.name.is_empty() {
        return wrong("a field needs a name".to_owned());
    }
    if is_new(&field.field_type) && format_version < NEW_TYPES_VERSION {
        return wrong(format!("type {} needs a table of version {NEW_TYPES_VERSION}", field.field_type));
    }
    let unknown = field.field_type == Type::Primitive(PrimitiveType::Unknown);
    if unknown && field.required {
        return wrong("a field of type unknown is always null, so it can't be required".to_owned());
    }
    for default in [&field.initial_default, &field.write_default].into_iter().flatten() {
        if format_version < NEW_TYPES_VERSION {
            return wrong(format!("default values need a table of version {NEW_TYPES_VERSION}"));
        }
        if !default.is_of(&field.field_type) {
            return wrong(format!("the default value is not of type {}", field.field_type));
        }
        // JSON has no other numbers, and Java could not read the table any more.
        if !is_finite(default) {
            return wrong(format!("the default value {default:?} is not a finite number"));
        }
    }
    for child in field.field_type.children() {
        check_field(child, format!("{full_name}.{}", child.name), format_version, names)?;
    }
    // Java finds fields by full name, and refuses tables where that is ambiguous.
    match names.replace(full_name) {
        None => Ok(()),
        Some(twice) => Err(Error::invalid(format!("two fields have the full name `{twice}`"))),
    }
}

fn is_finite(value: &Value) -> bool {
    match value {
        Value::Float(v) => v.is_finite(),
        Value::Double(v) => v.is_finite(),
        _ => true,
    }
}

fn is_new(field_type: &Type) -> bool {
    match field_type {
        Type::Variant => true,
        Type::Primitive(p) => {
            p.is_opaque() || matches!(p, PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs)
        }
        Type::Struct(_) | Type::List(_) | Type::Map(_) => false,
    }
}

fn check_identifier(schema: &Schema, id: FieldId) -> Result<()> {
    let mut path = schema.path_of(id).unwrap_or_default();
    let Some(field) = path.pop() else {
        return Err(Error::invalid(format!("identifier field {id} is not in the schema")));
    };
    let wrong = match &field.field_type {
        Type::Primitive(PrimitiveType::Float | PrimitiveType::Double) => Some("is a float"),
        Type::Primitive(_) if !field.required => Some("is optional"),
        Type::Primitive(_) => None,
        _ => Some("is not of a primitive type"),
    };
    let wrong = wrong.or_else(|| {
        path.iter().find_map(|parent| match parent.field_type {
            Type::Struct(_) if parent.required => None,
            Type::Struct(_) => Some("lies in an optional struct"),
            _ => Some("lies in a list or map"),
        })
    });
    match wrong {
        None => Ok(()),
        Some(wrong) => {
            let message = format!("identifier field `{}` {wrong}", field.name);
            Err(Error::invalid(message))
        }
    }
}

/// Whether a spec's partitions can be made from a schema's rows. `writing`: transforms that are not
/// known are errors.
pub(super) fn check_spec(spec: &PartitionSpec, schema: &Schema, writing: bool) -> Result<()> {
    check_partition_names(spec, schema)?;
    let mut names = HashSet::new();
    let mut ids = HashSet::new();
    for field in &spec.fields {
        let place = |e: Error| e.context(format!("partition field `{}`", field.name));
        if field.name.is_empty() || !names.insert(field.name.as_str()) {
            return Err(place(Error::invalid("the name of a partition field is empty or occurs twice")));
        }
        if !ids.insert(field.field_id) {
            return Err(place(Error::invalid(format!("partition field id {} occurs twice", field.field_id))));
        }
        // The source of a void field may be gone.
        if field.transform == Transform::Void {
            continue;
        }
        check_source(&field.source_ids, &field.transform, schema, writing).map_err(place)?;
        for id in &field.source_ids {
            let mut parents = schema.path_of(*id).unwrap_or_default();
            parents.pop();
            if parents.iter().any(|parent| !matches!(parent.field_type, Type::Struct(_))) {
                return Err(place(Error::invalid("its source column lies in a list or map")));
            }
        }
    }
    Ok(())
}

/// Whether no partition field has the name of a column that it is not made from. Java refuses to
/// read a table with such a spec, be it ever so old, as long as it has the source column.
pub(super) fn check_partition_names(spec: &PartitionSpec, schema: &Schema) -> Result<()> {
    let clash = spec.fields.iter().find(|field| {
        let exists = field.source_ids.iter().any(|id| schema.field_by_id(*id).is_some());
        let named = schema.field_by_full_name(&field.name);
        exists && named.is_some_and(|column| !field.source_ids.contains(&column.id))
    });
    match clash {
        None => Ok(()),
        Some(field) => Err(Error::invalid("has the name of a column that it is not made from")
            .context(format!("partition field `{}`", field.name))),
    }
}

/// Whether a schema's rows can be sorted by an order; `writing` as for [`check_spec`].
pub(super) fn check_order(order: &SortOrder, schema: &Schema, writing: bool) -> Result<()> {
    order.fields.iter().enumerate().try_for_each(|(i, field)| {
        check_source(&field.source_ids, &field.transform, schema, writing)
            .map_err(|e| e.context(format!("sort field {i}")))
    })
}

fn check_source(sources: &[FieldId], transform: &Transform, schema: &Schema, writing: bool) -> Result<()> {
    let mut types = Vec::new();
    for id in sources {
        match schema.field_by_id(*id) {
            Some(field) => types.push(&field.field_type),
            None => return Err(Error::invalid(format!("its source column {id} is not in the schema"))),
        }
    }
    match (transform, types.as_slice()) {
        (Transform::Unknown(_), _) if !writing => Ok(()),
        (Transform::Unknown(name), _) => {
            Err(Error::unsupported(format!("icefloe doesn't know the transform `{name}`")))
        }
        (known, [source]) => match known.result_type(source) {
            Some(_) if source.as_primitive().is_some() => Ok(()),
            _ => Err(Error::invalid(format!("the transform {known} does not apply to type {source}"))),
        },
        (known, _) => Err(Error::invalid(format!("the transform {known} takes one source column"))),
    }
}
