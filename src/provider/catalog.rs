//! A catalog as DataFusion sees it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::datasource::TableType;
use datafusion::error::{DataFusionError, Result as DfResult};
use moka::sync::Cache;

use crate::catalog::{Catalog, Namespace, TableIdent, background};
use crate::error::{Error, ErrorKind, Result};
use crate::metadata_table::MetadataTableKind;
use crate::table::Table;

use super::table::IcebergTable;
use super::view::IcebergView;

/// How many namespaces are known to exist without asking again.
const KNOWN_NAMESPACES: u64 = 100_000;
/// How many tables are kept while they may be stale.
const KEPT_TABLES: u64 = 10_000;

/// The namespaces, tables and views of an Iceberg catalog, to be registered in a `SessionContext`.
/// Nested namespaces are schemas with dots in their names: `"a.b"`.
///
/// Nothing is listed before somebody asks. Each query loads the tables that it names once, as they
/// are then, unless [`IcebergCatalogProvider::with_max_staleness`] says otherwise.
///
/// `CREATE SCHEMA` and `DROP SCHEMA` create and drop namespaces.
#[derive(Debug, Clone)]
pub struct IcebergCatalogProvider {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    catalog: Arc<dyn Catalog>,
    /// Namespaces that existed when they were asked for, by the names of their schemas. One that is
    /// gone since has no tables, which is found out when it is asked for them.
    namespaces: Cache<String, Namespace>,
    /// Tables that may be used again.
    tables: Option<Cache<TableIdent, Table>>,
}

impl IcebergCatalogProvider {
    /// A catalog, of which nothing is asked yet.
    pub fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self { inner: Arc::new(Inner { catalog, namespaces: Cache::new(KNOWN_NAMESPACES), tables: None }) }
    }

    /// As [`IcebergCatalogProvider::new`], if the catalog answers.
    ///
    /// # Errors
    /// Those of listing its namespaces.
    pub async fn try_new(catalog: Arc<dyn Catalog>) -> Result<Self> {
        catalog.list_namespaces(None).await?;
        Ok(Self::new(catalog))
    }

    /// Lets queries use a table that was loaded up to `staleness` ago instead of asking the catalog
    /// again; zero, as it is without this, asks for each query.
    pub fn with_max_staleness(self, staleness: Duration) -> Self {
        let tables = (!staleness.is_zero())
            .then(|| Cache::builder().max_capacity(KEPT_TABLES).time_to_live(staleness).build());
        let (catalog, namespaces) = (Arc::clone(&self.inner.catalog), self.inner.namespaces.clone());
        Self { inner: Arc::new(Inner { catalog, namespaces, tables }) }
    }

    /// The catalog.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.inner.catalog
    }

    /// Makes the next query ask the catalog for a table that may be kept.
    pub fn invalidate(&self, table: &TableIdent) {
        if let Some(tables) = &self.inner.tables {
            tables.invalidate(table);
        }
    }
}

impl IcebergCatalogProvider {
    /// The namespace that a schema's name stands for; `None` if there is no such.
    pub(crate) async fn find_namespace(&self, name: &str) -> Result<Option<Namespace>> {
        self.inner.namespace(name).await
    }

    /// Makes the next statement ask the catalog whether there is such a namespace.
    pub(crate) fn forget_namespace(&self, name: &str) {
        self.inner.namespaces.invalidate(name);
    }
}

impl Inner {
    /// The namespaces at any depth.
    async fn all_namespaces(&self) -> Result<Vec<Namespace>> {
        let mut namespaces = Vec::new();
        let mut open = self.catalog.list_namespaces(None).await?;
        open.reverse();
        while let Some(namespace) = open.pop() {
            let children = match self.catalog.list_namespaces(Some(&namespace)).await {
                Ok(children) => children,
                // It may be gone since, or the catalog has no namespaces in namespaces.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => Vec::new(),
                Err(e) => return Err(e),
            };
            open.extend(children.into_iter().rev());
            namespaces.push(namespace);
        }
        Ok(namespaces)
    }

