//! Transforms of whole arrays, with the arithmetic of [`crate::spec::Transform::apply`].

use std::sync::Arc;

use ::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArrayType, BinaryBuilder, BinaryViewBuilder,
    Int32Array, LargeBinaryBuilder, LargeStringBuilder, PrimitiveArray, StringArrayType, StringBuilder,
    StringViewBuilder, new_null_array,
};
use ::arrow::compute::cast;
use ::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType,
};

use crate::error::{Error, Result};
use crate::spec::{PrimitiveType, Transform, Type, murmur3, transform_apply as scalar};

/// Applies the transform to every row of an array whose values are of type `source`, in one of
/// the Arrow types that this can have (any of the string, binary and dictionary forms).
///
/// Null rows give null. The result has the Arrow type of [`Transform::result_type`]; where that
/// is the source's, the array's own, dictionaries unpacked.
///
/// # Errors
/// `Unsupported` for a transform that is not known; `DataInvalid` for one that does not apply to
/// `source`, and for an array of another type.
pub fn transform_array(transform: &Transform, array: &ArrayRef, source: &PrimitiveType) -> Result<ArrayRef> {
    if let Transform::Unknown(name) = transform {
        return Err(Error::unsupported(format!("transform `{name}` is not known, so it can't be applied")));
    }
    if transform.result_type(&Type::Primitive(source.clone())).is_none() {
        return Err(Error::invalid(format!("transform {transform} does not apply to type {source}")));
    }
    let unpacked;
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => {
            unpacked = cast(array, values)
                .map_err(|e| Error::invalid("a dictionary can't be unpacked").with_source(e))?;
            &unpacked
        }
        _ => array,
    };
    if !holds(array.data_type(), source) {
        return Err(Error::invalid(format!("an array of {} does not hold type {source}", array.data_type())));
    }
    let result = match transform {
        Transform::Identity => Some(Arc::clone(array)),
        Transform::Void => Some(new_null_array(array.data_type(), array.len())),
        Transform::Bucket(n) => bucket(array, *n),
        Transform::Truncate(width) => truncate(array, *width),
        Transform::Year => days(array).map(|d| Arc::new(ints(&d, scalar::year_of)) as ArrayRef),
        Transform::Month => days(array).map(|d| Arc::new(ints(&d, scalar::month_of)) as ArrayRef),
        Transform::Day => days(array).map(|d| Arc::new(d) as ArrayRef),
        Transform::Hour => hours(array),
        Transform::Unknown(_) => None,
    };
    result.ok_or_else(|| {
        Error::invalid(format!("transform {transform} does not apply to an array of {}", array.data_type()))
    })
}

/// Whether arrays of `data_type` hold values of `source`.
fn holds(data_type: &DataType, source: &PrimitiveType) -> bool {
    use PrimitiveType as P;
    match (source, data_type) {
        (P::Boolean, DataType::Boolean)
        | (P::Int, DataType::Int32)
        | (P::Long, DataType::Int64)
        | (P::Float, DataType::Float32)
        | (P::Double, DataType::Float64)
        | (P::Date, DataType::Date32)
        | (P::Time, DataType::Time64(TimeUnit::Microsecond))
        | (P::Timestamp, DataType::Timestamp(TimeUnit::Microsecond, None))
        | (P::Timestamptz, DataType::Timestamp(TimeUnit::Microsecond, Some(_)))
        | (P::TimestampNs, DataType::Timestamp(TimeUnit::Nanosecond, None))
        | (P::TimestamptzNs, DataType::Timestamp(TimeUnit::Nanosecond, Some(_)))
        | (P::String, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        | (
            P::Binary | P::Geometry { .. } | P::Geography { .. },
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView,
        )
        | (P::Uuid, DataType::FixedSizeBinary(16))
        | (P::Unknown, DataType::Null) => true,
        // A width counts in the scale of the type.
        (P::Decimal { scale, .. }, DataType::Decimal128(_, s)) => i64::from(*scale) == i64::from(*s),
        (P::Fixed(length), DataType::FixedSizeBinary(l)) => u64::try_from(*l) == Ok(*length),
        _ => false,
    }
}

fn ints<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, f: impl Fn(T::Native) -> i32) -> Int32Array {
    array.unary::<_, Int32Type>(f)
}

