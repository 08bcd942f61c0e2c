use serde_json::json;

use super::*;
use crate::transaction::evolution::UpdateSchema;
use crate::transaction::evolution::test_tables::{self, apply, table};

fn update() -> UpdateSpec {
    UpdateSpec::new()
}

fn after(base: &TableMetadata, update: UpdateSpec) -> TableMetadata {
    apply(base, &update.updates_of(base).unwrap())
}

fn fails(version: u8, update: UpdateSpec) -> String {
    update.updates_of(&table(version)).unwrap_err().to_string()
}

/// Name, transform and id of each field.
fn fields(metadata: &TableMetadata) -> Vec<(String, String, i32)> {
    let fields = metadata.default_spec().fields.iter();
    fields.map(|f| (f.name.clone(), f.transform.to_string(), f.field_id.0)).collect()
}

fn expected(fields: &[(&str, &str, i32)]) -> Vec<(String, String, i32)> {
    fields.iter().map(|(n, t, id)| ((*n).to_owned(), (*t).to_owned(), *id)).collect()
}

#[test]
fn fields_are_named_after_column_and_transform() {
    let after = after(
        &table(2),
        update()
            .remove_field("id_bucket_16")
            .remove_field("ts_day")
            .add_identity("name")
            .add_field("id", Transform::Bucket(8))
            .add_field("name", Transform::Truncate(4))
            .add_field("ts", Transform::Hour)
            .add_field("day", Transform::Year)
            .add_field("point.x", Transform::Identity)
            .add_named_field("shard", "name", Transform::Bucket(2)),
    );
    let all = expected(&[
        ("name", "identity", 1002),
        ("id_bucket_8", "bucket[8]", 1003),
        ("name_trunc_4", "truncate[4]", 1004),
        ("ts_hour", "hour", 1005),
        ("day_year", "year", 1006),
        ("point.x", "identity", 1007),
        ("shard", "bucket[2]", 1008),
    ]);
    assert_eq!(fields(&after), all);
    assert_eq!((after.default_spec_id, after.last_partition_id), (SpecId(1), FieldId(1008)));
}

#[test]
fn version_1_keeps_removed_fields_as_void() {
    let base = after(&table(1), update().remove_field("id_bucket_16").add_field("ts", Transform::Month));
    let all = [("id_bucket_16", "void", 1000), ("ts_day", "day", 1001), ("ts_month", "month", 1002)];
    assert_eq!(fields(&base), expected(&all));
    // The void field makes way for a new one of its name.
    let again = after(&base, update().add_field("id", Transform::Bucket(16)));
    let all = [
        ("id_bucket_16_1000", "void", 1000),
        ("ts_day", "day", 1001),
        ("ts_month", "month", 1002),
        ("id_bucket_16", "bucket[16]", 1003),
    ];
    assert_eq!(fields(&again), expected(&all));
    let renamed = after(&base, update().rename_field("ts_day", "id_bucket_16"));
    let all =
        [("id_bucket_16_1000", "void", 1000), ("id_bucket_16", "day", 1001), ("ts_month", "month", 1002)];
    assert_eq!(fields(&renamed), expected(&all));
    // One that is removed for good has no name to give.
    let both = update().remove_field("id_bucket_16").rename_field("ts_day", "id_bucket_16");
    assert!(both.updates_of(&base).is_err());
    let replaced =
        after(&table(1), update().remove_field("ts_day").add_named_field("ts_day", "ts", Transform::Month));
    let all =
        [("id_bucket_16", "bucket[16]", 1000), ("ts_day_1001", "void", 1001), ("ts_day", "month", 1002)];
    assert_eq!(fields(&replaced), expected(&all));
}

#[test]
fn later_versions_use_fields_and_specs_again() {
    let base = after(&table(2), update().remove_field("ts_day"));
    assert_eq!(fields(&base), expected(&[("id_bucket_16", "bucket[16]", 1000)]));
    let again = update().add_field("ts", Transform::Day).updates_of(&base).unwrap();
    assert_eq!(again, [TableUpdate::SetDefaultSpec(SpecId(0))], "an equal spec");
    let other = after(&base, update().remove_field("id_bucket_16").add_field("ts", Transform::Day));
    assert_eq!(fields(&other), expected(&[("ts_day", "day", 1001)]), "the field of an earlier spec");
    let named = after(&base, update().add_named_field("d", "ts", Transform::Day));
    assert_eq!(fields(&named).last().unwrap(), &("d".to_owned(), "day".to_owned(), 1002));
}

