//! The read side: a planned scan as one DataFusion plan node.

mod adapter;
mod field_ids;
mod metadata_columns;
mod nested;
mod reader;
mod scan;
mod source;
mod statistics;

pub use metadata_columns::METADATA_COLUMNS;
pub(crate) use scan::{ScanRequest, build_scan, provider_schema};
