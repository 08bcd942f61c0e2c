//! The only place where Iceberg's types and values meet Arrow's.

mod literal_place;
mod predicate;
#[cfg(test)]
mod predicate_tests;
mod schema;
mod transform;
mod transform_function;
mod unshred;
mod value;
mod variant;

pub use schema::{
    DOC_KEY, FIELD_ID_KEY, ICEBERG_TYPE_KEY, WKB_EXTENSION, from_arrow_schema, from_arrow_schema_fresh_ids,
    to_arrow_schema,
};
pub use transform::transform_array;
pub use transform_function::TransformFunction;
pub use variant::VARIANT_EXTENSION;

pub(crate) use predicate::to_predicate;
pub(crate) use schema::{to_arrow_field, to_query_schema, variant_metadata};
pub(crate) use value::{array_value, scalar_to_value, value_to_scalar, values_to_array};
pub(crate) use variant::{VariantColumn, is_variant, read_variants, variant_type};
