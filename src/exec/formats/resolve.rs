//! Which fields of a file are which fields of the table (spec, "Column Projection").

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::spec::{FieldId, MappedFields, NameMapping, NestedField, Schema};

/// Where the ids of a struct's fields come from. A list's element and a map's key and value need
/// no ids: they are what they are by their place.
#[derive(Clone, Copy)]
pub(super) enum FieldIds<'a> {
    /// From the file itself.
    InFile,
    /// From a name mapping, at this level of it; nothing is mapped below a field that isn't.
    Mapped(Option<&'a MappedFields>),
}

impl<'a> FieldIds<'a> {
    /// The field that the table has for a file's field `name`, if the file says it is `own`.
    pub(super) fn find<'t>(
        self,
        own: Option<FieldId>,
        name: &str,
        expected: &'t [NestedField],
    ) -> Option<&'t NestedField> {
        let id = match self {
            FieldIds::InFile => own,
            FieldIds::Mapped(level) => level.and_then(|l| l.get(name)).and_then(|m| m.field_id),
        }?;
        expected.iter().find(|f| f.id == id)
    }

    /// The ids below a struct's field, or a map's `key` or `value`.
    pub(super) fn below(self, name: &str) -> Self {
        match self {
            FieldIds::InFile => self,
            FieldIds::Mapped(level) => FieldIds::Mapped(level.and_then(|l| l.get(name)).map(|m| &m.children)),
        }
    }

    /// The ids below a list's element, whatever the mapping calls it.
    pub(super) fn below_element(self) -> Self {
        match self {
            FieldIds::InFile => self,
            FieldIds::Mapped(level) => FieldIds::Mapped(level.and_then(|l| {
                let only = match l.fields() {
                    [only] => Some(only),
                    _ => None,
                };
                l.get("element").or(only).map(|m| &m.children)
            })),
        }
    }
}

/// The mapping for a file without ids: the table's, else, as the reference implementation does
/// for Avro and ORC, one by which the files have the schema's own names.
pub(super) fn mapping_or_names(mapping: Option<&NameMapping>, schema: &Schema) -> NameMapping {
    mapping.cloned().unwrap_or_else(|| NameMapping::from_schema(schema))
}

/// Refuses a second field of the file for the same field of the table.
#[derive(Default)]
pub(super) struct Unique(HashSet<FieldId>);

impl Unique {
    pub(super) fn check(&mut self, field: &NestedField, name: &str) -> Result<()> {
        if self.0.insert(field.id) {
            return Ok(());
        }
        Err(Error::invalid(format!("the file has two fields with id {}", field.id))
            .context(format!("field `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ListType, MapType, PrimitiveType as P, StructType};

    fn schema() -> Schema {
        let inner = StructType::new(vec![NestedField::optional(3, "x", P::Int)]);
        Schema::new(
            0.into(),
            vec![
                NestedField::optional(1, "a", P::Int),
                NestedField::optional(2, "l", ListType::new(4, inner, false)),
                NestedField::optional(5, "m", MapType::new(6, P::String, 7, P::Int, false)),
            ],
            vec![],
        )
        .unwrap()
    }

    #[test]
    fn ids_of_the_file_beat_names() {
        let schema = schema();
        let found = FieldIds::InFile.find(Some(FieldId(1)), "l", schema.fields()).unwrap();
        assert_eq!(found.name, "a");
        assert!(FieldIds::InFile.find(None, "a", schema.fields()).is_none(), "no id, no field");
        assert!(FieldIds::InFile.find(Some(FieldId(9)), "a", schema.fields()).is_none());
    }

    #[test]
    fn a_mapping_decides_alone() {
        let schema = schema();
        let mapping = NameMapping::parse(
            r#"[{"field-id": 1, "names": ["old_a", "older_a"]}, {"names": ["a"]},
                {"field-id": 2, "names": ["l"], "fields": [{"field-id": 4, "names": ["array"],
                 "fields": [{"field-id": 3, "names": ["y"]}]}]}]"#,
        )
        .unwrap();
        let ids = FieldIds::Mapped(Some(&mapping.root));
        assert_eq!(ids.find(None, "older_a", schema.fields()).unwrap().id, FieldId(1));
        assert!(ids.find(None, "a", schema.fields()).is_none(), "mapped to nothing");
        assert!(ids.find(None, "m", schema.fields()).is_none(), "not mapped");
        let inner = [NestedField::optional(3, "x", P::Int)];
        assert!(ids.below("l").below_element().find(None, "y", &inner).is_some());
        assert!(ids.below("m").below("value").find(None, "y", &inner).is_none());
    }

    #[test]
    fn without_a_mapping_names_are_the_schemas() {
        let schema = schema();
        let mapping = mapping_or_names(None, &schema);
        let ids = FieldIds::Mapped(Some(&mapping.root));
        assert_eq!(ids.find(None, "a", schema.fields()).unwrap().id, FieldId(1));
        let inner = [NestedField::optional(3, "x", P::Int)];
        assert!(ids.below("l").below_element().find(None, "x", &inner).is_some());
    }

    #[test]
    fn an_id_may_occur_once() {
        let schema = schema();
        let mut unique = Unique::default();
        assert!(unique.check(&schema.fields()[0], "a").is_ok());
        assert!(unique.check(&schema.fields()[0], "b").unwrap_err().to_string().contains("`b`"));
    }
}
