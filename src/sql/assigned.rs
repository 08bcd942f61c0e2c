//! Values that statements give to columns.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::error::Error;

/// A value for a column, in its type. Fields of structs are found by their names: DataFusion would leave
/// out those that the column does not have.
pub(super) fn assigned(value: Expr, column: &str, data_type: &DataType, schema: &DFSchema) -> Result<Expr> {
    let given = value.get_type(schema)?;
    assigned_fields(&given, column, data_type)?;
    value.cast_to(data_type, schema)
}

/// The fields that only one of two structs has.
fn other_fields(given: &DataType, wanted: &DataType) -> Option<String> {
    match (given, wanted) {
        (DataType::Struct(given), DataType::Struct(wanted)) => {
            let extra = given.iter().find(|field| wanted.find(field.name()).is_none());
            let missing = wanted.iter().find(|field| given.find(field.name()).is_none());
            if let Some(field) = extra.or(missing) {
                return Some(format!("`{}` is in one of them only", field.name()));
            }
            wanted.iter().find_map(|wanted| {
                let (_, given) = given.find(wanted.name())?;
                other_fields(given.data_type(), wanted.data_type())
            })
        }
        (DataType::List(given), DataType::List(wanted)) => {
            other_fields(given.data_type(), wanted.data_type())
        }
        _ => None,
    }
}

/// The same for the rows of an INSERT, whose values the planner has cast.
pub(super) fn check_structs(rows: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Projection(projection) = rows else { return Ok(()) };
    for expr in &projection.expr {
        let name = expr.schema_name().to_string();
        if let Expr::Cast(Cast { expr, field }) = expr.clone().unalias() {
            // Parameters have no type yet.
            let Ok(given) = expr.get_type(projection.input.schema()) else { continue };
            assigned_fields(&given, &name, field.data_type())?;
        }
    }
    Ok(())
}

fn assigned_fields(given: &DataType, column: &str, wanted: &DataType) -> Result<()> {
    match other_fields(given, wanted) {
        Some(wrong) => {
            let message = format!("the value of column `{column}` is a struct with other fields: {wrong}");
            Err(Error::invalid(message).into())
        }
        None => Ok(()),
    }
}
