//! Faults of others that must not be ours, one test a fault, and that pruning does prune.

use bytes::Bytes;

use crate::spec::{
    FieldId, FieldSummary, ListType, MetricMaps, Metrics, NestedField, PartitionField, PartitionSpec,
    PrimitiveType as P, Schema, SchemaId, SpecId, StructType, Transform, Value,
};

use super::properties::{data_file, manifest};
use super::*;

fn schema() -> Schema {
    let point = StructType::new(vec![NestedField::required(11, "x", P::Int)]);
    let added =
        NestedField { initial_default: Some(Value::Int(7)), ..NestedField::optional(6, "added", P::Int) };
    Schema::new(
        SchemaId(0),
        vec![
            NestedField::optional(1, "i", P::Int),
            NestedField::optional(2, "ts", P::Timestamp),
            NestedField::optional(3, "s", P::String),
            NestedField::optional(4, "d", P::Double),
            NestedField::optional(5, "l", P::Long),
            added,
            NestedField::required(7, "r", P::Int),
            NestedField::optional(10, "point", point),
            NestedField::optional(8, "u", P::Uuid),
            NestedField::optional(9, "b", P::Binary),
            NestedField::optional(12, "list", ListType::new(13, P::Int, false)),
        ],
        vec![],
    )
    .unwrap()
}

fn is(id: i32, test: Test) -> Predicate {
    Predicate::new(Term::field(&schema(), FieldId(id)).unwrap(), test).unwrap()
}

fn spec(source: i32, transform: Transform) -> PartitionSpec {
    let field = PartitionField {
        source_ids: vec![FieldId(source)],
        field_id: FieldId(1000),
        name: "p".into(),
        transform,
        extra: Default::default(),
    };
    PartitionSpec { spec_id: SpecId(0), fields: vec![field] }
}

fn project(filter: &Predicate, spec: &PartitionSpec) -> String {
    InclusiveProjection::project(filter, spec, &schema()).to_string()
}

fn strict(filter: &Predicate, spec: &PartitionSpec) -> String {
    StrictProjection::project(filter, spec, &schema()).to_string()
}

/// Metrics of one column of a file with ten rows.
fn ten_rows(id: i32, nulls: Option<i64>, bounds: Option<(Value, Value)>) -> crate::spec::ContentFile {
    let id = FieldId(id);
    let bound = |v: Value| [(id, Bytes::from(v.to_bytes().unwrap()))].into();
    let (lower, upper) = bounds.unzip();
    let metrics = MetricMaps {
        value_counts: [(id, 10)].into(),
        null_value_counts: nulls.map(|n| (id, n)).into_iter().collect(),
        lower_bounds: lower.map(bound).unwrap_or_default(),
        upper_bounds: upper.map(bound).unwrap_or_default(),
        ..MetricMaps::default()
    };
    data_file(10, metrics.into())
}

fn set_nans(file: &mut crate::spec::ContentFile, nans: Option<i64>) {
    let mut maps = file.metrics.to_maps();
    maps.nan_value_counts = nans.map(|n| (FieldId(4), n)).into_iter().collect();
    file.metrics = maps.into();
}

fn may_match(filter: &Predicate, file: &crate::spec::ContentFile) -> bool {
    MetricsEvaluator::new(filter, &schema()).may_match(file)
}

fn all_match(filter: &Predicate, file: &crate::spec::ContentFile) -> bool {
    StrictMetricsEvaluator::new(filter, &schema()).all_match(file)
}

fn instant(text: &str) -> Value {
    Value::Timestamp(text.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros())
}

#[test]
fn a_required_child_of_an_optional_struct_can_be_null() {
    assert!(may_match(&is(11, Test::IsNull), &ten_rows(11, None, None)));
    assert!(may_match(&is(11, Test::IsNull), &data_file(10, Metrics::default())));
    assert!(!may_match(&is(7, Test::IsNull), &data_file(10, Metrics::default())));
    // Counted without the null structs.
    let id = FieldId(11);
    let metrics = MetricMaps {
        value_counts: [(id, 4)].into(),
        null_value_counts: [(id, 0)].into(),
        ..Default::default()
    };
    assert!(may_match(&is(11, Test::IsNull), &data_file(10, metrics.into())));
    assert!(!may_match(&is(11, Test::IsNull), &ten_rows(11, Some(0), None)));
}

