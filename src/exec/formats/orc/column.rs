//! The streams of a column in a stripe → Arrow arrays (ORC specification, "Column Encodings").

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray, new_null_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use bytes::Bytes;

use super::footer::Encoding;
use super::input::{Compression, Input};
use super::integers::Integers;
use super::plan::{Planned, Shape};
use super::runs::{Bits, Bytes as ByteRuns};
use super::timestamp::Clock;
use super::{Corrupt, Decoded};
use crate::error::{Error, Result, ResultExt};

/// Kinds of streams.
const PRESENT: u64 = 0;
const DATA: u64 = 1;
const LENGTH: u64 = 2;
const DICTIONARY_DATA: u64 = 3;
const SECONDARY: u64 = 5;

/// What the streams of a stripe are decoded from.
pub(super) struct StripeData {
    /// By column and kind.
    pub(super) streams: HashMap<(u64, u64), Bytes>,
    pub(super) encodings: Vec<Encoding>,
    pub(super) compression: Compression,
    /// Of timestamps that are no points in time.
    pub(super) clock: Clock,
}

impl StripeData {
    /// A stream without any value need not be written.
    fn input(&self, column: usize, kind: u64) -> Input {
        let bytes = self.streams.get(&(column as u64, kind)).cloned().unwrap_or_default();
        Input::new(bytes, self.compression)
    }
}

/// A column of a stripe, at some row.
pub(super) struct Column {
    data_type: DataType,
    present: Option<Bits>,
    values: Values,
}

enum Values {
    Boolean(Bits),
    Byte(ByteRuns),
    Int(Integers),
    Long(Integers),
    Float(Input),
    Double(Input),
    Text { data: Input, lengths: Integers },
    Dictionary { indices: Integers, dictionary: ArrayRef },
    Binary { data: Input, lengths: Integers },
    Fixed { data: Input, lengths: Integers, length: usize },
    Decimal { data: Input, scales: Integers, precision: u8, scale: u8 },
    Timestamp { seconds: Integers, nanos: Integers, clock: Clock },
    Struct(Vec<Column>),
    List { lengths: Integers, element: Box<Column> },
    Map { lengths: Integers, key: Box<Column>, value: Box<Column> },
}

impl Column {
    /// Whether values are decoded from streams of that kind; others are indices and filters.
    pub(super) fn needs(kind: u64) -> bool {
        [PRESENT, DATA, LENGTH, DICTIONARY_DATA, SECONDARY].contains(&kind)
    }

