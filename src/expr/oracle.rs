//! What predicates mean, row by row, written for the tests without a look at the evaluator.

use std::cmp::Ordering;

use crate::spec::{Transform, Value};

use super::predicate::{Predicate, Term, Test};

/// How the engine that filters the rows orders zeros; pruning must suit either.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Zeros {
    /// -0.0 before 0.0.
    Differ,
    /// The two are equal.
    Equal,
}

fn cmp(a: &Value, b: &Value, zeros: Zeros) -> Ordering {
    let float = |a: f64, b: f64| {
        if zeros == Zeros::Equal && a == 0.0 && b == 0.0 { Ordering::Equal } else { a.total_cmp(&b) }
    };
    match (a, b) {
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) | (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Long(a), Value::Long(b))
        | (Value::Time(a), Value::Time(b))
        | (Value::Timestamp(a), Value::Timestamp(b))
        | (Value::Timestamptz(a), Value::Timestamptz(b))
        | (Value::TimestampNs(a), Value::TimestampNs(b))
        | (Value::TimestamptzNs(a), Value::TimestamptzNs(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => float(f64::from(*a), f64::from(*b)),
        (Value::Double(a), Value::Double(b)) => float(*a, *b),
        (Value::Decimal(a, s), Value::Decimal(b, t)) if s == t => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.chars().cmp(b.chars()),
        (Value::Uuid(a), Value::Uuid(b)) => a.as_u128().cmp(&b.as_u128()),
        (Value::Fixed(a), Value::Fixed(b)) | (Value::Binary(a), Value::Binary(b)) => a.iter().cmp(b.iter()),
        _ => panic!("{a:?} and {b:?} can't be compared"),
    }
}

/// The value that a term has for a column's value.
pub(crate) fn term_value(term: &Term, value: Option<&Value>) -> Option<Value> {
    match (&term.transform, value?) {
        (None, v) => Some(v.clone()),
        (Some(t), v) => t.apply(v),
    }
}

/// SQL's truth of a test: `None` is unknown.
pub(crate) fn test_truth(value: Option<&Value>, test: &Test, zeros: Zeros) -> Option<bool> {
    match test {
        Test::IsNull => return Some(value.is_none()),
        Test::NotNull => return Some(value.is_some()),
        // Of nothing even null isn't one.
        Test::In(set) if set.is_empty() => return Some(false),
        Test::NotIn(set) if set.is_empty() => return Some(true),
        _ => {}
    }
    let v = value?;
    let is = |l: &Value, accepted: &[Ordering]| accepted.contains(&cmp(v, l, zeros));
    let nan = matches!(v, Value::Float(v) if v.is_nan()) || matches!(v, Value::Double(v) if v.is_nan());
    let starts = |l: &Value| match (v, l) {
        (Value::String(v), Value::String(l)) => v.starts_with(l.as_str()),
        (Value::Binary(v), Value::Binary(l)) => v.starts_with(l),
        _ => panic!("{v:?} has no prefix"),
    };
    use Ordering::{Equal, Greater, Less};
    Some(match test {
        Test::IsNull | Test::NotNull => unreachable!(),
        Test::IsNan => nan,
        Test::NotNan => !nan,
        Test::Lt(l) => is(l, &[Less]),
        Test::LtEq(l) => is(l, &[Less, Equal]),
        Test::Gt(l) => is(l, &[Greater]),
        Test::GtEq(l) => is(l, &[Greater, Equal]),
        Test::Eq(l) => is(l, &[Equal]),
        Test::NotEq(l) => is(l, &[Less, Greater]),
        Test::StartsWith(l) => starts(l),
        Test::NotStartsWith(l) => !starts(l),
        Test::In(set) => set.iter().any(|l| is(l, &[Equal])),
        Test::NotIn(set) => !set.iter().any(|l| is(l, &[Equal])),
    })
}

/// Whether a row matches; `value` finds the column of a term.
pub(crate) fn matches(p: &Predicate, value: &impl Fn(&Term) -> Option<Value>, zeros: Zeros) -> bool {
    match p {
        Predicate::True => true,
        Predicate::False => false,
        Predicate::And(parts) => parts.iter().all(|p| matches(p, value, zeros)),
        Predicate::Or(parts) => parts.iter().any(|p| matches(p, value, zeros)),
        Predicate::Leaf(leaf) => {
            let v = term_value(&leaf.term, value(&leaf.term).as_ref());
            test_truth(v.as_ref(), &leaf.test, zeros) == Some(true)
        }
    }
}

/// The period of a value as it ought to be, where the transform itself would wrap around.
pub(crate) fn true_hour(value: &Value) -> i64 {
    match value {
        Value::Timestamp(v) | Value::Timestamptz(v) => v.div_euclid(3_600_000_000),
        Value::TimestampNs(v) | Value::TimestamptzNs(v) => v.div_euclid(3_600_000_000_000),
        other => panic!("{other:?} has no hour"),
    }
}

/// The transform's result, or none where it wrapped around and writers differ.
pub(crate) fn sound_result(transform: &Transform, value: &Value) -> Option<Value> {
    if *transform == Transform::Hour && i32::try_from(true_hour(value)).is_err() {
        return None;
    }
    transform.apply(value)
}
