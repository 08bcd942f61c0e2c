//! What must hold of a table for a commit to be right (the REST protocol's `TableRequirement`).

use std::fmt::Display;

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

use super::ids::{FieldId, SchemaId, SnapshotId, SortOrderId, SpecId};
use super::snapshot::{RefType, SnapshotRef};
use super::table_metadata::{MAIN_BRANCH, TableMetadata};
use super::table_update::TableUpdate;

/// One condition on the table as it is when a commit arrives.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TableRequirement {
    /// There is no such table yet.
    Create,
    /// The table is the one that was read, not another of its name.
    Uuid(Uuid),
    /// The branch or tag names this snapshot; `None`: there is none of that name.
    RefSnapshotId {
        /// The name of the branch or tag.
        name: String,
        /// The snapshot it names.
        snapshot_id: Option<SnapshotId>,
    },
    /// The branch or tag is just this, with its rules for expiry; `None`: there is none of that name.
    /// The REST protocol can't say so: its servers are asked for the snapshot only.
    Ref {
        /// The name of the branch or tag.
        name: String,
        /// What it is.
        reference: Option<SnapshotRef>,
    },
    /// Nobody added columns.
    LastAssignedFieldId(FieldId),
    /// Nobody changed the current schema.
    CurrentSchemaId(SchemaId),
    /// Nobody added partition fields.
    LastAssignedPartitionId(FieldId),
    /// Nobody changed the spec that writers use.
    DefaultSpecId(SpecId),
    /// Nobody changed the sort order that writers use.
    DefaultSortOrderId(SortOrderId),
}

impl TableRequirement {
    /// Whether it holds of a table; `None` is a table that does not exist.
    ///
    /// # Errors
    /// `CommitConflict`, with what is there instead, if it does not.
    pub fn check(&self, base: Option<&TableMetadata>) -> Result<()> {
        let failed = |message: String| Err(Error::new(ErrorKind::CommitConflict, message));
        let Some(table) = base else {
            return match self {
                Self::Create
                | Self::RefSnapshotId { snapshot_id: None, .. }
                | Self::Ref { reference: None, .. }
                | Self::LastAssignedFieldId(_)
                | Self::LastAssignedPartitionId(_) => Ok(()),
                _ => failed("the table does not exist any more".to_owned()),
            };
        };
        match self {
            Self::Create => failed("the table exists already".to_owned()),
            Self::Uuid(uuid) => match table.table_uuid {
                Some(found) if found == *uuid => Ok(()),
                Some(found) => failed(format!("the table is another one: its UUID is {found}, not {uuid}")),
                None => failed(format!("the table is another one: it has no UUID, not {uuid}")),
            },
            Self::RefSnapshotId { name, snapshot_id } => check_snapshot(table, name, *snapshot_id),
            Self::Ref { name, reference } => {
                check_snapshot(table, name, reference.as_ref().map(|reference| reference.snapshot_id))?;
                match table.refs.get(name) == reference.as_ref() {
                    true => Ok(()),
                    false => failed(format!("the rules of branch or tag `{name}` were changed meanwhile")),
                }
            }
            Self::LastAssignedFieldId(id) => unchanged("last assigned field id", table.last_column_id, *id),
            Self::CurrentSchemaId(id) => unchanged("current schema", table.current_schema_id, *id),
            Self::LastAssignedPartitionId(id) => {
                unchanged("last assigned partition field id", table.last_partition_id, *id)
            }
            Self::DefaultSpecId(id) => unchanged("default partition spec", table.default_spec_id, *id),
            Self::DefaultSortOrderId(id) => unchanged("default sort order", table.default_sort_order_id, *id),
        }
    }
}

fn check_snapshot(table: &TableMetadata, name: &str, wanted: Option<SnapshotId>) -> Result<()> {
    let found = table.refs.get(name).map(|reference| reference.snapshot_id);
    let message = match (found, wanted) {
        (found, wanted) if found == wanted => return Ok(()),
        (_, None) => format!("branch or tag `{name}` was created meanwhile"),
        (None, Some(wanted)) => format!("branch or tag `{name}` is gone; it was at snapshot {wanted}"),
        (Some(found), Some(wanted)) => {
            format!("branch or tag `{name}` is at snapshot {found}, not {wanted}")
        }
    };
    Err(Error::new(ErrorKind::CommitConflict, message))
}

fn unchanged<I: PartialEq + Display>(what: &str, found: I, wanted: I) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::new(ErrorKind::CommitConflict, format!("the {what} has changed: it is {found}, not {wanted}")))
}

/// What must hold of a table for `updates`, which were made from `base`, to be right: that it does
/// not exist, without a base; else that nothing has changed which they build on.
pub fn requirements_for(updates: &[TableUpdate], base: Option<&TableMetadata>) -> Vec<TableRequirement> {
    derive(updates, base, false)
}

