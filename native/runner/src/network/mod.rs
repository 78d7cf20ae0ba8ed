//! The sandbox's network: names and a proxy inside, and every byte through the gateway of the daemon.
//!
//! SECURITY: nothing is decided here. The gateway decides about each name and each connection, and it
//! makes the connections; code that captured the runner could ask it for no more than it may.

mod dns;
mod flow;
mod handshake;
mod http;
mod names;
mod resolver;
mod serve;
mod socks;
mod wire;

use crate::execs::exec::Address;
use crate::protocol::frame::{self, Frame, FrameError, Kind, ReceivedFrame};
use crate::sys::{self, Epoll};
use crate::server::token::NetworkPart;
use dns::Verdict;
use flow::{Ended, Fate, Flow};
use handshake::{Via, Wanted};
use names::{LOOPBACK_RANGE, Names, OWN_RANGE};
use resolver::Resolver;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use wire::Watch;
pub use wire::Wire;

/// Streams that the runner opens have this bit; those of the daemon do not.
pub const RUNNER_STREAM: u32 = 1 << 31;
/// Where the proxy listens; the daemon puts it into the environment of commands.
const PROXY_PORT: u16 = 3128;
/// Connections of programs at a time. One more is closed at once.
const MAX_FLOWS: usize = 1000;
/// While there are no more than this, each may have much under way.
const MAX_WIDE_FLOWS: usize = 16;
/// Ports that names have at a time, all together, and each name.
const MAX_LISTENERS: usize = 1024;
const MAX_PORTS: usize = 64;
const BACKLOG: i32 = 1024;

struct Listener {
    socket: TcpListener,
    watch: Watch,
    /// Where programs connect to; the proxy has none.
    address: Option<(Ipv4Addr, u16)>,
}

pub struct Network {
    /// The daemon's request that opened the network; the gateway is at its other end.
    pub home: Address,
    /// Absent where the sandbox cannot have a name server; then the proxy is all there is.
    resolver: Option<Resolver>,
    names: Names,
    listeners: HashMap<u32, Listener>,
    by_address: HashMap<(Ipv4Addr, u16), u32>,
    flows: HashMap<u32, Flow>,
    by_stream: HashMap<u32, u32>,
    /// Of listeners and flows.
    next_id: u32,
    next_stream: u32,
    /// There was no descriptor for a connection; listeners rest until one is free.
    exhausted: bool,
}

#[derive(Deserialize)]
struct Resolved {
    ports: Vec<u16>,
}

impl Network {
    /// Begins to listen. Fails when not even the proxy can.
    pub fn open(home: Address, wire: &mut Wire<'_>) -> io::Result<Network> {
        let is_own = TcpListener::bind((Ipv4Addr::from_bits(OWN_RANGE.first.to_bits() + 1), 0));
        let range = match is_own {
            Ok(_) => OWN_RANGE,
            Err(_) => LOOPBACK_RANGE,
        };
        let mut network = Network {
            home,
            resolver: Resolver::open(wire.epoll).ok(),
            names: Names::new(range),
            listeners: HashMap::new(),
            by_address: HashMap::new(),
            flows: HashMap::new(),
            by_stream: HashMap::new(),
            next_id: 0,
            next_stream: RUNNER_STREAM,
            exhausted: false,
        };
        let proxy = listen(Ipv4Addr::LOCALHOST, PROXY_PORT)?;
        network.add_listener(proxy, None, wire)?;
        Ok(network)
    }

    /// What the daemon is told when the network is open.
    pub fn description(&self) -> Value {
        let mode = match self.resolver {
            Some(_) => "transparent",
            None => "proxy",
        };
        json!({ "event": "ready", "mode": mode, "proxy_port": PROXY_PORT })
    }

    /// Where the network listens, which is not for others to see as servers.
    pub fn listening(&self) -> Vec<(Ipv4Addr, u16)> {
        let names = self.by_address.keys().copied();
        let own = [PROXY_PORT, resolver::PORT].map(|port| (Ipv4Addr::LOCALHOST, port));
        names.chain(own).collect()
    }

    /// The gateway is gone. What went through it is cut, and what comes now waits for the next one.
    pub fn lose_home(&mut self, epoll: &Epoll) {
        for flow in self.flows.values_mut() {
            flow.reset();
            flow.unwatch(epoll);
        }
        self.flows.clear();
        self.by_stream.clear();
        self.watch_listeners(0, epoll);
        if let Some(resolver) = &mut self.resolver {
            resolver.rest(epoll);
        }
    }

    /// Another connection of the daemon takes over.
    pub fn move_to(&mut self, home: Address, epoll: &Epoll) {
        self.lose_home(epoll);
        self.home = home;
        self.next_stream = RUNNER_STREAM;
        self.exhausted = false;
        self.watch_listeners(libc::EPOLLIN, epoll);
        if let Some(resolver) = &mut self.resolver {
            resolver.resume(epoll);
        }
    }