#[test]
fn removed_and_added_again_is_nothing() {
    for update in [
        update().remove_field("ts_day").add_field("ts", Transform::Day),
        update().remove_term("ts", Transform::Day).add_named_field("ts_day", "ts", Transform::Day),
        update(),
    ] {
        assert!(update.updates_of(&table(2)).unwrap().is_empty(), "{update:?}");
        assert!(update.updates_of(&table(1)).unwrap().is_empty(), "{update:?}");
    }
    let renamed = update().remove_field("ts_day").add_named_field("d", "ts", Transform::Day);
    let all = [("id_bucket_16", "bucket[16]", 1000), ("d", "day", 1001)];
    assert_eq!(fields(&after(&table(2), renamed)), expected(&all));
}

#[test]
fn contradictions_are_refused() {
    let day = Transform::Day;
    for (update, part) in [
        (update().add_field("nope", day.clone()), "there is no column `nope`"),
        (update().add_field("ts", day.clone()), "there is such a field already, `ts_day`"),
        (update().add_field("name", day.clone()), "day does not apply to type string"),
        (update().add_identity("point"), "does not apply"),
        (update().add_identity("list.a"), "in a list or map"),
        (update().add_identity("name").add_identity("name"), "added already"),
        (
            update().add_field("ts", Transform::Hour).add_field("ts", Transform::Month),
            "redundant with `ts_hour`",
        ),
        (
            update().add_named_field("ts_day", "id", Transform::Bucket(2)),
            "a partition field `ts_day` already",
        ),
        (update().add_named_field("name", "id", Transform::Bucket(2)), "can't be called `name`"),
        (update().rename_field("ts_day", "name"), "can't be called `name`"),
        (update().add_named_field("", "id", Transform::Bucket(2)), "is empty"),
        (
            update().add_named_field("n", "id", Transform::Bucket(2)).add_named_field(
                "n",
                "id",
                Transform::Bucket(3),
            ),
            "of that name is added already",
        ),
        (update().add_field("id", Transform::Unknown("zorder".into())), "no transform `zorder`"),
        (update().remove_field("nope"), "no such partition field"),
        (update().remove_term("ts", Transform::Hour), "no such partition field"),
        (update().add_identity("name").remove_field("name"), "added in the same update"),
        (update().add_identity("name").remove_term("name", Transform::Identity), "added in the same update"),
        (update().rename_field("ts_day", "d").remove_field("ts_day"), "renamed in the same update"),
        (update().remove_field("ts_day").rename_field("ts_day", "d"), "removed in the same update"),
        (update().rename_field("nope", "d"), "no such partition field"),
        (update().add_identity("name").rename_field("name", "d"), "added in the same update"),
        (update().rename_field("ts_day", "id_bucket_16"), "two partition fields `id_bucket_16`"),
    ] {
        let message = fails(2, update);
        assert!(message.contains(part), "{message}");
    }
    // A column's own name is its identity field's.
    assert!(update().add_named_field("name", "name", Transform::Bucket(2)).updates_of(&table(2)).is_ok());
    // Days and hours beside each other are allowed if one was there before.
    assert!(update().add_field("ts", Transform::Hour).updates_of(&table(2)).is_ok());
}

#[test]
fn unknown_transforms_are_not_touched() {
    let mut json = test_tables::json(2);
    json["partition-specs"][0]["fields"][0]["transform"] = json!("zorder");
    let base = TableMetadata::from_json_value(&json).unwrap();
    let e = update().add_identity("name").updates_of(&base).unwrap_err();
    assert!(e.to_string().contains("`id_bucket_16` with the transform zorder"), "{e}");
}

#[test]
fn a_spec_for_later() {
    let base = after(&table(2), update().add_identity("name").add_non_default_spec());
    assert_eq!(base.default_spec_id, SpecId(0));
    assert_eq!(base.partition_specs.len(), 2);
    let updates = update().add_identity("name").updates_of(&base).unwrap();
    assert_eq!(updates, [TableUpdate::SetDefaultSpec(SpecId(1))]);
}

#[test]
fn names_without_case() {
    let any = update().case_sensitive(false);
    let after = after(&table(2), any.add_field("POINT.X", Transform::Identity));
    assert_eq!(fields(&after).last().unwrap().0, "point.x");
}

/// The source of a field in use can't go, that of a removed one can.
#[test]
fn schema_and_spec_together() {
    let base = after(&table(2), update().remove_field("ts_day"));
    let updates = futures::executor::block_on(async {
        use crate::transaction::Action;
        let table = test_tables::opened(base.clone());
        UpdateSchema::new().delete_column("ts").updates(&table).await
    });
    let base = apply(&base, &updates.unwrap());
    assert_eq!(base.partition_specs.len(), 2, "the old spec is still there for the old files");
}
