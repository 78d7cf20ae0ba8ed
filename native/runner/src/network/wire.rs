//! The parts of the event loop that the network needs, and the connection to the gateway.

use crate::connections::Outgoing;
use crate::protocol::frame::{self, Kind};
use crate::server::poll::Poll;
use crate::server::token::{NetworkPart, Token};
use serde::Serialize;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

pub struct Wire<'a> {
    pub poll: &'a Poll,
    pub outgoing: &'a mut Outgoing,
    /// The read buffer.
    pub buffer: &'a mut [u8],
}

impl Wire<'_> {
    pub fn send(&mut self, kind: Kind, stream: u32, payload: &[u8]) {
        self.outgoing.queue(frame::encode(kind, stream, payload));
    }

    pub fn send_json(&mut self, kind: Kind, stream: u32, value: &impl Serialize) {
        self.outgoing.queue(frame::encode_json(kind, stream, value));
    }

    pub fn grant(&mut self, stream: u32, bytes: usize) {
        self.outgoing
            .queue(frame::encode_credit(stream, bytes as u32));
    }

    /// Whether its queue is so long that no more should be read for it.
    pub fn is_busy(&self) -> bool {
        self.outgoing.is_busy()
    }
}

/// The events that one descriptor is watched for.
#[derive(Default)]
pub struct Watch(i32);

impl Watch {
    /// Without interest the descriptor is not watched, or its end would be reported again and
    /// again.
    pub fn set(
        &mut self,
        poll: &Poll,
        fd: &impl AsRawFd,
        interest: i32,
        part: NetworkPart,
        id: u32,
    ) -> io::Result<()> {
        let fd: RawFd = fd.as_raw_fd();
        let token = Token::Network(part, id);
        let before = std::mem::replace(&mut self.0, interest);
        match (before, interest) {
            (0, 0) => Ok(()),
            (0, _) => poll.add(fd, interest, token),
            (_, 0) => {
                poll.remove(fd);
                Ok(())
            }
            (before, _) if before == interest => Ok(()),
            _ => poll.modify(fd, interest, token),
        }
    }
}
