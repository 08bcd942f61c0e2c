//! Values as JSON (spec, Appendix D, "JSON single-value serialization").

use serde_json::{Map, Number, Value as Json};
use uuid::Uuid;

use crate::error::{Error, Result};

use super::iso_time::{self, Unit};
use super::json::Node;
use super::types::{PrimitiveType, Type};
use super::value::Value;

impl Value {
    /// Reads a value of type `t`. A struct's fields that are absent or null are `None`; whether
    /// they may be is not checked here, since the default of a struct leaves its fields out.
    ///
    /// # Errors
    /// `DataInvalid` for null, and for anything that is no value of the type.
    pub fn from_json(json: &Json, t: &Type) -> Result<Value> {
        read(&Node::root(json), t)
    }

    /// Writes the value as one of type `t`.
    ///
    /// # Errors
    /// `DataInvalid` if it is not of that type.
    pub fn to_json(&self, t: &Type) -> Result<Json> {
        write(self, t)
    }
}

/// Reads a value of type `t`.
pub(crate) fn read(node: &Node<'_>, t: &Type) -> Result<Value> {
    match t {
        Type::Primitive(p) => read_primitive(node, p),
        Type::Variant => Err(node.error("a value of type `variant` can't be written in JSON")),
        Type::Struct(s) => {
            // The keys are field ids; those of fields that are gone don't matter.
            let members = node.json().as_object().ok_or_else(|| bad(node, t))?;
            let mut values = Vec::with_capacity(s.fields.len());
            for field in &s.fields {
                values.push(match members.get(&field.id.to_string()) {
                    None | Some(Json::Null) => None,
                    Some(json) => Some(
                        read(&Node::root(json), &field.field_type)
                            .map_err(|e| node.locate(e.context(format!("value of field {}", field.id))))?,
                    ),
                });
            }
            Ok(Value::Struct(values))
        }
        Type::List(l) => {
            let values = node.list(|n| read_nullable(n, &l.element.field_type))?;
            Ok(Value::List(values))
        }
        Type::Map(m) => {
            let object = node.object()?;
            let keys = object.req("keys", |n| n.list(|n| read(n, &m.key.field_type)))?;
            let values = object.req("values", |n| n.list(|n| read_nullable(n, &m.value.field_type)))?;
            if keys.len() != values.len() {
                return Err(node.error(format!("{} keys for {} values", keys.len(), values.len())));
            }
            Ok(Value::Map(keys.into_iter().zip(values).collect()))
        }
    }
}

fn read_nullable(node: &Node<'_>, t: &Type) -> Result<Option<Value>> {
    if node.json().is_null() { Ok(None) } else { read(node, t).map(Some) }
}

fn bad(node: &Node<'_>, t: impl std::fmt::Display) -> Error {
    let mut text = node.json().to_string();
    if let Some((cut, _)) = text.char_indices().nth(60) {
        text.truncate(cut);
        text.push('…');
    }
    node.error(format!("`{text}` is not a value of type `{t}`"))
}

fn read_primitive(node: &Node<'_>, p: &PrimitiveType) -> Result<Value> {
    use PrimitiveType as P;
    let json = node.json();
    let text = json.as_str();
    let value = match p {
        P::Boolean => json.as_bool().map(Value::Boolean),
        P::Int => json.as_i64().and_then(|v| i32::try_from(v).ok()).map(Value::Int),
        P::Long => json.as_i64().map(Value::Long),
        P::Float => read_double(json).and_then(|wide| {
            let narrow = wide as f32;
            // A finite number must not become infinite.
            (narrow.is_finite() == wide.is_finite()).then_some(Value::Float(narrow))
        }),
        P::Double => read_double(json).map(Value::Double),
        P::Decimal { precision, scale } => {
            text.and_then(|t| parse_decimal(t, *precision, *scale)).map(|v| Value::Decimal(v, *scale))
        }
        P::Date => text.and_then(iso_time::parse_date).map(Value::Date),
        P::Time => text.and_then(iso_time::parse_time).map(Value::Time),
        P::Timestamp => text.and_then(|t| iso_time::parse_timestamp(t, Unit::Micros)).map(Value::Timestamp),
        P::Timestamptz => {
            text.and_then(|t| iso_time::parse_timestamptz(t, Unit::Micros)).map(Value::Timestamptz)
        }
        P::TimestampNs => {
            text.and_then(|t| iso_time::parse_timestamp(t, Unit::Nanos)).map(Value::TimestampNs)
        }
        P::TimestamptzNs => {
            text.and_then(|t| iso_time::parse_timestamptz(t, Unit::Nanos)).map(Value::TimestamptzNs)
        }
        P::String => text.map(|t| Value::String(t.to_owned())),
        P::Uuid => text.filter(|t| t.len() == 36).and_then(|t| Uuid::try_parse(t).ok()).map(Value::Uuid),
        P::Fixed(length) => text.and_then(parse_hex).filter(|b| b.len() as u64 == *length).map(Value::Fixed),
        P::Binary => text.and_then(parse_hex).map(Value::Binary),
        P::Unknown | P::Geometry { .. } | P::Geography { .. } => {
            return Err(node.error(format!("type `{p}` can only have the value null here")));
        }
    };
    value.ok_or_else(|| bad(node, p))
}

