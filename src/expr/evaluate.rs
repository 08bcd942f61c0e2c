//! The one evaluator: what partial knowledge of some rows says about a predicate.
//!
//! The answer is `Some(true)` if every row matches, `Some(false)` if none does, and `None` if
//! that isn't known. A row matches where the predicate is true; unknown is no match.

use std::cmp::Ordering;

use crate::spec::{PrimitiveType, Value};

use super::predicate::{Predicate, Test};
use super::scalar::Scalar;

/// Evaluates a predicate, given the answers for its leaves.
pub(super) fn evaluate<L>(
    predicate: &Predicate<L>,
    leaf: &mut impl FnMut(&L) -> Option<bool>,
) -> Option<bool> {
    match predicate {
        Predicate::True => Some(true),
        Predicate::False => Some(false),
        Predicate::Leaf(l) => leaf(l),
        Predicate::And(parts) => {
            let mut all = Some(true);
            for part in parts {
                match evaluate(part, leaf) {
                    Some(true) => {}
                    Some(false) => return Some(false),
                    None => all = None,
                }
            }
            all
        }
        Predicate::Or(parts) => {
            let mut any = Some(false);
            for part in parts {
                match evaluate(part, leaf) {
                    Some(false) => {}
                    Some(true) => return Some(true),
                    None => any = None,
                }
            }
            any
        }
    }
}

/// What is known of a term's values over some rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// The type that the scalars and the literals are of.
    value_type: &'a PrimitiveType,
    /// Some may be null.
    may_be_null: bool,
    /// All are null.
    all_null: bool,
    /// Some may be NaN.
    may_be_nan: bool,
    /// All that aren't null are NaN.
    all_nan: bool,
    /// Below or equal to all that are neither null nor NaN.
    lower: Option<Scalar<'a>>,
    /// Above or equal to all that are neither null nor NaN.
    upper: Option<Scalar<'a>>,
}

impl<'a> Facts<'a> {
    /// Nothing.
    pub(super) fn unknown(value_type: &'a PrimitiveType) -> Self {
        let may_be_nan = matches!(value_type, PrimitiveType::Float | PrimitiveType::Double);
        Self {
            value_type,
            may_be_null: true,
            all_null: false,
            may_be_nan,
            all_nan: false,
            lower: None,
            upper: None,
        }
    }

    /// All rows have this value.
    pub(super) fn value(value_type: &'a PrimitiveType, value: Option<&'a Value>) -> Self {
        let unknown = Self::unknown(value_type);
        let Some(value) = value else { return unknown.all_null() };
        match Scalar::from_value(value, value_type) {
            // The value is there, whatever it is.
            None => unknown.no_nulls(),
            Some(v) if v.is_nan() => Self { all_nan: true, ..unknown.no_nulls() },
            Some(v) => unknown.no_nulls().no_nans().bounds(Some(v), Some(v)),
        }
    }

    pub(super) fn no_nulls(self) -> Self {
        Self { may_be_null: false, ..self }
    }

    pub(super) fn all_null(self) -> Self {
        Self { all_null: true, ..self }
    }

    pub(super) fn no_nans(self) -> Self {
        Self { may_be_nan: false, ..self }
    }

    pub(super) fn all_nan(self) -> Self {
        Self { all_nan: self.may_be_nan, ..self }
    }

    /// Bounds of the values that are neither null nor NaN. Those that can't be right are ignored.
    pub(super) fn bounds(self, lower: Option<Scalar<'a>>, upper: Option<Scalar<'a>>) -> Self {
        // Some writers let NaN into their bounds; who knows what they compared.
        if [lower, upper].iter().flatten().any(Scalar::is_nan) {
            return self;
        }
        let (lower, upper) = (lower.map(|v| zero(v, -0.0)), upper.map(|v| zero(v, 0.0)));
        if let (Some(l), Some(u)) = (&lower, &upper)
            && order(l, u, self.value_type) == Some(Ordering::Greater)
        {
            return self;
        }
        Self { lower, upper, ..self }
    }

    /// What is known of a test of these values.
    pub(super) fn test(&self, test: &Test) -> Option<bool> {
        match test {
            Test::IsNull | Test::NotNull => {
                let all_null = match (self.may_be_null, self.all_null) {
                    (_, true) => Some(true),
                    (false, _) => Some(false),
                    _ => None,
                };
                return if *test == Test::IsNull { all_null } else { all_null.map(|b| !b) };
            }
            // Unknown for each of them.
            _ if self.all_null => return Some(false),
            _ => {}
        }
        let of_values = match test {
            Test::IsNull | Test::NotNull => None,
            Test::IsNan => self.is_nan(),
            Test::NotNan => self.is_nan().map(|b| !b),
            Test::Lt(v) => self.less(v, false),
            Test::GtEq(v) => self.less(v, false).map(|b| !b),
            Test::LtEq(v) => self.less(v, true),
            Test::Gt(v) => self.less(v, true).map(|b| !b),
            Test::Eq(v) => self.one_of(std::slice::from_ref(v)),
            Test::NotEq(v) => self.one_of(std::slice::from_ref(v)).map(|b| !b),
            Test::In(set) => self.one_of(set),
            Test::NotIn(set) => self.one_of(set).map(|b| !b),
            Test::StartsWith(v) => self.starts_with(v),
            Test::NotStartsWith(v) => self.starts_with(v).map(|b| !b),
        };
        match of_values {
            // A null is among them, and it doesn't match.
            Some(true) if self.may_be_null => None,
            other => other,
        }
    }

