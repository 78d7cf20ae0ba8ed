//! One connection of the daemon: bytes in and out, and what its streams are for.

use crate::execs::exec::Serial;
use crate::protocol::frame::{Decoder, INITIAL_CREDIT};
use crate::protocol::message::ExecRequest;
use crate::sys;
use crate::workers::worker::Mailbox;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// With so much unsent, nothing more is read from this peer.
pub const OUT_LIMIT: usize = 4 << 20;
/// With so much unsent, command output waits in its spool.
pub const OUT_BUSY: usize = 1 << 20;
/// What is read at once: little for requests, more once a peer fills it with data.
const READ_BYTES: usize = 16 * 1024;
const MAX_READ_BYTES: usize = 256 * 1024;
/// Streams that one connection may have open.
pub const MAX_STREAMS: usize = 1024;

/// What a stream is for.
pub enum Stream {
    /// An exec whose command text is still arriving.
    Collecting {
        request: Box<ExecRequest>,
        command: Vec<u8>,
    },
    /// Output of a command, and perhaps its stdin.
    Exec { serial: Serial, stdin: bool },
    /// Work that a thread does.
    Work(Arc<Mailbox>),
    /// A connection to a port; the number is the server's for it.
    Dial(u32),
    /// The daemon's offer to carry the sandbox's connections.
    Network,
}

pub struct OpenStream {
    pub stream: Stream,
    /// Bytes that the peer may still send.
    pub allowance: u64,
    pub ended: bool,
}

impl OpenStream {
    pub fn new(stream: Stream) -> OpenStream {
        OpenStream {
            stream,
            allowance: INITIAL_CREDIT,
            ended: false,
        }
    }
}

pub struct Connection {
    pub fd: OwnedFd,
    pub decoder: Decoder,
    pub greeted: bool,
    pub streams: HashMap<u32, OpenStream>,
    out: VecDeque<Vec<u8>>,
    /// Of the first buffer, so much is sent.
    out_sent: usize,
    pub out_bytes: usize,
    /// What epoll is asked for now.
    pub interest: i32,
    read_bytes: usize,
}

impl Connection {
    pub fn new(fd: OwnedFd) -> Connection {
        Connection {
            fd,
            decoder: Decoder::default(),
            greeted: false,
            streams: HashMap::new(),
            out: VecDeque::new(),
            out_sent: 0,
            out_bytes: 0,
            interest: libc::EPOLLIN,
            read_bytes: READ_BYTES,
        }
    }

    pub fn queue(&mut self, frame: Vec<u8>) {
        self.out_bytes += frame.len();
        self.out.push_back(frame);
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            let mut slices = Vec::with_capacity(16);
            for (index, buffer) in self.out.iter().take(16).enumerate() {
                let start = if index == 0 { self.out_sent } else { 0 };
                slices.push(IoSlice::new(&buffer[start..]));
            }
            // SAFETY: IoSlice has the layout of iovec, and the slices outlive the call.
            let n = unsafe {
                libc::writev(
                    self.fd.as_raw_fd(),
                    slices.as_ptr().cast(),
                    slices.len() as i32,
                )
            };
            if n < 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(()),
                    io::ErrorKind::Interrupted => continue,
                    _ => Err(error),
                };
            }
            self.sent(n as usize);
        }
        Ok(())
    }

    fn sent(&mut self, mut n: usize) {
        self.out_bytes -= n;
        while n > 0 {
            let Some(first) = self.out.front() else { break };
            let rest = first.len() - self.out_sent;
            if n < rest {
                self.out_sent += n;
                break;
            }
            n -= rest;
            self.out.pop_front();
            self.out_sent = 0;
        }
        if self.out.is_empty() {
            self.out.shrink_to(16);
        }
    }

    /// What epoll should watch for now.
    pub fn wanted_interest(&self) -> i32 {
        let mut interest = 0;
        if self.out_bytes < OUT_LIMIT {
            interest |= libc::EPOLLIN;
        }
        if self.out_bytes > 0 {
            interest |= libc::EPOLLOUT;
        }
        interest
    }

    /// Reads once; `Ok(0)` is the end.
    pub fn receive(&mut self) -> io::Result<usize> {
        let space = self.decoder.space(self.read_bytes);
        let room = space.len();
        let n = sys::read(self.fd.as_raw_fd(), space)?;
        self.decoder.filled(n);
        if n == room {
            self.read_bytes = (self.read_bytes * 4).min(MAX_READ_BYTES);
        }
        Ok(n)
    }

    /// Without streams there is nothing large to come.
    pub fn rest(&mut self) {
        if self.read_bytes > READ_BYTES {
            self.read_bytes = READ_BYTES;
            self.decoder.release();
            sys::give_back_memory();
        }
    }
}
