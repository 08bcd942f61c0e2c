//! Schemas and types as JSON (spec, Appendix C, "Schemas").

use serde_json::{Map, Value as Json};

use crate::error::{Result, ResultExt};

use super::ids::{FieldId, SchemaId};
use super::json::{Node, Object};
use super::schema::{MAX_NESTING, Schema};
use super::types::{ListType, MapType, NestedField, PrimitiveType, StructType, Type};
use super::value_json;

impl Schema {
    /// Reads a schema; one without `schema-id` (old v1 writers) has the id 0.
    ///
    /// # Errors
    /// `DataInvalid`, with the path of the member, for JSON that is no schema; see also
    /// [`Schema::new`].
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::read(&Node::root(json))
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Self> {
        let object = node.object()?;
        // Headers of manifests and old metadata may leave `"type": "struct"` out.
        if let Some(kind) = object.opt("type", Node::str)?
            && kind != "struct"
        {
            return Err(object.error(format!("a schema is a struct, not a `{kind}`")));
        }
        let schema_id = SchemaId(object.opt("schema-id", Node::i32)?.unwrap_or(0));
        let fields = object.req("fields", |n| n.list(|n| read_field(n, 0)))?;
        let identifier_field_ids = object.list("identifier-field-ids", |n| n.i32().map(FieldId))?;
        let mut schema = Schema::new(schema_id, fields, identifier_field_ids).map_err(|e| node.locate(e))?;
        schema.extra = object.extra();
        Ok(schema)
    }

    /// Writes the schema.
    ///
    /// # Errors
    /// `DataInvalid` for a default that is not of its field's type.
    pub fn to_json(&self) -> Result<Json> {
        let mut members = self.extra.clone();
        insert(&mut members, "type", "struct");
        insert(&mut members, "schema-id", self.schema_id.0);
        if !self.identifier_field_ids.is_empty() {
            let ids: Vec<i32> = self.identifier_field_ids.iter().map(|id| id.0).collect();
            insert(&mut members, "identifier-field-ids", ids);
        }
        let fields: Vec<Json> = self.fields().iter().map(write_field).collect::<Result<_>>()?;
        insert(&mut members, "fields", fields);
        Ok(Json::Object(members))
    }
}

impl Type {
    /// Reads a type: a name such as `long`, or an object for a nested one.
    ///
    /// # Errors
    /// `DataInvalid`, with the path of the member, for JSON that is no type.
    pub fn from_json(json: &Json) -> Result<Self> {
        read_type(&Node::root(json), 0)
    }

    /// Writes the type.
    ///
    /// # Errors
    /// `DataInvalid` for a default that is not of its field's type.
    pub fn to_json(&self) -> Result<Json> {
        let mut members = Map::new();
        match self {
            Type::Primitive(p) => return Ok(Json::String(p.to_string())),
            Type::Variant => return Ok(Json::from("variant")),
            Type::Struct(s) => {
                insert(&mut members, "type", "struct");
                let fields: Vec<Json> = s.fields.iter().map(write_field).collect::<Result<_>>()?;
                insert(&mut members, "fields", fields);
            }
            Type::List(l) => {
                members.extend(l.element.extra.clone());
                insert(&mut members, "type", "list");
                insert(&mut members, "element-id", l.element.id.0);
                insert(&mut members, "element", l.element.field_type.to_json()?);
                insert(&mut members, "element-required", l.element.required);
            }
            Type::Map(m) => {
                members.extend(m.value.extra.clone());
                insert(&mut members, "type", "map");
                insert(&mut members, "key-id", m.key.id.0);
                insert(&mut members, "key", m.key.field_type.to_json()?);
                insert(&mut members, "value-id", m.value.id.0);
                insert(&mut members, "value", m.value.field_type.to_json()?);
                insert(&mut members, "value-required", m.value.required);
            }
        }
        Ok(Json::Object(members))
    }
}

fn insert(members: &mut Map<String, Json>, name: &str, value: impl Into<Json>) {
    members.insert(name.to_owned(), value.into());
}

