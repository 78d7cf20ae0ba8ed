//! The state of one command.

use crate::connections::Address;
use crate::execs::readers::Reader;
use crate::execs::spool::Spool;
use crate::execs::stdin::Stdin;
use crate::execs::stop::Stop;
use crate::processes::{Group, proc_tree, terminal};
use crate::protocol::failure::Failure;
use crate::protocol::frame::Kind;
use crate::protocol::message::{ExecEnd, ExecListing, ExecRequest, Mode, Until};
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::shells::ShellId;
use crate::sys;
use serde_json::{Value, json};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Identifies a command; numbers are never reused.
pub type Serial = u32;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    Queued,
    Running,
    Done,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Done => "done",
        }
    }
}

/// The runner's ends of a command's pipes.
pub struct Pipes {
    /// stdout and stderr, or the terminal.
    pub output: [Option<OwnedFd>; 2],
    pub stdin: Option<OwnedFd>,
    /// The command already holds its end of stdin.
    pub stdin_opened: bool,
    pub on_terminal: bool,
}

pub struct Exec {
    pub(super) serial: Serial,
    pub(super) request: ExecRequest,
    pub(super) command: Vec<u8>,
    /// The shell that runs it, unless it is a separate process.
    pub(super) shell: Option<ShellId>,
    pub(super) state: State,
    pub(super) pid: i32,
    pub(super) group: Option<Group>,
    pub(super) created: Instant,
    pub(super) started: Instant,
    /// The same instant on the clock that stands still while the sandbox is paused.
    pub(super) started_at: Instant,
    pub(super) started_ticks: u64,
    pub(super) last_output: Instant,
    /// Where a process reports that it has started its program, until then.
    pub(super) launching: Option<OwnedFd>,
    /// stdout and stderr, or the terminal.
    pub(super) output: [Option<OwnedFd>; 2],
    pub(super) on_terminal: bool,
    pub(super) output_watched: bool,
    pub(super) output_paused: bool,
    /// Further output is not recorded, because the command was killed.
    pub(super) muted: bool,
    pub(super) stdin: Stdin,
    pub(super) spool: Spool,
    pub(super) readers: Vec<Reader>,
    /// Its readers have been notified of its start.
    pub(super) announced: bool,
    /// It has just started and may end at any moment.
    pub(super) quiet: bool,
    pub(super) stop: Stop,
    pub(super) oom_kills_before: u64,
    pub(super) shell_restarted: bool,
    /// A shell could not run it, so another process got it; this happens only once.
    pub(super) retried: bool,
    pub(super) end: Option<ExecEnd>,
    /// It can no longer be queried, and is only kept so that processes it left running can still
    /// write.
    pub(super) forgotten: bool,
}

impl Exec {
    /// A queued command; `address` reads its output and writes its stdin.
    pub fn new(
        request: ExecRequest,
        command: Vec<u8>,
        shell: Option<ShellId>,
        address: Address,
    ) -> Exec {
        let now = Instant::now();
        Exec {
            serial: 0,
            stdin: Stdin::new(request.stdin.then_some(address)),
            request,
            command,
            shell,
            state: State::Queued,
            pid: 0,
            group: None,
            created: now,
            started: now,
            started_at: now,
            started_ticks: 0,
            last_output: now,
            launching: None,
            output: [None, None],
            on_terminal: false,
            output_watched: false,
            output_paused: false,
            muted: false,
            spool: Spool::default(),
            readers: vec![Reader::new(address, 0, Until::Done)],
            announced: false,
            quiet: false,
            stop: Stop::default(),
            oom_kills_before: 0,
            shell_restarted: false,
            retried: false,
            end: None,
            forgotten: false,
        }
    }

    pub fn serial(&self) -> Serial {
        self.serial
    }

    pub fn request(&self) -> &ExecRequest {
        &self.request
    }

    /// The command text for the shell.
    pub fn command(&self) -> &[u8] {
        &self.command
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Its first process, or the shell that runs it.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn group(&self) -> Option<Group> {
        self.group
    }

    pub fn shell(&self) -> Option<ShellId> {
        self.shell
    }

    pub fn in_shell(&self) -> bool {
        self.request.mode == Mode::Shell
    }

    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    pub fn stop_mut(&mut self) -> &mut Stop {
        &mut self.stop
    }

    /// How long it has run.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn has_written(&self) -> bool {
        self.spool.end() > 0
    }

