//! Subqueries in the conditions of statements that change rows.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::error::Error;

/// Below anything but AND, DataFusion takes NOT IN of a subquery for NOT EXISTS: what is null would be
/// deleted.
pub(super) fn check_subqueries(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Filter(filter) = plan {
            for condition in split_conjunction(&filter.predicate) {
                let is_whole = match condition {
                    Expr::Not(inner) => matches!(inner.as_ref(), Expr::InSubquery(_)),
                    condition => matches!(condition, Expr::InSubquery(_)),
                };
                if !is_whole && has_negated_in(condition, false)? {
                    let message = "NOT IN (subquery) below OR, NOT or CASE, where DataFusion takes null for false; \
                                   write NOT EXISTS (SELECT …)";
                    return Err(Error::unsupported(message).into());
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether it has an IN of a subquery for which it matters if it is false or null.
fn has_negated_in(expr: &Expr, within: bool) -> Result<bool> {
    if let Expr::InSubquery(subquery) = expr {
        return Ok(within || subquery.negated);
    }
    let within =
        within || !matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }));
    let mut found = false;
    expr.apply_children(|child| {
        found = has_negated_in(child, within)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether an expression has a query in it.
pub(super) fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
        ))
    })
}