/// The same for updates that replace the table, and so build on nothing but its ids.
pub fn requirements_for_replace(updates: &[TableUpdate], base: &TableMetadata) -> Vec<TableRequirement> {
    derive(updates, Some(base), true)
}

fn derive(updates: &[TableUpdate], base: Option<&TableMetadata>, replace: bool) -> Vec<TableRequirement> {
    use TableRequirement as R;
    let Some(base) = base else {
        return vec![R::Create];
    };
    let mut required: Vec<R> = base.table_uuid.map(R::Uuid).into_iter().collect();
    let mut require = |requirement: R| {
        if !required.contains(&requirement) {
            required.push(requirement);
        }
    };
    for update in updates {
        match update {
            TableUpdate::AddSchema(_) => require(R::LastAssignedFieldId(base.last_column_id)),
            TableUpdate::AddSpec(_) => require(R::LastAssignedPartitionId(base.last_partition_id)),
            // All else is about what a replaced table does not keep.
            _ if replace => {}
            // What sets one sets its rules too, which others may have changed.
            TableUpdate::SetSnapshotRef { name, .. } => {
                require(R::Ref { name: name.clone(), reference: base.refs.get(name).cloned() });
            }
            // With the default spec, others may have removed the one that the files were written with.
            TableUpdate::AddSnapshot(_) => require(R::DefaultSpecId(base.default_spec_id)),
            TableUpdate::SetCurrentSchema(_) => require(R::CurrentSchemaId(base.current_schema_id)),
            TableUpdate::SetDefaultSpec(_) => require(R::DefaultSpecId(base.default_spec_id)),
            TableUpdate::SetDefaultSortOrder(_) => {
                require(R::DefaultSortOrderId(base.default_sort_order_id));
            }
            TableUpdate::RemovePartitionSpecs(_) => {
                require(R::DefaultSpecId(base.default_spec_id));
                branches(base).for_each(&mut require);
            }
            TableUpdate::RemoveSchemas(_) => {
                require(R::CurrentSchemaId(base.current_schema_id));
                branches(base).for_each(&mut require);
            }
            _ => {}
        }
    }
    required
}

