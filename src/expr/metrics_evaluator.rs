//! Files that can be left out, or taken whole, by their column metrics.

use crate::spec::{ContentFile, FieldId, PrimitiveType, Schema, Type};

use super::evaluate::{Facts, evaluate};
use super::predicate::{Leaf, Predicate, Test};
use super::scalar::Scalar;

/// A test of one column.
#[derive(Debug, Clone)]
struct Column {
    id: FieldId,
    value_type: PrimitiveType,
    can_be_null: bool,
    /// Whether it lies in a struct.
    nested: bool,
    /// Whether the test is of a transform's result, of which the bounds say nothing.
    transformed: bool,
    test: Test,
}

/// Finds the columns of a filter. What the metrics can't speak of becomes `None`.
fn columns(filter: &Predicate, schema: &Schema) -> Predicate<Option<Column>> {
    filter.map(&mut |leaf: &Leaf| {
        let column = schema.path_of(leaf.term.field_id).and_then(|path| {
            let (field, parents) = path.split_last()?;
            // Counts of what lies in lists and maps aren't counts of rows.
            if !parents.iter().all(|p| matches!(p.field_type, Type::Struct(_))) {
                return None;
            }
            Some(Column {
                id: leaf.term.field_id,
                value_type: field.field_type.as_primitive()?.clone(),
                can_be_null: schema.can_be_null(leaf.term.field_id),
                nested: !parents.is_empty(),
                transformed: leaf.term.transform.is_some(),
                test: leaf.test.clone(),
            })
        });
        Predicate::Leaf(column)
    })
}

impl Column {
    /// What the file's metrics say. A column that they lack may be missing from the file and
    /// read as its default, or just not have been counted: unknown.
    fn test(&self, file: &ContentFile) -> Option<bool> {
        let metrics = &file.metrics;
        // Writers don't agree whether nulls, or what lies in a null struct, are counted; what is
        // not one a row isn't relied on.
        let values = metrics.value_count(self.id).filter(|v| *v > 0 && *v == file.record_count);
        let nulls = metrics.null_value_count(self.id).filter(|n| *n >= 0);
        let nans = metrics.nan_value_count(self.id).filter(|n| *n >= 0);
        let mut facts = Facts::unknown(&self.value_type);
        let no_nulls = match nulls {
            Some(n) => n == 0 && (!self.nested || values.is_some()),
            None => !self.can_be_null,
        };
        if no_nulls {
            facts = facts.no_nulls();
        }
        if let (Some(values), Some(nulls)) = (values, nulls) {
            if values == nulls {
                facts = facts.all_null();
            } else if nans.is_some_and(|nans| nulls.checked_add(nans) == Some(values)) {
                facts = facts.all_nan();
            }
        }
        if nans == Some(0) {
            facts = facts.no_nans();
        }
        if self.transformed {
            // Null exactly where the column is; a literal is of another type than its bounds.
            return match self.test {
                Test::IsNull | Test::NotNull => facts.test(&self.test),
                _ => facts.test(&Test::NotNull).filter(|not_null| !not_null),
            };
        }
        let lower = metrics.lower_bound(self.id).and_then(|b| Scalar::from_bytes(b, &self.value_type));
        let upper = metrics.upper_bound(self.id).and_then(|b| Scalar::from_bytes(b, &self.value_type));
        facts.bounds(lower, upper).test(&self.test)
    }
}

/// Tells which files may hold rows that match a filter.
#[derive(Debug, Clone)]
pub(crate) struct MetricsEvaluator {
    filter: Predicate<Option<Column>>,
}

impl MetricsEvaluator {
    /// `filter` is over the columns of `schema`.
    pub(crate) fn new(filter: &Predicate, schema: &Schema) -> Self {
        Self { filter: columns(filter, schema) }
    }

    /// Whether the file may hold a matching row.
    pub(crate) fn may_match(&self, file: &ContentFile) -> bool {
        let mut leaf = |column: &Option<Column>| column.as_ref().and_then(|c| c.test(file));
        file.record_count != 0 && evaluate(&self.filter, &mut leaf) != Some(false)
    }
}

/// Tells of which files all rows match a filter.
#[derive(Debug, Clone)]
pub(crate) struct StrictMetricsEvaluator {
    filter: Predicate<Option<Column>>,
}

impl StrictMetricsEvaluator {
    /// `filter` is over the columns of `schema`.
    pub(crate) fn new(filter: &Predicate, schema: &Schema) -> Self {
        // Writers don't agree how to count what lies in a null struct.
        let top_level = |c: &Option<Column>| Predicate::Leaf(c.clone().filter(|c| !c.nested));
        Self { filter: columns(filter, schema).map(&mut { top_level }) }
    }

    /// Whether all rows of the file match for certain.
    pub(crate) fn all_match(&self, file: &ContentFile) -> bool {
        let mut leaf = |column: &Option<Column>| column.as_ref().and_then(|c| c.test(file));
        evaluate(&self.filter, &mut leaf) == Some(true)
    }
}
