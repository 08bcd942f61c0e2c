//! Values as pruning compares them: borrowed, so that a bound costs no allocation.

use std::cmp::Ordering;

use crate::spec::{PrimitiveType, Value};

const MICROS_PER_DAY: i64 = 86_400_000_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// A value of some primitive type. Types that order alike share a variant; only scalars made for
/// the same type are ever compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scalar<'a> {
    /// Booleans, integers, dates and times.
    Int(i64),
    /// Floats, in IEEE 754's total order, which widening keeps.
    Float(f64),
    /// Unscaled decimals.
    Decimal(i128),
    /// Strings, fixed and binary.
    Bytes(&'a [u8]),
    /// Big-endian UUIDs.
    Uuid(u128),
}

impl<'a> Scalar<'a> {
    /// The scalar of a value where `expected` is wanted; values of a type that can be promoted
    /// to it are taken as promoted. `None` for anything else: nothing is known.
    pub(super) fn from_value(value: &'a Value, expected: &PrimitiveType) -> Option<Self> {
        use PrimitiveType as P;
        Some(match (value, expected) {
            (Value::Boolean(v), P::Boolean) => Self::Int(i64::from(*v)),
            (Value::Int(v), P::Int | P::Long | P::Date) | (Value::Date(v), P::Date | P::Int) => {
                Self::Int(i64::from(*v))
            }
            (Value::Date(v), P::Timestamp) => Self::Int(i64::from(*v).checked_mul(MICROS_PER_DAY)?),
            (Value::Date(v), P::TimestampNs) => Self::Int(i64::from(*v).checked_mul(NANOS_PER_DAY)?),
            (Value::Long(v), P::Long)
            | (Value::Time(v), P::Time)
            | (Value::Timestamp(v), P::Timestamp)
            | (Value::Timestamptz(v), P::Timestamptz)
            | (Value::TimestampNs(v), P::TimestampNs)
            | (Value::TimestamptzNs(v), P::TimestamptzNs) => Self::Int(*v),
            (Value::Float(v), P::Float | P::Double) => Self::Float(f64::from(*v)),
            (Value::Double(v), P::Double) => Self::Float(*v),
            (Value::Decimal(v, s), P::Decimal { scale, .. }) if s == scale => Self::Decimal(*v),
            (Value::String(v), P::String) => Self::Bytes(v.as_bytes()),
            (Value::Fixed(v), P::Fixed(_)) | (Value::Binary(v), P::Binary) => Self::Bytes(v),
            (Value::Uuid(v), P::Uuid) => Self::Uuid(v.as_u128()),
            _ => return None,
        })
    }

    /// Reads the binary single-value form (spec, Appendix D), with the lengths of types that
    /// were promoted since (spec, "Schema Evolution"). `None` for what can't be read.
    pub(super) fn from_bytes(bytes: &'a [u8], expected: &PrimitiveType) -> Option<Self> {
        use PrimitiveType as P;
        let int = || bytes.try_into().ok().map(|b| i64::from(i32::from_le_bytes(b)));
        let long = || bytes.try_into().ok().map(i64::from_le_bytes);
        Some(match expected {
            P::Boolean => match bytes {
                [b] => Self::Int(i64::from(*b != 0)),
                _ => return None,
            },
            P::Int | P::Date => Self::Int(int()?),
            P::Long => Self::Int(int().or_else(long)?),
            P::Time | P::Timestamptz | P::TimestamptzNs => Self::Int(long()?),
            P::Timestamp => match int() {
                Some(days) => Self::Int(days.checked_mul(MICROS_PER_DAY)?),
                None => Self::Int(long()?),
            },
            P::TimestampNs => match int() {
                Some(days) => Self::Int(days.checked_mul(NANOS_PER_DAY)?),
                None => Self::Int(long()?),
            },
            P::Float => Self::Float(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
            P::Double => match <[u8; 4]>::try_from(bytes) {
                Ok(b) => Self::Float(f64::from(f32::from_le_bytes(b))),
                Err(_) => Self::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
            },
            P::Decimal { .. } => {
                let (first, len) = (*bytes.first()?, bytes.len());
                if len > 16 {
                    return None;
                }
                let mut all = if first & 0x80 == 0 { [0x00; 16] } else { [0xff; 16] };
                all.get_mut(16 - len..)?.copy_from_slice(bytes);
                Self::Decimal(i128::from_be_bytes(all))
            }
            P::String | P::Binary | P::Fixed(_) => Self::Bytes(bytes),
            P::Uuid => Self::Uuid(u128::from_be_bytes(bytes.try_into().ok()?)),
            P::Unknown | P::Geometry { .. } | P::Geography { .. } => return None,
        })
    }

    /// Compares scalars made for the same type.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            _ => return None,
        })
    }

    /// Compares UUIDs as some writers did when they made bounds: as two signed halves.
    pub(super) fn compare_signed_halves(&self, other: &Self) -> Option<Ordering> {
        let halves = |v: u128| ((v >> 64) as u64 as i64, v as u64 as i64);
        match (self, other) {
            (Self::Uuid(a), Self::Uuid(b)) => Some(halves(*a).cmp(&halves(*b))),
            _ => self.compare(other),
        }
    }

    pub(super) fn is_nan(&self) -> bool {
        matches!(self, Self::Float(v) if v.is_nan())
    }

    pub(super) fn starts_with(&self, prefix: &Self) -> bool {
        matches!((self, prefix), (Self::Bytes(a), Self::Bytes(b)) if a.starts_with(b))
    }
}
