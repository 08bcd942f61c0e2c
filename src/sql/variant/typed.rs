//! Scalars of variants as a column of one type.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int64Array, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, new_null_array,
};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{CastOptions, can_cast_types, cast_with_options, is_not_null};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;

use crate::error::{Error, Result};
use crate::spec::variant::VariantValue;

const MAX_DECIMAL: u128 = 10_u128.pow(38);

/// The values cast to a type; null where they can't be, and of objects and arrays.
///
/// Values of one kind are cast together: most columns are of one kind.
///
/// # Errors
/// None that data could cause.
pub(super) fn cast_values(values: &[Option<VariantValue<'_>>], target: &DataType) -> Result<ArrayRef> {
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in values.iter().flatten().filter_map(Kind::of) {
        if !kinds.contains(&kind) && kind.converts_to(target) {
            kinds.push(kind);
        }
    }
    let mut result: Option<ArrayRef> = None;
    for kind in kinds {
        let natural = kind.array(values)?;
        if !can_cast_types(natural.data_type(), target) {
            continue;
        }
        let options = CastOptions { safe: true, ..Default::default() };
        let part = cast_with_options(&natural, target, &options).map_err(failed)?;
        result = Some(match result {
            None => part,
            Some(others) => zip(&is_not_null(&part).map_err(failed)?, &part, &others).map_err(failed)?,
        });
    }
    Ok(result.unwrap_or_else(|| new_null_array(target, values.len())))
}

fn failed(error: ArrowError) -> Error {
    Error::invalid("values of variants").with_source(error)
}

/// Values that one Arrow type holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    Float,
    Double,
    /// With this scale.
    Decimal(u8),
    Date,
    Time,
    /// In microseconds or nanoseconds, and whether it is a point in time.
    Timestamp {
        nanos: bool,
        utc: bool,
    },
    Binary,
    Text,
    Uuid,
}

impl Kind {
    /// `None` for what has no Arrow type.
    fn of(value: &VariantValue<'_>) -> Option<Self> {
        use VariantValue as V;
        Some(match value {
            V::Null | V::Object(_) | V::Array(_) => return None,
            V::Boolean(_) => Self::Boolean,
            V::Int8(_) | V::Int16(_) | V::Int32(_) | V::Int64(_) => Self::Integer,
            V::Float(_) => Self::Float,
            V::Double(_) => Self::Double,
            V::Decimal(_, scale) => Self::Decimal(*scale),
            V::Date(_) => Self::Date,
            V::Time(_) => Self::Time,
            V::Timestamp(_) => Self::Timestamp { nanos: false, utc: false },
            V::Timestamptz(_) => Self::Timestamp { nanos: false, utc: true },
            V::TimestampNs(_) => Self::Timestamp { nanos: true, utc: false },
            V::TimestamptzNs(_) => Self::Timestamp { nanos: true, utc: true },
            V::Binary(_) => Self::Binary,
            V::String(_) => Self::Text,
            V::Uuid(_) => Self::Uuid,
        })
    }

    /// Whether a cast means something: Arrow would take a number for so many days or µs.
    fn converts_to(self, target: &DataType) -> bool {
        let temporal = target.is_temporal();
        match self {
            Self::Boolean | Self::Integer | Self::Float | Self::Double | Self::Decimal(_) => {
                !temporal && *target != DataType::Binary
            }
            Self::Date | Self::Time | Self::Timestamp { .. } => temporal,
            Self::Binary | Self::Uuid => *target == DataType::Binary,
            Self::Text => true,
        }
    }

