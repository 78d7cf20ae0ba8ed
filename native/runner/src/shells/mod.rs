//! The shells of the sandbox, by name. Each has a queue of commands, a directory and other state.

mod bash;
mod command;
mod ended;
mod lines;
mod memory;
mod openings;
mod pipes;
mod process;
mod reports;
mod run_dir;
mod sh;
mod shell;
mod socket;
mod terminal;
mod traps;

pub use lines::{ABORT_SIGNAL, STOP_SIGNAL};
pub use run_dir::RunDir;
pub use shell::ShellId;

use crate::execs::{Execs, Serial};
use crate::processes::{Group, SharedDirectory, Tracker, proc_tree};
use crate::protocol::failure::Failure;
use crate::protocol::message::{ExecRequest, ShellListing};
use crate::sandbox::Sandbox;
use crate::server::context::Context;
use crate::server::poll::Poll;
use crate::server::token::Token;
use crate::sys;
use lines::Dialect;
use openings::Openings;
use pipes::SparePipes;
use process::{ShellProcess, ShellProgram, find_program};
use shell::Shell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
pub use traps::sets_trap;
use traps::{BASH_SIGNALS, lists_traps, removes_trap};

const DEFAULT_SHELL: &str = "default";
/// Each shell keeps a process and a thread; a client that needs more must close some.
const MAX_SHELLS: usize = 16;
/// How often shells are checked for a slow start or a missing report.
const CHECK_INTERVAL: Duration = Duration::from_millis(400);

pub struct Shells {
    sandbox: Rc<Sandbox>,
    tracker: Rc<Tracker>,
    run_dir: RunDir,
    openings: Openings,
    /// Pipes for the next command of any shell.
    spare_pipes: Option<SparePipes>,
    /// None in an image that has no shell.
    program: Option<ShellProgram>,
    by_id: BTreeMap<ShellId, Shell>,
    /// Directory threads of ended shells; each is freed once it has ended as well.
    leaving: Vec<SharedDirectory>,
    next: ShellId,
    checked_at: Option<Instant>,
}

/// The commands of a shell that is being closed.
pub struct Closing {
    pub shell: ShellId,
    pub waiting: Vec<Serial>,
    pub current: Option<Serial>,
}

impl Shells {
    pub fn new(
        sandbox: Rc<Sandbox>,
        tracker: Rc<Tracker>,
        run_dir: RunDir,
        poll: &Poll,
    ) -> io::Result<Shells> {
        let openings = Openings::new()?;
        poll.add(openings.fd(), libc::EPOLLIN, Token::Openings)?;
        Ok(Shells {
            sandbox,
            tracker,
            run_dir,
            openings,
            spare_pipes: None,
            program: find_program(),
            by_id: BTreeMap::new(),
            leaving: Vec::new(),
            next: 0,
            checked_at: None,
        })
    }

