//! Names of metadata tables, branches and tags: `t$files`, `t$branch_audit`, and `db.t.files`,
//! `db.t.branch_audit` as Spark writes them.
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
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Statement as SqlStatement, TableAlias, TableFactor, TableObject, VisitorMut,
};

use super::parse::{Ctes, visit};
use crate::error::Error;
use crate::metadata_table::MetadataTableKind;
use crate::provider::IcebergTable;
use crate::spec::{SnapshotSelector, TableProperties};

/// Makes `state` know the metadata tables that a statement names, and the statement name them as
/// `state` does. If it names versions, tables come with all of their snapshots.
pub(super) async fn resolve(
    state: &mut SessionState,
    statement: &mut Statement,
    versioned: bool,
) -> Result<()> {
    let normalizer = IdentNormalizer::new(state.config_options().sql_parser.enable_ident_normalization);
    let (mut candidates, mut audited) = (HashSet::new(), HashMap::new());
    each_table(statement, &mut |name, _| {
        candidates.extend(parts(name, &normalizer).filter(|parts| is_candidate(parts)));
    });
    let wap = state.config().get_extension::<WapBranch>();
    if let Some(branch) = wap.as_ref().and_then(|wap| wap.0.as_deref()) {
        // Tables that are audited before they are published are read and changed at that branch.
        let mut tables = HashSet::new();
        each_table(statement, &mut |name, _| tables.extend(parts(name, &normalizer)));
        let ctes = Ctes::of(statement, &normalizer);
        for parts in tables {
            let name = nested(state, &parts).await?.unwrap_or_else(|| parts.clone());
            let table = find(state, &name).await?;
            if !table.as_ref().and_then(|table| table.downcast_ref()).is_some_and(is_audited) {
                continue;
            }
            if let [name] = parts.as_slice()
                && ctes.contains(name)
            {
                let message = format!(
                    "`{name}` is a common table expression, and a table that is audited (`spark.wap.branch`); call \
                     one of them otherwise"
                );
                return Err(Error::unsupported(message).into());
            }
            if let Some((last, before)) = name.split_last() {
                let name = [format!("{last}${WAP_BRANCH}{branch}")];
                audited.insert(parts, before.iter().cloned().chain(name).collect::<Vec<_>>());
            }
        }
    }
    if candidates.is_empty() && audited.is_empty() && !versioned {
        return Ok(());
    }
    let mut dotted = audited;
    for parts in candidates {
        let nested = nested(state, &parts).await?;
        let found = match of_dotted(state, nested.as_ref().unwrap_or(&parts)).await? {
            Some(name) => Some(name),
            None => nested,
        };
        if let Some(name) = found {
            dotted.entry(parts).or_insert(name);
        }
    }
    let catalogs = Catalogs { catalogs: Arc::clone(state.catalog_list()), versioned };
    state.register_catalog_list(Arc::new(catalogs));
    each_table(statement, &mut |name, alias| {
        let Some(parts) = parts(name, &normalizer) else { return };
        let Some(found) = dotted.get(&parts) else { return };
        *name = ObjectName::from(found.iter().map(|p| Ident::with_quote('"', p)).collect::<Vec<_>>());
        // A table is called by the last part of its name.
        if let (Some(alias @ None), Some(last)) = (alias, parts.last()) {
            let name = Ident::with_quote('"', last);
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
    });
    Ok(())
}

/// The branch that tables with `write.wap.enabled` are read and changed at, if there is one: Spark's
/// `spark.wap.branch`.
#[derive(Debug)]
pub(super) struct WapBranch(pub(super) Option<String>);

fn is_audited(table: &IcebergTable) -> bool {
    TableProperties::new(&table.table().metadata().properties).wap_enabled().unwrap_or_default()
}

/// What names of branches, of tags, and of branches that may not exist yet begin with.
const BRANCH: &str = "branch_";
const TAG: &str = "tag_";
const WAP_BRANCH: &str = "wap_branch_";

/// A table at a branch or tag; `None` for other names.
fn at_reference(table: &IcebergTable, name: &str) -> Option<crate::error::Result<IcebergTable>> {
    if let Some(branch) = name.strip_prefix(BRANCH) {
        return Some(table.on_branch(branch, false));
    }
    if let Some(branch) = name.strip_prefix(WAP_BRANCH) {
        return Some(table.on_branch(branch, true));
    }
    let tag = name.strip_prefix(TAG)?;
    Some(table.at(&SnapshotSelector::Ref(tag.to_owned())))
}

fn is_reference(name: &str) -> bool {
    [BRANCH, TAG].iter().any(|prefix| name.starts_with(prefix))
}

/// Shows a visitor the tables that a statement reads, describes or changes; not those that it makes or
/// drops.
fn each_table(
    statement: &mut Statement,
    visitor: &mut dyn FnMut(&mut ObjectName, Option<&mut Option<TableAlias>>),
) {
    let mut next = &mut *statement;
    while let Statement::Explain(explain) = next {
        next = &mut explain.statement;
    }
    if let Statement::CopyTo(copy) = next
        && let CopyToSource::Relation(name) = &mut copy.source
    {
        visitor(name, None);
    }
    // It never breaks off.
    let _ = visit(next, &mut Tables(visitor));
}

struct Tables<'a>(&'a mut dyn FnMut(&mut ObjectName, Option<&mut Option<TableAlias>>));