#[test]
fn a_column_without_metrics_is_unknown() {
    let file = data_file(10, Metrics::default());
    for test in [
        Test::Eq(Value::Int(7)),
        Test::NotNull,
        Test::IsNull,
        Test::NotIn(vec![Value::Int(1), Value::Int(2)].into()),
    ] {
        assert!(may_match(&is(6, test.clone()), &file), "{test}");
        assert!(!all_match(&is(6, test.clone()), &file), "{test}");
    }
}

#[test]
fn what_lies_in_a_list_says_nothing_of_rows() {
    assert!(may_match(&is(13, Test::IsNull), &ten_rows(13, Some(0), None)));
    assert!(!all_match(&is(13, Test::NotNull), &ten_rows(13, Some(0), None)));
}

#[test]
fn january_is_before_the_first_of_february() {
    let before = is(2, Test::Lt(instant("2025-02-01T00:00:00Z")));
    let months = spec(2, Transform::Month);
    assert_eq!(project(&before, &months), "p <= 660");
    assert_eq!(strict(&before, &months), "p <= 660");
    assert!(decided_by_partition(&before, &months, &schema()));
    let partitions = PartitionEvaluator::new(&before, &months, &schema());
    assert!(partitions.may_match(&vec![Some(Value::Int(660))]));
    assert!(!partitions.may_match(&vec![Some(Value::Int(661))]));
    assert!(!partitions.may_match(&vec![None]));
}

#[test]
fn before_1970_a_period_may_be_recorded_as_the_next() {
    let last_second = is(2, Test::Eq(instant("1969-12-31T23:59:59Z")));
    for transform in [Transform::Year, Transform::Month, Transform::Day, Transform::Hour] {
        let spec = spec(2, transform.clone());
        let may_match = |partition: i32| {
            let value =
                if transform == Transform::Day { Value::Date(partition) } else { Value::Int(partition) };
            PartitionEvaluator::new(&last_second, &spec, &schema()).may_match(&vec![Some(value)])
        };
        assert!(may_match(-1) && may_match(0), "{transform}");
        assert!(!may_match(1) && !may_match(-2), "{transform}");
        // Nor is 0 proof of not being before 1970.
        let since = is(2, Test::GtEq(Value::Timestamp(0)));
        assert!(!strict(&since, &spec).contains("p >= 0"), "{}", strict(&since, &spec));
    }
    assert_eq!(project(&is(2, Test::LtEq(Value::Timestamp(-1))), &spec(2, Transform::Month)), "p <= 0");
    assert_eq!(
        strict(&is(2, Test::NotEq(Value::Timestamp(-1))), &spec(2, Transform::Month)),
        "p NOT IN (-1, 0)"
    );
}

#[test]
fn not_like_is_not_shortened() {
    let text = |s: &str| Value::String(s.into());
    let width = spec(3, Transform::Truncate(2));
    assert_eq!(project(&is(3, Test::NotStartsWith(text("abc"))), &width), "p IS NOT NULL");
    assert_eq!(strict(&is(3, Test::NotStartsWith(text("abc"))), &width), "p <> 'ab'");
    assert_eq!(project(&is(3, Test::NotStartsWith(text("ab"))), &width), "p NOT STARTS WITH 'ab'");
    assert_eq!(project(&is(3, Test::StartsWith(text("a"))), &width), "p STARTS WITH 'a'");
    assert_eq!(project(&is(3, Test::StartsWith(text("éèa"))), &width), "p = 'éè'");
}

#[test]
fn truncation_wraps_around_at_the_least_int() {
    let tens = spec(1, Transform::Truncate(10_000));
    let least = Transform::Truncate(10_000).apply(&Value::Int(i32::MIN)).unwrap();
    assert!(matches!(least, Value::Int(v) if v > 0));
    for test in [
        Test::Eq(Value::Int(i32::MIN)),
        Test::Lt(Value::Int(0)),
        Test::LtEq(Value::Int(i32::MIN)),
        Test::In(vec![Value::Int(i32::MIN), Value::Int(1)].into()),
        Test::GtEq(Value::Int(i32::MIN)),
        Test::NotEq(Value::Int(0)),
    ] {
        let partitions = PartitionEvaluator::new(&is(1, test.clone()), &tens, &schema());
        assert!(partitions.may_match(&vec![Some(least.clone())]), "{test}");
    }
    let positive = is(1, Test::Gt(Value::Int(0)));
    let all = residual(&positive, &tens, &schema(), &vec![Some(least)]);
    assert_eq!(all, positive, "the partition may hold the least int, too");
    assert_eq!(residual(&positive, &tens, &schema(), &vec![Some(Value::Int(10_000))]), Predicate::True);
}

