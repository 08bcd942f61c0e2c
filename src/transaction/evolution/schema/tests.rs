//! Schema updates, rule by rule, and sequences of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::spec::{FieldId, ListType, MapType, NameMapping, PrimitiveType as P, StructType};
use crate::transaction::evolution::test_tables::{self, apply, table, with_properties};

fn update() -> UpdateSchema {
    UpdateSchema::new()
}

/// The table after an update.
fn after(base: &TableMetadata, update: UpdateSchema) -> TableMetadata {
    apply(base, &update.updates_of(base).unwrap())
}

fn schema_of(version: u8, update: UpdateSchema) -> Schema {
    after(&table(version), update).current_schema().as_ref().clone()
}

fn field<'a>(schema: &'a Schema, path: &str) -> &'a NestedField {
    let path: Vec<&str> = path.split('.').collect();
    schema.field_by_path(&path).unwrap_or_else(|| panic!("no {path:?}"))
}

fn names(schema: &Schema) -> Vec<&str> {
    schema.fields().iter().map(|f| f.name.as_str()).collect()
}

fn fails(version: u8, update: UpdateSchema) -> String {
    update.updates_of(&table(version)).unwrap_err().to_string()
}

#[test]
fn columns_are_added_with_new_ids_level_by_level() {
    let point = StructType::new(vec![
        NestedField::optional(1, "l", ListType::new(1, P::Int, false)),
        NestedField::required(1, "m", MapType::new(1, P::Int, 1, P::Long, true)),
    ]);
    let schema = schema_of(
        2,
        update()
            .add_column("a", P::Int)
            .add_new(NewColumn::optional("z", P::Float).parent("point").doc("height"))
            .add_column("s", point)
            .add_new(NewColumn::optional("of_map", P::Int).parent("tags"))
            .add_new(NewColumn::optional("of_value", P::Int).parent("tags.value"))
            .add_new(NewColumn::optional("b", P::Int).parent("list")),
    );
    let ids = [
        ("a", 15),
        ("point.z", 16),
        ("s", 17),
        ("s.l", 18),
        ("s.m", 19),
        ("s.l.element", 20),
        ("s.m.key", 21),
        ("s.m.value", 22),
        ("tags.value.of_map", 23),
        ("tags.value.of_value", 24),
        ("list.element.b", 25),
    ];
    for (path, id) in ids {
        assert_eq!(field(&schema, path).id, FieldId(id), "{path}");
    }
    assert_eq!(field(&schema, "point.z").doc.as_deref(), Some("height"));
    assert!(field(&schema, "s.m").required && field(&schema, "s.m.value").required);
    assert_eq!(schema.schema_id, SchemaId(1));
    assert_eq!(schema.identifier_field_ids, [FieldId(1)]);
}

#[test]
fn ids_go_on_from_the_last_that_was_assigned() {
    let base = after(&table(2), update().add_column("a", P::Int));
    let base = after(&base, update().delete_column("a"));
    assert_eq!(base.current_schema_id, SchemaId(0), "the schema that was there is used again");
    let base = after(&base, update().add_column("a", P::Int));
    assert_eq!(field(base.current_schema(), "a").id, FieldId(16));
}

#[test]
fn what_changes_nothing_is_no_update() {
    let base = table(2);
    for none in [
        update(),
        update().make_column_optional("name"),
        update().require_column("id"),
        update().update_column("id", P::Int),
        update().update_column_doc("name", Some("of a person")),
        update().union_by_name(base.current_schema()),
        update().set_identifier_fields(["id"]),
        update().move_first("id"),
    ] {
        assert!(none.updates_of(&base).unwrap().is_empty(), "{none:?}");
    }
}

#[test]
fn a_schema_that_is_there_is_not_added_again() {
    let base = table(2);
    let renamed = after(&base, update().rename_column("name", "n"));
    let updates = update().rename_column("n", "name").updates_of(&renamed).unwrap();
    assert_eq!(updates, [TableUpdate::SetCurrentSchema(SchemaId(0))]);
}

