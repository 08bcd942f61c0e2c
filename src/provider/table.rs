//! A table at one of its snapshots as a `TableProvider`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::lit;

use crate::arrow::{to_arrow_field, to_predicate, value_to_scalar};
use crate::catalog::Catalog;
use crate::error::{Error, Result, ResultExt};
use crate::exec::{ScanRequest, build_scan, provider_schema};
use crate::expr::{Predicate, decided_by_partition};
use crate::metadata_table::{MetadataTable, MetadataTableKind};
use crate::spec::{MAIN_BRANCH, RefType, Schema, Selection, SnapshotSelector};
use crate::table::{OpenOptions, Table};
use crate::write::{InsertMode, InsertTarget, Observer, plan_insert};

use super::scan_plan::{Planned, Wanted, plan_scan};

/// An Iceberg table, at its current snapshot or at an earlier one, to be registered in a
/// `SessionContext`.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use datafusion::prelude::SessionContext;
/// use icefloe::IcebergTable;
///
/// let ctx = SessionContext::new();
/// let table = IcebergTable::open("warehouse/db/events").await?;
/// ctx.register_table("events", Arc::new(table))?;
/// ctx.sql("SELECT count(*) FROM events").await?.show().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct IcebergTable {
    table: Table,
    selection: Selection,
    schema: SchemaRef,
    metadata_columns: bool,
    /// Where the table's changes go; `None` for one that can only be read.
    writes: Option<Writes>,
    /// The values of columns that an INSERT does not name.
    defaults: Arc<HashMap<String, Expr>>,
}

/// The catalog of a table.
#[derive(Clone)]
struct Writes {
    catalog: Arc<dyn Catalog>,
    /// Is told of the table after a change.
    observer: Observer,
    /// The branch that changes are committed to; `main` if `None`.
    branch: Option<String>,
}

impl Debug for Writes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Writes").field(&self.catalog.name()).finish()
    }
}

impl IcebergTable {
    /// Opens the table that lies in a directory (`…/db/t`) or whose metadata file is given
    /// (`…/metadata/v3.metadata.json`); a path or a URL.
    ///
    /// # Errors
    /// `NotFound` where there is no table, `DataInvalid` for broken metadata, `Io`.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, &OpenOptions::default()).await
    }

    /// [`IcebergTable::open`] with options: store credentials, moved tables, a shared cache.
    ///
    /// # Errors
    /// As [`IcebergTable::open`].
    pub async fn open_with(url: &str, options: &OpenOptions) -> Result<Self> {
        Self::try_new(Table::open(url, options).await?)
    }

    /// The table's current snapshot.
    ///
    /// # Errors
    /// `DataInvalid` where the schema has no counterpart in Arrow.
    pub fn try_new(table: Table) -> Result<Self> {
        Self::select(table, &SnapshotSelector::Current, false)
    }

    /// The current snapshot of a table that is changed through its catalog.
    pub(crate) fn of_catalog(table: Table, catalog: Arc<dyn Catalog>, observer: Observer) -> Result<Self> {
        let defaults = write_defaults(table.metadata().current_schema())?;
        let writes = Some(Writes { catalog, observer, branch: None });
        Ok(Self { writes, defaults: Arc::new(defaults), ..Self::try_new(table)? })
    }

    /// The same table at another snapshot, which can only be read.
    ///
    /// # Errors
    /// `NotFound` for a snapshot, reference or time that the table does not have; the message
    /// lists what it has. `Unsupported` if it has to be looked for among snapshots that were not
    /// loaded; see [`IcebergTable::with_all_snapshots`].
    pub fn at(&self, selector: &SnapshotSelector) -> Result<Self> {
        Self::select(self.table.clone(), selector, self.metadata_columns)
    }

    /// The same table at the head of a branch, to which changes are committed too. With `create`, one that
    /// does not exist begins at the head of `main` with the first commit.
    ///
    /// # Errors
    /// `NotFound` without the branch; `DataInvalid` for a tag.
    pub(crate) fn on_branch(&self, name: &str, create: bool) -> Result<Self> {
        let place = || format!("table {}", self.table.name());
        let read = match self.table.metadata().refs.get(name) {
            None if create => self.clone(),
            Some(reference) if reference.ref_type != RefType::Branch => {
                return Err(Error::invalid(format!("`{name}` is a tag, not a branch")).context(place()));
            }
            _ => self.at(&SnapshotSelector::Ref(name.to_owned()))?,
        };
        let writes = self.writes.clone().map(|writes| Writes { branch: Some(name.to_owned()), ..writes });
        Ok(Self { writes, defaults: Arc::clone(&self.defaults), ..read })
    }

    /// The same table with all of its snapshots, which history needs; see
    /// [`Table::with_all_snapshots`].
    ///
    /// # Errors
    /// As [`Table::with_all_snapshots`].
    pub async fn with_all_snapshots(&self) -> Result<Self> {
        Ok(Self { table: self.table.with_all_snapshots().await?, ..self.clone() })
    }

    /// The same table with its metadata columns ([`METADATA_COLUMNS`](crate::METADATA_COLUMNS))
    /// after its own; `SELECT *` then shows them too.
    ///
    /// # Errors
    /// As [`IcebergTable::try_new`].
    pub fn with_metadata_columns(&self) -> Result<Self> {
        let schema = provider_schema(&self.table, &self.selection.schema, true)?;
        Ok(Self { schema, metadata_columns: true, ..self.clone() })
    }

    /// One of its metadata tables; those that show one snapshot show the one that is read here.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use datafusion::prelude::SessionContext;
    /// use icefloe::{IcebergTable, MetadataTableKind};
    ///
    /// let table = IcebergTable::open("warehouse/db/events").await?;
    /// let files = table.metadata_table(MetadataTableKind::Files)?;
    /// SessionContext::new().read_table(Arc::new(files))?.show().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`MetadataTable::try_new`].
    pub fn metadata_table(&self, kind: MetadataTableKind) -> Result<MetadataTable> {
        MetadataTable::try_new(self.table.clone(), self.selection.snapshot.clone(), kind)
    }

    /// The table behind it.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The snapshot and schema that are read.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    fn select(table: Table, selector: &SnapshotSelector, metadata_columns: bool) -> Result<Self> {
        let in_table = || format!("table {}", table.name());
        let selection = table.metadata().select(selector).context(in_table)?;
        let schema = provider_schema(&table, &selection.schema, metadata_columns).context(in_table)?;
        Ok(Self { table, selection, schema, metadata_columns, writes: None, defaults: Arc::default() })
    }

    /// Where a statement's changes go.
    ///
    /// # Errors
    /// `Unsupported` for a table that can only be read.
    pub(super) fn target(&self, statement: &str) -> Result<InsertTarget> {
        let Some(Writes { catalog, observer, branch }) = self.writes.clone() else {
            let message = format!(
                "{statement}: it was opened by its location or as a version, which can only be read; \
                 write to the table of a catalog"
            );
            return Err(Error::unsupported(message).context(format!("table {}", self.table.name())));
        };
        let branch = branch.unwrap_or_else(|| MAIN_BRANCH.to_owned());
        let (table, snapshot) = (self.table.clone(), self.selection.snapshot.clone());
        Ok(InsertTarget { table, catalog, observer, branch, snapshot })
    }

    fn read_schema(&self) -> &Arc<Schema> {
        &self.selection.schema
    }

    /// Whether every spec of the table decides the filter by its partition values alone.
    fn is_exact(&self, filter: &Expr) -> bool {
        let converted = to_predicate(filter, self.read_schema());
        let specs = &self.table.metadata().partition_specs;
        let schema = self.read_schema();
        converted.exact
            && specs.iter().all(|(id, spec)| {
                // Tuples have the table's types; an older schema may have had others, and values
                // of different types decide nothing.
                let same_types =
                    self.table.partition_type(*id).is_ok_and(|t| *t == spec.partition_type(schema));
                same_types && decided_by_partition(&converted.predicate, spec, schema)
            })
    }

    async fn plan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.read_schema();
        let filter = Predicate::and(filters.iter().map(|f| to_predicate(f, schema).predicate));
        let started = Instant::now();
        let names = |indices: &mut dyn Iterator<Item = usize>| -> Vec<String> {
            indices.filter_map(|i| self.schema.fields().get(i)).map(|f| f.name().clone()).collect()
        };
        let projection = match projection {
            Some(indices) => names(&mut indices.iter().copied()),
            None => names(&mut (0..self.schema.fields().len())),
        };
        let filter_columns: Vec<String> =
            filters.iter().flat_map(|f| f.column_refs()).map(|c| c.name.clone()).collect();
        let wanted = Wanted {
            selection: &self.selection,
            filter: &filter,
            columns: projection.iter().chain(&filter_columns).collect(),
        };
        let Planned { table, plan, .. } = plan_scan(&self.table, &wanted).await?;
        let request = ScanRequest {
            table: &table,
            snapshot_id: self.selection.snapshot.as_ref().map(|s| s.snapshot_id),
            schema: Arc::clone(schema),
            projection,
            filter_columns,
            filter,
            planning: started.elapsed(),
            limit,
        };
        build_scan(&request, plan, session)
    }
}