#[test]
fn a_long_may_have_been_truncated_as_an_int() {
    let tens = spec(5, Transform::Truncate(10));
    let Some(Value::Int(wrapped)) = Transform::Truncate(10).apply(&Value::Int(i32::MIN)) else { panic!() };
    let partition = vec![Some(Value::Int(wrapped))];
    let least = Value::Long(i64::from(i32::MIN));
    for test in [Test::Eq(least.clone()), Test::LtEq(least.clone()), Test::Lt(Value::Long(0))] {
        assert!(PartitionEvaluator::new(&is(5, test), &tens, &schema()).may_match(&partition));
    }
    for test in [Test::NotEq(least), Test::Gt(Value::Long(0))] {
        let filter = is(5, test);
        assert_eq!(residual(&filter, &tens, &schema(), &partition), filter);
    }
}

#[test]
fn bounds_of_uuids_may_be_in_either_order() {
    let uuid = |v: u128| Value::Uuid(uuid::Uuid::from_u128(v));
    // In order only if their halves are taken as signed numbers.
    let file = ten_rows(8, Some(0), Some((uuid(u128::MAX), uuid(1))));
    for test in [Test::Eq(uuid(0)), Test::Gt(uuid(5)), Test::Lt(uuid(5)), Test::NotEq(uuid(1))] {
        assert!(may_match(&is(8, test.clone()), &file), "{test}");
        assert!(!all_match(&is(8, test.clone()), &file), "{test}");
    }
    let file = ten_rows(8, Some(0), Some((uuid(3), uuid(5))));
    assert!(!may_match(&is(8, Test::Eq(uuid(6))), &file));
    assert!(!may_match(&is(8, Test::In(vec![uuid(2), uuid(6)].into())), &file));
    assert!(may_match(&is(8, Test::In(vec![uuid(2), uuid(4)].into())), &file));
    let file = ten_rows(8, Some(0), Some((uuid(3), uuid(3))));
    assert!(!may_match(&is(8, Test::Gt(uuid(3))), &file));
    assert!(all_match(&is(8, Test::LtEq(uuid(3))), &file));
}

#[test]
fn null_is_no_proof_of_difference() {
    let five = || Value::Int(5);
    let file = |nulls| ten_rows(1, nulls, Some((five(), five())));
    for test in [Test::NotEq(five()), Test::NotIn(vec![five(), Value::Int(9)].into())] {
        assert!(!all_match(&is(1, test.clone()), &file(Some(1))), "{test}");
        assert!(!all_match(&is(1, test.clone()), &file(None)), "{test}");
        assert!(!may_match(&is(1, test), &file(Some(1))));
    }
    let six = is(1, Test::NotEq(Value::Int(6)));
    assert!(!all_match(&six, &file(Some(1))));
    assert!(!all_match(&six, &file(None)));
    assert!(all_match(&six, &file(Some(0))));
    // All null: nothing is different, or the same.
    assert!(!may_match(&six, &ten_rows(1, Some(10), None)));
    assert!(!all_match(&six, &ten_rows(1, Some(10), None)));
}

#[test]
fn nan_is_above_and_below_all_bounds() {
    let double = Value::Double;
    let mut file = ten_rows(4, Some(0), Some((double(1.0), double(2.0))));
    for nans in [None, Some(3)] {
        set_nans(&mut file, nans);
        assert!(may_match(&is(4, Test::Gt(double(5.0))), &file), "NaN is greater");
        assert!(may_match(&is(4, Test::Lt(double(0.0))), &file), "-NaN is less");
        assert!(may_match(&is(4, Test::Eq(double(f64::NAN))), &file));
        assert!(!may_match(&is(4, Test::Eq(double(5.0))), &file), "but not equal to a number");
        assert!(!all_match(&is(4, Test::Lt(double(5.0))), &file));
    }
    set_nans(&mut file, Some(0));
    assert!(!may_match(&is(4, Test::Gt(double(5.0))), &file));
    assert!(!may_match(&is(4, Test::Eq(double(f64::NAN))), &file));
    assert!(!may_match(&is(4, Test::IsNan), &file));
    assert!(all_match(&is(4, Test::Lt(double(5.0))), &file));
    // A bound that is NaN is no bound.
    let mut file = ten_rows(4, Some(0), Some((double(1.0), double(f64::NAN))));
    set_nans(&mut file, Some(0));
    assert!(may_match(&is(4, Test::Lt(double(0.0))), &file));
}

