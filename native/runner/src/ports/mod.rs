//! TCP ports of the sandbox: connections to them, carried on streams, and which of them are open.

mod dial;
mod listing;
mod loopback;

pub use listing::list;

use crate::connections::{Address, Stream};
use crate::protocol::failure::Failure;
use crate::protocol::frame::Kind;
use crate::server::context::Context;
use dial::{Dial, Fate};
use serde_json::json;
use std::collections::HashMap;

const MAX_DIALS: usize = 256;

/// Identifies a connection to a port; numbers are never reused.
pub type DialId = u32;

/// The open connections to ports.
#[derive(Default)]
pub struct Ports {
    dials: HashMap<DialId, Dial>,
    next: DialId,
}

impl Ports {
    pub fn dial(&mut self, address: Address, port: u16, cx: &mut Context) -> Result<(), Failure> {
        if self.dials.len() >= MAX_DIALS {
            return Err(Failure::new("busy", "too many connections are open"));
        }
        let id = self.next;
        let mut dial = Dial::begin(id, address, port, &cx.poll)
            .map_err(|error| Failure::io("connect to port", &port.to_string(), &error))?;
        self.next += 1;
        cx.connections.open(address, Stream::Dial(id));
        dial.announce(cx);
        self.dials.insert(id, dial);
        Ok(())
    }

    /// The socket is ready.
    pub fn serve(&mut self, id: DialId, ready: i32, cx: &mut Context) {
        self.with(id, cx, |dial, cx| dial.serve(ready, cx));
    }

    /// Bytes from the peer, for the port.
    pub fn write(&mut self, id: DialId, data: Vec<u8>, cx: &mut Context) {
        self.with(id, cx, |dial, cx| dial.write(data, cx));
    }

    /// The peer will send nothing more.
    pub fn end_input(&mut self, id: DialId, cx: &mut Context) {
        self.with(id, cx, Dial::end_input);
    }

    /// False if the peer credits more than it received.
    pub fn credit(&mut self, id: DialId, bytes: u64, cx: &mut Context) -> bool {
        if let Some(dial) = self.dials.get_mut(&id)
            && !dial.take_credit(bytes)
        {
            return false;
        }
        self.with(id, cx, Dial::resume);
        true
    }

    pub fn close(&mut self, id: DialId, cx: &Context) {
        if let Some(dial) = self.dials.remove(&id) {
            dial.unwatch(&cx.poll);
        }
    }

    fn with(
        &mut self,
        id: DialId,
        cx: &mut Context,
        act: impl FnOnce(&mut Dial, &mut Context) -> Fate,
    ) {
        let Some(dial) = self.dials.get_mut(&id) else {
            return;
        };
        let fate = act(dial, cx);
        let address = dial.address();
        match fate {
            Fate::Open => {}
            Fate::Over => {
                self.close(id, cx);
                cx.connections.answer(address, Kind::Response, &json!({}));
            }
            Fate::Broken(failure) => {
                self.close(id, cx);
                cx.connections.answer(address, Kind::Error, &failure);
            }
        }
    }
}
