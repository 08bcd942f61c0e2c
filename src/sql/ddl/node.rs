//! A statement as a node of a plan, so that it can be planned, explained and looked at before it runs.

use std::cmp::Ordering;
use std::fmt::{self, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::sql::statement::Statement;

/// A statement that [`super::execute`] runs.
#[derive(Debug, Clone)]
pub(super) struct IcebergStatement {
    sql: String,
    statement: Arc<Statement>,
    /// That of CREATE TABLE AS.
    query: Option<LogicalPlan>,
    schema: DFSchemaRef,
}

impl IcebergStatement {
    /// `columns`: those of its result.
    pub(super) fn plan(
        sql: &str,
        statement: Statement,
        query: Option<LogicalPlan>,
        columns: Vec<Field>,
    ) -> Result<LogicalPlan> {
        let schema = Arc::new(DFSchema::try_from(Schema::new(columns))?);
        let node = Self { sql: sql.trim().to_owned(), statement: Arc::new(statement), query, schema };
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }

    pub(super) fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    pub(super) fn statement(&self) -> &Statement {
        &self.statement
    }

    pub(super) fn query(&self) -> Option<&LogicalPlan> {
        self.query.as_ref()
    }
}

impl PartialEq for IcebergStatement {
    fn eq(&self, other: &Self) -> bool {
        self.sql == other.sql && self.query == other.query
    }
}

impl Eq for IcebergStatement {}

impl Hash for IcebergStatement {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sql.hash(state);
        self.query.hash(state);
    }
}

impl PartialOrd for IcebergStatement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for IcebergStatement {
    fn name(&self) -> &'static str {
        "IcebergStatement"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.query.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let first_line = self.sql.lines().next().unwrap_or_default();
        write!(f, "IcebergStatement: {first_line}")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        if inputs.len() != self.inputs().len() {
            return Err(DataFusionError::Internal("a statement has the inputs that it has".to_owned()));
        }
        Ok(Self { query: inputs.pop(), ..self.clone() })
    }
}
