//! The event loop: one thread that owns the parts and passes each event to the part that handles
//! it.
//!
//! Parts do not know each other. Each owns its state and gets the `Context` while it handles an
//! event: the poller, the clock and the daemon's connections.

pub mod clock;
pub mod context;
mod dispatch;
pub mod poll;
pub mod token;

use crate::commands::Commands;
use crate::connections::{ConnectionId, Connections, Stream};
use crate::network::Network;
use crate::ports::Ports;
use crate::protocol::frame::{Decoder, FrameError};
use crate::sandbox::Sandbox;
use crate::shells::RunDir;
use crate::sys::{self, Pages};
use crate::workers::Workers;
use clock::Clock;
use context::Context;
use poll::{Events, NO_EVENTS, Poll};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use token::Token;

/// Longer than any packet of a shell.
const READ_BYTES: usize = 128 * 1024;
/// Longer waits are split, so that a freeze can be distinguished from elapsed time.
const MAX_WAIT_MS: u128 = 500;
/// How long a command counts as just started. Starting a program takes longer.
const QUIET: Duration = Duration::from_micros(300);

/// The runner's start options, besides its sandbox.
pub struct Handles {
    pub listener: OwnedFd,
    pub signals: OwnedFd,
    /// The cgroup below which the commands' groups are created.
    pub cgroups: Option<OwnedFd>,
    pub run_dir: RunDir,
}

pub struct Server {
    context: Context,
    sandbox: Rc<Sandbox>,
    signals: OwnedFd,
    booted: Instant,
    stopping: bool,
    commands: Commands,
    workers: Workers,
    ports: Ports,
    network: Network,
}

impl Server {
    pub fn new(sandbox: Sandbox, handles: Handles) -> io::Result<Server> {
        let sandbox = Rc::new(sandbox);
        let poll = Poll::new()?;
        let signals = handles.signals;
        poll.add(signals.as_raw_fd(), libc::EPOLLIN, Token::Signals)?;
        Ok(Server {
            commands: Commands::new(sandbox.clone(), handles.cgroups, handles.run_dir, &poll)?,
            workers: Workers::new(sandbox.uid, sandbox.gid, &poll)?,
            ports: Ports::default(),
            network: Network::default(),
            context: Context {
                connections: Connections::listen(handles.listener, &poll)?,
                clock: Clock::default(),
                buffer: Pages::of(READ_BYTES)?,
                poll,
            },
            sandbox,
            signals,
            booted: Instant::now(),
            stopping: false,
        })
    }

    pub fn run(&mut self) -> io::Result<()> {
        self.commands.prestart_shell(&self.context);
        let mut events = NO_EVENTS;
        while !self.stopping {
            self.take_events(&mut events, self.timeout_ms())?;
            if self.commands.are_quiet() {
                // Its start and its end are then sent together.
                let before = Instant::now();
                let is_ready = self.context.poll.rest(QUIET)?;
                self.context.clock.waited(1, before.elapsed());
                if is_ready {
                    self.take_events(&mut events, 0)?;
                }
                self.commands.end_quiet(&mut self.context);
            }
            self.commands.run_deadlines(&mut self.context);
            self.flush();
        }
        Ok(())
    }

    fn take_events(&mut self, events: &mut Events, timeout_ms: i32) -> io::Result<()> {
        let before = Instant::now();
        let ready = self.context.poll.wait(events, timeout_ms)?;
        self.context.clock.waited(timeout_ms, before.elapsed());
        for (token, ready) in ready {
            self.handle(token, ready);
        }
        Ok(())
    }

    /// The time until the next action is due.
    fn timeout_ms(&self) -> i32 {
        match self.commands.next_deadline() {
            None if self.commands.need_checks() => MAX_WAIT_MS as i32,
            None => -1,
            // Rounded up, so that the loop does not spin in the last millisecond.
            Some(at) => at
                .saturating_duration_since(self.context.clock.now())
                .as_millis()
                .saturating_add(1)
                .min(MAX_WAIT_MS) as i32,
        }
    }

    fn handle(&mut self, token: Token, ready: i32) {
        let cx = &mut self.context;
        match token {
            Token::Listener => self.accept(),
            Token::Signals => self.take_signals(),
            Token::Connection(id) => self.serve_connection(id, ready),
            Token::Outbox => self.workers.forward(cx),
            Token::Output(serial, which) => self.commands.take_output(serial, which, cx),
            Token::Stdin(serial) => self.commands.feed_stdin(serial, cx),
            Token::Launch(serial) => self.commands.take_launch(serial, cx),
            Token::Report(shell) => self.commands.take_reports(shell, cx),
            Token::Openings => self.commands.take_openings(cx),
            Token::Dial(id) => self.ports.serve(id, ready, cx),
            Token::Network(part, id) => self.network.serve(part, id, cx),
        }
    }

    fn take_signals(&mut self) {
        let mut info = [0u8; std::mem::size_of::<libc::signalfd_siginfo>()];
        let mut children = false;
        while sys::read(self.signals.as_raw_fd(), &mut info).is_ok() {
            let signal = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]) as i32;
            if signal == libc::SIGCHLD {
                children = true;
            } else {
                self.stopping = true;
                self.commands.kill_all();
            }
        }
        if children {
            self.commands.reap(&mut self.context);
        }
    }

    fn accept(&mut self) {
        while self.context.connections.accept(&self.context.poll) {
            if let Some(oldest) = self.context.connections.surplus() {
                self.close_connection(oldest);
            }
        }
    }

    fn serve_connection(&mut self, id: ConnectionId, ready: i32) {
        if ready & (libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR) != 0 {
            self.receive(id);
        }
        if ready & libc::EPOLLOUT != 0 {
            self.flush_connection(id);
        }
    }

    fn receive(&mut self, id: ConnectionId) {
        let mut decoder = match self.context.connections.receive(id) {
            Ok(decoder) => decoder,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => return self.close_connection(id),
        };
        if let Err(violation) = self.take_frames(id, &mut decoder) {
            sys::log(&format!("connection closed: {violation}"));
            return self.close_connection(id);
        }
        self.context.connections.received(id, decoder);
    }

    fn take_frames(&mut self, id: ConnectionId, decoder: &mut Decoder) -> Result<(), FrameError> {
        while self.context.connections.is_open(id)
            && let Some(frame) = decoder.take_received()?
        {
            self.take_frame(id, frame)?;
        }
        Ok(())
    }

    fn close_connection(&mut self, id: ConnectionId) {
        let cx = &mut self.context;
        let Some(streams) = cx.connections.close(id, &cx.poll) else {
            return;
        };
        for stream in streams {
            match stream {
                Stream::Work(mailbox) => mailbox.cancel(),
                Stream::Dial(dial) => self.ports.close(dial, cx),
                Stream::Network => self.network.lose_connection(id, cx),
                Stream::Exec { .. } | Stream::Collecting(_) => {}
            }
        }
        self.commands.lose_connection(id, cx);
    }

    /// Sends what the sockets accept.
    fn flush(&mut self) {
        for id in self.context.connections.ids() {
            self.flush_connection(id);
            let cx = &mut self.context;
            if cx.connections.watch(id, &cx.poll).is_err() {
                self.close_connection(id);
            }
        }
    }

    fn flush_connection(&mut self, id: ConnectionId) {
        let cx = &mut self.context;
        match cx.connections.flush(id) {
            Ok(false) => {}
            // Work that waited for room continues now; no event would wake it.
            Ok(true) => {
                self.commands.pump_connection(id, cx);
                self.network.pump(id, cx);
            }
            Err(_) => self.close_connection(id),
        }
    }
}
