//! Values of type `variant` in the Parquet project's binary encoding, version 1.
//!
//! A value is two byte strings: metadata, which is a dictionary of the names of fields, and the
//! value itself. Both are read where they lie, one level at a time and only as far as asked for.
//! What they say of themselves is not trusted: offsets that run out of the bytes, or values that
//! overlap so that a few bytes stand for gigabytes, are errors, and nesting is bounded.

mod json;
mod metadata;
mod path;
mod value;
mod write;

pub(crate) use json::{push_json, push_text};
pub(crate) use metadata::VariantMetadata;
pub(crate) use path::VariantPath;
pub(crate) use value::{VariantValue, exact_value};
pub(crate) use write::{ObjectField, push_array, push_object, push_scalar};

use crate::error::Error;

/// How deep values may nest.
const MAX_DEPTH: usize = 500;

/// The little-endian number of `width` bytes (at most 4) at a place in an array of such.
fn number_at(bytes: &[u8], index: usize, width: usize) -> Option<usize> {
    let start = index.checked_mul(width)?;
    let part = bytes.get(start..start.checked_add(width)?)?;
    let mut number = [0; 4];
    number.get_mut(..width)?.copy_from_slice(part);
    usize::try_from(u32::from_le_bytes(number)).ok()
}

fn cut() -> Error {
    Error::invalid("a variant is cut short")
}
