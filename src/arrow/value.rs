//! Values as DataFusion's scalars and back: the one place of that conversion.

use std::sync::Arc;

use ::arrow::array::{Array, ArrayRef, ListArray, MapArray, NullArray, StructArray, new_empty_array};
use ::arrow::buffer::{NullBuffer, OffsetBuffer};
use ::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use uuid::Uuid;

use crate::error::{Error, Result, ResultExt};
use crate::spec::value_binary::fits_precision;
use crate::spec::{PrimitiveType, Type, Value};

/// The value as a scalar of `data_type`, which must be one that `field_type` can have in Arrow: it
/// decides between `Utf8` and `Utf8View`, dictionaries and zone names. `None` gives a typed null.
///
/// # Errors
/// `DataInvalid` for a value that is not of `field_type`; `Unsupported` for a `data_type` that
/// can't hold it.
pub(crate) fn value_to_scalar(
    value: Option<&Value>,
    field_type: &Type,
    data_type: &DataType,
) -> Result<ScalarValue> {
    match field_type {
        Type::Primitive(_) => match value {
            None => ScalarValue::try_new_null(data_type).map_err(arrow_failed),
            Some(value) => primitive_to_scalar(value, field_type, data_type),
        },
        _ => {
            // Not `ScalarValue::try_from_array`, which drops the metadata of a list's element.
            let array = values_to_array(&[value], field_type, data_type)?;
            let any = array.as_any();
            if let Some(array) = any.downcast_ref::<StructArray>() {
                Ok(ScalarValue::Struct(Arc::new(array.clone())))
            } else if let Some(array) = any.downcast_ref::<ListArray>() {
                Ok(ScalarValue::List(Arc::new(array.clone())))
            } else if let Some(array) = any.downcast_ref::<MapArray>() {
                Ok(ScalarValue::Map(Arc::new(array.clone())))
            } else {
                Err(cannot_hold(field_type, data_type))
            }
        }
    }
}

/// The values as an array of `data_type`; see [`value_to_scalar`].
///
/// # Errors
/// As [`value_to_scalar`].
pub(crate) fn values_to_array(
    values: &[Option<&Value>],
    field_type: &Type,
    data_type: &DataType,
) -> Result<ArrayRef> {
    if let Some(wrong) = values.iter().flatten().find(|v| !v.is_of(field_type)) {
        return Err(not_of(wrong, field_type));
    }
    let nulls = || Some(NullBuffer::from_iter(values.iter().map(Option::is_some)));
    match (field_type, data_type) {
        (Type::Primitive(_), DataType::Null) => Ok(Arc::new(NullArray::new(values.len()))),
        (Type::Primitive(_), _) => {
            let scalars = values
                .iter()
                .map(|v| value_to_scalar(*v, field_type, data_type))
                .collect::<Result<Vec<_>>>()?;
            if scalars.is_empty() {
                return Ok(new_empty_array(data_type));
            }
            ScalarValue::iter_to_array(scalars).map_err(arrow_failed)
        }
        (Type::Struct(s), DataType::Struct(fields)) if s.fields.len() == fields.len() => {
            let mut columns = Vec::with_capacity(fields.len());
            for (i, (field, arrow)) in s.fields.iter().zip(fields).enumerate() {
                let column: Vec<Option<&Value>> = values
                    .iter()
                    .map(|v| match v {
                        Some(Value::Struct(members)) => members.get(i).and_then(Option::as_ref),
                        _ => None,
                    })
                    .collect();
                columns.push(
                    values_to_array(&column, &field.field_type, arrow.data_type())
                        .context(|| format!("field `{}`", field.name))?,
                );
            }
            let array = StructArray::try_new_with_length(fields.clone(), columns, nulls(), values.len());
            Ok(Arc::new(array.map_err(arrow_failed)?))
        }
        (Type::List(l), DataType::List(element)) => {
            let mut lengths = Vec::with_capacity(values.len());
            let mut elements = Vec::new();
            for value in values {
                let Some(Value::List(items)) = value else {
                    lengths.push(0);
                    continue;
                };
                lengths.push(items.len());
                elements.extend(items.iter().map(Option::as_ref));
            }
            let elements = values_to_array(&elements, &l.element.field_type, element.data_type())?;
            let array = ListArray::try_new(
                Arc::clone(element),
                OffsetBuffer::from_lengths(lengths),
                elements,
                nulls(),
            );
            Ok(Arc::new(array.map_err(arrow_failed)?))
        }
        (Type::Map(m), DataType::Map(entries, sorted)) => {
            let DataType::Struct(pair) = entries.data_type() else {
                return Err(cannot_hold(field_type, data_type));
            };
            let [key, value] = pair.as_ref() else { return Err(cannot_hold(field_type, data_type)) };
            let mut lengths = Vec::with_capacity(values.len());
            let (mut keys, mut items) = (Vec::new(), Vec::new());
            for map in values {
                let Some(Value::Map(pairs)) = map else {
                    lengths.push(0);
                    continue;
                };
                lengths.push(pairs.len());
                keys.extend(pairs.iter().map(|(k, _)| Some(k)));
                items.extend(pairs.iter().map(|(_, v)| v.as_ref()));
            }
            let keys = values_to_array(&keys, &m.key.field_type, key.data_type())?;
            let items = values_to_array(&items, &m.value.field_type, value.data_type())?;
            let pairs = StructArray::try_new(pair.clone(), vec![keys, items], None).map_err(arrow_failed)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            let array = MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls(), *sorted);
            Ok(Arc::new(array.map_err(arrow_failed)?))
        }
        _ => Err(cannot_hold(field_type, data_type)),
    }
}

