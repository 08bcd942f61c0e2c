//! When to try again, and when to give up.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;

use super::settings::property;
use crate::error::Result;

/// How often something is tried again.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    retries: u64,
    min_wait: Duration,
    max_wait: Duration,
    total: Duration,
}

impl RetryPolicy {
    /// Of commits that lost against others.
    pub(super) fn of_commits(properties: &BTreeMap<String, String>) -> Result<Self> {
        let number = |name, default| property(properties, name, default);
        let ms = |name, default| number(name, default).map(Duration::from_millis);
        Ok(Self {
            retries: number("commit.retry.num-retries", 4)?,
            min_wait: ms("commit.retry.min-wait-ms", 100)?,
            max_wait: ms("commit.retry.max-wait-ms", 60_000)?,
            total: ms("commit.retry.total-timeout-ms", 1_800_000)?,
        })
    }

    /// Of looking for a commit whose outcome is not known.
    pub(super) fn of_status_checks(properties: &BTreeMap<String, String>) -> Result<Self> {
        let number = |name, default| property(properties, name, default);
        let ms = |name, default| number(name, default).map(Duration::from_millis);
        Ok(Self {
            retries: number("commit.status-check.num-retries", 3)?,
            min_wait: ms("commit.status-check.min-wait-ms", 1000)?,
            max_wait: ms("commit.status-check.max-wait-ms", 60_000)?,
            total: ms("commit.status-check.total-timeout-ms", 1_800_000)?,
        })
    }

    /// Starts to count.
    pub(super) fn start(self) -> Retry {
        Retry { policy: self, since: Instant::now(), done: 0 }
    }

    /// No second try.
    #[cfg(test)]
    pub(super) fn never() -> Self {
        Self { retries: 0, min_wait: Duration::ZERO, max_wait: Duration::ZERO, total: Duration::ZERO }
    }
}

/// Counts tries.
#[derive(Debug)]
pub(super) struct Retry {
    policy: RetryPolicy,
    since: Instant,
    done: u64,
}

impl Retry {
    /// Waits before the next try; false if there should be none.
    pub(super) async fn wait(&mut self) -> bool {
        if self.done >= self.policy.retries {
            return false;
        }
        let wait = self.next_wait();
        if self.since.elapsed().saturating_add(wait) > self.policy.total {
            return false;
        }
        self.done += 1;
        tokio::time::sleep(wait).await;
        true
    }

    /// How often was tried again.
    pub(super) fn retries(&self) -> u64 {
        self.done
    }

    /// Twice as long each time, up to the maximum; and less by up to a half by chance, so that those
    /// who met once don't meet again.
    fn next_wait(&self) -> Duration {
        let factor = 2_u32.saturating_pow(u32::try_from(self.done.min(31)).unwrap_or(31));
        let wait = self.policy.min_wait.saturating_mul(factor).min(self.policy.max_wait);
        wait.mul_f64(rand::rng().random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(retries: u64, min: u64, max: u64, total: u64) -> RetryPolicy {
        let ms = Duration::from_millis;
        RetryPolicy { retries, min_wait: ms(min), max_wait: ms(max), total: ms(total) }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_up_to_the_maximum() {
        let mut retry = policy(6, 100, 1000, 60_000).start();
        for longest in [100, 200, 400, 800, 1000, 1000] {
            let before = Instant::now();
            assert!(retry.wait().await);
            let waited = before.elapsed().as_millis();
            assert!((longest / 2..=longest + 1).contains(&waited), "{waited} of {longest}");
        }
        assert!(!retry.wait().await);
        assert_eq!(retry.retries(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn the_total_time_ends_it() {
        let mut retry = policy(u64::MAX, 1000, 1000, 3500).start();
        let started = Instant::now();
        while retry.wait().await {}
        assert!(started.elapsed() <= Duration::from_millis(3500));
        assert!((3..=6).contains(&retry.retries()), "{}", retry.retries());
        assert!(!RetryPolicy::never().start().wait().await);
    }
}
