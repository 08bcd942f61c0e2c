//! Transforms of single values (spec, "Partition Transforms").
//!
//! The arithmetic is here once; `arrow::transform` applies the same functions to whole arrays.
//! None of them can overflow into a panic: where a result does not fit its type, it wraps around
//! as Java's does, and [`Transform::wrapped_results`] tells pruning which results to distrust.

use super::murmur3;
use super::transform::Transform;
use super::types::PrimitiveType;
use super::value::Value;

const MICROS_PER_HOUR: i64 = 3_600_000_000;
const NANOS_PER_HOUR: i64 = 3_600_000_000_000;
const HOURS_PER_DAY: i64 = 24;

impl Transform {
    /// The transform's result for a value; `None` is null.
    ///
    /// Null is also the result of [`Transform::Void`], of transforms that are not known, and for
    /// values of types to which the transform does not apply ([`Transform::result_type`]).
    ///
    /// `truncate` of numbers near the lower end of their type and `hour` of microseconds some
    /// 245,000 years away from 1970 wrap around, as they do in Java.
    pub fn apply(&self, value: &Value) -> Option<Value> {
        match self {
            Transform::Identity => match value {
                Value::Struct(_) | Value::List(_) | Value::Map(_) => None,
                _ => Some(value.clone()),
            },
            Transform::Bucket(n) => match value {
                Value::Boolean(_) | Value::Float(_) | Value::Double(_) => None,
                _ => murmur3::hash(value).map(|hash| Value::Int(bucket_of(hash, *n))),
            },
            Transform::Truncate(width) => Some(match value {
                Value::Int(v) => Value::Int(truncate_int(*v, *width)),
                Value::Long(v) => Value::Long(truncate_long(*v, *width)),
                Value::Decimal(v, scale) => Value::Decimal(truncate_decimal(*v, *width), *scale),
                Value::String(v) => Value::String(truncate_str(v, *width).to_owned()),
                Value::Binary(v) => Value::Binary(truncate_slice(v, *width).to_vec()),
                _ => return None,
            }),
            Transform::Year => days_of(value).map(|d| Value::Int(year_of(d))),
            Transform::Month => days_of(value).map(|d| Value::Int(month_of(d))),
            Transform::Day => days_of(value).map(Value::Date),
            Transform::Hour => Some(Value::Int(match value {
                Value::Timestamp(v) | Value::Timestamptz(v) => hour_of_micros(*v),
                Value::TimestampNs(v) | Value::TimestamptzNs(v) => hour_of_nanos(*v),
                _ => return None,
            })),
            Transform::Void | Transform::Unknown(_) => None,
        }
    }

    /// Ranges of results, both ends included, under which rows may be filed whose values lie
    /// elsewhere than the result says, because it did not fit its type. Empty where that can't be.
    ///
    /// An order-preserving projection is right only with `or result in range` (inclusive), or
    /// `and result not in range` (strict).
    pub(crate) fn wrapped_results(&self, source: &PrimitiveType) -> Vec<(Value, Value)> {
        use PrimitiveType as P;
        match (self, source) {
            // Java computes `(v % w + w) % w` in 32 bits, which wraps anywhere for such widths.
            (Transform::Truncate(w), P::Int) if *w > 1 << 30 => {
                vec![(Value::Int(i32::MIN), Value::Int(i32::MAX))]
            }
            // Only the lowest bucket, when it begins below the lowest value.
            (Transform::Truncate(w), P::Int) => {
                let lowest = truncate_int(i32::MIN, *w);
                if lowest == i32::MIN { vec![] } else { vec![(Value::Int(lowest), Value::Int(lowest))] }
            }
            (Transform::Truncate(w), P::Long) => {
                let lowest = truncate_long(i64::MIN, *w);
                if lowest == i64::MIN { vec![] } else { vec![(Value::Long(lowest), Value::Long(lowest))] }
            }
            (Transform::Hour, P::Timestamp | P::Timestamptz) => vec![
                (Value::Int(i32::MIN), Value::Int(hour_of_micros(i64::MAX))),
                (Value::Int(hour_of_micros(i64::MIN)), Value::Int(i32::MAX)),
            ],
            _ => vec![],
        }
    }

