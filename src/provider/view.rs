//! Views of a catalog as `TableProvider`s: planned anew by each query.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, DataFusionError};
use datafusion::error::Result as DfResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableType, cast, col,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement;

use crate::arrow::to_arrow_schema;
use crate::catalog::View;
use crate::error::{Error, Result};

/// The dialects that are tried, the best first. Spark's is close enough for most queries; one that
/// is not fails to parse or to resolve.
const DIALECTS: [&str; 2] = ["datafusion", "spark"];
/// How deep views may name views.
const MAX_DEPTH: usize = 16;

/// A view of a catalog.
#[derive(Debug)]
pub(super) struct IcebergView {
    name: String,
    sql: String,
    schema: SchemaRef,
    default_catalog: String,
    default_namespace: Vec<String>,
}

/// How many views deep a statement is planned; kept by the session that plans it.
struct ViewDepth(usize);

impl IcebergView {
    /// The current version of a view, whose names without a catalog are in `catalog`.
    ///
    /// # Errors
    /// `Unsupported` if its query is in none of the dialects that are understood, or its schema has no
    /// counterpart in Arrow.
    pub(super) fn try_new(view: View, catalog: &str) -> Result<Self> {
        let name = format!("{catalog}.{}", view.ident);
        let opened = Self::open(&view, &name, catalog);
        opened.map_err(|e| e.context(format!("view `{name}`")))
    }

    fn open(view: &View, name: &str, catalog: &str) -> Result<Self> {
        let broken = || Error::invalid("it has no current version");
        let version = view.metadata.current_version().ok_or_else(broken)?;
        let schema = view.metadata.current_schema().ok_or_else(broken)?;
        let of =
            |dialect: &&str| version.representations.iter().find(|r| r.dialect.eq_ignore_ascii_case(dialect));
        let Some(representation) = DIALECTS.iter().find_map(of) else {
            let has: Vec<_> = version.representations.iter().map(|r| r.dialect.as_str()).collect();
            return Err(Error::unsupported(format!(
                "it has no query in the dialects {}, only in {}",
                DIALECTS.join(" and "),
                has.join(", ")
            )));
        };
        Ok(Self {
            name: name.to_owned(),
            sql: representation.sql.clone(),
            schema: Arc::new(to_arrow_schema(schema)?),
            default_catalog: version.default_catalog.clone().unwrap_or_else(|| catalog.to_owned()),
            default_namespace: version.default_namespace.clone(),
        })
    }

    /// The session that the view's query is planned in: its own defaults, one view deeper.
    fn session(&self, state: &SessionState) -> Result<SessionState> {
        let depth = state.config().get_extension::<ViewDepth>().map_or(0, |depth| depth.0);
        if depth >= MAX_DEPTH {
            return Err(Error::invalid(format!("more than {MAX_DEPTH} views name each other")));
        }
        // A builder would register a new catalog under the name of the default one.
        let mut session = state.clone();
        let config = session.config().clone().with_extension(Arc::new(ViewDepth(depth + 1)));
        *session.config_mut() = config;
        let catalog = &mut session.config_mut().options_mut().catalog;
        catalog.default_catalog.clone_from(&self.default_catalog);
        if !self.default_namespace.is_empty() {
            catalog.default_schema = self.default_namespace.join(".");
        }
        Ok(session)
    }

    /// The view's query, with the names and types of the view's columns.
    async fn plan(&self, state: &SessionState) -> DfResult<LogicalPlan> {
        let dialect = state.config_options().sql_parser.dialect;
        let statement = state.sql_to_statement(&self.sql, &dialect)?;
        if !is_query(&statement) {
            return Err(Error::invalid("its text is no query").into());
        }
        let plan = state.statement_to_plan(statement).await?;
        let found = plan.schema().fields().len();
        if found != self.schema.fields().len() {
            let expected = self.schema.fields().len();
            let message =
                format!("its query gives {found} columns now, and had {expected} when it was created");
            return Err(Error::invalid(message).into());
        }
        let columns: Vec<Expr> = plan
            .schema()
            .iter()
            .zip(self.schema.fields())
            .map(|((qualifier, field), column)| {
                let value = Expr::Column(Column::from((qualifier, field)));
                cast(value, column.data_type().clone()).alias(column.name())
            })
            .collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    fn error(&self, e: DataFusionError) -> DataFusionError {
        e.context(format!("view `{}`", self.name))
    }
}

fn is_query(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => {
            matches!(statement.as_ref(), datafusion::sql::sqlparser::ast::Statement::Query(_))
        }
        _ => false,
    }
}

#[async_trait]
impl TableProvider for IcebergView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.sql)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        // They become part of the view's plan.
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(state) = state.as_any().downcast_ref::<SessionState>() else {
            let message = "views can only be queried in sessions of DataFusion's own";
            return Err(self.error(Error::unsupported(message).into()));
        };
        let planned = async {
            let state = self.session(state)?;
            let mut plan = LogicalPlanBuilder::from(self.plan(&state).await?);
            if let Some(filter) = conjunction(filters.iter().cloned()) {
                plan = plan.filter(filter)?;
            }
            if let Some(projection) = projection {
                let names = projection.iter().filter_map(|i| self.schema.fields().get(*i));
                plan = plan.project(names.map(|field| col(Column::from_name(field.name()))))?;
            }
            if limit.is_some() {
                plan = plan.limit(0, limit)?;
            }
            state.create_physical_plan(&plan.build()?).await
        };
        // Views in views are planned in one another.
        Box::pin(planned).await.map_err(|e| self.error(e))
    }
}
