//! Frames that wait to be sent on one connection.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;

/// With this much unsent, nothing more is read from the peer.
const FULL: usize = 4 << 20;
/// With this much unsent, output of commands waits in its spool, and network data in its socket.
const BUSY: usize = 1 << 20;

#[derive(Default)]
pub struct Outgoing {
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the first frame that have been sent.
    sent: usize,
    /// Unsent bytes of all frames.
    bytes: usize,
    /// Whether it has been busy since `take_relief` last returned true.
    was_busy: bool,
}

impl Outgoing {
    pub fn queue(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
        self.was_busy |= self.is_busy();
    }

    pub fn is_busy(&self) -> bool {
        self.bytes >= BUSY
    }

    /// Returns true once after congestion ends: work that waited for the connection can continue.
    pub fn take_relief(&mut self) -> bool {
        !self.is_busy() && std::mem::take(&mut self.was_busy)
    }

    /// The events that epoll watches the socket for.
    pub fn interest(&self) -> i32 {
        let mut interest = 0;
        if self.bytes < FULL {
            interest |= libc::EPOLLIN;
        }
        if self.bytes > 0 {
            interest |= libc::EPOLLOUT;
        }
        interest
    }

    /// Sends as much as the socket accepts.
    pub fn write_to(&mut self, socket: RawFd) -> io::Result<()> {
        while !self.frames.is_empty() {
            let mut slices = Vec::with_capacity(16);
            for (index, frame) in self.frames.iter().take(16).enumerate() {
                let start = if index == 0 { self.sent } else { 0 };
                slices.push(IoSlice::new(&frame[start..]));
            }
            // SAFETY: IoSlice has the layout of iovec, and the slices outlive the call.
            let n = unsafe { libc::writev(socket, slices.as_ptr().cast(), slices.len() as i32) };
            if n < 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(()),
                    io::ErrorKind::Interrupted => continue,
                    _ => Err(error),
                };
            }
            self.discard(n as usize);
        }
        Ok(())
    }

    fn discard(&mut self, mut n: usize) {
        self.bytes -= n;
        while n > 0 {
            let Some(first) = self.frames.front() else {
                break;
            };
            let rest = first.len() - self.sent;
            if n < rest {
                self.sent += n;
                break;
            }
            n -= rest;
            self.frames.pop_front();
            self.sent = 0;
        }
        if self.frames.is_empty() {
            self.frames.shrink_to(16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUSY, Outgoing};

    #[test]
    fn relief_is_reported_once_after_congestion() {
        let mut outgoing = Outgoing::default();
        outgoing.queue(vec![0; BUSY - 1]);
        assert!(!outgoing.take_relief());
        outgoing.queue(vec![0; 1]);
        assert!(outgoing.is_busy() && !outgoing.take_relief());
        outgoing.discard(1);
        assert!(outgoing.take_relief());
        assert!(!outgoing.take_relief());
    }

    #[test]
    fn a_partly_sent_frame_continues_where_it_stopped() {
        let mut outgoing = Outgoing::default();
        outgoing.queue(vec![1; 10]);
        outgoing.queue(vec![2; 10]);
        outgoing.discard(14);
        assert_eq!(
            (outgoing.frames.len(), outgoing.sent, outgoing.bytes),
            (1, 4, 6)
        );
        assert_eq!(outgoing.interest(), libc::EPOLLIN | libc::EPOLLOUT);
        outgoing.discard(6);
        assert_eq!(outgoing.interest(), libc::EPOLLIN);
    }
}
