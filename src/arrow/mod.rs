//! The only place where Iceberg's types and values meet Arrow's.

mod literal_place;
mod predicate;
#[cfg(test)]
mod predicate_tests;
mod schema;
mod transform;
mod transform_function;
mod value;

pub use schema::{
    DOC_KEY, FIELD_ID_KEY, UNSUPPORTED_KEY, from_arrow_schema, from_arrow_schema_fresh_ids, to_arrow_schema,
};
pub use transform::transform_array;
pub use transform_function::TransformFunction;

pub(crate) use predicate::to_predicate;
pub(crate) use schema::{ensure_supported, to_arrow_field};
#[cfg(test)]
pub(crate) use value::array_value;
pub(crate) use value::{value_to_scalar, values_to_array};
