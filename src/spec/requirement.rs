//! What must hold of a table for a commit to be right (the REST protocol's `TableRequirement`).

use std::fmt::Display;

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

use super::ids::{FieldId, SchemaId, SnapshotId, SortOrderId, SpecId};
use super::snapshot::RefType;
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
            Self::RefSnapshotId { name, snapshot_id } => {
                let found = table.refs.get(name).map(|reference| reference.snapshot_id);
                match (found, snapshot_id) {
                    (found, wanted) if found == *wanted => Ok(()),
                    (Some(_), None) => failed(format!("branch or tag `{name}` was created meanwhile")),
                    (None, Some(wanted)) => {
                        failed(format!("branch or tag `{name}` is gone; it was at snapshot {wanted}"))
                    }
                    (Some(found), Some(wanted)) => {
                        failed(format!("branch or tag `{name}` is at snapshot {found}, not {wanted}"))
                    }
                    (None, None) => Ok(()),
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
            TableUpdate::SetSnapshotRef { name, .. } => require(R::RefSnapshotId {
                name: name.clone(),
                snapshot_id: base.refs.get(name).map(|reference| reference.snapshot_id),
            }),
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

/// That nobody wrote to a branch other than `main`, where old schemas and specs may be in use.
fn branches(base: &TableMetadata) -> impl Iterator<Item = TableRequirement> + '_ {
    let others = base.refs.iter().filter(|(name, r)| r.ref_type == RefType::Branch && *name != MAIN_BRANCH);
    others.map(|(name, reference)| TableRequirement::RefSnapshotId {
        name: name.clone(),
        snapshot_id: Some(reference.snapshot_id),
    })
}
