//! Columns that can be named but that `*` does not show (`_file`, `_pos`, …).
//!
//! A provider has its columns or it has not; whether they are wanted is known only from the
//! statement. So each SELECT that names one gets the tables of its FROM with these columns, and
//! its wildcards leave them out. In [`super::parse`]'s tree the tables carry a mark, as hints, for
//! [`super::time_travel`]'s planner.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, FunctionArguments, Ident, JoinConstraint, JoinOperator, ObjectName,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    VisitorMut, WildcardAdditionalOptions, visit_expressions,
};

use super::parse::{Ctes, visit};
use crate::{Error, METADATA_COLUMNS};

const MARK: &str = "icefloe metadata columns";

/// The columns that a table has besides those that it shows, by the table's name in a statement.
pub(super) type Hidden = HashMap<TableReference, Vec<String>>;

/// Whether a table was marked by [`mark`].
pub(super) fn is_marked(hints: &[Expr]) -> bool {
    hints.iter().any(|hint| match hint {
        Expr::Function(f) => f.name.0.first().and_then(|p| p.as_ident()).is_some_and(|i| i.value == MARK),
        _ => false,
    })
}

fn hint() -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_quote('"', MARK)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::None,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The tables whose metadata columns a statement may name: few statements name any.
pub(super) fn wanted(statement: &mut Statement, normalize: bool) -> Vec<TableReference> {
    let mut walk = Walk::new(statement, normalize, None);
    let _ = visit(statement, &mut walk);
    walk.tables
}

/// Marks these tables and takes their hidden columns out of the wildcards.
pub(super) fn mark(statement: &mut Statement, normalize: bool, hidden: &Hidden) -> Result<()> {
    let mut walk = Walk::new(statement, normalize, Some(hidden));
    match visit(statement, &mut walk) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Goes through the SELECTs that name metadata columns: to collect their tables, or, once their
/// hidden columns are known, to change them.
struct Walk<'a> {
    normalize: bool,
    ctes: HashSet<String>,
    hidden: Option<&'a Hidden>,
    tables: Vec<TableReference>,
}

impl<'a> Walk<'a> {
    fn new(statement: &mut Statement, normalize: bool, hidden: Option<&'a Hidden>) -> Self {
        let ctes = Ctes::of(statement, &IdentNormalizer::new(normalize));
        Self { normalize, ctes, hidden, tables: Vec::new() }
    }

    fn name(&self, ident: &Ident) -> String {
        IdentNormalizer::new(self.normalize).normalize(ident.clone())
    }

    fn is_metadata_column(&self, expr: &Expr) -> bool {
        let is = |ident: &Ident| METADATA_COLUMNS.contains(&self.name(ident).as_str());
        match expr {
            Expr::Identifier(ident) => is(ident),
            Expr::CompoundIdentifier(parts) => parts.iter().any(is),
            _ => false,
        }
    }

    fn reference(&self, factor: &TableFactor) -> Option<TableReference> {
        let TableFactor::Table { name, args: None, version, .. } = factor else { return None };
        let reference = object_name_to_table_reference(name.clone(), self.normalize).ok()?;
        // A version belongs to a table; else a common table expression goes first.
        let is_cte =
            version.is_none() && reference.schema().is_none() && self.ctes.contains(reference.table());
        (!is_cte).then_some(reference)
    }

