//! What the rest of the metadata demands of a new schema.

use crate::error::{Error, Result};
use crate::spec::{FieldId, PrimitiveType, Schema, TableMetadata, Transform, Type};
use crate::transaction::evolution::columns::{Columns, parents};

/// Checks that partition specs and the sort order mean under `schema` what they meant before.
pub(super) fn check(metadata: &TableMetadata, schema: &Schema, case_sensitive: bool) -> Result<()> {
    let before = metadata.current_schema();
    let name = |id: FieldId| before.full_name(id).unwrap_or_else(|| id.to_string());
    for field in &metadata.default_spec().fields {
        if field.transform == Transform::Void {
            continue;
        }
        for id in &field.source_ids {
            check_source(schema, *id, &field.transform).map_err(|why| {
                Error::invalid(format!(
                    "column `{}` is the source of partition field `{}`, and {why}; remove the partition field first",
                    name(*id),
                    field.name
                ))
            })?;
        }
    }
    for field in &metadata.default_sort_order().fields {
        for id in &field.source_ids {
            check_source(schema, *id, &field.transform).map_err(|why| {
                Error::invalid(format!(
                    "the table is sorted by column `{}`, and {why}; replace the sort order first",
                    name(*id)
                ))
            })?;
        }
    }
    check_promotions(metadata, schema)?;
    check_names(metadata, schema, case_sensitive)
}

/// What is wrong with a column as a source of a transform.
fn check_source(schema: &Schema, id: FieldId, transform: &Transform) -> std::result::Result<(), String> {
    let Some(field) = schema.field_by_id(id) else {
        return Err("it is deleted".to_owned());
    };
    match transform {
        Transform::Unknown(_) => Ok(()),
        known if known.result_type(&field.field_type).is_none() => {
            Err(format!("{known} does not apply to type {}", field.field_type))
        }
        _ => Ok(()),
    }
}

/// A column may not be promoted where the partition values that are recorded would be other ones.
fn check_promotions(metadata: &TableMetadata, schema: &Schema) -> Result<()> {
    let before = metadata.current_schema();
    for spec in metadata.partition_specs.values() {
        for field in &spec.fields {
            for id in &field.source_ids {
                let types = (before.field_by_id(*id), schema.field_by_id(*id));
                let (Some(from), Some(to)) = types else { continue };
                if from.field_type != to.field_type
                    && !gives_the_same(&field.transform, &from.field_type, &to.field_type)
                {
                    return Err(Error::invalid(format!(
                        "column `{}` can't change from {} to {}: partition field `{}` ({}) of spec {} would have \
                         other values",
                        before.full_name(*id).unwrap_or_default(),
                        from.field_type,
                        to.field_type,
                        field.name,
                        field.transform,
                        spec.spec_id
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Whether a transform has the same results before and after a promotion.
fn gives_the_same(transform: &Transform, from: &Type, to: &Type) -> bool {
    match (transform, from) {
        (Transform::Void, _) => true,
        (Transform::Unknown(_), _) => false,
        // Whole days are whole days in either type; a hash or the value itself is another.
        (_, Type::Primitive(PrimitiveType::Date)) => {
            matches!(transform, Transform::Year | Transform::Month | Transform::Day)
        }
        _ => transform.result_type(to).is_some(),
    }
}

/// A partition field may be called like a column only if that is its source: Java can't read the
/// table otherwise.
fn check_names(metadata: &TableMetadata, schema: &Schema, case_sensitive: bool) -> Result<()> {
    let columns = Columns::new(schema, case_sensitive);
    let before = Columns::new(metadata.current_schema(), case_sensitive);
    for spec in metadata.partition_specs.values() {
        for field in &spec.fields {
            let is_there = field.source_ids.iter().all(|id| schema.field_by_id(*id).is_some());
            let Some(id) = columns.find(&field.name)?.filter(|_| is_there) else { continue };
            // What was wrong before is not this update's fault.
            if !field.source_ids.contains(&id) && before.find(&field.name)? != Some(id) {
                return Err(Error::invalid(format!(
                    "no column can be called `{}`: a partition field of spec {} is, and derives from another column",
                    field.name, spec.spec_id
                )));
            }
        }
    }
    Ok(())
}

/// Whether a column lies in structs only: not in a list or map.
pub(in crate::transaction::evolution) fn lies_in_structs_only(schema: &Schema, id: FieldId) -> bool {
    let parents = parents(schema);
    let mut next = parents.get(&id);
    while let Some(parent) = next.and_then(|id| schema.field_by_id(*id)) {
        if !matches!(parent.field_type, Type::Struct(_)) {
            return false;
        }
        next = parents.get(&parent.id);
    }
    true
}
