//! A command's output: from its pipes into the spool, from the spool to its readers.

use crate::connections::connection::OUT_BUSY;
use crate::protocol::failure::Failure;
use crate::execs::exec::{Address, Serial, State};
use crate::protocol::frame::{self, INITIAL_CREDIT, Kind};
use crate::protocol::message::Until;
use crate::server::event_loop::Server;
use crate::execs::spool::PIECE;
use crate::sys;
use crate::server::token::Token;
use std::io;
use std::os::fd::AsRawFd;

impl Server {
    /// Begins to watch a command's output.
    pub fn watch_output(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get(serial) else {
            return;
        };
        for (which, fd) in exec.output.iter().enumerate() {
            if let Some(fd) = fd {
                let token = Token::Output(serial, which as u8).pack();
                if let Err(error) = self.epoll.add(fd.as_raw_fd(), libc::EPOLLIN, token) {
                    sys::log(&format!("cannot watch output: {error}"));
                }
            }
        }
    }

    pub fn take_output(&mut self, serial: Serial, which: u8) {
        let other = 1 - which;
        // With both pipes full, the one that was written to longer ago comes first: that is
        // as near to the true order as two pipes allow.
        if self.older_output_waits(serial, which, other) {
            self.read_output(serial, other, usize::MAX);
        }
        self.read_output(serial, which, usize::MAX);
        if let Some(exec) = self.execs.get_mut(serial)
            && exec.forgotten
        {
            exec.spool.discard_to(u64::MAX);
            self.drop_if_over(serial);
            return;
        }
        self.pause_output(serial);
        self.pump(serial);
    }

    fn older_output_waits(&self, serial: Serial, which: u8, other: u8) -> bool {
        let Some(exec) = self.execs.get(serial) else {
            return false;
        };
        match (&exec.output[which as usize], &exec.output[other as usize]) {
            (Some(this), Some(that)) => {
                sys::bytes_waiting(that.as_raw_fd()) > 0
                    && sys::modified_ns(that.as_raw_fd()) < sys::modified_ns(this.as_raw_fd())
            }
            _ => false,
        }
    }

    /// Reads one pipe once, or `limit` bytes.
    pub fn read_output(&mut self, serial: Serial, which: u8, mut limit: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let once = limit == usize::MAX;
        let now = self.now();
        if let Some(exec) = self.execs.get_mut(serial) {
            let descriptor = if which == 0 { 1 } else { 2 };
            while let Some(fd) = exec.output[which as usize].as_ref().map(AsRawFd::as_raw_fd) {
                let room = limit.min(buffer.len());
                match sys::read(fd, &mut buffer[..room]) {
                    Ok(0) => {
                        self.epoll.remove(fd);
                        exec.output[which as usize] = None;
                    }
                    Ok(n) => {
                        // A shell that is interrupted begins a new line.
                        let of_shell =
                            exec.ending.is_some() && exec.in_shell() && buffer[..n] == *b"\n";
                        if !exec.muted && !of_shell {
                            exec.spool.append(descriptor, &buffer[..n]);
                        }
                        exec.last_output = now;
                        limit -= n;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // A terminal whose last user has left answers with an error. A process on its
                    // way out has left it too, and would die of our closing it.
                    Err(_) => {
                        self.epoll.remove(fd);
                        if exec.on_terminal && exec.state != State::Done {
                            break;
                        }
                        exec.output[which as usize] = None;
                    }
                }
                if once || limit == 0 {
                    break;
                }
            }
        }
        self.buffer = buffer;
    }

    /// A running command whose reader does not keep up has to wait.
    fn pause_output(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        if exec.spool.full() && !exec.output_paused {
            exec.output_paused = true;
            for fd in exec.output.iter().flatten() {
                self.epoll.remove(fd.as_raw_fd());
            }
        }
    }

    fn resume_output(&mut self, serial: Serial) {
        let now = self.now();
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        if exec.output_paused && !exec.spool.full() {
            exec.output_paused = false;
            exec.last_output = now;
            self.watch_output(serial);
        }
    }

    /// Sends readers what they may have.
    pub fn pump(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        let mut answered = false;
        for reader in &mut exec.readers {
            let Some(connection) = self.connections.get_mut(&reader.address.connection) else {
                continue;
            };
            let done_at = exec.spool.done_at();
            let mut at_end = false;
            while !reader.answered {
                let chunk = exec.spool.at(reader.next).filter(|chunk| {
                    // What came after the end is for those who follow it.
                    reader.until == Until::Closed || done_at.is_none_or(|end| chunk.offset < end)
                });
                let Some(chunk) = chunk else {
                    at_end = true;
                    break;
                };
                if reader.credit == 0 || connection.out_bytes >= OUT_BUSY {
                    break;
                }
                let start = reader.next.max(chunk.offset);
                let data = &chunk.data[(start - chunk.offset) as usize..];
                let length = data.len().min(PIECE).min(reader.credit as usize);
                connection.queue(frame::encode_output(
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
            let Some(end) = &exec.end else { continue };
            let complete = at_end
                && match reader.until {
                    Until::Done => done_at.is_some(),
                    Until::Closed => exec.output.iter().all(Option::is_none),
                };
            if complete && !reader.answered {
                reader.answered = true;
                answered = true;
                connection.queue(frame::encode_json(
                    Kind::Response,
                    reader.address.stream,
                    end,
                ));
            }
        }
        if answered {
            self.after_acknowledgement(serial);
        }
    }

    pub fn pump_connection(&mut self, id: u32) {
        let serials: Vec<Serial> = self
            .execs
            .iter()
            .filter(|(_, exec)| exec.readers.iter().any(|r| r.address.connection == id))
            .map(|(serial, _)| serial)
            .collect();
        for serial in serials {
            self.pump(serial);
        }
    }

    /// A reader has consumed so many bytes; false when it got fewer than that.
    pub fn acknowledge(&mut self, serial: Serial, address: Address, mut bytes: u64) -> bool {
        let Some(exec) = self.execs.get_mut(serial) else {
            return true;
        };
        let Some(reader) = exec.readers.iter_mut().find(|r| r.address == address) else {
            return true;
        };
        reader.credit += bytes;
        if reader.credit > INITIAL_CREDIT {
            return false;
        }
        while let Some((end, length)) = reader.unacknowledged.front_mut() {
            if bytes < *length {
                *length -= bytes;
                reader.acknowledged = *end - *length;
                break;
            }
            bytes -= *length;
            reader.acknowledged = *end;
            reader.unacknowledged.pop_front();
        }
        self.after_acknowledgement(serial);
        self.pump(serial);
        true
    }

    pub fn after_acknowledgement(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        exec.discard_acknowledged();
        // Streams stay known until their last acknowledgement, which may come after the answer.
        let mut over = Vec::new();
        exec.readers.retain(|reader| {
            let finished = reader.answered && reader.unacknowledged.is_empty();
            if finished {
                over.push(reader.address);
            }
            !finished
        });
        for address in over {
            self.end_stream(address);
        }
        self.resume_output(serial);
    }

    pub fn drop_reader(&mut self, serial: Serial, address: Address) {
        let mut answered = false;
        if let Some(exec) = self.execs.get_mut(serial) {
            exec.readers.retain(|reader| {
                answered |= reader.address == address && reader.answered;
                reader.address != address
            });
            if exec.stdin.source == Some(address) {
                exec.stdin.source = None;
            }
        }
        if answered {
            self.end_stream(address);
        } else {
            self.answer(address, Kind::Error, &Failure::cancelled());
        }
        // The one that left may have been what the command waited for.
        self.after_acknowledgement(serial);
        self.pump(serial);
    }
}
