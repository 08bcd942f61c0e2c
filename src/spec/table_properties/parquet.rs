//! Properties of Parquet files.

use std::collections::BTreeMap;

use crate::error::Result;

use super::TableProperties;
use super::parse::bad_value;

/// How Parquet files are written: `write.parquet.*`, and for delete files `write.delete.parquet.*`
/// where it is set.
#[derive(Debug, Clone, PartialEq)]
pub struct ParquetProperties {
    /// `compression-codec`, in lower case: `zstd`, `gzip`, `snappy`, `lz4`, `lz4_raw`, `brotli`
    /// or `uncompressed`. Java's default is gzip, but that all its new tables say zstd; ours is zstd.
    pub compression_codec: String,
    /// `compression-level`; the codec's own if `None`.
    pub compression_level: Option<i32>,
    /// `row-group-size-bytes` (128 MiB).
    pub row_group_size: u64,
    /// `page-size-bytes` (1 MiB).
    pub page_size: u64,
    /// `page-row-limit` (20,000).
    pub page_row_limit: usize,
    /// `dict-size-bytes` (2 MiB).
    pub dictionary_size: u64,
    /// `page-version`: 1 or 2 (1).
    pub page_version: u8,
    /// `bloom-filter-max-bytes` (1 MiB).
    pub bloom_filter_max_bytes: u64,
    /// Columns with bloom filters, by full name; data files only.
    pub bloom_filters: BTreeMap<String, BloomFilter>,
    /// `stats-enabled.column.NAME`, by full name; data files only.
    pub statistics_enabled: BTreeMap<String, bool>,
    /// `dict-encoding-enabled.column.NAME`, by full name; data files only.
    pub dictionary_enabled: BTreeMap<String, bool>,
}

/// A column's bloom filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BloomFilter {
    /// How often it may wrongly say that a value may be there; above 0 and below 1 (0.01).
    pub false_positives: f64,
    /// How many distinct values to expect; unknown if `None`.
    pub distinct_values: Option<u64>,
}

const CODECS: [(&str, &str); 8] = [
    ("zstd", "zstd"),
    ("gzip", "gzip"),
    ("snappy", "snappy"),
    ("lz4", "lz4"),
    ("lz4_raw", "lz4_raw"),
    ("brotli", "brotli"),
    ("uncompressed", "uncompressed"),
    ("none", "uncompressed"),
];

impl TableProperties<'_> {
    /// How Parquet data files are written.
    pub fn parquet(&self) -> Result<ParquetProperties> {
        self.parquet_under("write.parquet.")
    }

    /// How Parquet delete files are written.
    pub fn delete_parquet(&self) -> Result<ParquetProperties> {
        self.parquet_under("write.delete.parquet.")
    }

    fn parquet_under(&self, prefix: &'static str) -> Result<ParquetProperties> {
        let data_prefix = "write.parquet.";
        let for_data = prefix == data_prefix;
        // What delete files don't say is as for data files.
        let name = |name: &str| {
            let own = format!("{prefix}{name}");
            if self.get(&own).is_some() { own } else { format!("{data_prefix}{name}") }
        };
        let of_columns = |name: &str| if for_data { self.column_booleans(name) } else { Ok(BTreeMap::new()) };
        Ok(ParquetProperties {
            compression_codec: self.one_of(&name("compression-codec"), &CODECS, "zstd")?.to_owned(),
            compression_level: self.opt_number(&name("compression-level"))?,
            row_group_size: self.positive(&name("row-group-size-bytes"), 128 << 20)?,
            page_size: self.positive(&name("page-size-bytes"), 1 << 20)?,
            page_row_limit: self.positive_usize(&name("page-row-limit"), 20_000)?,
            dictionary_size: self.positive(&name("dict-size-bytes"), 2 << 20)?,
            page_version: self.one_of(&name("page-version"), &[("v1", 1), ("v2", 2)], 1)?,
            bloom_filter_max_bytes: self.positive("write.parquet.bloom-filter-max-bytes", 1 << 20)?,
            bloom_filters: if for_data { self.bloom_filters()? } else { BTreeMap::new() },
            statistics_enabled: of_columns("write.parquet.stats-enabled.column.")?,
            dictionary_enabled: of_columns("write.parquet.dict-encoding-enabled.column.")?,
        })
    }

    fn bloom_filters(&self) -> Result<BTreeMap<String, BloomFilter>> {
        let enabled = self.column_booleans("write.parquet.bloom-filter-enabled.column.")?;
        let filter = |(column, _): (String, bool)| {
            let name = format!("write.parquet.bloom-filter-fpp.column.{column}");
            let false_positives = self.number(&name, 0.01)?;
            if !(false_positives > 0.0 && false_positives < 1.0) {
                return Err(bad_value(&name, &false_positives.to_string(), "a number above 0 and below 1"));
            }
            let distinct_values =
                self.opt_number(&format!("write.parquet.bloom-filter-ndv.column.{column}"))?;
            Ok((column, BloomFilter { false_positives, distinct_values }))
        };
        enabled.into_iter().filter(|(_, on)| *on).map(filter).collect()
    }

    fn column_booleans(&self, prefix: &str) -> Result<BTreeMap<String, bool>> {
        let columns = self.under(prefix);
        columns.map(|(column, name)| Ok((column.to_owned(), self.boolean(name, false)?))).collect()
    }
}
