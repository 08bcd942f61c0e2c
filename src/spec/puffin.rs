//! Puffin files (Puffin spec): the footer and where the blobs lie. Bytes only; the caller reads.
//!
//! To read: the last [`TAIL_LENGTH`] bytes give [`footer_length`], the last so many bytes give the
//! [`Footer`], and a blob lies at its `offset`.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::error::{Error, Result, ResultExt};

use super::ids::FieldId;
use super::json::Node;
use super::snapshot_json::string_map;

/// What a Puffin file begins with, and its footer begins and ends with.
const MAGIC: [u8; 4] = *b"PFA1";
/// The length of the end of a file that says how long its footer is.
pub const TAIL_LENGTH: usize = 12;
/// The bit of the footer's flags for a compressed payload.
const FLAG_COMPRESSED: u32 = 1;

/// A Puffin file's footer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Footer {
    /// The blobs, in the footer's order.
    pub blobs: Vec<BlobMetadata>,
    /// The file's properties, such as `created-by`.
    pub properties: BTreeMap<String, String>,
}

/// What a footer says of a blob.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BlobMetadata {
    /// The blob's type, such as `deletion-vector-v1`.
    pub blob_type: String,
    /// The fields that it was computed for.
    pub fields: Vec<FieldId>,
    /// The snapshot that it was computed from; -1 for deletion vectors.
    pub snapshot_id: i64,
    /// That snapshot's sequence number; -1 for deletion vectors.
    pub sequence_number: i64,
    /// Where the blob begins in the file, in bytes.
    pub offset: u64,
    /// How many bytes of the file it takes.
    pub length: u64,
    /// How it is compressed, if it is.
    pub compression_codec: Option<String>,
    /// The blob's properties.
    pub properties: BTreeMap<String, String>,
}

/// The length of the footer in bytes, read from the end of the file (at least its last
/// [`TAIL_LENGTH`] bytes).
///
/// # Errors
/// `DataInvalid` for the end of something else.
pub fn footer_length(tail: &[u8]) -> Result<u64> {
    let (payload, _) = parse_tail(tail)?;
    Ok(MAGIC.len() as u64 + payload + TAIL_LENGTH as u64)
}

/// The payload's length and the flags.
fn parse_tail(tail: &[u8]) -> Result<(u64, u32)> {
    let Some((_, [a, b, c, d, flags @ .., m, a2, g, i])) = tail.split_last_chunk::<TAIL_LENGTH>() else {
        return Err(Error::invalid(format!("{} bytes are too few for a Puffin file", tail.len())));
    };
    if [*m, *a2, *g, *i] != MAGIC {
        return Err(Error::invalid("no Puffin file: it does not end with `PFA1`"));
    }
    let length = i32::from_le_bytes([*a, *b, *c, *d]);
    let length = u64::try_from(length)
        .map_err(|_| Error::invalid(format!("the Puffin footer's length is {length}")))?;
    Ok((length, u32::from_le_bytes(*flags)))
}

impl Footer {
    /// Parses the footer from the end of a file of `file_length` bytes; `tail` must hold at least
    /// [`footer_length`] of them.
    ///
    /// # Errors
    /// `DataInvalid` for bytes that are no footer or blobs that don't lie in the file;
    /// `Unsupported` for a compressed footer.
    pub fn parse(tail: &[u8], file_length: u64) -> Result<Self> {
        let (payload_length, flags) = parse_tail(tail)?;
        let length = footer_length(tail)?;
        let footer = usize::try_from(length).ok().and_then(|n| tail.get(tail.len().checked_sub(n)?..));
        // The file begins with a magic too.
        let blobs_end = file_length.checked_sub(length).filter(|end| *end >= MAGIC.len() as u64);
        let (Some(footer), Some(blobs_end)) = (footer, blobs_end) else {
            let message = format!("a Puffin footer of {length} bytes does not fit the file of {file_length}");
            return Err(Error::invalid(message));
        };
        let payload =
            footer.strip_prefix(&MAGIC).and_then(|rest| rest.get(..usize::try_from(payload_length).ok()?));
        let Some(payload) = payload else {
            return Err(Error::invalid("the Puffin footer does not begin with `PFA1`"));
        };
        if flags & FLAG_COMPRESSED != 0 {
            return Err(Error::unsupported(
                "the Puffin footer is compressed with LZ4, which icefloe can't read",
            ));
        }
        if flags != 0 {
            return Err(Error::unsupported(format!("the Puffin footer has unknown flags {flags:#010x}")));
        }
        let json: Json = serde_json::from_slice(payload)
            .map_err(|e| Error::invalid("the Puffin footer is not JSON").with_source(e))?;
        let node = Node::root(&json);
        let object = node.object()?;
        let footer = Self {
            blobs: object.req("blobs", |n| n.list(read_blob)).context(|| "Puffin footer".to_owned())?,
            properties: object.opt("properties", Node::string_map)?.unwrap_or_default(),
        };
        for (i, blob) in footer.blobs.iter().enumerate() {
            let end = blob.offset.checked_add(blob.length);
            if end.is_none_or(|end| end > blobs_end) {
                return Err(Error::invalid(format!(
                    "{} bytes at {} are not within the blobs' {blobs_end} bytes",
                    blob.length, blob.offset
                ))
                .context(format!("Puffin footer: field `blobs[{i}]`")));
            }
        }
        Ok(footer)
    }