    /// The column at the first row of a stripe.
    pub(super) fn open(planned: &Planned, stripe: &StripeData) -> Result<Self> {
        let column = planned.column;
        let encoding = stripe.encodings.get(column).copied();
        let encoding =
            encoding.ok_or_else(|| Error::invalid(format!("orc column {column} has no encoding")))?;
        let (is_dictionary, is_v2) = match encoding.kind {
            0 => (false, false),
            1 => (true, false),
            2 => (false, true),
            3 => (true, true),
            other => return Err(Error::unsupported(format!("orc column encoding {other}"))),
        };
        let input = |kind| stripe.input(column, kind);
        let signed = |kind| Integers::new(input(kind), true, is_v2);
        let unsigned = |kind| Integers::new(input(kind), false, is_v2);
        let open = |planned: &Planned| Column::open(planned, stripe).map(Box::new);
        let values = match &planned.shape {
            Shape::Boolean => Values::Boolean(Bits::new(input(DATA))),
            Shape::Byte => Values::Byte(ByteRuns::new(input(DATA))),
            Shape::Int(_) => Values::Int(signed(DATA)),
            Shape::Long(_) => Values::Long(signed(DATA)),
            Shape::Float => Values::Float(input(DATA)),
            Shape::Double => Values::Double(input(DATA)),
            Shape::Text if is_dictionary => {
                let size = usize::try_from(encoding.dictionary_size).unwrap_or(usize::MAX);
                let lengths = unsigned(LENGTH).read(size)?;
                let (offsets, data) = varied(lengths, None, size, &mut input(DICTIONARY_DATA))?;
                let dictionary = StringArray::try_new(offsets, data, None).map_err(not_built)?;
                let dictionary = cast(&dictionary, &DataType::Utf8View).map_err(not_built)?;
                Values::Dictionary { indices: unsigned(DATA), dictionary }
            }
            Shape::Text => Values::Text { data: input(DATA), lengths: unsigned(LENGTH) },
            Shape::Binary => Values::Binary { data: input(DATA), lengths: unsigned(LENGTH) },
            Shape::Fixed(length) => {
                Values::Fixed { data: input(DATA), lengths: unsigned(LENGTH), length: *length }
            }
            Shape::Decimal { precision, scale } => Values::Decimal {
                data: input(DATA),
                scales: signed(SECONDARY),
                precision: *precision,
                scale: *scale,
            },
            Shape::Timestamp { is_instant, .. } => Values::Timestamp {
                seconds: signed(DATA),
                nanos: unsigned(SECONDARY),
                clock: if *is_instant { Clock::Utc } else { stripe.clock },
            },
            Shape::Struct { children, .. } => {
                Values::Struct(children.iter().map(|c| Column::open(c, stripe)).collect::<Result<_>>()?)
            }
            Shape::List { element, .. } => {
                Values::List { lengths: unsigned(LENGTH), element: open(element)? }
            }
            Shape::Map { key, value, .. } => {
                Values::Map { lengths: unsigned(LENGTH), key: open(key)?, value: open(value)? }
            }
        };
        let has_nulls = stripe.streams.contains_key(&(column as u64, PRESENT));
        Ok(Self {
            data_type: planned.shape.data_type(),
            present: has_nulls.then(|| Bits::new(input(PRESENT))),
            values,
        })
    }

    /// The next `rows` rows; nothing was written where what it lies in is null.
    pub(super) fn read(&mut self, rows: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = match (&mut self.present, parent) {
            (None, parent) => parent.cloned(),
            (Some(bits), None) => Some(NullBuffer::new(bits.read(rows)?)),
            (Some(bits), Some(parent)) => Some(NullBuffer::new(bits.read_into(parent)?)),
        };
        let nulls = nulls.filter(|n| n.null_count() > 0);
        let places = Places { rows, nulls };
        self.values(places)
    }

