//! Scan planning (spec, "Scan Planning"): from a snapshot to the files to read.

mod counters;
mod delete_index;
mod evaluators;
mod planner;
#[cfg(test)]
mod tests;

pub(crate) use counters::PlanCounters;
pub(crate) use delete_index::DeleteIndex;
pub(crate) use planner::{ScanPlan, ScanRequest, plan_files};
