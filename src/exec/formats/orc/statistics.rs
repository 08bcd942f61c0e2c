//! What a file says of the values in its stripes (ORC specification, "Column Statistics"), so that
//! stripes can be passed over. What writers are known to get wrong is not believed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_optimizer::pruning::PruningPredicate;

use super::footer::{Footer, Kind};
use super::plan::{Planned, Shape};
use super::wire::Message;
use super::{Corrupt, Decoded};
use crate::error::{Error, Result};
use crate::spec::parse_decimal;

/// The version since which statistics of timestamps are in UTC (ORC-135) and those of strings
/// compare bytes; other programs than Java's start with it.
const UTC_TIMESTAMPS: u64 = 6;
/// The version since which Java's decimals have the right bounds (ORC-517).
const RIGHT_DECIMALS: u64 = 7;
/// Java's writer.
const JAVA: u64 = 0;

/// How far off bounds of points in time may be, in milliseconds. They are cut to milliseconds,
/// and in the second before 1970 values and bounds are a second apart.
const INSTANT_MARGIN: i64 = 2_000;
/// The same for clocks on the wall, which are set back in autumn.
const WALL_MARGIN: i64 = 25 * 3_600_000;

const UNFIT: Corrupt = Corrupt("orc statistics are not those of the file's stripes");

/// What is known of the stripes of a file.
pub(super) struct StripeStatistics {
    /// By column that is read.
    columns: Vec<Vec<Known>>,
    /// Of each stripe.
    rows: Vec<u64>,
}

/// What is known of a column in a stripe.
#[derive(Debug, Clone, Default, PartialEq)]
struct Known {
    nulls: Option<u64>,
    /// Values that are no greater and no less than all in the column.
    bounds: Option<Box<(ScalarValue, ScalarValue)>>,
}

impl StripeStatistics {
    /// Whether a file has statistics that are worth being read.
    pub(super) fn are_trusted(writer_version: u64) -> bool {
        writer_version >= UTC_TIMESTAMPS
    }

    /// Parses the statistics of all stripes, for the columns that are read.
    pub(super) fn parse(
        metadata: &[u8],
        writer_version: u64,
        footer: &Footer,
        columns: &[Planned],
    ) -> Decoded<Self> {
        let decimals = footer.writer != JAVA || writer_version >= RIGHT_DECIMALS;
        let places: HashMap<usize, usize> = columns.iter().enumerate().map(|(i, c)| (c.column, i)).collect();
        let mut known: Vec<Vec<Known>> = vec![Vec::new(); columns.len()];
        let mut rows = Vec::new();
        let mut message = Message::new(metadata);
        while let Some((field, value)) = message.next()? {
            if field != 1 {
                continue;
            }
            let stripe = footer.stripes.get(rows.len()).ok_or(UNFIT)?;
            let mut number = 0;
            let mut of_stripe = value.message()?;
            while let Some((field, value)) = of_stripe.next()? {
                if field != 1 {
                    continue;
                }
                if let Some(place) = places.get(&number)
                    && let (Some(planned), Some(known)) = (columns.get(*place), known.get_mut(*place))
                {
                    let kind = footer.types.get(number).map(|t| t.kind);
                    let kind = kind.filter(|k| decimals || *k != Kind::Decimal);
                    known.push(Known::parse(value.message()?, kind, &planned.shape, stripe.rows)?);
                }
                number += 1;
            }
            if number != footer.types.len() {
                return Err(UNFIT);
            }
            rows.push(stripe.rows);
        }
        if rows.len() == footer.stripes.len() { Ok(Self { columns: known, rows }) } else { Err(UNFIT) }
    }

    /// Which stripes may have rows that `filter`, over columns of `schema`, lets through.
    ///
    /// # Errors
    /// Where the filter can't be evaluated on what is known.
    pub(super) fn kept(&self, filter: &PruningPredicate, schema: &SchemaRef) -> Result<Vec<bool>> {
        filter
            .prune(&Containers { statistics: self, schema })
            .map_err(|e| Error::invalid("the statistics can't be used").with_source(e))
    }
}

/// The statistics of stripes in DataFusion's terms.
struct Containers<'a> {
    statistics: &'a StripeStatistics,
    /// The columns that are read.
    schema: &'a SchemaRef,
}