    /// Records the moment at which the command starts.
    pub fn begin(&mut self, now: Instant, oom_kills: u64, group: Group) {
        self.state = State::Running;
        self.started = Instant::now();
        self.started_at = now;
        self.last_output = now;
        self.started_ticks = proc_tree::ticks_now();
        self.oom_kills_before = oom_kills;
        self.group = Some(group);
    }

    /// Links the command to the process that runs it.
    pub fn connect(&mut self, pid: i32, pipes: Pipes) {
        self.pid = pid;
        self.output = pipes.output;
        self.on_terminal = pipes.on_terminal;
        self.stdin.connect(pipes.stdin, pipes.stdin_opened);
    }

    /// Records that the shell's process was replaced since the previous command.
    pub fn note_restart(&mut self) {
        self.shell_restarted = true;
    }

    /// Writes to the command's stderr on its behalf.
    pub fn say(&mut self, text: &str) {
        self.spool.append(2, text.as_bytes());
    }

    /// Returns the command to its state before a shell got it.
    pub fn unstart(&mut self, poll: &Poll) {
        self.unwatch_output(poll);
        self.output = [None, None];
        self.stdin.disconnect(poll);
        self.retried = true;
        self.quiet = false;
        self.state = State::Queued;
    }

    /// Whether it counts as begun: its shell has opened its pipes, it was retried, or it is being
    /// ended.
    pub fn has_begun(&self) -> bool {
        self.retried || self.stop.is_ending() || self.has_pipes_opened()
    }

    pub fn has_pipes_opened(&self) -> bool {
        self.on_terminal
            || self.has_written()
            || (self.output[0].as_ref()).is_none_or(|fd| sys::was_opened(fd.as_raw_fd()))
    }

    /// Notifies readers that the command has started.
    pub fn announce(&mut self, cx: &mut Context) {
        if !std::mem::replace(&mut self.announced, true) {
            let event = self.started_event();
            for reader in &self.readers {
                cx.connections
                    .send_json(reader.address, Kind::Event, &event);
            }
        }
    }

    /// Handles a command that did not end at once.
    pub(super) fn end_quiet(&mut self, cx: &mut Context) {
        if std::mem::take(&mut self.quiet) {
            self.announce(cx);
            self.watch_output(cx);
        }
    }

    pub(super) fn started_event(&self) -> Value {
        json!({ "event": "started", "exec_id": self.request.exec_id, "pid": self.pid })
    }

    pub fn resize(&self, rows: u16, cols: u16) -> Result<(), Failure> {
        match &self.output[0] {
            Some(master) if self.on_terminal => terminal::resize(master.as_raw_fd(), rows, cols)
                .map_err(|error| Failure::io("resize", &self.request.exec_id, &error)),
            _ => Err(Failure::invalid("the command has no terminal")),
        }
    }

    /// When it times out.
    fn timeout_at(&self) -> Option<Instant> {
        match self.request.timeout_ms {
            0 => None,
            ms => self.started_at.checked_add(Duration::from_millis(ms)),
        }
    }

    /// When its idle time limit expires.
    fn idle_at(&self) -> Option<Instant> {
        match self.request.idle_timeout_ms {
            // A command that waits for its reader is not idle.
            0 => None,
            _ if self.output_paused => None,
            ms => self.last_output.checked_add(Duration::from_millis(ms)),
        }
    }

    /// When its next action is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let step_at = self.stop.ending.map(|ending| ending.next_at);
        let limits = match self.stop.is_certain() {
            true => [None, None],
            false => [self.timeout_at(), self.idle_at()],
        };
        limits.into_iter().flatten().chain(step_at).min()
    }

    /// The time limit that it has exceeded, unless it is being ended already.
    pub fn exceeded(&self, now: Instant) -> Option<&'static str> {
        let exceeds = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match self.stop.is_certain() {
            false if exceeds(self.timeout_at()) => Some("timeout"),
            false if exceeds(self.idle_at()) => Some("idle_timeout"),
            _ => None,
        }
    }

    pub(super) fn listing(&self) -> ExecListing {
        ExecListing {
            exec_id: self.request.exec_id.clone(),
            mode: self.request.mode,
            state: self.state.name(),
            pid: (self.pid > 0).then_some(self.pid),
            age_ms: self.created.elapsed().as_millis() as u64,
            stdout_bytes: self.spool.stdout_bytes,
            stderr_bytes: self.spool.stderr_bytes,
            // Paths can be long and there may be many commands; the answer to attach includes the
            // directory.
            result: self.end.clone().map(|end| ExecEnd { cwd: None, ..end }),
        }
    }
}
