//! The Avro schema of an Iceberg struct, as text (Iceberg spec, Appendix A, "Avro").

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::spec::types::{NestedField, PrimitiveType, StructType, Type};

/// The schema of a record named `name`; records within it are named by their field ids.
///
/// # Errors
/// `Unsupported` for types that no manifest holds.
pub(crate) fn record_schema(name: &str, fields: &StructType) -> Result<String> {
    let mut writer = Writer { text: String::new(), defined: HashSet::new() };
    writer.record(name, fields)?;
    Ok(writer.text)
}

struct Writer {
    text: String,
    /// Named types, which may be defined only once.
    defined: HashSet<String>,
}

impl Writer {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn quoted(&mut self, text: &str) {
        self.text.push_str(&serde_json::Value::from(text).to_string());
    }

    fn record(&mut self, name: &str, fields: &StructType) -> Result<()> {
        self.put(r#"{"type":"record","name":"#);
        self.quoted(name);
        self.put(r#","fields":["#);
        for (i, field) in fields.fields.iter().enumerate() {
            if i > 0 {
                self.put(",");
            }
            self.field(field)?;
        }
        self.put("]}");
        Ok(())
    }

    fn field(&mut self, field: &NestedField) -> Result<()> {
        let name = avro_name(&field.name);
        self.put(r#"{"name":"#);
        self.quoted(&name);
        self.put(r#","type":"#);
        // A union may not hold null twice.
        let is_union = !field.required && field.field_type.as_primitive() != Some(&PrimitiveType::Unknown);
        if is_union {
            self.put(r#"["null","#);
        }
        self.field_type(field)?;
        if is_union {
            self.put("]");
        }
        if let Some(doc) = &field.doc {
            self.put(r#","doc":"#);
            self.quoted(doc);
        }
        if !field.required {
            self.put(r#","default":null"#);
        }
        if name != field.name {
            self.put(r#","iceberg-field-name":"#);
            self.quoted(&field.name);
        }
        self.put(&format!(r#","field-id":{}}}"#, field.id));
        Ok(())
    }

    fn field_type(&mut self, field: &NestedField) -> Result<()> {
        match &field.field_type {
            Type::Primitive(p) => self.primitive(p),
            Type::Struct(s) => self.record(&format!("r{}", field.id), s),
            Type::List(l) => {
                self.put(r#"{"type":"array","items":"#);
                self.field_type(&l.element)?;
                self.put(&format!(r#","element-id":{}}}"#, l.element.id));
                Ok(())
            }
            Type::Map(m) => {
                let name = format!("k{}_v{}", m.key.id, m.value.id);
                let pair = StructType::new(vec![(*m.key).clone(), (*m.value).clone()]);
                self.put(r#"{"type":"array","items":"#);
                self.record(&name, &pair)?;
                self.put(r#","logicalType":"map"}"#);
                Ok(())
            }
            Type::Variant => Err(Error::unsupported("variant in an avro schema")),
        }
    }

    fn primitive(&mut self, p: &PrimitiveType) -> Result<()> {
        use PrimitiveType as P;
        let simple = match p {
            P::Unknown => r#""null""#,
            P::Boolean => r#""boolean""#,
            P::Int => r#""int""#,
            P::Long => r#""long""#,
            P::Float => r#""float""#,
            P::Double => r#""double""#,
            P::String => r#""string""#,
            P::Binary | P::Geometry { .. } | P::Geography { .. } => r#""bytes""#,
            P::Date => r#"{"type":"int","logicalType":"date"}"#,
            P::Time => r#"{"type":"long","logicalType":"time-micros"}"#,
            P::Timestamp => r#"{"type":"long","logicalType":"timestamp-micros","adjust-to-utc":false}"#,
            P::Timestamptz => r#"{"type":"long","logicalType":"timestamp-micros","adjust-to-utc":true}"#,
            P::TimestampNs => r#"{"type":"long","logicalType":"timestamp-nanos","adjust-to-utc":false}"#,
            P::TimestamptzNs => r#"{"type":"long","logicalType":"timestamp-nanos","adjust-to-utc":true}"#,
            P::Uuid => return self.fixed("uuid_fixed".into(), 16, r#","logicalType":"uuid""#),
            P::Fixed(length) => return self.fixed(format!("fixed_{length}"), *length, ""),
            P::Decimal { precision, scale } => {
                return self.fixed(
                    format!("decimal_{precision}_{scale}"),
                    decimal_length(*precision) as u64,
                    &format!(r#","logicalType":"decimal","precision":{precision},"scale":{scale}"#),
                );
            }
        };
        self.put(simple);
        Ok(())
    }

    fn fixed(&mut self, name: String, size: u64, attributes: &str) -> Result<()> {
        if self.defined.contains(&name) {
            self.quoted(&name);
        } else {
            self.put(&format!(r#"{{"type":"fixed","name":"{name}","size":{size}{attributes}}}"#));
            self.defined.insert(name);
        }
        Ok(())
    }
}

/// The least number of bytes that holds every unscaled value of that many digits.
pub(crate) fn decimal_length(precision: u32) -> usize {
    let max = 10i128.checked_pow(precision).map_or(i128::MAX, |p| p - 1);
    // One bit for the sign.
    let bits = 128 - max.leading_zeros() as usize + 1;
    bits.div_ceil(8)
}

/// A name that Avro allows: characters other than letters, digits and `_` become `_x` and their
/// code in hexadecimal, a digit in front gets a `_`.
fn avro_name(name: &str) -> String {
    let mut result = String::with_capacity(name.len());
    for (i, unit) in name.encode_utf16().enumerate() {
        match char::from_u32(u32::from(unit)) {
            Some(c) if c.is_ascii_alphabetic() || c == '_' || (i > 0 && c.is_ascii_digit()) => result.push(c),
            Some(c) if c.is_ascii_digit() => result.extend(['_', c]),
            _ => result.push_str(&format!("_x{unit:X}")),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_take_the_least_bytes() {
        let lengths: Vec<usize> = [1, 2, 3, 4, 5, 9, 10, 18, 19, 38].map(decimal_length).to_vec();
        assert_eq!(lengths, [1, 1, 2, 2, 3, 4, 5, 8, 9, 16]);
    }

    #[test]
    fn names_are_made_valid() {
        assert_eq!(avro_name("plain_1"), "plain_1");
        assert_eq!(avro_name("1st"), "_1st");
        assert_eq!(avro_name("a b%"), "a_x20b_x25");
        assert_eq!(avro_name("größe"), "gr_xF6_xDFe");
    }

    #[test]
    fn a_named_type_is_defined_once() {
        let decimal = PrimitiveType::Decimal { precision: 9, scale: 2 };
        let fields = StructType::new(vec![
            NestedField::optional(1000, "a", decimal.clone()),
            NestedField::optional(1001, "b", decimal),
            NestedField::optional(1002, "u", PrimitiveType::Unknown),
        ]);
        let text = record_schema("r102", &fields).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"type":"record","name":"r102","fields":["#,
                r#"{"name":"a","type":["null",{"type":"fixed","name":"decimal_9_2","size":4,"#,
                r#""logicalType":"decimal","precision":9,"scale":2}],"default":null,"field-id":1000},"#,
                r#"{"name":"b","type":["null","decimal_9_2"],"default":null,"field-id":1001},"#,
                r#"{"name":"u","type":"null","default":null,"field-id":1002}]}"#
            )
        );
        apache_avro::Schema::parse_str(&text).unwrap();
    }
}
