//! Where a literal lies among the values of a column whose type can't hold it, and which casts
//! of a column keep that in order.

use ::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;

use crate::expr::Term;
use crate::spec::{PrimitiveType, Transform, Value};

use super::value::scalar_to_value;

/// Where a literal lies among the values of a type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Place {
    /// It is one of them.
    At(Value),
    /// Above this one, below the next.
    JustAbove(Value),
    /// Below the least.
    BelowAll,
    /// Above the greatest.
    AboveAll,
}

/// Doubles are apart by at most one up to here.
const EXACT_IN_DOUBLE: f64 = 9_007_199_254_740_992.0;

/// Finds the place of a literal that isn't null; `None` where the comparison may not be one of
/// the values as they are.
pub(super) fn place(literal: &ScalarValue, target: &PrimitiveType) -> Option<Place> {
    use PrimitiveType as P;
    use ScalarValue as S;
    match (literal, target) {
        (S::Dictionary(_, inner), _) => return place(inner, target),
        // Whoever compares a UUID or bytes with text compares something else.
        (S::Utf8(_) | S::LargeUtf8(_) | S::Utf8View(_), t) if *t != P::String => return None,
        (S::Float16(_) | S::Float32(_), P::Int | P::Long | P::Decimal { .. }) => return None,
        (S::Float64(_), P::Decimal { .. }) => return None,
        (S::Float64(Some(v)), P::Int | P::Long) => return place_float_among_integers(*v, target),
        _ => {}
    }
    if let Some(value) = scalar_to_value(literal, target) {
        return Some(Place::At(value));
    }
    match (literal, target) {
        (S::Float64(Some(v)), P::Float) if !v.is_nan() => {
            let near = *v as f32;
            let below = if f64::from(near) > *v { near.next_down() } else { near };
            Some(Place::JustAbove(Value::Float(below)))
        }
        (_, P::Int | P::Long) => {
            let (unscaled, scale) = decimal(literal)?;
            among_integers(unscaled, 10_i128.checked_pow(u32::try_from(scale).ok()?)?, target)
        }
        (_, P::Decimal { scale, .. }) => {
            let (unscaled, from) = decimal(literal)?;
            // Only where digits have to go; what has too many before the point stays unknown.
            let drop = u32::try_from(i64::from(from) - i64::from(*scale)).ok()?;
            let floor = unscaled.div_euclid(10_i128.checked_pow(drop)?);
            Some(Place::JustAbove(Value::Decimal(floor, *scale)))
        }
        (S::TimestampNanosecond(Some(v), zone), P::Timestamp) if zone.is_none() => {
            Some(Place::JustAbove(Value::Timestamp(v.div_euclid(1_000))))
        }
        (S::TimestampNanosecond(Some(v), zone), P::Timestamptz) if zone.is_some() => {
            Some(Place::JustAbove(Value::Timestamptz(v.div_euclid(1_000))))
        }
        (S::TimestampSecond(Some(v), None), P::Date) => among_days(*v, 86_400),
        (S::TimestampMillisecond(Some(v), None), P::Date) => among_days(*v, 86_400_000),
        (S::TimestampMicrosecond(Some(v), None), P::Date) => among_days(*v, 86_400_000_000),
        (S::TimestampNanosecond(Some(v), None), P::Date) => among_days(*v, 86_400_000_000_000),
        _ => None,
    }
}

fn decimal(literal: &ScalarValue) -> Option<(i128, i8)> {
    use ScalarValue as S;
    Some(match literal {
        S::Int64(Some(v)) => ((*v).into(), 0),
        S::UInt32(Some(v)) => ((*v).into(), 0),
        S::UInt64(Some(v)) => ((*v).into(), 0),
        S::Decimal32(Some(v), _, scale) => ((*v).into(), *scale),
        S::Decimal64(Some(v), _, scale) => ((*v).into(), *scale),
        S::Decimal128(Some(v), _, scale) => (*v, *scale),
        _ => return None,
    })
}

