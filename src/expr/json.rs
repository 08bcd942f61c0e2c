//! Predicates as JSON, for servers (REST spec, `Expression`).

use serde_json::{Value as Json, json};

use super::predicate::{Leaf, Predicate, Term, Test};
use crate::spec::{PrimitiveType, Schema, Type, Value};

/// Longer sets are left out: they rarely help, and make requests long.
const MAX_SET_LEN: usize = 1000;

/// A predicate for others to leave out files by that hold no row that matches. `None` if there is
/// nothing to say.
///
/// What others may take otherwise than we do is left out, so that no row is missed: floats, of which
/// NaN and the zeros have no place that all agree on; UUIDs and bytes; whatever lies in a column of
/// columns; transforms.
pub(crate) fn inclusive_json(predicate: &Predicate, schema: &Schema) -> Option<Json> {
    match predicate {
        Predicate::True => None,
        Predicate::False => Some(Json::Bool(false)),
        Predicate::And(parts) => {
            let known: Vec<Json> = parts.iter().filter_map(|p| inclusive_json(p, schema)).collect();
            tree("and", &known)
        }
        // Any part that says nothing may match anything.
        Predicate::Or(parts) => {
            let all: Option<Vec<Json>> = parts.iter().map(|p| inclusive_json(p, schema)).collect();
            tree("or", &all?)
        }
        Predicate::Leaf(leaf) => inclusive_leaf(leaf, schema),
    }
}

/// Balanced, as readers limit how deep JSON may be.
fn tree(operator: &str, parts: &[Json]) -> Option<Json> {
    match parts {
        [] => None,
        [only] => Some(only.clone()),
        _ => {
            let (left, right) = parts.split_at(parts.len() / 2);
            Some(json!({"type": operator, "left": tree(operator, left)?, "right": tree(operator, right)?}))
        }
    }
}

fn inclusive_leaf(leaf: &Leaf, schema: &Schema) -> Option<Json> {
    use PrimitiveType as P;
    let Leaf { term, test } = leaf;
    let is_top = schema.fields().iter().any(|field| field.id == term.field_id);
    if term.transform.is_some() || !is_top || test.literals().len() > MAX_SET_LEN {
        return None;
    }
    let is_comparable = match term.field_type {
        P::Boolean
        | P::Int
        | P::Long
        | P::Decimal { .. }
        | P::Date
        | P::Time
        | P::Timestamp
        | P::Timestamptz
        | P::String => true,
        _ => matches!(test, Test::IsNull | Test::NotNull),
    };
    if !is_comparable {
        return None;
    }
    let of = Type::Primitive(term.field_type.clone());
    let values: Option<Vec<Json>> = test.literals().iter().map(|value| value.to_json(&of).ok()).collect();
    Some(leaf_json(term.name.as_ref().into(), test, values?))
}

/// A predicate that shows what is tested and how, but of the values nothing except their types.
pub(crate) fn sanitized_json(predicate: &Predicate) -> Json {
    let all = |parts: &[Predicate]| parts.iter().map(sanitized_json).collect::<Vec<_>>();
    match predicate {
        Predicate::True => Json::Bool(true),
        Predicate::False => Json::Bool(false),
        Predicate::And(parts) => tree("and", &all(parts)).unwrap_or(Json::Bool(true)),
        Predicate::Or(parts) => tree("or", &all(parts)).unwrap_or(Json::Bool(false)),
        Predicate::Leaf(Leaf { term, test }) => {
            let of = term.result_type().map_or_else(|| "value".to_owned(), |of| of.to_string());
            let values = match test {
                Test::In(set) | Test::NotIn(set) => vec![format!("({} values of {of})", set.len()).into()],
                other => other.literals().iter().map(|_: &Value| format!("({of})").into()).collect(),
            };
            leaf_json(term_json(term), test, values)
        }
    }
}

fn term_json(term: &Term) -> Json {
    match &term.transform {
        None => term.name.as_ref().into(),
        Some(transform) => {
            json!({"type": "transform", "transform": transform.to_string(), "term": term.name.as_ref()})
        }
    }
}

