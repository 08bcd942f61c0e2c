//! Table properties, typed: one method a property, with the names and defaults of Java's
//! `TableProperties`.

use std::collections::BTreeMap;

use crate::error::Result;

mod parse;

/// A typed view of a table's properties.
///
/// # Errors
/// Every method that can fail does so with `DataInvalid`, naming the property, if its value is
/// not of its type.
#[derive(Debug, Clone, Copy)]
pub struct TableProperties<'a> {
    map: &'a BTreeMap<String, String>,
}

impl<'a> TableProperties<'a> {
    /// The view of a table's properties.
    pub fn new(properties: &'a BTreeMap<String, String>) -> Self {
        Self { map: properties }
    }

    /// `write.metadata.previous-versions-max`: how many earlier metadata files the log keeps (100).
    pub fn metadata_previous_versions_max(&self) -> Result<usize> {
        self.number("write.metadata.previous-versions-max", 100)
    }
}