    /// The namespace that a schema's name stands for, if it exists.
    async fn namespace(&self, name: &str) -> Result<Option<Namespace>> {
        if let Some(known) = self.namespaces.get(name) {
            return Ok(Some(known));
        }
        let found = match Namespace::new(name.split('.')) {
            Ok(namespace) if self.catalog.namespace_exists(&namespace).await? => Some(namespace),
            // A level may have dots in its name.
            _ if name.contains('.') => {
                self.all_namespaces().await?.into_iter().find(|namespace| namespace.to_string() == name)
            }
            _ => None,
        };
        if let Some(found) = &found {
            self.namespaces.insert(name.to_owned(), found.clone());
        }
        Ok(found)
    }

    async fn load(&self, ident: &TableIdent) -> Result<Option<Table>> {
        if let Some(table) = self.tables.as_ref().and_then(|tables| tables.get(ident)) {
            return Ok(Some(table));
        }
        let table = match self.catalog.load_table(ident).await {
            Ok(table) => table,
            Err(e) if e.kind() == ErrorKind::NotFound && !self.exists(ident).await? => return Ok(None),
            Err(e) => return Err(e),
        };
        if let Some(tables) = &self.tables {
            tables.insert(ident.clone(), table.clone());
        }
        Ok(Some(table))
    }

    /// A table whose metadata file is missing is broken, not absent.
    async fn exists(&self, ident: &TableIdent) -> Result<bool> {
        self.catalog.table_exists(ident).await
    }