    /// Stops listening for good.
    pub fn close_down(mut self, epoll: &Epoll) {
        self.lose_home(epoll);
    }

    /// A descriptor of the network is ready.
    pub fn ready(&mut self, part: NetworkPart, id: u32, wire: &mut Wire<'_>) {
        match part {
            NetworkPart::Listener => self.accept(id, wire),
            NetworkPart::Flow => self.pump(id, wire),
            NetworkPart::Datagrams | NetworkPart::DnsListener | NetworkPart::DnsClient => {
                self.serve_names(part, id, wire);
            }
        }
    }

    fn serve_names(&mut self, part: NetworkPart, id: u32, wire: &mut Wire<'_>) {
        let Some(resolver) = &mut self.resolver else {
            return;
        };
        let connection = &mut *wire.connection;
        let next_stream = &mut self.next_stream;
        let ask = |name: &str| {
            let stream = take_stream(next_stream)?;
            let request = json!({ "op": "resolve", "name": name });
            connection.queue(frame::encode_json(Kind::Request, stream, &request));
            Some(stream)
        };
        match part {
            NetworkPart::DnsListener => resolver.accept(wire.epoll),
            NetworkPart::DnsClient => resolver.serve_client(wire.epoll, id, wire.buffer, ask),
            _ => resolver.take_datagrams(ask),
        }
    }

    /// A frame of a stream that the runner has opened. An error is a breach of the protocol.
    pub fn take_frame(
        &mut self,
        frame: ReceivedFrame<'_>,
        wire: &mut Wire<'_>,
    ) -> Result<(), FrameError> {
        let stream = frame.stream;
        if self
            .resolver
            .as_ref()
            .is_some_and(|r| r.name_on(stream).is_some())
        {
            return self.take_resolution(&frame.to_frame(), wire);
        }
        // What the gateway says of a stream that has just ended means nothing any more.
        let Some(id) = self.by_stream.get(&stream).copied() else {
            return Ok(());
        };
        let Some(flow) = self.flows.get_mut(&id) else {
            return Ok(());
        };
        let breach = Err(FrameError::BadPayload(frame.kind));
        match frame.kind {
            Kind::Event => {
                if !flow.connected() {
                    self.close(id, wire);
                    return Ok(());
                }
                if self.by_stream.len() <= MAX_WIDE_FLOWS {
                    flow.widen(wire);
                }
            }
            Kind::Data => {
                if !flow.take_data(frame.payload) {
                    return breach;
                }
            }
            Kind::End => flow.take_end(),
            Kind::Response => {
                self.by_stream.remove(&stream);
                flow.take_response();
            }
            Kind::Credit => {
                if !flow.take_credit(u64::from(frame.to_frame().credit())) {
                    return breach;
                }
            }
            Kind::Error => {
                self.by_stream.remove(&stream);
                if flow.refused(&frame.to_frame().json::<Ended>()?) == Fate::Over {
                    self.forget(id, wire);
                    return Ok(());
                }
            }
            _ => return breach,
        }
        self.pump(id, wire);
        Ok(())
    }

    fn take_resolution(&mut self, frame: &Frame, wire: &mut Wire<'_>) -> Result<(), FrameError> {
        let found = match frame.kind {
            Kind::Response => Ok(frame.json::<Resolved>()?),
            Kind::Error => match frame.json::<Ended>()?.code.as_str() {
                "denied" => Err(Verdict::NoSuchName),
                _ => Err(Verdict::Failure),
            },
            kind => return Err(FrameError::BadPayload(kind)),
        };
        let Some(name) = self.resolver.as_ref().and_then(|r| r.name_on(frame.stream)) else {
            return Ok(());
        };
        let name = name.to_owned();
        let found = found.map(|resolved| self.address_of(&name, &resolved.ports, wire));
        if let Some(resolver) = &mut self.resolver {
            resolver.answer(frame.stream, found);
        }
        Ok(())
    }

    /// The address that stands for a name, with something that listens on its ports.
    fn address_of(&mut self, name: &str, ports: &[u16], wire: &mut Wire<'_>) -> Ipv4Addr {
        let (address, evicted) = self.names.allocate(name);
        if let Some(evicted) = evicted {
            self.stop_listening(evicted, wire);
        }
        for port in ports
            .iter()
            .copied()
            .take(MAX_PORTS)
            .filter(|port| *port > 0)
        {
            if self.listeners.len() >= MAX_LISTENERS
                || self.by_address.contains_key(&(address, port))
            {
                continue;
            }
            // A port that a server of the sandbox has on all addresses is not to be had.
            if let Ok(socket) = listen(address, port) {
                let _ = self.add_listener(socket, Some((address, port)), wire);
            }
        }
        address
    }

