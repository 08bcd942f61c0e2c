//! The table's properties about the files that are written, typed.

use std::collections::BTreeMap;
use std::str::FromStr;

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{BloomFilterPosition, EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::metrics_mode::MetricsModes;
use super::parquet_schema::{FileSchema, LeafColumn};
use crate::error::{Error, Result};
use crate::spec::{PrimitiveType, Schema};

const DATA_FILE_SIZE: u64 = 512 * 1024 * 1024;
const DELETE_FILE_SIZE: u64 = 64 * 1024 * 1024;
const ROW_GROUP_SIZE: usize = 128 * 1024 * 1024;
const PAGE_SIZE: usize = 1024 * 1024;
const PAGE_ROWS: usize = 20_000;
const DICTIONARY_SIZE: usize = 2 * 1024 * 1024;
const BLOOM_FILTER_SIZE: usize = 1024 * 1024;
const BLOOM_FILTER_FPP: f64 = 0.01;
/// What statistics are cut to if nobody needs more of them.
const STATISTICS_LENGTH: usize = 64;
/// The longest that a character gets in UTF-8.
const CHARACTER_LENGTH: usize = 4;

/// What kind of file it is about: delete files have properties of their own, and fall back on those
/// of data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Data,
    Deletes,
}

/// How Parquet files are written.
#[derive(Debug, Clone)]
pub(super) struct ParquetSettings {
    /// When a file is large enough, in bytes.
    pub(super) target_file_size: u64,
    /// When a row group is large enough, in bytes.
    pub(super) row_group_size: usize,
    page_size: usize,
    page_rows: usize,
    dictionary_size: usize,
    version: WriterVersion,
    compression: Compression,
    bloom_filter_size: usize,
    /// By the full names of the columns.
    bloom_filters: BTreeMap<String, BloomFilter>,
    /// Columns without dictionaries or with them, by their full names.
    dictionaries: BTreeMap<String, bool>,
}

#[derive(Debug, Clone, Copy)]
struct BloomFilter {
    fpp: f64,
    distinct: Option<u64>,
}

struct Properties<'a> {
    all: &'a BTreeMap<String, String>,
    kind: FileKind,
}

impl Properties<'_> {
    /// The property called `write.<name>`, or `write.delete.<name>`.
    fn text(&self, name: &str) -> Option<(String, &str)> {
        let own = (self.kind == FileKind::Deletes).then(|| format!("write.delete.{name}"));
        let names = own.into_iter().chain([format!("write.{name}")]);
        names.into_iter().find_map(|name| Some((name.clone(), self.all.get(&name)?.as_str())))
    }

    fn parsed<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>> {
        self.text(name).map(|(name, text)| parse(&name, text, what)).transpose()
    }

    /// A number of bytes or rows, above 0.
    fn positive(&self, name: &str, default: usize) -> Result<usize> {
        match self.parsed::<usize>(name, "a number above 0")? {
            Some(0) => Err(bad(&format!("write.{name}"), "0", "a number above 0")),
            found => Ok(found.unwrap_or(default)),
        }
    }

    /// The properties whose names begin so, by what follows.
    fn columns<'b>(&'b self, prefix: &'b str) -> impl Iterator<Item = (&'b str, &'b str, &'b str)> {
        self.all
            .iter()
            .filter_map(move |(key, value)| Some((key.as_str(), key.strip_prefix(prefix)?, value.as_str())))
    }
}

fn bad(name: &str, text: &str, what: &str) -> Error {
    Error::invalid(format!("`{text}` is not {what}")).context(format!("property `{name}`"))
}

fn parse<T: FromStr>(name: &str, text: &str, what: &str) -> Result<T> {
    text.trim().to_ascii_lowercase().parse().map_err(|_| bad(name, text, what))
}

