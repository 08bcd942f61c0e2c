//! VALUES of an INSERT into an Iceberg table.
//!
//! DataFusion makes them of the table's types at once, which the constants that it folds them to forget
//! where they are nested: the fields of a table's lists have ids. So they are made of types without ids
//! first.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::DefaultTableSource;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Values, WriteOp,
};

use crate::provider::IcebergTable;

/// The plan with VALUES that can be evaluated.
pub(super) fn plain_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plain = plan.transform_up(|plan| {
        let LogicalPlan::Dml(statement) = &plan else { return Ok(Transformed::no(plan)) };
        let source = statement.target.downcast_ref::<DefaultTableSource>();
        let is_iceberg = source.is_some_and(|source| source.table_provider.is::<IcebergTable>());
        if !is_iceberg || !matches!(statement.op, WriteOp::Insert(_)) {
            return Ok(Transformed::no(plan));
        }
        let input = statement.input.as_ref().clone().transform_up(|plan| match plan {
            LogicalPlan::Values(values) if has_ids(&values) => Ok(Transformed::yes(without_ids(values)?)),
            plan => Ok(Transformed::no(plan)),
        })?;
        let input = Arc::new(input.data);
        Ok(Transformed::yes(LogicalPlan::Dml(DmlStatement { input, ..statement.clone() })))
    })?;
    Ok(plain.data)
}

fn has_ids(values: &Values) -> bool {
    values.schema.fields().iter().any(|field| plain_type(field.data_type()) != *field.data_type())
}

fn without_ids(values: Values) -> Result<LogicalPlan> {
    let wanted: Vec<&FieldRef> = values.schema.fields().iter().collect();
    let plain: Vec<DataType> = wanted.iter().map(|field| plain_type(field.data_type())).collect();
    let nothing = DFSchema::empty();
    let row = |row: &Vec<Expr>| {
        let cells = row.iter().zip(&wanted).zip(&plain).map(|((expr, field), plain)| match expr {
            Expr::Cast(Cast { expr, field: target }) if target.data_type() == field.data_type() => {
                expr.as_ref().clone().cast_to(plain, &nothing)
            }
            expr => expr.clone().cast_to(plain, &nothing),
        });
        cells.collect::<Result<Vec<_>>>()
    };
    let rows = values.values.iter().map(row).collect::<Result<Vec<_>>>()?;
    let values = LogicalPlanBuilder::values(rows)?.build()?;
    let mut columns = Vec::with_capacity(wanted.len());
    for (column, field) in values.schema().columns().into_iter().zip(wanted) {
        let expr = Expr::Column(Column::clone(&column)).cast_to(field.data_type(), values.schema())?;
        columns.push(expr.alias(field.name()));
    }
    LogicalPlanBuilder::from(values).project(columns)?.build()
}

/// The type without what is said of nested fields.
fn plain_type(data_type: &DataType) -> DataType {
    let plain = |field: &FieldRef| {
        Arc::new(Field::new(field.name(), plain_type(field.data_type()), field.is_nullable()))
    };
    match data_type {
        DataType::List(field) => DataType::List(plain(field)),
        DataType::LargeList(field) => DataType::LargeList(plain(field)),
        DataType::Map(field, sorted) => DataType::Map(plain(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        other => other.clone(),
    }
}
