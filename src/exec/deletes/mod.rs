//! Row-level deletes at read time (spec, "Delete Formats"): which rows of a data file are gone.

mod equality;
mod fill_gaps;
mod known;
mod load;
mod positions;
mod probe;
mod remove;

pub(crate) use equality::{EqualityFilter, KeySchema};
pub(crate) use load::DeleteLoader;
pub(crate) use positions::LiveRows;
pub(crate) use remove::{POSITION, Remainder, Removal};
