//! What is left of a filter for the rows of one partition.

use crate::spec::{PartitionSpec, PartitionValues, Schema};

use super::partition_evaluator::{Slot, evaluate_tuple, slots};
use super::predicate::{Leaf, Predicate};
use super::projection::{inclusive_leaf, project_fields, strict_leaf};

/// A leaf with its projections.
#[derive(Debug, Clone)]
struct Projected {
    leaf: Leaf,
    inclusive: Predicate<Slot>,
    strict: Predicate<Slot>,
}

/// Simplifies a filter for the files of a spec.
#[derive(Debug, Clone)]
pub(crate) struct ResidualEvaluator {
    filter: Predicate<Projected>,
}

impl ResidualEvaluator {
    /// For tuples of that spec; `filter` is over the columns of `schema`.
    pub(crate) fn new(filter: &Predicate, spec: &PartitionSpec, schema: &Schema) -> Self {
        let fields = project_fields(spec, schema);
        let filter = filter.map(&mut |leaf: &Leaf| {
            Predicate::Leaf(Projected {
                leaf: leaf.clone(),
                inclusive: slots(&inclusive_leaf(leaf, &fields), spec),
                strict: slots(&strict_leaf(leaf, &fields), spec),
            })
        });
        Self { filter }
    }

    /// A filter that matches the same rows of that partition. It matches where the filter does;
    /// but a row that does not match may be false to one and unknown to the other, so that its
    /// negation is something else.
    pub(crate) fn residual(&self, partition: &PartitionValues) -> Predicate {
        self.filter.map(&mut |p: &Projected| {
            if evaluate_tuple(&p.strict, partition) == Some(true) {
                Predicate::True
            } else if evaluate_tuple(&p.inclusive, partition) == Some(false) {
                Predicate::False
            } else {
                Predicate::Leaf(p.leaf.clone())
            }
        })
    }
}

/// What is left of `filter` for rows of that partition; see [`ResidualEvaluator`], which is
/// quicker for many.
#[cfg(test)]
pub(crate) fn residual(
    filter: &Predicate,
    spec: &PartitionSpec,
    schema: &Schema,
    partition: &PartitionValues,
) -> Predicate {
    ResidualEvaluator::new(filter, spec, schema).residual(partition)
}
