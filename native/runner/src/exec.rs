//! What the runner knows of each command, and the table of them.

use crate::message::{ExecEnd, ExecListing, ExecRequest, Mode, Until};
use crate::proc_tree;
use crate::shell::ShellId;
use crate::spool::Spool;
use crate::tracker::Group;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Finished commands beyond the newest so many are forgotten.
const KEPT_FINISHED: usize = 256;
/// Unread output of finished commands beyond this is forgotten, oldest command first.
const KEPT_BYTES: u64 = 32 << 20;

/// Which command; numbers are never used twice.
pub type Serial = u32;
/// Where frames go: connection and stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    pub connection: u32,
    pub stream: u32,
}

/// Somebody who reads a command's output.
pub struct Reader {
    pub address: Address,
    /// The offset of the next byte to send.
    pub next: u64,
    /// Bytes that may still be sent.
    pub credit: u64,
    /// Pieces that were sent and not yet acknowledged: end offset and length.
    pub unacknowledged: VecDeque<(u64, u64)>,
    pub acknowledged: u64,
    pub until: Until,
    /// The answer was sent; only acknowledgements are awaited.
    pub answered: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    Queued,
    Running,
    Done,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Done => "done",
        }
    }
}

/// A command that is being made to end.
#[derive(Clone, Copy)]
pub struct Ending {
    pub reason: &'static str,
    /// The signal that somebody asked for, when that is the reason.
    pub signal: i32,
    pub step: EndingStep,
    /// When it came to this step.
    pub since: Instant,
    /// When the next, harder step is due.
    pub next_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EndingStep {
    /// Somebody's signal is on its way; nothing harder follows.
    Signalled,
    Interrupted,
    /// It is killed as soon as its shell can be told to give it up.
    Due,
    Killed,
    ShellKilled,
}

#[derive(Default)]
pub struct Stdin {
    pub fd: Option<OwnedFd>,
    pub queue: VecDeque<Vec<u8>>,
    /// Bytes in the queue.
    pub waiting: usize,
    /// Bytes in the queue that an earlier source sent; nobody gets credit for them.
    pub stale: usize,
    /// The command holds its end; what is put into the pipe before that could be lost.
    pub taken: bool,
    /// The last byte that came does not end a line.
    pub mid_line: bool,
    /// Close when the queue is empty.
    pub closing: bool,
    pub source: Option<Address>,
    pub watched: bool,
}

pub struct Exec {
    pub request: ExecRequest,
    pub command: Vec<u8>,
    /// The shell that runs it, unless it is a process of its own.
    pub shell: Option<ShellId>,
    pub state: State,
    pub pid: i32,
    pub created: Instant,
    pub started: Instant,
    /// The same on the clock that stands still while the sandbox is paused.
    pub started_at: Instant,
    pub started_ticks: u64,
    pub last_output: Instant,
    /// stdout and stderr, or the terminal.
    pub output: [Option<OwnedFd>; 2],
    /// The report of a process that is not yet its program.
    pub launching: Option<OwnedFd>,
    pub output_paused: bool,
    pub stdin: Stdin,
    pub spool: Spool,
    pub readers: Vec<Reader>,
    pub group: Option<Group>,
    pub ending: Option<Ending>,
    /// Nobody can ask for it any more; it is only kept so that what it left running can write.
    pub forgotten: bool,
    /// Its readers were told that it has begun.
    pub announced: bool,
    pub oom_kills_before: u64,
    pub shell_restarted: bool,
    /// Its stdin and output are a terminal.
    pub on_terminal: bool,
    /// A shell could not take it, so that another got it; this happens once.
    pub retried: bool,
    /// What it says from now on is not recorded: it was killed.
    pub muted: bool,
    /// The shell was told to give it up.
    pub stop_sent: bool,
    /// How often its shell, which was to be told, was found running.
    pub busy_looks: u8,
    /// bash has given it up.
    pub cut_short: bool,
    /// Processes that got the signal which is to end it.
    pub signalled: Vec<i32>,
    pub end: Option<ExecEnd>,
}

impl Exec {
    pub fn new(request: ExecRequest, command: Vec<u8>) -> Exec {
        let now = Instant::now();
        Exec {
            request,
            command,
            shell: None,
            state: State::Queued,
            pid: 0,
            created: now,
            started: now,
            started_at: now,
            started_ticks: 0,
            last_output: now,
            output: [None, None],
            launching: None,
            output_paused: false,
            stdin: Stdin::default(),
            spool: Spool::default(),
            readers: Vec::new(),
            group: None,
            ending: None,
            forgotten: false,
            announced: false,
            oom_kills_before: 0,
            shell_restarted: false,
            on_terminal: false,
            retried: false,
            muted: false,
            stop_sent: false,
            busy_looks: 0,
            cut_short: false,
            signalled: Vec::new(),
            end: None,
        }
    }

