//! Which metrics writers collect of which column: `write.metadata.metrics.*`.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};

use super::super::ids::FieldId;
use super::super::schema::Schema;
use super::super::sort::SortOrder;
use super::super::transform::Transform;
use super::super::types::{NestedField, Type};
use super::TableProperties;
use super::parse::{bad_value, wrong};

const DEFAULT: &str = "write.metadata.metrics.default";
const COLUMN_PREFIX: &str = "write.metadata.metrics.column.";
const MAX_INFERRED: &str = "write.metadata.metrics.max-inferred-column-defaults";

/// What is collected of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricsMode {
    /// Nothing but its size.
    None,
    /// The numbers of values, nulls and NaNs.
    Counts,
    /// Counts, and bounds of at most this many characters or bytes.
    Truncate(usize),
    /// Counts, and bounds as they are.
    Full,
}

impl MetricsMode {
    /// What is collected unless properties say otherwise.
    pub const DEFAULT: Self = Self::Truncate(16);

    fn parse(text: &str) -> Option<Self> {
        let lower = text.trim().to_ascii_lowercase();
        Some(match lower.as_str() {
            "none" => Self::None,
            "counts" => Self::Counts,
            "full" => Self::Full,
            other => {
                let width = other.strip_prefix("truncate(")?.strip_suffix(')')?;
                Self::Truncate(width.trim().parse().ok().filter(|width| *width > 0)?)
            }
        })
    }
}

/// The metrics of each column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsConfig {
    default: MetricsMode,
    columns: HashMap<FieldId, MetricsMode>,
}

impl MetricsConfig {
    /// What is collected of the field with that id, at any depth.
    pub fn mode(&self, id: FieldId) -> MetricsMode {
        self.columns.get(&id).copied().unwrap_or(self.default)
    }
}

impl TableProperties<'_> {
    /// `write.metadata.metrics.{default,column.NAME,max-inferred-column-defaults}`, by the ids of
    /// a schema. Without a default, that is `truncate(16)` for the first 100 fields and none for
    /// others; columns that the table is sorted by always have bounds, unless the property of the
    /// column says otherwise. Names of columns that are not in the schema are ignored.
    pub fn metrics_config(&self, schema: &Schema, order: &SortOrder) -> Result<MetricsConfig> {
        let mut columns = HashMap::new();
        let default = match self.metrics_mode(DEFAULT)? {
            Some(mode) => mode,
            None => {
                let limit = self.number(MAX_INFERRED, 100_usize)?;
                if schema.field_ids().count() <= limit {
                    MetricsMode::DEFAULT
                } else {
                    let mut first = HashSet::new();
                    first_fields(&schema.fields().iter().collect::<Vec<_>>(), limit, &mut first);
                    columns.extend(first.into_iter().map(|id| (id, MetricsMode::DEFAULT)));
                    MetricsMode::None
                }
            }
        };
        let sorted = match default {
            MetricsMode::None | MetricsMode::Counts => MetricsMode::DEFAULT,
            mode => mode,
        };
        for field in order.fields.iter().filter(|field| keeps_order(&field.transform)) {
            columns.extend(field.source_ids.iter().map(|id| (*id, sorted)));
        }
        for (column, name) in self.under(COLUMN_PREFIX) {
            let Some(mode) = self.metrics_mode(name)? else { continue };
            if let Some(field) = schema.field_by_full_name(column) {
                columns.insert(field.id, mode);
            }
        }
        Ok(MetricsConfig { default, columns })
    }

    /// Whether all columns that `write.metadata.metrics.column.NAME` names are in a schema.
    pub(crate) fn check_metrics_columns(&self, schema: &Schema) -> Result<()> {
        let missing = |column: &str| schema.field_by_full_name(column).is_none();
        match self.under(COLUMN_PREFIX).find(|(column, _)| missing(column)) {
            None => Ok(()),
            Some((column, name)) => {
                Err(wrong(name, Error::invalid(format!("there is no column `{column}`"))))
            }
        }
    }

    fn metrics_mode(&self, name: &str) -> Result<Option<MetricsMode>> {
        let parse = |text: &str| {
            MetricsMode::parse(text)
                .ok_or_else(|| bad_value(name, text, "`none`, `counts`, `truncate(LENGTH)` or `full`"))
        };
        self.get(name).map(parse).transpose()
    }
}

/// The first `limit` fields that have metrics: those of one level before those below them.
fn first_fields(level: &[&NestedField], limit: usize, first: &mut HashSet<FieldId>) {
    for field in level {
        if first.len() >= limit {
            return;
        }
        if matches!(field.field_type, Type::Primitive(_) | Type::Variant) {
            first.insert(field.id);
        }
    }
    // As deep as a schema, which has a limit.
    level.iter().for_each(|field| first_fields(&field.field_type.children(), limit, first));
}

fn keeps_order(transform: &Transform) -> bool {
    match transform {
        Transform::Bucket(_) | Transform::Void | Transform::Unknown(_) => false,
        Transform::Identity
        | Transform::Truncate(_)
        | Transform::Year
        | Transform::Month
        | Transform::Day
        | Transform::Hour => true,
    }
}
