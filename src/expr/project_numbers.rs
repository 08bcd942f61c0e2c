//! Projection through transforms that cut numbers and times into steps: year, month, day, hour,
//! and `truncate` of numbers. They keep the order, but for what wraps around.

use crate::spec::{PrimitiveType, Transform, Value};

use super::predicate::{Predicate, Test};
use super::projection::ProjectField;

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// How a field is cut.
pub(super) struct Steps {
    /// From one result to the next.
    width: i64,
    /// Whether old writers may have recorded the step after the right one: they cut towards
    /// zero before 1970.
    may_be_next: bool,
    /// Results that values may have which wrapped around at an end of the type, in the transform
    /// or as some writer did it.
    wrapped: Vec<Test>,
    /// Literals whose own result is not to be relied on.
    unsafe_literals: Vec<(i64, i64)>,
}

impl Steps {
    /// The steps of year, month, day and hour.
    pub(super) fn periods(transform: &Transform, source: &PrimitiveType) -> Self {
        let mut steps =
            Self { width: 1, may_be_next: true, wrapped: Vec::new(), unsafe_literals: Vec::new() };
        // 64 bits of microseconds are more hours than 32 bits can count.
        if *transform == Transform::Hour
            && matches!(source, PrimitiveType::Timestamp | PrimitiveType::Timestamptz)
        {
            let whole = 1_i64 << 32;
            let (first, last) = (i64::MIN.div_euclid(MICROS_PER_HOUR), i64::MAX.div_euclid(MICROS_PER_HOUR));
            let at = |hour: i64| Value::Int(i32::try_from(hour).unwrap_or_default());
            steps.wrapped = vec![Test::LtEq(at(last - whole)), Test::GtEq(at(first + whole))];
            steps.unsafe_literals = vec![
                (i64::MIN, i64::from(i32::MIN) * MICROS_PER_HOUR - 1),
                ((i64::from(i32::MAX) + 1) * MICROS_PER_HOUR, i64::MAX),
            ];
        }
        steps
    }

    /// The steps of `truncate` of a number.
    pub(super) fn truncated(width: u32, source: &PrimitiveType) -> Self {
        let width = i64::from(width);
        let mut steps = Self { width, may_be_next: false, wrapped: Vec::new(), unsafe_literals: Vec::new() };
        let int = || (i64::from(i32::MIN), 1_i128 << 32, Value::Int as fn(i32) -> Value);
        // The least multiple in the type isn't the least value: what is below has no step.
        let mut add = |least: i64, range: i128, value: &dyn Fn(i64) -> Option<Value>| {
            let below = least.rem_euclid(width);
            let result = i128::from(least) - i128::from(below) + range;
            if below > 0
                && let Some(v) = i64::try_from(result).ok().and_then(value)
            {
                steps.wrapped.push(Test::Eq(v));
                steps.unsafe_literals.push((least, least + (width - below - 1)));
            }
        };
        match source {
            PrimitiveType::Int => {
                let (least, range, value) = int();
                add(least, range, &|v| i32::try_from(v).ok().map(value));
            }
            PrimitiveType::Long => {
                add(i64::MIN, 1_i128 << 64, &|v| Some(Value::Long(v)));
                // The column may have been an int when the file was written.
                add(i64::from(i32::MIN), 1_i128 << 32, &|v| Some(Value::Long(v)));
            }
            // 38 digits are far from the end of 128 bits.
            _ => {}
        }
        steps
    }

    /// Whether the transform's result for that literal may have wrapped around.
    pub(super) fn wraps(&self, literal: &Value) -> bool {
        let v = match literal {
            Value::Int(v) => i64::from(*v),
            Value::Long(v) | Value::Timestamp(v) | Value::Timestamptz(v) => *v,
            _ => return false,
        };
        self.unsafe_literals.iter().any(|(from, to)| (*from..=*to).contains(&v))
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
        Predicate::or(std::iter::once(p).chain(self.wrapped.iter().map(|t| field.leaf(t.clone()))))
    }

    fn not_wrapped(&self, field: &ProjectField, p: Predicate) -> Predicate {
        Predicate::and(std::iter::once(p).chain(self.wrapped.iter().map(|t| field.leaf(t.not()))))
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
