//! A table's schema (spec, "Schemas and Data Types").

use std::collections::HashMap;

use crate::error::{Error, Result};

use super::ids::{FieldId, SchemaId};
use super::types::{NestedField, StructType, Type};

/// How deep types may nest; deeper metadata is refused rather than overflowing the stack.
pub const MAX_NESTING: usize = 100;

/// A table's columns at some time, with look-up by id and by name.
#[derive(Debug, Clone)]
pub struct Schema {
    /// Its number within the table.
    pub schema_id: SchemaId,
    /// The columns.
    pub root: StructType,
    /// The fields that identify a row; may be empty.
    pub identifier_field_ids: Vec<FieldId>,
    /// Members of the JSON object that this version does not know; kept and written back.
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// Child indices from the root; see [`Type::children`].
    paths: HashMap<FieldId, Vec<usize>>,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.schema_id == other.schema_id
            && self.root == other.root
            && self.identifier_field_ids == other.identifier_field_ids
            && self.extra == other.extra
    }
}

impl Schema {
    /// A schema of these columns.
    ///
    /// # Errors
    /// `DataInvalid` where an id or, within a struct, a name occurs twice, where a map's key is
    /// optional, where identifier fields don't exist, or types nest deeper than [`MAX_NESTING`].
    pub fn new(
        schema_id: SchemaId,
        fields: Vec<NestedField>,
        identifier_field_ids: Vec<FieldId>,
    ) -> Result<Self> {
        let root = StructType::new(fields);
        let mut paths = HashMap::new();
        index(&root.fields.iter().collect::<Vec<_>>(), true, &mut Vec::new(), &mut paths)?;
        if let Some(id) = identifier_field_ids.iter().find(|id| !paths.contains_key(id)) {
            return Err(Error::invalid(format!("identifier field {id} is not in schema {schema_id}")));
        }
        Ok(Self { schema_id, root, identifier_field_ids, extra: serde_json::Map::new(), paths })
    }

    /// The columns.
    pub fn fields(&self) -> &[NestedField] {
        &self.root.fields
    }

    /// The field with that id, at any depth.
    pub fn field_by_id(&self, id: FieldId) -> Option<&NestedField> {
        self.path_of(id)?.pop()
    }

    /// The fields from the column down to the one with that id, both included.
    pub fn path_of(&self, id: FieldId) -> Option<Vec<&NestedField>> {
        let mut path = Vec::new();
        let mut indices = self.paths.get(&id)?.iter();
        let mut field = self.root.fields.get(*indices.next()?)?;
        path.push(field);
        for i in indices {
            field = field.field_type.children().get(*i).copied()?;
            path.push(field);
        }
        Some(path)
    }

    /// The field found by walking down these names (exact case); a list's element is `element`,
    /// a map's parts are `key` and `value`.
    pub fn field_by_path(&self, names: &[&str]) -> Option<&NestedField> {
        let (first, rest) = names.split_first()?;
        let mut field = self.root.field_by_name(first)?;
        for name in rest {
            field = field.field_type.children().into_iter().find(|f| f.name == *name)?;
        }
        Some(field)
    }

    /// The field's full name, with dots; `None` for an id that is not in the schema.
    pub fn full_name(&self, id: FieldId) -> Option<String> {
        Some(self.path_of(id)?.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join("."))
    }

    /// The field with that full name, as [`Schema::full_name`] has it (exact case).
    pub fn field_by_full_name(&self, name: &str) -> Option<&NestedField> {
        // Names may have dots of their own, so that a name with dots is more than one path.
        self.root.field_by_name(name).or_else(|| {
            let mut ids = self.field_ids().filter(|_| name.contains('.'));
            self.field_by_id(ids.find(|id| self.full_name(*id).as_deref() == Some(name))?)
        })
    }

    /// Whether the field, or a field that it lies in, may be null: only then can `IS NULL` hold.
    pub fn can_be_null(&self, id: FieldId) -> bool {
        self.path_of(id).is_none_or(|path| path.iter().any(|f| !f.required))
    }

