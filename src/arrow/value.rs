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
            let array = values_to_array(&[value], field_type, data_type)?;
            ScalarValue::try_from_array(&array, 0).map_err(arrow_failed)
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
