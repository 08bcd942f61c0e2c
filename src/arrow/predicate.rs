//! DataFusion's expressions as predicates of ours.
//!
//! A filter is asked for the rows for which it is *true*. NOT is pushed down on the way, so that
//! below it only AND and OR remain, for which false and unknown are the same. What can't be
//! converted becomes true, and the result inexact.

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator};

use crate::expr::{Predicate, Term, Test};
use crate::spec::{NestedField, PrimitiveType, Schema, Transform, Type, Value};

use super::literal_place::{Place, place};
use super::transform_function::TransformFunction;

/// Deeper expressions are not looked into.
const MAX_DEPTH: usize = 200;

/// What became of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Converted {
    /// Holds for every row for which the expression is true.
    ///
    /// Not to be negated: where the expression is unknown it may be false.
    pub(crate) predicate: Predicate,
    /// Whether it holds for these rows only.
    pub(crate) exact: bool,
}

/// The predicate that follows from a filter on a table of that schema. Columns are found by
/// their exact name, whatever their relation.
pub(crate) fn to_predicate(expr: &Expr, schema: &Schema) -> Converted {
    convert(expr, false, schema, 0)
}

impl Converted {
    fn exact(predicate: Predicate) -> Self {
        Self { predicate, exact: true }
    }

    fn unknown() -> Self {
        Self { predicate: Predicate::True, exact: false }
    }

    fn of(predicate: Option<Predicate>) -> Self {
        predicate.map_or_else(Self::unknown, Self::exact)
    }

    fn and(parts: Vec<Self>) -> Self {
        let exact = parts.iter().all(|p| p.exact);
        let predicate = Predicate::and(parts.into_iter().map(|p| p.predicate));
        Self { exact: exact || predicate == Predicate::False, predicate }
    }

    fn or(parts: Vec<Self>) -> Self {
        // What is exactly true makes the whole exactly true.
        let exact =
            parts.iter().all(|p| p.exact) || parts.iter().any(|p| p.exact && p.predicate == Predicate::True);
        Self { exact, predicate: Predicate::or(parts.into_iter().map(|p| p.predicate)) }
    }
}

/// Where the expression (or, if `negated`, its negation) is true.
fn convert(expr: &Expr, negated: bool, schema: &Schema, depth: usize) -> Converted {
    if depth > MAX_DEPTH {
        return Converted::unknown();
    }
    let next = |expr: &Expr, negated: bool| convert(expr, negated, schema, depth + 1);
    match expr {
        Expr::Alias(alias) => next(&alias.expr, negated),
        Expr::Literal(ScalarValue::Boolean(v), _) => match v {
            Some(v) if *v != negated => Converted::exact(Predicate::True),
            _ => Converted::exact(Predicate::False),
        },
        Expr::Not(inner) => next(inner, !negated),
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
            let parts = operands(expr, *op).into_iter().map(|e| next(e, negated)).collect();
            // NOT turns one into the other.
            if (*op == Operator::And) != negated { Converted::and(parts) } else { Converted::or(parts) }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (term, op, literal) = match (literal(right), literal(left)) {
                (Some(literal), _) => (left, Some(*op), literal),
                (None, Some(literal)) => (right, op.swap(), literal),
                _ => return Converted::unknown(),
            };
            let (Some(term), Some(op)) = (term_of(term, schema, depth), op) else {
                return Converted::unknown();
            };
            Converted::of(compare(&term, op, &literal, negated))
        }
        Expr::Between(between) => {
            let compare = |op: Operator, bound: &Expr| {
                let side = term_of(&between.expr, schema, depth).zip(literal(bound));
                Converted::of(side.and_then(|(t, l)| compare(&t, op, &l, negated != between.negated)))
            };
            let parts = vec![compare(Operator::GtEq, &between.low), compare(Operator::LtEq, &between.high)];
            if negated == between.negated { Converted::and(parts) } else { Converted::or(parts) }
        }
        Expr::InList(list) => in_list(list, negated, schema, depth),
        Expr::Like(like) => Converted::of(like_test(like, negated, schema, depth)),
        Expr::IsNull(inner) | Expr::IsUnknown(inner) => null_test(inner, negated, schema, depth),
        Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => null_test(inner, !negated, schema, depth),
        Expr::IsTrue(inner) => truth_test(inner, true, negated, schema, depth),
        Expr::IsNotTrue(inner) => truth_test(inner, true, !negated, schema, depth),
        Expr::IsFalse(inner) => truth_test(inner, false, negated, schema, depth),
        Expr::IsNotFalse(inner) => truth_test(inner, false, !negated, schema, depth),
        Expr::ScalarFunction(function) if function.func.name() == "isnan" => {
            let term = function.args.first().and_then(|arg| term_of(arg, schema, depth));
            let test = if negated { Test::NotNan } else { Test::IsNan };
            Converted::of(term.and_then(|t| leaf(t, test)))
        }
        Expr::ScalarFunction(function) if function.func.name() == "starts_with" => {
            Converted::of(starts_with(function, negated, schema, depth))
        }
        // A boolean column, or a field of a struct that is one.
        _ => Converted::of(
            term_of(expr, schema, depth).and_then(|t| leaf(t, Test::Eq(Value::Boolean(!negated)))),
        ),
    }
}