#[test]
fn adding_is_refused_where_it_makes_no_sense() {
    let column = NewColumn::optional;
    for (update, part) in [
        (update().add_column("name", P::Int), "there is such a column already"),
        (update().add_new(column("x", P::Int).parent("point")), "there is such a column already"),
        (update().add_column("a", P::Int).add_column("a", P::Int), "there is such a column already"),
        (update().add_column("point.x", P::Int), "there is such a column already"),
        (update().rename_column("name", "n").add_column("name", P::Int), "there is such a column already"),
        (update().case_sensitive(false).add_column("NAME", P::Int), "there is such a column already"),
        (update().add_column("", P::Int), "the name is empty"),
        (update().add_new(column("x", P::Int).parent("nope")), "there is no column `nope`"),
        (update().add_new(column("x", P::Int).parent("name")), "`name` is no struct but a string"),
        (update().add_new(NewColumn::required("r", P::Int)), "needs a default value"),
        (update().add_column("t", P::TimestampNs), "needs format version 3"),
        (update().add_column("t", ListType::new(1, Type::Variant, false)), "needs format version 3"),
        (
            update().add_new(column("d", P::Int).default_value(Value::Int(1))),
            "default values need format version 3",
        ),
        (update().delete_column("point").add_new(column("z", P::Int).parent("point")), "`point` is deleted"),
        (update().add_new(column("k", P::Int).parent("tags.key")), "`tags.key` is no struct but a string"),
        (update().add_column("ts_day", P::Int), "no column can be called `ts_day`"),
        (update().rename_column("name", "ts_day"), "no column can be called `ts_day`"),
    ] {
        let message = fails(2, update);
        assert!(message.contains(part), "{message}");
    }
    let required = update().allow_incompatible_changes().add_new(NewColumn::required("r", P::Int));
    assert!(field(&schema_of(2, required), "r").required);
    let upper = schema_of(2, update().add_column("NAME", P::Int));
    assert_eq!(field(&upper, "NAME").id, FieldId(15));
}

#[test]
fn defaults_are_of_the_columns_type() {
    let column = |t: P, v: Value| update().add_new(NewColumn::required("d", t).default_value(v));
    let schema = schema_of(3, column(P::Long, Value::Int(7)));
    assert_eq!(field(&schema, "d").initial_default, Some(Value::Long(7)));
    assert_eq!(field(&schema, "d").write_default, Some(Value::Long(7)));
    let decimal = P::Decimal { precision: 3, scale: 1 };
    assert!(column(decimal.clone(), Value::Decimal(999, 1)).updates_of(&table(3)).is_ok());
    for update in [
        column(P::Int, Value::Long(7)),
        column(P::String, Value::Int(7)),
        column(decimal.clone(), Value::Decimal(1000, 1)),
        column(decimal, Value::Decimal(1, 2)),
    ] {
        assert!(fails(3, update.clone()).contains("is no value of type"), "{update:?}");
    }
    let variant = update().add_new(NewColumn::optional("v", Type::Variant).default_value(Value::Int(1)));
    assert!(fails(3, variant).contains("is no value of type variant"));
    assert!(fails(3, update().add_new(NewColumn::required("u", P::Unknown))).contains("needs a default"));
    let unknown = update().allow_incompatible_changes().add_new(NewColumn::required("u", P::Unknown));
    assert!(fails(3, unknown).contains("must be optional"));

    let base = after(&table(3), column(P::Int, Value::Int(7)));
    let changed = after(&base, update().update_column_default("d", Some(Value::Int(8))));
    let d = field(changed.current_schema(), "d").clone();
    assert_eq!((d.initial_default, d.write_default), (Some(Value::Int(7)), Some(Value::Int(8))));
    let widened = after(&changed, update().update_column("d", P::Long));
    let d = field(widened.current_schema(), "d").clone();
    assert_eq!((d.initial_default, d.write_default), (Some(Value::Long(7)), Some(Value::Long(8))));
    let removed = after(&widened, update().update_column_default("d", None));
    assert_eq!(field(removed.current_schema(), "d").write_default, None);
}

