//! The new schema, from the current one and what changes.

use std::collections::HashMap;

use super::changes::{Changes, Move};
use crate::error::{Error, Result};
use crate::spec::{FieldId, ListType, MapType, NestedField, PrimitiveType, Schema, StructType, Type, Value};
use crate::transaction::evolution::columns::{Columns, parents};

impl Changes<'_> {
    /// The schema after the changes, with the id of the one before.
    pub(super) fn schema(&self) -> Result<Schema> {
        let fields = self.rebuild_fields(None, &self.schema.root.fields)?;
        let schema = Schema::new(self.schema.schema_id, fields, Vec::new())?;
        let identifiers = self.identifier_fields(&schema)?;
        check_identifiers(&schema, &identifiers)?;
        let extra = self.schema.extra.clone();
        let mut schema = Schema::new(schema.schema_id, schema.root.fields, identifiers)?;
        schema.extra = extra;
        self.check_changed(&schema)?;
        Ok(schema)
    }

    fn rebuild_fields(&self, parent: Option<FieldId>, fields: &[NestedField]) -> Result<Vec<NestedField>> {
        let mut rebuilt = Vec::with_capacity(fields.len());
        for field in fields.iter().filter(|field| !self.deletes.contains(&field.id)) {
            rebuilt.push(self.rebuild_field(field)?);
        }
        let added = self.adds.get(&parent).into_iter().flatten();
        rebuilt.extend(added.filter_map(|id| self.updates.get(id)).cloned());
        for to in self.moves.get(&parent).into_iter().flatten() {
            move_field(&mut rebuilt, *to)?;
        }
        Ok(rebuilt)
    }

    fn rebuild_field(&self, field: &NestedField) -> Result<NestedField> {
        let mut rebuilt = self.updates.get(&field.id).unwrap_or(field).clone();
        // Otherwise it is a new type, with nothing of the old one in it.
        if rebuilt.field_type == field.field_type {
            rebuilt.field_type = self.rebuild_type(field)?;
        }
        if let Type::Struct(s) = &rebuilt.field_type {
            // Whatever fields it has: the default of a struct says nothing of them.
            for default in [&mut rebuilt.initial_default, &mut rebuilt.write_default] {
                if matches!(default, Some(Value::Struct(_))) {
                    *default = Some(Value::Struct(vec![None; s.fields.len()]));
                }
            }
        }
        Ok(rebuilt)
    }

    fn rebuild_type(&self, field: &NestedField) -> Result<Type> {
        Ok(match &field.field_type {
            Type::Primitive(_) | Type::Variant => field.field_type.clone(),
            Type::Struct(s) => StructType::new(self.rebuild_fields(Some(field.id), &s.fields)?).into(),
            Type::List(l) => ListType { element: Box::new(self.rebuild_field(&l.element)?) }.into(),
            Type::Map(m) => {
                let key = self.rebuild_field(&m.key)?;
                if key != *m.key {
                    let name = self.schema.full_name(field.id).unwrap_or_default();
                    return Err(Error::invalid(format!("the keys of map `{name}` can't change")));
                }
                MapType { key: Box::new(key), value: Box::new(self.rebuild_field(&m.value)?) }.into()
            }
        })
    }

    fn identifier_fields(&self, schema: &Schema) -> Result<Vec<FieldId>> {
        let Some(names) = &self.identifier else {
            for id in &self.schema.identifier_field_ids {
                if schema.field_by_id(*id).is_none() {
                    let name = self.schema.full_name(*id).unwrap_or_default();
                    return Err(Error::invalid(format!(
                        "identifier field `{name}` can't be deleted; set other identifier fields in the same update"
                    )));
                }
            }
            return Ok(self.schema.identifier_field_ids.clone());
        };
        let (after, before) =
            (Columns::new(schema, self.case_sensitive()), Columns::new(self.schema, self.case_sensitive()));
        let mut ids = Vec::new();
        for name in names {
            let renamed = || -> Result<Option<FieldId>> {
                Ok(before.find(name)?.filter(|id| schema.field_by_id(*id).is_some()))
            };
            let id = match after.find(name)? {
                Some(id) => Some(id),
                None => renamed()?,
            };
            let id = id.ok_or_else(|| {
                Error::invalid(format!("there is no column `{name}` that could be an identifier field"))
            })?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Checks the fields that are not as they were against the format version.
    fn check_changed(&self, schema: &Schema) -> Result<()> {
        let mut ids: Vec<FieldId> = schema.field_ids().collect();
        ids.sort_unstable();
        for field in ids.into_iter().filter_map(|id| schema.field_by_id(id)) {
            if self.schema.field_by_id(field.id) != Some(field) {
                check_field(field, self.format_version()).map_err(|e| {
                    e.context(format!("column `{}`", schema.full_name(field.id).unwrap_or_default()))
                })?;
            }
        }
        Ok(())
    }
}

fn move_field(fields: &mut Vec<NestedField>, to: Move) -> Result<()> {
    let place = |fields: &[NestedField], id: FieldId| {
        let found = fields.iter().position(|field| field.id == id);
        found.ok_or_else(|| Error::invalid("a column that is deleted can't be moved, nor others next to it"))
    };
    let (Move::First(id) | Move::Before(id, _) | Move::After(id, _)) = to;
    let from = place(fields, id)?;
    let field = fields.remove(from);
    let at = match to {
        Move::First(_) => 0,
        Move::Before(_, other) => place(fields, other)?,
        Move::After(_, other) => place(fields, other)? + 1,
    };
    fields.insert(at, field);
    Ok(())
}

/// Whether fields may identify rows (spec, "Identifier Field IDs").
fn check_identifiers(schema: &Schema, ids: &[FieldId]) -> Result<()> {
    let parents: HashMap<FieldId, FieldId> = parents(schema);
    for id in ids {
        let Some(field) = schema.field_by_id(*id) else { continue };
        let name = schema.full_name(*id).unwrap_or_default();
        let refuse = |why: &str| Err(Error::invalid(format!("`{name}` can't be an identifier field: {why}")));
        match field.field_type.as_primitive() {
            None => return refuse("it is not of a primitive type"),
            Some(PrimitiveType::Float | PrimitiveType::Double) => return refuse("it is of a float type"),
            Some(_) => {}
        }
        if !field.required {
            return refuse("it is not required");
        }
        let mut next = parents.get(id);
        while let Some(parent) = next.and_then(|id| schema.field_by_id(*id)) {
            if !matches!(parent.field_type, Type::Struct(_)) {
                return refuse("it lies in a list or map");
            }
            if !parent.required {
                return refuse("it lies in an optional struct");
            }
            next = parents.get(&parent.id);
        }
    }
    Ok(())
}

/// Checks one field, not those below it.
fn check_field(field: &NestedField, format_version: u8) -> Result<()> {
    use PrimitiveType as P;
    let defaults = [&field.initial_default, &field.write_default];
    let has_default = defaults.iter().any(|default| default.is_some());
    let is_new_type = match &field.field_type {
        Type::Variant => true,
        Type::Primitive(p) => p.is_opaque() || matches!(p, P::TimestampNs | P::TimestamptzNs),
        _ => false,
    };
    if is_new_type && format_version < 3 {
        return Err(Error::invalid(format!(
            "type {} needs format version 3, the table has version {format_version}",
            field.field_type
        )));
    }
    if has_default && format_version < 3 {
        return Err(Error::invalid(format!(
            "default values need format version 3, the table has version {format_version}"
        )));
    }
    let is_always_null = match &field.field_type {
        Type::Variant => true,
        Type::Primitive(p) => p.is_opaque(),
        _ => false,
    };
    if is_always_null && has_default {
        return Err(Error::invalid(format!("columns of type {} have no default value", field.field_type)));
    }
    if field.required && field.field_type.as_primitive() == Some(&P::Unknown) {
        return Err(Error::invalid("columns of type unknown must be optional"));
    }
    Ok(())
}
