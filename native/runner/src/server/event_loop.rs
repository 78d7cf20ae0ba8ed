//! The event loop: one thread that owns all state and waits for whatever happens next.

use crate::connections::connection::{Connection, OUT_BUSY, Stream};
use crate::ports::dial::Dial;
use crate::execs::exec::{Address, ExecTable};
use crate::protocol::frame::{self, FrameError, Kind};
use crate::sandbox::guest_cgroup::GuestCgroup;
use crate::protocol::message::ServerHello;
use crate::network::Network;
use crate::sandbox::oom_score::OomScore;
use crate::shells::openings::Openings;
use crate::shells::run_dir::RunDir;
use crate::shells::named::Shells;
use crate::sys::{self, Epoll};
use crate::server::token::Token;
use crate::processes::tracker::Tracker;
use crate::workers::worker::{Outbox, Pool};
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAX_CONNECTIONS: usize = 16;
const READ_BYTES: usize = 128 * 1024;
/// A wait that took so much longer than asked for means that the sandbox was frozen.
const FROZEN: Duration = Duration::from_secs(1);

/// How the runner was started.
pub struct Options {
    pub listener: OwnedFd,
    /// What commands may have; the runner itself holds pipes of them all.
    pub open_files: libc::rlimit,
    pub oom_score: OomScore,
    pub cgroup_dir: Option<OwnedFd>,
    /// Of a kernel of the sandbox's own.
    pub guest: Option<GuestCgroup>,
    /// Tells how often the kernel has killed for want of memory.
    pub memory_events: Option<OwnedFd>,
    pub uid: u32,
    pub gid: u32,
    pub allow_user: bool,
    pub workdir: String,
    pub env: Vec<(String, String)>,
}

pub struct Server {
    pub options: Options,
    pub epoll: Epoll,
    pub signals: OwnedFd,
    pub run_dir: RunDir,
    pub boot_id: String,
    pub booted: Instant,
    pub connections: HashMap<u32, Connection>,
    next_connection: u32,
    pub execs: ExecTable,
    pub shells: Shells,
    pub openings: Openings,
    pub tracker: Tracker,
    pub outbox: Arc<Outbox>,
    /// For work that is soon done.
    pub quick: Pool,
    /// For work that lasts as long as its reader or writer takes.
    pub streaming: Pool,
    pub dials: HashMap<u32, Dial>,
    pub next_dial: u32,
    /// Absent until the daemon offers a gateway.
    pub network: Option<Box<Network>>,
    pub buffer: Vec<u8>,
    frozen: Duration,
    pub stopping: bool,
}

impl Server {
    pub fn new(mut options: Options, run_dir: RunDir, signals: OwnedFd) -> io::Result<Server> {
        let epoll = Epoll::new()?;
        let outbox = Arc::new(Outbox::new()?);
        sys::set_nonblocking(options.listener.as_raw_fd())?;
        epoll.add(
            options.listener.as_raw_fd(),
            libc::EPOLLIN,
            Token::Listener.pack(),
        )?;
        epoll.add(signals.as_raw_fd(), libc::EPOLLIN, Token::Signals.pack())?;
        epoll.add(
            outbox.wake_fd().as_raw_fd(),
            libc::EPOLLIN,
            Token::Wake.pack(),
        )?;
        let openings = Openings::new()?;
        epoll.add(openings.fd(), libc::EPOLLIN, Token::Openings.pack())?;
        Ok(Server {
            shells: Shells::default(),
            openings,
            tracker: Tracker::new(options.cgroup_dir.take(), options.uid, options.gid),
            quick: Pool::new(options.uid, options.gid, 4),
            streaming: Pool::new(options.uid, options.gid, 32),
            options,
            epoll,
            signals,
            run_dir,
            boot_id: sys::random_hex()?,
            booted: Instant::now(),
            connections: HashMap::new(),
            next_connection: 0,
            execs: ExecTable::default(),
            outbox,
            dials: HashMap::new(),
            next_dial: 0,
            network: None,
            buffer: vec![0; READ_BYTES],
            frozen: Duration::ZERO,
            stopping: false,
        })
    }