/// The write defaults of the columns that have one (spec, "Default values").
fn write_defaults(schema: &Schema) -> Result<HashMap<String, Expr>> {
    let mut defaults = HashMap::new();
    for field in schema.fields() {
        if let Some(value) = &field.write_default {
            let data_type = to_arrow_field(field)?.data_type().clone();
            let scalar = value_to_scalar(Some(value), &field.field_type, &data_type)?;
            defaults.insert(field.name.clone(), lit(scalar));
        }
    }
    Ok(defaults)
}

/// DataFusion's hooks get conditions that it found in an optimized plan, in which some are lost: nothing
/// is changed by them.
fn not_taught(statement: &str, table: &Table) -> DataFusionError {
    let message = format!(
        "{statement} in a session that does not know Iceberg's; call `icefloe::sql::register` on it, or use \
         `iceberg_sql`"
    );
    Error::unsupported(message).context(format!("table {}", table.name())).into()
}

#[async_trait]
impl TableProvider for IcebergTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        None
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let planned = self.plan(state, projection, filters, limit).await;
        Ok(planned.map_err(|e| e.context(format!("table {}", self.table.name())))?)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        // What the server planned is taken for no more than files that may match.
        let planned_here = self.table.scan_service().is_none();
        let answer = |filter: &&Expr| match planned_here && self.is_exact(filter) {
            true => TableProviderFilterPushDown::Exact,
            // Inexact even where nothing can be pruned: the scan has to know what is read.
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(answer).collect())
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let place = || format!("table {}", self.table.name());
        let mode = match operation {
            InsertOp::Append => InsertMode::Append,
            InsertOp::Overwrite => InsertMode::Overwrite,
            InsertOp::Replace => {
                let message = "REPLACE INTO: Iceberg has no keys to replace rows by; use INSERT OVERWRITE";
                return Err(Error::unsupported(message).context(place()).into());
            }
        };
        Ok(plan_insert(self.target("INSERT")?, input, mode)?)
    }

    async fn delete_from(&self, _: &dyn Session, _: Vec<Expr>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Err(not_taught("DELETE", &self.table))
    }

    async fn update(
        &self,
        _: &dyn Session,
        _: Vec<(String, Expr)>,
        _: Vec<Expr>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Err(not_taught("UPDATE", &self.table))
    }
}
