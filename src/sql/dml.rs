//! DELETE, UPDATE, MERGE and INSERT of Iceberg tables in more words than DataFusion's planner knows: other
//! names for the table, `USING` and `FROM`, common table expressions, metadata columns, MERGE's stars.
//!
//! A DELETE or UPDATE becomes the SELECT of its rows, with a mark; once that is planned, it becomes the
//! statement again. That way all that a SELECT may have is planned as in one.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Cte, Delete, Expr as SqlExpr, FromTable, Ident, Merge, MergeAction,
    MergeInsertKind, ObjectName, Parens, SetExpr, Statement as SqlStatement, TableFactor, Update,
    UpdateTableFromKind, With,
};

use super::insert::Insertion;
use super::merge;
use super::merge_stars::ALL_COLUMNS;
use super::selects::{DEFAULT_MARK, DELETE_MARK, UPDATE_MARK, aliased, marked, select, text, wrap};
use crate::error::Error;
use crate::provider::IcebergTable;

/// What stands in the place of a statement.
pub(super) enum Reworded {
    /// It is as it was.
    No,
    /// A SELECT of the rows that a DELETE or UPDATE changes.
    Rows,
    /// The query of an INSERT.
    Insert(Insertion),
}

/// Makes DELETE, UPDATE and some INSERTs of Iceberg tables SELECTs, which [`super::restore`] makes
/// statements again, and spells out what MERGE leaves out.
pub(super) async fn reword(state: &SessionState, statement: &mut Statement) -> Result<Reworded> {
    let mut statement = statement;
    while let Statement::Explain(explain) = statement {
        statement = &mut explain.statement;
    }
    let Statement::Statement(statement) = statement else { return Ok(Reworded::No) };
    let mut statement = statement.as_mut();
    while let SqlStatement::Prepare { statement: prepared, .. } = statement {
        statement = prepared.as_mut();
    }
    let mut with = None;
    if let SqlStatement::Query(query) = statement
        && let SetExpr::Delete(inner) | SetExpr::Update(inner) | SetExpr::Merge(inner) = query.body.as_mut()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
    {
        with = query.with.take();
        *statement = inner.clone();
    }
    let words = Words { state, normalizer: normalizer(state) };
    match statement {
        SqlStatement::Delete(delete) => {
            if let Some(select) = words.delete(delete, &with).await? {
                *statement = select;
                return Ok(Reworded::Rows);
            }
        }
        SqlStatement::Update(update) => {
            if let Some(select) = words.update(update, &with).await? {
                *statement = select;
                return Ok(Reworded::Rows);
            }
        }
        SqlStatement::Insert(insert) => {
            if let Some((select, insertion)) = words.insert(insert).await? {
                *statement = select;
                return Ok(Reworded::Insert(insertion));
            }
        }
        SqlStatement::Merge(merge) => {
            words.merge(merge, &mut with).await?;
        }
        _ => {}
    }
    match with {
        None => Ok(Reworded::No),
        Some(_) => Err(Error::unsupported("WITH before this statement; use a subquery").into()),
    }
}

fn normalizer(state: &SessionState) -> IdentNormalizer {
    IdentNormalizer::new(state.config_options().sql_parser.enable_ident_normalization)
}

/// Knows the tables of a session.
pub(super) struct Words<'a> {
    state: &'a SessionState,
    pub(super) normalizer: IdentNormalizer,
}

/// An Iceberg table in a statement.
struct Named {
    reference: TableReference,
    columns: Vec<String>,
    /// What the statement calls it.
    called: Vec<Ident>,
}

fn iceberg(provider: &Option<Arc<dyn TableProvider>>) -> Option<&IcebergTable> {
    provider.as_ref()?.downcast_ref()
}