/// Numbers, and what JSON has no number for as the strings that Java's writer makes of it.
fn read_double(json: &Json) -> Option<f64> {
    match json {
        Json::Number(n) => n.as_f64(),
        Json::String(s) => match s.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" | "+Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Parses a plain or scientific decimal into the unscaled value at `scale`; `None` if it has
/// digits beyond it or more than `precision` digits.
pub(crate) fn parse_decimal(text: &str, precision: u32, scale: u32) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut unscaled: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        if !digit.is_ascii_digit() {
            return None;
        }
        unscaled = unscaled.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    // What the digits have to be shifted by to the left.
    let shift = i64::from(scale) + i64::from(exponent) - i64::try_from(fraction.len()).ok()?;
    if unscaled != 0 {
        if shift >= 0 {
            unscaled = unscaled.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)?;
        } else {
            let power = 10_i128.checked_pow(u32::try_from(-shift).ok()?)?;
            if unscaled % power != 0 {
                return None;
            }
            unscaled /= power;
        }
    }
    if unscaled >= 10_i128.checked_pow(precision)? {
        return None;
    }
    Some(if negative { -unscaled } else { unscaled })
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |c: u8| char::from(c).to_digit(16);
    pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()).collect()
}

fn write(value: &Value, t: &Type) -> Result<Json> {
    let mismatch = || Error::invalid(format!("a value is not of type `{t}`: {value:?}"));
    let optional = |value: &Option<Value>, t: &Type| value.as_ref().map_or(Ok(Json::Null), |v| write(v, t));
    Ok(match (value, t) {
        (Value::Struct(values), Type::Struct(s)) if values.len() == s.fields.len() => {
            let mut members = Map::new();
            for (value, field) in values.iter().zip(&s.fields) {
                if let Some(value) = value {
                    members.insert(field.id.to_string(), write(value, &field.field_type)?);
                }
            }
            Json::Object(members)
        }
        (Value::List(values), Type::List(l)) => {
            let elements = values.iter().map(|v| optional(v, &l.element.field_type));
            Json::Array(elements.collect::<Result<_>>()?)
        }
        (Value::Map(pairs), Type::Map(m)) => {
            let keys = pairs.iter().map(|(k, _)| write(k, &m.key.field_type)).collect::<Result<_>>()?;
            let values =
                pairs.iter().map(|(_, v)| optional(v, &m.value.field_type)).collect::<Result<_>>()?;
            let mut members = Map::new();
            members.insert("keys".into(), Json::Array(keys));
            members.insert("values".into(), Json::Array(values));
            Json::Object(members)
        }
        (value, Type::Primitive(_)) if value.is_of(t) => match value {
            Value::Boolean(v) => Json::Bool(*v),
            Value::Int(v) => Json::from(*v),
            Value::Long(v) => Json::from(*v),
            Value::Float(v) => write_float(*v),
            Value::Double(v) => write_double(*v),
            Value::Decimal(v, scale) => Json::String(write_decimal(*v, *scale)),
            Value::Date(v) => Json::String(iso_time::format_date(*v)),
            Value::Time(v) => Json::String(iso_time::format_time(*v).ok_or_else(mismatch)?),
            Value::Timestamp(v) => Json::String(iso_time::format_timestamp(*v, Unit::Micros, false)),
            Value::Timestamptz(v) => Json::String(iso_time::format_timestamp(*v, Unit::Micros, true)),
            Value::TimestampNs(v) => Json::String(iso_time::format_timestamp(*v, Unit::Nanos, false)),
            Value::TimestamptzNs(v) => Json::String(iso_time::format_timestamp(*v, Unit::Nanos, true)),
            Value::String(v) => Json::String(v.clone()),
            Value::Uuid(v) => Json::String(v.hyphenated().to_string()),
            Value::Fixed(v) | Value::Binary(v) => {
                Json::String(v.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            Value::Struct(_) | Value::List(_) | Value::Map(_) => return Err(mismatch()),
        },
        _ => return Err(mismatch()),
    })
}

fn write_double(v: f64) -> Json {
    match Number::from_f64(v) {
        Some(n) => Json::Number(n),
        None if v.is_nan() => Json::from("NaN"),
        None if v > 0.0 => Json::from("Infinity"),
        None => Json::from("-Infinity"),
    }
}

/// The shortest number that reads back as the same float.
fn write_float(v: f32) -> Json {
    let exact = f64::from(v);
    let short = v.to_string().parse().ok().filter(|short: &f64| (*short as f32).to_bits() == v.to_bits());
    write_double(short.unwrap_or(exact))
}

fn write_decimal(v: i128, scale: u32) -> String {
    let scale = scale as usize;
    let digits = format!("{:0>width$}", v.unsigned_abs(), width = scale + 1);
    let sign = if v < 0 { "-" } else { "" };
    match digits.split_at_checked(digits.len() - scale) {
        Some((whole, fraction)) if scale > 0 => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::{ListType, MapType, NestedField, StructType};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn primitive(name: &str) -> Type {
        PrimitiveType::parse(name).unwrap().into()
    }

    #[test]
    fn the_examples_of_the_specification() {
        let days = 17_486; // 2017-11-16
        let micros = i64::from(days) * 86_400_000_000 + 81_068_123_456; // 22:31:08.123456
        let uuid = "f79c3e09-677c-4bbd-a479-3f349cb785e7";
        let cases = [
            ("boolean", json!(true), Value::Boolean(true)),
            ("int", json!(34), Value::Int(34)),
            ("long", json!(34), Value::Long(34)),
            ("float", json!(1.0), Value::Float(1.0)),
            ("double", json!(1.0), Value::Double(1.0)),
            ("decimal(9,2)", json!("14.20"), Value::Decimal(1420, 2)),
            ("date", json!("2017-11-16"), Value::Date(days)),
            ("time", json!("22:31:08.123456"), Value::Time(81_068_123_456)),
            ("timestamp", json!("2017-11-16T22:31:08.123456"), Value::Timestamp(micros)),
            ("timestamptz", json!("2017-11-16T22:31:08.123456+00:00"), Value::Timestamptz(micros)),
            ("timestamp_ns", json!("2017-11-16T22:31:08.123456789"), Value::TimestampNs(micros * 1000 + 789)),
            (
                "timestamptz_ns",
                json!("2017-11-16T22:31:08.123456789+00:00"),
                Value::TimestamptzNs(micros * 1000 + 789),
            ),
            ("string", json!("iceberg"), Value::String("iceberg".into())),
            ("uuid", json!(uuid), Value::Uuid(uuid.parse().unwrap())),
            ("fixed[4]", json!("000102ff"), Value::Fixed(vec![0, 1, 2, 255])),
            ("binary", json!("000102ff"), Value::Binary(vec![0, 1, 2, 255])),
        ];
        for (name, json, value) in cases {
            let t = primitive(name);
            assert_eq!(Value::from_json(&json, &t).unwrap(), value, "{name}");
            assert_eq!(value.to_json(&t).unwrap(), json, "{name}");
        }
    }

    #[test]
    fn what_other_writers_write() {
        let read = |name: &str, json: Json| Value::from_json(&json, &primitive(name)).unwrap();
        assert_eq!(read("double", json!(1)), Value::Double(1.0));
        assert!(read("float", json!("NaN")).is_nan());
        assert_eq!(read("double", json!("-Infinity")), Value::Double(f64::NEG_INFINITY));
        assert_eq!(read("decimal(38,0)", json!("2E+20")), Value::Decimal(2 * 10_i128.pow(20), 0));
        assert_eq!(read("decimal(9,2)", json!("-0.5")), Value::Decimal(-50, 2));
        assert_eq!(read("decimal(9,2)", json!("0E-2")), Value::Decimal(0, 2));
        assert_eq!(read("binary", json!("00FF")), Value::Binary(vec![0, 255]));
        let text = Value::Float(0.1).to_json(&primitive("float")).unwrap().to_string();
        assert_eq!(text, "0.1");
        assert_eq!(Value::Decimal(-5, 3).to_json(&primitive("decimal(4,3)")).unwrap(), json!("-0.005"));
    }

    #[test]
    fn nested_values() {
        let t: Type = StructType::new(vec![
            NestedField::required(1, "a", PrimitiveType::Int),
            NestedField::optional(2, "l", ListType::new(3, PrimitiveType::String, false)),
            NestedField::optional(
                4,
                "m",
                MapType::new(5, PrimitiveType::String, 6, PrimitiveType::Int, false),
            ),
        ])
        .into();
        let json = json!({"1": 1, "2": ["x", null], "4": {"keys": ["a", "b"], "values": [1, null]}});
        let value = Value::from_json(&json, &t).unwrap();
        assert_eq!(value.to_json(&t).unwrap(), json);
        assert_eq!(
            Value::from_json(&json!({}), &t).unwrap(),
            Value::Struct(vec![None, None, None]),
            "the default of a struct leaves its fields out"
        );
        for bad in [
            json!([]),
            json!({"1": "x"}),
            json!({"4": {"keys": ["a"], "values": []}}),
            json!({"4": {"keys": [null], "values": [1]}}),
        ] {
            assert!(Value::from_json(&bad, &t).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_a_value_is_an_error() {
        for (name, json) in [
            ("boolean", json!("true")),
            ("int", json!(2_147_483_648_i64)),
            ("int", json!(1.0)),
            ("long", json!("1")),
            ("long", json!(u64::MAX)),
            ("float", json!(1e39)),
            ("double", json!("1.0")),
            ("decimal(3,1)", json!("100.0")),
            ("decimal(3,1)", json!("0.05")),
            ("decimal(3,1)", json!("1e999999999")),
            ("decimal(3,1)", json!(".")),
            ("decimal(3,1)", json!("-")),
            ("decimal(3,1)", json!("1é")),
            ("decimal(38,0)", json!("9".repeat(500))),
            ("uuid", json!("f79c3e09677c4bbda4793f349cb785e7")),
            ("fixed[4]", json!("0001")),
            ("binary", json!("0")),
            ("binary", json!("0é")),
            ("string", json!(1)),
            ("string", Json::Null),
            ("unknown", json!("x")),
        ] {
            assert!(Value::from_json(&json, &primitive(name)).is_err(), "{name} {json}");
        }
        assert!(Value::Int(1).to_json(&primitive("long")).is_err());
        assert!(Value::Struct(vec![]).to_json(&primitive("int")).is_err());
    }

    proptest! {
        #[test]
        fn numbers_survive_a_round_trip(
            int in any::<i32>(),
            long in any::<i64>(),
            float in any::<u32>(),
            double in any::<u64>(),
            decimal in -10_i128.pow(37)..10_i128.pow(37),
            scale in 0_u32..=38,
            bytes in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let float = f32::from_bits(float);
            let double = f64::from_bits(double);
            let decimal_type = PrimitiveType::Decimal { precision: 38, scale };
            for (value, p) in [
                (Value::Int(int), PrimitiveType::Int),
                (Value::Long(long), PrimitiveType::Long),
                (Value::Float(float), PrimitiveType::Float),
                (Value::Double(double), PrimitiveType::Double),
                (Value::Decimal(decimal, scale), decimal_type),
                (Value::Binary(bytes), PrimitiveType::Binary),
            ] {
                let t = Type::Primitive(p);
                let back = Value::from_json(&value.to_json(&t).unwrap(), &t).unwrap();
                prop_assert!(back == value || (back.is_nan() && value.is_nan()), "{back:?} {value:?}");
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC*") {
            for name in ["decimal(9,2)", "date", "time", "timestamp", "timestamptz_ns", "uuid", "binary", "double"] {
                let _ = Value::from_json(&Json::String(text.clone()), &primitive(name));
            }
        }
    }
}
