//! Readiness of descriptors. Each is watched under the token of its purpose.

use crate::server::token::Token;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

pub type Events = [libc::epoll_event; 64];
pub const NO_EVENTS: Events = [libc::epoll_event { events: 0, u64: 0 }; 64];

pub struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> io::Result<Poll> {
        // SAFETY: plain system call.
        sys::owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Poll)
    }

    pub fn add(&self, fd: RawFd, interest: i32, token: Token) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, token.pack())
    }

    pub fn modify(&self, fd: RawFd, interest: i32, token: Token) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, token.pack())
    }

    /// Stops watching. Has no effect on a descriptor that is not watched.
    pub fn remove(&self, fd: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    fn control(&self, op: i32, fd: RawFd, interest: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest as u32,
            u64: token,
        };
        // SAFETY: event outlives the call.
        sys::check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd, &mut event) }).map(drop)
    }

    /// Waits for less than a millisecond; returns whether something is ready.
    pub fn rest(&self, time: Duration) -> io::Result<bool> {
        let timeout = libc::timespec {
            tv_sec: 0,
            tv_nsec: time.subsec_nanos().into(),
        };
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd and a timeout, which outlive the call.
        match sys::check(unsafe { libc::ppoll(&mut poll, 1, &timeout, std::ptr::null()) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            ready => ready.map(|ready| ready > 0),
        }
    }

    /// Waits until something is ready; returns each token with the events of its descriptor.
    pub fn wait<'e>(
        &self,
        events: &'e mut Events,
        timeout_ms: i32,
    ) -> io::Result<impl Iterator<Item = (Token, i32)> + use<'e>> {
        // SAFETY: events is valid for its length.
        let n = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as i32,
                timeout_ms,
            )
        };
        let ready = match sys::check(n) {
            Ok(n) => n as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        Ok(events[..ready]
            .iter()
            .map(|event| (Token::unpack(event.u64), event.events as i32)))
    }
}
