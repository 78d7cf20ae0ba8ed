//! The clock for deadlines. It stands still while the sandbox is paused.

use std::time::{Duration, Instant};

/// A wait that took this much longer than requested means that the sandbox was frozen.
const FROZEN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Clock {
    frozen: Duration,
}

impl Clock {
    pub fn now(&self) -> Instant {
        let now = Instant::now();
        now.checked_sub(self.frozen).unwrap_or(now)
    }

    /// Records a wait. Waits are short while deadlines are pending, so hardly any time is lost
    /// here; a wait without a timeout says nothing.
    pub fn waited(&mut self, timeout_ms: i32, took: Duration) {
        let Ok(requested) = u64::try_from(timeout_ms).map(Duration::from_millis) else {
            return;
        };
        if took > requested + FROZEN {
            self.frozen += took - requested;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use std::time::{Duration, Instant};

    #[test]
    fn time_in_which_the_sandbox_was_frozen_does_not_count() {
        let mut clock = Clock::default();
        let before = Instant::now();
        clock.waited(500, Duration::from_secs(60));
        assert!(clock.now() < before);
    }

    #[test]
    fn a_late_wake_up_and_a_wait_without_a_timeout_count() {
        let mut clock = Clock::default();
        let before = Instant::now();
        clock.waited(500, Duration::from_millis(900));
        clock.waited(-1, Duration::from_secs(60));
        assert!(clock.now() >= before);
    }
}