    /// Whether the result for this very value does not fit its type, so that writers differ about
    /// it: a predicate on such a value can't be projected.
    pub(crate) fn overflows(&self, value: &Value) -> bool {
        match (self, value) {
            (Transform::Truncate(w), Value::Int(v)) => *w > 1 << 30 || truncate_int(*v, *w) > *v,
            (Transform::Truncate(w), Value::Long(v)) => truncate_long(*v, *w) > *v,
            (Transform::Truncate(w), Value::Decimal(v, _)) => truncate_decimal(*v, *w) > *v,
            (Transform::Hour, Value::Timestamp(v) | Value::Timestamptz(v)) => {
                i32::try_from(v.div_euclid(MICROS_PER_HOUR)).is_err()
            }
            _ => false,
        }
    }
}

/// The bucket, of `n`, that a hash falls in.
pub(crate) fn bucket_of(hash: i32, n: u32) -> i32 {
    // At most i32::MAX, so it fits.
    (hash & i32::MAX).cast_unsigned().checked_rem(n).unwrap_or(0).cast_signed()
}

/// Rounds down to a multiple of the width; wraps around at the lower end.
pub(crate) fn truncate_int(v: i32, width: u32) -> i32 {
    let v = i64::from(v);
    // Wraps on purpose.
    (v - v.rem_euclid(i64::from(width.max(1)))) as i32
}

/// Rounds down to a multiple of the width; wraps around at the lower end.
pub(crate) fn truncate_long(v: i64, width: u32) -> i64 {
    v.wrapping_sub(v.rem_euclid(i64::from(width.max(1))))
}

/// Rounds an unscaled value down to a multiple of the width, which counts in the value's scale.
/// The result may have one digit more than the value.
pub(crate) fn truncate_decimal(unscaled: i128, width: u32) -> i128 {
    unscaled.wrapping_sub(unscaled.rem_euclid(i128::from(width.max(1))))
}

/// The first `width` code points.
pub(crate) fn truncate_str(v: &str, width: u32) -> &str {
    let width = width as usize;
    // Fewer bytes than code points is impossible: most strings end here.
    if v.len() <= width {
        return v;
    }
    match v.char_indices().nth(width) {
        Some((end, _)) => v.get(..end).unwrap_or(v),
        None => v,
    }
}

/// The first `width` bytes.
pub(crate) fn truncate_slice(v: &[u8], width: u32) -> &[u8] {
    v.get(..width as usize).unwrap_or(v)
}

/// Days since 1970-01-01, rounded down.
fn days_of(value: &Value) -> Option<i32> {
    match value {
        Value::Date(v) => Some(*v),
        Value::Timestamp(v) | Value::Timestamptz(v) => Some(day_of_micros(*v)),
        Value::TimestampNs(v) | Value::TimestamptzNs(v) => Some(day_of_nanos(*v)),
        _ => None,
    }
}

/// Days since 1970-01-01, rounded down.
pub(crate) fn day_of_micros(micros: i64) -> i32 {
    // All of i64's microseconds are 107 million days.
    micros.div_euclid(MICROS_PER_HOUR * HOURS_PER_DAY) as i32
}

/// Days since 1970-01-01, rounded down.
pub(crate) fn day_of_nanos(nanos: i64) -> i32 {
    nanos.div_euclid(NANOS_PER_HOUR * HOURS_PER_DAY) as i32
}

/// Hours since 1970-01-01 00:00, rounded down; wraps around beyond 32 bits.
pub(crate) fn hour_of_micros(micros: i64) -> i32 {
    micros.div_euclid(MICROS_PER_HOUR) as i32
}

/// Hours since 1970-01-01 00:00, rounded down.
pub(crate) fn hour_of_nanos(nanos: i64) -> i32 {
    nanos.div_euclid(NANOS_PER_HOUR) as i32
}

/// Years since 1970, rounded down.
pub(crate) fn year_of(days: i32) -> i32 {
    month_of(days).div_euclid(12)
}

