//! `FROM t VERSION AS OF …` and `TIMESTAMP AS OF …`: which snapshot is meant, and its scan; and
//! the scans of tables whose metadata columns are wanted.
//!
//! DataFusion's planner ignores versions where a dialect parses them, and reads current data. This
//! planner answers for every versioned table instead: with the snapshot, or with an error.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::create_physical_expr;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr as SqlExpr, TableFactor, TableVersion, TimezoneInfo, Value, ValueWithSpan,
};

use super::metadata_columns::is_marked;
use crate::spec::{SnapshotId, SnapshotSelector};
use crate::{Error, ErrorKind};

/// A table made from another; `None` if that is not a kind of table that it can be made from.
pub(super) type Made = Option<crate::Result<Arc<dyn TableProvider>>>;

/// What the planner asks of tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables {
    /// The table as it was.
    pub(super) at: fn(&dyn TableProvider, &SnapshotSelector) -> Made,
    /// The table with its metadata columns.
    pub(super) with_metadata_columns: fn(&dyn TableProvider) -> Made,
}

/// Plans every versioned or marked table of a statement.
#[derive(Debug)]
pub(super) struct TimeTravelPlanner {
    tables: Tables,
}

impl TimeTravelPlanner {
    pub(super) fn new(tables: Tables) -> Self {
        Self { tables }
    }

    /// The provider's own errors name the table already.
    fn travel(
        &self,
        table: &dyn TableProvider,
        point: Point,
        name: &TableReference,
    ) -> Result<Arc<dyn TableProvider>> {
        let at = |selector: SnapshotSelector| {
            let no_versions =
                || Error::unsupported("only Iceberg tables have versions").context(format!("table {name}"));
            (self.tables.at)(table, &selector).ok_or_else(no_versions)
        };
        let travelled = match point {
            Point::Id(id) => at(SnapshotSelector::Id(id))?,
            Point::Time(ms) => at(SnapshotSelector::AsOf(ms))?,
            Point::Name(name) => {
                let by_name = at(SnapshotSelector::Ref(name.clone()))?;
                // As in Spark, quotes do not stop a number from being a snapshot's id.
                match (by_name, name.parse().map(SnapshotId)) {
                    (Err(e), Ok(id)) if e.kind() == ErrorKind::NotFound => at(SnapshotSelector::Id(id))?,
                    (by_name, _) => by_name,
                }
            }
        };
        Ok(travelled?)
    }
}

/// Adds a place to an error; to ours without a further layer.
fn within(error: DataFusionError, place: String) -> DataFusionError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => ours.context(place).into(),
            Err(inner) => DataFusionError::External(inner).context(place),
        },
        other => other.context(place),
    }
}

impl RelationPlanner for TimeTravelPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let marked = match &relation {
            TableFactor::Table { with_hints, .. } => is_marked(with_hints),
            _ => false,
        };
        let TableFactor::Table { name, alias, args, version, sample, .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        if version.is_none() && !marked {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let (name, alias, version) = (name.clone(), alias.clone(), version.clone());
        let reference = context.object_name_to_table_reference(name)?;
        let place = |e: DataFusionError| within(e, format!("table {reference}"));
        if args.is_some() {
            return Err(place(Error::unsupported("a version of a table function").into()));
        }
        if sample.is_some() {
            return Err(place(Error::unsupported("TABLESAMPLE of a version").into()));
        }
        let point = version.map(|v| Point::of(v, context)).transpose().map_err(place)?;
        let source = context.context_provider().get_table_source(reference.clone())?;
        let mut table = source_as_provider(&source)?;
        let mut scanned = reference.clone();
        if let Some(point) = point {
            // DataFusion takes scans of equal names and columns for the same, whatever they scan, and
            // computes two such subqueries once: versions of a table need names of their own.
            scanned = with_suffix(&reference, &format!("@{point}"));
            table = self.travel(table.as_ref(), point, &reference)?;
        }
        if marked && let Some(with_columns) = (self.tables.with_metadata_columns)(table.as_ref()) {
            table = with_columns?;
        }
        let mut plan = LogicalPlanBuilder::scan(scanned.clone(), provider_as_source(table), None)?;
        if scanned != reference {
            plan = plan.alias(reference)?;
        }
        let plan = plan.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

fn with_suffix(reference: &TableReference, suffix: &str) -> TableReference {
    let table = format!("{}{suffix}", reference.table());
    match (reference.catalog(), reference.schema()) {
        (Some(catalog), Some(schema)) => TableReference::full(catalog, schema, table),
        (_, Some(schema)) => TableReference::partial(schema, table),
        _ => TableReference::bare(table),
    }
}

/// What a version names.
#[derive(Debug, PartialEq)]
enum Point {
    Id(SnapshotId),
    /// A branch or tag, or else an id in quotes.
    Name(String),
    /// Milliseconds since 1970 UTC.
    Time(i64),
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => write!(f, "'{name}'"),
            Self::Time(ms) => write!(f, "{ms}ms"),
        }
    }
}

