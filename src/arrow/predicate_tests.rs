//! Filters through DataFusion itself: what it finds, the predicate must hold for, and for no more
//! where it claims to be exact.

use std::sync::{Arc, Mutex};

use ::arrow::array::RecordBatch;
use ::arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::datasource::{MemTable, TableType};
use datafusion::error::Result as DFResult;
use datafusion::logical_expr::{ScalarUDF, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{Expr, SessionContext, col, lit};

use super::*;
use crate::arrow::predicate::{Converted, to_predicate};
use crate::expr::oracle::{Zeros, matches};
use crate::expr::{Predicate, Term};
use crate::spec::{
    ListType, MapType, NestedField, PrimitiveType as P, Schema, SchemaId, StructType, Type, Value,
};

/// Remembers the filters that a scan was given.
#[derive(Debug)]
struct Watched {
    inner: MemTable,
    filters: Arc<Mutex<Vec<Expr>>>,
}

#[async_trait]
impl TableProvider for Watched {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DFResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> DFResult<Arc<dyn ExecutionPlan>> {
        *self.filters.lock().unwrap() = filters.to_vec();
        self.inner.scan(state, projection, &[], None).await
    }
}

fn schema() -> Schema {
    let point = StructType::new(vec![
        NestedField::required(21, "x", P::Int),
        NestedField::optional(22, "name", P::String),
    ]);
    Schema::new(
        SchemaId(0),
        vec![
            NestedField::required(1, "n", P::Long),
            NestedField::optional(2, "i", P::Int),
            NestedField::optional(3, "l", P::Long),
            NestedField::optional(4, "f", P::Float),
            NestedField::optional(5, "d", P::Double),
            NestedField::optional(6, "dec", P::Decimal { precision: 9, scale: 2 }),
            NestedField::optional(7, "dt", P::Date),
            NestedField::optional(8, "ts", P::Timestamp),
            NestedField::optional(9, "tz", P::Timestamptz),
            NestedField::optional(10, "tn", P::TimestampNs),
            NestedField::optional(11, "s", P::String),
            NestedField::optional(12, "b", P::Boolean),
            NestedField::optional(13, "bin", P::Binary),
            NestedField::optional(20, "point", point),
            NestedField::optional(30, "m", MapType::new(31, P::String, 32, P::Int, false)),
            NestedField::optional(40, "list", ListType::new(41, P::Int, false)),
        ],
        vec![],
    )
    .unwrap()
}

const DAY: i64 = 86_400_000_000;

fn rows() -> Vec<Vec<Option<Value>>> {
    let ints =
        [Some(-6), Some(5), Some(6), None, Some(i32::MIN), Some(i32::MAX), Some(0), Some(16), Some(-1)];
    let longs = [1_i64 << 53, (1 << 53) + 1, 5, -6, i64::MIN, i64::MAX, 0, 16, -1];
    let nan = f64::from_bits(f64::NAN.to_bits() | 1 << 63);
    let doubles = [0.0, -0.0, 5.5, f64::NAN, nan, f64::INFINITY, 0.1, -1.5, 5.0];
    let texts = ["abc", "ab%c", "", "a_c", "ab\\c", "é", "b", "ABC", "abd"];
    let times = [-1, 0, DAY - 1, DAY, -DAY, 20_000 * DAY + 1, 20_000 * DAY, -DAY * 365, 1_000_001];
    (0..9)
        .map(|n| {
            let some = |v: Value, hole: usize| (n != hole).then_some(v);
            vec![
                Some(Value::Long(n as i64)),
                ints[n].map(Value::Int),
                some(Value::Long(longs[n]), 4),
                some(Value::Float(doubles[n] as f32), 5),
                some(Value::Double(doubles[n]), 6),
                some(Value::Decimal(i128::from(n as i64 - 4) * 125, 2), 7),
                some(Value::Date(times[n].div_euclid(DAY) as i32), 8),
                some(Value::Timestamp(times[n]), 0),
                some(Value::Timestamptz(times[n]), 1),
                some(Value::TimestampNs(times[n] * 1000 + n as i64), 2),
                some(Value::String(texts[n].into()), 3),
                some(Value::Boolean(n % 2 == 0), 4),
                some(Value::Binary(vec![n as u8]), 5),
                some(
                    Value::Struct(vec![
                        Some(Value::Int(n as i32)),
                        (n % 3 > 0).then(|| Value::String(texts[n].into())),
                    ]),
                    6,
                ),
                some(Value::Map(vec![(Value::String("key".into()), Some(Value::Int(n as i32)))]), 7),
                some(Value::List(vec![Some(Value::Int(n as i32))]), 8),
            ]
        })
        .collect()
}

fn batch(schema: &Schema) -> RecordBatch {
    let arrow = Arc::new(to_arrow_schema(schema).unwrap());
    let rows = rows();
    let columns = schema.fields().iter().enumerate().map(|(i, field)| {
        let values: Vec<Option<&Value>> = rows.iter().map(|r| r[i].as_ref()).collect();
        values_to_array(&values, &field.field_type, arrow.field(i).data_type()).unwrap()
    });
    RecordBatch::try_new(arrow.clone(), columns.collect()).unwrap()
}

/// The value of a term in a row, at any depth of structs.
fn value(schema: &Schema, row: &[Option<Value>], term: &Term) -> Option<Value> {
    let path = schema.path_of(term.field_id).unwrap();
    let index = schema.fields().iter().position(|f| f.id == path[0].id).unwrap();
    let mut value = row[index].clone();
    for step in path.windows(2) {
        let (Type::Struct(s), Some(Value::Struct(members))) = (&step[0].field_type, value) else {
            return None;
        };
        value = members[s.fields.iter().position(|f| f.id == step[1].id).unwrap()].clone();
    }
    value
}

/// Runs the filter and holds what was converted against it; says what it was converted to, or
/// what is wrong with it.
async fn run(ctx: &SessionContext, filters: &Arc<Mutex<Vec<Expr>>>, sql: &str) -> Result<Converted, String> {
    filters.lock().unwrap().clear();
    let frame = ctx.sql(&format!("SELECT n FROM t WHERE {sql}")).await.map_err(|e| e.to_string())?;
    let batches = frame.collect().await.map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            match array_value(batch.column(0), row, &P::Long).unwrap() {
                Some(Value::Long(n)) => found.push(n),
                other => panic!("{other:?}"),
            }
        }
    }
    let schema = schema();
    let filters = filters.lock().unwrap().clone();
    let parts: Vec<Converted> = filters.iter().map(|f| to_predicate(f, &schema)).collect();
    let exact = parts.iter().all(|p| p.exact);
    let predicate = Predicate::and(parts.into_iter().map(|p| p.predicate));
    for (n, row) in rows().iter().enumerate() {
        // DataFusion takes zeros for equal in comparisons, but not in lists.
        let holds = [Zeros::Differ, Zeros::Equal]
            .map(|zeros| matches(&predicate, &|term| value(&schema, row, term), zeros));
        let is_found = found.contains(&(n as i64));
        if is_found && !holds.contains(&true) {
            return Err(format!("row {n} is lost: {predicate} from {filters:?}"));
        }
        if exact && !holds.contains(&is_found) {
            return Err(format!("row {n} is not found: {predicate} from {filters:?}"));
        }
    }
    Ok(Converted { predicate, exact })
}

