//! The network while it is open: programs' connections and name queries, and the gateway's answers.

use crate::connections::Address;
use crate::network::RUNNER_STREAM;
use crate::network::dns::Verdict;
use crate::network::flow::{Ended, Fate, Flow};
use crate::network::handshake::{Via, Wanted};
use crate::network::listeners::Listeners;
use crate::network::names::{LOOPBACK_RANGE, Names, OWN_RANGE};
use crate::network::resolver::{self, Resolver};
use crate::network::wire::Wire;
use crate::protocol::frame::{self, Frame, FrameError, Kind, ReceivedFrame};
use crate::server::poll::Poll;
use crate::server::token::NetworkPart;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Where the proxy listens; the daemon puts it into the environment of commands.
const PROXY_PORT: u16 = 3128;
/// Concurrent connections of programs. Further ones are closed at once.
const MAX_FLOWS: usize = 1000;
/// Up to this number of connections, each may have a large window.
const MAX_WIDE_FLOWS: usize = 16;
/// Ports of one name at a time.
const MAX_PORTS: usize = 64;

pub struct Gateway {
    /// The daemon's request that opened the network; the gateway is at its other end.
    home: Address,
    /// Absent where the sandbox cannot have a name server; programs then only have the proxy.
    resolver: Option<Resolver>,
    names: Names,
    listeners: Listeners,
    flows: HashMap<u32, Flow>,
    by_stream: HashMap<u32, u32>,
    next_flow: u32,
    next_stream: u32,
}

#[derive(Deserialize)]
struct Resolved {
    ports: Vec<u16>,
}

impl Gateway {
    /// Starts listening. Fails only if the proxy cannot listen.
    pub fn open(home: Address, poll: &Poll) -> io::Result<Gateway> {
        let is_own = TcpListener::bind((Ipv4Addr::from_bits(OWN_RANGE.first.to_bits() + 1), 0));
        let range = match is_own {
            Ok(_) => OWN_RANGE,
            Err(_) => LOOPBACK_RANGE,
        };
        let mut gateway = Gateway {
            home,
            resolver: Resolver::open(poll).ok(),
            names: Names::new(range),
            listeners: Listeners::default(),
            flows: HashMap::new(),
            by_stream: HashMap::new(),
            next_flow: 0,
            next_stream: RUNNER_STREAM,
        };
        gateway.listeners.add_proxy(PROXY_PORT, poll)?;
        Ok(gateway)
    }

    pub fn home(&self) -> Address {
        self.home
    }

    /// The answer to the daemon when the network is open.
    pub fn description(&self) -> Value {
        let mode = match self.resolver {
            Some(_) => "transparent",
            None => "proxy",
        };
        json!({ "event": "ready", "mode": mode, "proxy_port": PROXY_PORT })
    }

    pub fn listening(&self) -> Vec<(Ipv4Addr, u16)> {
        let own = [PROXY_PORT, resolver::PORT].map(|port| (Ipv4Addr::LOCALHOST, port));
        self.listeners.addresses().chain(own).collect()
    }

    /// The connection is gone. Its flows are cut, and new ones wait for the next connection.
    pub fn lose_home(&mut self, poll: &Poll) {
        for flow in self.flows.values_mut() {
            flow.reset();
            flow.unwatch(poll);
        }
        self.flows.clear();
        self.by_stream.clear();
        self.listeners.pause(poll);
        if let Some(resolver) = &mut self.resolver {
            resolver.rest(poll);
        }
    }

    /// Another connection of the daemon takes over.
    pub fn move_to(&mut self, home: Address, poll: &Poll) {
        self.lose_home(poll);
        self.home = home;
        self.next_stream = RUNNER_STREAM;
        self.listeners.resume(poll);
        if let Some(resolver) = &mut self.resolver {
            resolver.resume(poll);
        }
    }

    /// A descriptor of the network is ready.
    pub fn serve(&mut self, part: NetworkPart, id: u32, wire: &mut Wire<'_>) {
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
        let outgoing = &mut *wire.outgoing;
        let next_stream = &mut self.next_stream;
        let ask = |name: &str| {
            let stream = take_stream(next_stream)?;
            let request = json!({ "op": "resolve", "name": name });
            outgoing.queue(frame::encode_json(Kind::Request, stream, &request));
            Some(stream)
        };
        match part {
            NetworkPart::DnsListener => resolver.accept(wire.poll),
            NetworkPart::DnsClient => resolver.serve_client(wire.poll, id, wire.buffer, ask),
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
        // Frames for a stream that has just ended are ignored.
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

    /// The address that represents a name, with listeners on its ports.
    fn address_of(&mut self, name: &str, ports: &[u16], wire: &Wire<'_>) -> Ipv4Addr {
        let (address, evicted) = self.names.allocate(name);
        if let Some(evicted) = evicted {
            self.listeners.remove(evicted, wire.poll);
        }
        for port in ports.iter().take(MAX_PORTS).filter(|port| **port > 0) {
            self.listeners.add_port(address, *port, wire.poll);
        }
        address
    }

    fn accept(&mut self, listener: u32, wire: &mut Wire<'_>) {
        while let Some((socket, address)) = self.listeners.accept(listener, wire.poll) {
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
            let id = self.next_flow;
            self.next_flow = id.wrapping_add(1);
            self.flows.insert(id, Flow::new(id, socket, wanted));
            if is_transparent {
                self.ask(id, wire);
            }
            self.pump(id, wire);
        }
    }

    /// Asks the gateway for the connection that a flow requests.
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

    /// The connection to the gateway accepts bytes again.
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
            flow.unwatch(wire.poll);
        }
        self.listeners.relieve(wire.poll);
    }
}

/// None if all streams of a connection are in use.
fn take_stream(next: &mut u32) -> Option<u32> {
    let stream = *next;
    *next = stream.checked_add(1)?;
    Some(stream)
}
