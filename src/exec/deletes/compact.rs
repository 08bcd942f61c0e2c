//! Takes rows out of a batch where it lies: what is left moves up in the same memory.
//!
//! A batch that was just decoded belongs to nobody else, so that most of its rows need not be copied
//! to new memory, which costs more time and twice the memory.

use std::sync::Arc;

use arrow::array::downcast_primitive;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate, filter};
use arrow::datatypes::ArrowNativeType;
use arrow::error::ArrowError;

/// With so few rows of 64 to take out, the runs between them are moved as a whole.
const FEW: u32 = 4;

/// The rows of columns for which `live` has a set bit.
///
/// # Errors
/// Those of Arrow's filter; none for columns as long as the mask.
pub(crate) fn compact(columns: Vec<ArrayRef>, live: &BooleanBuffer) -> Result<Vec<ArrayRef>, ArrowError> {
    let mut kernel = Kernel { live, predicate: None };
    columns.into_iter().map(|column| kernel.compact(column)).collect()
}

/// One mask, applied to the columns of a batch.
struct Kernel<'a> {
    live: &'a BooleanBuffer,
    /// Arrow's form of the mask, for the columns that don't move in place.
    predicate: Option<FilterPredicate>,
}

impl Kernel<'_> {
    fn compact(&mut self, column: ArrayRef) -> Result<ArrayRef, ArrowError> {
        if column.len() != self.live.len() {
            return self.copy(&column);
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
        let length = values.len();
        let values = match move_up::<T::Native>(values.into_inner(), self.live) {
            Ok(values) => values,
            Err(shared) => {
                let values = ScalarBuffer::new(shared, 0, length);
                let array = PrimitiveArray::<T>::try_new(values, nulls)?.with_data_type(data_type);
                return self.copy(&array);
            }
        };
        let nulls = match nulls {
            Some(nulls) if nulls.null_count() > 0 => {
                let valid = BooleanArray::new(nulls.into_inner(), None);
                let valid = filter(&valid, &BooleanArray::new(self.live.clone(), None))?;
                Some(NullBuffer::new(valid.as_boolean().values().clone()))
            }
            _ => None,
        };
        Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?.with_data_type(data_type)))
    }

    fn copy(&mut self, column: &dyn Array) -> Result<ArrayRef, ArrowError> {
        let predicate = self.predicate.get_or_insert_with(|| {
            FilterBuilder::new(&BooleanArray::new(self.live.clone(), None)).optimize().build()
        });
        predicate.filter(column)
    }
}

/// Moves the live values to the front, if nobody else holds the memory.
fn move_up<T: ArrowNativeType>(buffer: Buffer, live: &BooleanBuffer) -> Result<ScalarBuffer<T>, Buffer> {
    let buffer = match buffer.into_vec::<T>() {
        Ok(mut values) => {
            let left = move_up_slice(&mut values, live);
            values.truncate(left);
            return Ok(ScalarBuffer::from(values));
        }
        Err(buffer) => buffer,
    };
    let mut values = buffer.into_mutable()?;
    let left = move_up_slice(values.typed_data_mut::<T>(), live);
    values.truncate(left * size_of::<T>());
    Ok(ScalarBuffer::new(values.into(), 0, left))
}

/// Moves the values with a set bit to the front of a slice that is as long as the mask; returns how
/// many there are.
fn move_up_slice<T: Copy>(values: &mut [T], live: &BooleanBuffer) -> usize {
    let length = values.len().min(live.len());
    let mut left = 0;
    let chunks = live.bit_chunks();
    for (word, start) in chunks.iter_padded().zip((0..length).step_by(64)) {
        let end = length.min(start + 64);
        if (!word).count_ones() <= FEW {
            let (mut dead, mut from) = (!word, start);
            while dead != 0 {
                let to = start + dead.trailing_zeros() as usize;
                if to >= end {
                    break;
                }
                values.copy_within(from..to, left);
                left += to - from;
                from = to + 1;
                dead &= dead - 1;
            }
            values.copy_within(from..end, left);
            left += end - from;
        } else if word != 0 {
            // Without a branch: where bits alternate, a wrong guess costs more than a move.
            let mut bits = word;
            for i in start..end {
                values[left] = values[i];
                left += (bits & 1) as usize;
                bits >>= 1;
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Date32Array, Decimal128Array, Float64Array, Int8Array, Int64Array, StringArray, StringViewArray,
    };
    use proptest::prelude::*;

    use super::*;

    fn columns(rows: usize) -> Vec<ArrayRef> {
        let n = rows as i64;
        let some = |i: i64| (i % 3 != 0).then_some(i);
        vec![
            Arc::new(Int64Array::from_iter_values(0..n)),
            Arc::new(Int64Array::from_iter((0..n).map(some))),
            Arc::new(Int8Array::from_iter_values((0..n).map(|i| i as i8))),
            Arc::new(Float64Array::from_iter((0..n).map(|i| some(i).map(|i| i as f64)))),
            Arc::new(Date32Array::from_iter_values((0..n).map(|i| i as i32))),
            Arc::new(
                Decimal128Array::from_iter((0..n).map(|i| some(i).map(i128::from)))
                    .with_precision_and_scale(15, 2)
                    .unwrap(),
            ),
            Arc::new(StringArray::from_iter((0..n).map(|i| some(i).map(|i| format!("row {i}"))))),
            Arc::new(StringViewArray::from_iter_values((0..n).map(|i| format!("a row that is long: {i}")))),
            Arc::new(BooleanArray::from_iter((0..n).map(|i| some(i).map(|i| i % 2 == 0)))),
        ]
    }

    proptest! {
        #[test]
        fn what_is_left_is_what_a_filter_leaves(
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
            let padded = BooleanBuffer::from_iter(std::iter::repeat_n(true, offset).chain(bits));
            let live = padded.slice(offset, rows);
            let expected = columns(rows + sliced).into_iter().map(|c| {
                filter(&c.slice(sliced, rows), &BooleanArray::new(live.clone(), None)).unwrap()
            }).collect::<Vec<_>>();
            let whole = columns(rows + sliced);
            let held = shared.then(|| whole.clone());
            let given = whole.into_iter().map(|c| c.slice(sliced, rows)).collect();
            let left = compact(given, &live).unwrap();
            prop_assert_eq!(left, expected);
            // Whoever else holds the columns still sees all rows.
            if let Some(held) = held {
                prop_assert_eq!(held, columns(rows + sliced));
            }
        }
    }

    #[test]
    fn columns_that_nobody_holds_stay_where_they_are() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let before = column.as_primitive::<arrow::datatypes::Int64Type>().values().as_ptr();
        let live = mask_without(1000, 7);
        let left = compact(vec![column], &live).unwrap();
        let left = left[0].as_primitive::<arrow::datatypes::Int64Type>();
        assert_eq!(left.len(), 999);
        assert_eq!(left.values().as_ptr(), before);
    }

    fn mask_without(rows: usize, dead: usize) -> BooleanBuffer {
        BooleanBuffer::collect_bool(rows, |i| i != dead)
    }

    #[test]
    fn a_mask_of_another_length_is_an_error() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        assert!(compact(vec![column], &mask_without(20, 3)).is_err());
    }
}
