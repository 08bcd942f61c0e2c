//! Properties that statements set.

use std::collections::BTreeMap;

use datafusion::error::Result;

use crate::error::Error;
use crate::spec::{RowLevelOperation, TableProperties};

/// What Spark calls properties although it is said otherwise, and how.
const RESERVED: &[(&str, &str)] = &[
    ("location", "use LOCATION or SET LOCATION"),
    ("provider", "use USING"),
    ("sort-order", "use WRITE ORDERED BY"),
    ("identifier-fields", "use SET IDENTIFIER FIELDS"),
    ("current-snapshot-id", "use CALL … system.set_current_snapshot"),
    ("cherry-pick-snapshot-id", "use CALL … system.cherrypick_snapshot"),
];

/// Fails for properties that can't be set, or whose values no statement could use.
pub(super) fn check(properties: &BTreeMap<String, String>) -> Result<()> {
    for (name, instead) in RESERVED {
        if properties.contains_key(*name) {
            return Err(Error::invalid(format!("`{name}` is no property of its own; {instead}")).into());
        }
    }
    let typed = TableProperties::new(properties);
    typed.data_format()?;
    typed.delete_format()?;
    typed.parquet()?;
    typed.delete_parquet()?;
    typed.target_file_size()?;
    typed.delete_target_file_size()?;
    typed.distribution_mode()?;
    typed.fanout()?;
    typed.delete_granularity()?;
    typed.wap_enabled()?;
    for operation in [RowLevelOperation::Delete, RowLevelOperation::Update, RowLevelOperation::Merge] {
        typed.row_level_mode(operation)?;
        typed.isolation_level(operation)?;
    }
    Ok(())
}

/// Fails for a place that depends on where the process runs.
pub(super) fn check_location(location: &str) -> Result<()> {
    match location.starts_with('/') || location.contains(":/") {
        true => Ok(()),
        false => {
            let message = format!("location `{location}` is relative; give a whole path or a URL");
            Err(Error::invalid(message).into())
        }
    }
}
