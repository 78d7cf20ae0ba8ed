//! One connection of a program in the sandbox, carried on a stream to the gateway.

use crate::network::handshake::{Handshake, Wanted};
use crate::network::http_body::Body;
use crate::network::window::{STREAM_CREDIT, Window};
use crate::network::wire::{Watch, Wire};
use crate::protocol::frame::{self, Kind};
use crate::server::poll::Poll;
use crate::server::token::NetworkPart;
use crate::sys;
use serde::Deserialize;
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;

/// Why the gateway refused or ended a connection.
#[derive(Deserialize)]
pub struct Ended {
    #[serde(default)]
    pub code: String,
    #[serde(default)]
    pub message: String,
}

enum Phase {
    /// The program is talking to the proxy.
    Asking(Handshake),
    /// The gateway has been asked.
    Opening(Wanted),
    Open,
    /// The last bytes for the program are on their way. Bytes that it still sends are dropped, up
    /// to a limit: closing the connection with unread bytes would reset it and lose the answer.
    Leaving {
        dropped: usize,
    },
}

const MAX_DROPPED_BYTES: usize = 1 << 20;

pub struct Flow {
    id: u32,
    socket: TcpStream,
    watch: Watch,
    /// Zero until the gateway has been asked.
    pub stream: u32,
    phase: Phase,
    /// Read from the program with its request, but not part of it.
    ahead: Vec<u8>,
    /// Where the single request of a plain HTTP connection ends.
    body: Option<Body>,
    /// Bytes for the program.
    queue: VecDeque<Vec<u8>>,
    /// Bytes that may still be sent to the gateway.
    credit: u64,
    window: Window,
    program_ended: bool,
    gateway_ended: bool,
    was_shut: bool,
}

/// The next action for a flow.
#[derive(PartialEq, Eq)]
pub enum Fate {
    Goes,
    /// Asks the gateway for a connection.
    Asks,
    /// Over; the stream has ended on both sides.
    Over,
    /// Over, and the gateway must be notified.
    Broken,
}

impl Flow {
    pub fn new(id: u32, socket: TcpStream, transparent: Option<Wanted>) -> Flow {
        let phase = match transparent {
            Some(wanted) => Phase::Opening(wanted),
            None => Phase::Asking(Handshake::default()),
        };
        let _ = socket.set_nodelay(true);
        Flow {
            id,
            socket,
            watch: Watch::default(),
            stream: 0,
            phase,
            ahead: Vec::new(),
            body: None,
            queue: VecDeque::new(),
            credit: STREAM_CREDIT,
            window: Window::new(),
            program_ended: false,
            gateway_ended: false,
            was_shut: false,
        }
    }

    /// The request to the gateway, until it is answered.
    pub fn wanted(&self) -> Option<&Wanted> {
        match &self.phase {
            Phase::Opening(wanted) => Some(wanted),
            _ => None,
        }
    }

    /// Moves all bytes that can be moved.
    pub fn pump(&mut self, wire: &mut Wire<'_>) -> Fate {
        let fate = match self.phase {
            Phase::Asking(_) => self.ask(wire),
            Phase::Open => self.read(wire),
            Phase::Leaving { .. } => self.leave(wire),
            Phase::Opening(_) => Fate::Goes,
        };
        if fate == Fate::Broken || fate == Fate::Over {
            return fate;
        }
        if self.write(wire).is_err() {
            return self.broken();
        }
        if self.watch_for_more(wire).is_err() {
            return self.broken();
        }
        let has_ended = self.program_ended && self.gateway_ended && self.queue.is_empty();
        match self.phase {
            Phase::Open if has_ended => Fate::Over,
            _ => fate,
        }
    }

    fn leave(&mut self, wire: &mut Wire<'_>) -> Fate {
        self.gateway_ended = true;
        // The answer comes first: a program that has sent everything still waits for it.
        if self.write(wire).is_err() {
            return self.broken();
        }
        let Phase::Leaving { dropped } = &mut self.phase else {
            return Fate::Goes;
        };
        while *dropped < MAX_DROPPED_BYTES {
            match sys::read(self.socket.as_raw_fd(), wire.buffer) {
                Ok(n) if n > 0 => *dropped += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Fate::Goes,
                _ => break,
            }
        }
        Fate::Over
    }

    fn broken(&self) -> Fate {
        match self.stream {
            0 => Fate::Over,
            _ => Fate::Broken,
        }
    }