/// Months since 1970-01, rounded down.
pub(crate) fn month_of(days: i32) -> i32 {
    // Counted from 0000-03-01, so that a leap day is the last day of its year; eras of 400 years
    // all have the same length.
    let day = i64::from(days) + 719_468;
    let era = day.div_euclid(146_097);
    let day_of_era = day.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // 0 is March; months of 30 and 31 days repeat in groups of 153 days.
    let month = (5 * day_of_year + 2) / 153;
    let months = (era * 400 + year_of_era) * 12 + month + 2;
    // 2^31 days are 71 million months.
    (months - 1970 * 12) as i32
}

#[cfg(test)]
mod tests {
    use super::super::types::Type;
    use super::*;
    use PrimitiveType as P;
    use chrono::{Datelike, NaiveDate};
    use proptest::prelude::*;
    use uuid::Uuid;

    const DAY_MICROS: i64 = 86_400_000_000;

    fn truncate(width: u32, value: Value) -> Value {
        Transform::Truncate(width).apply(&value).unwrap()
    }

    #[test]
    fn truncates_as_the_specification_shows() {
        assert_eq!(truncate(10, Value::Int(1)), Value::Int(0));
        assert_eq!(truncate(10, Value::Int(-1)), Value::Int(-10));
        assert_eq!(truncate(10, Value::Long(-1)), Value::Long(-10));
        assert_eq!(truncate(50, Value::Decimal(1065, 2)), Value::Decimal(1050, 2));
        assert_eq!(truncate(50, Value::Decimal(-5, 2)), Value::Decimal(-50, 2));
        assert_eq!(truncate(3, Value::String("iceberg".into())), Value::String("ice".into()));
        assert_eq!(truncate(2, Value::String("🧊é🧊".into())), Value::String("🧊é".into()));
        assert_eq!(truncate(4, Value::String("🧊é🧊".into())), Value::String("🧊é🧊".into()));
        assert_eq!(truncate(3, Value::Binary(vec![1, 2, 3, 4, 5])), Value::Binary(vec![1, 2, 3]));
    }

    #[test]
    fn truncation_wraps_at_the_lower_end_and_says_so() {
        let t = Transform::Truncate(10_000);
        // -2147490000 + 2^32.
        let wrapped = Value::Int(2_147_477_296);
        assert_eq!(t.apply(&Value::Int(i32::MIN)), Some(wrapped.clone()));
        assert!(t.overflows(&Value::Int(i32::MIN)));
        assert!(!t.overflows(&Value::Int(-2_147_480_000)));
        assert!(t.overflows(&Value::Int(-2_147_480_001)));
        assert!(!t.overflows(&Value::Int(i32::MAX)));
        assert_eq!(t.wrapped_results(&P::Int), vec![(wrapped.clone(), wrapped)]);
        assert!(t.overflows(&Value::Long(i64::MIN)));
        assert_eq!(t.wrapped_results(&P::Long).len(), 1);
        for exact in [1, 2, 1 << 30] {
            assert!(Transform::Truncate(exact).wrapped_results(&P::Int).is_empty());
            assert!(!Transform::Truncate(exact).overflows(&Value::Int(i32::MIN)));
        }
        assert!(Transform::Truncate((1 << 30) + 1).overflows(&Value::Int(5)));
    }

