use super::*;

fn add_schema(schema: Schema) -> TableUpdate {
    TableUpdate::AddSchema(Arc::new(schema))
}

fn more_columns() -> Vec<NestedField> {
    let mut fields = columns();
    fields.push(NestedField::optional(4, "extra", P::Int));
    fields
}

const CURRENT: TableUpdate = TableUpdate::SetCurrentSchema(SchemaId(LAST_ADDED));
const DEFAULT_SPEC: TableUpdate = TableUpdate::SetDefaultSpec(SpecId(LAST_ADDED));

#[test]
fn schemas_get_the_next_id_or_that_of_an_equal_one() {
    let base = table(2);
    let after = apply(&base, &[add_schema(schema(77, more_columns())), CURRENT], CREATED).unwrap();
    assert_eq!(after.current_schema().schema_id, SchemaId(1));
    assert_eq!(after.last_column_id, FieldId(4));
    // Back to the first one, whatever its id is here.
    let back = apply(&after, &[add_schema(schema(9, columns())), CURRENT], CREATED).unwrap();
    assert_eq!((back.current_schema_id, back.schemas.len()), (SchemaId(0), 2));
    assert_eq!(back.last_column_id, FieldId(4), "ids are never given out twice");
    let by_id = apply(&back, &[TableUpdate::SetCurrentSchema(SchemaId(1))], CREATED).unwrap();
    assert_eq!(by_id.current_schema_id, SchemaId(1));
    refuses(&base, CURRENT, ErrorKind::DataInvalid, "no schema has been added");
    refuses(&base, TableUpdate::SetCurrentSchema(SchemaId(5)), ErrorKind::CommitConflict, "no schema 5");
}

#[test]
fn a_schema_differs_by_its_identifier_fields() {
    let base = table(2);
    let with_identifier = Schema::new(SchemaId(0), columns(), vec![FieldId(1)]).unwrap();
    let after = apply(&base, &[add_schema(with_identifier.clone()), CURRENT], CREATED).unwrap();
    assert_eq!(after.current_schema_id, SchemaId(1));
    assert_eq!(after.schema_like(&with_identifier), Some(SchemaId(1)));
    assert_eq!(after.schema_like(&schema(5, columns())), Some(SchemaId(0)));
    assert_eq!(after.schema_like(&schema(5, more_columns())), None);
}

#[test]
fn types_and_defaults_need_their_version() {
    let geography = P::Geography { crs: None, algorithm: None };
    let types: [Type; 6] = [
        P::TimestampNs.into(),
        P::TimestamptzNs.into(),
        P::Unknown.into(),
        P::Geometry { crs: None }.into(),
        geography.into(),
        Type::Variant,
    ];
    for new in types {
        let nested = StructType::new(vec![NestedField::optional(5, "n", new.clone())]);
        for of_type in [new, nested.into()] {
            let mut fields = columns();
            fields.push(NestedField::optional(4, "new", of_type));
            for version in [1, 2] {
                let update = add_schema(schema(0, fields.clone()));
                refuses(&table(version), update, ErrorKind::DataInvalid, "needs a table of version 3");
            }
            assert!(apply(&table(3), &[add_schema(schema(0, fields)), CURRENT], CREATED).is_ok());
        }
    }
    let with_default = |initial, write| {
        let mut fields = columns();
        let field = NestedField::optional(4, "d", P::Int);
        fields.push(NestedField { initial_default: initial, write_default: write, ..field });
        add_schema(schema(0, fields))
    };
    for (initial, write) in [(Some(Value::Int(1)), None), (None, Some(Value::Int(1)))] {
        let update = with_default(initial.clone(), write.clone());
        refuses(&table(2), update, ErrorKind::DataInvalid, "default values");
        assert!(apply(&table(3), &[with_default(initial, write)], CREATED).is_ok());
    }
    refuses(&table(3), with_default(Some(Value::Long(1)), None), ErrorKind::DataInvalid, "not of type int");
    for (of_type, value) in
        [(P::Float, Value::Float(f32::NAN)), (P::Double, Value::Double(f64::NEG_INFINITY))]
    {
        let mut fields = columns();
        let field = NestedField::optional(4, "d", of_type);
        fields.push(NestedField { write_default: Some(value), ..field });
        refuses(&table(3), add_schema(schema(0, fields)), ErrorKind::DataInvalid, "not a finite number");
    }
    let mut fields = columns();
    fields.push(NestedField::required(4, "u", P::Unknown));
    refuses(&table(3), add_schema(schema(0, fields)), ErrorKind::DataInvalid, "can't be required");
}