impl Point {
    fn of(version: TableVersion, context: &mut dyn RelationPlannerContext) -> Result<Self> {
        match version {
            TableVersion::VersionAsOf(operand) => match literal(&operand) {
                Some(Value::Number(number, _)) => {
                    let id = number.parse().map_err(|_| {
                        Error::invalid(format!("{number} is not the id of a snapshot (a 64-bit integer)"))
                    })?;
                    Ok(Point::Id(SnapshotId(id)))
                }
                Some(Value::SingleQuotedString(name)) => Ok(Point::Name(name.clone())),
                _ => Err(Error::invalid(format!(
                    "VERSION AS OF takes the id of a snapshot or the quoted name of a branch or tag, not {operand}"
                ))
                .into()),
            },
            TableVersion::TimestampAsOf(expr) | TableVersion::ForSystemTimeAsOf(expr) => {
                let shown = expr.to_string();
                let millis = milliseconds(expr, context).map_err(|e| within(e, format!("TIMESTAMP AS OF {shown}")))?;
                Ok(Point::Time(millis))
            }
            other => {
                let message = format!("`{other}`; write VERSION AS OF or TIMESTAMP AS OF");
                Err(Error::unsupported(message).into())
            }
        }
    }
}

fn literal(expr: &SqlExpr) -> Option<&Value> {
    match expr {
        SqlExpr::Value(ValueWithSpan { value, .. }) => Some(value),
        SqlExpr::Nested(inner) => literal(inner),
        _ => None,
    }
}

/// Drops the type from `TIMESTAMP '…'` and `CAST('…' AS TIMESTAMP)`.
///
/// DataFusion reads both into a timestamp without a zone, in UTC if the text has an offset, in
/// no zone if it has none; afterwards the two can't be told apart.
fn untyped(expr: SqlExpr) -> SqlExpr {
    let is_timestamp = |t: &SqlType| {
        matches!(
            t,
            SqlType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) | SqlType::Datetime(_)
        )
    };
    match expr {
        SqlExpr::Nested(inner) => untyped(*inner),
        SqlExpr::TypedString(typed) if is_timestamp(&typed.data_type) => SqlExpr::Value(typed.value),
        SqlExpr::Cast { expr, data_type, .. }
            if is_timestamp(&data_type) && matches!(literal(&expr), Some(Value::SingleQuotedString(_))) =>
        {
            *expr
        }
        other => other,
    }
}

/// The value of a constant expression as milliseconds since 1970 UTC, rounded down. Text and
/// timestamps without a zone are in the session's; numbers are seconds since 1970.
fn milliseconds(expr: SqlExpr, context: &mut dyn RelationPlannerContext) -> Result<i64> {
    let value = constant(untyped(expr), context)?;
    let options = context.context_provider().options();
    let zone: Arc<str> = options.execution.time_zone.as_deref().unwrap_or("UTC").into();
    if value.is_null() {
        return Err(Error::invalid("the value is NULL").into());
    }
    let data_type = value.data_type();
    if data_type.is_integer() {
        let ScalarValue::Int64(Some(seconds)) = value.cast_to(&DataType::Int64)? else {
            return Err(Error::invalid("the number is out of range").into());
        };
        let millis = seconds.checked_mul(1000);
        return Ok(millis.ok_or_else(|| Error::invalid("the number is out of range"))?);
    }
    let point = match &data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Date32 | DataType::Date64 => {
            value
        }
        DataType::Timestamp(_, _) => value,
        other => return Err(Error::invalid(format!("a {other} is not a point in time")).into()),
    };
    let micros = point.cast_to(&DataType::Timestamp(TimeUnit::Microsecond, Some(zone)))?;
    match micros {
        ScalarValue::TimestampMicrosecond(Some(micros), _) => Ok(micros.div_euclid(1000)),
        _ => Err(Error::invalid("the value is not a point in time").into()),
    }
}

