use proptest::prelude::*;

use super::super::super::requirement::{TableRequirement, requirements_for, requirements_for_replace};
use super::*;

/// Updates that may or may not fit the table.
fn update() -> impl Strategy<Value = TableUpdate> {
    let id = 0_i64..5;
    let small = -1_i32..4;
    let transform = prop_oneof![
        Just(Transform::Identity),
        Just(Transform::Day),
        Just(Transform::Bucket(4)),
        Just(Transform::Void)
    ];
    let names = || prop::sample::select(vec![MAIN_BRANCH, "b", "t"]);
    let columns = prop::sample::subsequence(
        vec![
            NestedField::required(1, "id", P::Long),
            NestedField::optional(2, "ts", P::Timestamp),
            NestedField::optional(3, "name", P::String),
            NestedField::optional(4, "extra", P::Int),
            NestedField::optional(5, "new", P::TimestampNs),
        ],
        1..=5,
    );
    let partition_fields = prop::collection::vec((1_i32..5, 1000_i32..1003, transform.clone()), 0..3);
    prop_oneof![
        Just(TableUpdate::AssignUuid(Uuid::from_u128(7))),
        (1_u8..4).prop_map(TableUpdate::UpgradeFormatVersion),
        columns.prop_map(|fields| TableUpdate::AddSchema(Arc::new(schema(0, fields)))),
        small.clone().prop_map(|id| TableUpdate::SetCurrentSchema(SchemaId(id))),
        partition_fields.prop_map(|mut fields| {
            // Twice the same id is not even JSON.
            fields.dedup_by_key(|(_, id, _)| *id);
            let fields = fields.into_iter().enumerate();
            let fields = fields.map(|(i, (source, id, t))| field(source, id, &format!("p{i}"), t));
            TableUpdate::AddSpec(Arc::new(spec(fields.collect())))
        }),
        small.clone().prop_map(|id| TableUpdate::SetDefaultSpec(SpecId(id))),
        (1_i32..5, transform)
            .prop_map(|(source, t)| TableUpdate::AddSortOrder(Arc::new(order(vec![key(source, t)])))),
        small.clone().prop_map(|id| TableUpdate::SetDefaultSortOrder(SortOrderId(id))),
        (id.clone(), 1_i64..9, -70_000_i64..70_000).prop_map(|(id, sequence, at)| {
            let mut new = snapshot(&table(2), id, None, CREATED + at);
            new.sequence_number = SequenceNumber(sequence);
            add(new)
        }),
        (id.clone(), 0_i64..50, 0_i64..9).prop_map(|(id, first, added)| {
            let mut new = snapshot(&table(3), id, None, CREATED);
            new.sequence_number = SequenceNumber(first + 1);
            (new.first_row_id, new.added_rows) = (Some(first), Some(added));
            add(new)
        }),
        (names(), id.clone()).prop_map(|(name, id)| set_branch(name, id)),
        (names(), id.clone()).prop_map(|(name, id)| set_tag(name, id)),
        prop::collection::vec(id.clone().prop_map(SnapshotId), 0..3).prop_map(TableUpdate::RemoveSnapshots),
        names().prop_map(|name| TableUpdate::RemoveSnapshotRef(name.to_owned())),
        Just(TableUpdate::SetLocation("s3://b/other/".to_owned())),
        Just(TableUpdate::SetProperties(strings(&[("a", "b")]))),
        Just(TableUpdate::RemoveProperties(vec!["a".to_owned()])),
        id.prop_map(|id| TableUpdate::SetStatistics(json!({"snapshot-id": id, "statistics-path": "s"}))),
        prop::collection::vec(small.clone().prop_map(SpecId), 0..2)
            .prop_map(TableUpdate::RemovePartitionSpecs),
        prop::collection::vec(small.prop_map(SchemaId), 0..2).prop_map(TableUpdate::RemoveSchemas),
    ]
}

fn ids_are_where_they_should_be(table: &TableMetadata) {
    assert!(table.schemas.iter().all(|(id, schema)| *id == schema.schema_id));
    assert!(table.partition_specs.iter().all(|(id, spec)| *id == spec.spec_id));
    assert!(table.sort_orders.iter().all(|(id, order)| *id == order.order_id));
    assert!(table.schemas.values().all(|schema| schema.highest_field_id() <= table.last_column_id));
    let fields = table.partition_specs.values().flat_map(|spec| &spec.fields);
    assert!(fields.into_iter().all(|field| field.field_id <= table.last_partition_id));
    assert!(table.snapshots.iter().all(|s| s.sequence_number <= table.last_sequence_number));
    let main = table.refs.get(MAIN_BRANCH).map(|r| r.snapshot_id);
    assert_eq!(main, table.current_snapshot_id);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is applied, one commit after another: what comes out is what a reader reads, the
    /// requirements of a commit hold where it was made, and time and ids never go back.
    #[test]
    fn what_is_applied_can_be_read(
        version in 1_u8..4,
        snapshots in 0_i64..3,
        commits in prop::collection::vec(prop::collection::vec(update(), 1..4), 1..12),
    ) {
        let mut base = with_snapshots(version, snapshots);
        for (i, updates) in commits.iter().enumerate() {
            for requirement in requirements_for(updates, Some(&base)) {
                requirement.check(Some(&base)).unwrap();
                let json = requirement.to_json();
                prop_assert_eq!(TableRequirement::from_json(&json).unwrap().to_json(), json);
            }
            for requirement in requirements_for_replace(updates, &base) {
                requirement.check(Some(&base)).unwrap();
            }
            for update in updates {
                prop_assert_eq!(&TableUpdate::from_json(&update.to_json().unwrap()).unwrap(), update);
            }
            let Ok(after) = apply(&base, updates, CREATED + 1000 * i as i64) else { continue };
            ids_are_where_they_should_be(&after);
            prop_assert!(after.last_updated_ms >= base.last_updated_ms);
            prop_assert!(after.format_version >= base.format_version);
            prop_assert!(after.last_column_id >= base.last_column_id);
            prop_assert!(after.last_partition_id >= base.last_partition_id);
            prop_assert!(after.last_sequence_number >= base.last_sequence_number);
            prop_assert!(after.next_row_id >= base.next_row_id);
            prop_assert_eq!(after.table_uuid, base.table_uuid);
            base = after;
        }
    }
}
