//! Reading object container files: header, blocks, codecs, sync markers.

use std::collections::BTreeMap;
use std::io::Read;

use bytes::Bytes;
use bzip2::bufread::BzDecoder;
use flate2::{Crc, Decompress, FlushDecompress, Status};
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;

use super::cursor::{Cursor, Malformed};
use super::schema::AvroSchema;
use crate::error::{Error, ErrorKind, Result, ResultExt};

const MAGIC: &[u8; 4] = b"Obj\x01";

/// No block may inflate to more than this many bytes; writers aim at 64 KB.
const MAX_BLOCK: usize = 256 << 20;
/// What XZ may take to decompress a block: the highest preset's dictionary, and more.
const MAX_XZ_MEMORY: u64 = 128 << 20;

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// Not at all.
    Null,
    /// RFC 1951; what Iceberg writes unless told otherwise.
    #[default]
    Deflate,
    /// Snappy's raw format with a CRC-32.
    Snappy,
    /// Zstandard frames.
    Zstandard,
    /// A bzip2 stream.
    Bzip2,
    /// An XZ stream.
    Xz,
}

impl Codec {
    /// The name in the header.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Codec::Null => "null",
            Codec::Deflate => "deflate",
            Codec::Snappy => "snappy",
            Codec::Zstandard => "zstandard",
            Codec::Bzip2 => "bzip2",
            Codec::Xz => "xz",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        [Codec::Null, Codec::Deflate, Codec::Snappy, Codec::Zstandard, Codec::Bzip2, Codec::Xz]
            .into_iter()
            .find(|c| c.name() == name)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("avro codec `{name}`")))
    }
}

/// The items of a block, uncompressed.
#[derive(Debug)]
pub(crate) struct Block {
    /// How many items there are; no more than bytes.
    pub(crate) count: usize,
    pub(crate) data: Bytes,
}

/// An open container file.
pub(crate) struct ContainerReader {
    metadata: BTreeMap<String, Bytes>,
    codec: Codec,
    sync: [u8; 16],
    rest: Bytes,
    inflate: Decompress,
    last_length: usize,
    max_block: usize,
}