    /// `bash`, `sh` or `none`.
    pub fn kind(&self) -> &'static str {
        self.program.as_ref().map_or("none", |program| program.kind)
    }

    pub fn are_bash(&self) -> bool {
        self.kind() == "bash"
    }

    pub fn with_pid(&self, pid: i32) -> Option<ShellId> {
        self.by_id
            .iter()
            .find(|(_, shell)| shell.pid() == Some(pid))
            .map(|(id, _)| *id)
    }

    pub fn pids(&self) -> Vec<i32> {
        self.by_id.values().filter_map(Shell::pid).collect()
    }

    /// The group in which a shell runs now.
    pub fn group(&self, id: ShellId) -> Option<Group> {
        self.by_id.get(&id).and_then(Shell::group)
    }

    pub fn is_stuck(&self, id: ShellId) -> bool {
        let process = self.by_id.get(&id).and_then(|shell| shell.process.as_ref());
        process.is_some_and(|process| process.is_stuck(self.sandbox.uid, self.sandbox.gid))
    }

    /// Whether a shell sets its trap for the stop signal before it runs this text.
    pub fn sets_stop_trap(&self, id: ShellId, text: &[u8]) -> bool {
        let process = self.by_id.get(&id).and_then(|shell| shell.process.as_ref());
        process.is_some_and(ShellProcess::is_shell) && !lists_traps(text)
    }

    /// Whether a shell handles this signal with a trap of the code instead of dying of it. A shell
    /// that has replaced itself by another program gets any signal.
    pub fn takes_signal(&self, id: ShellId, text: &[u8], signal: i32) -> bool {
        let Some(shell) = self.by_id.get(&id) else {
            return false;
        };
        let Some(process) = &shell.process else {
            return false;
        };
        let of_bash = BASH_SIGNALS.iter().find(|(number, _)| *number == signal);
        match (proc_tree::catches(process.pid, signal), of_bash) {
            _ if !process.is_shell() => true,
            (Some(false), _) => false,
            _ if [STOP_SIGNAL, ABORT_SIGNAL].contains(&signal) => false,
            (Some(true), _) if process.dialect == Dialect::Sh => true,
            (_, Some((_, name))) => {
                let has = shell.memory.traps(name) && !removes_trap(text, name);
                has || sets_trap(text, name)
            }
            (caught, None) => caught == Some(true),
        }
    }

    /// Whether a shell needs checks: it runs a command, or is starting.
    pub fn are_busy(&self) -> bool {
        self.by_id.values().any(Shell::is_busy)
    }

    /// The requested shell, created on first use.
    pub fn get_or_create(&mut self, name: &str) -> Result<ShellId, Failure> {
        if let Some(id) = self.named(name) {
            return Ok(id);
        }
        if self.open().count() >= MAX_SHELLS {
            return Err(Failure::new(
                "too_many",
                format!("the sandbox has {MAX_SHELLS} shells already; close one of them first"),
            ));
        }
        let id = self.next;
        self.next += 1;
        let shell = Shell::new(name, &self.sandbox.workdir);
        self.by_id.insert(id, shell);
        Ok(id)
    }

    /// The open shell with this name; the name of a closing shell is free again.
    fn named(&self, name: &str) -> Option<ShellId> {
        self.open()
            .find(|(_, shell)| shell.name == name)
            .map(|(id, _)| id)
    }

    fn open(&self) -> impl Iterator<Item = (ShellId, &Shell)> {
        self.by_id
            .iter()
            .filter(|(_, shell)| !shell.closing)
            .map(|(id, shell)| (*id, shell))
    }

    /// Starts the default shell before its first command, so the command does not wait for it.
    pub fn prestart(&mut self, cx: &Context) {
        if self.program.is_none() {
            return;
        }
        let started = self
            .get_or_create(DEFAULT_SHELL)
            .and_then(|shell| self.start(shell, cx));
        if let Err(failure) = started {
            sys::log(&format!("shell: {}", failure.message));
        }
    }

    pub fn enqueue(&mut self, id: ShellId, serial: Serial, execs: &mut Execs, cx: &mut Context) {
        if let Some(shell) = self.by_id.get_mut(&id) {
            shell.queue.push_back(serial);
        }
        self.run_next(id, execs, cx);
    }

    /// Commands whose stdin was opened by their shell.
    pub fn take_openings(&mut self) -> Vec<Serial> {
        self.openings.take()
    }

    pub fn list(&self, execs: &Execs) -> Vec<ShellListing> {
        self.open()
            .map(|(_, shell)| {
                let exec = shell.current_serial().and_then(|serial| execs.get(serial));
                ShellListing {
                    name: shell.name.clone(),
                    kind: self.kind(),
                    cwd: shell.memory.shown_cwd(),
                    busy: exec.is_some(),
                    exec_id: exec.map(|exec| exec.request().exec_id.clone()),
                }
            })
            .collect()
    }

    /// Makes a shell accept no more commands; the caller ends the existing ones.
    pub fn close(&mut self, name: &str) -> Result<Closing, Failure> {
        let id = self.named(name);
        let Some((id, shell)) = id.and_then(|id| Some((id, self.by_id.get_mut(&id)?))) else {
            return Err(Failure::new(
                "not_found",
                format!("no shell is named {name}"),
            ));
        };
        shell.closing = true;
        Ok(Closing {
            shell: id,
            waiting: shell.queue.drain(..).collect(),
            current: shell.current_serial(),
        })
    }

    /// Ends a closing shell whose last command is over.
    pub fn drop_if_closed(&mut self, id: ShellId) {
        let Some(shell) = self.by_id.get(&id) else {
            return;
        };
        if !shell.closing || shell.current.is_some() {
            return;
        }
        match shell.pid() {
            // Its state is removed when the process has been reaped.
            Some(pid) => drop(sys::kill(pid, libc::SIGKILL)),
            None => drop(self.by_id.remove(&id)),
        }
    }

    /// Handles shells that take too long to start or can no longer report.
    pub fn check(&mut self, execs: &mut Execs, cx: &mut Context) {
        let now = cx.clock.now();
        let due = |at: Instant| now.saturating_duration_since(at) >= CHECK_INTERVAL;
        if !self.are_busy() || !self.checked_at.is_none_or(due) {
            return;
        }
        self.checked_at = Some(now);
        let ids: Vec<ShellId> = self.by_id.keys().copied().collect();
        for id in ids {
            let Some(process) = self.by_id.get(&id).and_then(|shell| shell.process.as_ref()) else {
                continue;
            };
            if process.ready {
                self.check_report(id, execs, cx);
            } else if process.starts_too_long(now) {
                self.give_up_start(id);
            }
        }
    }
}

pub fn shell_name(request: &ExecRequest) -> &str {
    request.shell.as_deref().unwrap_or(DEFAULT_SHELL)
}

pub fn is_shell_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.as_bytes()[0].is_ascii_alphanumeric()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::is_shell_name;

    #[test]
    fn names_are_short_and_plain() {
        for name in ["default", "build", "a", "0", "a.b_c-d", &"x".repeat(64)] {
            assert!(is_shell_name(name), "{name}");
        }
        for name in ["", "-a", ".a", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(!is_shell_name(name), "{name}");
        }
    }
}