    /// Reads the request to the proxy.
    fn ask(&mut self, wire: &mut Wire<'_>) -> Fate {
        let Phase::Asking(handshake) = &mut self.phase else {
            return Fate::Goes;
        };
        loop {
            match sys::read(self.socket.as_raw_fd(), wire.buffer) {
                Ok(0) => {
                    self.phase = Phase::Leaving { dropped: 0 };
                    return self.leave(wire);
                }
                Ok(n) => handshake.push(&wire.buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Fate::Over,
            }
            let step = handshake.step();
            if !step.say.is_empty() {
                self.queue.push_back(step.say);
            }
            if step.refused {
                self.phase = Phase::Leaving { dropped: 0 };
                return Fate::Goes;
            }
            if let Some((wanted, rest)) = step.wanted {
                self.ahead = rest;
                self.phase = Phase::Opening(wanted);
                return Fate::Asks;
            }
        }
        Fate::Goes
    }

    /// The gateway has connected. False if the bytes that the program has sent meanwhile are
    /// malformed.
    pub fn connected(&mut self) -> bool {
        let Phase::Opening(wanted) = std::mem::replace(&mut self.phase, Phase::Open) else {
            return false;
        };
        if let Some(answer) = wanted.success() {
            self.queue.push_back(answer);
        }
        let Some((head, mut body)) = wanted.forwarded else {
            return true;
        };
        let rest = std::mem::replace(&mut self.ahead, head);
        let Ok(taken) = body.take(&rest) else {
            return false;
        };
        self.ahead.extend_from_slice(&rest[..taken]);
        self.body = Some(body);
        true
    }

    /// Widens the window, so a long download continues while other flows have their turn.
    pub fn widen(&mut self, wire: &mut Wire<'_>) {
        wire.grant(self.stream, self.window.widen() as usize);
    }

    /// The gateway has refused the connection or broken an open one. The program is notified if
    /// possible.
    pub fn refused(&mut self, ended: &Ended) -> Fate {
        self.stream = 0;
        let leaving = Phase::Leaving { dropped: 0 };
        let Phase::Opening(wanted) = std::mem::replace(&mut self.phase, leaving) else {
            // A broken connection must not look like one that ended normally.
            self.reset();
            return Fate::Over;
        };
        match wanted.failure(&ended.code, &ended.message) {
            Some(answer) => {
                self.queue.push_back(answer);
                Fate::Goes
            }
            None => {
                self.reset();
                Fate::Over
            }
        }
    }

    /// Makes the kernel reset the program's connection.
    pub fn reset(&self) {
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        // SAFETY: the option's value is one linger, which outlives the call.
        unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                std::mem::size_of_val(&linger) as libc::socklen_t,
            )
        };
    }

    fn read(&mut self, wire: &mut Wire<'_>) -> Fate {
        while self.credit > 0 && !self.program_ended && !wire.is_busy() {
            if !self.ahead.is_empty() {
                let n = self.ahead.len().min(self.credit as usize);
                wire.send(Kind::Data, self.stream, &self.ahead[..n]);
                self.ahead.drain(..n);
                self.credit -= n as u64;
                continue;
            }
            let room = wire.buffer.len().min(self.credit as usize);
            match sys::read(self.socket.as_raw_fd(), &mut wire.buffer[..room]) {
                Ok(0) => {
                    self.program_ended = true;
                    wire.send(Kind::End, self.stream, &[]);
                }
                Ok(n) => {
                    let n = match &mut self.body {
                        // Bytes after the body could be another request; they are not forwarded.
                        Some(body) => match body.take(&wire.buffer[..n]) {
                            Ok(taken) => taken,
                            Err(_) => return Fate::Broken,
                        },
                        None => n,
                    };
                    if n > 0 {
                        let data = frame::encode(Kind::Data, self.stream, &wire.buffer[..n]);
                        wire.outgoing.queue(data);
                        self.credit -= n as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Fate::Broken,
            }
        }
        Fate::Goes
    }

    /// Takes bytes for the program; false if the gateway sends more than it may.
    pub fn take_data(&mut self, data: &[u8]) -> bool {
        let bytes = data.len() as u64;
        if !matches!(self.phase, Phase::Open) || self.gateway_ended || !self.window.receive(bytes) {
            return false;
        }
        // Only bytes that the program does not accept at once are kept. Writing those meets any
        // error again.
        let taken = match self.queue.is_empty() {
            true => sys::write(self.socket.as_raw_fd(), data).unwrap_or(0),
            false => 0,
        };
        self.window.deliver(taken as u64);
        if taken < data.len() {
            self.queue.push_back(data[taken..].to_vec());
        }
        true
    }

    /// The gateway will send nothing more on the stream.
    pub fn take_response(&mut self) {
        self.stream = 0;
        self.gateway_ended = true;
    }

    pub fn take_end(&mut self) {
        self.gateway_ended = true;
    }

    /// False if the gateway credits more than it received.
    pub fn take_credit(&mut self, bytes: u64) -> bool {
        self.credit += bytes;
        self.credit <= STREAM_CREDIT
    }

    fn write(&mut self, wire: &mut Wire<'_>) -> io::Result<()> {
        let written = sys::write_queue(self.socket.as_raw_fd(), &mut self.queue)?;
        self.window.deliver(written as u64);
        if self.stream != 0 {
            let due = self.window.take_due();
            if due > 0 {
                wire.grant(self.stream, due as usize);
            }
        }
        if self.gateway_ended && self.queue.is_empty() && !self.was_shut {
            self.was_shut = true;
            // A program that has already gone does not notice.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    fn watch_for_more(&mut self, wire: &Wire<'_>) -> io::Result<()> {
        let reads = match self.phase {
            Phase::Asking(_) | Phase::Leaving { .. } => true,
            Phase::Open => self.credit > 0 && !self.program_ended && !wire.is_busy(),
            Phase::Opening(_) => false,
        };
        let mut interest = 0;
        if reads {
            interest |= libc::EPOLLIN;
        }
        if !self.queue.is_empty() {
            interest |= libc::EPOLLOUT;
        }
        self.watch.set(
            wire.poll,
            &self.socket,
            interest,
            NetworkPart::Flow,
            self.id,
        )
    }

    pub fn unwatch(&mut self, poll: &Poll) {
        let _ = self
            .watch
            .set(poll, &self.socket, 0, NetworkPart::Flow, self.id);
    }
}
