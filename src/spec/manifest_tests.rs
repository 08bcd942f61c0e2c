//! Manifests and manifest lists: what we write, we and others can read; what others wrote, too.

use std::collections::BTreeMap;

use apache_avro::types::Value as Avro;
use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::error::Result;

fn transformed(id: i32, source: i32, name: &str, transform: Transform) -> PartitionField {
    PartitionField {
        source_ids: vec![FieldId(source)],
        field_id: FieldId(id),
        name: name.into(),
        transform,
        extra: Default::default(),
    }
}

fn identity(id: i32, source: i32, name: &str) -> PartitionField {
    transformed(id, source, name, Transform::Identity)
}

/// A column of every type that can be a partition value.
fn types() -> Vec<PrimitiveType> {
    use PrimitiveType as P;
    vec![
        P::Boolean,
        P::Int,
        P::Long,
        P::Float,
        P::Double,
        P::Decimal { precision: 9, scale: 2 },
        P::Decimal { precision: 38, scale: 10 },
        P::Date,
        P::Time,
        P::Timestamp,
        P::Timestamptz,
        P::TimestampNs,
        P::TimestamptzNs,
        P::String,
        P::Uuid,
        P::Fixed(3),
        P::Binary,
    ]
}

fn wide_table() -> (Schema, PartitionSpec) {
    let columns = types().into_iter().enumerate();
    let columns: Vec<_> =
        columns.map(|(i, t)| NestedField::optional(i as i32 + 1, format!("c {i}"), t)).collect();
    let fields = columns.iter().map(|c| identity(1000 + c.id.0, c.id.0, &format!("{} p", c.name))).collect();
    let schema = Schema::new(SchemaId(3), columns, vec![]).unwrap();
    (schema, PartitionSpec { spec_id: SpecId(7), fields })
}

fn value_of(t: PrimitiveType) -> BoxedStrategy<Value> {
    use PrimitiveType as P;
    match t {
        P::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        P::Int => any::<i32>().prop_map(Value::Int).boxed(),
        P::Long => any::<i64>().prop_map(Value::Long).boxed(),
        P::Float => any::<u32>().prop_map(|b| Value::Float(f32::from_bits(b))).boxed(),
        P::Double => any::<u64>().prop_map(|b| Value::Double(f64::from_bits(b))).boxed(),
        P::Decimal { precision, scale } => {
            let limit = 10i128.pow(precision) - 1;
            (-limit..=limit).prop_map(move |v| Value::Decimal(v, scale)).boxed()
        }
        P::Date => any::<i32>().prop_map(Value::Date).boxed(),
        P::Time => any::<i64>().prop_map(Value::Time).boxed(),
        P::Timestamp => any::<i64>().prop_map(Value::Timestamp).boxed(),
        P::Timestamptz => any::<i64>().prop_map(Value::Timestamptz).boxed(),
        P::TimestampNs => any::<i64>().prop_map(Value::TimestampNs).boxed(),
        P::TimestamptzNs => any::<i64>().prop_map(Value::TimestamptzNs).boxed(),
        P::String => ".{0,8}".prop_map(Value::String).boxed(),
        P::Uuid => any::<u128>().prop_map(|v| Value::Uuid(uuid::Uuid::from_u128(v))).boxed(),
        P::Fixed(n) => prop::collection::vec(any::<u8>(), n as usize).prop_map(Value::Fixed).boxed(),
        P::Binary => prop::collection::vec(any::<u8>(), 0..9).prop_map(Value::Binary).boxed(),
        other => panic!("{other}"),
    }
}

fn a_file(spec: &PartitionSpec, number: i32) -> ContentFile {
    let column = |n: i32| FieldId(n);
    let counts =
        |base: i64| (1..=3).map(|n| (column(n), base + i64::from(number))).collect::<BTreeMap<_, _>>();
    let bounds = |byte: u8| (1..=3).map(|n| (column(n), Bytes::from(vec![byte; n as usize]))).collect();
    let maps = MetricMaps {
        column_sizes: counts(1000),
        value_counts: counts(100),
        null_value_counts: counts(0),
        nan_value_counts: BTreeMap::new(),
        lower_bounds: bounds(1),
        upper_bounds: bounds(2),
    };
    ContentFile {
        content: ContentType::Data,
        file_path: format!("s3://bucket/t/data/größe {number}%2F.parquet"),
        file_format: FileFormat::Parquet,
        spec_id: spec.spec_id,
        partition: vec![None; spec.fields.len()],
        record_count: i64::from(number) + 10,
        file_size_in_bytes: 12_345,
        metrics: maps.into(),
        key_metadata: Some(vec![1, 2, 3]),
        split_offsets: Some(vec![4, 1000]),
        equality_ids: None,
        sort_order_id: Some(SortOrderId(1)),
        first_row_id: None,
        referenced_data_file: None,
        content_offset: None,
        content_size_in_bytes: None,
    }
}

