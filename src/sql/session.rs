//! What a session needs for Iceberg, and running SQL with it.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{TableProvider, TableProviderFactory};
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::ddl;
use super::dml;
use super::metadata_columns::{self, Hidden};
use super::metadata_tables;
use super::parse::{parse_tokens, session_dialect, tokens};
use super::prepared::RefusePrepared;
use super::restore::restore;
use super::row_level::{self, RowLevelStatements};
use super::split::split;
use super::time_travel::{Made, Tables, TimeTravelPlanner};
use super::times::{TimePlanner, align_times};
use super::variant::VariantFunction;
use crate::arrow::TransformFunction;
use crate::metadata_table::MetadataTable;
use crate::provider::{IcebergTable, IcebergTableFactory};
use crate::spec::SnapshotSelector;

/// The name behind STORED AS.
const FORMAT: &str = "ICEBERG";

fn factory() -> Arc<dyn TableProviderFactory> {
    Arc::new(IcebergTableFactory::default())
}

/// An Iceberg table, or a metadata table of one, at another snapshot.
fn at(table: &dyn TableProvider, selector: &SnapshotSelector) -> Made {
    if let Some(table) = table.downcast_ref::<MetadataTable>() {
        return Some(table.at(selector).map(|t| Arc::new(t) as Arc<dyn TableProvider>));
    }
    let table: &IcebergTable = table.downcast_ref()?;
    Some(table.at(selector).map(|t| Arc::new(t) as Arc<dyn TableProvider>))
}

/// An Iceberg table with its metadata columns.
fn with_metadata_columns(table: &dyn TableProvider) -> Made {
    let table: &IcebergTable = table.downcast_ref()?;
    Some(table.with_metadata_columns().map(|t| Arc::new(t) as Arc<dyn TableProvider>))
}

fn planner() -> Arc<TimeTravelPlanner> {
    Arc::new(TimeTravelPlanner::new(Tables { at, with_metadata_columns }))
}

/// Teaches a session Iceberg: `CREATE EXTERNAL TABLE … STORED AS ICEBERG`, the partition transforms
/// as functions (`days(ts)`, `bucket(16, id)`, …), functions over variants, metadata tables, and that
/// a version of a table is never ignored. Call it once, after the session was made.
///
/// Versions in every spelling are understood by [`IcebergSql::iceberg_sql`]; what
/// [`SessionContext::sql`] parses depends on `datafusion.sql_parser.dialect`.
///
/// # Errors
/// Fails if the session takes no more planners.
pub fn register(context: &SessionContext) -> Result<()> {
    context.add_optimizer_rule(Arc::new(RefusePrepared));
    let state = context.state_ref();
    let mut state = state.write();
    state.register_relation_planner(planner())?;
    state.register_expr_planner(Arc::new(TimePlanner))?;
    state.add_analyzer_rule(Arc::new(RowLevelStatements));

    for function in TransformFunction::all() {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    state.table_factories_mut().insert(FORMAT.to_string(), factory());
    for function in VariantFunction::all() {
        state.register_udf(function)?;
    }
    Ok(())
}

/// The same as [`register`] for a session that is still being built.
pub fn enable(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    builder.relation_planners().get_or_insert_default().insert(0, planner());
    builder.expr_planners().get_or_insert_default().push(Arc::new(TimePlanner));
    builder.analyzer_rules().get_or_insert_default().push(Arc::new(RowLevelStatements));
    builder.optimizer_rules().get_or_insert_default().push(Arc::new(RefusePrepared));
    let functions = TransformFunction::all().into_iter().map(|f| Arc::new(ScalarUDF::from(f)));
    builder.scalar_functions().get_or_insert_default().extend(functions);
    builder.table_factories().get_or_insert_default().insert(FORMAT.to_string(), factory());
    builder.scalar_functions().get_or_insert_default().extend(VariantFunction::all());
    builder
}

/// A builder of sessions with DataFusion's defaults and Iceberg.
pub fn session_state_builder() -> SessionStateBuilder {
    enable(SessionStateBuilder::new().with_default_features())
}

/// SQL with time travel, metadata tables, and the statements that create and change Iceberg tables.
///
/// ```no_run
/// # async fn run() -> datafusion::error::Result<()> {
/// use datafusion::prelude::SessionContext;
/// use icefloe::sql::IcebergSql;
///
/// let context = SessionContext::new();
/// icefloe::sql::register(&context)?;
/// context.iceberg_sql("CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION 'warehouse/db/t'").await?;
/// let yesterday = "SELECT * FROM t TIMESTAMP AS OF now() - INTERVAL '1 day'";
/// context.iceberg_sql(yesterday).await?.show().await?;
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait IcebergSql {
    /// Runs one statement, as [`SessionContext::sql`] does: queries lazily, the rest at once.
    ///
    /// # Errors
    /// What parsing, planning or running the statement gives; a version of a table that has none
    /// is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    async fn iceberg_sql(&self, sql: &str) -> Result<DataFrame> {
        self.iceberg_sql_with_options(sql, SQLOptions::new()).await
    }

    /// Runs one statement if `options` allow its kind.
    ///
    /// # Errors
    /// As [`iceberg_sql`](Self::iceberg_sql), and if the options forbid the statement.
    async fn iceberg_sql_with_options(&self, sql: &str, options: SQLOptions) -> Result<DataFrame>;

    /// Plans one statement without running it.
    ///
    /// # Errors
    /// What parsing or planning gives.
    async fn iceberg_plan(&self, sql: &str) -> Result<LogicalPlan>;

    /// Runs a plan, as [`SessionContext::execute_logical_plan`] does, with the changes that
    /// DataFusion does not know how to make in Iceberg catalogs.
    ///
    /// # Errors
    /// What running it gives.
    async fn iceberg_execute(&self, plan: LogicalPlan) -> Result<DataFrame>;

    /// Several statements, separated by semicolons.
    fn iceberg_script<'a>(&'a self, sql: &'a str) -> Script<'a>;
}