#[test]
fn identifier_fields_find_one_row() {
    let inner = |required: bool| {
        let nested = StructType::new(vec![NestedField::required(11, "x", P::Int)]);
        NestedField { required, ..NestedField::required(10, "s", nested) }
    };
    let in_list = StructType::new(vec![NestedField::required(11, "x", P::Int)]);
    let cases = [
        (NestedField::required(10, "f", P::Double), 10, Some("is a float")),
        (NestedField::required(10, "f", P::Float), 10, Some("is a float")),
        (NestedField::optional(10, "o", P::Int), 10, Some("is optional")),
        (inner(true), 10, Some("not of a primitive type")),
        (inner(false), 11, Some("optional struct")),
        (NestedField::required(10, "l", ListType::new(12, in_list, true)), 11, Some("list or map")),
        (NestedField::required(10, "m", MapType::new(11, P::Int, 12, P::Int, true)), 11, Some("list or map")),
        (inner(true), 11, None),
        (NestedField::required(10, "i", P::Int), 10, None),
    ];
    for (field, identifier, wrong) in cases {
        let schema = Schema::new(SchemaId(0), vec![field], vec![FieldId(identifier)]).unwrap();
        let updates = TableMetadata::creation(&schema, None, None, "/t", &BTreeMap::new()).unwrap();
        match (TableMetadata::apply(None, &updates, 0), wrong) {
            (Ok(_), None) => {}
            (Err(e), Some(part)) => assert!(e.to_string().contains(part), "{e}"),
            (other, wrong) => panic!("{other:?}, {wrong:?}"),
        }
    }
}

#[test]
fn full_names_are_unique_and_not_empty() {
    let nested = StructType::new(vec![NestedField::optional(5, "b", P::Int)]);
    let fields = vec![NestedField::optional(4, "a", nested), NestedField::optional(6, "a.b", P::Int)];
    refuses(&table(2), add_schema(schema(0, fields)), ErrorKind::DataInvalid, "`a.b`");
    let fields = vec![NestedField::optional(4, "", P::Int)];
    refuses(&table(2), add_schema(schema(0, fields)), ErrorKind::DataInvalid, "needs a name");
}

#[test]
fn the_current_schema_fits_the_default_spec_and_order() {
    let base = table(2);
    let without_ts = vec![NestedField::required(1, "id", P::Long)];
    let error = refusal(&base, &[add_schema(schema(0, without_ts.clone())), CURRENT]);
    assert!(error.to_string().contains("partition field `ts_day`"), "{error}");
    // With another spec in the same commit it may go.
    let none = TableUpdate::AddSpec(Arc::new(spec(vec![])));
    let updates = [add_schema(schema(0, without_ts)), CURRENT, none, DEFAULT_SPEC];
    assert!(apply(&base, &updates, CREATED).is_ok());
    let mut as_text = columns();
    as_text[1] = NestedField::optional(2, "ts", P::String);
    let error = refusal(&base, &[add_schema(schema(0, as_text)), CURRENT]);
    assert!(error.to_string().contains("does not apply to type string"), "{error}");

    let by_name = TableUpdate::AddSortOrder(Arc::new(order(vec![key(3, Transform::Identity)])));
    let sorted = [by_name, TableUpdate::SetDefaultSortOrder(SortOrderId(LAST_ADDED))];
    let sorted = apply(&base, &sorted, CREATED).unwrap();
    let error = refusal(&sorted, &[add_schema(schema(0, columns()[..2].to_vec())), CURRENT]);
    assert!(error.to_string().contains("default sort order: sort field 0"), "{error}");
}

#[test]
fn columns_do_not_take_the_names_of_partition_fields() {
    let none = TableUpdate::AddSpec(Arc::new(spec(vec![])));
    let base = apply(&table(2), &[none, DEFAULT_SPEC], CREATED).unwrap();
    let mut fields = columns();
    fields.push(NestedField::optional(4, "ts_day", P::Int));
    let error = refusal(&base, &[add_schema(schema(0, fields.clone())), CURRENT]);
    assert!(error.to_string().contains("partition field `ts_day`"), "of an old spec too: {error}");
    fields.remove(1);
    assert!(apply(&base, &[add_schema(schema(0, fields)), CURRENT], CREATED).is_ok());
}

