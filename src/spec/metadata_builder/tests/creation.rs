use super::*;

fn creation(schema: &Schema, properties: &[(&str, &str)]) -> Result<TableMetadata> {
    let updates = TableMetadata::creation(schema, None, None, "s3://b/t/", &strings(properties))?;
    TableMetadata::apply(None, &updates, CREATED)
}

#[test]
fn a_new_table() {
    let table = creation(&schema(7, columns()), &[("a", "b"), ("uuid", "x")]).unwrap();
    assert_eq!(table.format_version, 2);
    assert!(table.table_uuid.is_some());
    assert_eq!(table.location, "s3://b/t");
    assert_eq!((table.last_updated_ms, table.last_column_id), (CREATED, FieldId(3)));
    assert_eq!((table.current_schema_id, table.default_spec_id), (SchemaId(0), SpecId(0)));
    assert_eq!(table.last_partition_id, FieldId(999));
    assert_eq!(table.default_sort_order_id, SortOrderId(0));
    assert!(table.current_snapshot_id.is_none() && table.snapshot_log.is_empty());
    assert_eq!(table.properties, strings(&[("a", "b"), ("write.parquet.compression-codec", "zstd")]));
    assert_eq!(TableMetadata::from_json(&table.to_json().unwrap()).unwrap(), table);
}

#[test]
fn the_version_is_what_the_property_says() {
    for (value, version) in [("1", 1), ("2", 2), ("3", 3)] {
        let table = creation(&schema(0, columns()), &[("format-version", value)]).unwrap();
        assert_eq!(table.format_version, version);
        assert!(!table.properties.contains_key("format-version"));
    }
    for (value, kind) in
        [("0", ErrorKind::DataInvalid), ("4", ErrorKind::Unsupported), ("two", ErrorKind::DataInvalid)]
    {
        let error = creation(&schema(0, columns()), &[("format-version", value)]).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("`format-version`"), "{error}");
    }
}

#[test]
fn ids_are_new_level_by_level() {
    let inner = StructType::new(vec![
        NestedField::optional(50, "x", P::Int),
        NestedField::optional(40, "l", ListType::new(41, P::Int, false)),
    ]);
    let fields = vec![
        NestedField::required(90, "s", inner),
        NestedField::optional(
            10,
            "m",
            MapType::new(11, P::String, 12, ListType::new(13, P::Int, false), false),
        ),
        NestedField::required(5, "z", P::String),
    ];
    let schema = Schema::new(SchemaId(4), fields, vec![FieldId(5)]).unwrap();
    let spec =
        spec(vec![field(50, 7, "x_bucket", Transform::Bucket(4)), field(5, 3, "z", Transform::Identity)]);
    let order = order(vec![key(5, Transform::Identity)]);
    let updates =
        TableMetadata::creation(&schema, Some(&spec), Some(&order), "/t", &BTreeMap::new()).unwrap();
    let table = TableMetadata::apply(None, &updates, CREATED).unwrap();
    let id = |path: &[&str]| table.current_schema().field_by_path(path).unwrap().id.0;
    // The columns, then what is below them, one after another.
    assert_eq!([id(&["s"]), id(&["m"]), id(&["z"])], [1, 2, 3]);
    assert_eq!([id(&["s", "x"]), id(&["s", "l"]), id(&["s", "l", "element"])], [4, 5, 6]);
    assert_eq!([id(&["m", "key"]), id(&["m", "value"]), id(&["m", "value", "element"])], [7, 8, 9]);
    assert_eq!(table.current_schema().identifier_field_ids, [FieldId(3)]);
    assert_eq!(table.last_column_id, FieldId(9));
    let fields = &table.default_spec().fields;
    assert_eq!((fields[0].source_ids[0].0, fields[0].field_id.0), (4, 1000));
    assert_eq!((fields[1].source_ids[0].0, fields[1].field_id.0), (3, 1001));
    assert_eq!(table.last_partition_id, FieldId(1001));
    assert_eq!(table.default_sort_order().order_id, SortOrderId(1));
    assert_eq!(table.default_sort_order().fields[0].source_ids, [FieldId(3)]);
}

