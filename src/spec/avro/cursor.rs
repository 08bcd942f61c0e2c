//! Reading Avro's binary primitives from a slice.

use crate::error::Error;

/// Why bytes could not be decoded. Small, as it is returned from the innermost loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl From<Malformed> for Error {
    fn from(e: Malformed) -> Self {
        Error::invalid(e.0)
    }
}

/// The result of decoding something.
pub(crate) type Decoded<T> = Result<T, Malformed>;

const TOO_SHORT: Malformed = Malformed("avro data ends too early");

/// A position in Avro binary data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { rest: data, length: data.len() }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// Bytes left.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Decoded<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(*head)
    }

    /// A `long`, or an `int` whose range does not matter.
    #[inline]
    pub(crate) fn long(&mut self) -> Decoded<i64> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }

    #[inline]
    fn varint(&mut self) -> Decoded<u64> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Decoded<u64> {
        let mut value = 0u64;
        let mut shift = 0u32;
        let mut bytes = self.rest.iter();
        for byte in bytes.by_ref() {
            // The tenth byte holds the last bit of 64.
            if shift == 63 && *byte > 1 {
                return Err(Malformed("avro number has more than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                self.rest = bytes.as_slice();
                return Ok(value);
            }
            shift += 7;
        }
        Err(TOO_SHORT)
    }

    /// An `int`.
    #[inline]
    pub(crate) fn int(&mut self) -> Decoded<i32> {
        i32::try_from(self.long()?).map_err(|_| Malformed("avro int has more than 32 bits"))
    }

    /// A length, checked against what is left.
    #[inline]
    fn length(&mut self) -> Decoded<usize> {
        let length = self.long()?;
        match usize::try_from(length) {
            Ok(length) if length <= self.rest.len() => Ok(length),
            Ok(_) => Err(TOO_SHORT),
            Err(_) => Err(Malformed("avro length is negative")),
        }
    }

    /// `bytes` or a `string`, whose text is not checked.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// A `string`.
    #[inline]
    pub(crate) fn string(&mut self) -> Decoded<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("avro string is not UTF-8"))
    }

    /// A `boolean`.
    pub(crate) fn boolean(&mut self) -> Decoded<bool> {
        match self.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed("avro boolean is neither 0 nor 1")),
        }
    }

    /// A `float`.
    pub(crate) fn float(&mut self) -> Decoded<f32> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    /// A `double`.
    pub(crate) fn double(&mut self) -> Decoded<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// The header of a block of an array or a map: how many items follow, 0 at the end, and the
    /// block's size in bytes if it was written. Never more items than bytes are left: items that
    /// take no bytes do not occur in any file of Iceberg's.
    #[inline]
    pub(crate) fn block(&mut self) -> Decoded<(usize, Option<usize>)> {
        let count = self.long()?;
        let size = if count < 0 { Some(self.length()?) } else { None };
        match usize::try_from(count.unsigned_abs()) {
            Ok(count) if count <= self.rest.len() => Ok((count, size)),
            _ => Err(Malformed("avro block has more items than bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::Encoder;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip(v: i64) {
            let mut e = Encoder::default();
            e.long(v);
            let mut c = Cursor::new(e.as_slice());
            prop_assert_eq!(c.long(), Ok(v));
            prop_assert_eq!(c.remaining(), 0);
            for cut in 0..e.as_slice().len() {
                prop_assert!(Cursor::new(&e.as_slice()[..cut]).long().is_err());
            }
        }
    }

    #[test]
    fn impossible_numbers_are_errors() {
        assert!(Cursor::new(&[0xff; 11]).long().is_err());
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).long().is_err());
        assert_eq!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).long(),
            Ok(i64::MIN)
        );
        assert!(Cursor::new(&[0xfe, 0xff, 0xff, 0xff, 0x7f]).int().is_err());
        assert!(Cursor::new(&[2]).boolean().is_err());
    }

    #[test]
    fn lengths_and_counts_are_checked_before_use() {
        assert!(Cursor::new(&[1]).bytes().is_err(), "negative length");
        assert!(Cursor::new(&[10, 1, 2]).bytes().is_err(), "length beyond the end");
        assert!(Cursor::new(&[10, 1, 2]).block().is_err(), "more items than bytes");
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).block().is_err());
        assert_eq!(Cursor::new(&[3, 4, 0, 0]).block(), Ok((2, Some(2))));
    }
}
