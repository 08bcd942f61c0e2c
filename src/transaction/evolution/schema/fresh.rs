//! Ids for fields that are new in a table.

use crate::error::{Error, Result};
use crate::spec::{FieldId, ListType, MAX_NESTING, MapType, NestedField, StructType, Type};

/// Gives out field ids that the table never had.
#[derive(Debug)]
pub(super) struct FreshIds {
    last: FieldId,
}

impl FreshIds {
    /// `last` is the highest id that was ever assigned.
    pub(super) fn after(last: FieldId) -> Self {
        Self { last }
    }

    pub(super) fn next(&mut self) -> Result<FieldId> {
        let next = self.last.0.checked_add(1).ok_or_else(|| Error::invalid("no field id is left"))?;
        self.last = FieldId(next);
        Ok(self.last)
    }

    /// The type with new ids for all fields in it: those of a level before those below them, as
    /// other implementations number them.
    pub(super) fn assign(&mut self, field_type: &Type) -> Result<Type> {
        self.assign_at(field_type, 0)
    }

    fn assign_at(&mut self, field_type: &Type, depth: usize) -> Result<Type> {
        if depth > MAX_NESTING {
            return Err(Error::invalid(format!("types nest deeper than {MAX_NESTING}")));
        }
        Ok(match field_type {
            Type::Primitive(_) | Type::Variant => field_type.clone(),
            Type::Struct(s) => {
                let ids: Vec<FieldId> = s.fields.iter().map(|_| self.next()).collect::<Result<_>>()?;
                let fields = s.fields.iter().zip(ids).map(|(field, id)| self.field(field, id, depth));
                StructType::new(fields.collect::<Result<_>>()?).into()
            }
            Type::List(l) => {
                let id = self.next()?;
                ListType { element: Box::new(self.field(&l.element, id, depth)?) }.into()
            }
            Type::Map(m) => {
                let (key, value) = (self.next()?, self.next()?);
                MapType {
                    key: Box::new(self.field(&m.key, key, depth)?),
                    value: Box::new(self.field(&m.value, value, depth)?),
                }
                .into()
            }
        })
    }

    fn field(&mut self, field: &NestedField, id: FieldId, depth: usize) -> Result<NestedField> {
        Ok(NestedField {
            id,
            name: field.name.clone(),
            required: field.required,
            field_type: self.assign_at(&field.field_type, depth + 1)?,
            doc: field.doc.clone(),
            initial_default: field.initial_default.clone(),
            write_default: field.write_default.clone(),
            extra: field.extra.clone(),
        })
    }
}
