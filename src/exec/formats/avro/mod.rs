//! Avro data and delete files (spec, Appendix A, "Avro").
//!
//! A plan made once from the schema in the header decodes rows straight into columns.

mod column;
mod file;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use file::open_avro;
