//! Manifests that can be left out by the field summaries in the manifest list.

use crate::spec::{
    FieldSummary, ManifestFile, PartitionSpec, PartitionValues, PrimitiveType, Schema, StructType,
};

use super::evaluate::{Facts, evaluate};
use super::partition_evaluator::{Slot, slots};
use super::predicate::{Predicate, Test};
use super::projection::InclusiveProjection;
use super::scalar::Scalar;

/// Tells which manifests may list files with rows that match a filter.
#[derive(Debug, Clone)]
pub(crate) struct ManifestEvaluator {
    projected: Predicate<Slot>,
    fields: usize,
}

impl ManifestEvaluator {
    /// For manifests of that spec; `filter` is over the columns of `schema`.
    pub(crate) fn new(filter: &Predicate, spec: &PartitionSpec, schema: &Schema) -> Self {
        let projected = slots(&InclusiveProjection::project(filter, spec, schema), spec);
        Self { projected, fields: spec.fields.len() }
    }

    /// For manifests that may list files of one partition of a spec.
    pub(crate) fn of_partition(partition_type: &StructType, tuple: &PartitionValues) -> Self {
        let fields = partition_type.fields.iter().zip(tuple).enumerate();
        let projected = Predicate::and(fields.map(|(index, (field, value))| {
            let value_type = match field.field_type.as_primitive() {
                None | Some(PrimitiveType::Unknown) => return Predicate::True,
                Some(value_type) => value_type.clone(),
            };
            let test = match value {
                None => Test::IsNull,
                Some(value) if value.is_nan() => Test::IsNan,
                Some(value) => Test::Eq(value.clone()),
            };
            Predicate::Leaf(Slot { index: Some(index), value_type, test })
        }));
        Self { projected, fields: partition_type.fields.len() }
    }

    /// Whether the manifest may list a file with a matching row.
    pub(crate) fn may_match(&self, manifest: &ManifestFile) -> bool {
        match &manifest.partitions {
            // Summaries of another number of fields belong to who knows which.
            Some(summaries) if summaries.len() == self.fields => {
                let mut leaf = |slot: &Slot| {
                    let summary = slot.index.and_then(|i| summaries.get(i))?;
                    facts(slot, summary).test(&slot.test)
                };
                evaluate(&self.projected, &mut leaf) != Some(false)
            }
            _ => true,
        }
    }
}

fn facts<'a>(slot: &'a Slot, summary: &'a FieldSummary) -> Facts<'a> {
    let mut facts = Facts::unknown(&slot.value_type);
    if !summary.contains_null {
        facts = facts.no_nulls();
    }
    if summary.contains_nan == Some(false) {
        facts = facts.no_nans();
    }
    let bound = |b: &'a Option<Vec<u8>>| b.as_deref().and_then(|b| Scalar::from_bytes(b, &slot.value_type));
    let (lower, upper) = (bound(&summary.lower_bound), bound(&summary.upper_bound));
    match slot.value_type {
        // Where Java up to 1.10 copied entries from manifest to manifest, it let the values of later
        // entries overwrite the bounds (apache/iceberg#15128).
        PrimitiveType::Binary | PrimitiveType::Fixed(_) => facts,
        // DuckDB up to 1.5 cut strings to 16 bytes and did not round up (duckdb/duckdb-iceberg#1047).
        PrimitiveType::String if summary.upper_bound.as_ref().is_some_and(|b| maybe_cut(b)) => {
            facts.bounds(lower, None)
        }
        _ => facts.bounds(lower, upper),
    }
}

/// Whether a string may be the first 16 bytes of another; a character is not cut in two.
fn maybe_cut(bound: &[u8]) -> bool {
    (13..=16).contains(&bound.len())
}