impl ContainerReader {
    /// Reads the header.
    ///
    /// # Errors
    /// `DataInvalid` where it is not such a file, `Unsupported` for a codec that is not known.
    pub(crate) fn open(bytes: Bytes) -> Result<Self> {
        let mut cursor = Cursor::new(&bytes);
        if cursor.array::<4>().ok().as_ref() != Some(MAGIC) {
            return Err(Error::invalid("not an avro file"));
        }
        let mut header = || -> Result<_, Malformed> {
            let mut metadata = BTreeMap::new();
            loop {
                let (count, _) = cursor.block()?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    let key = cursor.string()?;
                    metadata.insert(key.to_owned(), bytes.slice_ref(cursor.bytes()?));
                }
            }
            Ok((metadata, cursor.array::<16>()?))
        };
        let (metadata, sync) = header().map_err(Error::from).context(|| "avro header".into())?;
        let rest = bytes.slice(cursor.position()..);
        let inflate = Decompress::new(false);
        let mut reader =
            Self { metadata, codec: Codec::Null, sync, rest, inflate, last_length: 0, max_block: MAX_BLOCK };
        if let Some(name) = reader.text("avro.codec") {
            reader.codec = Codec::parse(name)?;
        }
        Ok(reader)
    }

    /// An entry of the header's metadata; `None` where it is missing or not text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).and_then(|v| std::str::from_utf8(v).ok())
    }

    /// The schema that the file was written with.
    pub(crate) fn schema(&self) -> Result<AvroSchema> {
        self.text("avro.schema")
            .ok_or_else(|| Error::invalid("missing"))
            .and_then(AvroSchema::parse)
            .context(|| "header `avro.schema`".into())
    }

    /// What follows the blocks read so far.
    pub(crate) fn rest(&self) -> &Bytes {
        &self.rest
    }

    /// Replaces [`Self::rest`] by itself and more: for files that are fetched piece by piece.
    pub(crate) fn set_rest(&mut self, rest: Bytes) {
        self.rest = rest;
    }

    /// The next block; `None` at the end of the file.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let rest = self.rest.clone();
        let mut cursor = Cursor::new(&rest);
        let count = cursor.long()?;
        let data = cursor.bytes()?;
        if cursor.array::<16>()? != self.sync {
            return Err(Error::invalid("avro sync marker is wrong"));
        }
        let data = match self.codec {
            Codec::Null => rest.slice_ref(data),
            Codec::Deflate => Bytes::from(self.inflate(data)?),
            Codec::Snappy => Bytes::from(unsnap(data, self.max_block)?),
            Codec::Zstandard => Bytes::from(unzstd(data, self.max_block)?),
            Codec::Bzip2 => Bytes::from(decompressed(BzDecoder::new(data), self.max_block)?),
            Codec::Xz => Bytes::from(unxz(data, self.max_block)?),
        };
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count <= data.len())
            .ok_or_else(|| Error::invalid("avro block has more items than bytes"))?;
        self.rest = rest.slice(cursor.position()..);
        Ok(Some(Block { count, data }))
    }

    fn inflate(&mut self, input: &[u8]) -> Result<Vec<u8>> {
        let bad = || Error::invalid("avro block does not inflate");
        self.inflate.reset(false);
        // Blocks of a file are much alike: with a good first guess, one call does it all.
        let guess = match self.last_length {
            0 => input.len().saturating_mul(4),
            last => (last + last / 8).max(input.len()),
        };
        let mut output = Vec::with_capacity(guess.clamp(1024, self.max_block.max(1024)));
        loop {
            let read = self.inflate.total_in() as usize;
            let written = output.len();
            let rest = input.get(read..).ok_or_else(bad)?;
            let status = self
                .inflate
                .decompress_vec(rest, &mut output, FlushDecompress::Finish)
                .map_err(|e| bad().with_source(e))?;
            if status == Status::StreamEnd {
                break;
            }
            if output.len() == output.capacity() {
                // One byte more than allowed, to tell a block of just that length from a longer one.
                let left = (self.max_block + 1).saturating_sub(output.len());
                if left == 0 {
                    break;
                }
                output.reserve_exact(output.len().min(left));
            } else if self.inflate.total_in() as usize == read && output.len() == written {
                return Err(bad().with_source("it ends too early"));
            }
        }
        if output.len() > self.max_block {
            return Err(too_large(self.max_block));
        }
        // What follows the end is ignored: PyIceberg leaves part of a checksum there.
        self.last_length = output.len();
        // What is kept for its metrics should not hold much more memory than it needs.
        if output.capacity() - output.len() > output.len() / 2 {
            output.shrink_to_fit();
        }
        Ok(output)
    }
}

fn too_large(limit: usize) -> Error {
    Error::invalid(format!("avro block inflates to more than {limit} bytes"))
}

fn unsnap(input: &[u8], limit: usize) -> Result<Vec<u8>> {
    let bad = || Error::invalid("avro block is not valid snappy");
    let (data, crc) = input.split_last_chunk::<4>().ok_or_else(bad)?;
    let length = snap::raw::decompress_len(data).map_err(|e| bad().with_source(e))?;
    // Snappy's best is a copy of 64 bytes for 3, so a longer output is a lie.
    if length > data.len().saturating_mul(32) {
        return Err(bad());
    }
    if length > limit {
        return Err(too_large(limit));
    }
    let output = snap::raw::Decoder::new().decompress_vec(data).map_err(|e| bad().with_source(e))?;
    let mut sum = Crc::new();
    sum.update(&output);
    if sum.sum().to_be_bytes() == *crc {
        Ok(output)
    } else {
        Err(Error::invalid("avro block has a wrong checksum"))
    }
}

fn unzstd(input: &[u8], limit: usize) -> Result<Vec<u8>> {
    decompressed(zstd::stream::read::Decoder::with_buffer(input).map_err(not_decompressed)?, limit)
}

fn unxz(input: &[u8], limit: usize) -> Result<Vec<u8>> {
    let stream = Stream::new_stream_decoder(MAX_XZ_MEMORY, 0).map_err(not_decompressed)?;
    decompressed(XzDecoder::new_stream(input, stream), limit)
}

/// All that a decoder gives, if it is no more than `limit` bytes.
fn decompressed(decoder: impl Read, limit: usize) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    decoder.take(limit as u64 + 1).read_to_end(&mut output).map_err(not_decompressed)?;
    if output.len() > limit { Err(too_large(limit)) } else { Ok(output) }
}