#[test]
fn the_default_of_a_struct_follows_its_fields() {
    let s = StructType::new(vec![NestedField::optional(0, "a", P::Int)]);
    let add = NewColumn::optional("s", s).default_value(Value::Struct(vec![None]));
    let base = after(&table(3), update().add_new(add));
    let base = after(&base, update().add_new(NewColumn::optional("b", P::Int).parent("s")));
    assert_eq!(field(base.current_schema(), "s").initial_default, Some(Value::Struct(vec![None, None])));
}

#[test]
fn deleting() {
    let schema = schema_of(2, update().delete_column("name").delete_column("point.y"));
    assert_eq!(names(&schema), ["id", "ts", "day", "point", "tags", "list"]);
    assert!(schema.field_by_path(&["point", "y"]).is_none());
    let again = schema_of(2, update().delete_column("name").add_column("name", P::Int));
    assert_eq!(field(&again, "name").id, FieldId(15), "another column of the same name");
    let short = schema_of(2, update().delete_column("list.a"));
    assert!(short.field_by_path(&["list", "element", "a"]).is_none());

    for (update, part) in [
        (update().delete_column("nope"), "there is no column `nope`"),
        (update().delete_column("id"), "identifier field `id` can't be deleted"),
        (update().delete_column("ts"), "is the source of partition field `ts_day`"),
        (update().delete_column("tags.key"), "keys and values of a map"),
        (update().delete_column("tags.value"), "keys and values of a map"),
        (update().delete_column("list.element"), "element of a list"),
        (update().rename_column("name", "n").delete_column("name"), "changed in the same update"),
        (update().delete_column("name").rename_column("name", "n"), "deleted in the same update"),
        (update().delete_column("name").update_column_doc("name", None), "deleted in the same update"),
        (update().delete_column("name").make_column_optional("name"), "deleted in the same update"),
        (update().delete_column("point").rename_column("point.x", "z"), "deleted in the same update"),
        (update().rename_column("point.x", "z").delete_column("point"), "changed in the same update"),
        (update().delete_column("name").move_first("name"), "deleted in the same update"),
        (update().move_first("name").delete_column("name"), "can't be moved"),
        (
            update().add_new(NewColumn::optional("z", P::Int).parent("point")).delete_column("point"),
            "added to it in the same update",
        ),
    ] {
        let message = fails(2, update);
        assert!(message.contains(part), "{message}");
    }
    let other = update().delete_column("id").set_identifier_fields(Vec::<String>::new());
    assert!(fails(2, other).contains("partition field `id_bucket_16`"));
}

