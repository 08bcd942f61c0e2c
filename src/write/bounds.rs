//! Bounds of columns: from the statistics of a Parquet file, cut as `truncate(n)` says.

use bytes::Bytes;
use parquet::file::statistics::Statistics;

use crate::spec::value_binary::decimal_from_bytes;
use crate::spec::{PrimitiveType, Value};

/// The longest start of the text that has at most `length` characters: never above it.
pub(super) fn cut_text_down(text: &str, length: usize) -> &str {
    match text.char_indices().nth(length) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// A text of at most `length` characters that is not below any that the given one is not below;
/// `None` if there is none.
pub(super) fn cut_text_up(text: &str, length: usize) -> Option<String> {
    let start = cut_text_down(text, length);
    if start.len() == text.len() {
        return Some(text.to_owned());
    }
    // The last character that has one after it is raised, and what follows is dropped.
    let mut result = start.to_owned();
    while let Some(last) = result.pop() {
        if let Some(next) = next_char(last) {
            result.push(next);
            return Some(result);
        }
    }
    None
}

/// The character after it; surrogates are none.
fn next_char(c: char) -> Option<char> {
    match c {
        '\u{d7ff}' => Some('\u{e000}'),
        char::MAX => None,
        c => char::from_u32(u32::from(c) + 1),
    }
}

/// The first `length` bytes: never above the given ones.
pub(super) fn cut_bytes_down(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or(bytes)
}

/// At most `length` bytes that are not below any that the given ones are not below; `None` if there
/// are none.
pub(super) fn cut_bytes_up(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut result = cut_bytes_down(bytes, length).to_vec();
    if result.len() == bytes.len() {
        return Some(result);
    }
    while let Some(last) = result.pop() {
        if let Some(next) = last.checked_add(1) {
            result.push(next);
            return Some(result);
        }
    }
    None
}

/// The smallest and the largest value of a column, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Extremes {
    pub(super) lower: Option<Value>,
    pub(super) upper: Option<Value>,
    /// Whether a part of the column has values of which nothing is known.
    is_unknown: bool,
}

impl Extremes {
    /// Takes the statistics of one more row group in; `None` if it has none.
    pub(super) fn add(&mut self, statistics: Option<&Statistics>, t: &PrimitiveType, values: i64) {
        let Some(statistics) = statistics else {
            self.is_unknown |= values > 0;
            return;
        };
        let read = |bytes: Option<&[u8]>| bytes.and_then(|bytes| from_parquet(bytes, t));
        match (read(statistics.min_bytes_opt()), read(statistics.max_bytes_opt())) {
            (Some(min), Some(max)) => self.widen(min, max),
            // No value in it but nulls.
            _ if statistics.null_count_opt().and_then(|n| i64::try_from(n).ok()) == Some(values) => {}
            _ => self.is_unknown = true,
        }
    }

    /// Takes values in.
    pub(super) fn widen(&mut self, min: Value, max: Value) {
        let is_below = |a: &Value, b: &Option<Value>| {
            b.as_ref().is_none_or(|b| a.compare(b) != Some(std::cmp::Ordering::Greater))
        };
        if is_below(&min, &self.lower) {
            self.lower = Some(min);
        }
        let is_above = |a: &Value, b: &Option<Value>| {
            b.as_ref().is_none_or(|b| a.compare(b) != Some(std::cmp::Ordering::Less))
        };
        if is_above(&max, &self.upper) {
            self.upper = Some(max);
        }
    }

    /// The bounds as manifests have them, strings and bytes cut to `length` characters or bytes.
    pub(super) fn bounds(&self, length: Option<usize>) -> (Option<Bytes>, Option<Bytes>) {
        if self.is_unknown {
            return (None, None);
        }
        let lower = self.lower.as_ref().map(|value| match (value, length) {
            (Value::String(text), Some(length)) => Value::String(cut_text_down(text, length).to_owned()),
            (Value::Binary(bytes), Some(length)) => Value::Binary(cut_bytes_down(bytes, length).to_vec()),
            (value, _) => value.clone(),
        });
        let upper = self.upper.as_ref().and_then(|value| match (value, length) {
            (Value::String(text), Some(length)) => cut_text_up(text, length).map(Value::String),
            (Value::Binary(bytes), Some(length)) => cut_bytes_up(bytes, length).map(Value::Binary),
            (value, _) => Some(value.clone()),
        });
        let encode = |value: Value| value.to_bytes().ok().map(Bytes::from);
        (lower.and_then(encode), upper.and_then(encode))
    }
}

