//! Takes rows out of a batch where it lies: the last rows that stay fill the gaps of those that go.
//!
//! A batch that was just decoded belongs to nobody else, and a scan that owes no order may put its rows
//! where it likes. To move one row for every row that goes costs a fraction of a copy of all that stay.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, PrimitiveArray, UInt64Array,
    downcast_primitive,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::ArrowNativeType;
use arrow::error::ArrowError;

/// Which rows stay, and where.
#[derive(Debug)]
pub(crate) struct Gaps {
    /// How many rows the columns have.
    rows: usize,
    /// How many stay: they become the first ones.
    left: usize,
    /// Rows that go, and the row beyond those that stay that takes the place of each.
    moves: Vec<(usize, usize)>,
    /// The same for Arrow's kernel, once a column needs it.
    indices: Option<UInt64Array>,
}

impl Gaps {
    /// The rows with a set bit stay; there are `left` such bits.
    pub(crate) fn new(live: &BooleanBuffer, left: usize) -> Self {
        let words: Vec<u64> = live.bit_chunks().iter_padded().collect();
        let mut moves = Vec::with_capacity(live.len().saturating_sub(left).min(left));
        let mut fillers = ones_from_the_end(&words);
        // Beyond the end, bits are unset: those are no gaps.
        for (word, start) in words.iter().zip((0..left).step_by(64)) {
            let mut gone = !word;
            while gone != 0 {
                let gap = start + gone.trailing_zeros() as usize;
                gone &= gone - 1;
                match fillers.next() {
                    Some(filler) if gap < left => moves.push((gap, filler)),
                    _ => break,
                }
            }
        }
        Self { rows: live.len(), left, moves, indices: None }
    }

    /// What is left of the columns of a batch, each with its rows at the same places.
    ///
    /// # Errors
    /// For a column with another number of rows than the mask; those of Arrow's kernel.
    pub(crate) fn fill(mut self, columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>, ArrowError> {
        columns.into_iter().map(|column| self.column(column)).collect()
    }

    fn column(&mut self, column: ArrayRef) -> Result<ArrayRef, ArrowError> {
        if column.len() != self.rows {
            let message = format!("a column of {} rows, a mask of {}", column.len(), self.rows);
            return Err(ArrowError::InvalidArgumentError(message));
        }
        macro_rules! primitive {
            ($t:ty) => {
                self.primitive::<$t>(column)
            };
        }
        downcast_primitive! {
            column.data_type() => (primitive),
            _ => self.copy(&column),
        }
    }

    fn primitive<T: ArrowPrimitiveType>(&mut self, column: ArrayRef) -> Result<ArrayRef, ArrowError> {
        let array = column.as_primitive::<T>().clone();
        drop(column);
        let (data_type, values, nulls) = array.into_parts();
        let values = match self.values::<T::Native>(values.into_inner()) {
            Ok(values) => values,
            Err(shared) => {
                let values = ScalarBuffer::new(shared, 0, self.rows);
                let array = PrimitiveArray::<T>::try_new(values, nulls)?.with_data_type(data_type);
                return self.copy(&array);
            }
        };
        let nulls = nulls.filter(|n| n.null_count() > 0).map(|n| NullBuffer::new(self.bits(n.inner())));
        Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?.with_data_type(data_type)))
    }

    /// Fills the gaps of a buffer, or gives it back if somebody else holds the memory.
    fn values<T: ArrowNativeType>(&self, buffer: Buffer) -> Result<ScalarBuffer<T>, Buffer> {
        let buffer = match buffer.into_vec::<T>() {
            Ok(mut values) => {
                self.slice(&mut values);
                values.truncate(self.left);
                return Ok(ScalarBuffer::from(values));
            }
            Err(buffer) => buffer,
        };
        let mut values = buffer.into_mutable()?;
        self.slice(values.typed_data_mut::<T>());
        values.truncate(self.left * size_of::<T>());
        Ok(ScalarBuffer::new(values.into(), 0, self.left))
    }

    fn slice<T: Copy>(&self, values: &mut [T]) {
        for (gap, filler) in &self.moves {
            values[*gap] = values[*filler];
        }
    }

    fn bits(&self, bits: &BooleanBuffer) -> BooleanBuffer {
        let mut left = BooleanBufferBuilder::new(self.left);
        left.append_buffer(&bits.slice(0, self.left));
        for (gap, filler) in &self.moves {
            left.set_bit(*gap, bits.value(*filler));
        }
        left.finish()
    }

    fn copy(&mut self, column: &dyn Array) -> Result<ArrayRef, ArrowError> {
        let Self { left, moves, indices, .. } = self;
        let indices = indices.get_or_insert_with(|| {
            let mut indices: Vec<u64> = (0..*left as u64).collect();
            for (gap, filler) in moves {
                indices[*gap] = *filler as u64;
            }
            UInt64Array::from(indices)
        });
        take(column, indices, None)
    }
}