#[test]
fn a_sort_column_stays() {
    let mut json = test_tables::json(2);
    json["sort-orders"] = json!([{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [
        {"source-id": 6, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    ]}]);
    json["default-sort-order-id"] = json!(1);
    let base = TableMetadata::from_json_value(&json).unwrap();
    for name in ["point", "point.x"] {
        let e = update().delete_column(name).updates_of(&base).unwrap_err().to_string();
        assert!(e.contains("sorted by column `point.x`"), "{e}");
    }
    assert!(update().delete_column("point.y").updates_of(&base).is_ok());
}

#[test]
fn the_source_of_an_old_or_void_partition_field_may_go() {
    let mut json = test_tables::json(1);
    json["partition-specs"][0]["fields"][1]["transform"] = json!("void");
    let base = TableMetadata::from_json_value(&json).unwrap();
    assert!(after(&base, update().delete_column("ts")).current_schema().field_by_id(FieldId(3)).is_none());

    let mut json = test_tables::json(2);
    json["partition-specs"].as_array_mut().unwrap().push(json!({"spec-id": 1, "fields": []}));
    json["default-spec-id"] = json!(1);
    let base = TableMetadata::from_json_value(&json).unwrap();
    let base = after(&base, update().delete_column("ts"));
    // Its name is free, too: the source is gone.
    after(&base, update().add_column("ts_day", P::Int));
}

#[test]
fn renaming() {
    let schema = schema_of(
        2,
        update().rename_column("name", "n").rename_column("point.x", "lon").rename_column("list.a", "b"),
    );
    assert_eq!(field(&schema, "n").id, FieldId(2));
    assert_eq!(field(&schema, "n").doc.as_deref(), Some("of a person"));
    assert_eq!(field(&schema, "point.lon").id, FieldId(6));
    assert_eq!(field(&schema, "list.element.b").id, FieldId(14));
    let swapped = schema_of(2, update().rename_column("ts", "day").rename_column("day", "ts"));
    assert_eq!((field(&swapped, "day").id, field(&swapped, "ts").id), (FieldId(3), FieldId(4)));
    // Identifier fields and partition sources are known by id.
    let schema = schema_of(2, update().rename_column("id", "key"));
    assert_eq!(schema.identifier_field_ids, [FieldId(1)]);

    for (update, part) in [
        (update().rename_column("nope", "n"), "there is no column `nope`"),
        (update().rename_column("name", ""), "the new name is empty"),
        (update().rename_column("name", "ts"), "field name `ts` occurs twice"),
        (update().rename_column("list.element", "e"), "element of a list"),
        (update().add_column("a", P::Int).rename_column("a", "b"), "there is no column `a`"),
    ] {
        let message = fails(2, update);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn requiring_breaks_readers() {
    assert!(fails(2, update().require_column("name")).contains("incompatible changes"));
    let schema = schema_of(2, update().allow_incompatible_changes().require_column("name"));
    assert!(field(&schema, "name").required);
    let optional = schema_of(2, update().make_column_optional("point.x"));
    assert!(!field(&optional, "point.x").required);
    let key = update().make_column_optional("tags.key");
    assert!(fails(2, key).contains("the keys of map `tags` can't change"));
    assert!(fails(2, update().make_column_optional("id")).contains("it is not required"));
    let element = update().allow_incompatible_changes().require_column("list.element");
    assert!(field(&schema_of(2, element), "list.element").required);
    // With a default, rows that are there have a value.
    let added = NewColumn::optional("d", P::Int).default_value(Value::Int(1));
    assert!(field(&schema_of(3, update().add_new(added).require_column("d")), "d").required);
}

#[test]
fn promotions() {
    let decimal = |precision, scale| P::Decimal { precision, scale };
    let schema = schema_of(
        2,
        update()
            .update_column("id", P::Long)
            .update_column("point.x", P::Double)
            .update_column("tags.n", decimal(38, 2))
            .update_column("list.a", P::Long),
    );
    for (path, t) in [
        ("id", P::Long),
        ("point.x", P::Double),
        ("tags.value.n", decimal(38, 2)),
        ("list.element.a", P::Long),
    ] {
        assert_eq!(field(&schema, path).field_type, Type::Primitive(t), "{path}");
    }
    for (version, name, to) in [
        (2, "day", P::Timestamp),
        (3, "day", P::Timestamptz),
        (3, "id", P::Double),
        (3, "tags.n", decimal(38, 3)),
        (3, "tags.n", decimal(8, 2)),
        (3, "name", P::Binary),
        (3, "point", P::Int),
        (3, "tags.key", P::Binary),
    ] {
        let message = fails(version, update().update_column(name, to.clone()));
        assert!(message.contains("its type can't change"), "{name} {to}: {message}");
    }
    for to in [P::Timestamp, P::TimestampNs] {
        let schema = schema_of(3, update().update_column("day", to.clone()));
        assert_eq!(field(&schema, "day").field_type, Type::Primitive(to));
    }
    let base = after(&table(3), update().add_column("u", P::Unknown));
    for to in [Type::Variant, P::String.into(), ListType::new(1, P::Int, true).into()] {
        let after = after(&base, update().update_column("u", to.clone()));
        let u = field(after.current_schema(), "u").clone();
        assert_eq!(u.id, FieldId(15));
        assert_eq!(u.field_type.to_string(), to.to_string());
    }
}

#[test]
fn keys_of_maps_never_change() {
    let mut json = test_tables::json(3);
    json["schemas"][0]["fields"][5]["type"]["key"] = json!({"type": "struct", "fields": [
        {"id": 15, "name": "k", "required": true, "type": "int"}
    ]});
    json["last-column-id"] = json!(15);
    let base = TableMetadata::from_json_value(&json).unwrap();
    for update in [
        update().update_column("tags.key.k", P::Long),
        update().rename_column("tags.key.k", "l"),
        update().delete_column("tags.key.k"),
        update().add_new(NewColumn::optional("l", P::Int).parent("tags.key")),
        update().update_column_doc("tags.key.k", Some("x")),
    ] {
        let e = update.updates_of(&base).unwrap_err().to_string();
        assert!(e.contains("the keys of map `tags` can't change"), "{e}");
    }
}

#[test]
fn a_promotion_must_not_change_partition_values() {
    let with_field = |transform: &str| {
        let mut json = test_tables::json(3);
        // Also of a spec that is not used any more.
        json["partition-specs"].as_array_mut().unwrap().push(json!({"spec-id": 1, "fields": [
            {"source-id": 4, "field-id": 1002, "name": "p", "transform": transform}
        ]}));
        json["last-partition-id"] = json!(1002);
        TableMetadata::from_json_value(&json).unwrap()
    };
    for (transform, is_allowed) in [
        ("year", true),
        ("month", true),
        ("day", true),
        ("void", true),
        ("bucket[4]", false),
        ("identity", false),
        ("zorder", false),
    ] {
        let base = with_field(transform);
        let result = update().update_column("day", P::Timestamp).updates_of(&base);
        assert_eq!(result.is_ok(), is_allowed, "{transform}");
        if let Err(e) = result {
            assert!(e.to_string().contains("partition field `p`"), "{e}");
        }
    }
    // The hash of an int is that of the long.
    assert!(update().update_column("id", P::Long).updates_of(&table(2)).is_ok());
}

#[test]
fn moving() {
    let schema = schema_of(
        2,
        update()
            .add_column("a", P::Int)
            .move_first("name")
            .move_after("a", "name")
            .move_before("list", "point")
            .move_first("point.y")
            .add_new(NewColumn::optional("b", P::Int).parent("list"))
            .move_before("list.element.b", "list.element.a"),
    );
    assert_eq!(names(&schema), ["name", "a", "id", "ts", "day", "list", "point", "tags"]);
    let children = |path: &str| {
        let children = field(&schema, path).field_type.children();
        children.iter().map(|f| f.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(children("point"), ["y", "x"]);
    assert_eq!(children("list.element"), ["b", "a"]);
    for (update, part) in [
        (update().move_first("nope"), "there is no column `nope`"),
        (update().move_after("name", "nope"), "there is no column `nope`"),
        (update().move_after("name", "name"), "next to itself"),
        (update().move_after("name", "point.x"), "lies in another struct"),
        (update().move_before("point.x", "name"), "lies in another struct"),
        (update().move_first("tags.value"), "only the fields of structs"),
        (update().move_before("name", "day").delete_column("day"), "can't be moved"),
    ] {
        let message = fails(2, update);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn identifier_fields() {
    let all = update().allow_incompatible_changes();
    let schema = schema_of(
        2,
        all.clone()
            .require_column("name")
            .set_identifier_fields(["n", "key", "id"])
            .rename_column("name", "n")
            .add_new(NewColumn::required("key", P::Int)),
    );
    assert_eq!(schema.identifier_field_ids, [FieldId(1), FieldId(2), FieldId(15)]);
    let none = schema_of(2, update().set_identifier_fields(Vec::<String>::new()));
    assert!(none.identifier_field_ids.is_empty());
    let case = update().case_sensitive(false).set_identifier_fields(["ID"]);
    assert!(case.updates_of(&table(2)).unwrap().is_empty());
    for (update, part) in [
        (update().set_identifier_fields(["nope"]), "there is no column `nope`"),
        (update().set_identifier_fields(["name"]), "it is not required"),
        (all.clone().require_column("point").set_identifier_fields(["point"]), "not of a primitive type"),
        (all.clone().require_column("point").set_identifier_fields(["point.x"]), "of a float type"),
        (all.clone().require_column("list.a").set_identifier_fields(["list.a"]), "lies in an optional"),
    ] {
        let message = fails(2, update);
        assert!(message.contains(part) || message.contains("lies in a list"), "{message}");
    }
    let in_optional = StructType::new(vec![NestedField::required(0, "k", P::Int)]);
    let message = fails(2, update().add_column("s", in_optional).set_identifier_fields(["s.k"]));
    assert!(message.contains("lies in an optional struct"), "{message}");
}

#[test]
fn union_by_name() {
    let other = Schema::new(
        SchemaId(9),
        vec![
            NestedField::required(1, "new", P::Int),
            NestedField { doc: Some("other".into()), ..NestedField::optional(2, "name", P::String) },
            NestedField::optional(3, "id", P::Long),
            NestedField::required(
                4,
                "point",
                StructType::new(vec![
                    NestedField::optional(5, "x", P::Double),
                    NestedField::required(6, "z", P::Double),
                ]),
            ),
            NestedField::optional(
                7,
                "list",
                ListType::new(8, StructType::new(vec![NestedField::optional(9, "b", P::Int)]), false),
            ),
            NestedField::optional(
                10,
                "tags",
                MapType::new(
                    11,
                    P::String,
                    12,
                    StructType::new(vec![NestedField::optional(
                        13,
                        "n",
                        P::Decimal { precision: 5, scale: 2 },
                    )]),
                    false,
                ),
            ),
        ],
        vec![],
    )
    .unwrap();
    let union = update().set_identifier_fields(Vec::<String>::new()).union_by_name(&other);
    let schema = schema_of(2, union);
    assert!(!field(&schema, "new").required, "rows that are there don't have it");
    assert_eq!(field(&schema, "name").doc.as_deref(), Some("other"));
    assert_eq!(field(&schema, "id").field_type, P::Long.into());
    assert!(!field(&schema, "id").required);
    assert_eq!(field(&schema, "point.x").field_type, P::Double.into());
    assert!(!field(&schema, "point.x").required);
    assert!(!field(&schema, "point").required, "it was optional and stays so");
    assert!(!field(&schema, "point.z").required);
    assert!(schema.field_by_path(&["list", "element", "b"]).is_some());
    let n = &field(&schema, "tags.value.n").field_type;
    assert_eq!(*n, P::Decimal { precision: 9, scale: 2 }.into(), "it is not narrowed");

    let of = |t: Type, name: &str| {
        let schema = Schema::new(SchemaId(0), vec![NestedField::optional(1, name, t)], vec![]).unwrap();
        update().union_by_name(&schema)
    };
    for (t, name) in [
        (P::String.into(), "id"),
        (P::Int.into(), "point"),
        (StructType::default().into(), "name"),
        (ListType::new(2, P::Int, false).into(), "point"),
        (P::Timestamp.into(), "day"),
    ] {
        let message = fails(2, of(t, name));
        assert!(message.contains(&format!("column `{name}`")), "{message}");
    }
    assert_eq!(names(&schema_of(2, of(P::Int.into(), "ID"))).last(), Some(&"ID"));
    let case = of(P::String.into(), "NAME").case_sensitive(false);
    assert!(case.updates_of(&table(2)).unwrap().is_empty());
}

#[test]
fn properties_of_columns_follow() {
    let base = with_properties(
        2,
        json!({
            "write.metadata.metrics.column.name": "full",
            "write.metadata.metrics.column.point.x": "counts",
            "write.metadata.metrics.column.point.y": "none",
            "write.parquet.bloom-filter-enabled.column.day": "true",
            "write.metadata.metrics.column.gone": "full",
            "write.metadata.metrics.default": "counts"
        }),
    );
    let update = update()
        .delete_column("day")
        .rename_column("point", "p")
        .rename_column("name", "point")
        .delete_column("list");
    let properties = after(&base, update).properties.clone();
    let expected: BTreeMap<String, String> = [
        ("write.metadata.metrics.column.point", "full"),
        ("write.metadata.metrics.column.p.x", "counts"),
        ("write.metadata.metrics.column.p.y", "none"),
        ("write.metadata.metrics.column.gone", "full"),
        ("write.metadata.metrics.default", "counts"),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .collect();
    assert_eq!(properties, expected);
}

fn mapping_after(mapping: Json, update: UpdateSchema) -> Json {
    let base = with_properties(2, json!({"schema.name-mapping.default": mapping.to_string()}));
    let after = after(&base, update);
    serde_json::from_str(after.properties.get("schema.name-mapping.default").unwrap()).unwrap()
}

#[test]
fn the_name_mapping_follows() {
    let mapping = json!([
        {"field-id": 1, "names": ["id"]},
        {"field-id": 2, "names": ["name", "nom"]},
        {"field-id": 5, "names": ["point"], "fields": [{"field-id": 6, "names": ["x"]}]}
    ]);
    let new = StructType::new(vec![NestedField::optional(0, "a", P::Int)]);
    let found = mapping_after(
        mapping.clone(),
        update()
            .rename_column("name", "n")
            .add_column("s", new)
            .add_new(NewColumn::optional("z", P::Int).parent("point"))
            .rename_column("point.x", "lon"),
    );
    let expected = json!([
        {"field-id": 1, "names": ["id"]},
        {"field-id": 2, "names": ["name", "nom", "n"]},
        {"field-id": 5, "names": ["point"], "fields": [
            {"field-id": 6, "names": ["x", "lon"]}, {"field-id": 17, "names": ["z"]}
        ]},
        {"field-id": 15, "names": ["s"], "fields": [{"field-id": 16, "names": ["a"]}]}
    ]);
    assert_eq!(found, expected);

    // What old files call `name` is not the new column's.
    for update in [
        update().delete_column("name").add_column("name", P::Int),
        update().rename_column("day", "name").delete_column("name"),
    ] {
        let mapping = mapping_after(mapping.clone(), update);
        let mapping = NameMapping::parse(&mapping.to_string()).unwrap();
        assert_eq!(mapping.root.get("name").unwrap().field_id, Some(FieldId(2)), "{mapping:?}");
    }
}

#[test]
fn a_name_mapping_that_is_none_is_left_alone() {
    let base = with_properties(2, json!({"schema.name-mapping.default": "{"}));
    let after = after(&base, update().add_column("a", P::Int));
    assert_eq!(after.properties.get("schema.name-mapping.default").map(String::as_str), Some("{"));
}

#[test]
fn case_does_not_matter_if_told_so() {
    let any = update().case_sensitive(false);
    let schema = schema_of(
        2,
        any.rename_column("NAME", "Name2").update_column("Point.X", P::Double).move_first("TAGS"),
    );
    assert_eq!(field(&schema, "Name2").id, FieldId(2));
    assert_eq!(names(&schema).first(), Some(&"tags"));
    assert!(fails(2, update().delete_column("NAME")).contains("there is no column `NAME`"));
}

/// A change that may or may not be possible.
fn any_change() -> impl Strategy<Value = UpdateSchema> {
    let path = prop_oneof![
        "[abc]",
        Just("name".to_owned()),
        Just("day".to_owned()),
        Just("id".to_owned()),
        Just("point".to_owned()),
        "point\\.[abxy]",
        "list\\.[ab]",
        "tags\\.[nab]",
    ];
    let parent = prop_oneof![
        Just(None),
        Just(Some("point")),
        Just(Some("list")),
        Just(Some("tags")),
        Just(Some("a")),
        Just(Some("point.a"))
    ];
    let primitive = prop_oneof![
        Just(P::Int),
        Just(P::Long),
        Just(P::Double),
        Just(P::Date),
        Just(P::Timestamp),
        Just(P::Unknown),
        Just(P::Decimal { precision: 12, scale: 2 })
    ];
    let new = primitive.clone().prop_flat_map(|p| {
        prop_oneof![
            Just(Type::Primitive(p.clone())),
            Just(ListType::new(0, p.clone(), false).into()),
            Just(StructType::new(vec![NestedField::optional(0, "a", p.clone())]).into()),
            Just(
                MapType::new(0, P::String, 0, StructType::new(vec![NestedField::optional(0, "b", p)]), true)
                    .into()
            ),
        ]
    });
    let name = "[abcxy]";
    let change = prop_oneof![
        3 => (name, parent, new).prop_map(|(name, parent, t): (String, _, Type)| {
            let column = NewColumn::optional(name, t);
            update().add_new(match parent { Some(parent) => column.parent(parent), None => column })
        }),
        2 => path.clone().prop_map(|p| update().delete_column(p)),
        2 => (path.clone(), name).prop_map(|(p, n)| update().rename_column(p, n)),
        1 => (path.clone(), primitive).prop_map(|(p, t)| update().update_column(p, t)),
        1 => path.clone().prop_map(|p| update().make_column_optional(p)),
        1 => path.clone().prop_map(|p| update().allow_incompatible_changes().require_column(p)),
        1 => path.clone().prop_map(|p| update().move_first(p)),
        1 => (path.clone(), path).prop_map(|(p, o)| update().move_after(p, o)),
    ];
    proptest::collection::vec(change, 1..4).prop_map(|updates| {
        let mut all = update();
        for mut one in updates {
            all.allow_incompatible |= one.allow_incompatible;
            all.changes.append(&mut one.changes);
        }
        all
    })
}

/// What must not change of a field as long as it is there: where it lies, and its kind of type.
fn identity(schema: &Schema, id: FieldId) -> (Vec<FieldId>, &'static str) {
    let path = schema.path_of(id).unwrap();
    let kind = match path.last().unwrap().field_type {
        Type::Primitive(P::Unknown) => "any",
        Type::Primitive(_) => "primitive",
        Type::Struct(_) => "struct",
        Type::List(_) => "list",
        Type::Map(_) => "map",
        Type::Variant => "variant",
    };
    (path.iter().map(|f| f.id).collect(), kind)
}

proptest! {
    #[test]
    fn ids_are_stable_and_never_used_again(
        updates in proptest::collection::vec(any_change(), 1..12),
        version in 1u8..=3,
    ) {
        let mut table = table(version);
        let mut ever: BTreeSet<FieldId> = table.current_schema().field_ids().collect();
        let mut made = 0;
        for update in updates {
            let Ok(updates) = update.updates_of(&table) else { continue };
            made += 1;
            // `apply` also checks that the reader takes what is written, and reads the same.
            let next = apply(&table, &updates);
            let (before, after) = (table.current_schema(), next.current_schema());
            for id in after.field_ids() {
                match before.field_by_id(id) {
                    Some(_) => {
                        let (was, is) = (identity(before, id), identity(after, id));
                        prop_assert_eq!(&was.0, &is.0);
                        prop_assert!(was.1 == is.1 || was.1 == "any", "{} became {}", was.1, is.1);
                    }
                    None => prop_assert!(ever.insert(id), "id {} is used again", id),
                }
            }
            prop_assert!(next.last_column_id >= after.highest_field_id());
            prop_assert!(next.last_column_id >= table.last_column_id);
            table = next;
        }
        prop_assume!(made > 0);
    }
}
