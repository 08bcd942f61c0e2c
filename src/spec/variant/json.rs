//! Values as JSON text, compact.
//!
//! Numbers keep all their digits; dates, times and timestamps are ISO 8601 text, bytes base64,
//! and floats that JSON has no number for are the text `NaN`, `Infinity` and `-Infinity`.

use std::fmt::Write;

use crate::error::{Error, Result};

use super::super::iso_time::{Unit, format_date, format_time, format_timestamp};
use super::metadata::VariantMetadata;
use super::value::VariantValue;
use super::{MAX_DEPTH, cut};

/// Appends the JSON of the value that the bytes begin with.
///
/// # Errors
/// `DataInvalid` for malformed values, also where they overlap or nest too deep.
pub(crate) fn push_json(out: &mut String, metadata: &VariantMetadata<'_>, value: &[u8]) -> Result<()> {
    Writer { metadata, left: value.len() }.value(out, value, 0)
}

/// Appends the value as text: a string as it is, a date without quotes, all else as its JSON.
///
/// # Errors
/// As [`push_json`].
pub(crate) fn push_text(out: &mut String, metadata: &VariantMetadata<'_>, value: &[u8]) -> Result<()> {
    let read = VariantValue::read(value)?;
    if let VariantValue::String(text) = read {
        out.push_str(text);
    } else if !push_plain(out, &read)? {
        push_json(out, metadata, value)?;
    }
    Ok(())
}

struct Writer<'m> {
    metadata: &'m VariantMetadata<'m>,
    /// How many bytes may still be read, if no byte is read twice. A few bytes that are shared
    /// over and over could stand for any amount of text.
    left: usize,
}

impl Writer<'_> {
    fn value(&mut self, out: &mut String, bytes: &[u8], depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid(format!("a variant nests deeper than {MAX_DEPTH}")));
        }
        let (value, size) = VariantValue::read_sized(bytes)?;
        let below = match &value {
            VariantValue::Object(object) => object.values().bytes(),
            VariantValue::Array(elements) => elements.bytes(),
            _ => 0,
        };
        let own = size.saturating_sub(below);
        let overlap = || Error::invalid("a variant's values overlap");
        self.left = self.left.checked_sub(own).ok_or_else(overlap)?;
        match &value {
            VariantValue::Object(object) => {
                out.push('{');
                for index in 0..object.values().len() {
                    if index > 0 {
                        out.push(',');
                    }
                    quote(out, self.metadata.name(object.name_id(index)?)?);
                    out.push(':');
                    let field = object.values().get(index)?.ok_or_else(cut)?;
                    self.value(out, field, depth + 1)?;
                }
                out.push('}');
            }
            VariantValue::Array(elements) => {
                out.push('[');
                for index in 0..elements.len() {
                    if index > 0 {
                        out.push(',');
                    }
                    let element = elements.get(index)?.ok_or_else(cut)?;
                    self.value(out, element, depth + 1)?;
                }
                out.push(']');
            }
            VariantValue::Null => out.push_str("null"),
            VariantValue::Boolean(v) => out.push_str(if *v { "true" } else { "false" }),
            VariantValue::Int8(v) => number(out, v),
            VariantValue::Int16(v) => number(out, v),
            VariantValue::Int32(v) => number(out, v),
            VariantValue::Int64(v) => number(out, v),
            VariantValue::Decimal(unscaled, scale) => decimal(out, *unscaled, *scale),
            // The shortest digits that read back as the same float.
            VariantValue::Float(v) if v.is_finite() => number(out, &format_args!("{v:?}")),
            VariantValue::Double(v) if v.is_finite() => number(out, &format_args!("{v:?}")),
            VariantValue::String(v) => quote(out, v),
            other => {
                out.push('"');
                push_plain(out, other)?;
                out.push('"');
            }
        }
        Ok(())
    }
}

/// Appends what JSON has only as text, without quotes; false for everything else.
fn push_plain(out: &mut String, value: &VariantValue<'_>) -> Result<bool> {
    use VariantValue as V;
    match value {
        V::Float(v) if !v.is_finite() => out.push_str(special(f64::from(*v))),
        V::Double(v) if !v.is_finite() => out.push_str(special(*v)),
        V::Date(v) => out.push_str(&format_date(*v)),
        V::Time(v) => match format_time(*v) {
            Some(text) => out.push_str(&text),
            None => return Err(Error::invalid(format!("a variant's time is {v} µs"))),
        },
        V::Timestamp(v) => out.push_str(&format_timestamp(*v, Unit::Micros, false)),
        V::Timestamptz(v) => out.push_str(&format_timestamp(*v, Unit::Micros, true)),
        V::TimestampNs(v) => out.push_str(&format_timestamp(*v, Unit::Nanos, false)),
        V::TimestamptzNs(v) => out.push_str(&format_timestamp(*v, Unit::Nanos, true)),
        V::Binary(v) => base64(out, v),
        V::Uuid(v) => number(out, &uuid::Uuid::from_bytes(*v)),
        _ => return Ok(false),
    }
    Ok(true)
}

fn special(v: f64) -> &'static str {
    match (v.is_nan(), v > 0.0) {
        (true, _) => "NaN",
        (_, true) => "Infinity",
        _ => "-Infinity",
    }
}

fn number(out: &mut String, number: &dyn std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(out, "{number}");
}

