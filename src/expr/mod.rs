//! Predicates over a table's columns, and what metadata can say about them (spec, "Scan
//! Planning"): pure pruning, without I/O, Arrow or DataFusion.
//!
//! A [`Predicate`] is a filter as SQL means it: a row matches where it is *true*; false and
//! unknown are the same. Everything here asks the one three-valued evaluator in `evaluate` and
//! differs only in what is known of the rows: the field summaries of a manifest, the partition
//! tuple of a file, or its column metrics. Where nothing is known, rows are read.

mod evaluate;
mod json;
mod manifest_evaluator;
mod metrics_evaluator;
mod partition_evaluator;
mod periods;
mod predicate;
mod project_numbers;
mod project_prefixes;
mod projection;
mod residual;
mod scalar;

#[cfg(test)]
mod lessons;
#[cfg(test)]
pub(crate) mod oracle;
#[cfg(test)]
mod properties;

pub(crate) use json::{inclusive_json, sanitized_json};
pub(crate) use manifest_evaluator::ManifestEvaluator;
pub(crate) use metrics_evaluator::{MetricsEvaluator, StrictMetricsEvaluator};
pub(crate) use partition_evaluator::PartitionEvaluator;
#[cfg(test)]
pub(crate) use predicate::Leaf;
pub(crate) use predicate::{Predicate, Term, Test};
pub(crate) use projection::decided_by_partition;
#[cfg(test)]
pub(crate) use projection::{InclusiveProjection, StrictProjection};
pub(crate) use residual::ResidualEvaluator;
#[cfg(test)]
pub(crate) use residual::residual;
