//! Dates and times as ISO 8601 text, for JSON values: any year, microseconds or nanoseconds.
//!
//! Years are written as Java's ISO formats do: four digits, more with a `+`, negative with a `-`.

/// The unit of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl Unit {
    fn digits(self) -> usize {
        match self {
            Unit::Micros => 6,
            Unit::Nanos => 9,
        }
    }

    fn per_second(self) -> i64 {
        match self {
            Unit::Micros => 1_000_000,
            Unit::Nanos => 1_000_000_000,
        }
    }
}

const SECONDS_PER_DAY: i64 = 86_400;

/// Days since 1970-01-01 of a date such as `2017-11-16` or `+12345-01-01`.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    i32::try_from(parse_days(text)?).ok()
}

/// Microseconds since midnight of a time such as `22:31:08.123456`.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    parse_time_of_day(text, Unit::Micros)
}

/// The time since 1970 of `2017-11-16T22:31:08.123456`; `None` for text with an offset.
pub(crate) fn parse_timestamp(text: &str, unit: Unit) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't'])?;
    join(parse_days(date)?, parse_time_of_day(time, unit)?, 0, unit)
}

/// The time since 1970 UTC of `2017-11-16T22:31:08.123456+00:00`; other offsets and `Z` are read
/// too, none at all is not.
pub(crate) fn parse_timestamptz(text: &str, unit: Unit) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let (time, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let (time, offset) = time.split_at_checked(time.rfind(['+', '-'])?)?;
            (time, parse_offset(offset)?)
        }
    };
    join(parse_days(date)?, parse_time_of_day(time, unit)?, offset, unit)
}

/// Text of a date.
pub(crate) fn format_date(days: i32) -> String {
    let (year, month, day) = civil_from_days(i64::from(days));
    let year = match year {
        10_000.. => format!("+{year}"),
        0..10_000 => format!("{year:04}"),
        _ => format!("-{:04}", -year),
    };
    format!("{year}-{month:02}-{day:02}")
}

/// Text of a time of day in microseconds; `None` outside of a day.
pub(crate) fn format_time(micros: i64) -> Option<String> {
    let day = 0..SECONDS_PER_DAY * Unit::Micros.per_second();
    day.contains(&micros).then(|| time_text(micros, Unit::Micros))
}

/// Text of a timestamp; with the offset `+00:00` if it is a point in time.
pub(crate) fn format_timestamp(value: i64, unit: Unit, utc: bool) -> String {
    let per_day = SECONDS_PER_DAY * unit.per_second();
    // In i32 for either unit: 2^63 microseconds are 106,751,991 days.
    let days = i32::try_from(value.div_euclid(per_day)).unwrap_or_default();
    let offset = if utc { "+00:00" } else { "" };
    format!("{}T{}{offset}", format_date(days), time_text(value.rem_euclid(per_day), unit))
}

fn time_text(of_day: i64, unit: Unit) -> String {
    let (seconds, fraction) = (of_day / unit.per_second(), of_day % unit.per_second());
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{fraction:0width$}", seconds % 60, width = unit.digits())
}

fn join(days: i64, of_day: i64, offset_seconds: i64, unit: Unit) -> Option<i64> {
    let seconds = i128::from(days) * i128::from(SECONDS_PER_DAY) - i128::from(offset_seconds);
    i64::try_from(seconds * i128::from(unit.per_second()) + i128::from(of_day)).ok()
}

fn parse_days(text: &str) -> Option<i64> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let mut parts = rest.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !(4..=9).contains(&year.len()) {
        return None;
    }
    let year = number(year, year.len())?;
    let year = if negative { -year } else { year };
    let (month, day) = (number(month, 2)?, number(day, 2)?);
    let days = days_from_civil(year, month, day);
    // Dates that don't exist, such as 30 February, come out as another.
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

