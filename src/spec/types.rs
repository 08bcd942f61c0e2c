//! Types of a schema (spec, "Schemas and Data Types"; JSON names: Appendix C, "Schemas").

use std::fmt;

use crate::error::{Error, Result};

use super::ids::FieldId;
use super::value::Value;

/// Any type a field can have.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// A type without children.
    Primitive(PrimitiveType),
    /// A tuple of named fields.
    Struct(StructType),
    /// A collection of elements of one type.
    List(ListType),
    /// A collection of key-value pairs.
    Map(MapType),
    /// Semi-structured values (v3).
    Variant,
}

/// A type without children.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PrimitiveType {
    /// True or false.
    Boolean,
    /// 32-bit signed integer.
    Int,
    /// 64-bit signed integer.
    Long,
    /// 32-bit IEEE 754.
    Float,
    /// 64-bit IEEE 754.
    Double,
    /// Fixed point.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u32,
        /// Digits after the point; at most `precision`.
        scale: u32,
    },
    /// Calendar date.
    Date,
    /// Time of day in microseconds.
    Time,
    /// Microseconds, without zone.
    Timestamp,
    /// Microseconds, a point in time.
    Timestamptz,
    /// Nanoseconds, without zone (v3).
    TimestampNs,
    /// Nanoseconds, a point in time (v3).
    TimestamptzNs,
    /// UTF-8.
    String,
    /// Sixteen bytes.
    Uuid,
    /// This many bytes.
    Fixed(u64),
    /// Any number of bytes.
    Binary,
    /// Only null (v3).
    Unknown,
    /// Geospatial features on a plane, as WKB (v3).
    Geometry {
        /// The coordinate reference system, if it was written out.
        crs: Option<String>,
    },
    /// Geospatial features on the earth's surface, as WKB (v3).
    Geography {
        /// The coordinate reference system, if it was written out.
        crs: Option<String>,
        /// How edges are interpolated, if it was written out.
        algorithm: Option<String>,
    },
}

/// The largest precision of a decimal.
pub const MAX_DECIMAL_PRECISION: u32 = 38;

impl PrimitiveType {
    /// Parses the name that schemas use in JSON, such as `decimal(9,2)`.
    ///
    /// # Errors
    /// `DataInvalid` for a name that is no type of the specification, or with absurd parameters.
    pub fn parse(name: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("unknown type `{name}`"));
        let trimmed = name.trim();
        let (head, args) = match trimmed.split_once(['(', '[']) {
            None => (trimmed, None),
            Some((head, rest)) => {
                let close = if trimmed.contains('[') && !trimmed.contains('(') { ']' } else { ')' };
                (head.trim(), Some(rest.strip_suffix(close).ok_or_else(bad)?))
            }
        };
        let parsed = match (head, args) {
            ("boolean", None) => Self::Boolean,
            ("int", None) => Self::Int,
            ("long", None) => Self::Long,
            ("float", None) => Self::Float,
            ("double", None) => Self::Double,
            ("date", None) => Self::Date,
            ("time", None) => Self::Time,
            ("timestamp", None) => Self::Timestamp,
            ("timestamptz", None) => Self::Timestamptz,
            ("timestamp_ns", None) => Self::TimestampNs,
            ("timestamptz_ns", None) => Self::TimestamptzNs,
            ("string", None) => Self::String,
            ("uuid", None) => Self::Uuid,
            ("binary", None) => Self::Binary,
            ("unknown", None) => Self::Unknown,
            ("fixed", Some(args)) => {
                let length: u64 = args.trim().parse().map_err(|_| bad())?;
                // Arrow's FixedSizeBinary holds an i32.
                if length > i32::MAX as u64 {
                    return Err(Error::invalid(format!("type `{name}` is longer than 2^31 - 1 bytes")));
                }
                Self::Fixed(length)
            }
            ("decimal", Some(args)) => {
                let (p, s) = args.split_once(',').ok_or_else(bad)?;
                let precision: u32 = p.trim().parse().map_err(|_| bad())?;
                let scale: u32 = s.trim().parse().map_err(|_| bad())?;
                if precision == 0 || precision > MAX_DECIMAL_PRECISION || scale > precision {
                    return Err(Error::invalid(format!(
                        "type `{name}`: precision must be 1 to {MAX_DECIMAL_PRECISION}, scale at most the precision"
                    )));
                }
                Self::Decimal { precision, scale }
            }
            ("geometry", args) => Self::Geometry { crs: parameter(args) },
            ("geography", args) => {
                let (crs, algorithm) = match args.and_then(|a| a.rsplit_once(',')) {
                    Some((crs, algorithm)) => (parameter(Some(crs)), parameter(Some(algorithm))),
                    None => (parameter(args), None),
                };
                Self::Geography { crs, algorithm }
            }
            _ => return Err(bad()),
        };
        Ok(parsed)
    }

    /// Whether values of this type were always null or can't be compared, so that no bound,
    /// partition or predicate can exist.
    pub fn is_opaque(&self) -> bool {
        matches!(self, Self::Unknown | Self::Geometry { .. } | Self::Geography { .. })
    }

    /// Whether a field of this type may become `to` in a table of `format_version`
    /// (spec, "Schema Evolution"). A type may always stay what it is.
    pub fn can_promote_to(&self, to: &PrimitiveType, format_version: u8) -> bool {
        use PrimitiveType as P;
        match (self, to) {
            (a, b) if a == b => true,
            (P::Int, P::Long) | (P::Float, P::Double) => true,
            (P::Decimal { precision: p, scale: s }, P::Decimal { precision: q, scale: t }) => {
                s == t && p <= q
            }
            (P::Unknown, _) | (P::Date, P::Timestamp | P::TimestampNs) => format_version >= 3,
            _ => false,
        }
    }
}

