//! Schemas, partition specs and sort orders of metadata in the making.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use crate::error::{Error, Result, ResultExt};

use super::super::ids::{FieldId, SchemaId, SortOrderId, SpecId};
use super::super::partition::PartitionSpec;
use super::super::partition_json::FIRST_PARTITION_FIELD_ID;
use super::super::schema::Schema;
use super::super::sort::SortOrder;
use super::super::table_metadata::TableMetadata;
use super::super::table_update::LAST_ADDED;
use super::super::transform::Transform;
use super::checks::{check_order, check_partition_names, check_schema, check_spec};
use super::{Builder, outdated, refused};

impl TableMetadata {
    /// The table's schema that is the same as `schema`, apart from its id.
    pub fn schema_like(&self, schema: &Schema) -> Option<SchemaId> {
        let identifiers = |s: &Schema| s.identifier_field_ids.iter().copied().collect::<BTreeSet<_>>();
        let same =
            |known: &&Arc<Schema>| known.root == schema.root && identifiers(known) == identifiers(schema);
        self.schemas.values().find(same).map(|known| known.schema_id)
    }

    /// The table's spec that makes the same partitions as `spec`, whatever ids both have.
    pub fn spec_like(&self, spec: &PartitionSpec) -> Option<SpecId> {
        let same = |known: &&Arc<PartitionSpec>| {
            known.fields.len() == spec.fields.len()
                && known.fields.iter().zip(&spec.fields).all(|(a, b)| {
                    a.source_ids == b.source_ids && a.transform == b.transform && a.name == b.name
                })
        };
        self.partition_specs.values().find(same).map(|known| known.spec_id)
    }

    /// The table's sort order that has the same keys as `order`.
    pub fn sort_order_like(&self, order: &SortOrder) -> Option<SortOrderId> {
        self.sort_orders.values().find(|known| known.fields == order.fields).map(|known| known.order_id)
    }
}

