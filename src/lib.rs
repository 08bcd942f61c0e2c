//! First-class Apache Iceberg tables for Apache DataFusion.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod arrow;
mod error;
#[allow(dead_code, unused_imports)] // until the planner uses it
mod expr;
pub mod spec;

pub use error::{Error, ErrorKind, Result, ResultExt};
