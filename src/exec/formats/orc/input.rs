//! The bytes of a stream or a footer, decompressed chunk by chunk (ORC specification,
//! "Compression").

use std::io::Read;

use bytes::Bytes;
use zstd::bulk::Decompressor;

use super::{Corrupt, Decoded};
use crate::error::{Error, Result};

/// A chunk's header has 23 bits for its length.
const MAX_CHUNK: u64 = 1 << 23;
/// The size of chunks where the file does not say.
const DEFAULT_CHUNK: u64 = 256 << 10;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compression {
    codec: Codec,
    /// No chunk is longer than that when decompressed.
    chunk: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    None,
    Zlib,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    #[cfg(test)]
    pub(super) const NONE: Self = Self { codec: Codec::None, chunk: 0 };

    /// From the numbers in the postscript.
    pub(super) fn new(codec: u64, chunk: u64) -> Result<Self> {
        let codec = match codec {
            0 => Codec::None,
            1 => Codec::Zlib,
            2 => Codec::Snappy,
            3 => return Err(Error::unsupported("orc files compressed with LZO")),
            4 => Codec::Lz4,
            5 => Codec::Zstd,
            6 => return Err(Error::unsupported("orc files compressed with Brotli")),
            other => return Err(Error::unsupported(format!("orc compression kind {other}"))),
        };
        let chunk = if chunk == 0 { DEFAULT_CHUNK } else { chunk };
        let chunk = if codec == Codec::None { 0 } else { chunk };
        if chunk > MAX_CHUNK {
            return Err(Error::invalid(format!("orc compression chunks of {chunk} bytes")));
        }
        Ok(Self { codec, chunk: chunk as usize })
    }
}

/// Reads a stream from start to end.
pub(super) struct Input {
    /// What was not decompressed yet.
    rest: Bytes,
    compression: Compression,
    chunk: Bytes,
    at: usize,
    zstd: Option<Decompressor<'static>>,
}

const TOO_SHORT: Corrupt = Corrupt("orc stream ends too early");