    fn values(&mut self, places: Places) -> Result<ArrayRef> {
        let present = places.present();
        let array: ArrayRef = match &mut self.values {
            Values::Boolean(bits) => {
                let values = match &places.nulls {
                    Some(nulls) => bits.read_into(nulls)?,
                    None => bits.read(present)?,
                };
                Arc::new(BooleanArray::new(values, places.nulls))
            }
            Values::Byte(bytes) => {
                let values = collect(present, || bytes.next().map(|b| i32::from(b.cast_signed())))?;
                places.numbers(values, Int32Array::try_new)?
            }
            Values::Int(integers) => {
                let narrow = |v| i32::try_from(v).map_err(|_| Corrupt("orc int has more than 32 bits"));
                let values = collect(present, || integers.next().and_then(narrow))?;
                places.numbers(values, Int32Array::try_new)?
            }
            Values::Long(integers) => {
                let values = integers.read(present)?;
                places.numbers(values, Int64Array::try_new)?
            }
            Values::Float(input) => {
                let values = collect(present, || {
                    let mut bytes = [0; 4];
                    input.exact(&mut bytes).map(|()| f32::from_le_bytes(bytes))
                })?;
                places.numbers(values, Float32Array::try_new)?
            }
            Values::Double(input) => {
                let values = collect(present, || {
                    let mut bytes = [0; 8];
                    input.exact(&mut bytes).map(|()| f64::from_le_bytes(bytes))
                })?;
                places.numbers(values, Float64Array::try_new)?
            }
            Values::Text { data, lengths } => {
                let (offsets, data) =
                    varied(lengths.read(present)?, places.nulls.as_ref(), places.rows, data)?;
                Arc::new(StringArray::try_new(offsets, data, places.nulls).map_err(not_built)?)
            }
            Values::Dictionary { indices, dictionary } => {
                if present == 0 {
                    return Ok(new_null_array(&self.data_type, places.rows));
                }
                let len = dictionary.len();
                let index = |v| {
                    let index = i32::try_from(v).ok();
                    let is_there = |i: &i32| usize::try_from(*i).is_ok_and(|i| i < len);
                    index.filter(is_there).ok_or(Corrupt("orc dictionary has no such entry"))
                };
                let values = collect(present, || indices.next().and_then(index))?;
                let indices = places.numbers(values, Int32Array::try_new)?;
                take(dictionary, &indices, None).map_err(not_built)?
            }
            Values::Binary { data, lengths } => {
                let (offsets, data) =
                    varied(lengths.read(present)?, places.nulls.as_ref(), places.rows, data)?;
                Arc::new(BinaryArray::try_new(offsets, data, places.nulls).map_err(not_built)?)
            }
            Values::Fixed { data, lengths, length } => {
                if lengths.read(present)?.iter().any(|l| usize::try_from(*l) != Ok(*length)) {
                    return Err(Error::invalid(format!("a value is not of {length} bytes")));
                }
                fixed(data, *length, places)?
            }
            Values::Decimal { data, scales, precision, scale } => {
                let values = collect(present, || rescaled(unscaled(data)?, scales.next()?, *scale))?;
                places.numbers(values, |values, nulls| {
                    Decimal128Array::try_new(values, nulls)?
                        .with_precision_and_scale(*precision, scale.cast_signed())
                })?
            }
            Values::Timestamp { seconds, nanos, clock } => {
                let unit = match &self.data_type {
                    DataType::Timestamp(unit, _) => *unit,
                    _ => return Err(Error::invalid("orc timestamp without a unit")),
                };
                let values = collect(present, || clock.value(seconds.next()?, nanos.next()?, unit))?;
                places.numbers(values, Int64Array::try_new)?
            }
            Values::Struct(children) => {
                let DataType::Struct(fields) = &self.data_type else {
                    return Err(Error::invalid("orc struct without fields"));
                };
                let mut columns = Vec::with_capacity(children.len());
                for (child, field) in children.iter_mut().zip(fields) {
                    let column = child.read(places.rows, places.nulls.as_ref());
                    columns.push(column.context(|| format!("field `{}`", field.name()))?);
                }
                let array =
                    StructArray::try_new_with_length(fields.clone(), columns, places.nulls, places.rows);
                Arc::new(array.map_err(not_built)?)
            }
            Values::List { lengths, element } => {
                let DataType::List(field) = &self.data_type else {
                    return Err(Error::invalid("orc list without an element"));
                };
                let (offsets, total) = offsets(lengths.read(present)?, places.nulls.as_ref(), places.rows)?;
                let values = element.read(total, None)?;
                let array = ListArray::try_new(Arc::clone(field), offsets, values, places.nulls);
                Arc::new(array.map_err(not_built)?)
            }
            Values::Map { lengths, key, value } => {
                let DataType::Map(field, ordered) = &self.data_type else {
                    return Err(Error::invalid("orc map without pairs"));
                };
                let DataType::Struct(pair) = field.data_type() else {
                    return Err(Error::invalid("orc map without pairs"));
                };
                let (offsets, total) = offsets(lengths.read(present)?, places.nulls.as_ref(), places.rows)?;
                let parts = vec![key.read(total, None)?, value.read(total, None)?];
                let pairs = StructArray::try_new(pair.clone(), parts, None).map_err(not_built)?;
                let array = MapArray::try_new(Arc::clone(field), offsets, pairs, places.nulls, *ordered);
                Arc::new(array.map_err(not_built)?)
            }
        };
        if array.data_type() == &self.data_type {
            return Ok(array);
        }
        // The same numbers, or text as views.
        cast(&array, &self.data_type).map_err(not_built)
    }
}

/// Which of the next rows have values.
struct Places {
    rows: usize,
    nulls: Option<NullBuffer>,
}

