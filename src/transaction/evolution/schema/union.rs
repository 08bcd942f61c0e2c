//! What another schema has more than the table's.

use super::changes::Changes;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{FieldId, NestedField, Schema, StructType, Type};

impl Changes<'_> {
    pub(super) fn union_with(&mut self, other: &Schema) -> Result<()> {
        let schema = self.schema;
        self.union_structs(None, &schema.root, &other.root)
    }

    fn union_structs(
        &mut self,
        parent: Option<FieldId>,
        existing: &StructType,
        other: &StructType,
    ) -> Result<()> {
        for field in &other.fields {
            let named = |f: &&NestedField| match self.case_sensitive() {
                true => f.name == field.name,
                false => f.name.to_lowercase() == field.name.to_lowercase(),
            };
            match existing.fields.iter().find(named) {
                Some(found) => self.union_fields(found, field),
                None => {
                    // Rows that are there don't have it.
                    let added = NestedField { required: false, ..field.clone() };
                    self.add(parent, &added).map(drop)
                }
            }
            .context(|| format!("column `{}`", field.name))?;
        }
        Ok(())
    }

    fn union_fields(&mut self, existing: &NestedField, other: &NestedField) -> Result<()> {
        match (&existing.field_type, &other.field_type) {
            (Type::Struct(a), Type::Struct(b)) => self.union_structs(Some(existing.id), a, b)?,
            (Type::List(a), Type::List(b)) => self.union_fields(&a.element, &b.element)?,
            (Type::Map(a), Type::Map(b)) => {
                self.union_fields(&a.key, &b.key)?;
                self.union_fields(&a.value, &b.value)?;
            }
            _ => {}
        }
        let format_version = self.format_version();
        self.change_by_id(existing.id, |changes, field| {
            field.required &= other.required;
            match (&existing.field_type, &other.field_type) {
                (Type::Primitive(from), Type::Primitive(to)) if !to.can_promote_to(from, format_version) => {
                    changes.set_type(field, &other.field_type)?;
                }
                (Type::Primitive(_), Type::Primitive(_)) | (Type::Variant, Type::Variant) => {}
                (Type::Struct(_), Type::Struct(_))
                | (Type::List(_), Type::List(_))
                | (Type::Map(_), Type::Map(_)) => {}
                (Type::Primitive(_), _) => changes.set_type(field, &other.field_type)?,
                (a, b) => return Err(Error::invalid(format!("a {a} can't become a {b}"))),
            }
            if other.doc.is_some() {
                field.doc.clone_from(&other.doc);
            }
            // Of a narrower type it may be, so it is compared as one of the column's.
            if other.write_default.is_some() {
                changes.set_write_default(field, other.write_default.as_ref())?;
            }
            Ok(())
        })
    }
}
