//! Run-length encoded bytes and bits (ORC specification, "Run Length Encoding").

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, NullBuffer};

use super::Decoded;
use super::input::Input;

/// The shortest run of equal bytes.
const MIN_REPEAT: usize = 3;

/// A stream of bytes.
pub(super) struct Bytes {
    input: Input,
    /// How many bytes of the run are left.
    left: usize,
    /// What is repeated, if the run is not of literals.
    repeated: Option<u8>,
}

impl Bytes {
    pub(super) fn new(input: Input) -> Self {
        Self { input, left: 0, repeated: None }
    }

    pub(super) fn next(&mut self) -> Decoded<u8> {
        if self.left == 0 {
            let control = self.input.byte()?;
            if control < 0x80 {
                self.left = usize::from(control) + MIN_REPEAT;
                self.repeated = Some(self.input.byte()?);
            } else {
                self.left = 0x100 - usize::from(control);
                self.repeated = None;
            }
        }
        self.left -= 1;
        match self.repeated {
            Some(byte) => Ok(byte),
            None => self.input.byte(),
        }
    }
}

/// A stream of bits, the most significant of a byte first.
pub(super) struct Bits {
    bytes: Bytes,
    byte: u8,
    left: u8,
}

impl Bits {
    pub(super) fn new(input: Input) -> Self {
        Self { bytes: Bytes::new(input), byte: 0, left: 0 }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Decoded<bool> {
        if self.left == 0 {
            self.byte = self.bytes.next()?;
            self.left = 8;
        }
        self.left -= 1;
        Ok(self.byte >> self.left & 1 == 1)
    }

    /// The next `count` bits.
    pub(super) fn read(&mut self, count: usize) -> Decoded<BooleanBuffer> {
        // It grows with the bits that are there: the count may be a lie.
        let mut bits = BooleanBufferBuilder::new(count.min(8192));
        for _ in 0..count {
            bits.append(self.next()?);
        }
        Ok(bits.finish())
    }

    /// One bit for each value that is set in `places`, false elsewhere.
    pub(super) fn read_into(&mut self, places: &NullBuffer) -> Decoded<BooleanBuffer> {
        let mut bits = BooleanBufferBuilder::new(places.len());
        for place in places.iter() {
            bits.append(place && self.next()?);
        }
        Ok(bits.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::Compression;
    use super::*;

    fn input(bytes: &'static [u8]) -> Input {
        Input::new(bytes::Bytes::from_static(bytes), Compression::NONE)
    }

    #[test]
    fn the_examples_of_the_specification() {
        let mut bytes = Bytes::new(input(&[0x61, 0x00]));
        assert!((0..100).all(|_| bytes.next() == Ok(0)));
        assert!(bytes.next().is_err());
        let mut bytes = Bytes::new(input(&[0xfe, 0x44, 0x45]));
        assert_eq!((bytes.next(), bytes.next()), (Ok(0x44), Ok(0x45)));
        assert!(bytes.next().is_err());
        let mut bits = Bits::new(input(&[0xff, 0x80]));
        let read = bits.read(8).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), [true, false, false, false, false, false, false, false]);
        assert!(bits.next().is_err());
    }

    #[test]
    fn bits_of_what_is_there() {
        let mut bits = Bits::new(input(&[0xff, 0b1010_0000]));
        let places = NullBuffer::from(vec![false, true, false, true, true]);
        let read = bits.read_into(&places).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), [false, true, false, false, true]);
    }
}
