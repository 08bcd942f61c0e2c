//! MERGE as a query: a join of table and source, and for each of its rows the first clause that
//! applies.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::dml::{MergeIntoAction, MergeIntoClause, MergeIntoClauseKind, MergeIntoOp};
use datafusion::logical_expr::expr_fn::{col, in_list, when};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, lit};

use super::assigned::assigned;
use super::row_level::{Target, no_file, no_position};
use super::subqueries::has_subquery;
use crate::error::Error;
use crate::exec::{FILE, POS, ROW_ID};
use crate::expr::Predicate;
use crate::spec::RowLevelOperation;
use crate::write::{OLD_FILE, OLD_POSITION, REMOVED, RowChange};

/// Whether a row of the join has a row of the source.
const SOURCE: &str = "\u{1}source";
/// The value of a column that is the source's column of that name.
pub(super) const OF_SOURCE: &str = "\u{1}of the source";
/// The number of the clause that applies.
const CLAUSE: &str = "\u{1}clause";

pub(super) fn plan(target: &Target<'_>, merge: &MergeIntoOp) -> Result<LogicalPlan> {
    if has_subquery(&merge.on)? {
        let message = "a subquery in MERGE's ON condition; make it a part of the source";
        return Err(Error::unsupported(message).into());
    }
    let clauses = MergeIntoOp { on: lit(true), clauses: merge.clauses.clone() };
    for expr in clauses.exprs() {
        if expr.exists(|expr| {
            Ok(matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)))
        })? {
            let message =
                "IN, EXISTS or ANY with a subquery in a WHEN clause of MERGE; make it a column of the source";
            return Err(Error::unsupported(message).into());
        }
    }
    for (i, clause) in merge.clauses.iter().enumerate() {
        check(target, clause)?;
        let same = |other: &&MergeIntoClause| {
            other.kind == clause.kind || is_by_target(other.kind) && is_by_target(clause.kind)
        };
        let before = merge.clauses.iter().take(i).filter(same);
        if before.into_iter().any(|other| other.predicate.is_none()) {
            let message =
                "a WHEN clause of MERGE behind one of its kind without a condition: it never applies";
            return Err(Error::invalid(message).into());
        }
    }
    let source = LogicalPlanBuilder::from(target.statement.input.as_ref().clone());
    let columns = source.schema().columns().into_iter().map(Expr::Column);
    let source =
        source.clone().project(columns.chain([lit(true).alias(SOURCE)]).collect::<Vec<_>>())?.build()?;
    let scan = target.scan()?;
    let table_schema = Arc::clone(scan.schema());

    let has = |wanted: fn(MergeIntoClauseKind) -> bool| merge.clauses.iter().any(|c| wanted(c.kind));
    let (adds, by_source) = (has(is_by_target), has(|kind| kind == MergeIntoClauseKind::NotMatchedBySource));
    let adds_only = merge.clauses.iter().all(|clause| is_by_target(clause.kind));
    let on = [merge.on.clone()];
    let joined = if adds_only {
        LogicalPlanBuilder::from(source).join_on(scan, JoinType::LeftAnti, on)?
    } else {
        let join = match (adds, by_source) {
            (true, true) => JoinType::Full,
            (true, false) => JoinType::Right,
            (false, true) => JoinType::Left,
            (false, false) => JoinType::Inner,
        };
        LogicalPlanBuilder::from(scan).join_on(source, join, on)?
    };

    let rows = joined.schema().columns().into_iter().map(Expr::Column);
    let rows: Vec<Expr> = rows.chain([first_clause(target, merge, adds_only)?.alias(CLAUSE)]).collect();
    let rows = joined.project(rows)?.filter(col(Column::from_name(CLAUSE)).is_not_null())?;
    let changes = changes(target, merge, rows.schema(), adds_only)?;
    let changes = rows.project(changes)?.build()?;

    let matched = merge.clauses.iter().filter(|clause| clause.kind == MergeIntoClauseKind::Matched);
    let repeats = matched.clone().all(|clause| matches!(clause.action, MergeIntoAction::Delete));
    // Without its conditions, rows that the source lacks are changed too.
    let filter = match by_source || target.reads_itself(&changes)? {
        true => Predicate::True,
        false => {
            let on = split_conjunction(&merge.on);
            target.filter(&on, &table_schema, &target.statement.table_name)?
        }
    };
    target.change(changes, RowChange { operation: RowLevelOperation::Merge, filter, exact: None, repeats })
}

/// A row that only one side has can't be decided by columns of the other, which it lacks: they would be
/// null. Only the table's own columns can be set.
fn check(target: &Target<'_>, clause: &MergeIntoClause) -> Result<()> {
    let of_source = match clause.kind {
        MergeIntoClauseKind::Matched => None,
        MergeIntoClauseKind::NotMatchedBySource => Some(false),
        _ => Some(true),
    };
    let one = MergeIntoOp { on: lit(true), clauses: vec![clause.clone()] };
    for expr in one.exprs() {
        let is_star = matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(mark)), _) if mark == OF_SOURCE);
        let of_table = |column: &Column| column.relation.as_ref() == Some(&target.statement.table_name);
        let wrong = expr.column_refs().into_iter().find(|column| Some(of_table(column)) == of_source);
        if is_star && of_source == Some(false) || wrong.is_some() {
            let column = wrong.map_or_else(|| "*".to_owned(), |column| column.flat_name());
            let message = match of_source {
                Some(true) => format!("`{column}` in WHEN NOT MATCHED: there is no row of the table"),
                _ => format!("`{column}` in WHEN NOT MATCHED BY SOURCE: there is no row of the source"),
            };
            return Err(Error::invalid(message).into());
        }
    }
    let names: Vec<&str> = target.columns().collect();
    let assigned: Vec<&String> = match &clause.action {
        MergeIntoAction::Update(assignments) => assignments.iter().map(|(name, _)| name).collect(),
        MergeIntoAction::Insert { columns, .. } => columns.iter().collect(),
        MergeIntoAction::Delete => Vec::new(),
    };
    match assigned.into_iter().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(Error::invalid(format!("`{name}` can't be set")).into()),
        None => Ok(()),
    }
}

