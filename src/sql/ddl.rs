//! Statements that DataFusion would run without asking an Iceberg catalog, or ask it too little.

use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, CatalogProviderList};
use datafusion::common::{SchemaReference, TableReference, exec_datafusion_err};
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::{
    CreateCatalogSchema, DdlStatement, DropCatalogSchema, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::prelude::SessionContext;

use crate::error::Error;
use crate::provider::IcebergCatalogProvider;

/// The catalogs of a session as they were registered, where the session has them wrapped.
#[derive(Debug)]
struct Registered(Arc<dyn CatalogProviderList>);

/// The session with `SELECT … FROM 'file.parquet'`: DataFusion's
/// [`enable_url_table`](SessionContext::enable_url_table), after which statements that create and drop
/// things still find Iceberg catalogs.
pub fn enable_url_table(context: SessionContext) -> SessionContext {
    let registered = Registered(Arc::clone(context.state_ref().read().catalog_list()));
    let context = context.enable_url_table();
    context.state_ref().write().config_mut().set_extension(Arc::new(registered));
    context
}

/// A catalog as it was registered.
fn registered(context: &SessionContext, name: &str) -> Option<Arc<dyn CatalogProvider>> {
    let wrapped = context.state_ref().read().config().get_extension::<Registered>();
    match wrapped {
        Some(registered) => registered.0.catalog(name),
        None => context.catalog(name),
    }
}

/// Runs a plan.
pub(super) async fn execute(context: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    match &plan {
        LogicalPlan::Ddl(DdlStatement::CreateCatalogSchema(create)) => {
            if let Some((catalog, schema)) = of_iceberg(context, create) {
                return create_schema(context, catalog.as_ref(), &schema, create).await;
            }
        }
        LogicalPlan::Ddl(DdlStatement::DropCatalogSchema(drop)) => {
            if let Some(done) = drop_schema(context, drop).await {
                return done;
            }
        }
        // With IF EXISTS, DataFusion takes every error for "there is none".
        LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => check_drop(context, &drop.name)?,
        LogicalPlan::Ddl(DdlStatement::DropView(drop)) => check_drop(context, &drop.name)?,
        _ => {}
    }
    context.execute_logical_plan(plan).await
}

/// The Iceberg catalog and the name in it of a schema to create. The statement's name was joined with
/// dots, and nested namespaces have some themselves.
fn of_iceberg(
    context: &SessionContext,
    create: &CreateCatalogSchema,
) -> Option<(Arc<dyn CatalogProvider>, String)> {
    let name = &create.schema_name;
    for (at, _) in name.match_indices('.') {
        let (catalog, schema) = (name.get(..at)?, name.get(at + 1..)?);
        if let Some(catalog) = registered(context, catalog) {
            return catalog.is::<IcebergCatalogProvider>().then(|| (catalog, schema.to_owned()));
        }
    }
    let default = context.state_ref().read().config_options().catalog.default_catalog.clone();
    let catalog = registered(context, &default)?;
    catalog.is::<IcebergCatalogProvider>().then(|| (catalog, name.clone()))
}

/// Asks the catalog itself whether there is such a schema: that it can't be asked, or that another
/// dropped it, is not "it exists".
async fn create_schema(
    context: &SessionContext,
    catalog: &dyn CatalogProvider,
    schema: &str,
    create: &CreateCatalogSchema,
) -> Result<DataFrame> {
    let Some(provider) = catalog.downcast_ref::<IcebergCatalogProvider>() else {
        return Err(exec_datafusion_err!("`{}` is in no Iceberg catalog", create.schema_name));
    };
    if !provider.create_schema(schema).await? && !create.if_not_exists {
        return Err(exec_datafusion_err!("Schema '{schema}' already exists"));
    }
    nothing(context).await
}

/// Drops a namespace, whatever the catalog is wrapped in; `None` if it is in no Iceberg catalog.
async fn drop_schema(context: &SessionContext, drop: &DropCatalogSchema) -> Option<Result<DataFrame>> {
    let default = context.state_ref().read().config_options().catalog.default_catalog.clone();
    let (catalog, schema) = match &drop.name {
        SchemaReference::Bare { schema } => (default.as_str(), schema),
        SchemaReference::Full { schema, catalog } => (catalog.as_ref(), schema),
    };
    let catalog = registered(context, catalog).filter(|c| c.is::<IcebergCatalogProvider>())?;
    Some(match catalog.deregister_schema(schema, drop.cascade) {
        Ok(None) if !drop.if_exists => Err(exec_datafusion_err!("Schema '{}' doesn't exist", drop.name)),
        Ok(_) => nothing(context).await,
        Err(e) => Err(e),
    })
}

async fn nothing(context: &SessionContext) -> Result<DataFrame> {
    context.execute_logical_plan(LogicalPlanBuilder::empty(false).build()?).await
}

/// Fails for a table or view in an Iceberg catalog.
fn check_drop(context: &SessionContext, name: &TableReference) -> Result<()> {
    let resolved = {
        let state = context.state_ref();
        let catalog = state.read().config_options().catalog.clone();
        name.clone().resolve(&catalog.default_catalog, &catalog.default_schema)
    };
    let iceberg = registered(context, &resolved.catalog).filter(|c| c.is::<IcebergCatalogProvider>());
    let schema = iceberg.and_then(|catalog| catalog.schema(&resolved.schema));
    match schema.is_some_and(|schema| schema.table_exist(&resolved.table)) {
        true => Err(Error::unsupported(format!(
            "`{resolved}`: tables and views of Iceberg catalogs can't be dropped by this statement"
        ))
        .into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Catalog, MemoryCatalog, Namespace, TableCreation, TableIdent};
    use crate::error::ErrorKind;
    use crate::spec::{Schema, SchemaId};
    use crate::sql::IcebergSql;

    /// Sessions as applications have them, and as the shell has one.
    fn sessions() -> [(SessionContext, Arc<MemoryCatalog>); 2] {
        [SessionContext::new(), enable_url_table(SessionContext::new())].map(with_catalog)
    }

    fn with_catalog(context: SessionContext) -> (SessionContext, Arc<MemoryCatalog>) {
        let catalog = Arc::new(MemoryCatalog::new("ice").unwrap());
        let provider = IcebergCatalogProvider::new(Arc::clone(&catalog) as Arc<dyn Catalog>);
        context.register_catalog("ice", Arc::new(provider));
        (context, catalog)
    }

    fn namespace(levels: &[&str]) -> Namespace {
        Namespace::new(levels.iter().copied()).unwrap()
    }

    #[tokio::test]
    async fn schemas_are_created_at_any_depth() {
        for (context, catalog) in sessions() {
            for sql in ["CREATE SCHEMA ice.x", "CREATE SCHEMA ice.\"x.y\"", "CREATE SCHEMA \"ice\".\"x.y.z\""]
            {
                context.iceberg_sql(sql).await.unwrap().collect().await.unwrap();
                assert!(context.iceberg_sql(sql).await.unwrap_err().to_string().contains("already exists"));
                context.iceberg_sql(&sql.replace("SCHEMA", "SCHEMA IF NOT EXISTS")).await.unwrap();
            }
            assert!(catalog.namespace_exists(&namespace(&["x", "y", "z"])).await.unwrap());
            let e = context.iceberg_sql("CREATE SCHEMA IF NOT EXISTS ice.\"a.b\"").await.unwrap_err();
            assert_eq!(Error::find_in(&e).unwrap().kind(), ErrorKind::NotFound);
            context.iceberg_sql("DROP SCHEMA ice.\"x.y.z\"").await.unwrap();
            assert!(!catalog.namespace_exists(&namespace(&["x", "y", "z"])).await.unwrap());
            assert!(context.iceberg_sql("DROP SCHEMA ice.\"x.y.z\"").await.is_err());
            context.iceberg_sql("DROP SCHEMA IF EXISTS ice.\"x.y.z\"").await.unwrap();
            // Others go elsewhere, and without a catalog they go to the default one.
            context.iceberg_sql("CREATE SCHEMA s").await.unwrap();
            assert!(context.catalog("datafusion").unwrap().schema("s").is_some());
            context.iceberg_sql("SET datafusion.catalog.default_catalog = 'ice'").await.unwrap();
            context.iceberg_sql("CREATE SCHEMA \"x.q\"").await.unwrap();
            assert!(catalog.namespace_exists(&namespace(&["x", "q"])).await.unwrap());
        }
    }

    #[tokio::test]
    async fn what_another_dropped_is_created_again() {
        for (context, catalog) in sessions() {
            context.iceberg_sql("CREATE SCHEMA ice.x").await.unwrap();
            assert!(context.catalog("ice").unwrap().schema("x").is_some());
            catalog.drop_namespace(&namespace(&["x"])).await.unwrap();
            context.iceberg_sql("CREATE SCHEMA IF NOT EXISTS ice.x").await.unwrap();
            assert!(catalog.namespace_exists(&namespace(&["x"])).await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_table_that_can_not_be_dropped_is_not_said_to_be_missing() {
        for (context, catalog) in sessions() {
            context.iceberg_sql("CREATE SCHEMA ice.x").await.unwrap();
            let table = TableIdent::new(namespace(&["x"]), "t").unwrap();
            let schema = Schema::new(SchemaId(0), Vec::new(), Vec::new()).unwrap();
            catalog.create_table(&table, TableCreation::new(schema)).await.unwrap();
            for sql in ["DROP TABLE ice.x.t", "DROP TABLE IF EXISTS ice.x.t", "DROP VIEW IF EXISTS ice.x.t"] {
                let e = context.iceberg_sql(sql).await.unwrap_err();
                assert_eq!(Error::find_in(&e).unwrap().kind(), ErrorKind::Unsupported, "{sql}");
            }
            context.iceberg_sql("DROP TABLE IF EXISTS ice.x.u").await.unwrap();
            assert!(context.iceberg_sql("DROP TABLE ice.x.u").await.is_err());
            assert!(catalog.table_exists(&table).await.unwrap());
        }
    }
}
