//! The schema in an Avro file's header, with the attributes that Iceberg adds.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::cursor::{Cursor, Decoded, Malformed};
use crate::error::{Error, Result, ResultExt};

/// How deep values may nest that are skipped; schemas may be recursive.
const MAX_DEPTH: usize = 64;

/// A type of a schema, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(usize);

/// The shape of a type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum,
    Array(NodeId),
    Map(NodeId),
    Union(Vec<NodeId>),
    Record(Vec<RecordField>),
}

/// What a type means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Logical {
    None,
    Date,
    TimeMicros,
    TimestampMicros {
        utc: bool,
    },
    TimestampNanos {
        utc: bool,
    },
    Decimal {
        precision: u32,
        scale: u32,
    },
    Uuid,
    /// Something else, which must not be mistaken for one of the above.
    Other(String),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordField {
    /// Its name in Iceberg, if Avro could not hold that, else in Avro.
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) id: Option<i32>,
    pub(crate) node: NodeId,
}

#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    logical: Logical,
    /// Whether its values take no bytes.
    is_empty: bool,
}

/// A parsed schema. Types are indices, so that recursive ones are no trouble.
#[derive(Debug, Clone)]
pub(crate) struct AvroSchema {
    nodes: Vec<Node>,
    root: NodeId,
}

impl AvroSchema {
    /// Parses the JSON text of a schema.
    ///
    /// # Errors
    /// `DataInvalid` where it is not JSON or not an Avro schema.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let json: Json =
            serde_json::from_str(text).map_err(|e| Error::invalid("not valid JSON").with_source(e))?;
        let mut parser = Parser { nodes: Vec::new(), names: HashMap::new() };
        let root = parser.node(&json, "")?;
        let mut schema = Self { nodes: parser.nodes, root };
        schema.find_empty_types();
        Ok(schema)
    }

    pub(crate) fn root(&self) -> NodeId {
        self.root
    }

    pub(crate) fn kind(&self, id: NodeId) -> &Kind {
        self.nodes.get(id.0).map_or(&Kind::Null, |n| &n.kind)
    }

    pub(crate) fn logical(&self, id: NodeId) -> &Logical {
        self.nodes.get(id.0).map_or(&Logical::None, |n| &n.logical)
    }

    /// The fields, if it is a record.
    pub(crate) fn fields(&self, id: NodeId) -> Option<&[RecordField]> {
        match self.kind(id) {
            Kind::Record(fields) => Some(fields),
            _ => None,
        }
    }

    /// Whether values of the type take no bytes.
    pub(crate) fn is_empty(&self, id: NodeId) -> bool {
        self.nodes.get(id.0).is_none_or(|n| n.is_empty)
    }

    /// A type is empty if all that it holds is; repeated until nothing changes, as types may
    /// refer to later ones.
    fn find_empty_types(&mut self) {
        loop {
            let found: Vec<usize> = (0..self.nodes.len())
                .filter(|i| {
                    let id = NodeId(*i);
                    !self.is_empty(id)
                        && match self.kind(id) {
                            Kind::Null | Kind::Fixed(0) => true,
                            Kind::Record(fields) => fields.iter().all(|f| self.is_empty(f.node)),
                            _ => false,
                        }
                })
                .collect();
            if found.is_empty() {
                return;
            }
            for i in found {
                if let Some(node) = self.nodes.get_mut(i) {
                    node.is_empty = true;
                }
            }
        }
    }

    /// Reads past a value.
    pub(crate) fn skip(&self, id: NodeId, cursor: &mut Cursor<'_>) -> Decoded<()> {
        self.skip_within(id, cursor, MAX_DEPTH)
    }

    fn skip_within(&self, id: NodeId, cursor: &mut Cursor<'_>, depth: usize) -> Decoded<()> {
        let depth = depth.checked_sub(1).ok_or(Malformed("avro value nests too deep"))?;
        match self.kind(id) {
            Kind::Null => {}
            Kind::Boolean => drop(cursor.boolean()?),
            Kind::Int | Kind::Long | Kind::Enum => drop(cursor.long()?),
            Kind::Float => drop(cursor.take(4)?),
            Kind::Double => drop(cursor.take(8)?),
            Kind::Bytes | Kind::String => drop(cursor.bytes()?),
            Kind::Fixed(size) => drop(cursor.take(*size)?),
            Kind::Array(item) => loop {
                match cursor.block()? {
                    (0, _) => break,
                    (_, Some(size)) => drop(cursor.take(size)?),
                    _ if self.is_empty(*item) => {}
                    (count, None) => {
                        for _ in 0..count {
                            self.skip_within(*item, cursor, depth)?;
                        }
                    }
                }
            },
            Kind::Map(value) => loop {
                match cursor.block()? {
                    (0, _) => break,
                    (_, Some(size)) => drop(cursor.take(size)?),
                    (count, None) => {
                        for _ in 0..count {
                            cursor.bytes()?;
                            self.skip_within(*value, cursor, depth)?;
                        }
                    }
                }
            },
            Kind::Union(branches) => {
                let branch = usize::try_from(cursor.long()?).ok().and_then(|i| branches.get(i));
                self.skip_within(*branch.ok_or(Malformed("avro union has no such branch"))?, cursor, depth)?;
            }
            Kind::Record(fields) => {
                for field in fields {
                    self.skip_within(field.node, cursor, depth)?;
                }
            }
        }
        Ok(())
    }
}

