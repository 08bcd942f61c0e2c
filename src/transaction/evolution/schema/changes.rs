//! The changes of one schema update, checked against the schema and against each other as they
//! are asked for.

use std::collections::{BTreeSet, HashMap};

use super::fresh::FreshIds;
use super::{Change, NewColumn, Place};
use crate::error::{Error, Result, ResultExt};
use crate::spec::{FieldId, NestedField, PrimitiveType, Schema, StructType, TableMetadata, Type, Value};
use crate::transaction::evolution::columns::{Columns, parents};

/// What is to become of the current schema.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    pub(super) schema: &'a Schema,
    format_version: u8,
    columns: Columns,
    case_sensitive: bool,
    allow_incompatible: bool,
    /// The field that each field lies in, those that were added included.
    pub(super) parents: HashMap<FieldId, FieldId>,
    fresh: FreshIds,
    pub(super) deletes: BTreeSet<FieldId>,
    /// Fields that change and fields that are added, as they shall be.
    pub(super) updates: HashMap<FieldId, NestedField>,
    /// The added fields of a struct, by the field that has the struct type.
    pub(super) adds: HashMap<Option<FieldId>, Vec<FieldId>>,
    added_names: HashMap<String, FieldId>,
    pub(super) moves: HashMap<Option<FieldId>, Vec<Move>>,
    /// The names of the identifier fields, if they were set.
    pub(super) identifier: Option<Vec<String>>,
}

/// A field that changes its place in its struct.
#[derive(Debug, Clone, Copy)]
pub(super) enum Move {
    First(FieldId),
    Before(FieldId, FieldId),
    After(FieldId, FieldId),
}

impl<'a> Changes<'a> {
    pub(super) fn new(metadata: &'a TableMetadata, case_sensitive: bool, allow_incompatible: bool) -> Self {
        let schema = metadata.current_schema();
        Self {
            schema,
            format_version: metadata.format_version,
            columns: Columns::new(schema, case_sensitive),
            case_sensitive,
            allow_incompatible,
            parents: parents(schema),
            fresh: FreshIds::after(metadata.last_column_id.max(schema.highest_field_id())),
            deletes: BTreeSet::new(),
            updates: HashMap::new(),
            adds: HashMap::new(),
            added_names: HashMap::new(),
            moves: HashMap::new(),
            identifier: None,
        }
    }

