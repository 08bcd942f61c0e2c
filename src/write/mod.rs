//! Data and delete files, written with everything that readers prune by.
//!
//! [`DataFileWriter`] takes rows of a table and gives back what a manifest says of the files that it
//! wrote; delete files are written beside it. All of them are Parquet, but deletion vectors. Nothing
//! here commits but the plans of statements, whose writers are nodes of them.

mod bounds;
mod change_exec;
mod changes;
mod cleanup;
mod columns;
mod commit_exec;
mod counts;
mod data_files;
mod deletion_vectors;
mod equality_deletes;
mod execution;
mod fanout;
mod insert;
mod location;
mod parquet_file;
mod parquet_schema;
mod partition;
mod position_deletes;
mod records;
mod rest;
mod rolling;
mod row_change;
mod row_level;
mod settings;
#[cfg(test)]
mod tests;
mod transformed;
mod write_exec;

pub use cleanup::cleaned_up;
pub use data_files::{DataFileWriter, LAST_UPDATED_COLUMN, ROW_ID_COLUMN, WriteOptions};
pub use deletion_vectors::DeletionVectorWriter;
pub use equality_deletes::EqualityDeleteWriter;
pub(crate) use insert::{InsertMode, InsertTarget, Observer, plan_insert};
pub use position_deletes::PositionDeleteWriter;
pub(crate) use row_change::{OLD_FILE, OLD_POSITION, REMOVED, RowChange, plan_row_change};