impl Words<'_> {
    /// What does not exist is planning's to complain about.
    pub(super) async fn find(
        &self,
        name: &ObjectName,
    ) -> Result<(TableReference, Option<Arc<dyn TableProvider>>)> {
        let normalize = self.state.config_options().sql_parser.enable_ident_normalization;
        let reference = object_name_to_table_reference(name.clone(), normalize)?;
        let table = match self.state.schema_for_ref(reference.clone()) {
            Ok(schema) => schema.table(reference.table()).await?,
            Err(_) => None,
        };
        Ok((reference, table))
    }

    /// `None` if it is no Iceberg table.
    async fn table(&self, factor: &TableFactor) -> Result<Option<Named>> {
        let TableFactor::Table { name, alias, args: None, version: None, partitions, sample, .. } = factor
        else {
            return Ok(None);
        };
        let (reference, provider) = self.find(name).await?;
        let Some(table) = iceberg(&provider) else { return Ok(None) };
        if sample.is_some() || !partitions.is_empty() {
            // DataFusion reads over them.
            let message = "a part of a table (PARTITION, TABLESAMPLE) as what a statement changes; use WHERE";
            return Err(Error::unsupported(message)
                .context(format!("table {}", table.table().name()))
                .into());
        }
        let columns = table.selection().schema.fields().iter().map(|field| field.name.clone()).collect();
        let called = match alias {
            Some(alias) => vec![alias.name.clone()],
            None => name.0.iter().filter_map(|part| part.as_ident().cloned()).collect(),
        };
        Ok(Some(Named { reference, columns, called }))
    }

    async fn delete(&self, delete: &Delete, with: &Option<With>) -> Result<Option<SqlStatement>> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [only] = from.as_slice() else { return Ok(None) };
        let plain = delete.optimizer_hints.is_empty()
            && delete.tables.is_empty()
            && delete.returning.is_none()
            && delete.output.is_none()
            && delete.order_by.is_empty()
            && delete.limit.is_none()
            && only.joins.is_empty();
        let Some(table) = self.table(&only.relation).await?.filter(|_| plain) else { return Ok(None) };
        self.check_not_hidden(&table, with)?;
        let mut from = vec![only.clone()];
        from.extend(delete.using.iter().flatten().cloned());
        let items = vec![marked(DELETE_MARK, &table.reference)];
        Ok(Some(select(items, from, delete.selection.clone(), with)?))
    }

    async fn update(&self, update: &Update, with: &Option<With>) -> Result<Option<SqlStatement>> {
        let plain = update.optimizer_hints.is_empty()
            && update.returning.is_none()
            && update.output.is_none()
            && update.or.is_none()
            && update.order_by.is_empty()
            && update.limit.is_none();
        let Some(table) = self.table(&update.table.relation).await? else { return Ok(None) };
        self.check_not_hidden(&table, with)?;
        if !update.table.joins.is_empty() {
            let message = "UPDATE of a join; write UPDATE table SET … FROM other WHERE …, or MERGE";
            return Err(Error::unsupported(message).into());
        }
        if !plain {
            return Ok(None);
        }
        let mut values = HashMap::new();
        for Assignment { target, value } in &update.assignments {
            let column = self.assigned(target, &table)?;
            if values.insert(column.clone(), value).is_some() {
                return Err(Error::invalid(format!("UPDATE sets column `{column}` twice")).into());
            }
        }
        let mut items = vec![marked(UPDATE_MARK, &table.reference)];
        for column in &table.columns {
            let name = Ident::with_quote('"', column);
            match values.get(column) {
                Some(SqlExpr::Identifier(word)) if is_default(word) => {
                    items.push(aliased(
                        text(column),
                        Ident::with_quote('"', format!("{DEFAULT_MARK}{column}")),
                    ));
                }
                Some(value) => items.push(aliased((*value).clone(), name)),
                None => {
                    let own = table.called.iter().cloned().chain([name.clone()]).collect();
                    items.push(aliased(SqlExpr::CompoundIdentifier(own), name));
                }
            }
        }
        let mut from = vec![update.table.clone()];
        if let Some(UpdateTableFromKind::AfterSet(more) | UpdateTableFromKind::BeforeSet(more)) = &update.from
        {
            from.extend(more.iter().cloned());
        }
        Ok(Some(select(items, from, update.selection.clone(), with)?))
    }

    /// A common table expression of the table's name would be what the statement's query reads.
    fn check_not_hidden(&self, table: &Named, with: &Option<With>) -> Result<()> {
        let ctes = with.iter().flat_map(|with| &with.cte_tables);
        let hides = |cte: &Cte| {
            table.reference.schema().is_none()
                && self.normalizer.normalize(cte.alias.name.clone()) == table.reference.table()
        };
        match ctes.into_iter().any(hides) {
            true => {
                let message = "a common table expression of the table's name; call it otherwise";
                Err(Error::unsupported(message).context(format!("table {}", table.reference)).into())
            }
            false => Ok(()),
        }
    }

    /// The column that is assigned to.
    fn assigned(&self, target: &AssignmentTarget, table: &Named) -> Result<String> {
        let AssignmentTarget::ColumnName(name) = target else {
            return Err(Error::unsupported("UPDATE of several columns by one value; set each of them").into());
        };
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let normal = |ident: &Ident| self.normalizer.normalize(ident.clone());
        let Some((last, qualifier)) = parts.split_last() else {
            return Err(Error::invalid("UPDATE sets a column without a name").into());
        };
        let called: Vec<String> = table.called.iter().map(normal).collect();
        let qualifier: Vec<String> = qualifier.iter().map(|part| normal(part)).collect();
        if !called.ends_with(&qualifier) {
            let message = match qualifier.first().is_some_and(|first| table.columns.contains(first)) {
                true => format!("UPDATE of a field of a struct (`{name}`); set the whole column"),
                false => format!("UPDATE of `{name}`, which is not a column of the table"),
            };
            return Err(Error::unsupported(message).into());
        }
        let column = normal(last);
        match table.columns.contains(&column) {
            true => Ok(column),
            false => Err(Error::not_found(format!(
                "column `{column}`; the table has {}",
                table.columns.join(", ")
            ))
            .into()),
        }
    }

    async fn merge(&self, merge: &mut Merge, with: &mut Option<With>) -> Result<()> {
        let Some(table) = self.table(&merge.table).await? else {
            if merge.clauses.iter().any(|clause| has_star(&clause.action)) {
                let message = "`*` in MERGE into a table that is not Iceberg's; name the columns";
                return Err(Error::unsupported(message).into());
            }
            return Ok(());
        };
        for clause in &mut merge.clauses {
            spell_out(&mut clause.action, &table);
        }
        if let Some(with) = with.take() {
            wrap(&mut merge.source, with)?;
        }
        Ok(())
    }
}

