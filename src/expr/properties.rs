//! The laws of pruning, on random rows, filters and specs.

use std::collections::HashMap;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

use crate::spec::{
    ContentFile, ContentType, FieldId, FieldSummary, FileFormat, ManifestContent, ManifestFile, MetricMaps,
    Metrics, NestedField, PartitionField, PartitionSpec, PartitionValues, PrimitiveType as P, Schema,
    SchemaId, SequenceNumber, SpecId, Transform, Value,
};

use super::oracle::{Zeros, matches, sound_result, test_truth};
use super::partition_evaluator::{evaluate_tuple, slots};
use super::*;

type Row = Vec<Option<Value>>;

/// A filter as SQL would have it, with its NOTs in place.
#[derive(Debug, Clone)]
enum Query {
    And(Vec<Query>),
    Or(Vec<Query>),
    Not(Box<Query>),
    Leaf(usize, Option<Transform>, Test),
}

fn columns() -> Vec<P> {
    vec![
        P::Int,
        P::Long,
        P::Float,
        P::Double,
        P::Decimal { precision: 9, scale: 2 },
        P::Date,
        P::Timestamp,
        P::Timestamptz,
        P::TimestampNs,
        P::String,
        P::Binary,
        P::Boolean,
        P::Uuid,
        P::Fixed(2),
        P::Time,
    ]
}

fn schema() -> Schema {
    let field = |(i, t): (usize, P)| NestedField::optional(i as i32 + 1, format!("c{i}"), t);
    Schema::new(SchemaId(0), columns().into_iter().enumerate().map(field).collect(), vec![]).unwrap()
}

/// Values that lie close together, and the ends of the range.
fn value(t: &P) -> BoxedStrategy<Value> {
    const DAY: i64 = 86_400_000_000;
    let time = |unit: i64| {
        prop_oneof![
            8 => (-70_i64..70, select(vec![-1, 0, 1, 3_600_000_000, DAY / 2])).prop_map(move |(d, o)| (d * DAY + o) * unit),
            1 => (-1_i64..3).prop_map(move |h| (h * 3_600_000_000) * unit),
            1 => select(vec![i64::MIN, i64::MAX]),
        ]
    };
    let floats = || {
        let nan = f64::from_bits(f64::NAN.to_bits() | 1 << 63);
        select(vec![-0.0, 0.0, f64::NAN, nan, 1.5, -1.5, 2.0, -2.0, f64::INFINITY, f64::NEG_INFINITY])
    };
    match t {
        P::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        P::Int => prop_oneof![
            6 => -25..25,
            1 => i32::MIN..i32::MIN + 30,
            1 => i32::MAX - 30..=i32::MAX
        ]
        .prop_map(Value::Int)
        .boxed(),
        P::Long => prop_oneof![
            6 => -25_i64..25,
            1 => (0..30_i64).prop_map(|i| i64::from(i32::MIN) - 5 + i),
            1 => (0..30_i64).prop_map(|i| i64::from(i32::MAX) - 25 + i),
            1 => i64::MIN..i64::MIN + 30,
            1 => i64::MAX - 30..=i64::MAX,
        ]
        .prop_map(Value::Long)
        .boxed(),
        P::Float => floats()
            .prop_map(|v| {
                let sign = (v.to_bits() >> 63) as u32;
                Value::Float(if v.is_nan() {
                    f32::from_bits(f32::NAN.to_bits() | sign << 31)
                } else {
                    v as f32
                })
            })
            .boxed(),
        P::Double => floats().prop_map(Value::Double).boxed(),
        P::Decimal { .. } => (-30_i128..30).prop_map(|v| Value::Decimal(v, 2)).boxed(),
        P::Date => prop_oneof![9 => -70..70, 2 => -800..800, 1 => select(vec![i32::MIN, i32::MAX])]
            .prop_map(Value::Date)
            .boxed(),
        P::Timestamp => time(1).prop_map(Value::Timestamp).boxed(),
        P::Timestamptz => time(1).prop_map(Value::Timestamptz).boxed(),
        P::TimestampNs => time(1000).prop_map(Value::TimestampNs).boxed(),
        P::Time => (0..5_i64).prop_map(Value::Time).boxed(),
        P::String => prop::collection::vec(select(vec!['a', 'b', 'é', '\u{ffff}', '𝄞']), 0..5)
            .prop_map(|c| Value::String(c.into_iter().collect()))
            .boxed(),
        P::Binary => prop::collection::vec(select(vec![0_u8, 1, 255]), 0..5).prop_map(Value::Binary).boxed(),
        P::Fixed(n) => {
            prop::collection::vec(select(vec![0_u8, 1, 255]), *n as usize).prop_map(Value::Fixed).boxed()
        }
        P::Uuid => (select(vec![0_u64, 1, u64::MAX, 1 << 63]), select(vec![0_u64, 1, u64::MAX]))
            .prop_map(|(a, b)| Value::Uuid(Uuid::from_u64_pair(a, b)))
            .boxed(),
        other => panic!("no values of {other}"),
    }
}

