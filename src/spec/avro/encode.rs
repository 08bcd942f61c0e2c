//! Writing Avro's binary primitives and container files.

use std::io::Read;

use bzip2::bufread::BzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use liblzma::bufread::XzEncoder;

use super::container::Codec;
use crate::error::{Error, Result};

/// A block is closed when it has grown to this many bytes, as other writers do.
const BLOCK_LENGTH: usize = 64_000;
/// As liblzma's tools have it unless told otherwise.
const XZ_PRESET: u32 = 6;

/// Avro binary data in the making.
#[derive(Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0
    }

    /// An `int` or a `long`.
    pub(crate) fn long(&mut self, value: i64) {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }

    /// A `boolean`.
    pub(crate) fn boolean(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    /// `bytes`.
    pub(crate) fn bytes(&mut self, value: &[u8]) {
        // No slice is longer than isize::MAX.
        self.long(value.len() as i64);
        self.raw(value);
    }

    /// A `string`.
    pub(crate) fn string(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// Bytes that are encoded already, a fixed or a float.
    pub(crate) fn raw(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }

    /// The branch of `["null", …]`, then the value if there is one.
    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.long(0),
            Some(value) => {
                self.long(1);
                write(self, value);
            }
        }
    }

    /// An array in one block.
    pub(crate) fn array<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        if items.len() > 0 {
            self.long(items.len() as i64);
            items.for_each(|item| write(self, item));
        }
        self.long(0);
    }
}

/// A container file in the making.
pub(crate) struct ContainerWriter {
    output: Encoder,
    block: Encoder,
    count: i64,
    codec: Codec,
    sync: [u8; 16],
}

impl ContainerWriter {
    /// Writes the header: schema, codec and `metadata`.
    pub(crate) fn new(schema: &str, metadata: &[(&str, String)], codec: Codec) -> Self {
        let mut output = Encoder::default();
        output.raw(b"Obj\x01");
        output.long(metadata.len() as i64 + 2);
        for (key, value) in [("avro.schema", schema), ("avro.codec", codec.name())] {
            output.string(key);
            output.string(value);
        }
        for (key, value) in metadata {
            output.string(key);
            output.string(value);
        }
        output.long(0);
        let sync = uuid::Uuid::new_v4().into_bytes();
        output.raw(&sync);
        Self { output, block: Encoder::default(), count: 0, codec, sync }
    }

    /// Where to write the next item; to be followed by [`Self::end_item`].
    pub(crate) fn item(&mut self) -> &mut Encoder {
        &mut self.block
    }

    /// Ends an item.
    pub(crate) fn end_item(&mut self) -> Result<()> {
        self.count += 1;
        if self.block.len() >= BLOCK_LENGTH { self.end_block() } else { Ok(()) }
    }

    /// The length of the file so far, in bytes; what is not compressed yet counts as it is.
    pub(crate) fn length(&self) -> usize {
        self.output.len().saturating_add(self.block.len())
    }

    fn end_block(&mut self) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        self.output.long(self.count);
        match self.codec {
            Codec::Null => self.output.bytes(self.block.as_slice()),
            Codec::Deflate => self.output.bytes(&deflate(self.block.as_slice())?),
            Codec::Snappy => {
                let mut data =
                    snap::raw::Encoder::new().compress_vec(self.block.as_slice()).map_err(not_compressed)?;
                let mut sum = Crc::new();
                sum.update(self.block.as_slice());
                data.extend_from_slice(&sum.sum().to_be_bytes());
                self.output.bytes(&data);
            }
            Codec::Zstandard => {
                let data = zstd::stream::encode_all(self.block.as_slice(), 0).map_err(not_compressed)?;
                self.output.bytes(&data);
            }
            Codec::Bzip2 => {
                let encoder = BzEncoder::new(self.block.as_slice(), bzip2::Compression::default());
                self.output.bytes(&compressed(encoder)?);
            }
            Codec::Xz => self.output.bytes(&compressed(XzEncoder::new(self.block.as_slice(), XZ_PRESET))?),
        }
        self.output.raw(&self.sync);
        self.block.0.clear();
        self.count = 0;
        Ok(())
    }

    /// Ends the file and gives its bytes.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.end_block()?;
        Ok(self.output.into_vec())
    }
}

fn compressed(mut encoder: impl Read) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    encoder.read_to_end(&mut output).map_err(not_compressed)?;
    Ok(output)
}

fn not_compressed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid("avro block can't be compressed").with_source(e)
}

fn deflate(input: &[u8]) -> Result<Vec<u8>> {
    let mut state = Compress::new(Compression::default(), false);
    let mut output = Vec::with_capacity(input.len() / 2 + 64);
    loop {
        let rest = input.get(state.total_in() as usize..).unwrap_or_default();
        let status = state.compress_vec(rest, &mut output, FlushCompress::Finish).map_err(not_compressed)?;
        if status == Status::StreamEnd {
            return Ok(output);
        }
        output.reserve(input.len() / 4 + 64);
    }
}