fn not_decompressed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid("avro block does not decompress").with_source(e)
}

#[cfg(test)]
mod tests {
    use super::super::encode::ContainerWriter;
    use super::*;
    use proptest::prelude::*;

    const CODECS: [Codec; 6] =
        [Codec::Null, Codec::Deflate, Codec::Snappy, Codec::Zstandard, Codec::Bzip2, Codec::Xz];

    fn file(codec: Codec, items: usize) -> Bytes {
        let mut writer = ContainerWriter::new(r#""string""#, &[("k", "v".into())], codec);
        for i in 0..items {
            writer.item().string(&format!("item {i}"));
            writer.end_item().unwrap();
        }
        writer.finish().unwrap().into()
    }

    fn read(bytes: Bytes) -> Result<Vec<String>> {
        let mut reader = ContainerReader::open(bytes)?;
        let mut items = Vec::new();
        while let Some(block) = reader.next_block()? {
            let mut cursor = Cursor::new(&block.data);
            for _ in 0..block.count {
                items.push(cursor.string()?.to_owned());
            }
        }
        Ok(items)
    }

    #[test]
    fn every_codec_round_trips() {
        for codec in CODECS {
            let bytes = file(codec, 20_000);
            assert_eq!(ContainerReader::open(bytes.clone()).unwrap().text("k"), Some("v"));
            let items = read(bytes).unwrap();
            assert_eq!(items.len(), 20_000, "{codec:?}");
            assert_eq!(items[19_999], "item 19999");
        }
    }

    #[test]
    fn every_truncation_is_an_error() {
        for codec in CODECS {
            let bytes = file(codec, 10);
            let header = file(codec, 0).len();
            for cut in (0..bytes.len()).filter(|cut| *cut != header) {
                assert!(read(bytes.slice(..cut)).is_err(), "{codec:?} {cut}");
            }
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        for codec in CODECS.into_iter().filter(|codec| *codec != Codec::Null) {
            for (length, fits) in [(100_000, true), (100_001, false)] {
                let mut writer = ContainerWriter::new(r#"{"type":"fixed"}"#, &[], codec);
                writer.item().raw(&vec![0; length]);
                writer.end_item().unwrap();
                let mut reader = ContainerReader::open(writer.finish().unwrap().into()).unwrap();
                reader.max_block = 100_000;
                match reader.next_block() {
                    Ok(block) => assert!(fits && block.unwrap().data.len() == length, "{codec:?}"),
                    Err(e) => assert!(!fits && e.to_string().contains("more than"), "{codec:?} {e}"),
                }
            }
        }
    }

    #[test]
    fn a_dictionary_that_is_too_large_is_refused() {
        let mut options = liblzma::stream::LzmaOptions::new_preset(1).unwrap();
        options.dict_size(1 << 30);
        let mut filters = liblzma::stream::Filters::new();
        filters.lzma2(&options);
        let check = liblzma::stream::Check::Crc32;
        let stream = Stream::new_stream_encoder(&filters, check).unwrap();
        let mut block = Vec::new();
        liblzma::bufread::XzEncoder::new_stream(&b"text"[..], stream).read_to_end(&mut block).unwrap();
        assert!(unxz(&block, 100).is_err());
    }

    #[test]
    fn unknown_codecs_name_themselves() {
        let bytes = file(Codec::Deflate, 1);
        let at = bytes.windows(7).position(|w| w == b"deflate").unwrap();
        let mut changed = bytes.to_vec();
        changed[at..at + 7].copy_from_slice(b"brotli_");
        let e = read(changed.into()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("brotli_"), "{e}");
    }

    proptest! {
        #[test]
        fn flipped_bits_never_panic(at in 0usize..400, bit in 0u8..8, codec in 0usize..CODECS.len()) {
            let mut bytes = file(CODECS[codec], 20).to_vec();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let _ = read(bytes.into());
        }

        #[test]
        fn noise_never_panics(noise: Vec<u8>, codec in 0usize..CODECS.len()) {
            let mut bytes = file(CODECS[codec], 0).to_vec();
            let sync = bytes[bytes.len() - 16..].to_vec();
            bytes.extend_from_slice(&noise);
            bytes.extend_from_slice(&sync);
            let _ = read(bytes.into());
            let _ = read(noise.into());
        }
    }
}