impl Containers<'_> {
    fn column(&self, column: &Column) -> Option<(&[Known], &DataType)> {
        let (index, field) = self.schema.column_with_name(&column.name)?;
        Some((self.statistics.columns.get(index)?, field.data_type()))
    }

    fn bounds(
        &self,
        column: &Column,
        bound: impl Fn(&(ScalarValue, ScalarValue)) -> &ScalarValue,
    ) -> Option<ArrayRef> {
        let (known, data_type) = self.column(column)?;
        if known.iter().all(|k| k.bounds.is_none()) {
            return None;
        }
        let unknown = ScalarValue::try_from(data_type).ok()?;
        let bounds = known.iter().map(|k| k.bounds.as_deref().map_or(&unknown, &bound).clone());
        ScalarValue::iter_to_array(bounds).ok()
    }
}

impl PruningStatistics for Containers<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |(min, _)| min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |(_, max)| max)
    }

    fn num_containers(&self) -> usize {
        self.statistics.rows.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let (known, _) = self.column(column)?;
        Some(Arc::new(UInt64Array::from_iter(known.iter().map(|k| k.nulls))))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from_iter_values(self.statistics.rows.iter().copied())))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

impl Known {
    /// Parses what a file says of a column of that kind in a stripe of so many rows.
    fn parse(mut message: Message<'_>, kind: Option<Kind>, shape: &Shape, rows: u64) -> Decoded<Self> {
        let of_kind = kind.and_then(field_of);
        let (mut values, mut has_null, mut typed) = (None, None, None);
        while let Some((field, value)) = message.next()? {
            match field {
                1 => values = Some(value.number()?),
                10 => has_null = Some(value.number()? != 0),
                field if Some(field) == of_kind => typed = Some(value.message()?),
                _ => {}
            }
        }
        // Counts that contradict each other are no counts.
        let (Some(values), Some(has_null)) = (values, has_null) else { return Ok(Self::default()) };
        let Some(nulls) = rows.checked_sub(values).filter(|nulls| (*nulls > 0) == has_null) else {
            return Ok(Self::default());
        };
        let bounds = match (kind, typed) {
            (Some(kind), Some(typed)) if values > 0 => bounds(typed, kind, shape, values)?,
            _ => None,
        };
        let bounds = bounds.filter(|(min, max)| min.partial_cmp(max).is_some_and(|order| order.is_le()));
        Ok(Self { nulls: Some(nulls), bounds: bounds.map(Box::new) })
    }
}

/// The field that has the bounds of a kind, of those whose bounds are believed. Not among them:
/// bytes, whose sign depends on the writer; floats, for their NaN and signs of zeros; fixed-length
/// text, which may or may not be padded.
fn field_of(kind: Kind) -> Option<u64> {
    match kind {
        Kind::Short | Kind::Int | Kind::Long => Some(2),
        Kind::String => Some(4),
        Kind::Boolean => Some(5),
        Kind::Decimal => Some(6),
        Kind::Date => Some(7),
        Kind::Timestamp | Kind::TimestampInstant => Some(9),
        _ => None,
    }
}

/// The bounds of a column with `values` values, as values of the type that it is read as.
fn bounds(
    message: Message<'_>,
    kind: Kind,
    shape: &Shape,
    values: u64,
) -> Decoded<Option<(ScalarValue, ScalarValue)>> {
    Ok(match shape {
        Shape::Boolean => {
            let trues = trues(message)?.filter(|trues| *trues <= values);
            trues.map(|trues| (ScalarValue::from(trues == values), ScalarValue::from(trues > 0)))
        }
        Shape::Int(t) | Shape::Long(t) => both(integers(message, 1, 2)?, |v| integer(v, t)),
        Shape::Text => both(texts(message)?, |text| Some(ScalarValue::Utf8View(Some(text.to_owned())))),
        Shape::Decimal { precision, scale } => both(texts(message)?, |text| {
            let unscaled = parse_decimal(text, u32::from(*precision), u32::from(*scale))?;
            Some(ScalarValue::Decimal128(Some(unscaled), *precision, scale.cast_signed()))
        }),
        Shape::Timestamp { unit, is_instant } => {
            // Only those in UTC: fields 1 and 2 are by the clock of nobody knows whom.
            let margin = if kind == Kind::TimestampInstant { INSTANT_MARGIN } else { WALL_MARGIN };
            let (min, max) = integers(message, 3, 4)?;
            let min = min.and_then(|v| v.checked_sub(margin));
            let max = max.and_then(|v| v.checked_add(margin));
            both((min, max), |v| timestamp(v, *unit, *is_instant))
        }
        _ => None,
    })
}

