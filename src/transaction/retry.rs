//! When to try again, and when to give up.

use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;

use crate::spec::RetryPolicy;

/// Counts tries.
#[derive(Debug)]
pub(super) struct Retry {
    policy: RetryPolicy,
    since: Instant,
    done: u32,
}

impl Retry {
    /// Starts to count.
    pub(super) fn new(policy: RetryPolicy) -> Self {
        Self { policy, since: Instant::now(), done: 0 }
    }

    /// Waits before the next try; false if there should be none.
    pub(super) async fn wait(&mut self) -> bool {
        match self.next(self.since.elapsed()) {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                true
            }
            None => false,
        }
    }

    /// How often was tried again.
    pub(super) fn retries(&self) -> u32 {
        self.done
    }

    /// How long to wait, so long after the first try: twice as long each time, up to the maximum; and
    /// less by up to a half by chance, so that those who met once don't meet again. `None` for those
    /// who should give up.
    fn next(&mut self, elapsed: Duration) -> Option<Duration> {
        let factor = 2_u32.saturating_pow(self.done);
        let longest = self.policy.min_wait.saturating_mul(factor).min(self.policy.max_wait);
        let wait = longest.mul_f64(rand::rng().random_range(0.5..=1.0));
        if self.done >= self.policy.retries || elapsed.saturating_add(wait) > self.policy.total_timeout {
            return None;
        }
        self.done += 1;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(retries: u32, min: u64, max: u64, total: u64) -> Retry {
        let ms = Duration::from_millis;
        Retry::new(RetryPolicy { retries, min_wait: ms(min), max_wait: ms(max), total_timeout: ms(total) })
    }

    #[test]
    fn waits_grow_up_to_the_maximum() {
        let mut retry = retry(6, 100, 1000, 60_000);
        let mut different = std::collections::BTreeSet::new();
        for longest in [100, 200, 400, 800, 1000, 1000] {
            let wait = retry.next(Duration::ZERO).unwrap();
            assert!((longest / 2..=longest).contains(&wait.as_millis()), "{wait:?} of {longest} ms");
            different.insert(wait.as_nanos() % 1_000_000);
        }
        assert_eq!((retry.next(Duration::ZERO), retry.retries()), (None, 6));
        assert!(different.len() > 1, "by chance");
    }

    #[test]
    fn the_total_time_ends_it() {
        let mut retry = retry(u32::MAX, 1000, 1000, 3500);
        assert!(retry.next(Duration::from_millis(2500)).is_some());
        assert!(retry.next(Duration::from_millis(3100)).is_none());
        assert_eq!(retry.retries(), 1);
        // The longest wait does not overflow.
        retry.done = 40;
        assert!(retry.next(Duration::ZERO).is_some_and(|wait| wait <= Duration::from_secs(1)));
    }
}
