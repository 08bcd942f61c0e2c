//! The wire format of protocol buffers, which ORC's footers are written in.

use super::integers::zigzag;
use super::{Corrupt, Decoded};

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed width; no field that is read has one.
    Fixed,
}

/// The fields of a message, in the order in which they were written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a>(&'a [u8]);

const TOO_SHORT: Corrupt = Corrupt("orc metadata ends too early");
const WRONG_TYPE: Corrupt = Corrupt("orc metadata has a field of the wrong type");

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next field's number and value.
    pub(super) fn next(&mut self) -> Decoded<Option<(u64, Value<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.number()?).map_err(|_| TOO_SHORT)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Corrupt("orc metadata has a field of unknown type")),
        };
        Ok(Some((key >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Decoded<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(head)
    }

    fn number(&mut self) -> Decoded<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(TOO_SHORT)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt("orc metadata has a number of more than 64 bits"))
    }
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Decoded<u64> {
        match self {
            Value::Number(n) => Ok(n),
            _ => Err(WRONG_TYPE),
        }
    }

    /// A number that is written zigzag.
    pub(super) fn signed(self) -> Decoded<i64> {
        self.number().map(zigzag)
    }

    pub(super) fn bytes(self) -> Decoded<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(WRONG_TYPE),
        }
    }

    pub(super) fn text(self) -> Decoded<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Corrupt("orc metadata has text that is not UTF-8"))
    }

    pub(super) fn message(self) -> Decoded<Message<'a>> {
        self.bytes().map(Message)
    }

    /// Appends the numbers of a repeated field, which may be written one by one or all in one.
    pub(super) fn numbers(self, into: &mut Vec<u64>) -> Decoded<()> {
        match self {
            Value::Number(n) => into.push(n),
            Value::Bytes(bytes) => {
                let mut packed = Message(bytes);
                while !packed.0.is_empty() {
                    into.push(packed.number()?);
                }
            }
            Value::Fixed => return Err(WRONG_TYPE),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_wire_type() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x1d, 1, 2, 3, 4, // 3: 32 bits
            0x21, 1, 2, 3, 4, 5, 6, 7, 8, // 4: 64 bits
            0x2a, 0x03, 0x01, 0x96, 0x01, // 5: packed 1, 150
        ];
        let mut message = Message::new(&bytes);
        assert_eq!(message.next(), Ok(Some((1, Value::Number(150)))));
        let (2, text) = message.next().unwrap().unwrap() else { panic!() };
        assert_eq!(text.text(), Ok("hi"));
        assert_eq!(message.next(), Ok(Some((3, Value::Fixed))));
        assert_eq!(message.next(), Ok(Some((4, Value::Fixed))));
        let mut numbers = Vec::new();
        message.next().unwrap().unwrap().1.numbers(&mut numbers).unwrap();
        assert_eq!(numbers, [1, 150]);
        assert_eq!(message.next(), Ok(None));
    }

    #[test]
    fn broken_messages_are_errors() {
        for bytes in [&[0x08][..], &[0x08, 0x80], &[0x12, 5, 1], &[0x0b], &[0x21, 1], &[0xff; 11]] {
            assert!(Message::new(bytes).next().is_err(), "{bytes:?}");
        }
    }
}
