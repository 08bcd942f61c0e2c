//! Integer keys, probed a batch at a time.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Date32Type, Int32Type, Int64Type};
use datafusion::common::HashMap;

use crate::error::{Error, Result};

/// A filter has so many bits for each key: of the rows that no delete names, few pass it.
const BITS_A_KEY: usize = 16;
/// A bit for each number between the smallest and the largest key is exact, and worth this many
/// bits a key.
const EXACT_BITS_A_KEY: usize = 2048;

/// Deleted integer keys, each with the newest sequence number of the files that hold it.
#[derive(Debug, Default)]
pub(crate) struct IntegerKeys {
    newest: HashMap<i64, i64>,
    null: Option<i64>,
    /// Made once all keys are there.
    filter: Filter,
}

/// A bit for some keys: clear where none of them is deleted.
#[derive(Debug, Default)]
struct Filter {
    words: Vec<u64>,
    /// The smallest key, where there is a bit for each number from it on.
    first: Option<i64>,
    /// How far a hash is shifted to a bit, where there is not.
    shift: u32,
}

impl Filter {
    fn new(keys: &HashMap<i64, i64>) -> Self {
        let (Some(first), Some(last)) = (keys.keys().min(), keys.keys().max()) else {
            return Self::default();
        };
        let range = last.abs_diff(*first);
        let mut filter = match usize::try_from(range) {
            Ok(range) if range / EXACT_BITS_A_KEY <= keys.len() => {
                // One word more, which stays clear: where other numbers are looked up.
                Self { words: vec![0; range / 64 + 2], first: Some(*first), shift: 0 }
            }
            _ => {
                let bits = (keys.len() * BITS_A_KEY).next_power_of_two().max(64);
                Self { words: vec![0; bits / 64], first: None, shift: 64 - bits.trailing_zeros() }
            }
        };
        for key in keys.keys() {
            let bit = filter.bit(*key);
            if let Some(word) = filter.words.get_mut(bit / 64) {
                *word |= 1 << (bit % 64);
            }
        }
        filter
    }