#[test]
fn what_others_left_behind_does_not_stop_a_commit() {
    let mut base = table(2);
    base.partition_specs.insert(SpecId(0), Arc::new(spec(vec![field(99, 1000, "gone", Transform::Day)])));
    assert!(apply(&base, &[TableUpdate::SetProperties(strings(&[("a", "b")]))], CREATED).is_ok());
    let error = refusal(&base, &[add_schema(schema(0, more_columns())), CURRENT]);
    assert!(error.to_string().contains("partition field `gone`"), "{error}");
}

#[test]
fn specs_get_the_next_id_or_that_of_an_equal_one() {
    let base = table(2);
    let by_name = spec(vec![field(3, 1001, "name", Transform::Identity)]);
    let after = apply(&base, &[TableUpdate::AddSpec(Arc::new(by_name)), DEFAULT_SPEC], CREATED).unwrap();
    assert_eq!((after.default_spec_id, after.last_partition_id), (SpecId(1), FieldId(1001)));
    // Field ids don't count.
    let again = spec(vec![field(2, 1007, "ts_day", Transform::Day)]);
    let back = apply(&after, &[TableUpdate::AddSpec(Arc::new(again)), DEFAULT_SPEC], CREATED).unwrap();
    assert_eq!((back.default_spec_id, back.last_partition_id), (SpecId(0), FieldId(1001)));
    refuses(&base, DEFAULT_SPEC, ErrorKind::DataInvalid, "no partition spec has been added");
    refuses(&base, TableUpdate::SetDefaultSpec(SpecId(4)), ErrorKind::CommitConflict, "spec 4");
    let none = TableUpdate::AddSpec(Arc::new(spec(vec![])));
    let after = apply(&base, &[none, DEFAULT_SPEC], CREATED).unwrap();
    assert!(after.default_spec().is_unpartitioned());
}

#[test]
fn specs_that_no_row_fits_are_refused() {
    let base = table(2);
    let list = NestedField::optional(4, "l", ListType::new(5, P::Int, false));
    let base = apply(&base, &[add_schema(schema(0, [columns(), vec![list]].concat())), CURRENT], CREATED);
    let base = base.unwrap();
    let cases = [
        (vec![field(9, 1001, "x", Transform::Identity)], ErrorKind::DataInvalid, "column 9"),
        (vec![field(3, 1001, "x", Transform::Day)], ErrorKind::DataInvalid, "does not apply"),
        (vec![field(4, 1001, "x", Transform::Identity)], ErrorKind::DataInvalid, "does not apply"),
        (vec![field(5, 1001, "x", Transform::Identity)], ErrorKind::DataInvalid, "list or map"),
        (vec![field(3, 1001, "id", Transform::Identity)], ErrorKind::DataInvalid, "name of a column"),
        (vec![field(3, 1001, "", Transform::Identity)], ErrorKind::DataInvalid, "empty"),
        (
            vec![field(3, 1001, "x", Transform::Identity), field(1, 1002, "x", Transform::Identity)],
            ErrorKind::DataInvalid,
            "twice",
        ),
        (vec![field(3, 1001, "x", Transform::Unknown("z".into()))], ErrorKind::Unsupported, "`z`"),
        (vec![field(3, 1000, "x", Transform::Identity)], ErrorKind::CommitConflict, "id 1000 of another"),
    ];
    let twice = vec![field(3, 1001, "x", Transform::Identity), field(1, 1001, "y", Transform::Identity)];
    refuses(
        &base,
        TableUpdate::AddSpec(Arc::new(spec(twice))),
        ErrorKind::DataInvalid,
        "id 1001 occurs twice",
    );
    for (fields, kind, part) in cases {
        refuses(&base, TableUpdate::AddSpec(Arc::new(spec(fields))), kind, part);
    }
    let same_id = TableUpdate::AddSpec(Arc::new(spec(vec![
        field(3, 1001, "name", Transform::Identity),
        field(2, 1000, "other_name", Transform::Day),
    ])));
    assert!(apply(&base, &[same_id], CREATED).is_ok(), "the same field keeps its id");
}

