//! The daemon's connections: frames received, frames to send, and the purpose of each stream.

mod connection;
mod outgoing;
mod stream;

pub use outgoing::Outgoing;
pub use stream::{Address, Stream};

use crate::protocol::frame::{self, Decoder, FrameError, Kind, ReceivedFrame};
use crate::protocol::message::{ClientHello, ServerHello};
use crate::server::poll::Poll;
use crate::server::token::Token;
use crate::sys;
use crate::workers::Parcel;
use connection::Connection;
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use stream::OpenStream;

const MAX_CONNECTIONS: usize = 16;
/// Streams that one connection may have open.
const MAX_STREAMS: usize = 1024;

/// Identifies a connection; numbers are never reused.
pub type ConnectionId = u32;

pub struct Connections {
    listener: OwnedFd,
    boot_id: String,
    by_id: HashMap<ConnectionId, Connection>,
    next: ConnectionId,
    /// The highest fencing token of all daemons that have said hello.
    fence: u64,
}

impl Connections {
    pub fn listen(listener: OwnedFd, poll: &Poll) -> io::Result<Connections> {
        sys::set_nonblocking(listener.as_raw_fd())?;
        poll.add(listener.as_raw_fd(), libc::EPOLLIN, Token::Listener)?;
        Ok(Connections {
            listener,
            boot_id: sys::random_hex()?,
            by_id: HashMap::new(),
            next: 0,
            fence: 0,
        })
    }

    /// Accepts the next peer and sends it a hello; false if no peer is waiting.
    pub fn accept(&mut self, poll: &Poll) -> bool {
        let Ok(socket) = sys::accept(self.listener.as_raw_fd()) else {
            return false;
        };
        let id = self.next;
        self.next += 1;
        let mut connection = Connection::new(socket);
        let token = Token::Connection(id);
        if poll
            .add(connection.fd(), connection.interest(), token)
            .is_ok()
        {
            let hello = ServerHello {
                protocol: frame::PROTOCOL,
                runner: env!("CARGO_PKG_VERSION"),
                boot_id: &self.boot_id,
            };
            let hello = frame::encode_json(Kind::Hello, 0, &hello);
            connection.outgoing.queue(hello);
            self.by_id.insert(id, connection);
        }
        true
    }

    /// The oldest connection if there are too many: its daemon is the most likely to be gone.
    pub fn surplus(&self) -> Option<ConnectionId> {
        let oldest = self.by_id.keys().min().copied();
        oldest.filter(|_| self.by_id.len() > MAX_CONNECTIONS)
    }

    pub fn ids(&self) -> Vec<ConnectionId> {
        self.by_id.keys().copied().collect()
    }

    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Closes the socket and returns the streams that were open.
    pub fn close(&mut self, id: ConnectionId, poll: &Poll) -> Option<Vec<Stream>> {
        let connection = self.by_id.remove(&id)?;
        poll.remove(connection.fd());
        let streams = connection.streams.into_values();
        Some(streams.map(|open| open.stream).collect())
    }

    // Receiving.

    /// Reads once. The decoder must be returned with `received`.
    pub fn receive(&mut self, id: ConnectionId) -> io::Result<Decoder> {
        match self.by_id.get_mut(&id) {
            Some(connection) => connection.receive(),
            None => Err(io::Error::from(io::ErrorKind::NotConnected)),
        }
    }

    pub fn received(&mut self, id: ConnectionId, decoder: Decoder) {
        if let Some(connection) = self.by_id.get_mut(&id) {
            connection.received(decoder);
        }
    }

    /// True when the frame was the peer's hello, which has to come first.
    pub fn take_hello(
        &mut self,
        id: ConnectionId,
        frame: ReceivedFrame<'_>,
    ) -> Result<bool, FrameError> {
        let Some(connection) = self.by_id.get_mut(&id).filter(|c| !c.greeted) else {
            return Ok(false);
        };
        let hello: ClientHello = match frame.kind {
            Kind::Hello => frame.to_frame().json()?,
            kind => return Err(FrameError::BadPayload(kind)),
        };
        if hello.protocol != frame::PROTOCOL {
            return Err(FrameError::BadPayload(Kind::Hello));
        }
        connection.greeted = true;
        connection.fence = hello.fence;
        self.fence = self.fence.max(hello.fence.unwrap_or(0));
        Ok(true)
    }

    /// The connections of daemons that have been replaced.
    ///
    /// SECURITY: a replaced daemon must not change the sandbox any more, for example with the rest
    /// of an upload (threat: a stalled daemon). Guarded by tests/docker/several-daemons.test.ts.
    pub fn replaced(&self) -> Vec<ConnectionId> {
        let is_replaced = |c: &Connection| c.fence.is_some_and(|fence| fence < self.fence);
        let found = self.by_id.iter().filter(|(_, c)| is_replaced(c));
        found.map(|(id, _)| *id).collect()
    }