impl Input {
    /// A stream that was written as `bytes`; empty for one that was not written at all.
    pub(super) fn new(bytes: Bytes, compression: Compression) -> Self {
        match compression.codec {
            Codec::None => Self { rest: Bytes::new(), compression, chunk: bytes, at: 0, zstd: None },
            _ => Self { rest: bytes, compression, chunk: Bytes::new(), at: 0, zstd: None },
        }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Decoded<u8> {
        match self.chunk.get(self.at) {
            Some(byte) => {
                self.at += 1;
                Ok(*byte)
            }
            None => {
                if !self.next_chunk()? {
                    return Err(TOO_SHORT);
                }
                self.byte()
            }
        }
    }

    /// Fills `into`.
    pub(super) fn exact(&mut self, into: &mut [u8]) -> Decoded<()> {
        let mut rest = into;
        while !rest.is_empty() {
            let piece = self.piece(rest.len())?;
            let (head, tail) = rest.split_at_mut_checked(piece.len()).ok_or(TOO_SHORT)?;
            head.copy_from_slice(&piece);
            rest = tail;
        }
        Ok(())
    }

    /// Appends `length` bytes.
    pub(super) fn append(&mut self, length: usize, into: &mut Vec<u8>) -> Decoded<()> {
        let mut left = length;
        while left > 0 {
            let piece = self.piece(left)?;
            into.extend_from_slice(&piece);
            left -= piece.len();
        }
        Ok(())
    }

    /// All that is left, if it is no more than `limit` bytes.
    pub(super) fn all(mut self, limit: usize) -> Decoded<Vec<u8>> {
        let mut all = Vec::new();
        while self.at < self.chunk.len() || self.next_chunk()? {
            let piece = self.piece(usize::MAX)?;
            if all.len() + piece.len() > limit {
                return Err(Corrupt("orc metadata is too large"));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    /// At least one byte, at most `length`.
    fn piece(&mut self, length: usize) -> Decoded<Bytes> {
        if self.at >= self.chunk.len() && !self.next_chunk()? {
            return Err(TOO_SHORT);
        }
        let end = self.at.saturating_add(length).min(self.chunk.len());
        let piece = self.chunk.slice(self.at..end);
        self.at = end;
        Ok(piece)
    }

    /// Goes to the next chunk that is not empty; false at the end.
    fn next_chunk(&mut self) -> Decoded<bool> {
        loop {
            if self.rest.is_empty() {
                return Ok(false);
            }
            let Some([a, b, c]) = self.rest.first_chunk::<3>() else {
                return Err(TOO_SHORT);
            };
            let header = u32::from_le_bytes([*a, *b, *c, 0]);
            let end = 3 + (header >> 1) as usize;
            if end > self.rest.len() {
                return Err(TOO_SHORT);
            }
            let mut chunk = self.rest.split_to(end).slice(3..);
            if header & 1 == 0 {
                chunk = self.decompress(&chunk)?.into();
            }
            self.chunk = chunk;
            self.at = 0;
            if !self.chunk.is_empty() {
                return Ok(true);
            }
        }
    }

    fn decompress(&mut self, data: &[u8]) -> Decoded<Vec<u8>> {
        const BAD: Corrupt = Corrupt("orc chunk does not decompress");
        const TOO_LONG: Corrupt = Corrupt("orc chunk is longer than the file says");
        let limit = self.compression.chunk;
        match self.compression.codec {
            Codec::None => Err(BAD),
            Codec::Zlib => {
                let mut output = Vec::with_capacity(limit.min(data.len().saturating_mul(4)));
                let decoder = flate2::bufread::DeflateDecoder::new(data);
                decoder.take(limit as u64 + 1).read_to_end(&mut output).map_err(|_| BAD)?;
                if output.len() > limit { Err(TOO_LONG) } else { Ok(output) }
            }
            Codec::Snappy => {
                if snap::raw::decompress_len(data).map_err(|_| BAD)? > limit {
                    return Err(TOO_LONG);
                }
                snap::raw::Decoder::new().decompress_vec(data).map_err(|_| BAD)
            }
            Codec::Lz4 => {
                let mut output = vec![0; limit];
                let length = lz4_flex::block::decompress_into(data, &mut output).map_err(|_| BAD)?;
                output.truncate(length);
                Ok(output)
            }
            Codec::Zstd => {
                let decompressor = match &mut self.zstd {
                    Some(decompressor) => decompressor,
                    none => none.insert(Decompressor::new().map_err(|_| BAD)?),
                };
                decompressor.decompress(data, limit).map_err(|_| BAD)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ALL: [u64; 4] = [1, 2, 4, 5];

    /// One compressed and one original chunk.
    fn chunks(codec: u64, text: &[u8]) -> Bytes {
        let compressed = match codec {
            1 => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            2 => snap::raw::Encoder::new().compress_vec(text).unwrap(),
            4 => lz4_literals(text),
            _ => zstd::bulk::compress(text, 1).unwrap(),
        };
        let mut all = Vec::new();
        for (data, original) in [(compressed.as_slice(), 0), (text, 1)] {
            all.extend_from_slice(&((data.len() as u32) << 1 | original).to_le_bytes()[..3]);
            all.extend_from_slice(data);
        }
        all.into()
    }

    /// LZ4's format without any match.
    fn lz4_literals(text: &[u8]) -> Vec<u8> {
        assert!((15..15 + 255).contains(&text.len()));
        let mut all = vec![0xf0, (text.len() - 15) as u8];
        all.extend_from_slice(text);
        all
    }

    #[test]
    fn every_codec_and_original_chunks() {
        let text = b"some text that is some text";
        for codec in ALL {
            let compression = Compression::new(codec, 64).unwrap();
            let mut input = Input::new(chunks(codec, text), compression);
            let mut read = vec![0; 30];
            input.exact(&mut read).unwrap();
            input.append(text.len() * 2 - 30, &mut read).unwrap();
            assert_eq!(read, [text.as_slice(), text].concat(), "{codec}");
            assert_eq!(input.byte(), Err(TOO_SHORT));
        }
        let mut plain = Input::new(Bytes::from_static(b"ab"), Compression::NONE);
        assert_eq!((plain.byte(), plain.byte(), plain.byte()), (Ok(b'a'), Ok(b'b'), Err(TOO_SHORT)));
    }

    #[test]
    fn chunks_longer_than_announced_are_errors() {
        let text = [7; 100];
        for codec in ALL {
            let compression = Compression::new(codec, 99).unwrap();
            assert!(Input::new(chunks(codec, &text), compression).byte().is_err(), "{codec}");
        }
        assert!(Compression::new(1, 1 << 24).is_err());
        let compression = Compression::new(1, 100).unwrap();
        assert!(Input::new(chunks(1, &text), compression).all(150).is_err());
        assert_eq!(Input::new(chunks(1, &text), compression).all(200).unwrap().len(), 200);
    }

    #[test]
    fn truncations_and_other_codecs_are_errors() {
        let text = b"some text that is some text";
        for codec in ALL {
            let bytes = chunks(codec, text);
            for cut in 1..bytes.len() {
                let input = Input::new(bytes.slice(..cut), Compression::new(codec, 64).unwrap());
                assert!(input.all(1000).map_or(true, |all| all.len() < 54), "{codec} {cut}");
            }
        }
        for codec in [3, 6, 7] {
            assert!(Compression::new(codec, 0).is_err());
        }
    }
}
