//! Field ids for files that have none (spec, "Column Projection", "Name Mapping Serialization"):
//! the table property `schema.name-mapping.default`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json};

use crate::error::{Error, Result};

use super::ids::FieldId;
use super::json::Node;
use super::schema::{MAX_NESTING, Schema};
use super::types::NestedField;

/// A mapping from the names in files to field ids, level by level.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NameMapping {
    /// The columns.
    pub root: MappedFields,
}

/// The mapped fields of one level: the columns, a struct's fields, a list's `element` or a
/// map's `key` and `value`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MappedFields {
    fields: Vec<MappedField>,
    /// Position in `fields` by name.
    by_name: HashMap<String, usize>,
}

/// A field that files may have under one of several names.
#[derive(Debug, Clone, PartialEq)]
pub struct MappedField {
    /// Its id; none for a field that only files have.
    pub field_id: Option<FieldId>,
    /// The names in files; dots have no meaning in them.
    pub names: Vec<String>,
    /// The fields below it.
    pub children: MappedFields,
}

impl NameMapping {
    /// Parses the property's value.
    ///
    /// # Errors
    /// `DataInvalid` for text that is no mapping, or where a field id or, on a level, a name
    /// occurs twice.
    pub fn parse(text: &str) -> Result<Self> {
        let json: Json = serde_json::from_str(text)
            .map_err(|e| Error::invalid("the name mapping is not JSON").with_source(e))?;
        let mut ids = HashSet::new();
        Ok(Self { root: read_level(&Node::root(&json), &mut ids, 0)? })
    }

    /// The mapping by which a schema's own names are the names in files.
    pub fn from_schema(schema: &Schema) -> Self {
        Self { root: level_of(schema.fields().iter().collect()) }
    }

    /// The property's value.
    pub fn to_json(&self) -> Json {
        write_level(&self.root)
    }
}

impl MappedFields {
    /// The fields of this level.
    ///
    /// # Errors
    /// `DataInvalid` if a name occurs twice.
    pub fn new(fields: Vec<MappedField>) -> Result<Self> {
        let mut by_name = HashMap::new();
        for (i, field) in fields.iter().enumerate() {
            for name in &field.names {
                // The same name twice in one field is only superfluous.
                if by_name.insert(name.clone(), i).is_some_and(|before| before != i) {
                    return Err(Error::invalid(format!("name `{name}` is mapped twice")));
                }
            }
        }
        Ok(Self { fields, by_name })
    }

    /// The fields, in the mapping's order.
    pub fn fields(&self) -> &[MappedField] {
        &self.fields
    }

    /// The field that files have under this name (exact case).
    pub fn get(&self, name: &str) -> Option<&MappedField> {
        self.fields.get(*self.by_name.get(name)?)
    }
}

impl MappedField {
    /// The child that a struct in a file has under this name, or a map's `key` or `value`.
    pub fn child(&self, name: &str) -> Option<&MappedField> {
        self.children.get(name)
    }

    /// The element of a list, whatever the file calls it.
    pub fn element(&self) -> Option<&MappedField> {
        self.children.get("element").or(match self.children.fields() {
            [only] => Some(only),
            _ => None,
        })
    }
}

fn read_level(node: &Node<'_>, ids: &mut HashSet<i32>, depth: usize) -> Result<MappedFields> {
    if depth > MAX_NESTING {
        return Err(node.error(format!("fields nest deeper than {MAX_NESTING}")));
    }
    let fields = node.list(|node| {
        let object = node.object()?;
        let field_id = object.opt("field-id", Node::i32)?;
        if let Some(id) = field_id
            && !ids.insert(id)
        {
            return Err(node.error(format!("field id {id} occurs twice")));
        }
        Ok(MappedField {
            field_id: field_id.map(FieldId),
            names: object.list("names", |n| n.string())?,
            children: object.opt("fields", |n| read_level(n, ids, depth + 1))?.unwrap_or_default(),
        })
    })?;
    MappedFields::new(fields).map_err(|e| node.locate(e))
}

