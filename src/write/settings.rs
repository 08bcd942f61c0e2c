//! What the encoder of Parquet has to know, by the table's properties.

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{BloomFilterPosition, EnabledStatistics, WriterProperties, WriterVersion};

use super::parquet_file::bounds_of;
use super::parquet_schema::{FileSchema, LeafColumn};
use crate::error::{Error, Result};
use crate::spec::{MetricsConfig, ParquetProperties, PrimitiveType, Schema};

/// The level that is used unless another is asked for.
const ZSTD_LEVEL: i32 = 3;
/// What statistics are cut to if nobody needs more of them.
const STATISTICS_LENGTH: usize = 64;
/// The longest that a character gets in UTF-8.
const CHARACTER_LENGTH: usize = 4;

/// How Parquet files are written.
#[derive(Debug, Clone)]
pub(super) struct ParquetSettings {
    pub(super) parquet: ParquetProperties,
    /// When a file is large enough, in bytes.
    pub(super) target_file_size: u64,
}

impl ParquetSettings {
    /// # Errors
    /// `DataInvalid` for a compression level that the codec does not have.
    pub(super) fn writer_properties(
        &self,
        schema: &Schema,
        file: &FileSchema,
        metrics: &MetricsConfig,
    ) -> Result<WriterProperties> {
        let parquet = &self.parquet;
        let version = match parquet.page_version {
            2 => WriterVersion::PARQUET_2_0,
            _ => WriterVersion::PARQUET_1_0,
        };
        let mut builder = WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(compression(parquet)?)
            .set_data_page_size_limit(size(parquet.page_size))
            .set_data_page_row_count_limit(parquet.page_row_limit)
            .set_dictionary_page_size_limit(size(parquet.dictionary_size))
            // Row groups end by their bytes; who writes sees to that.
            .set_max_row_group_row_count(None)
            .set_bloom_filter_position(BloomFilterPosition::AfterRowGroup)
            .set_statistics_truncate_length(statistics_length(&file.leaves, metrics))
            .set_created_by(concat!("icefloe version ", env!("CARGO_PKG_VERSION")).to_owned());
        for leaf in &file.leaves {
            let path = || leaf.path.clone();
            let name = leaf.id.and_then(|id| schema.full_name(id)).unwrap_or_default();
            if !has_order(leaf.primitive.as_ref()) || parquet.statistics_enabled.get(&name) == Some(&false) {
                builder = builder.set_column_statistics_enabled(path(), EnabledStatistics::None);
            }
            if let Some(enabled) = parquet.dictionary_enabled.get(&name) {
                builder = builder.set_column_dictionary_enabled(path(), *enabled);
            }
            // One of booleans would say nothing, and the encoder has none.
            if let Some(filter) = parquet.bloom_filters.get(&name)
                && leaf.primitive != Some(PrimitiveType::Boolean)
            {
                let fpp = filter.false_positives;
                let most = distinct_in(parquet.bloom_filter_max_bytes, fpp);
                builder = builder
                    .set_column_bloom_filter_enabled(path(), true)
                    .set_column_bloom_filter_fpp(path(), fpp)
                    .set_column_bloom_filter_max_ndv(
                        path(),
                        filter.distinct_values.map_or(most, |n| n.clamp(1, most)),
                    );
            }
        }
        Ok(builder.build())
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn compression(parquet: &ParquetProperties) -> Result<Compression> {
    let codec = parquet.compression_codec.as_str();
    let out_of_range = |e: ParquetError| {
        Error::invalid(format!("no level of {codec}"))
            .with_source(e)
            .context("property `write.parquet.compression-level`")
    };
    let unsigned = |level: i32| u32::try_from(level).unwrap_or(u32::MAX);
    Ok(match (codec, parquet.compression_level) {
        ("gzip", None) => Compression::GZIP(GzipLevel::default()),
        ("gzip", Some(level)) => {
            Compression::GZIP(GzipLevel::try_new(unsigned(level)).map_err(out_of_range)?)
        }
        ("brotli", None) => Compression::BROTLI(BrotliLevel::default()),
        ("brotli", Some(level)) => {
            Compression::BROTLI(BrotliLevel::try_new(unsigned(level)).map_err(out_of_range)?)
        }
        ("snappy", _) => Compression::SNAPPY,
        // What Parquet calls LZ4 is deprecated, as no two writers agree about it.
        ("lz4" | "lz4_raw", _) => Compression::LZ4_RAW,
        ("uncompressed", _) => Compression::UNCOMPRESSED,
        // Zstandard's fast levels are below 1, which the encoder does not have.
        ("zstd", level) => {
            let level = level.unwrap_or(ZSTD_LEVEL).max(1);
            Compression::ZSTD(ZstdLevel::try_new(level).map_err(out_of_range)?)
        }
        _ => {
            let message = format!("Parquet files can't be compressed with `{codec}`");
            return Err(Error::unsupported(message).context("property `write.parquet.compression-codec`"));
        }
    })
}

/// Whether the smallest and largest of the values mean something.
fn has_order(primitive: Option<&PrimitiveType>) -> bool {
    !matches!(primitive, None | Some(PrimitiveType::Geometry { .. } | PrimitiveType::Geography { .. }))
}

/// To how many bytes statistics may be cut so that all bounds can be made of them.
fn statistics_length(leaves: &[LeafColumn], metrics: &MetricsConfig) -> Option<usize> {
    let mut length = STATISTICS_LENGTH;
    for leaf in leaves {
        let (Some(id), Some(primitive)) = (leaf.id, &leaf.primitive) else { continue };
        let Some(cut) = bounds_of(metrics.mode(id)) else { continue };
        match primitive {
            // A whole bound needs whole statistics.
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
/// positive (Parquet, "Bloom Filter": eight bits a value, one in each word of a block).
fn distinct_in(bytes: u64, fpp: f64) -> u64 {
    let bits = bytes as f64 * 8.0;
    let distinct = -bits * (1.0 - fpp.powf(1.0 / 8.0)).ln() / 8.0;
    // A float beyond the range becomes its end.
    (distinct as u64).max(1)
}
