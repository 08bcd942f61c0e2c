//! What may be done with a filter.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
    NotExpr, TryCastExpr,
};

/// Whether an expression may be an error for some values: anything but comparisons and logic.
pub(super) fn can_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    !is_logic(expr) || expr.children().into_iter().any(can_fail)
}

/// Whether an expression, but for what it is made of, is a comparison, logic, or a value.
fn is_logic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or};
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => matches!(
            binary.op(),
            Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom | And | Or
        ),
        None => {
            expr.is::<Column>()
                || expr.is::<Literal>()
                || expr.is::<NotExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<IsNotNullExpr>()
                || expr.is::<InListExpr>()
                || expr.is::<DynamicFilterPhysicalExpr>()
        }
    }
}

/// Whether an expression is what it is: dynamic filters become others while the query runs.
pub(super) fn is_fixed(expr: &Arc<dyn PhysicalExpr>) -> bool {
    !expr.is::<DynamicFilterPhysicalExpr>() && expr.children().into_iter().all(is_fixed)
}

/// Whether rows may be pruned by an expression over bounds: it is made of comparisons and logic, and
/// of casts that keep the order of values.
pub(super) fn prunes_by_bounds(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let is_known = is_logic(expr) || cast_of(expr).is_some();
    is_known
        && keeps_order(expr, schema)
        && expr.children().into_iter().all(|child| prunes_by_bounds(child, schema))
}

/// Whether all casts in an expression keep the order of values. DataFusion prunes as if each did,
/// but one to booleans does not, nor one of timestamps to times.
pub(super) fn casts_keep_order(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    keeps_order(expr, schema) && expr.children().into_iter().all(|child| casts_keep_order(child, schema))
}

fn cast_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(&Arc<dyn PhysicalExpr>, &DataType)> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return Some((cast.expr(), cast.cast_type()));
    }
    expr.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type()))
}

/// Whether it is no cast, or one by which of two values the one that is no greater stays so.
fn keeps_order(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    use DataType::{Date32, Timestamp};
    let Some((from, to)) = cast_of(expr) else { return true };
    from.data_type(schema).is_ok_and(|from| match (&from, to) {
        (Date32, Timestamp(..)) | (Timestamp(_, None), Timestamp(_, None) | Date32) => true,
        (Timestamp(_, Some(_)), Timestamp(_, Some(_))) => true,
        _ => from == *to || from.is_numeric() && to.is_numeric() || from.is_string() && to.is_string(),
    })
}
