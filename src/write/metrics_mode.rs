//! Which metrics are kept of which column: `write.metadata.metrics.*`.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, Result, ResultExt};
use crate::spec::{FieldId, PrimitiveType, Schema, SortOrder, Transform, Type};

const DEFAULT_MODE: &str = "write.metadata.metrics.default";
const COLUMN_MODE_PREFIX: &str = "write.metadata.metrics.column.";
const MAX_INFERRED: &str = "write.metadata.metrics.max-inferred-column-defaults";
const MAX_INFERRED_DEFAULT: usize = 100;

/// What is kept of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricsMode {
    /// Nothing.
    None,
    /// Counts, and its size.
    Counts,
    /// Counts, and bounds of so many characters or bytes.
    Truncate(usize),
    /// Counts, and whole bounds.
    Full,
}

const TRUNCATE_16: MetricsMode = MetricsMode::Truncate(16);

impl MetricsMode {
    fn parse(text: &str) -> Result<Self> {
        let lower = text.trim().to_ascii_lowercase();
        Ok(match lower.as_str() {
            "none" => Self::None,
            "counts" => Self::Counts,
            "full" => Self::Full,
            other => {
                let length = other.strip_prefix("truncate(").and_then(|rest| rest.strip_suffix(')'));
                let length = length.and_then(|n| n.trim().parse().ok()).filter(|n: &usize| *n > 0);
                Self::Truncate(length.ok_or_else(|| {
                    Error::invalid(format!(
                        "`{text}` is no metrics mode: expected none, counts, truncate(length) or full"
                    ))
                })?)
            }
        })
    }

    /// To how many characters or bytes bounds are cut, if there are bounds.
    pub(super) fn bounds(self) -> Option<Option<usize>> {
        match self {
            Self::None | Self::Counts => None,
            Self::Truncate(length) => Some(Some(length)),
            Self::Full => Some(None),
        }
    }
}

/// The modes of all columns of a table.
#[derive(Debug, Clone)]
pub(super) struct MetricsModes {
    default: MetricsMode,
    columns: HashMap<FieldId, MetricsMode>,
}

impl MetricsModes {
    /// The same one for every column.
    pub(super) fn all(default: MetricsMode) -> Self {
        Self { default, columns: HashMap::new() }
    }

    /// By the table's properties. Without a default of its own, a wide table keeps metrics of its
    /// first columns only; columns that the table is sorted by have bounds unless they are told not
    /// to.
    ///
    /// # Errors
    /// `DataInvalid` for a property that can't be read, by its name.
    pub(super) fn new(
        properties: &BTreeMap<String, String>,
        schema: &Schema,
        order: &SortOrder,
    ) -> Result<Self> {
        let mode = |name: &str| match properties.get(name) {
            Some(text) => MetricsMode::parse(text).map(Some).context(|| format!("property `{name}`")),
            None => Ok(None),
        };
        let mut columns = HashMap::new();
        let default = match mode(DEFAULT_MODE)? {
            Some(default) => default,
            None => {
                let limit = match properties.get(MAX_INFERRED) {
                    Some(text) => text.trim().parse::<usize>().map_err(|_| {
                        Error::invalid(format!("`{text}` is not a number of columns"))
                            .context(format!("property `{MAX_INFERRED}`"))
                    })?,
                    None => MAX_INFERRED_DEFAULT,
                };
                let mut ids = Vec::new();
                in_order(&schema.fields().iter().collect::<Vec<_>>(), &mut ids);
                match ids.len() > limit {
                    true => {
                        columns.extend(ids.into_iter().take(limit).map(|id| (id, TRUNCATE_16)));
                        MetricsMode::None
                    }
                    false => TRUNCATE_16,
                }
            }
        };
        let of_sorted = match default {
            MetricsMode::None | MetricsMode::Counts => TRUNCATE_16,
            default => default,
        };
        let keeps_order =
            |t: &Transform| !matches!(t, Transform::Bucket(_) | Transform::Void | Transform::Unknown(_));
        for field in order.fields.iter().filter(|f| keeps_order(&f.transform)) {
            columns.extend(field.source_ids.iter().map(|id| (*id, of_sorted)));
        }
        for (key, text) in properties {
            let Some(name) = key.strip_prefix(COLUMN_MODE_PREFIX) else { continue };
            let mode = MetricsMode::parse(text).context(|| format!("property `{key}`"))?;
            // What it names may have been dropped since.
            if let Some(id) = schema.field_ids().find(|id| schema.full_name(*id).as_deref() == Some(name)) {
                columns.insert(id, mode);
            }
        }
        Ok(Self { default, columns })
    }

