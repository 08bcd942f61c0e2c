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
        if self.done >= self.policy.retries {
            return false;
        }
        let wait = self.next_wait();
        if self.since.elapsed().saturating_add(wait) > self.policy.total_timeout {
            return false;
        }
        self.done += 1;
        tokio::time::sleep(wait).await;
        true
    }

    /// How often was tried again.
    pub(super) fn retries(&self) -> u32 {
        self.done
    }

    /// Twice as long each time, up to the maximum; and less by up to a half by chance, so that those
    /// who met once don't meet again.
    fn next_wait(&self) -> Duration {
        let factor = 2_u32.saturating_pow(self.done);
        let wait = self.policy.min_wait.saturating_mul(factor).min(self.policy.max_wait);
        wait.mul_f64(rand::rng().random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(retries: u32, min: u64, max: u64, total: u64) -> Retry {
        let ms = Duration::from_millis;
        Retry::new(RetryPolicy { retries, min_wait: ms(min), max_wait: ms(max), total_timeout: ms(total) })
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_up_to_the_maximum() {
        let mut retry = retry(6, 100, 1000, 60_000);
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
        let mut retry = retry(u32::MAX, 1000, 1000, 3500);
        let started = Instant::now();
        while retry.wait().await {}
        assert!(started.elapsed() <= Duration::from_millis(3500));
        assert!((3..=6).contains(&retry.retries()), "{}", retry.retries());
        assert!(!retry(0, 0, 0, 1000).wait().await);
    }
}
