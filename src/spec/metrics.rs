//! What a manifest says of a file's columns (spec, "Manifests": the metrics maps of `data_file`).
//!
//! A scan that filters on one column should not pay for the others, so the maps stay encoded: the
//! file's metrics share the bytes of its manifest, and a look-up decodes up to what it wants.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use super::avro::{Cursor, Decoded, Encoder, Malformed};
use super::ids::FieldId;

/// Column metrics of one file. A map that the writer left out and one that lacks a column are
/// the same: unknown. Counts are as they were written, even if negative.
#[derive(Clone, Default)]
pub struct Metrics {
    /// Holds the maps, and often much else: a whole block of the manifest.
    data: Bytes,
    maps: [Region; 6],
}

/// Where a map lies: an Avro array of pairs, each an int and a long or bytes. Empty if it is
/// missing.
#[derive(Debug, Clone, Copy, Default)]
struct Region {
    start: u32,
    end: u32,
}

/// One of the maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricMap {
    ColumnSizes,
    ValueCounts,
    NullValueCounts,
    NanValueCounts,
    LowerBounds,
    UpperBounds,
}

impl MetricMap {
    /// In the order of the fields of `data_file`.
    pub(crate) const ALL: [MetricMap; 6] = [
        MetricMap::ColumnSizes,
        MetricMap::ValueCounts,
        MetricMap::NullValueCounts,
        MetricMap::NanValueCounts,
        MetricMap::LowerBounds,
        MetricMap::UpperBounds,
    ];

    /// Whether its values are bytes, else they are longs.
    pub(crate) fn holds_bytes(self) -> bool {
        matches!(self, MetricMap::LowerBounds | MetricMap::UpperBounds)
    }
}

/// The metrics of one file as maps, to be looked at or changed as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricMaps {
    /// Bytes on disk.
    pub column_sizes: BTreeMap<FieldId, i64>,
    /// Values, nulls and NaNs included.
    pub value_counts: BTreeMap<FieldId, i64>,
    /// Nulls.
    pub null_value_counts: BTreeMap<FieldId, i64>,
    /// NaNs.
    pub nan_value_counts: BTreeMap<FieldId, i64>,
    /// Lower bounds in binary single-value form; below or equal to every value that is not null
    /// and not NaN.
    pub lower_bounds: BTreeMap<FieldId, Bytes>,
    /// Upper bounds in binary single-value form; above or equal to every value that is not null
    /// and not NaN.
    pub upper_bounds: BTreeMap<FieldId, Bytes>,
}

impl Metrics {
    /// Metrics whose maps lie in `data`. [`Metrics::validate`] found all of them well-formed.
    pub(crate) fn in_block(data: Bytes) -> Self {
        Self { data, maps: Default::default() }
    }

    /// Says where in the block a map lies. A block too long for that leaves the map unknown,
    /// which is always safe.
    pub(crate) fn place(&mut self, map: MetricMap, start: usize, end: usize) {
        if let (Ok(start), Ok(end), Some(region)) =
            (u32::try_from(start), u32::try_from(end), self.maps.get_mut(map as usize))
        {
            *region = Region { start, end };
        }
    }

    /// Reads past a map and checks that it is well-formed.
    pub(crate) fn validate(cursor: &mut Cursor<'_>, holds_bytes: bool) -> Decoded<()> {
        loop {
            let (count, size) = cursor.block()?;
            if count == 0 {
                return Ok(());
            }
            let start = cursor.position();
            for _ in 0..count {
                cursor.int()?;
                if holds_bytes {
                    cursor.bytes()?;
                } else {
                    cursor.long()?;
                }
            }
            if size.is_some_and(|size| size != cursor.position() - start) {
                return Err(Malformed("avro block has another size than it says"));
            }
        }
    }

    fn region(&self, map: MetricMap) -> &[u8] {
        let region = self.maps.get(map as usize).copied().unwrap_or_default();
        self.data.get(region.start as usize..region.end as usize).unwrap_or_default()
    }

