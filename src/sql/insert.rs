//! INSERT into Iceberg tables, where DataFusion's planner asks too much of its query or does too much to it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, ExprSchemable, LogicalPlanBuilder, Projection, WriteOp, lit};
use datafusion::sql::sqlparser::ast::{
    Ident, Insert, Query, SelectItem, SetExpr, Statement as SqlStatement, TableAlias, TableFactor,
    TableObject, TableWithJoins, VisitMut, VisitorMut,
};

use super::dml::Words;
use super::selects::{INSERT_MARK, aliased, marked, select};
use crate::error::Error;
use crate::provider::IcebergTable;

/// An INSERT without its query.
pub(super) struct Insertion {
    table: TableReference,
    provider: Arc<dyn TableProvider>,
    /// The columns that it names; all if it names none.
    columns: Vec<String>,
    operation: InsertOp,
}

impl Words<'_> {
    /// DataFusion takes VALUES anywhere in an INSERT for rows of the table, and makes them of its types: one
    /// with VALUES in its query is planned without the table.
    pub(super) async fn insert(&self, insert: &mut Insert) -> Result<Option<(SqlStatement, Insertion)>> {
        let (TableObject::TableName(name), Some(source)) = (&insert.table, &mut insert.source) else {
            return Ok(None);
        };
        let (table, provider) = self.find(name).await?;
        let Some(provider) = provider.filter(|provider| provider.is::<IcebergTable>()) else {
            return Ok(None);
        };
        name_columns(&mut source.body);
        let plain = insert.partitioned.is_none()
            && insert.after_columns.is_empty()
            && insert.on.is_none()
            && insert.returning.is_none()
            && insert.or.is_none()
            && insert.assignments.is_empty()
            && insert.table_alias.is_none()
            && insert.output.is_none()
            && insert.priority.is_none()
            && insert.insert_alias.is_none()
            && insert.settings.is_none()
            && insert.format_clause.is_none()
            && insert.optimizer_hints.is_empty()
            && insert.columns.iter().all(|name| name.0.len() == 1)
            && !insert.ignore
            && !insert.replace_into;
        if !plain || !has_values_inside(source) {
            return Ok(None);
        }
        let columns = insert.columns.iter().filter_map(|name| name.0.last()?.as_ident());
        let columns = columns.map(|column| self.normalizer.normalize(column.clone())).collect();
        let operation = if insert.overwrite { InsertOp::Overwrite } else { InsertOp::Append };
        let all = TableAlias {
            explicit: true,
            name: Ident::with_quote('"', INSERT_MARK),
            columns: Vec::new(),
            at: None,
        };
        let rows =
            TableFactor::Derived { lateral: false, subquery: source.clone(), alias: Some(all), sample: None };
        let items = vec![marked(INSERT_MARK, &table), SelectItem::Wildcard(Default::default())];
        let select = select(items, vec![TableWithJoins { relation: rows, joins: Vec::new() }], None, &None)?;
        Ok(Some((select, Insertion { table, provider, columns, operation })))
    }
}

/// Whether a query has VALUES in it, besides those that it may be itself.
fn has_values_inside(query: &mut Query) -> bool {
    struct Found(usize);
    impl VisitorMut for Found {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.0 += usize::from(has_values(&query.body));
            ControlFlow::Continue(())
        }
    }
    fn has_values(body: &SetExpr) -> bool {
        match body {
            SetExpr::Values(_) => true,
            SetExpr::SetOperation { left, right, .. } => has_values(left) || has_values(right),
            _ => false,
        }
    }
    let own = usize::from(matches!(query.body.as_ref(), SetExpr::Values(_)));
    let mut found = Found(0);
    // It never breaks off.
    let _ = query.visit(&mut found);
    found.0 > own
}

/// Names the columns of an INSERT's query that are there twice: DataFusion wants them to differ, although
/// they go by their places.
fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let mut seen = HashSet::new();
            for (i, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item
                    && !seen.insert(expr.to_string())
                {
                    *item = aliased(expr.clone(), Ident::with_quote('"', format!("\u{1}{i}")));
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_columns(left);
            name_columns(right);
        }
        SetExpr::Query(query) => name_columns(&mut query.body),
        _ => {}
    }
}

impl Insertion {
    /// As DataFusion's planner makes it: the rows in the table's columns and types.
    pub(super) fn statement(&self, rows: &Projection) -> Result<DmlStatement> {
        let schema = self.provider.schema();
        let given = rows.expr.get(1..).unwrap_or_default();
        let names = || schema.fields().iter().map(|field| field.name().clone());
        let columns: Vec<String> =
            if self.columns.is_empty() { names().collect() } else { self.columns.clone() };
        if given.len() != columns.len() {
            let message = format!("INSERT of {} columns into {}", given.len(), columns.len());
            return Err(Error::invalid(message).context(format!("table {}", self.table)).into());
        }
        for (i, name) in columns.iter().enumerate() {
            if schema.index_of(name).is_err() || columns.iter().take(i).any(|other| other == name) {
                let all = names().collect::<Vec<_>>().join(", ");
                let message =
                    format!("INSERT names column `{name}` twice, or there is none; there are {all}");
                return Err(Error::invalid(message).context(format!("table {}", self.table)).into());
            }
        }
        let mut values = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let place = columns.iter().position(|name| name == field.name());
            let value = match place.and_then(|place| given.get(place)) {
                Some(value) => value.clone().unalias(),
                None => {
                    let default = self.provider.get_column_default(field.name()).cloned();
                    default.unwrap_or_else(|| lit(ScalarValue::Null))
                }
            };
            values.push(value.cast_to(field.data_type(), rows.input.schema())?.alias(field.name()));
        }
        let input = LogicalPlanBuilder::from(Arc::clone(&rows.input)).project(values)?.build()?;
        let target = provider_as_source(Arc::clone(&self.provider));
        Ok(DmlStatement::new(self.table.clone(), target, WriteOp::Insert(self.operation), Arc::new(input)))
    }
}
