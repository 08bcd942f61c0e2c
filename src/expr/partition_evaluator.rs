//! Files that can be left out by their partition tuple.

use crate::spec::{PartitionSpec, PartitionValues, PrimitiveType, Schema};

use super::evaluate::{Facts, evaluate};
use super::predicate::{Leaf, Predicate, Test};
use super::projection::InclusiveProjection;

/// A test of one value of a partition tuple.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// Where the value stands in the tuple, if the spec has it.
    pub(super) index: Option<usize>,
    pub(super) value_type: PrimitiveType,
    pub(super) test: Test,
}

impl Slot {
    /// What the tuple says.
    fn test(&self, partition: &PartitionValues) -> Option<bool> {
        let value = self.index.and_then(|i| partition.get(i))?;
        Facts::value(&self.value_type, value.as_ref()).test(&self.test)
    }
}

/// Finds the fields of a projected predicate in the tuples of its spec.
pub(super) fn slots(projected: &Predicate, spec: &PartitionSpec) -> Predicate<Slot> {
    projected.map(&mut |leaf: &Leaf| {
        // Ids alone may not be unique in v1.
        let is_it = |f: &crate::spec::PartitionField| {
            f.field_id == leaf.term.field_id && f.name.as_str() == &*leaf.term.name
        };
        Predicate::Leaf(Slot {
            index: spec.fields.iter().position(is_it),
            value_type: leaf.term.field_type.clone(),
            test: leaf.test.clone(),
        })
    })
}

/// What a partition tuple says of a projected predicate.
pub(super) fn evaluate_tuple(projected: &Predicate<Slot>, partition: &PartitionValues) -> Option<bool> {
    evaluate(projected, &mut |slot: &Slot| slot.test(partition))
}

/// Tells which partitions may hold rows that match a filter.
#[derive(Debug, Clone)]
pub(crate) struct PartitionEvaluator {
    projected: Predicate<Slot>,
}

impl PartitionEvaluator {
    /// For tuples of that spec; `filter` is over the columns of `schema`.
    pub(crate) fn new(filter: &Predicate, spec: &PartitionSpec, schema: &Schema) -> Self {
        Self { projected: slots(&InclusiveProjection::project(filter, spec, schema), spec) }
    }

    /// Whether it keeps whatever it is asked, so that asking is needless.
    pub(crate) fn keeps_all(&self) -> bool {
        matches!(self.projected, Predicate::True)
    }

    /// Whether a file of that partition may hold a matching row.
    pub(crate) fn may_match(&self, partition: &PartitionValues) -> bool {
        evaluate_tuple(&self.projected, partition) != Some(false)
    }
}
