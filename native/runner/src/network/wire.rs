//! What the network needs of the server: its event loop, and the connection to the gateway.

use crate::connections::connection::{Connection, OUT_BUSY};
use crate::protocol::frame::{self, Kind};
use crate::sys::Epoll;
use crate::server::token::{NetworkPart, Token};
use serde::Serialize;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

pub struct Wire<'a> {
    pub epoll: &'a Epoll,
    pub connection: &'a mut Connection,
    /// For reading into.
    pub buffer: &'a mut [u8],
}

impl Wire<'_> {
    pub fn send(&mut self, kind: Kind, stream: u32, payload: &[u8]) {
        self.connection.queue(frame::encode(kind, stream, payload));
    }

    pub fn send_json(&mut self, kind: Kind, stream: u32, value: &impl Serialize) {
        self.connection
            .queue(frame::encode_json(kind, stream, value));
    }

    pub fn grant(&mut self, stream: u32, bytes: usize) {
        self.connection
            .queue(frame::encode_credit(stream, bytes as u32));
    }

    /// Whether so much waits to be sent that nothing more should be read for it.
    pub fn is_busy(&self) -> bool {
        self.connection.out_bytes > OUT_BUSY
    }
}

/// What epoll is asked to tell of one descriptor.
#[derive(Default)]
pub struct Watch(i32);

impl Watch {
    /// Without interest its end would be told again and again, so it is not watched at all then.
    pub fn set(
        &mut self,
        epoll: &Epoll,
        fd: &impl AsRawFd,
        interest: i32,
        part: NetworkPart,
        id: u32,
    ) -> io::Result<()> {
        let fd: RawFd = fd.as_raw_fd();
        let token = Token::Network(part, id).pack();
        let before = std::mem::replace(&mut self.0, interest);
        match (before, interest) {
            (0, 0) => Ok(()),
            (0, _) => epoll.add(fd, interest, token),
            (_, 0) => {
                epoll.remove(fd);
                Ok(())
            }
            (before, _) if before == interest => Ok(()),
            _ => epoll.modify(fd, interest, token),
        }
    }
}
