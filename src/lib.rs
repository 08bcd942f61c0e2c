//! First-class Apache Iceberg tables for Apache DataFusion.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod catalog;
mod error;
pub mod spec;
pub mod storage;
pub mod table;

pub use error::{Error, ErrorKind, Result, ResultExt};