#[test]
fn zeros_are_taken_for_either() {
    let double = Value::Double;
    for zero in [0.0, -0.0] {
        let mut file = ten_rows(4, Some(0), Some((double(zero), double(zero))));
        set_nans(&mut file, Some(0));
        for literal in [0.0, -0.0] {
            assert!(may_match(&is(4, Test::Eq(double(literal))), &file));
            assert!(may_match(&is(4, Test::NotEq(double(literal))), &file));
            assert!(!all_match(&is(4, Test::Eq(double(literal))), &file));
        }
        assert!(may_match(&is(4, Test::Lt(double(0.0))), &file));
        assert!(may_match(&is(4, Test::Gt(double(-0.0))), &file));
    }
}

#[test]
fn bounds_prune_also_with_the_length_of_an_older_type() {
    let mut file = ten_rows(5, Some(0), Some((Value::Int(10), Value::Int(20))));
    assert!(!may_match(&is(5, Test::Gt(Value::Long(20))), &file));
    assert!(may_match(&is(5, Test::GtEq(Value::Long(20))), &file));
    assert!(!may_match(&is(5, Test::In(vec![Value::Long(9), Value::Long(21)].into())), &file));
    assert!(may_match(&is(5, Test::In(vec![Value::Long(9), Value::Long(15)].into())), &file));
    // Bytes of no length that a long ever had.
    let mut maps = file.metrics.to_maps();
    maps.upper_bounds.values_mut().for_each(|b| *b = Bytes::from_static(b"abc"));
    file.metrics = maps.into();
    assert!(may_match(&is(5, Test::Gt(Value::Long(20))), &file));
    assert!(!may_match(&is(5, Test::Lt(Value::Long(10))), &file));
}

#[test]
fn bounds_of_strings_may_be_cut() {
    let text = |s: &str| Value::String(s.into());
    let file = ten_rows(3, Some(0), Some((text("aé"), text("b"))));
    assert!(may_match(&is(3, Test::Eq(text("aéx"))), &file));
    assert!(!may_match(&is(3, Test::Eq(text("ad"))), &file));
    assert!(!may_match(&is(3, Test::StartsWith(text("c"))), &file));
    assert!(may_match(&is(3, Test::StartsWith(text("aéxyz"))), &file));
    assert!(may_match(&is(3, Test::NotStartsWith(text("a"))), &file));
    let file = ten_rows(3, Some(0), Some((text("ab"), text("abz"))));
    assert!(!may_match(&is(3, Test::NotStartsWith(text("ab"))), &file));
    assert!(all_match(&is(3, Test::StartsWith(text("ab"))), &file));
}

#[test]
fn what_can_not_be_projected_is_true() {
    let filter = is(1, Test::Eq(Value::Int(1)));
    assert_eq!(project(&filter, &spec(1, Transform::Unknown("zorder".into()))), "true");
    assert_eq!(project(&filter, &spec(1, Transform::Void)), "true");
    assert_eq!(project(&filter, &spec(99, Transform::Identity)), "true");
    let mut two = spec(1, Transform::Bucket(4));
    two.fields[0].source_ids.push(FieldId(5));
    assert_eq!(project(&filter, &two), "true");
    assert_eq!(project(&is(1, Test::Lt(Value::Int(1))), &spec(1, Transform::Bucket(4))), "p IS NOT NULL");
}

#[test]
fn summaries_prune_manifests() {
    let identity = spec(1, Transform::Identity);
    let summary = |contains_null, lower: i32, upper: i32| {
        Some(vec![FieldSummary {
            contains_null,
            contains_nan: None,
            lower_bound: Some(lower.to_le_bytes().to_vec()),
            upper_bound: Some(upper.to_le_bytes().to_vec()),
        }])
    };
    let evaluator = |test| ManifestEvaluator::new(&is(1, test), &identity, &schema());
    let nine = evaluator(Test::Eq(Value::Int(9)));
    assert!(!nine.may_match(&manifest(summary(false, 1, 8))));
    assert!(nine.may_match(&manifest(summary(false, 1, 9))));
    assert!(nine.may_match(&manifest(None)), "nothing is known");
    assert!(nine.may_match(&manifest(Some(vec![]))), "nor of which field");
    assert!(!evaluator(Test::IsNull).may_match(&manifest(summary(false, 1, 8))));
    assert!(evaluator(Test::IsNull).may_match(&manifest(summary(true, 1, 8))));
}