impl ParquetSettings {
    /// By the table's properties.
    ///
    /// # Errors
    /// `DataInvalid` for a property that can't be read, `Unsupported` for a codec that can't be
    /// written, by the property's name.
    pub(super) fn new(properties: &BTreeMap<String, String>, kind: FileKind) -> Result<Self> {
        let p = Properties { all: properties, kind };
        let mut bloom_filters = BTreeMap::new();
        for (key, column, text) in p.columns("write.parquet.bloom-filter-enabled.column.") {
            if !parse::<bool>(key, text, "true or false")? {
                continue;
            }
            let fpp_name = format!("write.parquet.bloom-filter-fpp.column.{column}");
            let fpp = match properties.get(&fpp_name) {
                Some(text) => parse::<f64>(&fpp_name, text, "a probability")?,
                None => BLOOM_FILTER_FPP,
            };
            if !(fpp > 0.0 && fpp < 1.0) {
                return Err(bad(&fpp_name, &fpp.to_string(), "a probability between 0 and 1"));
            }
            let ndv_name = format!("write.parquet.bloom-filter-ndv.column.{column}");
            let distinct = properties.get(&ndv_name).map(|text| parse::<u64>(&ndv_name, text, "a number"));
            bloom_filters.insert(column.to_owned(), BloomFilter { fpp, distinct: distinct.transpose()? });
        }
        let mut dictionaries = BTreeMap::new();
        for (key, column, text) in p.columns("write.parquet.dict-encoding-enabled.column.") {
            dictionaries.insert(column.to_owned(), parse::<bool>(key, text, "true or false")?);
        }
        let target = match kind {
            FileKind::Data => parse_size(properties, "write.target-file-size-bytes", DATA_FILE_SIZE)?,
            FileKind::Deletes => {
                parse_size(properties, "write.delete.target-file-size-bytes", DELETE_FILE_SIZE)?
            }
        };
        Ok(Self {
            target_file_size: target,
            row_group_size: p.positive("parquet.row-group-size-bytes", ROW_GROUP_SIZE)?,
            page_size: p.positive("parquet.page-size-bytes", PAGE_SIZE)?,
            page_rows: p.positive("parquet.page-row-limit", PAGE_ROWS)?,
            dictionary_size: p.positive("parquet.dict-size-bytes", DICTIONARY_SIZE)?,
            version: match p.text("parquet.page-version") {
                None => WriterVersion::PARQUET_1_0,
                Some((name, text)) => match text.to_ascii_lowercase().as_str() {
                    "v1" => WriterVersion::PARQUET_1_0,
                    "v2" => WriterVersion::PARQUET_2_0,
                    _ => return Err(bad(&name, text, "v1 or v2")),
                },
            },
            compression: compression(&p)?,
            bloom_filter_size: p.positive("parquet.bloom-filter-max-bytes", BLOOM_FILTER_SIZE)?,
            bloom_filters,
            dictionaries,
        })
    }

    /// What the encoder has to know.
    pub(super) fn writer_properties(
        &self,
        schema: &Schema,
        file: &FileSchema,
        modes: &MetricsModes,
    ) -> WriterProperties {
        let mut builder = WriterProperties::builder()
            .set_writer_version(self.version)
            .set_compression(self.compression)
            .set_data_page_size_limit(self.page_size)
            .set_data_page_row_count_limit(self.page_rows)
            .set_dictionary_page_size_limit(self.dictionary_size)
            // Row groups end by their bytes; who writes sees to that.
            .set_max_row_group_row_count(None)
            .set_bloom_filter_position(BloomFilterPosition::AfterRowGroup)
            .set_statistics_truncate_length(statistics_length(&file.leaves, modes))
            .set_created_by(concat!("icefloe version ", env!("CARGO_PKG_VERSION")).to_owned());
        for leaf in &file.leaves {
            let path: ColumnPath = leaf.path.clone();
            if !has_order(leaf.primitive.as_ref()) {
                builder = builder.set_column_statistics_enabled(path.clone(), EnabledStatistics::None);
            }
            let Some(name) = leaf.id.and_then(|id| schema.full_name(id)) else { continue };
            if let Some(enabled) = self.dictionaries.get(&name) {
                builder = builder.set_column_dictionary_enabled(path.clone(), *enabled);
            }
            if let Some(filter) = self.bloom_filters.get(&name)
                && leaf.primitive != Some(PrimitiveType::Boolean)
            {
                let most = distinct_in(self.bloom_filter_size, filter.fpp);
                builder = builder
                    .set_column_bloom_filter_enabled(path.clone(), true)
                    .set_column_bloom_filter_fpp(path.clone(), filter.fpp)
                    .set_column_bloom_filter_max_ndv(path, filter.distinct.unwrap_or(most).clamp(1, most));
            }
        }
        builder.build()
    }
}