    async fn view(&self, ident: &TableIdent) -> Result<Option<IcebergView>> {
        match self.catalog.load_view(ident).await {
            Ok(view) => IcebergView::try_new(view, self.catalog.name()).map(Some),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The names of the tables and views in a namespace.
    async fn names(&self, namespace: &Namespace) -> Result<Vec<String>> {
        let mut found = self.catalog.list_tables(namespace).await?;
        match self.catalog.list_views(namespace).await {
            Ok(views) => found.extend(views),
            Err(e) if e.kind() == ErrorKind::Unsupported => {}
            Err(e) => return Err(e),
        }
        Ok(found.into_iter().map(|ident| ident.name().to_owned()).collect())
    }

    fn schema(self: &Arc<Self>, namespace: Namespace) -> Arc<dyn SchemaProvider> {
        Arc::new(NamespaceProvider { inner: Arc::clone(self), namespace })
    }
}

impl CatalogProvider for IcebergCatalogProvider {
    fn schema_names(&self) -> Vec<String> {
        let inner = Arc::clone(&self.inner);
        match background::wait_for(async move { inner.all_namespaces().await }) {
            Ok(namespaces) => namespaces.iter().map(ToString::to_string).collect(),
            Err(e) => {
                tracing::warn!(catalog = self.inner.catalog.name(), error = %e, "the namespaces can't be listed");
                Vec::new()
            }
        }
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if let Some(known) = self.inner.namespaces.get(name) {
            return Some(self.inner.schema(known));
        }
        let (inner, owned) = (Arc::clone(&self.inner), name.to_owned());
        match background::wait_for(async move { inner.namespace(&owned).await }) {
            Ok(namespace) => Some(self.inner.schema(namespace?)),
            Err(e) => {
                // The error can't be told here, so it is told for each table.
                tracing::warn!(catalog = self.inner.catalog.name(), namespace = name, error = %e, "not found out");
                Namespace::new(name.split('.')).ok().map(|namespace| self.inner.schema(namespace))
            }
        }
    }

    /// Creates a namespace; the tables of `schema` are not taken over, so it has to be empty.
    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> DfResult<Option<Arc<dyn SchemaProvider>>> {
        if !schema.table_names().is_empty() {
            return Err(Error::unsupported(format!("taking over the tables of schema `{name}`")).into());
        }
        let namespace = Namespace::new(name.split('.'))?;
        let inner = Arc::clone(&self.inner);
        background::wait_for(
            async move { inner.catalog.create_namespace(&namespace, Default::default()).await },
        )?;
        Ok(None)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> DfResult<Option<Arc<dyn SchemaProvider>>> {
        let (inner, owned) = (Arc::clone(&self.inner), name.to_owned());
        let dropped = background::wait_for(async move {
            let Some(namespace) = inner.namespace(&owned).await? else { return Ok(None) };
            let dropped = inner.catalog.drop_namespace(&namespace).await;
            match dropped {
                Ok(()) => {
                    inner.namespaces.invalidate(&owned);
                    Ok(Some(namespace))
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    inner.namespaces.invalidate(&owned);
                    Ok(None)
                }
                Err(e) if e.kind() == ErrorKind::ValidationFailed && cascade => Err(Error::unsupported(
                    format!("dropping namespace `{namespace}` with what is in it; drop that first"),
                )),
                Err(e) => Err(e),
            }
        })?;
        Ok(dropped.map(|namespace| self.inner.schema(namespace)))
    }
}

#[derive(Debug)]
struct NamespaceProvider {
    inner: Arc<Inner>,
    namespace: Namespace,
}

impl NamespaceProvider {
    async fn load(&self, name: &str) -> Result<Option<IcebergTable>> {
        let ident = TableIdent::new(self.namespace.clone(), name)?;
        let Some(table) = self.inner.load(&ident).await? else { return Ok(None) };
        let (catalog, inner) = (Arc::clone(&self.inner.catalog), Arc::clone(&self.inner));
        let observer = Arc::new(move |table: &Table| {
            // Who changed a table sees what became of it.
            if let Some(tables) = &inner.tables {
                tables.insert(ident.clone(), table.clone());
            }
        });
        IcebergTable::of_catalog(table, catalog, observer).map(Some)
    }

    async fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(&TableIdent::new(self.namespace.clone(), name)?).await
    }

    fn read_only(&self, verb: &str, table: &str) -> Error {
        let catalog = self.inner.catalog.name();
        Error::unsupported(format!(
            "`{catalog}.{}.{table}`: tables can't be {verb} by this statement",
            self.namespace
        ))
    }
}

#[async_trait]
impl SchemaProvider for NamespaceProvider {
    fn table_names(&self) -> Vec<String> {
        let (inner, namespace) = (Arc::clone(&self.inner), self.namespace.clone());
        match background::wait_for(async move { inner.names(&namespace).await }) {
            Ok(names) => names,
            Err(e) => {
                tracing::warn!(namespace = %self.namespace, error = %e, "the tables can't be listed");
                Vec::new()
            }
        }
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let metadata_table = MetadataTableKind::split(name);
        match self.load(name).await {
            Ok(Some(table)) => return Ok(Some(Arc::new(table))),
            Ok(None) => {}
            // So servers answer of which no table can have such a name.
            Err(e) if e.kind() == ErrorKind::DataInvalid && metadata_table.is_some() => {
                let of = metadata_table.map(|(of, _)| of).unwrap_or_default();
                if !self.exists(of).await? {
                    return Err(e.into());
                }
            }
            Err(e) => return Err(e.into()),
        }
        if let Some((of, kind)) = metadata_table
            && let Some(table) = self.load(of).await?
        {
            // Most are about history.
            let table = table.with_all_snapshots().await?;
            return Ok(Some(Arc::new(table.metadata_table(kind)?)));
        }
        let view = self.inner.view(&TableIdent::new(self.namespace.clone(), name)?).await?;
        Ok(view.map(|view| Arc::new(view) as Arc<dyn TableProvider>))
    }

    /// Asked for each table when all are listed: none is opened for that, and a broken one does not
    /// hide the others.
    async fn table_type(&self, name: &str) -> DfResult<Option<TableType>> {
        if self.exists(name).await.is_ok_and(|exists| exists) {
            return Ok(Some(TableType::Base));
        }
        match self.table(name).await {
            Ok(found) => Ok(found.map(|found| found.table_type())),
            Err(e) => {
                tracing::warn!(namespace = %self.namespace, name, error = %e, "what it is was not found out");
                Ok(Some(TableType::Base))
            }
        }
    }

    fn register_table(
        &self,
        name: String,
        _: Arc<dyn TableProvider>,
    ) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Err(self.read_only("created", &name).into())
    }

    // `CREATE OR REPLACE` calls it before it knows whether it can create, so it must drop nothing.
    fn deregister_table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Err(self.read_only("dropped", name).into())
    }