    pub(super) fn make(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Add(column) => {
                self.add_column(column).context(|| format!("adding column `{}`", column.field.name))
            }
            Change::Delete(name) => self.delete(name).context(|| format!("deleting column `{name}`")),
            Change::Rename(name, new) => {
                self.rename(name, new).context(|| format!("renaming column `{name}`"))
            }
            Change::Require(name) => self.require(name).context(|| format!("requiring column `{name}`")),
            Change::Identifier(names) => {
                self.identifier = Some(names.clone());
                Ok(())
            }
            Change::Move(name, place) => {
                self.move_to(name, place).context(|| format!("moving column `{name}`"))
            }
            Change::Union(schema) => {
                self.union_with(schema).context(|| "union with another schema".to_owned())
            }
            Change::MakeOptional(name) => self.change(name, |_, field| {
                field.required = false;
                Ok(())
            }),
            Change::Type(name, new) => self.change(name, |changes, field| changes.set_type(field, new)),
            Change::Doc(name, doc) => self.change(name, |changes, field| {
                changes.must_be_named(field)?;
                field.doc = doc.clone();
                Ok(())
            }),
            Change::WriteDefault(name, value) => self.change(name, |changes, field| {
                changes.must_be_named(field)?;
                changes.set_write_default(field, value.as_ref())
            }),
        }
    }

    /// The field that has a struct type and that columns of `parent` are added to.
    fn struct_of(&self, parent: &str) -> Result<FieldId> {
        let id = self.columns.get(parent)?;
        let mut field = self.field(id)?;
        match &field.field_type {
            Type::List(l) => field = &l.element,
            Type::Map(m) => field = &m.value,
            _ => {}
        }
        match field.field_type {
            Type::Struct(_) => Ok(field.id),
            _ => Err(Error::invalid(format!("`{parent}` is no struct but a {}", field.field_type))),
        }
    }

    fn add_column(&mut self, column: &NewColumn) -> Result<()> {
        let parent = column.parent.as_deref().map(|parent| self.struct_of(parent)).transpose()?;
        let field = &column.field;
        if column.parent.is_none() && field.name.contains('.') && self.columns.find(&field.name)?.is_some() {
            return Err(Error::invalid("there is such a column already"));
        }
        if field.required && field.initial_default.is_none() && !self.allow_incompatible {
            return Err(Error::invalid(
                "a required column needs a default value, as the rows that are there have none; or allow \
                 incompatible changes",
            ));
        }
        self.add(parent, field).map(drop)
    }

    /// Adds a field to the struct type of `parent`, or to the columns.
    pub(super) fn add(&mut self, parent: Option<FieldId>, field: &NestedField) -> Result<FieldId> {
        if field.name.is_empty() {
            return Err(Error::invalid("the name is empty"));
        }
        if let Some(deleted) = parent.and_then(|parent| self.deleted_around(parent)) {
            return Err(Error::invalid(format!("`{}` is deleted in the same update", self.name_of(deleted))));
        }
        let siblings = match parent {
            None => Some(&self.schema.root),
            Some(id) => match &self.field(id)?.field_type {
                Type::Struct(s) => Some(s),
                _ => None,
            },
        };
        let key = self.columns.key(&field.name);
        let mut siblings = siblings.into_iter().flat_map(|s: &StructType| &s.fields);
        let is_there = siblings.any(|s| self.columns.key(&s.name) == key && !self.deletes.contains(&s.id));
        let is_added = self
            .adds
            .get(&parent)
            .into_iter()
            .flatten()
            .any(|id| self.updates.get(id).is_some_and(|added| self.columns.key(&added.name) == key));
        if is_there || is_added {
            return Err(Error::invalid("there is such a column already"));
        }
        let id = self.fresh.next()?;
        let mut added =
            NestedField { id, field_type: self.fresh.assign(&field.field_type)?, ..field.clone() };
        for value in [&mut added.initial_default, &mut added.write_default].into_iter().flatten() {
            *value = of_type(value, &added.field_type)?;
        }
        let full_name = match parent {
            Some(parent) => {
                self.parents.insert(id, parent);
                format!("{}.{}", self.name_of(parent), added.name)
            }
            None => added.name.clone(),
        };
        self.added_names.insert(self.columns.key(&full_name), id);
        self.updates.insert(id, added);
        self.adds.entry(parent).or_default().push(id);
        Ok(id)
    }

    fn delete(&mut self, name: &str) -> Result<()> {
        let id = self.columns.get(name)?;
        self.must_be_named(self.field(id)?)?;
        // What is below it would be lost without a word.
        if self.adds.keys().flatten().any(|parent| self.is_or_lies_in(*parent, id)) {
            return Err(Error::invalid("columns are added to it in the same update"));
        }
        if self.updates.keys().any(|updated| self.is_or_lies_in(*updated, id)) {
            return Err(Error::invalid("it is changed in the same update"));
        }
        self.deletes.insert(id);
        Ok(())
    }

    fn rename(&mut self, name: &str, new_name: &str) -> Result<()> {
        let id = self.columns.get(name)?;
        if new_name.is_empty() {
            return Err(Error::invalid("the new name is empty"));
        }
        self.must_be_named(self.field(id)?)?;
        let mut field = self.pending(id)?;
        field.name = new_name.to_owned();
        self.updates.insert(id, field);
        Ok(())
    }

    fn require(&mut self, name: &str) -> Result<()> {
        let id = self.find_for_update(name)?;
        let mut field = self.pending(id)?;
        if field.required {
            return Ok(());
        }
        let is_defaulted = self.schema.field_by_id(id).is_none() && field.initial_default.is_some();
        if !is_defaulted && !self.allow_incompatible {
            return Err(Error::invalid(
                "an optional column can only become required if incompatible changes are allowed: rows that are \
                 there may have nulls",
            ));
        }
        field.required = true;
        self.updates.insert(id, field);
        Ok(())
    }

    fn change(
        &mut self,
        name: &str,
        how: impl FnOnce(&mut Self, &mut NestedField) -> Result<()>,
    ) -> Result<()> {
        let found = self.find_for_update(name);
        found.and_then(|id| self.change_by_id(id, how)).context(|| format!("changing column `{name}`"))
    }

    pub(super) fn change_by_id(
        &mut self,
        id: FieldId,
        how: impl FnOnce(&mut Self, &mut NestedField) -> Result<()>,
    ) -> Result<()> {
        let before = self.pending(id)?;
        let mut field = before.clone();
        how(self, &mut field)?;
        if field != before {
            self.updates.insert(id, field);
        }
        Ok(())
    }

    pub(super) fn set_type(&mut self, field: &mut NestedField, new: &Type) -> Result<()> {
        if field.field_type == *new {
            return Ok(());
        }
        let is_unknown = field.field_type.as_primitive() == Some(&PrimitiveType::Unknown);
        let is_allowed = match (field.field_type.as_primitive(), new.as_primitive()) {
            (Some(from), Some(to)) => from.can_promote_to(to, self.format_version),
            (Some(_), None) => is_unknown && self.format_version >= 3,
            _ => false,
        };
        if !is_allowed {
            return Err(Error::invalid(format!(
                "its type can't change from {} to {new} in format version {}",
                field.field_type, self.format_version
            )));
        }
        field.field_type = self.fresh.assign(new)?;
        for value in [&mut field.initial_default, &mut field.write_default].into_iter().flatten() {
            *value = of_type(value, &field.field_type)?;
        }
        Ok(())
    }

    pub(super) fn set_write_default(&mut self, field: &mut NestedField, value: Option<&Value>) -> Result<()> {
        field.write_default = value.map(|value| of_type(value, &field.field_type)).transpose()?;
        Ok(())
    }

    fn move_to(&mut self, name: &str, place: &Place) -> Result<()> {
        let id = self.find_for_update(name)?;
        let parent = self.parents.get(&id).copied();
        if let Some(parent) = parent
            && !matches!(self.field(parent)?.field_type, Type::Struct(_))
        {
            return Err(Error::invalid("only the fields of structs have a place"));
        }
        let reference = |other: &str| {
            let other_id = self.find_for_update(other)?;
            if other_id == id {
                return Err(Error::invalid("it can't be moved next to itself"));
            }
            if self.parents.get(&other_id).copied() != parent {
                return Err(Error::invalid(format!("`{other}` lies in another struct")));
            }
            Ok(other_id)
        };
        let to = match place {
            Place::First => Move::First(id),
            Place::Before(other) => Move::Before(id, reference(other)?),
            Place::After(other) => Move::After(id, reference(other)?),
        };
        self.moves.entry(parent).or_default().push(to);
        Ok(())
    }

    /// A column that is there or added in the same update, and not deleted.
    fn find_for_update(&self, name: &str) -> Result<FieldId> {
        let existing = self.columns.find(name)?;
        let added = self.added_names.get(&self.columns.key(name)).copied();
        match (existing, added) {
            (Some(id), Some(added)) if self.deletes.contains(&id) => Ok(added),
            (Some(id), _) => match self.deleted_around(id) {
                None => Ok(id),
                Some(_) => Err(Error::invalid(format!("`{name}` is deleted in the same update"))),
            },
            (None, Some(added)) => Ok(added),
            (None, None) => Err(Error::invalid(format!("there is no column `{name}`"))),
        }
    }

    /// The field as it shall be so far.
    fn pending(&self, id: FieldId) -> Result<NestedField> {
        if self.deleted_around(id).is_some() {
            return Err(Error::invalid("it is deleted in the same update"));
        }
        match self.updates.get(&id) {
            Some(field) => Ok(field.clone()),
            None => self.field(id).cloned(),
        }
    }

    /// A field that was there before.
    pub(super) fn field(&self, id: FieldId) -> Result<&'a NestedField> {
        self.schema.field_by_id(id).ok_or_else(|| Error::invalid(format!("there is no field {id}")))
    }

    pub(super) fn case_sensitive(&self) -> bool {
        self.case_sensitive
    }

    pub(super) fn format_version(&self) -> u8 {
        self.format_version
    }

    /// The field, or the nearest around it, that is deleted.
    fn deleted_around(&self, id: FieldId) -> Option<FieldId> {
        let mut next = Some(id);
        while let Some(id) = next {
            if self.deletes.contains(&id) {
                return Some(id);
            }
            next = self.parents.get(&id).copied();
        }
        None
    }

    fn is_or_lies_in(&self, id: FieldId, outer: FieldId) -> bool {
        let mut next = Some(id);
        while let Some(id) = next {
            if id == outer {
                return true;
            }
            next = self.parents.get(&id).copied();
        }
        false
    }

    /// Elements, keys and values have their type and nothing else.
    fn must_be_named(&self, field: &NestedField) -> Result<()> {
        let parent = self.parents.get(&field.id).and_then(|id| self.schema.field_by_id(*id));
        match parent.map(|parent| &parent.field_type) {
            Some(Type::List(_)) => Err(Error::invalid("that is not possible for the element of a list")),
            Some(Type::Map(_)) => {
                Err(Error::invalid("that is not possible for the keys and values of a map"))
            }
            _ => Ok(()),
        }
    }

    fn name_of(&self, id: FieldId) -> String {
        self.schema.full_name(id).unwrap_or_else(|| id.to_string())
    }
}

/// A default as a value of the column's type.
fn of_type(value: &Value, field_type: &Type) -> Result<Value> {
    let fitting = match (value, field_type) {
        (Value::Struct(values), Type::Struct(s)) => {
            // The defaults of a struct's fields are the fields' own.
            let is_empty = values.iter().all(Option::is_none);
            is_empty.then(|| Value::Struct(vec![None; s.fields.len()]))
        }
        (value, Type::Primitive(to)) => value.promote_to(to).filter(|value| fits(value, to)),
        (value, to) => value.is_of(to).then(|| value.clone()),
    };
    fitting.ok_or_else(|| Error::invalid(format!("the default {value:?} is no value of type {field_type}")))
}

fn fits(value: &Value, to: &PrimitiveType) -> bool {
    match (value, to) {
        (Value::Decimal(unscaled, _), PrimitiveType::Decimal { precision, .. }) => {
            10u128.checked_pow(*precision).is_some_and(|limit| unscaled.unsigned_abs() < limit)
        }
        _ => true,
    }
}