impl Places {
    /// How many have.
    fn present(&self) -> usize {
        self.rows - self.nulls.as_ref().map_or(0, NullBuffer::null_count)
    }

    /// An array of the values that are there, with anything between them.
    fn numbers<T, A>(
        self,
        values: Vec<T>,
        array: impl FnOnce(ScalarBuffer<T>, Option<NullBuffer>) -> Result<A, ArrowError>,
    ) -> Result<ArrayRef>
    where
        T: arrow::datatypes::ArrowNativeType,
        A: Array + 'static,
    {
        let values = match &self.nulls {
            None => values,
            Some(nulls) => {
                let mut present = values.into_iter();
                let spread =
                    |is_there| if is_there { present.next().unwrap_or_default() } else { T::default() };
                nulls.iter().map(spread).collect()
            }
        };
        Ok(Arc::new(array(ScalarBuffer::from(values), self.nulls).map_err(not_built)?))
    }
}

fn not_built(e: ArrowError) -> Error {
    Error::invalid("the values make no array").with_source(e)
}

/// It grows with the values that are there: the count may be a lie.
fn collect<T>(count: usize, mut next: impl FnMut() -> Decoded<T>) -> Decoded<Vec<T>> {
    let mut values = Vec::with_capacity(count.min(8192));
    for _ in 0..count {
        values.push(next()?);
    }
    Ok(values)
}

/// Offsets of values that are this long, and their sum.
fn offsets(
    lengths: Vec<i64>,
    nulls: Option<&NullBuffer>,
    rows: usize,
) -> Decoded<(OffsetBuffer<i32>, usize)> {
    let mut offsets = Vec::with_capacity(lengths.len().saturating_add(1));
    let mut end = 0i32;
    offsets.push(end);
    let mut lengths = lengths.into_iter();
    for row in 0..rows {
        if nulls.is_none_or(|n| n.is_valid(row)) {
            let length = lengths.next().and_then(|l| u32::try_from(l).ok());
            end = length
                .and_then(|l| end.checked_add_unsigned(l))
                .ok_or(Corrupt("orc values of one batch exceed 2^31 - 1 bytes or items"))?;
        }
        offsets.push(end);
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), usize::try_from(end).unwrap_or_default()))
}

/// Values of any length, one after the other.
fn varied(
    lengths: Vec<i64>,
    nulls: Option<&NullBuffer>,
    rows: usize,
    data: &mut Input,
) -> Decoded<(OffsetBuffer<i32>, Buffer)> {
    let (offsets, total) = offsets(lengths, nulls, rows)?;
    let mut bytes = Vec::new();
    data.append(total, &mut bytes)?;
    Ok((offsets, Buffer::from_vec(bytes)))
}

fn fixed(data: &mut Input, length: usize, places: Places) -> Result<ArrayRef> {
    let total = places.rows.checked_mul(length).filter(|total| i32::try_from(*total).is_ok());
    total.ok_or(Corrupt("orc values of one batch exceed 2^31 - 1 bytes"))?;
    let mut bytes = Vec::new();
    for row in 0..places.rows {
        if places.nulls.as_ref().is_none_or(|n| n.is_valid(row)) {
            data.append(length, &mut bytes)?;
        } else {
            bytes.resize(bytes.len() + length, 0);
        }
    }
    let size = i32::try_from(length).map_err(|_| Corrupt("orc value is too long"))?;
    let array = if length == 0 {
        FixedSizeBinaryArray::try_new_with_len(size, Buffer::from_vec(bytes), places.nulls, places.rows)
    } else {
        FixedSizeBinaryArray::try_new(size, Buffer::from_vec(bytes), places.nulls)
    };
    Ok(Arc::new(array.map_err(not_built)?))
}