fn is_by_target(kind: MergeIntoClauseKind) -> bool {
    matches!(kind, MergeIntoClauseKind::NotMatched | MergeIntoClauseKind::NotMatchedByTarget)
}

fn number(clause: usize) -> Expr {
    lit(i32::try_from(clause).unwrap_or(i32::MAX))
}

/// The number of the first clause that applies to a row; null if none does.
fn first_clause(target: &Target<'_>, merge: &MergeIntoOp, adds_only: bool) -> Result<Expr> {
    let (file, source) = (|| target.place(FILE), || col(Column::from_name(SOURCE)));
    let mut cases = Vec::with_capacity(merge.clauses.len());
    for (i, clause) in merge.clauses.iter().enumerate() {
        let kind = match clause.kind {
            MergeIntoClauseKind::Matched => file().is_not_null().and(source().is_not_null()),
            MergeIntoClauseKind::NotMatchedBySource => source().is_null(),
            _ if adds_only => lit(true),
            _ => file().is_null(),
        };
        let applies = match &clause.predicate {
            Some(predicate) => kind.and(predicate.clone()),
            None => kind,
        };
        cases.push((applies, number(i)));
    }
    case(cases)
}

/// CASE WHEN … THEN … END, in which the first that is true counts.
fn case(cases: Vec<(Expr, Expr)>) -> Result<Expr> {
    let mut cases = cases.into_iter();
    let Some((condition, value)) = cases.next() else {
        return Err(Error::invalid("MERGE without a clause").into());
    };
    let mut builder = when(condition, value);
    for (condition, value) in cases {
        builder = builder.when(condition, value);
    }
    builder.end()
}

/// The columns of the changes.
fn changes(
    target: &Target<'_>,
    merge: &MergeIntoOp,
    schema: &DFSchema,
    adds_only: bool,
) -> Result<Vec<Expr>> {
    let clause = || col(Column::from_name(CLAUSE));
    let is = |i: usize| clause().eq(number(i));
    let mut columns = match adds_only {
        true => vec![no_file(), no_position()],
        false => vec![target.place(FILE).alias(OLD_FILE), target.place(POS).alias(OLD_POSITION)],
    };
    let all = merge.clauses.iter().enumerate();
    let deletes = all.clone().filter(|(_, clause)| matches!(clause.action, MergeIntoAction::Delete));
    let deletes: Vec<Expr> = deletes.map(|(i, _)| number(i)).collect();
    columns
        .push(if deletes.is_empty() { lit(false) } else { in_list(clause(), deletes, false) }.alias(REMOVED));

    let types = target.statement.target.schema();
    let names: Vec<&str> = target.columns().collect();
    for name in &names {
        let data_type = types.field_with_name(name)?.data_type();
        let mut cases = Vec::new();
        for (i, one) in all.clone() {
            let Some(value) = value(target, one, name, &names) else { continue };
            let value = of_source(value, name, target.statement.input.schema())?;
            cases.push((is(i), assigned(value, name, data_type, schema)?));
        }
        let value = match cases.is_empty() {
            true => lit(ScalarValue::try_from(data_type)?),
            false => case(cases)?,
        };
        columns.push(value.alias(*name));
    }
    for name in target.lineage() {
        columns.push(match *name {
            ROW_ID if !adds_only => target.place(ROW_ID).alias(ROW_ID),
            name => lit(ScalarValue::Int64(None)).alias(name),
        });
    }
    Ok(columns)
}

/// What a clause gives a column; `None` if it gives no row.
fn value(target: &Target<'_>, clause: &MergeIntoClause, name: &str, names: &[&str]) -> Option<Expr> {
    match &clause.action {
        MergeIntoAction::Delete => None,
        MergeIntoAction::Update(assignments) => {
            let assigned = assignments.iter().find(|(column, _)| column == name);
            Some(assigned.map_or_else(|| target.place(name), |(_, value)| value.clone()))
        }
        MergeIntoAction::Insert { columns, values } => {
            let place = match columns.is_empty() {
                true => names.iter().position(|column| *column == name),
                false => columns.iter().position(|column| column == name),
            };
            let given = place.and_then(|place| values.get(place)).cloned();
            let default = || target.default(name).unwrap_or_else(|| lit(ScalarValue::Null));
            Some(given.unwrap_or_else(default))
        }
    }
}

/// The source's column of the same name, where that is the value.
fn of_source(value: Expr, name: &str, source: &DFSchema) -> Result<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(mark)), _) = &value else { return Ok(value) };
    if mark != OF_SOURCE {
        return Ok(value);
    }
    match source.columns_with_unqualified_name(name).as_slice() {
        [column] => Ok(Expr::Column(column.clone())),
        [] => Err(Error::not_found(format!(
            "column `{name}` of MERGE's source, which `*` takes; name the columns that it has"
        ))
        .into()),
        _ => Err(Error::invalid(format!("MERGE's source has several columns `{name}`")).into()),
    }
}