/// The operands of a chain of ANDs or ORs, however long, without recursion.
fn operands(expr: &Expr, op: Operator) -> Vec<&Expr> {
    let (mut found, mut open) = (Vec::new(), vec![expr]);
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryExpr(binary) if binary.op == op => open.extend([&*binary.right, &*binary.left]),
            other => found.push(other),
        }
    }
    found
}

fn leaf(term: Term, test: Test) -> Option<Predicate> {
    Predicate::new(term, test).ok()
}

/// A comparison with a literal; its negation if `negated`.
fn compare(term: &Term, op: Operator, literal: &ScalarValue, negated: bool) -> Option<Predicate> {
    let (op, distinct) = match op {
        Operator::IsNotDistinctFrom => (Operator::Eq, true),
        Operator::IsDistinctFrom => (Operator::NotEq, true),
        other => (other, false),
    };
    let op = if negated { op.negate()? } else { op };
    if literal.is_null() {
        return match (distinct, op) {
            // Never true.
            (false, _) => comparable(op).then_some(Predicate::False),
            (true, Operator::Eq) => leaf(term.clone(), Test::IsNull),
            (true, _) => leaf(term.clone(), Test::NotNull),
        };
    }
    let all = || leaf(term.clone(), Test::NotNull);
    let test = match (op, place(literal, &term.result_type()?)?) {
        (Operator::Eq, Place::At(v)) => Test::Eq(v),
        (Operator::Eq, _) => return Some(Predicate::False),
        (Operator::NotEq, place) => {
            let differs = match place {
                Place::At(v) => leaf(term.clone(), Test::NotEq(v))?,
                _ => all()?,
            };
            // Null is distinct from every value.
            let null = if distinct { leaf(term.clone(), Test::IsNull)? } else { Predicate::False };
            return Some(Predicate::or([differs, null]));
        }
        (Operator::Lt, Place::At(v)) => Test::Lt(v),
        (Operator::LtEq, Place::At(v)) | (Operator::Lt | Operator::LtEq, Place::JustAbove(v)) => {
            Test::LtEq(v)
        }
        (Operator::Lt | Operator::LtEq, Place::BelowAll) => return Some(Predicate::False),
        (Operator::Lt | Operator::LtEq, Place::AboveAll) => return all(),
        (Operator::GtEq, Place::At(v)) => Test::GtEq(v),
        (Operator::Gt, Place::At(v)) | (Operator::Gt | Operator::GtEq, Place::JustAbove(v)) => Test::Gt(v),
        (Operator::Gt | Operator::GtEq, Place::BelowAll) => return all(),
        (Operator::Gt | Operator::GtEq, Place::AboveAll) => return Some(Predicate::False),
        _ => return None,
    };
    leaf(term.clone(), test)
}

