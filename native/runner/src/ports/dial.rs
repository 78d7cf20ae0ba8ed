//! Connections to ports inside the sandbox, carried on streams.

use crate::connections::connection::Stream;
use crate::protocol::failure::Failure;
use crate::execs::exec::Address;
use crate::protocol::frame::{self, INITIAL_CREDIT, Kind};
use crate::server::event_loop::Server;
use crate::sys;
use crate::server::token::Token;
use serde_json::json;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAX_DIALS: usize = 256;

#[derive(Clone, Copy)]
enum Loopback {
    V4,
    V6,
}

pub struct Dial {
    fd: OwnedFd,
    address: Address,
    port: u16,
    /// Where it is tried next when nothing listens here.
    fallback: Option<Loopback>,
    connected: bool,
    /// From the peer, for the port.
    queue: VecDeque<Vec<u8>>,
    /// Bytes that may still be sent to the peer.
    credit: u64,
    input_ended: bool,
    output_ended: bool,
    watched: bool,
}

impl Server {
    pub fn dial(&mut self, address: Address, port: u16) -> Result<(), Failure> {
        if self.dials.len() >= MAX_DIALS {
            return Err(Failure::new("busy", "too many connections are open"));
        }
        let failed = |error: io::Error| Failure::io("connect to port", &port.to_string(), &error);
        // Servers that listen on `localhost` may have only one of its two addresses.
        let mut fallback = Some(Loopback::V6);
        let (fd, connected) = connect(Loopback::V4, port)
            .or_else(|error| match is_refusal(&error) {
                true => {
                    fallback = None;
                    connect(Loopback::V6, port).map_err(|_| error)
                }
                false => Err(error),
            })
            .map_err(failed)?;
        let id = self.next_dial;
        self.next_dial += 1;
        let interest = libc::EPOLLIN | libc::EPOLLOUT;
        self.epoll
            .add(fd.as_raw_fd(), interest, Token::Dial(id).pack())
            .map_err(failed)?;
        self.dials.insert(
            id,
            Dial {
                fd,
                address,
                port,
                fallback,
                connected: false,
                queue: VecDeque::new(),
                credit: INITIAL_CREDIT,
                input_ended: false,
                output_ended: false,
                watched: true,
            },
        );
        self.open(address, Stream::Dial(id));
        if connected {
            self.dial_connected(id);
        }
        Ok(())
    }

    fn dial_connected(&mut self, id: u32) {
        if let Some(dial) = self.dials.get_mut(&id) {
            dial.connected = true;
            let address = dial.address;
            self.send_json(address, Kind::Event, &json!({ "event": "connected" }));
        }
    }

    pub fn serve_dial(&mut self, id: u32, ready: i32) {
        let Some(dial) = self.dials.get(&id) else {
            return;
        };
        if !dial.connected {
            match pending_error(dial.fd.as_raw_fd()) {
                Ok(()) if ready & libc::EPOLLOUT != 0 => self.dial_connected(id),
                Ok(()) => return,
                Err(error) => {
                    let address = dial.address;
                    if is_refusal(&error) && self.fall_back(id) {
                        return;
                    }
                    self.drop_dial(id);
                    let failure = Failure::io("connect", "the port", &error);
                    self.answer(address, Kind::Error, &failure);
                    return;
                }
            }
        }
        self.read_dial(id);
        if ready & (libc::EPOLLHUP | libc::EPOLLERR) != 0 {
            // Nothing can be written any more, so the peer's side is over too.
            if let Some(dial) = self.dials.get_mut(&id)
                && dial.output_ended
            {
                dial.queue.clear();
                dial.input_ended = true;
            }
        }
        self.flush_dial(id);
    }

    /// Tries the other loopback address; false when there is none left.
    fn fall_back(&mut self, id: u32) -> bool {
        let Some(dial) = self.dials.get_mut(&id) else {
            return false;
        };
        let Some(loopback) = dial.fallback.take() else {
            return false;
        };
        let Ok((fd, connected)) = connect(loopback, dial.port) else {
            return false;
        };
        let interest = libc::EPOLLIN | libc::EPOLLOUT;
        let token = Token::Dial(id).pack();
        self.epoll.remove(dial.fd.as_raw_fd());
        dial.watched = self.epoll.add(fd.as_raw_fd(), interest, token).is_ok();
        dial.fd = fd;
        let watched = dial.watched;
        if watched && connected {
            self.dial_connected(id);
        }
        watched
    }

