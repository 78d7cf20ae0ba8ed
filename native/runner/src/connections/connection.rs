//! One connection of the daemon: its socket and its buffers.

use crate::connections::outgoing::Outgoing;
use crate::connections::stream::OpenStream;
use crate::protocol::frame::Decoder;
use crate::sys;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// How much is read at once: little for requests, more once a peer sends a lot of data.
const READ_BYTES: usize = 16 * 1024;
const MAX_READ_BYTES: usize = 256 * 1024;

pub struct Connection {
    socket: OwnedFd,
    decoder: Decoder,
    read_bytes: usize,
    /// The events that epoll watches for.
    interest: i32,
    /// The peer has sent its hello.
    pub(super) greeted: bool,
    /// The fencing token in that hello.
    pub(super) fence: Option<u64>,
    pub(super) streams: HashMap<u32, OpenStream>,
    pub(super) outgoing: Outgoing,
}

impl Connection {
    pub fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            decoder: Decoder::default(),
            read_bytes: READ_BYTES,
            interest: libc::EPOLLIN,
            greeted: false,
            fence: None,
            streams: HashMap::new(),
            outgoing: Outgoing::default(),
        }
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub fn interest(&self) -> i32 {
        self.interest
    }

    /// The events that epoll must watch from now on, if they have changed.
    pub fn changed_interest(&mut self) -> Option<i32> {
        let wanted = self.outgoing.interest();
        (std::mem::replace(&mut self.interest, wanted) != wanted).then_some(wanted)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.outgoing.write_to(self.socket.as_raw_fd())
    }

    /// Reads once and lends the decoder out, so that payloads can be used in place.
    pub fn receive(&mut self) -> io::Result<Decoder> {
        let space = self.decoder.space(self.read_bytes);
        let room = space.len();
        let n = sys::read(self.socket.as_raw_fd(), space)?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.decoder.filled(n);
        if n == room {
            self.read_bytes = (self.read_bytes * 4).min(MAX_READ_BYTES);
        }
        Ok(std::mem::take(&mut self.decoder))
    }

    /// Takes the decoder back. Without streams, no large data is expected, so memory is released.
    pub fn received(&mut self, decoder: Decoder) {
        self.decoder = decoder;
        if self.streams.is_empty() && self.read_bytes > READ_BYTES {
            self.read_bytes = READ_BYTES;
            self.decoder.release();
            sys::give_back_memory();
        }
    }
}
