//! A command's output: from its pipes into the spool.

use crate::execs::exec::{Exec, State};
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::server::token::Token;
use crate::sys;
use std::io;
use std::os::fd::AsRawFd;

/// Larger than the capacity of a command's pipes.
const MUTED_BYTES: usize = 4 << 20;
const ONCE: usize = usize::MAX;

const TERMINAL_TRIES: u32 = 10;
const QUIET_CHECKS: u32 = 2;
const TERMINAL_BYTES: usize = 256 * 1024;

impl Exec {
    /// Starts watching the output.
    pub fn watch_output(&mut self, cx: &Context) {
        if std::mem::replace(&mut self.output_watched, true) {
            return;
        }
        for (which, fd) in self.output.iter().enumerate() {
            if let Some(fd) = fd {
                let token = Token::Output(self.serial, which as u8);
                if let Err(error) = cx.poll.add(fd.as_raw_fd(), libc::EPOLLIN, token) {
                    sys::log(&format!("cannot watch output: {error}"));
                }
            }
        }
    }

    pub(super) fn unwatch_output(&mut self, poll: &Poll) {
        if std::mem::take(&mut self.output_watched) {
            for fd in self.output.iter().flatten() {
                poll.remove(fd.as_raw_fd());
            }
        }
    }

    /// Closes a pipe that no process holds any more.
    fn close_output(&mut self, which: usize, poll: &Poll) {
        if let Some(fd) = self.output[which].take().filter(|_| self.output_watched) {
            poll.remove(fd.as_raw_fd());
        }
    }

    /// Stops reading, even if a process still holds the pipes.
    pub(super) fn close_outputs(&mut self, poll: &Poll) {
        for which in 0..self.output.len() {
            self.close_output(which, poll);
        }
    }

    /// One of the pipes is ready.
    pub(super) fn take_output(&mut self, which: u8, cx: &mut Context) {
        let other = 1 - which;
        // If both pipes have data, the one with the older write comes first: two pipes allow no
        // better order.
        if self.older_output_waits(which, other) {
            self.read_output(other, ONCE, cx);
        }
        self.read_output(which, ONCE, cx);
        if self.forgotten {
            self.spool.discard_to(u64::MAX);
            return;
        }
        self.pause_output(cx);
        self.pump(cx);
    }

    fn older_output_waits(&self, which: u8, other: u8) -> bool {
        match (&self.output[which as usize], &self.output[other as usize]) {
            (Some(this), Some(that)) => {
                sys::bytes_waiting(that.as_raw_fd()) > 0
                    && sys::modified_ns(that.as_raw_fd()) < sys::modified_ns(this.as_raw_fd())
            }
            _ => false,
        }
    }

    /// Reads one pipe once, or `limit` bytes.
    fn read_output(&mut self, which: u8, mut limit: usize, cx: &mut Context) {
        let once = limit == ONCE;
        let now = cx.clock.now();
        let descriptor = if which == 0 { 1 } else { 2 };
        while let Some(fd) = self.output[which as usize].as_ref().map(AsRawFd::as_raw_fd) {
            let room = limit.min(cx.buffer.len());
            match sys::read(fd, &mut cx.buffer[..room]) {
                Ok(0) => self.close_output(which as usize, &cx.poll),
                Ok(n) => {
                    let data = &cx.buffer[..n];
                    // An interrupted shell prints a newline.
                    let of_shell = self.stop.is_ending() && self.in_shell() && data == b"\n";
                    if !self.muted && !of_shell {
                        self.spool.append(descriptor, data);
                    }
                    self.last_output = now;
                    limit -= n;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A terminal returns an error once its last user has closed it. An exiting process
                // has closed it too, and closing our end would kill that process.
                Err(_) => {
                    cx.poll.remove(fd);
                    if self.on_terminal && self.state != State::Done {
                        break;
                    }
                    self.output[which as usize] = None;
                }
            }
            if once || limit == 0 {
                break;
            }
        }
    }

    /// Reads what is in the pipes now, and no more, because a background process may write forever.
    /// Returns whether more can come.
    pub(super) fn drain_output(&mut self, cx: &mut Context) -> bool {
        if self.on_terminal {
            self.drain_terminal(cx);
            let master = self.output[0].as_ref().map(AsRawFd::as_raw_fd);
            let state = sys::pipe_states([master, None])[0];
            return state.has_data || state.is_held;
        }
        let pipes = (self.output.each_ref()).map(|pipe| pipe.as_ref().map(AsRawFd::as_raw_fd));
        let states = sys::pipe_states(pipes);
        let first = u8::from(states[1].has_data && self.older_output_waits(0, 1));
        for which in [first, 1 - first] {
            let index = which as usize;
            if let (Some(fd), true) = (pipes[index], states[index].has_data) {
                self.read_output(which, sys::bytes_waiting(fd), cx);
            }
            if !states[index].is_held {
                self.close_output(index, &cx.poll);
            }
        }
        self.output.iter().any(Option::is_some)
    }

    /// Reads until the terminal closes or stays quiet: output crosses a terminal with a short
    /// delay, and the kernel does not report how much is on the way.
    fn drain_terminal(&mut self, cx: &mut Context) {
        let mut quiet = 0;
        for _ in 0..TERMINAL_TRIES {
            let before = self.spool.end();
            self.read_output(0, TERMINAL_BYTES, cx);
            if self.output[0].is_none() || self.spool.end() - before >= TERMINAL_BYTES as u64 {
                return;
            }
            // The end of a shell's command does not close its terminal.
            quiet = match self.spool.end() == before && self.shell.is_some() {
                true => quiet + 1,
                false => 0,
            };
            if quiet == QUIET_CHECKS {
                return;
            }
            sys::pause_ms(2);
        }
    }

    /// Records the output written so far and drops later output.
    pub fn mute(&mut self, cx: &mut Context) {
        for which in [0, 1] {
            self.read_output(which, MUTED_BYTES, cx);
        }
        self.muted = true;
    }

    /// Stops the command from receiving further output of its shell's terminal.
    pub fn release_terminal(&mut self, cx: &Context) {
        if let Some(fd) = self.output[0].take() {
            cx.poll.remove(fd.as_raw_fd());
        }
    }

    /// A running command must wait if its reader does not keep up.
    fn pause_output(&mut self, cx: &Context) {
        if self.spool.full() && !self.output_paused {
            self.output_paused = true;
            self.unwatch_output(&cx.poll);
        }
    }

    pub(super) fn resume_output(&mut self, cx: &Context) {
        if self.output_paused && !self.spool.full() {
            self.output_paused = false;
            self.last_output = cx.clock.now();
            self.watch_output(cx);
        }
    }
}
