//! SQL: time travel, metadata tables, scripts of several statements, and the set-up of a session.
//!
//! [`register`] (or [`enable`], for a session that is still being built) teaches a session
//! `CREATE EXTERNAL TABLE … STORED AS ICEBERG` and makes it refuse versions of tables that have
//! none. [`IcebergSql`] adds what DataFusion's own parser does not understand.

mod metadata_columns;
mod metadata_tables;
mod parse;
mod rewrite;
mod session;
mod split;
mod time_travel;
mod times;

pub use session::{IcebergSql, Script, enable, register, session_state_builder};
pub use split::{Split, split};
