//! A table as large as a benchmark wants it, made by the crate's own writers: metrics on ten
//! columns, partitioned by day over ten years, deflate. No data files are written.

#![allow(dead_code, clippy::expect_used)] // Each bench uses what it needs.

use std::collections::BTreeMap;
use std::io::Read;

use bytes::Bytes;
use icefloe::spec::{
    Codec, ContentFile, ContentType, FieldId, FileFormat, ManifestContent, ManifestFile, ManifestListWriter,
    ManifestListWriterOptions, ManifestWriter, ManifestWriterOptions, MetricMaps, NestedField,
    PartitionField, PartitionSpec, PrimitiveType, Schema, SchemaId, SequenceNumber, SnapshotId, SortOrderId,
    SpecId, Transform, Value,
};

/// The first day, 2015-01-01, in days since 1970.
pub const FIRST_DAY: i32 = 16_436;
/// Ten years of days.
pub const DAYS: i32 = 3_650;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// `id` and `ts`, then four numbers and four strings.
pub fn schema() -> Schema {
    let mut fields = vec![
        NestedField::required(1, "id", PrimitiveType::Long),
        NestedField::required(2, "ts", PrimitiveType::Timestamptz),
    ];
    fields.extend((3..=6).map(|id| NestedField::optional(id, format!("number_{id}"), PrimitiveType::Double)));
    fields.extend((7..=10).map(|id| NestedField::optional(id, format!("text_{id}"), PrimitiveType::String)));
    Schema::new(SchemaId(0), fields, vec![]).expect("a valid schema")
}

/// `day(ts)`.
pub fn spec() -> PartitionSpec {
    let day = PartitionField {
        source_ids: vec![FieldId(2)],
        field_id: FieldId(1000),
        name: "ts_day".into(),
        transform: Transform::Day,
        extra: Default::default(),
    };
    PartitionSpec { spec_id: SpecId(0), fields: vec![day] }
}

/// The day of a file of a table with that many files: they follow the calendar.
fn day_of(number: usize, files: usize) -> i32 {
    FIRST_DAY + (number * DAYS as usize / files) as i32
}