fn is_all(name: &ObjectName) -> bool {
    name.0.first().and_then(|part| part.as_ident()).is_some_and(|ident| ident.value == ALL_COLUMNS)
}

fn has_star(action: &MergeAction) -> bool {
    match action {
        MergeAction::Insert(insert) => insert.columns.iter().any(is_all),
        MergeAction::Update(update) => update.assignments.iter().any(
            |assignment| matches!(&assignment.target, AssignmentTarget::ColumnName(name) if is_all(name)),
        ),
        MergeAction::Delete { .. } => false,
    }
}

/// Puts the table's columns in the place of a star.
fn spell_out(action: &mut MergeAction, table: &Named) {
    let column = |name: &String| ObjectName::from(vec![Ident::with_quote('"', name)]);
    match action {
        MergeAction::Update(update) => {
            if let [Assignment { target: AssignmentTarget::ColumnName(name), .. }] =
                update.assignments.as_slice()
                && is_all(name)
            {
                let assign = |name| Assignment {
                    target: AssignmentTarget::ColumnName(column(name)),
                    value: text(merge::OF_SOURCE),
                };
                update.assignments = table.columns.iter().map(assign).collect();
            }
        }
        MergeAction::Insert(insert) => {
            if let MergeInsertKind::Values(values) = &mut insert.kind
                && insert.columns.first().is_some_and(is_all)
            {
                insert.columns = table.columns.iter().map(column).collect();
                let row = table.columns.iter().map(|_| text(merge::OF_SOURCE)).collect();
                values.rows = vec![Parens::with_empty_span(row)];
            }
        }
        MergeAction::Delete { .. } => {}
    }
}

fn is_default(word: &Ident) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default")
}