fn both<T>(
    (min, max): (Option<T>, Option<T>),
    scalar: impl Fn(T) -> Option<ScalarValue>,
) -> Option<(ScalarValue, ScalarValue)> {
    Some((scalar(min?)?, scalar(max?)?))
}

/// How many values are true.
fn trues(mut message: Message<'_>) -> Decoded<Option<u64>> {
    let mut counts = Vec::new();
    while let Some((field, value)) = message.next()? {
        if field == 1 {
            value.numbers(&mut counts)?;
        }
    }
    Ok(counts.first().copied())
}

/// Two numbers.
fn integers(mut message: Message<'_>, min: u64, max: u64) -> Decoded<(Option<i64>, Option<i64>)> {
    let (mut least, mut greatest) = (None, None);
    while let Some((field, value)) = message.next()? {
        if field == min {
            least = Some(value.signed()?);
        } else if field == max {
            greatest = Some(value.signed()?);
        }
    }
    Ok((least, greatest))
}

/// The least and the greatest text, or bounds of these where they are very long.
fn texts<'a>(mut message: Message<'a>) -> Decoded<(Option<&'a str>, Option<&'a str>)> {
    let (mut least, mut greatest) = (None, None);
    while let Some((field, value)) = message.next()? {
        match field {
            1 | 4 => least = Some(value.bytes()?),
            2 | 5 => greatest = Some(value.bytes()?),
            _ => {}
        }
    }
    // To the C++ writer texts that differ after a NUL are the same.
    let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    Ok((least.and_then(text), greatest.and_then(text)))
}

fn integer(value: i64, data_type: &DataType) -> Option<ScalarValue> {
    match data_type {
        DataType::Int32 => Some(ScalarValue::Int32(Some(i32::try_from(value).ok()?))),
        DataType::Date32 => Some(ScalarValue::Date32(Some(i32::try_from(value).ok()?))),
        DataType::Int64 => Some(ScalarValue::Int64(Some(value))),
        DataType::Time64(TimeUnit::Microsecond) => Some(ScalarValue::Time64Microsecond(Some(value))),
        _ => None,
    }
}