    fn table_exist(&self, name: &str) -> bool {
        let of = MetadataTableKind::split(name).map(|(table, _)| table.to_owned());
        let (inner, namespace, name) = (Arc::clone(&self.inner), self.namespace.clone(), name.to_owned());
        let found = background::wait_for(async move {
            let mut refused = None;
            for name in std::iter::once(name.clone()).chain(of) {
                match inner.exists(&TableIdent::new(namespace.clone(), name)?).await {
                    Ok(true) => return Ok(true),
                    Ok(false) => {}
                    Err(e) => refused = refused.or(Some(e)),
                }
            }
            if let Some(e) = refused {
                return Err(e);
            }
            Ok(inner.view(&TableIdent::new(namespace, name)?).await?.is_some())
        });
        found.unwrap_or_else(|e| {
            tracing::warn!(namespace = %self.namespace, error = %e, "a table can't be looked for");
            false
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::catalog::{MemoryCatalog, TableCommit, TableCreation, ViewCreation};
    use crate::spec::{NestedField, PrimitiveType, Schema, SchemaId, TableUpdate, Type, ViewRepresentation};

    fn schema() -> Schema {
        let fields = vec![NestedField::optional(1, "x", Type::Primitive(PrimitiveType::Int))];
        Schema::new(SchemaId(0), fields, Vec::new()).unwrap()
    }

    fn ident(namespace: &str, name: &str) -> TableIdent {
        TableIdent::new(Namespace::new(namespace.split('/')).unwrap(), name).unwrap()
    }

    async fn catalog() -> Arc<dyn Catalog> {
        let catalog = MemoryCatalog::new("ice").unwrap();
        for namespace in ["a", "a/b", "x.y"] {
            let namespace = Namespace::new(namespace.split('/')).unwrap();
            catalog.create_namespace(&namespace, Default::default()).await.unwrap();
        }
        for namespace in ["a", "a/b", "x.y"] {
            catalog.create_table(&ident(namespace, "t"), TableCreation::new(schema())).await.unwrap();
        }
        Arc::new(catalog)
    }

    async fn rows(context: &SessionContext, sql: &str) -> DfResult<usize> {
        let batches = context.sql(sql).await?.collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }

    #[tokio::test]
    async fn what_comes_later_is_seen() {
        let catalog = catalog().await;
        let provider = IcebergCatalogProvider::try_new(Arc::clone(&catalog)).await.unwrap();
        assert_eq!(provider.schema_names(), ["a", "a.b", "x.y"]);
        let context = SessionContext::new();
        context.register_catalog("ice", Arc::new(provider));
        for table in ["ice.a.t", "ice.\"a.b\".t", "ice.\"x.y\".t"] {
            assert_eq!(rows(&context, &format!("SELECT * FROM {table}")).await.unwrap(), 0);
        }
        assert!(rows(&context, "SELECT * FROM ice.c.t").await.is_err());
        context.sql("CREATE SCHEMA ice.c").await.unwrap();
        catalog.create_table(&ident("c", "t"), TableCreation::new(schema())).await.unwrap();
        assert_eq!(rows(&context, "SELECT * FROM ice.c.t").await.unwrap(), 0);
        let schema = context.catalog("ice").unwrap().schema("c").unwrap();
        assert_eq!(schema.table_names(), ["t"]);
        assert!(schema.table_exist("t") && schema.table_exist("t$files") && !schema.table_exist("u"));
        let e = context.sql("DROP SCHEMA ice.c").await.unwrap_err();
        assert_eq!(Error::find_in(&e).unwrap().kind(), ErrorKind::ValidationFailed);
        let e = context.sql("DROP SCHEMA ice.c CASCADE").await.unwrap_err();
        assert_eq!(Error::find_in(&e).unwrap().kind(), ErrorKind::Unsupported);
        catalog.drop_table(&ident("c", "t"), false).await.unwrap();
        context.sql("DROP SCHEMA ice.c").await.unwrap();
        assert!(context.sql("DROP SCHEMA ice.c").await.is_err());
        assert!(context.catalog("ice").unwrap().schema("c").is_none());
    }

    #[tokio::test]
    async fn nothing_is_dropped_by_what_may_fail_afterwards() {
        let catalog = catalog().await;
        let context = SessionContext::new();
        context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::clone(&catalog))));
        for sql in
            ["CREATE OR REPLACE TABLE ice.a.t AS SELECT 1", "CREATE OR REPLACE VIEW ice.a.t AS SELECT 1"]
        {
            assert!(context.sql(sql).await.is_err());
        }
        assert!(catalog.table_exists(&ident("a", "t")).await.unwrap());
    }

