//! Single values as bytes (spec, Appendix D, "Binary single-value serialization"): the form of
//! bounds in manifests and manifest lists.
//!
//! Bounds outlive the type they were written with, so reading follows the type promotions of
//! "Schema Evolution": the length tells which type it was.

use uuid::Uuid;

use crate::error::{Error, Result};

use super::types::PrimitiveType;
use super::value::Value;

const MICROS_PER_DAY: i64 = 86_400_000_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;

impl Value {
    /// Reads a value of type `t` that may have been written when the field had a type that
    /// promotes to `t`: an int for a long, a float for a double, a date for a timestamp without
    /// zone, a decimal of a smaller precision.
    ///
    /// A `fixed` may come out shorter than its type says: writers truncate its bounds.
    ///
    /// # Errors
    /// `DataInvalid` for bytes of the wrong length, text that is not UTF-8, a decimal beyond the
    /// precision and a date that the timestamp can't hold; `Unsupported` for types that have no
    /// such form (`unknown`, `geometry`, `geography`).
    pub fn from_bytes(t: &PrimitiveType, bytes: &[u8]) -> Result<Value> {
        use PrimitiveType as P;
        let wrong_length = || Error::invalid(format!("a value of type {t} can't have {} bytes", bytes.len()));
        let long = || <[u8; 8]>::try_from(bytes).map(i64::from_le_bytes).map_err(|_| wrong_length());
        let int = || <[u8; 4]>::try_from(bytes).map(i32::from_le_bytes).map_err(|_| wrong_length());
        // A date that became a timestamp.
        let timestamp = |per_day: i64| match int() {
            Ok(days) => i64::from(days)
                .checked_mul(per_day)
                .ok_or_else(|| Error::invalid(format!("date {days} is out of the range of {t}"))),
            Err(_) => long(),
        };
        Ok(match t {
            P::Boolean => match bytes {
                [byte] => Value::Boolean(*byte != 0),
                _ => return Err(wrong_length()),
            },
            P::Int => Value::Int(int()?),
            P::Long => Value::Long(int().map(i64::from).or_else(|_| long())?),
            P::Float => {
                Value::Float(<[u8; 4]>::try_from(bytes).map(f32::from_le_bytes).map_err(|_| wrong_length())?)
            }
            P::Double => Value::Double(match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
                (Ok(float), _) => f64::from(f32::from_le_bytes(float)),
                (_, Ok(double)) => f64::from_le_bytes(double),
                _ => return Err(wrong_length()),
            }),
            P::Decimal { precision, scale } => {
                let unscaled = decimal_from_bytes(bytes).ok_or_else(wrong_length)?;
                if !fits_precision(unscaled, *precision) {
                    return Err(Error::invalid(format!("unscaled value {unscaled} is too large for {t}")));
                }
                Value::Decimal(unscaled, *scale)
            }
            P::Date => Value::Date(int()?),
            P::Time => Value::Time(long()?),
            P::Timestamp => Value::Timestamp(timestamp(MICROS_PER_DAY)?),
            P::Timestamptz => Value::Timestamptz(long()?),
            P::TimestampNs => Value::TimestampNs(timestamp(NANOS_PER_DAY)?),
            P::TimestamptzNs => Value::TimestamptzNs(long()?),
            P::String => {
                let text = std::str::from_utf8(bytes)
                    .map_err(|e| Error::invalid("a string is not UTF-8").with_source(e))?;
                Value::String(text.to_owned())
            }
            P::Uuid => Value::Uuid(Uuid::from_slice(bytes).map_err(|_| wrong_length())?),
            P::Fixed(length) => {
                // No prefix at all would be an upper bound below everything.
                if bytes.len() as u64 > *length || (bytes.is_empty() && *length > 0) {
                    return Err(wrong_length());
                }
                Value::Fixed(bytes.to_vec())
            }
            P::Binary => Value::Binary(bytes.to_vec()),
            P::Unknown | P::Geometry { .. } | P::Geography { .. } => {
                return Err(Error::unsupported(format!("values of type {t} can't be read from bytes")));
            }
        })
    }

    /// Writes the value.
    ///
    /// # Errors
    /// `Unsupported` for structs, lists and maps, which have no such form.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(match self {
            Value::Boolean(v) => vec![u8::from(*v)],
            Value::Int(v) | Value::Date(v) => v.to_le_bytes().to_vec(),
            Value::Long(v)
            | Value::Time(v)
            | Value::Timestamp(v)
            | Value::Timestamptz(v)
            | Value::TimestampNs(v)
            | Value::TimestamptzNs(v) => v.to_le_bytes().to_vec(),
            Value::Float(v) => v.to_le_bytes().to_vec(),
            Value::Double(v) => v.to_le_bytes().to_vec(),
            Value::Decimal(unscaled, _) => {
                let bytes = unscaled.to_be_bytes();
                minimal_two_complement(&bytes).to_vec()
            }
            Value::String(v) => v.as_bytes().to_vec(),
            Value::Uuid(v) => v.as_bytes().to_vec(),
            Value::Fixed(v) | Value::Binary(v) => v.clone(),
            Value::Struct(_) | Value::List(_) | Value::Map(_) => {
                return Err(Error::unsupported("structs, lists and maps can't be written as one value"));
            }
        })
    }
}