fn timestamp(milliseconds: i64, unit: TimeUnit, is_instant: bool) -> Option<ScalarValue> {
    let zone = is_instant.then(|| "UTC".into());
    match unit {
        TimeUnit::Microsecond => {
            Some(ScalarValue::TimestampMicrosecond(Some(milliseconds.checked_mul(1000)?), zone))
        }
        TimeUnit::Nanosecond => {
            Some(ScalarValue::TimestampNanosecond(Some(milliseconds.checked_mul(1_000_000)?), zone))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(mut n: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while n >= 0x80 {
            bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        bytes.push(n as u8);
        bytes
    }

    fn number(field: u64, n: u64) -> Vec<u8> {
        [varint(field << 3), varint(n)].concat()
    }

    fn signed(field: u64, n: i64) -> Vec<u8> {
        number(field, ((n << 1) ^ (n >> 63)).cast_unsigned())
    }

    fn bytes(field: u64, bytes: &[u8]) -> Vec<u8> {
        [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
    }

    /// A column's statistics: how many values of 10 rows there are, and the bounds in `field`.
    fn column(values: u64, field: u64, typed: &[Vec<u8>]) -> Vec<u8> {
        [number(1, values), number(10, u64::from(values < 10)), bytes(field, &typed.concat())].concat()
    }

    fn known(kind: Kind, shape: &Shape, statistics: &[u8]) -> Known {
        Known::parse(Message::new(statistics), Some(kind), shape, 10).unwrap()
    }

    fn bounds_of(kind: Kind, shape: &Shape, field: u64, typed: &[Vec<u8>]) -> Option<(String, String)> {
        let bounds = known(kind, shape, &column(9, field, typed)).bounds?;
        assert_eq!((bounds.0.data_type(), bounds.1.data_type()), (shape.data_type(), shape.data_type()));
        Some((bounds.0.to_string(), bounds.1.to_string()))
    }

    fn pair(min: &str, max: &str) -> Option<(String, String)> {
        Some((min.to_owned(), max.to_owned()))
    }

    const LONG: Shape = Shape::Long(DataType::Int64);

    #[test]
    fn bounds_of_every_kind() {
        let numbers = [signed(1, -3), signed(2, 5)];
        assert_eq!(bounds_of(Kind::Long, &LONG, 2, &numbers), pair("-3", "5"));
        assert_eq!(bounds_of(Kind::Short, &Shape::Int(DataType::Int32), 2, &numbers), pair("-3", "5"));
        let dates = bounds_of(Kind::Date, &Shape::Int(DataType::Date32), 7, &numbers);
        assert_eq!(dates, pair("1969-12-29", "1970-01-06"));
        let texts = [bytes(1, b"a"), bytes(2, "ä".as_bytes())];
        assert_eq!(bounds_of(Kind::String, &Shape::Text, 4, &texts), pair("a", "ä"));
        let cut = [bytes(4, b"a"), bytes(5, b"b")];
        assert_eq!(bounds_of(Kind::String, &Shape::Text, 4, &cut), pair("a", "b"));
        let decimal = Shape::Decimal { precision: 5, scale: 2 };
        let decimals = [bytes(1, b"-1.5"), bytes(2, b"200")];
        assert_eq!(bounds_of(Kind::Decimal, &decimal, 6, &decimals), pair("-1.50", "200.00"));
        for (trues, expected) in [(0, ("false", "false")), (4, ("false", "true")), (9, ("true", "true"))] {
            let found = bounds_of(Kind::Boolean, &Shape::Boolean, 5, &[bytes(1, &[trues])]);
            assert_eq!(found, pair(expected.0, expected.1));
        }
    }

    #[test]
    fn times_are_widened() {
        let typed = [signed(1, 0), signed(2, 0), signed(3, 1_000), signed(4, 2_000)];
        let instant = Shape::Timestamp { unit: TimeUnit::Microsecond, is_instant: true };
        let (min, max) = *known(Kind::TimestampInstant, &instant, &column(9, 9, &typed)).bounds.unwrap();
        assert_eq!(min, ScalarValue::TimestampMicrosecond(Some(-1_000_000), Some("UTC".into())));
        assert_eq!(max, ScalarValue::TimestampMicrosecond(Some(4_000_000), Some("UTC".into())));
        let wall = Shape::Timestamp { unit: TimeUnit::Nanosecond, is_instant: false };
        let (min, _) = *known(Kind::Timestamp, &wall, &column(9, 9, &typed)).bounds.unwrap();
        assert_eq!(min, ScalarValue::TimestampNanosecond(Some(1_000_000_000 - 90_000_000_000_000), None));
        assert_eq!(known(Kind::Timestamp, &wall, &column(9, 9, &typed[..2])).bounds, None, "not in UTC");
        let far = [signed(3, i64::MIN), signed(4, i64::MAX)];
        assert_eq!(known(Kind::Timestamp, &wall, &column(9, 9, &far)).bounds, None);
    }

    #[test]
    fn doubtful_bounds_are_none() {
        let none = |kind, shape: &Shape, field, typed: &[Vec<u8>]| {
            assert_eq!(bounds_of(kind, shape, field, typed), None, "{kind:?} {typed:?}");
        };
        let numbers = [signed(1, 0), signed(2, 5)];
        none(Kind::Long, &LONG, 2, &numbers[..1]);
        none(Kind::Long, &LONG, 2, &[signed(1, 6), signed(2, 5)]);
        none(Kind::Long, &LONG, 4, &numbers);
        none(Kind::Int, &Shape::Int(DataType::Int32), 2, &[signed(1, 0), signed(2, 1 << 40)]);
        none(Kind::Byte, &Shape::Byte, 2, &numbers);
        none(Kind::Double, &Shape::Double, 3, &numbers);
        none(Kind::Char, &Shape::Text, 4, &[bytes(1, b"a"), bytes(2, b"b")]);
        none(Kind::String, &Shape::Text, 4, &[bytes(1, b"a"), bytes(2, b"b\0")]);
        none(Kind::String, &Shape::Text, 4, &[bytes(1, b"a"), bytes(2, b"\xff")]);
        let decimal = Shape::Decimal { precision: 3, scale: 1 };
        for max in ["0.25", "100", "x", ""] {
            none(Kind::Decimal, &decimal, 6, &[bytes(1, b"0"), bytes(2, max.as_bytes())]);
        }
        none(Kind::Boolean, &Shape::Boolean, 5, &[bytes(1, &[10])]);
        none(Kind::Boolean, &Shape::Boolean, 5, &[]);
    }

    #[test]
    fn counts_that_contradict_each_other_say_nothing() {
        let typed = bytes(2, &[signed(1, 0), signed(2, 5)].concat());
        let known = |values, has_null: Option<u64>| {
            let has_null = has_null.map_or(Vec::new(), |n| number(10, n));
            known(Kind::Long, &LONG, &[number(1, values), has_null, typed.clone()].concat())
        };
        assert_eq!(known(10, Some(0)).nulls, Some(0));
        assert_eq!(known(7, Some(1)).nulls, Some(3));
        let no_values = known(0, Some(1));
        assert_eq!((no_values.nulls, no_values.bounds), (Some(10), None));
        for (values, has_null) in [(10, Some(1)), (9, Some(0)), (11, Some(0)), (10, None)] {
            assert_eq!(known(values, has_null), Known::default(), "{values} {has_null:?}");
        }
    }

    /// A file of two columns, one a decimal, and two stripes of ten rows.
    fn footer(writer: u64) -> (Footer, Vec<Planned>) {
        use super::super::footer::{ColumnType, Stripe};
        let t = |kind| ColumnType { kind, ..ColumnType::default() };
        let stripe = Stripe { rows: 10, ..Stripe::default() };
        let footer = Footer {
            stripes: vec![stripe; 2],
            types: vec![t(Kind::Struct), t(Kind::Long), t(Kind::Decimal)],
            rows: 20,
            writer,
        };
        let decimal = Shape::Decimal { precision: 3, scale: 1 };
        let columns = vec![Planned { column: 2, shape: decimal }, Planned { column: 1, shape: LONG }];
        (footer, columns)
    }

    fn stripe(columns: usize) -> Vec<u8> {
        let statistics = [
            column(10, 8, &[]),
            column(10, 2, &[signed(1, 0), signed(2, 5)]),
            column(10, 6, &[bytes(1, b"0"), bytes(2, b"5")]),
        ];
        bytes(1, &statistics[..columns].iter().map(|s| bytes(1, s)).collect::<Vec<_>>().concat())
    }

    #[test]
    fn every_stripe_has_every_column() {
        let (footer, columns) = footer(1);
        let parse = |stripes: &[usize]| {
            let metadata: Vec<u8> = stripes.iter().flat_map(|columns| stripe(*columns)).collect();
            StripeStatistics::parse(&metadata, 6, &footer, &columns)
        };
        let statistics = parse(&[3, 3]).unwrap();
        assert_eq!(statistics.rows, [10, 10]);
        assert_eq!(statistics.columns[0][1].bounds.as_ref().unwrap().1.to_string(), "5.0");
        assert_eq!(statistics.columns[1][1].bounds.as_ref().unwrap().1.to_string(), "5");
        for stripes in [&[3][..], &[3, 3, 3], &[3, 2], &[0, 3], &[]] {
            assert!(parse(stripes).is_err(), "{stripes:?}");
        }
    }

    #[test]
    fn old_writers_are_not_believed() {
        assert!(!StripeStatistics::are_trusted(5));
        assert!(StripeStatistics::are_trusted(6));
        let metadata = [stripe(3), stripe(3)].concat();
        for (writer, version, believed) in [(JAVA, 6, false), (JAVA, 7, true), (1, 6, true)] {
            let (footer, columns) = footer(writer);
            let statistics = StripeStatistics::parse(&metadata, version, &footer, &columns).unwrap();
            assert_eq!(statistics.columns[0][0].bounds.is_some(), believed, "decimals");
            assert!(statistics.columns[1][0].bounds.is_some());
        }
    }
}