/// That nobody wrote to a branch: old schemas and specs may be in use by now, on `main`, too, as files
/// of any spec can be added.
fn branches(base: &TableMetadata) -> impl Iterator<Item = TableRequirement> + '_ {
    let at = |name: &String, reference| TableRequirement::Ref { name: name.clone(), reference };
    let is_new = !base.refs.contains_key(MAIN_BRANCH);
    let branches = base.refs.iter().filter(|(_, r)| r.ref_type == RefType::Branch);
    let branches = branches.map(move |(name, reference)| at(name, Some(reference.clone())));
    branches.chain(is_new.then(|| TableRequirement::Ref { name: MAIN_BRANCH.to_owned(), reference: None }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::ids::SequenceNumber;
    use super::super::schema::Schema;
    use super::super::snapshot::{Snapshot, SnapshotManifests};
    use super::super::types::{NestedField, PrimitiveType};
    use super::TableRequirement as R;
    use super::*;

    fn table() -> TableMetadata {
        let fields = vec![NestedField::optional(1, "a", PrimitiveType::Int)];
        let schema = Schema::new(SchemaId(0), fields, vec![]).unwrap();
        let updates = TableMetadata::creation(&schema, None, None, "/t", &BTreeMap::new()).unwrap();
        let mut table = TableMetadata::apply(None, &updates, 0).unwrap();
        for (name, ref_type, id) in
            [("main", RefType::Branch, 1), ("b", RefType::Branch, 2), ("t", RefType::Tag, 3)]
        {
            table.refs.insert(name.into(), SnapshotRef::new(SnapshotId(id), ref_type));
        }
        table
    }

    fn set_ref(name: &str) -> TableUpdate {
        let reference = SnapshotRef::new(SnapshotId(9), RefType::Branch);
        TableUpdate::SetSnapshotRef { name: name.into(), reference }
    }

    fn snapshot() -> Arc<Snapshot> {
        Arc::new(Snapshot {
            snapshot_id: SnapshotId(9),
            parent_snapshot_id: None,
            sequence_number: SequenceNumber(1),
            timestamp_ms: 0,
            manifests: SnapshotManifests::List("/t/list".into()),
            summary: BTreeMap::new(),
            schema_id: None,
            first_row_id: None,
            added_rows: None,
            key_id: None,
            extra: Default::default(),
        })
    }

    fn at(name: &str, id: Option<i64>) -> R {
        R::RefSnapshotId { name: name.into(), snapshot_id: id.map(SnapshotId) }
    }

    fn is(table: &TableMetadata, name: &str) -> R {
        R::Ref { name: name.into(), reference: table.refs.get(name).cloned() }
    }

    #[test]
    fn each_update_has_its_requirements() {
        let table = table();
        let schema = TableUpdate::AddSchema(Arc::clone(table.current_schema()));
        let spec = TableUpdate::AddSpec(Arc::clone(table.default_spec()));
        let (branch, main) = (is(&table, "b"), is(&table, "main"));
        let cases = [
            (schema, vec![R::LastAssignedFieldId(FieldId(1))]),
            (TableUpdate::SetCurrentSchema(SchemaId(-1)), vec![R::CurrentSchemaId(SchemaId(0))]),
            (spec, vec![R::LastAssignedPartitionId(FieldId(999))]),
            (TableUpdate::SetDefaultSpec(SpecId(-1)), vec![R::DefaultSpecId(SpecId(0))]),
            (TableUpdate::SetDefaultSortOrder(SortOrderId(0)), vec![R::DefaultSortOrderId(SortOrderId(0))]),
            (set_ref("main"), vec![is(&table, "main")]),
            (set_ref("new"), vec![is(&table, "new")]),
            (
                TableUpdate::RemoveSchemas(vec![]),
                vec![R::CurrentSchemaId(SchemaId(0)), branch.clone(), main.clone()],
            ),
            (TableUpdate::RemovePartitionSpecs(vec![]), vec![R::DefaultSpecId(SpecId(0)), branch, main]),
            (TableUpdate::AddSnapshot(snapshot()), vec![R::DefaultSpecId(SpecId(0))]),
            (TableUpdate::SetLocation("/x".into()), vec![]),
            (TableUpdate::RemoveSnapshots(vec![]), vec![]),
        ];
        let mut all = vec![R::Uuid(table.table_uuid.unwrap())];
        for (update, expected) in &cases {
            let found = requirements_for(std::slice::from_ref(update), Some(&table));
            assert_eq!(found[0], R::Uuid(table.table_uuid.unwrap()));
            assert_eq!(&found[1..], expected, "{}", update.action());
            for requirement in expected {
                if !all.contains(requirement) {
                    all.push(requirement.clone());
                }
            }
        }
        // Each once, however often an update occurs.
        let updates: Vec<_> = cases.iter().chain(&cases).map(|(update, _)| update.clone()).collect();
        assert_eq!(requirements_for(&updates, Some(&table)), all);
        assert_eq!(requirements_for(&updates, None), [R::Create]);
        let replaced = [
            R::Uuid(table.table_uuid.unwrap()),
            R::LastAssignedFieldId(FieldId(1)),
            R::LastAssignedPartitionId(FieldId(999)),
        ];
        assert_eq!(requirements_for_replace(&updates, &table), replaced);
    }

    #[test]
    fn an_old_table_without_a_uuid_has_none_to_require() {
        let mut table = table();
        table.table_uuid = None;
        assert_eq!(requirements_for(&[], Some(&table)), []);
        assert!(R::Uuid(Uuid::from_u128(1)).check(Some(&table)).is_err());
    }

    #[test]
    fn requirements_hold_or_are_conflicts() {
        let table = table();
        let holds = [
            R::Uuid(table.table_uuid.unwrap()),
            at("main", Some(1)),
            at("new", None),
            is(&table, "main"),
            is(&table, "new"),
            R::LastAssignedFieldId(FieldId(1)),
            R::CurrentSchemaId(SchemaId(0)),
            R::LastAssignedPartitionId(FieldId(999)),
            R::DefaultSpecId(SpecId(0)),
            R::DefaultSortOrderId(SortOrderId(0)),
        ];
        let fails = [
            R::Create,
            R::Uuid(Uuid::from_u128(1)),
            at("main", Some(2)),
            at("main", None),
            at("new", Some(1)),
            R::Ref { name: "main".into(), reference: None },
            R::Ref { name: "new".into(), reference: table.refs.get("main").cloned() },
            R::Ref { name: "main".into(), reference: table.refs.get("b").cloned() },
            R::Ref {
                name: "main".into(),
                reference: Some(SnapshotRef {
                    max_ref_age_ms: Some(1),
                    ..SnapshotRef::new(SnapshotId(1), RefType::Branch)
                }),
            },
            R::LastAssignedFieldId(FieldId(2)),
            R::CurrentSchemaId(SchemaId(1)),
            R::LastAssignedPartitionId(FieldId(1000)),
            R::DefaultSpecId(SpecId(1)),
            R::DefaultSortOrderId(SortOrderId(1)),
        ];
        for requirement in &holds {
            requirement.check(Some(&table)).unwrap();
        }
        for requirement in &fails {
            let error = requirement.check(Some(&table)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CommitConflict, "{requirement:?}");
        }
        assert!(R::Create.check(None).is_ok());
        assert!(at("main", None).check(None).is_ok());
        assert!(is(&table, "new").check(None).is_ok());
        assert!(is(&table, "main").check(None).is_err());
        for requirement in [&holds[0], &holds[1], &holds[6]] {
            let error = requirement.check(None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CommitConflict, "{requirement:?}");
        }
    }
}
