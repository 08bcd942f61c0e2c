//! SELECTs that are made of statements, with marks by which they are found again in a plan.

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, Query, SelectItem, SetExpr, Statement as SqlStatement, TableAlias, TableFactor,
    TableWithJoins, Value, With,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::Error;

/// The column of a SELECT that stands for a DELETE; its value is the table's name.
pub(super) const DELETE_MARK: &str = "\u{1}delete";
/// The same for an INSERT.
pub(super) const INSERT_MARK: &str = "\u{1}insert";
/// The same for an UPDATE.
pub(super) const UPDATE_MARK: &str = "\u{1}update";
/// What the names of columns begin with that an UPDATE sets to their defaults.
pub(super) const DEFAULT_MARK: &str = "\u{1}default ";

pub(super) fn text(text: impl Into<String>) -> SqlExpr {
    SqlExpr::value(Value::SingleQuotedString(text.into()))
}

pub(super) fn aliased(expr: SqlExpr, alias: Ident) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias }
}

pub(super) fn marked(mark: &str, table: &TableReference) -> SelectItem {
    aliased(text(table.to_quoted_string()), Ident::with_quote('"', mark))
}

/// A SELECT without its parts.
pub(super) fn template() -> Result<Query> {
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1");
    match parsed.ok().and_then(|mut statements| statements.pop()) {
        Some(SqlStatement::Query(query)) => Ok(*query),
        _ => Err(Error::invalid("SELECT is no query").into()),
    }
}

pub(super) fn select(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<SqlExpr>,
    with: &Option<With>,
) -> Result<SqlStatement> {
    let mut query = template()?;
    query.with = with.clone();
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = from;
        select.selection = selection;
    }
    Ok(SqlStatement::Query(Box::new(query)))
}

/// Lets a table in FROM see common table expressions.
pub(super) fn wrap(factor: &mut TableFactor, with: With) -> Result<()> {
    let alias = match factor {
        TableFactor::Table { name, alias, .. } => alias.take().or_else(|| {
            let name = name.0.last().and_then(|part| part.as_ident().cloned())?;
            Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None })
        }),
        TableFactor::Derived { alias, .. } => alias.clone(),
        _ => None,
    };
    let mut query = template()?;
    query.with = Some(with);
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![SelectItem::Wildcard(Default::default())];
        select.from = vec![TableWithJoins { relation: factor.clone(), joins: Vec::new() }];
    }
    *factor = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None };
    Ok(())
}
