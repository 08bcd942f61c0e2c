//! A table of the shape of TPC-H's lineitem, as Parquet files and as Iceberg tables over them.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use icefloe::IcebergTable;
use icefloe::arrow::to_arrow_schema;
use icefloe::spec::{
    Codec, ContentFile, ContentType, DeletionVector, FieldId, FileFormat, ManifestContent,
    ManifestListWriter, ManifestListWriterOptions, ManifestWriter, ManifestWriterOptions, Metrics,
    NestedField, PartitionSpec, PrimitiveType as P, Schema, SchemaId, SequenceNumber, SnapshotId, SpecId,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

/// How many rows the table has; fewer for a quick look.
pub fn row_count() -> usize {
    std::env::var("ICEFLOE_BENCH_ROWS").ok().and_then(|n| n.parse().ok()).unwrap_or(6_000_000)
}

const FILES: usize = 8;
const LINES_PER_ORDER: usize = 4;

pub fn schema() -> Schema {
    let money = || P::Decimal { precision: 15, scale: 2 };
    let fields = vec![
        NestedField::required(1, "l_orderkey", P::Long),
        NestedField::required(2, "l_partkey", P::Long),
        NestedField::required(3, "l_suppkey", P::Long),
        NestedField::required(4, "l_quantity", money()),
        NestedField::required(5, "l_extendedprice", money()),
        NestedField::required(6, "l_discount", money()),
        NestedField::required(7, "l_tax", money()),
        NestedField::required(8, "l_returnflag", P::String),
        NestedField::required(9, "l_linestatus", P::String),
        NestedField::required(10, "l_shipdate", P::Date),
        NestedField::required(11, "l_comment", P::String),
    ];
    Schema::new(SchemaId(0), fields, Vec::new()).unwrap()
}

/// Pseudo-random numbers, the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The data: Parquet files in a directory.
pub struct Data {
    pub dir: tempfile::TempDir,
    pub files: Vec<ContentFile>,
}

fn content_file(path: &Path, content: ContentType, format: FileFormat, rows: usize) -> ContentFile {
    ContentFile {
        content,
        file_path: path.to_str().unwrap().to_owned(),
        file_format: format,
        spec_id: SpecId(0),
        partition: Vec::new(),
        record_count: rows as i64,
        file_size_in_bytes: std::fs::metadata(path).unwrap().len() as i64,
        metrics: Metrics::default(),
        key_metadata: None,
        split_offsets: None,
        equality_ids: None,
        sort_order_id: None,
        first_row_id: None,
        referenced_data_file: None,
        content_offset: None,
        content_size_in_bytes: None,
    }
}

fn writer_properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(250_000))
        .build()
}