fn place_float_among_integers(v: f64, target: &PrimitiveType) -> Option<Place> {
    if v.is_nan() {
        // In the order that the engine filters with.
        return Some(if v.is_sign_negative() { Place::BelowAll } else { Place::AboveAll });
    }
    // Whole numbers far out lose digits on their way to a double, and only 0.0 comes out of an
    // integer, never -0.0.
    if v.abs() >= EXACT_IN_DOUBLE || (v == 0.0 && v.is_sign_negative()) {
        return None;
    }
    let floor = v.floor();
    match among_integers(floor as i128, 1, target)? {
        Place::At(value) if floor != v => Some(Place::JustAbove(value)),
        // The floor may be just below the least.
        Place::BelowAll => Some(Place::BelowAll),
        other => Some(other),
    }
}

/// The place of `v / divisor`.
fn among_integers(v: i128, divisor: i128, target: &PrimitiveType) -> Option<Place> {
    let (floor, rest) = (v.checked_div_euclid(divisor)?, v.checked_rem_euclid(divisor)?);
    let value = match target {
        PrimitiveType::Int => i32::try_from(floor).map(Value::Int),
        PrimitiveType::Long => i64::try_from(floor).map(Value::Long),
        _ => return None,
    };
    Some(match value {
        Ok(v) if rest == 0 => Place::At(v),
        Ok(v) => Place::JustAbove(v),
        Err(_) if floor < 0 => Place::BelowAll,
        Err(_) => Place::AboveAll,
    })
}

fn among_days(v: i64, per_day: i64) -> Option<Place> {
    let days = v.div_euclid(per_day);
    Some(match i32::try_from(days) {
        Ok(day) if v.rem_euclid(per_day) == 0 => Place::At(Value::Date(day)),
        Ok(day) => Place::JustAbove(Value::Date(day)),
        Err(_) if days < 0 => Place::BelowAll,
        Err(_) => Place::AboveAll,
    })
}

/// The term that a cast of it can be taken for, when compared with a literal of the cast's type;
/// `None` where the cast loses, reorders or merges values.
pub(super) fn through_cast(term: Term, to: &DataType) -> Option<Term> {
    use PrimitiveType as P;
    let to = match to {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    let kept = match (term.result_type()?, to) {
        (P::Boolean, DataType::Boolean)
        | (P::Int, DataType::Int32 | DataType::Int64 | DataType::Float64)
        // Far from zero the literal is refused.
        | (P::Long, DataType::Int64 | DataType::Float64)
        | (P::Float, DataType::Float32 | DataType::Float64)
        | (P::Double, DataType::Float64)
        | (P::Date, DataType::Date32 | DataType::Timestamp(_, None))
        | (P::Time, DataType::Time64(_))
        | (P::Timestamp, DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, None))
        | (P::Timestamptz, DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, Some(_)))
        | (P::TimestampNs, DataType::Timestamp(TimeUnit::Nanosecond, None))
        | (P::TimestamptzNs, DataType::Timestamp(TimeUnit::Nanosecond, Some(_)))
        | (P::String, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        | (P::Binary, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => true,
        (P::Int, DataType::Decimal128(p, s) | DataType::Decimal256(p, s)) => digits(*p, *s) >= 10,
        (P::Long, DataType::Decimal128(p, s) | DataType::Decimal256(p, s)) => digits(*p, *s) >= 19,
        (P::Decimal { precision, scale }, DataType::Decimal128(p, s) | DataType::Decimal256(p, s)) => {
            i64::from(*s) >= i64::from(scale) && digits(*p, *s) >= i64::from(precision) - i64::from(scale)
        }
        (P::Uuid, DataType::FixedSizeBinary(16)) => true,
        (P::Fixed(length), DataType::FixedSizeBinary(n)) => u64::try_from(*n) == Ok(length),
        // Cast down to the day, as the transform does.
        (P::Timestamp | P::TimestampNs, DataType::Date32) if term.transform.is_none() => {
            return Some(term.with_transform(Transform::Day));
        }
        _ => false,
    };
    kept.then_some(term)
}

/// Digits before the point.
fn digits(precision: u8, scale: i8) -> i64 {
    i64::from(precision) - i64::from(scale)
}