struct Parser {
    nodes: Vec<Node>,
    names: HashMap<String, NodeId>,
}

impl Parser {
    fn add(&mut self, kind: Kind, logical: Logical) -> NodeId {
        self.nodes.push(Node { kind, logical, is_empty: false });
        NodeId(self.nodes.len() - 1)
    }

    // Recursion is bounded: serde_json refuses JSON that nests deeper than 128.
    fn node(&mut self, json: &Json, namespace: &str) -> Result<NodeId> {
        match json {
            Json::String(name) => match primitive(name) {
                Some(kind) => Ok(self.add(kind, Logical::None)),
                None => self
                    .names
                    .get(&full_name(name, namespace))
                    .or_else(|| self.names.get(name))
                    .copied()
                    .ok_or_else(|| Error::invalid(format!("unknown avro type `{name}`"))),
            },
            Json::Array(branches) => {
                let branches =
                    branches.iter().map(|b| self.node(b, namespace)).collect::<Result<Vec<_>>>()?;
                Ok(self.add(Kind::Union(branches), Logical::None))
            }
            Json::Object(object) => self.complex(object, namespace),
            _ => Err(Error::invalid("an avro type is a string, an array or an object")),
        }
    }

    fn complex(&mut self, object: &serde_json::Map<String, Json>, namespace: &str) -> Result<NodeId> {
        let inner = object.get("type").ok_or_else(|| Error::invalid("an avro type lacks `type`"))?;
        let Json::String(name) = inner else {
            return self.node(inner, namespace);
        };
        let member =
            |key: &str| object.get(key).ok_or_else(|| Error::invalid(format!("avro {name} lacks `{key}`")));
        let namespace = object.get("namespace").and_then(Json::as_str).unwrap_or(namespace);
        match name.as_str() {
            "array" => {
                let items = self.node(member("items")?, namespace)?;
                Ok(self.add(Kind::Array(items), Logical::None))
            }
            "map" => {
                let values = self.node(member("values")?, namespace)?;
                Ok(self.add(Kind::Map(values), Logical::None))
            }
            "fixed" => {
                let size = member("size")?.as_u64().and_then(|s| usize::try_from(s).ok());
                let size = size.ok_or_else(|| Error::invalid("the size of an avro fixed is not a length"))?;
                let id = self.add(Kind::Fixed(size), logical(object));
                self.define(object, namespace, id)?;
                Ok(id)
            }
            "enum" => {
                let id = self.add(Kind::Enum, Logical::None);
                self.define(object, namespace, id)?;
                Ok(id)
            }
            "record" | "error" => {
                // Known before its fields are, as these may refer to it.
                let id = self.add(Kind::Null, Logical::None);
                let namespace = self.define(object, namespace, id)?;
                let fields = member("fields")?
                    .as_array()
                    .ok_or_else(|| Error::invalid("the fields of an avro record are not an array"))?;
                let fields = fields.iter().map(|f| self.field(f, &namespace)).collect::<Result<Vec<_>>>()?;
                if let Some(node) = self.nodes.get_mut(id.0) {
                    node.kind = Kind::Record(fields);
                }
                Ok(id)
            }
            _ => match primitive(name) {
                Some(kind) => Ok(self.add(kind, logical(object))),
                None => self.node(inner, namespace),
            },
        }
    }

    /// Registers a named type and gives the namespace of what it contains. Some writers repeat a
    /// definition; the last one holds.
    fn define(
        &mut self,
        object: &serde_json::Map<String, Json>,
        namespace: &str,
        id: NodeId,
    ) -> Result<String> {
        let name = object
            .get("name")
            .and_then(Json::as_str)
            .ok_or_else(|| Error::invalid("a named avro type lacks `name`"))?;
        let full = full_name(name, namespace);
        let inside = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
        self.names.insert(full, id);
        Ok(inside)
    }