    #[tokio::test]
    async fn tables_are_as_fresh_as_is_asked_for() {
        let catalog = catalog().await;
        let t = ident("a", "t");
        let fresh = IcebergCatalogProvider::new(Arc::clone(&catalog));
        let stale = fresh.clone().with_max_staleness(Duration::from_secs(3600));
        let property = |provider: IcebergCatalogProvider| {
            let t = t.clone();
            async move {
                let table = provider.inner.load(&t).await.unwrap().unwrap();
                table.metadata().properties.get("n").cloned()
            }
        };
        assert_eq!(property(stale.clone()).await, None);
        let update = TableUpdate::SetProperties([("n".to_owned(), "1".to_owned())].into());
        let commit = TableCommit { table: t.clone(), requirements: Vec::new(), updates: vec![update] };
        catalog.commit_table(commit).await.unwrap();
        assert_eq!(property(fresh).await.as_deref(), Some("1"));
        assert_eq!(property(stale.clone()).await, None);
        stale.invalidate(&t);
        assert_eq!(property(stale).await.as_deref(), Some("1"));
    }

    fn view(sql: &str, dialect: &str) -> ViewCreation {
        ViewCreation {
            schema: schema(),
            representations: vec![ViewRepresentation { sql: sql.to_owned(), dialect: dialect.to_owned() }],
            default_catalog: None,
            default_namespace: vec!["a".to_owned(), "b".to_owned()],
            location: None,
            properties: Default::default(),
        }
    }

