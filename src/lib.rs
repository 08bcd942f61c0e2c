//! First-class Apache Iceberg tables for Apache DataFusion.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod arrow;
mod error;
pub mod spec;
pub mod sql;

pub use error::{Error, ErrorKind, Result, ResultExt};
