//! Filters on columns as filters on partition tuples (spec, "Scan Planning").

use crate::spec::{FieldId, PartitionField, PartitionSpec, PrimitiveType, Schema, Transform, Value};

use super::predicate::{Leaf, Predicate, Term, Test};
use super::project_numbers::Steps;
use super::project_prefixes as prefixes;

/// Partitions that may hold matching rows.
pub(crate) struct InclusiveProjection;

impl InclusiveProjection {
    /// A predicate over the fields of the spec's partition tuples that is true for the partition
    /// of every row that matches.
    pub(crate) fn project(filter: &Predicate, spec: &PartitionSpec, schema: &Schema) -> Predicate {
        let fields = project_fields(spec, schema);
        filter.map(&mut |leaf| inclusive_leaf(leaf, &fields))
    }
}

/// Partitions of which all rows match; in one piece only for tests, as the residual of a filter asks
/// leaf by leaf.
#[cfg(test)]
pub(crate) struct StrictProjection;

#[cfg(test)]
impl StrictProjection {
    /// A predicate over the fields of the spec's partition tuples; where it is true, every row
    /// of the partition matches.
    pub(crate) fn project(filter: &Predicate, spec: &PartitionSpec, schema: &Schema) -> Predicate {
        let fields = project_fields(spec, schema);
        filter.map(&mut |leaf| strict_leaf(leaf, &fields))
    }
}

/// Whether the partition tuple alone tells if a row matches, for every tuple under that spec:
/// then no residual is ever left.
pub(crate) fn decided_by_partition(filter: &Predicate, spec: &PartitionSpec, schema: &Schema) -> bool {
    let fields = project_fields(spec, schema);
    let decided = |leaf: &Leaf| {
        fields.iter().any(|field| {
            // Zeros and NaNs leave it open.
            !matches!(field.term.field_type, PrimitiveType::Float | PrimitiveType::Double)
                && matches!((field.inclusive(leaf), field.strict(leaf)), (Some(i), Some(s)) if i == s)
        })
    };
    let mut all = true;
    filter.for_each_leaf(&mut |leaf| all &= decided(leaf));
    all
}

/// A field of a partition tuple from which something can be concluded.
pub(super) struct ProjectField {
    /// The field of the tuple, named and typed.
    pub(super) term: Term,
    source: FieldId,
    transform: Transform,
    kind: Kind,
}

enum Kind {
    Identity,
    Bucket,
    /// Numbers and times, cut to steps of some width.
    Steps(Steps),
    /// Strings and bytes, cut to this length.
    Prefix(usize),
}

/// The fields of the spec's tuples whose source and transform are known.
pub(super) fn project_fields(spec: &PartitionSpec, schema: &Schema) -> Vec<ProjectField> {
    use PrimitiveType as P;
    let field = |f: &PartitionField| {
        let source = f.source_id()?;
        let source_type = &schema.field_by_id(source)?.field_type;
        let result_type = f.transform.result_type(source_type)?;
        let kind = match (&f.transform, source_type.as_primitive()?) {
            (Transform::Identity, _) | (Transform::Day, P::Date) => Kind::Identity,
            (Transform::Bucket(_), _) => Kind::Bucket,
            (Transform::Year | Transform::Month | Transform::Day | Transform::Hour, t) => {
                Kind::Steps(Steps::periods(&f.transform, t))
            }
            (Transform::Truncate(width), P::String | P::Binary) => {
                Kind::Prefix(usize::try_from(*width).ok()?)
            }
            (Transform::Truncate(width), t) => Kind::Steps(Steps::truncated(*width, t)),
            // Null for every row, or anything at all.
            (Transform::Void | Transform::Unknown(_), _) => return None,
        };
        let term = Term {
            field_id: f.field_id,
            name: f.name.as_str().into(),
            field_type: result_type,
            transform: None,
        };
        Some(ProjectField { term, source, transform: f.transform.clone(), kind })
    };
    spec.fields.iter().filter_map(field).collect()
}