    /// Whether the peer may open this stream.
    pub fn can_open(&self, address: Address) -> bool {
        self.by_id
            .get(&address.connection)
            .is_some_and(|connection| {
                address.stream != 0
                    && !connection.streams.contains_key(&address.stream)
                    && connection.streams.len() < MAX_STREAMS
            })
    }

    pub fn open(&mut self, address: Address, stream: Stream) {
        if let Some(connection) = self.by_id.get_mut(&address.connection) {
            connection
                .streams
                .insert(address.stream, OpenStream::new(stream));
        }
    }

    pub fn stream(&mut self, address: Address) -> Option<&mut Stream> {
        self.open_stream(address).map(|open| &mut open.stream)
    }

    /// The stream that gets these bytes. None if it has just ended, which the peer may not know
    /// yet; an error if the peer sends more than it may.
    pub fn take_data(
        &mut self,
        address: Address,
        bytes: usize,
    ) -> Result<Option<&mut Stream>, FrameError> {
        let Some(open) = self.open_stream(address) else {
            return Ok(None);
        };
        if bytes as u64 > open.allowance || open.ended {
            return Err(FrameError::BadPayload(Kind::Data));
        }
        open.allowance -= bytes as u64;
        Ok(Some(&mut open.stream))
    }

    /// The stream on which the peer has sent its last byte.
    pub fn take_end(&mut self, address: Address) -> Option<&mut Stream> {
        let open = self.open_stream(address)?;
        open.ended = true;
        Some(&mut open.stream)
    }

    fn open_stream(&mut self, address: Address) -> Option<&mut OpenStream> {
        self.by_id
            .get_mut(&address.connection)?
            .streams
            .get_mut(&address.stream)
    }

    // Sending.

    pub fn outgoing(&mut self, id: ConnectionId) -> Option<&mut Outgoing> {
        Some(&mut self.by_id.get_mut(&id)?.outgoing)
    }

    pub fn send(&mut self, address: Address, frame: Vec<u8>) {
        if let Some(outgoing) = self.outgoing(address.connection) {
            outgoing.queue(frame);
        }
    }

    pub fn send_json(&mut self, address: Address, kind: Kind, value: &impl Serialize) {
        self.send(address, frame::encode_json(kind, address.stream, value));
    }

    /// Ends a stream with its last frame.
    pub fn answer(&mut self, address: Address, kind: Kind, value: &impl Serialize) {
        self.send_json(address, kind, value);
        self.end_stream(address);
    }

    pub fn end_stream(&mut self, address: Address) -> Option<Stream> {
        let connection = self.by_id.get_mut(&address.connection)?;
        let open = connection.streams.remove(&address.stream)?;
        Some(open.stream)
    }

    /// Lets the peer send this many more bytes.
    pub fn grant(&mut self, address: Address, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if let Some(open) = self.open_stream(address) {
            open.allowance += bytes as u64;
            self.send(address, frame::encode_credit(address.stream, bytes as u32));
        }
    }

    /// Queues the frames of threads.
    pub fn forward(&mut self, parcels: Vec<Parcel>) {
        for parcel in parcels {
            let Some(connection) = self.by_id.get_mut(&parcel.address.connection) else {
                continue;
            };
            if parcel.droppable && connection.outgoing.is_busy() {
                continue;
            }
            connection.outgoing.queue(parcel.frame);
            if let Some(open) = connection.streams.get_mut(&parcel.address.stream) {
                open.allowance += parcel.grant;
            }
            if parcel.last {
                connection.streams.remove(&parcel.address.stream);
            }
        }
    }

    /// Sends as much as the socket accepts. True if work that waited for the connection can
    /// continue.
    pub fn flush(&mut self, id: ConnectionId) -> io::Result<bool> {
        let Some(connection) = self.by_id.get_mut(&id) else {
            return Ok(false);
        };
        connection.flush()?;
        Ok(connection.outgoing.take_relief())
    }

    /// Sends as much as the sockets accept before the loop's turn ends; errors show up again at its
    /// end.
    pub fn flush_early(&mut self) {
        for connection in self.by_id.values_mut() {
            let _ = connection.flush();
        }
    }

    /// Makes epoll report when the connection accepts more, if there is more to send.
    pub fn watch(&mut self, id: ConnectionId, poll: &Poll) -> io::Result<()> {
        if let Some(connection) = self.by_id.get_mut(&id)
            && let Some(interest) = connection.changed_interest()
        {
            poll.modify(connection.fd(), interest, Token::Connection(id))?;
        }
        Ok(())
    }
}
