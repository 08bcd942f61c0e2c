//! DELETE, UPDATE, MERGE and TRUNCATE of Iceberg tables: DataFusion's statements become queries that
//! give the changes of rows, which are planned and optimized like any other.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{DefaultTableSource, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, Statement, TableScan, TableSource, WriteOp, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::assigned::check_structs;
use super::merge;
use super::prepared::prepared;
use super::subqueries::{check_subqueries, has_subquery};
use crate::arrow::to_predicate;
use crate::error::Error;
use crate::exec::{FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID};
use crate::expr::Predicate;
use crate::provider::{IcebergTable, RowChangeTarget};
use crate::spec::RowLevelOperation;
use crate::write::{OLD_FILE, OLD_POSITION, RowChange};

/// The id of a row's old version.
const OLD_ROW_ID: &str = "\u{1}old_row_id";

/// Teaches a session the statements that change rows of Iceberg tables.
#[derive(Debug)]
pub(super) struct RowLevelStatements;

impl AnalyzerRule for RowLevelStatements {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite(plan, config)
    }

    fn name(&self) -> &'static str {
        "iceberg_row_level_statements"
    }
}

/// A plan in which no statement is left that DataFusion would run by its own hooks.
pub(super) fn rewrite(plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up(|plan| {
        if let LogicalPlan::Statement(Statement::Prepare(prepare)) = &plan
            && let LogicalPlan::Dml(statement) = prepare.input.as_ref()
            && row_change(&statement.target).is_some()
        {
            return Err(prepared().context(format!("table {}", statement.table_name)).into());
        }
        let LogicalPlan::Dml(statement) = &plan else { return Ok(Transformed::no(plan)) };
        let Some(table) = iceberg_table(&statement.target) else { return Ok(Transformed::no(plan)) };
        let place = |e: Error| e.context(format!("table {}", table.table().name()));
        let target = Target { statement, table, config };
        if !matches!(statement.op, WriteOp::Insert(_) | WriteOp::Ctas) {
            check_subqueries(&statement.input).map_err(|e| within(e, place))?;
        }
        Ok(Transformed::yes(match &statement.op {
            WriteOp::Delete => target.delete(&statement.input).map_err(|e| within(e, place))?,
            WriteOp::Truncate => target.delete(&target.scan()?).map_err(|e| within(e, place))?,
            WriteOp::Update => target.update(&statement.input).map_err(|e| within(e, place))?,
            WriteOp::Insert(_) => {
                check_structs(&statement.input).map_err(|e| within(e, place))?;
                return Ok(Transformed::no(plan));
            }
            WriteOp::MergeInto(merge) => merge::plan(&target, merge).map_err(|e| within(e, place))?,
            _ => return Ok(Transformed::no(plan)),
        }))
    })?;
    Ok(rewritten.data)
}

/// Our own errors name the table.
fn within(e: DataFusionError, place: impl FnOnce(Error) -> Error) -> DataFusionError {
    match e {
        DataFusionError::External(e) => match e.downcast::<Error>() {
            Ok(e) => place(*e).into(),
            Err(e) => DataFusionError::External(e),
        },
        e => e,
    }
}

pub(super) fn iceberg_table(source: &Arc<dyn TableSource>) -> Option<&IcebergTable> {
    let source = source.downcast_ref::<DefaultTableSource>()?;
    source.table_provider.downcast_ref::<IcebergTable>()
}

fn row_change(source: &Arc<dyn TableSource>) -> Option<&RowChangeTarget> {
    source.downcast_ref::<DefaultTableSource>()?.table_provider.downcast_ref()
}

/// What a planned statement does to rows of an Iceberg table that are there: its plan is that of an
/// INSERT of changes. `None` for other statements.
pub fn row_level_operation(plan: &LogicalPlan) -> Option<RowLevelOperation> {
    match plan {
        LogicalPlan::Dml(statement) => row_change(&statement.target).map(RowChangeTarget::operation),
        _ => None,
    }
}

