//! First-class Apache Iceberg tables for Apache DataFusion.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod arrow;
pub mod catalog;
mod error;
mod exec;
mod expr;
#[cfg(test)]
mod interchange;
mod metadata_table;
mod plan;
pub mod provider;
pub mod spec;
pub mod sql;
pub mod storage;
pub mod table;
pub mod transaction;
pub mod write;

pub use error::{Error, ErrorKind, Result, ResultExt};
pub use exec::{EqualityDeleteMemory, METADATA_COLUMNS};
pub use metadata_table::{MetadataTable, MetadataTableKind};
pub use provider::{IcebergTable, IcebergTableFactory};

/// The README's code runs as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod commit_tests;
#[cfg(test)]
mod layers;
