//! Changes of a table's metadata that write no files of their own: schema, partitioning, order,
//! properties, references, and the expiry of snapshots.

mod ancestry;
mod cherry_pick;
mod columns;
mod expire;
mod properties;
mod schema;
mod snapshots;
mod sort_order;
mod spec;
mod statistics;
#[cfg(test)]
mod test_tables;

pub use cherry_pick::CherryPick;
pub use expire::{CleanupLevel, ExpireSnapshots};
pub use properties::{UpdateLocation, UpdateProperties, UpgradeFormatVersion};
pub use schema::{NewColumn, UpdateSchema};
pub use snapshots::ManageSnapshots;
pub use sort_order::ReplaceSortOrder;
pub use spec::UpdateSpec;
pub use statistics::{UpdatePartitionStatistics, UpdateStatistics};