/// The set bits of words, from the last one.
fn ones_from_the_end(words: &[u64]) -> impl Iterator<Item = usize> {
    let mut rest = words.len();
    let mut word = 0;
    std::iter::from_fn(move || {
        while word == 0 {
            rest = rest.checked_sub(1)?;
            word = words[rest];
        }
        let bit = u64::BITS - 1 - word.leading_zeros();
        word &= !(1 << bit);
        Some(rest * 64 + bit as usize)
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int64Array, StringArray,
        StringViewArray,
    };
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;

    /// Columns of many types; the first one has the row's number.
    fn columns(rows: usize) -> Vec<ArrayRef> {
        let n = rows as i64;
        let some = |i: i64| (i % 3 != 0).then_some(i);
        let decimals = Decimal128Array::from_iter((0..n).map(|i| some(i).map(i128::from)));
        vec![
            Arc::new(Int64Array::from_iter_values(0..n)),
            Arc::new(Int64Array::from_iter((0..n).map(some))),
            Arc::new(Int8Array::from_iter_values((0..n).map(|i| i as i8))),
            Arc::new(Float64Array::from_iter((0..n).map(|i| some(i).map(|i| i as f64)))),
            Arc::new(Date32Array::from_iter_values((0..n).map(|i| i as i32))),
            Arc::new(decimals.with_precision_and_scale(15, 2).unwrap()),
            Arc::new(StringArray::from_iter((0..n).map(|i| some(i).map(|i| format!("row {i}"))))),
            Arc::new(StringViewArray::from_iter_values((0..n).map(|i| format!("a row that is long: {i}")))),
            Arc::new(BooleanArray::from_iter((0..n).map(|i| some(i).map(|i| i % 2 == 0)))),
        ]
    }

    fn fill(columns: Vec<ArrayRef>, live: &BooleanBuffer) -> Result<Vec<ArrayRef>, ArrowError> {
        Gaps::new(live, live.count_set_bits()).fill(columns)
    }

    proptest! {
        #[test]
        fn the_live_rows_are_left_and_no_others(
            bits in prop_oneof![
                proptest::collection::vec(proptest::bool::weighted(0.98), 0..400),
                proptest::collection::vec(proptest::bool::weighted(0.5), 0..400),
                proptest::collection::vec(proptest::bool::weighted(0.03), 0..400),
            ],
            offset in 0usize..70,
            shared in proptest::bool::ANY,
            sliced in 0usize..9,
        ) {
            let rows = bits.len();
            let live: Vec<i64> = (0..).zip(&bits).filter(|(_, live)| **live).map(|(i, _)| i).collect();
            let padded = BooleanBuffer::from_iter(std::iter::repeat_n(true, offset).chain(bits));
            let mask = padded.slice(offset, rows);
            let slices = |columns: Vec<ArrayRef>| -> Vec<ArrayRef> {
                columns.into_iter().map(|c| c.slice(sliced, rows)).collect()
            };
            let whole = columns(rows + sliced);
            let held = shared.then(|| whole.clone());
            let left = fill(slices(whole), &mask).unwrap();
            // Whose row is where, by the first column; the others agree with it.
            let order: Vec<i64> =
                left[0].as_primitive::<Int64Type>().values().iter().map(|i| i - sliced as i64).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, live);
            let order = Int64Array::from(order);
            for (given, left) in slices(columns(rows + sliced)).iter().zip(&left) {
                prop_assert_eq!(&take(given, &order, None).unwrap(), left);
            }
            // Whoever else holds the columns still sees all rows.
            if let Some(held) = held {
                prop_assert_eq!(held, columns(rows + sliced));
            }
        }
    }

    #[test]
    fn columns_that_nobody_holds_stay_where_they_are() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let before = column.as_primitive::<Int64Type>().values().as_ptr();
        let left = fill(vec![column], &BooleanBuffer::collect_bool(1000, |i| i != 7)).unwrap();
        let left = left[0].as_primitive::<Int64Type>();
        assert_eq!((left.len(), left.value(7)), (999, 999));
        assert_eq!(left.values().as_ptr(), before);
    }

    #[test]
    fn a_mask_of_another_length_is_an_error() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        assert!(fill(vec![column], &BooleanBuffer::new_set(20)).is_err());
    }
}