fn read_field(node: &Node<'_>, depth: usize) -> Result<NestedField> {
    let object = node.object()?;
    let id = object.req("id", Node::i32)?;
    let name = object.req("name", Node::string)?;
    let required = object.req("required", Node::bool)?;
    let field_type = object.req("type", |n| read_type(n, depth + 1))?;
    let doc = object.opt("doc", Node::string)?;
    let initial_default = object.opt("initial-default", |n| value_json::read(n, &field_type))?;
    let write_default = object.opt("write-default", |n| value_json::read(n, &field_type))?;
    Ok(NestedField {
        required,
        doc,
        initial_default,
        write_default,
        extra: object.extra(),
        ..NestedField::optional(id, name, field_type)
    })
}

fn read_type(node: &Node<'_>, depth: usize) -> Result<Type> {
    if depth > MAX_NESTING {
        return Err(node.error(format!("types nest deeper than {MAX_NESTING}")));
    }
    if let Some(name) = node.json().as_str() {
        return named_type(name).map_err(|e| node.locate(e));
    }
    let object = node.object()?;
    let t = match object.req("type", Node::str)? {
        "struct" => {
            let fields = object.req("fields", |n| n.list(|n| read_field(n, depth)))?;
            StructType::new(fields).into()
        }
        "list" => read_list(&object, depth)?.into(),
        "map" => read_map(&object, depth)?.into(),
        other => return Err(object.error(format!("unknown nested type `{other}`"))),
    };
    Ok(t)
}

fn named_type(name: &str) -> Result<Type> {
    if name.trim().eq_ignore_ascii_case("variant") {
        return Ok(Type::Variant);
    }
    // Names are lower case in the specification; Java reads any case.
    match PrimitiveType::parse(name) {
        Err(e) => PrimitiveType::parse(&name.to_ascii_lowercase()).map_err(|_| e),
        parsed => parsed,
    }
    .map(Type::Primitive)
}

fn read_list(object: &Object<'_>, depth: usize) -> Result<ListType> {
    let id = object.req("element-id", Node::i32)?;
    let element = object.req("element", |n| read_type(n, depth + 1))?;
    let required = object.req("element-required", Node::bool)?;
    let mut list = ListType::new(id, element, required);
    // Unknown members are kept with the element (a map's with the value): the type has no place.
    list.element.extra = object.extra();
    Ok(list)
}

fn read_map(object: &Object<'_>, depth: usize) -> Result<MapType> {
    let key_id = object.req("key-id", Node::i32)?;
    let key = object.req("key", |n| read_type(n, depth + 1))?;
    let value_id = object.req("value-id", Node::i32)?;
    let value = object.req("value", |n| read_type(n, depth + 1))?;
    let required = object.req("value-required", Node::bool)?;
    let mut map = MapType::new(key_id, key, value_id, value, required);
    map.value.extra = object.extra();
    Ok(map)
}

fn write_field(field: &NestedField) -> Result<Json> {
    let default = |name: &str, value: &super::value::Value| {
        value.to_json(&field.field_type).context(|| format!("{name} of field `{}`", field.name))
    };
    let mut members = field.extra.clone();
    insert(&mut members, "id", field.id.0);
    insert(&mut members, "name", field.name.as_str());
    insert(&mut members, "required", field.required);
    insert(&mut members, "type", field.field_type.to_json()?);
    if let Some(doc) = &field.doc {
        insert(&mut members, "doc", doc.as_str());
    }
    if let Some(value) = &field.initial_default {
        insert(&mut members, "initial-default", default("initial default", value)?);
    }
    if let Some(value) = &field.write_default {
        insert(&mut members, "write-default", default("write default", value)?);
    }
    Ok(Json::Object(members))
}

#[cfg(test)]
mod tests {
    use super::super::value::Value;
    use super::*;
    use serde_json::json;

