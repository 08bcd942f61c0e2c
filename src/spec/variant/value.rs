//! Reading values.

use crate::error::{Error, Result};

use super::metadata::VariantMetadata;
use super::{cut, number_at};

/// Objects with more fields are searched by halves: their fields are in the order of their names.
const SEARCHED_LINEARLY: usize = 32;

/// A value, read one level deep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum VariantValue<'a> {
    /// The variant null, which is a value.
    Null,
    Boolean(bool),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Float(f32),
    Double(f64),
    /// The unscaled value and the scale, at most 38.
    Decimal(i128, u8),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970, without a zone.
    Timestamp(i64),
    /// Microseconds since 1970 UTC.
    Timestamptz(i64),
    /// Nanoseconds since 1970, without a zone.
    TimestampNs(i64),
    /// Nanoseconds since 1970 UTC.
    TimestamptzNs(i64),
    Binary(&'a [u8]),
    String(&'a str),
    /// Big-endian, as the text is.
    Uuid([u8; 16]),
    Object(Object<'a>),
    Array(Elements<'a>),
}

impl<'a> VariantValue<'a> {
    /// Reads the value that the bytes begin with.
    ///
    /// # Errors
    /// `DataInvalid` for bytes that end too early or make no sense, `Unsupported` for types that
    /// the encoding does not have.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        Self::read_sized(bytes).map(|(value, _)| value)
    }

    /// The value and how many bytes it takes.
    pub(super) fn read_sized(bytes: &'a [u8]) -> Result<(Self, usize)> {
        let (header, rest) = bytes.split_first().ok_or_else(cut)?;
        let (basic, header) = (header & 3, header >> 2);
        let (value, size) = match basic {
            0 => Self::primitive(header, rest)?,
            1 => {
                let size = usize::from(header);
                (Self::String(text(rest.get(..size).ok_or_else(cut)?)?), size)
            }
            2 => {
                let widths = Widths {
                    count: if header & 0x10 == 0 { 1 } else { 4 },
                    id: usize::from(header >> 2 & 3) + 1,
                    offset: usize::from(header & 3) + 1,
                };
                let (ids, elements, size) = container(rest, widths).ok_or_else(cut)?;
                (Self::Object(Object { ids, id_width: widths.id, elements }), size)
            }
            _ => {
                let widths = Widths {
                    count: if header & 4 == 0 { 1 } else { 4 },
                    id: 0,
                    offset: usize::from(header & 3) + 1,
                };
                let (_, elements, size) = container(rest, widths).ok_or_else(cut)?;
                (Self::Array(elements), size)
            }
        };
        // The size is within the bytes.
        Ok((value, size + 1))
    }

    fn primitive(id: u8, bytes: &'a [u8]) -> Result<(Self, usize)> {
        fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
            bytes.first_chunk::<N>().copied().ok_or_else(cut)
        }
        let long = || fixed(bytes).map(i64::from_le_bytes);
        let scaled = || {
            let (scale, unscaled) = bytes.split_first().ok_or_else(cut)?;
            match scale {
                0..=38 => Ok((*scale, unscaled)),
                _ => Err(Error::invalid(format!("a variant's decimal has scale {scale}"))),
            }
        };
        let sized = || {
            let size = number_at(bytes, 0, 4).ok_or_else(cut)?;
            let end = size.checked_add(4).ok_or_else(cut)?;
            Ok::<_, Error>((bytes.get(4..end).ok_or_else(cut)?, end))
        };
        Ok(match id {
            0 => (Self::Null, 0),
            1 => (Self::Boolean(true), 0),
            2 => (Self::Boolean(false), 0),
            3 => (Self::Int8(i8::from_le_bytes(fixed(bytes)?)), 1),
            4 => (Self::Int16(i16::from_le_bytes(fixed(bytes)?)), 2),
            5 => (Self::Int32(i32::from_le_bytes(fixed(bytes)?)), 4),
            6 => (Self::Int64(long()?), 8),
            7 => (Self::Double(f64::from_le_bytes(fixed(bytes)?)), 8),
            8 => {
                let (scale, unscaled) = scaled()?;
                (Self::Decimal(i32::from_le_bytes(fixed(unscaled)?).into(), scale), 5)
            }
            9 => {
                let (scale, unscaled) = scaled()?;
                (Self::Decimal(i64::from_le_bytes(fixed(unscaled)?).into(), scale), 9)
            }
            10 => {
                let (scale, unscaled) = scaled()?;
                (Self::Decimal(i128::from_le_bytes(fixed(unscaled)?), scale), 17)
            }
            11 => (Self::Date(i32::from_le_bytes(fixed(bytes)?)), 4),
            12 => (Self::Timestamptz(long()?), 8),
            13 => (Self::Timestamp(long()?), 8),
            14 => (Self::Float(f32::from_le_bytes(fixed(bytes)?)), 4),
            15 => {
                let (binary, size) = sized()?;
                (Self::Binary(binary), size)
            }
            16 => {
                let (string, size) = sized()?;
                (Self::String(text(string)?), size)
            }
            17 => (Self::Time(long()?), 8),
            18 => (Self::TimestamptzNs(long()?), 8),
            19 => (Self::TimestampNs(long()?), 8),
            20 => (Self::Uuid(fixed(bytes)?), 16),
            _ => return Err(Error::unsupported(format!("a variant of primitive type {id}"))),
        })
    }
}

/// The bytes of the value that these begin with, without what follows it.
///
/// # Errors
/// As [`VariantValue::read`].
pub(crate) fn exact_value(bytes: &[u8]) -> Result<&[u8]> {
    let (_, size) = VariantValue::read_sized(bytes)?;
    bytes.get(..size).ok_or_else(cut)
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| Error::invalid("a variant's string").with_source(e))
}