    fn pairs(&self, map: MetricMap) -> Pairs<'_> {
        Pairs { cursor: Cursor::new(self.region(map)), left: 0 }
    }

    fn long(&self, map: MetricMap, id: FieldId) -> Option<i64> {
        self.longs(map).find(|(found, _)| *found == id).map(|(_, v)| v)
    }

    /// The pairs of a map of counts, in the writer's order.
    pub(crate) fn longs(&self, map: MetricMap) -> impl Iterator<Item = (FieldId, i64)> + '_ {
        let mut pairs = self.pairs(map);
        std::iter::from_fn(move || pairs.next_with(Cursor::long))
    }

    fn bound(&self, map: MetricMap, id: FieldId) -> Option<&[u8]> {
        self.bounds(map).find(|(found, _)| *found == id).map(|(_, v)| v)
    }

    /// The pairs of a map of bounds, in the writer's order.
    pub(crate) fn bounds(&self, map: MetricMap) -> impl Iterator<Item = (FieldId, &[u8])> + '_ {
        let mut pairs = self.pairs(map);
        std::iter::from_fn(move || pairs.next_with(Cursor::bytes))
    }

    /// Bytes on disk of that column.
    pub fn column_size(&self, id: FieldId) -> Option<i64> {
        self.long(MetricMap::ColumnSizes, id)
    }

    /// Values of that column, nulls and NaNs included.
    pub fn value_count(&self, id: FieldId) -> Option<i64> {
        self.long(MetricMap::ValueCounts, id)
    }

    /// Nulls of that column.
    pub fn null_value_count(&self, id: FieldId) -> Option<i64> {
        self.long(MetricMap::NullValueCounts, id)
    }

    /// NaNs of that column.
    pub fn nan_value_count(&self, id: FieldId) -> Option<i64> {
        self.long(MetricMap::NanValueCounts, id)
    }

    /// The lower bound of that column, in binary single-value form.
    pub fn lower_bound(&self, id: FieldId) -> Option<&[u8]> {
        self.bound(MetricMap::LowerBounds, id)
    }

    /// The upper bound of that column, in binary single-value form.
    pub fn upper_bound(&self, id: FieldId) -> Option<&[u8]> {
        self.bound(MetricMap::UpperBounds, id)
    }

    /// Bytes on disk, in the writer's order.
    pub fn column_sizes(&self) -> impl Iterator<Item = (FieldId, i64)> + '_ {
        self.longs(MetricMap::ColumnSizes)
    }

    /// Values, nulls and NaNs included, in the writer's order.
    pub fn value_counts(&self) -> impl Iterator<Item = (FieldId, i64)> + '_ {
        self.longs(MetricMap::ValueCounts)
    }

    /// Nulls, in the writer's order.
    pub fn null_value_counts(&self) -> impl Iterator<Item = (FieldId, i64)> + '_ {
        self.longs(MetricMap::NullValueCounts)
    }

    /// NaNs, in the writer's order.
    pub fn nan_value_counts(&self) -> impl Iterator<Item = (FieldId, i64)> + '_ {
        self.longs(MetricMap::NanValueCounts)
    }

    /// Lower bounds, in the writer's order.
    pub fn lower_bounds(&self) -> impl Iterator<Item = (FieldId, &[u8])> + '_ {
        self.bounds(MetricMap::LowerBounds)
    }

    /// Upper bounds, in the writer's order.
    pub fn upper_bounds(&self) -> impl Iterator<Item = (FieldId, &[u8])> + '_ {
        self.bounds(MetricMap::UpperBounds)
    }

    /// All of it, decoded. Of a column that a writer put twice into a map, the first one holds,
    /// as it does in look-ups.
    pub fn to_maps(&self) -> MetricMaps {
        let mut maps = MetricMaps::default();
        maps.fill_from(self);
        maps
    }

    /// A map as Avro encodes it, if there is one.
    pub(crate) fn encoded(&self, map: MetricMap) -> Option<&[u8]> {
        Some(self.region(map)).filter(|region| !region.is_empty())
    }
}

impl MetricMaps {
    fn longs_mut(&mut self, map: MetricMap) -> Option<&mut BTreeMap<FieldId, i64>> {
        match map {
            MetricMap::ColumnSizes => Some(&mut self.column_sizes),
            MetricMap::ValueCounts => Some(&mut self.value_counts),
            MetricMap::NullValueCounts => Some(&mut self.null_value_counts),
            MetricMap::NanValueCounts => Some(&mut self.nan_value_counts),
            MetricMap::LowerBounds | MetricMap::UpperBounds => None,
        }
    }

    /// Adds to a map of counts, unless the column is there.
    pub(crate) fn insert_long(&mut self, map: MetricMap, id: FieldId, value: i64) {
        if let Some(map) = self.longs_mut(map) {
            map.entry(id).or_insert(value);
        }
    }

    /// Adds to a map of bounds, unless the column is there.
    pub(crate) fn insert_bytes(&mut self, map: MetricMap, id: FieldId, value: Bytes) {
        let map = match map {
            MetricMap::LowerBounds => &mut self.lower_bounds,
            MetricMap::UpperBounds => &mut self.upper_bounds,
            _ => return,
        };
        map.entry(id).or_insert(value);
    }

    /// Adds all that is not there yet.
    pub(crate) fn fill_from(&mut self, metrics: &Metrics) {
        for map in MetricMap::ALL {
            if map.holds_bytes() {
                for (id, bound) in metrics.bounds(map) {
                    self.insert_bytes(map, id, Bytes::copy_from_slice(bound));
                }
            } else {
                for (id, value) in metrics.longs(map) {
                    self.insert_long(map, id, value);
                }
            }
        }
    }
}

