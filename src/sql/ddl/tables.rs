//! Tables and views come and go.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, WriteOp};
use datafusion::prelude::SessionContext;

use super::places::{Place, table_of};
use super::properties;
use super::values::{default_value, with_ids};
use crate::arrow::from_arrow_schema_fresh_ids;
use crate::catalog::{TableCreation, TableIdent};
use crate::error::{Error, ErrorKind};
use crate::provider::IcebergTable;
use crate::spec::{FieldId, NestedField, PartitionField, PartitionSpec, Schema, SchemaId, SpecId, Transform};
use crate::sql::statement::{CreateTable, PartitionTerm};

/// The first id of a partition field (spec, "Partition Specs").
const FIRST_PARTITION_FIELD: i32 = 1000;

pub(super) fn place(context: &SessionContext, name: &[String]) -> Result<Place> {
    let place = table_of(context, name);
    place.ok_or_else(|| Error::not_found(format!("an Iceberg catalog for `{}`", name.join("."))).into())
}

/// What CREATE TABLE AS gives: how many rows there are.
pub(super) fn count_columns() -> Vec<Field> {
    vec![Field::new("count", DataType::UInt64, false)]
}

/// Where the table is to be; `None` if there is one and that is fine.
async fn free_place(create: &CreateTable, place: &Place) -> Result<Option<TableIdent>> {
    let ident = place.ident().await?;
    let catalog = place.catalog()?;
    let exists = catalog.table_exists(&ident).await?;
    let called = || format!("table {}.{ident}", catalog.name());
    match (exists, create.create) {
        (true, _) if create.if_not_exists => Ok(None),
        (true, _) if create.replace => {
            let message = "replacing a table that exists: use INSERT OVERWRITE for its rows and ALTER TABLE for \
                           its columns, or drop it first";
            Err(Error::unsupported(message).context(called()).into())
        }
        (true, _) => Err(Error::new(ErrorKind::AlreadyExists, "it exists").context(called()).into()),
        (false, false) => Err(Error::not_found("there is no such table").context(called()).into()),
        (false, true) => Ok(Some(ident)),
    }
}

pub(super) async fn create(context: &SessionContext, create: &CreateTable) -> Result<()> {
    let place = place(context, &create.name)?;
    let Some(ident) = free_place(create, &place).await? else { return Ok(()) };
    let schema = schema(context, create)?;
    match place.catalog()?.create_table(&ident, creation(create, schema)?).await {
        // Somebody was faster.
        Err(e) if e.kind() == ErrorKind::AlreadyExists && create.if_not_exists => {}
        created => {
            created?;
        }
    }
    place.provider()?.invalidate(&ident);
    Ok(())
}

/// Creates a table with the rows of a query: all of it is there at once, or nothing.
pub(super) async fn create_as(
    context: &SessionContext,
    create: &CreateTable,
    query: &LogicalPlan,
) -> Result<DataFrame> {
    let place = place(context, &create.name)?;
    let Some(ident) = free_place(create, &place).await? else {
        return context.execute_logical_plan(LogicalPlanBuilder::empty(false).build()?).await;
    };
    if !create.columns.is_empty() {
        let message = "CREATE TABLE … AS with columns: the query says which there are";
        return Err(Error::unsupported(message).into());
    }
    // Its types are known once it is analyzed.
    let is_new = |version: &String| version.parse().is_ok_and(|version: u8| version >= 3);
    let has_nanoseconds = create.properties.get("format-version").is_some_and(is_new);
    let query = in_types_of_tables(context.state().optimize(query)?, has_nanoseconds)?;
    let schema = from_arrow_schema_fresh_ids(query.schema().as_arrow(), SchemaId(0))?;
    // That these rows have no nulls does not mean that later ones may not.
    let optional = |field: &NestedField| NestedField { required: false, ..field.clone() };
    let schema = Schema::new(SchemaId(0), schema.fields().iter().map(optional).collect(), Vec::new())?;
    let catalog = Arc::clone(place.catalog()?);
    let staged = catalog.stage_table(&ident, creation(create, schema)?).await?;
    let target = IcebergTable::of_catalog(staged, catalog, Arc::new(|_| {}))?;
    let insert = DmlStatement::new(
        TableReference::full(place.catalog()?.name(), place.schema(), ident.name()),
        provider_as_source(Arc::new(target)),
        WriteOp::Insert(InsertOp::Append),
        Arc::new(query),
    );
    let inserted = match context.execute_logical_plan(LogicalPlan::Dml(insert)).await?.collect().await {
        Err(e) if create.if_not_exists && is_kind(&e, ErrorKind::AlreadyExists) => {
            // Somebody was faster.
            return context.execute_logical_plan(LogicalPlanBuilder::empty(false).build()?).await;
        }
        inserted => inserted?,
    };
    place.provider()?.invalidate(&ident);
    context.read_batches(inserted)
}