fn primitive_to_scalar(value: &Value, field_type: &Type, data_type: &DataType) -> Result<ScalarValue> {
    use ScalarValue as S;
    if !value.is_of(field_type) {
        return Err(not_of(value, field_type));
    }
    let cannot = || cannot_hold(field_type, data_type);
    if let DataType::Dictionary(key, values) = data_type {
        let inner = primitive_to_scalar(value, field_type, values)?;
        return Ok(S::Dictionary(key.clone(), Box::new(inner)));
    }
    Ok(match (value, data_type) {
        (Value::Boolean(v), DataType::Boolean) => S::Boolean(Some(*v)),
        (Value::Int(v), DataType::Int32) => S::Int32(Some(*v)),
        (Value::Long(v), DataType::Int64) => S::Int64(Some(*v)),
        (Value::Float(v), DataType::Float32) => S::Float32(Some(*v)),
        (Value::Double(v), DataType::Float64) => S::Float64(Some(*v)),
        (Value::Decimal(v, scale), DataType::Decimal128(precision, s))
            if i64::from(*scale) == i64::from(*s) && fits_precision(*v, u32::from(*precision)) =>
        {
            S::Decimal128(Some(*v), *precision, *s)
        }
        (Value::Date(v), DataType::Date32) => S::Date32(Some(*v)),
        (Value::Time(v), DataType::Time64(TimeUnit::Microsecond)) => S::Time64Microsecond(Some(*v)),
        (Value::Timestamp(v), DataType::Timestamp(TimeUnit::Microsecond, None)) => {
            S::TimestampMicrosecond(Some(*v), None)
        }
        (Value::Timestamptz(v), DataType::Timestamp(TimeUnit::Microsecond, Some(zone))) => {
            S::TimestampMicrosecond(Some(*v), Some(Arc::clone(zone)))
        }
        (Value::TimestampNs(v), DataType::Timestamp(TimeUnit::Nanosecond, None)) => {
            S::TimestampNanosecond(Some(*v), None)
        }
        (Value::TimestamptzNs(v), DataType::Timestamp(TimeUnit::Nanosecond, Some(zone))) => {
            S::TimestampNanosecond(Some(*v), Some(Arc::clone(zone)))
        }
        (Value::String(v), DataType::Utf8) => S::Utf8(Some(v.clone())),
        (Value::String(v), DataType::LargeUtf8) => S::LargeUtf8(Some(v.clone())),
        (Value::String(v), DataType::Utf8View) => S::Utf8View(Some(v.clone())),
        (Value::Uuid(v), DataType::FixedSizeBinary(16)) => {
            S::FixedSizeBinary(16, Some(v.as_bytes().to_vec()))
        }
        (Value::Fixed(v), DataType::FixedSizeBinary(length)) if usize::try_from(*length) == Ok(v.len()) => {
            S::FixedSizeBinary(*length, Some(v.clone()))
        }
        (Value::Binary(v), DataType::Binary) => S::Binary(Some(v.clone())),
        (Value::Binary(v), DataType::LargeBinary) => S::LargeBinary(Some(v.clone())),
        (Value::Binary(v), DataType::BinaryView) => S::BinaryView(Some(v.clone())),
        _ => return Err(cannot()),
    })
}