/// How many bytes numbers take.
#[derive(Clone, Copy)]
struct Widths {
    count: usize,
    id: usize,
    offset: usize,
}

/// The numbers of the fields' names, the elements, and the size after the header.
fn container(bytes: &[u8], widths: Widths) -> Option<(&[u8], Elements<'_>, usize)> {
    let len = number_at(bytes, 0, widths.count)?;
    let rest = bytes.get(widths.count..)?;
    let (ids, rest) = rest.split_at_checked(len.checked_mul(widths.id)?)?;
    let (offsets, rest) = rest.split_at_checked(len.checked_add(1)?.checked_mul(widths.offset)?)?;
    let values = rest.get(..number_at(offsets, len, widths.offset)?)?;
    let size = widths.count + ids.len() + offsets.len() + values.len();
    Some((ids, Elements { len, width: widths.offset, offsets, values }, size))
}

/// The values of an array, or of an object's fields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Elements<'a> {
    len: usize,
    width: usize,
    offsets: &'a [u8],
    values: &'a [u8],
}

impl<'a> Elements<'a> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes that an element begins; others may follow it. `None` beyond the last.
    ///
    /// # Errors
    /// `DataInvalid` for an offset beyond the bytes.
    pub(crate) fn get(&self, index: usize) -> Result<Option<&'a [u8]>> {
        if index >= self.len {
            return Ok(None);
        }
        let start = number_at(self.offsets, index, self.width);
        start.and_then(|start| self.values.get(start..)).ok_or_else(cut).map(Some)
    }

    /// How many bytes all the elements take together, if they don't overlap.
    pub(super) fn bytes(&self) -> usize {
        self.values.len()
    }
}

/// An object's fields, in the order of their names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Object<'a> {
    ids: &'a [u8],
    id_width: usize,
    elements: Elements<'a>,
}

impl<'a> Object<'a> {
    /// The fields' values.
    pub(crate) fn values(&self) -> Elements<'a> {
        self.elements
    }

    /// The number that a field's name has in the metadata.
    ///
    /// # Errors
    /// `DataInvalid` beyond the last field.
    pub(crate) fn name_id(&self, index: usize) -> Result<usize> {
        number_at(self.ids, index, self.id_width).ok_or_else(cut)
    }

    /// The bytes that begin with the field of that name, if there is one.
    ///
    /// # Errors
    /// `DataInvalid` for names that the metadata lacks.
    pub(crate) fn field(&self, name: &str, metadata: &VariantMetadata<'_>) -> Result<Option<&'a [u8]>> {
        let name_at = |index| metadata.name(self.name_id(index)?);
        let (mut low, mut high) = (0, self.elements.len());
        while high - low > SEARCHED_LINEARLY {
            let middle = low + (high - low) / 2;
            if name_at(middle)? <= name { low = middle } else { high = middle }
        }
        for index in low..high {
            if name_at(index)? == name {
                return self.elements.get(index);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet_variant::VariantBuilder;

    fn object(fields: usize) -> (Vec<u8>, Vec<u8>) {
        let mut builder = VariantBuilder::new();
        let mut object = builder.new_object();
        // Not in the order of the names.
        for i in (0..fields).rev() {
            object.insert(&format!("f{i}"), i64::try_from(i).unwrap());
        }
        object.finish();
        builder.finish()
    }

    #[test]
    fn fields_are_found_in_small_and_large_objects() {
        for fields in [0, 1, 32, 33, 255, 256, 1000] {
            let (metadata, value) = object(fields);
            let metadata = VariantMetadata::parse(&metadata).unwrap();
            let VariantValue::Object(object) = VariantValue::read(&value).unwrap() else { panic!() };
            assert_eq!(object.values().len(), fields);
            for i in 0..fields {
                let field = object.field(&format!("f{i}"), &metadata).unwrap().unwrap();
                assert_eq!(VariantValue::read(field).unwrap(), VariantValue::Int64(i as i64));
            }
            for missing in ["", "f", "f5000", "zzz"] {
                assert_eq!(object.field(missing, &metadata).unwrap(), None);
            }
        }
    }

    #[test]
    fn arrays() {
        let mut builder = VariantBuilder::new();
        let mut list = builder.new_list();
        for i in 0..300_i32 {
            list.append_value(i);
        }
        list.finish();
        let (_, mut value) = builder.finish();
        let size = value.len();
        value.extend([1, 2, 3]);
        assert_eq!(exact_value(&value).unwrap().len(), size);
        let VariantValue::Array(array) = VariantValue::read(&value).unwrap() else { panic!() };
        assert_eq!(array.len(), 300);
        let last = array.get(299).unwrap().unwrap();
        assert_eq!(VariantValue::read(last).unwrap(), VariantValue::Int32(299));
        assert_eq!(array.get(300).unwrap(), None);
    }

    #[test]
    fn values_cut_anywhere_are_errors() {
        let (_, value) = object(40);
        for end in 0..value.len() {
            assert!(VariantValue::read(&value[..end]).is_err(), "{end}");
        }
        for bytes in [&[0x0c_u8][..], &[0x3c, 9, 0, 0, 0, 1], &[0x20, 39, 0, 0, 0, 0], &[0x54], &[0x05, 0xff]]
        {
            assert!(VariantValue::read(bytes).is_err(), "{bytes:?}");
        }
        // Counts that no memory could hold.
        assert!(VariantValue::read(&[0x7e, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(VariantValue::read(&[0x1f, 0xff, 0xff, 0xff, 0xff]).is_err());
    }
}