    fn read_dial(&mut self, id: u32) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut broken = None;
        if let Some(dial) = self.dials.get_mut(&id) {
            while !dial.output_ended && dial.credit > 0 {
                let room = buffer.len().min(dial.credit as usize);
                let frame = match sys::read(dial.fd.as_raw_fd(), &mut buffer[..room]) {
                    Ok(0) => {
                        dial.output_ended = true;
                        frame::encode(Kind::End, dial.address.stream, &[])
                    }
                    Ok(n) => {
                        dial.credit -= n as u64;
                        frame::encode(Kind::Data, dial.address.stream, &buffer[..n])
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        broken = Some((dial.address, error));
                        break;
                    }
                };
                if let Some(connection) = self.connections.get_mut(&dial.address.connection) {
                    connection.queue(frame);
                }
            }
        }
        self.buffer = buffer;
        if let Some((address, error)) = broken {
            self.drop_dial(id);
            let failure = Failure::io("read from", "the port", &error);
            self.answer(address, Kind::Error, &failure);
        }
    }

    pub fn write_dial(&mut self, id: u32, data: Vec<u8>) {
        if let Some(dial) = self.dials.get_mut(&id) {
            dial.queue.push_back(data);
        }
        self.flush_dial(id);
    }

    pub fn end_dial_input(&mut self, id: u32) {
        if let Some(dial) = self.dials.get_mut(&id) {
            dial.input_ended = true;
        }
        self.flush_dial(id);
    }

    /// False when the peer credits more than it got.
    pub fn credit_dial(&mut self, id: u32, bytes: u64) -> bool {
        if let Some(dial) = self.dials.get_mut(&id) {
            dial.credit += bytes;
            if dial.credit > INITIAL_CREDIT {
                return false;
            }
        }
        self.read_dial(id);
        self.flush_dial(id);
        true
    }

    fn flush_dial(&mut self, id: u32) {
        let Some(dial) = self.dials.get_mut(&id) else {
            return;
        };
        let fd = dial.fd.as_raw_fd();
        let mut written = 0;
        while dial.connected {
            let Some(first) = dial.queue.front_mut() else {
                break;
            };
            match sys::write(fd, first) {
                Ok(n) => {
                    written += n;
                    first.drain(..n);
                    if first.is_empty() {
                        dial.queue.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    let address = dial.address;
                    self.drop_dial(id);
                    let failure = Failure::io("write to", "the port", &error);
                    self.answer(address, Kind::Error, &failure);
                    return;
                }
            }
        }
        if dial.connected && dial.input_ended && dial.queue.is_empty() {
            // SAFETY: plain system call on a socket that we own.
            unsafe { libc::shutdown(fd, libc::SHUT_WR) };
        }
        let address = dial.address;
        let over = dial.connected && dial.input_ended && dial.output_ended && dial.queue.is_empty();
        let mut interest = 0;
        if !dial.connected || !dial.queue.is_empty() {
            interest |= libc::EPOLLOUT;
        }
        if dial.credit > 0 && !dial.output_ended {
            interest |= libc::EPOLLIN;
        }
        // Without interest its end would be told again and again.
        let token = Token::Dial(id).pack();
        let watching = match (dial.watched, interest) {
            (true, 0) => {
                self.epoll.remove(fd);
                Ok(())
            }
            (true, _) => self.epoll.modify(fd, interest, token),
            (false, 0) => Ok(()),
            (false, _) => self.epoll.add(fd, interest, token),
        };
        dial.watched = interest != 0;
        self.grant(address, written);
        if over || watching.is_err() {
            self.drop_dial(id);
            self.answer(address, Kind::Response, &json!({}));
        }
    }

    pub fn drop_dial(&mut self, id: u32) {
        if let Some(dial) = self.dials.remove(&id) {
            self.epoll.remove(dial.fd.as_raw_fd());
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNREFUSED)
}

/// Begins to connect; true when that was at once.
///
/// SECURITY: always the sandbox's own loopback, never an address of the caller's choice.
fn connect(loopback: Loopback, port: u16) -> io::Result<(OwnedFd, bool)> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let family = match loopback {
        Loopback::V4 => libc::AF_INET,
        Loopback::V6 => libc::AF_INET6,
    };
    // SAFETY: plain system call.
    let fd = sys::check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the descriptor was just made.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let result = match loopback {
        Loopback::V4 => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: port.to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_be_bytes([127, 0, 0, 1]).to_be(),
                },
                sin_zero: [0; 8],
            };
            connect_to(&fd, &address)
        }
        Loopback::V6 => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: std::net::Ipv6Addr::LOCALHOST.octets(),
                },
                sin6_scope_id: 0,
            };
            connect_to(&fd, &address)
        }
    };
    match result {
        Ok(()) => Ok((fd, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok((fd, false)),
        Err(error) => Err(error),
    }
}

fn connect_to<Address>(fd: &OwnedFd, address: &Address) -> io::Result<()> {
    // SAFETY: address is a valid socket address of the length given.
    let result = unsafe {
        libc::connect(
            fd.as_raw_fd(),
            std::ptr::from_ref(address).cast(),
            std::mem::size_of_val(address) as libc::socklen_t,
        )
    };
    sys::check(result).map(drop)
}

fn pending_error(fd: i32) -> io::Result<()> {
    let mut code: libc::c_int = 0;
    let mut length = std::mem::size_of_val(&code) as libc::socklen_t;
    // SAFETY: code and length are valid for writing.
    sys::check(unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut code).cast(),
            &mut length,
        )
    })?;
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