pub(super) fn inclusive_leaf(leaf: &Leaf, fields: &[ProjectField]) -> Predicate {
    Predicate::and(fields.iter().filter_map(|f| f.inclusive(leaf)))
}

pub(super) fn strict_leaf(leaf: &Leaf, fields: &[ProjectField]) -> Predicate {
    Predicate::or(fields.iter().filter_map(|f| f.strict(leaf)))
}

impl ProjectField {
    pub(super) fn leaf(&self, test: Test) -> Predicate {
        Predicate::Leaf(Leaf { term: self.term.clone(), test })
    }

    /// The transform's result for a literal.
    pub(super) fn apply(&self, literal: &Value) -> Option<Value> {
        match &self.kind {
            Kind::Steps(steps) => steps.apply(&self.transform, literal),
            _ => self.transform.apply(literal),
        }
    }

    /// `None` if the leaf is about another field.
    fn inclusive(&self, leaf: &Leaf) -> Option<Predicate> {
        if leaf.term.field_id != self.source {
            return None;
        }
        let projected = match (&leaf.test, &leaf.term.transform, &self.kind) {
            // Transforms give null for null, and only for it.
            (Test::IsNull | Test::NotNull, ..) => Some(self.leaf(leaf.test.clone())),
            (test, Some(t), kind) if *t == self.transform => match kind {
                Kind::Steps(steps) => steps.inclusive_result(self, test),
                _ => Some(self.leaf(test.clone())),
            },
            (_, Some(_), _) => None,
            (test, None, Kind::Identity) => Some(self.leaf(test.clone())),
            (test, None, Kind::Bucket) => match test {
                Test::Eq(v) => self.apply(v).map(|v| self.leaf(Test::Eq(v))),
                Test::In(set) => self.apply_all(set).map(|set| self.one_of(set)),
                _ => None,
            },
            (test, None, Kind::Steps(steps)) => steps.inclusive(self, test),
            (test, None, Kind::Prefix(width)) => prefixes::inclusive(self, *width, test),
        };
        // Whatever else is asked, null is no answer to it.
        Some(projected.unwrap_or_else(|| self.leaf(Test::NotNull)))
    }

    /// `None` if the leaf is about another field, or nothing is ever proven.
    fn strict(&self, leaf: &Leaf) -> Option<Predicate> {
        if leaf.term.field_id != self.source {
            return None;
        }
        match (&leaf.test, &leaf.term.transform, &self.kind) {
            (Test::IsNull | Test::NotNull, ..) => Some(self.leaf(leaf.test.clone())),
            (test, Some(t), kind) if *t == self.transform => match kind {
                Kind::Steps(steps) => steps.strict_result(self, test),
                _ => Some(self.leaf(test.clone())),
            },
            (_, Some(_), _) => None,
            (test, None, Kind::Identity) => Some(self.leaf(test.clone())),
            (test, None, Kind::Bucket) => match test {
                Test::NotEq(v) => self.apply(v).map(|v| self.leaf(Test::NotEq(v))),
                Test::NotIn(set) => self.apply_all(set).map(|set| self.none_of(set)),
                _ => None,
            },
            (test, None, Kind::Steps(steps)) => steps.strict(self, test),
            (test, None, Kind::Prefix(width)) => prefixes::strict(self, *width, test),
        }
    }

    pub(super) fn apply_all(&self, literals: &[Value]) -> Option<Vec<Value>> {
        literals.iter().map(|v| self.apply(v)).collect()
    }

    /// In, in the normal form; true if it can't be said.
    pub(super) fn one_of(&self, values: Vec<Value>) -> Predicate {
        Predicate::new(self.term.clone(), Test::In(values.into())).unwrap_or(Predicate::True)
    }

    /// Not in, in the normal form; false if it can't be said.
    pub(super) fn none_of(&self, values: Vec<Value>) -> Predicate {
        Predicate::new(self.term.clone(), Test::NotIn(values.into())).unwrap_or(Predicate::False)
    }
}