fn comparable(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
}

fn in_list(list: &InList, negated: bool, schema: &Schema, depth: usize) -> Converted {
    let Some(term) = term_of(&list.expr, schema, depth) else { return Converted::unknown() };
    let Some(result_type) = term.result_type() else { return Converted::unknown() };
    let not_in = list.negated != negated;
    let (mut values, mut has_null, mut exact) = (Vec::new(), false, true);
    for item in &list.list {
        let Some(literal) = literal(item) else {
            exact = false;
            continue;
        };
        match place(&literal, &result_type) {
            _ if literal.is_null() => has_null = true,
            Some(Place::At(v)) => values.push(v),
            // Equal to no value there is.
            Some(_) => {}
            None => exact = false,
        }
    }
    if not_in {
        // Unknown for what isn't in the list, false for what is.
        if has_null {
            return Converted::exact(Predicate::False);
        }
        let predicate = match values.is_empty() && !list.list.is_empty() {
            true => leaf(term, Test::NotNull),
            false => leaf(term, Test::NotIn(values.into())),
        };
        match predicate {
            Some(predicate) => Converted { predicate, exact },
            None => Converted::unknown(),
        }
    } else if exact {
        Converted::of(leaf(term, Test::In(values.into())))
    } else {
        Converted::unknown()
    }
}

/// `LIKE` with a prefix, or with no wildcard at all.
fn like_test(like: &Like, negated: bool, schema: &Schema, depth: usize) -> Option<Predicate> {
    // DataFusion knows no other escape.
    if like.case_insensitive || like.escape_char.is_some_and(|c| c != '\\') {
        return None;
    }
    let term = term_of(&like.expr, schema, depth)?;
    if term.field_type != PrimitiveType::String {
        return None;
    }
    let pattern = literal(&like.pattern)?;
    if pattern.is_null() {
        return Some(Predicate::False);
    }
    let pattern = text(&pattern)?;
    let (mut prefix, mut open) = (String::new(), false);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => open = true,
            // Something after the wildcard, or a wildcard for one character.
            _ if open => return None,
            '_' => return None,
            '\\' => prefix.push(chars.next().unwrap_or('\\')),
            other => prefix.push(other),
        }
    }
    let prefix = Value::String(prefix);
    leaf(
        term,
        match (open, like.negated != negated) {
            (true, false) => Test::StartsWith(prefix),
            (true, true) => Test::NotStartsWith(prefix),
            (false, false) => Test::Eq(prefix),
            (false, true) => Test::NotEq(prefix),
        },
    )
}

fn starts_with(function: &ScalarFunction, negated: bool, schema: &Schema, depth: usize) -> Option<Predicate> {
    let [of, prefix] = function.args.as_slice() else { return None };
    let term = term_of(of, schema, depth)?;
    let prefix = literal(prefix)?;
    if term.field_type != PrimitiveType::String {
        return None;
    }
    if prefix.is_null() {
        return Some(Predicate::False);
    }
    let prefix = Value::String(text(&prefix)?.to_owned());
    leaf(term, if negated { Test::NotStartsWith(prefix) } else { Test::StartsWith(prefix) })
}

fn null_test(expr: &Expr, not_null: bool, schema: &Schema, depth: usize) -> Converted {
    let term = term_of(expr, schema, depth);
    Converted::of(term.and_then(|t| leaf(t, if not_null { Test::NotNull } else { Test::IsNull })))
}

/// `IS [NOT] TRUE` and `IS [NOT] FALSE`, which are never unknown.
fn truth_test(expr: &Expr, value: bool, negated: bool, schema: &Schema, depth: usize) -> Converted {
    if !negated {
        return convert(expr, !value, schema, depth + 1);
    }
    // It isn't so where it is unknown, too: of that only columns can be asked.
    let term = match term_of(expr, schema, depth) {
        Some(term) if term.field_type == PrimitiveType::Boolean && term.transform.is_none() => term,
        _ => return Converted::unknown(),
    };
    let opposite = leaf(term.clone(), Test::Eq(Value::Boolean(!value)));
    Converted::of(opposite.zip(leaf(term, Test::IsNull)).map(|(a, b)| Predicate::or([a, b])))
}

