//! How the server's event loop drives the network.

use crate::connections::connection::Stream;
use crate::protocol::failure::Failure;
use crate::execs::exec::Address;
use crate::protocol::frame::{FrameError, Kind, ReceivedFrame};
use crate::network::{Network, Wire};
use crate::server::event_loop::Server;
use crate::server::token::NetworkPart;
use std::io;

impl Server {
    /// The daemon offers a gateway on this connection. The network opens, or moves to it.
    pub fn open_network(&mut self, address: Address) -> Result<(), Failure> {
        if let Some(network) = &mut self.network {
            let before = network.home;
            network.move_to(address, &self.epoll);
            let moved = Failure::new("cancelled", "another connection offers the gateway now");
            self.answer(before, Kind::Error, &moved);
        } else {
            let opened = match self.connections.get_mut(&address.connection) {
                None => return Ok(()),
                Some(connection) => Network::open(
                    address,
                    &mut Wire {
                        epoll: &self.epoll,
                        connection,
                        buffer: &mut self.buffer,
                    },
                ),
            };
            let failed = |error: io::Error| Failure::io("listen for", "the proxy", &error);
            self.network = Some(Box::new(opened.map_err(failed)?));
        }
        self.open(address, Stream::Network);
        if let Some(network) = &self.network {
            let description = network.description();
            self.send_json(address, Kind::Event, &description);
        }
        Ok(())
    }

    /// The connection of the gateway is gone; the next one takes over.
    pub fn lose_network_home(&mut self, connection: u32) {
        if let Some(network) = &mut self.network
            && network.home.connection == connection
        {
            network.lose_home(&self.epoll);
        }
    }

    /// The daemon withdraws the gateway: the sandbox has no network any more.
    pub fn close_network(&mut self) {
        if let Some(network) = self.network.take() {
            network.close_down(&self.epoll);
        }
    }

    pub fn serve_network(&mut self, part: NetworkPart, id: u32) {
        self.with_network(|network, wire| network.ready(part, id, wire));
    }

    pub fn pump_network(&mut self, connection: u32) {
        self.with_network(|network, wire| {
            if network.home.connection == connection {
                network.pump_all(wire);
            }
        });
    }

    /// A frame of a stream that the runner has opened.
    pub fn take_network_frame(
        &mut self,
        connection: u32,
        frame: ReceivedFrame<'_>,
    ) -> Result<(), FrameError> {
        let mut result = Ok(());
        self.with_network(|network, wire| {
            if network.home.connection == connection {
                result = network.take_frame(frame, wire);
            }
        });
        result
    }

    fn with_network(&mut self, act: impl FnOnce(&mut Network, &mut Wire<'_>)) {
        let Some(network) = &mut self.network else {
            return;
        };
        let Some(connection) = self.connections.get_mut(&network.home.connection) else {
            return;
        };
        let mut wire = Wire {
            epoll: &self.epoll,
            connection,
            buffer: &mut self.buffer,
        };
        act(network, &mut wire);
    }
}
