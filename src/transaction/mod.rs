//! Changes of tables: built against a table as it was read, validated against what others did
//! meanwhile, committed through a catalog.

mod action;

pub use action::Action;
