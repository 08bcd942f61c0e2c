//! The read side end to end, over tables written file by file.

mod columns;
mod deletes;
pub(crate) mod table;
