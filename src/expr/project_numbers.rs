//! Projection through transforms that cut numbers and times into steps: year, month, day, hour,
//! and `truncate` of numbers. They keep the order, but for what wraps around.

use crate::spec::{PrimitiveType, Transform, Value};

use super::predicate::{Predicate, Test};
use super::projection::ProjectField;

/// How a field is cut.
pub(super) struct Steps {
    /// From one result to the next.
    width: i64,
    /// Whether old writers may have recorded the step after the right one: they cut towards
    /// zero before 1970.
    may_be_next: bool,
    /// Ranges of results under which there may be values that lie elsewhere, as the transform
    /// wrapped around at an end of the type.
    wrapped: Vec<(Value, Value)>,
    /// Whether the column may have been an int when the file was written.
    was_int: Option<Transform>,
}

impl Steps {
    /// The steps of year, month, day and hour.
    pub(super) fn periods(transform: &Transform, source: &PrimitiveType) -> Self {
        Self { width: 1, may_be_next: true, wrapped: transform.wrapped_results(source), was_int: None }
    }

    /// The steps of `truncate` of a number.
    pub(super) fn truncated(width: u32, source: &PrimitiveType) -> Self {
        let transform = Transform::Truncate(width);
        let mut wrapped = transform.wrapped_results(source);
        let may_be_int = *source == PrimitiveType::Long;
        if may_be_int {
            let long = |v: &Value| match v {
                Value::Int(v) => Value::Long(i64::from(*v)),
                other => other.clone(),
            };
            let ints = transform.wrapped_results(&PrimitiveType::Int);
            wrapped.extend(ints.iter().map(|(from, to)| (long(from), long(to))));
        }
        let was_int = may_be_int.then_some(transform);
        Self { width: i64::from(width), may_be_next: false, wrapped, was_int }
    }

    /// The transform's result for a literal; `None` where writers differ about it.
    pub(super) fn apply(&self, transform: &Transform, literal: &Value) -> Option<Value> {
        if let (Some(transform), Value::Long(v)) = (&self.was_int, literal)
            && i32::try_from(*v).is_ok_and(|v| transform.overflows(&Value::Int(v)))
        {
            return None;
        }
        if transform.overflows(literal) { None } else { transform.apply(literal) }
    }

    /// A test of the source that holds for some row, as a test of what was recorded for it.
    /// `None` where nothing can be said.
    pub(super) fn inclusive(&self, field: &ProjectField, test: &Test) -> Option<Predicate> {
        match test {
            // No value is below the least.
            Test::Lt(v) => match shift(v, -1) {
                None => Some(Predicate::False),
                Some(v) => self.may_be_up_to(field, field.apply(&v)?),
            },
            Test::LtEq(v) => self.may_be_up_to(field, field.apply(v)?),
            Test::Gt(v) => match shift(v, 1) {
                None => Some(Predicate::False),
                Some(v) => self.may_be_from(field, field.apply(&v)?),
            },
            Test::GtEq(v) => self.may_be_from(field, field.apply(v)?),
            Test::Eq(v) => self.may_be_one_of(field, std::slice::from_ref(v)),
            Test::In(set) => self.may_be_one_of(field, set),
            _ => None,
        }
    }

    /// A test of the source, as a test of what was recorded that proves it for all rows.
    /// `None` where nothing can be proven.
    pub(super) fn strict(&self, field: &ProjectField, test: &Test) -> Option<Predicate> {
        match test {
            Test::Lt(v) => self.must_be_below(field, field.apply(v)?),
            Test::LtEq(v) => match shift(v, 1) {
                None => Some(field.leaf(Test::NotNull)),
                Some(v) => self.must_be_below(field, field.apply(&v)?),
            },
            Test::Gt(v) => self.must_be_above(field, field.apply(v)?),
            Test::GtEq(v) => match shift(v, -1) {
                None => Some(field.leaf(Test::NotNull)),
                Some(v) => self.must_be_above(field, field.apply(&v)?),
            },
            Test::NotEq(v) => self.must_be_none_of(field, std::slice::from_ref(v)),
            Test::NotIn(set) => self.must_be_none_of(field, set),
            _ => None,
        }
    }

