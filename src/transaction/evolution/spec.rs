//! Partition evolution (spec, "Partition Evolution").

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;

use super::columns::Columns;
use super::schema::lies_in_structs_only;
use crate::error::{Error, Result, ResultExt};
use crate::spec::{
    FieldId, LAST_ADDED, PartitionField, PartitionSpec, Schema, SpecId, TableMetadata, TableUpdate, Transform,
};
use crate::table::Table;
use crate::transaction::Action;

/// Changes the partition spec that writers use. Files that are there stay where they are.
#[derive(Debug, Clone, Default)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct UpdateSpec {
    case_insensitive: bool,
    not_default: bool,
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Add { name: Option<String>, source: String, transform: Transform },
    Remove(String),
    RemoveTerm(String, Transform),
    Rename(String, String),
}

impl UpdateSpec {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether names of columns must match in case; they must unless told otherwise.
    pub fn case_sensitive(mut self, case_sensitive: bool) -> Self {
        self.case_insensitive = !case_sensitive;
        self
    }

    /// Adds the spec without making it the one that writers use.
    pub fn add_non_default_spec(mut self) -> Self {
        self.not_default = true;
        self
    }

    /// Partitions by a column's values too; the partition field is called like the column.
    pub fn add_identity(self, source: impl Into<String>) -> Self {
        self.add_field(source, Transform::Identity)
    }

    /// Adds a partition field that is called after its column and transform, such as `ts_day`,
    /// `id_bucket_16` or `name_trunc_4`.
    pub fn add_field(self, source: impl Into<String>, transform: Transform) -> Self {
        self.with(Change::Add { name: None, source: source.into(), transform })
    }

    /// Adds a partition field of that name.
    pub fn add_named_field(
        self,
        name: impl Into<String>,
        source: impl Into<String>,
        transform: Transform,
    ) -> Self {
        self.with(Change::Add { name: Some(name.into()), source: source.into(), transform })
    }

    /// Removes a partition field by its name. In format version 1 it stays, always null.
    pub fn remove_field(self, name: impl Into<String>) -> Self {
        self.with(Change::Remove(name.into()))
    }

    /// Removes the partition field of that column and transform.
    pub fn remove_term(self, source: impl Into<String>, transform: Transform) -> Self {
        self.with(Change::RemoveTerm(source.into(), transform))
    }

    /// Gives a partition field another name.
    pub fn rename_field(self, name: impl Into<String>, new_name: impl Into<String>) -> Self {
        self.with(Change::Rename(name.into(), new_name.into()))
    }

    fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// The spec that the update makes of the one that writers of `metadata` use.
    ///
    /// # Errors
    /// `DataInvalid` for changes that are not possible or contradict each other.
    pub fn apply(&self, metadata: &TableMetadata) -> Result<PartitionSpec> {
        let mut changes = Changes::new(metadata, !self.case_insensitive)?;
        for change in &self.changes {
            match change {
                Change::Add { name, source, transform } => changes
                    .add(name.as_deref(), source, transform)
                    .context(|| format!("adding partition field {transform} of `{source}`")),
                Change::Remove(name) => {
                    changes.remove(name).context(|| format!("removing partition field `{name}`"))
                }
                Change::RemoveTerm(source, transform) => changes
                    .remove_term(source, transform)
                    .context(|| format!("removing partition field {transform} of `{source}`")),
                Change::Rename(name, new) => {
                    changes.rename(name, new).context(|| format!("renaming partition field `{name}`"))
                }
            }?;
        }
        changes.spec()
    }

    fn updates_of(&self, metadata: &TableMetadata) -> Result<Vec<TableUpdate>> {
        let mut spec = self.apply(metadata)?;
        Ok(match metadata.spec_like(&spec) {
            Some(id) if self.not_default || id == metadata.default_spec_id => Vec::new(),
            Some(id) => vec![TableUpdate::SetDefaultSpec(id)],
            None => {
                let last = metadata.partition_specs.last_key_value().map_or(-1, |(id, _)| id.0);
                let next = last.checked_add(1).ok_or_else(|| Error::invalid("no spec id is left"))?;
                spec.spec_id = SpecId(next);
                let mut updates = vec![TableUpdate::AddSpec(Arc::new(spec))];
                if !self.not_default {
                    updates.push(TableUpdate::SetDefaultSpec(SpecId(LAST_ADDED)));
                }
                updates
            }
        })
    }
}

#[async_trait]
impl Action for UpdateSpec {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        self.updates_of(table.metadata()).context(|| "update of the partition spec".to_owned())
    }
}

