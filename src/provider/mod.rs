//! Iceberg tables as DataFusion sees them.

mod catalog;
mod factory;
mod files;
#[cfg(test)]
mod insert_tests;
mod scan_plan;
mod table;
mod view;

pub use catalog::IcebergCatalogProvider;
pub use factory::IcebergTableFactory;
pub use table::IcebergTable;
