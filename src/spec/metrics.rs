//! What a manifest says of a file's columns (spec, "Manifests": the metrics maps of `data_file`).

use super::ids::FieldId;

/// Column metrics of one file. A map that the writer left out and one that lacks a column are
/// the same: unknown.
///
/// Each map is sorted by field id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metrics {
    /// Bytes on disk.
    pub column_sizes: Vec<(FieldId, i64)>,
    /// Values, nulls and NaNs included.
    pub value_counts: Vec<(FieldId, i64)>,
    /// Nulls.
    pub null_value_counts: Vec<(FieldId, i64)>,
    /// NaNs.
    pub nan_value_counts: Vec<(FieldId, i64)>,
    /// Lower bounds in binary single-value form; below or equal to every value that is not null
    /// and not NaN.
    pub lower_bounds: Vec<(FieldId, bytes::Bytes)>,
    /// Upper bounds in binary single-value form; above or equal to every value that is not null
    /// and not NaN.
    pub upper_bounds: Vec<(FieldId, bytes::Bytes)>,
}

fn find<T>(map: &[(FieldId, T)], id: FieldId) -> Option<&T> {
    map.binary_search_by_key(&id, |(id, _)| *id).ok().and_then(|i| map.get(i)).map(|(_, v)| v)
}

impl Metrics {
    /// Bytes on disk of that column.
    pub fn column_size(&self, id: FieldId) -> Option<i64> {
        find(&self.column_sizes, id).copied()
    }

    /// Values of that column, nulls and NaNs included.
    pub fn value_count(&self, id: FieldId) -> Option<i64> {
        find(&self.value_counts, id).copied()
    }

    /// Nulls of that column.
    pub fn null_value_count(&self, id: FieldId) -> Option<i64> {
        find(&self.null_value_counts, id).copied()
    }

    /// NaNs of that column.
    pub fn nan_value_count(&self, id: FieldId) -> Option<i64> {
        find(&self.nan_value_counts, id).copied()
    }

    /// The lower bound of that column, in binary single-value form.
    pub fn lower_bound(&self, id: FieldId) -> Option<&[u8]> {
        find(&self.lower_bounds, id).map(|b| b.as_ref())
    }

    /// The upper bound of that column, in binary single-value form.
    pub fn upper_bound(&self, id: FieldId) -> Option<&[u8]> {
        find(&self.upper_bounds, id).map(|b| b.as_ref())
    }
}
