//! New ids for the fields of a schema.

use std::collections::HashMap;

use crate::error::{Error, Result};

use super::super::ids::{FieldId, SchemaId};
use super::super::schema::Schema;
use super::super::types::{ListType, MapType, NestedField, StructType, Type};

/// A schema with new ids, and the new id by the old one.
pub(in crate::spec) struct FreshSchema {
    pub(in crate::spec) schema: Schema,
    pub(in crate::spec) new_ids: HashMap<FieldId, FieldId>,
}

/// Numbers a schema's fields on from `last`: those of one level first, then those below them, in
/// the order that Java has. Fields that `base` has by the same full name keep its id.
pub(in crate::spec) fn assign_fresh_ids(
    schema: &Schema,
    last: FieldId,
    base: Option<&Schema>,
) -> Result<FreshSchema> {
    let by_name = base.map(ids_by_name).unwrap_or_default();
    let mut fresh = FreshIds { last, by_name, new_ids: HashMap::new() };
    let fields = fresh.level(&schema.fields().iter().collect::<Vec<_>>(), "")?;
    let identifiers =
        schema.identifier_field_ids.iter().filter_map(|id| fresh.new_ids.get(id).copied()).collect();
    let mut new = Schema::new(SchemaId(0), fields, identifiers)?;
    new.extra = schema.extra.clone();
    Ok(FreshSchema { schema: new, new_ids: fresh.new_ids })
}

fn ids_by_name(schema: &Schema) -> HashMap<String, FieldId> {
    schema.field_ids().filter_map(|id| Some((schema.full_name(id)?, id))).collect()
}

struct FreshIds {
    last: FieldId,
    by_name: HashMap<String, FieldId>,
    new_ids: HashMap<FieldId, FieldId>,
}

impl FreshIds {
    fn level(&mut self, fields: &[&NestedField], prefix: &str) -> Result<Vec<NestedField>> {
        let mut numbered = Vec::with_capacity(fields.len());
        for field in fields {
            let name = format!("{prefix}{}", field.name);
            let id = match self.by_name.get(&name) {
                Some(id) => *id,
                None => {
                    let next = self.last.0.checked_add(1);
                    self.last = FieldId(next.ok_or_else(|| Error::invalid("the table has used up its ids"))?);
                    self.last
                }
            };
            self.new_ids.insert(field.id, id);
            numbered.push((*field, id, name));
        }
        let renumber = |(field, id, name): (&NestedField, FieldId, String)| {
            let field_type = self.below(&field.field_type, &format!("{name}."))?;
            Ok(NestedField {
                id,
                field_type,
                name: field.name.clone(),
                required: field.required,
                doc: field.doc.clone(),
                initial_default: field.initial_default.clone(),
                write_default: field.write_default.clone(),
                extra: field.extra.clone(),
            })
        };
        numbered.into_iter().map(renumber).collect()
    }

    fn below(&mut self, field_type: &Type, prefix: &str) -> Result<Type> {
        let mut children = self.level(&field_type.children(), prefix)?;
        Ok(match field_type {
            Type::Primitive(_) | Type::Variant => field_type.clone(),
            Type::Struct(_) => StructType::new(children).into(),
            Type::List(list) => {
                let element = children.pop().map_or_else(|| list.element.clone(), Box::new);
                ListType { element }.into()
            }
            Type::Map(map) => {
                let value = children.pop().map_or_else(|| map.value.clone(), Box::new);
                let key = children.pop().map_or_else(|| map.key.clone(), Box::new);
                MapType { key, value }.into()
            }
        })
    }
}
