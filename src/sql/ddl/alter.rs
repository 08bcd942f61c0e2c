//! ALTER TABLE: each statement is one transaction.

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::properties;
use super::tables::place;
use super::values::default_value;
use crate::error::{Error, ErrorKind};
use crate::spec::{SnapshotId, TableMetadata};
use crate::sql::statement::{Alteration, At, Column, Dropped, PartitionTerm, Reference};
use crate::table::Table;
use crate::transaction::{
    ManageSnapshots, NewColumn, ReplaceSortOrder, Transaction, UpdateLocation, UpdateProperties,
    UpdateSchema, UpdateSpec, UpgradeFormatVersion,
};

pub(super) async fn alter(
    context: &SessionContext,
    name: &[String],
    if_exists: bool,
    alterations: &[Alteration],
) -> Result<()> {
    let place = place(context, name)?;
    let ident = place.ident().await?;
    let catalog = place.catalog()?;
    let table = match catalog.load_table(&ident).await {
        Err(e) if e.kind() == ErrorKind::NotFound && if_exists && !catalog.table_exists(&ident).await? => {
            return Ok(());
        }
        table => table?,
    };
    if alterations.len() > 1 && alterations.iter().any(looks_at_the_table) {
        let message = "IF EXISTS, IF NOT EXISTS or SET DEFAULT beside other changes; run it alone";
        return Err(Error::unsupported(message).into());
    }
    let mut transaction = table.transaction();
    for alteration in alterations {
        if let Alteration::Rename(to) = alteration {
            if alterations.len() > 1 {
                return Err(Error::unsupported("RENAME TO beside other changes; run it alone").into());
            }
            let to = place.beside(context, to)?.ident().await?;
            catalog.rename_table(&ident, &to).await?;
            place.provider()?.invalidate(&ident);
            place.provider()?.invalidate(&to);
            return Ok(());
        }
        transaction = apply(context, &table, transaction, alteration)?;
    }
    transaction.commit(catalog.as_ref()).await?;
    place.provider()?.invalidate(&ident);
    Ok(())
}

/// Whether what it does depends on the table, as it was before the statement.
fn looks_at_the_table(alteration: &Alteration) -> bool {
    use Alteration as A;
    match alteration {
        A::UnsetProperties { if_exists, .. }
        | A::DropColumns { if_exists, .. }
        | A::DropRef { if_exists, .. } => *if_exists,
        A::AddColumns { if_not_exists, .. } => *if_not_exists,
        A::CreateRef(reference) => reference.if_not_exists,
        A::SetDefault { default, .. } => default.is_some(),
        _ => false,
    }
}

fn apply(
    context: &SessionContext,
    table: &Table,
    transaction: Transaction,
    alteration: &Alteration,
) -> Result<Transaction> {
    use Alteration as A;
    let metadata = table.metadata();
    let schema = UpdateSchema::new;
    Ok(match alteration {
        A::Rename(_) => transaction,
        A::SetProperties(properties) => {
            properties::check(properties)?;
            let mut transaction = transaction;
            let mut update = UpdateProperties::new();
            for (name, value) in properties {
                if name == "format-version" {
                    let version = value.parse().map_err(|_| {
                        Error::invalid(format!("`{value}` is no format version")).context("`format-version`")
                    })?;
                    transaction = transaction.apply(UpgradeFormatVersion::to(version));
                } else {
                    update = update.set(name, value);
                }
            }
            transaction.apply(update)
        }
        A::UnsetProperties { names, if_exists } => {
            let missing = names.iter().find(|name| !metadata.properties.contains_key(*name));
            if let (Some(name), false) = (missing, *if_exists) {
                return Err(Error::not_found(format!("table property `{name}`; use IF EXISTS")).into());
            }
            transaction.apply(names.iter().fold(UpdateProperties::new(), |update, name| update.remove(name)))
        }
        A::SetLocation(location) => {
            properties::check_location(location)?;
            transaction.apply(UpdateLocation::to(location))
        }
        A::AddColumns { columns, if_not_exists } => {
            let mut update = schema();
            for (column, at) in columns {
                let name = column.name.join(".");
                if *if_not_exists && metadata.current_schema().field_by_full_name(&name).is_some() {
                    continue;
                }
                update = add_column(context, update, column, at.as_ref())?;
            }
            transaction.apply(update)
        }
        A::DropColumns { names, if_exists } => {
            let exists = |name: &&String| metadata.current_schema().field_by_full_name(name).is_some();
            let names = names.iter().filter(|name| !*if_exists || exists(name));
            transaction.apply(names.fold(schema(), |update, name| update.delete_column(name)))
        }
        A::RenameColumn { name, new_name } => transaction.apply(schema().rename_column(name, new_name)),
        A::SetType { name, new_type } => transaction.apply(schema().update_column(name, new_type.clone())),
        A::SetDoc { name, doc } => transaction.apply(schema().update_column_doc(name, doc.as_deref())),
        A::SetRequired { name, required: true } => transaction.apply(schema().require_column(name)),
        A::SetRequired { name, required: false } => transaction.apply(schema().make_column_optional(name)),
        A::SetDefault { name, default } => {
            let default = match default {
                Some(expr) => {
                    let field = metadata.current_schema().field_by_full_name(name);
                    let field = field.ok_or_else(|| Error::not_found(format!("column `{name}`")))?;
                    default_value(context, expr, name, &field.field_type)?
                }
                None => None,
            };
            transaction.apply(schema().update_column_default(name, default))
        }
        A::Move { name, at } => transaction.apply(moved(schema(), name, at)),
        A::AddPartitionField { term, name } => transaction.apply(add_field(UpdateSpec::new(), term, name)),
        A::DropPartitionField(dropped) => transaction.apply(drop_field(UpdateSpec::new(), metadata, dropped)),
        A::ReplacePartitionField { old, term, name } => {
            transaction.apply(add_field(drop_field(UpdateSpec::new(), metadata, old), term, name))
        }
        A::OrderBy(keys) => {
            let order = keys.iter().fold(ReplaceSortOrder::new(), |order, (term, direction, nulls)| {
                order.key(&term.source, term.transform.clone(), *direction, *nulls)
            });
            transaction.apply(order)
        }
        A::Distribute(mode) => {
            transaction.apply(UpdateProperties::new().set("write.distribution-mode", *mode))
        }
        A::SetIdentifier(names) => transaction.apply(schema().set_identifier_fields(names.clone())),
        A::DropIdentifier(names) => {
            let current = metadata.current_schema();
            let kept = current.identifier_field_ids.iter().filter_map(|id| current.full_name(*id));
            let kept: Vec<String> = kept.filter(|name| !names.contains(name)).collect();
            if kept.len() + names.len() != current.identifier_field_ids.len() {
                return Err(Error::not_found(format!("identifier fields {}", names.join(", "))).into());
            }
            transaction.apply(schema().set_identifier_fields(kept))
        }
        A::CreateRef(reference) => match make_ref(metadata, reference)? {
            Some(update) => transaction.apply(update),
            None => transaction,
        },
        A::DropRef { branch, name, if_exists } => {
            if *if_exists && !metadata.refs.contains_key(name) {
                return Ok(transaction);
            }
            transaction.apply(match branch {
                true => ManageSnapshots::new().remove_branch(name),
                false => ManageSnapshots::new().remove_tag(name),
            })
        }
    })
}