fn bucket(array: &ArrayRef, n: u32) -> Option<ArrayRef> {
    let of_long = |v: i64| scalar::bucket_of(murmur3::hash_long(v), n);
    let of_int = |v: i32| of_long(v.into());
    let of_bytes = |v: &[u8]| scalar::bucket_of(murmur3::hash_bytes(v), n);
    let of_nanos = |v: i64| scalar::bucket_of(murmur3::hash_nanos(v), n);
    let result: Int32Array = match array.data_type() {
        DataType::Int32 => ints(array.as_primitive_opt::<Int32Type>()?, of_int),
        DataType::Date32 => ints(array.as_primitive_opt::<Date32Type>()?, of_int),
        DataType::Int64 => ints(array.as_primitive_opt::<Int64Type>()?, of_long),
        DataType::Time64(_) => ints(array.as_primitive_opt::<Time64MicrosecondType>()?, of_long),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            ints(array.as_primitive_opt::<TimestampMicrosecondType>()?, of_long)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            ints(array.as_primitive_opt::<TimestampNanosecondType>()?, of_nanos)
        }
        DataType::Decimal128(_, _) => ints(array.as_primitive_opt::<Decimal128Type>()?, |v| {
            scalar::bucket_of(murmur3::hash_decimal(v), n)
        }),
        DataType::Utf8 => strings(array.as_string_opt::<i32>()?, of_bytes),
        DataType::LargeUtf8 => strings(array.as_string_opt::<i64>()?, of_bytes),
        DataType::Utf8View => strings(array.as_string_view_opt()?, of_bytes),
        DataType::Binary => binaries(array.as_binary_opt::<i32>()?, of_bytes),
        DataType::LargeBinary => binaries(array.as_binary_opt::<i64>()?, of_bytes),
        DataType::BinaryView => binaries(array.as_binary_view_opt()?, of_bytes),
        DataType::FixedSizeBinary(_) => {
            array.as_fixed_size_binary_opt()?.iter().map(|v| v.map(of_bytes)).collect()
        }
        _ => return None,
    };
    Some(Arc::new(result))
}

fn strings<'a>(array: impl StringArrayType<'a>, f: impl Fn(&[u8]) -> i32) -> Int32Array {
    array.iter().map(|v| v.map(|v| f(v.as_bytes()))).collect()
}

fn binaries<'a>(array: impl BinaryArrayType<'a>, f: impl Fn(&[u8]) -> i32) -> Int32Array {
    array.iter().map(|v| v.map(&f)).collect()
}