fn options<'a>(
    version: u8,
    (schema, spec): &'a (Schema, PartitionSpec),
    partition_type: &'a StructType,
) -> ManifestWriterOptions<'a> {
    ManifestWriterOptions {
        format_version: version,
        schema,
        spec,
        partition_type,
        content: ManifestContent::Data,
        snapshot_id: Some(SnapshotId(99)),
        codec: Codec::default(),
    }
}

fn entry(status: ManifestStatus, sequence_number: i64, file: ContentFile) -> ManifestEntry {
    ManifestEntry {
        status,
        snapshot_id: Some(SnapshotId(50)),
        sequence_number: Some(SequenceNumber(sequence_number)),
        file_sequence_number: Some(SequenceNumber(sequence_number + 1)),
        data_file: file.into(),
    }
}

/// Added, existing, deleted, added with an old sequence number.
fn a_manifest(version: u8) -> (Bytes, ManifestFile, (Schema, PartitionSpec)) {
    let table = wide_table();
    let partition_type = table.1.partition_type(&table.0);
    let mut writer = ManifestWriter::new(options(version, &table, &partition_type)).unwrap();
    writer.add(&a_file(&table.1, 0), None).unwrap();
    let mut existing = a_file(&table.1, 1);
    existing.first_row_id = Some(7000);
    writer.existing(&entry(ManifestStatus::Added, 3, existing)).unwrap();
    writer.delete(&entry(ManifestStatus::Existing, 2, a_file(&table.1, 2))).unwrap();
    writer.add(&a_file(&table.1, 3), Some(SequenceNumber(5))).unwrap();
    let (bytes, file) = writer.finish("s3://bucket/t/metadata/m0.avro").unwrap();
    (bytes, file, table)
}

fn parse(bytes: &Bytes, file: &ManifestFile, table: &(Schema, PartitionSpec)) -> Result<Manifest> {
    Manifest::parse(bytes.clone(), file, &table.1, &table.1.partition_type(&table.0))
}

#[test]
fn entries_round_trip_and_inherit() {
    for version in 1..=3 {
        let (bytes, mut file, table) = a_manifest(version);
        assert_eq!(file.manifest_length, bytes.len() as i64);
        assert_eq!(file.sequence_number, UNASSIGNED_SEQUENCE_NUMBER);
        assert_eq!(file.min_sequence_number, SequenceNumber(3), "the smallest of the live ones");
        let counts = (file.added_files_count, file.existing_files_count, file.deleted_files_count);
        assert_eq!(counts, (Some(2), Some(1), Some(1)));
        let rows = (file.added_rows_count, file.existing_rows_count, file.deleted_rows_count);
        assert_eq!(rows, (Some(10 + 13), Some(11), Some(12)));
        file.sequence_number = SequenceNumber(if version == 1 { 0 } else { 8 });
        file.first_row_id = (version == 3).then_some(100);
        let manifest = parse(&bytes, &file, &table).unwrap();
        assert_eq!(manifest.header.format_version, version);
        assert_eq!(manifest.header.partition_spec_id, Some(SpecId(7)));
        assert_eq!(manifest.header.schema_id, Some(SchemaId(3)));
        let [added, existing, deleted, old] = manifest.entries.as_slice() else { panic!() };
        let numbers = |e: &ManifestEntry| {
            (
                e.status,
                e.snapshot_id.unwrap().0,
                e.sequence_number.unwrap().0,
                e.file_sequence_number.unwrap().0,
            )
        };
        let all = [added, existing, deleted, old].map(numbers);
        use ManifestStatus::*;
        if version == 1 {
            assert_eq!(
                all,
                [(Added, 99, 0, 0), (Existing, 50, 0, 0), (Deleted, 99, 0, 0), (Added, 99, 0, 0)]
            );
        } else {
            assert_eq!(
                all,
                [(Added, 99, 8, 8), (Existing, 50, 3, 4), (Deleted, 99, 2, 3), (Added, 99, 5, 8)]
            );
        }
        let row_ids = [added, existing, deleted, old].map(|e| e.data_file.first_row_id);
        match version {
            3 => assert_eq!(row_ids, [Some(100), Some(7000), None, Some(110)]),
            _ => assert_eq!(row_ids, [None; 4]),
        }
        for (i, e) in manifest.entries.iter().enumerate() {
            let mut expected = a_file(&table.1, i as i32);
            expected.first_row_id = e.data_file.first_row_id;
            assert_eq!(*e.data_file, expected, "version {version}");
        }
        agrees_with_apache_avro(&bytes, &manifest);
    }
}

