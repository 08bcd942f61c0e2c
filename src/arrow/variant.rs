//! Columns of type `variant`: a struct of two byte strings, as the Arrow extension type
//! `arrow.parquet.variant` has it.

use std::sync::Arc;

use ::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StructArray, new_null_array};
use ::arrow::buffer::NullBuffer;
use ::arrow::compute::{CastOptions, cast_with_options};
use ::arrow::datatypes::{DataType, Field, Fields};

use crate::error::{Error, Result};
use crate::spec::variant::VariantMetadata;

use super::unshred::unshred;

/// The Arrow extension type of variants.
pub const VARIANT_EXTENSION: &str = "arrow.parquet.variant";

/// The part with the names of fields.
pub(super) const METADATA: &str = "metadata";
/// The part with what is not shredded.
pub(super) const VALUE: &str = "value";
/// The part of shredded variants with what was given a type.
pub(super) const TYPED_VALUE: &str = "typed_value";

/// The two parts of every variant that is read.
pub(super) fn variant_parts() -> Fields {
    let part = |name| Field::new(name, DataType::Binary, false);
    vec![part(METADATA), part(VALUE)].into()
}

/// The Arrow type of variants.
pub(crate) fn variant_type() -> DataType {
    DataType::Struct(variant_parts())
}

/// Whether arrays of the type can be read as variants.
pub(crate) fn is_variant(data_type: &DataType) -> bool {
    let DataType::Struct(fields) = data_type else { return false };
    let holds_bytes = |name| {
        fields.find(name).is_some_and(|(_, f)| {
            matches!(f.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        })
    };
    holds_bytes(METADATA) && (holds_bytes(VALUE) || fields.find(TYPED_VALUE).is_some())
}

/// Variants as a file has them, shredded or not, in the type of [`variant_type`].
///
/// # Errors
/// `DataInvalid` for arrays that hold no variants, or malformed ones.
pub(crate) fn read_variants(array: &dyn Array) -> Result<ArrayRef> {
    let mismatch =
        || Error::invalid(format!("the file holds {}, which can't be read as variant", array.data_type()));
    let source = array.as_struct_opt().ok_or_else(mismatch)?;
    let metadata = source.column_by_name(METADATA).ok_or_else(mismatch)?;
    let metadata = to_binary(metadata)?;
    let value = match (source.column_by_name(TYPED_VALUE), source.column_by_name(VALUE)) {
        (None, Some(value)) if !has_visible_nulls(value, source.nulls()) => to_binary(value)?,
        (typed, value) => {
            let bytes = metadata.as_binary_opt::<i32>().ok_or_else(mismatch)?;
            unshred(bytes, value, typed, source.nulls())?
        }
    };
    let nulls = source.nulls().cloned();
    StructArray::try_new_with_length(variant_parts(), vec![metadata, value], nulls, source.len())
        .map(|a| Arc::new(a) as ArrayRef)
        .map_err(|e| Error::invalid("a variant lacks its metadata").with_source(e))
}

/// Whether the array is null where the parent isn't.
fn has_visible_nulls(array: &dyn Array, parent: Option<&NullBuffer>) -> bool {
    match (array.nulls().filter(|n| n.null_count() > 0), parent) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(nulls), Some(parent)) => !parent.contains(nulls),
    }
}

pub(super) fn to_binary(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Binary => Ok(Arc::clone(array)),
        DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => {
            let options = CastOptions { safe: false, ..Default::default() };
            cast_with_options(array, &DataType::Binary, &options)
                .map_err(|e| Error::invalid("bytes of variants").with_source(e))
        }
        other => Err(Error::invalid(format!("the file holds {other} where a variant has bytes"))),
    }
}

/// A column of variants, row by row.
#[derive(Debug)]
pub(crate) struct VariantColumn {
    metadata: BinaryArray,
    value: BinaryArray,
    nulls: Option<NullBuffer>,
}

impl VariantColumn {
    /// # Errors
    /// As [`read_variants`].
    pub(crate) fn new(array: &dyn Array) -> Result<Self> {
        let read = match array.data_type() {
            DataType::Null => new_null_array(&variant_type(), array.len()),
            _ => read_variants(array)?,
        };
        let wrong = || Error::invalid("no column of variants");
        let source = read.as_struct_opt().ok_or_else(wrong)?;
        let part = |name| source.column_by_name(name).and_then(|c| c.as_binary_opt::<i32>().cloned());
        Ok(Self {
            metadata: part(METADATA).ok_or_else(wrong)?,
            value: part(VALUE).ok_or_else(wrong)?,
            nulls: source.nulls().cloned(),
        })
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.value.len()
    }

    /// The value of a row; `None` for SQL's NULL and beyond the last row.
    ///
    /// # Errors
    /// `DataInvalid` for malformed metadata.
    pub(crate) fn row(&self, row: usize) -> Result<Option<(VariantMetadata<'_>, &[u8])>> {
        if row >= self.len() || self.nulls.as_ref().is_some_and(|n| n.is_null(row)) {
            return Ok(None);
        }
        let metadata = VariantMetadata::parse(self.metadata.value(row))?;
        Ok(Some((metadata, self.value.value(row))))
    }

    /// Parts of this column's values, one a row or null.
    ///
    /// # Errors
    /// `Unsupported` for more than 2 GiB.
    pub(crate) fn with_values<'a>(
        &'a self,
        values: impl Iterator<Item = Result<Option<&'a [u8]>>>,
    ) -> Result<ArrayRef> {
        let mut all = Bytes::with_capacity(self.len());
        let mut valid = Vec::with_capacity(self.len());
        for value in values {
            let value = value?;
            valid.push(value.is_some());
            all.push(value.unwrap_or_default())?;
        }
        let parts: Vec<ArrayRef> = vec![Arc::new(self.metadata.clone()), all.finish()?];
        StructArray::try_new(variant_parts(), parts, Some(NullBuffer::from(valid)))
            .map(|a| Arc::new(a) as ArrayRef)
            .map_err(|e| Error::invalid("variants").with_source(e))
    }
}

/// Byte strings one after the other.
pub(super) struct Bytes {
    bytes: Vec<u8>,
    ends: Vec<i32>,
}

impl Bytes {
    pub(super) fn with_capacity(rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows.saturating_add(1));
        ends.push(0);
        Self { bytes: Vec::new(), ends }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(|all| {
            all.extend_from_slice(bytes);
            Ok(())
        })
    }

    /// Appends what `f` appends to the bytes.
    pub(super) fn write(&mut self, f: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        f(&mut self.bytes)?;
        let end = i32::try_from(self.bytes.len());
        self.ends.push(end.map_err(|_| Error::unsupported("more than 2 GiB of variants in a batch"))?);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<ArrayRef> {
        let offsets = ::arrow::buffer::OffsetBuffer::new(self.ends.into());
        BinaryArray::try_new(offsets, self.bytes.into(), None)
            .map(|a| Arc::new(a) as ArrayRef)
            .map_err(|e| Error::invalid("variants").with_source(e))
    }
}