    /// The payload as JSON.
    fn to_json(&self) -> Json {
        let mut members = Map::new();
        members.insert("blobs".into(), self.blobs.iter().map(write_blob).collect());
        if !self.properties.is_empty() {
            members.insert("properties".into(), string_map(&self.properties));
        }
        Json::Object(members)
    }
}

impl BlobMetadata {
    /// The blob's contents, given the bytes that it takes in the file.
    ///
    /// # Errors
    /// `DataInvalid` if these are not as many as the footer says, `Unsupported` if they are
    /// compressed.
    pub fn contents<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        if bytes.len() as u64 != self.length {
            let message = format!("a Puffin blob has {} bytes instead of {}", bytes.len(), self.length);
            return Err(Error::invalid(message));
        }
        match &self.compression_codec {
            None => Ok(bytes),
            Some(codec) => {
                let message = format!(
                    "a Puffin blob of type `{}` is compressed with `{codec}`, which icefloe can't read",
                    self.blob_type
                );
                Err(Error::unsupported(message))
            }
        }
    }
}

fn read_blob(node: &Node<'_>) -> Result<BlobMetadata> {
    let object = node.object()?;
    let size = |n: &Node<'_>| u64::try_from(n.i64()?).map_err(|_| n.error("must not be negative"));
    Ok(BlobMetadata {
        blob_type: object.req("type", Node::string)?,
        fields: object.req("fields", |n| n.list(|n| n.i32().map(FieldId)))?,
        snapshot_id: object.req("snapshot-id", Node::i64)?,
        sequence_number: object.req("sequence-number", Node::i64)?,
        offset: object.req("offset", size)?,
        length: object.req("length", size)?,
        compression_codec: object.opt("compression-codec", Node::string)?,
        properties: object.opt("properties", Node::string_map)?.unwrap_or_default(),
    })
}

fn write_blob(blob: &BlobMetadata) -> Json {
    let mut members = Map::new();
    let mut insert = |name: &str, value: Json| members.insert(name.to_owned(), value);
    insert("type", blob.blob_type.as_str().into());
    insert("fields", blob.fields.iter().map(|id| Json::from(id.0)).collect());
    insert("snapshot-id", blob.snapshot_id.into());
    insert("sequence-number", blob.sequence_number.into());
    insert("offset", blob.offset.into());
    insert("length", blob.length.into());
    if let Some(codec) = &blob.compression_codec {
        insert("compression-codec", codec.as_str().into());
    }
    if !blob.properties.is_empty() {
        insert("properties", string_map(&blob.properties));
    }
    Json::Object(members)
}

/// Makes a Puffin file of blobs that are not compressed.
#[derive(Debug)]
pub struct PuffinWriter {
    bytes: Vec<u8>,
    footer: Footer,
}

impl PuffinWriter {
    /// A file without blobs, with these properties.
    pub fn new(properties: BTreeMap<String, String>) -> Self {
        Self { bytes: MAGIC.to_vec(), footer: Footer { blobs: Vec::new(), properties } }
    }

    /// Adds a blob, and returns `metadata` with the place where it lies.
    pub fn add(&mut self, metadata: BlobMetadata, contents: &[u8]) -> BlobMetadata {
        let blob = BlobMetadata {
            offset: self.bytes.len() as u64,
            length: contents.len() as u64,
            compression_codec: None,
            ..metadata
        };
        self.bytes.extend_from_slice(contents);
        self.footer.blobs.push(blob.clone());
        blob
    }