#[test]
fn snapshot_ids_are_inherited() {
    let table = wide_table();
    let partition_type = table.1.partition_type(&table.0);
    let options = ManifestWriterOptions { snapshot_id: None, ..options(2, &table, &partition_type) };
    let mut writer = ManifestWriter::new(options).unwrap();
    writer.add(&a_file(&table.1, 0), None).unwrap();
    let (bytes, mut file) = writer.finish("m").unwrap();
    file.added_snapshot_id = Some(SnapshotId(5));
    file.sequence_number = SequenceNumber(2);
    let manifest = parse(&bytes, &file, &table).unwrap();
    assert_eq!(manifest.entries[0].snapshot_id, Some(SnapshotId(5)));
    assert!(
        ManifestWriter::new(ManifestWriterOptions { format_version: 1, ..options }).is_err(),
        "version 1 can't inherit"
    );
}

#[test]
fn delete_files_round_trip() {
    let table = wide_table();
    let partition_type = table.1.partition_type(&table.0);
    let base =
        ContentFile { content: ContentType::PositionDeletes, sort_order_id: None, ..a_file(&table.1, 0) };
    let equality = ContentFile {
        content: ContentType::EqualityDeletes,
        equality_ids: Some(vec![FieldId(1), FieldId(-2)]),
        sort_order_id: Some(SortOrderId(2)),
        ..base.clone()
    };
    let position = ContentFile { referenced_data_file: Some("s3://x".into()), ..base.clone() };
    let vector = ContentFile {
        file_format: FileFormat::Puffin,
        content_offset: Some(4),
        content_size_in_bytes: Some(50),
        ..position.clone()
    };
    for version in 2..=3 {
        let options = ManifestWriterOptions {
            content: ManifestContent::Deletes,
            ..options(version, &table, &partition_type)
        };
        let mut writer = ManifestWriter::new(options).unwrap();
        writer.add(&equality, None).unwrap();
        writer.add(&position, None).unwrap();
        assert_eq!(writer.add(&vector, None).is_ok(), version == 3, "deletion vectors came with version 3");
        if version == 2 {
            continue;
        }
        let (bytes, mut file) = writer.finish("m").unwrap();
        file.sequence_number = SequenceNumber(2);
        file.first_row_id = Some(3);
        let manifest = parse(&bytes, &file, &table).unwrap();
        assert_eq!(manifest.header.content, ManifestContent::Deletes);
        let files: Vec<_> = manifest.entries.iter().map(|e| (*e.data_file).clone()).collect();
        assert_eq!(files, [equality.clone(), position.clone(), vector.clone()], "and no row ids");

        // A scan that took one for the other would be wrong.
        file.content = ManifestContent::Data;
        assert!(parse(&bytes, &file, &table).is_err());
    }
    let mut data = ManifestWriter::new(options(2, &table, &partition_type)).unwrap();
    assert!(data.add(&position, None).is_err());
    let deletes =
        ManifestWriterOptions { content: ManifestContent::Deletes, ..options(1, &table, &partition_type) };
    assert!(ManifestWriter::new(deletes).is_err());
}