    fn is_nan(&self) -> Option<bool> {
        match (self.may_be_nan, self.all_nan) {
            (false, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        }
    }

    /// Whether the values are less than (or equal to) a literal.
    ///
    /// With NaNs about nothing can be said: by its sign a NaN is above or below all numbers for
    /// the engine that filters the rows.
    fn less(&self, literal: &Value, or_equal: bool) -> Option<bool> {
        if self.may_be_nan {
            return None;
        }
        let literal = Scalar::from_value(literal, self.value_type)?;
        // Bounds of UUIDs may have been made in another order than the engine's, which doesn't
        // matter only if there is but one value.
        if let Scalar::Uuid(_) = literal
            && self.lower?.compare(&self.upper?) != Some(Ordering::Equal)
        {
            return None;
        }
        let upper = self.upper.and_then(|u| u.compare(&literal));
        let lower = self.lower.and_then(|l| l.compare(&literal));
        match (lower, upper) {
            (_, Some(Ordering::Less)) => Some(true),
            (_, Some(Ordering::Equal)) if or_equal => Some(true),
            (Some(Ordering::Greater), _) => Some(false),
            (Some(Ordering::Equal), _) if !or_equal => Some(false),
            _ => None,
        }
    }

    /// Whether the values are among the literals, which ascend.
    fn one_of(&self, literals: &[Value]) -> Option<bool> {
        // Where a literal lies: below the lower bound, above the upper, or maybe among the values.
        let place = |v: &Value| -> Option<Ordering> {
            let v = Scalar::from_value(v, self.value_type)?;
            if v.is_nan() {
                return if self.may_be_nan { None } else { Some(Ordering::Greater) };
            }
            if self.is_nan() == Some(true) {
                return Some(Ordering::Less);
            }
            if self.lower.and_then(|l| order(&v, &l, self.value_type)) == Some(Ordering::Less) {
                return Some(Ordering::Less);
            }
            if self.upper.and_then(|u| order(&v, &u, self.value_type)) == Some(Ordering::Greater) {
                return Some(Ordering::Greater);
            }
            Some(Ordering::Equal)
        };
        let (lower, upper) = (self.lower, self.upper);
        let single = match (&lower, &upper) {
            (Some(l), Some(u)) if l.compare(u) == Some(Ordering::Equal) => Some(*l),
            _ => None,
        };
        // The signed order of UUIDs isn't that of the set, so these are looked at one by one.
        let ordered =
            !matches!(self.value_type, PrimitiveType::Uuid | PrimitiveType::Float | PrimitiveType::Double);
        let candidates = if ordered && let Some(l) = &lower {
            let from = literals.partition_point(|v| {
                Scalar::from_value(v, self.value_type).and_then(|v| v.compare(l)) == Some(Ordering::Less)
            });
            literals.get(from..)?.get(..1).unwrap_or_default()
        } else {
            literals
        };
        // Not so for zeros: their bounds were widened, and so differ.
        if let Some(v) = single
            && !self.may_be_nan
        {
            let equal = |l: &Value| {
                Scalar::from_value(l, self.value_type).and_then(|l| l.compare(&v)) == Some(Ordering::Equal)
            };
            return Some(candidates.iter().any(equal));
        }
        let may_be = |literal: &Value| !matches!(place(literal), Some(Ordering::Less | Ordering::Greater));
        if candidates.iter().any(may_be) { None } else { Some(false) }
    }

    /// Whether the values start with a literal. They then lie next to each other in the order,
    /// the literal itself being the first.
    fn starts_with(&self, literal: &Value) -> Option<bool> {
        let prefix = Scalar::from_value(literal, self.value_type)?;
        if let Some(u) = &self.upper
            && u.compare(&prefix) == Some(Ordering::Less)
        {
            return Some(false);
        }
        let lower = self.lower.as_ref()?;
        if lower.starts_with(&prefix) {
            return self.upper.is_some_and(|u| u.starts_with(&prefix)).then_some(true);
        }
        (lower.compare(&prefix) == Some(Ordering::Greater)).then_some(false)
    }
}

/// Engines and writers don't agree whether the zeros are equal, or which comes first.
fn zero(v: Scalar<'_>, replacement: f64) -> Scalar<'_> {
    match v {
        Scalar::Float(0.0) => Scalar::Float(replacement),
        other => other,
    }
}

/// The order that every writer agrees with; equal where they don't agree.
fn order(a: &Scalar<'_>, b: &Scalar<'_>, value_type: &PrimitiveType) -> Option<Ordering> {
    let order = a.compare(b)?;
    match value_type {
        PrimitiveType::Uuid if a.compare_signed_halves(b)? != order => Some(Ordering::Equal),
        _ => Some(order),
    }
}
