//! The purpose of a connection's streams.

use crate::commands::Collecting;
use crate::connections::ConnectionId;
use crate::execs::Serial;
use crate::ports::DialId;
use crate::protocol::frame::INITIAL_CREDIT;
use crate::workers::Mailbox;
use std::sync::Arc;

/// The destination of frames: a connection and one of its streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    pub connection: ConnectionId,
    pub stream: u32,
}

pub enum Stream {
    /// An exec request whose command text is still arriving.
    Collecting(Box<Collecting>),
    /// The output of a command, and perhaps its stdin.
    Exec { serial: Serial, stdin: bool },
    /// Work that a thread does.
    Work(Arc<Mailbox>),
    /// A connection to a port.
    Dial(DialId),
    /// The daemon's offer to carry the sandbox's connections.
    Network,
}

/// A stream that has not ended.
pub struct OpenStream {
    pub stream: Stream,
    /// Bytes that the peer may still send.
    pub allowance: u64,
    /// The peer has sent its last byte.
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
