//! Row-level deletes at read time (spec, "Delete Formats"): which rows of a data file are gone.

mod equality;
mod load;
mod positions;

pub(crate) use equality::EqualityFilter;
pub(crate) use load::DeleteLoader;
pub(crate) use positions::row_selection;