fn parameter(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned)
}

impl fmt::Display for PrimitiveType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("boolean"),
            Self::Int => f.write_str("int"),
            Self::Long => f.write_str("long"),
            Self::Float => f.write_str("float"),
            Self::Double => f.write_str("double"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision}, {scale})"),
            Self::Date => f.write_str("date"),
            Self::Time => f.write_str("time"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Timestamptz => f.write_str("timestamptz"),
            Self::TimestampNs => f.write_str("timestamp_ns"),
            Self::TimestamptzNs => f.write_str("timestamptz_ns"),
            Self::String => f.write_str("string"),
            Self::Uuid => f.write_str("uuid"),
            Self::Fixed(length) => write!(f, "fixed[{length}]"),
            Self::Binary => f.write_str("binary"),
            Self::Unknown => f.write_str("unknown"),
            Self::Geometry { crs: None } => f.write_str("geometry"),
            Self::Geometry { crs: Some(crs) } => write!(f, "geometry({crs})"),
            Self::Geography { crs: None, algorithm: None } => f.write_str("geography"),
            Self::Geography { crs, algorithm } => {
                write!(f, "geography({}", crs.as_deref().unwrap_or("OGC:CRS84"))?;
                if let Some(algorithm) = algorithm {
                    write!(f, ", {algorithm}")?;
                }
                f.write_str(")")
            }
        }
    }
}

/// A field of a struct; the element of a list and the key and value of a map are fields too.
#[derive(Debug, Clone, PartialEq)]
pub struct NestedField {
    /// Unique in the table's schemas; what columns of files are found by.
    pub id: FieldId,
    /// Unique in its struct.
    pub name: String,
    /// Whether null is not allowed.
    pub required: bool,
    /// The type of the values.
    pub field_type: Type,
    /// A comment for people.
    pub doc: Option<String>,
    /// The value in rows written before the field was added (v3).
    pub initial_default: Option<Value>,
    /// The value that writers fill in when they have none (v3).
    pub write_default: Option<Value>,
    /// Members of the JSON object that this version does not know; kept and written back.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl NestedField {
    /// A field that may be null.
    pub fn optional(id: i32, name: impl Into<String>, field_type: impl Into<Type>) -> Self {
        Self {
            id: FieldId(id),
            name: name.into(),
            required: false,
            field_type: field_type.into(),
            doc: None,
            initial_default: None,
            write_default: None,
            extra: serde_json::Map::new(),
        }
    }

    /// A field that is never null.
    pub fn required(id: i32, name: impl Into<String>, field_type: impl Into<Type>) -> Self {
        Self { required: true, ..Self::optional(id, name, field_type) }
    }
}

/// A tuple of named fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StructType {
    /// In the order in which they are shown.
    pub fields: Vec<NestedField>,
}

