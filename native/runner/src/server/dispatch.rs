//! What each incoming frame means.

use crate::connections::connection::{MAX_STREAMS, OpenStream, Stream};
use crate::protocol::failure::Failure;
use crate::execs::exec::{Address, Exec, State};
use crate::commands::requests::unknown;
use crate::files;
use crate::protocol::frame::{self, Frame, FrameError, Kind, ReceivedFrame};
use crate::protocol::message::{ClientHello, FileRequest, Request};
use crate::network::RUNNER_STREAM;
use crate::ports::listing;
use crate::processes::launch;
use crate::server::event_loop::Server;
use crate::workers::worker::Mailbox;
use serde_json::json;
use std::os::fd::AsRawFd;
use std::sync::Arc;

impl Server {
    /// An error here is a breach of the protocol and closes the connection.
    pub fn take_frame(&mut self, id: u32, frame: ReceivedFrame<'_>) -> Result<(), FrameError> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let address = Address {
            connection: id,
            stream: frame.stream,
        };
        if !connection.greeted {
            let hello: ClientHello = match frame.kind {
                Kind::Hello => frame.to_frame().json()?,
                kind => return Err(FrameError::BadPayload(kind)),
            };
            if hello.protocol != frame::PROTOCOL {
                return Err(FrameError::BadPayload(Kind::Hello));
            }
            connection.greeted = true;
            return Ok(());
        }
        if frame.stream & RUNNER_STREAM != 0 {
            return self.take_network_frame(id, frame);
        }
        let frame = frame.to_frame();
        match frame.kind {
            Kind::Request => {
                if frame.stream == 0
                    || connection.streams.contains_key(&frame.stream)
                    || connection.streams.len() >= MAX_STREAMS
                {
                    return Err(FrameError::BadPayload(Kind::Request));
                }
                if let Err(failure) = self.take_request(address, &frame) {
                    self.answer(address, Kind::Error, &failure);
                }
                Ok(())
            }
            Kind::Data => self.take_data(address, frame.payload),
            Kind::End => {
                self.take_end(address);
                Ok(())
            }
            Kind::Credit => match self.take_credit(address, u64::from(frame.credit())) {
                true => Ok(()),
                false => Err(FrameError::BadPayload(Kind::Credit)),
            },
            Kind::Cancel => {
                self.take_cancel(address);
                Ok(())
            }
            kind => Err(FrameError::BadPayload(kind)),
        }
    }

    fn take_request(&mut self, address: Address, frame: &Frame) -> Result<(), Failure> {
        let request: Request = frame
            .json()
            .map_err(|error| Failure::invalid(error.to_string()))?;
        match request {
            Request::Exec(request) => self.take_exec(address, request),
            Request::Attach(request) => self.attach(address, &request),
            Request::Signal {
                exec_id,
                signal,
                tree,
            } => {
                let delivered = self.signal_exec(&exec_id, signal, tree)?;
                self.answer(address, Kind::Response, &json!({ "delivered": delivered }));
                Ok(())
            }
            Request::Resize {
                exec_id,
                rows,
                cols,
            } => {
                let exec = self.find(&exec_id)?;
                let master = match &exec.output[0] {
                    Some(fd) if exec.on_terminal => fd.as_raw_fd(),
                    _ => return Err(Failure::invalid("the command has no terminal")),
                };
                launch::resize_terminal(master, rows, cols)
                    .map_err(|error| Failure::io("resize", &exec_id, &error))?;
                self.answer(address, Kind::Response, &json!({}));
                Ok(())
            }
            Request::Execs {} => {
                let execs: Vec<_> = self
                    .execs
                    .iter()
                    .filter(|(_, exec)| !exec.forgotten)
                    .map(|(_, exec)| exec.listing())
                    .collect();
                self.answer(address, Kind::Response, &json!({ "execs": execs }));
                Ok(())
            }
            Request::Forget { exec_id } => {
                if self.find(&exec_id)?.state != State::Done {
                    return Err(Failure::new("busy", "the command has not ended"));
                }
                if let Some(serial) = self.execs.find(&exec_id) {
                    self.forget(serial);
                }
                self.answer(address, Kind::Response, &json!({}));
                Ok(())
            }
            Request::Cancel { exec_id } => {
                let cancelled = self.cancel_exec(&exec_id)?;
                self.answer(address, Kind::Response, &json!({ "cancelled": cancelled }));
                Ok(())
            }
            Request::Shells {} => {
                let shells = self.list_shells();
                self.answer(address, Kind::Response, &json!({ "shells": shells }));
                Ok(())
            }
            Request::CloseShell { shell } => {
                self.close_shell(&shell)?;
                self.answer(address, Kind::Response, &json!({}));
                Ok(())
            }
            Request::Dial { port } => self.dial(address, port),
            Request::Network {} => self.open_network(address),
            Request::Ports {} => {
                let mailbox = Arc::new(Mailbox::new(address, self.outbox.clone()));
                self.open(address, Stream::Work(mailbox.clone()));
                let hidden = self.network.as_ref().map_or(Vec::new(), |n| n.listening());
                self.quick
                    .submit(mailbox, Box::new(move |_: &Mailbox| listing::list(&hidden)));
                Ok(())
            }
            Request::Ping {} => {
                let mut answer = json!({
                    "uptime_ms": self.booted.elapsed().as_millis() as u64,
                    "rss_bytes": crate::subcommands::probe::resident_bytes(),
                    "shell": self.shells.kind(),
                    "tracking": self.tracker.name(),
                    "disk_used_bytes": crate::subcommands::probe::used_bytes(&self.options.workdir),
                });
                if let Some(guest) = &self.options.guest {
                    answer["memory_bytes"] = guest.memory_bytes().into();
                    answer["pids"] = guest.pids().into();
                    answer["oom_kills"] = guest.kills().into();
                }
                self.answer(address, Kind::Response, &answer);
                Ok(())
            }
            Request::File(request) => {
                self.start_work(address, request);
                Ok(())
            }
        }
    }

    fn start_work(&mut self, address: Address, request: FileRequest) {
        let mailbox = Arc::new(Mailbox::new(address, self.outbox.clone()));
        self.open(address, Stream::Work(mailbox.clone()));
        let watches = matches!(request, FileRequest::Watch { .. });
        let streams = matches!(
            request,
            FileRequest::Read { .. }
                | FileRequest::Write { .. }
                | FileRequest::Append { .. }
                | FileRequest::Copy { .. }
                | FileRequest::TarIn { .. }
                | FileRequest::TarOut { .. }
        );
        let work = files::work(request, self.options.workdir.clone());
        if watches {
            self.streaming.submit_lasting(mailbox, work);
        } else if streams {
            self.streaming.submit(mailbox, work);
        } else {
            self.quick.submit(mailbox, work);
        }
    }

    pub fn open(&mut self, address: Address, stream: Stream) {
        if let Some(connection) = self.connections.get_mut(&address.connection) {
            connection
                .streams
                .insert(address.stream, OpenStream::new(stream));
        }
    }

    fn take_data(&mut self, address: Address, data: Vec<u8>) -> Result<(), FrameError> {
        let open = self
            .connections
            .get_mut(&address.connection)
            .and_then(|c| c.streams.get_mut(&address.stream));
        // A stream that has just ended may still be written to; that is no fault of the peer's.
        let Some(open) = open else { return Ok(()) };
        let length = data.len() as u64;
        if length > open.allowance || open.ended {
            return Err(FrameError::BadPayload(Kind::Data));
        }
        open.allowance -= length;
        match &mut open.stream {
            Stream::Work(mailbox) => mailbox.deliver(data),
            Stream::Dial(dial) => {
                let dial = *dial;
                self.write_dial(dial, data);
            }
            Stream::Exec { serial, .. } => {
                let serial = *serial;
                self.push_stdin(serial, address, data);
            }
            Stream::Collecting { .. } => self.collect(address, data),
            Stream::Network => return Err(FrameError::BadPayload(Kind::Data)),
        }
        Ok(())
    }

    /// Lets the peer send so many bytes more.
    pub fn grant(&mut self, address: Address, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if let Some(connection) = self.connections.get_mut(&address.connection)
            && let Some(open) = connection.streams.get_mut(&address.stream)
        {
            open.allowance += bytes as u64;
            connection.queue(frame::encode_credit(address.stream, bytes as u32));
        }
    }

    fn take_end(&mut self, address: Address) {
        let open = self
            .connections
            .get_mut(&address.connection)
            .and_then(|c| c.streams.get_mut(&address.stream));
        let Some(open) = open else { return };
        open.ended = true;
        match &open.stream {
            Stream::Work(mailbox) => mailbox.deliver_end(),
            Stream::Dial(dial) => {
                let dial = *dial;
                self.end_dial_input(dial);
            }
            Stream::Exec {
                serial,
                stdin: true,
            } => {
                let serial = *serial;
                self.close_stdin(serial);
            }
            Stream::Exec { .. } | Stream::Network => {}
            Stream::Collecting { .. } => {
                let failure = Failure::invalid("the command text is shorter than announced");
                self.answer(address, Kind::Error, &failure);
            }
        }
    }

    /// False when more is acknowledged than was sent.
    fn take_credit(&mut self, address: Address, bytes: u64) -> bool {
        let open = self
            .connections
            .get(&address.connection)
            .and_then(|c| c.streams.get(&address.stream));
        let Some(open) = open else { return true };
        match &open.stream {
            Stream::Work(mailbox) => mailbox.add_credit(bytes),
            Stream::Exec { serial, .. } => {
                let serial = *serial;
                self.acknowledge(serial, address, bytes)
            }
            Stream::Dial(dial) => {
                let dial = *dial;
                self.credit_dial(dial, bytes)
            }
            Stream::Collecting { .. } | Stream::Network => true,
        }
    }

    fn take_cancel(&mut self, address: Address) {
        let open = self
            .connections
            .get(&address.connection)
            .and_then(|c| c.streams.get(&address.stream));
        let Some(open) = open else { return };
        match &open.stream {
            Stream::Work(mailbox) => mailbox.cancel(),
            Stream::Exec { serial, .. } => {
                let serial = *serial;
                self.drop_reader(serial, address);
            }
            Stream::Dial(dial) => {
                let dial = *dial;
                self.drop_dial(dial);
                self.answer(address, Kind::Error, &Failure::cancelled());
            }
            Stream::Network => {
                self.close_network();
                self.answer(address, Kind::Error, &Failure::cancelled());
            }
            Stream::Collecting { .. } => {
                self.answer(address, Kind::Error, &Failure::cancelled());
            }
        }
    }

    pub fn find(&self, exec_id: &str) -> Result<&Exec, Failure> {
        self.execs
            .find(exec_id)
            .and_then(|serial| self.execs.get(serial))
            .ok_or_else(|| unknown(exec_id))
    }
}
