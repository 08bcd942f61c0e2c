//! Which catalog a name is of.

use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, CatalogProviderList};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use crate::catalog::{Catalog, Namespace, TableIdent};
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

/// An Iceberg catalog of a session.
#[derive(Debug, Clone)]
pub(super) struct Place {
    provider: Arc<dyn CatalogProvider>,
    /// A namespace, its levels joined with dots.
    schema: String,
    /// A table or view in it, if that is what was named.
    table: String,
}

/// The catalog of that name, if it is Iceberg's.
fn iceberg(context: &SessionContext, name: &str) -> Option<Arc<dyn CatalogProvider>> {
    registered(context, name).filter(|catalog| catalog.is::<IcebergCatalogProvider>())
}

fn defaults(context: &SessionContext) -> (String, String) {
    let config = context.state_ref().read().config_options().clone();
    let catalog = &config.catalog;
    (catalog.default_catalog.clone(), catalog.default_schema.clone())
}

/// The catalog that the first part of a name names, or the session's default one, with the other parts.
fn split<'a>(
    context: &SessionContext,
    name: &'a [String],
) -> Option<(Arc<dyn CatalogProvider>, &'a [String])> {
    if let Some((first, rest)) = name.split_first()
        && !rest.is_empty()
        && registered(context, first).is_some()
    {
        return Some((iceberg(context, first)?, rest));
    }
    Some((iceberg(context, &defaults(context).0)?, name))
}

/// A table's place: `[catalog.]namespace.table`, or `table` in the session's default schema; `None` if it
/// is in no Iceberg catalog.
pub(super) fn table_of(context: &SessionContext, name: &[String]) -> Option<Place> {
    let (provider, schema, table) = match name {
        [] => return None,
        [table] => {
            let (catalog, schema) = defaults(context);
            (iceberg(context, &catalog)?, schema, table)
        }
        // As everywhere in DataFusion, two parts are a schema and a table.
        [schema, table] => (iceberg(context, &defaults(context).0)?, schema.clone(), table),
        [.., table] => {
            let (provider, rest) = split(context, name)?;
            let (_, levels) = rest.split_last()?;
            (provider, levels.join("."), table)
        }
    };
    Some(Place { provider, schema, table: table.clone() })
}

/// A namespace's place: `[catalog.]namespace`; `None` if it is in no Iceberg catalog.
pub(super) fn namespace_of(context: &SessionContext, name: &[String]) -> Option<Place> {
    let (provider, levels) = split(context, name)?;
    Some(Place { provider, schema: levels.join("."), table: String::new() })
}

/// The catalog of a procedure: `[catalog.]system.name`.
pub(super) fn ddl_catalog(context: &SessionContext, procedure: &[String]) -> Option<Place> {
    let (provider, rest) = split(context, procedure)?;
    let is_system = matches!(rest, [system, _] if system.eq_ignore_ascii_case("system"));
    is_system.then(|| Place { provider, schema: String::new(), table: String::new() })
}

impl Place {
    pub(super) fn provider(&self) -> Result<&IcebergCatalogProvider> {
        let provider = self.provider.downcast_ref::<IcebergCatalogProvider>();
        provider.ok_or_else(|| Error::invalid("a catalog that is not Iceberg's").into())
    }

    pub(super) fn catalog(&self) -> Result<&Arc<dyn Catalog>> {
        Ok(self.provider()?.catalog())
    }

    /// The namespace's name.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// The namespace; `None` if there is no such.
    pub(super) async fn namespace(&self) -> Result<Option<Namespace>> {
        Ok(self.provider()?.find_namespace(&self.schema).await?)
    }

    /// The table's or view's name in the catalog.
    ///
    /// # Errors
    /// `NotFound` if there is no such namespace.
    pub(super) async fn ident(&self) -> Result<TableIdent> {
        let Some(namespace) = self.namespace().await? else {
            let catalog = self.catalog()?.name();
            return Err(Error::not_found(format!("namespace `{catalog}.{}`", self.schema)).into());
        };
        Ok(TableIdent::new(namespace, self.table.clone())?)
    }

    /// Another table of the catalog, by a name that may lack this one's namespace.
    ///
    /// # Errors
    /// `Unsupported` for one of another catalog.
    pub(super) fn beside(&self, context: &SessionContext, name: &[String]) -> Result<Self> {
        if let [table] = name {
            return Ok(Self { table: table.clone(), ..self.clone() });
        }
        let other = table_of(context, name).filter(|other| Arc::ptr_eq(&other.provider, &self.provider));
        other.ok_or_else(|| {
            Error::unsupported(format!("`{}` is not in the same catalog", name.join("."))).into()
        })
    }

    /// A table of the catalog: `namespace.table`, with or without the catalog's name before it.
    ///
    /// # Errors
    /// `DataInvalid` without a namespace.
    pub(super) fn table_in(&self, context: &SessionContext, name: &[String]) -> Result<Self> {
        let is_this = |catalog: &str| {
            iceberg(context, catalog).is_some_and(|provider| Arc::ptr_eq(&provider, &self.provider))
        };
        let name = match name {
            [catalog, rest @ ..] if rest.len() > 1 && is_this(catalog) => rest,
            name => name,
        };
        match name {
            [levels @ .., table] if !levels.is_empty() => {
                Ok(Self { schema: levels.join("."), table: table.clone(), ..self.clone() })
            }
            _ => Err(Error::invalid(format!("`{}`: name the table's namespace too", name.join("."))).into()),
        }
    }
}
