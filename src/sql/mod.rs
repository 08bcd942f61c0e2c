//! SQL: time travel, metadata tables, statements that create and change tables, scripts of several
//! statements, and the set-up of a session.
//!
//! [`register`] (or [`enable`], for a session that is still being built) teaches a session
//! `CREATE EXTERNAL TABLE … STORED AS ICEBERG`, `DELETE`, `UPDATE` and `MERGE`, and makes it refuse
//! versions of tables that have none. [`IcebergSql`] adds what DataFusion's own parser does not
//! understand: Spark's words for tables, branches and procedures, and more forms of all these.
//!
//! Functions over columns of type `variant` that a session gets:
//!
//! * `variant_to_json(v)`: JSON text. A string alone comes without quotes, and the variant null as
//!   NULL.
//! * `variant_get(v, path [, type])`: the part at a path such as `$.a.b[0]` or `a.b`; as a variant,
//!   or cast to a type such as `'bigint'`, `'decimal(9,2)'`, `'string'` or `'json'`, which quotes
//!   strings. NULL where there is no such part or the cast fails.
//! * `is_variant_null(v)`: whether it is the variant null, which is not SQL's NULL.

mod assigned;
mod ddl;
mod distinct_from;
mod dml;
mod insert;
mod merge;
mod merge_stars;
mod metadata_columns;
mod metadata_tables;
mod parse;
mod prepared;
mod restore;
mod rewrite;
mod row_level;
#[cfg(test)]
mod row_level_tests;
mod selects;
mod session;
mod split;
mod statement;
mod subqueries;
mod time_travel;
mod times;
mod variant;

pub use ddl::enable_url_table;
pub use row_level::row_level_operation;
pub use session::{IcebergSql, Script, enable, register, session_state_builder};
pub use split::{Split, split};