fn transforms(t: &P) -> Vec<Transform> {
    let all = [
        Transform::Identity,
        Transform::Bucket(3),
        Transform::Truncate(1),
        Transform::Truncate(2),
        Transform::Truncate(10),
        Transform::Truncate(1 << 30 | 5),
        Transform::Year,
        Transform::Month,
        Transform::Day,
        Transform::Hour,
        Transform::Void,
        Transform::Unknown("z_order".into()),
    ];
    all.into_iter()
        .filter(|x| matches!(x, Transform::Unknown(_)) || x.result_type(&t.clone().into()).is_some())
        .collect()
}

fn test(t: &P) -> BoxedStrategy<Test> {
    let compared = (0..6_usize, value(t)).prop_map(|(op, v)| {
        [Test::Lt as fn(Value) -> Test, Test::LtEq, Test::Gt, Test::GtEq, Test::Eq, Test::NotEq][op](v)
    });
    let sets = (any::<bool>(), prop::collection::vec(value(t), 0..4))
        .prop_map(|(not, set)| if not { Test::NotIn(set.into()) } else { Test::In(set.into()) });
    let null = select(vec![Test::IsNull, Test::NotNull]);
    let special = match t {
        P::Float | P::Double => select(vec![Test::IsNan, Test::NotNan]).boxed(),
        P::String | P::Binary => (any::<bool>(), value(t))
            .prop_map(|(not, v)| if not { Test::NotStartsWith(v) } else { Test::StartsWith(v) })
            .boxed(),
        _ => null.clone().boxed(),
    };
    prop_oneof![6 => compared, 2 => sets, 1 => null, 2 => special].boxed()
}

/// Columns are drawn from a few, so that the fields of the spec are often asked about.
fn leaf(chosen: Vec<usize>) -> BoxedStrategy<Query> {
    select(chosen)
        .prop_flat_map(|c| {
            let t = columns()[c].clone();
            let of_results = transforms(&t)
                .into_iter()
                .filter(|x| !matches!(x, Transform::Void | Transform::Unknown(_) | Transform::Identity))
                .collect::<Vec<_>>();
            let plain = test(&t).prop_map(move |test| Query::Leaf(c, None, test)).boxed();
            if of_results.is_empty() {
                return plain;
            }
            let transformed = (select(of_results), value(&t)).prop_flat_map(move |(transform, seed)| {
                let literal = transform.apply(&seed).unwrap();
                let test = select(vec![
                    Test::Lt(literal.clone()),
                    Test::LtEq(literal.clone()),
                    Test::Gt(literal.clone()),
                    Test::GtEq(literal.clone()),
                    Test::Eq(literal.clone()),
                    Test::NotEq(literal.clone()),
                    Test::In(vec![literal.clone(), literal].into()),
                    Test::IsNull,
                    Test::NotNull,
                ]);
                test.prop_map(move |test| Query::Leaf(c, Some(transform.clone()), test))
            });
            prop_oneof![4 => plain, 1 => transformed].boxed()
        })
        .boxed()
}

fn query(chosen: Vec<usize>) -> impl Strategy<Value = Query> {
    leaf(chosen).prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Query::And),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Query::Or),
            inner.prop_map(|q| Query::Not(Box::new(q))),
        ]
    })
}

#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    query: Query,
    spec: PartitionSpec,
    /// Decides what the writers of this case leave out or do in their own way.
    habits: Vec<bool>,
}

