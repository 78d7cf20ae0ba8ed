//! The socket between the runner and a shell: lines go in as packets, reports come out.
//!
//! SECURITY: a report counts only when the kernel names the shell itself as its writer. Code that
//! inherits the socket has another pid, and a socket cannot be opened through /proc, so a
//! background job can neither read the lines nor forge a status (threat: forged results). Guarded by
//! "that looks for the report" in tests/hostile/runner-shell.test.ts.

use crate::sys;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub struct ShellSocket {
    fd: OwnedFd,
    /// Packets that the socket has not accepted yet.
    waiting: VecDeque<Vec<u8>>,
    /// The events that epoll watches for.
    watched: i32,
    /// No process holds the other end: the shell has become another program or has ended.
    pub(super) closed: bool,
}

impl ShellSocket {
    /// Returns the runner's end and the shell's.
    pub fn pair() -> io::Result<(ShellSocket, OwnedFd)> {
        let (ours, theirs) = sys::packet_socket_pair()?;
        sys::receive_credentials(ours.as_raw_fd())?;
        sys::set_nonblocking(ours.as_raw_fd())?;
        let socket = ShellSocket {
            fd: ours,
            waiting: VecDeque::new(),
            watched: libc::EPOLLIN,
            closed: false,
        };
        Ok((socket, theirs))
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sends packets, each of which the shell gets by one read. Errors are ignored: the death of a
    /// shell is handled when it is reaped.
    pub fn send(&mut self, packets: impl IntoIterator<Item = Vec<u8>>) {
        self.waiting.extend(packets);
        self.flush();
    }

    /// Sends as much as the socket accepts.
    pub fn flush(&mut self) {
        while !self.waiting.is_empty() {
            let sent = match sys::send_packets(self.fd.as_raw_fd(), &mut self.waiting.iter()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                sent => sent.unwrap_or(1),
            };
            self.waiting.drain(..sent);
        }
    }

    /// The events to watch for from now on, if they have changed.
    pub fn changed_interest(&mut self) -> Option<i32> {
        let wanted = match self.waiting.is_empty() {
            true => libc::EPOLLIN,
            false => libc::EPOLLIN | libc::EPOLLOUT,
        };
        (std::mem::replace(&mut self.watched, wanted) != wanted).then_some(wanted)
    }

    /// True if the shell has read everything; false also where the kernel does not provide this.
    pub fn is_drained(&self) -> bool {
        !self.closed && self.waiting.is_empty() && sys::bytes_unsent(self.fd.as_raw_fd()) == Some(0)
    }

    /// The next packet written by the process with this pid, if any.
    pub fn receive(&mut self, writer: i32, buffer: &mut [u8]) -> Option<Vec<u8>> {
        loop {
            let (length, pid) = sys::receive_with_pid(self.fd.as_raw_fd(), buffer).ok()?;
            if length == 0 {
                self.closed = true;
                return None;
            }
            if pid == writer {
                return Some(buffer[..length].to_vec());
            }
        }
    }
}