fn decimal(out: &mut String, unscaled: i128, scale: u8) {
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    if unscaled < 0 {
        out.push('-');
    }
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    out.push_str(whole);
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        if c >= ' ' && c != '"' && c != '\\' {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + 1;
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' | '\\' => out.extend(['\\', c]),
            _ => number(out, &format_args!("\\u{:04x}", u32::from(c))),
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// With padding (RFC 4648, section 4).
fn base64(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let mut all = [0; 4];
        for (to, from) in all[1..].iter_mut().zip(chunk) {
            *to = *from;
        }
        let bits = u32::from_be_bytes(all);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit > chunk.len() { '=' } else { char::from(DIGITS[index]) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ObjectField, push_array, push_object, push_scalar};
    use super::*;
    use parquet_variant::{VariantBuilder, VariantBuilderExt};
    use proptest::prelude::*;

    const NO_NAMES: [u8; 3] = [1, 0, 0];

    fn json(metadata: &[u8], value: &[u8]) -> Result<String> {
        let mut out = String::new();
        push_json(&mut out, &VariantMetadata::parse(metadata).unwrap(), value)?;
        Ok(out)
    }

    fn both(value: VariantValue<'_>) -> (String, String) {
        let (mut bytes, mut text) = (Vec::new(), String::new());
        push_scalar(&mut bytes, &value).unwrap();
        push_text(&mut text, &VariantMetadata::parse(&NO_NAMES).unwrap(), &bytes).unwrap();
        (json(&NO_NAMES, &bytes).unwrap(), text)
    }

    #[test]
    fn numbers_and_constants() {
        use VariantValue as V;
        for (value, expected) in [
            (V::Null, "null"),
            (V::Boolean(true), "true"),
            (V::Int8(-128), "-128"),
            (V::Int64(i64::MIN), "-9223372036854775808"),
            (V::Decimal(1234, 2), "12.34"),
            (V::Decimal(-5, 3), "-0.005"),
            (V::Decimal(0, 2), "0.00"),
            (V::Decimal(7, 0), "7"),
            (V::Decimal(10_i128.pow(38) - 1, 38), "0.99999999999999999999999999999999999999"),
            (V::Double(1.0), "1.0"),
            (V::Double(-0.0), "-0.0"),
            (V::Double(1e300), "1e300"),
            (V::Double(0.1), "0.1"),
            (V::Float(0.1), "0.1"),
        ] {
            assert_eq!(both(value), (expected.to_owned(), expected.to_owned()));
        }
    }

    #[test]
    fn what_json_has_only_as_text() {
        use VariantValue as V;
        for (value, expected) in [
            (V::Double(f64::NAN), "NaN"),
            (V::Float(f32::INFINITY), "Infinity"),
            (V::Double(f64::NEG_INFINITY), "-Infinity"),
            (V::Date(18262), "2020-01-01"),
            (V::Date(i32::MAX), "+5881580-07-11"),
            (V::Time(3_723_000_001), "01:02:03.000001"),
            (V::Timestamp(1_577_836_800_000_001), "2020-01-01T00:00:00.000001"),
            (V::Timestamptz(0), "1970-01-01T00:00:00.000000+00:00"),
            (V::TimestampNs(1), "1970-01-01T00:00:00.000000001"),
            (V::TimestamptzNs(-1), "1969-12-31T23:59:59.999999999+00:00"),
            (V::Binary(b"\x00\xff\x10ab"), "AP8QYWI="),
            (V::Binary(b"foob"), "Zm9vYg=="),
            (V::Binary(b"foobar"), "Zm9vYmFy"),
            (V::Binary(b""), ""),
            (V::Uuid([0x11; 16]), "11111111-1111-1111-1111-111111111111"),
        ] {
            assert_eq!(both(value), (format!("\"{expected}\""), expected.to_owned()));
        }
        let (json, text) = both(V::String("a\"b\\c\u{1}\n€"));
        assert_eq!(json, r#""a\"b\\c\u0001\n€""#);
        assert_eq!(text, "a\"b\\c\u{1}\n€");
        let mut bytes = Vec::new();
        push_scalar(&mut bytes, &V::Time(86_400_000_000)).unwrap();
        assert!(json_error(&NO_NAMES, &bytes).contains("time"));
    }

    fn json_error(metadata: &[u8], value: &[u8]) -> String {
        json(metadata, value).unwrap_err().to_string()
    }

    #[test]
    fn nested_values_are_compact() {
        let mut builder = VariantBuilder::new();
        let mut object = builder.new_object();
        object.insert("z", 1_i8);
        let mut list = object.new_list("a");
        list.append_value("x");
        list.append_null();
        list.finish();
        object.finish();
        let (metadata, value) = builder.finish();
        assert_eq!(json(&metadata, &value).unwrap(), r#"{"a":["x",null],"z":1}"#);
    }

    #[test]
    fn deep_and_overlapping_values_are_errors() {
        let nested = |levels: usize| {
            (0..levels).fold(vec![0], |inner, _| {
                let mut outer = Vec::new();
                push_array(&mut outer, &[0], &inner).unwrap();
                outer
            })
        };
        assert_eq!(json(&NO_NAMES, &nested(500)).unwrap().len(), 1004);
        assert!(json_error(&NO_NAMES, &nested(501)).contains("deeper than 500"));
        // Each level has its one element a hundred times: a googol of nulls in a few kilobytes.
        let laughs = (0..50).fold(vec![0], |inner, _| {
            let mut outer = Vec::new();
            push_array(&mut outer, &[0; 100], &inner).unwrap();
            outer
        });
        assert!(json_error(&NO_NAMES, &laughs).contains("overlap"));
        let mut object = Vec::new();
        push_object(&mut object, &mut [ObjectField { name: "a", id: 7, start: 0 }], &[0]).unwrap();
        assert!(json_error(&NO_NAMES, &object).contains("field name 7"));
    }

    proptest! {
        /// Whatever the bytes are; and what comes out is JSON.
        #[test]
        fn any_bytes(value in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(text) = json(&[1, 1, 0, 1, b'x'], &value) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
            }
        }
    }
}