    /// The largest id of any field; 0 for an empty schema.
    pub fn highest_field_id(&self) -> FieldId {
        self.paths.keys().copied().max().unwrap_or_default()
    }

    /// The ids of all fields, at any depth, in no order.
    pub fn field_ids(&self) -> impl Iterator<Item = FieldId> + '_ {
        self.paths.keys().copied()
    }
}

fn index(
    fields: &[&NestedField],
    is_struct: bool,
    path: &mut Vec<usize>,
    paths: &mut HashMap<FieldId, Vec<usize>>,
) -> Result<()> {
    if path.len() > MAX_NESTING {
        return Err(Error::invalid(format!("types nest deeper than {MAX_NESTING}")));
    }
    let mut names = std::collections::HashSet::new();
    for (i, field) in fields.iter().enumerate() {
        if is_struct && !names.insert(field.name.as_str()) {
            return Err(Error::invalid(format!("field name `{}` occurs twice in a struct", field.name)));
        }
        path.push(i);
        if paths.insert(field.id, path.clone()).is_some() {
            return Err(Error::invalid(format!(
                "field id {} occurs twice (field `{}`)",
                field.id, field.name
            )));
        }
        if let Type::Map(m) = &field.field_type
            && !m.key.required
        {
            return Err(Error::invalid(format!("the key of map `{}` is optional", field.name)));
        }
        let is_struct = matches!(field.field_type, Type::Struct(_));
        index(&field.field_type.children(), is_struct, path, paths)?;
        path.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::types::{ListType, MapType, PrimitiveType as P};
    use super::*;

    fn nested() -> Vec<NestedField> {
        vec![
            NestedField::required(1, "id", P::Long),
            NestedField::optional(
                2,
                "points",
                ListType::new(3, StructType::new(vec![NestedField::required(4, "x", P::Double)]), false),
            ),
            NestedField::optional(5, "tags", MapType::new(6, P::String, 7, P::Int, true)),
        ]
    }

    #[test]
    fn looks_up_at_any_depth() {
        let schema = Schema::new(SchemaId(0), nested(), vec![FieldId(1)]).unwrap();
        assert_eq!(schema.full_name(FieldId(4)).unwrap(), "points.element.x");
        assert_eq!(schema.field_by_path(&["points", "element", "x"]).unwrap().id, FieldId(4));
        assert_eq!(schema.field_by_id(FieldId(7)).unwrap().name, "value");
        assert!(schema.can_be_null(FieldId(4)), "a required child of an optional struct can be null");
        assert!(!schema.can_be_null(FieldId(1)));
        assert_eq!(schema.highest_field_id(), FieldId(7));
        assert!(schema.field_by_path(&["Points"]).is_none());
        assert_eq!(schema.field_by_full_name("points.element.x").unwrap().id, FieldId(4));
        assert!(schema.field_by_full_name("points.x").is_none());
        let nested = StructType::new(vec![NestedField::required(2, "b.c", P::Int)]);
        let dots = vec![NestedField::required(1, "a", nested), NestedField::required(3, "d.e", P::Int)];
        let dots = Schema::new(SchemaId(0), dots, vec![]).unwrap();
        assert_eq!(dots.field_by_full_name("a.b.c").unwrap().id, FieldId(2));
        assert_eq!(dots.field_by_full_name("d.e").unwrap().id, FieldId(3));
    }

    #[test]
    fn refuses_what_is_ambiguous() {
        let twice_id = vec![NestedField::required(1, "a", P::Int), NestedField::required(1, "b", P::Int)];
        let twice_name = vec![NestedField::required(1, "a", P::Int), NestedField::required(2, "a", P::Int)];
        for fields in [twice_id, twice_name] {
            assert!(Schema::new(SchemaId(0), fields, vec![]).is_err());
        }
        assert!(Schema::new(SchemaId(0), nested(), vec![FieldId(99)]).is_err());
        let mut deep = Type::Primitive(P::Int);
        for id in 0..200 {
            deep = ListType::new(1000 + id, deep, false).into();
        }
        assert!(Schema::new(SchemaId(0), vec![NestedField::optional(1, "deep", deep)], vec![]).is_err());
    }
}