    fn field(&mut self, json: &Json, namespace: &str) -> Result<RecordField> {
        let name = json
            .get("name")
            .and_then(Json::as_str)
            .ok_or_else(|| Error::invalid("an avro field lacks `name`"))?;
        let node = json
            .get("type")
            .ok_or_else(|| Error::invalid("an avro field lacks `type`"))
            .and_then(|t| self.node(t, namespace))
            .context(|| format!("field `{name}`"))?;
        let id = match json.get("field-id") {
            None | Some(Json::Null) => None,
            Some(id) => Some(id.as_i64().and_then(|id| i32::try_from(id).ok()).ok_or_else(|| {
                Error::invalid("`field-id` is not an int").context(format!("field `{name}`"))
            })?),
        };
        let aliases = json.get("aliases").and_then(Json::as_array).into_iter().flatten();
        Ok(RecordField {
            name: json.get("iceberg-field-name").and_then(Json::as_str).unwrap_or(name).to_owned(),
            aliases: aliases.filter_map(Json::as_str).map(str::to_owned).collect(),
            id,
            node,
        })
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn primitive(name: &str) -> Option<Kind> {
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "long" => Kind::Long,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
}

fn logical(object: &serde_json::Map<String, Json>) -> Logical {
    let Some(name) = object.get("logicalType").and_then(Json::as_str) else {
        return Logical::None;
    };
    let number = |key: &str| object.get(key).and_then(Json::as_u64).and_then(|n| u32::try_from(n).ok());
    // Iceberg's own attribute; false where it is missing.
    let utc = object.get("adjust-to-utc").and_then(Json::as_bool).unwrap_or(false);
    match name {
        "date" => Logical::Date,
        "time-micros" => Logical::TimeMicros,
        "timestamp-micros" => Logical::TimestampMicros { utc },
        "timestamp-nanos" => Logical::TimestampNanos { utc },
        "local-timestamp-micros" => Logical::TimestampMicros { utc: false },
        "local-timestamp-nanos" => Logical::TimestampNanos { utc: false },
        "uuid" => Logical::Uuid,
        "decimal" => match number("precision") {
            Some(precision) => Logical::Decimal { precision, scale: number("scale").unwrap_or(0) },
            None => Logical::Other(name.to_owned()),
        },
        _ => Logical::Other(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_iceberg_are_kept() {
        let schema = AvroSchema::parse(
            r#"{"type":"record","name":"a.r","fields":[
                {"name":"_x61b","iceberg-field-name":"a b","aliases":["old"],"field-id":7,
                 "type":["null",{"type":"long","logicalType":"timestamp-micros","adjust-to-utc":true}]},
                {"name":"plain","type":{"type":"fixed","name":"f","size":5,"logicalType":"decimal","precision":9,"scale":2}},
                {"name":"again","type":["null","f"]}]}"#,
        )
        .unwrap();
        let [first, second, third] = schema.fields(schema.root()).unwrap() else { panic!() };
        assert_eq!((first.name.as_str(), first.id), ("a b", Some(7)));
        assert_eq!(first.aliases, ["old"]);
        let Kind::Union(branches) = schema.kind(first.node) else { panic!() };
        assert_eq!(schema.logical(branches[1]), &Logical::TimestampMicros { utc: true });
        assert_eq!(second.id, None);
        assert_eq!(schema.logical(second.node), &Logical::Decimal { precision: 9, scale: 2 });
        let Kind::Union(branches) = schema.kind(third.node) else { panic!() };
        assert_eq!(branches[1], second.node, "a name refers to the type in the same namespace");
    }

    #[test]
    fn recursive_types_end() {
        let schema = AvroSchema::parse(
            r#"{"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]}]}"#,
        )
        .unwrap();
        // Nested 3 deep, then null.
        let mut c = Cursor::new(&[2, 2, 0]);
        schema.skip(schema.root(), &mut c).unwrap();
        assert_eq!(c.remaining(), 0);
        assert!(schema.skip(schema.root(), &mut Cursor::new(&[2; 10_000])).is_err());

        let endless =
            AvroSchema::parse(r#"{"type":"record","name":"r","fields":[{"name":"next","type":"r"}]}"#)
                .unwrap();
        assert!(endless.skip(endless.root(), &mut Cursor::new(&[])).is_err());
    }

    #[test]
    fn empty_items_take_no_time() {
        let schema = AvroSchema::parse(
            r#"{"type":"array","items":{"type":"record","name":"r","fields":[{"name":"n","type":"null"}]}}"#,
        )
        .unwrap();
        assert!(
            schema.skip(schema.root(), &mut Cursor::new(&[0xfe, 0xff, 0xff, 0xff, 0x0f, 0])).is_err(),
            "two thousand million items in one byte"
        );
        assert!(schema.skip(schema.root(), &mut Cursor::new(&[2, 0])).is_ok());
    }

    #[test]
    fn broken_schemas_are_errors() {
        for text in [
            "",
            "3",
            r#""nothing""#,
            r#"{"type":"record","name":"r"}"#,
            r#"{"type":"record","fields":[]}"#,
            r#"{"type":"fixed","name":"f","size":-1}"#,
            r#"{"type":"record","name":"r","fields":[{"name":"a","type":"int","field-id":"x"}]}"#,
            r#"{"type":"record","name":"r","fields":[{"name":"a","type":"int","field-id":4294967296}]}"#,
            r#"{"type":"array"}"#,
            &format!("{}\"int\"{}", "[".repeat(10_000), "]".repeat(10_000)),
        ] {
            assert!(AvroSchema::parse(text).is_err(), "{text}");
        }
    }
}