fn case() -> impl Strategy<Value = Case> {
    let n = columns().len();
    prop::collection::vec(0..n, 1..3).prop_flat_map(move |chosen| {
        let row = columns()
            .iter()
            .map(|t| prop_oneof![1 => Just(None), 5 => value(t).prop_map(Some)])
            .collect::<Vec<_>>();
        let fields = prop::collection::vec(
            select(chosen.clone())
                .prop_flat_map(|c| select(transforms(&columns()[c])).prop_map(move |t| (c, t))),
            0..3,
        );
        let spec = fields.prop_map(|fields| PartitionSpec {
            spec_id: SpecId(0),
            fields: fields
                .into_iter()
                .enumerate()
                .map(|(i, (c, transform))| PartitionField {
                    source_ids: vec![FieldId(c as i32 + 1)],
                    field_id: FieldId(1000 + i as i32),
                    name: format!("p{i}"),
                    transform,
                    extra: Default::default(),
                })
                .collect(),
        });
        let habits = prop::collection::vec(any::<bool>(), 64);
        (prop::collection::vec(row, 1..5), query(chosen), spec, habits)
            .prop_map(|(rows, query, spec, habits)| Case { rows, query, spec, habits })
    })
}

fn predicate(query: &Query, schema: &Schema) -> Predicate {
    match query {
        Query::And(parts) => Predicate::and(parts.iter().map(|p| predicate(p, schema))),
        Query::Or(parts) => Predicate::or(parts.iter().map(|p| predicate(p, schema))),
        Query::Not(inner) => predicate(inner, schema).not(),
        Query::Leaf(c, transform, test) => {
            let term = Term::field(schema, FieldId(*c as i32 + 1)).unwrap();
            Predicate::new(Term { transform: transform.clone(), ..term }, test.clone()).unwrap()
        }
    }
}

/// SQL's truth of the query for a row. `Err` where a transform wraps around in it, so that no two
/// engines need to agree.
fn truth(query: &Query, row: &Row, zeros: Zeros) -> Result<Option<bool>, ()> {
    Ok(match query {
        Query::And(parts) => {
            let all = parts.iter().map(|p| truth(p, row, zeros)).collect::<Result<Vec<_>, _>>()?;
            if all.contains(&Some(false)) {
                Some(false)
            } else if all.contains(&None) {
                None
            } else {
                Some(true)
            }
        }
        Query::Or(parts) => {
            let all = parts.iter().map(|p| truth(p, row, zeros)).collect::<Result<Vec<_>, _>>()?;
            if all.contains(&Some(true)) {
                Some(true)
            } else if all.contains(&None) {
                None
            } else {
                Some(false)
            }
        }
        Query::Not(inner) => truth(inner, row, zeros)?.map(|b| !b),
        Query::Leaf(c, transform, test) => {
            let value = match (transform, &row[*c]) {
                (Some(t), Some(v)) => Some(sound_result(t, v).ok_or(())?),
                (_, v) => v.clone(),
            };
            test_truth(value.as_ref(), test, zeros)
        }
    })
}

struct Habits(Vec<bool>, usize);

impl Habits {
    fn next(&mut self) -> bool {
        self.1 += 1;
        self.0[self.1 % self.0.len()]
    }
}

/// The tuple that some writer files a row under.
fn tuple(row: &Row, spec: &PartitionSpec, habits: &mut Habits) -> PartitionValues {
    let mut recorded = |field: &PartitionField| {
        let c = field.source_id().unwrap().0 as usize - 1;
        let source = row[c].as_ref()?;
        // The column was an int when the file was written.
        let narrow = match (source, &field.transform) {
            (Value::Long(v), Transform::Truncate(_)) => i32::try_from(*v).ok().filter(|_| habits.next()),
            _ => None,
        };
        if let Some(v) = narrow {
            return field.transform.apply(&Value::Int(v));
        }
        let result = field.transform.apply(source)?;
        let may_be_next = matches!(
            (&field.transform, source),
            (Transform::Year | Transform::Month | Transform::Hour, _)
                | (Transform::Day, Value::Timestamp(_) | Value::Timestamptz(_) | Value::TimestampNs(_))
        );
        let negative = match source {
            Value::Date(v) => *v < 0,
            Value::Timestamp(v) | Value::Timestamptz(v) | Value::TimestampNs(v) => *v < 0,
            _ => false,
        };
        let may_be_next = may_be_next && negative;
        Some(match result {
            Value::Int(v) if may_be_next && v < 0 && habits.next() => Value::Int(v + 1),
            Value::Date(v) if may_be_next && v < 0 && habits.next() => Value::Date(v + 1),
            // A day as an int, as some files have it.
            Value::Date(v) if field.transform == Transform::Day && habits.next() => Value::Int(v),
            other => other,
        })
    };
    spec.fields.iter().map(&mut recorded).collect()
}

fn nan(v: &Value) -> bool {
    v.is_nan()
}