fn parse_size(properties: &BTreeMap<String, String>, name: &str, default: u64) -> Result<u64> {
    match properties.get(name) {
        None => Ok(default),
        Some(text) => match parse(name, text, "a number above 0")? {
            0 => Err(bad(name, text, "a number above 0")),
            size => Ok(size),
        },
    }
}

fn compression(p: &Properties<'_>) -> Result<Compression> {
    let level = || p.parsed::<i64>("parquet.compression-level", "a number");
    let Some((name, codec)) = p.text("parquet.compression-codec") else {
        return zstd(level()?);
    };
    let unsigned = |level: Option<i64>| level.map(|l| u32::try_from(l).unwrap_or(u32::MAX));
    let out_of_range = |e| {
        Error::invalid("out of range").with_source(e).context("property `write.parquet.compression-level`")
    };
    Ok(match codec.to_ascii_lowercase().as_str() {
        "zstd" => return zstd(level()?),
        "gzip" => Compression::GZIP(match unsigned(level()?) {
            Some(level) => GzipLevel::try_new(level).map_err(out_of_range)?,
            None => GzipLevel::default(),
        }),
        "brotli" => Compression::BROTLI(match unsigned(level()?) {
            Some(level) => BrotliLevel::try_new(level).map_err(out_of_range)?,
            None => BrotliLevel::default(),
        }),
        "snappy" => Compression::SNAPPY,
        "lz4_raw" => Compression::LZ4_RAW,
        // What Parquet calls LZ4 is deprecated, and no two writers agree about it.
        "lz4" => Compression::LZ4_RAW,
        "uncompressed" | "none" => Compression::UNCOMPRESSED,
        _ => {
            return Err(Error::unsupported(format!(
                "Parquet files can't be compressed with `{codec}`; zstd, gzip, snappy, brotli, lz4 and \
                 uncompressed are possible"
            ))
            .context(format!("property `{name}`")));
        }
    })
}

fn zstd(level: Option<i64>) -> Result<Compression> {
    let level = match level {
        None => ZstdLevel::try_new(3),
        // Zstandard's fast levels are below 1, which Parquet's encoder does not offer.
        Some(level) => ZstdLevel::try_new(i32::try_from(level.max(1)).unwrap_or(i32::MAX)),
    };
    level.map(Compression::ZSTD).map_err(|e| {
        Error::invalid("out of range").with_source(e).context("property `write.parquet.compression-level`")
    })
}

/// Whether the smallest and largest of the values mean something.
fn has_order(primitive: Option<&PrimitiveType>) -> bool {
    !matches!(primitive, None | Some(PrimitiveType::Geometry { .. } | PrimitiveType::Geography { .. }))
}

/// To how many bytes statistics may be cut so that all bounds can be made of them.
fn statistics_length(leaves: &[LeafColumn], modes: &MetricsModes) -> Option<usize> {
    let mut length = STATISTICS_LENGTH;
    for leaf in leaves {
        let (Some(id), Some(primitive)) = (leaf.id, &leaf.primitive) else { continue };
        let Some(cut) = modes.of(id).bounds() else { continue };
        match primitive {
            PrimitiveType::String | PrimitiveType::Binary => {
                length = length.max(cut?.saturating_mul(CHARACTER_LENGTH));
            }
            PrimitiveType::Fixed(bytes) => length = length.max(usize::try_from(*bytes).ok()?),
            _ => {}
        }
    }
    Some(length)
}

/// How many different values a bloom filter of so many bytes takes at that probability of a false
/// positive (Parquet, "Bloom Filter": eight bits a value in a block).
fn distinct_in(bytes: usize, fpp: f64) -> u64 {
    let bits = bytes as f64 * 8.0;
    let distinct = -bits * (1.0 - fpp.powf(1.0 / 8.0)).ln() / 8.0;
    // A float beyond the range becomes its end.
    (distinct as u64).max(1)
}
