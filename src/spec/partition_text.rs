//! Partition values as text for people: `2024-03` for a month.

use super::transform::Transform;
use super::types::{MAX_DECIMAL_PRECISION, PrimitiveType, Type};
use super::value::Value;

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// The text of a value that is not null.
pub(crate) fn partition_text(transform: &Transform, value: &Value) -> String {
    let of_period = match (transform, value) {
        (Transform::Year, Value::Int(years)) => Some(year(i64::from(*years) + 1970)),
        (Transform::Month, Value::Int(months)) => {
            let months = i64::from(*months);
            Some(format!("{}-{:02}", year(1970 + months.div_euclid(12)), months.rem_euclid(12) + 1))
        }
        (Transform::Day, Value::Int(days)) => Some(plain(&Value::Date(*days))),
        (Transform::Hour, Value::Int(hours)) => {
            // 2^31 hours of microseconds fit into 63 bits.
            let text = plain(&Value::Timestamp(i64::from(*hours) * MICROS_PER_HOUR));
            text.split_once('T').map(|(date, time)| format!("{date}-{}", time.get(..2).unwrap_or(time)))
        }
        _ => None,
    };
    of_period.unwrap_or_else(|| plain(value))
}

fn year(year: i64) -> String {
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}", year.unsigned_abs())
}

fn plain(value: &Value) -> String {
    use PrimitiveType as P;
    let of_type = match value {
        Value::Boolean(v) => return v.to_string(),
        Value::Int(v) => return v.to_string(),
        Value::Long(v) => return v.to_string(),
        Value::String(v) => return v.clone(),
        Value::Uuid(v) => return v.to_string(),
        Value::Fixed(v) | Value::Binary(v) => return base64(v),
        Value::Decimal(unscaled, scale) if needs_exponent(*unscaled, *scale) => {
            return with_exponent(*unscaled, *scale);
        }
        Value::Float(_) => P::Float,
        Value::Double(_) => P::Double,
        Value::Decimal(_, scale) => P::Decimal { precision: MAX_DECIMAL_PRECISION, scale: *scale },
        Value::Date(_) => P::Date,
        Value::Time(_) => P::Time,
        Value::Timestamp(_) => P::Timestamp,
        Value::Timestamptz(_) => P::Timestamptz,
        Value::TimestampNs(_) => P::TimestampNs,
        Value::TimestamptzNs(_) => P::TimestamptzNs,
        Value::Struct(_) | Value::List(_) | Value::Map(_) => return String::new(),
    };
    match value.to_json(&Type::Primitive(of_type)) {
        Ok(serde_json::Value::String(text)) => match value {
            Value::Date(_) | Value::Decimal(..) | Value::Float(_) | Value::Double(_) => text,
            Value::Time(micros) => time(*micros, &text),
            _ => without_trailing_zeros(&text),
        },
        Ok(number) => number.to_string(),
        // A time of more than a day.
        Err(_) => format!("{value:?}"),
    }
}

/// Whether Java shows a decimal with an exponent: if more than five zeros follow the point.
fn needs_exponent(unscaled: i128, scale: u32) -> bool {
    let digits = unscaled.unsigned_abs().checked_ilog10().unwrap_or(0);
    scale > digits + 6
}

/// Such as `-1.5E-9`.
fn with_exponent(unscaled: i128, scale: u32) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = unscaled.unsigned_abs().to_string();
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let exponent = i64::from(scale) - i64::try_from(rest.len()).unwrap_or_default();
    format!("{sign}{first}{point}{rest}E-{exponent}")
}

/// A time of day as Java shows it: without seconds if there are none, else with as many thousandths
/// as it takes. `text` has the seconds.
fn time(micros: i64, text: &str) -> String {
    let head = text.split_once('.').map_or(text, |(head, _)| head);
    match (micros % 60_000_000, micros % 1_000_000) {
        (0, _) => head.strip_suffix(":00").unwrap_or(head).to_owned(),
        (_, 0) => head.to_owned(),
        (_, fraction) if fraction % 1000 == 0 => format!("{head}.{:03}", fraction / 1000),
        (_, fraction) => format!("{head}.{fraction:06}"),
    }
}

/// Drops the zeros at the end of a time's fraction.
fn without_trailing_zeros(text: &str) -> String {
    let Some((head, rest)) = text.split_once('.') else { return text.to_owned() };
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let fraction = rest.strip_suffix(digits).unwrap_or(rest).trim_end_matches('0');
    match fraction.is_empty() {
        true => format!("{head}{digits}"),
        false => format!("{head}.{fraction}{digits}"),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = DIGITS.get((bits >> (18 - 6 * i) & 63) as usize).copied().unwrap_or(b'=');
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_dates_up_to_their_length() {
        for (transform, value, want) in [
            (Transform::Year, Value::Int(54), "2024"),
            (Transform::Year, Value::Int(-1), "1969"),
            (Transform::Month, Value::Int(-1), "1969-12"),
            (Transform::Month, Value::Int(650), "2024-03"),
            (Transform::Day, Value::Date(-1), "1969-12-31"),
            (Transform::Day, Value::Int(19_783), "2024-03-01"),
            (Transform::Hour, Value::Int(-1), "1969-12-31-23"),
            (Transform::Hour, Value::Int(474_804), "2024-03-01-12"),
            (Transform::Hour, Value::Int(i32::MIN), "-243014-03-24-16"),
            (Transform::Bucket(8), Value::Int(7), "7"),
        ] {
            assert_eq!(partition_text(&transform, &value), want, "{transform} {value:?}");
        }
    }

    #[test]
    fn values_are_text() {
        for (value, want) in [
            (Value::Boolean(true), "true"),
            (Value::Long(-5), "-5"),
            (Value::Double(1.0), "1.0"),
            (Value::Decimal(-1234, 2), "-12.34"),
            (Value::Decimal(1, 6), "0.000001"),
            (Value::Decimal(1, 7), "1E-7"),
            (Value::Decimal(-10, 10), "-1.0E-9"),
            (Value::Decimal(12, 7), "0.0000012"),
            (Value::Decimal(0, 6), "0.000000"),
            (Value::Decimal(0, 10), "0E-10"),
            (Value::Decimal(i128::MIN, 0), "-170141183460469231731687303715884105728"),
            (Value::Date(0), "1970-01-01"),
            (Value::Time(36_000_000_000), "10:00"),
            (Value::Time(36_001_000_000), "10:00:01"),
            (Value::Time(36_000_500_000), "10:00:00.500"),
            (Value::Time(36_000_000_010), "10:00:00.000010"),
            (Value::Time(i64::MAX), "Time(9223372036854775807)"),
            (Value::Timestamp(1_500_000), "1970-01-01T00:00:01.5"),
            (Value::Timestamptz(10_000_000), "1970-01-01T00:00:10+00:00"),
            (Value::TimestamptzNs(1), "1970-01-01T00:00:00.000000001+00:00"),
            (Value::String("a.0".into()), "a.0"),
            (Value::Binary(b"M".to_vec()), "TQ=="),
            (Value::Binary(b"Ma".to_vec()), "TWE="),
            (Value::Fixed(b"Man\xff".to_vec()), "TWFu/w=="),
        ] {
            assert_eq!(partition_text(&Transform::Identity, &value), want, "{value:?}");
        }
    }
}