    /// Takes note of the moment at which the command begins.
    pub fn begin(&mut self, now: Instant, oom_kills: u64, group: Group) {
        self.state = State::Running;
        self.started = Instant::now();
        self.started_at = now;
        self.last_output = now;
        self.started_ticks = proc_tree::ticks_now();
        self.oom_kills_before = oom_kills;
        self.group = Some(group);
    }

    pub fn in_shell(&self) -> bool {
        self.request.mode == Mode::Shell
    }

    pub fn listing(&self) -> ExecListing {
        ExecListing {
            exec_id: self.request.exec_id.clone(),
            mode: self.request.mode,
            state: self.state.name(),
            pid: (self.pid > 0).then_some(self.pid),
            age_ms: self.created.elapsed().as_millis() as u64,
            stdout_bytes: self.spool.stdout_bytes,
            stderr_bytes: self.spool.stderr_bytes,
            // A directory can be long, and there may be many; the answer to attach has it.
            result: self.end.clone().map(|end| ExecEnd { cwd: None, ..end }),
        }
    }

    /// Forgets output that every present reader has acknowledged.
    pub fn discard_acknowledged(&mut self) {
        if let Some(least) = self.readers.iter().map(|r| r.acknowledged).min() {
            self.spool.discard_to(least);
        }
    }
}

#[derive(Default)]
pub struct ExecTable {
    execs: BTreeMap<Serial, Exec>,
    by_id: HashMap<String, Serial>,
    next: Serial,
}

impl ExecTable {
    pub fn insert(&mut self, exec: Exec) -> Serial {
        let serial = self.next;
        self.next += 1;
        self.by_id.insert(exec.request.exec_id.clone(), serial);
        self.execs.insert(serial, exec);
        serial
    }

    pub fn find(&self, exec_id: &str) -> Option<Serial> {
        self.by_id.get(exec_id).copied()
    }

    pub fn get(&self, serial: Serial) -> Option<&Exec> {
        self.execs.get(&serial)
    }

    pub fn get_mut(&mut self, serial: Serial) -> Option<&mut Exec> {
        self.execs.get_mut(&serial)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Serial, &Exec)> {
        self.execs.iter().map(|(serial, exec)| (*serial, exec))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Serial, &mut Exec)> {
        self.execs.iter_mut().map(|(serial, exec)| (*serial, exec))
    }

    pub fn remove(&mut self, serial: Serial) -> Option<Exec> {
        self.unname(serial);
        self.execs.remove(&serial)
    }

    /// Makes the id free again; the command itself stays.
    pub fn unname(&mut self, serial: Serial) {
        if let Some(exec) = self.execs.get(&serial)
            && self.by_id.get(&exec.request.exec_id) == Some(&serial)
        {
            self.by_id.remove(&exec.request.exec_id);
        }
    }

    /// Finished commands that are too many or hold too much, oldest first.
    pub fn surplus(&self) -> Vec<Serial> {
        let finished: Vec<(Serial, u64)> = self
            .iter()
            .filter(|(_, exec)| exec.state == State::Done && !exec.forgotten)
            .map(|(serial, exec)| (serial, exec.spool.kept()))
            .collect();
        let mut bytes: u64 = finished.iter().map(|(_, kept)| kept).sum();
        let mut count = finished.len();
        let mut surplus = Vec::new();
        for (serial, kept) in finished {
            if count <= KEPT_FINISHED && bytes <= KEPT_BYTES {
                break;
            }
            surplus.push(serial);
            count -= 1;
            bytes -= kept;
        }
        surplus
    }
}