    fn schema() -> Json {
        json!({
            "type": "struct", "schema-id": 3, "identifier-field-ids": [1], "x-schema": [1],
            "fields": [
                {"id": 1, "name": "id", "required": true, "type": "long", "doc": "the key"},
                {"id": 2, "name": "points", "required": false, "x-field": {"y": 1}, "type": {
                    "type": "list", "element-id": 3, "element-required": true, "x-list": 0, "element": {
                        "type": "struct", "fields": [
                            {"id": 4, "name": "x", "required": true, "type": "double", "initial-default": 1.5, "write-default": 2.5}
                        ]
                    }
                }},
                {"id": 5, "name": "tags", "required": false, "type": {
                    "type": "map", "key-id": 6, "key": "string", "value-id": 7, "value": "decimal(9, 2)", "value-required": false
                }},
                {"id": 8, "name": "v", "required": false, "type": "variant"},
                {"id": 9, "name": "g", "required": false, "type": "geography(OGC:CRS84, karney)"},
                {"id": 10, "name": "s", "required": false, "initial-default": {}, "type": {"type": "struct", "fields": [
                    {"id": 11, "name": "y", "required": false, "type": "int"}
                ]}}
            ]
        })
    }

    #[test]
    fn everything_survives_a_round_trip() {
        let json = schema();
        let schema = Schema::from_json(&json).unwrap();
        assert_eq!(schema.schema_id, SchemaId(3));
        let x = schema.field_by_id(FieldId(4)).unwrap();
        assert_eq!(x.initial_default, Some(Value::Double(1.5)));
        assert_eq!(x.write_default, Some(Value::Double(2.5)));
        assert_eq!(schema.field_by_id(FieldId(10)).unwrap().initial_default, Some(Value::Struct(vec![None])));
        assert_eq!(schema.field_by_id(FieldId(1)).unwrap().doc.as_deref(), Some("the key"));
        assert_eq!(schema.to_json().unwrap(), json);
    }

    #[test]
    fn old_schemas_have_no_id() {
        let json =
            json!({"type": "struct", "fields": [{"id": 1, "name": "a", "required": false, "type": "int"}]});
        let schema = Schema::from_json(&json).unwrap();
        assert_eq!(schema.schema_id, SchemaId(0));
        let without_type = json!({"fields": json["fields"]});
        assert_eq!(Schema::from_json(&without_type).unwrap(), schema);
    }

    #[test]
    fn errors_name_the_member() {
        let message = |pointer: &str, value: Json| {
            let mut json = schema();
            *json.pointer_mut(pointer).unwrap() = value;
            Schema::from_json(&json).unwrap_err().to_string()
        };
        for (pointer, value, part) in [
            ("/fields/0/type", json!("integer"), "field `fields[0].type`"),
            ("/fields/0/id", json!(1.0), "field `fields[0].id`"),
            ("/fields/0/id", json!("1"), "field `fields[0].id`"),
            ("/fields/1/type/element/fields/0/type", json!(7), "`fields[1].type.element.fields[0].type`"),
            ("/fields/1/type/element/fields/0/initial-default", json!("x"), ".initial-default`"),
            ("/fields/1/type/type", json!("set"), "unknown nested type `set`"),
            ("/fields/0/id", json!(5), "field id 5 occurs twice"),
            ("/fields/0/name", json!("tags"), "field name `tags` occurs twice"),
            ("/type", json!("list"), "a schema is a struct"),
            ("/identifier-field-ids", json!([99]), "identifier field 99"),
            ("/fields", Json::Null, "field `fields`: invalid data: is missing"),
        ] {
            let found = message(pointer, value);
            assert!(found.contains(part), "{pointer}: {found}");
        }
    }

    #[test]
    fn nesting_is_limited() {
        let mut deep = json!("int");
        for id in 0..110 {
            deep = json!({"type": "list", "element-id": 10 + id, "element-required": false, "element": deep});
        }
        let json =
            json!({"type": "struct", "fields": [{"id": 1, "name": "a", "required": false, "type": deep}]});
        assert!(Schema::from_json(&json).unwrap_err().to_string().contains("nest deeper"));
    }
}
