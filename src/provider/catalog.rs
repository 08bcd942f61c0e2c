//! A catalog as DataFusion sees it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result as DfResult};

use crate::catalog::{Catalog, Namespace, TableIdent};
use crate::error::{Error, ErrorKind, Result};
use crate::metadata_table::MetadataTableKind;

use super::table::IcebergTable;

/// The namespaces and tables of an Iceberg catalog, to be registered in a `SessionContext`.
/// Nested namespaces are schemas with dots in their names: `"a.b"`.
///
/// The namespaces are those of the time when it was made; tables are looked up by each query.
#[derive(Debug)]
pub struct IcebergCatalogProvider {
    catalog: Arc<dyn Catalog>,
    namespaces: Vec<Namespace>,
}

impl IcebergCatalogProvider {
    /// Lists the catalog's namespaces, at any depth.
    ///
    /// # Errors
    /// Those of listing namespaces.
    pub async fn try_new(catalog: Arc<dyn Catalog>) -> Result<Self> {
        let mut namespaces = Vec::new();
        let mut open: Vec<Namespace> = catalog.list_namespaces(None).await?;
        while let Some(namespace) = open.pop() {
            open.extend(catalog.list_namespaces(Some(&namespace)).await?);
            namespaces.push(namespace);
        }
        Ok(Self { catalog, namespaces })
    }
}

impl CatalogProvider for IcebergCatalogProvider {
    fn schema_names(&self) -> Vec<String> {
        self.namespaces.iter().map(ToString::to_string).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let namespace = self.namespaces.iter().find(|n| n.to_string() == name)?.clone();
        Some(Arc::new(NamespaceProvider { catalog: Arc::clone(&self.catalog), namespace }))
    }
}

#[derive(Debug)]
struct NamespaceProvider {
    catalog: Arc<dyn Catalog>,
    namespace: Namespace,
}

impl NamespaceProvider {
    async fn load(&self, name: &str) -> Result<Option<IcebergTable>> {
        let ident = TableIdent::new(self.namespace.clone(), name)?;
        match self.catalog.load_table(&ident).await {
            Ok(table) => IcebergTable::try_new(table).map(Some),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl NamespaceProvider {
    fn read_only(&self, verb: &str, table: &str) -> Error {
        Error::unsupported(format!(
            "catalog `{}` is read-only: can't {verb} `{}.{table}`",
            self.catalog.name(),
            self.namespace
        ))
    }
}

#[async_trait]
impl SchemaProvider for NamespaceProvider {
    fn table_names(&self) -> Vec<String> {
        let (catalog, namespace) = (Arc::clone(&self.catalog), self.namespace.clone());
        match wait_for(async move { catalog.list_tables(&namespace).await }) {
            Ok(tables) => tables.into_iter().map(|t| t.name().to_owned()).collect(),
            Err(e) => {
                tracing::warn!(namespace = %self.namespace, error = %e, "the tables can't be listed");
                Vec::new()
            }
        }
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(table) = self.load(name).await? {
            return Ok(Some(Arc::new(table)));
        }
        let Some((of, kind)) = MetadataTableKind::split(name) else { return Ok(None) };
        let Some(table) = self.load(of).await? else { return Ok(None) };
        Ok(Some(Arc::new(table.metadata_table(kind)?)))
    }

    fn register_table(
        &self,
        name: String,
        _: Arc<dyn TableProvider>,
    ) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Err(self.read_only("create", &name).into())
    }

    fn deregister_table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Err(self.read_only("drop", name).into())
    }

    fn table_exist(&self, name: &str) -> bool {
        let of = MetadataTableKind::split(name).map(|(table, _)| table);
        self.table_names().iter().any(|n| n == name || Some(n.as_str()) == of)
    }
}

/// DataFusion lists tables outside of async code, often on a thread of a runtime, which must not
/// wait for itself: a thread of its own does.
fn wait_for<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::new(ErrorKind::Io, "no runtime").with_source(e))?;
        runtime.block_on(work)
    });
    thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "listing tables was cut off")))
}
