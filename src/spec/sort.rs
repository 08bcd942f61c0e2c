//! Sort orders (spec, "Sorting").

use super::ids::{FieldId, SortOrderId};
use super::transform::Transform;

/// The direction of a sort field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SortDirection {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// Where a sort field's nulls go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NullOrder {
    /// Before all values.
    First,
    /// After all values.
    Last,
}

/// One key of a sort order.
#[derive(Debug, Clone, PartialEq)]
pub struct SortField {
    /// The columns it is derived from; one, except for multi-argument transforms (v3).
    pub source_ids: Vec<FieldId>,
    /// How it is derived.
    pub transform: Transform,
    /// Its direction.
    pub direction: SortDirection,
    /// Where its nulls go.
    pub null_order: NullOrder,
    /// Members of the JSON object that this version does not know; kept and written back.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// An order of rows within files.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SortOrder {
    /// Its number within the table; 0 is the unsorted order.
    pub order_id: SortOrderId,
    /// The keys, most significant first.
    pub fields: Vec<SortField>,
}
