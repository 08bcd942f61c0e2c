//! Names of metadata tables: `t$files`, and `db.t.files` as Spark writes it.
//!
//! While a statement that has such names is planned, its session's catalogs are seen through
//! [`Catalogs`], whose schemas have `t$files` for each Iceberg table `t`. A name with dots is
//! rewritten to that form if it is no table's and the part before its last dot is an Iceberg
//! table's.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, TableAlias, TableFactor, VisitorMut};

use super::parse::visit;
use crate::error::Error;
use crate::metadata_table::MetadataTableKind;
use crate::provider::IcebergTable;

/// Makes `state` know the metadata tables that a statement names, and the statement name them as
/// `state` does.
pub(super) async fn resolve(state: &mut SessionState, statement: &mut Statement) -> Result<()> {
    let normalizer = IdentNormalizer::new(state.config_options().sql_parser.enable_ident_normalization);
    let mut names = Names { normalizer: &normalizer, found: HashSet::new() };
    each_relation(statement, &mut names);
    if names.found.is_empty() {
        return Ok(());
    }
    let mut dotted = HashMap::new();
    for parts in names.found {
        if let Some(name) = of_dotted(state, &parts).await? {
            dotted.insert(parts, name);
        }
    }
    let catalogs = Catalogs(Arc::clone(state.catalog_list()));
    state.register_catalog_list(Arc::new(catalogs));
    if !dotted.is_empty() {
        each_relation(statement, &mut Rewrite { normalizer: &normalizer, dotted });
    }
    Ok(())
}

fn each_relation(statement: &mut Statement, visitor: &mut impl VisitorMut<Break = ()>) {
    let mut next = &mut *statement;
    while let Statement::Explain(explain) = next {
        next = &mut explain.statement;
    }
    // The visitors never break off.
    let _ = match next {
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Relation(name) => visitor.pre_visit_relation(name),
            CopyToSource::Query(_) => visit(next, visitor),
        },
        _ => visit(next, visitor),
    };
}

/// The name of a metadata table with its last dot as `$`; `None` if the parts don't name one.
async fn of_dotted(state: &SessionState, parts: &[String]) -> Result<Option<Vec<String>>> {
    let Some((last, table)) = parts.split_last() else { return Ok(None) };
    let (Some(kind), Some((name, qualifiers))) = (MetadataTableKind::parse(last), table.split_last()) else {
        return Ok(None);
    };
    // A table that is really called so goes first.
    if find(state, parts).await?.is_some() {
        return Ok(None);
    }
    let found = find(state, table).await?;
    let is_iceberg = found.is_some_and(|table| table.downcast_ref::<IcebergTable>().is_some());
    let name = [format!("{name}${kind}")];
    Ok(is_iceberg.then(|| qualifiers.iter().cloned().chain(name).collect()))
}

async fn find(state: &SessionState, parts: &[String]) -> Result<Option<Arc<dyn TableProvider>>> {
    let reference = match parts {
        [table] => TableReference::bare(table.as_str()),
        [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
        [catalog, schema, table] => TableReference::full(catalog.as_str(), schema.as_str(), table.as_str()),
        _ => return Ok(None),
    };
    let Ok(schema) = state.schema_for_ref(reference.clone()) else { return Ok(None) };
    schema.table(reference.table()).await
}

/// The parts of a name as the session means them; `None` for names that are computed.
fn parts(name: &ObjectName, normalizer: &IdentNormalizer) -> Option<Vec<String>> {
    name.0.iter().map(|part| Some(normalizer.normalize(part.as_ident()?.clone()))).collect()
}

/// Collects the names that may mean metadata tables: few statements have any.
struct Names<'a> {
    normalizer: &'a IdentNormalizer,
    found: HashSet<Vec<String>>,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let Some(parts) = parts(relation, self.normalizer)
            && let Some((last, before)) = parts.split_last()
            && (last.contains('$') || !before.is_empty() && MetadataTableKind::parse(last).is_some())
        {
            self.found.insert(parts);
        }
        ControlFlow::Continue(())
    }
}

/// Puts `$` for the last dot.
struct Rewrite<'a> {
    normalizer: &'a IdentNormalizer,
    dotted: HashMap<Vec<String>, Vec<String>>,
}

impl VisitorMut for Rewrite<'_> {
    type Break = ();

    /// Runs before the name in it is visited: a table is called by the last part of its name.
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias: alias @ None, .. } = factor
            && let Some(parts) = parts(name, self.normalizer)
            && self.dotted.contains_key(&parts)
            && let Some(last) = parts.last()
        {
            let name = Ident::with_quote('"', last);
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let Some(parts) = parts(relation, self.normalizer)
            && let Some(name) = self.dotted.get(&parts)
        {
            *relation = ObjectName::from(name.iter().map(|p| Ident::with_quote('"', p)).collect::<Vec<_>>());
        }
        ControlFlow::Continue(())
    }
}

/// Catalogs with metadata tables.
#[derive(Debug)]
struct Catalogs(Arc<dyn CatalogProviderList>);

impl CatalogProviderList for Catalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.0.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.0.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        Some(Arc::new(OneCatalog(self.0.catalog(name)?)))
    }
}

#[derive(Debug)]
struct OneCatalog(Arc<dyn CatalogProvider>);

impl CatalogProvider for OneCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.0.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(OneSchema(self.0.schema(name)?)))
    }
}

#[derive(Debug)]
struct OneSchema(Arc<dyn SchemaProvider>);

#[async_trait]
impl SchemaProvider for OneSchema {
    fn table_names(&self) -> Vec<String> {
        self.0.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.0.table(name).await? {
            return Ok(Some(table));
        }
        let Some((of, kind)) = name.rsplit_once('$').filter(|(of, _)| !of.is_empty()) else {
            return Ok(None);
        };
        let Some(table) = self.0.table(of).await? else { return Ok(None) };
        let Some(table) = table.downcast_ref::<IcebergTable>() else { return Ok(None) };
        let kind = MetadataTableKind::parse(kind).ok_or_else(|| {
            let known = MetadataTableKind::ALL.map(MetadataTableKind::name).join(", ");
            Error::not_found(format!("there is no metadata table `{kind}`; there are: {known}"))
                .context(format!("table {of}"))
        })?;
        Ok(Some(Arc::new(table.metadata_table(kind)?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        let of = MetadataTableKind::split(name).map(|(table, _)| table);
        self.0.table_exist(name) || of.is_some_and(|of| self.0.table_exist(of))
    }
}