fn truncate(array: &ArrayRef, width: u32) -> Option<ArrayRef> {
    // Every builder has its own type and the same methods.
    macro_rules! cut {
        ($array:expr, $builder:expr, $cut:path) => {{
            let mut builder = $builder;
            for value in $array.iter() {
                builder.append_option(value.map(|v| $cut(v, width)));
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    let rows = array.len();
    Some(match array.data_type() {
        DataType::Int32 => {
            let array = array.as_primitive_opt::<Int32Type>()?;
            Arc::new(ints(array, |v| scalar::truncate_int(v, width)))
        }
        DataType::Int64 => {
            let array = array.as_primitive_opt::<Int64Type>()?;
            Arc::new(array.unary::<_, Int64Type>(|v| scalar::truncate_long(v, width)))
        }
        DataType::Decimal128(_, _) => {
            let decimals = array.as_primitive_opt::<Decimal128Type>()?;
            let result = decimals.unary::<_, Decimal128Type>(|v| scalar::truncate_decimal(v, width));
            Arc::new(result.with_data_type(array.data_type().clone()))
        }
        DataType::Utf8 => {
            cut!(array.as_string_opt::<i32>()?, StringBuilder::with_capacity(rows, 0), scalar::truncate_str)
        }
        DataType::LargeUtf8 => {
            let builder = LargeStringBuilder::with_capacity(rows, 0);
            cut!(array.as_string_opt::<i64>()?, builder, scalar::truncate_str)
        }
        DataType::Utf8View => {
            cut!(array.as_string_view_opt()?, StringViewBuilder::with_capacity(rows), scalar::truncate_str)
        }
        DataType::Binary => {
            cut!(array.as_binary_opt::<i32>()?, BinaryBuilder::with_capacity(rows, 0), scalar::truncate_slice)
        }
        DataType::LargeBinary => {
            let builder = LargeBinaryBuilder::with_capacity(rows, 0);
            cut!(array.as_binary_opt::<i64>()?, builder, scalar::truncate_slice)
        }
        DataType::BinaryView => {
            let builder = BinaryViewBuilder::with_capacity(rows);
            cut!(array.as_binary_view_opt()?, builder, scalar::truncate_slice)
        }
        _ => return None,
    })
}

/// Days since 1970-01-01, rounded down.
fn days(array: &ArrayRef) -> Option<PrimitiveArray<Date32Type>> {
    Some(match array.data_type() {
        DataType::Date32 => array.as_primitive_opt::<Date32Type>()?.clone(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive_opt::<TimestampMicrosecondType>()?.unary(scalar::day_of_micros)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive_opt::<TimestampNanosecondType>()?.unary(scalar::day_of_nanos)
        }
        _ => return None,
    })
}

fn hours(array: &ArrayRef) -> Option<ArrayRef> {
    Some(match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Arc::new(ints(array.as_primitive_opt::<TimestampMicrosecondType>()?, scalar::hour_of_micros))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Arc::new(ints(array.as_primitive_opt::<TimestampNanosecondType>()?, scalar::hour_of_nanos))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::value::tests::{all_primitives, column, forms};
    use super::super::{array_value, values_to_array};
    use super::*;
    use crate::error::ErrorKind;
    use ::arrow::array::{Int64Array, StringViewArray};
    use proptest::prelude::*;

    #[test]
    fn keeps_the_form_of_the_array() {
        let array: ArrayRef = Arc::new(StringViewArray::from(vec![Some("iceberg"), None, Some("é")]));
        let result = transform_array(&Transform::Truncate(3), &array, &PrimitiveType::String).unwrap();
        assert_eq!(result.as_string_view(), &StringViewArray::from(vec![Some("ice"), None, Some("é")]));
    }

    #[test]
    fn refuses_what_does_not_apply() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let long = PrimitiveType::Long;
        let unknown = Transform::Unknown("zorder".into());
        let error = transform_array(&unknown, &array, &long).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(transform_array(&Transform::Hour, &array, &long).is_err());
        assert!(transform_array(&Transform::Bucket(4), &array, &PrimitiveType::Int).is_err(), "wrong array");
    }

    proptest! {
        #[test]
        fn equals_the_scalar(
            (source, values) in column(),
            n in prop_oneof![1_u32..=20, any::<u32>()],
        ) {
            let refs: Vec<_> = values.iter().map(Option::as_ref).collect();
            for transform in [
                Transform::Identity,
                Transform::Bucket(n),
                Transform::Truncate(n),
                Transform::Year,
                Transform::Month,
                Transform::Day,
                Transform::Hour,
                Transform::Void,
            ] {
                for form in forms(&source) {
                    let array = values_to_array(&refs, &source.clone().into(), &form).unwrap();
                    let result = transform_array(&transform, &array, &source);
                    let Some(result_type) = transform.result_type(&source.clone().into()) else {
                        prop_assert!(result.is_err());
                        continue;
                    };
                    let result = result.unwrap();
                    prop_assert_eq!(result.len(), values.len());
                    for (row, value) in values.iter().enumerate() {
                        let expected = value.as_ref().and_then(|v| transform.apply(v));
                        prop_assert_eq!(
                            array_value(&result, row, &result_type).unwrap_or(None),
                            // A decimal may have got a digit too many for its type.
                            expected.filter(|v| fits(v, &result_type)),
                            "{} of {:?}", transform, value
                        );
                    }
                }
            }
        }
    }

    fn fits(value: &crate::spec::Value, t: &PrimitiveType) -> bool {
        use crate::spec::{Value, value_binary::fits_precision};
        match (value, t) {
            (Value::Decimal(v, _), PrimitiveType::Decimal { precision, .. }) => {
                fits_precision(*v, *precision)
            }
            _ => true,
        }
    }

    #[test]
    fn the_property_sees_every_type() {
        let applicable = |t: Transform| {
            all_primitives()
                .iter()
                .filter(|p| t.result_type(&Type::Primitive((*p).clone())).is_some())
                .count()
        };
        assert_eq!(applicable(Transform::Bucket(2)), 14);
        assert_eq!(applicable(Transform::Truncate(2)), 6);
        assert_eq!(applicable(Transform::Hour), 4);
    }
}