fn add_column(
    context: &SessionContext,
    update: UpdateSchema,
    column: &Column,
    at: Option<&At>,
) -> Result<UpdateSchema> {
    let Some((name, parents)) = column.name.split_last() else {
        return Err(Error::invalid("a column without a name").into());
    };
    let mut new = match column.required {
        true => NewColumn::required(name, column.column_type.clone()),
        false => NewColumn::optional(name, column.column_type.clone()),
    };
    if !parents.is_empty() {
        new = new.parent(parents.join("."));
    }
    if let Some(doc) = &column.doc {
        new = new.doc(doc);
    }
    if let Some(expr) = &column.default
        && let Some(value) = default_value(context, expr, name, &column.column_type)?
    {
        new = new.default_value(value);
    }
    let update = update.add_new(new);
    Ok(match at {
        Some(at) => moved(update, &column.name.join("."), at),
        None => update,
    })
}

/// A column beside another of the same struct.
fn moved(update: UpdateSchema, name: &str, at: &At) -> UpdateSchema {
    match at {
        At::First => update.move_first(name),
        At::After(other) => {
            let parent = name.rsplit_once('.').map(|(parent, _)| parent);
            let other = match parent {
                Some(parent) if !other.contains('.') => format!("{parent}.{other}"),
                _ => other.clone(),
            };
            update.move_after(name, other)
        }
    }
}

fn add_field(update: UpdateSpec, term: &PartitionTerm, name: &Option<String>) -> UpdateSpec {
    match name {
        Some(name) => update.add_named_field(name, &term.source, term.transform.clone()),
        None => update.add_field(&term.source, term.transform.clone()),
    }
}

/// By its name, where there is a field of that name, or by what it is made of.
fn drop_field(update: UpdateSpec, metadata: &TableMetadata, dropped: &Dropped) -> UpdateSpec {
    let by_name =
        dropped.name().filter(|name| metadata.default_spec().fields.iter().any(|f| f.name == **name));
    match by_name {
        Some(name) => update.remove_field(name),
        None => update.remove_term(&dropped.0.source, dropped.0.transform.clone()),
    }
}

/// `None` if there is nothing to do.
fn make_ref(metadata: &TableMetadata, wanted: &Reference) -> Result<Option<ManageSnapshots>> {
    let Reference { branch, name, create, replace, if_not_exists, snapshot, retention } = wanted;
    let exists = metadata.refs.contains_key(name);
    if exists && *if_not_exists && !*replace {
        return Ok(None);
    }
    let update = ManageSnapshots::new();
    let snapshot = snapshot.map(SnapshotId).or(metadata.current_snapshot_id);
    let update = match (exists && *replace, *create, *branch, snapshot) {
        (true, _, true, Some(snapshot)) => update.replace_branch(name, snapshot),
        (true, _, false, Some(snapshot)) => update.replace_tag(name, snapshot),
        (false, true, true, Some(snapshot)) => update.create_branch_at(name, snapshot),
        (false, true, false, Some(snapshot)) => update.create_tag_at(name, snapshot),
        (false, true, true, None) => update.create_branch(name),
        (false, true, false, None) => update.create_tag(name),
        _ => return Err(Error::not_found(format!("a branch or tag `{name}` to replace")).into()),
    };
    let update = match retention.max_ref_age_ms {
        Some(age) => update.set_max_ref_age_ms(name, age),
        None => update,
    };
    let update = match retention.min_snapshots_to_keep {
        Some(count) => update.set_min_snapshots_to_keep(name, count),
        None => update,
    };
    Ok(Some(match retention.max_snapshot_age_ms {
        Some(age) => update.set_max_snapshot_age_ms(name, age),
        None => update,
    }))
}