    /// The whole file.
    ///
    /// # Errors
    /// `DataInvalid` if the footer gets longer than the format can say.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let payload = self.footer.to_json().to_string();
        let length = i32::try_from(payload.len())
            .map_err(|_| Error::invalid(format!("a Puffin footer of {} bytes", payload.len())))?;
        self.bytes.extend_from_slice(&MAGIC);
        self.bytes.extend_from_slice(payload.as_bytes());
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&MAGIC);
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    fn file() -> (Vec<u8>, Vec<BlobMetadata>) {
        let mut writer = PuffinWriter::new(BTreeMap::from([("created-by".into(), "a test".into())]));
        let blob = BlobMetadata {
            blob_type: "deletion-vector-v1".into(),
            fields: vec![FieldId(2_147_483_645)],
            snapshot_id: -1,
            sequence_number: -1,
            properties: BTreeMap::from([("cardinality".into(), "3".into())]),
            ..BlobMetadata::default()
        };
        let blobs = vec![writer.add(blob.clone(), b"first"), writer.add(blob, b"the second")];
        (writer.finish().unwrap(), blobs)
    }

    fn parse(file: &[u8]) -> Result<Footer> {
        Footer::parse(file, file.len() as u64)
    }

    /// The file with another payload, and the length that goes with it.
    fn with_payload(payload: &str) -> Vec<u8> {
        let mut bytes = [b"PFA1".as_slice(), b"0123456789", b"PFA1", payload.as_bytes()].concat();
        bytes.extend(i32::try_from(payload.len()).unwrap().to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(b"PFA1");
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let (file, blobs) = file();
        let length = footer_length(&file[file.len() - TAIL_LENGTH..]).unwrap() as usize;
        let footer = Footer::parse(&file[file.len() - length..], file.len() as u64).unwrap();
        assert_eq!(footer, parse(&file).unwrap(), "a longer tail will do");
        assert_eq!(footer.blobs, blobs);
        assert_eq!(footer.properties["created-by"], "a test");
        let second = &footer.blobs[1];
        let at = second.offset as usize;
        assert_eq!(second.contents(&file[at..at + second.length as usize]).unwrap(), b"the second");
        assert!(second.contents(b"short").is_err());
    }

    #[test]
    fn the_smallest_file() {
        let file = PuffinWriter::new(BTreeMap::new()).finish().unwrap();
        assert_eq!(parse(&file).unwrap(), Footer::default());
    }

    #[test]
    fn what_is_no_footer_is_an_error() {
        let (file, _) = file();
        assert!(footer_length(b"PFA1").is_err());
        assert!(
            Footer::parse(&file[file.len() - TAIL_LENGTH..], file.len() as u64).is_err(),
            "too short a tail"
        );
        assert!(Footer::parse(&file, 20).is_err(), "longer than the file");
        let at = |from_end: usize, byte: u8| {
            let mut file = file.clone();
            let i = file.len() - from_end;
            file[i] = byte;
            parse(&file).unwrap_err()
        };
        assert_eq!(at(1, b'2').kind(), ErrorKind::DataInvalid);
        assert_eq!(at(9, 0xff).kind(), ErrorKind::DataInvalid, "a negative length");
        assert_eq!(at(9, 0x7f).kind(), ErrorKind::DataInvalid, "an absurd length");
        assert!(at(8, 1).to_string().contains("LZ4"));
        assert_eq!(at(8, 1).kind(), ErrorKind::Unsupported);
        assert_eq!(at(7, 1).kind(), ErrorKind::Unsupported);
        let blob = |text: &str| {
            format!(
                r#"{{"blobs": [{{"type": "x", "fields": [], "snapshot-id": 1, "sequence-number": 1, {text}}}]}}"#
            )
        };
        assert!(parse(&with_payload(&blob(r#""offset": 4, "length": 10"#))).is_ok());
        for (payload, part) in [
            (blob(r#""offset": 4, "length": 11"#), "blobs[0]"),
            (blob(r#""offset": -4, "length": 1"#), "blobs[0].offset"),
            (blob(r#""offset": 9223372036854775807, "length": 9223372036854775807"#), "blobs[0]"),
            (blob(r#""offset": 4"#), "blobs[0].length"),
            ("{}".into(), "blobs"),
            ("[".into(), "JSON"),
            ("[]".into(), "object"),
        ] {
            let error = parse(&with_payload(&payload)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn compressed_blobs_are_refused() {
        let blob = BlobMetadata { compression_codec: Some("zstd".into()), ..BlobMetadata::default() };
        let error = blob.contents(b"").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("`zstd`"));
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(at in any::<proptest::sample::Index>(), byte in any::<u8>(), cut in any::<proptest::sample::Index>()) {
            let (mut file, _) = file();
            let i = at.index(file.len());
            file[i] = byte;
            let _ = parse(&file);
            let _ = parse(&file[cut.index(file.len())..]);
            let _ = parse(&file[..cut.index(file.len())]);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let mut bytes = bytes;
            bytes.extend(b"PFA1");
            let _ = parse(&bytes);
        }
    }
}
