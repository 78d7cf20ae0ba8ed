//! The sandbox's network: names and a proxy inside, and every byte through the daemon's gateway.
//!
//! SECURITY: the runner makes no policy decisions. The gateway decides about each name and each
//! connection and makes the connections; code that captured the runner could request nothing beyond
//! its policy.

mod authority;
mod dns;
mod flow;
mod gateway;
mod handshake;
mod http;
mod http_body;
mod listeners;
mod names;
mod resolver;
mod socks;
mod window;
mod wire;

use crate::connections::{Address, ConnectionId, Stream};
use crate::protocol::failure::Failure;
use crate::protocol::frame::{FrameError, Kind, ReceivedFrame};
use crate::server::context::Context;
use crate::server::token::NetworkPart;
use gateway::Gateway;
use std::net::Ipv4Addr;
use wire::Wire;

/// Streams that the runner opens have this bit; those of the daemon do not.
pub const RUNNER_STREAM: u32 = 1 << 31;

/// Closed until the daemon offers a gateway.
#[derive(Default)]
pub struct Network(Option<Box<Gateway>>);

impl Network {
    /// Uses the gateway that the daemon offers on this connection: opens the network, or moves it
    /// there.
    pub fn open(&mut self, address: Address, cx: &mut Context) -> Result<(), Failure> {
        match &mut self.0 {
            Some(gateway) => {
                let before = gateway.home();
                gateway.move_to(address, &cx.poll);
                let moved = Failure::new("cancelled", "another connection offers the gateway now");
                cx.connections.answer(before, Kind::Error, &moved);
            }
            None => {
                let opened = Gateway::open(address, &cx.poll)
                    .map_err(|error| Failure::io("listen for", "the proxy", &error))?;
                self.0 = Some(Box::new(opened));
            }
        }
        cx.connections.open(address, Stream::Network);
        if let Some(gateway) = &self.0 {
            let description = gateway.description();
            cx.connections.send_json(address, Kind::Event, &description);
        }
        Ok(())
    }

    /// The gateway's connection is gone; the next one takes over.
    pub fn lose_connection(&mut self, connection: ConnectionId, cx: &Context) {
        if let Some(gateway) = &mut self.0
            && gateway.home().connection == connection
        {
            gateway.lose_home(&cx.poll);
        }
    }

    /// The daemon withdraws the gateway: the sandbox no longer has a network.
    pub fn close(&mut self, cx: &Context) {
        if let Some(mut gateway) = self.0.take() {
            gateway.lose_home(&cx.poll);
        }
    }

    /// Where the network listens; these listeners are not servers of the sandbox.
    pub fn listening(&self) -> Vec<(Ipv4Addr, u16)> {
        self.0.as_ref().map_or_else(Vec::new, |g| g.listening())
    }

    /// A descriptor of the network is ready.
    pub fn serve(&mut self, part: NetworkPart, id: u32, cx: &mut Context) {
        if let Some((gateway, mut wire)) = self.parts(cx) {
            gateway.serve(part, id, &mut wire);
        }
    }

    /// The connection accepts bytes again.
    pub fn pump(&mut self, connection: ConnectionId, cx: &mut Context) {
        if let Some((gateway, mut wire)) = self.parts(cx)
            && gateway.home().connection == connection
        {
            gateway.pump_all(&mut wire);
        }
    }

    /// A frame of a stream that the runner has opened. An error is a breach of the protocol.
    pub fn take_frame(
        &mut self,
        connection: ConnectionId,
        frame: ReceivedFrame<'_>,
        cx: &mut Context,
    ) -> Result<(), FrameError> {
        match self.parts(cx) {
            Some((gateway, mut wire)) if gateway.home().connection == connection => {
                gateway.take_frame(frame, &mut wire)
            }
            _ => Ok(()),
        }
    }

    /// The gateway, while its connection is open, and the access to it.
    fn parts<'a>(&'a mut self, cx: &'a mut Context) -> Option<(&'a mut Gateway, Wire<'a>)> {
        let gateway = self.0.as_deref_mut()?;
        let wire = Wire {
            poll: &cx.poll,
            outgoing: cx.connections.outgoing(gateway.home().connection)?,
            buffer: &mut cx.buffer,
        };
        Some((gateway, wire))
    }
}
