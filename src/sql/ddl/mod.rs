//! Statements about Iceberg catalogs: what is in them, how it changes, and what is asked of them by CALL.

mod alter;
mod call;
mod namespaces;
mod node;
mod places;
mod properties;
mod tables;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{DdlStatement, DropTable, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::metadata_tables::WapBranch;
use super::statement::{self, Statement, Subject};
use node::IcebergStatement;
use places::{ddl_catalog, namespace_of, table_of};

pub use places::enable_url_table;

/// A statement of ours; `None` for others.
pub(super) fn parse(
    context: &SessionContext,
    tokens: &[TokenWithSpan],
    dialect: &dyn Dialect,
) -> Result<Option<Statement>> {
    let is_ours = |subject: Subject, name: &[String]| match subject {
        Subject::Table => table_of(context, name).is_some(),
        Subject::Namespace => namespace_of(context, name).is_some(),
        Subject::Procedure => ddl_catalog(context, name).is_some(),
    };
    let options = context.state().config_options().clone();
    statement::parse(tokens, dialect, &options, &is_ours)
}

/// The plan of a statement of ours.
pub(super) async fn plan(context: &SessionContext, sql: &str, statement: Statement) -> Result<LogicalPlan> {
    let query = match &statement {
        Statement::CreateTable(create) => match &create.query {
            Some(query) => Some(super::session::plan_tokens(context.state(), query.clone()).await?),
            None => None,
        },
        _ => None,
    };
    let columns = match &statement {
        Statement::Call { procedure, .. } => call::columns(procedure)?,
        Statement::CreateTable(create) if create.query.is_some() => tables::count_columns(),
        _ => Vec::new(),
    };
    IcebergStatement::plan(sql, statement, query, columns)
}

/// Fails for a statement that `options` forbid.
pub(super) fn verify(plan: &LogicalPlan, options: SQLOptions) -> Result<()> {
    if IcebergStatement::of(plan).is_some() {
        // DataFusion knows only its own: all of ours count as DDL.
        let stands_for = DropTable { name: "t".into(), if_exists: true, schema: Arc::new(DFSchema::empty()) };
        options.verify_plan(&LogicalPlan::Ddl(DdlStatement::DropTable(stands_for)))?;
    }
    options.verify_plan(plan)
}

/// Runs a plan.
pub(super) async fn execute(context: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    let Some(node) = IcebergStatement::of(&plan) else {
        return context.execute_logical_plan(plan).await;
    };
    match node.statement() {
        Statement::CreateNamespace { name, if_not_exists, properties } => {
            namespaces::create(context, name, *if_not_exists, properties).await?;
        }
        Statement::DropNamespace { name, if_exists, cascade } => {
            namespaces::drop(context, name, *if_exists, *cascade).await?;
        }
        Statement::AlterNamespace { name, set, unset } => {
            namespaces::alter(context, name, set, unset).await?;
        }
        Statement::CreateTable(create) => match node.query() {
            Some(query) => return tables::create_as(context, create, query).await,
            None => tables::create(context, create).await?,
        },
        Statement::DropTable { name, if_exists, purge } => {
            tables::drop(context, name, *if_exists, *purge).await?;
        }
        Statement::DropView { name, if_exists } => tables::drop_view(context, name, *if_exists).await?,
        Statement::AlterTable { name, if_exists, alterations } => {
            alter::alter(context, name, *if_exists, alterations).await?;
        }
        Statement::WapBranch(branch) => {
            let state = context.state_ref();
            state.write().config_mut().set_extension(Arc::new(WapBranch(branch.clone())));
        }
        Statement::Call { procedure, arguments } => return call::call(context, procedure, arguments).await,
    }
    context.execute_logical_plan(LogicalPlanBuilder::empty(false).build()?).await
}