#[test]
fn what_is_not_in_the_schema_is_an_error() {
    let schema = schema(0, columns());
    let spec = spec(vec![field(9, 1000, "x", Transform::Identity)]);
    let none = BTreeMap::new();
    let error = TableMetadata::creation(&schema, Some(&spec), None, "/t", &none).unwrap_err();
    assert!(error.to_string().contains("partition field `x`"), "{error}");
    let order = order(vec![key(9, Transform::Identity)]);
    let error = TableMetadata::creation(&schema, None, Some(&order), "/t", &none).unwrap_err();
    assert!(error.to_string().contains("sort field 0"), "{error}");
    for (name, value) in [
        ("write.metadata.metrics.column.nope", "full"),
        ("write.metadata.metrics.default", "some"),
        ("commit.retry.num-retries", "-1"),
    ] {
        let error = creation(&schema, &[(name, value)]).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    let updates = TableMetadata::creation(&schema, None, None, "", &none).unwrap();
    assert!(TableMetadata::apply(None, &updates, 0).unwrap_err().to_string().contains("location"));
}

#[test]
fn nothing_is_made_of_half_a_creation() {
    let updates = TableMetadata::creation(&schema(0, columns()), None, None, "/t", &BTreeMap::new()).unwrap();
    for missing in ["add-schema", "set-current-schema", "add-spec", "set-default-spec", "set-location"] {
        let some: Vec<_> = updates.iter().filter(|u| u.action() != missing).cloned().collect();
        assert!(TableMetadata::apply(None, &some, 0).is_err(), "{missing}");
    }
    assert!(TableMetadata::apply(None, &[], 0).is_err());
}

#[test]
fn a_replaced_table_keeps_its_history_and_ids() {
    for version in [1, 2, 3] {
        let base = with_snapshots(version, 2);
        let fields = vec![
            NestedField::optional(1, "new", P::Int),
            NestedField::optional(2, "name", P::String),
            NestedField::optional(3, "ts", P::Timestamp),
        ];
        let other =
            spec(vec![field(2, 1000, "name", Transform::Identity), field(3, 1001, "ts_day", Transform::Day)]);
        let location = "s3://b/t2";
        let updates =
            base.replacement(&schema(0, fields), Some(&other), None, location, &BTreeMap::new()).unwrap();
        let after = apply(&base, &updates, CREATED + 9000).unwrap();
        assert!(after.current_snapshot_id.is_none());
        assert_eq!(after.snapshots.len(), 2);
        assert_eq!(after.location, location);
        let ids: Vec<i32> = after.current_schema().fields().iter().map(|f| f.id.0).collect();
        assert_eq!(ids, [4, 3, 2], "columns keep their ids by name");
        let mut ids: Vec<_> =
            after.default_spec().fields.iter().map(|f| (f.field_id.0, f.name.as_str())).collect();
        ids.sort_unstable();
        assert_eq!(ids, [(1000, "ts_day"), (1001, "name")], "version {version}");
        // The same once more changes nothing but the properties and the way back.
        let same = after
            .replacement(after.current_schema(), Some(after.default_spec()), None, location, &BTreeMap::new())
            .unwrap();
        assert!(!same.iter().any(|update| update.action().starts_with("add-")), "{same:?}");
        assert_eq!(apply(&after, &same, CREATED + 9999).unwrap(), after);
    }
}

#[test]
fn version_1_never_loses_a_partition_field() {
    let base = table(1);
    let updates = base.replacement(&schema(0, columns()), None, None, "s3://b/t", &BTreeMap::new()).unwrap();
    let after = apply(&base, &updates, CREATED).unwrap();
    assert_eq!(after.default_spec().fields, [field(2, 1000, "ts_day", Transform::Void)]);
    let hour = spec(vec![field(2, 1000, "ts_day", Transform::Hour)]);
    let updates =
        base.replacement(&schema(0, columns()), Some(&hour), None, "s3://b/t", &BTreeMap::new()).unwrap();
    let after = apply(&base, &updates, CREATED).unwrap();
    let expected =
        [field(2, 1000, "ts_day_1000", Transform::Void), field(2, 1001, "ts_day", Transform::Hour)];
    assert_eq!(after.default_spec().fields, expected);
}
