//! A command's output: from the spool to its readers, as fast as they acknowledge it.

use crate::connections::{Address, ConnectionId, Stream};
use crate::execs::exec::Exec;
use crate::execs::spool::PIECE;
use crate::protocol::failure::Failure;
use crate::protocol::frame::{self, INITIAL_CREDIT, Kind};
use crate::protocol::message::{AttachRequest, Until};
use crate::server::context::Context;
use std::collections::VecDeque;

pub struct Reader {
    pub(super) address: Address,
    /// The offset of the next byte to send.
    next: u64,
    /// Bytes that may still be sent.
    credit: u64,
    /// Pieces that were sent but not yet acknowledged: end offset and length.
    unacknowledged: VecDeque<(u64, u64)>,
    acknowledged: u64,
    until: Until,
    /// The answer has been sent; only acknowledgements are awaited.
    pub(super) answered: bool,
}

impl Reader {
    pub fn new(address: Address, offset: u64, until: Until) -> Reader {
        Reader {
            address,
            next: offset,
            credit: INITIAL_CREDIT,
            unacknowledged: VecDeque::new(),
            acknowledged: offset,
            until,
            answered: false,
        }
    }

    /// Returns false if the reader had not received that many bytes.
    fn acknowledge(&mut self, mut bytes: u64) -> bool {
        self.credit += bytes;
        if self.credit > INITIAL_CREDIT {
            return false;
        }
        while let Some((end, length)) = self.unacknowledged.front_mut() {
            if bytes < *length {
                *length -= bytes;
                self.acknowledged = *end - *length;
                break;
            }
            bytes -= *length;
            self.acknowledged = *end;
            self.unacknowledged.pop_front();
        }
        true
    }
}

impl Exec {
    pub(super) fn attach(
        &mut self,
        address: Address,
        request: &AttachRequest,
        cx: &mut Context,
    ) -> Result<(), Failure> {
        if request.offset > self.spool.end() {
            return Err(Failure::invalid("the offset is beyond the output"));
        }
        self.readers
            .push(Reader::new(address, request.offset, request.until));
        if request.stdin {
            self.stdin.take_over(address);
        }
        let stream = Stream::Exec {
            serial: self.serial,
            stdin: request.stdin,
        };
        cx.connections.open(address, stream);
        if self.announced {
            let event = self.started_event();
            cx.connections.send_json(address, Kind::Event, &event);
        }
        // The offset implies what was already consumed.
        self.after_acknowledgement(cx);
        self.pump(cx);
        Ok(())
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.readers.iter().map(|reader| reader.address)
    }

    pub(super) fn is_read_on(&self, connection: ConnectionId) -> bool {
        self.addresses()
            .any(|address| address.connection == connection)
    }

    /// Sends readers what they may receive.
    pub(super) fn pump(&mut self, cx: &mut Context) {
        let mut answered = false;
        for reader in &mut self.readers {
            let Some(outgoing) = cx.connections.outgoing(reader.address.connection) else {
                continue;
            };
            let done_at = self.spool.done_at();
            let mut at_end = false;
            while !reader.answered {
                let chunk = self.spool.at(reader.next).filter(|chunk| {
                    // Output after the end is for readers that follow it.
                    reader.until == Until::Closed || done_at.is_none_or(|end| chunk.offset < end)
                });
                let Some(chunk) = chunk else {
                    at_end = true;
                    break;
                };
                if reader.credit == 0 || outgoing.is_busy() {
                    break;
                }
                let start = reader.next.max(chunk.offset);
                let data = &chunk.data[(start - chunk.offset) as usize..];
                let length = data.len().min(PIECE).min(reader.credit as usize);
                outgoing.queue(frame::encode_output(
                    reader.address.stream,
                    chunk.descriptor,
                    chunk.seq,
                    start,
                    &data[..length],
                ));
                reader.next = start + length as u64;
                reader.credit -= length as u64;
                reader
                    .unacknowledged
                    .push_back((reader.next, length as u64));
            }
            let Some(end) = &self.end else { continue };
            let complete = at_end
                && match reader.until {
                    Until::Done => done_at.is_some(),
                    Until::Closed => self.output.iter().all(Option::is_none),
                };
            if complete && !reader.answered {
                reader.answered = true;
                answered = true;
                let stream = reader.address.stream;
                outgoing.queue(frame::encode_json(Kind::Response, stream, end));
            }
        }
        if answered {
            self.after_acknowledgement(cx);
        }
    }

    /// A reader has consumed this many bytes; false if it had not received that many.
    pub fn acknowledge(&mut self, address: Address, bytes: u64, cx: &mut Context) -> bool {
        let Some(reader) = self.readers.iter_mut().find(|r| r.address == address) else {
            return true;
        };
        if !reader.acknowledge(bytes) {
            return false;
        }
        self.after_acknowledgement(cx);
        self.pump(cx);
        true
    }

    /// Drops output that every present reader has acknowledged, and readers that have received
    /// everything.
    pub(super) fn after_acknowledgement(&mut self, cx: &mut Context) {
        if let Some(least) = self.readers.iter().map(|r| r.acknowledged).min() {
            self.spool.discard_to(least);
        }
        // Streams stay known until their last acknowledgement, which may come after the answer.
        self.readers.retain(|reader| {
            let finished = reader.answered && reader.unacknowledged.is_empty();
            if finished {
                cx.connections.end_stream(reader.address);
            }
            !finished
        });
        self.resume_output(cx);
    }

    /// True if the reader had received its answer.
    pub(super) fn drop_reader(&mut self, address: Address) -> bool {
        let mut answered = false;
        self.readers.retain(|reader| {
            answered |= reader.address == address && reader.answered;
            reader.address != address
        });
        self.stdin.lose_source(|source| source == address);
        answered
    }

    /// Commands may have been waiting for readers on a connection that is gone.
    pub(super) fn lose_connection(&mut self, connection: ConnectionId, cx: &mut Context) {
        let before = self.readers.len();
        self.readers.retain(|r| r.address.connection != connection);
        self.stdin
            .lose_source(|source| source.connection == connection);
        if self.readers.len() < before {
            self.after_acknowledgement(cx);
            self.pump(cx);
        }
    }
}
