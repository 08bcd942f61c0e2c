//! Bound predicates: fields by id, literals of exactly the field's type.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::spec::{FieldId, PrimitiveType, Schema, Transform, Type, Value};

use super::periods;

/// A filter over the columns of a table (or over the fields of a partition tuple).
///
/// There is no node for NOT: [`Predicate::not`] pushes it into the leaves, which is right in
/// SQL's three-valued logic. Constants and nested ANDs and ORs are folded by [`Predicate::and`]
/// and [`Predicate::or`]; build with these.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Predicate<L = Leaf> {
    /// Every row matches.
    True,
    /// No row matches.
    False,
    /// All of them hold; at least two.
    And(Vec<Predicate<L>>),
    /// One of them holds; at least two.
    Or(Vec<Predicate<L>>),
    /// A test of one term.
    Leaf(L),
}

/// A test of one term.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Leaf {
    /// What is tested.
    pub(crate) term: Term,
    /// How.
    pub(crate) test: Test,
}

/// A field, or a transform of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term {
    /// The field.
    pub(crate) field_id: FieldId,
    /// The field's full name, for people.
    pub(crate) name: Arc<str>,
    /// The field's type.
    pub(crate) field_type: PrimitiveType,
    /// The transform whose result is tested, if it isn't the field itself.
    pub(crate) transform: Option<Transform>,
}

/// How a term is tested. All but `IsNull` and `NotNull` are unknown for null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// Is null.
    IsNull,
    /// Is not null.
    NotNull,
    /// Is a float that is not a number.
    IsNan,
    /// Is a float that is a number.
    NotNan,
    /// Less than.
    Lt(Value),
    /// Less than or equal to.
    LtEq(Value),
    /// Greater than.
    Gt(Value),
    /// Greater than or equal to.
    GtEq(Value),
    /// Equal to.
    Eq(Value),
    /// Not equal to.
    NotEq(Value),
    /// A string or bytes that begin so.
    StartsWith(Value),
    /// A string or bytes that don't begin so.
    NotStartsWith(Value),
    /// Equal to one of these; in ascending order, without duplicates, at least two.
    In(Arc<[Value]>),
    /// Not equal to any of these; as for `In`.
    NotIn(Arc<[Value]>),
}

impl<L> Predicate<L> {
    /// Holds where all of `parts` hold.
    pub(crate) fn and(parts: impl IntoIterator<Item = Predicate<L>>) -> Self {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Predicate::True => {}
                Predicate::False => return Predicate::False,
                Predicate::And(inner) => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match kept.pop() {
            None => Predicate::True,
            Some(only) if kept.is_empty() => only,
            Some(last) => {
                kept.push(last);
                Predicate::And(kept)
            }
        }
    }

    /// Holds where one of `parts` holds.
    pub(crate) fn or(parts: impl IntoIterator<Item = Predicate<L>>) -> Self {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Predicate::False => {}
                Predicate::True => return Predicate::True,
                Predicate::Or(inner) => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match kept.pop() {
            None => Predicate::False,
            Some(only) if kept.is_empty() => only,
            Some(last) => {
                kept.push(last);
                Predicate::Or(kept)
            }
        }
    }

    /// Replaces each leaf, and folds what became constant.
    pub(crate) fn map<M>(&self, leaf: &mut impl FnMut(&L) -> Predicate<M>) -> Predicate<M> {
        match self {
            Predicate::True => Predicate::True,
            Predicate::False => Predicate::False,
            Predicate::And(parts) => Predicate::and(parts.iter().map(|p| p.map(leaf))),
            Predicate::Or(parts) => Predicate::or(parts.iter().map(|p| p.map(leaf))),
            Predicate::Leaf(l) => leaf(l),
        }
    }

    /// Calls `visit` with every leaf.
    pub(crate) fn for_each_leaf(&self, visit: &mut impl FnMut(&L)) {
        match self {
            Predicate::True | Predicate::False => {}
            Predicate::And(parts) | Predicate::Or(parts) => {
                parts.iter().for_each(|p| p.for_each_leaf(visit));
            }
            Predicate::Leaf(l) => visit(l),
        }
    }
}

