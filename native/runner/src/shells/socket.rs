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
    /// Packets that the socket has not taken yet.
    waiting: VecDeque<Vec<u8>>,
    /// What epoll is asked for now.
    watched: i32,
    /// No process holds the other side: the shell has become another program, or has ended.
    pub(super) closed: bool,
}

impl ShellSocket {
    /// The runner's side, and the shell's.
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

    /// Each packet is what the shell gets from one read. A shell that died a moment ago takes no
    /// more; its death is about to be noticed.
    pub fn send(&mut self, packets: impl IntoIterator<Item = Vec<u8>>) {
        self.waiting.extend(packets);
        self.flush();
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) {
        while !self.waiting.is_empty() {
            let sent = match sys::send_packets(self.fd.as_raw_fd(), &mut self.waiting.iter()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                sent => sent.unwrap_or(1),
            };
            self.waiting.drain(..sent);
        }
    }

    /// What epoll should watch for from now on, when that is something else than before.
    pub fn changed_interest(&mut self) -> Option<i32> {
        let wanted = match self.waiting.is_empty() {
            true => libc::EPOLLIN,
            false => libc::EPOLLIN | libc::EPOLLOUT,
        };
        (std::mem::replace(&mut self.watched, wanted) != wanted).then_some(wanted)
    }

    /// True when the shell has read everything; false also where the kernel cannot tell.
    pub fn is_drained(&self) -> bool {
        !self.closed && self.waiting.is_empty() && sys::bytes_unsent(self.fd.as_raw_fd()) == Some(0)
    }

    /// The next packet that the process of this pid wrote, if there is one.
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
