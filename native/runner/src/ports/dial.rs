//! One connection to a port, carried on a stream.

use crate::connections::Address;
use crate::ports::DialId;
use crate::ports::loopback::{self, Loopback};
use crate::protocol::failure::Failure;
use crate::protocol::frame::{self, INITIAL_CREDIT, Kind};
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::server::token::Token;
use crate::sys;
use serde_json::json;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const ALL: i32 = libc::EPOLLIN | libc::EPOLLOUT;

pub struct Dial {
    id: DialId,
    socket: OwnedFd,
    address: Address,
    port: u16,
    /// The address to try next if nothing listens here.
    fallback: Option<Loopback>,
    connected: bool,
    /// From the peer, for the port.
    queue: VecDeque<Vec<u8>>,
    /// Bytes that may still be sent to the peer.
    credit: u64,
    /// The peer will send nothing more.
    input_ended: bool,
    /// The port will send nothing more.
    output_ended: bool,
    watched: bool,
}

/// The next action for a connection after an event.
pub enum Fate {
    Open,
    Over,
    Broken(Failure),
}

impl Dial {
    /// Starts connecting. Servers that listen on `localhost` may have only one of its two
    /// addresses.
    pub fn begin(id: DialId, address: Address, port: u16, poll: &Poll) -> io::Result<Dial> {
        let mut fallback = Some(Loopback::V6);
        let (socket, connected) =
            loopback::connect(Loopback::V4, port).or_else(|error| match is_refusal(&error) {
                true => {
                    fallback = None;
                    loopback::connect(Loopback::V6, port).map_err(|_| error)
                }
                false => Err(error),
            })?;
        poll.add(socket.as_raw_fd(), ALL, Token::Dial(id))?;
        Ok(Dial {
            id,
            socket,
            address,
            port,
            fallback,
            connected,
            queue: VecDeque::new(),
            credit: INITIAL_CREDIT,
            input_ended: false,
            output_ended: false,
            watched: true,
        })
    }

    pub fn address(&self) -> Address {
        self.address
    }

    /// Notifies the peer when the port is connected.
    pub fn announce(&mut self, cx: &mut Context) {
        if self.connected {
            let event = json!({ "event": "connected" });
            cx.connections.send_json(self.address, Kind::Event, &event);
        }
    }

    pub fn serve(&mut self, ready: i32, cx: &mut Context) -> Fate {
        if !self.connected {
            match loopback::pending_error(self.socket.as_raw_fd()) {
                Ok(()) if ready & libc::EPOLLOUT != 0 => {
                    self.connected = true;
                    self.announce(cx);
                }
                Ok(()) => return Fate::Open,
                Err(error) if is_refusal(&error) && self.fall_back(cx) => return Fate::Open,
                Err(error) => return broken("connect", &error),
            }
        }
        if let Err(error) = self.read(cx) {
            return broken("read from", &error);
        }
        // Nothing can be written any more, so the peer's direction is over too.
        if ready & (libc::EPOLLHUP | libc::EPOLLERR) != 0 && self.output_ended {
            self.queue.clear();
            self.input_ended = true;
        }
        self.flush(cx)
    }

    pub fn write(&mut self, data: Vec<u8>, cx: &mut Context) -> Fate {
        self.queue.push_back(data);
        self.flush(cx)
    }

    pub fn end_input(&mut self, cx: &mut Context) -> Fate {
        self.input_ended = true;
        self.flush(cx)
    }

    /// False if the peer credits more than it received.
    pub fn take_credit(&mut self, bytes: u64) -> bool {
        self.credit += bytes;
        self.credit <= INITIAL_CREDIT
    }

    /// Continues after new credit.
    pub fn resume(&mut self, cx: &mut Context) -> Fate {
        match self.read(cx) {
            Ok(()) => self.flush(cx),
            Err(error) => broken("read from", &error),
        }
    }

    pub fn unwatch(&self, poll: &Poll) {
        poll.remove(self.socket.as_raw_fd());
    }

    /// Tries the other loopback address; false if there is none left.
    fn fall_back(&mut self, cx: &mut Context) -> bool {
        let Some(loopback) = self.fallback.take() else {
            return false;
        };
        let Ok((socket, connected)) = loopback::connect(loopback, self.port) else {
            return false;
        };
        self.unwatch(&cx.poll);
        let token = Token::Dial(self.id);
        self.watched = cx.poll.add(socket.as_raw_fd(), ALL, token).is_ok();
        self.socket = socket;
        if self.watched && connected {
            self.connected = true;
            self.announce(cx);
        }
        self.watched
    }

    fn read(&mut self, cx: &mut Context) -> io::Result<()> {
        let stream = self.address.stream;
        while !self.output_ended && self.credit > 0 {
            let room = cx.buffer.len().min(self.credit as usize);
            let frame = match sys::read(self.socket.as_raw_fd(), &mut cx.buffer[..room]) {
                Ok(0) => {
                    self.output_ended = true;
                    frame::encode(Kind::End, stream, &[])
                }
                Ok(n) => {
                    self.credit -= n as u64;
                    frame::encode(Kind::Data, stream, &cx.buffer[..n])
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            cx.connections.send(self.address, frame);
        }
        Ok(())
    }

    /// Writes as much as the port accepts, credits the peer for it, and watches for the next event.
    fn flush(&mut self, cx: &mut Context) -> Fate {
        let fd = self.socket.as_raw_fd();
        let written = match self.connected {
            true => sys::write_queue(fd, &mut self.queue),
            false => Ok(0),
        };
        let written = match written {
            Ok(written) => written,
            Err(error) => return broken("write to", &error),
        };
        let input_done = self.connected && self.input_ended && self.queue.is_empty();
        if input_done {
            // SAFETY: plain system call on a socket that we own.
            unsafe { libc::shutdown(fd, libc::SHUT_WR) };
        }
        let watching = self.watch_for_more(&cx.poll);
        cx.connections.grant(self.address, written);
        match input_done && self.output_ended || watching.is_err() {
            true => Fate::Over,
            false => Fate::Open,
        }
    }

    /// Without interest the socket is not watched, or its end would be reported again and again.
    fn watch_for_more(&mut self, poll: &Poll) -> io::Result<()> {
        let mut interest = 0;
        if !self.connected || !self.queue.is_empty() {
            interest |= libc::EPOLLOUT;
        }
        if self.credit > 0 && !self.output_ended {
            interest |= libc::EPOLLIN;
        }
        let (fd, token) = (self.socket.as_raw_fd(), Token::Dial(self.id));
        match (
            std::mem::replace(&mut self.watched, interest != 0),
            interest,
        ) {
            (true, 0) => {
                poll.remove(fd);
                Ok(())
            }
            (true, _) => poll.modify(fd, interest, token),
            (false, 0) => Ok(()),
            (false, _) => poll.add(fd, interest, token),
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNREFUSED)
}

fn broken(what: &str, error: &io::Error) -> Fate {
    Fate::Broken(Failure::io(what, "the port", error))
}
