//! Schema evolution (spec, "Schema Evolution").

mod changes;
mod checks;
mod fresh;
mod properties;
mod rebuild;
#[cfg(test)]
mod tests;
mod union;

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, Result, ResultExt};
use crate::spec::{LAST_ADDED, NestedField, Schema, SchemaId, TableMetadata, TableUpdate, Type, Value};
use crate::table::Table;
use crate::transaction::Action;
use changes::Changes;
pub(in crate::transaction::evolution) use checks::lies_in_structs_only;
pub(in crate::transaction::evolution) use properties::COLUMN_PREFIXES;

/// Changes the current schema.
///
/// Columns are named as they are called before the update, by their full name: `location.lat`, and
/// `points.element.x` or just `points.x` in a list of structs (with `value` in a map). The changes
/// are made in the order in which they are asked for, on the newest schema if the commit has to be
/// tried again.
#[derive(Debug, Clone, Default)]
#[must_use = "an action does nothing until it is part of a transaction that is committed"]
pub struct UpdateSchema {
    case_insensitive: bool,
    allow_incompatible: bool,
    changes: Vec<Change>,
}

/// A column to add.
#[derive(Debug, Clone)]
pub struct NewColumn {
    parent: Option<String>,
    field: NestedField,
}

impl NewColumn {
    /// A column that may be null. Ids within the type don't matter: new ones are assigned.
    pub fn optional(name: impl Into<String>, field_type: impl Into<Type>) -> Self {
        Self { parent: None, field: NestedField::optional(0, name, field_type) }
    }

    /// A column that is never null: it needs a default value, unless incompatible changes are
    /// allowed.
    pub fn required(name: impl Into<String>, field_type: impl Into<Type>) -> Self {
        Self { parent: None, field: NestedField::required(0, name, field_type) }
    }

    /// The struct to add it to; for a list or a map, the struct that is its element or value.
    pub fn parent(mut self, parent: impl Into<String>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// A comment for people.
    pub fn doc(mut self, doc: impl Into<String>) -> Self {
        self.field.doc = Some(doc.into());
        self
    }

    /// Its value in the rows that are there already, and in new ones for which a writer has none
    /// (format version 3).
    pub fn default_value(mut self, value: Value) -> Self {
        self.field.initial_default = Some(value.clone());
        self.field.write_default = Some(value);
        self
    }
}

#[derive(Debug, Clone)]
enum Change {
    Add(NewColumn),
    Delete(String),
    Rename(String, String),
    Require(String),
    MakeOptional(String),
    Type(String, Type),
    Doc(String, Option<String>),
    WriteDefault(String, Option<Value>),
    Move(String, Place),
    Identifier(Vec<String>),
    Union(Arc<Schema>),
}

/// Where in its struct a column is moved to.
#[derive(Debug, Clone)]
enum Place {
    First,
    Before(String),
    After(String),
}

impl UpdateSchema {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether names must match in case; they must unless told otherwise.
    pub fn case_sensitive(mut self, case_sensitive: bool) -> Self {
        self.case_insensitive = !case_sensitive;
        self
    }

    /// Allows what breaks readers or the rows that are there: to require a column that may hold
    /// nulls, and to add a required one without a default value.
    pub fn allow_incompatible_changes(mut self) -> Self {
        self.allow_incompatible = true;
        self
    }

    /// Adds a column; see [`NewColumn`].
    pub fn add_new(self, column: NewColumn) -> Self {
        self.with(Change::Add(column))
    }

    /// Adds an optional column at the end of the table.
    pub fn add_column(self, name: impl Into<String>, field_type: impl Into<Type>) -> Self {
        self.add_new(NewColumn::optional(name, field_type))
    }

    /// Removes a column from the schema; the data stays in the files.
    pub fn delete_column(self, name: impl Into<String>) -> Self {
        self.with(Change::Delete(name.into()))
    }

    /// Gives a column another name. `new_name` is that of the column alone, without its parents.
    pub fn rename_column(self, name: impl Into<String>, new_name: impl Into<String>) -> Self {
        self.with(Change::Rename(name.into(), new_name.into()))
    }

    /// Makes a column required: only with [`UpdateSchema::allow_incompatible_changes`], as nobody
    /// checks the rows that are there.
    pub fn require_column(self, name: impl Into<String>) -> Self {
        self.with(Change::Require(name.into()))
    }

