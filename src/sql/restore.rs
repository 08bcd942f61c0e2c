//! Planned SELECTs become the statements again that they stand for.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{
    DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, Projection, TableSource, WriteOp, lit,
};

use super::assigned::assigned;
use super::dml::Reworded;
use super::insert::Insertion;
use super::selects::{DEFAULT_MARK, DELETE_MARK, INSERT_MARK, UPDATE_MARK};
use crate::error::Error;

/// Makes the marked SELECT of a plan the statement that it stands for.
pub(super) fn restore(plan: LogicalPlan, reworded: &Reworded) -> Result<LogicalPlan> {
    let insertion = match reworded {
        Reworded::No => return Ok(plan),
        Reworded::Rows => None,
        Reworded::Insert(insertion) => Some(insertion),
    };
    let mut statements = 0;
    let restored = plan.transform_up(|plan| match &plan {
        LogicalPlan::Projection(projection) => Ok(match statement(projection, insertion)? {
            Some(statement) => {
                statements += 1;
                Transformed::yes(LogicalPlan::Dml(statement))
            }
            None => Transformed::no(plan),
        }),
        _ => Ok(Transformed::no(plan)),
    })?;
    match statements {
        1 => Ok(restored.data),
        _ => Err(Error::invalid("the statement was lost when it was planned").into()),
    }
}

fn statement(projection: &Projection, insertion: Option<&Insertion>) -> Result<Option<DmlStatement>> {
    let Some(Expr::Alias(mark)) = projection.expr.first() else { return Ok(None) };
    let operation = match mark.name.as_str() {
        INSERT_MARK => return insertion.map(|insertion| insertion.statement(projection)).transpose(),
        DELETE_MARK => WriteOp::Delete,
        UPDATE_MARK => WriteOp::Update,
        _ => return Ok(None),
    };
    let Expr::Literal(ScalarValue::Utf8(Some(name)), _) = mark.expr.as_ref() else { return Ok(None) };
    let (table_name, source) = target(&projection.input, name)?;
    let input = match operation {
        WriteOp::Delete => Arc::clone(&projection.input),
        _ => Arc::new(new_versions(projection, &source)?),
    };
    Ok(Some(DmlStatement::new(table_name, source, operation, input)))
}

/// The table of that name in a query.
fn target(plan: &LogicalPlan, name: &str) -> Result<(TableReference, Arc<dyn TableSource>)> {
    let mut found = None;
    plan.apply(|plan| {
        if let LogicalPlan::TableScan(scan) = plan
            && scan.table_name.to_quoted_string() == name
        {
            found = Some((scan.table_name.clone(), Arc::clone(&scan.source)));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    found.ok_or_else(|| Error::invalid(format!("the statement does not read {name}")).into())
}

/// The rows of an UPDATE as DataFusion's planner has them: in the table's types.
fn new_versions(projection: &Projection, source: &Arc<dyn TableSource>) -> Result<LogicalPlan> {
    let schema = source.schema();
    let mut columns = Vec::with_capacity(projection.expr.len());
    for expr in projection.expr.iter().skip(1) {
        let (name, value) = match expr {
            Expr::Alias(alias) => (alias.name.as_str(), alias.expr.as_ref()),
            // The planner leaves out an alias that says nothing.
            Expr::Column(column) => (column.name.as_str(), expr),
            _ => return Err(Error::invalid("a column of an UPDATE has no name").into()),
        };
        let (name, value) = match (name, value) {
            (mark, Expr::Literal(ScalarValue::Utf8(Some(name)), _)) if mark.starts_with(DEFAULT_MARK) => {
                let default = source.get_column_default(name).cloned();
                (name.as_str(), default.unwrap_or_else(|| lit(ScalarValue::Null)))
            }
            (name, value) => (name, value.clone()),
        };
        let data_type = schema.field_with_name(name)?.data_type();
        columns.push(assigned(value, name, data_type, projection.input.schema())?.alias(name));
    }
    LogicalPlanBuilder::from(Arc::clone(&projection.input)).project(columns)?.build()
}
