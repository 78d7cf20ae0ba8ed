//! Dispatches each incoming frame to the part that handles it.

use crate::connections::{Address, ConnectionId, Stream};
use crate::files;
use crate::network::RUNNER_STREAM;
use crate::ports;
use crate::protocol::failure::Failure;
use crate::protocol::frame::{Frame, FrameError, Kind, ReceivedFrame};
use crate::protocol::message::Request;
use crate::sandbox::usage;
use crate::server::Server;
use crate::sys;
use crate::workers::Pace;
use serde_json::{Value, json};

impl Server {
    /// An error here is a protocol violation and closes the connection.
    pub(super) fn take_frame(
        &mut self,
        id: ConnectionId,
        frame: ReceivedFrame<'_>,
    ) -> Result<(), FrameError> {
        let cx = &mut self.context;
        if cx.connections.take_hello(id, frame)? {
            for replaced in cx.connections.replaced() {
                sys::log("connection closed: another daemon serves this sandbox");
                self.close_connection(replaced);
            }
            return Ok(());
        }
        if frame.stream & RUNNER_STREAM != 0 {
            return self.network.take_frame(id, frame, cx);
        }
        let frame = frame.to_frame();
        let address = Address {
            connection: id,
            stream: frame.stream,
        };
        match frame.kind {
            Kind::Request if cx.connections.can_open(address) => {
                match self.take_request(address, &frame) {
                    Ok(None) => {}
                    Ok(Some(answer)) => {
                        let connections = &mut self.context.connections;
                        connections.answer(address, Kind::Response, &answer);
                    }
                    Err(failure) => self.refuse(address, &failure),
                }
                Ok(())
            }
            Kind::Data => self.take_data(address, frame.payload),
            Kind::End => {
                self.take_end(address);
                Ok(())
            }
            Kind::Credit if self.take_credit(address, u64::from(frame.credit())) => Ok(()),
            Kind::Cancel => {
                self.take_cancel(address);
                Ok(())
            }
            kind => Err(FrameError::BadPayload(kind)),
        }
    }

    /// Returns the answer, or none if the opened stream will send one.
    fn take_request(&mut self, address: Address, frame: &Frame) -> Result<Option<Value>, Failure> {
        let request: Request = frame
            .json()
            .map_err(|error| Failure::invalid(error.to_string()))?;
        let cx = &mut self.context;
        let commands = &mut self.commands;
        Ok(match request {
            Request::Exec(request) => {
                commands.request(address, request, cx)?;
                None
            }
            Request::Attach(request) => {
                commands.attach(address, &request, cx)?;
                None
            }
            Request::Signal {
                exec_id,
                signal,
                tree,
            } => {
                let delivered = commands.signal(&exec_id, signal, tree, cx)?;
                Some(json!({ "delivered": delivered }))
            }
            Request::Resize {
                exec_id,
                rows,
                cols,
            } => {
                commands.resize(&exec_id, rows, cols)?;
                Some(json!({}))
            }
            Request::Execs {} => Some(json!({ "execs": commands.list() })),
            Request::Forget { exec_id } => {
                commands.forget(&exec_id, cx)?;
                Some(json!({}))
            }
            Request::Cancel { exec_id } => {
                let cancelled = commands.cancel(&exec_id, cx)?;
                Some(json!({ "cancelled": cancelled }))
            }
            Request::Shells {} => Some(json!({ "shells": commands.list_shells() })),
            Request::CloseShell { shell } => {
                commands.close_shell(&shell, cx)?;
                Some(json!({}))
            }
            Request::Dial { port } => {
                self.ports.dial(address, port, cx)?;
                None
            }
            Request::Network {} => {
                self.network.open(address, cx)?;
                None
            }
            Request::Ports {} => {
                let hidden = self.network.listening();
                let work = Box::new(move |_: &_| ports::list(&hidden));
                self.workers.start(address, Pace::Quick, work, cx);
                None
            }
            Request::Ping {} => Some(self.status()),
            Request::File(request) => {
                let pace = files::pace(&request);
                let work = files::work(request, self.sandbox.workdir.clone());
                self.workers.start(address, pace, work, cx);
                None
            }
        })
    }

    fn status(&self) -> Value {
        let mut status = json!({
            "uptime_ms": self.booted.elapsed().as_millis() as u64,
            "rss_bytes": usage::resident_bytes(),
            "shell": self.commands.shell_kind(),
            "tracking": self.commands.tracking(),
            "disk_used_bytes": usage::used_bytes(&self.sandbox.workdir),
        });
        self.sandbox.limits.describe(&mut status);
        status
    }

    fn take_data(&mut self, address: Address, data: Vec<u8>) -> Result<(), FrameError> {
        let cx = &mut self.context;
        match cx.connections.take_data(address, data.len())? {
            None => {}
            Some(Stream::Work(mailbox)) => mailbox.deliver(data),
            Some(&mut Stream::Dial(dial)) => self.ports.write(dial, data, cx),
            Some(&mut Stream::Exec { serial, .. }) => {
                self.commands.push_stdin(serial, address, data, cx);
            }
            Some(Stream::Collecting(_)) => self.commands.collect(address, data, cx),
            Some(Stream::Network) => return Err(FrameError::BadPayload(Kind::Data)),
        }
        Ok(())
    }

    fn take_end(&mut self, address: Address) {
        let cx = &mut self.context;
        match cx.connections.take_end(address) {
            None | Some(Stream::Network) => {}
            Some(Stream::Work(mailbox)) => mailbox.deliver_end(),
            Some(&mut Stream::Dial(dial)) => self.ports.end_input(dial, cx),
            Some(&mut Stream::Exec { serial, stdin }) => {
                if stdin {
                    self.commands.close_stdin(serial, cx);
                }
            }
            Some(Stream::Collecting(_)) => {
                let failure = Failure::invalid("the command text is shorter than announced");
                self.refuse(address, &failure);
            }
        }
    }

    /// Returns false if more is acknowledged than was sent.
    fn take_credit(&mut self, address: Address, bytes: u64) -> bool {
        let cx = &mut self.context;
        match cx.connections.stream(address) {
            None | Some(Stream::Collecting(_) | Stream::Network) => true,
            Some(Stream::Work(mailbox)) => mailbox.add_credit(bytes),
            Some(&mut Stream::Exec { serial, .. }) => {
                self.commands.acknowledge(serial, address, bytes, cx)
            }
            Some(&mut Stream::Dial(dial)) => self.ports.credit(dial, bytes, cx),
        }
    }

    fn take_cancel(&mut self, address: Address) {
        let cx = &mut self.context;
        match cx.connections.stream(address) {
            // The thread answers.
            Some(Stream::Work(mailbox)) => return mailbox.cancel(),
            Some(&mut Stream::Exec { serial, .. }) => {
                return self.commands.drop_reader(serial, address, cx);
            }
            Some(&mut Stream::Dial(dial)) => self.ports.close(dial, cx),
            Some(Stream::Network) => self.network.close(cx),
            Some(Stream::Collecting(_)) => {}
            None => return,
        }
        self.refuse(address, &Failure::cancelled());
    }

    fn refuse(&mut self, address: Address, failure: &Failure) {
        (self.context.connections).answer(address, Kind::Error, failure);
    }
}