    #[test]
    fn everything_before_1970_rounds_down() {
        for (micros, year, month, day, hour) in [
            (0, 0, 0, 0, 0),
            (-1, -1, -1, -1, -1),
            (-1_000_000, -1, -1, -1, -1),
            (-DAY_MICROS, -1, -1, -1, -24),
            (-DAY_MICROS - 1, -1, -1, -2, -25),
            // 1969-12-31T23:00:00.999999: in the last hour, whatever Java says.
            (-3_599_000_001, -1, -1, -1, -1),
            (31 * DAY_MICROS - 1, 0, 0, 30, 743),
            (31 * DAY_MICROS, 0, 1, 31, 744),
            (365 * DAY_MICROS, 1, 12, 365, 8760),
            (-365 * DAY_MICROS, -1, -12, -365, -8760),
            (-365 * DAY_MICROS - 1, -2, -13, -366, -8761),
        ] {
            let values = [
                Value::Timestamp(micros),
                Value::Timestamptz(micros),
                Value::TimestampNs(micros * 1000),
                Value::TimestamptzNs(micros * 1000),
            ];
            for v in values {
                assert_eq!(Transform::Year.apply(&v), Some(Value::Int(year)), "{v:?}");
                assert_eq!(Transform::Month.apply(&v), Some(Value::Int(month)), "{v:?}");
                assert_eq!(Transform::Day.apply(&v), Some(Value::Date(day)), "{v:?}");
                assert_eq!(Transform::Hour.apply(&v), Some(Value::Int(hour)), "{v:?}");
            }
            let v = Value::Date(day);
            assert_eq!(Transform::Year.apply(&v), Some(Value::Int(year)), "{v:?}");
            assert_eq!(Transform::Month.apply(&v), Some(Value::Int(month)), "{v:?}");
            assert_eq!(Transform::Day.apply(&v), Some(Value::Date(day)), "{v:?}");
            assert_eq!(Transform::Hour.apply(&v), None);
        }
        assert_eq!(Transform::Day.apply(&Value::TimestampNs(-1)), Some(Value::Date(-1)));
    }

    #[test]
    fn hours_that_wrap_lie_in_the_ranges_told() {
        let ranges = Transform::Hour.wrapped_results(&P::Timestamp);
        let told = |v: &Value| {
            ranges.iter().any(|(low, high)| {
                low.compare(v).is_some_and(|o| o.is_le()) && v.compare(high).is_some_and(|o| o.is_le())
            })
        };
        let first = (i64::from(i32::MAX) + 1) * MICROS_PER_HOUR;
        let last = i64::from(i32::MIN) * MICROS_PER_HOUR - 1;
        for micros in [i64::MAX, i64::MIN, first, last] {
            let value = Value::Timestamptz(micros);
            assert!(Transform::Hour.overflows(&value));
            assert!(told(&Transform::Hour.apply(&value).unwrap()), "{micros}");
        }
        assert!(!Transform::Hour.overflows(&Value::Timestamp(first - 1)));
        assert!(!told(&Value::Int(1_000_000_000)));
        assert!(Transform::Hour.wrapped_results(&P::TimestampNs).is_empty());
    }

    #[test]
    fn what_does_not_apply_is_null() {
        let values = [Value::Boolean(true), Value::Float(1.0), Value::Double(f64::NAN), Value::List(vec![])];
        for t in [Transform::Bucket(4), Transform::Truncate(4), Transform::Year, Transform::Hour] {
            for v in &values {
                assert_eq!(t.apply(v), None, "{t} {v:?}");
            }
        }
        assert_eq!(Transform::Void.apply(&Value::Int(1)), None);
        assert_eq!(Transform::Unknown("zorder".into()).apply(&Value::Int(1)), None);
        assert_eq!(Transform::Identity.apply(&Value::List(vec![])), None);
        assert_eq!(Transform::Identity.apply(&values[2]), Some(Value::Double(f64::NAN)));
    }