/// The scalar as a value of `target`, if that loses nothing; `None` for null, for scalars of
/// other kinds, and where the value is not exactly one of `target`'s.
///
/// Numbers widen and narrow where they fit, decimals change their scale, times their unit. A
/// timestamp with a zone is a point in time and only a `timestamptz`, one without only a
/// `timestamp`. Text that is a UUID is a `uuid`.
pub(crate) fn scalar_to_value(scalar: &ScalarValue, target: &PrimitiveType) -> Option<Value> {
    use ScalarValue as S;
    match scalar {
        S::Dictionary(_, inner) | S::RunEndEncoded(_, _, inner) => scalar_to_value(inner, target),
        S::Boolean(Some(v)) => (*target == PrimitiveType::Boolean).then_some(Value::Boolean(*v)),
        S::Int8(Some(v)) => integer((*v).into(), target),
        S::Int16(Some(v)) => integer((*v).into(), target),
        S::Int32(Some(v)) => integer((*v).into(), target),
        S::Int64(Some(v)) => integer((*v).into(), target),
        S::UInt8(Some(v)) => integer((*v).into(), target),
        S::UInt16(Some(v)) => integer((*v).into(), target),
        S::UInt32(Some(v)) => integer((*v).into(), target),
        S::UInt64(Some(v)) => integer((*v).into(), target),
        S::Float16(Some(v)) => float(f64::from(*v), target),
        S::Float32(Some(v)) => match target {
            // Not by way of a double, so that the bits of a NaN are kept.
            PrimitiveType::Float => Some(Value::Float(*v)),
            _ => float(f64::from(*v), target),
        },
        S::Float64(Some(v)) => float(*v, target),
        S::Decimal32(Some(v), _, scale) => decimal((*v).into(), *scale, target),
        S::Decimal64(Some(v), _, scale) => decimal((*v).into(), *scale, target),
        S::Decimal128(Some(v), _, scale) => decimal(*v, *scale, target),
        S::Decimal256(Some(v), _, scale) => decimal(v.to_i128()?, *scale, target),
        S::Date32(Some(v)) => (*target == PrimitiveType::Date).then_some(Value::Date(*v)),
        S::Date64(Some(v)) => match target {
            PrimitiveType::Date => exact(i128::from(*v), 1, 86_400_000)?.try_into().ok().map(Value::Date),
            _ => None,
        },
        S::Time32Second(Some(v)) => time((*v).into(), 1, target),
        S::Time32Millisecond(Some(v)) => time((*v).into(), 1_000, target),
        S::Time64Microsecond(Some(v)) => time(*v, 1_000_000, target),
        S::Time64Nanosecond(Some(v)) => time(*v, 1_000_000_000, target),
        S::TimestampSecond(Some(v), zone) => timestamp(*v, 1, zone.is_some(), target),
        S::TimestampMillisecond(Some(v), zone) => timestamp(*v, 1_000, zone.is_some(), target),
        S::TimestampMicrosecond(Some(v), zone) => timestamp(*v, 1_000_000, zone.is_some(), target),
        S::TimestampNanosecond(Some(v), zone) => timestamp(*v, 1_000_000_000, zone.is_some(), target),
        S::Utf8(Some(v)) | S::LargeUtf8(Some(v)) | S::Utf8View(Some(v)) => match target {
            PrimitiveType::String => Some(Value::String(v.clone())),
            PrimitiveType::Uuid => Uuid::try_parse(v).ok().map(Value::Uuid),
            _ => None,
        },
        S::Binary(Some(v))
        | S::LargeBinary(Some(v))
        | S::BinaryView(Some(v))
        | S::FixedSizeBinary(_, Some(v)) => match target {
            PrimitiveType::Binary => Some(Value::Binary(v.clone())),
            PrimitiveType::Fixed(length) if *length == v.len() as u64 => Some(Value::Fixed(v.clone())),
            PrimitiveType::Uuid => Uuid::from_slice(v).ok().map(Value::Uuid),
            _ => None,
        },
        _ => None,
    }
}

