//! ORC data and delete files (spec, Appendix A, "ORC"; the ORC specification, version 1).
//!
//! A reader of our own: crates that read ORC neither tell the attributes that hold the field ids
//! nor survive broken files. It knows the types and encodings that engines write for Iceberg,
//! and for the Hive tables that become Iceberg tables in place.

mod column;
mod file;
mod footer;
mod input;
mod integers;
mod plan;
mod runs;
mod statistics;
#[cfg(test)]
mod tests;
mod timestamp;
mod wire;

use crate::error::Error;

pub(crate) use file::open_orc;

/// Why bytes could not be decoded. Small, as it is returned from the innermost loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Corrupt(&'static str);

/// The result of decoding something.
type Decoded<T> = Result<T, Corrupt>;

impl From<Corrupt> for Error {
    fn from(e: Corrupt) -> Self {
        Error::invalid(e.0)
    }
}