#[test]
fn version_1_finds_partition_values_by_position() {
    let base = table(1);
    let add = |fields| TableUpdate::AddSpec(Arc::new(spec(fields)));
    let refused = ErrorKind::ValidationFailed;
    refuses(&base, add(vec![field(3, 1001, "name", Transform::Identity)]), refused, "needs 1000");
    refuses(&base, add(vec![]), refused, "must keep its place");
    refuses(&base, add(vec![field(2, 1000, "h", Transform::Hour)]), refused, "must keep its place");
    let void =
        add(vec![field(2, 1000, "ts_day", Transform::Void), field(3, 1001, "name", Transform::Identity)]);
    let after = apply(&base, &[void, DEFAULT_SPEC], CREATED).unwrap();
    assert_eq!(after.last_partition_id, FieldId(1001));
}

#[test]
fn sort_orders_get_the_next_id_or_that_of_an_equal_one() {
    let base = table(2);
    let default = TableUpdate::SetDefaultSortOrder(SortOrderId(LAST_ADDED));
    let add = |fields| TableUpdate::AddSortOrder(Arc::new(order(fields)));
    let by_name = add(vec![key(3, Transform::Bucket(3))]);
    let after = apply(&base, &[by_name.clone(), default.clone()], CREATED).unwrap();
    assert_eq!(after.default_sort_order_id, SortOrderId(1));
    let by_id = add(vec![key(1, Transform::Identity)]);
    let after = apply(&after, &[by_id, default.clone()], CREATED).unwrap();
    assert_eq!(after.default_sort_order_id, SortOrderId(2));
    let after = apply(&after, &[by_name, default.clone()], CREATED).unwrap();
    assert_eq!(after.default_sort_order_id, SortOrderId(1));
    let after = apply(&after, &[add(vec![]), default.clone()], CREATED).unwrap();
    assert_eq!(after.default_sort_order_id, SortOrderId(0), "without keys it is the unsorted order");
    refuses(&base, default, ErrorKind::DataInvalid, "no sort order has been added");
    refuses(&base, add(vec![key(9, Transform::Identity)]), ErrorKind::DataInvalid, "column 9");
    refuses(&base, add(vec![key(3, Transform::Day)]), ErrorKind::DataInvalid, "does not apply");
}

#[test]
fn what_is_in_use_is_not_removed() {
    let base = with_snapshots(2, 1);
    let updates = [
        add_schema(schema(0, more_columns())),
        CURRENT,
        TableUpdate::AddSpec(Arc::new(spec(vec![]))),
        DEFAULT_SPEC,
    ];
    let base = apply(&base, &updates, CREATED + 2000).unwrap();
    let refused = ErrorKind::ValidationFailed;
    refuses(&base, TableUpdate::RemoveSchemas(vec![SchemaId(1)]), refused, "current schema");
    refuses(&base, TableUpdate::RemovePartitionSpecs(vec![SpecId(0), SpecId(1)]), refused, "writers use");
    refuses(&base, TableUpdate::RemoveSchemas(vec![SchemaId(0)]), refused, "snapshot 1");
    let after =
        apply(&base, &[TableUpdate::RemovePartitionSpecs(vec![SpecId(0), SpecId(9)])], CREATED + 3000)
            .unwrap();
    assert_eq!(after.partition_specs.len(), 1);
    let expired = [
        TableUpdate::RemoveSchemas(vec![SchemaId(0)]),
        TableUpdate::RemoveSnapshotRef("main".into()),
        TableUpdate::RemoveSnapshots(vec![SnapshotId(1)]),
    ];
    let after = apply(&base, &expired, CREATED + 3000).unwrap();
    assert_eq!(after.schemas.keys().copied().collect::<Vec<_>>(), [SchemaId(1)]);
}