fn context() -> (SessionContext, Arc<Mutex<Vec<Expr>>>) {
    let batch = batch(&schema());
    let inner = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    let filters = Arc::new(Mutex::new(Vec::new()));
    let ctx = SessionContext::new();
    ctx.register_table("t", Arc::new(Watched { inner, filters: Arc::clone(&filters) })).unwrap();
    for function in TransformFunction::all() {
        ctx.register_udf(ScalarUDF::from(function));
    }
    (ctx, filters)
}

#[tokio::test]
async fn filters_convert_exactly() {
    let (ctx, filters) = context();
    let mut wrong = Vec::new();
    for (sql, expected) in [
        ("i = 5", "i = 5"),
        ("5 < i", "i > 5"),
        ("i < 5.5", ""),
        ("i = 5.5", ""),
        ("i <> 5.5", ""),
        ("i >= -6.5 OR l < 0", ""),
        ("i < 3000000000", ""),
        ("NOT (i > 3000000000)", ""),
        ("l = i", "?"),
        ("l > 5.5", ""),
        ("d > 5", "d > 5"),
        ("d = 0.0", "d = 0"),
        ("d <> 0.0", "d <> 0"),
        ("NOT (d > 1.0)", "d <= 1"),
        ("f < 0.1", ""),
        ("f = 0.1", ""),
        ("f >= CAST(0.1 AS DOUBLE)", ""),
        ("CAST(f AS DOUBLE) <= CAST(0.1 AS DOUBLE)", ""),
        ("CAST(f AS DOUBLE) > CAST(1e300 AS DOUBLE)", ""),
        ("isnan(d)", "d IS NAN"),
        ("NOT isnan(f)", "f IS NOT NAN"),
        ("dec > 1.255", ""),
        ("dec = 1.25", ""),
        ("dec BETWEEN -2.5 AND 2.5", ""),
        ("dec NOT BETWEEN -2.5 AND 2.5", ""),
        ("dec = 5", ""),
        ("CAST(dec AS DECIMAL(20, 6)) < CAST(1.250001 AS DECIMAL(20, 6))", ""),
        ("dt = DATE '1970-01-02'", "dt = '1970-01-02'"),
        ("dt < TIMESTAMP '1970-01-01T00:00:01'", ""),
        ("dt >= TIMESTAMP '1970-01-01T00:00:01'", ""),
        ("dt = TIMESTAMP '1970-01-02T00:00:00'", ""),
        ("ts < TIMESTAMP '1970-01-01T00:00:00'", ""),
        ("ts >= TIMESTAMP '1970-01-01T00:00:00.0000005'", ""),
        ("ts = DATE '1970-01-02'", ""),
        ("CAST(ts AS DATE) = DATE '1969-12-31'", ""),
        ("CAST(ts AS DATE) <> DATE '1969-12-31'", ""),
        ("tn > TIMESTAMP '1970-01-01T00:00:00.000001'", ""),
        ("tz >= TIMESTAMP '1970-01-02T00:00:00Z'", ""),
        ("s = 'abc'", "s = 'abc'"),
        ("s IN ('abc', 'b', NULL)", ""),
        ("s NOT IN ('abc', 'b', 'x', 'y')", "s NOT IN ('abc', 'b', 'x', 'y')"),
        ("s NOT IN ('abc', 'b', 'x', 'y', NULL)", "false"),
        ("NOT (s IN ('abc', 'b', 'x', 'y'))", ""),
        ("s LIKE 'ab%'", "s STARTS WITH 'ab'"),
        ("s NOT LIKE 'ab%'", "s NOT STARTS WITH 'ab'"),
        ("s LIKE 'ab\\%%'", "s STARTS WITH 'ab%'"),
        ("s LIKE 'ab\\\\%'", "s STARTS WITH 'ab\\'"),
        ("s LIKE 'ab\\%c'", "s = 'ab%c'"),
        ("s LIKE 'a%c'", "?"),
        ("s LIKE 'a_c'", "?"),
        ("s ILIKE 'abc'", "?"),
        ("starts_with(s, 'ab')", "s STARTS WITH 'ab'"),
        ("NOT starts_with(s, 'ab')", "s NOT STARTS WITH 'ab'"),
        ("NOT (i = 5 AND s = NULL)", ""),
        ("s IS NULL", "s IS NULL"),
        ("s IS NOT NULL AND (i = 5 OR i IS NULL)", ""),
        ("b", "b = true"),
        ("NOT b", "b = false"),
        ("b IS TRUE", ""),
        ("b IS NOT TRUE", ""),
        ("b IS FALSE OR i = 5", ""),
        ("b IS NOT FALSE", ""),
        ("b IS UNKNOWN", "b IS NULL"),
        ("(i = 5) IS TRUE", ""),
        ("(i = 5) IS NOT TRUE", "?"),
        ("i IS DISTINCT FROM 5", ""),
        ("i IS NOT DISTINCT FROM 5", ""),
        ("i IS NOT DISTINCT FROM NULL", ""),
        ("NOT (i IS DISTINCT FROM 5)", ""),
        ("bin = X'02'", "bin = x'02'"),
        ("point['x'] > 3", "point.x > 3"),
        ("point['name'] = 'abc'", "point.name = 'abc'"),
        ("point['name'] LIKE 'a%'", "point.name STARTS WITH 'a'"),
        ("point['x'] IS NULL", "point.x IS NULL"),
        ("m['key'] = 3", "?"),
        ("list[1] = 3", "?"),
        ("l % 8 = 2", "?"),
        ("i % 8 = 2 AND i > 0", "i > 0"),
        ("i % 8 = 2 OR i > 0", "?"),
        ("NOT (i % 8 = 2 AND i > 0)", "?"),
        ("NOT (i % 8 = 2 OR i > 0)", "i <= 0"),
        ("ceil(d) = 5", "?"),
        ("date_trunc('month', ts) = TIMESTAMP '1970-01-01T00:00:00'", ""),
        ("CAST(l AS DOUBLE) = 9007199254740992.0", "?"),
        ("CAST(l AS DOUBLE) > 5.5", ""),
        ("CAST(i AS BIGINT) = 5", ""),
        ("CAST(i AS VARCHAR) < '5'", "?"),
        ("days(ts) = DATE '1969-12-31'", "ts >= '1969-12-31 00:00:00' AND ts < '1970-01-01 00:00:00'"),
        ("days(dt) < DATE '1970-01-02'", ""),
        ("months(ts) >= 0", "ts >= '1970-01-01 00:00:00'"),
        ("years(dt) IN (-1, 54)", ""),
        ("NOT (hours(tn) = 0)", ""),
        ("bucket(16, l) = 3", "bucket(16, l) = 3"),
        ("truncate(10, i) <= -10", "truncate(10, i) <= -10"),
        ("truncate(2, s) = 'ab'", "truncate(2, s) = 'ab'"),
        ("bucket(16, l) IS NULL", "bucket(16, l) IS NULL"),
    ] {
        match run(&ctx, &filters, sql).await {
            Err(e) => wrong.push(format!("{sql}: {e}")),
            Ok(Converted { predicate, exact }) => match expected {
                "" => {}
                "?" if !exact => {}
                words if predicate.to_string() == words => {}
                _ => wrong.push(format!("{sql}: {predicate} (exact: {exact})")),
            },
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn most_filters_are_exact() {
    let (ctx, filters) = context();
    let mut wrong = Vec::new();
    for sql in [
        "i < 5.5",
        "CAST(f AS DOUBLE) <= CAST(0.1 AS DOUBLE)",
        "dec > 1.255",
        "dt < TIMESTAMP '1970-01-01T00:00:01'",
        "ts >= TIMESTAMP '1970-01-01T00:00:00.0000005'",
        "CAST(ts AS DATE) = DATE '1969-12-31'",
        "tz >= TIMESTAMP '1970-01-02T00:00:00Z'",
        "s IN ('abc', 'b', NULL)",
        "NOT (s IN ('abc', 'b', 'x', 'y'))",
        "s = NULL OR i > 3000000000",
        "b IS NOT TRUE",
        "i IS DISTINCT FROM 5",
        "CAST(l AS DOUBLE) > 5.5",
        "NOT (point['x'] > 3 AND s LIKE 'a%') OR dec NOT BETWEEN -2.5 AND 2.5",
    ] {
        match run(&ctx, &filters, sql).await {
            Ok(converted) if converted.exact => {}
            other => wrong.push(format!("{sql}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_comparison_with_null_is_never_true() {
    let schema = schema();
    let never = Converted { predicate: Predicate::False, exact: true };
    let null = || lit(ScalarValue::Utf8(None));
    for expr in [col("s").eq(null()), col("s").not_eq(null()), !col("s").lt(null()), null().gt(col("s"))] {
        assert_eq!(to_predicate(&expr, &schema), never, "{expr}");
        assert_eq!(to_predicate(&!expr.clone(), &schema), never, "NOT {expr}");
    }
    assert_eq!(to_predicate(&lit(ScalarValue::Boolean(None)), &schema), never);
    assert_eq!(to_predicate(&!lit(ScalarValue::Boolean(None)), &schema), never);
}

#[test]
fn narrowing_casts_are_left_alone() {
    use ::arrow::datatypes::DataType;
    let schema = schema();
    let cast = |column: &str, to: DataType| {
        Expr::Cast(datafusion::logical_expr::Cast::new(Box::new(col(column)), to))
    };
    for expr in [
        cast("l", DataType::Int32).eq(lit(5)),
        cast("d", DataType::Float32).eq(lit(5_f32)),
        cast("tn", DataType::Timestamp(::arrow::datatypes::TimeUnit::Microsecond, None)).is_null(),
        cast("i", DataType::Utf8).lt(lit("5")),
        cast("dec", DataType::Decimal128(8, 2)).is_null(),
        cast("l", DataType::Float32).lt(lit(5_f32)),
    ] {
        assert!(!to_predicate(&expr, &schema).exact, "{expr}");
    }
}

#[test]
fn long_chains_do_not_exhaust_the_stack() {
    let schema = schema();
    let mut chain = col("i").eq(lit(0));
    for n in 1..5_000 {
        chain = chain.or(col("i").eq(lit(n)));
    }
    let converted = to_predicate(&chain, &schema);
    assert!(converted.exact && matches!(&converted.predicate, Predicate::Or(parts) if parts.len() == 5_000));
    // Too deep for anything else on the way, too, so that it must not be dropped by recursion.
    let mut deep = col("b");
    for _ in 0..2_000 {
        deep = Expr::Not(Box::new(deep));
    }
    assert_eq!(to_predicate(&deep, &schema), Converted { predicate: Predicate::True, exact: false });
}

#[test]
fn what_is_not_a_column_of_the_table_is_kept_out() {
    let schema = schema();
    let upper = Expr::Column(datafusion::common::Column::new_unqualified("I"));
    for expr in [col("_file").eq(lit("x")), upper.eq(lit(1)), col("point").is_null(), lit(1).eq(lit(1))] {
        assert_eq!(
            to_predicate(&expr, &schema),
            Converted { predicate: Predicate::True, exact: false },
            "{expr}"
        );
    }
    // Text is no UUID, and no bytes.
    let uuid = Schema::new(SchemaId(0), vec![NestedField::optional(1, "u", P::Uuid)], vec![]).unwrap();
    let text = col("u").eq(lit("f79c3e09-677c-4bbd-a479-3f349cb785e7"));
    assert!(!to_predicate(&text, &uuid).exact);
}