    pub fn run(&mut self) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        while !self.stopping {
            let timeout_ms = self.timeout_ms();
            let before = Instant::now();
            let n = self.epoll.wait(&mut events, timeout_ms)?;
            self.notice_freeze(before, timeout_ms);
            for event in &events[..n] {
                let (token, ready) = (Token::unpack(event.u64), event.events as i32);
                self.handle(token, ready);
            }
            self.run_timeouts();
            self.flush();
        }
        Ok(())
    }

    fn handle(&mut self, token: Token, ready: i32) {
        match token {
            Token::Listener => self.accept(),
            Token::Signals => self.take_signals(),
            Token::Wake => self.forward_parcels(),
            Token::Report(shell) => self.take_reports(shell),
            Token::Connection(id) => self.serve_connection(id, ready),
            Token::Output(serial, which) => self.take_output(serial, which),
            Token::Stdin(serial) => self.feed_stdin(serial),
            Token::Dial(id) => self.serve_dial(id, ready),
            Token::Launch(serial) => self.take_launch(serial),
            Token::Openings => self.take_openings(),
            Token::Network(part, id) => self.serve_network(part, id),
        }
    }

    /// The time for deadlines: it stands still while the sandbox is paused.
    pub fn now(&self) -> Instant {
        let now = Instant::now();
        now.checked_sub(self.frozen).unwrap_or(now)
    }

    fn notice_freeze(&mut self, before: Instant, timeout_ms: i32) {
        if timeout_ms < 0 {
            return;
        }
        // Waits are short while there are deadlines, so that hardly any time is lost here.
        let asked = Duration::from_millis(timeout_ms as u64);
        let took = before.elapsed();
        if took > asked + FROZEN {
            self.frozen += took - asked;
        }
    }

    fn accept(&mut self) {
        while let Ok(fd) = sys::accept(self.options.listener.as_raw_fd()) {
            if self.connections.len() >= MAX_CONNECTIONS {
                // The oldest is the likeliest to be a daemon that is no more.
                if let Some(oldest) = self.connections.keys().min().copied() {
                    self.close_connection(oldest);
                }
            }
            let id = self.next_connection;
            self.next_connection += 1;
            let mut connection = Connection::new(fd);
            let added = self.epoll.add(
                connection.fd.as_raw_fd(),
                connection.interest,
                Token::Connection(id).pack(),
            );
            if added.is_err() {
                continue;
            }
            let hello = ServerHello {
                protocol: frame::PROTOCOL,
                runner: env!("CARGO_PKG_VERSION"),
                boot_id: &self.boot_id,
            };
            connection.queue(frame::encode_json(Kind::Hello, 0, &hello));
            self.connections.insert(id, connection);
        }
    }

    fn serve_connection(&mut self, id: u32, ready: i32) {
        if ready & libc::EPOLLIN != 0 || ready & (libc::EPOLLHUP | libc::EPOLLERR) != 0 {
            self.receive(id);
        }
        if ready & libc::EPOLLOUT != 0 {
            if let Some(connection) = self.connections.get_mut(&id)
                && connection.flush().is_err()
            {
                self.close_connection(id);
                return;
            }
            self.pump_connection(id);
            self.pump_network(id);
        }
    }

    fn receive(&mut self, id: u32) {
        let received = match self.connections.get_mut(&id) {
            Some(connection) => connection.receive(),
            None => Err(io::Error::from(io::ErrorKind::NotConnected)),
        };
        match received {
            Ok(n) if n > 0 => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            _ => return self.close_connection(id),
        }
        let taken = self.take_frames(id);
        if let Err(violation) = taken {
            sys::log(&format!("connection closed: {violation}"));
            return self.close_connection(id);
        }
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.streams.is_empty()
        {
            connection.rest();
        }
    }

    fn take_frames(&mut self, id: u32) -> Result<(), FrameError> {
        // Taken out meanwhile, so that payloads can be looked at where they lie.
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let mut decoder = std::mem::take(&mut connection.decoder);
        while self.connections.contains_key(&id)
            && let Some(frame) = decoder.take_received()?
        {
            self.take_frame(id, frame)?;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.decoder = decoder;
        }
        Ok(())
    }

    pub fn close_connection(&mut self, id: u32) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        self.epoll.remove(connection.fd.as_raw_fd());
        for open in connection.streams.into_values() {
            match open.stream {
                Stream::Work(mailbox) => mailbox.cancel(),
                Stream::Dial(dial) => self.drop_dial(dial),
                Stream::Network => self.lose_network_home(id),
                Stream::Exec { .. } | Stream::Collecting { .. } => {}
            }
        }
        // Commands go on; their unacknowledged output waits for the next reader.
        let mut left = Vec::new();
        for (serial, exec) in self.execs.iter_mut() {
            let before = exec.readers.len();
            exec.readers.retain(|r| r.address.connection != id);
            if exec.readers.len() < before {
                left.push(serial);
            }
            if exec
                .stdin
                .source
                .is_some_and(|source| source.connection == id)
            {
                exec.stdin.source = None;
            }
        }
        // The reader that left may have been what the command waited for.
        for serial in left {
            self.after_acknowledgement(serial);
            self.pump(serial);
        }
    }

    pub fn send(&mut self, address: Address, frame: Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(&address.connection) {
            connection.queue(frame);
        }
    }

    pub fn send_json(&mut self, address: Address, kind: Kind, value: &impl Serialize) {
        self.send(address, frame::encode_json(kind, address.stream, value));
    }

    /// Ends a stream with its last frame.
    pub fn answer(&mut self, address: Address, kind: Kind, value: &impl Serialize) {
        self.send_json(address, kind, value);
        self.end_stream(address);
    }

    pub fn end_stream(&mut self, address: Address) {
        if let Some(connection) = self.connections.get_mut(&address.connection) {
            connection.streams.remove(&address.stream);
        }
    }

    /// Passes on what the threads have to say.
    fn forward_parcels(&mut self) {
        for parcel in self.outbox.take() {
            let Some(connection) = self.connections.get_mut(&parcel.address.connection) else {
                continue;
            };
            if parcel.droppable && connection.out_bytes > OUT_BUSY {
                continue;
            }
            connection.queue(parcel.frame);
            if let Some(open) = connection.streams.get_mut(&parcel.address.stream) {
                open.allowance += parcel.grant;
            }
            if parcel.last {
                connection.streams.remove(&parcel.address.stream);
            }
        }
    }

    /// Sends what the sockets take.
    pub fn flush(&mut self) {
        let ids: Vec<u32> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let was_busy = connection.out_bytes >= OUT_BUSY;
            if connection.flush().is_err() {
                self.close_connection(id);
                continue;
            }
            if was_busy && connection.out_bytes < OUT_BUSY {
                // What waited for room goes out now; nothing else would wake it.
                self.pump_connection(id);
                self.pump_network(id);
            }
            self.update_interest(id);
        }
    }

    /// Has epoll tell when a connection takes more, if there is more.
    fn update_interest(&mut self, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let interest = connection.wanted_interest();
        if interest != connection.interest {
            connection.interest = interest;
            let token = Token::Connection(id).pack();
            let fd = connection.fd.as_raw_fd();
            if self.epoll.modify(fd, interest, token).is_err() {
                self.close_connection(id);
            }
        }
    }

    /// Fails when code has as many processes as it may.
    pub fn check_room(&self) -> io::Result<()> {
        match &self.options.guest {
            Some(guest) => guest.check_room(),
            None => Ok(()),
        }
    }

    /// As `oom_kills`, for a command that is about to begin.
    pub fn oom_kills_before(&self) -> u64 {
        if let Some(guest) = &self.options.guest {
            guest.watch_closely();
        }
        self.oom_kills()
    }

    /// How often the kernel has killed a process of this sandbox for want of memory.
    pub fn oom_kills(&self) -> u64 {
        if let Some(guest) = &self.options.guest {
            return guest.kills();
        }
        let text = match &self.options.memory_events {
            Some(events) => {
                let mut text = [0u8; 1024];
                let n = sys::pread(events.as_raw_fd(), &mut text, 0).unwrap_or(0);
                String::from_utf8_lossy(&text[..n]).into_owned()
            }
            // Those of the whole machine: only for a command that was killed does it matter, and
            // rarely do two sandboxes want for memory at the same moment.
            None => std::fs::read_to_string("/proc/vmstat").unwrap_or_default(),
        };
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }
}