/// The value in that row, as one of type `t`; `None` for null.
///
/// # Errors
/// `DataInvalid` where there is no such row, or for a value that is not exactly one of `t`.
pub(crate) fn array_value(array: &dyn Array, row: usize, t: &PrimitiveType) -> Result<Option<Value>> {
    if row >= array.len() {
        return Err(Error::invalid(format!("row {row} of an array of {} rows", array.len())));
    }
    let scalar = ScalarValue::try_from_array(array, row).map_err(arrow_failed)?;
    if scalar.is_null() {
        return Ok(None);
    }
    match scalar_to_value(&scalar, t) {
        Some(value) => Ok(Some(value)),
        None => Err(Error::invalid(format!("{} {scalar} is not a value of type {t}", array.data_type()))),
    }
}

fn integer(v: i128, target: &PrimitiveType) -> Option<Value> {
    match target {
        PrimitiveType::Int => v.try_into().ok().map(Value::Int),
        PrimitiveType::Long => v.try_into().ok().map(Value::Long),
        // Whole numbers up to the width of the significand are exact.
        PrimitiveType::Float => (v.unsigned_abs() <= 1 << 24).then_some(Value::Float(v as f32)),
        PrimitiveType::Double => (v.unsigned_abs() <= 1 << 53).then_some(Value::Double(v as f64)),
        PrimitiveType::Decimal { .. } => decimal(v, 0, target),
        _ => None,
    }
}

fn float(v: f64, target: &PrimitiveType) -> Option<Value> {
    match target {
        PrimitiveType::Double => Some(Value::Double(v)),
        PrimitiveType::Float => {
            let narrow = v as f32;
            (f64::from(narrow) == v || v.is_nan()).then_some(Value::Float(narrow))
        }
        _ => None,
    }
}

fn decimal(unscaled: i128, scale: i8, target: &PrimitiveType) -> Option<Value> {
    let (precision, to) = match target {
        PrimitiveType::Decimal { precision, scale } => (*precision, i64::from(*scale)),
        PrimitiveType::Int | PrimitiveType::Long => {
            // Exact only without a fraction.
            return integer(rescale(unscaled, -i64::from(scale))?, target);
        }
        _ => return None,
    };
    let rescaled = rescale(unscaled, to - i64::from(scale))?;
    fits_precision(rescaled, precision).then_some(Value::Decimal(rescaled, u32::try_from(to).ok()?))
}

/// `v * 10^by`, if that is a whole number.
fn rescale(v: i128, by: i64) -> Option<i128> {
    if v == 0 {
        return Some(0);
    }
    let factor = 10_i128.checked_pow(u32::try_from(by.unsigned_abs()).ok()?)?;
    if by >= 0 { v.checked_mul(factor) } else { exact(v, 1, factor) }
}

/// `v * multiplier / divisor`, if that is a whole number.
fn exact(v: i128, multiplier: i128, divisor: i128) -> Option<i128> {
    let product = v.checked_mul(multiplier)?;
    (product.checked_rem(divisor)? == 0).then_some(product / divisor)
}

fn time(v: i64, per_second: i128, target: &PrimitiveType) -> Option<Value> {
    match target {
        PrimitiveType::Time => exact(v.into(), 1_000_000, per_second)?.try_into().ok().map(Value::Time),
        _ => None,
    }
}

fn timestamp(v: i64, per_second: i128, with_zone: bool, target: &PrimitiveType) -> Option<Value> {
    let (make, unit): (fn(i64) -> Value, i128) = match (target, with_zone) {
        (PrimitiveType::Timestamp, false) => (Value::Timestamp, 1_000_000),
        (PrimitiveType::Timestamptz, true) => (Value::Timestamptz, 1_000_000),
        (PrimitiveType::TimestampNs, false) => (Value::TimestampNs, 1_000_000_000),
        (PrimitiveType::TimestamptzNs, true) => (Value::TimestamptzNs, 1_000_000_000),
        _ => return None,
    };
    exact(v.into(), unit, per_second)?.try_into().ok().map(make)
}

fn not_of(value: &Value, field_type: &Type) -> Error {
    Error::invalid(format!("{value:?} is not a value of type {field_type}"))
}

fn cannot_hold(field_type: &Type, data_type: &DataType) -> Error {
    Error::unsupported(format!("a value of type {field_type} can't be held by Arrow's {data_type}"))
}