fn leaf_json(term: Json, test: &Test, values: Vec<Json>) -> Json {
    let operator = match test {
        Test::IsNull => "is-null",
        Test::NotNull => "not-null",
        Test::IsNan => "is-nan",
        Test::NotNan => "not-nan",
        Test::Lt(_) => "lt",
        Test::LtEq(_) => "lt-eq",
        Test::Gt(_) => "gt",
        Test::GtEq(_) => "gt-eq",
        Test::Eq(_) => "eq",
        Test::NotEq(_) => "not-eq",
        Test::StartsWith(_) => "starts-with",
        Test::NotStartsWith(_) => "not-starts-with",
        Test::In(_) => "in",
        Test::NotIn(_) => "not-in",
    };
    let mut leaf = json!({"type": operator, "term": term});
    let Some(members) = leaf.as_object_mut() else { return leaf };
    match test {
        Test::In(_) | Test::NotIn(_) => members.insert("values".into(), values.into()),
        _ => values.into_iter().next().and_then(|value| members.insert("value".into(), value)),
    };
    leaf
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{FieldId, NestedField, SchemaId, StructType, Transform};

    fn schema() -> Schema {
        let inner = StructType::new(vec![NestedField::required(7, "b", PrimitiveType::Int)]);
        let fields = vec![
            NestedField::optional(1, "i", PrimitiveType::Int),
            NestedField::optional(2, "s", PrimitiveType::String),
            NestedField::optional(3, "d", PrimitiveType::Double),
            NestedField::optional(4, "t", PrimitiveType::Timestamptz),
            NestedField::optional(5, "u", PrimitiveType::Uuid),
            NestedField::optional(6, "a", Type::Struct(inner)),
        ];
        Schema::new(SchemaId(0), fields, Vec::new()).unwrap()
    }

    fn leaf(id: i32, test: Test) -> Predicate {
        Predicate::new(Term::field(&schema(), FieldId(id)).unwrap(), test).unwrap()
    }

    #[test]
    fn predicates_are_as_the_protocol_has_them() {
        let json = |p: &Predicate| inclusive_json(p, &schema());
        let i = leaf(1, Test::Gt(Value::Int(5)));
        let s = leaf(2, Test::In([Value::String("a".into()), Value::String("b".into())].into()));
        let of_i = json!({"type": "gt", "term": "i", "value": 5});
        let of_s = json!({"type": "in", "term": "s", "values": ["a", "b"]});
        assert_eq!(json(&i), Some(of_i.clone()));
        assert_eq!(
            json(&Predicate::and([i.clone(), s.clone()])),
            Some(json!({"type": "and", "left": of_i, "right": of_s}))
        );
        assert_eq!(json(&Predicate::False), Some(Json::Bool(false)));
        let t = leaf(4, Test::Eq(Value::Timestamptz(1_000_000)));
        assert_eq!(
            json(&t),
            Some(json!({"type": "eq", "term": "t", "value": "1970-01-01T00:00:01.000000+00:00"}))
        );
        assert_eq!(json(&leaf(5, Test::IsNull)), Some(json!({"type": "is-null", "term": "u"})));
    }

    #[test]
    fn what_can_be_misunderstood_is_left_out() {
        let json = |p: &Predicate| inclusive_json(p, &schema());
        let i = leaf(1, Test::Gt(Value::Int(5)));
        let unsaid = [
            leaf(3, Test::Gt(Value::Double(1.0))),
            leaf(5, Test::Eq(Value::Uuid(uuid::Uuid::nil()))),
            leaf(7, Test::IsNull),
            leaf(1, Test::In((0..2000).map(Value::Int).collect())),
            Predicate::new(
                Term::field(&schema(), FieldId(1)).unwrap().with_transform(Transform::Bucket(4)),
                Test::Eq(Value::Int(1)),
            )
            .unwrap(),
            Predicate::True,
        ];
        for unsaid in unsaid {
            assert_eq!(json(&unsaid), None, "{unsaid}");
            // Of a conjunction the rest can be said, of a disjunction nothing.
            assert_eq!(json(&Predicate::and([i.clone(), unsaid.clone()])), json(&i));
            assert_eq!(json(&Predicate::or([i.clone(), unsaid])), None);
        }
        // As deep as it must be, not as deep as it is long.
        let many = Predicate::and((0..1000).map(|n| leaf(1, Test::NotEq(Value::Int(n)))));
        let (mut depth, mut at) = (0, json(&many).unwrap());
        while let Some(left) = at.get("left").cloned() {
            (depth, at) = (depth + 1, left);
        }
        assert!((9..=10).contains(&depth), "{depth}");
    }

    #[test]
    fn sanitized_predicates_hold_no_values() {
        let secret = leaf(2, Test::StartsWith(Value::String("hunter2".into())));
        let set = leaf(1, Test::In([Value::Int(47), Value::Int(11)].into()));
        let json = sanitized_json(&Predicate::or([secret, set]));
        assert_eq!(
            json,
            json!({
                "type": "or",
                "left": {"type": "starts-with", "term": "s", "value": "(string)"},
                "right": {"type": "in", "term": "i", "values": ["(2 values of int)"]},
            })
        );
    }
}