#[async_trait]
impl IcebergSql for SessionContext {
    async fn iceberg_sql_with_options(&self, sql: &str, options: SQLOptions) -> Result<DataFrame> {
        let plan = self.iceberg_plan(sql).await?;
        ddl::verify(&plan, options)?;
        self.iceberg_execute(plan).await
    }

    async fn iceberg_execute(&self, plan: LogicalPlan) -> Result<DataFrame> {
        ddl::execute(self, plan).await
    }

    async fn iceberg_plan(&self, sql: &str) -> Result<LogicalPlan> {
        let state = self.state();
        let (tokens, statement) = {
            let dialect = session_dialect(state.config_options())?;
            let tokens = tokens(sql, dialect.as_ref())?;
            let statement = ddl::parse(self, &tokens, dialect.as_ref())?;
            (tokens, statement)
        };
        match statement {
            Some(statement) => ddl::plan(self, sql, statement).await,
            None => plan_tokens(state, tokens).await,
        }
    }

    fn iceberg_script<'a>(&'a self, sql: &'a str) -> Script<'a> {
        Script { context: self, sql, statements: None, options: SQLOptions::new() }
    }
}

/// Plans a statement that DataFusion can parse, once it is rewritten.
pub(super) async fn plan_tokens(mut state: SessionState, tokens: Vec<TokenWithSpan>) -> Result<LogicalPlan> {
    let parsed = {
        let dialect = session_dialect(state.config_options())?;
        parse_tokens(tokens, dialect.as_ref(), state.config_options())?
    };
    let mut statement = parsed.statement;
    metadata_tables::resolve(&mut state, &mut statement, parsed.versioned).await?;
    let reworded = dml::reword(&state, &mut statement).await?;
    let shows_columns = mark_metadata_columns(&state, &mut statement).await?;
    if parsed.versioned || shows_columns {
        // In a session that was not registered, DataFusion would read current data.
        state.register_relation_planner(planner())?;
    }
    let plan = align_times(state.statement_to_plan(statement).await?)?;
    let plan = restore(plan, &reworded)?;
    row_level::rewrite(plan, state.config_options())
}

/// Lets a statement see the metadata columns that it names; false if it names none.
async fn mark_metadata_columns(state: &SessionState, statement: &mut Statement) -> Result<bool> {
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    let mut hidden = Hidden::new();
    for reference in metadata_columns::wanted(statement, normalize) {
        // What does not exist is planning's to complain about.
        let Ok(schema) = state.schema_for_ref(reference.clone()) else { continue };
        let Some(table) = schema.table(reference.table()).await? else { continue };
        if let Some(with_columns) = with_metadata_columns(table.as_ref()) {
            let shown = table.schema();
            let all = with_columns?.schema();
            let names = all.fields().iter().map(|f| f.name()).filter(|n| shown.index_of(n).is_err());
            hidden.insert(reference, names.cloned().collect());
        }
    }
    if hidden.is_empty() {
        return Ok(false);
    }
    metadata_columns::mark(statement, normalize, &hidden)?;
    Ok(true)
}

