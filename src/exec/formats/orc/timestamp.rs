//! Timestamps (ORC specification, "Timestamp Columns"): seconds since the start of 2015, and
//! nanoseconds apart from them.

use std::str::FromStr;

use arrow::array::timezone::Tz;
use arrow::datatypes::TimeUnit;
use chrono::{DateTime, NaiveDate, Offset, TimeZone};

use super::{Corrupt, Decoded};
use crate::error::{Error, Result};

/// 2015-01-01T00:00:00Z in seconds since 1970.
const BASE: i64 = 1_420_070_400;

/// The clock by which seconds were counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    /// That of points in time, and of Iceberg's writers.
    Utc,
    /// The clock on the wall of the writer of a Hive table.
    Wall {
        zone: Tz,
        /// The start of 2015 there.
        base: i64,
    },
}

impl Clock {
    /// The clock of timestamps that are no points in time, from the zone in a stripe's footer.
    ///
    /// # Errors
    /// `Unsupported` for a zone that is not known.
    pub(super) fn of_writer(timezone: Option<&str>) -> Result<Self> {
        let name = match timezone {
            None | Some("" | "UTC" | "GMT" | "Z" | "Etc/UTC") => return Ok(Clock::Utc),
            Some(name) => name,
        };
        let unknown = || Error::unsupported(format!("orc timestamps in the time zone `{name}`"));
        let zone = Tz::from_str(name).map_err(|e| unknown().with_source(e))?;
        let start =
            NaiveDate::from_ymd_opt(2015, 1, 1).and_then(|d| d.and_hms_opt(0, 0, 0)).ok_or_else(unknown)?;
        let base = zone.from_local_datetime(&start).earliest().ok_or_else(unknown)?.timestamp();
        Ok(Clock::Wall { zone, base })
    }

    /// Seconds since 1970 on that clock, and nanoseconds.
    fn seconds(self, seconds: i64, nanos: i64) -> Decoded<i64> {
        const TOO_FAR: Corrupt = Corrupt("orc timestamp is out of range");
        let base = match self {
            Clock::Utc => BASE,
            Clock::Wall { base, .. } => base,
        };
        let mut total = seconds.checked_add(base).ok_or(TOO_FAR)?;
        // Writers round seconds before 1970 towards 1970 if there are as many nanoseconds.
        if total < 0 && nanos > 999_999 {
            total = total.checked_sub(1).ok_or(TOO_FAR)?;
        }
        match self {
            Clock::Utc => Ok(total),
            Clock::Wall { zone, .. } => {
                let instant = DateTime::from_timestamp(total, 0).ok_or(TOO_FAR)?.naive_utc();
                let offset = zone.offset_from_utc_datetime(&instant).fix().local_minus_utc();
                total.checked_add(i64::from(offset)).ok_or(TOO_FAR)
            }
        }
    }

    /// A value from its two streams in units since 1970: microseconds, or nanoseconds if that is
    /// the unit.
    pub(super) fn value(self, seconds: i64, encoded_nanos: i64, unit: TimeUnit) -> Decoded<i64> {
        let nanos = nanoseconds(encoded_nanos)?;
        let seconds = self.seconds(seconds, nanos)?;
        let (per_second, rest) = match unit {
            TimeUnit::Nanosecond => (1_000_000_000, nanos),
            _ => (1_000_000, nanos.div_euclid(1000)),
        };
        seconds
            .checked_mul(per_second)
            .and_then(|v| v.checked_add(rest))
            .ok_or(Corrupt("orc timestamp is out of range"))
    }
}

/// The low three bits say how many zeros were cut off, less one. Arrow's writer has less than no
/// nanoseconds before 1970, which everybody adds up.
fn nanoseconds(encoded: i64) -> Decoded<i64> {
    let zeros = match encoded & 7 {
        0 => 1,
        n => 10i64.pow(n as u32 + 1),
    };
    let nanos = (encoded >> 3).checked_mul(zeros).filter(|nanos| nanos.unsigned_abs() < 1_000_000_000);
    nanos.ok_or(Corrupt("orc timestamp has a second or more of nanoseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_put_back() {
        assert_eq!(nanoseconds(0x0a), Ok(1000));
        assert_eq!(nanoseconds(0x0c8 << 3), Ok(200));
        assert_eq!(nanoseconds(5 << 3 | 7), Ok(500_000_000));
        assert!(nanoseconds(1_000_000_000 << 3).is_err());
        assert!(nanoseconds(-1_000_000_000 << 3).is_err());
        assert_eq!(nanoseconds(-5 << 3 | 7), Ok(-500_000_000));
    }

    #[test]
    fn before_and_after_1970() {
        let micros = |s: i64, n| Clock::Utc.value(s - BASE, n, TimeUnit::Microsecond);
        assert_eq!(micros(1, 0), Ok(1_000_000));
        // 1969-12-31T23:59:58.5: writers leave out the rounding down.
        assert_eq!(micros(-1, 5 << 3 | 7), Ok(-1_500_000));
        assert_eq!(micros(-2, 0), Ok(-2_000_000));
        assert_eq!(micros(-2, 999_999 << 3), Ok(-2_000_000 + 999), "less than a millisecond is not rounded");
        assert_eq!(Clock::Utc.value(-BASE, 7 << 3, TimeUnit::Nanosecond), Ok(7));
        assert_eq!(micros(-1, -5 << 3 | 7), Ok(-1_500_000), "as Arrow writes it");
        assert!(micros(i64::MAX, 0).is_err());
        assert!(Clock::Utc.value(i64::MAX, 0, TimeUnit::Microsecond).is_err());
        assert!(Clock::Utc.value(10_000_000_000, 0, TimeUnit::Nanosecond).is_err());
    }

    #[test]
    fn clocks_on_the_wall() {
        let clock = Clock::of_writer(Some("America/Los_Angeles")).unwrap();
        // The base is what the wall showed; so is a value half a year later, in summer.
        assert_eq!(clock.value(0, 0, TimeUnit::Microsecond), Ok(BASE * 1_000_000));
        let half_a_year = 181 * 86_400;
        let summer = clock.value(half_a_year - 3600, 0, TimeUnit::Microsecond);
        assert_eq!(summer, Ok((BASE + half_a_year) * 1_000_000));
        assert!(matches!(Clock::of_writer(Some("UTC")), Ok(Clock::Utc)));
        assert!(Clock::of_writer(Some("Nowhere/Land")).unwrap_err().to_string().contains("Nowhere/Land"));
    }
}
