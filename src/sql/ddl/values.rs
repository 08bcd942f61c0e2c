//! Constants in statements.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias};

use crate::arrow::{scalar_to_value, to_arrow_field};
use crate::error::Error;
use crate::spec::{NestedField, PrimitiveType, Type, Value};

/// What a constant expression is; in that type, if one is given.
pub(super) fn constant(
    context: &SessionContext,
    expr: &SqlExpr,
    target: Option<&DataType>,
) -> Result<ScalarValue> {
    evaluate(context, planned(context, expr)?, target)
}

fn planned(context: &SessionContext, expr: &SqlExpr) -> Result<Expr> {
    let aliased = ExprWithAlias { expr: expr.clone(), alias: None };
    context.state().create_logical_expr_from_sql_expr(aliased, &DFSchema::empty())
}

fn evaluate(context: &SessionContext, expr: Expr, target: Option<&DataType>) -> Result<ScalarValue> {
    let (state, schema) = (context.state(), DFSchema::empty());
    let info = SimplifyContext::builder()
        .with_config_options(Arc::new(state.config_options().as_ref().clone()))
        .with_query_execution_start_time(Some(chrono::Utc::now()))
        .build();
    let simplifier = ExprSimplifier::new(info);
    let mut expr = simplifier.coerce(expr, &schema)?;
    if let Some(target) = target {
        expr = expr.cast_to(target, &schema)?;
    }
    let physical = state.create_physical_expr(simplifier.simplify(expr)?, &schema)?;
    let one_row = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )?;
    ScalarValue::try_from_array(&physical.evaluate(&one_row)?.into_array(1)?, 0)
}

/// Whether it is something else each time.
fn varies(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
            Expr::ScalarSubquery(_) => true,
            _ => false,
        })
    })
}

/// The default of a column of that type; `None` for NULL.
pub(super) fn default_value(
    context: &SessionContext,
    expr: &SqlExpr,
    column: &str,
    column_type: &Type,
) -> Result<Option<Value>> {
    let place = || format!("default of column `{column}`");
    let Some(primitive) = column_type.as_primitive() else {
        let message = format!("a default of type {column_type}; set none");
        return Err(Error::unsupported(message).context(place()).into());
    };
    let expr = planned(context, expr)?;
    if varies(&expr)? {
        let message =
            "a default that is something else each time: Iceberg's are constants; give the value itself";
        return Err(Error::unsupported(message).context(place()).into());
    }
    let given = evaluate(context, expr.clone(), None)?;
    if given.is_null() {
        return Ok(None);
    }
    if let Some(value) = scalar_to_value(&given, primitive) {
        return Ok(Some(value));
    }
    // Texts of times and other things, and times of another kind. Of numbers only floats that stand for
    // decimals: others would be rounded.
    let exact = match given.data_type() {
        DataType::Boolean => false,
        t if t.is_floating() => matches!(primitive, PrimitiveType::Decimal { .. }),
        t => !t.is_numeric(),
    };
    let field = to_arrow_field(&NestedField::optional(1, column, column_type.clone()))?;
    let cast = if exact { Some(evaluate(context, expr, Some(field.data_type()))?) } else { None };
    match cast.and_then(|scalar| scalar_to_value(&scalar, primitive)) {
        Some(value) => Ok(Some(value)),
        None => Err(Error::invalid(format!("{given} is no {primitive}")).context(place()).into()),
    }
}

/// The type with ids of its own for every field below it.
pub(super) fn with_ids(column_type: &Type, next: &mut i32) -> Type {
    let numbered = |field: &NestedField, next: &mut i32| {
        let id = *next;
        *next = next.saturating_add(1);
        let field_type = with_ids(&field.field_type, next);
        NestedField { id: crate::spec::FieldId(id), field_type, ..field.clone() }
    };
    match column_type {
        Type::Struct(fields) => Type::Struct(crate::spec::StructType::new(
            fields.fields.iter().map(|f| numbered(f, next)).collect(),
        )),
        Type::List(list) => {
            Type::List(crate::spec::ListType { element: Box::new(numbered(&list.element, next)) })
        }
        Type::Map(map) => Type::Map(crate::spec::MapType {
            key: Box::new(numbered(&map.key, next)),
            value: Box::new(numbered(&map.value, next)),
        }),
        other => other.clone(),
    }
}
