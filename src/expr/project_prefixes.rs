//! Projection through `truncate` of strings and bytes, which keeps the order and gives a prefix.

use crate::spec::Value;

use super::predicate::{Predicate, Test};
use super::projection::ProjectField;

/// Characters of a string, bytes of a binary: what the width counts.
fn length(v: &Value) -> Option<usize> {
    match v {
        Value::String(s) => Some(s.chars().count()),
        Value::Binary(b) => Some(b.len()),
        _ => None,
    }
}

/// `None` where nothing can be said.
pub(super) fn inclusive(field: &ProjectField, width: usize, test: &Test) -> Option<Predicate> {
    let fits = |v: &Value| length(v).map(|l| l <= width);
    let test = match test {
        // A prefix is never above its value.
        Test::Lt(v) if fits(v)? => Test::Lt(v.clone()),
        Test::Lt(v) | Test::LtEq(v) => Test::LtEq(field.apply(v)?),
        Test::Gt(v) | Test::GtEq(v) => Test::GtEq(field.apply(v)?),
        Test::Eq(v) => Test::Eq(field.apply(v)?),
        Test::In(set) => return Some(field.one_of(field.apply_all(set)?)),
        Test::StartsWith(v) if fits(v)? => Test::StartsWith(v.clone()),
        Test::StartsWith(v) => Test::Eq(field.apply(v)?),
        // Only of the whole literal: what starts with a part of it may go on otherwise.
        Test::NotStartsWith(v) if fits(v)? => Test::NotStartsWith(v.clone()),
        _ => return None,
    };
    Some(field.leaf(test))
}

/// `None` where nothing can be proven.
pub(super) fn strict(field: &ProjectField, width: usize, test: &Test) -> Option<Predicate> {
    let fits = |v: &Value| length(v).map(|l| l <= width);
    let test = match test {
        Test::Lt(v) | Test::LtEq(v) => Test::Lt(field.apply(v)?),
        Test::GtEq(v) if fits(v)? => Test::GtEq(v.clone()),
        Test::Gt(v) | Test::GtEq(v) => Test::Gt(field.apply(v)?),
        Test::NotEq(v) => Test::NotEq(field.apply(v)?),
        Test::NotIn(set) => return Some(field.none_of(field.apply_all(set)?)),
        Test::StartsWith(v) if fits(v)? => Test::StartsWith(v.clone()),
        Test::NotStartsWith(v) if fits(v)? => Test::NotStartsWith(v.clone()),
        Test::NotStartsWith(v) => Test::NotEq(field.apply(v)?),
        _ => return None,
    };
    Some(field.leaf(test))
}