struct Changes<'a> {
    metadata: &'a TableMetadata,
    schema: &'a Schema,
    columns: Columns,
    spec: &'a PartitionSpec,
    adds: Vec<PartitionField>,
    removes: BTreeSet<FieldId>,
    /// New names of fields that are there.
    renames: BTreeMap<FieldId, String>,
    last_id: FieldId,
}

impl<'a> Changes<'a> {
    fn new(metadata: &'a TableMetadata, case_sensitive: bool) -> Result<Self> {
        let spec = metadata.default_spec();
        if let Some(unknown) = spec.fields.iter().find(|f| matches!(f.transform, Transform::Unknown(_))) {
            return Err(Error::unsupported(format!(
                "the spec has a partition field `{}` with the transform {}, which this version does not know; update \
                 it with one that does",
                unknown.name, unknown.transform
            )));
        }
        let schema = metadata.current_schema();
        Ok(Self {
            metadata,
            schema,
            columns: Columns::new(schema, case_sensitive),
            spec,
            adds: Vec::new(),
            removes: BTreeSet::new(),
            renames: BTreeMap::new(),
            last_id: metadata.last_partition_id.max(FieldId(999)),
        })
    }

    fn existing(&self, name: &str) -> Option<&'a PartitionField> {
        self.spec.fields.iter().find(|field| field.name == name)
    }

    fn existing_term(&self, source: FieldId, transform: &Transform) -> Option<&'a PartitionField> {
        let mut fields = self.spec.fields.iter();
        fields.find(|field| field.source_id() == Some(source) && field.transform == *transform)
    }

    fn added(&self, name: &str) -> Option<&PartitionField> {
        self.adds.iter().find(|field| field.name == name)
    }

    fn add(&mut self, name: Option<&str>, source: &str, transform: &Transform) -> Result<()> {
        if name.is_some_and(|name| self.added(name).is_some()) {
            return Err(Error::invalid("a partition field of that name is added already"));
        }
        let source_id = self.columns.get(source)?;
        if let Some(existing) = self.existing_term(source_id, transform) {
            if !self.removes.remove(&existing.field_id) {
                return Err(Error::invalid(format!("there is such a field already, `{}`", existing.name)));
            }
            // Removed and added again: it stays what it is, but for its name.
            return match name.filter(|name| *name != existing.name) {
                Some(name) => self.rename(&existing.name, name),
                None => Ok(()),
            };
        }
        let is_same =
            |field: &&PartitionField| field.source_id() == Some(source_id) && field.transform == *transform;
        if let Some(added) = self.adds.iter().find(is_same) {
            return Err(Error::invalid(format!("it is added already, as `{}`", added.name)));
        }
        self.check_transform(source_id, transform)?;
        if is_time(transform)
            && let Some(other) =
                self.adds.iter().find(|f| f.source_id() == Some(source_id) && is_time(&f.transform))
        {
            return Err(Error::invalid(format!(
                "it is redundant with `{}` ({})",
                other.name, other.transform
            )));
        }
        let field = self.recycle_or_create(name, source_id, transform)?;
        match self.existing(&field.name) {
            Some(old) if self.removes.contains(&old.field_id) || old.transform == Transform::Void => {
                // In version 1 it stays in the spec, under a name of its own.
                self.renames.insert(old.field_id, format!("{}_{}", old.name, old.field_id));
            }
            Some(_) => {
                return Err(Error::invalid(format!("there is a partition field `{}` already", field.name)));
            }
            None => {}
        }
        if self.added(&field.name).is_some() {
            return Err(Error::invalid(format!("a partition field `{}` is added already", field.name)));
        }
        self.adds.push(field);
        Ok(())
    }

    fn check_transform(&self, source: FieldId, transform: &Transform) -> Result<()> {
        if let Transform::Unknown(name) = transform {
            return Err(Error::unsupported(format!("there is no transform `{name}`")));
        }
        let Some(field) = self.schema.field_by_id(source) else {
            return Err(Error::invalid("its source column does not exist"));
        };
        if transform.result_type(&field.field_type).is_none() || field.field_type.as_primitive().is_none() {
            return Err(Error::invalid(format!("{transform} does not apply to type {}", field.field_type)));
        }
        if !lies_in_structs_only(self.schema, source) {
            return Err(Error::invalid("a column in a list or map can't be partitioned by"));
        }
        Ok(())
    }

    /// A field of an earlier spec that is the same, or a new one. Version 1 numbers the fields of
    /// each spec by their place, so nothing can be used again there.
    fn recycle_or_create(
        &mut self,
        name: Option<&str>,
        source_id: FieldId,
        transform: &Transform,
    ) -> Result<PartitionField> {
        if self.metadata.format_version >= 2 {
            let mut earlier = self.metadata.partition_specs.values().rev().flat_map(|spec| &spec.fields);
            let found = earlier.find(|field| {
                field.source_id() == Some(source_id)
                    && field.transform == *transform
                    && name.is_none_or(|name| field.name == name)
            });
            if let Some(found) = found {
                return Ok(found.clone());
            }
        }
        let next = self.last_id.0.checked_add(1).ok_or_else(|| Error::invalid("no field id is left"))?;
        self.last_id = FieldId(next);
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.default_name(source_id, transform),
        };
        Ok(PartitionField {
            source_ids: vec![source_id],
            field_id: self.last_id,
            name,
            transform: transform.clone(),
            extra: serde_json::Map::new(),
        })
    }

    fn default_name(&self, source: FieldId, transform: &Transform) -> String {
        let column = self.schema.full_name(source).unwrap_or_default();
        match transform {
            Transform::Identity => column,
            Transform::Bucket(n) => format!("{column}_bucket_{n}"),
            Transform::Truncate(width) => format!("{column}_trunc_{width}"),
            Transform::Void => format!("{column}_null"),
            other => format!("{column}_{other}"),
        }
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        if self.added(name).is_some() {
            return Err(Error::invalid("it is added in the same update"));
        }
        let field = self.existing(name).ok_or_else(|| Error::invalid("there is no such partition field"))?;
        self.remove_existing(field)
    }

    fn remove_term(&mut self, source: &str, transform: &Transform) -> Result<()> {
        let source = self.columns.get(source)?;
        if self.adds.iter().any(|f| f.source_id() == Some(source) && f.transform == *transform) {
            return Err(Error::invalid("it is added in the same update"));
        }
        let field = self.existing_term(source, transform);
        self.remove_existing(field.ok_or_else(|| Error::invalid("there is no such partition field"))?)
    }

    fn remove_existing(&mut self, field: &PartitionField) -> Result<()> {
        if self.renames.contains_key(&field.field_id) {
            return Err(Error::invalid("it is renamed in the same update"));
        }
        self.removes.insert(field.field_id);
        Ok(())
    }

    fn rename(&mut self, name: &str, new_name: &str) -> Result<()> {
        if let Some(old) = self.existing(new_name)
            && old.transform == Transform::Void
        {
            if self.removes.contains(&old.field_id) {
                return Err(Error::invalid(format!("`{new_name}` is removed in the same update")));
            }
            self.renames.insert(old.field_id, format!("{}_{}", old.name, old.field_id));
        }
        if self.added(name).is_some() {
            return Err(Error::invalid("it is added in the same update"));
        }
        let field = self.existing(name).ok_or_else(|| Error::invalid("there is no such partition field"))?;
        if self.removes.contains(&field.field_id) {
            return Err(Error::invalid("it is removed in the same update"));
        }
        self.renames.insert(field.field_id, new_name.to_owned());
        Ok(())
    }

    fn spec(self) -> Result<PartitionSpec> {
        let is_v1 = self.metadata.format_version < 2;
        let mut fields = Vec::new();
        for field in &self.spec.fields {
            let is_removed = self.removes.contains(&field.field_id);
            if is_removed && !is_v1 {
                continue;
            }
            let mut field = field.clone();
            if let Some(name) = self.renames.get(&field.field_id) {
                field.name.clone_from(name);
            }
            if is_removed {
                field.transform = Transform::Void;
            }
            fields.push(field);
        }
        fields.extend(self.adds);
        check_names(&fields, self.schema, &self.columns)?;
        Ok(PartitionSpec { spec_id: self.spec.spec_id, fields })
    }
}

fn is_time(transform: &Transform) -> bool {
    matches!(transform, Transform::Year | Transform::Month | Transform::Day | Transform::Hour)
}

/// Names must differ from each other, and from those of columns other than the field's source.
fn check_names(fields: &[PartitionField], schema: &Schema, columns: &Columns) -> Result<()> {
    let mut names = HashMap::new();
    for field in fields {
        if field.name.is_empty() {
            return Err(Error::invalid("the name of a partition field is empty"));
        }
        if names.insert(field.name.as_str(), ()).is_some() {
            return Err(Error::invalid(format!("there would be two partition fields `{}`", field.name)));
        }
        let is_there = field.source_ids.iter().all(|id| schema.field_by_id(*id).is_some());
        if let Some(id) = columns.find(&field.name)?
            && is_there
            && !field.source_ids.contains(&id)
        {
            return Err(Error::invalid(format!(
                "a partition field can't be called `{}`: a column is, and it is not what the field derives from",
                field.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
