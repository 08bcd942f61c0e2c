//! DELETE, UPDATE and MERGE of Iceberg tables in more words than DataFusion's planner knows: other
//! names for the table, `USING` and `FROM`, common table expressions, metadata columns, MERGE's stars.
//!
//! A DELETE or UPDATE becomes the SELECT of its rows, with a mark; once that is planned, it becomes the
//! statement again. That way all that a SELECT may have is planned as in one.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, TableSource, WriteOp, lit,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr as SqlExpr, FromTable, Ident, Insert, Merge, MergeAction,
    MergeInsertKind, ObjectName, Parens, Query, SelectItem, SetExpr, Statement as SqlStatement, TableAlias,
    TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind, Value, VisitMut, VisitorMut, With,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::merge;
use super::merge_stars::ALL_COLUMNS;
use super::row_level::assigned;
use crate::error::Error;
use crate::provider::IcebergTable;

/// The column of a SELECT that stands for a DELETE; its value is the table's name.
const DELETE_MARK: &str = "\u{1}delete";
/// The same for an INSERT.
const INSERT_MARK: &str = "\u{1}insert";
/// The same for an UPDATE.
const UPDATE_MARK: &str = "\u{1}update";
/// What the names of columns begin with that an UPDATE sets to their defaults.
const DEFAULT_MARK: &str = "\u{1}default ";

/// What stands in the place of a statement.
pub(super) enum Reworded {
    /// It is as it was.
    No,
    /// A SELECT of the rows that a DELETE or UPDATE changes.
    Rows,
    /// The query of an INSERT.
    Insert(Insertion),
}

/// An INSERT without its query.
pub(super) struct Insertion {
    table: TableReference,
    provider: Arc<dyn TableProvider>,
    /// The columns that it names; all if it names none.
    columns: Vec<String>,
    operation: InsertOp,
}

/// Makes DELETE and UPDATE of Iceberg tables SELECTs, and spells out what MERGE leaves out. Whether
/// there is a SELECT now for [`restore`].
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

struct Words<'a> {
    state: &'a SessionState,
    normalizer: IdentNormalizer,
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
    async fn find(&self, name: &ObjectName) -> Result<(TableReference, Option<Arc<dyn TableProvider>>)> {
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

    /// DataFusion takes VALUES anywhere in an INSERT for rows of the table, and makes them of its types: one
    /// with VALUES in its query is planned without the table.
    async fn insert(&self, insert: &mut Insert) -> Result<Option<(SqlStatement, Insertion)>> {
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

/// Whether a query that is not VALUES itself has some in it.
fn has_values_inside(query: &mut Query) -> bool {
    struct Found(bool);
    impl VisitorMut for Found {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.0 |= has_values(&query.body);
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
    if matches!(query.body.as_ref(), SetExpr::Values(_)) {
        return false;
    }
    let mut found = Found(false);
    // It never breaks off.
    let _ = query.visit(&mut found);
    found.0
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

fn is_default(word: &Ident) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default")
}

fn text(text: impl Into<String>) -> SqlExpr {
    SqlExpr::value(Value::SingleQuotedString(text.into()))
}

fn aliased(expr: SqlExpr, alias: Ident) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias }
}

fn marked(mark: &str, table: &TableReference) -> SelectItem {
    aliased(text(table.to_quoted_string()), Ident::with_quote('"', mark))
}

/// A SELECT without its parts.
fn template() -> Result<Query> {
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1");
    match parsed.ok().and_then(|mut statements| statements.pop()) {
        Some(SqlStatement::Query(query)) => Ok(*query),
        _ => Err(Error::invalid("SELECT is no query").into()),
    }
}

fn select(
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
fn wrap(factor: &mut TableFactor, with: With) -> Result<()> {
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

/// Makes the marked SELECT of a plan the statement that it stands for.
pub(super) fn restore(plan: LogicalPlan, reworded: &Reworded) -> Result<LogicalPlan> {
    let insertion = match reworded {
        Reworded::No => return Ok(plan),
        Reworded::Rows => None,
        Reworded::Insert(insertion) => Some(insertion),
    };
    let mut statements = 0;
    let restored = plan.transform_up(|plan| match &plan {
        LogicalPlan::Projection(projection) => Ok(match statement(projection, insertion)? {
            Some(statement) => {
                statements += 1;
                Transformed::yes(LogicalPlan::Dml(statement))
            }
            None => Transformed::no(plan),
        }),
        _ => Ok(Transformed::no(plan)),
    })?;
    match statements {
        1 => Ok(restored.data),
        _ => Err(Error::invalid("the statement was lost when it was planned").into()),
    }
}

fn statement(projection: &Projection, insertion: Option<&Insertion>) -> Result<Option<DmlStatement>> {
    let Some(Expr::Alias(mark)) = projection.expr.first() else { return Ok(None) };
    let operation = match mark.name.as_str() {
        INSERT_MARK => return insertion.map(|insertion| insertion.statement(projection)).transpose(),
        DELETE_MARK => WriteOp::Delete,
        UPDATE_MARK => WriteOp::Update,
        _ => return Ok(None),
    };
    let Expr::Literal(ScalarValue::Utf8(Some(name)), _) = mark.expr.as_ref() else { return Ok(None) };
    let (table_name, source) = target(&projection.input, name)?;
    let input = match operation {
        WriteOp::Delete => Arc::clone(&projection.input),
        _ => Arc::new(new_versions(projection, &source)?),
    };
    Ok(Some(DmlStatement::new(table_name, source, operation, input)))
}

impl Insertion {
    /// As DataFusion's planner makes it: the rows in the table's columns and types.
    fn statement(&self, rows: &Projection) -> Result<DmlStatement> {
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

/// The table of that name in a query.
fn target(plan: &LogicalPlan, name: &str) -> Result<(TableReference, Arc<dyn TableSource>)> {
    let mut found = None;
    plan.apply(|plan| {
        if let LogicalPlan::TableScan(scan) = plan
            && scan.table_name.to_quoted_string() == name
        {
            found = Some((scan.table_name.clone(), Arc::clone(&scan.source)));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    found.ok_or_else(|| Error::invalid(format!("the statement does not read {name}")).into())
}

/// The rows of an UPDATE as DataFusion's planner has them: in the table's types.
fn new_versions(projection: &Projection, source: &Arc<dyn TableSource>) -> Result<LogicalPlan> {
    let schema = source.schema();
    let mut columns = Vec::with_capacity(projection.expr.len());
    for expr in projection.expr.iter().skip(1) {
        let (name, value) = match expr {
            Expr::Alias(alias) => (alias.name.as_str(), alias.expr.as_ref()),
            // The planner leaves out an alias that says nothing.
            Expr::Column(column) => (column.name.as_str(), expr),
            _ => return Err(Error::invalid("a column of an UPDATE has no name").into()),
        };
        let (name, value) = match (name, value) {
            (mark, Expr::Literal(ScalarValue::Utf8(Some(name)), _)) if mark.starts_with(DEFAULT_MARK) => {
                let default = source.get_column_default(name).cloned();
                (name.as_str(), default.unwrap_or_else(|| lit(ScalarValue::Null)))
            }
            (name, value) => (name, value.clone()),
        };
        let data_type = schema.field_with_name(name)?.data_type();
        columns.push(assigned(value, name, data_type, projection.input.schema())?.alias(name));
    }
    LogicalPlanBuilder::from(Arc::clone(&projection.input)).project(columns)?.build()
}
