use std::time::Duration;

use super::super::avro::Codec;
use super::super::content_file::FileFormat;
use super::super::ids::{FieldId, SchemaId, SortOrderId};
use super::super::schema::Schema;
use super::super::sort::{NullOrder, SortDirection, SortField, SortOrder};
use super::super::transform::Transform;
use super::super::types::{NestedField, PrimitiveType as P, StructType};
use super::*;
use crate::error::{ErrorKind, Result};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn defaults_are_those_of_java() {
    let none = BTreeMap::new();
    let p = TableProperties::new(&none);
    let retry = p.commit_retry().unwrap();
    assert_eq!((retry.retries, retry.min_wait), (4, Duration::from_millis(100)));
    assert_eq!((retry.max_wait, retry.total_timeout), (Duration::from_secs(60), Duration::from_secs(1800)));
    let checks = p.commit_status_checks().unwrap();
    assert_eq!((checks.retries, checks.min_wait), (3, Duration::from_secs(1)));
    assert_eq!(p.manifest_target_size().unwrap(), 8 * 1024 * 1024);
    assert_eq!(p.manifest_min_merge_count().unwrap(), 100);
    assert!(p.manifest_merge_enabled().unwrap());
    assert_eq!(p.manifest_codec().unwrap(), Codec::Deflate);
    assert!(!p.metadata_gzip().unwrap());
    assert_eq!(p.metadata_previous_versions_max().unwrap(), 100);
    assert!(!p.metadata_delete_after_commit().unwrap());
    assert_eq!(p.metadata_path().unwrap(), None);
    assert_eq!(p.summary_partition_limit().unwrap(), 0);
    assert!(!p.wap_enabled().unwrap() && p.gc_enabled().unwrap());
    assert_eq!(p.max_snapshot_age_ms().unwrap(), 432_000_000);
    assert_eq!(p.min_snapshots_to_keep().unwrap(), 1);
    assert_eq!(p.max_ref_age_ms().unwrap(), i64::MAX);
    assert!(p.name_mapping().unwrap().is_none());
    for operation in [RowLevelOperation::Delete, RowLevelOperation::Update, RowLevelOperation::Merge] {
        assert_eq!(p.isolation_level(operation).unwrap(), IsolationLevel::Serializable);
        assert_eq!(p.row_level_mode(operation).unwrap(), RowLevelMode::CopyOnWrite);
        assert_eq!(p.row_level_distribution_mode(operation).unwrap(), None);
    }
    assert_eq!(p.distribution_mode().unwrap(), None);
    assert_eq!(p.delete_granularity().unwrap(), DeleteGranularity::Partition);
    assert_eq!(
        (p.data_format().unwrap(), p.delete_format().unwrap()),
        (FileFormat::Parquet, FileFormat::Parquet)
    );
    assert_eq!(p.target_file_size().unwrap(), 512 * 1024 * 1024);
    assert_eq!(p.delete_target_file_size().unwrap(), 64 * 1024 * 1024);
    assert!(!p.object_storage_enabled().unwrap() && p.object_storage_partitioned_paths().unwrap());
    let parquet = p.parquet().unwrap();
    assert_eq!(parquet.compression_codec, "zstd");
    assert_eq!((parquet.compression_level, parquet.page_version), (None, 1));
    assert_eq!((parquet.row_group_size, parquet.page_size), (134_217_728, 1_048_576));
    assert_eq!((parquet.page_row_limit, parquet.dictionary_size), (20_000, 2_097_152));
    assert!(parquet.bloom_filters.is_empty());
}