    #[inline(always)]
    fn bit(&self, key: i64) -> usize {
        match self.first {
            Some(first) => {
                let end = self.words.len() as u64 * 64 - 1;
                (key.wrapping_sub(first) as u64).min(end) as usize
            }
            None => ((key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize,
        }
    }

    #[inline(always)]
    fn may_hold(&self, key: i64) -> bool {
        let bit = self.bit(key);
        self.words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }
}

impl IntegerKeys {
    /// Whether keys of that type are integers here.
    pub(crate) fn takes(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Int32 | DataType::Int64 | DataType::Date32 | DataType::Timestamp(..))
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.newest.capacity() * 17 + self.filter.words.len() * 8
    }

    /// Adds the keys of a delete file.
    pub(crate) fn insert(&mut self, keys: &ArrayRef, number: i64) -> Result<()> {
        let keys = integers(keys)?;
        for key in keys.as_primitive::<Int64Type>() {
            match key {
                None => self.null = self.null.max(Some(number)),
                Some(key) => {
                    let newest = self.newest.entry(key).or_insert(number);
                    *newest = (*newest).max(number);
                }
            }
        }
        Ok(())
    }

    /// To be called when all keys are there, and before any probe.
    pub(crate) fn finish(&mut self) {
        self.newest.shrink_to_fit();
        self.filter = Filter::new(&self.newest);
    }

    /// Which keys no delete newer than `number` names; `None`: all.
    ///
    /// # Errors
    /// `DataInvalid` for keys that are no integers.
    pub(crate) fn live(&self, keys: &ArrayRef, number: i64) -> Result<Option<BooleanBuffer>> {
        match keys.data_type() {
            DataType::Int32 => Ok(self.probe(keys.as_primitive::<Int32Type>(), number)),
            DataType::Date32 => Ok(self.probe(keys.as_primitive::<Date32Type>(), number)),
            _ => Ok(self.probe(integers(keys)?.as_primitive::<Int64Type>(), number)),
        }
    }

    fn probe<T>(&self, keys: &PrimitiveArray<T>, number: i64) -> Option<BooleanBuffer>
    where
        T: ArrowPrimitiveType<Native: Into<i64>>,
    {
        let mut deleted: Vec<usize> = Vec::new();
        // A null has some value too, which says nothing.
        let nulls = keys.nulls().filter(|nulls| nulls.null_count() > 0);
        let is_null = |nulls: Option<&NullBuffer>, row| nulls.is_some_and(|nulls| nulls.is_null(row));
        for (chunk, values) in keys.values().chunks(64).enumerate() {
            let mut found = values.iter().enumerate().fold(0u64, |found, (i, value)| {
                found | (u64::from(self.filter.may_hold((*value).into())) << i)
            });
            while found != 0 {
                let i = found.trailing_zeros() as usize;
                found &= found - 1;
                let row = chunk * 64 + i;
                let newest = values.get(i).and_then(|value| self.newest.get(&(*value).into()));
                if newest.is_some_and(|newest| *newest > number) && !is_null(nulls, row) {
                    deleted.push(row);
                }
            }
        }
        if let (Some(nulls), true) = (nulls, self.null.is_some_and(|newest| newest > number)) {
            deleted.extend((0..keys.len()).filter(|row| nulls.is_null(*row)));
        }
        if deleted.is_empty() {
            return None;
        }
        let mut live = BooleanBufferBuilder::new(keys.len());
        live.append_n(keys.len(), true);
        for row in deleted {
            live.set_bit(row, false);
        }
        Some(live.finish())
    }
}

/// The keys as 64-bit integers.
fn integers(keys: &ArrayRef) -> Result<ArrayRef> {
    let cast = |array: &dyn Array, to: &DataType| {
        arrow::compute::cast(array, to).map_err(|e| Error::invalid("a key can't be read").with_source(e))
    };
    match keys.data_type() {
        DataType::Int64 => Ok(ArrayRef::clone(keys)),
        DataType::Date32 => {
            cast(&keys.as_primitive::<Date32Type>().reinterpret_cast::<Int32Type>(), &DataType::Int64)
        }
        _ => cast(keys, &DataType::Int64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, Int32Array, Int64Array, TimestampMicrosecondArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn bits(live: Option<BooleanBuffer>, rows: usize) -> Vec<bool> {
        live.map_or_else(|| vec![true; rows], |live| live.iter().collect())
    }

    fn key() -> impl Strategy<Value = Option<i64>> {
        let wide = prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()];
        prop::option::weighted(0.9, prop_oneof![4 => -40i64..40, 1 => wide])
    }

    proptest! {
        #[test]
        fn a_probe_is_a_look_up(
            deletes in prop::collection::vec((key(), 1i64..4), 0..60),
            rows in prop::collection::vec(key(), 0..200),
            number in 0i64..4,
        ) {
            let mut keys = IntegerKeys::default();
            for (key, sequence_number) in &deletes {
                keys.insert(&(Arc::new(Int64Array::from(vec![*key])) as ArrayRef), *sequence_number).unwrap();
            }
            keys.finish();
            let expected: Vec<bool> =
                rows.iter().map(|r| !deletes.iter().any(|(key, n)| key == r && *n > number)).collect();
            let longs: ArrayRef = Arc::new(Int64Array::from(rows.clone()));
            let live = keys.live(&longs, number).unwrap();
            prop_assert_eq!(live.is_some(), expected.contains(&false));
            prop_assert_eq!(bits(live, rows.len()), expected.clone());
            let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(rows.clone()));
            prop_assert_eq!(bits(keys.live(&times, number).unwrap(), rows.len()), expected.clone());
            let small: Option<Vec<Option<i32>>> =
                rows.iter().map(|r| r.map(i32::try_from).transpose().ok()).collect();
            if let Some(small) = small {
                let ints: ArrayRef = Arc::new(Int32Array::from(small.clone()));
                prop_assert_eq!(bits(keys.live(&ints, number).unwrap(), rows.len()), expected.clone());
                let dates: ArrayRef = Arc::new(Date32Array::from(small));
                prop_assert_eq!(bits(keys.live(&dates, number).unwrap(), rows.len()), expected);
            }
        }
    }

    #[test]
    fn keys_far_apart_take_little_memory() {
        let mut keys = IntegerKeys::default();
        keys.insert(&(Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX])) as ArrayRef), 2).unwrap();
        keys.finish();
        assert!(keys.memory() < 4096, "{}", keys.memory());
        let rows: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, 1, i64::MAX, 0]));
        assert_eq!(bits(keys.live(&rows, 1).unwrap(), 4), [false, true, false, false]);
    }
}