    #[tokio::test]
    async fn views_are_queried() {
        let catalog = catalog().await;
        let context = SessionContext::new();
        context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::clone(&catalog))));
        for (name, sql, dialect) in [
            ("values", "SELECT * FROM (VALUES (1), (2), (3)) AS v(anything)", "datafusion"),
            ("of_table", "SELECT x FROM t", "spark"),
            ("of_view", "SELECT x + 1 FROM ice.a.values", "spark"),
            ("loop", "SELECT x FROM ice.a.loop", "spark"),
            ("narrow", "SELECT 1, 2", "spark"),
            ("foreign", "SELECT 1", "trino"),
            ("wrong", "SELEC 1", "spark"),
        ] {
            catalog.create_view(&ident("a", name), view(sql, dialect)).await.unwrap();
        }
        for (sql, expected) in [
            ("SELECT x FROM ice.a.values WHERE x > 1", 2),
            ("SELECT count(*) FROM ice.a.values", 1),
            ("SELECT 1 FROM ice.a.values LIMIT 2", 2),
            ("SELECT * FROM ice.a.of_table", 0),
            ("SELECT * FROM ice.a.of_view WHERE x = 4", 1),
        ] {
            assert_eq!(rows(&context, sql).await.unwrap(), expected, "{sql}");
        }
        for (name, said) in
            [("loop", "each other"), ("narrow", "2 columns"), ("foreign", "trino"), ("wrong", "SELEC")]
        {
            let e = rows(&context, &format!("SELECT * FROM ice.a.{name}")).await.unwrap_err();
            assert!(e.to_string().contains(said) && e.to_string().contains(name), "{e}");
        }
        assert!(
            context.catalog("ice").unwrap().schema("a").unwrap().table_names().contains(&"values".to_owned())
        );
    }

    /// Knows no names with a dollar sign, as some servers do, and has a table that can't be opened.
    #[derive(Debug)]
    struct Strict(Arc<dyn Catalog>);

    impl Strict {
        fn check(table: &TableIdent) -> Result<()> {
            match (table.name().contains('$'), table.name()) {
                (true, _) => Err(Error::invalid("no name of a table")),
                (_, "broken") => Err(Error::not_found("file `x` does not exist")),
                _ => Ok(()),
            }
        }
    }

    #[async_trait]
    impl Catalog for Strict {
        fn name(&self) -> &str {
            self.0.name()
        }

        async fn list_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
            self.0.list_namespaces(parent).await
        }

        async fn namespace_exists(&self, namespace: &Namespace) -> Result<bool> {
            self.0.namespace_exists(namespace).await
        }

        async fn list_tables(&self, namespace: &Namespace) -> Result<Vec<TableIdent>> {
            self.0.list_tables(namespace).await
        }

        async fn load_table(&self, table: &TableIdent) -> Result<Table> {
            Self::check(table)?;
            self.0.load_table(table).await
        }

        async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
            match Self::check(table) {
                Err(e) if e.kind() == ErrorKind::DataInvalid => Err(e),
                _ => self.0.table_exists(table).await,
            }
        }
    }

    #[tokio::test]
    async fn a_catalog_may_refuse_names_of_metadata_tables() {
        let context = SessionContext::new();
        context.register_catalog(
            "ice",
            Arc::new(IcebergCatalogProvider::new(Arc::new(Strict(catalog().await)))),
        );
        assert_eq!(rows(&context, "SELECT * FROM ice.a.\"t$snapshots\"").await.unwrap(), 0);
        let schema = context.catalog("ice").unwrap().schema("a").unwrap();
        assert!(schema.table_exist("t$snapshots") && !schema.table_exist("u$snapshots"));
        for missing in ["u$snapshots", "t$nonsense"] {
            let e = rows(&context, &format!("SELECT * FROM ice.a.\"{missing}\"")).await.unwrap_err();
            assert_eq!(Error::find_in(&e).unwrap().kind(), ErrorKind::DataInvalid, "{e}");
        }
    }

    #[tokio::test]
    async fn a_broken_table_does_not_hide_the_others() {
        let inner = catalog().await;
        inner.create_table(&ident("a", "broken"), TableCreation::new(schema())).await.unwrap();
        let config = datafusion::prelude::SessionConfig::new().with_information_schema(true);
        let context = SessionContext::new_with_config(config);
        context.register_catalog("ice", Arc::new(IcebergCatalogProvider::new(Arc::new(Strict(inner)))));
        assert!(rows(&context, "SELECT * FROM ice.a.broken").await.is_err());
        let sql =
            "SELECT * FROM information_schema.tables WHERE table_catalog = 'ice' AND table_schema = 'a'";
        assert_eq!(rows(&context, sql).await.unwrap(), 2);
        context.sql("SHOW TABLES").await.unwrap().collect().await.unwrap();
    }
}
