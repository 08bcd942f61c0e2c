//! The read side: a planned scan as one DataFusion plan node.

mod adapter;
mod anti_join;
mod deletes;
mod field_ids;
mod file_order;
mod files;
mod filters;
mod formats;
mod metadata_columns;
mod nested;
mod open;
mod reader;
mod rows;
mod scan;
mod source;
mod statistics;
mod struct_keys;

#[cfg(test)]
pub(crate) mod tests;

pub use anti_join::EqualityDeleteMemory;
pub(crate) use deletes::DeleteLoader;
pub use metadata_columns::METADATA_COLUMNS;
pub(crate) use metadata_columns::{
    FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID, is_lineage, lineage_fields, partition_tuple,
    unified_partition_type,
};
pub(crate) use scan::{ScanRequest, build_scan, provider_schema};
