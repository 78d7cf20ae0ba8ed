//! Limits how far the gateway may run ahead of a program that reads.

/// Bytes that each direction of a stream may carry before the first CREDIT.
///
/// SECURITY: less than for the daemon's own streams, because sandbox code opens these, many at once,
/// and each may hold this much in both processes.
pub const STREAM_CREDIT: u64 = 128 * 1024;

/// Bytes that the gateway may have in flight on a widened stream.
const WIDE_BYTES: u64 = 1 << 20;

const GRANTS_PER_WINDOW: u64 = 4;

pub struct Window {
    /// Bytes that the gateway may have in flight.
    size: u64,
    /// Bytes that it may still send.
    allowance: u64,
    /// Bytes that the program has accepted and the gateway has not been credited for.
    delivered: u64,
}

impl Window {
    pub fn new() -> Window {
        Window {
            size: STREAM_CREDIT,
            allowance: STREAM_CREDIT,
            delivered: 0,
        }
    }

    /// Returns false if the gateway sends more than it may.
    pub fn receive(&mut self, bytes: u64) -> bool {
        match self.allowance.checked_sub(bytes) {
            Some(rest) => {
                self.allowance = rest;
                true
            }
            None => false,
        }
    }

    /// Records that the program has accepted this many bytes.
    pub fn deliver(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    /// The credit due to the gateway, in portions so that few frames are needed.
    pub fn take_due(&mut self) -> u64 {
        if self.delivered < self.size / GRANTS_PER_WINDOW {
            return 0;
        }
        // The proxy's own bytes did not come from the gateway, which gets no credit for them.
        let due = self.delivered.min(self.size - self.allowance);
        self.delivered = 0;
        self.allowance += due;
        due
    }

    /// Returns the credit that the gateway gets for it.
    pub fn widen(&mut self) -> u64 {
        let more = WIDE_BYTES - self.size;
        self.size = WIDE_BYTES;
        self.allowance += more;
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_sends_no_more_than_it_may() {
        let mut window = Window::new();
        assert!(window.receive(STREAM_CREDIT));
        assert!(!window.receive(1));
        window.deliver(STREAM_CREDIT);
        assert_eq!(window.take_due(), STREAM_CREDIT);
        assert!(window.receive(STREAM_CREDIT));
    }

    #[test]
    fn credit_comes_in_portions() {
        let mut window = Window::new();
        assert!(window.receive(STREAM_CREDIT));
        window.deliver(STREAM_CREDIT / GRANTS_PER_WINDOW - 1);
        assert_eq!(window.take_due(), 0);
        window.deliver(1);
        assert_eq!(window.take_due(), STREAM_CREDIT / GRANTS_PER_WINDOW);
        assert_eq!(window.take_due(), 0);
    }

    #[test]
    fn the_gateway_gets_no_credit_for_the_proxys_own_bytes() {
        let mut window = Window::new();
        assert!(window.receive(1));
        window.deliver(STREAM_CREDIT);
        assert_eq!(window.take_due(), 1);
        assert!(window.receive(STREAM_CREDIT));
        assert!(!window.receive(1));
    }

    #[test]
    fn a_window_is_widened_only_once() {
        let mut window = Window::new();
        assert_eq!(window.widen(), WIDE_BYTES - STREAM_CREDIT);
        assert_eq!(window.widen(), 0);
        assert!(window.receive(WIDE_BYTES));
        assert!(!window.receive(1));
    }
}