#[test]
fn summaries_bound_the_partitions() {
    let columns = vec![NestedField::optional(1, "d", PrimitiveType::Double)];
    let table = (
        Schema::new(SchemaId(0), columns, vec![]).unwrap(),
        PartitionSpec { spec_id: SpecId(0), fields: vec![identity(1000, 1, "d")] },
    );
    let partition_type = table.1.partition_type(&table.0);
    let summary = |values: &[Option<f64>]| {
        let mut writer = ManifestWriter::new(options(2, &table, &partition_type)).unwrap();
        for v in values {
            let file = ContentFile { partition: vec![v.map(Value::Double)], ..a_file(&table.1, 0) };
            writer.add(&file, None).unwrap();
        }
        writer.finish("m").unwrap().1.partitions.unwrap().remove(0)
    };
    let bytes = |v: f64| Some(v.to_le_bytes().to_vec());
    let s = summary(&[Some(0.0), None, Some(-0.0), Some(f64::NAN)]);
    assert_eq!((s.contains_null, s.contains_nan), (true, Some(true)));
    assert_eq!((s.lower_bound, s.upper_bound), (bytes(-0.0), bytes(0.0)));
    let s = summary(&[Some(f64::NAN)]);
    assert_eq!((s.contains_null, s.contains_nan), (false, Some(true)));
    assert_eq!((s.lower_bound, s.upper_bound), (None, None));
    let s = summary(&[Some(3.5), Some(-2.0)]);
    assert_eq!((s.contains_null, s.contains_nan), (false, Some(false)));
    assert_eq!((s.lower_bound, s.upper_bound), (bytes(-2.0), bytes(3.5)));
}

#[test]
fn wrong_tuples_are_not_written() {
    let table = wide_table();
    let partition_type = table.1.partition_type(&table.0);
    let write = |partition| {
        let mut writer = ManifestWriter::new(options(2, &table, &partition_type)).unwrap();
        writer.add(&ContentFile { partition, ..a_file(&table.1, 0) }, None)
    };
    assert!(write(vec![]).is_err());
    let mut tuple = vec![None; types().len()];
    tuple[0] = Some(Value::Int(1));
    let e = write(tuple.clone()).unwrap_err().to_string();
    assert!(e.contains("partition field `c 0 p`"), "{e}");
    tuple[0] = None;
    tuple[5] = Some(Value::Decimal(1_000_000_000, 2));
    assert!(write(tuple).is_err(), "ten digits");
}

/// The types of columns that were dropped since are taken from the manifest, so that the tuples
/// can be compared and written again.
#[test]
fn partitions_of_dropped_columns_keep_their_values() {
    let table = wide_table();
    let partition_type = table.1.partition_type(&table.0);
    let mut writer = ManifestWriter::new(options(2, &table, &partition_type)).unwrap();
    let mut file = a_file(&table.1, 0);
    file.partition[13] = Some(Value::String("x".into()));
    file.partition[7] = Some(Value::Date(-3));
    writer.add(&file, None).unwrap();
    let (bytes, list_entry) = writer.finish("m").unwrap();
    let without = Schema::new(SchemaId(4), vec![], vec![]).unwrap();
    let unknown = table.1.partition_type(&without);
    assert_eq!(unknown.fields[13].field_type.as_primitive(), Some(&PrimitiveType::Unknown));
    let manifest = Manifest::parse(bytes, &list_entry, &table.1, &unknown).unwrap();
    assert_eq!(manifest.entries[0].data_file.partition, file.partition);
    assert_eq!(manifest.partition_type, partition_type);
}