fn parse_time_of_day(text: &str, unit: Unit) -> Option<i64> {
    let mut parts = text.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next().unwrap_or("00"));
    if parts.next().is_some() {
        return None;
    }
    let (seconds, fraction) = match seconds.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (seconds, ""),
    };
    let (hours, minutes, seconds) = (number(hours, 2)?, number(minutes, 2)?, number(seconds, 2)?);
    if hours > 23 || minutes > 59 || seconds > 59 || fraction.len() > 9 {
        return None;
    }
    let nanos = number(&format!("{fraction:0<9}"), 9)?;
    let scale = Unit::Nanos.per_second() / unit.per_second();
    // Digits that the unit can't hold must not get lost.
    if nanos % scale != 0 {
        return None;
    }
    Some((hours * 3600 + minutes * 60 + seconds) * unit.per_second() + nanos / scale)
}

/// Seconds east of UTC of `+01:00`, `-0530` or `+01`.
fn parse_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, text.get(1..)?),
        _ => (-1, text.get(1..)?),
    };
    let digits = rest.replacen(':', "", 1);
    let (hours, minutes) = match digits.len() {
        2 => (number(&digits, 2)?, 0),
        4 => (number(digits.get(..2)?, 2)?, number(digits.get(2..)?, 2)?),
        _ => return None,
    };
    (hours <= 18 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

/// A number of exactly that many ASCII digits (at most 9).
fn number(text: &str, digits: usize) -> Option<i64> {
    if text.len() != digits || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, counted in eras of 400 years that
/// begin in March, so that a leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_dates() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("0000-03-01", -719_468),
            ("9999-12-31", 2_932_896),
            ("+10000-01-01", 2_932_897),
            ("-0001-01-01", -719_893),
        ] {
            assert_eq!(parse_date(text), Some(days), "{text}");
            assert_eq!(format_date(days), text);
        }
    }

    #[test]
    fn known_times() {
        let at = |text| parse_timestamptz(text, Unit::Micros);
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(at("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(at("1969-12-31T18:30:00-0530"), Some(0));
        assert_eq!(at("1970-01-01T00:00+00"), Some(0));
        assert_eq!(at("1969-12-31T23:59:59.999999+00:00"), Some(-1));
        assert_eq!(at("1970-01-01T00:00:00"), None, "no offset");
        assert_eq!(parse_timestamp("1970-01-01T00:00:00+00:00", Unit::Micros), None, "an offset");
        assert_eq!(parse_timestamp("1970-01-01T00:00:00.0000015", Unit::Micros), None, "nanoseconds");
        assert_eq!(parse_timestamp("1970-01-01T00:00:00.000001000", Unit::Micros), Some(1));
        assert_eq!(parse_timestamp("1970-01-01T00:00:00.5", Unit::Nanos), Some(500_000_000));
        assert_eq!(parse_timestamp("9999-01-01T00:00:00", Unit::Nanos), None, "beyond 64 bits");
        assert_eq!(format_time(86_400_000_000), None);
    }

    #[test]
    fn what_is_no_date_or_time() {
        for text in [
            "",
            "-",
            "2017-02-29",
            "2017-13-01",
            "2017-00-01",
            "17-01-01",
            "2017-1-1",
            "2017-01-01-01",
            "２０17-01-01",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
        for text in
            ["", "24:00:00", "23:60:00", "23:59:60", "1:00:00", "00:00:00.", "00:00:00.1234567890", "00"]
        {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_reads_back(days in any::<i32>(), value in any::<i64>(), time in 0..86_400_000_000_i64) {
            prop_assert_eq!(parse_date(&format_date(days)), Some(days));
            prop_assert_eq!(parse_time(&format_time(time).unwrap()), Some(time));
            for unit in [Unit::Micros, Unit::Nanos] {
                let text = format_timestamp(value, unit, false);
                prop_assert_eq!(parse_timestamp(&text, unit), Some(value), "{}", text);
                let text = format_timestamp(value, unit, true);
                prop_assert_eq!(parse_timestamptz(&text, unit), Some(value), "{}", text);
            }
        }
    }
}