impl Predicate {
    /// A leaf. Sets are put in order; a set of one becomes an equality, an empty one a constant.
    /// Tests of the year, month, day or hour of a field become ranges of the field itself.
    ///
    /// # Errors
    /// `DataInvalid` where a literal isn't of the term's type or the test doesn't suit it.
    pub(crate) fn new(term: Term, test: Test) -> Result<Self> {
        let Some(tested) = term.result_type() else {
            return Err(Error::invalid(format!("a predicate on {term}, which has no comparable type")));
        };
        let tested = Type::Primitive(tested);
        let refuse = || Err(Error::invalid(format!("predicate {term} {test}: not of type {tested}")));
        match &test {
            Test::IsNull | Test::NotNull => {}
            Test::IsNan | Test::NotNan => {
                if !matches!(tested.as_primitive(), Some(PrimitiveType::Float | PrimitiveType::Double)) {
                    return refuse();
                }
            }
            Test::StartsWith(v) | Test::NotStartsWith(v) => {
                if !v.is_of(&tested) || !matches!(v, Value::String(_) | Value::Binary(_)) {
                    return refuse();
                }
            }
            other => {
                if !other.literals().iter().all(|v| v.is_of(&tested)) {
                    return refuse();
                }
            }
        }
        let term = match term.transform {
            Some(Transform::Identity) => Term { transform: None, ..term },
            _ => term,
        };
        let test = match test {
            Test::In(set) => match sorted(&set) {
                set if set.is_empty() => return Ok(Predicate::False),
                set => one_or_more(set, Test::Eq, Test::In),
            },
            Test::NotIn(set) => match sorted(&set) {
                set if set.is_empty() => return Ok(Predicate::True),
                set => one_or_more(set, Test::NotEq, Test::NotIn),
            },
            other => other,
        };
        Ok(match periods::as_ranges(&term, &test) {
            Some(ranges) => ranges,
            None => Predicate::Leaf(Leaf { term, test }),
        })
    }

    /// Holds where this is false: NOT as SQL means it, so that unknown stays unknown.
    pub(crate) fn not(&self) -> Self {
        match self {
            Predicate::True => Predicate::False,
            Predicate::False => Predicate::True,
            Predicate::And(parts) => Predicate::or(parts.iter().map(Predicate::not)),
            Predicate::Or(parts) => Predicate::and(parts.iter().map(Predicate::not)),
            Predicate::Leaf(l) => Predicate::Leaf(Leaf { term: l.term.clone(), test: l.test.not() }),
        }
    }

    /// The fields that it looks at, ascending, each once.
    #[cfg(test)]
    pub(crate) fn field_ids(&self) -> Vec<FieldId> {
        let mut ids = Vec::new();
        self.for_each_leaf(&mut |l| ids.push(l.term.field_id));
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

fn sorted(set: &[Value]) -> Vec<Value> {
    let mut values = set.to_vec();
    // They are of one type (checked), so they do compare.
    values.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
    values.dedup();
    values
}

fn one_or_more(mut set: Vec<Value>, one: fn(Value) -> Test, more: fn(Arc<[Value]>) -> Test) -> Test {
    match set.pop() {
        Some(only) if set.is_empty() => one(only),
        Some(last) => {
            set.push(last);
            more(set.into())
        }
        None => more(set.into()),
    }
}

impl Term {
    /// The field with that id; `None` if it isn't in the schema or isn't primitive.
    pub(crate) fn field(schema: &Schema, id: FieldId) -> Option<Self> {
        let field_type = schema.field_by_id(id)?.field_type.as_primitive()?.clone();
        Some(Self { field_id: id, name: schema.full_name(id)?.into(), field_type, transform: None })
    }

    /// A transform of that field.
    pub(crate) fn with_transform(self, transform: Transform) -> Self {
        Self { transform: Some(transform), ..self }
    }

    /// The type of the literals it is compared with; `None` where no comparison makes sense.
    pub(crate) fn result_type(&self) -> Option<PrimitiveType> {
        match &self.transform {
            None if self.field_type.is_opaque() => None,
            None => Some(self.field_type.clone()),
            Some(Transform::Void) => None,
            Some(t) => t.result_type(&Type::Primitive(self.field_type.clone())),
        }
    }
}

impl Test {
    /// The test that holds where this one is false; null is unknown to both.
    pub(crate) fn not(&self) -> Self {
        match self.clone() {
            Test::IsNull => Test::NotNull,
            Test::NotNull => Test::IsNull,
            Test::IsNan => Test::NotNan,
            Test::NotNan => Test::IsNan,
            Test::Lt(v) => Test::GtEq(v),
            Test::LtEq(v) => Test::Gt(v),
            Test::Gt(v) => Test::LtEq(v),
            Test::GtEq(v) => Test::Lt(v),
            Test::Eq(v) => Test::NotEq(v),
            Test::NotEq(v) => Test::Eq(v),
            Test::StartsWith(v) => Test::NotStartsWith(v),
            Test::NotStartsWith(v) => Test::StartsWith(v),
            Test::In(set) => Test::NotIn(set),
            Test::NotIn(set) => Test::In(set),
        }
    }

    /// The literals of the test.
    pub(crate) fn literals(&self) -> &[Value] {
        match self {
            Test::IsNull | Test::NotNull | Test::IsNan | Test::NotNan => &[],
            Test::Lt(v)
            | Test::LtEq(v)
            | Test::Gt(v)
            | Test::GtEq(v)
            | Test::Eq(v)
            | Test::NotEq(v)
            | Test::StartsWith(v)
            | Test::NotStartsWith(v) => std::slice::from_ref(v),
            Test::In(set) | Test::NotIn(set) => set,
        }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, word) = match self {
            Predicate::True => return f.write_str("true"),
            Predicate::False => return f.write_str("false"),
            Predicate::Leaf(leaf) => return write!(f, "{leaf}"),
            Predicate::And(parts) => (parts, " AND "),
            Predicate::Or(parts) => (parts, " OR "),
        };
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                f.write_str(word)?;
            }
            match part {
                Predicate::And(_) | Predicate::Or(_) => write!(f, "({part})")?,
                _ => write!(f, "{part}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.term, self.test)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transform {
            None => f.write_str(&self.name),
            Some(Transform::Bucket(n)) => write!(f, "bucket({n}, {})", self.name),
            Some(Transform::Truncate(w)) => write!(f, "truncate({w}, {})", self.name),
            Some(t) => write!(f, "{t}({})", self.name),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, v) = match self {
            Test::IsNull => return f.write_str("IS NULL"),
            Test::NotNull => return f.write_str("IS NOT NULL"),
            Test::IsNan => return f.write_str("IS NAN"),
            Test::NotNan => return f.write_str("IS NOT NAN"),
            Test::In(set) => {
                f.write_str("IN (")?;
                list(f, set)?;
                return f.write_str(")");
            }
            Test::NotIn(set) => {
                f.write_str("NOT IN (")?;
                list(f, set)?;
                return f.write_str(")");
            }
            Test::Lt(v) => ("<", v),
            Test::LtEq(v) => ("<=", v),
            Test::Gt(v) => (">", v),
            Test::GtEq(v) => (">=", v),
            Test::Eq(v) => ("=", v),
            Test::NotEq(v) => ("<>", v),
            Test::StartsWith(v) => ("STARTS WITH", v),
            Test::NotStartsWith(v) => ("NOT STARTS WITH", v),
        };
        write!(f, "{word} ")?;
        literal(f, v)
    }
}

/// Longer lists are cut in what people read.
const SHOWN: usize = 20;

fn list(f: &mut fmt::Formatter<'_>, set: &[Value]) -> fmt::Result {
    for (i, v) in set.iter().take(SHOWN).enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        literal(f, v)?;
    }
    match set.len().checked_sub(SHOWN) {
        None | Some(0) => Ok(()),
        Some(more) => write!(f, ", … {more} more"),
    }
}