    fn typed_value() -> impl Strategy<Value = (P, Value)> {
        let long = || prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -100_i64..100];
        let int = || prop_oneof![any::<i32>(), Just(i32::MIN), Just(i32::MAX), -100_i32..100];
        prop_oneof![
            any::<bool>().prop_map(|v| (P::Boolean, Value::Boolean(v))),
            int().prop_map(|v| (P::Int, Value::Int(v))),
            long().prop_map(|v| (P::Long, Value::Long(v))),
            any::<f32>().prop_map(|v| (P::Float, Value::Float(v))),
            any::<f64>().prop_map(|v| (P::Double, Value::Double(v))),
            any::<i128>().prop_map(|v| (P::Decimal { precision: 38, scale: 3 }, Value::Decimal(v, 3))),
            int().prop_map(|v| (P::Date, Value::Date(v))),
            long().prop_map(|v| (P::Time, Value::Time(v))),
            long().prop_map(|v| (P::Timestamp, Value::Timestamp(v))),
            long().prop_map(|v| (P::Timestamptz, Value::Timestamptz(v))),
            long().prop_map(|v| (P::TimestampNs, Value::TimestampNs(v))),
            long().prop_map(|v| (P::TimestamptzNs, Value::TimestamptzNs(v))),
            any::<String>().prop_map(|v| (P::String, Value::String(v))),
            any::<[u8; 16]>().prop_map(|v| (P::Uuid, Value::Uuid(Uuid::from_bytes(v)))),
            any::<[u8; 3]>().prop_map(|v| (P::Fixed(3), Value::Fixed(v.to_vec()))),
            any::<Vec<u8>>().prop_map(|v| (P::Binary, Value::Binary(v))),
        ]
    }

    fn transform() -> impl Strategy<Value = Transform> {
        prop_oneof![
            Just(Transform::Identity),
            any::<u32>().prop_map(Transform::Bucket),
            (1_u32..20).prop_map(Transform::Bucket),
            any::<u32>().prop_map(Transform::Truncate),
            (1_u32..20).prop_map(Transform::Truncate),
            Just(Transform::Year),
            Just(Transform::Month),
            Just(Transform::Day),
            Just(Transform::Hour),
            Just(Transform::Void),
        ]
    }

    proptest! {
        #[test]
        fn results_are_of_the_result_type((p, value) in typed_value(), t in transform()) {
            let source = Type::Primitive(p);
            match (t.result_type(&source), t.apply(&value)) {
                (Some(expected), Some(result)) => prop_assert!(result.is_of(&expected.into())),
                (Some(_), None) => prop_assert_eq!(t, Transform::Void),
                (None, result) => prop_assert_eq!(result, None),
            }
        }

        #[test]
        fn order_is_kept_where_nothing_overflows(
            (t, a, b) in transform().prop_flat_map(|t| (Just(t), any::<i64>(), any::<i64>()))
        ) {
            prop_assume!(!matches!(t, Transform::Bucket(_) | Transform::Void));
            let (low, high) = (a.min(b), a.max(b));
            let kinds: [fn(i64) -> Value; 5] = [
                Value::Long,
                Value::Timestamp,
                Value::TimestampNs,
                |v| Value::Int((v >> 32) as i32),
                |v| Value::Date((v >> 32) as i32),
            ];
            for kind in kinds {
                let (low, high) = (kind(low), kind(high));
                if t.overflows(&low) || t.overflows(&high) {
                    continue;
                }
                if let (Some(a), Some(b)) = (t.apply(&low), t.apply(&high)) {
                    prop_assert!(a.compare(&b).unwrap().is_le(), "{} {:?} {:?}", t, low, high);
                }
            }
        }

        #[test]
        fn string_order_is_kept(a in any::<String>(), b in any::<String>(), w in 1_u32..8) {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            prop_assert!(truncate_str(&low, w) <= truncate_str(&high, w));
            prop_assert!(truncate_str(&low, w).chars().count() <= w as usize);
            prop_assert!(low.starts_with(truncate_str(&low, w)));
        }

        #[test]
        fn an_overflowing_value_lies_under_a_wrapped_result(v in prop_oneof![any::<i32>(), i32::MIN..i32::MIN + 20_000], w in 1_u32..=i32::MAX as u32) {
            let t = Transform::Truncate(w);
            if t.overflows(&Value::Int(v)) {
                let result = truncate_int(v, w);
                let told = t.wrapped_results(&P::Int).iter().any(|r| match r {
                    (Value::Int(low), Value::Int(high)) => (*low..=*high).contains(&result),
                    _ => false,
                });
                prop_assert!(told);
            }
        }

        #[test]
        fn the_calendar_agrees_with_chrono(days in -90_000_000_i32..90_000_000) {
            let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
            if let Some(date) = epoch.checked_add_signed(chrono::TimeDelta::days(days.into())) {
                prop_assert_eq!(year_of(days), date.year() - 1970);
                prop_assert_eq!(month_of(days), (date.year() - 1970) * 12 + date.month0() as i32);
            }
        }

        #[test]
        fn nothing_panics(days in any::<i32>(), v in any::<i128>(), w in any::<u32>()) {
            month_of(days);
            bucket_of(days, w);
            truncate_decimal(v, w);
        }
    }
}