    /// Lets a column be null.
    pub fn make_column_optional(self, name: impl Into<String>) -> Self {
        self.with(Change::MakeOptional(name.into()))
    }

    /// Widens the type of a column: int to long, float to double, decimal to one of more digits,
    /// and since format version 3 date to timestamp or timestamp_ns, and unknown to anything.
    pub fn update_column(self, name: impl Into<String>, new_type: impl Into<Type>) -> Self {
        self.with(Change::Type(name.into(), new_type.into()))
    }

    /// Changes or removes the comment of a column.
    pub fn update_column_doc(self, name: impl Into<String>, doc: Option<&str>) -> Self {
        self.with(Change::Doc(name.into(), doc.map(str::to_owned)))
    }

    /// Changes or removes the value that writers fill in (format version 3). Rows that are there
    /// keep theirs.
    pub fn update_column_default(self, name: impl Into<String>, value: Option<Value>) -> Self {
        self.with(Change::WriteDefault(name.into(), value))
    }

    /// Moves a column to the front of its struct.
    pub fn move_first(self, name: impl Into<String>) -> Self {
        self.with(Change::Move(name.into(), Place::First))
    }

    /// Moves a column in front of another of the same struct.
    pub fn move_before(self, name: impl Into<String>, before: impl Into<String>) -> Self {
        self.with(Change::Move(name.into(), Place::Before(before.into())))
    }

    /// Moves a column behind another of the same struct.
    pub fn move_after(self, name: impl Into<String>, after: impl Into<String>) -> Self {
        self.with(Change::Move(name.into(), Place::After(after.into())))
    }

    /// Says which columns identify a row, by the names that they have after the update: required
    /// ones of a primitive type but float and double.
    pub fn set_identifier_fields<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.with(Change::Identifier(names.into_iter().map(Into::into).collect()))
    }

    /// Takes over what another schema has more: columns that are missing are added (as optional
    /// ones), types are widened, columns become optional, comments and write defaults change.
    /// Columns are matched by name; nothing is removed or narrowed.
    pub fn union_by_name(self, schema: &Schema) -> Self {
        self.with(Change::Union(Arc::new(schema.clone())))
    }

    fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// The schema that the update makes of the current one of `metadata`.
    ///
    /// # Errors
    /// `DataInvalid` for changes that are not possible or contradict each other.
    pub fn apply(&self, metadata: &TableMetadata) -> Result<Schema> {
        Ok(self.evolve(metadata)?.0)
    }

    fn evolve<'a>(&self, metadata: &'a TableMetadata) -> Result<(Schema, Changes<'a>)> {
        let mut changes = Changes::new(metadata, !self.case_insensitive, self.allow_incompatible);
        for change in &self.changes {
            changes.make(change)?;
        }
        let mut schema = changes.schema()?;
        checks::check(metadata, &schema, !self.case_insensitive)?;
        schema.schema_id = match metadata.schema_like(&schema) {
            Some(id) => id,
            None => {
                let last = metadata.schemas.last_key_value().map_or(-1, |(id, _)| id.0);
                let next = last.checked_add(1).ok_or_else(|| Error::invalid("no schema id is left"))?;
                SchemaId(next)
            }
        };
        Ok((schema, changes))
    }

    fn updates_of(&self, metadata: &TableMetadata) -> Result<Vec<TableUpdate>> {
        let (schema, changes) = self.evolve(metadata)?;
        let mut updates = Vec::new();
        let id = schema.schema_id;
        let schema = Arc::new(schema);
        if !metadata.schemas.contains_key(&id) {
            updates.push(TableUpdate::AddSchema(Arc::clone(&schema)));
            updates.push(TableUpdate::SetCurrentSchema(SchemaId(LAST_ADDED)));
        } else if id != metadata.current_schema_id {
            updates.push(TableUpdate::SetCurrentSchema(id));
        }
        updates.extend(properties::updates(&metadata.properties, &changes, &schema));
        Ok(updates)
    }
}

#[async_trait]
impl Action for UpdateSchema {
    async fn updates(&mut self, table: &Table) -> Result<Vec<TableUpdate>> {
        self.updates_of(table.metadata()).context(|| "update of the schema".to_owned())
    }
}
