//! Table properties that name columns: they follow the schema.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::changes::Changes;
use crate::error::Result;
use crate::spec::{
    FieldId, MappedField, MappedFields, NameMapping, NestedField, Schema, SchemaId, TableUpdate,
};

const NAME_MAPPING: &str = "schema.name-mapping.default";

/// Prefixes of properties that end in the full name of a column.
pub(in crate::transaction::evolution) const COLUMN_PREFIXES: [&str; 5] = [
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column.",
];

/// The updates of properties that go with a new schema.
pub(super) fn updates(
    properties: &BTreeMap<String, String>,
    changes: &Changes<'_>,
    schema: &Schema,
) -> Vec<TableUpdate> {
    let mut set = BTreeMap::new();
    let mut remove = Vec::new();
    if let Some(text) = properties.get(NAME_MAPPING) {
        match mapping_after(text, changes) {
            Ok(Some(mapping)) => {
                set.insert(NAME_MAPPING.to_owned(), mapping);
            }
            Ok(None) => {}
            // It has been useless before, and the schema is worth more.
            Err(e) => tracing::warn!("the property `{NAME_MAPPING}` was left as it is: {e}"),
        }
    }
    let names = names_after(changes.schema, schema);
    for (key, value) in properties {
        let found = COLUMN_PREFIXES.iter().find_map(|prefix| Some((prefix, key.strip_prefix(prefix)?)));
        let Some((prefix, column)) = found else { continue };
        match names.get(column) {
            Some(Some(name)) => {
                remove.push(key.clone());
                set.insert(format!("{prefix}{name}"), value.clone());
            }
            Some(None) => remove.push(key.clone()),
            None => {}
        }
    }
    // Two columns may have exchanged their names.
    remove.retain(|key| !set.contains_key(key));
    let mut updates = Vec::new();
    if !set.is_empty() {
        updates.push(TableUpdate::SetProperties(set));
    }
    if !remove.is_empty() {
        updates.push(TableUpdate::RemoveProperties(remove));
    }
    updates
}

/// The new names of the columns that have one, and `None` for those that are gone.
fn names_after(before: &Schema, after: &Schema) -> HashMap<String, Option<String>> {
    let names = before.field_ids().filter_map(|id| {
        let (old, new) = (before.full_name(id)?, after.full_name(id));
        (Some(&old) != new.as_ref()).then_some((old, new))
    });
    names.collect()
}

/// The name mapping with what was added and renamed; `None` if nothing of it changes.
fn mapping_after(text: &str, changes: &Changes<'_>) -> Result<Option<String>> {
    let mapping = NameMapping::parse(text)?;
    let renamed = changes.updates.iter().filter_map(|(id, field)| {
        let before = changes.schema.field_by_id(*id)?;
        (before.name != field.name).then(|| (*id, field.name.clone()))
    });
    let renamed: HashMap<FieldId, String> = renamed.collect();
    let root = level_after(&mapping.root, None, &renamed, changes)?;
    let after = NameMapping { root };
    Ok((after != mapping).then(|| after.to_json().to_string()))
}

/// A name that a field has in the mapping stays its: in files without ids it means that field's
/// data, whatever column is called so today. So a new or renamed column gets only names that are
/// free, and maybe none: it is not in such files then.
fn level_after(
    level: &MappedFields,
    parent: Option<FieldId>,
    renamed: &HashMap<FieldId, String>,
    changes: &Changes<'_>,
) -> Result<MappedFields> {
    let mut fields = Vec::new();
    let mut taken: HashSet<String> = level.fields().iter().flat_map(|f| f.names.iter().cloned()).collect();
    for field in level.fields() {
        let mut names = field.names.clone();
        let mut children = field.children.clone();
        if let Some(id) = field.field_id {
            if let Some(name) = renamed.get(&id)
                && taken.insert(name.clone())
            {
                names.push(name.clone());
            }
            children = level_after(&children, Some(id), renamed, changes)?;
        }
        fields.push(MappedField { field_id: field.field_id, names, children });
    }
    let added = changes.adds.get(&parent).into_iter().flatten().filter_map(|id| changes.updates.get(id));
    for field in added {
        for mut field in mapped(field)? {
            field.names.retain(|name| taken.insert(name.clone()));
            fields.push(field);
        }
    }
    MappedFields::new(fields)
}

/// How a new column and those below it are mapped.
fn mapped(field: &NestedField) -> Result<Vec<MappedField>> {
    let schema = Schema::new(SchemaId(0), vec![field.clone()], Vec::new())?;
    Ok(NameMapping::from_schema(&schema).root.fields().to_vec())
}