    fn stop_listening(&mut self, address: Ipv4Addr, wire: &Wire<'_>) {
        let gone: Vec<(Ipv4Addr, u16)> = self
            .by_address
            .keys()
            .filter(|(other, _)| *other == address)
            .copied()
            .collect();
        for key in gone {
            if let Some(id) = self.by_address.remove(&key)
                && let Some(mut listener) = self.listeners.remove(&id)
            {
                let part = NetworkPart::Listener;
                let _ = listener
                    .watch
                    .set(wire.epoll, &listener.socket, 0, part, id);
            }
        }
    }

    fn add_listener(
        &mut self,
        socket: TcpListener,
        address: Option<(Ipv4Addr, u16)>,
        wire: &Wire<'_>,
    ) -> io::Result<()> {
        let id = self.take_id();
        let mut watch = Watch::default();
        watch.set(
            wire.epoll,
            &socket,
            libc::EPOLLIN,
            NetworkPart::Listener,
            id,
        )?;
        if let Some(address) = address {
            self.by_address.insert(address, id);
        }
        let listener = Listener {
            socket,
            watch,
            address,
        };
        self.listeners.insert(id, listener);
        Ok(())
    }

    fn accept(&mut self, id: u32, wire: &mut Wire<'_>) {
        loop {
            let Some(listener) = self.listeners.get(&id) else {
                return;
            };
            let address = listener.address;
            let socket = match listener.socket.accept() {
                Ok((socket, _)) => socket,
                Err(error) if is_exhaustion(&error) => return self.rest(wire),
                Err(_) => return,
            };
            if self.flows.len() >= MAX_FLOWS || socket.set_nonblocking(true).is_err() {
                continue;
            }
            let wanted = match address {
                None => None,
                Some((address, port)) => match self.names.name_of(address) {
                    Some(name) => Some(Wanted {
                        host: name.to_string(),
                        port,
                        via: Via::Transparent,
                        forwarded: None,
                    }),
                    None => continue,
                },
            };
            let is_transparent = wanted.is_some();
            let flow_id = self.take_id();
            self.flows
                .insert(flow_id, Flow::new(flow_id, socket, wanted));
            if is_transparent {
                self.ask(flow_id, wire);
            }
            self.pump(flow_id, wire);
        }
    }

    /// Without a free descriptor the same connection would be told of again and again.
    fn rest(&mut self, wire: &Wire<'_>) {
        self.exhausted = true;
        self.watch_listeners(0, wire.epoll);
    }

    fn watch_listeners(&mut self, interest: i32, epoll: &Epoll) {
        for (id, listener) in &mut self.listeners {
            let part = NetworkPart::Listener;
            let _ = listener
                .watch
                .set(epoll, &listener.socket, interest, part, *id);
        }
    }

    /// Asks the gateway for the connection that a flow wants.
    fn ask(&mut self, id: u32, wire: &mut Wire<'_>) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let (Some(request), Some(stream)) = (
            flow.wanted().map(Wanted::request),
            take_stream(&mut self.next_stream),
        ) else {
            return self.forget(id, wire);
        };
        flow.stream = stream;
        self.by_stream.insert(stream, id);
        wire.send_json(Kind::Request, stream, &request);
    }

    fn pump(&mut self, id: u32, wire: &mut Wire<'_>) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        match flow.pump(wire) {
            Fate::Goes => {}
            Fate::Asks => self.ask(id, wire),
            Fate::Over => self.forget(id, wire),
            Fate::Broken => self.close(id, wire),
        }
    }

    /// The connection to the gateway takes bytes again.
    pub fn pump_all(&mut self, wire: &mut Wire<'_>) {
        let ids: Vec<u32> = self.flows.keys().copied().collect();
        for id in ids {
            self.pump(id, wire);
        }
    }

    /// Breaks a connection on both sides.
    fn close(&mut self, id: u32, wire: &mut Wire<'_>) {
        if let Some(flow) = self.flows.get(&id)
            && flow.stream != 0
        {
            flow.reset();
            wire.send(Kind::Cancel, flow.stream, &[]);
        }
        self.forget(id, wire);
    }

    fn forget(&mut self, id: u32, wire: &Wire<'_>) {
        if let Some(mut flow) = self.flows.remove(&id) {
            self.by_stream.remove(&flow.stream);
            flow.unwatch(wire.epoll);
        }
        if self.exhausted {
            self.exhausted = false;
            self.watch_listeners(libc::EPOLLIN, wire.epoll);
        }
    }

    fn take_id(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }
}

/// None when all streams of a connection are used up.
fn take_stream(next: &mut u32) -> Option<u32> {
    let stream = *next;
    *next = stream.checked_add(1)?;
    Some(stream)
}

fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

fn listen(address: Ipv4Addr, port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((address, port))?;
    listener.set_nonblocking(true)?;
    // SAFETY: plain system call on a socket that we own; it only makes the queue longer.
    sys::check(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) })?;
    Ok(listener)
}