fn write_level(level: &MappedFields) -> Json {
    let write = |field: &MappedField| {
        let mut members = Map::new();
        if let Some(id) = field.field_id {
            members.insert("field-id".into(), id.0.into());
        }
        members.insert("names".into(), field.names.as_slice().into());
        if !field.children.fields.is_empty() {
            members.insert("fields".into(), write_level(&field.children));
        }
        Json::Object(members)
    };
    level.fields.iter().map(write).collect()
}

fn level_of(fields: Vec<&NestedField>) -> MappedFields {
    let map = |field: &&NestedField| MappedField {
        field_id: Some(field.id),
        names: vec![field.name.clone()],
        children: level_of(field.field_type.children()),
    };
    let by_name = fields.iter().enumerate().map(|(i, f)| (f.name.clone(), i)).collect();
    MappedFields { fields: fields.iter().map(map).collect(), by_name }
}

#[cfg(test)]
mod tests {
    use super::super::ids::SchemaId;
    use super::super::types::{ListType, MapType, PrimitiveType as P, StructType};
    use super::*;
    use serde_json::json;

    #[test]
    fn the_example_of_the_specification() {
        let json = json!([
            {"field-id": 1, "names": ["id", "record_id"]},
            {"field-id": 2, "names": ["data.x"]},
            {"field-id": 3, "names": ["location"], "fields": [
                {"field-id": 4, "names": ["latitude", "lat"]},
                {"field-id": 5, "names": ["longitude", "long"]}
            ]},
            {"names": ["only in files"]},
            {"field-id": 6, "names": []}
        ]);
        let mapping = NameMapping::parse(&json.to_string()).unwrap();
        let id = |name: &str| mapping.root.get(name).and_then(|f| f.field_id);
        assert_eq!(id("record_id"), Some(FieldId(1)));
        assert_eq!(id("data.x"), Some(FieldId(2)));
        assert_eq!(id("ID"), None);
        assert!(mapping.root.get("only in files").is_some());
        assert!(mapping.root.get("location.lat").is_none(), "dots are no paths");
        let location = mapping.root.get("location").unwrap();
        assert_eq!(location.child("lat").unwrap().field_id, Some(FieldId(4)));
        assert_eq!(mapping.to_json(), json);
    }

    #[test]
    fn lists_and_maps() {
        let schema = Schema::new(
            SchemaId(0),
            vec![
                NestedField::optional(
                    1,
                    "l",
                    ListType::new(2, StructType::new(vec![NestedField::optional(3, "x", P::Int)]), false),
                ),
                NestedField::optional(4, "m", MapType::new(5, P::String, 6, P::Int, false)),
            ],
            vec![],
        )
        .unwrap();
        let mapping = NameMapping::from_schema(&schema);
        let x = mapping.root.get("l").unwrap().element().unwrap().child("x").unwrap();
        assert_eq!(x.field_id, Some(FieldId(3)));
        assert_eq!(mapping.root.get("m").unwrap().child("value").unwrap().field_id, Some(FieldId(6)));
        assert_eq!(NameMapping::parse(&mapping.to_json().to_string()).unwrap(), mapping);
        let other = r#"[{"field-id": 1, "names": ["l"], "fields": [{"field-id": 2, "names": ["array"]}]}]"#;
        let other = NameMapping::parse(other).unwrap();
        assert_eq!(other.root.get("l").unwrap().element().unwrap().field_id, Some(FieldId(2)));
    }

    #[test]
    fn ambiguous_mappings_are_errors() {
        for text in [
            "",
            "{}",
            "[1]",
            r#"[{"field-id": "1", "names": ["a"]}]"#,
            r#"[{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["a"]}]"#,
            r#"[{"field-id": 1, "names": ["a"]}, {"field-id": 1, "names": ["b"]}]"#,
            r#"[{"field-id": 1, "names": [1]}]"#,
        ] {
            assert!(NameMapping::parse(text).is_err(), "{text}");
        }
        let deep = format!("{}{}", r#"[{"fields": "#.repeat(5000), "}]".repeat(5000));
        assert!(NameMapping::parse(&deep).is_err());
    }
}
