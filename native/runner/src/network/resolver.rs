//! The sandbox's name server: takes queries over UDP and TCP, and remembers who waits for an answer.

use crate::network::dns::{self, Query, Verdict};
use crate::network::wire::Watch;
use crate::server::poll::Poll;
use crate::server::token::NetworkPart;
use crate::sys;
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

pub const PORT: u16 = 53;
/// Queries that wait for the gateway. One more is answered with a failure at once.
const MAX_WAITING: usize = 256;
const MAX_CLIENTS: usize = 32;
const MAX_MESSAGE_BYTES: usize = 4096;

/// Where an answer goes.
#[derive(Clone, Copy)]
enum Asker {
    Datagram(SocketAddr),
    Client(u32),
}

/// A program that asks over TCP.
struct Client {
    socket: TcpStream,
    watch: Watch,
    received: Vec<u8>,
}

pub struct Resolver {
    datagrams: UdpSocket,
    datagrams_watch: Watch,
    listener: TcpListener,
    listener_watch: Watch,
    clients: HashMap<u32, Client>,
    next_client: u32,
    /// By the stream on which the gateway was asked.
    waiting: HashMap<u32, (Asker, Query)>,
}

impl Resolver {
    pub fn open(poll: &Poll) -> io::Result<Resolver> {
        let address = (Ipv4Addr::LOCALHOST, PORT);
        let datagrams = UdpSocket::bind(address)?;
        let listener = TcpListener::bind(address)?;
        datagrams.set_nonblocking(true)?;
        listener.set_nonblocking(true)?;
        let mut resolver = Resolver {
            datagrams,
            datagrams_watch: Watch::default(),
            listener,
            listener_watch: Watch::default(),
            clients: HashMap::new(),
            next_client: 0,
            waiting: HashMap::new(),
        };
        resolver.watch(poll, libc::EPOLLIN)?;
        Ok(resolver)
    }

    fn watch(&mut self, poll: &Poll, interest: i32) -> io::Result<()> {
        let (udp, tcp) = (NetworkPart::Datagrams, NetworkPart::DnsListener);
        self.datagrams_watch
            .set(poll, &self.datagrams, interest, udp, 0)?;
        self.listener_watch
            .set(poll, &self.listener, interest, tcp, 0)
    }

    /// There is no gateway to ask. Programs ask again.
    pub fn rest(&mut self, poll: &Poll) {
        self.waiting.clear();
        let clients: Vec<u32> = self.clients.keys().copied().collect();
        for id in clients {
            self.drop_client(poll, id);
        }
        let _ = self.watch(poll, 0);
    }

    pub fn resume(&mut self, poll: &Poll) {
        let _ = self.watch(poll, libc::EPOLLIN);
    }

    /// Reads what has come over UDP; `ask` gives the stream on which the gateway is asked for a name.
    pub fn take_datagrams(&mut self, mut ask: impl FnMut(&str) -> Option<u32>) {
        let mut message = [0; MAX_MESSAGE_BYTES];
        // Bounded, so that a flood leaves turns to others.
        for _ in 0..64 {
            match self.datagrams.recv_from(&mut message) {
                Ok((length, from)) => {
                    self.take(&message[..length], Asker::Datagram(from), &mut ask)
                }
                Err(_) => return,
            }
        }
    }

    pub fn accept(&mut self, poll: &Poll) {
        while let Ok((socket, _)) = self.listener.accept() {
            if self.clients.len() >= MAX_CLIENTS || socket.set_nonblocking(true).is_err() {
                continue;
            }
            let id = self.next_client;
            self.next_client = id.wrapping_add(1);
            let mut watch = Watch::default();
            let part = NetworkPart::DnsClient;
            if watch.set(poll, &socket, libc::EPOLLIN, part, id).is_ok() {
                let received = Vec::new();
                self.clients.insert(
                    id,
                    Client {
                        socket,
                        watch,
                        received,
                    },
                );
            }
        }
    }

    pub fn serve_client(
        &mut self,
        poll: &Poll,
        id: u32,
        buffer: &mut [u8],
        mut ask: impl FnMut(&str) -> Option<u32>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let goes_on = match sys::read(client.socket.as_raw_fd(), buffer) {
            Ok(n) if n > 0 => {
                client.received.extend_from_slice(&buffer[..n]);
                client.received.len() <= 8 * MAX_MESSAGE_BYTES
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            Ok(_) => false,
        };
        if !goes_on {
            return self.drop_client(poll, id);
        }
        while let Some(message) = self.clients.get_mut(&id).and_then(Client::next_message) {
            self.take(&message, Asker::Client(id), &mut ask);
        }
    }

    fn drop_client(&mut self, poll: &Poll, id: u32) {
        if let Some(mut client) = self.clients.remove(&id) {
            let part = NetworkPart::DnsClient;
            let _ = client.watch.set(poll, &client.socket, 0, part, id);
        }
    }

    fn take(&mut self, message: &[u8], asker: Asker, ask: &mut impl FnMut(&str) -> Option<u32>) {
        let query = match dns::parse(message) {
            Ok(query) => query,
            Err(dns::Refusal(answer)) => return self.send(asker, answer.as_deref()),
        };
        let stream = match self.waiting.len() < MAX_WAITING {
            true => ask(&query.name),
            false => None,
        };
        match stream {
            Some(stream) => {
                self.waiting.insert(stream, (asker, query));
            }
            None => self.send(asker, Some(&query.answer(Verdict::Failure))),
        }
    }

    /// The name that is asked for on a stream.
    pub fn name_on(&self, stream: u32) -> Option<&str> {
        self.waiting
            .get(&stream)
            .map(|(_, query)| query.name.as_str())
    }

    /// Answers the query that waits for a stream. `address` is for those who asked for one.
    pub fn answer(&mut self, stream: u32, found: Result<Ipv4Addr, Verdict>) {
        let Some((asker, query)) = self.waiting.remove(&stream) else {
            return;
        };
        let verdict = match found {
            Ok(address) if query.wants_v4 => Verdict::Address(address),
            Ok(_) => Verdict::NoRecord,
            Err(verdict) => verdict,
        };
        self.send(asker, Some(&query.answer(verdict)));
    }

    /// What cannot be sent at once is lost, as it may be on any network; programs ask again.
    fn send(&mut self, asker: Asker, message: Option<&[u8]>) {
        let Some(message) = message else { return };
        match asker {
            Asker::Datagram(to) => drop(self.datagrams.send_to(message, to)),
            Asker::Client(id) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    let mut framed = (message.len() as u16).to_be_bytes().to_vec();
                    framed.extend_from_slice(message);
                    let _ = client.socket.write_all(&framed);
                }
            }
        }
    }
}

impl Client {
    /// Messages over TCP begin with their length.
    fn next_message(&mut self) -> Option<Vec<u8>> {
        let length = u16::from_be_bytes(*self.received.first_chunk::<2>()?) as usize;
        if self.received.len() < 2 + length {
            return None;
        }
        let message = self.received[2..2 + length].to_vec();
        self.received.drain(..2 + length);
        Some(message)
    }
}