/// The least and greatest value that are neither null nor NaN, as some writer sees it.
fn bounds<'a>(values: impl Iterator<Item = &'a Value>, habits: &mut Habits) -> Option<(Value, Value)> {
    let signed = habits.next();
    let mut values: Vec<&Value> = values.filter(|v| !nan(v)).collect();
    values.sort_by(|a, b| match (a, b) {
        (Value::Uuid(a), Value::Uuid(b)) if signed => {
            let half = |u: &Uuid| (u.as_u64_pair().0 as i64, u.as_u64_pair().1 as i64);
            half(a).cmp(&half(b))
        }
        // Ints among longs.
        (Value::Int(a), Value::Long(b)) => i64::from(*a).cmp(b),
        (Value::Long(a), Value::Int(b)) => a.cmp(&i64::from(*b)),
        (Value::Int(a), Value::Date(b)) | (Value::Date(a), Value::Int(b)) => a.cmp(b),
        _ => a.compare(b).unwrap(),
    });
    let (lower, upper) = ((*values.first()?).clone(), (*values.last()?).clone());
    let mut zero = |v: Value| match v {
        Value::Float(0.0) if habits.next() => Value::Float(0.0),
        Value::Double(0.0) if habits.next() => Value::Double(-0.0),
        other => other,
    };
    Some((zero(lower), zero(upper)))
}

fn encode(v: &Value, habits: &mut Habits) -> Vec<u8> {
    match v {
        Value::Long(v) if i32::try_from(*v).is_ok() && habits.next() => (*v as i32).to_le_bytes().to_vec(),
        Value::Double(v) if f64::from(*v as f32) == *v && habits.next() => (*v as f32).to_le_bytes().to_vec(),
        v => v.to_bytes().unwrap(),
    }
}

/// A prefix that is above: its last character that has a successor is raised.
fn raise(v: &Value) -> Option<Value> {
    match v {
        Value::String(s) => {
            let mut chars: Vec<char> = s.chars().take(2).collect();
            while let Some(last) = chars.pop() {
                let next = match last as u32 + 1 {
                    0xd800 => Some('\u{e000}'),
                    code => char::from_u32(code),
                };
                if let Some(next) = next {
                    chars.push(next);
                    return Some(Value::String(chars.into_iter().collect()));
                }
            }
            None
        }
        Value::Binary(b) => {
            let mut bytes = b[..b.len().min(2)].to_vec();
            while let Some(last) = bytes.pop() {
                if last < 255 {
                    bytes.push(last + 1);
                    return Some(Value::Binary(bytes));
                }
            }
            None
        }
        _ => Some(v.clone()),
    }
}

fn truncated(lower: Value, upper: Value, habits: &mut Habits) -> (Value, Option<Value>) {
    let length = |v: &Value| match v {
        Value::String(s) => s.chars().count(),
        Value::Binary(b) => b.len(),
        _ => 0,
    };
    let cut = habits.next();
    let low = if cut && length(&lower) > 2 { Transform::Truncate(2).apply(&lower).unwrap() } else { lower };
    let high = if cut && length(&upper) > 2 { raise(&upper) } else { Some(upper) };
    (low, high)
}

fn metrics(rows: &[&Row], habits: &mut Habits) -> Metrics {
    let mut m = MetricMaps::default();
    for (c, t) in columns().iter().enumerate() {
        let id = FieldId(c as i32 + 1);
        let values = || rows.iter().filter_map(|r| r[c].as_ref());
        if habits.next() || habits.next() {
            m.value_counts.insert(id, rows.len() as i64);
        }
        if habits.next() || habits.next() {
            m.null_value_counts.insert(id, rows.iter().filter(|r| r[c].is_none()).count() as i64);
        }
        if matches!(t, P::Float | P::Double) && (habits.next() || habits.next()) {
            m.nan_value_counts.insert(id, values().filter(|v| nan(v)).count() as i64);
        }
        let Some((lower, upper)) = bounds(values(), habits) else { continue };
        let (lower, upper) = truncated(lower, upper, habits);
        if habits.next() || habits.next() {
            m.lower_bounds.insert(id, Bytes::from(encode(&lower, habits)));
        }
        if let Some(upper) = upper
            && (habits.next() || habits.next())
        {
            m.upper_bounds.insert(id, Bytes::from(encode(&upper, habits)));
        }
    }
    m.into()
}

