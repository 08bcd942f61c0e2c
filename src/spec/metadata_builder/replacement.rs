//! The updates that replace a table by another of its name, with its history.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};

use super::super::ids::{FieldId, SchemaId, SortOrderId, SpecId};
use super::super::partition::{PartitionField, PartitionSpec};
use super::super::schema::Schema;
use super::super::sort::SortOrder;
use super::super::table_metadata::{MAIN_BRANCH, TableMetadata};
use super::super::table_update::{LAST_ADDED, TableUpdate};
use super::super::transform::Transform;
use super::creation::{
    check_properties, fresh_order, fresh_spec_fields, requested_version, stored_properties,
};
use super::fresh_ids::assign_fresh_ids;
use super::without_trailing_slash;

impl TableMetadata {
    /// The updates that make this table another one, as CREATE OR REPLACE TABLE does: empty, with
    /// the old snapshots in its history. Columns of the same full name keep their ids. What must
    /// hold for it: [`requirements_for_replace`](crate::spec::requirements_for_replace).
    ///
    /// # Errors
    /// As for [`TableMetadata::creation`].
    pub fn replacement(
        &self,
        schema: &Schema,
        spec: Option<&PartitionSpec>,
        order: Option<&SortOrder>,
        location: &str,
        properties: &BTreeMap<String, String>,
    ) -> Result<Vec<TableUpdate>> {
        let mut updates = Vec::new();
        if let Some(version) = requested_version(properties)? {
            updates.push(TableUpdate::UpgradeFormatVersion(version));
        }
        updates.push(TableUpdate::RemoveSnapshotRef(MAIN_BRANCH.to_owned()));
        let base_schema = self.schemas.get(&self.current_schema_id);
        let fresh = assign_fresh_ids(schema, self.last_column_id, base_schema.map(Arc::as_ref))?;
        let spec = self.spec_with_known_ids(fresh_spec_fields(spec, &fresh.new_ids)?)?;
        let order = fresh_order(order, &fresh.new_ids)?;
        check_properties(properties, &fresh.schema, &order)?;
        // Servers refuse "the last added one" if they had an equal one already.
        updates.extend(match self.schema_like(&fresh.schema) {
            Some(id) => vec![TableUpdate::SetCurrentSchema(id)],
            None => vec![
                TableUpdate::AddSchema(Arc::new(fresh.schema)),
                TableUpdate::SetCurrentSchema(SchemaId(LAST_ADDED)),
            ],
        });
        updates.extend(match self.spec_like(&spec) {
            Some(id) => vec![TableUpdate::SetDefaultSpec(id)],
            None => {
                vec![TableUpdate::AddSpec(Arc::new(spec)), TableUpdate::SetDefaultSpec(SpecId(LAST_ADDED))]
            }
        });
        updates.extend(match self.sort_order_like(&order) {
            Some(id) => vec![TableUpdate::SetDefaultSortOrder(id)],
            None => vec![
                TableUpdate::AddSortOrder(Arc::new(order)),
                TableUpdate::SetDefaultSortOrder(SortOrderId(LAST_ADDED)),
            ],
        });
        updates.push(TableUpdate::SetLocation(without_trailing_slash(location).to_owned()));
        updates.push(TableUpdate::SetProperties(stored_properties(properties)));
        Ok(updates)
    }

    /// A spec of these fields, with the ids that the same fields have in other specs of the table.
    /// In version 1, all fields of the default spec keep their places.
    fn spec_with_known_ids(&self, mut fields: Vec<PartitionField>) -> Result<PartitionSpec> {
        let mut last = self.last_partition_id;
        let mut next = || {
            last = FieldId(
                last.0.checked_add(1).ok_or_else(|| Error::invalid("the table has used up its ids"))?,
            );
            Ok::<_, Error>(last)
        };
        let spec_id = SpecId(0);
        if self.format_version > 1 {
            let known = self.partition_specs.values().flat_map(|spec| &spec.fields);
            let known: HashMap<_, _> =
                known.map(|field| ((&field.source_ids, &field.transform), field.field_id)).collect();
            for field in &mut fields {
                field.field_id = match known.get(&(&field.source_ids, &field.transform)) {
                    Some(id) => *id,
                    None => next()?,
                };
            }
            return Ok(PartitionSpec { spec_id, fields });
        }
        let mut kept = Vec::new();
        for before in self.partition_specs.get(&self.default_spec_id).map_or(&[][..], |spec| &spec.fields) {
            let same = fields
                .iter()
                .position(|new| new.source_ids == before.source_ids && new.transform == before.transform);
            kept.push(match same {
                Some(i) => PartitionField { field_id: before.field_id, ..fields.remove(i) },
                None => {
                    let taken = fields.iter().any(|new| new.name == before.name);
                    let name = if taken {
                        format!("{}_{}", before.name, before.field_id)
                    } else {
                        before.name.clone()
                    };
                    PartitionField { transform: Transform::Void, name, ..before.clone() }
                }
            });
        }
        for field in fields {
            kept.push(PartitionField { field_id: next()?, ..field });
        }
        Ok(PartitionSpec { spec_id, fields: kept })
    }
}