impl VisitorMut for Tables<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor {
            (self.0)(name, Some(alias));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        match statement {
            SqlStatement::ExplainTable { table_name, .. } => (self.0)(table_name, None),
            SqlStatement::Truncate(truncate) => {
                for target in &mut truncate.table_names {
                    (self.0)(&mut target.name, None);
                }
            }
            SqlStatement::Insert(insert) => {
                if let TableObject::TableName(name) = &mut insert.table {
                    (self.0)(name, None);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// A name with the levels of a nested namespace as one part, if there is such a table; for a metadata
/// table of one, that is the last part of five or more.
async fn nested(state: &SessionState, parts: &[String]) -> Result<Option<Vec<String>>> {
    let [catalog, levels @ .., table] = parts else { return Ok(None) };
    if levels.len() < 2 {
        return Ok(None);
    }
    let name = vec![catalog.clone(), levels.join("."), table.clone()];
    if find(state, &name).await?.is_some() {
        return Ok(Some(name));
    }
    let [levels @ .., of] = levels else { return Ok(None) };
    let name = vec![catalog.clone(), levels.join("."), of.clone()];
    let found = levels.len() > 1 && find(state, &name).await?.is_some();
    Ok(found.then(|| name.into_iter().chain([table.clone()]).collect()))
}

/// The name of a metadata table with its last dot as `$`; `None` if the parts don't name one.
async fn of_dotted(state: &SessionState, parts: &[String]) -> Result<Option<Vec<String>>> {
    let Some((last, table)) = parts.split_last() else { return Ok(None) };
    let suffix = match MetadataTableKind::parse(last) {
        Some(kind) => Some(kind.to_string()),
        None => is_reference(last).then(|| last.clone()),
    };
    let (Some(suffix), Some((name, qualifiers))) = (suffix, table.split_last()) else { return Ok(None) };
    // A table that is really called so goes first.
    if find(state, parts).await?.is_some() {
        return Ok(None);
    }
    let found = find(state, table).await?;
    let is_iceberg = found.is_some_and(|table| table.downcast_ref::<IcebergTable>().is_some());
    let name = [format!("{name}${suffix}")];
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

/// Whether a name may be that of a metadata table: few are.
fn is_candidate(parts: &[String]) -> bool {
    parts.split_last().is_some_and(|(last, before)| {
        last.contains('$')
            || before.len() > 2
            || !before.is_empty() && (MetadataTableKind::parse(last).is_some() || is_reference(last))
    })
}

/// Catalogs with metadata tables.
#[derive(Debug)]
struct Catalogs {
    catalogs: Arc<dyn CatalogProviderList>,
    versioned: bool,
}

impl CatalogProviderList for Catalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.catalogs.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.catalogs.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let catalog = self.catalogs.catalog(name)?;
        Some(Arc::new(OneCatalog { catalog, versioned: self.versioned }))
    }
}

#[derive(Debug)]
struct OneCatalog {
    catalog: Arc<dyn CatalogProvider>,
    versioned: bool,
}

impl CatalogProvider for OneCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.catalog.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let schema = self.catalog.schema(name)?;
        Some(Arc::new(OneSchema { schema, versioned: self.versioned }))
    }
}

#[derive(Debug)]
struct OneSchema {
    schema: Arc<dyn SchemaProvider>,
    /// Whether versions of its tables may be wanted.
    versioned: bool,
}

#[async_trait]
impl SchemaProvider for OneSchema {
    fn table_names(&self) -> Vec<String> {
        self.schema.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.schema.table(name).await? {
            let partial = table.downcast_ref::<IcebergTable>().filter(|t| !t.table().has_all_snapshots());
            return Ok(Some(match partial.filter(|_| self.versioned) {
                Some(partial) => Arc::new(partial.with_all_snapshots().await?),
                None => table,
            }));
        }
        let reference = name.split_once('$').filter(|(_, of)| is_reference(of) || of.starts_with(WAP_BRANCH));
        let Some((of, kind)) = reference.or(name.rsplit_once('$')).filter(|(of, _)| !of.is_empty()) else {
            return Ok(None);
        };
        let Some(table) = self.schema.table(of).await? else { return Ok(None) };
        let Some(table) = table.downcast_ref::<IcebergTable>() else { return Ok(None) };
        if let Some(table) = at_reference(table, kind) {
            return Ok(Some(Arc::new(table?)));
        }
        let kind = MetadataTableKind::parse(kind).ok_or_else(|| {
            let known = MetadataTableKind::ALL.map(MetadataTableKind::name).join(", ");
            Error::not_found(format!(
                "there is no metadata table `{kind}`; there are: {known}, branch_NAME and tag_NAME"
            ))
            .context(format!("table {of}"))
        })?;
        // Most are about history.
        Ok(Some(Arc::new(table.with_all_snapshots().await?.metadata_table(kind)?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        let of = MetadataTableKind::split(name).map(|(table, _)| table);
        let of =
            of.or_else(|| name.split_once('$').filter(|(_, of)| is_reference(of)).map(|(table, _)| table));
        self.schema.table_exist(name) || of.is_some_and(|of| self.schema.table_exist(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::FilesystemCatalog;
    use crate::provider::IcebergCatalogProvider;
    use crate::sql::IcebergSql;
    use crate::table::OpenOptions;
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::dataframe::DataFrame;
    use datafusion::prelude::SessionContext;

    /// `testdata` as a catalog, with the namespace `tables`.
    async fn session() -> SessionContext {
        let context = SessionContext::new();
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
        let moved = OpenOptions::new().allow_moved_paths(true);
        let catalog = FilesystemCatalog::new("ice", root, moved).unwrap();
        let provider = IcebergCatalogProvider::try_new(Arc::new(catalog)).await.unwrap();
        context.register_catalog("ice", Arc::new(provider));
        context
    }

    async fn number(frame: Result<DataFrame>) -> i64 {
        let batches = frame.unwrap().collect().await.unwrap();
        batches[0].column(0).as_primitive::<Int64Type>().value(0)
    }

    #[tokio::test]
    async fn catalogs_have_them_whoever_asks() {
        let context = session().await;
        let sql = "SELECT count(*) FROM ice.tables.branches_tags$snapshots";
        assert_eq!(number(context.sql(sql).await).await, 6);
        assert_eq!(number(context.iceberg_sql(sql).await).await, 6);
        let schema = context.catalog("ice").unwrap().schema("tables").unwrap();
        for (name, exists) in [
            ("branches_tags", true),
            ("branches_tags$snapshots", true),
            ("branches_tags$nothing", false),
            ("nothing$snapshots", false),
        ] {
            assert_eq!(schema.table_exist(name), exists, "{name}");
            assert_eq!(schema.table(name).await.unwrap().is_some(), exists, "{name}");
            assert!(!schema.table_names().iter().any(|n| n.contains('$')));
        }
    }

    #[tokio::test]
    async fn dots_are_understood_below_every_default() {
        let context = session().await;
        for from in [
            "ice.tables.branches_tags.snapshots",
            "ICE.Tables.branches_tags.SNAPSHOTS s",
            "\"ice\".\"tables\".\"branches_tags\".\"snapshots\"",
            "ice.tables.branches_tags.snapshots WHERE snapshots.snapshot_id > 0",
        ] {
            assert_eq!(
                number(context.iceberg_sql(&format!("SELECT count(*) FROM {from}")).await).await,
                6,
                "{from}"
            );
        }
        let versioned =
            "SELECT count(*) FROM ice.tables.rollback_time_travel.files VERSION AS OF 4462988853346703124";
        assert_eq!(number(context.iceberg_sql(versioned).await).await, 1);
        for set in ["default_catalog = 'ice'", "default_schema = 'tables'"] {
            context.sql(&format!("SET datafusion.catalog.{set}")).await.unwrap();
        }
        for from in ["tables.branches_tags.snapshots", "branches_tags.snapshots", "branches_tags$snapshots"] {
            assert_eq!(
                number(context.iceberg_sql(&format!("SELECT count(*) FROM {from}")).await).await,
                6,
                "{from}"
            );
        }
        // Neither the session nor its catalogs changed.
        assert!(!context.state().catalog_list().is::<Catalogs>());
        assert!(context.catalog("ice").unwrap().is::<IcebergCatalogProvider>());
    }

    #[tokio::test]
    async fn unknown_names_are_not_found() {
        let context = session().await;
        for (from, want) in [
            ("ice.tables.branches_tags.nothing", "Unsupported compound identifier"),
            ("ice.tables.nothing.files", "Unsupported compound identifier"),
            ("ice.tables.branches_tags$nothing", "there is no metadata table `nothing`"),
            ("ice.tables.nothing$files", "not found"),
            ("\"$files\"", "not found"),
        ] {
            let error = context.iceberg_sql(&format!("SELECT * FROM {from}")).await.unwrap_err();
            assert!(error.to_string().contains(want), "{from}: {error}");
        }
    }
}