/// The table that a statement changes.
pub(super) struct Target<'a> {
    pub(super) statement: &'a DmlStatement,
    table: &'a IcebergTable,
    config: &'a ConfigOptions,
}

impl Target<'_> {
    /// The names of the table's own columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.table.selection().schema.fields().iter().map(|field| field.name.as_str())
    }

    /// The names of columns that rows take along to other files.
    pub(super) fn lineage(&self) -> &'static [&'static str] {
        match self.table.table().metadata().format_version {
            0..3 => &[],
            _ => &[ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER],
        }
    }

    /// The value of a column for rows that do not name it.
    pub(super) fn default(&self, column: &str) -> Option<Expr> {
        datafusion::catalog::TableProvider::get_column_default(self.table, column).cloned()
    }

    /// A column of the table.
    pub(super) fn place(&self, column: &str) -> Expr {
        Expr::Column(Column::new(Some(self.statement.table_name.clone()), column))
    }

    /// The table with the columns that say where its rows are.
    pub(super) fn scan(&self) -> Result<LogicalPlan> {
        let table = self.table.with_metadata_columns()?;
        for name in [FILE, POS].into_iter().chain(self.lineage().iter().copied()) {
            if self.columns().any(|column| column == name) {
                return Err(Error::unsupported(format!(
                    "the table has a column `{name}` of its own, by which rows can't be changed; rename it"
                ))
                .into());
            }
        }
        let name = self.statement.table_name.clone();
        LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None)?.build()
    }

    fn is_scan(&self, scan: &TableScan) -> bool {
        let same = |table: &IcebergTable| {
            let (theirs, ours) = (table.table(), self.table.table());
            theirs.metadata().location == ours.metadata().location
                && table.selection().snapshot == self.table.selection().snapshot
        };
        scan.table_name == self.statement.table_name && iceberg_table(&scan.source).is_some_and(same)
    }

    /// The same scan with the columns that say where its rows are, under names that nothing else has.
    fn placed(&self, scan: &TableScan) -> Result<LogicalPlan> {
        if scan.projection.is_some() || !scan.filters.is_empty() {
            return Err(prepared().into());
        }
        let rows = self.scan()?;
        let mut columns: Vec<Expr> = scan.projected_schema.columns().into_iter().map(Expr::Column).collect();
        let name = || Some(self.statement.table_name.clone());
        columns.push(self.place(FILE).alias_qualified(name(), OLD_FILE));
        columns.push(self.place(POS).alias_qualified(name(), OLD_POSITION));
        if !self.lineage().is_empty() {
            columns.push(self.place(ROW_ID).alias_qualified(name(), OLD_ROW_ID));
        }
        LogicalPlanBuilder::from(rows).project(columns)?.build()
    }

    /// A query of the table's rows with the columns that say where they are; `None` if it is known to
    /// have no rows.
    fn with_places(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let mut scans = 0;
        let rows = plan.clone().transform_up(|plan| match plan {
            LogicalPlan::TableScan(scan) if self.is_scan(&scan) => {
                scans += 1;
                Ok(Transformed::yes(self.placed(&scan)?))
            }
            plan => Ok(Transformed::no(plan)),
        })?;
        let rows = rows.data.transform_up(|plan| Ok(Transformed::yes(plan.recompute_schema()?)))?.data;
        match (scans, &rows) {
            (0, LogicalPlan::EmptyRelation(empty)) if !empty.produce_one_row => Ok(None),
            (1, _) => Ok(Some(rows)),
            (0, _) => Err(Error::unsupported("a statement whose plan does not read the table").into()),
            _ => Err(Error::unsupported("a statement that joins the table with itself; use MERGE").into()),
        }
    }

    /// Where the rows of a query of the table are.
    fn places(&self, rows: &LogicalPlan) -> Result<Vec<Expr>> {
        Ok(vec![
            Expr::Column(the_only(rows.schema(), OLD_FILE)?).alias(OLD_FILE),
            Expr::Column(the_only(rows.schema(), OLD_POSITION)?).alias(OLD_POSITION),
        ])
    }

    fn delete(&self, rows: &LogicalPlan) -> Result<LogicalPlan> {
        let changes = match self.with_places(rows)? {
            Some(rows) => {
                let places = self.places(&rows)?;
                LogicalPlanBuilder::from(rows).project(places)?.build()?
            }
            None => nothing(vec![no_file(), no_position()])?,
        };
        let filter = self.conflict_filter(&changes, rows, rows)?;
        let exact = self.exact(rows);
        let operation = RowLevelOperation::Delete;
        self.change(changes, RowChange { operation, filter, exact, repeats: true })
    }

    /// What exactly a query's rows match, where it is nothing but a filter of the table.
    fn exact(&self, rows: &LogicalPlan) -> Option<Predicate> {
        let mut plan = rows;
        loop {
            plan = match plan {
                LogicalPlan::Filter(filter) => &filter.input,
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                LogicalPlan::TableScan(scan) if scan.fetch.is_none() => break,
                _ => return None,
            };
        }
        let mut all = Vec::new();
        for condition in conditions(rows) {
            let simple = self.simplified(condition, rows.schema());
            let converted = to_predicate(&simple, &self.table.selection().schema);
            let plain = !condition.is_volatile() && !has_subquery(condition).ok()?;
            all.push(Some(converted.predicate).filter(|_| converted.exact && plain)?);
        }
        Some(Predicate::and(all))
    }

    /// `input` gives the new versions, by a projection at its top.
    fn update(&self, input: &LogicalPlan) -> Result<LogicalPlan> {
        let LogicalPlan::Projection(projection) = input else {
            return self.update_of_nothing(input);
        };
        let own = |expr: &&Expr| {
            let name = expr.schema_name().to_string();
            self.columns().any(|column| column == name)
        };
        // Of a table that shows its metadata columns: they are what they are.
        for expr in projection.expr.iter().filter(|expr| !own(expr)) {
            let name = expr.schema_name().to_string();
            if !matches!(expr.clone().unalias(), Expr::Column(column) if column.name == name) {
                return Err(Error::invalid(format!("`{name}` can't be set")).into());
            }
        }
        let mut columns: Vec<Expr> = projection.expr.iter().filter(own).cloned().collect();
        let changes = match self.with_places(&projection.input)? {
            Some(rows) => {
                columns.extend(self.places(&rows)?);
                for name in self.lineage() {
                    columns.push(match *name {
                        ROW_ID => Expr::Column(the_only(rows.schema(), OLD_ROW_ID)?).alias(ROW_ID),
                        name => lit(ScalarValue::Int64(None)).alias(name),
                    });
                }
                LogicalPlanBuilder::from(rows).project(columns)?.build()?
            }
            None => return self.update_of_nothing(&projection.input),
        };
        let filter = self.conflict_filter(&changes, &projection.input, input)?;
        self.change(
            changes,
            RowChange { operation: RowLevelOperation::Update, filter, exact: None, repeats: false },
        )
    }

    /// What the rows match that a statement changes; `rows` is its query, and `all` all that it reads.
    fn conflict_filter(
        &self,
        changes: &LogicalPlan,
        rows: &LogicalPlan,
        all: &LogicalPlan,
    ) -> Result<Predicate> {
        if self.reads_itself(all)? {
            return Ok(Predicate::True);
        }
        // The table may have another name in the statement.
        let place = changes.inputs().first().map(|rows| the_only(rows.schema(), OLD_FILE)).transpose();
        let name = place.ok().flatten().and_then(|column| column.relation);
        let name = name.unwrap_or_else(|| self.statement.table_name.clone());
        self.filter(&conditions(rows), rows.schema(), &name)
    }

    fn update_of_nothing(&self, rows: &LogicalPlan) -> Result<LogicalPlan> {
        match rows {
            LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row => {
                let changes = nothing(vec![no_file(), no_position()])?;
                let operation = RowLevelOperation::Delete;
                self.change(
                    changes,
                    RowChange { operation, filter: Predicate::False, exact: None, repeats: false },
                )
            }
            _ => Err(Error::unsupported("an UPDATE whose plan is not one of the table's rows").into()),
        }
    }

    /// What all rows of the table match that match all of these conditions, in inclusive form.
    pub(super) fn filter(
        &self,
        conditions: &[&Expr],
        schema: &DFSchema,
        name: &TableReference,
    ) -> Result<Predicate> {
        let mut all = Vec::new();
        for condition in conditions {
            let of_table =
                condition.column_refs().iter().all(|column| column.relation.as_ref() == Some(name));
            let plain = !condition.is_volatile() && !has_subquery(condition)?;
            if of_table && plain {
                let simple = self.simplified(condition, schema);
                all.push(to_predicate(&simple, &self.table.selection().schema).predicate);
            }
        }
        Ok(Predicate::and(all))
    }

    /// A condition as it will be evaluated, as far as that can be told: the time of that is not known.
    /// What can't be simplified is an error of the query's, if of anyone's.
    fn simplified(&self, condition: &Expr, schema: &DFSchema) -> Expr {
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(schema.clone()))
            .with_config_options(Arc::new(self.config.clone()));
        let simplifier = ExprSimplifier::new(context.build());
        let coerced = simplifier.coerce(condition.clone(), schema);
        coerced.and_then(|coerced| simplifier.simplify(coerced)).unwrap_or_else(|_| condition.clone())
    }

    /// Whether a statement's query reads the table once more: then all of its rows may decide what
    /// is changed.
    pub(super) fn reads_itself(&self, plan: &LogicalPlan) -> Result<bool> {
        let location = &self.table.table().metadata().location;
        let mut scans = 0;
        plan.apply_with_subqueries(|plan| {
            if let LogicalPlan::TableScan(scan) = plan {
                let same = |table: &IcebergTable| table.table().metadata().location == *location;
                // What can't be told is not known to be another table.
                let is_view = scan.source.get_logical_plan().is_some();
                scans += usize::from(is_view || iceberg_table(&scan.source).is_some_and(same));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(scans > 1)
    }

    /// The statement that makes these changes.
    pub(super) fn change(&self, changes: LogicalPlan, change: RowChange) -> Result<LogicalPlan> {
        let target = RowChangeTarget::try_new(self.table, change)?;
        Ok(LogicalPlan::Dml(DmlStatement::new(
            self.statement.table_name.clone(),
            provider_as_source(Arc::new(target)),
            WriteOp::Insert(InsertOp::Append),
            Arc::new(changes),
        )))
    }
}

/// The conditions that all rows of a query of one table match.
fn conditions(rows: &LogicalPlan) -> Vec<&Expr> {
    let mut conditions = Vec::new();
    let mut plan = rows;
    loop {
        plan = match plan {
            LogicalPlan::Filter(filter) => {
                conditions.extend(split_conjunction(&filter.predicate));
                &filter.input
            }
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::TableScan(scan) => {
                conditions.extend(&scan.filters);
                return conditions;
            }
            _ => return conditions,
        };
    }
}

/// The column of that name, whatever it belongs to.
fn the_only(schema: &DFSchema, name: &str) -> Result<Column> {
    let mut found = schema.columns_with_unqualified_name(name).into_iter();
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        _ => Err(Error::unsupported(
            "a statement that is not about single rows of the table, as it aggregates, joins or renames them; \
             use MERGE",
        )
        .into()),
    }
}

pub(super) fn no_file() -> Expr {
    lit(ScalarValue::Utf8View(None)).alias(OLD_FILE)
}

pub(super) fn no_position() -> Expr {
    lit(ScalarValue::Int64(None)).alias(OLD_POSITION)
}

fn nothing(columns: Vec<Expr>) -> Result<LogicalPlan> {
    LogicalPlanBuilder::empty(false).project(columns)?.build()
}
