//! The shells of the sandbox, by name: each has a queue, a directory and state of its own.

use crate::protocol::failure::Failure;
use crate::execs::exec::{Serial, State};
use crate::protocol::message::{ExecRequest, ShellListing};
use crate::server::event_loop::Server;
use crate::shells::shell::{ShellId, ShellState, find_shell};
use crate::sys;
use std::collections::BTreeMap;
use std::time::Instant;

pub const DEFAULT_SHELL: &str = "default";
/// Each costs a process that stays; a client that needs more closes some.
const MAX_SHELLS: usize = 16;

pub struct Shells {
    pub program: Option<(&'static str, String)>,
    by_id: BTreeMap<ShellId, ShellState>,
    next: ShellId,
    /// When it was last looked whether they are well.
    pub checked_at: Option<Instant>,
}

impl Default for Shells {
    fn default() -> Shells {
        Shells {
            program: find_shell(),
            by_id: BTreeMap::new(),
            next: 0,
            checked_at: None,
        }
    }
}

impl Shells {
    pub fn kind(&self) -> &'static str {
        self.program.as_ref().map_or("none", |(kind, _)| *kind)
    }

    pub fn get(&self, id: ShellId) -> Option<&ShellState> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: ShellId) -> Option<&mut ShellState> {
        self.by_id.get_mut(&id)
    }

    pub fn remove(&mut self, id: ShellId) {
        self.by_id.remove(&id);
    }

    pub fn of_pid(&self, pid: i32) -> Option<ShellId> {
        self.by_id
            .iter()
            .find(|(_, shell)| shell.pid() == Some(pid))
            .map(|(id, _)| *id)
    }

    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.by_id.values().filter_map(ShellState::pid)
    }

    /// Whether there is something to look after: a command that runs, or a start that may fail.
    pub fn are_busy(&self) -> bool {
        self.by_id.values().any(|state| {
            state.current.is_some() || state.shell.as_ref().is_some_and(|shell| !shell.ready)
        })
    }

    pub fn ids(&self) -> Vec<ShellId> {
        self.by_id.keys().copied().collect()
    }

    /// One that is being closed has given up its name.
    fn named(&self, name: &str) -> Option<ShellId> {
        self.open()
            .find(|(_, shell)| shell.name == name)
            .map(|(id, _)| id)
    }

    fn open(&self) -> impl Iterator<Item = (ShellId, &ShellState)> {
        self.by_id
            .iter()
            .filter(|(_, shell)| !shell.closing)
            .map(|(id, shell)| (*id, shell))
    }

    fn create(&mut self, name: &str, workdir: &str) -> ShellId {
        let id = self.next;
        self.next += 1;
        self.by_id.insert(id, ShellState::new(name, workdir));
        id
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

impl Server {
    /// The shell that a command asks for, made when it is the first to do so.
    pub fn shell_for(&mut self, request: &ExecRequest) -> Result<ShellId, Failure> {
        self.shell_named(shell_name(request))
    }

    fn shell_named(&mut self, name: &str) -> Result<ShellId, Failure> {
        if let Some(id) = self.shells.named(name) {
            return Ok(id);
        }
        if self.shells.open().count() >= MAX_SHELLS {
            return Err(Failure::new(
                "too_many",
                format!("the sandbox has {MAX_SHELLS} shells already; close one of them first"),
            ));
        }
        Ok(self.shells.create(name, &self.options.workdir))
    }

    /// Starts the default shell ahead of its first command, which then need not wait for it.
    pub fn prestart_shell(&mut self) {
        if self.shells.program.is_none() {
            return;
        }
        let started = self
            .shell_named(DEFAULT_SHELL)
            .and_then(|shell| self.start_shell(shell));
        if let Err(failure) = started {
            sys::log(&format!("shell: {}", failure.message));
        }
    }

    pub fn enqueue_in_shell(&mut self, shell: ShellId, serial: Serial) {
        if let Some(state) = self.shells.get_mut(shell) {
            state.queue.push_back(serial);
        }
        self.run_next_in_shell(shell);
    }

    pub fn list_shells(&self) -> Vec<ShellListing> {
        self.shells
            .open()
            .map(|(_, shell)| {
                let current = shell.current.as_ref().map(|current| current.serial);
                let exec = current.and_then(|serial| self.execs.get(serial));
                ShellListing {
                    name: shell.name.clone(),
                    kind: self.shells.kind(),
                    cwd: shell.memory.cwd.clone(),
                    busy: exec.is_some(),
                    exec_id: exec.map(|exec| exec.request.exec_id.clone()),
                }
            })
            .collect()
    }

    /// Ends what runs and waits in a shell, and the shell itself; earlier jobs live on.
    pub fn close_shell(&mut self, name: &str) -> Result<(), Failure> {
        let Some((id, shell)) = self
            .shells
            .named(name)
            .and_then(|id| Some((id, self.shells.get_mut(id)?)))
        else {
            return Err(Failure::new(
                "not_found",
                format!("no shell is named {name}"),
            ));
        };
        shell.closing = true;
        let waiting: Vec<Serial> = shell.queue.drain(..).collect();
        let current = shell.current.as_ref().map(|current| current.serial);
        for serial in waiting {
            let queued = |exec: &crate::execs::exec::Exec| exec.state == State::Queued;
            if self.execs.get(serial).is_some_and(queued) {
                self.cancel_queued(serial);
            }
        }
        match current {
            Some(serial) => {
                if self
                    .execs
                    .get(serial)
                    .is_some_and(|exec| exec.ending.is_none())
                {
                    self.begin_ending(serial, "cancelled");
                }
            }
            None => self.drop_closing_shell(id),
        }
        Ok(())
    }

    /// Lets a shell go that is being closed and has nothing left to do.
    pub fn drop_closing_shell(&mut self, id: ShellId) {
        let Some(shell) = self.shells.get(id) else {
            return;
        };
        if !shell.closing || shell.current.is_some() {
            return;
        }
        match shell.pid() {
            // Its state goes when its end is noticed.
            Some(pid) => drop(sys::kill(pid, libc::SIGKILL)),
            None => self.shells.remove(id),
        }
    }
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