    /// The values of this kind, null for all others.
    fn array(self, values: &[Option<VariantValue<'_>>]) -> Result<ArrayRef> {
        use VariantValue as V;
        let values = values.iter();
        Ok(match self {
            Self::Boolean => Arc::new(BooleanArray::from_iter(values.map(|v| match v {
                Some(V::Boolean(v)) => Some(*v),
                _ => None,
            }))),
            Self::Integer => Arc::new(Int64Array::from_iter(values.map(|v| match v {
                Some(V::Int8(v)) => Some(i64::from(*v)),
                Some(V::Int16(v)) => Some(i64::from(*v)),
                Some(V::Int32(v)) => Some(i64::from(*v)),
                Some(V::Int64(v)) => Some(*v),
                _ => None,
            }))),
            Self::Float => Arc::new(Float32Array::from_iter(values.map(|v| match v {
                Some(V::Float(v)) => Some(*v),
                _ => None,
            }))),
            Self::Double => Arc::new(Float64Array::from_iter(values.map(|v| match v {
                Some(V::Double(v)) => Some(*v),
                _ => None,
            }))),
            Self::Decimal(scale) => {
                let decimals = Decimal128Array::from_iter(values.map(|v| match v {
                    Some(V::Decimal(v, s)) if *s == scale && v.unsigned_abs() < MAX_DECIMAL => Some(*v),
                    _ => None,
                }));
                let scale = i8::try_from(scale).map_err(|_| Error::invalid("a variant's decimal"))?;
                Arc::new(decimals.with_precision_and_scale(38, scale).map_err(failed)?)
            }
            Self::Date => Arc::new(Date32Array::from_iter(values.map(|v| match v {
                Some(V::Date(v)) => Some(*v),
                _ => None,
            }))),
            Self::Time => Arc::new(Time64MicrosecondArray::from_iter(values.map(|v| match v {
                Some(V::Time(v)) => Some(*v),
                _ => None,
            }))),
            Self::Timestamp { nanos: true, utc } => {
                let array = TimestampNanosecondArray::from_iter(values.map(|v| match (v, utc) {
                    (Some(V::TimestampNs(v)), false) | (Some(V::TimestamptzNs(v)), true) => Some(*v),
                    _ => None,
                }));
                Arc::new(array.with_timezone_opt(utc.then_some("UTC")))
            }
            Self::Timestamp { nanos: false, utc } => {
                let array = TimestampMicrosecondArray::from_iter(values.map(|v| match (v, utc) {
                    (Some(V::Timestamp(v)), false) | (Some(V::Timestamptz(v)), true) => Some(*v),
                    _ => None,
                }));
                Arc::new(array.with_timezone_opt(utc.then_some("UTC")))
            }
            Self::Binary => Arc::new(BinaryArray::from_iter(values.map(|v| match v {
                Some(V::Binary(v)) => Some(*v),
                _ => None,
            }))),
            Self::Text => Arc::new(StringArray::from_iter(values.map(|v| match v {
                Some(V::String(v)) => Some(*v),
                _ => None,
            }))),
            Self::Uuid => {
                let uuids = values.map(|v| match v {
                    Some(V::Uuid(v)) => Some(*v),
                    _ => None,
                });
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).map_err(failed)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::TimeUnit;
    use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

    fn cast(target: &DataType) -> Vec<String> {
        use VariantValue as V;
        let values = [
            None,
            Some(V::Null),
            Some(V::Boolean(true)),
            Some(V::Int8(-1)),
            Some(V::Int64(5_000_000_000)),
            Some(V::Double(2.5)),
            Some(V::Float(f32::NAN)),
            Some(V::Decimal(1234, 2)),
            Some(V::Decimal(10_i128.pow(38), 0)),
            Some(V::String("12")),
            Some(V::String("2020-01-01")),
            Some(V::Date(1)),
            Some(V::Timestamp(86_400_000_001)),
            Some(V::TimestamptzNs(1)),
            Some(V::Binary(b"\x01")),
            Some(V::Uuid([7; 16])),
        ];
        let array = cast_values(&values, target).unwrap();
        assert_eq!((array.data_type(), array.len()), (target, values.len()));
        let options = FormatOptions::default().with_null("-");
        let shown = ArrayFormatter::try_new(&array, &options).unwrap();
        (0..array.len()).map(|i| shown.value(i).to_string()).collect()
    }

    #[test]
    fn what_can_be_cast_is() {
        let us = DataType::Timestamp(TimeUnit::Microsecond, None);
        for (target, expected) in [
            (DataType::Int32, "- - 1 -1 - 2 - 12 - 12 - - - - - -"),
            (DataType::Int64, "- - 1 -1 5000000000 2 - 12 - 12 - - - - - -"),
            (DataType::Float64, "- - 1.0 -1.0 5000000000.0 2.5 NaN 12.34 - 12.0 - - - - - -"),
            (DataType::Decimal128(4, 1), "- - - -1.0 - 2.5 - 12.3 - 12.0 - - - - - -"),
            (DataType::Date32, "- - - - - - - - - - 2020-01-01 1970-01-02 1970-01-02 1970-01-01 - -"),
            (
                us,
                "- - - - - - - - - - 2020-01-01T00:00:00 1970-01-02T00:00:00 1970-01-02T00:00:00.000001 \
                 1970-01-01T00:00:00 - -",
            ),
            (
                DataType::Binary,
                "- - - - - - - - - 3132 323032302d30312d3031 - - - 01 07070707070707070707070707070707",
            ),
        ] {
            assert_eq!(cast(&target), expected.split_whitespace().collect::<Vec<_>>(), "{target}");
        }
    }

    #[test]
    fn nothing_to_cast() {
        assert_eq!(cast_values(&[None, Some(VariantValue::Null)], &DataType::Int32).unwrap().null_count(), 2);
        assert_eq!(cast_values(&[], &DataType::Int32).unwrap().len(), 0);
    }
}