fn arrow_failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::invalid("a value can't be held by Arrow").with_source(error)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::to_arrow_field;
    use super::*;
    use crate::spec::{ListType, MapType, NestedField, StructType};
    use PrimitiveType as P;
    use ScalarValue as S;
    use proptest::prelude::*;
    use proptest::strategy::Union;

    /// Any value of type `p`, its ends often among them.
    pub(in super::super) fn value_of(p: &P) -> BoxedStrategy<Value> {
        let int = || prop_oneof![any::<i32>(), Just(i32::MIN), Just(i32::MAX), -100_i32..100].boxed();
        let long = || prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -100_i64..100].boxed();
        match *p {
            P::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
            P::Int => int().prop_map(Value::Int).boxed(),
            P::Long => long().prop_map(Value::Long).boxed(),
            P::Float => any::<u32>().prop_map(|v| Value::Float(f32::from_bits(v))).boxed(),
            P::Double => any::<u64>().prop_map(|v| Value::Double(f64::from_bits(v))).boxed(),
            P::Decimal { precision, scale } => {
                let limit = 10_i128.pow(precision);
                prop_oneof![(1 - limit)..limit, Just(1 - limit), Just(limit - 1)]
                    .prop_map(move |v| Value::Decimal(v, scale))
                    .boxed()
            }
            P::Date => int().prop_map(Value::Date).boxed(),
            P::Time => long().prop_map(Value::Time).boxed(),
            P::Timestamp => long().prop_map(Value::Timestamp).boxed(),
            P::Timestamptz => long().prop_map(Value::Timestamptz).boxed(),
            P::TimestampNs => long().prop_map(Value::TimestampNs).boxed(),
            P::TimestamptzNs => long().prop_map(Value::TimestamptzNs).boxed(),
            P::String => any::<String>().prop_map(Value::String).boxed(),
            P::Uuid => any::<[u8; 16]>().prop_map(|v| Value::Uuid(Uuid::from_bytes(v))).boxed(),
            P::Fixed(length) => {
                prop::collection::vec(any::<u8>(), length as usize).prop_map(Value::Fixed).boxed()
            }
            P::Binary => any::<Vec<u8>>().prop_map(Value::Binary).boxed(),
            P::Unknown | P::Geometry { .. } | P::Geography { .. } => unreachable!(),
        }
    }

    pub(in super::super) fn all_primitives() -> Vec<P> {
        vec![
            P::Boolean,
            P::Int,
            P::Long,
            P::Float,
            P::Double,
            P::Decimal { precision: 38, scale: 4 },
            P::Decimal { precision: 5, scale: 0 },
            P::Date,
            P::Time,
            P::Timestamp,
            P::Timestamptz,
            P::TimestampNs,
            P::TimestamptzNs,
            P::String,
            P::Uuid,
            P::Fixed(5),
            P::Binary,
        ]
    }

    /// A primitive type and a column of it.
    pub(in super::super) fn column() -> impl Strategy<Value = (P, Vec<Option<Value>>)> {
        Union::new(all_primitives().into_iter().map(|p| {
            let values = prop::collection::vec(prop::option::of(value_of(&p)), 0..12);
            values.prop_map(move |values| (p.clone(), values))
        }))
    }

    /// The Arrow types that a column of the type may come in.
    pub(in super::super) fn forms(p: &P) -> Vec<DataType> {
        let own = to_arrow_field(&NestedField::optional(1, "x", p.clone())).unwrap().data_type().clone();
        let dictionary = |values: DataType| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values));
        match p {
            P::String => {
                vec![own, DataType::Utf8, DataType::LargeUtf8, dictionary(DataType::Utf8)]
            }
            P::Binary => vec![own, DataType::Binary, DataType::LargeBinary, dictionary(DataType::Binary)],
            _ => vec![own],
        }
    }

    #[test]
    fn takes_only_what_is_exact() {
        let decimal = |v, p, s| S::Decimal128(Some(v), p, s);
        let dec = P::Decimal { precision: 4, scale: 2 };
        for (scalar, target, expected) in [
            (S::Int8(Some(5)), P::Long, Some(Value::Long(5))),
            (S::UInt64(Some(5)), P::Int, Some(Value::Int(5))),
            (S::UInt64(Some(u64::MAX)), P::Long, None),
            (S::Int64(Some(1 << 31)), P::Int, None),
            (S::Int64(Some(i64::MIN)), P::Long, Some(Value::Long(i64::MIN))),
            (S::Int64(Some(1 << 53)), P::Double, Some(Value::Double(9_007_199_254_740_992.0))),
            (S::Int64(Some((1 << 53) + 1)), P::Double, None),
            (S::Int64(Some((1 << 24) + 1)), P::Float, None),
            (S::Int32(Some(12)), dec.clone(), Some(Value::Decimal(1200, 2))),
            (S::Int32(Some(100)), dec.clone(), None),
            (S::Float32(Some(0.5)), P::Double, Some(Value::Double(0.5))),
            (S::Float64(Some(0.5)), P::Float, Some(Value::Float(0.5))),
            (S::Float64(Some(0.1)), P::Float, None),
            (S::Float64(Some(1e300)), P::Float, None),
            (S::Float64(Some(f64::INFINITY)), P::Float, Some(Value::Float(f32::INFINITY))),
            (S::Float64(Some(-0.0)), P::Double, Some(Value::Double(-0.0))),
            (S::Float64(Some(1.0)), P::Int, None),
            (decimal(10, 3, 1), dec.clone(), Some(Value::Decimal(100, 2))),
            (decimal(1000, 9, 3), dec.clone(), Some(Value::Decimal(100, 2))),
            (decimal(1001, 9, 3), dec.clone(), None),
            (decimal(1000, 9, 1), dec.clone(), None),
            (decimal(3, 9, -1), P::Decimal { precision: 4, scale: 0 }, Some(Value::Decimal(30, 0))),
            (decimal(i128::MAX, 38, 0), P::Decimal { precision: 38, scale: 38 }, None),
            (decimal(0, 38, 0), P::Decimal { precision: 38, scale: 38 }, Some(Value::Decimal(0, 38))),
            (decimal(500, 9, 2), P::Int, Some(Value::Int(5))),
            (decimal(550, 9, 2), P::Int, None),
            (S::Date32(Some(-1)), P::Date, Some(Value::Date(-1))),
            (S::Date32(Some(1)), P::Timestamp, None),
            (S::Date64(Some(-86_400_000)), P::Date, Some(Value::Date(-1))),
            (S::Date64(Some(1)), P::Date, None),
            (S::Time32Second(Some(2)), P::Time, Some(Value::Time(2_000_000))),
            (S::Time64Nanosecond(Some(1001)), P::Time, None),
            (S::TimestampSecond(Some(-1), None), P::Timestamp, Some(Value::Timestamp(-1_000_000))),
            (S::TimestampSecond(Some(i64::MAX), None), P::Timestamp, None),
            (S::TimestampNanosecond(Some(-1000), None), P::Timestamp, Some(Value::Timestamp(-1))),
            (S::TimestampNanosecond(Some(-1001), None), P::Timestamp, None),
            (S::TimestampMicrosecond(Some(1), Some("+02:00".into())), P::Timestamp, None),
            (S::TimestampMicrosecond(Some(1), None), P::Timestamptz, None),
            (
                S::TimestampMicrosecond(Some(1), Some("+02:00".into())),
                P::TimestamptzNs,
                Some(Value::TimestamptzNs(1000)),
            ),
            (S::LargeUtf8(Some("x".into())), P::String, Some(Value::String("x".into()))),
            (S::Utf8(Some("x".into())), P::Uuid, None),
            (
                S::Utf8View(Some("F79C3E09-677c-4bbd-a479-3f349cb785e7".into())),
                P::Uuid,
                Some(Value::Uuid("f79c3e09-677c-4bbd-a479-3f349cb785e7".parse().unwrap())),
            ),
            (S::Utf8(Some("1".into())), P::Int, None),
            (S::Binary(Some(vec![1])), P::Fixed(1), Some(Value::Fixed(vec![1]))),
            (S::Binary(Some(vec![1])), P::Fixed(2), None),
            (S::FixedSizeBinary(1, Some(vec![1])), P::Binary, Some(Value::Binary(vec![1]))),
            (
                S::Dictionary(Box::new(DataType::Int8), Box::new(S::Utf8(Some("d".into())))),
                P::String,
                Some(Value::String("d".into())),
            ),
            (S::Int32(None), P::Int, None),
            (S::Null, P::Int, None),
            (S::Boolean(Some(true)), P::Int, None),
        ] {
            assert_eq!(scalar_to_value(&scalar, &target), expected, "{scalar:?} as {target}");
        }
        assert!(scalar_to_value(&S::Float64(Some(f64::NAN)), &P::Float).unwrap().is_nan());
    }

    #[test]
    fn refuses_values_of_another_type() {
        for (value, t, data_type) in [
            (Value::Int(1), P::Long, DataType::Int64),
            (Value::Decimal(1, 3), P::Decimal { precision: 4, scale: 2 }, DataType::Decimal128(4, 2)),
            (Value::Decimal(10_000, 2), P::Decimal { precision: 4, scale: 2 }, DataType::Decimal128(4, 2)),
            (Value::Fixed(vec![1]), P::Fixed(2), DataType::FixedSizeBinary(2)),
            (Value::Int(1), P::Int, DataType::Utf8),
            (
                Value::Timestamp(1),
                P::Timestamp,
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ),
        ] {
            assert!(value_to_scalar(Some(&value), &t.into(), &data_type).is_err(), "{value:?}");
        }
        let array: ArrayRef = Arc::new(::arrow::array::Int64Array::from(vec![1 << 40]));
        assert!(array_value(&array, 0, &P::Int).is_err());
        assert!(array_value(&array, 1, &P::Long).is_err());
    }

    #[test]
    fn nested_values_become_arrays() {
        let pair = StructType::new(vec![
            NestedField::required(4, "x", P::String),
            NestedField::optional(5, "m", MapType::new(6, P::Int, 7, P::Binary, false)),
        ]);
        let t = Type::from(ListType::new(3, pair, false));
        let field = to_arrow_field(&NestedField::optional(1, "l", t.clone())).unwrap();
        let map = Value::Map(vec![(Value::Int(1), Some(Value::Binary(vec![9]))), (Value::Int(2), None)]);
        let value = Value::List(vec![
            Some(Value::Struct(vec![Some(Value::String("a".into())), Some(map)])),
            None,
            Some(Value::Struct(vec![Some(Value::String("b".into())), None])),
        ]);
        let scalar = value_to_scalar(Some(&value), &t, field.data_type()).unwrap();
        assert_eq!(&scalar.data_type(), field.data_type());
        assert_eq!(scalar.to_string(), "[{x: a, m: {1: 09, 2: }}, , {x: b, m: }]");
        let null = value_to_scalar(None, &t, field.data_type()).unwrap();
        assert!(null.is_null());
        assert_eq!(&null.data_type(), field.data_type());
        let array = values_to_array(&[Some(&Value::List(vec![])), None], &t, field.data_type()).unwrap();
        assert_eq!((array.len(), array.null_count()), (2, 1));
        let missing = Value::List(vec![Some(Value::Struct(vec![None, None]))]);
        assert!(value_to_scalar(Some(&missing), &t, field.data_type()).is_err(), "x is required");
    }

    #[test]
    fn unknown_is_only_null() {
        let t = Type::Primitive(P::Unknown);
        assert!(value_to_scalar(None, &t, &DataType::Null).unwrap().is_null());
        assert!(value_to_scalar(Some(&Value::Int(1)), &t, &DataType::Null).is_err());
    }

    proptest! {
        #[test]
        fn columns_survive_a_round_trip((p, values) in column()) {
            for form in forms(&p) {
                let t = Type::Primitive(p.clone());
                let refs: Vec<_> = values.iter().map(Option::as_ref).collect();
                let array = values_to_array(&refs, &t, &form).unwrap();
                prop_assert_eq!(array.data_type(), &form);
                prop_assert_eq!(array.len(), values.len());
                for (row, value) in values.iter().enumerate() {
                    prop_assert_eq!(&array_value(&array, row, &p).unwrap(), value);
                    let scalar = value_to_scalar(value.as_ref(), &t, &form).unwrap();
                    prop_assert_eq!(scalar.data_type(), form.clone());
                    prop_assert_eq!(&scalar_to_value(&scalar, &p), value);
                }
            }
        }

        #[test]
        fn whatever_is_taken_is_of_the_target((p, values) in column(), target in prop::sample::select(all_primitives())) {
            let t = Type::Primitive(p.clone());
            for value in values.iter().flatten() {
                let scalar = value_to_scalar(Some(value), &t, &forms(&p)[0]).unwrap();
                if let Some(taken) = scalar_to_value(&scalar, &target) {
                    prop_assert!(taken.is_of(&target.clone().into()));
                    let target = Type::Primitive(target.clone());
                    let form = &forms(target.as_primitive().unwrap())[0];
                    let back = value_to_scalar(Some(&taken), &target, form).unwrap();
                    // Exact, so nothing is lost on the way back where there is one.
                    if let Some(back) = scalar_to_value(&back, &p) {
                        prop_assert!(back == *value || value.is_nan());
                    }
                }
            }
        }
    }
}
