//! Constants in statements.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias};

use crate::arrow::{scalar_to_value, to_arrow_field};
use crate::error::Error;
use crate::spec::{NestedField, Type, Value};

/// What a constant expression is, as a value of that type.
pub(super) fn constant(context: &SessionContext, expr: &SqlExpr, target: &DataType) -> Result<ScalarValue> {
    let state = context.state();
    let schema = DFSchema::empty();
    let aliased = ExprWithAlias { expr: expr.clone(), alias: None };
    let expr = state.create_logical_expr_from_sql_expr(aliased, &schema)?;
    let info = SimplifyContext::builder()
        .with_config_options(Arc::new(state.config_options().as_ref().clone()))
        .with_query_execution_start_time(Some(chrono::Utc::now()))
        .build();
    let simplifier = ExprSimplifier::new(info);
    let expr = simplifier.coerce(expr, &schema)?.cast_to(target, &schema)?;
    let physical = state.create_physical_expr(simplifier.simplify(expr)?, &schema)?;
    let one_row = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )?;
    ScalarValue::try_from_array(&physical.evaluate(&one_row)?.into_array(1)?, 0)
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
    let field = to_arrow_field(&NestedField::optional(1, column, column_type.clone()))?;
    let scalar = constant(context, expr, field.data_type())?;
    if scalar.is_null() {
        return Ok(None);
    }
    match scalar_to_value(&scalar, primitive) {
        Some(value) => Ok(Some(value)),
        None => Err(Error::invalid(format!("{scalar} is no {primitive}")).context(place()).into()),
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
