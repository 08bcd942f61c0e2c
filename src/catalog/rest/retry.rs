//! How long to wait before a request is sent again.

use std::time::Duration;

use chrono::{DateTime, Utc};
use rand::RngExt;

/// The first wait, which doubles from one to the next.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(20);
/// A server that wants more patience than this gets an error in its place.
const PATIENCE: Duration = Duration::from_secs(300);

/// The wait before the attempt after `attempt` (from 0), if it is worth it.
pub(super) fn wait(attempt: u32, retry_after: Option<&str>, now: DateTime<Utc>) -> Option<Duration> {
    match retry_after.and_then(|value| parse(value, now)) {
        Some(wait) => (wait <= PATIENCE).then_some(wait),
        None => {
            let doubled = FIRST.saturating_mul(2u32.saturating_pow(attempt)).min(LONGEST);
            // Many clients that failed together should not come back together.
            Some(doubled + doubled.mul_f64(rand::rng().random_range(0.0..0.25)))
        }
    }
}

/// `Retry-After`: seconds, or a date.
fn parse(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = DateTime::parse_from_rfc2822(value).ok()?;
    Some((until.with_timezone(&Utc) - now).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_says_how_long() {
        let now = DateTime::parse_from_rfc3339("2015-10-21T07:28:00Z").unwrap().with_timezone(&Utc);
        let seconds = |value| wait(0, Some(value), now).map(|wait| wait.as_secs());
        assert_eq!(seconds("7"), Some(7));
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:09 GMT"), Some(9));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:27:00 GMT"), Some(0));
        // Too long to wait for.
        assert_eq!(seconds("86400"), None);
        assert_eq!(seconds("18446744073709551615"), None);
    }

    #[test]
    fn waits_grow_to_a_limit() {
        let now = Utc::now();
        for garbage in [None, Some(""), Some("soon"), Some("-1")] {
            for (attempt, expected) in [(0, 100), (1, 200), (3, 800), (30, 20_000), (u32::MAX, 20_000)] {
                let wait = wait(attempt, garbage, now).unwrap().as_millis();
                assert!((expected..=expected * 5 / 4).contains(&wait), "{garbage:?} {attempt}: {wait}");
            }
        }
    }
}