fn text(scalar: &ScalarValue) -> Option<&str> {
    match scalar {
        ScalarValue::Dictionary(_, inner) => text(inner),
        other => other.try_as_str().flatten(),
    }
}

/// The value of an expression without columns, as far as it is a literal or casts of one.
fn literal(expr: &Expr) -> Option<ScalarValue> {
    let (mut casts, mut expr) = (Vec::new(), expr);
    let mut scalar = loop {
        match expr {
            Expr::Literal(scalar, _) => break scalar.clone(),
            Expr::Alias(alias) => expr = &alias.expr,
            Expr::Negative(inner) => match &**inner {
                Expr::Literal(scalar, _) => break scalar.arithmetic_negate().ok()?,
                _ => return None,
            },
            Expr::Cast(cast) => {
                casts.push(cast.field.data_type());
                expr = &cast.expr;
            }
            // What it can't cast is null, which is left alone here.
            Expr::TryCast(cast) => {
                casts.push(cast.field.data_type());
                expr = &cast.expr;
            }
            _ => return None,
        }
    };
    while let Some(data_type) = casts.pop() {
        scalar = scalar.cast_to(data_type).ok()?;
    }
    Some(scalar)
}

/// The column, field of a struct or transform that an expression stands for. Casts are looked
/// through where they lose nothing and keep the order.
fn term_of(expr: &Expr, schema: &Schema, depth: usize) -> Option<Term> {
    if depth > MAX_DEPTH {
        return None;
    }
    match expr {
        Expr::Alias(alias) => term_of(&alias.expr, schema, depth + 1),
        Expr::Cast(cast) => {
            let term = term_of(&cast.expr, schema, depth + 1)?;
            // Numbers are rounded on some ways from cast to cast; days aren't.
            if matches!(*cast.expr, Expr::Cast(_)) && term.result_type() != Some(PrimitiveType::Date) {
                return None;
            }
            super::literal_place::through_cast(term, cast.field.data_type())
        }
        Expr::ScalarFunction(function) => match function.func.inner().downcast_ref::<TransformFunction>() {
            Some(ours) => {
                let (parameter, column) = match function.args.as_slice() {
                    [column] => (None, column),
                    [parameter, column] => (Some(literal(parameter)?), column),
                    _ => return None,
                };
                let transform: Transform = ours.transform(parameter.as_ref()).ok()?;
                match term_of(column, schema, depth + 1)? {
                    Term { transform: Some(_), .. } => None,
                    term => Some(term.with_transform(transform)),
                }
            }
            None => field_term(expr, schema),
        },
        _ => field_term(expr, schema),
    }
}

fn field_term(expr: &Expr, schema: &Schema) -> Option<Term> {
    let field = field_of(expr, schema, 0)?;
    Term::field(schema, field.id).filter(|t| t.result_type().is_some())
}

/// Walks down structs only: on a map the same function looks up a key.
fn field_of<'a>(expr: &Expr, schema: &'a Schema, depth: usize) -> Option<&'a NestedField> {
    match expr {
        _ if depth > MAX_DEPTH => None,
        Expr::Alias(alias) => field_of(&alias.expr, schema, depth + 1),
        Expr::Column(Column { name, .. }) => schema.root.field_by_name(name),
        Expr::ScalarFunction(function) if function.func.name() == "get_field" => {
            let (of, names) = function.args.split_first()?;
            let mut field = field_of(of, schema, depth + 1)?;
            for name in names {
                let Type::Struct(fields) = &field.field_type else { return None };
                field = fields.field_by_name(text(&literal(name)?)?)?;
            }
            Some(field)
        }
        _ => None,
    }
}
