//! Values of Iceberg types: defaults, partition values, bounds and literals.

use std::cmp::Ordering;

use uuid::Uuid;

use super::types::{PrimitiveType, Type};

/// A non-null value; null is `None` wherever a value may be missing.
///
/// Equality is by bits for floats: NaN equals NaN of the same bits, and 0.0 differs from -0.0.
#[derive(Debug, Clone)]
pub enum Value {
    /// `boolean`.
    Boolean(bool),
    /// `int`.
    Int(i32),
    /// `long`.
    Long(i64),
    /// `float`.
    Float(f32),
    /// `double`.
    Double(f64),
    /// `decimal`: the unscaled value and its scale.
    Decimal(i128, u32),
    /// `date`: days since 1970-01-01.
    Date(i32),
    /// `time`: microseconds since midnight.
    Time(i64),
    /// `timestamp`: microseconds since 1970-01-01 00:00:00.
    Timestamp(i64),
    /// `timestamptz`: microseconds since 1970-01-01 00:00:00 UTC.
    Timestamptz(i64),
    /// `timestamp_ns`: nanoseconds since 1970-01-01 00:00:00.
    TimestampNs(i64),
    /// `timestamptz_ns`: nanoseconds since 1970-01-01 00:00:00 UTC.
    TimestamptzNs(i64),
    /// `string`.
    String(String),
    /// `uuid`.
    Uuid(Uuid),
    /// `fixed`.
    Fixed(Vec<u8>),
    /// `binary`.
    Binary(Vec<u8>),
    /// A struct's values in the order of its fields.
    Struct(Vec<Option<Value>>),
    /// A list's elements.
    List(Vec<Option<Value>>),
    /// A map's pairs.
    Map(Vec<(Value, Option<Value>)>),
}

impl Value {
    /// Compares two values of the same primitive type; `None` for values of different types or
    /// of nested ones. Floats compare in IEEE 754's total order (-0.0 before 0.0, NaN at the
    /// ends by its sign), strings and bytes as unsigned bytes, UUIDs as unsigned 128-bit numbers.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        use Value as V;
        Some(match (self, other) {
            (V::Boolean(a), V::Boolean(b)) => a.cmp(b),
            (V::Int(a), V::Int(b)) | (V::Date(a), V::Date(b)) => a.cmp(b),
            (V::Long(a), V::Long(b))
            | (V::Time(a), V::Time(b))
            | (V::Timestamp(a), V::Timestamp(b))
            | (V::Timestamptz(a), V::Timestamptz(b))
            | (V::TimestampNs(a), V::TimestampNs(b))
            | (V::TimestamptzNs(a), V::TimestamptzNs(b)) => a.cmp(b),
            (V::Float(a), V::Float(b)) => a.total_cmp(b),
            (V::Double(a), V::Double(b)) => a.total_cmp(b),
            (V::Decimal(a, s), V::Decimal(b, t)) if s == t => a.cmp(b),
            (V::String(a), V::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (V::Uuid(a), V::Uuid(b)) => a.as_bytes().cmp(b.as_bytes()),
            (V::Fixed(a), V::Fixed(b)) | (V::Binary(a), V::Binary(b)) => a.cmp(b),
            _ => return None,
        })
    }

    /// Whether it is a float that is not a number.
    pub fn is_nan(&self) -> bool {
        match self {
            Value::Float(v) => v.is_nan(),
            Value::Double(v) => v.is_nan(),
            _ => false,
        }
    }

    /// The value in a type that its own may be promoted to (spec, "Schema Evolution"); `None` for
    /// other types, and where it does not fit.
    pub fn promote_to(&self, to: &PrimitiveType) -> Option<Value> {
        use PrimitiveType as P;
        const MICROS_PER_DAY: i64 = 86_400_000_000;
        Some(match (self, to) {
            (value, to) if value.is_of(&Type::Primitive(to.clone())) => value.clone(),
            (Value::Int(v), P::Long) => Value::Long(i64::from(*v)),
            (Value::Float(v), P::Double) => Value::Double(f64::from(*v)),
            (Value::Date(v), P::Timestamp) => Value::Timestamp(i64::from(*v).checked_mul(MICROS_PER_DAY)?),
            (Value::Date(v), P::TimestampNs) => {
                Value::TimestampNs(i64::from(*v).checked_mul(MICROS_PER_DAY)?.checked_mul(1000)?)
            }
            _ => return None,
        })
    }

    /// Whether the value belongs to `field_type`.
    pub fn is_of(&self, field_type: &Type) -> bool {
        use PrimitiveType as P;
        match (self, field_type) {
            (Value::Struct(values), Type::Struct(s)) => {
                values.len() == s.fields.len()
                    && values
                        .iter()
                        .zip(&s.fields)
                        .all(|(v, f)| v.as_ref().map_or(!f.required, |v| v.is_of(&f.field_type)))
            }
            (Value::List(values), Type::List(l)) => values
                .iter()
                .all(|v| v.as_ref().map_or(!l.element.required, |v| v.is_of(&l.element.field_type))),
            (Value::Map(pairs), Type::Map(m)) => pairs.iter().all(|(k, v)| {
                k.is_of(&m.key.field_type)
                    && v.as_ref().map_or(!m.value.required, |v| v.is_of(&m.value.field_type))
            }),
            (value, Type::Primitive(p)) => match (value, p) {
                (Value::Boolean(_), P::Boolean)
                | (Value::Int(_), P::Int)
                | (Value::Long(_), P::Long)
                | (Value::Float(_), P::Float)
                | (Value::Double(_), P::Double)
                | (Value::Date(_), P::Date)
                | (Value::Time(_), P::Time)
                | (Value::Timestamp(_), P::Timestamp)
                | (Value::Timestamptz(_), P::Timestamptz)
                | (Value::TimestampNs(_), P::TimestampNs)
                | (Value::TimestamptzNs(_), P::TimestamptzNs)
                | (Value::String(_), P::String)
                | (Value::Uuid(_), P::Uuid)
                | (Value::Binary(_), P::Binary) => true,
                (Value::Decimal(_, s), P::Decimal { scale, .. }) => s == scale,
                (Value::Fixed(bytes), P::Fixed(length)) => bytes.len() as u64 == *length,
                _ => false,
            },
            _ => false,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Struct(a), Value::Struct(b)) | (Value::List(a), Value::List(b)) => a == b,
            (Value::Map(a), Value::Map(b)) => a == b,
            // Decimals of another scale are another type.
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }
}

impl Eq for Value {}

impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Value::Boolean(v) => v.hash(state),
            Value::Int(v) | Value::Date(v) => v.hash(state),
            Value::Long(v)
            | Value::Time(v)
            | Value::Timestamp(v)
            | Value::Timestamptz(v)
            | Value::TimestampNs(v)
            | Value::TimestamptzNs(v) => v.hash(state),
            Value::Float(v) => v.to_bits().hash(state),
            Value::Double(v) => v.to_bits().hash(state),
            Value::Decimal(v, s) => (v, s).hash(state),
            Value::String(v) => v.hash(state),
            Value::Uuid(v) => v.hash(state),
            Value::Fixed(v) | Value::Binary(v) => v.hash(state),
            Value::Struct(v) | Value::List(v) => v.hash(state),
            Value::Map(v) => v.hash(state),
        }
    }
}
