//! A command's input, as its writer sends it and the command reads it.

use crate::connections::Address;
use crate::execs::exec::{Exec, Serial, State};
use crate::processes::terminal;
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::server::token::Token;
use crate::sys;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub struct Stdin {
    pipe: Option<OwnedFd>,
    queue: VecDeque<Vec<u8>>,
    /// Bytes in the queue.
    waiting: usize,
    /// Bytes in the queue that an earlier source sent; they give no credit to any source.
    stale: usize,
    /// The command holds its end; bytes written to the pipe before could be lost.
    opened: bool,
    /// The last byte received does not end a line.
    mid_line: bool,
    /// Close when the queue is empty.
    closing: bool,
    source: Option<Address>,
    watched: bool,
}

impl Stdin {
    pub fn new(source: Option<Address>) -> Stdin {
        Stdin {
            pipe: None,
            queue: VecDeque::new(),
            waiting: 0,
            stale: 0,
            opened: false,
            mid_line: false,
            closing: false,
            source,
            watched: false,
        }
    }

    pub fn connect(&mut self, pipe: Option<OwnedFd>, opened: bool) {
        self.pipe = pipe;
        self.opened = opened;
    }

    /// Queued bytes stay in the queue.
    pub fn disconnect(&mut self, poll: &Poll) {
        if let Some(pipe) = self.pipe.take() {
            poll.remove(pipe.as_raw_fd());
        }
        self.watched = false;
        self.opened = false;
    }

    pub fn finish(&mut self, poll: &Poll) {
        self.queue.clear();
        self.disconnect(poll);
    }

    /// Another writer takes over.
    pub fn take_over(&mut self, source: Address) {
        self.source = Some(source);
        self.stale = self.waiting;
    }

    pub fn lose_source(&mut self, is_gone: impl Fn(Address) -> bool) {
        if self.source.is_some_and(is_gone) {
            self.source = None;
        }
    }

    fn accepts(&self, address: Address) -> bool {
        !self.closing && self.source == Some(address)
    }

    fn push(&mut self, data: Vec<u8>) {
        self.waiting += data.len();
        self.mid_line = data.last().is_some_and(|last| *last != b'\n');
        self.queue.push_back(data);
    }

    fn close(&mut self, terminal: Option<RawFd>) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        if let Some(master) = terminal {
            // End of input on a terminal is a character; on an unfinished line, the first one only
            // submits what has been typed.
            let characters = if self.mid_line { 2 } else { 1 };
            self.queue
                .push_back(vec![terminal::end_of_input(master); characters]);
        }
    }

    /// Writes as much as the command accepts, and credits its writer for it.
    fn feed(&mut self, serial: Serial, cx: &mut Context) {
        let Some(fd) = self.pipe.as_ref().map(AsRawFd::as_raw_fd) else {
            return;
        };
        if !self.opened {
            return;
        }
        let written = match sys::write_queue(fd, &mut self.queue) {
            Ok(written) => written,
            Err(_) => {
                // The command has closed its stdin, so the rest is dropped.
                self.queue.clear();
                self.closing = true;
                self.waiting
            }
        };
        let blocked = !self.queue.is_empty();
        // No source gets credit for characters that the runner has added.
        let written = written.min(self.waiting);
        self.waiting -= written;
        if blocked && !self.watched {
            let added = cx.poll.add(fd, libc::EPOLLOUT, Token::Stdin(serial));
            self.watched = added.is_ok();
        } else if !blocked && self.watched {
            cx.poll.remove(fd);
            self.watched = false;
        }
        if self.closing && self.queue.is_empty() {
            self.pipe = None;
        }
        let stale = written.min(self.stale);
        self.stale -= stale;
        if let Some(source) = self.source {
            cx.connections.grant(source, written - stale);
        }
    }
}

impl Exec {
    pub fn push_stdin(&mut self, address: Address, data: Vec<u8>, cx: &mut Context) {
        let open = self.request.stdin && self.state != State::Done && self.stdin.accepts(address);
        if !open {
            // The command will not read these bytes, but the writer can continue.
            cx.connections.grant(address, data.len());
            return;
        }
        self.stdin.push(data);
        self.feed_stdin(cx);
    }

    pub fn close_stdin(&mut self, cx: &mut Context) {
        let terminal = self.output[0].as_ref().filter(|_| self.on_terminal);
        self.stdin.close(terminal.map(AsRawFd::as_raw_fd));
        self.feed_stdin(cx);
    }

    /// The command now holds its end.
    pub fn stdin_opened(&mut self, cx: &mut Context) {
        self.stdin.opened = true;
        self.feed_stdin(cx);
    }

    pub fn feed_stdin(&mut self, cx: &mut Context) {
        self.stdin.feed(self.serial, cx);
    }
}