    /// The mode of a column.
    pub(super) fn of(&self, id: FieldId) -> MetricsMode {
        self.columns.get(&id).copied().unwrap_or(self.default)
    }
}

/// The fields that can have metrics: those directly in a struct before those deeper in it.
fn in_order(fields: &[&crate::spec::NestedField], ids: &mut Vec<FieldId>) {
    let has_metrics = |t: &Type| match t {
        Type::Primitive(p) => *p != PrimitiveType::Unknown,
        t => *t == Type::Variant,
    };
    ids.extend(fields.iter().filter(|f| has_metrics(&f.field_type)).map(|f| f.id));
    for field in fields {
        in_order(&field.field_type.children(), ids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{
        ListType, NestedField, NullOrder, PrimitiveType as P, SchemaId, SortDirection, SortField,
        SortOrderId, StructType,
    };

    fn modes(properties: &[(&str, &str)], schema: &Schema, order: &SortOrder) -> Result<MetricsModes> {
        let properties = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        MetricsModes::new(&properties, schema, order)
    }

    fn schema() -> Schema {
        let inner = StructType::new(vec![NestedField::optional(4, "x", P::Int)]);
        let fields = vec![
            NestedField::optional(1, "s", inner),
            NestedField::optional(2, "l", ListType::new(5, P::Int, false)),
            NestedField::optional(3, "i", P::Int),
        ];
        Schema::new(SchemaId(0), fields, vec![]).unwrap()
    }

    #[test]
    fn columns_override_the_default() {
        let none = SortOrder::default();
        let m = modes(&[], &schema(), &none).unwrap();
        assert_eq!(m.of(FieldId(3)), TRUNCATE_16);
        let m = modes(
            &[
                (DEFAULT_MODE, "Counts"),
                ("write.metadata.metrics.column.s.x", "full"),
                ("write.metadata.metrics.column.i", "truncate(3)"),
                ("write.metadata.metrics.column.gone", "none"),
            ],
            &schema(),
            &none,
        )
        .unwrap();
        let of = |id| m.of(FieldId(id));
        assert_eq!((of(3), of(4), of(5)), (MetricsMode::Truncate(3), MetricsMode::Full, MetricsMode::Counts));
        for bad in ["truncate", "truncate(0)", "truncate(-1)", "all"] {
            let e = modes(&[(DEFAULT_MODE, bad)], &schema(), &none).unwrap_err();
            assert!(e.to_string().contains(DEFAULT_MODE), "{e}");
        }
    }

    #[test]
    fn wide_tables_keep_their_first_columns() {
        let m = modes(&[(MAX_INFERRED, "2")], &schema(), &SortOrder::default()).unwrap();
        let of = |id| m.of(FieldId(id));
        assert_eq!((of(3), of(4), of(5)), (TRUNCATE_16, TRUNCATE_16, MetricsMode::None));
        let m =
            modes(&[(MAX_INFERRED, "2"), (DEFAULT_MODE, "full")], &schema(), &SortOrder::default()).unwrap();
        assert_eq!(m.of(FieldId(5)), MetricsMode::Full, "a default that was chosen holds for all");
    }

    #[test]
    fn sorted_columns_have_bounds() {
        let by = |id, transform| SortField {
            source_ids: vec![FieldId(id)],
            transform,
            direction: SortDirection::Ascending,
            null_order: NullOrder::First,
            extra: serde_json::Map::new(),
        };
        let fields = vec![by(3, Transform::Identity), by(4, Transform::Bucket(2))];
        let order = SortOrder { order_id: SortOrderId(1), fields };
        let m = modes(&[(DEFAULT_MODE, "none")], &schema(), &order).unwrap();
        assert_eq!((m.of(FieldId(3)), m.of(FieldId(4))), (TRUNCATE_16, MetricsMode::None));
        let m = modes(
            &[(DEFAULT_MODE, "none"), ("write.metadata.metrics.column.i", "counts")],
            &schema(),
            &order,
        );
        assert_eq!(m.unwrap().of(FieldId(3)), MetricsMode::Counts);
    }
}