/// The statements of a text, each parsed and planned after the one before it ran.
#[must_use = "nothing runs before `next`"]
pub struct Script<'a> {
    context: &'a SessionContext,
    sql: &'a str,
    /// The statements that did not run yet, once `sql` was cut.
    statements: Option<VecDeque<&'a str>>,
    options: SQLOptions,
}

impl Script<'_> {
    /// Allows only what `options` allow.
    pub fn with_options(mut self, options: SQLOptions) -> Self {
        self.options = options;
        self
    }

    /// Runs the next statement, as [`IcebergSql::iceberg_sql`] does; collect what it gives before
    /// the next call. `None` at the end.
    ///
    /// # Errors
    /// Those of the statement; the script may go on.
    pub async fn next(&mut self) -> Result<Option<DataFrame>> {
        if self.statements.is_none() {
            let dialect = session_dialect(self.context.state().config_options())?;
            let cut = split(self.sql, dialect.as_ref());
            let mut statements = VecDeque::from(cut.statements);
            statements.extend((!cut.rest_is_blank).then_some(cut.rest));
            self.statements = Some(statements);
        }
        match self.statements.as_mut().and_then(VecDeque::pop_front) {
            Some(statement) => self.context.iceberg_sql_with_options(statement, self.options).await.map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::assert_batches_eq;

    #[tokio::test]
    async fn each_statement_is_planned_after_the_one_before_ran() {
        let context = SessionContext::new();
        let mut script = context.iceberg_script(
            "CREATE TABLE a AS SELECT 1 AS x; -- one
             CREATE TABLE b AS SELECT x + 1 AS y FROM a;
             INSERT INTO b VALUES (7); SELECT ';' AS s, sum(y) AS y FROM b",
        );
        let mut last = Vec::new();
        let mut count = 0;
        while let Some(frame) = script.next().await.unwrap() {
            last = frame.collect().await.unwrap();
            count += 1;
        }
        assert_eq!(count, 4);
        assert_batches_eq!(["+---+---+", "| s | y |", "+---+---+", "| ; | 9 |", "+---+---+"], &last);
    }

    #[tokio::test]
    async fn a_script_stops_where_it_fails_and_may_go_on() {
        let context = SessionContext::new();
        let mut script = context.iceberg_script("SELECT 1; SELEC 2; SELECT 3; SELECT 'x");
        assert!(script.next().await.unwrap().is_some());
        assert!(script.next().await.is_err());
        assert!(script.next().await.unwrap().is_some());
        assert!(script.next().await.unwrap_err().to_string().contains("Unterminated"));
        assert!(script.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn options_forbid_kinds_of_statements() {
        let context = SessionContext::new();
        let read_only =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        for sql in [
            "CREATE TABLE a AS SELECT 1",
            "SET datafusion.execution.batch_size = 1",
            "COPY (SELECT 1) TO '/nowhere/x.csv'",
        ] {
            assert!(context.iceberg_sql_with_options(sql, read_only).await.is_err(), "{sql}");
            let mut script = context.iceberg_script(sql).with_options(read_only);
            assert!(script.next().await.is_err(), "{sql}");
        }
        assert!(context.iceberg_sql_with_options("SELECT 1", read_only).await.is_ok());
    }

    #[tokio::test]
    async fn both_ways_of_set_up_know_the_format() {
        let registered = SessionContext::new();
        register(&registered).unwrap();
        let built = SessionContext::new_with_state(session_state_builder().build());
        for context in [registered, built] {
            let state = context.state();
            assert!(state.table_factories().contains_key("ICEBERG"));
            assert!(state.table_factories().contains_key("PARQUET"));
            for name in ["variant_to_json", "variant_get", "is_variant_null"] {
                assert!(state.scalar_functions().contains_key(name), "{name}");
            }
            assert_eq!(state.relation_planners().len(), 1);
        }
    }
}