/// The shortest big-endian two's complement form of the same number, at least one byte.
pub(super) fn minimal_two_complement(bytes: &[u8; 16]) -> &[u8] {
    let mut rest: &[u8] = bytes;
    // A leading byte is padding where it only repeats the sign bit of the next.
    while let [first, tail @ ..] = rest
        && let Some(next) = tail.first()
        && ((*first == 0x00 && *next < 0x80) || (*first == 0xff && *next >= 0x80))
    {
        rest = tail;
    }
    rest
}

/// Reads 1 to 16 bytes of big-endian two's complement, padded or not.
pub(crate) fn decimal_from_bytes(bytes: &[u8]) -> Option<i128> {
    let first = bytes.first()?;
    let mut full = [if *first >= 0x80 { 0xff } else { 0x00 }; 16];
    let start = full.len().checked_sub(bytes.len())?;
    full.get_mut(start..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(full))
}

/// Whether the unscaled value has at most `precision` digits.
pub(crate) fn fits_precision(unscaled: i128, precision: u32) -> bool {
    10_u128.checked_pow(precision).is_none_or(|limit| unscaled.unsigned_abs() < limit)
}

#[cfg(test)]
mod tests {
    use super::super::types::PrimitiveType as P;
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    const DEC: P = P::Decimal { precision: 38, scale: 2 };

    fn read(t: P, bytes: &[u8]) -> Value {
        Value::from_bytes(&t, bytes).unwrap()
    }

    #[test]
    fn writes_the_bytes_of_the_specification() {
        for (value, bytes) in [
            (Value::Boolean(false), vec![0]),
            (Value::Boolean(true), vec![1]),
            (Value::Int(84202), vec![0xea, 0x48, 0x01, 0x00]),
            (Value::Long(200), vec![200, 0, 0, 0, 0, 0, 0, 0]),
            (Value::Float(-4.5), vec![0, 0, 0x90, 0xc0]),
            (Value::Double(6.0), vec![0, 0, 0, 0, 0, 0, 0x18, 0x40]),
            (Value::Date(-1), vec![0xff; 4]),
            (Value::Time(10), vec![10, 0, 0, 0, 0, 0, 0, 0]),
            (Value::Timestamptz(-1), vec![0xff; 8]),
            (Value::String("é".into()), vec![0xc3, 0xa9]),
            (Value::Fixed(vec![1, 2]), vec![1, 2]),
            (Value::Binary(vec![]), vec![]),
            (Value::Decimal(345, 2), vec![0x01, 0x59]),
            (Value::Decimal(0, 2), vec![0]),
            (Value::Decimal(-1, 2), vec![0xff]),
            (Value::Decimal(127, 2), vec![0x7f]),
            (Value::Decimal(128, 2), vec![0x00, 0x80]),
            (Value::Decimal(-128, 2), vec![0x80]),
            (Value::Decimal(-129, 2), vec![0xff, 0x7f]),
            (
                Value::Uuid("f79c3e09-677c-4bbd-a479-3f349cb785e7".parse().unwrap()),
                b"\xF7\x9C\x3E\x09\x67\x7C\x4B\xBD\xA4\x79\x3F\x34\x9C\xB7\x85\xE7".to_vec(),
            ),
        ] {
            assert_eq!(value.to_bytes().unwrap(), bytes, "{value:?}");
        }
    }

    #[test]
    fn reads_bounds_of_the_type_before_promotion() {
        assert_eq!(read(P::Long, &(-7_i32).to_le_bytes()), Value::Long(-7));
        assert_eq!(read(P::Double, &1.5_f32.to_le_bytes()), Value::Double(1.5));
        let date = (-1_i32).to_le_bytes();
        assert_eq!(read(P::Timestamp, &date), Value::Timestamp(-86_400_000_000));
        assert_eq!(read(P::TimestampNs, &date), Value::TimestampNs(-86_400_000_000_000));
        assert_eq!(read(DEC, &[0x05]), Value::Decimal(5, 2));
        assert_eq!(read(DEC, &[0x00, 0x00, 0x05]), Value::Decimal(5, 2));
        assert_eq!(read(DEC, &[0xff, 0xff, 0xfb]), Value::Decimal(-5, 2));
    }