/// A number in base 128 with its sign in the lowest bit.
fn unscaled(input: &mut Input) -> Decoded<i128> {
    const TOO_LARGE: Corrupt = Corrupt("orc decimal has more than 38 digits");
    let mut value = 0u128;
    for shift in (0..128).step_by(7) {
        let byte = input.byte()?;
        let bits = u128::from(byte & 0x7f);
        if shift > 121 && bits >> (128 - shift) != 0 {
            return Err(TOO_LARGE);
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok((value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg());
        }
    }
    Err(TOO_LARGE)
}

/// The value at the type's scale: writers cut zeros off.
fn rescaled(value: i128, scale: i64, to: u8) -> Decoded<i128> {
    const OUT_OF_RANGE: Corrupt = Corrupt("orc decimal does not fit its type");
    let missing = i64::from(to).checked_sub(scale).ok_or(OUT_OF_RANGE)?;
    let factor = u32::try_from(missing.unsigned_abs()).ok().and_then(|n| 10i128.checked_pow(n));
    match factor {
        _ if value == 0 || missing == 0 => Ok(value),
        Some(factor) if missing > 0 => value.checked_mul(factor).ok_or(OUT_OF_RANGE),
        Some(factor) if value % factor == 0 => Ok(value / factor),
        _ => Err(OUT_OF_RANGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: &[u8]) -> Input {
        Input::new(Bytes::copy_from_slice(bytes), Compression::NONE)
    }

    #[test]
    fn numbers_of_decimals() {
        assert_eq!(unscaled(&mut input(&[0x00])), Ok(0));
        assert_eq!(unscaled(&mut input(&[0x01])), Ok(-1));
        assert_eq!(unscaled(&mut input(&[0x90, 0x03])), Ok(200));
        let mut max = [0xff; 19];
        max[0] = 0xfe;
        max[18] = 0x03;
        assert_eq!(unscaled(&mut input(&max)), Ok(i128::MAX));
        max[18] = 0x07;
        assert!(unscaled(&mut input(&max)).is_err());
        assert!(unscaled(&mut input(&[0xff; 30])).is_err());
    }

    #[test]
    fn scales_are_made_the_types() {
        assert_eq!(rescaled(15, 1, 3), Ok(1500));
        assert_eq!(rescaled(1500, 3, 1), Ok(15));
        assert!(rescaled(1501, 3, 1).is_err(), "digits are not cut off");
        assert!(rescaled(i128::MAX, 0, 1).is_err());
        assert_eq!(rescaled(0, -5000, 38), Ok(0));
        assert!(rescaled(1, i64::MIN, 38).is_err());
    }

    #[test]
    fn offsets_skip_nulls() {
        let nulls = NullBuffer::from(vec![true, false, true]);
        let (found, total) = offsets(vec![2, 3], Some(&nulls), 3).unwrap();
        assert_eq!((found.to_vec(), total), (vec![0, 2, 2, 5], 5));
        assert!(offsets(vec![-1], None, 1).is_err());
        assert!(offsets(vec![1 << 31], None, 1).is_err());
        assert!(offsets(vec![1 << 30, 1 << 30], None, 2).is_err());
    }

    /// Rows of a dictionary with one text: null, then three times the same index.
    fn by_dictionary(index: u8, rows: usize) -> Result<ArrayRef> {
        let streams = [
            (PRESENT, vec![0xff, 0x7f]),
            (DATA, vec![0x00, index]),
            (LENGTH, vec![0x4e, 0x00, 0x01]),
            (DICTIONARY_DATA, vec![b'a']),
        ];
        let streams = streams.map(|(kind, bytes)| ((0, kind), bytes.into()));
        let stripe = StripeData {
            streams: streams.into(),
            encodings: vec![Encoding { kind: 3, dictionary_size: 1 }],
            compression: Compression::NONE,
            clock: Clock::Utc,
        };
        Column::open(&Planned { column: 0, shape: Shape::Text }, &stripe)?.read(rows, None)
    }

    #[test]
    fn dictionaries_have_an_end() {
        let read = by_dictionary(0, 4).unwrap();
        let read: Vec<_> = arrow::array::AsArray::as_string_view(&read).iter().collect();
        assert_eq!(read, [None, Some("a"), Some("a"), Some("a")]);
        assert_eq!(by_dictionary(0, 1).unwrap().null_count(), 1, "nulls only");
        assert!(by_dictionary(1, 4).is_err());
    }
}