#[test]
fn summaries_that_writers_got_wrong() {
    let may_match = |id, test, lower: &[u8], upper: &[u8]| {
        let summary = FieldSummary {
            contains_null: false,
            contains_nan: None,
            lower_bound: Some(lower.to_vec()),
            upper_bound: Some(upper.to_vec()),
        };
        let evaluator = ManifestEvaluator::new(&is(id, test), &spec(id, Transform::Identity), &schema());
        evaluator.may_match(&manifest(Some(vec![summary])))
    };
    // Java's binary bounds.
    assert!(may_match(9, Test::Eq(Value::Binary(vec![0x80])), b"a", b"\x7f\xff"));
    assert!(!may_match(9, Test::IsNull, b"a", b"b"));
    // DuckDB's strings of more than 16 bytes: the upper bound is cut, the lower right all the same.
    let text = |s: &str| Test::Eq(Value::String(s.into()));
    assert!(may_match(3, text("0123456789abcdefghij"), b"0123456789abcdef", b"0123456789abcdef"));
    assert!(may_match(3, text("012345678901é日本"), b"01", "012345678901é".as_bytes()));
    assert!(!may_match(3, text("0"), b"0123456789abcdef", b"0123456789abcdef"));
    assert!(!may_match(3, text("x"), b"a", b"w"));
}

#[test]
fn residuals_keep_what_is_open() {
    let filter = Predicate::and([
        is(2, Test::GtEq(instant("2025-01-10T12:00:00Z"))),
        Predicate::or([is(1, Test::IsNull), is(2, Test::Lt(instant("2025-01-20T00:00:00Z")))]),
    ]);
    let days = spec(2, Transform::Day);
    let left = |day: &str| {
        let date: chrono::NaiveDate = day.parse().unwrap();
        let epoch = chrono::DateTime::UNIX_EPOCH.date_naive();
        let partition = vec![Some(Value::Date((date - epoch).num_days() as i32))];
        residual(&filter, &days, &schema(), &partition).to_string()
    };
    assert_eq!(left("2025-01-09"), "false");
    assert_eq!(left("2025-01-10"), "ts >= '2025-01-10 12:00:00'");
    assert_eq!(left("2025-01-15"), "true");
    assert_eq!(left("2025-01-20"), "i IS NULL");
}

#[test]
fn predicates_are_kept_in_normal_form() {
    let (a, b) = (is(1, Test::Eq(Value::Int(1))), is(3, Test::IsNull));
    assert_eq!(Predicate::and([a.clone(), Predicate::True]), a);
    assert_eq!(Predicate::and([a.clone(), Predicate::False]), Predicate::False);
    assert_eq!(Predicate::or([a.clone(), Predicate::True]), Predicate::True);
    assert_eq!(Predicate::<Leaf>::or([]), Predicate::False);
    let both =
        Predicate::and([Predicate::and([a.clone(), b.clone()]), Predicate::or([a.clone(), b.clone()])]);
    assert_eq!(both.to_string(), "i = 1 AND s IS NULL AND (i = 1 OR s IS NULL)");
    assert_eq!(both.not().to_string(), "i <> 1 OR s IS NOT NULL OR (i <> 1 AND s IS NOT NULL)");
    assert_eq!(both.field_ids(), [FieldId(1), FieldId(3)]);
    assert_eq!(is(1, Test::In(vec![].into())), Predicate::False);
    assert_eq!(is(1, Test::NotIn(vec![].into())), Predicate::True);
    assert_eq!(is(1, Test::In(vec![Value::Int(1); 3].into())), a);
    assert!(Predicate::new(Term::field(&schema(), FieldId(1)).unwrap(), Test::Eq(Value::Long(1))).is_err());
    assert!(Predicate::new(Term::field(&schema(), FieldId(1)).unwrap(), Test::IsNan).is_err());
    assert!(Term::field(&schema(), FieldId(10)).is_none(), "a struct");
}