    #[test]
    fn a_date_that_nanoseconds_cannot_hold_is_an_error() {
        for days in [i32::MAX, i32::MIN, 106_752, -106_752] {
            assert!(Value::from_bytes(&P::TimestampNs, &days.to_le_bytes()).is_err(), "{days}");
            assert!(
                Value::from_bytes(&P::Timestamp, &days.to_le_bytes()).is_ok()
                    == (days.unsigned_abs() < 200_000)
            );
        }
    }

    #[test]
    fn wrong_lengths_are_errors() {
        let cases: [(P, &[u8]); 16] = [
            (P::Boolean, &[]),
            (P::Boolean, &[1, 1]),
            (P::Int, &[0; 8]),
            (P::Int, &[]),
            (P::Long, &[0; 7]),
            (P::Float, &[0; 8]),
            (P::Double, &[0; 5]),
            (P::Date, &[0; 8]),
            (P::Time, &[0; 4]),
            (P::Timestamptz, &[0; 4]),
            (P::TimestamptzNs, &[0; 4]),
            (P::Uuid, &[0; 15]),
            (P::Fixed(2), &[0; 3]),
            (P::Fixed(2), &[]),
            (DEC, &[]),
            (DEC, &[0; 17]),
        ];
        for (t, bytes) in cases {
            let error = Value::from_bytes(&t, bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataInvalid, "{t} {bytes:?}");
        }
        assert!(Value::from_bytes(&P::String, &[0xff]).is_err());
        assert!(Value::from_bytes(&P::Decimal { precision: 2, scale: 0 }, &[100]).is_err());
        assert!(Value::from_bytes(&P::Decimal { precision: 2, scale: 0 }, &[99]).is_ok());
    }

    #[test]
    fn types_without_the_form_say_so() {
        for t in [P::Unknown, P::Geometry { crs: None }, P::Geography { crs: None, algorithm: None }] {
            assert_eq!(Value::from_bytes(&t, &[0]).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        assert_eq!(Value::List(vec![]).to_bytes().unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn truncated_fixed_bounds_are_read() {
        assert_eq!(read(P::Fixed(4), &[1, 2]), Value::Fixed(vec![1, 2]));
        assert_eq!(read(P::Fixed(0), &[]), Value::Fixed(vec![]));
    }

    fn typed_value() -> impl Strategy<Value = (P, Value)> {
        prop_oneof![
            any::<bool>().prop_map(|v| (P::Boolean, Value::Boolean(v))),
            any::<i32>().prop_map(|v| (P::Int, Value::Int(v))),
            any::<i64>().prop_map(|v| (P::Long, Value::Long(v))),
            any::<u32>().prop_map(|v| (P::Float, Value::Float(f32::from_bits(v)))),
            any::<u64>().prop_map(|v| (P::Double, Value::Double(f64::from_bits(v)))),
            (-(10_i128.pow(38)) + 1..10_i128.pow(38)).prop_map(|v| (DEC, Value::Decimal(v, 2))),
            (-1000_i128..1000).prop_map(|v| (DEC, Value::Decimal(v, 2))),
            any::<i32>().prop_map(|v| (P::Date, Value::Date(v))),
            any::<i64>().prop_map(|v| (P::Time, Value::Time(v))),
            any::<i64>().prop_map(|v| (P::Timestamp, Value::Timestamp(v))),
            any::<i64>().prop_map(|v| (P::Timestamptz, Value::Timestamptz(v))),
            any::<i64>().prop_map(|v| (P::TimestampNs, Value::TimestampNs(v))),
            any::<i64>().prop_map(|v| (P::TimestamptzNs, Value::TimestamptzNs(v))),
            any::<String>().prop_map(|v| (P::String, Value::String(v))),
            any::<[u8; 16]>().prop_map(|v| (P::Uuid, Value::Uuid(Uuid::from_bytes(v)))),
            any::<[u8; 5]>().prop_map(|v| (P::Fixed(5), Value::Fixed(v.to_vec()))),
            any::<Vec<u8>>().prop_map(|v| (P::Binary, Value::Binary(v))),
        ]
    }

    proptest! {
        #[test]
        fn bytes_survive_a_round_trip((t, value) in typed_value()) {
            prop_assert_eq!(Value::from_bytes(&t, &value.to_bytes().unwrap()).unwrap(), value);
        }

        #[test]
        fn whatever_is_read_is_of_the_type((t, _) in typed_value(), bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(value) = Value::from_bytes(&t, &bytes) {
                prop_assert!(matches!(t, P::Fixed(_)) || value.is_of(&t.into()));
            }
        }
    }
}
