//! The read side end to end, over tables written file by file.

mod columns;
mod deletes;
mod stripes;
pub(crate) mod table;
