//! Table properties, typed: one method a property, with the names and defaults of Java's
//! `TableProperties`.

use std::collections::BTreeMap;

mod commits;
mod metrics_config;
mod parquet;
mod parse;
#[cfg(test)]
mod tests;
mod writes;

pub use self::parquet::{BloomFilter, ParquetProperties};
pub use commits::RetryPolicy;
pub use metrics_config::{MetricsConfig, MetricsMode};
pub(in crate::spec) use parse::without_slashes;
pub use writes::{DeleteGranularity, DistributionMode, IsolationLevel, RowLevelMode, RowLevelOperation};

/// A typed view of a table's properties.
///
/// Every method that can fail does so with `DataInvalid`, naming the property, if its value is
/// not what it should be. Sizes are in bytes.
#[derive(Debug, Clone, Copy)]
pub struct TableProperties<'a> {
    map: &'a BTreeMap<String, String>,
}

impl<'a> TableProperties<'a> {
    /// The view of a table's properties.
    pub fn new(properties: &'a BTreeMap<String, String>) -> Self {
        Self { map: properties }
    }
}
