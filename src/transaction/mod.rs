//! Changes of tables: built against a table as it was read, validated against what others did
//! meanwhile, committed through a catalog.

mod action;
mod evolution;

pub use action::Action;
pub use evolution::{
    CleanupLevel, ExpireSnapshots, ManageSnapshots, NewColumn, ReplaceSortOrder, UpdateLocation,
    UpdatePartitionStatistics, UpdateProperties, UpdateSchema, UpdateSpec, UpdateStatistics,
    UpgradeFormatVersion,
};
