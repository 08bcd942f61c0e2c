//! Iceberg tables as DataFusion sees them.

mod catalog;
mod factory;
mod files;
#[cfg(test)]
mod insert_tests;
mod row_change;
mod scan_plan;
mod table;
mod view;

pub use catalog::IcebergCatalogProvider;
pub use factory::IcebergTableFactory;
pub(crate) use row_change::RowChangeTarget;
pub use table::IcebergTable;