/// A value of Parquet's statistics, which are in its plain encoding. `None` for types whose
/// statistics are of no use: floats, which are rounded, and geometries.
fn from_parquet(bytes: &[u8], t: &PrimitiveType) -> Option<Value> {
    use PrimitiveType as P;
    match t {
        P::Decimal { precision, scale } if *precision <= 18 => {
            let unscaled = match bytes.len() {
                4 => i128::from(i32::from_le_bytes(bytes.try_into().ok()?)),
                8 => i128::from(i64::from_le_bytes(bytes.try_into().ok()?)),
                _ => return None,
            };
            Some(Value::Decimal(unscaled, *scale))
        }
        P::Decimal { scale, .. } => Some(Value::Decimal(decimal_from_bytes(bytes)?, *scale)),
        P::Float | P::Double | P::Unknown | P::Geometry { .. } | P::Geography { .. } => None,
        P::Fixed(length) if bytes.len() as u64 != *length => None,
        _ => Value::from_bytes(t, bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_rounded_up_in_characters() {
        for (text, length, want) in [
            ("iceberg", 3, Some("icf")),
            ("iceberg", 7, Some("iceberg")),
            ("iceberg", 8, Some("iceberg")),
            ("a\u{10ffff}b", 2, Some("b")),
            ("\u{10ffff}\u{10ffff}b", 2, None),
            ("\u{d7ff}x", 1, Some("\u{e000}")),
            ("\u{7f}x", 1, Some("\u{80}")),
            ("😀x", 1, Some("😁")),
            ("\u{ffff}x", 1, Some("\u{10000}")),
            ("", 1, Some("")),
        ] {
            assert_eq!(cut_text_up(text, length).as_deref(), want, "{text:?}");
        }
        assert_eq!(cut_text_down("😀é日x", 3), "😀é日");
    }

    #[test]
    fn bytes_are_rounded_up() {
        assert_eq!(cut_bytes_up(&[1, 2, 3], 2), Some(vec![1, 3]));
        assert_eq!(cut_bytes_up(&[1, 0xff, 3], 2), Some(vec![2]));
        assert_eq!(cut_bytes_up(&[0xff, 0xff, 3], 2), None);
        assert_eq!(cut_bytes_up(&[0xff, 0xff], 2), Some(vec![0xff, 0xff]));
        assert_eq!(cut_bytes_up(&[], 2), Some(vec![]));
    }

    fn text() -> impl Strategy<Value = String> {
        let c = prop_oneof![
            any::<char>(),
            prop::sample::select(vec!['a', 'b', '\u{7f}', '\u{7ff}', '\u{d7ff}', '\u{ffff}', char::MAX]),
        ];
        prop::collection::vec(c, 0..8).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn cut_texts_enclose(a in text(), length in 1_usize..6) {
            let lower = cut_text_down(&a, length);
            prop_assert!(lower <= a.as_str() && lower.chars().count() <= length);
            match cut_text_up(&a, length) {
                Some(upper) => prop_assert!(upper >= a && upper.chars().count() <= length),
                None => prop_assert!(a.chars().take(length).all(|c| c == char::MAX)),
            }
        }

        #[test]
        fn cut_bytes_enclose(a in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..8), length in 1_usize..6) {
            prop_assert!(cut_bytes_down(&a, length) <= a.as_slice());
            match cut_bytes_up(&a, length) {
                Some(upper) => prop_assert!(upper >= a && upper.len() <= length),
                None => prop_assert!(a.iter().take(length).all(|b| *b == 0xff)),
            }
        }
    }
}