#[test]
fn a_day_is_read_from_an_int_and_a_date() {
    let day = |t: &str, wanted: PrimitiveType| {
        let schema = format!(
            r#"{{"type":"record","name":"r102","fields":[{{"name":"d","type":["null",{t}],"field-id":1000}}]}}"#
        );
        let schema = avro::AvroSchema::parse(&schema).unwrap();
        let wanted = StructType::new(vec![NestedField::optional(1000, "d", wanted)]);
        let plan = manifest_partition::PartitionPlan::new(&schema, schema.root(), &wanted).unwrap();
        plan.read(&schema, &mut avro::Cursor::new(&[2, 5])).map(|mut v| v.remove(0))
    };
    let date = r#"{"type":"int","logicalType":"date"}"#;
    use PrimitiveType as P;
    for (stored, wanted, value) in [
        (date, P::Date, Value::Date(-3)),
        (r#""int""#, P::Date, Value::Date(-3)),
        (date, P::Int, Value::Int(-3)),
        (r#""int""#, P::Long, Value::Long(-3)),
        (r#""long""#, P::Timestamptz, Value::Timestamptz(-3)),
        (date, P::Timestamp, Value::Timestamp(-3 * 86_400_000_000)),
        (date, P::TimestampNs, Value::TimestampNs(-3 * 86_400_000_000_000)),
    ] {
        assert_eq!(day(stored, wanted).unwrap(), Some(value));
    }
    for (stored, wanted) in [
        (r#"{"type":"long","logicalType":"timestamp-millis"}"#, P::Timestamp),
        (r#"{"type":"long","logicalType":"timestamp-nanos"}"#, P::Timestamp),
        (r#""int""#, P::String),
    ] {
        let e = day(stored, wanted).unwrap_err().to_string();
        assert!(e.contains("partition field `d`"), "{e}");
    }
}

fn a_list_entry() -> ManifestFile {
    ManifestFile {
        manifest_path: "file:/x/m 1.avro".into(),
        manifest_length: 4000,
        partition_spec_id: SpecId(3),
        content: ManifestContent::Data,
        sequence_number: UNASSIGNED_SEQUENCE_NUMBER,
        min_sequence_number: SequenceNumber(2),
        added_snapshot_id: Some(SnapshotId(9)),
        added_files_count: Some(1),
        existing_files_count: Some(2),
        deleted_files_count: Some(3),
        added_rows_count: Some(4),
        existing_rows_count: Some(5),
        deleted_rows_count: Some(6),
        partitions: Some(vec![
            FieldSummary {
                contains_null: true,
                contains_nan: None,
                lower_bound: None,
                upper_bound: Some(vec![1, 2]),
            },
            FieldSummary {
                contains_null: false,
                contains_nan: Some(false),
                lower_bound: Some(vec![]),
                upper_bound: Some(vec![9]),
            },
        ]),
        key_metadata: Some(vec![7]),
        first_row_id: Some(11),
    }
}

#[test]
fn manifest_lists_round_trip() {
    let deletes = ManifestFile { content: ManifestContent::Deletes, partitions: None, ..a_list_entry() };
    for version in 1..=3 {
        let options = ManifestListWriterOptions {
            format_version: version,
            snapshot_id: SnapshotId(5),
            parent_snapshot_id: None,
            sequence_number: SequenceNumber(12),
            first_row_id: Some(11),
            codec: Codec::Deflate,
        };
        let mut writer = ManifestListWriter::new(options).unwrap();
        writer.add(&a_list_entry()).unwrap();
        if version > 1 {
            writer.add(&deletes).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let read = ManifestList::parse(bytes.clone()).unwrap();
        let assigned = SequenceNumber(if version == 1 { 0 } else { 12 });
        let mut expected = ManifestFile { sequence_number: assigned, ..a_list_entry() };
        expected.first_row_id = expected.first_row_id.filter(|_| version == 3);
        if version == 1 {
            expected.min_sequence_number = SequenceNumber(0);
            assert_eq!(read, [expected]);
        } else {
            let deletes = ManifestFile { sequence_number: assigned, first_row_id: None, ..deletes.clone() };
            assert_eq!(read, [expected, deletes]);
        }
        let others: Vec<Avro> =
            apache_avro::Reader::new(&bytes[..]).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(others.len(), read.len());
        assert_eq!(rows_by_arrow_avro(&bytes), read.len());

        let mut v1 = ManifestListWriter::new(options).unwrap();
        let unknown = ManifestFile { added_rows_count: None, ..a_list_entry() };
        assert_eq!(v1.add(&unknown).is_ok(), version == 1, "counts are required since version 2");
        let mut v1 = ManifestListWriter::new(options).unwrap();
        assert_eq!(v1.add(&deletes).is_ok(), version > 1);
    }
}

/// A list as old writers made it: no ids, old names, counts and much else left out.
#[test]
fn old_manifest_lists_are_read_by_name() {
    let schema = r#"{"type":"record","name":"manifest_file","fields":[
        {"name":"manifest_path","type":"string"},
        {"name":"manifest_length","type":"long"},
        {"name":"partition_spec_id","type":"int"},
        {"name":"added_snapshot_id","type":["long","null"]},
        {"name":"added_data_files_count","type":["int","null"]},
        {"name":"something_else","type":{"type":"array","items":"string"}},
        {"name":"deleted_data_files_count","type":"int"}]}"#;
    let mut writer = avro::ContainerWriter::new(schema, &[], Codec::Null);
    let e = writer.item();
    e.string("m");
    for n in [10, 0, 0, 77, 0, 4] {
        e.long(n);
    }
    e.array(["a"].into_iter(), avro::Encoder::string);
    e.long(6);
    writer.end_item().unwrap();
    let list = ManifestList::parse(writer.finish().unwrap().into()).unwrap();
    let [m] = list.as_slice() else { panic!() };
    assert_eq!((m.manifest_path.as_str(), m.added_snapshot_id), ("m", Some(SnapshotId(77))));
    assert_eq!(
        (m.added_files_count, m.existing_files_count, m.deleted_files_count),
        (Some(4), None, Some(6))
    );
    assert_eq!(
        (m.added_rows_count, m.sequence_number, m.content),
        (None, SequenceNumber(0), ManifestContent::Data)
    );
    assert!(!m.has_no_live_files(), "unknown is not zero");
}

/// A manifest without ids, with other unions, records in another order and Avro's own maps.
#[test]
fn odd_manifests_are_read_by_name() {
    let schema = r#"{"type":"record","name":"manifest_entry","fields":[
        {"name":"data_file","type":{"type":"record","name":"f","fields":[
            {"name":"record_count","type":"int"},
            {"name":"lower_bounds","type":[{"type":"array","items":{"type":"record","name":"p","fields":[
                {"name":"value","type":["null","bytes"]},{"name":"key","type":"int"}]}},"null"]},
            {"name":"value_counts","type":{"type":"map","values":"long"}},
            {"name":"null_value_counts","type":{"type":"array","items":{"type":"record","name":"q","fields":[
                {"name":"key","type":"int"},{"name":"value","type":"int"}]}}},
            {"name":"partition","type":{"type":"record","name":"t","fields":[
                {"name":"p","type":["string","null"]},{"name":"more","type":"int"}]}},
            {"name":"file_format","type":"string"},
            {"name":"file_size_in_bytes","type":"long"},
            {"name":"file_path","type":"string"}]}},
        {"name":"snapshot_id","type":["long","null"]},
        {"name":"status","type":"int"}]}"#;
    let mut writer = avro::ContainerWriter::new(schema, &[("schema", "nonsense".into())], Codec::Null);
    let e = writer.item();
    e.long(33);
    e.long(0);
    e.array([(5, Some(&b"low"[..])), (6, None)].into_iter(), |e, (key, value)| {
        e.option(value, avro::Encoder::bytes);
        e.long(key);
    });
    e.array([("5", 30), ("6", 31)].into_iter(), |e, (key, value)| {
        e.string(key);
        e.long(value);
    });
    e.array([(5, 3)].into_iter(), |e, (key, value)| {
        e.long(key);
        e.long(value);
    });
    e.long(0);
    e.string("part");
    e.long(8);
    e.string("parquet");
    e.long(900);
    e.string("/a/b");
    e.long(1);
    e.long(1);
    writer.end_item().unwrap();
    let bytes: Bytes = writer.finish().unwrap().into();
    let columns = vec![NestedField::optional(1, "p", PrimitiveType::String)];
    let table = (
        Schema::new(SchemaId(0), columns, vec![]).unwrap(),
        PartitionSpec { spec_id: SpecId(0), fields: vec![identity(1000, 1, "p")] },
    );
    let list_entry =
        ManifestFile { sequence_number: SequenceNumber(0), manifest_length: 0, ..a_list_entry() };
    let manifest = parse(&bytes, &list_entry, &table).unwrap();
    let [entry] = manifest.entries.as_slice() else { panic!() };
    assert_eq!((entry.snapshot_id, entry.sequence_number), (Some(SnapshotId(9)), Some(SequenceNumber(0))));
    let file = &entry.data_file;
    assert_eq!((file.file_path.as_str(), file.record_count), ("/a/b", 33));
    assert_eq!(file.partition, [Some(Value::String("part".into()))]);
    assert_eq!(file.metrics.lower_bound(FieldId(5)), Some(&b"low"[..]));
    assert_eq!(file.metrics.lower_bound(FieldId(6)), None);
    assert_eq!(file.metrics.value_count(FieldId(6)), Some(31));
    assert_eq!(file.metrics.null_value_count(FieldId(5)), Some(3));
}

/// Reads a manifest of `testdata` under the schema and spec that it names itself.
fn golden(name: &str, content: ManifestContent) -> (Manifest, Bytes) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/manifests").join(name);
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    let reader = avro::ContainerReader::open(bytes.clone()).unwrap();
    let json = |key| serde_json::from_str(reader.text(key).unwrap()).unwrap();
    let schema = Schema::from_json(&json("schema")).unwrap();
    let fields = PartitionSpec::fields_from_json(&json("partition-spec")).unwrap();
    let spec = PartitionSpec { spec_id: SpecId(0), fields };
    let list_entry = ManifestFile {
        manifest_length: bytes.len() as i64,
        sequence_number: SequenceNumber(4),
        content,
        first_row_id: None,
        ..a_list_entry()
    };
    let manifest = parse(&bytes, &list_entry, &(schema, spec)).unwrap();
    (manifest, bytes)
}

#[test]
fn manifests_of_other_writers_are_read() {
    for (name, version) in [("spark_v1.avro", 1), ("pyiceberg_v2.avro", 2)] {
        let (manifest, bytes) = golden(name, ManifestContent::Data);
        assert_eq!(manifest.header.format_version, version);
        assert!(!manifest.entries.is_empty());
        agrees_with_apache_avro(&bytes, &manifest);
        for entry in &manifest.entries {
            let file = &entry.data_file;
            assert!(file.partition.iter().any(Option::is_some), "{name}: {file:?}");
            assert_eq!(file.metrics.value_count(FieldId(1)), Some(file.record_count), "{name}");
            let inherited = if version == 1 { 0 } else { 4 };
            if entry.status == ManifestStatus::Added {
                assert_eq!(entry.sequence_number, Some(SequenceNumber(inherited)), "{name}");
            }
        }
    }
    let (manifest, bytes) = golden("spark_v3_deletion_vectors.avro", ManifestContent::Deletes);
    assert_eq!(manifest.header.content, ManifestContent::Deletes);
    agrees_with_apache_avro(&bytes, &manifest);
    assert!(!manifest.entries.is_empty());
    for entry in &manifest.entries {
        let file = &entry.data_file;
        assert!(file.is_deletion_vector());
        assert!(file.referenced_data_file.is_some() && file.content_offset.is_some(), "{file:?}");
        assert!(file.content_size_in_bytes.is_some_and(|size| size > 0), "{file:?}");
    }
}

/// Reads the same manifest by way of apache-avro and compares what it has in common with ours.
fn agrees_with_apache_avro(bytes: &Bytes, manifest: &Manifest) {
    let others: Vec<Avro> = apache_avro::Reader::new(&bytes[..]).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(others.len(), manifest.entries.len());
    let plain = |value: Avro| match value {
        Avro::Union(_, inner) => *inner,
        other => other,
    };
    let record = |value: Avro| match value {
        Avro::Record(fields) => fields.into_iter().map(|(n, v)| (n, plain(v))).collect::<BTreeMap<_, _>>(),
        other => panic!("{other:?}"),
    };
    let number = |value: &Avro| match value {
        Avro::Int(v) => i64::from(*v),
        Avro::Long(v) => *v,
        other => panic!("{other:?}"),
    };
    for (ours, other) in manifest.entries.iter().zip(others) {
        let other = record(other);
        let status = match ours.status {
            ManifestStatus::Existing => 0,
            ManifestStatus::Added => 1,
            ManifestStatus::Deleted => 2,
        };
        assert_eq!(number(&other["status"]), status);
        let file = record(other["data_file"].clone());
        let ours = &ours.data_file;
        assert_eq!(file["file_path"], Avro::String(ours.file_path.clone()));
        assert_eq!(number(&file["record_count"]), ours.record_count);
        assert_eq!(number(&file["file_size_in_bytes"]), ours.file_size_in_bytes);
        let map = |name: &str| -> Vec<(FieldId, Avro)> {
            let Some(Avro::Array(pairs)) = file.get(name) else { return Vec::new() };
            let pairs = pairs.iter().map(|pair| {
                let mut pair = record(pair.clone());
                (FieldId(number(&pair["key"]) as i32), pair.remove("value").unwrap())
            });
            pairs.collect()
        };
        let m = &ours.metrics;
        let longs = |ours: Vec<(FieldId, i64)>| {
            ours.into_iter().map(|(id, v)| (id, Avro::Long(v))).collect::<Vec<_>>()
        };
        assert_eq!(map("column_sizes"), longs(m.column_sizes().collect()));
        assert_eq!(map("value_counts"), longs(m.value_counts().collect()));
        assert_eq!(map("null_value_counts"), longs(m.null_value_counts().collect()));
        assert_eq!(map("nan_value_counts"), longs(m.nan_value_counts().collect()));
        let bytes = |ours: Vec<(FieldId, &[u8])>| {
            ours.into_iter().map(|(id, v)| (id, Avro::Bytes(v.to_vec()))).collect::<Vec<_>>()
        };
        assert_eq!(map("lower_bounds"), bytes(m.lower_bounds().collect()));
        assert_eq!(map("upper_bounds"), bytes(m.upper_bounds().collect()));
    }
}

fn rows_by_arrow_avro(bytes: &[u8]) -> usize {
    let reader = arrow_avro::reader::ReaderBuilder::new().build(std::io::Cursor::new(bytes)).unwrap();
    reader.map(|batch| batch.unwrap().num_rows()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn partition_tuples_round_trip(
        tuple in types().into_iter().map(|t| prop::option::of(value_of(t))).collect::<Vec<_>>(),
        version in 1u8..=3,
    ) {
        let table = wide_table();
        let partition_type = table.1.partition_type(&table.0);
        let mut writer = ManifestWriter::new(options(version, &table, &partition_type)).unwrap();
        let file = ContentFile { partition: tuple.clone(), ..a_file(&table.1, 0) };
        writer.add(&file, None).unwrap();
        let (bytes, list_entry) = writer.finish("m").unwrap();
        let manifest = parse(&bytes, &list_entry, &table).unwrap();
        prop_assert_eq!(&manifest.entries[0].data_file.partition, &tuple);
        let summaries = list_entry.partitions.unwrap();
        for (value, summary) in tuple.iter().zip(&summaries) {
            prop_assert_eq!(summary.contains_null, value.is_none());
            let bound = value.as_ref().filter(|v| !v.is_nan()).map(|v| v.to_bytes().unwrap());
            prop_assert_eq!(&summary.lower_bound, &bound);
            prop_assert_eq!(&summary.upper_bound, &bound);
        }
        agrees_with_apache_avro(&bytes, &manifest);
    }

    #[test]
    fn flipped_bits_never_panic(at: prop::sample::Index, bit in 0u8..8, version in 1u8..=3) {
        let (bytes, file, table) = a_manifest(version);
        let mut bytes = bytes.to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(manifest) = parse(&bytes.into(), &file, &table) {
            for entry in &manifest.entries {
                let _ = entry.data_file.metrics.to_maps();
            }
        }
    }

    #[test]
    fn flipped_bits_in_uncompressed_entries_never_panic(at: prop::sample::Index, bit in 0u8..8) {
        let table = wide_table();
        let partition_type = table.1.partition_type(&table.0);
        let options = ManifestWriterOptions { codec: Codec::Null, ..options(3, &table, &partition_type) };
        let header = ManifestWriter::new(options).unwrap().finish("m").unwrap().0.len();
        let mut writer = ManifestWriter::new(options).unwrap();
        for n in 0..3 {
            writer.add(&a_file(&table.1, n), None).unwrap();
        }
        let (bytes, file) = writer.finish("m").unwrap();
        let mut bytes = bytes.to_vec();
        let at = header + at.index(bytes.len() - header);
        bytes[at] ^= 1 << bit;
        if let Ok(manifest) = parse(&bytes.into(), &file, &table) {
            for entry in &manifest.entries {
                let _ = entry.data_file.metrics.to_maps();
            }
        }
    }

    #[test]
    fn truncated_manifests_are_errors(at: prop::sample::Index) {
        let (bytes, file, table) = a_manifest(2);
        prop_assert!(parse(&bytes.slice(..at.index(bytes.len())), &file, &table).is_err());
    }
}

#[test]
fn a_manifest_cut_between_blocks_is_noticed() {
    let table = wide_table();
    let partition_type = table.1.partition_type(&table.0);
    let mut writer = ManifestWriter::new(options(2, &table, &partition_type)).unwrap();
    let empty = ManifestWriter::new(options(2, &table, &partition_type)).unwrap().finish("m").unwrap().0;
    for n in 0..1000 {
        writer.add(&a_file(&table.1, n), None).unwrap();
    }
    let (bytes, file) = writer.finish("m").unwrap();
    assert_eq!(parse(&bytes, &file, &table).unwrap().entries.len(), 1000);
    let e = parse(&bytes.slice(..empty.len()), &file, &table).unwrap_err().to_string();
    assert!(e.contains("manifest m") && e.contains("cut off"), "{e}");
}