fn summaries(tuples: &[&PartitionValues], fields: usize, habits: &mut Habits) -> Vec<FieldSummary> {
    let summary = |i: usize| {
        let values = || tuples.iter().filter_map(|t| t[i].as_ref());
        let bounds = bounds(values(), habits);
        FieldSummary {
            contains_null: tuples.iter().any(|t| t[i].is_none()),
            contains_nan: (habits.next() || habits.next()).then(|| values().any(nan)),
            lower_bound: bounds.as_ref().map(|(l, _)| encode(l, habits)),
            upper_bound: bounds.as_ref().map(|(_, u)| encode(u, habits)),
        }
    };
    (0..fields).map(summary).collect()
}

pub(super) fn data_file(record_count: i64, metrics: Metrics) -> ContentFile {
    ContentFile {
        content: ContentType::Data,
        file_path: "data/f.parquet".into(),
        file_format: FileFormat::Parquet,
        spec_id: SpecId(0),
        partition: vec![],
        record_count,
        file_size_in_bytes: 1,
        metrics,
        key_metadata: None,
        split_offsets: None,
        equality_ids: None,
        sort_order_id: None,
        first_row_id: None,
        referenced_data_file: None,
        content_offset: None,
        content_size_in_bytes: None,
    }
}

pub(super) fn manifest(partitions: Option<Vec<FieldSummary>>) -> ManifestFile {
    ManifestFile {
        manifest_path: "metadata/m.avro".into(),
        manifest_length: 1,
        partition_spec_id: SpecId(0),
        content: ManifestContent::Data,
        sequence_number: SequenceNumber(1),
        min_sequence_number: SequenceNumber(1),
        added_snapshot_id: None,
        added_files_count: None,
        existing_files_count: None,
        deleted_files_count: None,
        added_rows_count: None,
        existing_rows_count: None,
        deleted_rows_count: None,
        partitions,
        key_metadata: None,
        first_row_id: None,
    }
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let schema = schema();
    let filter = predicate(&case.query, &schema);
    let mut habits = Habits(case.habits.clone(), 0);
    let mut files: HashMap<PartitionValues, Vec<&Row>> = HashMap::new();
    for row in &case.rows {
        files.entry(tuple(row, &case.spec, &mut habits)).or_default().push(row);
    }
    let manifest_file =
        manifest(Some(summaries(&files.keys().collect::<Vec<_>>(), case.spec.fields.len(), &mut habits)));
    let manifests = ManifestEvaluator::new(&filter, &case.spec, &schema);
    let partitions = PartitionEvaluator::new(&filter, &case.spec, &schema);
    let strict = slots(&StrictProjection::project(&filter, &case.spec, &schema), &case.spec);
    let decided = decided_by_partition(&filter, &case.spec, &schema);
    for zeros in [Zeros::Differ, Zeros::Equal] {
        for (partition, rows) in &files {
            let Ok(truths) =
                rows.iter().map(|r| truth(&case.query, r, zeros)).collect::<Result<Vec<_>, ()>>()
            else {
                continue;
            };
            let any = truths.contains(&Some(true));
            let all = truths.iter().all(|t| *t == Some(true));
            prop_assert!(!any || manifests.may_match(&manifest_file), "manifest lost: {filter}");
            prop_assert!(!any || partitions.may_match(partition), "partition {partition:?} lost: {filter}");
            let file = data_file(rows.len() as i64, metrics(rows, &mut habits));
            prop_assert!(
                !any || MetricsEvaluator::new(&filter, &schema).may_match(&file),
                "file lost: {filter} {:?}",
                file.metrics
            );
            prop_assert!(
                all || !StrictMetricsEvaluator::new(&filter, &schema).all_match(&file),
                "not all rows match: {filter} {:?}",
                file.metrics
            );
            prop_assert!(
                all || evaluate_tuple(&strict, partition) != Some(true),
                "not all rows of {partition:?} match: {filter}"
            );
            let residual = residual(&filter, &case.spec, &schema, partition);
            prop_assert!(
                !decided || matches!(residual, Predicate::True | Predicate::False),
                "{filter} isn't decided by {partition:?}: {residual}"
            );
            for (row, truth) in rows.iter().zip(&truths) {
                let value = |term: &Term| row[term.field_id.0 as usize - 1].clone();
                prop_assert_eq!(matches(&filter, &value, zeros), *truth == Some(true), "{}", filter);
                prop_assert_eq!(
                    matches(&residual, &value, zeros),
                    *truth == Some(true),
                    "residual of {} for {:?}: {}",
                    filter,
                    partition,
                    residual
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn pruning_loses_no_row_and_proves_nothing_wrong(case in case()) {
        check(&case)?;
    }
}
