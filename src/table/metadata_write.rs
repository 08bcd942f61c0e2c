//! Names and writes metadata files (spec, "File System Tables" and "Metastore Tables").

use std::collections::BTreeMap;
use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use uuid::Uuid;

use super::metadata_file::METADATA_DIR;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::TableProperties;

/// How a metadata file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetadataCodec {
    None,
    Gzip,
}

impl MetadataCodec {
    /// What the properties of a table or view ask for.
    ///
    /// # Errors
    /// `DataInvalid` for an unknown one.
    pub(crate) fn of(properties: &BTreeMap<String, String>) -> Result<Self> {
        Ok(match TableProperties::new(properties).metadata_gzip()? {
            false => Self::None,
            true => Self::Gzip,
        })
    }

    /// The end of the file's name. Readers tell by it whether the file is compressed.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::None => ".metadata.json",
            Self::Gzip => ".gz.metadata.json",
        }
    }

    /// What is written for this JSON.
    pub(crate) fn encode(self, json: Vec<u8>) -> Result<Bytes> {
        if self == Self::None {
            return Ok(json.into());
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let encoded = encoder.write_all(&json).and_then(|()| encoder.finish());
        encoded.map(Bytes::from).map_err(|e| Error::new(ErrorKind::Io, "gzip failed").with_source(e))
    }
}

/// The directory of the metadata of a table or view at `location` with these properties.
fn metadata_dir(location: &str, properties: &BTreeMap<String, String>) -> Result<String> {
    Ok(match TableProperties::new(properties).metadata_path()? {
        Some(path) => path.to_owned(),
        None => format!("{}/{METADATA_DIR}", location.trim_end_matches('/')),
    })
}

/// Where the metadata file that follows `previous` goes: `NNNNN-<uuid>.metadata.json`. No two calls
/// give the same.
///
/// # Errors
/// `DataInvalid` if there is no location, or the properties are wrong.
pub(crate) fn next_metadata_location(
    location: &str,
    properties: &BTreeMap<String, String>,
    previous: Option<&str>,
) -> Result<String> {
    if location.is_empty() {
        return Err(Error::invalid("it has no location, so its metadata files have no place"));
    }
    let number = previous.and_then(number_of).map_or(0, |number| number.saturating_add(1));
    let dir = metadata_dir(location, properties)?;
    Ok(format!("{dir}/{number:05}-{}{}", Uuid::new_v4(), MetadataCodec::of(properties)?.suffix()))
}

/// The number of a metadata file: 12 for `…/00012-<uuid>.metadata.json`.
fn number_of(location: &str) -> Option<u64> {
    let name = location.rsplit('/').next()?;
    let (digits, _) = name.split_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // A bare UUID may begin with eight digits; it is no number.
    let stem = name.split('.').next().unwrap_or_default();
    (is_number && Uuid::try_parse(stem).is_err()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPRESSION: &str = "write.metadata.compression-codec";
    const METADATA_PATH: &str = "write.metadata.path";

    fn properties(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn names_count_up() {
        let next = |previous: Option<&str>, list: &[(&str, &str)]| {
            next_metadata_location("s3a://b/t/", &properties(list), previous).unwrap()
        };
        let first = next(None, &[]);
        assert!(
            first.starts_with("s3a://b/t/metadata/00000-") && first.ends_with(".metadata.json"),
            "{first}"
        );
        assert_ne!(first, next(None, &[]));
        assert!(next(Some(&first), &[]).starts_with("s3a://b/t/metadata/00001-"));
        assert!(next(Some("x/00041-a.gz.metadata.json"), &[]).contains("/00042-"));
        for odd in ["v3.metadata.json", "12345678-1234-1234-1234-123456789012.metadata.json", "x", "-y"] {
            assert!(next(Some(odd), &[]).contains("/00000-"), "{odd}");
        }
        let elsewhere = next(None, &[(METADATA_PATH, "s3://c/m/"), (COMPRESSION, "GZIP")]);
        assert!(elsewhere.starts_with("s3://c/m/00000-"), "{elsewhere}");
        assert!(elsewhere.ends_with(".gz.metadata.json"), "{elsewhere}");
        let e = next_metadata_location("/t", &properties(&[(COMPRESSION, "lzo")]), None).unwrap_err();
        assert!(e.to_string().contains(COMPRESSION) && e.to_string().contains("lzo"), "{e}");
        assert!(next_metadata_location("", &BTreeMap::new(), None).is_err());
        let e = next_metadata_location("s3://b/t", &properties(&[(METADATA_PATH, "")]), None).unwrap_err();
        assert!(e.to_string().contains(METADATA_PATH), "{e}");
    }

    #[test]
    fn gzip_inflates_to_what_it_was() {
        use std::io::Read;
        let json = br#"{"a": 1}"#.to_vec();
        assert_eq!(MetadataCodec::None.encode(json.clone()).unwrap(), json);
        let zipped = MetadataCodec::Gzip.encode(json.clone()).unwrap();
        let mut inflated = Vec::new();
        flate2::read::GzDecoder::new(&zipped[..]).read_to_end(&mut inflated).unwrap();
        assert_eq!(inflated, json);
    }
}
