//! What a table's metadata says, as tables: snapshots, files, manifests and so on, with the columns
//! that Iceberg's own metadata tables have.

mod columns;
mod contents;
mod entries;
mod files;
mod kind;
mod logs;
mod manifests;
mod partitions;
mod provider;
mod readable_metrics;
#[cfg(test)]
mod tests;

pub use kind::MetadataTableKind;
pub use provider::MetadataTable;
