//! Tests of the year, month, day or hour of a field, as ranges of the field itself: what prunes
//! and projects ranges then serves these as well.

use crate::spec::{PrimitiveType, Transform, Value};

use super::predicate::{Leaf, Predicate, Term, Test};

/// Where a period starts, in the values of the field.
enum Start {
    /// At this value.
    At(Value),
    /// Before this value, the least that the type has.
    Before(Value),
    /// After this value, the greatest.
    After(Value),
}

/// The same test as ranges; `None` if the term isn't a year, month, day or hour.
pub(super) fn as_ranges(term: &Term, test: &Test) -> Option<Predicate> {
    let transform = term.transform.as_ref()?;
    let field = Term { transform: None, ..term.clone() };
    let leaf = |test: Test| Predicate::Leaf(Leaf { term: field.clone(), test });
    let before = |period: i64| {
        Some(match start(transform, period, &field.field_type)? {
            Start::At(v) => leaf(Test::Lt(v)),
            // Constant but for null, of which it is unknown: a constant would forget that.
            Start::Before(least) => leaf(Test::Lt(least)),
            Start::After(greatest) => leaf(Test::LtEq(greatest)),
        })
    };
    let from = |period: i64| {
        Some(match start(transform, period, &field.field_type)? {
            Start::At(v) => leaf(Test::GtEq(v)),
            Start::Before(least) => leaf(Test::GtEq(least)),
            Start::After(greatest) => leaf(Test::Gt(greatest)),
        })
    };
    let period = |v: &Value| match v {
        Value::Int(p) | Value::Date(p) => Some(i64::from(*p)),
        _ => None,
    };
    let is = |v: &Value| Some(Predicate::and([from(period(v)?)?, before(period(v)? + 1)?]));
    let is_not = |v: &Value| Some(Predicate::or([before(period(v)?)?, from(period(v)? + 1)?]));
    match (transform, test) {
        (
            Transform::Year | Transform::Month | Transform::Day | Transform::Hour,
            Test::IsNull | Test::NotNull,
        ) => Some(leaf(test.clone())),
        (_, Test::Lt(v)) => before(period(v)?),
        (_, Test::LtEq(v)) => before(period(v)? + 1),
        (_, Test::Gt(v)) => from(period(v)? + 1),
        (_, Test::GtEq(v)) => from(period(v)?),
        (_, Test::Eq(v)) => is(v),
        (_, Test::NotEq(v)) => is_not(v),
        (_, Test::In(set)) => Some(Predicate::or(set.iter().map(is).collect::<Option<Vec<_>>>()?)),
        (_, Test::NotIn(set)) => Some(Predicate::and(set.iter().map(is_not).collect::<Option<Vec<_>>>()?)),
        _ => None,
    }
}

/// The start of a period since 1970; `None` if the transform doesn't make periods.
fn start(transform: &Transform, period: i64, field_type: &PrimitiveType) -> Option<Start> {
    use PrimitiveType as P;
    const HOUR: i128 = 3600;
    let seconds = match transform {
        Transform::Year => i128::from(days_before_month(period * 12)) * 24 * HOUR,
        Transform::Month => i128::from(days_before_month(period)) * 24 * HOUR,
        Transform::Day => i128::from(period) * 24 * HOUR,
        Transform::Hour => i128::from(period) * HOUR,
        _ => return None,
    };
    let fit = |v: i128, value: fn(i64) -> Value| match i64::try_from(v) {
        Ok(v) => Start::At(value(v)),
        Err(_) if v < 0 => Start::Before(value(i64::MIN)),
        Err(_) => Start::After(value(i64::MAX)),
    };
    Some(match field_type {
        P::Date => match i32::try_from(seconds / (24 * HOUR)) {
            Ok(days) => Start::At(Value::Date(days)),
            Err(_) if seconds < 0 => Start::Before(Value::Date(i32::MIN)),
            Err(_) => Start::After(Value::Date(i32::MAX)),
        },
        P::Timestamp => fit(seconds * 1_000_000, Value::Timestamp),
        P::Timestamptz => fit(seconds * 1_000_000, Value::Timestamptz),
        P::TimestampNs => fit(seconds * 1_000_000_000, Value::TimestampNs),
        P::TimestamptzNs => fit(seconds * 1_000_000_000, Value::TimestamptzNs),
        _ => return None,
    })
}

/// Days from 1970-01-01 to the first of a month, counted from 1970-01, in the proleptic
/// Gregorian calendar. Years start in March here, so that the leap day comes last.
fn days_before_month(month: i64) -> i64 {
    let months = month + 1970 * 12 - 2;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 153 days every five months; 719,468 days from 0000-03-01 to 1970-01-01.
    year * 365 + leap_days + (153 * month + 2) / 5 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::FieldId;
    use chrono::{Datelike, NaiveDate};

    fn show(field_type: PrimitiveType, transform: Transform, test: Test) -> String {
        let term = Term { field_id: FieldId(1), name: "ts".into(), field_type, transform: Some(transform) };
        Predicate::new(term, test).unwrap().to_string()
    }

    #[test]
    fn months_start_where_the_calendar_says() {
        for month in -12_000..12_000 {
            let date = NaiveDate::from_ymd_opt(
                (1970 + i64::div_euclid(month, 12)) as i32,
                month.rem_euclid(12) as u32 + 1,
                1,
            )
            .unwrap();
            assert_eq!(days_before_month(month), i64::from(date.num_days_from_ce()) - 719_163, "{date}");
        }
    }

    #[test]
    fn periods_become_ranges() {
        use PrimitiveType as P;
        assert_eq!(
            show(P::Timestamp, Transform::Month, Test::Eq(Value::Int(-1))),
            "ts >= '1969-12-01 00:00:00' AND ts < '1970-01-01 00:00:00'"
        );
        assert_eq!(
            show(P::Date, Transform::Year, Test::NotEq(Value::Int(54))),
            "ts < '2024-01-01' OR ts >= '2025-01-01'"
        );
        assert_eq!(
            show(P::Timestamptz, Transform::Hour, Test::LtEq(Value::Int(1))),
            "ts < '1970-01-01 02:00:00'"
        );
        assert_eq!(
            show(P::TimestampNs, Transform::Day, Test::Gt(Value::Date(0))),
            "ts >= '1970-01-02 00:00:00'"
        );
        assert_eq!(
            show(P::TimestampNs, Transform::Day, Test::Lt(Value::Date(i32::MAX))),
            "ts <= '2262-04-11 23:47:16.854775807'"
        );
        assert_eq!(
            show(P::TimestampNs, Transform::Year, Test::Gt(Value::Int(i32::MAX))),
            "ts > '2262-04-11 23:47:16.854775807'"
        );
        assert_eq!(show(P::Date, Transform::Month, Test::IsNull), "ts IS NULL");
    }
}