impl StructType {
    /// A struct of these fields.
    pub fn new(fields: Vec<NestedField>) -> Self {
        Self { fields }
    }

    /// The direct child with that name (exact case).
    pub fn field_by_name(&self, name: &str) -> Option<&NestedField> {
        self.fields.iter().find(|f| f.name == name)
    }
}

/// A list; its element is the field `element`.
#[derive(Debug, Clone, PartialEq)]
pub struct ListType {
    /// The element, named `element`.
    pub element: Box<NestedField>,
}

impl ListType {
    /// A list of `element_type`.
    pub fn new(element_id: i32, element_type: impl Into<Type>, required: bool) -> Self {
        let element = NestedField { required, ..NestedField::optional(element_id, "element", element_type) };
        Self { element: Box::new(element) }
    }
}

/// A map; its pairs are the fields `key` and `value`.
#[derive(Debug, Clone, PartialEq)]
pub struct MapType {
    /// The key, named `key`; always required.
    pub key: Box<NestedField>,
    /// The value, named `value`.
    pub value: Box<NestedField>,
}

impl MapType {
    /// A map from `key_type` to `value_type`.
    pub fn new(
        key_id: i32,
        key_type: impl Into<Type>,
        value_id: i32,
        value_type: impl Into<Type>,
        value_required: bool,
    ) -> Self {
        let value =
            NestedField { required: value_required, ..NestedField::optional(value_id, "value", value_type) };
        Self { key: Box::new(NestedField::required(key_id, "key", key_type)), value: Box::new(value) }
    }
}

impl Type {
    /// The primitive type, if it is one.
    pub fn as_primitive(&self) -> Option<&PrimitiveType> {
        match self {
            Type::Primitive(p) => Some(p),
            _ => None,
        }
    }

    /// The fields directly below: a struct's fields, a list's element, a map's key and value.
    pub fn children(&self) -> Vec<&NestedField> {
        match self {
            Type::Primitive(_) | Type::Variant => Vec::new(),
            Type::Struct(s) => s.fields.iter().collect(),
            Type::List(l) => vec![&l.element],
            Type::Map(m) => vec![&m.key, &m.value],
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Primitive(p) => p.fmt(f),
            Type::Variant => f.write_str("variant"),
            Type::Struct(s) => {
                f.write_str("struct<")?;
                for (i, field) in s.fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{}: {}", field.name, field.field_type)?;
                }
                f.write_str(">")
            }
            Type::List(l) => write!(f, "list<{}>", l.element.field_type),
            Type::Map(m) => write!(f, "map<{}, {}>", m.key.field_type, m.value.field_type),
        }
    }
}

impl From<PrimitiveType> for Type {
    fn from(p: PrimitiveType) -> Self {
        Type::Primitive(p)
    }
}

impl From<StructType> for Type {
    fn from(s: StructType) -> Self {
        Type::Struct(s)
    }
}

impl From<ListType> for Type {
    fn from(l: ListType) -> Self {
        Type::List(l)
    }
}

impl From<MapType> for Type {
    fn from(m: MapType) -> Self {
        Type::Map(m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        for name in [
            "boolean",
            "int",
            "long",
            "float",
            "double",
            "date",
            "time",
            "timestamp",
            "timestamptz",
            "timestamp_ns",
            "timestamptz_ns",
            "string",
            "uuid",
            "binary",
            "unknown",
            "fixed[16]",
            "decimal(9, 2)",
            "geometry",
            "geometry(EPSG:3857)",
            "geography",
            "geography(OGC:CRS84, karney)",
        ] {
            assert_eq!(PrimitiveType::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(
            PrimitiveType::parse("decimal(38,38)").unwrap(),
            PrimitiveType::Decimal { precision: 38, scale: 38 }
        );
    }

    #[test]
    fn absurd_names_are_errors() {
        for name in [
            "",
            "integer",
            "fixed",
            "fixed[",
            "fixed[-1]",
            "fixed[99999999999]",
            "decimal(0,0)",
            "decimal(39,1)",
            "decimal(4,5)",
            "decimal(4)",
            "int(4)",
            "decimal(9,2",
        ] {
            assert!(PrimitiveType::parse(name).is_err(), "{name}");
        }
    }
}