fn literal(f: &mut fmt::Formatter<'_>, v: &Value) -> fmt::Result {
    use chrono::{DateTime, Days, NaiveDate, TimeDelta};
    let epoch = DateTime::UNIX_EPOCH;
    match v {
        Value::Boolean(v) => write!(f, "{v}"),
        Value::Int(v) => write!(f, "{v}"),
        Value::Long(v) => write!(f, "{v}"),
        Value::Float(v) => write!(f, "{v}"),
        Value::Double(v) => write!(f, "{v}"),
        Value::Decimal(v, 0) => write!(f, "{v}"),
        Value::Decimal(v, scale) => {
            let digits = format!("{:0>width$}", v.unsigned_abs(), width = *scale as usize + 1);
            let (whole, fraction) = digits.split_at(digits.len() - *scale as usize);
            write!(f, "{}{whole}.{fraction}", if *v < 0 { "-" } else { "" })
        }
        Value::Date(v) => {
            let days = Days::new(u64::from(v.unsigned_abs()));
            let start: NaiveDate = epoch.date_naive();
            let date = if *v < 0 { start.checked_sub_days(days) } else { start.checked_add_days(days) };
            match date {
                Some(d) => write!(f, "'{d}'"),
                None => write!(f, "day {v}"),
            }
        }
        Value::Time(v) => match epoch.checked_add_signed(TimeDelta::microseconds(*v)) {
            Some(t) => write!(f, "'{}'", t.format("%H:%M:%S%.f")),
            None => write!(f, "time {v}"),
        },
        Value::Timestamp(v) | Value::Timestamptz(v) => {
            match epoch.checked_add_signed(TimeDelta::microseconds(*v)) {
                Some(t) => write!(f, "'{}'", t.format("%F %T%.f")),
                None => write!(f, "timestamp {v}"),
            }
        }
        Value::TimestampNs(v) | Value::TimestamptzNs(v) => {
            let time = DateTime::from_timestamp_nanos(*v);
            write!(f, "'{}'", time.format("%F %T%.f"))
        }
        Value::String(v) => write!(f, "'{}'", v.replace('\'', "''")),
        Value::Uuid(v) => write!(f, "'{v}'"),
        Value::Fixed(v) | Value::Binary(v) => {
            f.write_str("x'")?;
            v.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
            f.write_str("'")
        }
        Value::Struct(_) | Value::List(_) | Value::Map(_) => f.write_str("…"),
    }
}
