//! The dictionary of field names.

use std::cmp::Ordering;

use crate::error::{Error, Result};

use super::{cut, number_at};

/// The names that a value's objects refer to by number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VariantMetadata<'a> {
    sorted: bool,
    width: usize,
    len: usize,
    offsets: &'a [u8],
    names: &'a [u8],
}

impl<'a> VariantMetadata<'a> {
    /// Reads the header; names are looked at when they are asked for.
    ///
    /// # Errors
    /// `DataInvalid` for bytes that end too early, `Unsupported` for another version.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let (header, rest) = bytes.split_first().ok_or_else(cut)?;
        if header & 0x0f != 1 {
            return Err(Error::unsupported(format!("version {} of the variant encoding", header & 0x0f)));
        }
        let width = usize::from(header >> 6) + 1;
        let len = number_at(rest, 0, width).ok_or_else(cut)?;
        let rest = rest.get(width..).ok_or_else(cut)?;
        let size = len.checked_add(1).and_then(|n| n.checked_mul(width)).ok_or_else(cut)?;
        let (offsets, names) = rest.split_at_checked(size).ok_or_else(cut)?;
        Ok(Self { sorted: header & 0x10 != 0, width, len, offsets, names })
    }

    /// The name with that number.
    ///
    /// # Errors
    /// `DataInvalid` where there is none, or it is not UTF-8.
    pub(crate) fn name(&self, id: usize) -> Result<&'a str> {
        let name =
            self.bytes(id).ok_or_else(|| Error::invalid(format!("a variant lacks field name {id}")))?;
        std::str::from_utf8(name).map_err(|e| Error::invalid("a variant's field name").with_source(e))
    }

    fn bytes(&self, id: usize) -> Option<&'a [u8]> {
        if id >= self.len {
            return None;
        }
        let start = number_at(self.offsets, id, self.width)?;
        let end = number_at(self.offsets, id + 1, self.width)?;
        self.names.get(start..end)
    }

    /// The number of a name.
    pub(crate) fn id(&self, name: &str) -> Option<usize> {
        if !self.sorted {
            return (0..self.len).find(|id| self.bytes(*id) == Some(name.as_bytes()));
        }
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.bytes(middle)?.cmp(name.as_bytes()) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet_variant::VariantBuilder;

    fn dictionary(names: &[&str], sorted: bool) -> Vec<u8> {
        let names = names.iter().copied();
        let mut builder = VariantBuilder::new().with_field_names(names);
        builder.append_value(1_i8);
        let (metadata, _) = builder.finish();
        assert_eq!(metadata[0] & 0x10 != 0, sorted);
        metadata
    }

    #[test]
    fn names_and_numbers() {
        let many: Vec<String> = (0..400).map(|i| format!("field_{i:04}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (names, sorted) in [(&["b", "a", "ü"][..], false), (&["a", "b", "c"], true), (&many, true)] {
            let bytes = dictionary(names, sorted);
            let metadata = VariantMetadata::parse(&bytes).unwrap();
            for (id, name) in names.iter().enumerate() {
                assert_eq!(metadata.name(id).unwrap(), *name);
                assert_eq!(metadata.id(name), Some(id));
            }
            assert_eq!(metadata.id("nothing"), None);
            assert!(metadata.name(names.len()).is_err());
        }
        // An empty name is a name.
        let metadata = VariantMetadata::parse(&[0x01, 2, 0, 0, 1, b'x']).unwrap();
        assert_eq!((metadata.id(""), metadata.id("x")), (Some(0), Some(1)));
    }

    #[test]
    fn what_is_cut_or_of_another_version() {
        let bytes = dictionary(&["b", "a"], false);
        // The names themselves are read later.
        for end in 0..bytes.len() - 2 {
            assert!(VariantMetadata::parse(&bytes[..end]).is_err(), "{end}");
        }
        assert!(VariantMetadata::parse(&bytes[..bytes.len() - 1]).unwrap().name(1).is_err());
        let error = VariantMetadata::parse(&[0x02, 0, 0]).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
        assert!(VariantMetadata::parse(&[0xc1, 0xff, 0xff, 0xff, 0xff, 0]).is_err());
        assert!(VariantMetadata::parse(&[0x01, 1, 0, 1, 0xff]).unwrap().name(0).is_err());
    }
}