impl From<&MetricMaps> for Metrics {
    fn from(maps: &MetricMaps) -> Self {
        let mut e = Encoder::default();
        let mut places = [(0, 0); MetricMap::ALL.len()];
        let longs = [&maps.column_sizes, &maps.value_counts, &maps.null_value_counts, &maps.nan_value_counts];
        let bounds = [&maps.lower_bounds, &maps.upper_bounds];
        let (long_places, bound_places) = places.split_at_mut(longs.len());
        for (map, place) in longs.iter().zip(long_places).filter(|(map, _)| !map.is_empty()) {
            place.0 = e.len();
            e.array(map.iter(), |e, (id, count)| {
                e.long(id.0.into());
                e.long(*count);
            });
            place.1 = e.len();
        }
        for (map, place) in bounds.iter().zip(bound_places).filter(|(map, _)| !map.is_empty()) {
            place.0 = e.len();
            e.array(map.iter(), |e, (id, bound)| {
                e.long(id.0.into());
                e.bytes(bound);
            });
            place.1 = e.len();
        }
        let mut metrics = Metrics::in_block(e.into_vec().into());
        for (map, (start, end)) in MetricMap::ALL.into_iter().zip(places) {
            metrics.place(map, start, end);
        }
        metrics
    }
}

impl From<MetricMaps> for Metrics {
    fn from(maps: MetricMaps) -> Self {
        Self::from(&maps)
    }
}

impl PartialEq for Metrics {
    fn eq(&self, other: &Self) -> bool {
        self.to_maps() == other.to_maps()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_maps().fmt(f)
    }
}

/// The pairs of a map. The map was validated; were it not, it would end early.
struct Pairs<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Pairs<'a> {
    #[inline]
    fn next_with<T>(&mut self, value: impl FnOnce(&mut Cursor<'a>) -> Decoded<T>) -> Option<(FieldId, T)> {
        if self.left == 0 {
            (self.left, _) = self.cursor.block().ok()?;
        }
        self.left = self.left.checked_sub(1)?;
        let id = self.cursor.int().ok()?;
        Some((FieldId(id), value(&mut self.cursor).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn maps() -> impl Strategy<Value = MetricMaps> {
        let ids = || any::<i32>().prop_map(FieldId);
        let longs = move || btree_map(ids(), any::<i64>(), 0..5);
        let bounds = move || btree_map(ids(), vec(any::<u8>(), 0..20).prop_map(Bytes::from), 0..5);
        (longs(), longs(), longs(), longs(), bounds(), bounds()).prop_map(|(a, b, c, d, e, f)| MetricMaps {
            column_sizes: a,
            value_counts: b,
            null_value_counts: c,
            nan_value_counts: d,
            lower_bounds: e,
            upper_bounds: f,
        })
    }

    proptest! {
        #[test]
        fn maps_round_trip(maps in maps(), other: i32) {
            let metrics = Metrics::from(&maps);
            prop_assert_eq!(&metrics.to_maps(), &maps);
            for (id, v) in &maps.null_value_counts {
                prop_assert_eq!(metrics.null_value_count(*id), Some(*v));
            }
            for (id, v) in &maps.upper_bounds {
                prop_assert_eq!(metrics.upper_bound(*id), Some(v.as_ref()));
            }
            let other = FieldId(other);
            prop_assert_eq!(metrics.value_count(other), maps.value_counts.get(&other).copied());
            prop_assert_eq!(metrics.lower_bound(other), maps.lower_bounds.get(&other).map(|b| b.as_ref()));
            prop_assert_eq!(metrics.clone(), metrics);
        }

        #[test]
        fn what_validates_can_be_read(data in vec(0u8..12, 0..40), holds_bytes: bool) {
            let mut cursor = Cursor::new(&data);
            if Metrics::validate(&mut cursor, holds_bytes).is_ok() {
                let end = cursor.position();
                let map = if holds_bytes { MetricMap::LowerBounds } else { MetricMap::ValueCounts };
                let mut metrics = Metrics::in_block(data.clone().into());
                metrics.place(map, 0, end);
                let mut pairs = metrics.pairs(map);
                let mut items = 0;
                loop {
                    let more = if holds_bytes {
                        pairs.next_with(Cursor::bytes).is_some()
                    } else {
                        pairs.next_with(Cursor::long).is_some()
                    };
                    if !more { break }
                    items += 1;
                }
                prop_assert_eq!(pairs.cursor.remaining(), 0, "all of {} pairs", items);
            }
        }
    }

    #[test]
    fn blocks_with_sizes_are_read() {
        // Two blocks: one of one pair with its size, one of two pairs without.
        let data: &[u8] = &[1, 4, 2, 10, 4, 4, 12, 6, 14, 0];
        let mut cursor = Cursor::new(data);
        Metrics::validate(&mut cursor, false).unwrap();
        let mut metrics = Metrics::in_block(Bytes::from_static(data));
        metrics.place(MetricMap::ValueCounts, 0, cursor.position());
        let pairs: Vec<_> = metrics.value_counts().map(|(id, v)| (id.0, v)).collect();
        assert_eq!(pairs, [(1, 5), (2, 6), (3, 7)]);
        let wrong: &[u8] = &[1, 6, 2, 10, 4, 4, 12, 6, 14, 0];
        assert!(Metrics::validate(&mut Cursor::new(wrong), false).is_err());
    }
}
