//! The purpose of a watched descriptor, as the number that epoll returns.

use crate::connections::ConnectionId;
use crate::execs::Serial;
use crate::ports::DialId;
use crate::shells::ShellId;

/// A part of the sandbox's network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NetworkPart {
    Listener,
    Flow,
    Datagrams,
    DnsListener,
    DnsClient,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    Listener,
    Signals,
    Outbox,
    Report(ShellId),
    Connection(ConnectionId),
    Output(Serial, u8),
    Stdin(Serial),
    Dial(DialId),
    Launch(Serial),
    Openings,
    Network(NetworkPart, u32),
}

impl Token {
    pub fn pack(self) -> u64 {
        let (kind, index, sub) = match self {
            Token::Listener => (0, 0, 0),
            Token::Signals => (1, 0, 0),
            Token::Outbox => (2, 0, 0),
            Token::Report(shell) => (3, shell, 0),
            Token::Connection(id) => (4, id, 0),
            Token::Output(serial, which) => (5, serial, which),
            Token::Stdin(serial) => (6, serial, 0),
            Token::Dial(id) => (7, id, 0),
            Token::Launch(serial) => (8, serial, 0),
            Token::Openings => (9, 0, 0),
            Token::Network(part, id) => (10, id, part as u8),
        };
        u64::from(kind as u8) << 48 | u64::from(index) << 8 | u64::from(sub)
    }

    pub fn unpack(packed: u64) -> Token {
        let index = (packed >> 8) as u32;
        match packed >> 48 {
            0 => Token::Listener,
            1 => Token::Signals,
            2 => Token::Outbox,
            3 => Token::Report(index),
            4 => Token::Connection(index),
            5 => Token::Output(index, packed as u8),
            6 => Token::Stdin(index),
            7 => Token::Dial(index),
            8 => Token::Launch(index),
            9 => Token::Openings,
            _ => Token::Network(NetworkPart::unpack(packed as u8), index),
        }
    }
}

impl NetworkPart {
    fn unpack(packed: u8) -> NetworkPart {
        match packed {
            0 => NetworkPart::Listener,
            1 => NetworkPart::Flow,
            2 => NetworkPart::Datagrams,
            3 => NetworkPart::DnsListener,
            _ => NetworkPart::DnsClient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NetworkPart, Token};

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Listener,
            Token::Signals,
            Token::Outbox,
            Token::Report(11),
            Token::Connection(u32::MAX),
            Token::Output(7, 1),
            Token::Output(u32::MAX, 2),
            Token::Stdin(9),
            Token::Dial(0),
            Token::Launch(3),
            Token::Openings,
            Token::Network(NetworkPart::Listener, 5),
            Token::Network(NetworkPart::Flow, u32::MAX),
            Token::Network(NetworkPart::Datagrams, 0),
            Token::Network(NetworkPart::DnsListener, 0),
            Token::Network(NetworkPart::DnsClient, 9),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
