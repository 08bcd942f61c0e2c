//! Key fields of equality deletes that were dropped out of a struct.
//!
//! The schema that is read has the struct's id already, so the fields are read as a column of
//! their own beside it. In files both are one column: there the struct is looked for with the
//! dropped fields added, by their ids, and each of the two columns takes its part of it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::spec::{FieldId, NestedField, Schema, StructType, Type};

/// A column of a scan that holds the key fields of one struct.
#[derive(Debug, Clone)]
pub(crate) struct StructKeys {
    /// What it is called in the scan.
    pub(crate) name: String,
    /// The struct with nothing but key fields and the structs around them. It and all fields that the
    /// schema has are called as there, others have private names.
    pub(crate) column: NestedField,
}

/// What a dropped field is called in a scan; no user's field has that name by accident.
pub(crate) fn dropped_name(id: FieldId) -> String {
    format!("\u{1}dropped_{id}")
}

/// What a field is called now.
pub(crate) fn name_in(read: &Schema, field: &NestedField) -> String {
    read.field_by_id(field.id).map_or_else(|| dropped_name(field.id), |f| f.name.clone())
}

/// Adds the fields on a path, named as in `read`, all of them optional: files that are newer than the
/// drop lack them, and delete files hold no more than keys.
pub(crate) fn add_path(fields: &mut Vec<NestedField>, path: &[&NestedField], read: &Schema) {
    let Some((first, below)) = path.split_first() else { return };
    if !fields.iter().any(|f| f.id == first.id) {
        let field_type = match &first.field_type {
            Type::Struct(_) => Type::Struct(StructType::new(Vec::new())),
            other => other.clone(),
        };
        let name = name_in(read, first);
        fields.push(NestedField { name, required: false, field_type, ..(*first).clone() });
    }
    if let Some(NestedField { field_type: Type::Struct(s), .. }) =
        fields.iter_mut().find(|f| f.id == first.id)
    {
        add_path(&mut s.fields, below, read);
    }
}

impl StructKeys {
    /// The column of the scan. Ids must be unique in a schema, and the struct may have these already:
    /// `next_id` counts others up, from the lowest.
    pub(crate) fn scan_column(&self, next_id: &mut i32) -> NestedField {
        NestedField { name: self.name.clone(), ..renumbered(&self.column, next_id) }
    }
}

/// The columns of a scan as they are looked for in files: each once.
///
/// # Errors
/// `DataInvalid` where a struct has become something else, or a dropped field's id is elsewhere now.
pub(crate) fn in_files(scan: &Arc<Schema>, all: &[StructKeys]) -> Result<Arc<Schema>> {
    if all.is_empty() {
        return Ok(Arc::clone(scan));
    }
    let is_own = |f: &&NestedField| all.iter().all(|keys| keys.name != f.name);
    let mut fields: Vec<NestedField> = scan.fields().iter().filter(is_own).cloned().collect();
    all.iter().try_for_each(|keys| merge(&mut fields, &keys.column))?;
    Ok(Arc::new(Schema::new(scan.schema_id, fields, Vec::new())?))
}

/// Which column of files a column of the scan is read from, for all those with another name.
pub(crate) fn read_from(all: &[StructKeys]) -> HashMap<String, String> {
    all.iter().map(|keys| (keys.name.clone(), keys.column.name.clone())).collect()
}

fn renumbered(field: &NestedField, next_id: &mut i32) -> NestedField {
    let id = FieldId(*next_id);
    *next_id += 1;
    let field_type = match &field.field_type {
        Type::Struct(s) => {
            let fields = s.fields.iter().map(|f| renumbered(f, next_id));
            Type::Struct(StructType::new(fields.collect()))
        }
        other => other.clone(),
    };
    NestedField { id, field_type, ..field.clone() }
}

fn merge(fields: &mut Vec<NestedField>, added: &NestedField) -> Result<()> {
    let Some(there) = fields.iter_mut().find(|f| f.id == added.id) else {
        fields.push(added.clone());
        return Ok(());
    };
    match (&mut there.field_type, &added.field_type) {
        (Type::Struct(there), Type::Struct(added)) => {
            added.fields.iter().try_for_each(|f| merge(&mut there.fields, f))
        }
        (Type::Primitive(_), Type::Primitive(_)) => Ok(()),
        _ => Err(Error::invalid(format!("field {} was a struct and is none now, or the reverse", added.id))
            .context(format!("field `{}`", there.name))),
    }
}
