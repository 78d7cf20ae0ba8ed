//! A command's input, as its writer sends it and the command takes it.

use crate::execs::exec::{Address, Serial, State};
use crate::processes::launch;
use crate::server::event_loop::Server;
use crate::sys;
use crate::server::token::Token;
use std::io;
use std::os::fd::AsRawFd;

impl Server {
    pub fn push_stdin(&mut self, serial: Serial, address: Address, data: Vec<u8>) {
        let length = data.len();
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        let open = exec.request.stdin
            && exec.state != State::Done
            && !exec.stdin.closing
            && exec.stdin.source == Some(address);
        if !open {
            // Nobody will read it; the writer may go on all the same.
            self.grant(address, length);
            return;
        }
        exec.stdin.waiting += length;
        exec.stdin.mid_line = data.last().is_some_and(|last| *last != b'\n');
        exec.stdin.queue.push_back(data);
        self.feed_stdin(serial);
    }

    pub fn close_stdin(&mut self, serial: Serial) {
        if let Some(exec) = self.execs.get_mut(serial)
            && !exec.stdin.closing
        {
            exec.stdin.closing = true;
            if let (true, Some(terminal)) = (exec.on_terminal, &exec.output[0]) {
                // The end of input on a terminal is a character; on a line that was begun, the
                // first one only hands over what there is of it.
                let end = launch::end_of_input(terminal.as_raw_fd());
                let characters = if exec.stdin.mid_line { 2 } else { 1 };
                exec.stdin.queue.push_back(vec![end; characters]);
            }
        }
        self.feed_stdin(serial);
    }

    /// Writes what stdin takes; the writer gets credit for it.
    pub fn feed_stdin(&mut self, serial: Serial) {
        let Some(exec) = self.execs.get_mut(serial) else {
            return;
        };
        let stdin = &mut exec.stdin;
        if !stdin.taken {
            return;
        }
        let Some(fd) = stdin.fd.as_ref().map(AsRawFd::as_raw_fd) else {
            return;
        };
        let mut written = 0;
        let mut blocked = false;
        while let Some(first) = stdin.queue.front_mut() {
            match sys::write(fd, first) {
                Ok(n) => {
                    written += n;
                    first.drain(..n);
                    if first.is_empty() {
                        stdin.queue.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    blocked = true;
                    break;
                }
                Err(_) => {
                    // The command has closed its stdin: the rest goes nowhere.
                    written = stdin.waiting;
                    stdin.queue.clear();
                    stdin.closing = true;
                }
            }
        }
        // Characters that the runner adds itself are nobody's to get credit for.
        let written = written.min(stdin.waiting);
        stdin.waiting -= written;
        let token = Token::Stdin(serial).pack();
        if blocked && !stdin.watched {
            stdin.watched = self.epoll.add(fd, libc::EPOLLOUT, token).is_ok();
        } else if !blocked && stdin.watched {
            self.epoll.remove(fd);
            stdin.watched = false;
        }
        if stdin.closing && stdin.queue.is_empty() {
            stdin.fd = None;
        }
        let stale = written.min(stdin.stale);
        stdin.stale -= stale;
        if let Some(source) = stdin.source {
            self.grant(source, written - stale);
        }
    }
}