    /// A test of the transform's own result, as a test of what was recorded for some row.
    pub(super) fn inclusive_result(&self, field: &ProjectField, test: &Test) -> Option<Predicate> {
        // Tests of periods became ranges of the source.
        (!self.may_be_next).then(|| self.or_wrapped(field, field.leaf(test.clone())))
    }

    /// A test of the transform's own result, as a test of what was recorded that proves it.
    pub(super) fn strict_result(&self, field: &ProjectField, test: &Test) -> Option<Predicate> {
        (!self.may_be_next).then(|| self.not_wrapped(field, field.leaf(test.clone())))
    }

    fn or_wrapped(&self, field: &ProjectField, p: Predicate) -> Predicate {
        Predicate::or(std::iter::once(p).chain(self.wrapped.iter().map(|range| wrapped(field, range))))
    }

    fn not_wrapped(&self, field: &ProjectField, p: Predicate) -> Predicate {
        Predicate::and(std::iter::once(p).chain(self.wrapped.iter().map(|range| wrapped(field, range).not())))
    }

    fn may_be_up_to(&self, field: &ProjectField, last: Value) -> Option<Predicate> {
        let last = if self.is_before_1970(&last, -1) { shift(&last, 1)? } else { last };
        Some(self.or_wrapped(field, field.leaf(Test::LtEq(last))))
    }

    fn may_be_from(&self, field: &ProjectField, first: Value) -> Option<Predicate> {
        Some(self.or_wrapped(field, field.leaf(Test::GtEq(first))))
    }

    fn may_be_one_of(&self, field: &ProjectField, literals: &[Value]) -> Option<Predicate> {
        Some(field.one_of(self.with_next(field.apply_all(literals)?)?))
    }

    fn must_be_below(&self, field: &ProjectField, end: Value) -> Option<Predicate> {
        let last = shift(&end, self.width.checked_neg()?)?;
        Some(self.not_wrapped(field, field.leaf(Test::LtEq(last))))
    }

    fn must_be_above(&self, field: &ProjectField, end: Value) -> Option<Predicate> {
        let first = shift(&end, self.width)?;
        // A recorded 0 may be -1.
        let first = if self.is_before_1970(&first, 0) { shift(&first, 1)? } else { first };
        Some(self.not_wrapped(field, field.leaf(Test::GtEq(first))))
    }

    fn must_be_none_of(&self, field: &ProjectField, literals: &[Value]) -> Option<Predicate> {
        Some(field.none_of(self.with_next(field.apply_all(literals)?)?))
    }

    fn is_before_1970(&self, result: &Value, last: i32) -> bool {
        self.may_be_next && matches!(result, Value::Int(v) | Value::Date(v) if *v <= last)
    }

    /// The results, and what old writers may have recorded instead of them.
    fn with_next(&self, results: Vec<Value>) -> Option<Vec<Value>> {
        let mut all = results.clone();
        for result in results.iter().filter(|r| self.is_before_1970(r, -1)) {
            all.push(shift(result, 1)?);
        }
        Some(all)
    }
}

/// Lies in that range of results.
fn wrapped(field: &ProjectField, (from, to): &(Value, Value)) -> Predicate {
    if from == to {
        return field.leaf(Test::Eq(from.clone()));
    }
    Predicate::and([field.leaf(Test::GtEq(from.clone())), field.leaf(Test::LtEq(to.clone()))])
}

/// The value so many of the type's smallest units later; `None` at the end of the type.
fn shift(v: &Value, by: i64) -> Option<Value> {
    let small = |v: i32| i32::try_from(i64::from(v).checked_add(by)?).ok();
    Some(match v {
        Value::Int(v) => Value::Int(small(*v)?),
        Value::Date(v) => Value::Date(small(*v)?),
        Value::Long(v) => Value::Long(v.checked_add(by)?),
        Value::Time(v) => Value::Time(v.checked_add(by)?),
        Value::Timestamp(v) => Value::Timestamp(v.checked_add(by)?),
        Value::Timestamptz(v) => Value::Timestamptz(v.checked_add(by)?),
        Value::TimestampNs(v) => Value::TimestampNs(v.checked_add(by)?),
        Value::TimestamptzNs(v) => Value::TimestamptzNs(v.checked_add(by)?),
        Value::Decimal(v, s) => Value::Decimal(v.checked_add(i128::from(by))?, *s),
        _ => return None,
    })
}