/// Each property with a value that is not its default, and one that is wrong.
#[test]
fn values_are_read_and_wrong_ones_named() {
    type Read = fn(&TableProperties<'_>) -> Result<String>;
    fn text<T: std::fmt::Debug>(result: Result<T>) -> Result<String> {
        result.map(|value| format!("{value:?}"))
    }
    let cases: &[(&str, &str, &str, &str, Read)] = &[
        ("commit.retry.num-retries", "7", "7", "-1", |p| text(p.commit_retry().map(|r| r.retries))),
        ("commit.retry.min-wait-ms", "7", "7ms", "x", |p| text(p.commit_retry().map(|r| r.min_wait))),
        ("commit.retry.max-wait-ms", "7", "7ms", "-7", |p| text(p.commit_retry().map(|r| r.max_wait))),
        ("commit.retry.total-timeout-ms", "7", "7ms", "", |p| {
            text(p.commit_retry().map(|r| r.total_timeout))
        }),
        ("commit.status-check.num-retries", "7", "7", "x", |p| {
            text(p.commit_status_checks().map(|r| r.retries))
        }),
        ("commit.status-check.min-wait-ms", "7", "7ms", "x", |p| {
            text(p.commit_status_checks().map(|r| r.min_wait))
        }),
        ("commit.status-check.max-wait-ms", "7", "7ms", "x", |p| {
            text(p.commit_status_checks().map(|r| r.max_wait))
        }),
        ("commit.status-check.total-timeout-ms", "7", "7ms", "x", |p| {
            text(p.commit_status_checks().map(|r| r.total_timeout))
        }),
        ("commit.manifest.target-size-bytes", " 7 ", "7", "0", |p| text(p.manifest_target_size())),
        ("commit.manifest.min-count-to-merge", "7", "7", "x", |p| text(p.manifest_min_merge_count())),
        ("commit.manifest-merge.enabled", "FALSE", "false", "no", |p| text(p.manifest_merge_enabled())),
        ("write.manifest.compression-codec", "zstd", "Zstandard", "zip", |p| text(p.manifest_codec())),
        ("write.metadata.compression-codec", "gzip", "true", "zstd", |p| text(p.metadata_gzip())),
        ("write.metadata.previous-versions-max", "7", "7", "x", |p| text(p.metadata_previous_versions_max())),
        ("write.metadata.delete-after-commit.enabled", "true", "true", "1", |p| {
            text(p.metadata_delete_after_commit())
        }),
        ("write.summary.partition-limit", "7", "7", "x", |p| text(p.summary_partition_limit())),
        ("write.wap.enabled", "true", "true", "x", |p| text(p.wap_enabled())),
        ("gc.enabled", "false", "false", "x", |p| text(p.gc_enabled())),
        ("history.expire.max-snapshot-age-ms", "7", "7", "-1", |p| text(p.max_snapshot_age_ms())),
        ("history.expire.min-snapshots-to-keep", "7", "7", "0", |p| text(p.min_snapshots_to_keep())),
        ("history.expire.max-ref-age-ms", "7", "7", "x", |p| text(p.max_ref_age_ms())),
        ("schema.name-mapping.default", "[]", "true", "{", |p| text(p.name_mapping().map(|m| m.is_some()))),
        ("write.delete.isolation-level", "snapshot", "Snapshot", "x", |p| {
            text(p.isolation_level(RowLevelOperation::Delete))
        }),
        ("write.update.isolation-level", "snapshot", "Snapshot", "x", |p| {
            text(p.isolation_level(RowLevelOperation::Update))
        }),
        ("write.merge.mode", "merge-on-read", "MergeOnRead", "x", |p| {
            text(p.row_level_mode(RowLevelOperation::Merge))
        }),
        ("write.distribution-mode", "range", "Some(Range)", "x", |p| text(p.distribution_mode())),
        ("write.merge.distribution-mode", "hash", "Some(Hash)", "x", |p| {
            text(p.row_level_distribution_mode(RowLevelOperation::Merge))
        }),
        ("write.delete.granularity", "file", "File", "x", |p| text(p.delete_granularity())),
        ("write.format.default", "ORC", "Orc", "puffin", |p| text(p.data_format())),
        ("write.delete.format.default", "avro", "Avro", "csv", |p| text(p.delete_format())),
        ("write.target-file-size-bytes", "7", "7", "0", |p| text(p.target_file_size())),
        ("write.delete.target-file-size-bytes", "7", "7", "x", |p| text(p.delete_target_file_size())),
        ("write.object-storage.enabled", "true", "true", "x", |p| text(p.object_storage_enabled())),
        ("write.object-storage.partitioned-paths", "false", "false", "x", |p| {
            text(p.object_storage_partitioned_paths())
        }),
        ("write.parquet.compression-codec", "Snappy", "\"snappy\"", "zip", |p| {
            text(p.parquet().map(|q| q.compression_codec))
        }),
        ("write.parquet.compression-level", "7", "Some(7)", "x", |p| {
            text(p.parquet().map(|q| q.compression_level))
        }),
        ("write.parquet.row-group-size-bytes", "7", "7", "0", |p| {
            text(p.parquet().map(|q| q.row_group_size))
        }),
        ("write.parquet.page-size-bytes", "7", "7", "0", |p| text(p.parquet().map(|q| q.page_size))),
        ("write.parquet.page-row-limit", "7", "7", "0", |p| text(p.parquet().map(|q| q.page_row_limit))),
        ("write.parquet.dict-size-bytes", "7", "7", "0", |p| text(p.parquet().map(|q| q.dictionary_size))),
        ("write.parquet.page-version", "v2", "2", "3", |p| text(p.parquet().map(|q| q.page_version))),
        ("write.parquet.stats-enabled.column.a.b", "false", "{\"a.b\": false}", "x", |p| {
            text(p.parquet().map(|q| q.statistics_enabled))
        }),
        ("write.parquet.dict-encoding-enabled.column.a", "true", "{\"a\": true}", "x", |p| {
            text(p.parquet().map(|q| q.dictionary_enabled))
        }),
        ("write.parquet.bloom-filter-enabled.column.a", "true", "[\"a\"]", "x", |p| {
            text(p.parquet().map(|q| q.bloom_filters.into_keys().collect::<Vec<_>>()))
        }),
        ("write.delete.parquet.page-size-bytes", "7", "7", "x", |p| {
            text(p.delete_parquet().map(|q| q.page_size))
        }),
    ];
    for (name, value, read, wrong, method) in cases {
        let set = map(&[(name, value)]);
        assert_eq!(method(&TableProperties::new(&set)).unwrap(), *read, "{name}");
        assert_ne!(method(&TableProperties::new(&BTreeMap::new())).unwrap(), *read, "{name}: the default");
        let set = map(&[(name, wrong)]);
        let error = method(&TableProperties::new(&set)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataInvalid, "{name}");
        assert!(error.to_string().contains(&format!("property `{name}`")), "{error}");
    }
}

#[test]
fn delete_files_are_written_as_data_files_unless_told_otherwise() {
    let set = map(&[
        ("write.parquet.compression-codec", "gzip"),
        ("write.parquet.page-size-bytes", "5"),
        ("write.delete.parquet.page-size-bytes", "6"),
        ("write.format.default", "avro"),
        ("write.parquet.bloom-filter-enabled.column.a", "true"),
        ("write.parquet.bloom-filter-enabled.column.b", "false"),
        ("write.parquet.bloom-filter-fpp.column.a", "0.5"),
        ("write.parquet.bloom-filter-ndv.column.a", "9"),
    ]);
    let p = TableProperties::new(&set);
    let (data, deletes) = (p.parquet().unwrap(), p.delete_parquet().unwrap());
    assert_eq!((data.page_size, deletes.page_size), (5, 6));
    assert_eq!(deletes.compression_codec, "gzip");
    assert_eq!(p.delete_format().unwrap(), FileFormat::Avro);
    let filter = BloomFilter { false_positives: 0.5, distinct_values: Some(9) };
    assert_eq!(data.bloom_filters, BTreeMap::from([("a".to_owned(), filter)]));
    assert!(deletes.bloom_filters.is_empty());
    for wrong in ["0", "1", "NaN", "-1"] {
        let mut set = set.clone();
        set.insert("write.parquet.bloom-filter-fpp.column.a".into(), wrong.into());
        assert!(TableProperties::new(&set).parquet().is_err(), "{wrong}");
    }
}

fn schema() -> Schema {
    let inner = StructType::new(vec![NestedField::optional(4, "x", P::Int)]);
    let fields = vec![
        NestedField::optional(1, "a", P::Int),
        NestedField::optional(2, "s", inner),
        NestedField::optional(3, "b", P::String),
    ];
    Schema::new(SchemaId(0), fields, vec![]).unwrap()
}

fn modes(pairs: &[(&str, &str)], order: &SortOrder) -> Result<[MetricsMode; 3]> {
    let set = map(pairs);
    let config = TableProperties::new(&set).metrics_config(&schema(), order)?;
    Ok([config.mode(FieldId(1)), config.mode(FieldId(3)), config.mode(FieldId(4))])
}

#[test]
fn each_column_has_its_metrics() {
    use MetricsMode as M;
    let unsorted = SortOrder::default();
    let default = M::Truncate(16);
    assert_eq!(modes(&[], &unsorted).unwrap(), [default; 3]);
    const MAX: &str = "write.metadata.metrics.max-inferred-column-defaults";
    const DEFAULT: &str = "write.metadata.metrics.default";
    assert_eq!(modes(&[(MAX, "3")], &unsorted).unwrap(), [default; 3], "all three leaves, of four fields");
    assert_eq!(modes(&[(MAX, "2")], &unsorted).unwrap(), [default, default, M::None]);
    assert_eq!(modes(&[(MAX, "1"), (DEFAULT, "full")], &unsorted).unwrap(), [M::Full; 3]);
    let own = [(DEFAULT, "Counts"), ("write.metadata.metrics.column.s.x", "truncate(4)")];
    assert_eq!(modes(&own, &unsorted).unwrap(), [M::Counts, M::Counts, M::Truncate(4)]);
    assert_eq!(modes(&[("write.metadata.metrics.column.nope", "none")], &unsorted).unwrap(), [default; 3]);

    let key = |source: i32, transform| SortField {
        source_ids: vec![FieldId(source)],
        transform,
        direction: SortDirection::Ascending,
        null_order: NullOrder::First,
        extra: serde_json::Map::new(),
    };
    let keys = vec![key(1, Transform::Bucket(2)), key(3, Transform::Truncate(2))];
    let sorted = SortOrder { order_id: SortOrderId(1), fields: keys };
    assert_eq!(modes(&[(DEFAULT, "none")], &sorted).unwrap(), [M::None, default, M::None]);
    assert_eq!(modes(&[(DEFAULT, "full")], &sorted).unwrap(), [M::Full; 3]);
    let own = [(DEFAULT, "none"), ("write.metadata.metrics.column.b", "counts")];
    assert_eq!(modes(&own, &sorted).unwrap(), [M::None, M::Counts, M::None]);

    for wrong in ["", "truncate", "truncate(0)", "truncate(-1)", "truncate(16", "some"] {
        let error = modes(&[(DEFAULT, wrong)], &unsorted).unwrap_err();
        assert!(error.to_string().contains(DEFAULT), "{error}");
    }
}