fn data_file(number: usize, files: usize) -> ContentFile {
    let day = day_of(number, files);
    let rows = 10_000 + (number as i64 * 7919) % 5_000;
    // Spread like hashes, so that it compresses no better than real statistics do.
    let noise = |salt: u64| {
        (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
            ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let ids = || (1..=10).map(FieldId);
    let counts = |value: &dyn Fn(FieldId) -> i64| ids().map(|id| (id, value(id))).collect::<BTreeMap<_, _>>();
    let bound = |id: FieldId, upper: bool| -> Bytes {
        let salt = id.0 as u64 * 2 + u64::from(upper);
        match id.0 {
            1 => (number as i64 * 20_000 + if upper { rows } else { 0 }).to_le_bytes().to_vec().into(),
            2 => {
                let within = (noise(salt) % 3_600_000_000) as i64;
                let start = i64::from(day) * MICROS_PER_DAY;
                let micros = if upper { start + MICROS_PER_DAY - 1 - within } else { start + within };
                micros.to_le_bytes().to_vec().into()
            }
            3..=6 => {
                let base = (noise(salt) % 1_000_000) as f64 / 1000.0;
                (if upper { base + 1000.0 } else { base }).to_le_bytes().to_vec().into()
            }
            _ => format!("{}{:013x}", if upper { 'y' } else { 'b' }, noise(salt) >> 12).into_bytes().into(),
        }
    };
    let metrics = MetricMaps {
        column_sizes: counts(&|id| 20_000 + (noise(id.0 as u64) % 30_000) as i64),
        value_counts: counts(&|_| rows),
        null_value_counts: counts(&|id| if id.0 < 3 { 0 } else { (noise(id.0 as u64 + 50) % 100) as i64 }),
        nan_value_counts: (3..=6).map(|id| (FieldId(id), 0)).collect(),
        lower_bounds: ids().map(|id| (id, bound(id, false))).collect(),
        upper_bounds: ids().map(|id| (id, bound(id, true))).collect(),
    };
    ContentFile {
        content: ContentType::Data,
        file_path: format!(
            "s3://warehouse/db/events/data/ts_day={day}/{:05}-{number}-{:016x}-00001.parquet",
            number % 200,
            noise(99)
        ),
        file_format: FileFormat::Parquet,
        spec_id: SpecId(0),
        partition: vec![Some(Value::Date(day))],
        record_count: rows,
        file_size_in_bytes: 300_000 + (noise(7) % 100_000) as i64,
        metrics: metrics.into(),
        key_metadata: None,
        split_offsets: Some(vec![4]),
        equality_ids: None,
        sort_order_id: Some(SortOrderId(0)),
        first_row_id: None,
        referenced_data_file: None,
        content_offset: None,
        content_size_in_bytes: None,
    }
}

/// A manifest of the files `range` out of `files`, as it would lie at `path`.
pub fn manifest(range: std::ops::Range<usize>, files: usize, path: String) -> (Bytes, ManifestFile) {
    let (schema, spec) = (schema(), spec());
    let partition_type = spec.partition_type(&schema);
    let options = ManifestWriterOptions {
        format_version: 2,
        schema: &schema,
        spec: &spec,
        partition_type: &partition_type,
        content: ManifestContent::Data,
        snapshot_id: Some(SnapshotId(1)),
        codec: Codec::Deflate,
    };
    let mut writer = ManifestWriter::new(options).expect("a manifest");
    for number in range {
        writer.add(&data_file(number, files), None).expect("a data file");
    }
    writer.finish(path).expect("a manifest")
}

/// What no reader can do without: inflates every block of a container file and drops it. Gives
/// the number of bytes.
pub fn inflate(file: &[u8]) -> usize {
    fn long(input: &mut &[u8]) -> i64 {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = input[0];
            *input = &input[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return (value >> 1) as i64 ^ -((value & 1) as i64);
            }
        }
    }
    let mut rest = &file[4..];
    let skip = |rest: &mut &[u8]| {
        let length = long(rest) as usize;
        *rest = &rest[length..];
    };
    let entries = long(&mut rest);
    for _ in 0..entries * 2 {
        skip(&mut rest);
    }
    assert_eq!(long(&mut rest), 0, "one block of metadata");
    rest = &rest[16..];
    let mut total = 0;
    let mut buffer = Vec::with_capacity(1 << 17);
    while !rest.is_empty() {
        long(&mut rest);
        let length = long(&mut rest) as usize;
        buffer.clear();
        total +=
            flate2::read::DeflateDecoder::new(&rest[..length]).read_to_end(&mut buffer).expect("deflate");
        std::hint::black_box(&buffer);
        rest = &rest[length + 16..];
    }
    total
}

/// Writes a table of that many files, evenly in that many manifests, into an empty directory.
/// Gives the bytes of its manifests.
pub fn table(directory: &std::path::Path, files: usize, manifests: usize) -> Vec<Bytes> {
    let metadata = directory.join("metadata");
    std::fs::create_dir_all(&metadata).expect("a directory");
    let path = |name: String| metadata.join(name).to_str().expect("UTF-8").to_owned();
    let mut list = ManifestListWriter::new(ManifestListWriterOptions {
        format_version: 2,
        snapshot_id: SnapshotId(1),
        parent_snapshot_id: None,
        sequence_number: SequenceNumber(1),
        first_row_id: None,
        codec: Codec::Deflate,
    })
    .expect("a manifest list");
    let mut all = Vec::with_capacity(manifests);
    for n in 0..manifests {
        let range = files * n / manifests..files * (n + 1) / manifests;
        let (bytes, file) = manifest(range, files, path(format!("{n:04}-m0.avro")));
        std::fs::write(&file.manifest_path, &bytes).expect("a manifest");
        list.add(&file).expect("a manifest");
        all.push(bytes);
    }
    let list_path = path("snap-1-1.avro".into());
    std::fs::write(&list_path, list.finish().expect("a manifest list")).expect("a manifest list");
    let json = serde_json::json!({
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": directory,
        "last-sequence-number": 1,
        "last-updated-ms": 1_700_000_000_000i64,
        "last-column-id": 10,
        "schemas": [schema().to_json().expect("a schema")],
        "current-schema-id": 0,
        "partition-specs": [spec().to_json()],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "current-snapshot-id": 1,
        "snapshots": [{
            "snapshot-id": 1,
            "sequence-number": 1,
            "timestamp-ms": 1_700_000_000_000i64,
            "manifest-list": list_path,
            "summary": {"operation": "append"},
            "schema-id": 0,
        }],
        "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
    });
    std::fs::write(path("v1.metadata.json".into()), json.to_string()).expect("metadata");
    all
}