    fn select(&mut self, select: &mut Select) -> Result<()> {
        let mut factors = Vec::new();
        let mut natural = false;
        select.from.iter_mut().for_each(|t| tables(t, &mut factors, &mut natural));
        let Some(hidden) = self.hidden else {
            let found: Vec<_> = factors.iter().filter_map(|f| self.reference(f)).collect();
            self.tables.extend(found);
            return Ok(());
        };
        // The tables with hidden columns: what the select calls them, and the columns.
        let mut found: Vec<(TableReference, &[String])> = Vec::new();
        for factor in factors {
            let Some(reference) = self.reference(factor) else { continue };
            let Some(columns) = hidden.get(&reference) else { continue };
            let TableFactor::Table { alias, with_hints, .. } = factor else { continue };
            with_hints.push(hint());
            let called = match alias {
                Some(alias) => TableReference::bare(self.name(&alias.name)),
                None => reference,
            };
            found.push((called, columns));
        }
        if found.is_empty() {
            return Ok(());
        }
        if natural {
            let message =
                "a NATURAL JOIN in a SELECT that names metadata columns, which it would compare too; use ON";
            return Err(Error::unsupported(message).into());
        }
        for item in &mut select.projection {
            match item {
                SelectItem::Wildcard(options) => match found.as_slice() {
                    [(_, columns)] => exclude(options, columns),
                    _ => {
                        let message = "`*` beside metadata columns of several tables; write `table.*`";
                        return Err(Error::unsupported(message).into());
                    }
                },
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let name = object_name_to_table_reference(name.clone(), self.normalize)?;
                    if let Some((_, columns)) = found.iter().find(|(called, _)| called.resolved_eq(&name)) {
                        exclude(options, columns);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl VisitorMut for Walk<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        let named = |walk: &Self, expr: &Expr| match walk.is_metadata_column(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let ordered_by =
            query.order_by.as_ref().is_some_and(|o| visit_expressions(o, |e| named(self, e)).is_break());
        for select in selects(&mut query.body) {
            if (ordered_by || visit_expressions(select, |e| named(self, e)).is_break())
                && let Err(error) = self.select(select)
            {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The SELECTs of a query, without those of queries in parentheses, which are visited themselves.
fn selects(body: &mut SetExpr) -> Vec<&mut Select> {
    let mut found = Vec::new();
    // Long chains of UNION are deep trees.
    let mut open = vec![body];
    while let Some(next) = open.pop() {
        match next {
            SetExpr::Select(select) => found.push(select.as_mut()),
            SetExpr::SetOperation { left, right, .. } => open.extend([right.as_mut(), left.as_mut()]),
            _ => {}
        }
    }
    found
}

/// The tables of a FROM, and whether there is a NATURAL JOIN.
fn tables<'q>(from: &'q mut TableWithJoins, factors: &mut Vec<&'q mut TableFactor>, natural: &mut bool) {
    let mut add = |factor: &'q mut TableFactor, natural: &mut bool| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => tables(table_with_joins, factors, natural),
        factor => factors.push(factor),
    };
    add(&mut from.relation, natural);
    for join in &mut from.joins {
        *natural |= matches!(constraint(&join.join_operator), Some(JoinConstraint::Natural));
        add(&mut join.relation, natural);
    }
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(c)
        | JoinOperator::Inner(c)
        | JoinOperator::Left(c)
        | JoinOperator::LeftOuter(c)
        | JoinOperator::Right(c)
        | JoinOperator::RightOuter(c)
        | JoinOperator::FullOuter(c)
        | JoinOperator::CrossJoin(c)
        | JoinOperator::Semi(c)
        | JoinOperator::LeftSemi(c)
        | JoinOperator::RightSemi(c)
        | JoinOperator::Anti(c)
        | JoinOperator::LeftAnti(c)
        | JoinOperator::RightAnti(c)
        | JoinOperator::StraightJoin(c) => Some(c),
        _ => None,
    }
}

fn exclude(options: &mut WildcardAdditionalOptions, columns: &[String]) {
    let mut names = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    // Naming one that is hidden anyway would make it a duplicate.
    let excepted: HashSet<String> = names
        .iter()
        .filter_map(|n| n.0.first().and_then(|p| p.as_ident()))
        .chain(
            options
                .opt_except
                .iter()
                .flat_map(|e| std::iter::once(&e.first_element).chain(&e.additional_elements)),
        )
        .map(|i| i.value.clone())
        .collect();
    let more = columns.iter().filter(|c| !excepted.contains(c.as_str()));
    names.extend(more.map(|c| ObjectName::from(vec![Ident::with_quote('"', c)])));
    if !names.is_empty() {
        options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse::parse;
    use datafusion::config::ConfigOptions;

    /// The tables that are asked about, and the statement with `t` and `u` as Iceberg tables.
    fn marked(sql: &str) -> (Vec<String>, Result<String>) {
        let mut statement = parse(sql, &ConfigOptions::new()).unwrap().statement;
        let tables = wanted(&mut statement, true).iter().map(ToString::to_string).collect();
        let columns = || vec!["_file".to_string(), "_pos".to_string()];
        let hidden = ["t", "u"].into_iter().map(|t| (TableReference::bare(t), columns())).collect();
        let marked = mark(&mut statement, true, &hidden);
        (tables, marked.map(|()| statement.to_string().replace(&format!("WITH (\"{MARK}\")"), "+")))
    }

    #[test]
    fn selects_that_name_none_stay_as_they_are() {
        for sql in [
            "SELECT * FROM t",
            "SELECT '_pos', \"_POS\" FROM t",
            "SELECT a AS _pos FROM t",
            "SELECT _pos FROM (SELECT * FROM x) AS t",
            "WITH t AS (SELECT 1 AS _pos) SELECT _pos FROM t",
        ] {
            let (_, got) = marked(sql);
            assert_eq!(got.unwrap(), sql);
        }
    }

    #[test]
    fn wildcards_leave_them_out() {
        for (sql, want) in [
            ("SELECT _pos FROM t", "SELECT _pos FROM t +"),
            ("SELECT a FROM t AS x ORDER BY _POS", "SELECT a FROM t AS x + ORDER BY _POS"),
            ("SELECT *, _pos FROM t", "SELECT * EXCLUDE (\"_file\", \"_pos\"), _pos FROM t +"),
            ("SELECT * EXCLUDE (a), _pos FROM t", "SELECT * EXCLUDE (a, \"_file\", \"_pos\"), _pos FROM t +"),
            ("SELECT * EXCLUDE _file, _pos FROM t", "SELECT * EXCLUDE (_file, \"_pos\"), _pos FROM t +"),
            (
                "SELECT X.*, y.*, x._pos FROM t x, v y",
                "SELECT X.* EXCLUDE (\"_file\", \"_pos\"), y.*, x._pos FROM t x +, v y",
            ),
            ("SELECT _partition.a FROM t", "SELECT _partition.a FROM t +"),
            ("SELECT count(*) FROM t WHERE _pos = 1", "SELECT count(*) FROM t + WHERE _pos = 1"),
            (
                "SELECT _pos FROM t UNION ALL SELECT a FROM u",
                "SELECT _pos FROM t + UNION ALL SELECT a FROM u",
            ),
            (
                "SELECT a FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.a = u._pos)",
                "SELECT a FROM u + WHERE EXISTS (SELECT 1 FROM t + WHERE t.a = u._pos)",
            ),
            ("COPY (SELECT _pos FROM t) TO x", "COPY (SELECT _pos FROM t +) TO x"),
            ("EXPLAIN SELECT _pos FROM t", "EXPLAIN SELECT _pos FROM t +"),
            ("SELECT u._pos FROM (t CROSS JOIN u)", "SELECT u._pos FROM (t + CROSS JOIN u +)"),
        ] {
            assert_eq!(marked(sql).1.unwrap(), want);
        }
        assert_eq!(marked("SELECT _pos FROM t JOIN c.d.e ON true, (SELECT 1 FROM f)").0, ["t", "c.d.e"]);
        assert!(marked("SELECT a FROM t").0.is_empty());
    }

    #[test]
    fn what_would_be_wrong_is_refused() {
        for (sql, want) in [
            ("SELECT *, t._pos FROM t JOIN u ON t.a = u.a", "write `table.*`"),
            ("SELECT t._pos FROM t NATURAL JOIN u", "NATURAL JOIN"),
        ] {
            assert!(marked(sql).1.unwrap_err().to_string().contains(want), "{sql}");
        }
    }
}