impl Builder<'_> {
    pub(super) fn add_schema(&mut self, schema: &Arc<Schema>) -> Result<()> {
        check_schema(schema, self.metadata.format_version)?;
        let metadata = &mut self.metadata;
        metadata.last_column_id = metadata.last_column_id.max(schema.highest_field_id());
        let id = match metadata.schema_like(schema) {
            Some(id) => id,
            None => {
                let id = SchemaId(next_id(&metadata.schemas, |id| id.0, 0)?);
                let mut schema = Schema::clone(schema);
                schema.schema_id = id;
                metadata.schemas.insert(id, Arc::new(schema));
                self.removed_schemas.remove(&id);
                id
            }
        };
        self.last_added_schema = Some(id);
        Ok(())
    }

    pub(super) fn set_current_schema(&mut self, id: SchemaId) -> Result<()> {
        let id = resolve(id, SchemaId(LAST_ADDED), self.last_added_schema, "schema")?;
        still_known(&self.metadata.schemas, id, "schema")?;
        self.metadata.current_schema_id = id;
        Ok(())
    }

    pub(super) fn add_spec(&mut self, spec: &PartitionSpec) -> Result<()> {
        let id = match self.metadata.spec_like(spec) {
            Some(id) => id,
            None => {
                let schema = known(&self.metadata.schemas, self.metadata.current_schema_id, "schema")?;
                check_spec(spec, schema, true)?;
                self.check_partition_ids(spec)?;
                let id = SpecId(next_id(&self.metadata.partition_specs, |id| id.0, 0)?);
                let spec = PartitionSpec { spec_id: id, fields: spec.fields.clone() };
                let ids = spec.fields.iter().map(|f| f.field_id);
                self.metadata.last_partition_id = ids.fold(self.metadata.last_partition_id, FieldId::max);
                self.metadata.partition_specs.insert(id, Arc::new(spec));
                id
            }
        };
        self.last_added_spec = Some(id);
        Ok(())
    }

    /// Version 1 finds partition values by position: fields count from 1000, and none but the last
    /// may be new. Later versions find them by id: an id always means the same value.
    fn check_partition_ids(&self, spec: &PartitionSpec) -> Result<()> {
        if self.metadata.format_version == 1 {
            let expected = (FIRST_PARTITION_FIELD_ID..).map(FieldId);
            if let Some((field, id)) = spec.fields.iter().zip(expected).find(|(f, id)| f.field_id != *id) {
                return Err(refused(format!(
                    "partition field `{}` has the id {}, where version 1 needs {id}",
                    field.name, field.field_id
                )));
            }
            let Some(default) = self.metadata.partition_specs.get(&self.metadata.default_spec_id) else {
                return Ok(());
            };
            let kept = |i: usize| {
                default.fields.get(i).zip(spec.fields.get(i)).is_some_and(|(before, now)| {
                    before.source_ids == now.source_ids
                        && (before.transform == now.transform || now.transform == Transform::Void)
                })
            };
            return match default.fields.iter().enumerate().find(|(i, _)| !kept(*i)) {
                None => Ok(()),
                Some((_, field)) => Err(refused(format!(
                    "partition field `{}` must keep its place in version 1: a `void` transform takes it away",
                    field.name
                ))),
            };
        }
        for field in &spec.fields {
            let mut others = self.metadata.partition_specs.values().flat_map(|spec| &spec.fields);
            let mut others = others.by_ref().filter(|other| other.field_id == field.field_id).peekable();
            if others.peek().is_some()
                && !others
                    .any(|other| other.source_ids == field.source_ids && other.transform == field.transform)
            {
                // As it is when the table was of version 1 when the spec was made.
                return Err(outdated(format!(
                    "partition field `{}` has the id {} of another partition field",
                    field.name, field.field_id
                )));
            }
        }
        Ok(())
    }

    pub(super) fn set_default_spec(&mut self, id: SpecId) -> Result<()> {
        let id = resolve(id, SpecId(LAST_ADDED), self.last_added_spec, "partition spec")?;
        still_known(&self.metadata.partition_specs, id, "partition spec")?;
        self.metadata.default_spec_id = id;
        Ok(())
    }

    pub(super) fn add_sort_order(&mut self, order: &SortOrder) -> Result<()> {
        let id = match self.metadata.sort_order_like(order) {
            Some(id) => id,
            None => {
                let schema = known(&self.metadata.schemas, self.metadata.current_schema_id, "schema")?;
                check_order(order, schema, true)?;
                let id = SortOrderId(next_id(&self.metadata.sort_orders, |id| id.0, 1)?);
                let order = SortOrder { order_id: id, fields: order.fields.clone() };
                self.metadata.sort_orders.insert(id, Arc::new(order));
                id
            }
        };
        self.last_added_order = Some(id);
        Ok(())
    }

    pub(super) fn set_default_sort_order(&mut self, id: SortOrderId) -> Result<()> {
        let id = resolve(id, SortOrderId(LAST_ADDED), self.last_added_order, "sort order")?;
        still_known(&self.metadata.sort_orders, id, "sort order")?;
        self.metadata.default_sort_order_id = id;
        Ok(())
    }

    pub(super) fn remove_specs(&mut self, ids: &[SpecId]) -> Result<()> {
        if ids.contains(&self.metadata.default_spec_id) {
            return Err(refused("the spec that writers use can't be removed"));
        }
        self.metadata.partition_specs.retain(|id, _| !ids.contains(id));
        Ok(())
    }

    pub(super) fn remove_schemas(&mut self, ids: &[SchemaId]) -> Result<()> {
        if ids.contains(&self.metadata.current_schema_id) {
            return Err(refused("the current schema can't be removed"));
        }
        self.metadata.schemas.retain(|id, _| !ids.contains(id));
        self.removed_schemas.extend(ids);
        Ok(())
    }

    /// Whether what the metadata refers to is there and fits together.
    pub(super) fn check_references(&self) -> Result<()> {
        let metadata = &self.metadata;
        let schema = known(&metadata.schemas, metadata.current_schema_id, "schema")
            .context(|| "the current schema".to_owned())?;
        let spec = known(&metadata.partition_specs, metadata.default_spec_id, "partition spec")
            .context(|| "the default partition spec".to_owned())?;
        let order = known(&metadata.sort_orders, metadata.default_sort_order_id, "sort order")
            .context(|| "the default sort order".to_owned())?;
        if metadata.location.is_empty() && metadata.format_version < 4 {
            return Err(Error::invalid("the table has no location"));
        }
        // What others left behind is not this commit's fault.
        let same_schema = self.base.is_some_and(|base| base.current_schema_id == metadata.current_schema_id);
        if !same_schema || self.base.is_some_and(|base| base.default_spec_id != metadata.default_spec_id) {
            check_spec(spec, schema, false).context(|| "the default partition spec".to_owned())?;
        }
        if !same_schema {
            metadata.partition_specs.values().try_for_each(|spec| check_partition_names(spec, schema))?;
        }
        if !same_schema
            || self.base.is_some_and(|base| base.default_sort_order_id != metadata.default_sort_order_id)
        {
            check_order(order, schema, false).context(|| "the default sort order".to_owned())?;
        }
        let orphan = metadata
            .snapshots
            .iter()
            .find(|s| s.schema_id.is_some_and(|id| self.removed_schemas.contains(&id)));
        match orphan {
            None => Ok(()),
            Some(snapshot) => Err(refused(format!(
                "a schema can't be removed while snapshot {} was made with it",
                snapshot.snapshot_id
            ))),
        }
    }
}

/// An id of the table; `last` stands for the one that was added last.
fn resolve<I: Copy + PartialEq>(id: I, last: I, added: Option<I>, what: &str) -> Result<I> {
    match added {
        _ if id != last => Ok(id),
        Some(added) => Ok(added),
        None => Err(Error::invalid(format!("no {what} has been added, so there is no last one"))),
    }
}

pub(super) fn known<'m, I: Ord + Display, T>(map: &'m BTreeMap<I, T>, id: I, what: &str) -> Result<&'m T> {
    map.get(&id).ok_or_else(|| refused(format!("the table has no {what} {id}")))
}

/// Whether what an update makes the table's is there: others may have removed it since.
fn still_known<I: Ord + Display, T>(map: &BTreeMap<I, T>, id: I, what: &str) -> Result<()> {
    match map.contains_key(&id) {
        true => Ok(()),
        false => Err(outdated(format!("the table has no {what} {id}"))),
    }
}

/// One more than the highest id.
fn next_id<I: Ord, T>(map: &BTreeMap<I, T>, number: impl Fn(&I) -> i32, first: i32) -> Result<i32> {
    match map.last_key_value() {
        None => Ok(first),
        Some((id, _)) => number(id)
            .checked_add(1)
            .map(|next| next.max(first))
            .ok_or_else(|| refused("the table has used up its ids")),
    }
}
