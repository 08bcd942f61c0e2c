//! Comparisons of times of day of different units.
//!
//! Iceberg's times have microseconds, SQL's literals nanoseconds, and DataFusion has no common type
//! for the two. Constants that fit become microseconds, so that they still prune files; anything
//! else is compared in nanoseconds.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Cast, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Between, Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::BinaryOperator;

const MICROS: DataType = DataType::Time64(TimeUnit::Microsecond);
const NANOS: DataType = DataType::Time64(TimeUnit::Nanosecond);

/// Gives both sides of such a comparison one type while SQL is planned, which asks for the types of
/// some expressions.
#[derive(Debug)]
pub(super) struct TimePlanner;

impl ExprPlanner for TimePlanner {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            align_all([&mut expr.left, &mut expr.right], schema);
        }
        // The others go on with it.
        Ok(PlannerResult::Original(expr))
    }
}

/// Does the same to what that planner does not see, BETWEEN and IN, everywhere in a plan.
pub(super) fn align_times(plan: LogicalPlan) -> Result<LogicalPlan> {
    let aligned = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| align(expr, &schema))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?;
        if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
    })?;
    Ok(aligned.data)
}

fn align(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if op.supports_propagation() => {
            let changed = align_all([left.as_mut(), right.as_mut()], schema);
            Ok(if_changed(changed, Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
            let changed = align_all([expr.as_mut(), low.as_mut(), high.as_mut()], schema);
            Ok(if_changed(changed, Expr::Between(Between { expr, negated, low, high })))
        }
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let changed = align_all(std::iter::once(expr.as_mut()).chain(&mut list), schema);
            Ok(if_changed(changed, Expr::InList(InList { expr, list, negated })))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn if_changed(changed: bool, expr: Expr) -> Transformed<Expr> {
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// Gives these expressions one type, if they are times of different ones; false if not.
fn align_all<'e>(exprs: impl IntoIterator<Item = &'e mut Expr>, schema: &DFSchema) -> bool {
    let exprs: Vec<_> = exprs.into_iter().collect();
    // What has no type yet fails later, where the error says more.
    let types: Vec<_> = exprs.iter().filter_map(|e| e.get_type(schema).ok()).collect();
    let times = types.iter().filter(|t| **t == MICROS || **t == NANOS).count();
    if types.len() != exprs.len() || times != exprs.len() || types.windows(2).all(|w| w.first() == w.last()) {
        return false;
    }
    let in_micros: Vec<_> = exprs
        .iter()
        .zip(&types)
        .map(|(e, t)| if *t == MICROS { Some((*e).clone()) } else { micros(e) })
        .collect();
    let all_fit = in_micros.iter().all(Option::is_some);
    for ((expr, fitting), data_type) in exprs.into_iter().zip(in_micros).zip(types) {
        match fitting {
            Some(micros) if all_fit => *expr = micros,
            _ if data_type == MICROS => *expr = Expr::Cast(Cast::new(Box::new(expr.clone()), NANOS)),
            _ => {}
        }
    }
    true
}

/// A constant time with no digits below the microsecond, in microseconds.
fn micros(expr: &Expr) -> Option<Expr> {
    let value = match expr {
        Expr::Literal(value, _) => value.clone(),
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => value.cast_to(&NANOS).ok()?,
            _ => return None,
        },
        _ => return None,
    };
    match value {
        ScalarValue::Time64Nanosecond(nanos) if nanos.is_none_or(|n| n % 1000 == 0) => {
            Some(Expr::Literal(ScalarValue::Time64Microsecond(nanos.map(|n| n / 1000)), None))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::IcebergSql;
    use datafusion::prelude::SessionContext;

    async fn run(sql: &str) -> String {
        let context = SessionContext::new();
        crate::sql::register(&context).unwrap();
        let table = "CREATE TABLE t AS SELECT i, arrow_cast(t, 'Time64(Microsecond)') AS t FROM (VALUES \
                     (1, TIME '11:59:59.999999'), (2, TIME '12:00:00'), (3, TIME '12:00:00.000001'), (4, NULL)) AS v (i, t)";
        context.iceberg_sql(table).await.unwrap();
        let frame = match context.iceberg_sql(sql).await {
            Ok(frame) => frame,
            Err(e) => return format!("error: {e}"),
        };
        let batches = frame.collect().await.unwrap();
        let rows = batches.iter().flat_map(|b| {
            let column = b.column(0).clone();
            (0..b.num_rows()).map(move |r| {
                datafusion::common::ScalarValue::try_from_array(&column, r).unwrap().to_string()
            })
        });
        rows.collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn comparisons_of_either_order_and_kind() {
        for (filter, want) in [
            ("t = TIME '12:00:00'", "2"),
            ("t > TIME '12:00:00'", "3"),
            ("TIME '12:00:00' >= t", "1 2"),
            ("t <> TIME '12:00:00.000001'", "1 2"),
            ("t IS DISTINCT FROM TIME '12:00:00'", "1 3 4"),
            ("t BETWEEN TIME '12:00:00' AND TIME '12:00:01'", "2 3"),
            ("t NOT BETWEEN TIME '12:00:00' AND TIME '12:00:01'", "1"),
            ("t IN (TIME '12:00:00', TIME '12:00:00.000001')", "2 3"),
            // Below the microsecond: nothing is cut off.
            ("t > TIME '12:00:00.000000001'", "3"),
            ("t = TIME '12:00:00.000000001'", "(empty)"),
            ("t < TIME '12:00:00.000000999'", "1 2"),
            ("t BETWEEN TIME '11:59:59.999999' AND TIME '12:00:00.000000999'", "1 2"),
            ("NOT (t > TIME '12:00:00') AND i < 9", "1 2"),
            ("i IN (SELECT i FROM t WHERE t = TIME '12:00:00')", "2"),
            ("EXISTS (SELECT 1 FROM t AS u WHERE u.i = x.i AND u.t = TIME '12:00:00')", "2"),
        ] {
            let got = run(&format!("SELECT i FROM t AS x WHERE {filter} ORDER BY i")).await;
            let got = if got.is_empty() { "(empty)" } else { &got };
            assert_eq!(got, want, "{filter}");
        }
        assert_eq!(run("SELECT count(*) FROM t GROUP BY t = TIME '12:00:00' ORDER BY 1").await, "1 1 2");
        assert_eq!(
            run("SELECT t = TIME '12:00:00' AS same FROM t ORDER BY i").await,
            "false true false NULL"
        );
    }
}