fn batch(schema: &Arc<ArrowSchema>, first: usize, rows: usize, random: &mut Random) -> RecordBatch {
    let decimal = |values: Vec<i128>| {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(15, 2).unwrap()) as ArrayRef
    };
    let mut longs = |n: u64| {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| random.below(n) as i64))) as ArrayRef
    };
    let orders =
        Arc::new(Int64Array::from_iter_values((first..first + rows).map(|i| (i / LINES_PER_ORDER) as i64)));
    let (parts, suppliers) = (longs(200_000), longs(10_000));
    let mut money = |low: u64, high: u64, unit: i128| {
        decimal((0..rows).map(|_| (low + random.below(high - low + 1)) as i128 * unit).collect())
    };
    let (quantity, price, discount, tax) =
        (money(1, 50, 100), money(90_000, 10_000_000, 1), money(0, 10, 1), money(0, 8, 1));
    let dates: Vec<i32> = (0..rows).map(|_| 8036 + random.below(2526) as i32).collect();
    let flags = StringArray::from_iter_values(dates.iter().map(|d| match (*d > 9298, d % 2) {
        (true, _) => "N",
        (false, 0) => "R",
        (false, _) => "A",
    }));
    let status = StringArray::from_iter_values(dates.iter().map(|d| if *d > 9298 { "O" } else { "F" }));
    let words =
        ["carefully", "final", "deposits", "sleep", "furiously", "regular", "accounts", "about", "the"];
    let comments = StringArray::from_iter_values((0..rows).map(|_| {
        let mut word = || words[random.below(9) as usize];
        format!("{} {} {}", word(), word(), word())
    }));
    let columns: Vec<ArrayRef> = vec![
        orders,
        parts,
        suppliers,
        quantity,
        price,
        discount,
        tax,
        Arc::new(flags),
        Arc::new(status),
        Arc::new(Date32Array::from(dates)),
        Arc::new(comments),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

impl Data {
    pub fn write(rows: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("data")).unwrap();
        // As a file has it: no views.
        let fields: Vec<Field> = to_arrow_schema(&schema())
            .unwrap()
            .fields()
            .iter()
            .map(|f| match f.data_type() {
                DataType::Utf8View => f.as_ref().clone().with_data_type(DataType::Utf8),
                _ => f.as_ref().clone(),
            })
            .collect();
        let arrow = Arc::new(ArrowSchema::new(fields));
        let share = rows.div_ceil(FILES);
        let write = |n: usize| {
            let path = dir.path().join(format!("data/part-{n}.parquet"));
            let file = std::fs::File::create(&path).unwrap();
            let mut writer =
                ArrowWriter::try_new(file, Arc::clone(&arrow), Some(writer_properties())).unwrap();
            let mut random = Random::new(n as u64 + 1);
            let (start, end) = (n * share, rows.min((n + 1) * share));
            for first in (start..end).step_by(50_000) {
                writer.write(&batch(&arrow, first, 50_000.min(end - first), &mut random)).unwrap();
            }
            writer.close().unwrap();
            content_file(&path, ContentType::Data, FileFormat::Parquet, end - start)
        };
        let mut files = std::thread::scope(|scope| {
            let halves: Vec<_> = (0..2)
                .map(|half| scope.spawn(move || (half..FILES).step_by(2).map(write).collect::<Vec<_>>()))
                .collect();
            halves.into_iter().flat_map(|h| h.join().unwrap()).collect::<Vec<_>>()
        });
        files.sort_by(|a, b| a.file_path.cmp(&b.file_path));
        Self { dir, files }
    }

    /// Deletion vectors of every row whose number gives 0 modulo `every`, all in one Puffin file.
    pub fn vectors(&self, every: u64) -> Vec<ContentFile> {
        let path = self.dir.path().join(format!("vectors-{every}.puffin"));
        let mut bytes = b"PFA1".to_vec();
        let mut places = Vec::new();
        for file in &self.files {
            let mut vector = DeletionVector::new();
            let mut random = Random::new(every);
            for position in 0..file.record_count as u64 {
                if random.below(every) == 0 {
                    vector.insert(position).unwrap();
                }
            }
            let blob = vector.to_bytes().unwrap();
            places.push((bytes.len(), blob.len(), vector.len()));
            bytes.extend(blob);
        }
        std::fs::write(&path, bytes).unwrap();
        let described = self.files.iter().zip(places).map(|(file, (offset, size, rows))| ContentFile {
            referenced_data_file: Some(file.file_path.clone()),
            content_offset: Some(offset as i64),
            content_size_in_bytes: Some(size as i64),
            ..content_file(&path, ContentType::PositionDeletes, FileFormat::Puffin, rows as usize)
        });
        described.collect()
    }

    /// Position delete files: `commits` of them, together one row in `every`, each over all data files.
    pub fn positions(&self, every: u64, commits: u64) -> Vec<ContentFile> {
        let with_id = |name: &str, t: DataType, id: i32| {
            Field::new(name, t, false).with_metadata([("PARQUET:field_id".to_owned(), id.to_string())].into())
        };
        let arrow = Arc::new(ArrowSchema::new(vec![
            with_id("file_path", DataType::Utf8, i32::MAX - 101),
            with_id("pos", DataType::Int64, i32::MAX - 102),
        ]));
        let write = |commit: u64| {
            let path = self.dir.path().join(format!("positions-{commit}.parquet"));
            let out = std::fs::File::create(&path).unwrap();
            let mut writer =
                ArrowWriter::try_new(out, Arc::clone(&arrow), Some(writer_properties())).unwrap();
            let mut total = 0;
            for file in &self.files {
                let mut random = Random::new(every);
                let deleted: Vec<i64> = (0..file.record_count)
                    .filter(|p| random.below(every) == 0 && *p as u64 % commits == commit)
                    .collect();
                total += deleted.len();
                let paths = StringArray::from_iter_values(deleted.iter().map(|_| &file.file_path));
                let columns: Vec<ArrayRef> = vec![Arc::new(paths), Arc::new(Int64Array::from(deleted))];
                writer.write(&RecordBatch::try_new(Arc::clone(&arrow), columns).unwrap()).unwrap();
            }
            writer.close().unwrap();
            content_file(&path, ContentType::PositionDeletes, FileFormat::Parquet, total)
        };
        (0..commits).map(write).collect()
    }

    /// Equality delete files of one order in a hundred, spread over `commits` files.
    pub fn keys(&self, commits: u64) -> Vec<ContentFile> {
        let orders: i64 = self.files.iter().map(|f| f.record_count).sum::<i64>() / LINES_PER_ORDER as i64;
        let field = Field::new("l_orderkey", DataType::Int64, false)
            .with_metadata([("PARQUET:field_id".to_owned(), "1".to_owned())].into());
        let arrow = Arc::new(ArrowSchema::new(vec![field]));
        let write = |commit: u64| {
            let path = self.dir.path().join(format!("keys-{commit}.parquet"));
            let out = std::fs::File::create(&path).unwrap();
            let mut writer =
                ArrowWriter::try_new(out, Arc::clone(&arrow), Some(writer_properties())).unwrap();
            let keys: Vec<i64> =
                (0..orders).filter(|o| o % 100 == 37 && (*o / 100) as u64 % commits == commit).collect();
            let rows = keys.len();
            writer
                .write(
                    &RecordBatch::try_new(Arc::clone(&arrow), vec![Arc::new(Int64Array::from(keys))])
                        .unwrap(),
                )
                .unwrap();
            writer.close().unwrap();
            ContentFile {
                equality_ids: Some(vec![FieldId(1)]),
                ..content_file(&path, ContentType::EqualityDeletes, FileFormat::Parquet, rows)
            }
        };
        (0..commits).map(write).collect()
    }

    /// Writes the metadata of a table over the data files, with each delete file its own commit;
    /// returns the metadata file.
    pub fn table(&self, name: &str, format_version: u8, deletes: &[ContentFile]) -> PathBuf {
        let dir = self.dir.path().join(name).join("metadata");
        std::fs::create_dir_all(&dir).unwrap();
        let (schema, spec) = (schema(), PartitionSpec::default());
        let partition_type = spec.partition_type(&schema);
        let snapshot_id = SnapshotId(1);
        let last = SequenceNumber(1 + deletes.len() as i64);
        let mut list = ManifestListWriter::new(ManifestListWriterOptions {
            format_version,
            snapshot_id,
            parent_snapshot_id: None,
            sequence_number: last,
            first_row_id: (format_version >= 3).then_some(0),
            codec: Codec::Deflate,
        })
        .unwrap();
        let mut manifest = |content: ManifestContent, files: &[ContentFile], number: i64, name: String| {
            let mut writer = ManifestWriter::new(ManifestWriterOptions {
                format_version,
                schema: &schema,
                spec: &spec,
                partition_type: &partition_type,
                content,
                snapshot_id: Some(snapshot_id),
                codec: Codec::Deflate,
            })
            .unwrap();
            for file in files {
                writer.add(file, None).unwrap();
            }
            let path = dir.join(name);
            let (bytes, mut described) = writer.finish(path.to_str().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            described.sequence_number = SequenceNumber(number);
            described.min_sequence_number = SequenceNumber(number);
            if format_version >= 3 && content == ManifestContent::Data {
                described.first_row_id = Some(0);
            }
            list.add(&described).unwrap();
        };
        manifest(ManifestContent::Data, &self.files, 1, "data.avro".to_owned());
        for (i, file) in deletes.iter().enumerate() {
            let number = i as i64 + 2;
            manifest(
                ManifestContent::Deletes,
                std::slice::from_ref(file),
                number,
                format!("deletes-{i}.avro"),
            );
        }
        let list_path = dir.join("snap-1.avro");
        std::fs::write(&list_path, list.finish().unwrap()).unwrap();
        let rows: i64 = self.files.iter().map(|f| f.record_count).sum();
        let mut snapshot = serde_json::json!({
            "snapshot-id": 1, "sequence-number": last.0, "timestamp-ms": 1_700_000_000_000_i64,
            "manifest-list": list_path.to_str().unwrap(), "summary": {"operation": "append"}, "schema-id": 0,
        });
        let mut metadata = serde_json::json!({
            "format-version": format_version, "table-uuid": "11111111-2222-3333-4444-555555555555",
            "location": self.dir.path().join(name).to_str().unwrap(), "last-sequence-number": last.0,
            "last-updated-ms": 1_700_000_000_000_i64, "last-column-id": 11, "current-schema-id": 0,
            "schemas": [schema.to_json().unwrap()], "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
            "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {}, "current-snapshot-id": 1,
            "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
        });
        if format_version >= 3 {
            metadata["next-row-id"] = rows.into();
            snapshot["first-row-id"] = 0.into();
            snapshot["added-rows"] = rows.into();
        }
        metadata["snapshots"] = serde_json::json!([snapshot]);
        let path = dir.join("v1.metadata.json");
        std::fs::write(&path, metadata.to_string()).unwrap();
        path
    }

    /// A session with the raw files as the table `raw`.
    pub async fn session(&self) -> SessionContext {
        let context = SessionContext::new_with_config(SessionConfig::new());
        let files = self.dir.path().join("data");
        context
            .register_parquet("raw", files.to_str().unwrap(), ParquetReadOptions::default())
            .await
            .unwrap();
        context
    }
}

/// Registers a table by its metadata file.
pub async fn register(context: &SessionContext, name: &str, metadata: &Path) {
    let table = IcebergTable::open(metadata.to_str().unwrap()).await.unwrap();
    context.register_table(name, Arc::new(table)).unwrap();
}

/// Runs a query to its end; returns the number of rows.
pub async fn run(context: &SessionContext, sql: &str) -> usize {
    context.sql(sql).await.unwrap().collect().await.unwrap().iter().map(RecordBatch::num_rows).sum()
}

/// The queries over a table, by name.
pub fn queries(table: &str) -> Vec<(&'static str, String)> {
    vec![
        ("filtered_count", format!("SELECT count(*) FROM {table} WHERE l_quantity < 24")),
        ("sums", format!("SELECT sum(l_quantity), sum(l_extendedprice), sum(l_discount) FROM {table}")),
        (
            "tpch_q1",
            format!(
                "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), \
                 sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), \
                 avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*) FROM {table} \
                 WHERE l_shipdate <= date '1998-09-02' GROUP BY 1, 2 ORDER BY 1, 2"
            ),
        ),
        (
            "tpch_q6",
            format!(
                "SELECT sum(l_extendedprice * l_discount) FROM {table} WHERE l_shipdate >= date '1994-01-01' \
                 AND l_shipdate < date '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
            ),
        ),
    ]
}

/// Times two things in turn and prints the ratio of the first to the second, pair by pair.
pub fn compare(label: &str, rounds: usize, mut ours: impl FnMut(), mut unit: impl FnMut()) -> f64 {
    let timed = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    timed(&mut ours);
    timed(&mut unit);
    let mut pairs: Vec<(f64, Duration, Duration)> = (0..rounds)
        .map(|_| {
            let (b, a) = (timed(&mut unit), timed(&mut ours));
            (a.as_secs_f64() / b.as_secs_f64(), a, b)
        })
        .collect();
    pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (ratio, a, b) = pairs[pairs.len() / 2];
    println!(
        "{label:<44} {ratio:5.2}  ({:.2} to {:.2}; median pair {:.1} ms to {:.1} ms)",
        pairs[0].0,
        pairs[pairs.len() - 1].0,
        a.as_secs_f64() * 1e3,
        b.as_secs_f64() * 1e3
    );
    ratio
}