#[test]
fn versions_only_rise() {
    let base = with_snapshots(1, 1);
    let v2 = apply(&base, &[TableUpdate::UpgradeFormatVersion(2)], CREATED + 2000).unwrap();
    assert_eq!((v2.format_version, v2.last_sequence_number), (2, SequenceNumber(0)));
    let v3 = apply(&v2, &[TableUpdate::SetProperties(strings(&[("format-version", "3")]))], CREATED + 2000);
    let v3 = v3.unwrap();
    assert_eq!((v3.format_version, v3.next_row_id), (3, 0));
    assert!(!v3.properties.contains_key("format-version"));
    refuses(&v3, TableUpdate::UpgradeFormatVersion(2), ErrorKind::ValidationFailed, "back to version 2");
    refuses(&v3, TableUpdate::UpgradeFormatVersion(4), ErrorKind::Unsupported, "version 4");
    refuses(&v3, TableUpdate::UpgradeFormatVersion(0), ErrorKind::DataInvalid, "version 0");
    assert_eq!(apply(&base, &[TableUpdate::UpgradeFormatVersion(3)], CREATED).unwrap().format_version, 3);
}

#[test]
fn old_tables_get_a_uuid_when_they_need_one() {
    let mut base = table(1);
    base.table_uuid = None;
    let set = TableUpdate::SetProperties(strings(&[("a", "b")]));
    assert!(apply(&base, &[set], CREATED).unwrap().table_uuid.is_none());
    let upgraded = apply(&base, &[TableUpdate::UpgradeFormatVersion(2)], CREATED).unwrap();
    assert!(upgraded.table_uuid.is_some());
    let uuid = Uuid::from_u128(5);
    assert_eq!(apply(&base, &[TableUpdate::AssignUuid(uuid)], 0).unwrap().table_uuid, Some(uuid));
    refuses(&table(2), TableUpdate::AssignUuid(uuid), ErrorKind::ValidationFailed, "can't become");
}

#[test]
fn properties_location_and_keys() {
    let base = table(3);
    let set = TableUpdate::SetProperties(strings(&[("a", "b"), ("c", "d")]));
    let remove = TableUpdate::RemoveProperties(vec!["a".into(), "nope".into()]);
    let after = apply(&base, &[set, remove, TableUpdate::SetLocation("s3://c/".into())], CREATED).unwrap();
    assert_eq!(after.properties.get("c").map(String::as_str), Some("d"));
    assert!(!after.properties.contains_key("a"));
    assert_eq!(after.location, "s3://c");
    for (given, kept) in [("/", "/"), ("s3://", "s3://"), ("file:///", "file://"), ("/a//", "/a")] {
        assert_eq!(super::super::without_trailing_slash(given), kept);
    }
    refuses(&base, TableUpdate::SetLocation(String::new()), ErrorKind::DataInvalid, "location");
    for name in super::super::RESERVED_PROPERTIES {
        let set = TableUpdate::SetProperties(strings(&[(name, "x")]));
        refuses(&base, set, ErrorKind::DataInvalid, name);
    }

    let key =
        |id: &str| TableUpdate::AddEncryptionKey(json!({"key-id": id, "encrypted-key-metadata": "eA=="}));
    let after = apply(&base, &[key("1"), key("2"), key("1")], CREATED).unwrap();
    assert_eq!(after.encryption_keys.len(), 2);
    let after = apply(&after, &[TableUpdate::RemoveEncryptionKey("1".into())], CREATED).unwrap();
    assert_eq!(after.encryption_keys[0]["key-id"], "2");
    refuses(&base, TableUpdate::AddEncryptionKey(json!({})), ErrorKind::DataInvalid, "key-id");
    refuses(&table(2), key("1"), ErrorKind::ValidationFailed, "version 3");
}

#[test]
fn tables_of_version_4_are_not_written() {
    let mut base = table(3);
    base.format_version = 4;
    let error = TableMetadata::apply(Some(&base), &[], CREATED).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn nothing_changes_nothing() {
    let base = table(2);
    assert_eq!(apply(&base, &[], CREATED + 5).unwrap(), base);
    let same = TableUpdate::SetLocation("s3://b/t".into());
    assert_eq!(apply(&base, &[same], CREATED + 5).unwrap().last_updated_ms, CREATED);
    let set = TableUpdate::SetProperties(strings(&[("a", "b")]));
    assert_eq!(apply(&base, std::slice::from_ref(&set), CREATED + 5).unwrap().last_updated_ms, CREATED + 5);
    // Time does not go back.
    assert_eq!(apply(&base, &[set], CREATED - 5).unwrap().last_updated_ms, CREATED);
}