/// The rows of a query in types that every table can have: DataFusion's timestamps have nanoseconds
/// unless told otherwise, its counts are unsigned.
fn in_types_of_tables(query: LogicalPlan, has_nanoseconds: bool) -> Result<LogicalPlan> {
    let wanted = |given: &DataType| match given {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) if !has_nanoseconds => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        DataType::UInt64 => Some(DataType::Int64),
        _ => None,
    };
    if !query.schema().fields().iter().any(|field| wanted(field.data_type()).is_some()) {
        return Ok(query);
    }
    let mut columns = Vec::new();
    for (column, field) in query.schema().columns().into_iter().zip(query.schema().fields()) {
        let column = Expr::Column(column);
        columns.push(match wanted(field.data_type()) {
            Some(data_type) => column.cast_to(&data_type, query.schema())?.alias(field.name()),
            None => column,
        });
    }
    LogicalPlanBuilder::from(query).project(columns)?.build()
}

fn creation(create: &CreateTable, schema: Schema) -> Result<TableCreation> {
    properties::check(&create.properties)?;
    create.location.as_deref().map(properties::check_location).transpose()?;
    let key = create.key.iter().map(|name| Ok(column(&schema, name)?.id));
    let key = key.collect::<Result<Vec<_>>>()?;
    let schema = Schema::new(schema.schema_id, schema.fields().to_vec(), key)?;
    let mut fields = Vec::with_capacity(create.partitioned_by.len());
    for (id, term) in (FIRST_PARTITION_FIELD..).zip(&create.partitioned_by) {
        fields.push(PartitionField {
            source_ids: vec![column(&schema, &term.source)?.id],
            field_id: FieldId(id),
            name: partition_name(term),
            transform: term.transform.clone(),
            extra: Default::default(),
        });
    }
    let partition_spec = (!fields.is_empty()).then_some(PartitionSpec { spec_id: SpecId(0), fields });
    Ok(TableCreation {
        partition_spec,
        location: create.location.clone(),
        properties: create.properties.clone(),
        ..TableCreation::new(schema)
    })
}

/// As Java names them.
fn partition_name(term: &PartitionTerm) -> String {
    let source = &term.source;
    match term.transform {
        Transform::Bucket(_) => format!("{source}_bucket"),
        Transform::Truncate(_) => format!("{source}_trunc"),
        Transform::Year => format!("{source}_year"),
        Transform::Month => format!("{source}_month"),
        Transform::Day => format!("{source}_day"),
        Transform::Hour => format!("{source}_hour"),
        _ => source.clone(),
    }
}

fn column<'a>(schema: &'a Schema, name: &str) -> Result<&'a NestedField> {
    let field = schema.field_by_full_name(name);
    field.ok_or_else(|| {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name.as_str()).collect();
        Error::not_found(format!("column `{name}`; there are {}", names.join(", "))).into()
    })
}

fn schema(context: &SessionContext, create: &CreateTable) -> Result<Schema> {
    let mut fields = Vec::with_capacity(create.columns.len());
    let mut next = i32::try_from(create.columns.len()).unwrap_or(i32::MAX).saturating_add(1);
    for (id, column) in (1..).zip(&create.columns) {
        let name = column.name.join(".");
        let default = match &column.default {
            Some(expr) => default_value(context, expr, &name, &column.column_type)?,
            None => None,
        };
        fields.push(NestedField {
            id: FieldId(id),
            required: column.required,
            doc: column.doc.clone(),
            initial_default: default.clone(),
            write_default: default,
            ..NestedField::optional(id, name, with_ids(&column.column_type, &mut next))
        });
    }
    Ok(Schema::new(SchemaId(0), fields, Vec::new())?)
}

pub(super) async fn drop(
    context: &SessionContext,
    name: &[String],
    if_exists: bool,
    purge: bool,
) -> Result<()> {
    let place = place(context, name)?;
    let ident = match place.ident().await {
        Err(e) if if_exists && is_missing(&e) => return Ok(()),
        ident => ident?,
    };
    let catalog = place.catalog()?;
    match catalog.drop_table(&ident, purge).await {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            if let Ok(view) = catalog.load_view(&ident).await {
                let message = format!("`{}` is a view; use DROP VIEW", view.ident);
                return Err(Error::invalid(message).into());
            }
            if !if_exists {
                return Err(e.into());
            }
        }
        dropped => dropped?,
    }
    place.provider()?.invalidate(&ident);
    Ok(())
}

pub(super) async fn drop_view(context: &SessionContext, name: &[String], if_exists: bool) -> Result<()> {
    let place = place(context, name)?;
    let ident = match place.ident().await {
        Err(e) if if_exists && is_missing(&e) => return Ok(()),
        ident => ident?,
    };
    let catalog = place.catalog()?;
    match catalog.drop_view(&ident).await {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            if catalog.table_exists(&ident).await? {
                return Err(Error::invalid(format!("`{ident}` is a table; use DROP TABLE")).into());
            }
            if if_exists { Ok(()) } else { Err(e.into()) }
        }
        dropped => Ok(dropped?),
    }
}

fn is_missing(e: &DataFusionError) -> bool {
    is_kind(e, ErrorKind::NotFound)
}

fn is_kind(e: &DataFusionError, kind: ErrorKind) -> bool {
    Error::find_in(e).is_some_and(|e| e.kind() == kind)
}
