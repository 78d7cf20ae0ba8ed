//! The sandbox's name server: takes queries over UDP and TCP, and remembers who waits for an
//! answer.

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
/// Queries that wait for the gateway. Further ones fail at once.
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
    /// When it last connected or sent a query, as an increasing number.
    used: u64,
}

pub struct Resolver {
    datagrams: UdpSocket,
    datagrams_watch: Watch,
    listener: TcpListener,
    listener_watch: Watch,
    clients: HashMap<u32, Client>,
    next_client: u32,
    uses: u64,
    /// Keyed by the stream on which the gateway was asked.
    waiting: HashMap<u32, (Asker, Query)>,
}

impl Resolver {
    pub fn open(poll: &Poll) -> io::Result<Resolver> {
        Resolver::on(PORT, poll)
    }

    fn on(port: u16, poll: &Poll) -> io::Result<Resolver> {
        let address = (Ipv4Addr::LOCALHOST, port);
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
            uses: 0,
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

    /// Fails all queries, because there is no gateway. Programs retry.
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

    /// Reads queries from UDP; `ask` returns the stream on which the gateway is asked for a name.
    pub fn take_datagrams(&mut self, mut ask: impl FnMut(&str) -> Option<u32>) {
        let mut message = [0; MAX_MESSAGE_BYTES];
        // Bounded, so that a flood does not starve others.
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
            if self.clients.len() >= MAX_CLIENTS {
                self.drop_idle_client(poll);
            }
            if self.clients.len() >= MAX_CLIENTS || socket.set_nonblocking(true).is_err() {
                continue;
            }
            let id = self.next_client;
            self.next_client = id.wrapping_add(1);
            let mut watch = Watch::default();
            let part = NetworkPart::DnsClient;
            if watch.set(poll, &socket, libc::EPOLLIN, part, id).is_ok() {
                self.uses += 1;
                let client = Client {
                    socket,
                    watch,
                    received: Vec::new(),
                    used: self.uses,
                };
                self.clients.insert(id, client);
            }
        }
    }

    /// Idle connections must not keep other programs from sending queries.
    fn drop_idle_client(&mut self, poll: &Poll) {
        let asks = |id: u32| {
            let mut askers = self.waiting.values().map(|(asker, _)| asker);
            askers.any(|asker| matches!(asker, Asker::Client(client) if *client == id))
        };
        let idle = self.clients.iter().filter(|(id, _)| !asks(**id));
        if let Some((id, _)) = idle.min_by_key(|(_, client)| client.used) {
            self.drop_client(poll, *id);
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
            self.uses += 1;
            if let Some(client) = self.clients.get_mut(&id) {
                client.used = self.uses;
            }
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

    /// The name that is queried on a stream.
    pub fn name_on(&self, stream: u32) -> Option<&str> {
        self.waiting
            .get(&stream)
            .map(|(_, query)| query.name.as_str())
    }

    /// Answers the query that waits for a stream. Only queries for IPv4 get an address that was found.
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

    /// Answers that cannot be sent at once are lost, as on any network; programs retry.
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

#[cfg(test)]
mod tests {
    use super::{MAX_CLIENTS, Resolver};
    use crate::server::poll::Poll;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    const QUERY: [u8; 19] = *b"\0\x11ab\x01\0\0\x01\0\0\0\0\0\0\0\0\x01\0\x01";

    struct Server {
        poll: Poll,
        resolver: Resolver,
        asked: u32,
    }

    impl Server {
        fn open() -> Server {
            let poll = Poll::new().unwrap();
            let resolver = Resolver::on(0, &poll).unwrap();
            Server {
                poll,
                resolver,
                asked: 0,
            }
        }

        /// A client, and its number.
        fn connect(&mut self) -> (TcpStream, u32) {
            let client = TcpStream::connect(self.resolver.listener.local_addr().unwrap()).unwrap();
            self.resolver.accept(&self.poll);
            (client, self.resolver.next_client - 1)
        }

        /// Sends a query, for which the gateway is asked on a new stream.
        fn ask(&mut self, (client, id): &mut (TcpStream, u32)) {
            client.write_all(&QUERY).unwrap();
            self.asked += 1;
            let stream = self.asked;
            let serve = |resolver: &mut Resolver, poll: &Poll| {
                resolver.serve_client(poll, *id, &mut [0; 512], |_| Some(stream));
            };
            while !self.resolver.waiting.contains_key(&stream) {
                assert!(self.resolver.clients.contains_key(id), "dropped");
                serve(&mut self.resolver, &self.poll);
            }
        }

        fn answer(&mut self, (client, _): &mut (TcpStream, u32)) {
            let found = Ok([127, 0, 0, 9].into());
            self.resolver.answer(self.asked, found);
            let mut answer = [0; 2];
            client.read_exact(&mut answer).unwrap();
        }
    }

    #[test]
    fn a_new_client_replaces_the_longest_idle_one() {
        let mut server = Server::open();
        let mut clients: Vec<_> = (0..MAX_CLIENTS).map(|_| server.connect()).collect();
        // The first client has sent a query since, and the second waits for an answer.
        server.ask(&mut clients[0]);
        server.answer(&mut clients[0]);
        server.ask(&mut clients[1]);
        let mut late = server.connect();
        assert_eq!(server.resolver.clients.len(), MAX_CLIENTS);
        assert!(!server.resolver.clients.contains_key(&clients[2].1));
        assert_eq!(clients[2].0.read(&mut [0]).unwrap(), 0);
        server.answer(&mut clients[1]);
        server.ask(&mut late);
        server.answer(&mut late);
    }

    #[test]
    fn clients_that_wait_for_an_answer_keep_their_places() {
        let mut server = Server::open();
        let mut clients: Vec<_> = (0..MAX_CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            server.ask(client);
        }
        let (mut late, _) = server.connect();
        assert_eq!(late.read(&mut [0]).unwrap(), 0);
        assert_eq!(server.resolver.clients.len(), MAX_CLIENTS);
    }
}