/// Evaluates a constant expression.
fn constant(expr: SqlExpr, context: &mut dyn RelationPlannerContext) -> Result<ScalarValue> {
    let schema = DFSchema::empty();
    let not_constant = || DataFusionError::from(Error::invalid("the expression is not constant"));
    let expr = context.sql_to_expr(expr, &schema).map_err(|e| match e.find_root() {
        // "No field named …": there are no columns to name.
        DataFusionError::SchemaError(..) => not_constant(),
        _ => e,
    })?;
    let info = SimplifyContext::builder()
        .with_config_options(Arc::new(context.context_provider().options().clone()))
        .with_query_execution_start_time(Some(chrono::Utc::now()))
        .build();
    let simplifier = ExprSimplifier::new(info);
    let expr = simplifier.simplify(simplifier.coerce(expr, &schema)?)?;
    if let Expr::Literal(value, _) = expr {
        return Ok(value);
    }
    if expr.is_volatile() || expr.any_column_refs() {
        return Err(not_constant());
    }
    // Simplifying leaves alone what fails: evaluating it gives the error.
    let physical =
        create_physical_expr(&expr, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())
            .map_err(|_| not_constant())?;
    let one_row = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )?;
    ScalarValue::try_from_array(&physical.evaluate(&one_row)?.into_array(1)?, 0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sql::IcebergSql;
    use async_trait::async_trait;
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
    use datafusion::arrow::datatypes::{Field, SchemaRef};
    use datafusion::catalog::Session;
    use datafusion::datasource::{MemTable, TableType};
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::prelude::{SessionConfig, SessionContext};

    /// A table whose only row says which version is read.
    #[derive(Debug)]
    struct Versions(MemTable);

    impl Versions {
        fn new(what: &str) -> Self {
            let schema = Schema::new(vec![
                Field::new("i", DataType::Int64, false),
                Field::new("what", DataType::Utf8, false),
            ]);
            let columns: Vec<ArrayRef> =
                vec![Arc::new(Int64Array::from(vec![1])), Arc::new(StringArray::from(vec![what]))];
            let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
            Self(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())
        }
    }

    #[async_trait]
    impl TableProvider for Versions {
        fn schema(&self) -> SchemaRef {
            self.0.schema()
        }

        fn table_type(&self) -> TableType {
            TableType::Base
        }

        async fn scan(
            &self,
            state: &dyn Session,
            projection: Option<&Vec<usize>>,
            filters: &[Expr],
            limit: Option<usize>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            self.0.scan(state, projection, filters, limit).await
        }
    }

    fn travel(table: &dyn TableProvider, selector: &SnapshotSelector) -> Made {
        table.downcast_ref::<Versions>()?;
        Some(match selector {
            SnapshotSelector::Ref(name) if name.parse::<i64>().is_ok() || name == "nope" => {
                Err(Error::not_found(format!("no branch or tag {name}; there are: main")))
            }
            SnapshotSelector::Id(SnapshotId(404)) => Err(Error::not_found("no snapshot 404")),
            selector => Ok(Arc::new(Versions::new(&format!("{selector:?}")))),
        })
    }

    fn session(zone: Option<&str>) -> SessionContext {
        let mut config = SessionConfig::new();
        config.options_mut().execution.time_zone = zone.map(str::to_string);
        let context = SessionContext::new_with_config(config);
        context
            .register_relation_planner(Arc::new(TimeTravelPlanner::new(Tables {
                at: travel,
                with_metadata_columns: |_| None,
            })))
            .unwrap();
        context.register_table("t", Arc::new(Versions::new("current"))).unwrap();
        context.register_table("u", Arc::new(Versions::new("current u"))).unwrap();
        let plain = Versions::new("plain").0;
        context.register_table("plain", Arc::new(plain)).unwrap();
        context
    }

    async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
        // The planner that a versioned statement brings along knows no `Versions`: plan without.
        let options = context.state().config_options().as_ref().clone();
        let statement = crate::sql::parse::parse(sql, &options)?.statement;
        let plan = context.state().statement_to_plan(statement).await?;
        let batches = context.execute_logical_plan(plan).await?.collect().await?;
        let mut rows = Vec::new();
        for batch in batches {
            for row in 0..batch.num_rows() {
                let cells: Result<Vec<_>> = batch
                    .columns()
                    .iter()
                    .map(|c| ScalarValue::try_from_array(c, row).map(|v| v.to_string()))
                    .collect();
                rows.push(cells?.join("|"));
            }
        }
        Ok(rows)
    }

    async fn one(context: &SessionContext, sql: &str) -> String {
        match rows(context, sql).await {
            Ok(rows) => rows.join(";"),
            Err(e) => format!("error: {e}"),
        }
    }

    #[tokio::test]
    async fn versions_are_ids_and_names() {
        let c = session(None);
        for (version, want) in [
            ("VERSION AS OF 5", "Id(SnapshotId(5))"),
            ("VERSION AS OF 9223372036854775807 x", "Id(SnapshotId(9223372036854775807))"),
            ("VERSION AS OF 'main'", "Ref(\"main\")"),
            ("VERSION AS OF 'a b'' c'", "Ref(\"a b' c\")"),
            ("VERSION AS OF '5'", "Id(SnapshotId(5))"),
        ] {
            assert_eq!(one(&c, &format!("SELECT what FROM t {version}")).await, want);
        }
        for (version, want) in [
            ("VERSION AS OF 9223372036854775808", "not the id of a snapshot"),
            ("VERSION AS OF 1.5", "not the id of a snapshot"),
            ("VERSION AS OF 'nope'", "no branch or tag nope; there are: main"),
            ("VERSION AS OF '404'", "no snapshot 404"),
            ("VERSION AS OF 404", "no snapshot 404"),
            ("VERSION AS OF 1 TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ] {
            let got = one(&c, &format!("SELECT what FROM t {version}")).await;
            assert!(got.starts_with("error") && got.contains(want), "{version}: {got}");
        }
    }

    #[tokio::test]
    async fn times_are_constants_in_the_zone_of_the_session() {
        // 2024-03-01 12:00:00 UTC
        let noon = 1_709_294_400_000_i64;
        let hour = 3_600_000;
        for (zone, expr, want) in [
            (None, "'2024-03-01 12:00:00'", noon),
            (None, "'2024-03-01T12:00:00Z'", noon),
            (None, "'2024-03-01 12:00:00.0019+00:00'", noon + 1),
            (None, "'2024-03-01 12:00:00+02:00'", noon - 2 * hour),
            (None, "TIMESTAMP '2024-03-01 12:00:00'", noon),
            (None, "TIMESTAMP '2024-03-01 12:00:00+02:00'", noon - 2 * hour),
            (None, "CAST('2024-03-01 12:00:00' AS TIMESTAMP)", noon),
            (None, "DATE '2024-03-01'", noon - 12 * hour),
            (None, "'2024-03-01'", noon - 12 * hour),
            (None, "TIMESTAMP '2024-03-01 12:00:00' - INTERVAL '1 hour'", noon - hour),
            (None, "to_timestamp('2024-03-01 12:00:00')", noon),
            (None, "1709294400", noon),
            (None, "-1", -1000),
            (None, "'1969-12-31 23:59:59.9999'", -1),
            (Some("+02:00"), "'2024-03-01 12:00:00'", noon - 2 * hour),
            (Some("+02:00"), "'2024-03-01 12:00:00+00:00'", noon),
            (Some("+02:00"), "TIMESTAMP '2024-03-01 12:00:00'", noon - 2 * hour),
            (Some("+02:00"), "TIMESTAMP '2024-03-01 12:00:00+00:00'", noon),
            (Some("+02:00"), "CAST('2024-03-01 12:00:00+00:00' AS TIMESTAMP)", noon),
            (Some("+02:00"), "DATE '2024-03-01'", noon - 14 * hour),
            (Some("Europe/Berlin"), "'2024-07-01 12:00:00'", noon + 122 * 24 * hour - 2 * hour),
            (Some("+02:00"), "1709294400", noon),
        ] {
            let c = session(zone);
            let got = one(&c, &format!("SELECT what FROM t TIMESTAMP AS OF {expr} AS x")).await;
            assert_eq!(got, format!("AsOf({want})"), "{expr} in {zone:?}");
        }
    }

    #[tokio::test]
    async fn now_is_now() {
        let c = session(None);
        let before = chrono::Utc::now().timestamp_millis();
        let got = one(&c, "SELECT what FROM t TIMESTAMP AS OF now()").await;
        let after = chrono::Utc::now().timestamp_millis();
        let ms: i64 = got.trim_start_matches("AsOf(").trim_end_matches(')').parse().unwrap();
        assert!((before..=after).contains(&ms), "{got}");
    }

    #[tokio::test]
    async fn times_that_are_none() {
        let c = session(None);
        for (expr, want) in [
            ("NULL", "NULL"),
            ("i", "not constant"),
            ("random()", "not constant"),
            ("(SELECT now())", "not constant"),
            ("true", "not a point in time"),
            ("1.5", "not a point in time"),
            ("INTERVAL '1 day'", "not a point in time"),
            ("'soon'", "Error parsing timestamp from 'soon'"),
            ("9223372036854775807", "out of range"),
            ("to_timestamp('soon')", "soon"),
            ("nosuchfunction()", "nosuchfunction"),
        ] {
            let got = one(&c, &format!("SELECT what FROM t TIMESTAMP AS OF {expr}")).await;
            assert!(got.starts_with("error") && got.contains(want), "{expr}: {got}");
        }
    }

    #[tokio::test]
    async fn versions_in_every_place() {
        let c = session(None);
        for (sql, want) in [
            ("SELECT what FROM t", "current"),
            ("SELECT t.what FROM t VERSION AS OF 5", "Id(SnapshotId(5))"),
            ("SELECT x.what FROM t VERSION AS OF 5 x", "Id(SnapshotId(5))"),
            ("SELECT x.b FROM t VERSION AS OF 5 AS x (a, b)", "Id(SnapshotId(5))"),
            ("SELECT what FROM public.t AS x FOR VERSION AS OF 5", "Id(SnapshotId(5))"),
            (
                "SELECT a.what, b.what, t.what FROM t VERSION AS OF 5 a JOIN t VERSION AS OF 'x' b ON a.i = b.i CROSS JOIN t",
                "Id(SnapshotId(5))|Ref(\"x\")|current",
            ),
            ("WITH a AS (SELECT * FROM t VERSION AS OF 5) SELECT a.what FROM a", "Id(SnapshotId(5))"),
            ("WITH t AS (SELECT 2 AS i, 'cte' AS what) SELECT t.what FROM t", "cte"),
            ("WITH t AS (SELECT * FROM t VERSION AS OF 5) SELECT what FROM t", "Id(SnapshotId(5))"),
            (
                "WITH t AS (SELECT 1 AS i, 'cte' AS what) SELECT t.what, x.what FROM t VERSION AS OF 5 AS x JOIN t ON x.i = t.i",
                "cte|Id(SnapshotId(5))",
            ),
            ("WITH T AS (SELECT 1 AS i) SELECT t.what FROM t VERSION AS OF 5", "Id(SnapshotId(5))"),
            (
                "SELECT what FROM t WHERE EXISTS (SELECT 1 FROM u VERSION AS OF 5 WHERE u.what LIKE 'Id%' AND u.i = t.i)",
                "current",
            ),
            ("SELECT (SELECT max(what) FROM u VERSION AS OF 5)", "Id(SnapshotId(5))"),
            // Subqueries that differ in their versions only.
            (
                "SELECT (SELECT max(what) FROM t) AS a, (SELECT max(what) FROM t VERSION AS OF 5) AS b, \
                 (SELECT max(what) FROM t VERSION AS OF 6) AS c, (SELECT max(what) FROM t VERSION AS OF '6') AS d, \
                 (SELECT max(what) FROM t VERSION AS OF 'x') AS e, (SELECT max(what) FROM t TIMESTAMP AS OF 6) AS f, \
                 (SELECT max(what) FROM public.t VERSION AS OF 7) AS g",
                "current|Id(SnapshotId(5))|Id(SnapshotId(6))|Id(SnapshotId(6))|Ref(\"x\")|AsOf(6000)|Id(SnapshotId(7))",
            ),
            ("SELECT public.t.what FROM public.t VERSION AS OF 5", "Id(SnapshotId(5))"),
            ("SELECT datafusion.public.t.what FROM datafusion.public.t VERSION AS OF 5", "Id(SnapshotId(5))"),
            (
                "SELECT max(what) AS w FROM t VERSION AS OF 5 WHERE what = (SELECT max(what) FROM t VERSION AS OF 5) \
                 UNION ALL SELECT max(what) FROM t VERSION AS OF 5 WHERE what = (SELECT max(what) FROM t VERSION AS OF 6) \
                 ORDER BY w",
                "Id(SnapshotId(5));NULL",
            ),
            (
                "SELECT what FROM t VERSION AS OF 1 UNION ALL SELECT what FROM t VERSION AS OF 2 ORDER BY 1",
                "Id(SnapshotId(1));Id(SnapshotId(2))",
            ),
        ] {
            assert_eq!(one(&c, sql).await, want, "{sql}");
        }
        rows(&c, "CREATE VIEW v AS SELECT * FROM t VERSION AS OF 7").await.unwrap();
        assert_eq!(one(&c, "SELECT what FROM v").await, "Id(SnapshotId(7))");
        rows(&c, "CREATE TABLE copy AS SELECT * FROM t VERSION AS OF 8").await.unwrap();
        rows(&c, "INSERT INTO copy SELECT * FROM t VERSION AS OF 9").await.unwrap();
        assert_eq!(
            one(&c, "SELECT what FROM copy ORDER BY what").await,
            "Id(SnapshotId(8));Id(SnapshotId(9))"
        );
        rows(&c, "PREPARE p AS SELECT what FROM t VERSION AS OF 6").await.unwrap();
        assert_eq!(one(&c, "EXECUTE p").await, "Id(SnapshotId(6))");
        assert!(one(&c, "EXPLAIN SELECT what FROM t VERSION AS OF 6").await.contains("TableScan"));
        assert!(
            one(&c, "SELECT * FROM v VERSION AS OF 5").await.contains("only Iceberg tables have versions")
        );
    }

    #[tokio::test]
    async fn a_table_without_versions_is_refused_never_read() {
        let c = session(None);
        for sql in [
            "SELECT what FROM plain VERSION AS OF 5",
            "SELECT what FROM plain TIMESTAMP AS OF now()",
            "SELECT x.what FROM t JOIN plain FOR SYSTEM_TIME AS OF '2024-01-01' x ON x.i = t.i",
        ] {
            let got = one(&c, sql).await;
            assert!(got.contains("only Iceberg tables have versions"), "{sql}: {got}");
            assert!(got.contains("table plain"), "{sql}: {got}");
        }
        let error = c.iceberg_sql("SELECT * FROM plain VERSION AS OF 5").await.unwrap_err();
        assert_eq!(Error::find_in(&error).map(Error::kind), Some(ErrorKind::Unsupported));
        assert!(one(&c, "SELECT * FROM none VERSION AS OF 5").await.contains("not found"));
        assert!(one(&c, "WITH c AS (SELECT 1) SELECT * FROM c VERSION AS OF 5").await.contains("not found"));
    }

    #[tokio::test]
    async fn plain_datafusion_sql_reads_no_current_data_either() {
        for (dialect, sql) in [
            ("databricks", "SELECT what FROM t VERSION AS OF 5"),
            ("bigquery", "SELECT what FROM t FOR SYSTEM_TIME AS OF '1970-01-01 00:00:05'"),
            ("snowflake", "SELECT what FROM t AT(TIMESTAMP => '2024-01-01')"),
            ("databricks", "SELECT what FROM plain VERSION AS OF 5"),
        ] {
            let c = session(None);
            c.sql(&format!("SET datafusion.sql_parser.dialect = '{dialect}'")).await.unwrap();
            let got = match c.sql(sql).await {
                Ok(frame) => format!("{:?}", frame.collect().await.unwrap()),
                Err(e) => e.to_string(),
            };
            assert!(!got.contains("current") && !got.contains("\"plain\""), "{got}");
            let expected = ["Id(SnapshotId(5))", "AsOf(5000)", "unsupported: "];
            assert!(expected.iter().any(|e| got.contains(e)), "{got}");
        }
    }
}
